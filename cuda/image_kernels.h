/* Argument structs of the kernels for SSIM and image losses; see kernels.h. */
#ifndef GSC_IMAGE_KERNELS_H
#define GSC_IMAGE_KERNELS_H

#include "../src/math/real.h"

/* A block works on a tile of one plane: first a thread per column of pixels, margins included, then
 * a thread per GSC__SSIM_COLUMNS columns of one of GSC__SSIM_ROWS rows. */
#define GSC__SSIM_BLOCK 256
#define GSC__SSIM_GRAD_BLOCK 128 /* with a gradient, or with another window than the usual */
#define GSC__SSIM_ROWS 8
#define GSC__SSIM_COLUMNS 8
#define GSC__SSIM_RESIDENT 2      /* blocks of a multiprocessor at once: registers for these */
#define GSC__SSIM_GRAD_RESIDENT 3 /* the same with a gradient */
#define GSC__SSIM_RADIUS 5        /* of the window with kernels of its own */
#define GSC__SSIM_RADIUS_MAX 16

/* Indices of sums: of |x - y|, of (x - y)^2, of SSIM. */
#define GSC__IMAGE_SUMS 3

typedef struct gsc__gpu_pixels {
    void *data;         /* [B, C, H, W] float, or uint8_t if bytes; NULL: none */
    int64_t strides[4]; /* in elements */
    int32_t bytes;
    int32_t vectors; /* four neighbours in a row, the first divisible by 4, are aligned */
} gsc__gpu_pixels;

/* The sums of the weights of pixels and of windows. */
typedef struct gsc__gpu_image_totals {
    double pixels, windows;
} gsc__gpu_image_totals;

/* What a pixel and a window of weight 1 contribute to a mean: 1 / total, or 0 if that is 0. */
typedef struct gsc__gpu_image_shares {
    double pixel, window;
} gsc__gpu_image_shares;

typedef struct gsc_k_ssim {
    int32_t channels, height, width;
    int32_t tile_height, tile_width, tile_rows, tile_columns;
    int32_t radius; /* of the window */
    int32_t border; /* rows and columns of the image that have no window */
    int32_t pointwise, differentiate;
    float weights[2 * GSC__SSIM_RADIUS_MAX + 1];
    float c1, c2;
    gsc__gpu_pixels image, target;
    gsc__gpu_pixels weight; /* of pixels and windows */
    int32_t weight_origin;  /* row and column of the image that weight begins at */
    /* The derivative with respect to a sum is its coefficient times the share times grad_mean. */
    double coefficients[GSC__IMAGE_SUMS];
    gsc__gpu_image_shares shares;
    const gsc__gpu_image_shares *device_shares; /* NULL: shares */
    const float *grad_mean;                     /* scalar or NULL: 1 */
    float *map;                                 /* dense, of the windows; NULL: not wanted */
    gsc__gpu_pixels grad_image;                 /* data NULL: not wanted */
    double *sums;                               /* [blocks, GSC__IMAGE_SUMS] or NULL */
} gsc_k_ssim;

/* Terms without a window; a block takes GSC__POINTS_CHUNK pixels of a plane. */
#define GSC__POINTS_BLOCK 256
#define GSC__POINTS_CHUNK 2048
typedef struct gsc_k_image_points {
    int32_t channels, height, width, chunks; /* chunks of a plane */
    int32_t quads; /* four pixels from a multiple of four on are one load */
    gsc__gpu_pixels image, target, weight;
    double coefficients[GSC__IMAGE_SUMS];
    gsc__gpu_image_shares shares;
    const gsc__gpu_image_shares *device_shares;
    gsc__gpu_pixels grad_image;
    double *sums; /* [blocks, GSC__IMAGE_SUMS] */
} gsc_k_image_points;

/* A block sums GSC__MASK_ROWS rows of a plane of the mask. */
#define GSC__MASK_BLOCK 256
#define GSC__MASK_ROWS 4
typedef struct gsc_k_mask_sums {
    gsc__gpu_pixels mask;
    int32_t height, width, chunks, border;
    gsc__gpu_image_totals *sums; /* [B, chunks] */
} gsc_k_mask_sums;

/* One block. */
#define GSC__MASK_TOTAL_BLOCK 1024
typedef struct gsc_k_mask_total {
    const gsc__gpu_image_totals *sums; /* [count] */
    int64_t count;
    int32_t channels;
    gsc__gpu_image_shares *shares;
} gsc_k_mask_total;

/* Eight warps, so that a lane of one can add up one sum of one warp. */
#define GSC__IMAGE_TOTAL_BLOCK 256

/* One block adds the blocks' sums, in order; outputs are NULL if not wanted. */
typedef struct gsc_k_image_total {
    const double *sums; /* [blocks, GSC__IMAGE_SUMS] */
    int64_t blocks;
    gsc__gpu_image_shares shares;
    const gsc__gpu_image_shares *device_shares;
    double l1_weight, l2_weight, ssim_weight;
    float *mean;  /* scalar, of SSIM */
    float *loss;  /* scalar */
    float *parts; /* [3] */
} gsc_k_image_total;

#endif

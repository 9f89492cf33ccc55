/* Argument structs of the neighbour search's kernels, see kernels.h. */
#ifndef GSC_KNN_KERNELS_H
#define GSC_KNN_KERNELS_H

#include "kernels.h"

#define GSC__KNN_LEAF 32 /* points of a leaf, boxes under a box: one per lane */
#define GSC__KNN_KEY_BITS 63
#define GSC__KNN_LEVELS 7 /* of boxes: 32^7 points */
#define GSC__KNN_NONE 0xffffffffu
#define GSC__KNN_INFINITY __int_as_float(0x7f800000) /* on the device, which has no math.h */
#define GSC__KNN_NAN __int_as_float(0x7fc00000)
#define GSC__KNN_BLOCK 128 /* of kernels with a thread per point or a warp per leaf */

/* 32 bytes, read as two float4. */
typedef struct gsc__gpu_box {
    float low[3];
    uint32_t min_index; /* of the points inside */
    float high[3];
    uint32_t unused;
} gsc__gpu_box;

#define GSC__KNN_CLUSTER 4            /* leaves of a cluster, at least */
#define GSC__KNN_CLUSTERED_COUNT 4096 /* points from which clusters matter */
#define GSC__KNN_CLUSTERS_BLOCK 512

typedef struct gsc__gpu_bounds {
    float low[3], high[3];
    uint32_t finite; /* points with finite coordinates */
} gsc__gpu_bounds;

/* Cells of the curve: (0.5 x - low) scale; halved, because an extent may overflow. */
typedef struct gsc__gpu_cells {
    float low[3], scale; /* scale 0: the extent is too small to divide */
    uint32_t finite, count;
} gsc__gpu_cells;

#define GSC__KNN_BOUNDS_BLOCKS 512
typedef struct gsc_k_knn_bounds {
    const float *points; /* [count, 3] */
    uint32_t count, blocks;
    gsc__gpu_bounds *parts; /* [blocks] */
    gsc__gpu_cells *cells;
} gsc_k_knn_bounds;

/* A thread per point finds its place on the curve: all ones if, and only if, it is not finite. */
typedef struct gsc_k_knn_keys {
    const float *points; /* [count, 3] */
    const gsc__gpu_cells *cells;
    uint32_t count;
    uint64_t *keys;         /* [count] */
    uint32_t *cleared;      /* [cleared_words], set to 0 */
    uint32_t cleared_words; /* at most the count */
} gsc_k_knn_keys;

/* A cluster is a run of leaves whose points share a cell of the curve without being equal.
 * Clusters wait in a list that only grows; a block takes one and may add parts of it. */
typedef struct gsc__gpu_clusters {
    uint32_t added, taken, pending, unused; /* pending: added and not finished */
} gsc__gpu_clusters;

typedef struct gsc_k_knn_clusters {
    const float *points; /* [count, 3] */
    const gsc__gpu_cells *cells;
    uint32_t count;
    uint32_t *order; /* [count] */
    uint32_t *other; /* [count], overwritten */
    gsc__gpu_clusters *clusters;
    uint64_t *list;  /* [capacity], first place | end << 32; 0: not there yet */
    uint32_t *found; /* [leaves / GSC__KNN_CLUSTER + 1] whether a listed cluster begins there */
    uint32_t capacity;
} gsc_k_knn_clusters;

/* A warp per leaf writes its points side by side, with the index's bits as w, and its box.  Places
 * without a point are NaN, leaves without one have an empty box. */
typedef struct gsc_k_knn_leaves {
    const float *points;   /* [count, 3] */
    const uint32_t *order; /* [count] */
    const gsc__gpu_cells *cells;
    uint32_t leaves, padded_leaves; /* padded: to a multiple of GSC__KNN_LEAF */
    float *sorted;                  /* [leaves, GSC__KNN_LEAF, 4] */
    gsc__gpu_box *boxes;            /* [padded_leaves] */
} gsc_k_knn_leaves;

/* A warp per box of the next level. */
typedef struct gsc_k_knn_boxes {
    const gsc__gpu_box *below; /* [padded_below] */
    uint32_t padded_below, padded_boxes;
    gsc__gpu_box *boxes; /* [padded_boxes] */
} gsc_k_knn_boxes;

typedef struct gsc_k_knn_search {
    const float *queries;        /* [count, 3], or NULL: the points, each without itself */
    const uint32_t *query_order; /* [count] */
    const gsc__gpu_cells *query_cells;
    uint32_t count, groups; /* of GSC__KNN_LEAF queries */
    const float *sorted;    /* [leaves, GSC__KNN_LEAF, 4] */
    const gsc__gpu_box *boxes;
    uint64_t level_start[GSC__KNN_LEVELS]; /* in boxes */
    int32_t levels;
    uint32_t leaves;
    int32_t k;
    uint64_t *lists; /* [warps, k, 32] for the kernel for any k */
    void *indices;   /* [count, k] or NULL */
    int32_t indices64;
    float *distances2; /* [count, k] or NULL */
    float *mean2;      /* [count] or NULL */
} gsc_k_knn_search;

#endif

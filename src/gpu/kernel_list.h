/* Every kernel, once. */
#ifndef GSC_GPU_KERNEL_LIST_H
#define GSC_GPU_KERNEL_LIST_H

#include "../../cuda/image_kernels.h"
#include "../../cuda/kernels.h"
#include "../../cuda/knn_kernels.h"
#include "../../cuda/sort_kernels.h"

/* X(file of cuda/ without .cu, kernel without gsc_, argument struct without gsc_k_, threads of a
 * block).  The kernels of a file stand together. */
#define GSC__GPU_KERNELS(X)                                                                        \
    X(write, write, write, GSC__WRITE_BLOCK)                                                       \
    X(camera, begin, begin, GSC__BEGIN_BLOCK)                                                      \
    X(camera, mark_visible, mark_visible, GSC__MARK_BLOCK)                                         \
    X(project, project, project, GSC__CHUNK)                                                       \
    X(records, records, project, GSC__RECORD_BLOCK)                                                \
    X(sort, sort, sort, GSC__SORT_BLOCK)                                                           \
    X(sort, sort16, sort, GSC__SORT_BLOCK)                                                         \
    X(sort, sort64, sort, GSC__SORT_BLOCK)                                                         \
    X(tile_lists, count_tiles, count_tiles, GSC__COUNT_BLOCK)                                      \
    X(tile_lists, sum_tiles, count_tiles, GSC__SUM_BLOCK)                                          \
    X(tile_lists, plan_bands, plan_bands, 1)                                                       \
    X(tile_lists, emit, emit, GSC__EMIT_BLOCK)                                                     \
    X(tile_order, find_tiles, find_tiles, GSC__FIND_BLOCK)                                         \
    X(tile_order, order_tiles, order_tiles, GSC__ORDER_BLOCK)                                      \
    X(blend, blend, blend, GSC__BLEND_BLOCK)                                                       \
    X(blend, blend_depths, blend, GSC__BLEND_BLOCK)                                                \
    X(blend, blend_details, blend, GSC__BLEND_BLOCK)                                               \
    X(blend, blend_many, blend, GSC__BLEND_BLOCK)                                                  \
    X(blend, blend_many_details, blend, GSC__BLEND_BLOCK)                                          \
    X(statistics, weight_scale, weight_scale, GSC__SCALE_BLOCK)                                    \
    X(statistics, finish_statistics, finish_statistics, GSC__STATISTICS_BLOCK)                     \
    X(blend_backward, blend_backward, blend_backward, GSC__BLEND_BLOCK)                            \
    X(blend_backward, blend_backward_depths, blend_backward, GSC__BLEND_BLOCK)                     \
    X(blend_backward, blend_backward_absolute, blend_backward, GSC__BLEND_BLOCK)                   \
    X(blend_backward, blend_backward_largest, blend_backward, GSC__BLEND_BLOCK)                    \
    X(blend_backward, blend_backward_fixed, blend_backward, GSC__BLEND_BLOCK)                      \
    X(blend_backward, blend_backward_all_largest, blend_backward, GSC__BLEND_BLOCK)                \
    X(blend_backward, blend_backward_all_fixed, blend_backward, GSC__BLEND_BLOCK)                  \
    X(blend_backward, blend_backward_many, blend_backward, GSC__BLEND_BLOCK)                       \
    X(blend_backward, blend_backward_many_largest, blend_backward, GSC__BLEND_BLOCK)               \
    X(blend_backward, blend_backward_many_fixed, blend_backward, GSC__BLEND_BLOCK)                 \
    X(sums, clear_sums, clear_sums, GSC__CLEAR_BLOCK)                                              \
    X(sums, finish_sums, finish_sums, GSC__FINISH_BLOCK)                                           \
    X(sums, finish_colors, finish_sums, GSC__FINISH_BLOCK)                                         \
    X(project_backward, project_backward, project_backward, GSC__PROJECT_BACKWARD_BLOCK)           \
    X(project_backward, project_backward_step, project_backward_step, GSC__PROJECT_BACKWARD_BLOCK) \
    X(camera_backward, camera_grad, camera_grad, GSC__CAMERA_GRAD_BLOCK)                           \
    X(camera_backward, background_grad, background_grad, GSC__BACKGROUND_GRAD_BLOCK)               \
    X(adam, adam, adam, GSC__ADAM_BLOCK)                                                           \
    X(adam, adam_rows, adam_rows, GSC__ADAM_BLOCK)                                                 \
    X(image, image_points, image_points, GSC__POINTS_BLOCK)                                        \
    X(image, mask_sums, mask_sums, GSC__MASK_BLOCK)                                                \
    X(image, mask_total, mask_total, GSC__MASK_TOTAL_BLOCK)                                        \
    X(image, image_total, image_total, GSC__IMAGE_TOTAL_BLOCK)                                     \
    X(ssim, ssim, ssim, GSC__SSIM_BLOCK)                                                           \
    X(ssim, ssim_grad, ssim, GSC__SSIM_GRAD_BLOCK)                                                 \
    X(ssim, ssim_any, ssim, GSC__SSIM_GRAD_BLOCK)                                                  \
    X(knn_tree, knn_bounds, knn_bounds, GSC__KNN_BLOCK)                                            \
    X(knn_tree, knn_cells, knn_bounds, GSC__KNN_BLOCK)                                             \
    X(knn_tree, knn_keys, knn_keys, GSC__KNN_BLOCK)                                                \
    X(knn_tree, knn_leaves, knn_leaves, GSC__KNN_BLOCK)                                            \
    X(knn_tree, knn_boxes, knn_boxes, GSC__KNN_BLOCK)                                              \
    X(knn_clusters, knn_find_clusters, knn_clusters, GSC__KNN_BLOCK)                               \
    X(knn_clusters, knn_order_clusters, knn_clusters, GSC__KNN_CLUSTERS_BLOCK)                     \
    X(knn, knn_3, knn_search, GSC__KNN_BLOCK)                                                      \
    X(knn, knn_8, knn_search, GSC__KNN_BLOCK)                                                      \
    X(knn, knn_any, knn_search, GSC__KNN_BLOCK)

/* GSC__KERNEL_blend_depths */
enum gsc__gpu_kernel {
#define GSC__GPU_KERNEL(file, name, args, block) GSC__KERNEL_##name,
    GSC__GPU_KERNELS(GSC__GPU_KERNEL)
#undef GSC__GPU_KERNEL
        GSC__GPU_KERNEL_COUNT
};

/* gsc__gpu_args_blend_depths: the type of a kernel's one argument. */
#define GSC__GPU_ARGS(file, name, args, block) typedef gsc_k_##args gsc__gpu_args_##name;
GSC__GPU_KERNELS(GSC__GPU_ARGS)
#undef GSC__GPU_ARGS

#endif

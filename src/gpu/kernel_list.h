/* Every kernel, once: X(file of cuda/ without .cu, name without gsc_). */
#ifndef GSC_GPU_KERNEL_LIST_H
#define GSC_GPU_KERNEL_LIST_H

#define GSC__GPU_FILES(X) \
    X(write)              \
    X(project)            \
    X(records)            \
    X(sort)               \
    X(bins)               \
    X(order)              \
    X(blend)              \
    X(blend_any)          \
    X(unblend)            \
    X(unblend_any)        \
    X(unproject)          \
    X(adam)               \
    X(image)              \
    X(ssim)               \
    X(knn_tree)           \
    X(knn_crowds)         \
    X(knn)

#define GSC__GPU_KERNELS(X)             \
    X(write, write)                     \
    X(project, begin)                   \
    X(project, project)                 \
    X(records, records)                 \
    X(project, mark_visible)            \
    X(sort, sort)                       \
    X(sort, sort16)                     \
    X(sort, sort64)                     \
    X(bins, count_bins)                 \
    X(bins, sum_bins)                   \
    X(order, find_bins)                 \
    X(bins, plan_bands)                 \
    X(bins, emit)                       \
    X(order, order_bins)                \
    X(blend, blend)                     \
    X(blend, blend_depths)              \
    X(blend_any, blend_any)             \
    X(blend_any, weight_scale)          \
    X(blend_any, finish_statistics)     \
    X(unblend, unblend)                 \
    X(unblend, unblend_depths)          \
    X(unblend, unblend_absolute)        \
    X(unblend, unblend_largest)         \
    X(unblend, unblend_fixed)           \
    X(unblend, unblend_all_largest)     \
    X(unblend, unblend_all_fixed)       \
    X(unblend_any, unblend_any)         \
    X(unblend_any, unblend_any_largest) \
    X(unblend_any, unblend_any_fixed)   \
    X(unblend_any, finish_sums)         \
    X(unblend_any, finish_colors)       \
    X(unblend_any, background_grad)     \
    X(unproject, clear_records)         \
    X(unproject, unproject)             \
    X(unproject, unproject_step)        \
    X(unproject, camera_grad)           \
    X(adam, adam)                       \
    X(adam, adam_rows)                  \
    X(image, image_points)              \
    X(image, mask_sums)                 \
    X(image, mask_total)                \
    X(image, image_total)               \
    X(ssim, ssim)                       \
    X(ssim, ssim_grad)                  \
    X(ssim, ssim_any)                   \
    X(knn_tree, knn_bounds)             \
    X(knn_tree, knn_cells)              \
    X(knn_tree, knn_keys)               \
    X(knn_tree, knn_leaves)             \
    X(knn_tree, knn_boxes)              \
    X(knn_crowds, knn_find_crowds)      \
    X(knn_crowds, knn_order_crowds)     \
    X(knn, knn_3)                       \
    X(knn, knn_8)                       \
    X(knn, knn_any)

/* GSC__FILE_project: the number of an image set. */
enum gsc__gpu_file {
#define GSC__GPU_FILE(file) GSC__FILE_##file,
    GSC__GPU_FILES(GSC__GPU_FILE)
#undef GSC__GPU_FILE
        GSC__GPU_FILE_COUNT
};

/* GSC__KERNEL_camera: what gsc__gpu_launch launches. */
enum gsc__gpu_kernel {
#define GSC__GPU_KERNEL(file, name) GSC__KERNEL_##name,
    GSC__GPU_KERNELS(GSC__GPU_KERNEL)
#undef GSC__GPU_KERNEL
        GSC__GPU_KERNEL_COUNT
};

#endif

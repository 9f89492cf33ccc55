#define _DEFAULT_SOURCE /* setenv */
/* Which kernels the options of an operation launch, and with which arguments; on the mock
 * driver. */

#include "../../cuda/image_kernels.h"
#include "../../cuda/kernels.h"
#include "../../cuda/knn_kernels.h"
#include "mock_device.h"

enum { H = 16, W = 20, TALL = 64, HUGE_BATCH = 1 << 28 };

static mock_driver_state *mock;
static gsc_context *context;
static view image, target, map, gradient, other_gradient, grad_mean, scalar, parts, mask;
static view points, queries, indices, distances;
static gsc_image_loss_args loss;
static gsc_ssim_args ssim;
static gsc_knn_args knn;

static int open_context(void **unused) {
    (void)unused;
    mock_reset(mock);
    VIEW(&image, 1, 3, H, W);
    VIEW(&target, 1, 3, H, W);
    VIEW(&map, 1, 3, H, W);
    VIEW(&gradient, 1, 3, H, W);
    VIEW(&other_gradient, 1, 3, H, W);
    VIEW(&mask, 1, H, W);
    VIEW(&parts, 3);
    VIEW(&points, 40, 3);
    VIEW(&queries, 10, 3);
    VIEW(&indices, 40, 3);
    VIEW(&distances, 10, 3);
    view_init(&scalar, 0, NULL);
    view_init(&grad_mean, 0, NULL);
    view_dtype(&indices, kDLInt, 64);
    view *const all[] = {&image,   &target,  &map,      &gradient, &other_gradient,
                         &mask,    &parts,   &points,   &scalar,   &grad_mean,
                         &queries, &indices, &distances};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) {
        view_device(all[i], kDLCUDA, 0);
        all[i]->tensor.data = view_memory + 4096 * i; /* to tell them apart */
    }
    loss = (gsc_image_loss_args){.struct_size = sizeof loss,
                                 .image = &image.tensor,
                                 .target = &target.tensor,
                                 .l1_weight = 1,
                                 .loss = &scalar.tensor};
    ssim = (gsc_ssim_args){
        .struct_size = sizeof ssim, .image = &image.tensor, .target = &target.tensor};
    knn = (gsc_knn_args){
        .struct_size = sizeof knn, .points = &points.tensor, .indices = &indices.tensor};
    context = mock_context(0, 0);
    return 0;
}

static int close_context(void **unused) {
    (void)unused;
    assert_int_equal(mock->blocks + mock->async_blocks, 0);
    gsc_context_free(context);
    return 0;
}

/* ------------------------------------------------------------------- launches */

/* The names of the kernels launched since the last call, without prefix and without those of
 * sorts. */
static void expect_launches(const char *expected) {
    char text[1024] = "";
    for (int i = 0; i < mock->launch_count; ++i) {
        const char *name = mock->launches[i].kernel + strlen("gsc_");
        if (strncmp(name, "sort", 4) == 0) continue;
        if (text[0]) strcat(text, " ");
        strcat(text, name);
    }
    assert_string_equal(text, expected);
    mock->launch_count = 0;
}

/* ------------------------------------------------------------------------ SSIM */

static void a_mean_is_made_of_the_pass_s_sums(void **unused) {
    gsc_k_ssim pass;
    gsc_k_image_total total;
    (void)unused;
    ssim.map = &map.tensor;
    expect_ok(gsc_ssim_forward(context, &ssim, NULL));
    ARGS_OF("ssim", 0, pass);
    assert_null(pass.sums);
    assert_ptr_equal(pass.map, map.tensor.data);
    expect_launches("ssim");

    ssim.mean = &scalar.tensor;
    expect_ok(gsc_ssim_forward(context, &ssim, NULL));
    ARGS_OF("ssim", 0, pass);
    ARGS_OF("image_total", 0, total);
    assert_non_null(pass.sums);
    assert_ptr_equal(total.sums, pass.sums);
    assert_ptr_equal(total.mean, scalar.tensor.data);
    assert_int_equal(total.blocks, mock->launches[0].grid[0]);
    assert_true(total.shares.window == 1.0 / (3 * H * W));
    expect_launches("ssim image_total");

    ssim.flags = GSC_SSIM_VALID;
    ssim.map = NULL;
    expect_ok(gsc_ssim_forward(context, &ssim, NULL));
    ARGS_OF("image_total", 0, total);
    assert_true(total.shares.window == 1.0 / (3 * (H - 10) * (W - 10)));
    expect_launches("ssim image_total");

    ssim.mean = NULL;
    expect_ok(gsc_ssim_forward(context, &ssim, NULL));
    expect_launches("");
}

static void other_windows_have_another_kernel(void **unused) {
    (void)unused;
    ssim.map = &map.tensor;
    ssim.window = 7;
    expect_ok(gsc_ssim_forward(context, &ssim, NULL));
    expect_launches("ssim_any");
}

static void a_gradient_by_the_target_exchanges_the_images(void **unused) {
    gsc_k_ssim first, second;
    (void)unused;
    ssim.flags = GSC_SSIM_VALID;
    ssim.grad_mean = &grad_mean.tensor;
    ssim.grad_image = &gradient.tensor;
    ssim.grad_target = &other_gradient.tensor;
    expect_ok(gsc_ssim_backward(context, &ssim, NULL));
    ARGS_OF("ssim_grad", 0, first);
    ARGS_OF("ssim_grad", 1, second);
    expect_launches("ssim_grad ssim_grad");
    assert_ptr_equal(first.image.data, image.tensor.data);
    assert_ptr_equal(first.target.data, target.tensor.data);
    assert_ptr_equal(first.grad_image.data, gradient.tensor.data);
    assert_ptr_equal(second.image.data, target.tensor.data);
    assert_ptr_equal(second.target.data, image.tensor.data);
    assert_ptr_equal(second.grad_image.data, other_gradient.tensor.data);
    assert_ptr_equal(first.grad_mean, grad_mean.tensor.data);
    assert_ptr_equal(second.grad_mean, grad_mean.tensor.data);
    assert_null(first.weight.data);
}

static void a_gradient_by_the_map_weighs_windows(void **unused) {
    gsc_k_ssim pass;
    (void)unused;
    VIEW(&map, 1, 3, H - 10, W - 10);
    view_device(&map, kDLCUDA, 0);
    ssim.flags = GSC_SSIM_VALID;
    ssim.grad_map = &map.tensor;
    ssim.grad_image = &gradient.tensor;
    expect_ok(gsc_ssim_backward(context, &ssim, NULL));
    ARGS_OF("ssim_grad", 0, pass);
    assert_ptr_equal(pass.weight.data, map.tensor.data);
    assert_int_equal(pass.weight_origin, 5); /* the first window's centre */
    assert_true(pass.shares.window == 1);
    expect_launches("ssim_grad");
}

/* -------------------------------------------------------------------- image loss */

static void a_loss_without_windows_goes_by_points(void **unused) {
    gsc_k_image_points pass;
    gsc_k_image_total total;
    (void)unused;
    expect_ok(gsc_image_loss(context, &loss, NULL));
    ARGS_OF("image_points", 0, pass);
    ARGS_OF("image_total", 0, total);
    assert_true(pass.quads);
    assert_null(pass.device_shares);
    assert_true(pass.shares.pixel == 1.0 / (3 * H * W));
    assert_ptr_equal(total.loss, scalar.tensor.data);
    assert_true(total.l1_weight == 1 && total.l2_weight == 0 && total.ssim_weight == 0);
    expect_launches("image_points image_total");

    target.tensor.data = (char *)target.tensor.data + 4; /* four pixels are not one load */
    expect_ok(gsc_image_loss(context, &loss, NULL));
    ARGS_OF("image_points", 0, pass);
    assert_false(pass.quads);
    expect_launches("image_points image_total");

    loss.parts = &parts.tensor; /* SSIM is one of them */
    expect_ok(gsc_image_loss(context, &loss, NULL));
    expect_launches("ssim image_total");
}

static void a_mask_is_summed_before_the_pass(void **unused) {
    gsc_k_mask_sums sums;
    gsc_k_mask_total all;
    gsc_k_image_points pass;
    gsc_k_image_total total;
    (void)unused;
    view_dtype(&mask, kDLBool, 8);
    loss.mask = &mask.tensor;
    expect_ok(gsc_image_loss(context, &loss, NULL));
    ARGS_OF("mask_sums", 0, sums);
    ARGS_OF("mask_total", 0, all);
    ARGS_OF("image_points", 0, pass);
    ARGS_OF("image_total", 0, total);
    expect_launches("mask_sums mask_total image_points image_total");
    assert_ptr_equal(sums.mask.data, mask.tensor.data);
    assert_true(sums.mask.bytes);
    assert_int_equal(sums.chunks, H / GSC__MASK_ROWS);
    assert_ptr_equal(all.sums, sums.sums);
    assert_int_equal(all.count, sums.chunks);
    assert_ptr_equal(pass.device_shares, all.shares);
    assert_ptr_equal(total.device_shares, all.shares);
    assert_int_equal(pass.weight.strides[1], 0); /* one plane for all channels */
}

static void images_of_too_many_blocks_are_refused(void **unused) {
    (void)unused;
    VIEW(&image, HUGE_BATCH, 1, 1024, 1024);
    VIEW(&target, HUGE_BATCH, 1, 1024, 1024);
    view_device(&image, kDLCUDA, 0);
    view_device(&target, kDLCUDA, 0);
    expect_failure(gsc_image_loss(context, &loss, NULL), GSC_ERROR_OVERFLOW,
                   "image_loss: image is [268435456, 1, 1024, 1024], which needs 137438953472 "
                   "blocks, expected at most 2147483647");
    ssim.mean = &scalar.tensor;
    assert_int_equal(gsc_ssim_forward(context, &ssim, NULL), GSC_ERROR_OVERFLOW);

    VIEW(&image, HUGE_BATCH, 1, TALL, 4);
    VIEW(&target, HUGE_BATCH, 1, TALL, 4);
    VIEW(&mask, HUGE_BATCH, TALL, 4);
    view_device(&image, kDLCUDA, 0);
    view_device(&target, kDLCUDA, 0);
    view_device(&mask, kDLCUDA, 0);
    loss.mask = &mask.tensor;
    expect_failure(gsc_image_loss(context, &loss, NULL), GSC_ERROR_OVERFLOW,
                   "image_loss: mask of 268435456 planes needs 4294967296 blocks, expected at "
                   "most 2147483647");
    expect_launches("");
}

static void no_memory_is_said(void **unused) {
    (void)unused;
    ssim.mean = &scalar.tensor;
    setenv("MOCK_DRIVER_FAIL", "cuMemAllocFromPoolAsync=2", 1);
    assert_int_equal(gsc_ssim_forward(context, &ssim, NULL), GSC_ERROR_OUT_OF_MEMORY);
    assert_non_null(strstr(gsc_last_error(), "ssim_forward: scratch: out of memory, "));
    assert_int_equal(gsc_image_loss(context, &loss, NULL), GSC_ERROR_OUT_OF_MEMORY);
    expect_launches("");
}

/* -------------------------------------------------------------------- neighbours */

#define ORDER "knn_bounds knn_cells knn_keys"

static void queries_are_put_in_order_too(void **unused) {
    gsc_k_knn_search search;
    gsc_k_knn_keys keys;
    gsc_k_knn_leaves leaves;
    (void)unused;
    expect_ok(gsc_knn(context, &knn, NULL));
    ARGS_OF("knn_3", 0, search);
    assert_null(search.queries);
    assert_int_equal(search.count, 40);
    assert_true(search.indices64);
    expect_launches(ORDER " knn_leaves knn_3");

    knn.queries = &queries.tensor;
    knn.indices = NULL;
    knn.distances2 = &distances.tensor;
    expect_ok(gsc_knn(context, &knn, NULL));
    ARGS_OF("knn_keys", 0, keys);
    assert_ptr_equal(keys.points, queries.tensor.data);
    assert_int_equal(keys.count, 10);
    ARGS_OF("knn_3", 0, search);
    assert_ptr_equal(search.query_cells, keys.cells);
    ARGS_OF("knn_keys", 1, keys);
    ARGS_OF("knn_leaves", 0, leaves);
    assert_ptr_equal(keys.points, points.tensor.data);
    assert_ptr_equal(leaves.cells, keys.cells);
    assert_ptr_not_equal(leaves.cells, search.query_cells);
    assert_ptr_not_equal(leaves.order, search.query_order);
    assert_ptr_equal(search.queries, queries.tensor.data);
    assert_ptr_equal(search.distances2, distances.tensor.data);
    assert_int_equal(search.count, 10);
    assert_int_equal(search.leaves, 2);
    expect_launches(ORDER " " ORDER " knn_leaves knn_3");
}

static void longer_lists_have_kernels_of_their_own(void **unused) {
    gsc_k_knn_search search;
    size_t few = 0, many = 0;
    (void)unused;
    knn.indices = NULL;
    knn.k = 8;
    expect_ok(gsc_knn(context, &knn, NULL));
    expect_launches(ORDER " knn_leaves knn_8");
    expect_ok(gsc_knn_scratch_bytes(context, &knn, &few));
    knn.k = 200;
    expect_ok(gsc_knn_scratch_bytes(context, &knn, &many));
    assert_true(many >= few + (size_t)200 * 40 * sizeof(uint64_t)); /* their lists */
    expect_ok(gsc_knn(context, &knn, NULL));
    ARGS_OF("knn_any", 0, search);
    assert_int_equal(search.k, 200);
    assert_non_null(search.lists);
    expect_launches(ORDER " knn_leaves knn_any");
}

static void clusters_are_looked_for_among_many_points(void **unused) {
    gsc_k_knn_clusters clusters;
    gsc_k_knn_keys keys;
    (void)unused;
    VIEW(&points, 5000, 3);
    view_device(&points, kDLCUDA, 0);
    knn.indices = NULL;
    expect_ok(gsc_knn(context, &knn, NULL));
    ARGS_OF("knn_keys", 0, keys);
    ARGS_OF("knn_find_clusters", 0, clusters);
    assert_ptr_equal(keys.cleared, clusters.clusters);
    assert_true(keys.cleared_words >= 2 * clusters.capacity + 5000 / (GSC__KNN_CLUSTER * 32));
    assert_true(clusters.capacity >= 5000 / (GSC__KNN_CLUSTER * 32));
    /* 157 leaves, 5 boxes over them. */
    expect_launches(ORDER " knn_find_clusters knn_order_clusters knn_leaves knn_boxes knn_3");
}

static void nothing_is_searched_in_nothing(void **unused) {
    gsc_k_knn_search search;
    (void)unused;
    VIEW(&queries, 0, 3);
    view_device(&queries, kDLCUDA, 0);
    knn.indices = NULL;
    knn.queries = &queries.tensor;
    expect_ok(gsc_knn(context, &knn, NULL));
    expect_launches("");
    VIEW(&queries, 10, 3);
    VIEW(&points, 0, 3);
    view_device(&queries, kDLCUDA, 0);
    view_device(&points, kDLCUDA, 0);
    expect_ok(gsc_knn(context, &knn, NULL));
    ARGS_OF("knn_3", 0, search);
    assert_int_equal(search.leaves, 0);
    expect_launches(ORDER " knn_3"); /* which holds the count of 0 */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_context, close_context)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_mean_is_made_of_the_pass_s_sums),
        TEST(other_windows_have_another_kernel),
        TEST(a_gradient_by_the_target_exchanges_the_images),
        TEST(a_gradient_by_the_map_weighs_windows),
        TEST(a_loss_without_windows_goes_by_points),
        TEST(a_mask_is_summed_before_the_pass),
        TEST(images_of_too_many_blocks_are_refused),
        TEST(no_memory_is_said),
        TEST(queries_are_put_in_order_too),
        TEST(longer_lists_have_kernels_of_their_own),
        TEST(clusters_are_looked_for_among_many_points),
        TEST(nothing_is_searched_in_nothing),
    };
    mock = mock_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

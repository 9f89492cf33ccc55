/* Which image a device gets. */

#include "views.h"

#include "gpu/images.h"
#include "gpu/kernel_list.h"

#define CUBIN(major, minor) \
    { "a", GSC__IMAGE_CUBIN, major, minor, "", "" }
#define PTX(major, minor) \
    { "a", GSC__IMAGE_PTX, major, minor, "", "" }

/* Out of order, and with another file's images between them. */
static const gsc__kernel_image images[] = {
    PTX(9, 0),    CUBIN(12, 0), CUBIN(8, 6), {"b", GSC__IMAGE_CUBIN, 8, 9, "", ""},
    CUBIN(7, 5),  CUBIN(8, 0),  PTX(7, 5),   {"b", GSC__IMAGE_CUBIN, 7, 0, "", ""},
    CUBIN(10, 0), CUBIN(9, 0),
};
enum { IMAGES = sizeof images / sizeof images[0] };

static void by_capability(void **state) {
    static const struct {
        int major, minor;
        const char *target;
    } cases[] = {
        {7, 5, "sm_75"},       {8, 0, "sm_80"},   {8, 6, "sm_86"},   {8, 7, "sm_86"},
        {8, 9, "sm_86"},       {9, 0, "sm_90"},   {10, 0, "sm_100"}, {10, 3, "sm_100"},
        {11, 0, "compute_90"}, {12, 0, "sm_120"}, {12, 1, "sm_120"}, {13, 0, "compute_90"},
    };
    char target[GSC__GPU_TARGET_SIZE];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        const gsc__kernel_image *image =
            gsc__kernel_image_choose(images, IMAGES, "a", cases[i].major, cases[i].minor);
        assert_non_null(image);
        assert_string_equal(gsc__kernel_image_target(image, target), cases[i].target);
        assert_string_equal(image->source, "a");
    }
}

static void none_for_an_older_device(void **state) {
    static const int older[][2] = {{7, 0}, {7, 2}, {6, 1}, {5, 2}};
    (void)state;
    for (size_t i = 0; i < sizeof older / sizeof older[0]; ++i)
        assert_null(gsc__kernel_image_choose(images, IMAGES, "a", older[i][0], older[i][1]));
    assert_null(gsc__kernel_image_choose(images, IMAGES, "c", 9, 0));
    assert_null(gsc__kernel_image_choose(images, 0, "a", 9, 0));
}

/* Code for a lower minor number runs; code for a higher one or for another major does not. */
static void without_ptx(void **state) {
    static const gsc__kernel_image few[] = {CUBIN(8, 6), CUBIN(9, 0)};
    (void)state;
    assert_null(gsc__kernel_image_choose(few, 2, "a", 8, 0));
    assert_null(gsc__kernel_image_choose(few, 2, "a", 10, 0));
    assert_ptr_equal(gsc__kernel_image_choose(few, 2, "a", 8, 9), &few[0]);
}

static void code_of_a_jetson_is_for_it_alone(void **state) {
    static const gsc__kernel_image few[] = {CUBIN(10, 1), CUBIN(8, 7), CUBIN(8, 6), CUBIN(10, 0)};
    (void)state;
    assert_ptr_equal(gsc__kernel_image_choose(few, 4, "a", 8, 7), &few[1]);
    assert_ptr_equal(gsc__kernel_image_choose(few, 4, "a", 8, 9), &few[2]);
    assert_ptr_equal(gsc__kernel_image_choose(few, 4, "a", 10, 0), &few[3]);
    assert_ptr_equal(gsc__kernel_image_choose(few, 4, "a", 10, 1), &few[0]);
    assert_ptr_equal(gsc__kernel_image_choose(few, 4, "a", 10, 3), &few[3]);
    assert_null(gsc__kernel_image_choose(few, 2, "a", 8, 9));
}

static void machine_code_before_ptx(void **state) {
    static const gsc__kernel_image few[] = {PTX(9, 0), CUBIN(9, 0), PTX(8, 0)};
    (void)state;
    assert_ptr_equal(gsc__kernel_image_choose(few, 3, "a", 9, 0), &few[1]);
    assert_ptr_equal(gsc__kernel_image_choose(few, 3, "a", 10, 0), &few[0]);
    assert_ptr_equal(gsc__kernel_image_choose(few, 3, "a", 8, 9), &few[2]);
}

static void the_error_names_both_sides(void **state) {
    const gsc__kernel_image *image;
    (void)state;
    expect_failure(gsc__kernel_image_find("context_create", images, IMAGES, "a", 7, 0, &image),
                   GSC_ERROR_NO_KERNEL_IMAGE,
                   "context_create: the device has compute capability 7.0, but a.cu was compiled "
                   "for compute_90 sm_120 sm_86 sm_75 sm_80 compute_75 sm_100 sm_90");
    assert_null(image);
    expect_failure(gsc__kernel_image_find("context_create", images, 0, "a", 9, 0, &image),
                   GSC_ERROR_NO_KERNEL_IMAGE,
                   "context_create: the device has compute capability 9.0, but a.cu was compiled "
                   "for nothing");
}

static void a_long_list_is_cut_short(void **state) {
    gsc__kernel_image many[64];
    char text[GSC__GPU_TARGETS_SIZE];
    (void)state;
    for (int i = 0; i < 64; ++i)
        many[i] = (gsc__kernel_image){"a", GSC__IMAGE_PTX, 100000 + i, 100000, "", ""};
    gsc__kernel_image_targets(many, 64, "a", text);
    assert_true(strlen(text) > GSC__GPU_TARGETS_SIZE / 2);
    assert_true(strlen(text) < GSC__GPU_TARGETS_SIZE);
}

static int is_packed(const gsc__kernel_image *image) {
    return memcmp(image->begin, "\x50\xed\x55\xba", 4) == 0; /* a fat binary */
}

static int is_machine_code(const gsc__kernel_image *image) {
    return memcmp(image->begin, "\177ELF", 4) == 0;
}

/* The build embeds every file of the list for all targets, among them PTX. */
static void of_this_build(void **state) {
    static const char *const files[] = {
#define NAME(file, name, args, block) #file,
        GSC__GPU_KERNELS(NAME)
#undef NAME
    };
    char first[GSC__GPU_TARGETS_SIZE], text[GSC__GPU_TARGETS_SIZE];
    (void)state;
    gsc__kernel_image_targets(gsc__kernel_images, gsc__kernel_image_count, files[0], first);
    assert_non_null(strstr(first, "compute_90"));
    for (int i = 0; i < GSC__GPU_KERNEL_COUNT; ++i) {
        gsc__kernel_image_targets(gsc__kernel_images, gsc__kernel_image_count, files[i], text);
        assert_string_equal(text, first);
    }
    for (size_t i = 0; i < gsc__kernel_image_count; ++i) {
        const gsc__kernel_image *image = &gsc__kernel_images[i];
        assert_true(image->end > image->begin + 64);
        if (is_packed(image)) continue;
        assert_int_equal(is_machine_code(image), image->kind == GSC__IMAGE_CUBIN);
        if (image->kind != GSC__IMAGE_PTX) continue;
        assert_non_null(strstr(image->begin, ".target sm_90"));
        assert_int_equal(*image->end, '\0');
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_capability),
        cmocka_unit_test(none_for_an_older_device),
        cmocka_unit_test(without_ptx),
        cmocka_unit_test(code_of_a_jetson_is_for_it_alone),
        cmocka_unit_test(machine_code_before_ptx),
        cmocka_unit_test(the_error_names_both_sides),
        cmocka_unit_test(a_long_list_is_cut_short),
        cmocka_unit_test(of_this_build),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* cameras.json, camera matrices and the framing of a scene without cameras. */
#include "../../tools/cameras.h"
#include "../../tools/text.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char path[] = "test_cameras.tmp.json";

static void write_text(const char *text) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static int remove_file(void **state) {
    (void)state;
    remove(path);
    return 0;
}

#define POSE "\"position\": [1, 2, 3], \"rotation\": [[0, 0, 1], [1, 0, 0], [0, 1, 0]]"
#define SIZE "\"width\": 640, \"height\": 480"
#define FOCAL "\"fx\": 500, \"fy\": 400.5"

static void test_read(void **state) {
    (void)state;
    write_text("[{\"id\": 0, \"img_name\": \"left\", " SIZE ", " POSE ", " FOCAL "},\n"
               " {\"id\": 7, \"img_name\": \"0\", " SIZE ", " POSE ", " FOCAL "},\n"
               " {" SIZE ", " POSE ", " FOCAL ", \"more\": {}}]");
    camera_list cameras;
    if (!cameras_read(&cameras, path)) fail_msg("%s", failure_text());
    assert_int_equal(cameras.count, 3);
    const struct camera *first = cameras.items;
    assert_string_equal(first->name, "left");
    assert_int_equal(first->width, 640);
    assert_int_equal(first->height, 480);
    const float intrinsics[4] = {500, 400.5f, 320, 240};
    assert_memory_equal(first->intrinsics, intrinsics, sizeof intrinsics);
    assert_string_equal(cameras.items[2].name, "00002");

    assert_ptr_equal(cameras_find(&cameras, "left"), first);
    assert_ptr_equal(cameras_find(&cameras, "0"), first + 1); /* a name comes first */
    assert_ptr_equal(cameras_find(&cameras, "2"), first + 2);
    assert_null(cameras_find(&cameras, "3"));
    assert_null(cameras_find(&cameras, "-1"));
    assert_null(cameras_find(&cameras, "right"));

    cameras_keep(&cameras, 1);
    assert_int_equal(cameras.count, 1);
    assert_string_equal(cameras.items[0].name, "0");
    cameras_free(&cameras);
}

static void transform(const float *view, const double *point, double *result) {
    for (int row = 0; row < 3; row++) {
        result[row] = (double)view[12 + row];
        for (int axis = 0; axis < 3; axis++)
            result[row] += (double)view[4 * axis + row] * point[axis];
    }
}

/* A point one unit along a camera axis has that axis' coordinate. */
static void test_view(void **state) {
    (void)state;
    write_text("[{" SIZE ", " POSE ", " FOCAL "}]");
    camera_list cameras;
    assert_true(cameras_read(&cameras, path));
    const struct camera *camera = cameras.items;
    float view[16];
    camera_view(camera, (double[3]){0}, view);
    for (int axis = 0; axis < 3; axis++) {
        double point[3], seen[3];
        for (int i = 0; i < 3; i++) point[i] = camera->position[i] + 2 * camera->rotation[i][axis];
        transform(view, point, seen);
        for (int i = 0; i < 3; i++) assert_true(fabs(seen[i] - (i == axis ? 2 : 0)) < 1e-6);
    }
    assert_true(view[3] == 0 && view[7] == 0 && view[11] == 0 && view[15] == 1);
    /* the z axis is the third column of rotation: (1, 0, 0) in the world */
    double origin[3] = {0, 0, 0}, seen[3];
    transform(view, origin, seen);
    assert_true(fabs(seen[2] - -1) < 1e-6);
    cameras_free(&cameras);
}

static void test_resize(void **state) {
    (void)state;
    struct camera camera = {.width = 640, .height = 480, .intrinsics = {500, 400, 330, 240}};
    camera_resize(&camera, 320, 480); /* half as wide: everything visible stays visible */
    const float narrow[4] = {250, 200, 165, 240};
    assert_memory_equal(camera.intrinsics, narrow, sizeof narrow);
    assert_int_equal(camera.width, 320);
    assert_int_equal(camera.height, 480);
}

static const struct {
    const char *text, *message;
} broken[] = {
    {"", "line 1, near column 1: not valid JSON"},
    {"[\n {\"id\": 0,\n  oops}]", "line 3, near column "},
    {"[] trailing", "not valid JSON"},
    {"{}", "is not a list of cameras"},
    {"[]", "holds no camera"},
    {"[7]", "camera 0: is not an object"},
    {"[{" POSE ", " FOCAL "}]", "camera 0: 'width' is missing"},
    {"[{\"width\": 0, \"height\": 480, " POSE ", " FOCAL "}]", "camera 0: 'width' is 0, not a"},
    {"[{\"width\": 640, \"height\": 1e9, " POSE ", " FOCAL "}]", "'height' is 1e+09, not a"},
    {"[{\"width\": 640.5, \"height\": 480, " POSE ", " FOCAL "}]", "'width' is 640.5, not a"},
    {"[{\"width\": \"640\", \"height\": 480, " POSE ", " FOCAL "}]", "'width' is not a number"},
    {"[{" SIZE ", " POSE ", \"fx\": 0, \"fy\": 1}]", "'fx' is not a positive number"},
    {"[{" SIZE ", " POSE ", \"fx\": 1, \"fy\": 1e300}]", "'fy' is not a positive number"},
    {"[{" SIZE ", " FOCAL ", \"position\": [1, 2]}]", "'position' is missing or not three"},
    {"[{" SIZE ", " FOCAL ", \"position\": [1, 2, 3]}]", "'rotation' is missing or not three"},
    {"[{" SIZE ", " FOCAL ", \"position\": [1, 2, 3], \"rotation\": [[1, 0, 0], [0, 1, 0]]}]",
     "'rotation' is missing or not three"},
    {"[{" SIZE ", " POSE ", " FOCAL "}, {" SIZE ", " FOCAL
     ", \"position\": [1, 2, 3], \"rotation\": [[2, 0, 0], [0, 1, 0], [0, 0, 1]]}]",
     "camera 1: 'rotation' is not a rotation matrix"},
    {"[{" SIZE ", " FOCAL
     ", \"position\": [1, 2, 3], \"rotation\": [[-1, 0, 0], [0, 1, 0], [0, 0, 1]]}]",
     "'rotation' is not a rotation matrix"}, /* a mirror */
};

static void test_broken(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        camera_list cameras;
        write_text(broken[i].text);
        if (cameras_read(&cameras, path)) fail_msg("case %zu was read", i);
        const char *message = failure_text();
        if (strncmp(message, path, strlen(path)) != 0 || !strstr(message, broken[i].message))
            fail_msg("case %zu: expected '%s', came '%s'", i, broken[i].message, message);
    }
    camera_list cameras;
    assert_false(cameras_read(&cameras, "no/such.json"));
    assert_string_equal(failure_text(), "no/such.json: cannot open: No such file or directory");
}

/* A cube of Gaussians around (5, -2, 3), with outliers far away: some opaque, some not finite, and
 * more nearly transparent ones than the cube has Gaussians. */
enum { CUBE = 1000, OPAQUE_STRAYS = 30, HAZE = 2000 };

static void make_cube(gaussians *scene, float size) {
    assert_true(gaussians_allocate(scene, CUBE + OPAQUE_STRAYS + HAZE, 0));
    for (int n = 0; n < CUBE; n++) {
        scene->means[3 * n] = 5 + size * ((float)(n % 10) / 9 - 0.5f);
        scene->means[3 * n + 1] = -2 + size * ((float)(n / 10 % 10) / 9 - 0.5f);
        scene->means[3 * n + 2] = 3 + size * ((float)(n / 100) / 9 - 0.5f);
        scene->opacities[n] = 0.8f;
    }
    for (int n = CUBE; n < scene->count; n++) {
        scene->means[3 * n] = n % 10 ? 1e6f : NAN;
        scene->opacities[n] = n < CUBE + OPAQUE_STRAYS ? 1 : 1e-4f;
    }
}

static void check_framing(float size, int32_t width, int32_t height) {
    gaussians scene;
    make_cube(&scene, size);
    camera_list cameras;
    assert_true(cameras_frame(&cameras, &scene, width, height));
    const struct camera *camera = cameras.items;
    float view[16];
    camera_view(camera, (double[3]){0}, view);
    double most = 0;
    for (int n = 0; n < CUBE; n++) {
        double point[3], seen[3];
        for (int i = 0; i < 3; i++) point[i] = (double)scene.means[3 * n + i];
        transform(view, point, seen);
        assert_true(seen[2] > (double)camera->near_plane);
        const float *k = camera->intrinsics;
        double x = (double)k[0] * seen[0] / seen[2], y = (double)k[1] * seen[1] / seen[2];
        assert_true(fabs(x) < (double)k[2] && fabs(y) < (double)k[3]);
        most = fmax(most, fmax(fabs(x) / (double)k[2], fabs(y) / (double)k[3]));
    }
    assert_true(most > 0.4);            /* it fills the picture */
    const double below[3] = {5, -1, 3}; /* y points down */
    double seen[3];
    transform(view, below, seen);
    assert_true(seen[1] > 0);
    assert_true(camera->position[1] < -2); /* it looks from above */
    cameras_free(&cameras);
    gaussians_free(&scene);
}

static void test_framing(void **state) {
    (void)state;
    check_framing(2, 640, 360);
    check_framing(2, 200, 600);
    check_framing(0.01f, 640, 360);
    check_framing(1000, 640, 360);
}

static void test_framing_nothing(void **state) {
    (void)state;
    for (int count = 0; count < 2; count++) {
        gaussians scene;
        assert_true(gaussians_allocate(&scene, count, 0));
        camera_list cameras;
        assert_true(cameras_frame(&cameras, &scene, 64, 48));
        float view[16];
        camera_view(cameras.items, (double[3]){0}, view);
        for (int i = 0; i < 16; i++) assert_true(isfinite(view[i]));
        cameras_free(&cameras);
        gaussians_free(&scene);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),    cmocka_unit_test(test_view),
        cmocka_unit_test(test_resize),  cmocka_unit_test(test_broken),
        cmocka_unit_test(test_framing), cmocka_unit_test(test_framing_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, remove_file);
}

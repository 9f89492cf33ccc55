/* The scene reader: every format gives the same Gaussians, and every broken file gives one line
 * that says what is wrong. */
#include "../../tools/gaussians.h"
#include "../../tools/text.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char path[] = "test_ply.tmp.ply";

static void write_file(const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void write_text(const char *text) {
    write_file(text, strlen(text));
}

static int remove_file(void **state) {
    (void)state;
    remove(path);
    return 0;
}

/* A file that the test builds step by step, in either byte order. */
typedef struct builder {
    unsigned char data[4096];
    size_t size;
    bool big_endian;
} builder;

static void put_text(builder *to, const char *text) {
    memcpy(to->data + to->size, text, strlen(text));
    to->size += strlen(text);
}

static void put(builder *to, const void *value, size_t bytes) {
    const uint16_t one = 1;
    unsigned char first;
    memcpy(&first, &one, 1);
    bool swap = (first == 1) == to->big_endian;
    for (size_t i = 0; i < bytes; i++)
        to->data[to->size++] = ((const unsigned char *)value)[swap ? bytes - 1 - i : i];
}

static void put_float(builder *to, float value) {
    put(to, &value, sizeof value);
}
static void put_double(builder *to, double value) {
    put(to, &value, sizeof value);
}
static void put_short(builder *to, int16_t value) {
    put(to, &value, sizeof value);
}
static void put_byte(builder *to, uint8_t value) {
    put(to, &value, sizeof value);
}
static void put_int(builder *to, int32_t value) {
    put(to, &value, sizeof value);
}

/* Properties in another order and of several types, with properties, lists and elements that a
 * scene does not use; degree 1. */
static const char mixed_header[] =
    "comment made by hand\n"
    "obj_info nothing\n"
    "element camera 2\n"
    "property list uchar short row\n"
    "property double focal\n"
    "element empty 0\n"
    "property float unused\n"
    "element vertex 2\n"
    "property float opacity\n"
    "property list uchar int neighbours\n"
    "property double z\n"
    "property short y\n"
    "property uchar x\n"
    "property float f_rest_8\nproperty float f_rest_7\nproperty float f_rest_6\n"
    "property float f_rest_0\nproperty float f_rest_1\nproperty float f_rest_2\n"
    "property float f_rest_3\nproperty float f_rest_4\nproperty float f_rest_5\n"
    "property float rot_3\nproperty float rot_2\nproperty float rot_1\nproperty float rot_0\n"
    "property float scale_2\nproperty float scale_1\nproperty float scale_0\n"
    "property float confidence\n"
    "property float f_dc_0\nproperty float f_dc_1\nproperty float f_dc_2\n"
    "element face 1\n"
    "property list uchar int vertex_indices\n"
    "end_header\n";

static void put_mixed_binary(builder *to) {
    put_text(to, "ply\n");
    put_text(to, to->big_endian ? "format binary_big_endian 1.0\n"
                                : "format binary_little_endian 1.0\n");
    put_text(to, mixed_header);
    for (int camera = 0; camera < 2; camera++) {
        put_byte(to, (uint8_t)(2 * camera));
        for (int i = 0; i < 2 * camera; i++) put_short(to, -7);
        put_double(to, 500);
    }
    for (int n = 0; n < 2; n++) {
        put_float(to, (float)n);
        put_byte(to, (uint8_t)(1 + n));
        for (int i = 0; i < 1 + n; i++) put_int(to, 123456);
        put_double(to, 1.5 + n);
        put_short(to, (int16_t)(-300 - n));
        put_byte(to, (uint8_t)(200 + n));
        for (int i = 8; i >= 6; i--) put_float(to, (float)(i + 10 * n));
        for (int i = 0; i < 6; i++) put_float(to, (float)(i + 10 * n));
        for (int i = 3; i >= 0; i--) put_float(to, (float)i + 0.25f);
        for (int i = 2; i >= 0; i--) put_float(to, (float)(i - n));
        put_float(to, 99);
        for (int i = 0; i < 3; i++) put_float(to, 0.5f * (float)i);
    }
    put_byte(to, 3);
    for (int i = 0; i < 3; i++) put_int(to, i);
}

static const char mixed_rows[] = "2 -7 -7 500\n"
                                 "0 500\n"
                                 "0 1 123456 1.5 -300 200 8 7 6 0 1 2 3 4 5 "
                                 "3.25 2.25 1.25 0.25 2 1 0 99 0 0.5 1\n"
                                 "\n"
                                 "  1 2 123456 123456 2.5 -301 201\t18 17 16 10 11 12 13 14 15 "
                                 "3.25 2.25 1.25 0.25 1 0 -1 99 0 0.5 1e0  \n"
                                 "3 0 1 2\n";

static void check_mixed(ply_format format) {
    gaussians scene;
    if (!gaussians_read(&scene, path)) fail_msg("%s", failure_text());
    assert_int_equal(scene.format, format);
    assert_int_equal(scene.count, 2);
    assert_int_equal(scene.sh_degree, 1);
    assert_int_equal(scene.sh_coefficients, 4);
    assert_int_equal(scene.non_finite, 0);
    for (int n = 0; n < 2; n++) {
        const float mean[3] = {200.0f + (float)n, -300.0f - (float)n, 1.5f + (float)n};
        assert_memory_equal(scene.means + 3 * n, mean, sizeof mean);
        assert_true(fabs((double)scene.opacities[n] - 1 / (1 + exp(-n))) < 1e-6);
        for (int i = 0; i < 3; i++)
            assert_true(fabs((double)scene.scales[3 * n + i] - exp(i - n)) < 1e-6);
        for (int i = 0; i < 4; i++) assert_true(scene.rotations[4 * n + i] == (float)i + 0.25f);
        for (int channel = 0; channel < 3; channel++) {
            assert_true(scene.sh[12 * n + channel] == 0.5f * (float)channel);
            for (int k = 0; k < 3; k++)
                assert_true(scene.sh[12 * n + 3 * (k + 1) + channel] ==
                            (float)(3 * channel + k + 10 * n));
        }
    }
    gaussians_free(&scene);
}

static void test_little_endian(void **state) {
    (void)state;
    builder file = {.size = 0};
    put_mixed_binary(&file);
    write_file(file.data, file.size);
    check_mixed(PLY_LITTLE_ENDIAN);
}

static void test_big_endian(void **state) {
    (void)state;
    builder file = {.size = 0, .big_endian = true};
    put_mixed_binary(&file);
    write_file(file.data, file.size);
    check_mixed(PLY_BIG_ENDIAN);
}

static void test_ascii(void **state) {
    (void)state;
    builder file = {.size = 0};
    put_text(&file, "ply\nformat ascii 1.0\n");
    put_text(&file, mixed_header);
    put_text(&file, mixed_rows);
    write_file(file.data, file.size);
    check_mixed(PLY_ASCII);
}

/* Line ends of another system, and a last line without a line end. */
static void test_ascii_crlf(void **state) {
    (void)state;
    builder lines = {.size = 0}, file = {.size = 0};
    put_text(&lines, "ply\nformat ascii 1.0\n");
    put_text(&lines, mixed_header);
    put_text(&lines, mixed_rows);
    for (size_t i = 0; i + 1 < lines.size; i++) {
        if (lines.data[i] == '\n') file.data[file.size++] = '\r';
        file.data[file.size++] = lines.data[i];
    }
    write_file(file.data, file.size);
    check_mixed(PLY_ASCII);
}

/* A file that ends early, at any byte, gives an error and nothing worse. */
static void test_every_cut(void **state) {
    (void)state;
    for (int big_endian = 0; big_endian < 2; big_endian++) {
        builder file = {.size = 0, .big_endian = big_endian != 0};
        put_mixed_binary(&file);
        const size_t face_bytes = 1 + 3 * 4; /* after the vertices: not read */
        for (size_t size = 0; size < file.size - face_bytes; size++) {
            gaussians scene;
            write_file(file.data, size);
            assert_false(gaussians_read(&scene, path));
            assert_non_null(strstr(failure_text(), path));
        }
    }
}

/* The properties of a scene of degree 0, and one row of it. */
#define PLAIN                                                                              \
    "property float x\nproperty float y\nproperty float z\n"                               \
    "property float f_dc_0\nproperty float f_dc_1\nproperty float f_dc_2\nproperty float " \
    "opacity\n"                                                                            \
    "property float scale_0\nproperty float scale_1\nproperty float scale_2\n"             \
    "property float rot_0\nproperty float rot_1\nproperty float rot_2\nproperty float rot_3\n"
#define ROW "1 2 3 0 0 0 0 0 0 0 1 0 0 0\n"
#define ASCII "ply\nformat ascii 1.0\n"

static void test_no_vertices(void **state) {
    (void)state;
    gaussians scene;
    write_text(ASCII "element vertex 0\n" PLAIN "end_header\n");
    assert_true(gaussians_read(&scene, path));
    assert_int_equal(scene.count, 0);
    assert_int_equal(scene.sh_degree, 0);
    gaussians_free(&scene);
}

static void test_non_finite(void **state) {
    (void)state;
    gaussians scene;
    write_text(ASCII "element vertex 5\n" PLAIN "end_header\n" ROW "nan 2 3 0 0 0 0 0 0 0 1 0 0 0\n"
                     "1 2 3 0 0 0 0 1000 0 0 1 0 0 0\n" /* a scale beyond float */
                     "1 2 3 0 0 -inf 0 0 0 0 1 0 0 0\n"
                     "1 2 3 0 0 0 inf 0 0 0 1 0 0 0\n"); /* opacity 1, which is valid */
    assert_true(gaussians_read(&scene, path));
    assert_int_equal(scene.count, 5);
    assert_int_equal(scene.non_finite, 3);
    assert_true(scene.opacities[4] == 1);
    gaussians_free(&scene);
}

static void test_normalize_rotations(void **state) {
    (void)state;
    gaussians scene;
    assert_true(gaussians_allocate(&scene, 2, 0));
    const float q[4] = {0, 3, 0, -4}, unit[4] = {0, 0.6f, 0, -0.8f}, zero[4] = {0};
    memcpy(scene.rotations, q, sizeof q);
    gaussians_normalize_rotations(&scene);
    for (int i = 0; i < 4; i++) assert_true(fabsf(scene.rotations[i] - unit[i]) < 1e-6f);
    assert_memory_equal(scene.rotations + 4, zero, sizeof zero);
    gaussians_free(&scene);
}

static const struct {
    const char *text, *message;
} broken[] = {
    {"", "not a PLY file"},
    {"obj\n", "not a PLY file"},
    {"plywood\n", "line 1: expected 'ply' alone"},
    {"ply\n", "no end_header"},
    {"ply\nelement vertex 0\n" PLAIN "end_header\n", "no format line"},
    {"ply\nformat binary_middle_endian 1.0\n", "line 2: unknown format 'binary_middle_endian'"},
    {"ply\nformat ascii 2.0\n", "line 2: unknown format version '2.0'"},
    {ASCII "vertex 3\n", "line 3: unknown header keyword 'vertex'"},
    {ASCII "element vertex\n", "line 3: expected 'element NAME COUNT'"},
    {ASCII "element vertex -1\n", "line 3: not a number of rows: '-1'"},
    {ASCII "element vertex 99999999999999999999\n", "line 3: not a number of rows"},
    {ASCII "element vertex 3x\n", "line 3: not a number of rows: '3x'"},
    {ASCII "element vertex 1\nelement vertex 1\nend_header\n", "element 'vertex' occurs twice"},
    {ASCII "property float x\n", "line 3: no element yet"},
    {ASCII "element vertex 1\nproperty half x\n", "line 4: unknown property type 'half'"},
    {ASCII "element vertex 1\nproperty\n", "line 4: unknown property type ''"},
    {ASCII "element vertex 1\nproperty float\n", "line 4: a property without a name"},
    {ASCII "element vertex 1\nproperty list float int x\n", "line 4: the length of a list"},
    {ASCII "element vertex 1\n" PLAIN "property float x\nend_header\n" ROW,
     "property 'x' occurs twice"},
    {ASCII "element point 1\n" PLAIN "end_header\n" ROW, "has no element 'vertex'"},
    {ASCII "element vertex 1\nproperty float x\nproperty float y\nproperty float z\n"
           "end_header\n1 2 3\n",
     "no property 'scale_0' (this looks like a point cloud"},
    {ASCII "element vertex 1\nproperty uint packed_position\nend_header\n1\n",
     "no property 'x' (this is a compressed scene"},
    {ASCII "element vertex 1\nproperty list uchar float x\nend_header\n1 1\n",
     "property 'x' is a list"},
    {ASCII "element vertex 1\n" PLAIN "property float f_rest_0\nend_header\n" ROW ROW,
     "has 1 properties f_rest_*"},
    {ASCII "element vertex 1\n" PLAIN
           "property float f_rest_0\nproperty float f_rest_1\nproperty float f_rest_2\n"
           "property float f_rest_3\nproperty float f_rest_4\nproperty float f_rest_5\n"
           "property float f_rest_6\nproperty float f_rest_7\nproperty float f_rest_9\n"
           "end_header\n" ROW ROW,
     "no property 'f_rest_8'"},
    {ASCII "element vertex 2\n" PLAIN "end_header\n" ROW, "cut short"},
    {ASCII "element vertex 1000000000000\n" PLAIN "end_header\n" ROW,
     "cut short: element 'vertex'"},
    {ASCII "element vertex 9223372036854775807\n" PLAIN "end_header\n" ROW, "cut short"},
    {ASCII "element vertex 1\n" PLAIN "end_header\n1 2 3 0 0 0 0 0 0 0 1 0 0\n               ",
     "line 19: no number for property 'rot_3'"},
    {ASCII "element vertex 1\n" PLAIN "end_header\n1 2 3 0 0 zero 0 0 0 0 1 0 0 0\n",
     "line 19: no number for property 'f_dc_2'"},
    {ASCII "element vertex 1\n" PLAIN "end_header\n1 2 3 0 0 0 0 0 0 0 1 0 0 0 7\n",
     "line 19: more values than properties"},
    {ASCII "element a 1\nproperty list uchar int b\nelement vertex 1\n" PLAIN
           "end_header\n-1\n" ROW,
     "line 21: no length for list 'b'"},
    {ASCII "element a 1\nproperty list uchar int b\nelement vertex 1\n" PLAIN
           "end_header\n3 1 2\n" ROW,
     "line 21: too few items in list 'b'"},
};

static void test_broken(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        gaussians scene;
        write_text(broken[i].text);
        if (gaussians_read(&scene, path)) fail_msg("case %zu was read", i);
        const char *message = failure_text();
        if (strncmp(message, path, strlen(path)) != 0 || !strstr(message, broken[i].message))
            fail_msg("case %zu: expected '%s', came '%s'", i, broken[i].message, message);
    }
}

static void test_negative_list(void **state) {
    (void)state;
    builder file = {.size = 0};
    put_text(&file, "ply\nformat binary_little_endian 1.0\nelement a 1\n"
                    "property list char int b\nelement vertex 0\n" PLAIN "end_header\n");
    put_byte(&file, 0xff);
    write_file(file.data, file.size);
    gaussians scene;
    assert_false(gaussians_read(&scene, path));
    assert_non_null(strstr(failure_text(), "row 1: list 'b' has length -1"));
}

static void test_missing_file(void **state) {
    (void)state;
    gaussians scene;
    assert_false(gaussians_read(&scene, "no/such.ply"));
    assert_string_equal(failure_text(), "no/such.ply: cannot open: No such file or directory");
    assert_false(gaussians_read(&scene, "."));
    assert_string_equal(failure_text(), ".: is a directory");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_little_endian), cmocka_unit_test(test_big_endian),
        cmocka_unit_test(test_ascii),         cmocka_unit_test(test_ascii_crlf),
        cmocka_unit_test(test_every_cut),     cmocka_unit_test(test_no_vertices),
        cmocka_unit_test(test_non_finite),    cmocka_unit_test(test_normalize_rotations),
        cmocka_unit_test(test_broken),        cmocka_unit_test(test_negative_list),
        cmocka_unit_test(test_missing_file),
    };
    return cmocka_run_group_tests(tests, NULL, remove_file);
}

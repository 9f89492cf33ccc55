/* Versions, build info and device reports, parsed with cJSON. */

#include "views.h"

#include "core/json.h"
#include "os/system.h"

#include <cjson/cJSON.h>

#include <stdlib.h>

static const DLDevice cpu = {kDLCPU, 0};

static const char *string_of(const cJSON *object, const char *key) {
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    if (!text) fail_msg("no string %s", key);
    return text;
}

static double number_of(const cJSON *object, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsNumber(item)) fail_msg("no number %s", key);
    return item->valuedouble;
}

static void versions(void **state) {
    int major = -1, minor = -1, patch = -1, end = -1;
    (void)state;
    assert_int_equal(gsplat_c_abi_version(), GSC_ABI_VERSION);
    assert_int_equal(sscanf(gsc_version(), "%d.%d.%d%n", &major, &minor, &patch, &end), 3);
    assert_int_equal(end, strlen(gsc_version()));
    /* From 1.0.0 on the release follows the interface. */
    if (major > 0) assert_int_equal(major, GSC_ABI_MAJOR);
}

static void build_info(void **state) {
    (void)state;
    const char *text = gsc_build_info_json();
    cJSON *info = cJSON_Parse(text);
    assert_non_null(info);
    assert_string_equal(string_of(info, "version"), gsc_version());
    assert_true(strlen(string_of(info, "compiler")) > 0);
    assert_true(strlen(string_of(info, "build_type")) > 0);
    assert_string_equal(string_of(info, "real"), REAL_NAME);
    assert_true(number_of(info, "abi_major") == GSC_ABI_MAJOR);
    assert_true(number_of(info, "abi_minor") == GSC_ABI_MINOR);
    const cJSON *isas = cJSON_GetObjectItemCaseSensitive(info, "cpu_isas");
    assert_true(cJSON_GetArraySize(isas) >= 1);
    assert_true(cJSON_IsString(cJSON_GetArrayItem(isas, 0)));
    assert_true(cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(info, "gpu_targets")));
    cJSON_Delete(info);
    assert_ptr_equal(gsc_build_info_json(), text);
}

static void device_counts(void **state) {
    int32_t count = -1;
    (void)state;
    expect_ok(gsc_device_count(kDLCPU, &count));
    assert_int_equal(count, 1);
    expect_ok(gsc_device_count(kDLCUDA, &count));
    assert_true(count >= 0);
    expect_ok(gsc_device_count(12345, &count));
    assert_int_equal(count, 0);
    expect_failure(gsc_device_count(kDLCPU, NULL), GSC_ERROR_INVALID_ARGUMENT,
                   "device_count: count is NULL");
}

static void report_of_the_cpu(void **state) {
    size_t size = 0;
    (void)state;
    expect_ok(gsc_device_report_json(cpu, NULL, &size));
    assert_true(size > 2);
    char *text = malloc(size);
    assert_non_null(text);
    expect_ok(gsc_device_report_json(cpu, text, &size));
    assert_int_equal(strlen(text) + 1, size);
    cJSON *report = cJSON_Parse(text);
    assert_non_null(report);
    assert_string_equal(string_of(report, "device"), "cpu");
    assert_string_equal(string_of(report, "name"), "CPU");
    assert_true(strlen(string_of(report, "isa")) > 0);
    assert_true(number_of(report, "threads") == gsc__cpu_count());
    assert_true(number_of(report, "memory_bytes") == (double)gsc__memory_bytes());
    const cJSON *limits = cJSON_GetObjectItemCaseSensitive(report, "limits");
    assert_true(number_of(limits, "max_gaussians") == 2147418112);
    assert_true(number_of(limits, "max_knn_k") == 256);
    assert_true(number_of(limits, "max_side") == 1048560);
    cJSON_Delete(report);
    free(text);
}

static void report_into_too_small_a_buffer(void **state) {
    size_t needed = 0;
    (void)state;
    expect_ok(gsc_device_report_json(cpu, NULL, &needed));
    for (size_t given = 0; given < needed; given += 7) {
        char *text = malloc(given + 8), message[128];
        size_t size = given;
        memset(text, '#', given + 8);
        snprintf(message, sizeof message,
                 "device_report_json: buffer has %zu bytes, expected at least %zu", given, needed);
        expect_failure(gsc_device_report_json(cpu, text, &size), GSC_ERROR_BUFFER_TOO_SMALL,
                       message);
        assert_int_equal(size, needed);
        assert_memory_equal(text + given, "########", 8);
        if (given > 0) assert_true(strlen(text) < given);
        free(text);
    }
    expect_failure(gsc_device_report_json(cpu, NULL, NULL), GSC_ERROR_INVALID_ARGUMENT,
                   "device_report_json: size is NULL");
}

static void report_of_other_devices(void **state) {
    size_t size = 0;
    (void)state;
    expect_failure(gsc_device_report_json((DLDevice){kDLCPU, 2}, NULL, &size), GSC_ERROR_NO_DEVICE,
                   "device_report_json: device is cpu:2, expected cpu");
    expect_failure(gsc_device_report_json((DLDevice){kDLROCM, 0}, NULL, &size),
                   GSC_ERROR_UNSUPPORTED,
                   "device_report_json: device is rocm:0, expected cpu or cuda");
}

static void strings_are_escaped(void **state) {
    static const char text[] =
        "a \"quote\", a \\, a \n\t\x01\x1f, \x7f and caf\xc3\xa9 \xf0\x9f\x98\x80";
    char buffer[512];
    (void)state;
    gsc__json json = {.buffer = buffer, .size = sizeof buffer};
    gsc__json_begin(&json, NULL, '{');
    gsc__json_string(&json, text, text);
    gsc__json_begin(&json, "list", '[');
    gsc__json_integer(&json, NULL, INT64_MIN);
    gsc__json_begin(&json, NULL, '{');
    gsc__json_end(&json, '}');
    gsc__json_string(&json, NULL, "");
    gsc__json_end(&json, ']');
    gsc__json_integer(&json, "last", -7);
    gsc__json_end(&json, '}');
    const size_t size = gsc__json_finish(&json);
    assert_int_equal(size, strlen(buffer) + 1);
    cJSON *parsed = cJSON_Parse(buffer);
    assert_non_null(parsed);
    assert_string_equal(string_of(parsed, text), text);
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(parsed, "list");
    assert_int_equal(cJSON_GetArraySize(list), 3);
    assert_true(cJSON_IsObject(cJSON_GetArrayItem(list, 1)));
    assert_true(number_of(parsed, "last") == -7);
    assert_non_null(strstr(buffer, "[-9223372036854775808,{},\"\"]"));
    cJSON_Delete(parsed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions),
        cmocka_unit_test(build_info),
        cmocka_unit_test(device_counts),
        cmocka_unit_test(report_of_the_cpu),
        cmocka_unit_test(report_into_too_small_a_buffer),
        cmocka_unit_test(report_of_other_devices),
        cmocka_unit_test(strings_are_escaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

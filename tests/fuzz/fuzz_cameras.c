/* The reader of cameras.json, and the uses of its cameras. */
#include "../../tools/cameras.h"
#include "../../tools/text.h"
#include "file.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *path = fuzz_file(data, size);
    camera_list cameras;
    if (!cameras_read(&cameras, path)) {
        if (!*failure_text()) abort();
        return 0;
    }
    if (cameras.count == 0 || !cameras_find(&cameras, "0")) abort();
    for (size_t i = 0; i < cameras.count; i++) {
        struct camera *camera = &cameras.items[i];
        float view[16];
        camera_view(camera, (double[3]){0}, view);
        camera_resize(camera, 640, 480);
        if (camera->width != 640 || !cameras_find(&cameras, camera->name)) abort();
    }
    cameras_keep(&cameras, cameras.count - 1);
    cameras_free(&cameras);
    return 0;
}

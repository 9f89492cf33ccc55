/* The PLY reader, and the code that makes a scene from its rows. */
#include "../../tools/gaussians.h"
#include "../../tools/text.h"
#include "file.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every row of every element, not only those of a scene. */
static bool read_all(const char *path) {
    ply file;
    if (!ply_open(&file, path)) return false;
    bool good = true;
    for (size_t i = 0; good && i < file.element_count; i++) {
        const ply_element *element = ply_find(&file, file.elements[i].name);
        double *values = element ? malloc(element->property_count * sizeof *values + 1) : NULL;
        good = values != NULL;
        for (int64_t row = 0; good && element->property_count && row < element->count; row++)
            good = ply_read_row(&file, values);
        file.next_element = i + 1;
        free(values);
    }
    ply_close(&file);
    return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *path = fuzz_file(data, size);
    gaussians scene;
    if (gaussians_read(&scene, path)) {
        gaussians_normalize_rotations(&scene);
        if (scene.non_finite > scene.count || scene.sh_degree > 4) abort();
        gaussians_free(&scene);
    } else if (!*failure_text()) {
        abort();
    }
    if (!read_all(path) && !*failure_text()) abort();
    return 0;
}

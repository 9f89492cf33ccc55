/* Calls of the rasterizer for fuzzing: some Gaussians in front of some cameras. */
#ifndef FUZZ_SCENE_H
#define FUZZ_SCENE_H

#include "tensor.h"

typedef struct fuzz_scene {
    int32_t width, height, channels, cameras;
    int64_t gaussians;
    bool pixel_last, cameras_given;
    gsc_raster_args args;
} fuzz_scene;

/* Of the colour. */
fuzz_shape fuzz_image_shape(const fuzz_scene *scene);

void fuzz_scene_make(fuzz_input *input, fuzz_memory *memory, fuzz_scene *scene);
void fuzz_scene_outputs(fuzz_input *input, fuzz_memory *memory, const fuzz_scene *scene,
                        gsc_raster_outputs *outputs);
void fuzz_scene_grads(fuzz_input *input, fuzz_memory *memory, const fuzz_scene *scene,
                      gsc_raster_grads *grads);

#endif

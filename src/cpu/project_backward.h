/* The last part of backward: from sums for each splat to gradients of Gaussians and camera. */
#ifndef GSC_CPU_PROJECT_BACKWARD_H
#define GSC_CPU_PROJECT_BACKWARD_H

#include "adam.h"
#include "blend_backward.h"
#include "math/splat_grad.h"

/* A splat's sums over the whole frame, as in its slots. */
typedef struct gsc__splat_sums {
    gsc_real moments[GSC__SLOT_FEATURES];
    gsc_real rgb[3]; /* with 3 channels; any other number goes straight to grads->colors */
    gsc_real depth, inv_depth;
} gsc__splat_sums;

#define CHUNK 1024 /* Gaussians whose share of the camera's gradient is summed in order */

typedef struct add_task {
    const gsc__raster_grads *grads;
    const gsc__frame *frame;
    const gsc__listed_splat *splats;
    const gsc__band *band;
    const gsc_real *slots;
    gsc__splat_sums *sums;
    int32_t slot_size;
} add_task;

static void add_slot(const add_task *task, const gsc_real *slot, gsc__splat_sums *sums,
                     gsc_real *color) {
    const int32_t channels = task->frame->raster->channels;
    const gsc_real *feature = slot + GSC__SLOT_FEATURES;
    for (int i = 0; i < GSC__SLOT_FEATURES; ++i) sums->moments[i] += slot[i];
    if (channels == 3)
        for (int c = 0; c < 3; ++c) sums->rgb[c] += feature[c];
    else if (color)
        for (int32_t c = 0; c < channels; ++c) color[c] += feature[c];
    feature += channels;
    if (task->grads->depth) sums->depth += *feature++;
    if (task->grads->inv_depth) sums->inv_depth += *feature;
}

static void add_range(void *arg, int64_t begin, int64_t end, int thread) {
    const add_task *task = arg;
    const gsc__raster *raster = task->frame->raster;
    const uint32_t *slot_offsets = task->band->slot_offsets;
    (void)thread;
    for (int64_t i = begin; i < end; ++i) {
        const uint32_t gaussian = task->splats[i].gaussian;
        gsc_real *color = task->grads->colors;
        if (color)
            color +=
                task->frame->camera * raster->colors_stride + gaussian * (int64_t)raster->channels;
        for (uint32_t s = slot_offsets[i]; s < slot_offsets[i + 1]; ++s)
            add_slot(task, task->slots + (int64_t)s * task->slot_size, &task->sums[gaussian],
                     color);
    }
}

/* Adds the band's slots to sums [N] and, with other than 3 channels, to grads->colors.  A splat's
 * slots are added in tile order, which is the same however the frame is cut into bands. */
static void gsc__add_slots(gsc__pool *pool, const gsc__raster_grads *grads, const gsc__frame *frame,
                           const gsc__listed_splat *splats, const gsc__band *band,
                           const gsc_real *slots, gsc__splat_sums *sums) {
    add_task task = {grads, frame, splats, band, slots, sums, gsc__slot_size(frame->raster, grads)};
    gsc__parallel_for(pool, frame->header->visible, 1024, add_range, &task);
}

/* A chunk's share of the camera's gradients, in double: there are many small ones. */
typedef struct camera_share {
    double view[3][4];
    double position[3];
} camera_share;

typedef struct project_backward_task {
    const gsc__raster_grads *grads;
    const gsc__frame *frame;
    const uint8_t *seen;
    const gsc__splat_sums *sums;
    camera_share *shares;                           /* [chunks] */
    gsc__adam_constants constants[GSC__PARAMETERS]; /* of grads->steps */
    gsc__camera camera;
} project_backward_task;

/* The rows that one Gaussian's gradients are added to, in the order of GSC_PARAMETER_*; NULL: not
 * wanted. */
typedef struct gradient_rows {
    gsc_real *at[GSC__PARAMETERS];
} gradient_rows;

static void splat_grad(const gsc__record *record, const gsc__splat_sums *sums,
                       gsc__splat_grad *out) {
    out->r00 = record->r00;
    out->r01 = record->r01;
    out->r11 = record->r11;
    gsc__moments_grad(sums->moments, out);
    out->opacity = sums->moments[GSC__SLOT_W] / record->opacity;
    out->depth = sums->depth - sums->inv_depth / (record->depth * record->depth);
}

static void write_means2d(const project_backward_task *task, int64_t i, const gsc__splat_sums *sums,
                          const gsc__splat_grad *splat) {
    const gsc__raster_grads *grads = task->grads;
    const gsc_real two_ln2 = 1 / GSC__HALF_LOG2_E;
    const bool ndc = (task->frame->raster->flags & GSC_RASTER_GRAD2D_NDC) != 0;
    const gsc_real unit[2] = {ndc ? task->camera.width / 2 : 1, ndc ? task->camera.height / 2 : 1};
    const int64_t at = task->frame->camera * task->frame->raster->gaussians + i;
    for (int axis = 0; axis < 2; ++axis) {
        if (grads->means2d)
            grads->means2d[at * grads->means2d_axes + axis] += splat->mean[axis] * unit[axis];
        if (grads->means2d_abs)
            grads->means2d_abs[at * grads->means2d_abs_axes + axis] +=
                two_ln2 * sums->moments[GSC__SLOT_ABS_X + axis] * unit[axis];
    }
}

/* Spherical harmonics: the coefficients and, through the direction, the mean and the camera's
 * centre. */
static void sh_grad(const project_backward_task *task, int64_t i, const gsc__record *record,
                    const gsc__splat_sums *sums, const gradient_rows *rows, gsc_real grad_mean[3]) {
    const gsc__raster *raster = task->frame->raster;
    const int count = (raster->sh_degree + 1) * (raster->sh_degree + 1);
    gsc_real direction[3], basis[GSC__SH_MAX_COEFFICIENTS], weight[GSC__SH_MAX_COEFFICIENTS];
    gsc_real g[3];
    for (int c = 0; c < 3; ++c) g[c] = record->unclamped >> c & 1 ? sums->rgb[c] : 0;
    gsc_real inverse = gsc__sh_direction(raster->means + 3 * i, task->camera.position, direction);
    gsc__sh_basis(raster->sh_degree, direction, basis);
    const int64_t row = 3 * raster->sh_coefficients * i;
    const int split = raster->sh_dc != NULL;
    gsc_real *grad_sh = rows->at[GSC_PARAMETER_SH - 1];
    gsc_real *grad_dc = split ? rows->at[GSC_PARAMETER_SH_DC - 1] : grad_sh;
    if (grad_dc)
        for (int c = 0; c < 3; ++c) grad_dc[c] += basis[0] * g[c];
    if (grad_sh)
        for (int k = 1; k < count; ++k)
            for (int c = 0; c < 3; ++c) grad_sh[3 * (k - split) + c] += basis[k] * g[c];
    for (int k = 1; k < count; ++k) {
        const gsc_real *sh = raster->sh + row + 3 * (k - split);
        weight[k] = gsc__dot3(g, sh);
    }
    gsc__sh_mean_grad(raster->sh_degree, direction, inverse, weight, grad_mean);
}

static void add(gsc_real *row, const gsc_real *values, int count) {
    for (int k = 0; k < count && row; ++k) row[k] += values[k];
}

static void add_gaussian(const gradient_rows *rows, const gsc__gaussian_grad *g) {
    add(rows->at[GSC_PARAMETER_MEANS - 1], g->mean, 3);
    add(rows->at[GSC_PARAMETER_OPACITIES - 1], &g->opacity, 1);
    add(rows->at[GSC_PARAMETER_SCALES - 1], g->scale, 3);
    add(rows->at[GSC_PARAMETER_ROTATIONS - 1], g->rotation, 4);
    add(rows->at[GSC_PARAMETER_COVARIANCES - 1], g->covariance, 6);
}

/* From the activated values to the stored ones. */
static void activation_grad(const gsc__raster *raster, int64_t i, const gsc__projection *p,
                            gsc__gaussian_grad *g) {
    if (raster->flags & GSC_RASTER_LOG_SCALES)
        for (int k = 0; k < 3; ++k) g->scale[k] *= p->scale[k] / raster->scale_modifier;
    if (raster->flags & GSC_RASTER_LOGIT_OPACITIES)
        g->opacity *= gsc__sigmoid_grad(raster->opacities[i]);
}

static void gaussian_grad(const project_backward_task *task, int64_t i, const gradient_rows *rows,
                          camera_share *share) {
    const gsc__raster *raster = task->frame->raster;
    const gsc__record *record = &task->frame->records[i];
    const gsc__splat_sums *sums = &task->sums[i];
    gsc__projection p;
    gsc__splat_grad splat;
    gsc__gaussian_grad g;
    splat_grad(record, sums, &splat);
    write_means2d(task, i, sums, &splat);
    if (!gsc__project_gaussian(raster, &task->camera, i, &p)) return;
    const gsc__gaussian gaussian = {.mean = raster->means + 3 * i,
                                    .rotation =
                                        raster->rotations ? raster->rotations + 4 * i : NULL,
                                    .scale_modifier = raster->scale_modifier,
                                    .opacity = gsc__gaussian_opacity(raster, i)};
    gsc__project_grad(&task->camera, &gaussian, &p, &splat, &g);
    activation_grad(raster, i, &p, &g);
    if (raster->colors) {
        if (raster->channels == 3) add(rows->at[GSC_PARAMETER_COLORS - 1], sums->rgb, 3);
    } else {
        gsc_real grad_mean[3];
        sh_grad(task, i, record, sums, rows, grad_mean);
        for (int k = 0; k < 3; ++k) {
            g.mean[k] += grad_mean[k];
            share->position[k] -= (double)grad_mean[k];
        }
    }
    add_gaussian(rows, &g);
    for (int r = 0; r < 3; ++r)
        for (int k = 0; k < 4; ++k) share->view[r][k] += (double)g.view[r][k];
}

static gradient_rows rows_in_memory(const project_backward_task *task, int64_t i) {
    const gsc__raster *raster = task->frame->raster;
    const gsc__raster_grads *grads = task->grads;
    const struct {
        gsc_real *to;
        int64_t at;
    } all[GSC__PARAMETERS] = {
        [GSC_PARAMETER_MEANS - 1] = {grads->means, 3 * i},
        [GSC_PARAMETER_OPACITIES - 1] = {grads->opacities, i},
        [GSC_PARAMETER_SCALES - 1] = {grads->scales, 3 * i},
        [GSC_PARAMETER_ROTATIONS - 1] = {grads->rotations, 4 * i},
        [GSC_PARAMETER_COVARIANCES - 1] = {grads->covariances, 6 * i},
        [GSC_PARAMETER_COLORS - 1] = {grads->colors,
                                      task->frame->camera * raster->colors_stride + 3 * i},
        [GSC_PARAMETER_SH - 1] = {grads->sh, 3 * raster->sh_coefficients * i},
        [GSC_PARAMETER_SH_DC - 1] = {grads->sh_dc, 3 * i}};
    gradient_rows rows;
    for (int k = 0; k < GSC__PARAMETERS; ++k) rows.at[k] = all[k].to ? all[k].to + all[k].at : NULL;
    return rows;
}

/* --------------------------------------------------------------------- steps */

enum { ROW_MAX = 3 * GSC__SH_MAX_COEFFICIENTS }; /* elements of a row that have a gradient */

static bool is_stepped(const gsc__raster_steps *steps, int64_t i) {
    if (!steps->radii) return true;
    const int32_t *radii = steps->radii + steps->radii_axes * i;
    return radii[0] > 0 || radii[steps->radii_axes - 1] > 0;
}

static void step_row(const gsc__adam_group *group, const gsc__adam_constants *constants, int64_t i,
                     const gsc_real gradient[ROW_MAX]) {
    static const gsc_real zeros[ROW_MAX];
    for (int64_t at = 0; at < group->row_size; at += ROW_MAX) {
        const int64_t left = group->row_size - at;
        gsc__adam_elements(group, constants, at == 0 ? gradient : zeros, i * group->row_size + at,
                           left < ROW_MAX ? left : ROW_MAX);
    }
}

/* Gradients of stepped parameters stay inside this function. */
static void step_gaussian(const project_backward_task *task, int64_t i, camera_share *share) {
    const gsc__raster_steps *steps = task->grads->steps;
    const bool stepped = is_stepped(steps, i);
    gsc_real gradients[GSC__PARAMETERS][ROW_MAX];
    if (!task->seen[i] && !stepped) return;
    gradient_rows rows = rows_in_memory(task, i);
    for (int k = 0; k < GSC__PARAMETERS; ++k) {
        if (!steps->groups[k].parameter) continue;
        rows.at[k] = gradients[k];
        memset(gradients[k], 0, sizeof gradients[k]);
    }
    if (task->seen[i]) gaussian_grad(task, i, &rows, share);
    for (int k = 0; k < GSC__PARAMETERS && stepped; ++k)
        if (steps->groups[k].parameter)
            step_row(&steps->groups[k], &task->constants[k], i, gradients[k]);
}

static void visit_gaussian(const project_backward_task *task, int64_t i, camera_share *share) {
    if (task->grads->steps) {
        step_gaussian(task, i, share);
    } else if (task->seen[i]) {
        const gradient_rows rows = rows_in_memory(task, i);
        gaussian_grad(task, i, &rows, share);
    }
}

static void visit_chunks(void *arg, int64_t begin, int64_t end, int thread) {
    const project_backward_task *task = arg;
    (void)thread;
    for (int64_t chunk = begin; chunk < end; ++chunk) {
        int64_t first = chunk * CHUNK, last = first + CHUNK;
        if (last > task->frame->raster->gaussians) last = task->frame->raster->gaussians;
        camera_share *share = &task->shares[chunk];
        memset(share, 0, sizeof *share);
        for (int64_t i = first; i < last; ++i) visit_gaussian(task, i, share);
    }
}

/* Adds the chunks' shares, in order, to the gradients with respect to view and position.  A
 * camera without a position has its centre at -R^T t, whose gradient belongs to the view. */
static void add_camera(const project_backward_task *task, int64_t chunks) {
    const gsc__raster *raster = task->frame->raster;
    camera_share sum = {0};
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        for (int i = 0; i < 12; ++i)
            sum.view[i / 4][i % 4] += task->shares[chunk].view[i / 4][i % 4];
        for (int i = 0; i < 3; ++i) sum.position[i] += task->shares[chunk].position[i];
    }
    if (task->grads->position)
        for (int i = 0; i < 3; ++i)
            task->grads->position[3 * task->frame->camera + i] += (gsc_real)sum.position[i];
    if (!task->grads->view) return;
    for (int i = 0; i < 3 && !raster->camera.position; ++i)
        for (int k = 0; k < 3; ++k) {
            sum.view[i][k] -= (double)task->camera.translation[i] * sum.position[k];
            sum.view[i][3] -= (double)task->camera.rotation[i][k] * sum.position[k];
        }
    const bool row_major = (raster->flags & GSC_RASTER_VIEW_ROW_MAJOR) != 0;
    gsc_real *view = task->grads->view + 16 * (int64_t)task->frame->camera;
    for (int i = 0; i < 3; ++i)
        for (int k = 0; k < 4; ++k)
            view[row_major ? 4 * i + k : 4 * k + i] += (gsc_real)sum.view[i][k];
}

static size_t gsc__project_backward_scratch_bytes(const gsc__raster *raster) {
    return (size_t)((raster->gaussians + CHUNK - 1) / CHUNK) * sizeof(camera_share);
}

/* Adds the camera's part to every gradient that is wanted, except background, and makes the
 * steps of grads.  seen: [N] 1 for the visible; scratch:
 * gsc__project_backward_scratch_bytes. */
static void gsc__project_backward_frame(gsc__pool *pool, const gsc__raster_grads *grads,
                                        const gsc__frame *frame, const uint8_t *seen,
                                        const gsc__splat_sums *sums, void *scratch) {
    const gsc__raster *raster = frame->raster;
    const int64_t chunks = (raster->gaussians + CHUNK - 1) / CHUNK;
    project_backward_task task = {
        .grads = grads, .frame = frame, .seen = seen, .sums = sums, .shares = scratch};
    for (int k = 0; k < GSC__PARAMETERS && grads->steps; ++k)
        task.constants[k] = gsc__adam_constants_of(&grads->steps->groups[k]);
    gsc__camera_load(raster, frame->camera, &task.camera);
    gsc__parallel_for(pool, chunks, 1, visit_chunks, &task);
    add_camera(&task, chunks);
}

#endif

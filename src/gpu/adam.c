#include "gpu.h"

/* With fewer blocks than this, blocks take fewer rows, but not below FEWEST_ROWS. */
enum { BLOCKS = 1024, FEWEST_ROWS = 16 };

/* ------------------------------------------------------------------- every row */

static gsc__gpu_adam_group group_args(const gsc__adam_group *group) {
    return (gsc__gpu_adam_group){
        .parameter = group->parameter,
        .moment1 = group->moment1,
        .moment2 = group->moment2,
        .gradient = group->gradient,
        .count = group->rows * group->row_size,
        .vectors = gsc__gpu_is_aligned(group->parameter) && gsc__gpu_is_aligned(group->moment1) &&
                   gsc__gpu_is_aligned(group->moment2) && gsc__gpu_is_aligned(group->gradient),
        .constants = gsc__adam_constants_of(group)};
}

/* Launches of at most GSC__ADAM_GROUPS groups and INT32_MAX blocks. */
static gsc_status step_all(const gsc__call *call, const gsc__adam *adam) {
    const gsc__adam_group *groups = adam->groups;
    gsc_k_adam args;
    int32_t next = 0;
    while (next < adam->count) {
        int64_t end = 0;
        memset(&args, 0, sizeof args);
        for (; next < adam->count && args.count < GSC__ADAM_GROUPS; ++next) {
            const int64_t elements = groups[next].rows * groups[next].row_size;
            const int64_t blocks = (elements + GSC__ADAM_CHUNK - 1) / GSC__ADAM_CHUNK;
            if (args.count > 0 && end + blocks > INT32_MAX) break;
            if (blocks > INT32_MAX) {
                return gsc__fail(GSC_ERROR_OVERFLOW,
                                 "%s: groups[%d] has %lld elements, expected at most %lld",
                                 call->function, next, (long long)elements,
                                 (long long)INT32_MAX * GSC__ADAM_CHUNK);
            }
            if (blocks == 0) continue;
            end += blocks;
            args.groups[args.count] = group_args(&groups[next]);
            args.groups[args.count++].block_end = (uint32_t)end;
        }
        GSC__TRY(LAUNCH(adam, call, (uint32_t)end, args));
    }
    return GSC_OK;
}

/* ---------------------------------------------------------------- visible rows */

static gsc__gpu_adam_columns columns_args(const gsc__adam_group *group, int64_t first,
                                          uint32_t width) {
    return (gsc__gpu_adam_columns){.parameter = group->parameter + first,
                                   .moment1 = group->moment1 + first,
                                   .moment2 = group->moment2 + first,
                                   .gradient = group->gradient + first,
                                   .row_size = group->row_size,
                                   .width = width,
                                   .reciprocal = ((1u << 31) + width - 1) / width,
                                   .constants = gsc__adam_constants_of(group)};
}

/* Blocks take fewer rows where rows are wide, and where there are so few that most of a device
 * would be idle.  row_elements: of all columns. */
static gsc_status launch_rows(const gsc__call *call, gsc_k_adam_rows *args, int64_t row_elements) {
    uint32_t rows = GSC__ADAM_ROWS;
    for (uint32_t i = 0; i < args->count; ++i)
        if (args->columns[i].row_size > GSC__ADAM_CAPACITY) rows = 1;
    while (rows > 1 && rows * row_elements > GSC__ADAM_CAPACITY) rows /= 2;
    while (rows > FEWEST_ROWS && args->rows / rows < BLOCKS) rows /= 2;
    const int64_t slices = (rows * row_elements + GSC__ADAM_CAPACITY - 1) / GSC__ADAM_CAPACITY;
    const int64_t blocks = (args->rows + rows - 1) / rows;
    if (blocks > INT32_MAX / slices) {
        return gsc__fail(GSC_ERROR_OVERFLOW, "%s: visible has %lld rows, expected at most %lld",
                         call->function, (long long)args->rows,
                         (long long)(INT32_MAX / slices * rows));
    }
    args->block_rows = rows;
    args->slices = (uint32_t)slices;
    return LAUNCH(adam_rows, call, (uint32_t)(blocks * slices), *args);
}

/* Launches of at most GSC__ADAM_GROUPS groups, or that many parts of wide groups.  Groups without
 * elements have no rows, all others as many as the mask. */
static gsc_status step_visible(const gsc__call *call, const gsc__adam *adam) {
    gsc_k_adam_rows args;
    int64_t column = 0;
    int32_t next = 0;
    while (next < adam->count) {
        int64_t row_elements = 0;
        memset(&args, 0, sizeof args);
        args.visible = adam->visible.data;
        args.visible_bytes = adam->visible.bytes;
        while (next < adam->count && args.count < GSC__ADAM_GROUPS) {
            const gsc__adam_group *group = &adam->groups[next];
            const int64_t left = group->rows > 0 ? group->row_size - column : 0;
            const int64_t width = left < GSC__ADAM_CAPACITY ? left : GSC__ADAM_CAPACITY;
            if (width > 0) {
                args.rows = group->rows;
                args.columns[args.count++] = columns_args(group, column, (uint32_t)width);
                row_elements += width;
            }
            column = width < left ? column + width : 0;
            if (column == 0) ++next;
        }
        if (args.count > 0) GSC__TRY(launch_rows(call, &args, row_elements));
    }
    return GSC_OK;
}

gsc_status gsc__gpu_adam_step(const gsc__call *call, const gsc__adam *adam) {
    return adam->visible.data ? step_visible(call, adam) : step_all(call, adam);
}

/* Adam (Kingma and Ba, "Adam: a method for stochastic optimization", 2015) and AdamW
 * (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019).
 *
 * Memory bandwidth limits the step: each element moves seven values for twelve operations.  So
 * all groups are one sequence of blocks for the threads, each element is read and written once,
 * and rows that are not visible are not touched at all.
 *
 * Elements are computed in the tensor's own precision. */
#ifndef GSC_CPU_ADAM_H
#define GSC_CPU_ADAM_H

#include "cpu.h"
#include "math/splat_math.h"

enum { ADAM_BLOCK = 1 << 14 /* elements that a thread takes at once */ };

/* Steps the elements from `first` on; gradient: [count].  Not inlined: adam_step and train_step use
 * this one copy, so they agree to the last bit. */
__attribute__((noinline)) static void gsc__adam_elements(const gsc__adam_group *group,
                                                         const gsc__adam_constants *constants,
                                                         const gsc_real *restrict gradient,
                                                         int64_t first, int64_t count) {
    gsc_real *restrict parameter = group->parameter + first;
    gsc_real *restrict moment1 = group->moment1 + first;
    gsc_real *restrict moment2 = group->moment2 + first;
    const gsc__adam_constants c = *constants;
    for (int64_t i = 0; i < count; ++i) {
        const gsc_real p = parameter[i];
        const gsc_real g = c.decay != 0 ? gradient[i] + c.decay * p : gradient[i];
        const gsc_real m = c.beta1 * moment1[i] + c.complement1 * g;
        const gsc_real v = c.beta2 * moment2[i] + c.complement2 * (g * g);
        moment1[i] = m;
        moment2[i] = v;
        parameter[i] = c.keep * p - c.step_size * m / (gsc__sqrt(v) * c.root_scale + c.epsilon);
    }
}

static bool row_is_visible(const gsc__visible_rows *visible, int64_t row) {
    if (visible->bytes == 1) return ((const uint8_t *)visible->data)[row] != 0;
    return ((const int32_t *)visible->data)[row] != 0;
}

/* Elements [begin, end) in visible rows; neighbouring rows are done together. */
static void step_visible(const gsc__adam_group *group, const gsc__adam_constants *k,
                         const gsc__visible_rows *visible, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end;) {
        int64_t row = i / group->row_size;
        const bool wanted = row_is_visible(visible, row);
        int64_t next = (row + 1) * group->row_size;
        while (next < end && row_is_visible(visible, ++row) == wanted) next += group->row_size;
        if (next > end) next = end;
        if (wanted) gsc__adam_elements(group, k, group->gradient + i, i, next - i);
        i = next;
    }
}

typedef struct adam_task {
    const gsc__adam *adam;
    int64_t *first_block; /* [count + 1] of each group */
} adam_task;

/* The group that a block belongs to: the last that begins at or before it. */
static int32_t group_of_block(const adam_task *task, int64_t block) {
    int32_t low = 0, high = task->adam->count;
    while (high - low > 1) {
        const int32_t middle = low + (high - low) / 2;
        if (task->first_block[middle] <= block)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void step_blocks(void *arg, int64_t begin, int64_t end, int thread) {
    const adam_task *task = arg;
    const gsc__visible_rows *visible = &task->adam->visible;
    (void)thread;
    for (int64_t block = begin; block < end; ++block) {
        const int32_t index = group_of_block(task, block);
        const gsc__adam_group *group = &task->adam->groups[index];
        const gsc__adam_constants k = gsc__adam_constants_of(group);
        const int64_t elements = group->rows * group->row_size;
        const int64_t first = (block - task->first_block[index]) * ADAM_BLOCK;
        const int64_t last = first + ADAM_BLOCK < elements ? first + ADAM_BLOCK : elements;
        if (visible->data)
            step_visible(group, &k, visible, first, last);
        else
            gsc__adam_elements(group, &k, group->gradient + first, first, last - first);
    }
}

static gsc_status gsc__cpu_adam_step(const gsc__call *call, const gsc__adam *adam) {
    const int32_t count = adam->count;
    gsc__workspace workspace = {.call = *call};
    void *memory;
    GSC__TRY(
        gsc__workspace_take(&workspace, "scratch", ((size_t)count + 1) * sizeof(int64_t), &memory));
    adam_task task = {adam, memory};
    task.first_block[0] = 0;
    for (int32_t i = 0; i < count; ++i) {
        const int64_t elements = adam->groups[i].rows * adam->groups[i].row_size;
        task.first_block[i + 1] = task.first_block[i] + (elements + ADAM_BLOCK - 1) / ADAM_BLOCK;
    }
    gsc__parallel_for(gsc__cpu_pool(call->context), task.first_block[count], 1, step_blocks, &task);
    gsc__workspace_release(&workspace);
    return GSC_OK;
}

#endif

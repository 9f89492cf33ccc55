/* Adam (Kingma and Ba, "Adam: a method for stochastic optimization", 2015) and AdamW
 * (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019).
 *
 * The step is bound by memory: seven values of an element are moved for twelve
 * operations.  So all groups are one sequence of pieces for the threads, every element
 * is read and written once, and rows that are not visible are not touched at all.
 *
 * What is constant for a group is computed in double precision and rounded once; what
 * is per element is computed in the tensor's own precision. */
#include "adam.h"

#include "math/splat_math.h"

enum { PIECE = 1 << 14 /* elements that a thread takes at a time */ };

gsc__adam_constants gsc__adam_constants_of(const gsc__adam_group *group) {
    double correction1 = 1, correction2 = 1;
    if (group->step > 0) {
        correction1 = 1 - pow(group->beta1, group->step);
        correction2 = 1 - pow(group->beta2, group->step);
    }
    return (gsc__adam_constants){
        .decay = (gsc_real)(group->decoupled ? 0 : group->weight_decay),
        .keep = (gsc_real)(group->decoupled ? 1 - group->lr * group->weight_decay : 1),
        .beta1 = (gsc_real)group->beta1,
        .beta2 = (gsc_real)group->beta2,
        .complement1 = (gsc_real)(1 - group->beta1),
        .complement2 = (gsc_real)(1 - group->beta2),
        .step_size = (gsc_real)(group->lr / correction1),
        .root_scale = (gsc_real)(1 / sqrt(correction2)),
        .epsilon = (gsc_real)group->epsilon};
}

void gsc__adam_elements(const gsc__adam_group *group, const gsc__adam_constants *constants,
                        const gsc_real *restrict gradient, int64_t first, int64_t count) {
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

/* Elements [begin, end) of a group that has a gradient. */
static void step_elements(const gsc__adam_group *group, const gsc__adam_constants *k, int64_t begin,
                          int64_t end) {
    gsc__adam_elements(group, k, group->gradient + begin, begin, end - begin);
}

static bool row_is_visible(const gsc__visible_rows *visible, int64_t row) {
    if (visible->bytes == 1) return ((const uint8_t *)visible->data)[row] != 0;
    return ((const int32_t *)visible->data)[row] != 0;
}

/* The same, only in visible rows; neighbouring ones are done together. */
static void step_visible(const gsc__adam_group *group, const gsc__adam_constants *k,
                         const gsc__visible_rows *visible, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end;) {
        int64_t row = i / group->row_size;
        const bool wanted = row_is_visible(visible, row);
        int64_t next = (row + 1) * group->row_size;
        while (next < end && row_is_visible(visible, ++row) == wanted) next += group->row_size;
        if (next > end) next = end;
        if (wanted) step_elements(group, k, i, next);
        i = next;
    }
}

typedef struct adam_job {
    const gsc__adam_group *groups;
    int32_t count;
    const gsc__visible_rows *visible;
    const int64_t *first_piece; /* [count + 1] of each group */
} adam_job;

/* The group that a piece belongs to: the last that begins at it or before. */
static int32_t group_of_piece(const adam_job *job, int64_t piece) {
    int32_t low = 0, high = job->count;
    while (high - low > 1) {
        const int32_t middle = low + (high - low) / 2;
        if (job->first_piece[middle] <= piece)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void step_pieces(void *arg, int64_t begin, int64_t end, int thread) {
    const adam_job *job = (const adam_job *)arg;
    (void)thread;
    for (int64_t piece = begin; piece < end; ++piece) {
        const int32_t index = group_of_piece(job, piece);
        const gsc__adam_group *group = &job->groups[index];
        const gsc__adam_constants k = gsc__adam_constants_of(group);
        const int64_t elements = group->rows * group->row_size;
        const int64_t first = (piece - job->first_piece[index]) * PIECE;
        const int64_t last = first + PIECE < elements ? first + PIECE : elements;
        if (job->visible->data)
            step_visible(group, &k, job->visible, first, last);
        else
            step_elements(group, &k, first, last);
    }
}

gsc_status gsc__cpu_adam_step(const gsc__call *call, const gsc__adam *adam) {
    gsc_context *context = call->context;
    void *stream = call->stream;
    const gsc__adam_group *groups = adam->groups;
    const int32_t count = adam->count;
    const gsc__visible_rows *visible = &adam->visible;
    const size_t bytes = ((size_t)count + 1) * sizeof(int64_t);
    void *memory;
    GSC__TRY(gsc__context_alloc(context, bytes, "adam_step: scratch", stream, &memory));
    int64_t *first_piece = (int64_t *)memory;
    first_piece[0] = 0;
    for (int32_t i = 0; i < count; ++i)
        first_piece[i + 1] =
            first_piece[i] + (groups[i].rows * groups[i].row_size + PIECE - 1) / PIECE;
    adam_job job = {groups, count, visible, first_piece};
    gsc__parallel_for(gsc__cpu_pool(context), first_piece[count], 1, step_pieces, &job);
    gsc__context_release(context, memory, bytes, stream);
    return GSC_OK;
}

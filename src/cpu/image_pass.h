/* One pass over a pair of images that yields any of: the SSIM map, weighted sums of SSIM, |x - y|
 * and (x - y)^2, and the gradient of a combination of these sums.  It works on tiles and keeps
 * nothing as large as the image.
 *
 * Each tile of the image streams through two rings of rows.  Pixels enter the first; its columns
 * are filtered, then the rows of the result, which gives a row of the SSIM map and of its partial
 * derivatives.  These enter the second ring, and the same two filters turn them into a row of the
 * gradient.  The rings stay in the nearest caches; each image is read once and the gradient
 * written once.
 *
 * In a margin of one radius around a tile, its neighbours compute the same partial derivatives
 * again.  That keeps tiles independent: neither their order nor the number of threads changes a
 * result, and each can subtract a level of its own from its pixels (see ssim_filter.h). */
#ifndef GSC_CPU_IMAGE_PASS_H
#define GSC_CPU_IMAGE_PASS_H

#include "image_rows.h"
#include "ssim_filter.h"

/* Indices of gsc__image_pass.sums and .upstream. */
enum { GSC__SUM_L1, GSC__SUM_L2, GSC__SUM_SSIM, GSC__SUM_COUNT };

typedef struct gsc__image_pass {
    gsc__image_pair pair;  /* x and y */
    bool ssim;             /* wanted: map or sum of SSIM, or its gradient */
    bool pointwise;        /* wanted: the sums of |x - y| and (x - y)^2, or their gradients */
    gsc__image weight;     /* of each pixel or window; data NULL: 1 */
    int32_t weight_origin; /* row and column of the image that weight starts at */
    gsc_real *map;         /* dense [B, C, H, W], or of the inside windows; NULL: not wanted */
    gsc_real upstream[GSC__SUM_COUNT]; /* derivative of the result with respect to each sum */
    gsc__image grad_target;            /* data NULL: not wanted; else SSIM's only */
    double sums[GSC__SUM_COUNT];       /* out */
} gsc__image_pass;

enum {
    TILE_WIDTH = 128,
    TILE_HEIGHT = 64,
    LEVEL_STEP = 4,   /* every 4th row is enough for a tile's level */
    PREFETCH_ROWS = 8 /* that a row is fetched ahead */
};

typedef struct image_tile {
    const gsc__image_pass *pass;
    ssim_terms terms;
    int64_t b, c;
    int x0, y0, x1, y1; /* of the image */
    bool differentiate; /* SSIM's gradient is wanted */
    int margin;         /* rows and columns of the map that it needs around the tile */
    int inside_x0, inside_y0, inside_x1, inside_y1; /* where the map exists */
    double sums[GSC__SUM_COUNT];

    int stride;         /* of rows in the scratch memory */
    gsc_real *inputs;   /* ring [2 radius + SSIM_ROWS][SSIM_FIELDS][stride] */
    gsc_real *partials; /* ring [2 radius + 2 SSIM_ROWS][SSIM_FIELDS][stride] */
    gsc_real *columns;  /* [SSIM_FIELDS][SSIM_ROWS][stride] filtered vertically */
    gsc_real *x, *y, *weight, *row, *row2, *grad_x, *grad_y; /* [stride] */
} image_tile;

static int min_int(int a, int b) {
    return a < b ? a : b;
}
static int max_int(int a, int b) {
    return a > b ? a : b;
}

static int input_slots(int radius) {
    return 2 * radius + SSIM_ROWS;
}
static int partial_slots(int radius) {
    return 2 * radius + 2 * SSIM_ROWS;
}

/* Reals in a row: a tile with two margins, and a vector that begins on its last column. */
static int row_stride(int radius) {
    return (TILE_WIDTH + 4 * radius + 2 * GSC__LANES) / GSC__LANES * GSC__LANES;
}

static size_t carve_tile(image_tile *t, void *base) {
    const int radius = t->terms.radius;
    const size_t row = (size_t)row_stride(radius), fields = SSIM_FIELDS * row;
    gsc__carver carver = {.base = base};
    t->stride = (int)row;
    t->inputs = gsc__carve(&carver, (size_t)input_slots(radius) * fields, sizeof(gsc_real));
    t->partials = gsc__carve(&carver, (size_t)partial_slots(radius) * fields, sizeof(gsc_real));
    t->columns = gsc__carve(&carver, SSIM_ROWS * fields, sizeof(gsc_real));
    gsc_real **rows[] = {&t->x, &t->y, &t->weight, &t->row, &t->row2, &t->grad_x, &t->grad_y};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i)
        *rows[i] = gsc__carve(&carver, row, sizeof(gsc_real));
    return carver.at;
}

/* --------------------------------------------------------------------- rows */

static void read_pixels(const image_tile *t, const gsc__image *image, int y, int x, int n,
                        gsc_real *out) {
    image_row_read(image, GSC_REAL(255.0), t->b, t->c, y, x, n, out);
}

/* Columns [x, x + n) of row y less level; zero outside the image. */
static void read_padded(const image_tile *t, const gsc__image *image, int y, int x, int n,
                        gsc_real level, gsc_real *restrict out) {
    const int width = t->pass->pair.width;
    int first = x < 0 ? -x : 0, last = x + n > width ? width - x : n;
    if (y < 0 || y >= t->pass->pair.height) first = last = 0;
    if (first < last) read_pixels(t, image, y, x + first, last - first, out + first);
    for (int i = 0; i < first; ++i) out[i] = 0;
    for (int i = last; i < n; ++i) out[i] = 0;
    for (int i = 0; i < n; ++i) out[i] -= level;
}

/* Weights of columns [first, last) of row y. */
static void read_weight(const image_tile *t, int y, int first, int last, gsc_real *out) {
    const gsc__image *weight = &t->pass->weight;
    const int origin = t->pass->weight_origin;
    if (weight->data)
        image_row_read(weight, 1, t->b, t->c, y - origin, first - origin, last - first, out);
    else
        for (int i = 0; i < last - first; ++i) out[i] = 1;
}

/* Fetches the part of row y that the tile is going to touch, if there is such a row. */
GSC__INLINE void prefetch(const image_tile *t, const gsc__image *image, int y) {
    const int x1 = min_int(t->x1 + t->margin + t->terms.radius, t->pass->pair.width);
    if (y < 0 || y >= t->pass->pair.height) return;
    image_row_prefetch(image, t->b, t->c, y, t->x0, x1);
}

static void write_pixels(const image_tile *t, const gsc__image *image, int y, const gsc_real *row) {
    if (!image->data) return;
    prefetch(t, image, y + PREFETCH_ROWS);
    image_row_write(image, t->b, t->c, y, t->x0, t->x1 - t->x0, row);
}

/* The mean of the tile's pixels; 0 if it is not finite, so that a NaN spoils only the windows that
 * contain it. */
static gsc_real tile_level(const image_tile *t, const gsc__image *image) {
    const int n = t->x1 - t->x0;
    double sum = 0;
    int rows = 0;
    for (int y = t->y0; y < t->y1; y += LEVEL_STEP) prefetch(t, image, y);
    for (int y = t->y0; y < t->y1; y += LEVEL_STEP, ++rows) {
        read_pixels(t, image, y, t->x0, n, t->row);
        sum += image_row_sum(t->row, n);
    }
    const gsc_real level = (gsc_real)(sum / ((double)rows * n));
    return isfinite(level) ? level : 0;
}

/* --------------------------------------------------------------------- SSIM */

/* Rows of the map are counted from y0 - margin, rows of pixels from a radius before. */

static gsc_real *input_row(const image_tile *t, int i, int field) {
    const int slot = i % input_slots(t->terms.radius);
    return t->inputs + (ptrdiff_t)(slot * SSIM_FIELDS + field) * t->stride;
}

static gsc_real *partial_row(const image_tile *t, int i, int field) {
    const int slot = i % partial_slots(t->terms.radius);
    return t->partials + (ptrdiff_t)(slot * SSIM_FIELDS + field) * t->stride;
}

static gsc_real *column_row(const image_tile *t, int i, int field) {
    return t->columns + (ptrdiff_t)(field * SSIM_ROWS + i) * t->stride;
}

static void load_input(const image_tile *t, int i) {
    const gsc__image_pass *pass = t->pass;
    const int reach = t->margin + t->terms.radius;
    const int y = t->y0 - reach + i, x = t->x0 - reach, n = t->x1 - t->x0 + 2 * reach;
    gsc_real *restrict first = input_row(t, i, FIELD_X);
    gsc_real *restrict second = input_row(t, i, FIELD_Y);
    gsc_real *restrict squares = input_row(t, i, FIELD_SQUARES);
    gsc_real *restrict product = input_row(t, i, FIELD_PRODUCT);
    prefetch(t, &pass->pair.image, y + PREFETCH_ROWS);
    prefetch(t, &pass->pair.target, y + PREFETCH_ROWS);
    read_padded(t, &pass->pair.image, y, x, n, t->terms.level_x, first);
    read_padded(t, &pass->pair.target, y, x, n, t->terms.level_y, second);
    for (int k = 0; k < n; ++k) {
        squares[k] = first[k] * first[k] + second[k] * second[k];
        product[k] = first[k] * second[k];
    }
}

/* Filters the columns of `fields` fields of a ring from its row i on. */
static void filter_ring(const image_tile *t, gsc_real *(*ring_row)(const image_tile *, int, int),
                        int i, int fields, int count) {
    const gsc_real *rows[2 * SSIM_RADIUS_MAX + SSIM_ROWS];
    for (int field = 0; field < fields; ++field) {
        for (int k = 0; k < 2 * t->terms.radius + SSIM_ROWS; ++k)
            rows[k] = ring_row(t, i + k, field);
        SSIM_BY_RADIUS(&t->terms, filter_columns, rows, &t->terms, count, column_row(t, 0, field),
                       t->stride);
    }
}

static void store_map(const image_tile *t, int y, int first, int last, const gsc_real *row) {
    const gsc__image_pass *pass = t->pass;
    const int64_t width = t->inside_x1 - t->inside_x0, height = t->inside_y1 - t->inside_y0;
    const int64_t plane = t->b * pass->pair.channels + t->c;
    gsc_real *map = pass->map + (plane * height + y - t->inside_y0) * width;
    memcpy(map + first - t->inside_x0, row, (size_t)(last - first) * sizeof *row);
}

/* Clears the partial derivatives of row i outside columns [first, last). */
static void clear_partials(const image_tile *t, int i, int first, int last, int n) {
    for (int f = 0; f < SSIM_FIELDS; ++f) {
        gsc_real *row = partial_row(t, i, f);
        for (int k = 0; k < first; ++k) row[k] = 0;
        for (int k = last; k < n; ++k) row[k] = 0;
    }
}

/* Row i of the map, from row r of the filtered columns.  There is nothing outside the image nor,
 * with GSC_SSIM_VALID, where a window does not fit. */
static void compute_map_row(image_tile *t, int i, int r) {
    const int y = t->y0 - t->margin + i, x = t->x0 - t->margin, n = t->x1 - t->x0 + 2 * t->margin;
    const int first = max_int(t->inside_x0 - x, 0), last = min_int(t->inside_x1 - x, n);
    if (y < t->inside_y0 || y >= t->inside_y1 || y >= t->y1 + t->margin || first >= last) {
        if (t->differentiate) clear_partials(t, i, n, n, n);
        return;
    }
    const gsc_real *fields[SSIM_FIELDS];
    gsc_real *partials[SSIM_FIELDS];
    for (int f = 0; f < SSIM_FIELDS; ++f) {
        fields[f] = column_row(t, r, f);
        partials[f] = partial_row(t, i, f);
    }
    read_weight(t, y, x + first, x + last, t->weight + first);
    SSIM_BY_RADIUS(&t->terms, ssim_row, fields, &t->terms, t->pass->grad_target.data != NULL, n,
                   t->weight, t->row, t->differentiate ? partials : NULL);
    if (t->differentiate) clear_partials(t, i, first, last, n);

    const int own_first = max_int(first, t->margin), own_last = min_int(last, n - t->margin);
    if (y < t->y0 || y >= t->y1 || own_first >= own_last) return;
    if (t->pass->map) store_map(t, y, x + own_first, x + own_last, t->row + own_first);
    if (t->pass->weight.data)
        for (int k = own_first; k < own_last; ++k) t->row[k] *= t->weight[k];
    t->sums[GSC__SUM_SSIM] += image_row_sum(t->row + own_first, own_last - own_first);
}

/* ----------------------------------------------------------------- gradient */

/* Sums and gradients of the terms without a window, over row y, which is in t->x and
 * t->y.  At x = y the derivative of |x - y| is 0. */
static void pointwise_row(image_tile *t, int y, int n) {
    const gsc_real l1 = t->pass->upstream[GSC__SUM_L1], l2 = t->pass->upstream[GSC__SUM_L2];
    const gsc_real *restrict first = t->x, *restrict second = t->y, *restrict weight = t->weight;
    gsc_real *restrict absolute = t->row, *restrict square = t->row2, *restrict grad = t->grad_x;
    read_weight(t, y, t->x0, t->x1, t->weight);
    for (int k = 0; k < n; ++k) {
        const gsc_real d = first[k] - second[k];
        const gsc_real sign = (gsc_real)((d > 0) - (d < 0));
        absolute[k] = weight[k] * gsc__fabs(d);
        square[k] = weight[k] * (d * d);
        grad[k] = weight[k] * (l1 * sign + 2 * l2 * d);
    }
    t->sums[GSC__SUM_L1] += image_row_sum(absolute, n);
    t->sums[GSC__SUM_L2] += image_row_sum(square, n);
}

/* SSIM_ROWS rows from y on: the terms of each pixel, and the gradient. */
static void finish_rows(image_tile *t, int y) {
    const gsc__image_pass *pass = t->pass;
    const int n = t->x1 - t->x0, fields = pass->grad_target.data ? SSIM_FIELDS : SSIM_FIELDS - 1;
    if (t->differentiate) filter_ring(t, partial_row, y - t->y0, fields, n + 2 * t->margin);
    for (int r = 0; r < SSIM_ROWS && y + r < t->y1; ++r) {
        read_pixels(t, &pass->pair.image, y + r, t->x0, n, t->x);
        read_pixels(t, &pass->pair.target, y + r, t->x0, n, t->y);
        if (pass->pointwise)
            pointwise_row(t, y + r, n);
        else
            memset(t->grad_x, 0, (size_t)n * sizeof(gsc_real));
        memset(t->grad_y, 0, (size_t)n * sizeof(gsc_real));
        if (t->differentiate) {
            const gsc_real *partials[SSIM_FIELDS];
            for (int f = 0; f < SSIM_FIELDS; ++f) partials[f] = column_row(t, r, f);
            SSIM_BY_RADIUS(&t->terms, gradient_row, partials, &t->terms, n, t->x, t->y, t->grad_x,
                           pass->grad_target.data ? t->grad_y : NULL);
        }
        write_pixels(t, &pass->pair.grad_image, y + r, t->grad_x);
        write_pixels(t, &pass->grad_target, y + r, t->grad_y);
    }
}

/* The whole tile: rows of the map in groups, each followed by the rows of the gradient that it
 * completes. */
static void run_tile(image_tile *t) {
    const gsc__image_pass *pass = t->pass;
    const int reach = 2 * t->terms.radius, rows = t->y1 - t->y0;
    int finished = 0;
    if (pass->ssim) {
        const int groups = (rows + SSIM_ROWS - 1) / SSIM_ROWS;
        const int map_rows = t->differentiate ? groups * SSIM_ROWS + reach : rows;
        const int columns = t->x1 - t->x0 + 2 * t->margin + reach;
        t->terms.level_x = tile_level(t, &pass->pair.image);
        t->terms.level_y = tile_level(t, &pass->pair.target);
        int loaded = 0;
        for (int i = 0; i < map_rows; i += SSIM_ROWS) {
            while (loaded < i + reach + SSIM_ROWS) load_input(t, loaded++);
            filter_ring(t, input_row, i, SSIM_FIELDS, columns);
            for (int r = 0; r < SSIM_ROWS; ++r) compute_map_row(t, i + r, r);
            for (; t->differentiate && finished < rows && finished + reach <= i;
                 finished += SSIM_ROWS)
                finish_rows(t, t->y0 + finished);
        }
    }
    if (pass->pointwise || pass->pair.grad_image.data)
        for (; finished < rows; finished += SSIM_ROWS) finish_rows(t, t->y0 + finished);
}

/* --------------------------------------------------------------------- pass */

typedef struct pass_task {
    const gsc__image_pass *pass;
    gsc_real half[SSIM_RADIUS_MAX + 1];
    int64_t rows, columns;  /* of tiles in an image */
    double *sums;           /* [tiles][GSC__SUM_COUNT] */
    unsigned char *scratch; /* [threads][scratch_bytes] */
    size_t scratch_bytes;
    bool *cleared; /* [threads] */
} pass_task;

/* The channel is the fastest index of tiles: if the channels of a pixel lie together, they are
 * then still in the cache. */
static void place_tile(image_tile *t, const pass_task *task, int64_t index) {
    const gsc__image_pass *pass = task->pass;
    t->c = index % pass->pair.channels;
    index /= pass->pair.channels;
    const int64_t column = index % task->columns, row = index / task->columns % task->rows;
    t->b = index / task->columns / task->rows;
    t->x0 = (int)(column * pass->pair.width / task->columns);
    t->x1 = (int)((column + 1) * pass->pair.width / task->columns);
    t->y0 = (int)(row * pass->pair.height / task->rows);
    t->y1 = (int)((row + 1) * pass->pair.height / task->rows);
    const int border = pass->pair.border;
    t->inside_x0 = t->inside_y0 = border;
    t->inside_x1 = pass->pair.width - border;
    t->inside_y1 = pass->pair.height - border;
}

static void run_tiles(void *arg, int64_t begin, int64_t end, int thread) {
    const pass_task *task = arg;
    const gsc__image_pass *pass = task->pass;
    const int radius = pass->pair.window.size / 2;
    unsigned char *scratch = task->scratch + (size_t)thread * task->scratch_bytes;
    /* Columns beyond the last are computed too: there must be numbers in them. */
    if (!task->cleared[thread]) memset(scratch, 0, task->scratch_bytes);
    task->cleared[thread] = true;
    for (int64_t index = begin; index < end; ++index) {
        image_tile t = {.pass = pass,
                        .terms = {.radius = radius,
                                  .half = task->half,
                                  .c1 = pass->pair.c1,
                                  .c2 = pass->pair.c2,
                                  .upstream = pass->upstream[GSC__SUM_SSIM]},
                        .differentiate = pass->ssim && pass->pair.grad_image.data &&
                                         pass->upstream[GSC__SUM_SSIM] != 0};
        t.margin = t.differentiate ? radius : 0;
        place_tile(&t, task, index);
        (void)carve_tile(&t, scratch);
        run_tile(&t);
        memcpy(task->sums + index * GSC__SUM_COUNT, t.sums, sizeof t.sums);
    }
}

static size_t carve_pass(pass_task *task, size_t tiles, size_t threads, void *base) {
    gsc__carver carver = {.base = base};
    task->sums = gsc__carve(&carver, tiles * GSC__SUM_COUNT, sizeof *task->sums);
    task->cleared = gsc__carve(&carver, threads, sizeof *task->cleared);
    task->scratch = gsc__carve(&carver, threads, task->scratch_bytes);
    return carver.at;
}

static gsc_status gsc__image_pass_run(const gsc__call *call, gsc__image_pass *pass) {
    gsc__pool *pool = gsc__cpu_pool(call->context);
    const int radius = pass->pair.window.size / 2;
    image_tile plan = {.terms = {.radius = radius}};
    pass_task task = {.pass = pass,
                      .rows = (pass->pair.height + TILE_HEIGHT - 1) / TILE_HEIGHT,
                      .columns = (pass->pair.width + TILE_WIDTH - 1) / TILE_WIDTH,
                      .scratch_bytes = carve_tile(&plan, NULL)};
    for (int k = 0; k <= radius; ++k) task.half[k] = pass->pair.window.weights[radius + k];
    memset(pass->sums, 0, sizeof pass->sums);
    const int64_t tiles =
        (int64_t)pass->pair.batch * pass->pair.channels * task.rows * task.columns;
    if (tiles == 0) return GSC_OK;

    const size_t threads = (size_t)gsc__pool_threads(pool);
    const size_t bytes = carve_pass(&task, (size_t)tiles, threads, NULL);
    gsc__workspace workspace = {.call = *call};
    void *memory;
    GSC__TRY(gsc__workspace_take(&workspace, "scratch", bytes, &memory));
    (void)carve_pass(&task, (size_t)tiles, threads, memory);
    memset(task.cleared, 0, threads * sizeof *task.cleared);
    gsc__parallel_for(pool, tiles, 1, run_tiles, &task);
    for (int64_t i = 0; i < tiles; ++i)
        for (int k = 0; k < GSC__SUM_COUNT; ++k) pass->sums[k] += task.sums[i * GSC__SUM_COUNT + k];
    gsc__workspace_release(&workspace);
    return GSC_OK;
}

#endif

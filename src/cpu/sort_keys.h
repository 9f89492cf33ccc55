/* The sort of sort.c for keys of type KEY; included there once per type. */

typedef struct NAME(sort_task) {
    PAIRS pairs;
    int64_t length; /* of a block */
    int shift;
    uint32_t mask;    /* of a digit, after the shift */
    uint32_t *counts; /* [blocks, DIGITS] */
    KEY *varying;     /* [blocks] bits in which a block's keys differ from the first key */
} NAME(sort_task);

/* Each call of these three works on one block. */

static void NAME(find_varying)(void *arg, int64_t begin, int64_t end, int thread) {
    NAME(sort_task) *task = arg;
    KEY key0 = task->pairs.keys[0], varying = 0;
    (void)thread;
    for (int64_t i = begin; i < end; ++i) varying |= task->pairs.keys[i] ^ key0;
    task->varying[begin / task->length] = varying;
}

static void NAME(count_digits)(void *arg, int64_t begin, int64_t end, int thread) {
    NAME(sort_task) *task = arg;
    const KEY *keys = task->pairs.keys;
    const int shift = task->shift;
    const uint32_t mask = task->mask;
    uint32_t *counts = task->counts + begin / task->length * DIGITS;
    (void)thread;
    memset(counts, 0, DIGITS * sizeof *counts);
    for (int64_t i = begin; i < end; ++i) ++counts[(uint32_t)(keys[i] >> shift) & mask];
}

static void NAME(move_pairs)(void *arg, int64_t begin, int64_t end, int thread) {
    NAME(sort_task) *task = arg;
    const PAIRS pairs = task->pairs;
    const int shift = task->shift;
    const uint32_t mask = task->mask;
    uint32_t *places = task->counts + begin / task->length * DIGITS;
    (void)thread;
    for (int64_t i = begin; i < end; ++i) {
        KEY key = pairs.keys[i];
        uint32_t place = places[(uint32_t)(key >> shift) & mask]++;
        pairs.other_keys[place] = key;
        pairs.other_values[place] = pairs.values[i];
    }
}

static void NAME(exchange)(PAIRS *pairs) {
    PAIRS old = *pairs;
    pairs->keys = old.other_keys;
    pairs->values = old.other_values;
    pairs->other_keys = old.keys;
    pairs->other_values = old.values;
}

static void NAME(insertion_sort)(PAIRS *pairs, int64_t begin, int64_t end) {
    for (int64_t i = begin + 1; i < end; ++i) {
        KEY key = pairs->keys[i];
        uint32_t value = pairs->values[i];
        int64_t j = i;
        for (; j > begin && pairs->keys[j - 1] > key; --j) {
            pairs->keys[j] = pairs->keys[j - 1];
            pairs->values[j] = pairs->values[j - 1];
        }
        pairs->keys[j] = key;
        pairs->values[j] = value;
    }
}

static void NAME(merge)(PAIRS *pairs, int64_t begin, int64_t middle, int64_t end) {
    int64_t a = begin, b = middle;
    for (int64_t i = begin; i < end; ++i) {
        bool from_a = a < middle && (b >= end || pairs->keys[a] <= pairs->keys[b]);
        int64_t from = from_a ? a++ : b++;
        pairs->other_keys[i] = pairs->keys[from];
        pairs->other_values[i] = pairs->values[from];
    }
}

static void NAME(merge_sort)(PAIRS *pairs, int64_t n) {
    for (int64_t begin = 0; begin < n; begin += RUN)
        NAME(insertion_sort)(pairs, begin, begin + RUN < n ? begin + RUN : n);
    for (int64_t run = RUN; run < n; run *= 2) {
        for (int64_t begin = 0; begin < n; begin += 2 * run) {
            int64_t middle = begin + run < n ? begin + run : n;
            int64_t end = begin + 2 * run < n ? begin + 2 * run : n;
            NAME(merge)(pairs, begin, middle, end);
        }
        NAME(exchange)(pairs);
    }
}

void NAME(gsc__sort_pairs)(gsc__pool *pool, PAIRS *pairs, int64_t n, int bits, void *scratch) {
    if (n < GSC__SORT_PARALLEL) {
        NAME(merge_sort)(pairs, n);
        return;
    }
    const int64_t most = sort_blocks(gsc__pool_threads(pool), n), length = (n + most - 1) / most;
    const int blocks = (int)((n + length - 1) / length);
    int passes = (bits + DIGIT_BITS - 1) / DIGIT_BITS;
    int width = (bits + passes - 1) / passes;
    NAME(sort_task) task = {.pairs = *pairs, .length = length};
    task.mask = ((uint32_t)1 << width) - 1;
    task.counts = scratch;
    task.varying = (KEY *)(void *)(task.counts + (size_t)blocks * DIGITS);
    gsc__parallel_for(pool, n, length, NAME(find_varying), &task);
    KEY varying = 0;
    for (int block = 0; block < blocks; ++block) varying |= task.varying[block];
    for (task.shift = 0; task.shift < bits; task.shift += width) {
        if (((uint32_t)(varying >> task.shift) & task.mask) == 0) continue;
        gsc__parallel_for(pool, n, length, NAME(count_digits), &task);
        scan_counts(task.counts, blocks, 1 << width);
        gsc__parallel_for(pool, n, length, NAME(move_pairs), &task);
        NAME(exchange)(&task.pairs);
    }
    *pairs = task.pairs;
}

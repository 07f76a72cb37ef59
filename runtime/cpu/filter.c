// SPDX-License-Identifier: MIT
// The algorithm filter: sorting the points into tiles, their boxes and sums, and whether it pays. The pass itself is
// in filter_kernels.h.
#include "filter.h"
#include "../module.h"
#include "cpu.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum {
    CODE_BITS = 16,      // of a point's place among its neighbours; a digit of the sort has 8
    CODE_BITS_MANY = 24, // ... of more than CODE_POINTS points
    CODE_POINTS = 4 * 1024 * 1024,
    DIGITS = 256,
    SAMPLE = 2048, // points that say where the quantiles are
    CELLS = 1024,  // of a feature's range: each has one code
    SUPERS_OF_BLOCK = KM_BLOCK_POINTS / SUPER_POINTS,
    PROBE_STEP = 8, // one group of supertiles in so many is probed
    AHEAD = 12      // points that are fetched ahead while tiles are filled
};

// What a pair costs beside one of lloyd's, and a point of a tile that is split: fitted to the times of
// docs/algorithms.md.
static const double box_pair_cost = 4, point_pair_cost = 1.5, split_point_cost = 3;
// The filter stays as long as its work is less than this part of lloyd's.
static const double pays_below = 0.7;

typedef struct thread_state {
    cpu_filter_scratch scratch;
    int64_t box_pairs, point_pairs, split_points;
    void *memory;
} thread_state;

// Sorting -----------------------------------------------------------------------------------------------------

// How a coordinate becomes bits of a code.
typedef struct feature_code {
    double low, scale;
    uint32_t codes[CELLS];
} feature_code;

typedef struct sorter {
    const cpu_engine *engine;
    int64_t bits, features_count;
    feature_code *features; // features_count
    int64_t *order;         // of features, widest first
    uint64_t *keys, *other; // code << 32 | point
    uint32_t *counts;       // blocks x DIGITS
} sorter;

static double value_at(const cpu_engine *engine, int64_t point, int64_t f) {
    int64_t group = engine->group, at = point / group * group * engine->base.d + f * group + point % group;
    return engine->real_bytes == 4 ? (double)((const float *)engine->points)[at]
                                   : ((const double *)engine->points)[at];
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Bits of feature `place` in the order of spread: the first ones get one more where they do not come out even.
static int64_t bits_of(const sorter *s, int64_t place) {
    return s->bits / s->features_count + (place < s->bits % s->features_count);
}

// Bit b (0: the lowest) of the feature at `place` goes behind those of more weight of all features.
static uint32_t spread_bits(const sorter *s, int64_t place, uint32_t bucket) {
    int64_t mine = bits_of(s, place), at = s->bits;
    uint32_t code = 0;
    for (int64_t level = 0; level < mine; level++)
        for (int64_t other = 0; other < s->features_count; other++) {
            if (level >= bits_of(s, other)) continue;
            at--;
            if (other == place) code |= ((bucket >> (mine - 1 - level)) & 1) << at;
        }
    return code;
}

// Cells between the outer quantiles of a sorted sample; a cell's bucket is its middle's quantile.
static void feature_fill(const sorter *s, feature_code *feature, int64_t place, const double *sample,
                         int64_t count) {
    double low = sample[count / 256], high = sample[count - 1 - count / 256];
    uint32_t buckets = (uint32_t)1 << bits_of(s, place), before = UINT32_MAX, code = 0;
    feature->low = low;
    feature->scale = high > low && isfinite(CELLS / (high - low)) ? CELLS / (high - low) : 0;
    for (int64_t cell = 0, rank = 0; cell < CELLS; cell++) {
        double middle = feature->scale > 0 ? low + ((double)cell + 0.5) / feature->scale : low;
        while (rank < count && sample[rank] < middle) rank++;
        uint32_t bucket = (uint32_t)((uint64_t)buckets * (uint64_t)rank / (uint64_t)(count + 1));
        if (bucket != before) code = spread_bits(s, place, bucket);
        before = bucket;
        feature->codes[cell] = code;
    }
}

static km_status features_make(sorter *s, km_error *err) {
    const cpu_engine *engine = s->engine;
    int64_t d = engine->base.d, n = engine->base.n, count = cpu_min(SAMPLE, n), wanted = cpu_min(d, s->bits);
    double *samples = malloc((size_t)(d * (count + 1)) * sizeof *samples), *spreads = samples + d * count;
    s->features = samples ? malloc((size_t)wanted * sizeof *s->features) : NULL;
    s->order = malloc((size_t)d * sizeof *s->order);
    if (!samples || !s->features || !s->order) {
        free(samples);
        return km_fail_memory(err, "the quantiles of a sample", d * count * 8);
    }
    s->features_count = wanted;
    for (int64_t f = 0; f < d; f++) {
        double *sample = samples + f * count, sum = 0, square = 0;
        for (int64_t i = 0; i < count; i++)
            sample[i] = value_at(engine, (int64_t)((double)i / (double)count * (double)n), f);
        for (int64_t i = 0; i < count; i++) sum += sample[i];
        for (int64_t i = 0; i < count; i++)
            square += (sample[i] - sum / (double)count) * (sample[i] - sum / (double)count);
        spreads[f] = square;
        int64_t at = f;
        for (; at > 0 && spreads[s->order[at - 1]] < square; at--) s->order[at] = s->order[at - 1];
        s->order[at] = f;
    }
    for (int64_t place = 0; place < wanted; place++) {
        double *sample = samples + s->order[place] * count;
        qsort(sample, (size_t)count, sizeof *sample, by_value);
        feature_fill(s, &s->features[place], place, sample, count);
    }
    free(samples);
    return KM_OK;
}

static void block_keys(const sorter *s, int64_t block) {
    const cpu_engine *engine = s->engine;
    int64_t first = block * KM_BLOCK_POINTS, points = cpu_block_points(engine, block), group = engine->group;
    uint64_t *keys = s->keys + first;
    for (int64_t i = 0; i < points; i++) keys[i] = (uint64_t)(first + i);
    for (int64_t place = 0; place < s->features_count; place++) {
        const feature_code *feature = &s->features[place];
        int64_t f = s->order[place];
        for (int64_t base = 0; base < points; base += group) {
            int64_t here = cpu_min(group, points - base), at = (first + base) * engine->base.d + f * group;
            for (int64_t i = 0; i < here; i++) {
                double value = engine->real_bytes == 4 ? (double)((const float *)engine->points)[at + i]
                                                       : ((const double *)engine->points)[at + i];
                double cell = (value - feature->low) * feature->scale;
                cell = cell > 0 ? cell : 0;
                cell = cell < CELLS - 1 ? cell : CELLS - 1;
                keys[base + i] |= (uint64_t)feature->codes[(int32_t)cell] << 32;
            }
        }
    }
}

// One digit of a stable sort: blocks count, then each writes to its own places, so that threads do not matter.
static void sort_digit(sorter *s, int shift) {
    int64_t blocks = s->engine->blocks_count;
    int threads = cpu_threads_for(s->engine, blocks);
    memset(s->counts, 0, (size_t)(blocks * DIGITS) * sizeof *s->counts);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t block = 0; block < blocks; block++) {
        uint32_t *counts = s->counts + block * DIGITS;
        const uint64_t *keys = s->keys + block * KM_BLOCK_POINTS;
        int64_t points = cpu_block_points(s->engine, block);
        for (int64_t i = 0; i < points; i++) counts[(keys[i] >> shift) % DIGITS]++;
    }
    uint32_t place = 0;
    for (int64_t digit = 0; digit < DIGITS; digit++)
        for (int64_t block = 0; block < blocks; block++) {
            uint32_t count = s->counts[block * DIGITS + digit];
            s->counts[block * DIGITS + digit] = place;
            place += count;
        }
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t block = 0; block < blocks; block++) {
        uint32_t *places = s->counts + block * DIGITS;
        const uint64_t *keys = s->keys + block * KM_BLOCK_POINTS;
        int64_t points = cpu_block_points(s->engine, block);
        for (int64_t i = 0; i < points; i++) s->other[places[(keys[i] >> shift) % DIGITS]++] = keys[i];
    }
    uint64_t *sorted = s->other;
    s->other = s->keys;
    s->keys = sorted;
}

static void sorter_free(sorter *s) {
    free(s->features);
    free(s->order);
    free(s->counts);
    km_cpu_free(s->keys);
    km_cpu_free(s->other);
    *s = (sorter){.bits = 0};
}

// The points' order, in the low halves of s->keys.
static km_status sort_points(sorter *s, const cpu_engine *engine, km_error *err) {
    int64_t n = engine->base.n, blocks = engine->blocks_count;
    *s = (sorter){.engine = engine, .bits = n > CODE_POINTS ? CODE_BITS_MANY : CODE_BITS};
    s->keys = km_cpu_alloc(n * (int64_t)sizeof *s->keys);
    s->other = km_cpu_alloc(n * (int64_t)sizeof *s->other);
    s->counts = malloc((size_t)(blocks * DIGITS) * sizeof *s->counts);
    if (!s->keys || !s->other || !s->counts)
        return km_fail_memory(err, "sorting the points", 2 * n * (int64_t)sizeof *s->keys);
    KM_TRY(features_make(s, err));
    int threads = cpu_threads_for(engine, blocks);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t block = 0; block < blocks; block++) block_keys(s, block);
    for (int shift = 32; shift < 32 + (int)s->bits; shift += 8) sort_digit(s, shift);
    return KM_OK;
}

// Tiles -------------------------------------------------------------------------------------------------------

// Where the points are copied from: the user's rows where they lie in memory (one line of cache a point), else the
// engine's groups. Both give the same values.
typedef struct rows_source {
    const cpu_engine *engine;
    const float *rows32; // the data outlive the engine
    const double *rows64;
    double *centre, *factor; // d each
} rows_source;

typedef struct cpu_filter {
    cpu_tiles tiles;
    cpu_filter_kernel kernel;
    thread_state *threads;
    int64_t threads_count;
    sorter sort; // until all tiles are filled
    rows_source from;
    int32_t is_probed; // and all tiles are filled
} cpu_filter;

// The row that will be read some points later.
static void row_fetch(const rows_source *from, int64_t point) {
    int64_t d = from->engine->base.d;
    const char *row = from->rows32   ? (const char *)(from->rows32 + point * d)
                      : from->rows64 ? (const char *)(from->rows64 + point * d)
                                     : NULL;
    int64_t bytes = d * (from->rows32 ? 4 : 8);
    for (int64_t at = 0; row && at < bytes; at += 64) __builtin_prefetch(row + at);
}

static void row_read(double *out, const rows_source *from, int64_t point) {
    int64_t d = from->engine->base.d;
    if (from->rows32)
        for (int64_t f = 0; f < d; f++)
            out[f] = ((double)from->rows32[point * d + f] - from->centre[f]) * from->factor[f];
    else if (from->rows64)
        for (int64_t f = 0; f < d; f++)
            out[f] = (from->rows64[point * d + f] - from->centre[f]) * from->factor[f];
    else
        km_cpu_row(out, from->engine, point);
}

// A real that is not below `value`, with room for the rounding of those who use it.
static double widen(double value, int64_t real_bytes) {
    return real_bytes == 4 ? value * (1 + 0x1p-22) + 0x1p-126 : value * (1 + 0x1p-51) + 0x1p-1022;
}

static void real_put(void *reals, int64_t at, double value, int64_t real_bytes) {
    if (real_bytes == 4)
        ((float *)reals)[at] = (float)value;
    else
        ((double *)reals)[at] = value;
}

static double real_get(const void *reals, int64_t at, int64_t real_bytes) {
    return real_bytes == 4 ? (double)((const float *)reals)[at] : ((const double *)reals)[at];
}

// Writes box `index` around low .. high.
static void box_put(void *boxes, int64_t index, const double *low, const double *high, int64_t d,
                    int64_t real_bytes) {
    int64_t at = index / BOXES * filter_box_values(d) + index % BOXES;
    double corner = 0;
    for (int64_t f = 0; f < d; f++) {
        double middle = 0.5 * low[f] + 0.5 * high[f];
        if (real_bytes == 4) middle = (double)(float)middle;
        double half = widen(fmax(high[f] - middle, middle - low[f]), real_bytes);
        real_put(boxes, at + f * BOXES, middle, real_bytes);
        real_put(boxes, at + (d + f) * BOXES, half, real_bytes);
        corner += (fabs(middle) + half) * (fabs(middle) + half);
    }
    real_put(boxes, at + 2 * d * BOXES, widen(corner * (1 + 0x1p-20), real_bytes), real_bytes);
}

typedef struct tile_maker {
    cpu_tiles *tiles;
    const rows_source *from;
    const uint64_t *keys;
    int64_t real_bytes;
} tile_maker;

// Copies the points of one tile; its box and sums.
static void tile_fill(const tile_maker *make, int64_t tile, double *row, double *low, double *high) {
    cpu_tiles *tiles = make->tiles;
    int64_t d = tiles->d, first = tile * TILE_POINTS, here = cpu_min(TILE_POINTS, tiles->n - first);
    double *sums = tiles->sums + tile * tiles->pitch;
    memset(sums, 0, (size_t)tiles->pitch * sizeof *sums);
    for (int64_t i = 0; i < here; i++) {
        int64_t point = (int64_t)(uint32_t)make->keys[first + i];
        double weight = make->from->engine->weights ? make->from->engine->weights[point] : 1.0;
        if (first + i + AHEAD < tiles->n)
            row_fetch(make->from, (int64_t)(uint32_t)make->keys[first + i + AHEAD]);
        row_read(row, make->from, point);
        if (make->real_bytes == 4) {
            float *to = (float *)tiles->points + first * d + i;
            for (int64_t f = 0; f < d; f++) row[f] = (double)(to[f * TILE_POINTS] = (float)row[f]);
        } else {
            double *to = (double *)tiles->points + first * d + i;
            for (int64_t f = 0; f < d; f++) to[f * TILE_POINTS] = row[f];
        }
        for (int64_t f = 0; f < d; f++) {
            low[f] = i == 0 || row[f] < low[f] ? row[f] : low[f];
            high[f] = i == 0 || row[f] > high[f] ? row[f] : high[f];
            sums[f] += weight * row[f];
        }
        sums[d] += weight;
        sums[d + 1] += weight != 0; // a cluster of weightless points is empty
        if (tiles->weights) tiles->weights[first + i] = weight;
    }
    for (int64_t f = 0; f < d; f++)
        for (int64_t i = here; i < TILE_POINTS; i++)
            real_put(tiles->points, first * d + f * TILE_POINTS + i, 0, make->real_bytes);
    box_put(tiles->boxes, tile, low, high, d, make->real_bytes);
}

static void super_fill(const tile_maker *make, int64_t super, double *low, double *high) {
    cpu_tiles *tiles = make->tiles;
    int64_t d = tiles->d, pitch = tiles->pitch, first = super * TILES_OF_SUPER;
    int64_t end = cpu_min(first + TILES_OF_SUPER, tiles->tiles_count), box = super * filter_box_values(d);
    double *sums = tiles->super_sums + super * pitch;
    for (int64_t f = 0; f < d; f++)
        for (int64_t t = 0; t < end - first; t++) {
            double middle = real_get(tiles->boxes, box + f * BOXES + t, make->real_bytes);
            double half = real_get(tiles->boxes, box + (d + f) * BOXES + t, make->real_bytes);
            low[f] = t == 0 ? middle - half : fmin(low[f], middle - half);
            high[f] = t == 0 ? middle + half : fmax(high[f], middle + half);
        }
    // In the order in which a pass adds tiles one by one, so that it makes no difference which it does.
    memcpy(sums, tiles->sums + first * pitch, (size_t)pitch * sizeof *sums);
    for (int64_t tile = first + 1; tile < end; tile++)
        for (int64_t i = 0; i < pitch; i++) sums[i] += tiles->sums[tile * pitch + i];
    box_put(tiles->super_boxes, super, low, high, d, make->real_bytes);
}

static km_status tiles_alloc(cpu_tiles *tiles, const cpu_engine *engine, km_error *err) {
    int64_t n = engine->base.n, d = engine->base.d, real = engine->real_bytes;
    int64_t count = (n + TILE_POINTS - 1) / TILE_POINTS,
            supers = (count + TILES_OF_SUPER - 1) / TILES_OF_SUPER;
    int64_t groups = (supers + BOXES - 1) / BOXES, box = filter_box_values(d) * real;
    *tiles =
        (cpu_tiles){.n = n, .d = d, .pitch = engine->pitch, .tiles_count = count, .supers_count = supers};
    tiles->points = km_cpu_alloc(count * TILE_POINTS * d * real);
    tiles->boxes = calloc((size_t)supers, (size_t)box);
    tiles->super_boxes = calloc((size_t)groups, (size_t)box);
    tiles->sums = km_cpu_alloc(count * tiles->pitch * (int64_t)sizeof *tiles->sums);
    tiles->super_sums = km_cpu_alloc(supers * tiles->pitch * (int64_t)sizeof *tiles->sums);
    if (engine->weights) tiles->weights = km_cpu_alloc(count * TILE_POINTS * (int64_t)sizeof *tiles->weights);
    if (tiles->points && tiles->boxes && tiles->super_boxes && tiles->sums && tiles->super_sums &&
        (tiles->weights || !engine->weights))
        return KM_OK;
    return km_fail_memory(err, "the sorted points of the algorithm filter",
                          km_cpu_filter_bytes(engine->base.plan, n));
}

// Fills the groups of BOXES supertiles whose number is a multiple of `step`, or (the rest) is none.
static km_status tiles_fill(cpu_engine *engine, int64_t step, int rest, km_error *err) {
    cpu_filter *filter = engine->filter;
    cpu_tiles *tiles = &filter->tiles;
    int64_t d = engine->base.d, groups = (tiles->supers_count + BOXES - 1) / BOXES;
    int threads = cpu_threads_for(engine, groups);
    double *rows = malloc((size_t)(threads * 3 * d) * sizeof *rows);
    if (!rows) return km_fail_memory(err, "rows of points", threads * 3 * d * 8);
    tile_maker make = {tiles, &filter->from, filter->sort.keys, engine->real_bytes};
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1)
    for (int64_t group = 0; group < groups; group++) {
        if ((group % step == 0) == rest) continue;
        double *row = rows + omp_get_thread_num() * 3 * d;
        int64_t supers = cpu_min((group + 1) * BOXES, tiles->supers_count);
        for (int64_t super = group * BOXES; super < supers; super++) {
            int64_t end = cpu_min((super + 1) * TILES_OF_SUPER, tiles->tiles_count);
            for (int64_t tile = super * TILES_OF_SUPER; tile < end; tile++)
                tile_fill(&make, tile, row, row + d, row + 2 * d);
            super_fill(&make, super, row + d, row + 2 * d);
        }
    }
    free(rows);
    return KM_OK;
}

static km_status source_make(cpu_engine *engine, const km_data *data, const km_load_params *params,
                             km_error *err) {
    int64_t d = engine->base.d;
    double *columns = malloc((size_t)(2 * d) * sizeof *columns);
    if (!columns) return km_fail_memory(err, "centre and factor", 2 * d * 8);
    memcpy(columns, params->centre, (size_t)d * sizeof *columns);
    memcpy(columns + d, params->factor, (size_t)d * sizeof *columns);
    engine->filter->from = (rows_source){.engine = engine,
                                         .rows32 = (const float *)km_data_base(data, KM_FLOAT32),
                                         .rows64 = (const double *)km_data_base(data, KM_FLOAT64),
                                         .centre = columns,
                                         .factor = columns + d};
    return KM_OK;
}

// Life --------------------------------------------------------------------------------------------------------

static km_status scratch_alloc(thread_state *thread, int64_t k, int64_t pitch, int64_t real_bytes,
                               km_error *err) {
    int64_t lists = (2 * BOXES + 2) * k * (int64_t)sizeof(int32_t),
            rows = k * pitch * (int64_t)sizeof(double);
    int64_t scores = k * (BOXES + 1) * real_bytes,
            bytes = rows + k * (int64_t)sizeof(uint64_t) + scores + lists + k;
    uint8_t *memory = thread->memory = calloc(1, (size_t)bytes);
    if (!memory) return km_fail_memory(err, "the lists of the algorithm filter", bytes);
    cpu_filter_scratch *s = &thread->scratch;
    s->rows = (double *)memory;
    s->owners = (uint64_t *)(memory + rows);
    s->scores = s->owners + k;
    s->slacks = (uint8_t *)s->scores + k * BOXES * real_bytes;
    s->super_list = (int32_t *)(void *)((uint8_t *)s->slacks + k * real_bytes);
    s->tile_list = s->super_list + BOXES * k;
    s->list = s->tile_list + BOXES * k;
    s->touched = s->list + k;
    s->is_touched = (uint8_t *)(s->touched + k);
    return KM_OK;
}

static cpu_filter_kernel kernel_of(const km_plan *plan) {
    int is_double = plan->spec.type == KM_FLOAT64;
#if defined(__x86_64__)
    if (plan->facts.target.arch == KM_ISA_AVX512) return km_cpu_filter_avx512[is_double];
    if (plan->facts.target.arch == KM_ISA_AVX2) return km_cpu_filter_avx2[is_double];
#endif
    return km_cpu_filter_generic[is_double];
}

km_status km_cpu_filter_create(cpu_engine *engine, const km_data *data, const km_load_params *params,
                               km_error *err) {
    const km_plan *plan = engine->base.plan;
    if (engine->base.n > UINT32_MAX) {
        if (plan->algorithm_fixed)
            return km_fail(err, KM_ERROR_PLAN,
                           "the algorithm filter takes at most %lld points; take lloyd or auto",
                           (long long)UINT32_MAX);
        engine->counters.algorithm = KM_ALGORITHM_LLOYD;
        return KM_OK;
    }
    cpu_filter *filter = engine->filter = calloc(1, sizeof *filter);
    if (!filter) return km_fail_memory(err, "the algorithm filter", (int64_t)sizeof *filter);
    filter->kernel = kernel_of(plan);
    filter->threads_count = engine->threads;
    filter->threads = calloc((size_t)engine->threads, sizeof *filter->threads);
    if (!filter->threads) return km_fail_memory(err, "the algorithm filter", engine->threads);
    int64_t k = plan->spec.clusters[plan->spec.clusters_count - 1];
    for (int64_t t = 0; t < engine->threads; t++)
        KM_TRY(scratch_alloc(&filter->threads[t], k, engine->pitch, engine->real_bytes, err));
    KM_TRY(source_make(engine, data, params, err));
    KM_TRY(tiles_alloc(&filter->tiles, engine, err));
    return sort_points(&filter->sort, engine, err);
}

void km_cpu_filter_destroy(cpu_engine *engine) {
    cpu_filter *filter = engine->filter;
    if (!filter) return;
    for (int64_t t = 0; filter->threads && t < filter->threads_count; t++) free(filter->threads[t].memory);
    free(filter->threads);
    sorter_free(&filter->sort);
    free(filter->from.centre);
    km_cpu_free(filter->tiles.points);
    km_cpu_free(filter->tiles.weights);
    free(filter->tiles.boxes);
    free(filter->tiles.super_boxes);
    km_cpu_free(filter->tiles.sums);
    km_cpu_free(filter->tiles.super_sums);
    free(filter);
    engine->filter = NULL;
}

int64_t km_cpu_filter_bytes(const km_plan *plan, int64_t n) {
    int64_t d = plan->spec.features, real = plan->spec.type == KM_FLOAT32 ? 4 : 8;
    int64_t supers = (n + SUPER_POINTS - 1) / SUPER_POINTS;
    int64_t boxes = (supers * TILES_OF_SUPER + supers + BOXES) * (2 * d + 1) * real;
    int64_t sums = supers * (TILES_OF_SUPER + 1) * KM_CPU_PITCH(d) * (int64_t)sizeof(double);
    return supers * SUPER_POINTS * (d * real + (plan->weighted ? 8 : 0)) + boxes + sums;
}

// The pass ----------------------------------------------------------------------------------------------------

void km_cpu_filter_block(cpu_engine *engine, int64_t block, km_cpu_slot *list, int64_t count) {
    cpu_filter *filter = engine->filter;
    thread_state *thread = &filter->threads[omp_get_thread_num()];
    int64_t first = block * SUPERS_OF_BLOCK;
    for (int64_t s = 0; s < count; s++) {
        km_cpu_slot *slot = &list[s];
        uint8_t *labels = engine->wants_labels
                              ? (uint8_t *)slot->labels - block * KM_BLOCK_POINTS * slot->labels_bytes
                              : NULL;
        cpu_filter_work work = {.tiles = &filter->tiles,
                                .first_super = first,
                                .supers_count = cpu_min(SUPERS_OF_BLOCK, filter->tiles.supers_count - first),
                                .k = slot->k,
                                .table = slot->table,
                                .sums = slot->sums,
                                .labels = labels,
                                .labels_bytes = slot->labels_bytes,
                                .first_pass = slot->mode == KM_CPU_FIRST,
                                .scratch = &thread->scratch};
        filter->kernel(&work);
        // Sums settle with the labels to the last bit, so that nobody needs to know whether a label changed.
        slot->changed = labels ? work.changed : cpu_block_points(engine, block);
        thread->box_pairs += work.box_pairs;
        thread->point_pairs += work.point_pairs;
        thread->split_points += work.split_points;
    }
}

// Whether it pays ---------------------------------------------------------------------------------------------

static double work_of(const thread_state *sum) {
    return box_pair_cost * (double)sum->box_pairs + point_pair_cost * (double)sum->point_pairs +
           split_point_cost * (double)sum->split_points;
}

// Counts of all threads, which start again from zero.
static thread_state take_counts(cpu_filter *filter) {
    thread_state sum = {.box_pairs = 0};
    for (int64_t t = 0; t < filter->threads_count; t++) {
        thread_state *thread = &filter->threads[t];
        sum.box_pairs += thread->box_pairs;
        sum.point_pairs += thread->point_pairs;
        sum.split_points += thread->split_points;
        thread->box_pairs = thread->point_pairs = thread->split_points = 0;
    }
    return sum;
}

// Clusters and members of the pass that was just done, or is about to be.
static void active_counts(const cpu_engine *engine, int64_t *clusters, int64_t *members) {
    *clusters = *members = 0;
    for (int64_t s = 0; s < engine->base.slots_count; s++) {
        const cpu_slot *slot = &engine->slots[s];
        if (slot->phase != KM_SLOT_RUNNING && slot->phase != KM_SLOT_LAST) continue;
        *clusters += slot->k;
        ++*members;
    }
}

static void give_up(cpu_engine *engine, double part) {
    km_log_line(engine->log, KM_LOG_INFO, "filter: dropped, its work is %.2f of lloyd's, and pays below %.2f",
                part, pays_below);
    km_cpu_filter_destroy(engine);
    engine->counters.algorithm = KM_ALGORITHM_LLOYD;
    for (int64_t s = 0; s < engine->base.slots_count; s++) engine->slots[s].mode = KM_CPU_FIRST;
}

void km_cpu_filter_collect(cpu_engine *engine) {
    thread_state sum = take_counts(engine->filter);
    int64_t clusters, members;
    active_counts(engine, &clusters, &members);
    engine->counters.distances += sum.box_pairs + sum.point_pairs;
    engine->counters.points_skipped += members * engine->base.n - sum.split_points;
    double part = work_of(&sum) / ((double)clusters * (double)engine->base.n);
    // Counted changes need the labels of the pass before, which lie in another order: then there is no way back.
    if (part > pays_below && !engine->base.plan->algorithm_fixed && !engine->wants_labels)
        give_up(engine, part);
}

// The part of lloyd's work that a sample of tiles leaves, as the members stand; < 0: no memory.
static double probe(cpu_engine *engine) {
    cpu_filter *filter = engine->filter;
    double *sums = calloc((size_t)(engine->sums_count + 1), sizeof *sums), lloyd = 0;
    if (!sums) return -1;
    thread_state *thread = &filter->threads[0];
    for (int64_t first = 0; first < filter->tiles.supers_count; first += PROBE_STEP * BOXES)
        for (int64_t s = 0; s < engine->base.slots_count; s++) {
            const cpu_slot *slot = &engine->slots[s];
            if (slot->phase != KM_SLOT_RUNNING) continue;
            cpu_filter_work work = {.tiles = &filter->tiles,
                                    .first_super = first,
                                    .supers_count = cpu_min(BOXES, filter->tiles.supers_count - first),
                                    .k = slot->k,
                                    .table = slot->table,
                                    .sums = sums,
                                    .scratch = &thread->scratch};
            filter->kernel(&work);
            thread->box_pairs += work.box_pairs;
            thread->point_pairs += work.point_pairs;
            thread->split_points += work.split_points;
            lloyd += (double)(work.supers_count * SUPER_POINTS * slot->k);
        }
    free(sums);
    thread_state sum = take_counts(filter);
    engine->counters.distances += sum.box_pairs + sum.point_pairs;
    return lloyd > 0 ? work_of(&sum) / lloyd : 0;
}

km_status km_cpu_filter_probe(cpu_engine *engine, km_error *err) {
    cpu_filter *filter = engine->filter;
    if (filter->is_probed) return KM_OK;
    if (engine->base.plan->algorithm_fixed) {
        KM_TRY(tiles_fill(engine, 1, 0, err));
    } else {
        KM_TRY(tiles_fill(engine, PROBE_STEP, 0, err));
        double part = probe(engine);
        if (part < 0) return km_fail_memory(err, "partial sums", engine->sums_count * 8);
        km_log_line(engine->log, KM_LOG_DEBUG, "filter: a sample of tiles leaves %.2f of lloyd's work", part);
        if (part > pays_below) {
            give_up(engine, part);
            return KM_OK;
        }
        KM_TRY(tiles_fill(engine, PROBE_STEP, 1, err));
    }
    filter->is_probed = 1;
    sorter_free(&filter->sort);
    return KM_OK;
}

// SPDX-License-Identifier: MIT
// The order of the sorted points: a code that interleaves the quantiles of their features, and a sort by digits.
#include "../../base/error.h"
#include "../../base/order.h"
#include "../../base/size.h"
#include "tiles_fill.h"
#include "../threads.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    CODE_BITS = 16,      // of a point's code
    CODE_BITS_MANY = 24, // ... of more than CODE_POINTS points
    CODE_POINTS = 4 * 1024 * 1024,
    SAMPLE = 2048,      // points whose quantiles are taken
    CARRIED_BYTES = 16, // of a row that is sorted along with its key, at most
};

static double value_at(const cpu_engine *engine, int64_t point, int64_t f) {
    int64_t soa_points = engine->soa_points,
            at = point / soa_points * soa_points * engine->base.d + f * soa_points + point % soa_points;
    return engine->real_bytes == 4 ? (double)((const float *)engine->points)[at]
                                   : ((const double *)engine->points)[at];
}

// Bits of the code that the feature at `rank`, in the order of spread, gets. The first ones get one more where bits
// cannot be shared evenly.
static int64_t bits_of(const cpu_sorter *s, int64_t rank) {
    if (s->cell_bits && rank + 1 < s->features_count) return s->cell_bits;
    if (s->cell_bits) return s->bits - s->cell_bits * rank;
    return s->bits / s->features_count + (rank < s->bits % s->features_count);
}

// Spreads a bucket's bits over the code: the highest bits of all features come first, then the next ones (a Morton
// code). With cells, all bits of a feature lie together.
static uint32_t spread_bits(const cpu_sorter *s, int64_t rank, uint32_t bucket) {
    int64_t bits = bits_of(s, rank), at = s->bits;
    uint32_t code = 0;
    if (s->cell_bits) return bucket << (rank + 1 < s->features_count ? at - s->cell_bits * (rank + 1) : 0);
    for (int64_t level = 0; level < bits; level++)
        for (int64_t other = 0; other < s->features_count; other++) {
            if (level >= bits_of(s, other)) continue;
            at--;
            if (other == rank) code |= ((bucket >> (bits - 1 - level)) & 1) << at;
        }
    return code;
}

// Cells between the outer quantiles of a sorted sample. A cell's bucket is its midpoint's quantile.
static void feature_fill(const cpu_sorter *s, cpu_tiles_code *feature, int64_t rank, const double *sample,
                         int64_t count) {
    double low = sample[count / 256], high = sample[count - 1 - count / 256];
    uint32_t buckets = (uint32_t)1 << bits_of(s, rank), before = UINT32_MAX, code = 0;
    feature->low = low;
    feature->scale = high > low && isfinite(TILES_CELLS / (high - low)) ? TILES_CELLS / (high - low) : 0;
    for (int64_t cell = 0, below = 0; cell < TILES_CELLS; cell++) {
        double midpoint = feature->scale > 0 ? low + ((double)cell + 0.5) / feature->scale : low;
        while (below < count && sample[below] < midpoint) below++;
        uint32_t bucket = (uint32_t)((uint64_t)buckets * (uint64_t)below / (uint64_t)(count + 1));
        if (bucket != before) code = spread_bits(s, rank, bucket);
        before = bucket;
        feature->bits[cell] = code;
    }
}

static km_status features_make(cpu_sorter *s, km_error *err) {
    const cpu_engine *engine = s->engine;
    int64_t d = engine->base.d, n = engine->base.n, count = km_min(SAMPLE, n), wanted = km_min(d, s->bits);
    double *samples = malloc((size_t)(d * (count + 1)) * sizeof *samples), *spreads = samples + d * count;
    s->codes = samples ? malloc((size_t)wanted * sizeof *s->codes) : NULL;
    s->order = malloc((size_t)d * sizeof *s->order);
    if (!samples || !s->codes || !s->order) {
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
    for (int64_t rank = 0; rank < wanted; rank++) {
        double *sample = samples + s->order[rank] * count;
        qsort(sample, (size_t)count, sizeof *sample, km_by_value);
        feature_fill(s, &s->codes[rank], rank, sample, count);
    }
    free(samples);
    return KM_OK;
}

static void chunk_keys(const cpu_sorter *s, const cpu_tiles_kernels *kernels, int64_t chunk) {
    int64_t first = chunk * KM_CHUNK_POINTS;
    cpu_tiles_keys_work work = {.points = cpu_chunk_at(s->engine, chunk),
                                .first = first,
                                .count = cpu_chunk_points(s->engine, chunk),
                                .d = s->engine->base.d,
                                .soa_points = s->engine->soa_points,
                                .codes = s->codes,
                                .order = s->order,
                                .features_count = s->features_count,
                                .keys = s->keys + first,
                                .digit_shift = (int32_t)s->bits - TILES_DIGIT_BITS,
                                .counts = s->counts + chunk * TILES_DIGITS};
    kernels->keys(&work);
}

// Moves the keys of a chunk to the places of their highest digits. With `row` bytes of each point sorted along, the
// point in a key becomes the place of its row. The cache lines that are written next are prefetched: a store that
// misses would hold up all behind it.
static inline __attribute__((always_inline)) void scatter(const cpu_sorter *s, int64_t chunk,
                                                          const int64_t row) {
    enum { LINE = 64, KEYS_OF_LINE = LINE / (int)sizeof(uint64_t) };
    const uint64_t *keys = s->keys + chunk * KM_CHUNK_POINTS;
    const uint8_t *rows = (const uint8_t *)s->rows + chunk * KM_CHUNK_POINTS * row;
    const int64_t points = cpu_chunk_points(s->engine, chunk);
    const int shift = 32 + (int)s->bits - TILES_DIGIT_BITS;
    uint32_t *places = s->counts + chunk * TILES_DIGITS;
    for (int64_t i = 0; i < points; i++) {
        const uint32_t place = places[keys[i] >> shift]++;
        __builtin_prefetch(s->spare + place + KEYS_OF_LINE, 1);
        s->spare[place] = row ? keys[i] >> 32 << 32 | place : keys[i];
        if (!row) continue;
        uint8_t *to = (uint8_t *)s->carried + place * row;
        __builtin_prefetch(to + LINE, 1);
        memcpy(to, rows + i * row, (size_t)row);
    }
}

// Sorts by the highest digit, whose counts are known. Each chunk writes to its own places, so threads do not matter.
// firsts[digit] is where a digit's points begin.
static void sort_highest(cpu_sorter *s, int64_t *firsts) {
    int64_t chunks = s->engine->chunks_count,
            row = s->carried ? s->engine->base.d * (int64_t)sizeof *s->rows : 0;
    int threads = cpu_threads_for(s->engine, chunks);
    int64_t place = 0;
    for (int64_t digit = 0; digit < TILES_DIGITS; digit++) {
        firsts[digit] = place;
        for (int64_t chunk = 0; chunk < chunks; chunk++) {
            uint32_t count = s->counts[chunk * TILES_DIGITS + digit];
            s->counts[chunk * TILES_DIGITS + digit] = (uint32_t)place;
            place += count;
        }
    }
    firsts[TILES_DIGITS] = place;
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t chunk = 0; chunk < chunks; chunk++) switch (row) {
        case 0:
            scatter(s, chunk, 0);
            break;
        case 4:
            scatter(s, chunk, 4);
            break;
        case 8:
            scatter(s, chunk, 8);
            break;
        case 12:
            scatter(s, chunk, 12);
            break;
        default:
            scatter(s, chunk, 16);
        }
    uint64_t *sorted = s->spare;
    s->spare = s->keys;
    s->keys = sorted;
}

// Sorts keys that are equal in the highest digit by a lower one. They are few enough to stay in the cache.
static void sort_lower(uint64_t *out, const uint64_t *keys, int64_t count, int shift) {
    uint32_t places[TILES_DIGITS] = {0}, place = 0;
    for (int64_t i = 0; i < count; i++) places[(keys[i] >> shift) % TILES_DIGITS]++;
    for (int64_t digit = 0; digit < TILES_DIGITS; digit++) {
        uint32_t here = places[digit];
        places[digit] = place;
        place += here;
    }
    for (int64_t i = 0; i < count; i++) out[places[(keys[i] >> shift) % TILES_DIGITS]++] = keys[i];
}

static void sort_rest(cpu_sorter *s, const int64_t *firsts) {
    int threads = cpu_threads_for(s->engine, s->engine->chunks_count);
    int64_t digits = s->bits / TILES_DIGIT_BITS - 1;
#pragma omp parallel for schedule(dynamic, 4) num_threads(threads) if (threads > 1)
    for (int64_t highest = 0; highest < TILES_DIGITS; highest++) {
        uint64_t *from = s->keys + firsts[highest], *to = s->spare + firsts[highest];
        for (int64_t digit = 0; digit < digits; digit++) {
            sort_lower(to, from, firsts[highest + 1] - firsts[highest], 32 + (int)digit * TILES_DIGIT_BITS);
            uint64_t *sorted = to;
            to = from;
            from = sorted;
        }
    }
    if (digits % 2 == 0) return;
    uint64_t *sorted = s->spare;
    s->spare = s->keys;
    s->keys = sorted;
}

void km_cpu_sorter_free(cpu_sorter *s) {
    free(s->codes);
    free(s->order);
    free(s->counts);
    km_pages_free(s->keys);
    km_pages_free(s->spare);
    km_pages_free(s->carried);
    *s = (cpu_sorter){.bits = 0};
}

km_status km_cpu_sorter_run(cpu_sorter *s, const cpu_engine *engine, const cpu_tiles_kernels *kernels,
                            const float *rows, int64_t cell_bits, km_error *err) {
    int64_t n = engine->base.n, chunks = engine->chunks_count, firsts[TILES_DIGITS + 1];
    *s = (cpu_sorter){.engine = engine,
                      .rows = rows,
                      .bits = n > CODE_POINTS ? CODE_BITS_MANY : CODE_BITS,
                      .cell_bits = cell_bits};
    int64_t row = engine->base.d * (int64_t)sizeof *rows;
    if (rows && row <= CARRIED_BYTES) {
        s->carried = km_pages_alloc(n * row);
        if (!s->carried) return km_fail_memory(err, "sorting the points", n * row);
    }
    s->keys = km_pages_alloc(n * (int64_t)sizeof *s->keys);
    s->spare = km_pages_alloc(n * (int64_t)sizeof *s->spare);
    s->counts = calloc((size_t)(chunks * TILES_DIGITS), sizeof *s->counts);
    if (!s->keys || !s->spare || !s->counts)
        return km_fail_memory(err, "sorting the points", 2 * n * (int64_t)sizeof *s->keys);
    KM_TRY(features_make(s, err));
    int threads = cpu_threads_for(engine, chunks);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t chunk = 0; chunk < chunks; chunk++) chunk_keys(s, kernels, chunk);
    sort_highest(s, firsts);
    sort_rest(s, firsts);
    return KM_OK;
}

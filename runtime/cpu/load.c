// SPDX-License-Identifier: MIT
// Bringing the points home: statistics, refusal of NaN and infinity, and the copy into groups.
#include "../data.h"
#include "cpu.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

// Statistics are gathered from chunks of rows that fit a core's cache, with squares around a value of the chunk, so
// that no digits are lost whatever the data's offset. Chunks join a block in index order,
// blocks the whole likewise (the pairwise updating formulae for sums of squares).
enum { CHUNK_VALUES = 4096, CHUNK_ROWS_MIN = 8, CHUNK_ROWS_MAX = 1024, LANES = 8 };

typedef struct loader {
    cpu_engine *engine;
    const km_data *data;
    const float *base32; // the rows as they lie in memory, in one of the types ...
    const double *base64;
    int64_t chunk_rows; // ... else read chunk by chunk as doubles
    double *blocks;     // of each block: weight, square, then mean, M2, minimum, maximum (d each)
    double *scratch;    // of each thread: chunk_rows rows, then a column of chunk_rows
    int64_t block_count, scratch_count;
    int64_t bad_point; // lowest point with a value that is no number, or n
} loader;

static km_status loader_init(loader *load, cpu_engine *engine, const km_data *data, km_error *err) {
    int64_t d = engine->base.d, rows = CHUNK_VALUES / d;
    rows = rows < CHUNK_ROWS_MIN   ? CHUNK_ROWS_MIN
           : rows > CHUNK_ROWS_MAX ? CHUNK_ROWS_MAX
                                   : rows / LANES * LANES;
    *load = (loader){.engine = engine,
                     .data = data,
                     .base32 = (const float *)km_data_base(data, KM_FLOAT32),
                     .base64 = (const double *)km_data_base(data, KM_FLOAT64),
                     .chunk_rows = rows,
                     .block_count = 2 + 4 * d,
                     .scratch_count = rows * (d + 1),
                     .bad_point = engine->base.n};
    int64_t count = engine->blocks_count * load->block_count + engine->threads * load->scratch_count;
    load->blocks = malloc((size_t)count * sizeof *load->blocks);
    if (!load->blocks)
        return km_fail_memory(err, "statistics of blocks", count * (int64_t)sizeof *load->blocks);
    load->scratch = load->blocks + engine->blocks_count * load->block_count;
    return KM_OK;
}

// A column of rows first .. first + count - 1, as doubles. `rows` holds them when they had to be read.
static void column(double *out, const loader *load, const double *rows, int64_t first, int64_t count,
                   int64_t f) {
    int64_t d = load->engine->base.d;
    if (load->base32)
        for (int64_t i = 0; i < count; i++) out[i] = (double)load->base32[(first + i) * d + f];
    else if (load->base64)
        for (int64_t i = 0; i < count; i++) out[i] = load->base64[(first + i) * d + f];
    else
        for (int64_t i = 0; i < count; i++) out[i] = rows[i * d + f];
}

static double lanes_sum(const double *lanes) {
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

// Sum of w x (or of w (x - middle)^2 when `squares`), eight running sums side by side.
static double column_sum(const double *x, const double *w, int64_t count, double middle, int squares) {
    double lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int l = 0; l < LANES; l++) {
            double t = x[i + l] - middle, weight = w ? w[i + l] : 1.0;
            lanes[l] += weight * (squares ? t * t : t);
        }
    for (int l = 0; i < count; i++, l++) {
        double t = x[i] - middle, weight = w ? w[i] : 1.0;
        lanes[l] += weight * (squares ? t * t : t);
    }
    return lanes_sum(lanes);
}

// Of one column: sums of (x - first) and its square, minimum and maximum.
typedef struct moments {
    double sum, square, minimum, maximum;
} moments;

// One read of a column without weights. The first value is near enough to the mean: however far it lies, the
// variance that it adds itself is larger than the digits it costs.
static inline __attribute__((always_inline)) void moments_body(moments *out, const double *x, int64_t count) {
    double sum[LANES] = {0}, square[LANES] = {0}, low[LANES], high[LANES], first = x[0];
    for (int l = 0; l < LANES; l++) low[l] = high[l] = first;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int l = 0; l < LANES; l++) {
            double value = x[i + l], t = value - first;
            sum[l] += t;
            square[l] += t * t;
            low[l] = value < low[l] ? value : low[l];
            high[l] = value > high[l] ? value : high[l];
        }
    for (int l = 0; i < count; i++, l++) {
        double value = x[i], t = value - first;
        sum[l] += t;
        square[l] += t * t;
        low[l] = value < low[l] ? value : low[l];
        high[l] = value > high[l] ? value : high[l];
    }
    *out = (moments){lanes_sum(sum), lanes_sum(square), low[0], high[0]};
    for (int l = 1; l < LANES; l++) {
        out->minimum = low[l] < out->minimum ? low[l] : out->minimum;
        out->maximum = high[l] > out->maximum ? high[l] : out->maximum;
    }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void moments_avx2(moments *out, const double *x, int64_t count) {
    moments_body(out, x, count);
}
#endif

static void column_moments(moments *out, const double *x, int64_t count) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        moments_avx2(out, x, count);
        return;
    }
#endif
    moments_body(out, x, count);
}

// Joins part B (weight, mean, M2) to A.
static void join(double *mean, double *square, double weight, double part_mean, double part_square,
                 double part_weight) {
    double both = weight + part_weight;
    if (!(part_weight > 0)) return;
    double apart = part_mean - *mean;
    *mean += apart * (part_weight / both);
    *square += part_square + apart * apart * (weight * (part_weight / both));
}

static int64_t first_bad_point(const loader *load, const double *rows, int64_t first, int64_t count) {
    int64_t d = load->engine->base.d;
    for (int64_t i = 0; i < count; i++)
        for (int64_t f = 0; f < d; f++) {
            double value;
            column(&value, load, rows + i * d, first + i, 1, f);
            if (!isfinite(value)) return first + i;
        }
    return load->engine->base.n;
}

// Statistics of one block; *bad is its lowest point that is no number, or n.
static km_status block_stats(const loader *load, int64_t block, int64_t me, int64_t *bad, km_error *err) {
    int64_t d = load->engine->base.d, start = block * KM_BLOCK_POINTS;
    int64_t points = cpu_block_points(load->engine, block);
    double *stats = load->blocks + block * load->block_count, *mean = stats + 2, *square = mean + d;
    double *minimum = square + d, *maximum = minimum + d;
    double *rows = load->scratch + me * load->scratch_count, *x = rows + load->chunk_rows * d;
    memset(stats, 0, (size_t)load->block_count * sizeof *stats);
    for (int64_t f = 0; f < d; f++) {
        minimum[f] = INFINITY;
        maximum[f] = -INFINITY;
    }
    *bad = load->engine->base.n;
    for (int64_t done = 0; done < points; done += load->chunk_rows) {
        int64_t count = cpu_min(load->chunk_rows, points - done), first = start + done;
        const double *w = cpu_weights_at(load->engine, first);
        if (!load->base32 && !load->base64)
            KM_TRY(km_data_read(rows, load->data, first, count, KM_FLOAT64, err));
        double weight = 0;
        if (w)
            for (int64_t i = 0; i < count; i++) weight += w[i];
        else
            weight = (double)count;
        int finite = 1;
        for (int64_t f = 0; f < d; f++) {
            moments m;
            column(x, load, rows, first, count, f);
            column_moments(&m, x, count);
            minimum[f] = m.minimum < minimum[f] ? m.minimum : minimum[f];
            maximum[f] = m.maximum > maximum[f] ? m.maximum : maximum[f];
            finite &= isfinite(m.square);
            if (!(weight > 0)) continue;
            double middle = x[0] + m.sum / weight, around = m.square - m.sum * (m.sum / weight);
            if (w) {
                middle = column_sum(x, w, count, 0, 0) / weight;
                around = column_sum(x, w, count, middle, 1);
            }
            join(&mean[f], &square[f], stats[0], middle, around > 0 ? around : 0, weight);
        }
        stats[0] += weight;
        if (!finite) {
            *bad = first_bad_point(load, rows, first, count);
            if (*bad < load->engine->base.n) return KM_OK; // else finite, but too large to square
        }
    }
    return KM_OK;
}

// First read: statistics of every block, then of all.
static km_status stats_all(loader *load, km_data_stats *stats, km_error *err) {
    const cpu_engine *engine = load->engine;
    int64_t d = engine->base.d;
    int threads = cpu_threads_for(engine, engine->blocks_count);
    km_status status = KM_OK;
    km_error first_err = {""};
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1)
    for (int64_t block = 0; block < engine->blocks_count; block++) {
        km_error block_err = {""};
        int64_t bad;
        km_status block_status = block_stats(load, block, omp_get_thread_num(), &bad, &block_err);
#pragma omp critical(km_cpu_load)
        {
            if (block_status != KM_OK && status == KM_OK) {
                status = block_status;
                first_err = block_err;
            }
            load->bad_point = cpu_min(load->bad_point, bad);
        }
    }
    if (status != KM_OK) return km_fail(err, status, "%s", first_err.text);
    if (load->bad_point < engine->base.n) return km_data_refuse_value(load->data, load->bad_point, -1, err);
    for (int64_t f = 0; f < d; f++) {
        stats->mean[f] = stats->variance[f] = stats->total_weight = 0;
        stats->minimum[f] = INFINITY;
        stats->maximum[f] = -INFINITY;
        for (int64_t block = 0; block < engine->blocks_count; block++) {
            const double *part = load->blocks + block * load->block_count;
            join(&stats->mean[f], &stats->variance[f], stats->total_weight, part[2 + f], part[2 + d + f],
                 part[0]);
            stats->total_weight += part[0];
            stats->minimum[f] = fmin(stats->minimum[f], part[2 + 2 * d + f]);
            stats->maximum[f] = fmax(stats->maximum[f], part[2 + 3 * d + f]);
        }
        stats->variance[f] /= stats->total_weight;
    }
    return KM_OK;
}

// Puts one block into groups and returns its sum of w |x|^2.
static km_status block_copy(const loader *load, double *square, int64_t block, int64_t me,
                            const km_load_params *params, km_error *err) {
    const cpu_engine *engine = load->engine;
    int64_t d = engine->base.d, group = engine->group, points = cpu_block_points(engine, block);
    double *rows = load->scratch + me * load->scratch_count, *x = rows + load->chunk_rows * d;
    double sum = 0;
    // A chunk may end inside a group: position by position, each value finds its place by itself.
    for (int64_t done = 0; done < points; done += load->chunk_rows) {
        int64_t count = cpu_min(load->chunk_rows, points - done), first = block * KM_BLOCK_POINTS + done;
        const double *w = cpu_weights_at(engine, first);
        if (!load->base32 && !load->base64)
            KM_TRY(km_data_read(rows, load->data, first, count, KM_FLOAT64, err));
        for (int64_t f = 0; f < d; f++) {
            double centre = params->centre[f], factor = params->factor[f];
            column(x, load, rows, first, count, f);
            for (int64_t i = 0; i < count; i++) x[i] = (x[i] - centre) * factor;
            if (engine->real_bytes == 4)
                for (int64_t i = 0; i < count; i++) x[i] = (double)(float)x[i];
            for (int64_t i = 0; i < count;) {
                int64_t point = first + i, lane = point % group, here = cpu_min(group - lane, count - i);
                int64_t at = (point - lane) * d + f * group + lane;
                if (engine->real_bytes == 4)
                    for (int64_t j = 0; j < here; j++) ((float *)engine->points)[at + j] = (float)x[i + j];
                else
                    for (int64_t j = 0; j < here; j++) ((double *)engine->points)[at + j] = x[i + j];
                i += here;
            }
            sum += column_sum(x, w, count, 0, 1);
        }
    }
    *square = sum;
    return KM_OK;
}

// Zeros after the last point of the last group.
static void pad(cpu_engine *engine) {
    int64_t d = engine->base.d, group = engine->group, last = engine->base.n / group * group;
    for (int64_t f = 0; f < d; f++)
        for (int64_t i = engine->base.n - last; i < group; i++)
            memset(engine->points + (last * d + f * group + i) * engine->real_bytes, 0,
                   (size_t)engine->real_bytes);
}

// Second read: the copy.
static km_status copy_all(loader *load, km_data_stats *stats, const km_load_params *params, km_error *err) {
    cpu_engine *engine = load->engine;
    int threads = cpu_threads_for(engine, engine->blocks_count);
    km_status status = KM_OK;
    km_error first_err = {""};
    if (engine->base.n % engine->group) pad(engine);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1)
    for (int64_t block = 0; block < engine->blocks_count; block++) {
        km_error block_err = {""};
        double *square = load->blocks + block * load->block_count + 1;
        km_status block_status = block_copy(load, square, block, omp_get_thread_num(), params, &block_err);
        if (block_status == KM_OK) continue;
#pragma omp critical(km_cpu_load)
        if (status == KM_OK) {
            status = block_status;
            first_err = block_err;
        }
    }
    if (status != KM_OK) return km_fail(err, status, "%s", first_err.text);
    stats->total_square = 0;
    for (int64_t block = 0; block < engine->blocks_count; block++)
        stats->total_square += load->blocks[block * load->block_count + 1];
    return KM_OK;
}

km_status km_cpu_load(km_engine *base, km_data_stats *stats, const km_data *data, km_load_params *params,
                      km_error *err) {
    cpu_engine *engine = (cpu_engine *)base;
    int64_t n = km_data_points(data), d = base->d, bytes;
    if (km_data_features(data) != d)
        return km_fail(err, KM_ERROR_DATA, "%s has %lld features, the module is for %lld", km_data_name(data),
                       (long long)km_data_features(data), (long long)d);
    if (n < 1) return km_fail(err, KM_ERROR_DATA, "%s has no points", km_data_name(data));
    if (engine->points) return km_fail(err, KM_ERROR_INTERNAL, "the engine has points already");
    if (km_mul_overflows(&bytes, cpu_round_up(n, engine->group), d * engine->real_bytes))
        return km_fail(err, KM_ERROR_MEMORY, "%lld x %lld values are too many for this machine", (long long)n,
                       (long long)d);
    engine->points = km_cpu_alloc(bytes);
    if (!engine->points) return km_fail_memory(err, "the points", bytes);
    engine->points_bytes = bytes;
    base->n = n;
    engine->blocks_count = (n + KM_BLOCK_POINTS - 1) / KM_BLOCK_POINTS;
    engine->weights = km_data_weights(data); // the data outlive the engine
    loader load;
    km_status status = loader_init(&load, engine, data, err);
    if (status != KM_OK) return status;
    KM_TRY_GOTO(stats_all(&load, stats, err));
    if (!params->transform_given)
        km_transform_of(params->centre, params->factor, stats, d, params->scale, base->plan->spec.type);
    KM_TRY_GOTO(copy_all(&load, stats, params, err));
    engine->total_weight = stats->total_weight;
    engine->total_square = stats->total_square;
    if (base->plan->algorithm == KM_ALGORITHM_FILTER)
        status = km_cpu_filter_create(engine, data, params, err);
    if (base->plan->algorithm == KM_ALGORITHM_HAMERLY || base->plan->algorithm == KM_ALGORITHM_ELKAN)
        status = km_cpu_bounds_create(engine, err);
done:
    free(load.blocks);
    return status;
}

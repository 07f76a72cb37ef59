// SPDX-License-Identifier: MIT
// The load: statistics, refusal of NaN and infinity, and the copy of the points into SoA groups.
#include "../../base/error.h"
#include "../../base/size.h"
#include "../data_refuse.h"
#include "../rounding.h"
#include "../share.h"
#include "cpu.h"
#include "load.h"
#include "../threads.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Statistics are gathered from batches of rows that fit a core's cache. Squares are taken around a value of the batch,
// so that no digits are lost whatever the data's offset. Batches are joined to the statistics of their chunk in index
// order, and chunks to those of all points (the pairwise updating formulae for sums of squares).
enum { BATCH_VALUES = 4096, BATCH_ROWS_MIN = 8, BATCH_ROWS_MAX = 1024, LANES = LOAD_LANES };
enum { STREAM_BYTES_MIN = 4 << 20 };
enum {
    ARRAYS = 9,     // of a thread's memory
    VALUES_MORE = 8 // doubles behind a batch's values, which a kernel may read
};

// What each thread has for itself.
typedef struct scratch {
    double *rows;   // of a batch, where they do not lie in memory in one of the types
    void *values;   // of a batch, centred and scaled: reals
    double *column; // of a batch
    double *first;  // LANES rows
    double *lanes;  // 4 LANES rows
    cpu_moments moments;
} scratch;

typedef struct loader {
    cpu_engine *engine;
    const km_data *data;
    const float *base32; // the rows as they lie in memory, in one of the types ...
    const double *base64;
    int64_t batch_rows;  // ... else read batch by batch as doubles
    double *stats;       // of each chunk: weight, square, then mean, M2, minimum, maximum (d each)
    double *centre;      // LANES rows of it, then of factor
    scratch *own;        // of each thread
    int64_t stats_count; // numbers of a chunk's statistics
    const cpu_load_kernels *kernels;
    int64_t bad_point; // lowest point with a value that is no number, or n
} loader;

// Moments around the batch's first row, of which own->first gets LANES copies.
static void rows_moments(const loader *load, const scratch *own, int64_t first, int64_t count) {
    int64_t d = load->engine->base.d;
    const float *x32 = load->base32 ? load->base32 + first * d : NULL;
    const double *x64 = load->base64 ? load->base64 + first * d : own->rows;
    for (int64_t f = 0; f < d; f++) own->first[f] = x32 ? (double)x32[f] : x64[f];
    for (int64_t l = 1; l < LANES; l++) memcpy(own->first + l * d, own->first, (size_t)d * sizeof(double));
    load->kernels->moments(&own->moments, x32 ? (const void *)x32 : (const void *)x64, count, d, own->first,
                           own->lanes);
}

// Centred and scaled rows in own->values; returns the sum of their squares.
static double rows_values(const loader *load, const scratch *own, int64_t first, int64_t count) {
    int64_t d = load->engine->base.d;
    const float *x32 = load->base32 ? load->base32 + first * d : NULL;
    const double *x64 = load->base64 ? load->base64 + first * d : own->rows;
    const double *centre = load->centre, *factor = centre + LANES * d;
    return load->kernels->values(own->values, x32 ? (const void *)x32 : (const void *)x64, count, d, centre,
                                 factor, load->engine->real_bytes == 4);
}

static void loader_free(loader *load) {
    free(load->stats);
    km_pages_free(load->own);
}

// One piece for each thread: rows, values, column, first, lanes, moments.
static km_status scratch_init(loader *load, km_error *err) {
    int64_t d = load->engine->base.d, rows = load->batch_rows, threads = load->engine->threads;
    int64_t sizes[] = {rows * d, rows * d + VALUES_MORE, rows, LANES * d, 4 * LANES * d, d, d, d, d},
            count = 0;
    for (int i = 0; i < ARRAYS; i++) count += sizes[i] = km_round_up(sizes[i], 8);
    int64_t head = km_round_up(threads * (int64_t)sizeof *load->own, 64),
            bytes = count * (int64_t)sizeof(double);
    uint8_t *memory = km_pages_alloc(head + threads * bytes);
    load->own = (scratch *)memory;
    if (!memory) return km_fail_memory(err, "batches of rows", head + threads * bytes);
    for (int64_t t = 0; t < threads; t++) {
        double *at = (double *)(memory + head + t * bytes), *arrays[ARRAYS];
        for (int i = 0; i < ARRAYS; at += sizes[i++]) arrays[i] = at;
        load->own[t] = (scratch){arrays[0], arrays[1], arrays[2],
                                 arrays[3], arrays[4], {arrays[5], arrays[6], arrays[7], arrays[8]}};
    }
    return KM_OK;
}

static km_status loader_init(loader *load, cpu_engine *engine, const km_data *data, km_error *err) {
    int64_t d = engine->base.d, rows = BATCH_VALUES / d;
    rows = rows < BATCH_ROWS_MIN   ? BATCH_ROWS_MIN
           : rows > BATCH_ROWS_MAX ? BATCH_ROWS_MAX
                                   : rows / LANES * LANES;
    *load = (loader){.engine = engine,
                     .data = data,
                     .base32 = (const float *)km_data_base(data, KM_FLOAT32),
                     .base64 = (const double *)km_data_base(data, KM_FLOAT64),
                     .batch_rows = rows,
                     .stats_count = 2 + 4 * d,
                     .bad_point = engine->base.n};
    load->kernels = km_cpu_load_kernels(engine->base.plan, load->base32 ? 4 : 8);
    int64_t count = engine->chunks_count * load->stats_count + 2 * LANES * d;
    load->stats = malloc((size_t)count * sizeof *load->stats);
    if (!load->stats)
        return km_fail_memory(err, "statistics of chunks", count * (int64_t)sizeof *load->stats);
    load->centre = load->stats + engine->chunks_count * load->stats_count;
    return scratch_init(load, err);
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

// Sum of w (x - around), or of w (x - around)^2 when `squares`: eight running sums side by side.
static double column_sum(const double *x, const double *w, int64_t count, double around, int squares) {
    double lanes[LANES] = {0};
    for (int64_t i = 0; i < count; i++) {
        double t = x[i] - around;
        lanes[i % LANES] += w[i] * (squares ? t * t : t);
    }
    return load_lanes_sum(lanes);
}

// Joins the statistics of a part (weight, mean, sum of squared differences) to those of a whole.
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

// Statistics of one chunk. *bad is its lowest point that is no number, or n.
static km_status chunk_stats(const loader *load, int64_t chunk, int64_t me, int64_t *bad, km_error *err) {
    int64_t d = load->engine->base.d, start = chunk * KM_CHUNK_POINTS;
    int64_t points = cpu_chunk_points(load->engine, chunk);
    double *stats = load->stats + chunk * load->stats_count, *mean = stats + 2, *square = mean + d;
    double *minimum = square + d, *maximum = minimum + d;
    const scratch *own = &load->own[me];
    double *x = own->column;
    memset(stats, 0, (size_t)load->stats_count * sizeof *stats);
    for (int64_t f = 0; f < d; f++) {
        minimum[f] = INFINITY;
        maximum[f] = -INFINITY;
    }
    *bad = load->engine->base.n;
    for (int64_t done = 0; done < points; done += load->batch_rows) {
        int64_t count = km_min(load->batch_rows, points - done), first = start + done;
        const double *w = cpu_weights_at(load->engine, first);
        if (!load->base32 && !load->base64)
            KM_TRY(km_data_read(own->rows, load->data, first, count, KM_FLOAT64, err));
        rows_moments(load, own, first, count);
        double weight = 0;
        if (w)
            for (int64_t i = 0; i < count; i++) weight += w[i];
        else
            weight = (double)count;
        int finite = 1;
        for (int64_t f = 0; f < d; f++) {
            const cpu_moments *m = &own->moments;
            minimum[f] = m->low[f] < minimum[f] ? m->low[f] : minimum[f];
            maximum[f] = m->high[f] > maximum[f] ? m->high[f] : maximum[f];
            finite &= isfinite(m->square[f]);
            if (!(weight > 0)) continue;
            double batch_mean = own->first[f] + m->sum[f] / weight,
                   batch_square = m->square[f] - m->sum[f] * (m->sum[f] / weight);
            if (w) {
                column(x, load, own->rows, first, count, f);
                batch_mean = column_sum(x, w, count, 0, 0) / weight;
                batch_square = column_sum(x, w, count, batch_mean, 1);
            }
            join(&mean[f], &square[f], stats[0], batch_mean, batch_square > 0 ? batch_square : 0, weight);
        }
        stats[0] += weight;
        if (!finite) {
            *bad = first_bad_point(load, own->rows, first, count);
            if (*bad < load->engine->base.n) return KM_OK; // else finite, but too large to square
        }
    }
    return KM_OK;
}

// First read: statistics of every chunk.
static km_status stats_chunks(loader *load, km_error *err) {
    const cpu_engine *engine = load->engine;
    int threads = cpu_threads_for(engine, engine->chunks_count);
    km_status status = KM_OK;
    km_error first_err = {""};
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1)
    for (int64_t chunk = 0; chunk < engine->chunks_count; chunk++) {
        km_error chunk_err = {""};
        int64_t bad;
        if (km_asking_stops(engine->base.asking)) continue;
        km_status chunk_status = chunk_stats(load, chunk, omp_get_thread_num(), &bad, &chunk_err);
#pragma omp critical(km_cpu_load)
        {
            if (chunk_status != KM_OK && status == KM_OK) {
                status = chunk_status;
                first_err = chunk_err;
            }
            load->bad_point = km_min(load->bad_point, bad);
        }
    }
    if (status != KM_OK) return km_fail(err, status, "%s", first_err.text);
    KM_TRY(km_asking_status(engine->base.asking, err));
    if (load->bad_point < engine->base.n) return km_data_refuse_value(load->data, load->bad_point, -1, err);
    return KM_OK;
}

// Numbers of each chunk: of all ranks' chunks where there are others, in *other, the caller's to free.
static km_status chunks_of_all(const double **all, double **other, const loader *load, const double *own,
                               int64_t width, km_error *err) {
    km_share *share = load->engine->base.share;
    int64_t count = km_chunks_of(load->engine->base.n_all);
    *all = own;
    *other = NULL;
    if (!share) return KM_OK;
    *all = *other = malloc((size_t)(count * width) * sizeof **other);
    if (!*other) return km_fail_memory(err, "statistics of chunks", count * width * 8);
    return km_share_gather(share, *other, count, own, km_share_chunk(share), load->engine->chunks_count,
                           width, err);
}

// Those of all points.
static km_status stats_all(loader *load, km_data_stats *stats, km_error *err) {
    int64_t d = load->engine->base.d;
    const double *chunks;
    double *other;
    km_status status = chunks_of_all(&chunks, &other, load, load->stats, load->stats_count, err);
    for (int64_t f = 0; f < d && status == KM_OK; f++) {
        stats->mean[f] = stats->variance[f] = stats->total_weight = 0;
        stats->minimum[f] = INFINITY;
        stats->maximum[f] = -INFINITY;
        for (int64_t chunk = 0; chunk < km_chunks_of(load->engine->base.n_all); chunk++) {
            const double *part = chunks + chunk * load->stats_count;
            join(&stats->mean[f], &stats->variance[f], stats->total_weight, part[2 + f], part[2 + d + f],
                 part[0]);
            stats->total_weight += part[0];
            stats->minimum[f] = fmin(stats->minimum[f], part[2 + 2 * d + f]);
            stats->maximum[f] = fmax(stats->maximum[f], part[2 + 3 * d + f]);
        }
        stats->variance[f] /= stats->total_weight;
    }
    free(other);
    return status;
}

// `count` rows of d values, from point `first` on, to their places in the SoA groups. A batch may end inside an SoA
// group.
static void rows_group(const cpu_engine *engine, const void *values, int64_t first, int64_t count) {
    int64_t d = engine->base.d, soa_points = engine->soa_points;
    for (int64_t i = 0; i < count;) {
        int64_t lane = (first + i) % soa_points, here = km_min(soa_points - lane, count - i);
        int64_t at = (first + i - lane) * d + lane;
        if (engine->real_bytes == 4) {
            const float *from = (const float *)values + i * d;
            float *to = (float *)engine->points + at;
            for (int64_t f = 0; f < d; f++)
                for (int64_t j = 0; j < here; j++) to[f * soa_points + j] = from[j * d + f];
        } else {
            const double *from = (const double *)values + i * d;
            double *to = (double *)engine->points + at;
            for (int64_t f = 0; f < d; f++)
                for (int64_t j = 0; j < here; j++) to[f * soa_points + j] = from[j * d + f];
        }
        i += here;
    }
}

// sum w |x|^2 of rows of values.
static double rows_weighed(const cpu_engine *engine, const void *values, const double *w, int64_t count) {
    int64_t d = engine->base.d;
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        double square = 0;
        for (int64_t f = 0; f < d; f++) {
            double x = engine->real_bytes == 4 ? (double)((const float *)values)[i * d + f]
                                               : ((const double *)values)[i * d + f];
            square += x * x;
        }
        sum += w[i] * square;
    }
    return sum;
}

// The largest |x|^2 of the SoA groups that are complete with points first .. first + count - 1.
static float groups_largest(const cpu_engine *engine, int64_t first, int64_t count) {
    int64_t from = first / engine->soa_points, end = first + count;
    int64_t to = end == engine->base.n ? (end + engine->soa_points - 1) / engine->soa_points
                                       : end / engine->soa_points;
    const float *soa_groups = (const float *)engine->points + from * engine->soa_points * engine->base.d;
    return km_cpu_largest_square(soa_groups, to - from, engine->base.d);
}

// Copies a batch into SoA groups, and returns its sum of |x|^2. Keeps *largest up to date where int16 scores need it.
static double rows_copy(const loader *load, const scratch *own, double *largest, int64_t first,
                        int64_t count) {
    const cpu_engine *engine = load->engine;
    int wants_largest = km_cpu_wants_int16_scores(engine);
    if (load->kernels->copy && engine->real_bytes == 4 && engine->soa_points % LOAD_COPY_POINTS == 0) {
        cpu_rows_copy copy = {.rows = load->base32 + first * engine->base.d,
                              .first = first,
                              .count = count,
                              .d = engine->base.d,
                              .centre = load->centre,
                              .factor = load->centre + LANES * engine->base.d,
                              .values = own->values,
                              .soa_groups = (float *)engine->points,
                              .soa_points = engine->soa_points,
                              .streams = engine->points_bytes >= STREAM_BYTES_MIN,
                              .wants_largest = wants_largest,
                              .largest = (float)*largest};
        double sum = load->kernels->copy(&copy);
        *largest = (double)copy.largest;
        return sum;
    }
    double sum = rows_values(load, own, first, count);
    rows_group(engine, own->values, first, count);
    if (wants_largest) *largest = fmax(*largest, (double)groups_largest(engine, first, count));
    return sum;
}

// Copies one chunk into SoA groups. Returns its sum of w |x|^2, and the largest |x|^2 where int16 scores need it.
static km_status chunk_copy(const loader *load, double *square, double *largest, int64_t chunk, int64_t me,
                            km_error *err) {
    const cpu_engine *engine = load->engine;
    const scratch *own = &load->own[me];
    int64_t points = cpu_chunk_points(engine, chunk);
    double sum = 0;
    *largest = 0;
    for (int64_t done = 0; done < points; done += load->batch_rows) {
        int64_t count = km_min(load->batch_rows, points - done), first = chunk * KM_CHUNK_POINTS + done;
        const double *w = cpu_weights_at(engine, first);
        if (!load->base32 && !load->base64)
            KM_TRY(km_data_read(own->rows, load->data, first, count, KM_FLOAT64, err));
        double here = rows_copy(load, own, largest, first, count);
        sum += w ? rows_weighed(engine, own->values, w, count) : here;
    }
    if (load->kernels->copy) load->kernels->copy_end();
    *square = sum;
    return KM_OK;
}

// Zeros behind the last point of the last SoA group.
static void pad_last(cpu_engine *engine) {
    int64_t d = engine->base.d, soa_points = engine->soa_points,
            last = engine->base.n / soa_points * soa_points;
    for (int64_t f = 0; f < d; f++)
        for (int64_t i = engine->base.n - last; i < soa_points; i++)
            memset(engine->points + (last * d + f * soa_points + i) * engine->real_bytes, 0,
                   (size_t)engine->real_bytes);
}

// Second read: the copy.
static km_status copy_chunks(loader *load, const km_load_params *params, km_error *err) {
    cpu_engine *engine = load->engine;
    int threads = cpu_threads_for(engine, engine->chunks_count);
    km_status status = KM_OK;
    km_error first_err = {""};
    int64_t period = LANES * engine->base.d;
    for (int64_t i = 0; i < period; i++) {
        load->centre[i] = params->centre[i % engine->base.d];
        load->centre[period + i] = params->factor[i % engine->base.d];
    }
    if (engine->base.n % engine->soa_points) pad_last(engine);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1)
    for (int64_t chunk = 0; chunk < engine->chunks_count; chunk++) {
        km_error chunk_err = {""};
        if (km_asking_stops(engine->base.asking)) continue;
        double *stats_of = load->stats + chunk * load->stats_count, *square = stats_of + 1;
        km_status chunk_status = chunk_copy(load, square, stats_of, chunk, omp_get_thread_num(), &chunk_err);
        if (chunk_status == KM_OK) continue;
#pragma omp critical(km_cpu_load)
        if (status == KM_OK) {
            status = chunk_status;
            first_err = chunk_err;
        }
    }
    if (status != KM_OK) return km_fail(err, status, "%s", first_err.text);
    KM_TRY(km_asking_status(engine->base.asking, err));
    return KM_OK;
}

// Squares of all points. chunk_copy has put the largest where the weight was.
static km_status squares_all(loader *load, km_data_stats *stats, km_error *err) {
    cpu_engine *engine = load->engine;
    const double *chunks;
    double *other;
    km_status status = chunks_of_all(&chunks, &other, load, load->stats, load->stats_count, err);
    stats->total_square = engine->norm_max = 0;
    for (int64_t chunk = 0; chunk < km_chunks_of(engine->base.n_all) && status == KM_OK; chunk++) {
        stats->total_square += chunks[chunk * load->stats_count + 1];
        engine->norm_max = fmax(engine->norm_max, chunks[chunk * load->stats_count]);
    }
    engine->norm_max = sqrt(engine->norm_max) * (1 + 0x1p-16); // squares were summed as floats
    free(other);
    return status;
}

// The largest value of each feature in magnitude. Returns the square of the farthest corner of the data's box.
static double largest_square(double *largest, const km_data_stats *stats, const km_load_params *params,
                             int64_t d) {
    double sum = 0;
    for (int64_t f = 0; f < d; f++) {
        double low = (stats->minimum[f] - params->centre[f]) * params->factor[f];
        double high = (stats->maximum[f] - params->centre[f]) * params->factor[f];
        largest[f] = fmax(fabs(low), fabs(high)) * (1 + 0x1p-20); // values are rounded
        sum += fmax(low * low, high * high);
    }
    return sum;
}

km_status km_cpu_dense_load(cpu_engine *engine, km_data_stats *stats, const km_data *data,
                            km_load_params *params, km_error *err) {
    km_engine *base = &engine->base;
    int64_t n = km_data_points(data), d = base->d, bytes;
    if (km_mul_overflows(&bytes, km_round_up(n, engine->soa_points), d * engine->real_bytes))
        return km_fail(err, KM_ERROR_MEMORY, "%lld x %lld values are too many for this machine", (long long)n,
                       (long long)d);
    engine->points = km_pages_alloc(bytes);
    engine->points_bytes = bytes;
    base->n = n;
    engine->chunks_count = km_chunks_of(n);
    engine->weights = km_data_weights(data); // the data outlive the engine
    loader load = {0};
    km_status status =
        engine->points ? loader_init(&load, engine, data, err) : km_fail_memory(err, "the points", bytes);
    if (status == KM_OK) status = stats_chunks(&load, err);
    KM_TRY_GOTO(km_share_agree(base->share, status, err));
    KM_TRY_GOTO(stats_all(&load, stats, err));
    status = km_transform_choose(params, stats, data, base->plan->spec.type, err);
    if (status == KM_ERROR_DATA) status = km_share_agree(base->share, status, err); // all found it
    if (status != KM_OK) goto done;
    KM_TRY_GOTO(km_share_agree(base->share, copy_chunks(&load, params, err), err));
    KM_TRY_GOTO(squares_all(&load, stats, err));
    engine->total_weight = stats->total_weight;
    engine->total_square = stats->total_square;
    engine->typical_square = stats->typical_square;
    engine->rounding2 = km_mean_rounding2(base->n_all, base->plan->spec.type);
    engine->square_min = engine->rounding2 * stats->typical_square;
    engine->largest_square = largest_square(load.centre, stats, params, d); // load.centre is free by now
    KM_TRY_GOTO(km_cpu_int16_create(engine, load.centre, err));
    if (base->plan->algorithm == KM_ALGORITHM_TILES) status = km_cpu_tiling_create(engine, data, params, err);
    if (base->plan->algorithm == KM_ALGORITHM_HAMERLY || base->plan->algorithm == KM_ALGORITHM_ELKAN)
        status = km_cpu_bounds_create(engine, err);
done:
    loader_free(&load);
    return status;
}

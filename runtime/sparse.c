// SPDX-License-Identifier: MIT
// From a table to CSR points: one read for statistics, one for the copy.
#include "sparse.h"
#include "../base/size.h"
#include "../base/wording.h"
#include "../gen/memory.h"
#include "csr.h"
#include "data_refuse.h"
#include "memory.h"
#include "pages.h"
#include "threads.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCH_ROWS = 1024,
    BATCH_VALUES = 1 << 16, // of a dense table, or rows of many features
    PARTS_MAX = 64,         // of the points, whose statistics are gathered side by side ...
    PARTS_MIN = 4,
    PARTS_VALUES = 1 << 23 // ... in about so many numbers
};

// Statistics of a feature's entries in a part of the points, side by side: a cache line or two an entry. Sums are of
// x - around, where `around` is the first point.
typedef struct feature_sums {
    double sum, square, low, high, weight;
    int64_t entries;
} feature_sums;

typedef struct part {
    feature_sums *features; // d
    double total_weight;
    int64_t bad_point; // lowest point with a value that is no number, or n
} part;

typedef struct loader {
    km_sparse_points *points;
    const km_data *data;
    const double *weights;
    const km_load_params *params;
    part *parts;
    int64_t parts_count, chunks_count;
    int64_t batch_rows; // of a dense table
    double *around;     // d
    int64_t *centred;   // features with a centre that points without an entry must get; ascending
    int64_t centred_count;
    int64_t *chunk_entries; // of each chunk
    km_error *err;
    km_status status;
} loader;

void km_sparse_free(km_sparse_points *points) {
    free(points->chunk_first);
    km_pages_free(points->starts);
    km_pages_free(points->indices);
    km_pages_free(points->values);
    km_pages_free(points->norms);
    *points = (km_sparse_points){0};
}

void km_sparse_row(double *out, const km_sparse_points *points, int64_t point) {
    int64_t end = km_sparse_end(points, point);
    memset(out, 0, (size_t)points->d * sizeof *out);
    for (int64_t e = km_sparse_first(points, point); e < end; e++)
        out[km_sparse_column(points, e)] = km_sparse_value(points, e);
}

// Keeps the first error of all threads.
static void note(loader *load, km_status status, const km_error *err) {
#pragma omp critical(km_sparse_load)
    if (status != KM_OK && load->status == KM_OK) load->status = km_fail(load->err, status, "%s", err->text);
}

static int failed(loader *load) {
    int status;
#pragma omp atomic read
    status = load->status;
    return status != KM_OK;
}

// Statistics -------------------------------------------------------------------------------------------------

static km_status parts_alloc(loader *load, km_error *err) {
    int64_t d = load->points->d, count = km_max(PARTS_MIN, km_min(PARTS_MAX, PARTS_VALUES / (6 * d)));
    count = km_min(count, load->chunks_count);
    load->parts = calloc((size_t)count, sizeof *load->parts);
    load->around = calloc((size_t)d, sizeof *load->around);
    load->centred = calloc((size_t)d, sizeof *load->centred);
    load->chunk_entries = calloc((size_t)load->chunks_count, sizeof *load->chunk_entries);
    if (!load->parts || !load->around || !load->centred || !load->chunk_entries)
        return km_fail_memory(err, "statistics of the points", d * 16);
    load->parts_count = count;
    for (int64_t p = 0; p < count; p++) {
        part *own = &load->parts[p];
        *own = (part){.features = malloc((size_t)d * sizeof *own->features), .bad_point = load->points->n};
        if (!own->features) return km_fail_memory(err, "statistics of the points", d * 48);
        for (int64_t f = 0; f < d; f++) own->features[f] = (feature_sums){.low = INFINITY, .high = -INFINITY};
    }
    return KM_OK;
}

static void loader_free(loader *load) {
    for (int64_t p = 0; p < load->parts_count; p++) free(load->parts[p].features);
    free(load->parts);
    free(load->around);
    free(load->centred);
    free(load->chunk_entries);
}

static double weight_of(const loader *load, int64_t point) {
    return load->weights ? load->weights[point] : 1.0;
}

static void add_row(part *own, const loader *load, const km_csr_rows *rows, int64_t row, int64_t point) {
    double w = weight_of(load, point);
    int finite = 1;
    own->total_weight += w;
    for (int64_t e = rows->starts[row]; e < rows->starts[row + 1]; e++) {
        double x = rows->values[e], t = x - load->around[rows->indices[e]];
        feature_sums *f = &own->features[rows->indices[e]];
        finite &= fabs(x) <= DBL_MAX;
        f->sum += w * t;
        f->square += w * t * t;
        f->low = x < f->low ? x : f->low;
        f->high = x > f->high ? x : f->high;
        f->weight += w;
        f->entries++;
    }
    if (!finite) own->bad_point = km_min(own->bad_point, point);
}

// Points from `first` on that are read together: about BATCH_VALUES entries at most.
static int64_t batch_of(const loader *load, int64_t first, int64_t end) {
    const km_csr *csr = km_data_csr(load->data);
    int64_t count = 0, entries = 0;
    if (!csr) return km_min(load->batch_rows, end - first);
    while (count < km_min(BATCH_ROWS, end - first)) {
        int64_t row = km_data_row_of(load->data, first + count);
        entries += csr->starts[row + 1] - csr->starts[row];
        if (count > 0 && entries > BATCH_VALUES) break;
        count++;
    }
    return count;
}

static km_status part_stats(loader *load, int64_t p, km_error *err) {
    int64_t first = load->chunks_count * p / load->parts_count;
    int64_t end = load->chunks_count * (p + 1) / load->parts_count;
    km_csr_rows rows = {0};
    km_status status = KM_OK;
    for (int64_t chunk = first; chunk < end && !failed(load); chunk++) {
        int64_t from = chunk * KM_CHUNK_POINTS, to = km_min(from + KM_CHUNK_POINTS, load->points->n);
        for (int64_t i = from; i < to; i += rows.count) {
            KM_TRY_GOTO(km_data_read_csr(&rows, load->data, i, batch_of(load, i, to), err));
            load->chunk_entries[chunk] += rows.starts[rows.count];
            for (int64_t r = 0; r < rows.count; r++) add_row(&load->parts[p], load, &rows, r, i + r);
        }
    }
done:
    km_csr_rows_free(&rows);
    return status;
}

// The statistics of all points from those of the parts, in order. Points without an entry have a 0.
static void join_feature(km_data_stats *stats, const loader *load, int64_t f) {
    double sum = 0, square = 0, weight = 0, low = INFINITY, high = -INFINITY, around = load->around[f];
    int64_t entries = 0;
    for (int64_t p = 0; p < load->parts_count; p++) {
        const feature_sums *own = &load->parts[p].features[f];
        sum += own->sum;
        square += own->square;
        weight += own->weight;
        low = fmin(low, own->low);
        high = fmax(high, own->high);
        entries += own->entries;
    }
    double total = stats->total_weight;
    if (entries < load->points->n) {
        double rest = entries ? fmax(total - weight, 0) : total;
        sum -= rest * around;
        square += rest * around * around;
        low = fmin(low, 0);
        high = fmax(high, 0);
    }
    stats->mean[f] = around + sum / total;
    double variance = square / total - (sum / total) * (sum / total);
    stats->variance[f] = variance < 0 ? 0 : variance; // sums that no double holds stay as they are
    if (low == high) stats->mean[f] = low, stats->variance[f] = 0;
    stats->minimum[f] = low;
    stats->maximum[f] = high;
    stats->entries[f] = entries;
}

static km_status read_around(loader *load, km_error *err) {
    km_csr_rows rows = {0};
    km_status status = km_data_read_csr(&rows, load->data, 0, 1, err);
    for (int64_t e = 0; status == KM_OK && e < rows.starts[1]; e++)
        if (isfinite(rows.values[e])) load->around[rows.indices[e]] = rows.values[e];
    km_csr_rows_free(&rows);
    return status;
}

static km_status stats_all(loader *load, km_data_stats *stats, int64_t threads, km_error *err) {
    int64_t d = load->points->d, bad = load->points->n;
    int team = (int)km_min(threads, load->parts_count);
    (void)team;
    KM_TRY(read_around(load, err));
#pragma omp parallel for schedule(dynamic, 1) num_threads(team) if (team > 1)
    for (int64_t p = 0; p < load->parts_count; p++) {
        km_error own = {""};
        note(load, part_stats(load, p, &own), &own);
    }
    if (load->status != KM_OK) return load->status;
    stats->total_weight = 0;
    free(stats->entries);
    stats->entries = NULL;
    for (int64_t p = 0; p < load->parts_count; p++) {
        stats->total_weight += load->parts[p].total_weight;
        bad = km_min(bad, load->parts[p].bad_point);
    }
    if (bad < load->points->n) return km_data_refuse_value(load->data, bad, -1, err);
    stats->entries = calloc((size_t)d, sizeof *stats->entries);
    if (!stats->entries) return km_fail_memory(err, "statistics of the points", d * 8);
    for (int64_t f = 0; f < d; f++) join_feature(stats, load, f);
    return KM_OK;
}

// The copy ---------------------------------------------------------------------------------------------------

// Entries that points get for features with a given centre.
static void find_centred(loader *load, const km_data_stats *stats) {
    for (int64_t f = 0; f < load->points->d; f++)
        if (load->params->centre[f] != 0 && stats->entries[f] < load->points->n)
            load->centred[load->centred_count++] = f;
}

static km_status points_alloc(loader *load, km_error *err) {
    km_sparse_points *points = load->points;
    int64_t entries = 0, chunks = load->chunks_count;
    points->chunk_first = calloc((size_t)chunks + 1, sizeof *points->chunk_first);
    if (!points->chunk_first) return km_fail_memory(err, "the points", chunks * 8);
    for (int64_t c = 0; c < chunks; c++) {
        int64_t rows = km_min(KM_CHUNK_POINTS, points->n - c * KM_CHUNK_POINTS);
        // At most: a point may have entries in centred features already.
        int64_t own = load->chunk_entries[c] + rows * load->centred_count;
        if (own > UINT32_MAX)
            return km_fail(err, KM_ERROR_DATA,
                           "%s: the points %" PRId64 "..%" PRId64 " have %" PRId64
                           " entries, and 2^32 - 1 are the most of %d points; %s",
                           km_data_name(load->data), c * KM_CHUNK_POINTS, c * KM_CHUNK_POINTS + rows - 1, own,
                           KM_CHUNK_POINTS, km_say(KM_SAY_DENSE));
        points->chunk_first[c + 1] = entries += own;
    }
    points->nonzeros = entries;
    int64_t bytes = entries * (points->index_bytes + points->real_bytes);
    KM_TRY(km_host_check("the points", bytes + points->n * 8, err));
    points->starts = km_pages_alloc(chunks * KM_SPARSE_STARTS * 4);
    points->indices = km_pages_alloc(entries * points->index_bytes + KM_SPARSE_PAD);
    points->values = km_pages_alloc(entries * points->real_bytes + KM_SPARSE_PAD);
    points->norms = km_pages_alloc(points->n * 4 + KM_SPARSE_PAD);
    if (!points->starts || !points->indices || !points->values || !points->norms)
        return km_fail_memory(err, "the points", bytes);
    memset((uint8_t *)points->indices + entries * points->index_bytes, 0, KM_SPARSE_PAD);
    memset((uint8_t *)points->values + entries * points->real_bytes, 0, KM_SPARSE_PAD);
    return KM_OK;
}

// Stores the columns of `count` entries.
static void put_columns(km_sparse_points *points, int64_t at, const uint32_t *columns, int64_t count) {
    if (points->index_bytes == 1)
        for (int64_t e = 0; e < count; e++) ((uint8_t *)points->indices)[at + e] = (uint8_t)columns[e];
    else if (points->index_bytes == 2)
        for (int64_t e = 0; e < count; e++) ((uint16_t *)points->indices)[at + e] = (uint16_t)columns[e];
    else
        for (int64_t e = 0; e < count; e++) ((uint32_t *)points->indices)[at + e] = columns[e];
}

// Stores the values of `count` entries, and returns the sum of their squares.
static double put_values(km_sparse_points *points, const km_load_params *params, int64_t at,
                         const uint32_t *columns, const double *values, int64_t count) {
    double sum = 0;
    if (points->real_bytes == 8)
        for (int64_t e = 0; e < count; e++) {
            double value = (values[e] - params->centre[columns[e]]) * params->factor[columns[e]];
            ((double *)points->values)[at + e] = value;
            sum += value * value;
        }
    else
        for (int64_t e = 0; e < count; e++) {
            float value = (float)((values[e] - params->centre[columns[e]]) * params->factor[columns[e]]);
            ((float *)points->values)[at + e] = value;
            sum += (double)value * (double)value;
        }
    return sum;
}

// A row and the entries of centred features that it lacks, in order of their columns. Returns the end; *square gets
// |x|^2.
static int64_t copy_row(const loader *load, double *square, const km_csr_rows *rows, int64_t row,
                        int64_t at) {
    int64_t e = rows->starts[row], end = rows->starts[row + 1], c = 0;
    *square = 0;
    if (load->centred_count == 0) {
        put_columns(load->points, at, rows->indices + e, end - e);
        *square = put_values(load->points, load->params, at, rows->indices + e, rows->values + e, end - e);
        return at + end - e;
    }
    while (e < end || c < load->centred_count) {
        int64_t own = e < end ? (int64_t)rows->indices[e] : INT64_MAX;
        int64_t other = c < load->centred_count ? load->centred[c] : INT64_MAX;
        uint32_t column = (uint32_t)km_min(own, other);
        double value = own <= other ? rows->values[e] : 0;
        put_columns(load->points, at, &column, 1);
        *square += put_values(load->points, load->params, at++, &column, &value, 1);
        e += own <= other;
        c += other <= own;
    }
    return at;
}

// |x|, no less than it is: above the rounding of its sum.
static float norm_of(double square) {
    return (float)(sqrt(square) * (1 + 0x1p-20)) + 0x1p-126F;
}

// Returns the chunk's sum of w |x|^2 in *sum.
static km_status copy_chunk(loader *load, int64_t chunk, double *sum, km_error *err) {
    km_sparse_points *points = load->points;
    int64_t from = chunk * KM_CHUNK_POINTS, to = km_min(from + KM_CHUNK_POINTS, points->n);
    int64_t first = points->chunk_first[chunk], at = first;
    uint32_t *starts = points->starts + chunk * KM_SPARSE_STARTS;
    km_csr_rows rows = {0};
    km_status status = KM_OK;
    *sum = 0;
    for (int64_t i = from; i < to; i += rows.count) {
        KM_TRY_GOTO(km_data_read_csr(&rows, load->data, i, batch_of(load, i, to), err));
        for (int64_t r = 0; r < rows.count; r++) {
            double square;
            starts[i - from + r] = (uint32_t)(at - first);
            at = copy_row(load, &square, &rows, r, at);
            points->norms[i + r] = norm_of(square);
            *sum += weight_of(load, i + r) * square;
        }
    }
    for (int64_t r = to - from; r < KM_SPARSE_STARTS; r++) starts[r] = (uint32_t)(at - first);
done:
    km_csr_rows_free(&rows);
    return status;
}

static km_status copy_all(loader *load, km_data_stats *stats, int64_t threads, km_error *err) {
    int team = (int)km_min(threads, load->chunks_count);
    double *sums = calloc((size_t)load->chunks_count, sizeof *sums);
    (void)team;
    if (!sums) return km_fail_memory(err, "the points", load->chunks_count * 8);
#pragma omp parallel for schedule(dynamic, 1) num_threads(team) if (team > 1)
    for (int64_t chunk = 0; chunk < load->chunks_count; chunk++) {
        km_error own = {""};
        if (!failed(load)) note(load, copy_chunk(load, chunk, &sums[chunk], &own), &own);
    }
    stats->total_square = 0;
    for (int64_t chunk = 0; chunk < load->chunks_count; chunk++) stats->total_square += sums[chunk];
    free(sums);
    return load->status;
}

// ------------------------------------------------------------------------------------------------------------

km_status km_sparse_load(km_sparse_points *points, km_data_stats *stats, const km_data *data,
                         km_load_params *params, km_type type, int64_t threads, km_error *err) {
    km_status status;
    int64_t n = km_data_points(data), d = km_data_features(data);
    *points = (km_sparse_points){
        .n = n, .d = d, .index_bytes = km_csr_index_bytes(d), .real_bytes = (int32_t)km_type_bytes(type)};
    loader load = {.points = points,
                   .data = data,
                   .weights = km_data_weights(data),
                   .params = params,
                   .chunks_count = km_divide_up(n, KM_CHUNK_POINTS),
                   .batch_rows = km_max(1, km_min(BATCH_ROWS, BATCH_VALUES / d)),
                   .err = err};
    KM_TRY_GOTO(parts_alloc(&load, err));
    KM_TRY_GOTO(stats_all(&load, stats, threads, err));
    KM_TRY_GOTO(km_transform_choose(params, stats, data, type, err));
    find_centred(&load, stats);
    KM_TRY_GOTO(points_alloc(&load, err));
    status = copy_all(&load, stats, threads, err);
done:
    loader_free(&load);
    if (status != KM_OK) km_sparse_free(points);
    return status;
}

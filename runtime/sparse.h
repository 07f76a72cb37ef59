// SPDX-License-Identifier: MIT
// Points of the clustered space as CSR: what engines of both backends work on.
#ifndef KM_RUNTIME_SPARSE_H
#define KM_RUNTIME_SPARSE_H
#include "seed.h"
#include "backend.h"

enum {
    KM_SPARSE_STARTS = KM_CHUNK_POINTS + 1, // of a chunk
    KM_SPARSE_PAD = 64                      // bytes that may be read behind the last index and value
};

// In chunks of KM_CHUNK_POINTS points. Row r of chunk c has the entries from chunk_first[c] +
// starts[c * KM_SPARSE_STARTS + r] up to that of row r + 1, its columns ascending.
typedef struct km_sparse_points {
    int64_t n, d, nonzeros;
    int32_t index_bytes;  // of a column, unsigned: 1, 2 or 4, the least that holds d - 1
    int32_t real_bytes;   // of a value: 4 or 8
    int64_t *chunk_first; // chunks + 1: first entry of each chunk
    uint32_t *starts;     // chunks x KM_SPARSE_STARTS
    void *indices;
    void *values; // reals: (x - centre) * factor rounded to the type
    float *norms; // n: |x|, no less than it is
} km_sparse_points;

// Statistics, km_transform_choose and the points, from a table of either kind. A feature in which some point has no
// entry is not centred, so that points stay sparse; where the transform is given, a feature with a centre gets an entry
// in every point. The same for any number of threads. KM_ERROR_DATA as km_backend.load, and where a chunk has 2^32
// entries or more; KM_ERROR_MEMORY. *points starts as zeros; km_sparse_free at the end, after an error too.
km_status km_sparse_load(km_sparse_points *points, km_data_stats *stats, const km_data *data,
                         km_load_params *params, km_type type, int64_t threads, km_error *err);
void km_sparse_free(km_sparse_points *points);

// Row `point` as d doubles.
void km_sparse_row(double *out, const km_sparse_points *points, int64_t point);

static inline int64_t km_sparse_first(const km_sparse_points *points, int64_t point) {
    int64_t chunk = point / KM_CHUNK_POINTS, row = point % KM_CHUNK_POINTS;
    return points->chunk_first[chunk] + points->starts[chunk * KM_SPARSE_STARTS + row];
}

// The end of a point's entries.
static inline int64_t km_sparse_end(const km_sparse_points *points, int64_t point) {
    int64_t chunk = point / KM_CHUNK_POINTS, row = point % KM_CHUNK_POINTS;
    return points->chunk_first[chunk] + points->starts[chunk * KM_SPARSE_STARTS + row + 1];
}

static inline int64_t km_sparse_column(const km_sparse_points *points, int64_t entry) {
    const uint8_t *of_one_byte = points->indices;
    return points->index_bytes == 1   ? of_one_byte[entry]
           : points->index_bytes == 2 ? ((const uint16_t *)points->indices)[entry]
                                      : (int64_t)((const uint32_t *)points->indices)[entry];
}

static inline double km_sparse_value(const km_sparse_points *points, int64_t entry) {
    return points->real_bytes == 4 ? (double)((const float *)points->values)[entry]
                                   : ((const double *)points->values)[entry];
}

#endif

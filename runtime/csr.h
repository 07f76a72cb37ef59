// SPDX-License-Identifier: MIT
// Sparse matrices as tables have them (CSR, compressed sparse rows), and batches of rows of any table as nonzeros.
#ifndef KM_RUNTIME_CSR_H
#define KM_RUNTIME_CSR_H
#include "../base/error.h"
#include <kmgen/data.h>

// Row i has the entries starts[i] .. starts[i + 1] - 1, whose columns ascend. An entry may be 0.
typedef struct km_csr {
    int64_t rows, columns;
    const int64_t *starts; // rows + 1, the first is 0
    const void *indices;   // columns from 0: int32_t or int64_t
    int32_t index_bytes;   // 4 or 8
    km_type type;          // of the values
    const void *values;
    void *owned[3]; // starts, indices, values, freed with it; NULL: somebody else's
} km_csr;

// Frees what *csr owns, and the struct, from malloc; NULL is allowed.
void km_csr_free(km_csr **csr);

static inline int64_t km_csr_column(const km_csr *csr, int64_t entry) {
    return csr->index_bytes == 4 ? ((const int32_t *)csr->indices)[entry]
                                 : ((const int64_t *)csr->indices)[entry];
}

static inline double km_csr_value(const km_csr *csr, int64_t entry) {
    return csr->type == KM_FLOAT32 ? (double)((const float *)csr->values)[entry]
                                   : ((const double *)csr->values)[entry];
}

// Checks what a file or a caller says, with `entries` indices and values: the starts rise from 0 to `entries`, columns
// are in range and there once a row. Rows whose columns do not ascend are sorted, in copies that *csr owns from then
// on. KM_ERROR_DATA with row and column, from 1, as `name` has them.
km_status km_csr_check(km_csr *csr, int64_t entries, const char *name, km_error *err);

// A copy with the columns picks[0 .. count - 1] of `csr`, each there once, in that order.
km_status km_csr_pick(km_csr **out, const km_csr *csr, const int64_t *picks, int64_t count, km_error *err);

// Rows of doubles, or of floats: n x columns in C order, zeros written too.
void km_csr_read(void *out, const km_csr *csr, int64_t first, int64_t count, km_type type);

// A batch of points as nonzeros; starts as zeros, km_csr_rows_free at the end.
typedef struct km_csr_rows {
    int64_t count;     // points
    int64_t *starts;   // count + 1, the first is 0
    uint32_t *indices; // columns, ascending in a point
    double *values;
    int64_t starts_room, room; // allocated
    double *dense;             // rows of a dense table, as they are read
    int64_t dense_room;
} km_csr_rows;
void km_csr_rows_free(km_csr_rows *rows);

// The table's matrix, or NULL where it is dense.
const km_csr *km_data_csr(const km_data *data);

// Points first .. first + count - 1 of a table of either kind; of a dense one, the values that are not 0. KM_ERROR_IO
// and KM_ERROR_USAGE as km_data_read.
km_status km_data_read_csr(km_csr_rows *rows, const km_data *data, int64_t first, int64_t count,
                           km_error *err);

// Values of a point that are stored (CSR), or not 0 in a sample of rows (dense), on average. 0: dense with too few
// columns, or too few zeros, for another layout.
double km_data_nonzeros(const km_data *data);

#endif

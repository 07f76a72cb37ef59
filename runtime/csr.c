// SPDX-License-Identifier: MIT
#include "csr.h"
#include "../base/size.h"
#include "memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void km_csr_free(km_csr **csr) {
    if (!*csr) return;
    for (int i = 0; i < 3; i++) free((*csr)->owned[i]);
    free(*csr);
    *csr = NULL;
}

// Checks -----------------------------------------------------------------------------------------------------

static km_status check_starts(const km_csr *csr, int64_t entries, const char *name, km_error *err) {
    if (csr->starts[0] != 0)
        return km_fail(err, KM_ERROR_DATA, "%s: the first row must start at entry 0, it starts at %" PRId64,
                       name, csr->starts[0]);
    for (int64_t i = 0; i < csr->rows; i++) {
        if (csr->starts[i + 1] < csr->starts[i])
            return km_fail(err, KM_ERROR_DATA,
                           "%s: row starts must rise, but row %" PRId64 " starts at entry %" PRId64
                           " and ends at %" PRId64,
                           name, i + 1, csr->starts[i], csr->starts[i + 1]);
        if (csr->starts[i + 1] > entries)
            return km_fail(err, KM_ERROR_DATA,
                           "%s: row %" PRId64 " ends at entry %" PRId64 ", and there are %" PRId64
                           " entries: is the file cut short?",
                           name, i + 1, csr->starts[i + 1], entries);
    }
    if (csr->starts[csr->rows] != entries)
        return km_fail(err, KM_ERROR_DATA,
                       "%s: the rows have %" PRId64 " entries, and there are %" PRId64
                       " columns and values: the row starts are those of another matrix",
                       name, csr->starts[csr->rows], entries);
    return KM_OK;
}

// Whether the row's columns ascend; those out of range are refused.
static km_status check_row(int *ascends, const km_csr *csr, int64_t row, const char *name, km_error *err) {
    int64_t before = -1;
    *ascends = 1;
    for (int64_t e = csr->starts[row]; e < csr->starts[row + 1]; e++) {
        int64_t column = km_csr_column(csr, e);
        if (column < 0 || column >= csr->columns)
            return km_fail(err, KM_ERROR_DATA,
                           "%s: row %" PRId64 " has an entry in column %" PRId64 ", counted from 0, and the "
                           "matrix has %" PRId64 " columns",
                           name, row + 1, column, csr->columns);
        *ascends &= column > before;
        before = column;
    }
    return KM_OK;
}

typedef struct entry {
    int64_t column;
    double value;
} entry;

static int by_column(const void *a, const void *b) {
    int64_t x = ((const entry *)a)->column, y = ((const entry *)b)->column;
    return (x > y) - (x < y);
}

// Copies of the columns and values, which may be sorted.
static km_status own_entries(km_csr *csr, int64_t entries, km_error *err) {
    int64_t value = km_type_bytes(csr->type), index = csr->index_bytes;
    if (!csr->owned[1] || !csr->owned[2])
        KM_TRY(km_host_check("a sorted copy of the sparse matrix", entries * (index + value), err));
    for (int i = 1; i < 3; i++) {
        int64_t bytes = entries * (i == 1 ? index : value);
        if (csr->owned[i]) continue;
        csr->owned[i] = malloc((size_t)bytes + 1);
        if (!csr->owned[i]) return km_fail_memory(err, "a sorted copy of the sparse matrix", bytes);
        memcpy(csr->owned[i], i == 1 ? csr->indices : csr->values, (size_t)bytes);
    }
    csr->indices = csr->owned[1];
    csr->values = csr->owned[2];
    return KM_OK;
}

static void put_entry(const km_csr *csr, int64_t at, const entry *from) {
    if (csr->index_bytes == 4)
        ((int32_t *)csr->owned[1])[at] = (int32_t)from->column;
    else
        ((int64_t *)csr->owned[1])[at] = from->column;
    if (csr->type == KM_FLOAT32)
        ((float *)csr->owned[2])[at] = (float)from->value;
    else
        ((double *)csr->owned[2])[at] = from->value;
}

static km_status sort_row(km_csr *csr, entry **buffer, int64_t *room, int64_t row, const char *name,
                          km_error *err) {
    int64_t first = csr->starts[row], count = csr->starts[row + 1] - first;
    if (count > *room) {
        free(*buffer);
        *room = count + count / 2;
        *buffer = malloc((size_t)*room * sizeof **buffer);
        if (!*buffer) {
            *room = 0;
            return km_fail_memory(err, "a row of the sparse matrix", count * (int64_t)sizeof **buffer);
        }
    }
    entry *entries = *buffer;
    for (int64_t e = 0; e < count; e++)
        entries[e] = (entry){km_csr_column(csr, first + e), km_csr_value(csr, first + e)};
    qsort(entries, (size_t)count, sizeof *entries, by_column);
    for (int64_t e = 0; e < count; e++) {
        if (e > 0 && entries[e].column == entries[e - 1].column)
            return km_fail(err, KM_ERROR_DATA,
                           "%s: row %" PRId64 " has two entries in column %" PRId64
                           ", counted from 0; add them up (sum_duplicates in SciPy)",
                           name, row + 1, entries[e].column);
        put_entry(csr, first + e, &entries[e]);
    }
    return KM_OK;
}

km_status km_csr_check(km_csr *csr, int64_t entries, const char *name, km_error *err) {
    entry *buffer = NULL;
    int64_t room = 0;
    km_status status;
    KM_TRY_GOTO(check_starts(csr, entries, name, err));
    for (int64_t row = 0; row < csr->rows; row++) {
        int ascends;
        KM_TRY_GOTO(check_row(&ascends, csr, row, name, err));
        if (ascends) continue;
        KM_TRY_GOTO(own_entries(csr, entries, err));
        KM_TRY_GOTO(sort_row(csr, &buffer, &room, row, name, err));
    }
done:
    free(buffer);
    return status;
}

// Columns ----------------------------------------------------------------------------------------------------

static km_csr *csr_alloc(int64_t rows, int64_t entries, const km_csr *like) {
    km_csr *csr = calloc(1, sizeof *csr);
    if (!csr) return NULL;
    *csr = (km_csr){.rows = rows, .index_bytes = 4, .type = like->type};
    csr->owned[0] = calloc((size_t)rows + 1, sizeof(int64_t));
    csr->owned[1] = malloc((size_t)entries * sizeof(int32_t) + 1);
    csr->owned[2] = malloc((size_t)(entries * km_type_bytes(like->type)) + 1);
    csr->starts = csr->owned[0];
    csr->indices = csr->owned[1];
    csr->values = csr->owned[2];
    if (!csr->owned[0] || !csr->owned[1] || !csr->owned[2]) km_csr_free(&csr);
    return csr;
}

km_status km_csr_pick(km_csr **out, const km_csr *csr, const int64_t *picks, int64_t count, km_error *err) {
    int64_t entries = csr->starts[csr->rows], kept = 0;
    int32_t *place = malloc((size_t)csr->columns * sizeof *place);
    *out = NULL;
    if (!place) return km_fail_memory(err, "the choice of columns", csr->columns * 4);
    for (int64_t f = 0; f < csr->columns; f++) place[f] = -1;
    for (int64_t f = 0; f < count; f++) place[picks[f]] = (int32_t)f;
    for (int64_t e = 0; e < entries; e++) kept += place[km_csr_column(csr, e)] >= 0;
    km_csr *picked = csr_alloc(csr->rows, kept, csr);
    if (!picked) {
        free(place);
        return km_fail_memory(err, "the columns of a sparse matrix", kept * 12);
    }
    picked->columns = count;
    int64_t *starts = picked->owned[0], at = 0;
    for (int64_t row = 0; row < csr->rows; row++) {
        for (int64_t e = csr->starts[row]; e < csr->starts[row + 1]; e++) {
            entry one = {place[km_csr_column(csr, e)], km_csr_value(csr, e)};
            if (one.column >= 0) put_entry(picked, at++, &one);
        }
        starts[row + 1] = at;
    }
    free(place);
    km_status status = km_csr_check(picked, kept, "the columns", err); // in another order they are sorted
    if (status != KM_OK) km_csr_free(&picked);
    *out = picked;
    return status;
}

// Reading ----------------------------------------------------------------------------------------------------

void km_csr_read(void *out, const km_csr *csr, int64_t first, int64_t count, km_type type) {
    int64_t d = csr->columns;
    memset(out, 0, (size_t)(count * d * km_type_bytes(type)));
    for (int64_t i = 0; i < count; i++)
        for (int64_t e = csr->starts[first + i]; e < csr->starts[first + i + 1]; e++) {
            int64_t at = i * d + km_csr_column(csr, e);
            if (type == KM_FLOAT64)
                ((double *)out)[at] = km_csr_value(csr, e);
            else
                ((float *)out)[at] = (float)km_csr_value(csr, e);
        }
}

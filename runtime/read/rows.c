// SPDX-License-Identifier: MIT
// Rows of a sparse table while they are read: they grow, are put in order, and become the table's km_csr.
#include "../../base/log.h"
#include "../../base/size.h"
#include "../memory.h"
#include "rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct km_pair {
    int32_t index;
    double value;
} pair;

void km_rows_clear(km_rows *rows) {
    free(rows->starts);
    free(rows->indices);
    free(rows->values);
    free(rows->pairs);
    *rows = (km_rows){0};
}

// Growing -----------------------------------------------------------------------------------------------------

// Small arrays double; large ones grow by what the free memory is looked at for.
km_status km_array_reserve(void **array, int64_t *capacity, int64_t wanted, int64_t bytes, const char *file,
                           km_error *err) {
    enum { LEAST = 1024 };
    if (wanted <= *capacity) return KM_OK;
    int64_t step = km_min(*capacity + LEAST, 2 * (int64_t)KM_HOST_LOOK_BYTES / bytes), size;
    wanted = km_max(wanted, *capacity + step);
    if (km_mul_overflows(&size, wanted, bytes)) size = INT64_MAX;
    KM_TRY(km_host_check("more of a sparse table", size - *capacity * bytes, err));
    void *grown = realloc(*array, (size_t)size);
    if (!grown)
        return km_fail(err, KM_ERROR_MEMORY, "no memory for the sparse table of %s: %.1f MiB were asked for",
                       file, (double)size / 1048576.0);
    *array = grown;
    *capacity = wanted;
    return KM_OK;
}

km_status km_rows_reserve(km_rows *rows, km_error *err) {
    int64_t indices = rows->capacity, values = rows->capacity, wanted = rows->count + 1;
    void *array = rows->indices;
    km_status status = km_array_reserve(&array, &indices, wanted, sizeof *rows->indices, rows->file, err);
    rows->indices = array;
    KM_TRY(status);
    KM_TRY(km_array_reserve(&rows->values, &values, indices, km_type_bytes(rows->type), rows->file, err));
    rows->capacity = indices;
    return KM_OK;
}

km_status km_rows_reserve_row(km_rows *rows, km_error *err) {
    void *starts = rows->starts;
    int is_first = !starts;
    km_status status = km_array_reserve(&starts, &rows->rows_capacity, rows->rows + 2, sizeof *rows->starts,
                                        rows->file, err);
    rows->starts = starts;
    if (status == KM_OK && is_first) rows->starts[0] = 0;
    return status;
}

// Order -------------------------------------------------------------------------------------------------------

static double value_at(const km_rows *rows, int64_t i) {
    return rows->type == KM_FLOAT32 ? (double)((const float *)rows->values)[i]
                                    : ((const double *)rows->values)[i];
}

static void move(km_rows *rows, int64_t to, int64_t from) {
    rows->indices[to] = rows->indices[from];
    if (rows->type == KM_FLOAT32)
        ((float *)rows->values)[to] = ((float *)rows->values)[from];
    else
        ((double *)rows->values)[to] = ((double *)rows->values)[from];
}

static int compare_pairs(const void *a, const void *b) {
    int32_t x = ((const pair *)a)->index, y = ((const pair *)b)->index;
    return (x > y) - (x < y);
}

km_status km_rows_sort(int32_t *twice, km_rows *rows, int64_t first, int64_t count, km_error *err) {
    int32_t *indices = rows->indices + first;
    void *pairs = rows->pairs;
    *twice = -1;
    int64_t i = 1;
    while (i < count && indices[i] > indices[i - 1]) i++;
    if (i >= count) return KM_OK;
    km_status status = km_array_reserve(&pairs, &rows->pairs_capacity, count, sizeof(pair), rows->file, err);
    rows->pairs = pairs;
    KM_TRY(status);
    for (i = 0; i < count; i++) rows->pairs[i] = (pair){indices[i], value_at(rows, first + i)};
    qsort(rows->pairs, (size_t)count, sizeof(pair), compare_pairs);
    for (i = 0; i < count; i++) {
        indices[i] = rows->pairs[i].index;
        if (rows->type == KM_FLOAT32)
            ((float *)rows->values)[first + i] = (float)rows->pairs[i].value;
        else
            ((double *)rows->values)[first + i] = rows->pairs[i].value;
        if (i > 0 && indices[i] == indices[i - 1]) *twice = indices[i];
    }
    return KM_OK;
}

km_status km_rows_check(km_rows *rows, int64_t columns, const char *name, km_error *err) {
    km_csr csr = {.rows = rows->rows,
                  .columns = columns,
                  .starts = rows->starts,
                  .indices = rows->indices,
                  .index_bytes = sizeof *rows->indices,
                  .type = rows->type,
                  .values = rows->values,
                  .owned = {rows->starts, rows->indices, rows->values}};
    return km_csr_check(&csr, rows->count, name, err);
}

// Counts the entries of each row, behind its place: starts[r + 1].
static km_status count_rows(int *in_order, km_rows *rows, const int32_t *entry_rows, int64_t rows_count,
                            km_error *err) {
    KM_TRY(km_host_check("the starts of rows", (rows_count + 1) * (int64_t)sizeof *rows->starts, err));
    free(rows->starts);
    rows->starts = calloc((size_t)rows_count + 1, sizeof *rows->starts);
    if (!rows->starts) return km_fail_memory(err, "the starts of rows", (rows_count + 1) * 8);
    rows->rows = rows_count;
    *in_order = 1;
    for (int64_t i = 0; i < rows->count; i++) {
        rows->starts[entry_rows[i] + 1]++;
        *in_order &= i == 0 || entry_rows[i] >= entry_rows[i - 1];
    }
    for (int64_t r = 0; r < rows_count; r++) rows->starts[r + 1] += rows->starts[r];
    return KM_OK;
}

km_status km_rows_from_entries(km_rows *rows, int32_t *entry_rows, int64_t rows_count, km_error *err) {
    int in_order;
    KM_TRY(count_rows(&in_order, rows, entry_rows, rows_count, err));
    if (in_order) return KM_OK;
    int64_t value_bytes = km_type_bytes(rows->type), bytes = rows->count * (4 + value_bytes);
    km_rows to = {.type = rows->type};
    KM_TRY(km_host_check("entries in the order of their rows", bytes, err));
    to.indices = malloc((size_t)rows->count * sizeof *to.indices);
    to.values = malloc((size_t)(rows->count * value_bytes));
    if (!to.indices || !to.values) {
        km_rows_clear(&to);
        return km_fail_memory(err, "entries in the order of their rows", bytes);
    }
    // Each start moves on to the next row's, and is taken back afterwards.
    for (int64_t i = 0; i < rows->count; i++) {
        int64_t at = rows->starts[entry_rows[i]]++;
        to.indices[at] = rows->indices[i];
        if (rows->type == KM_FLOAT32)
            ((float *)to.values)[at] = ((float *)rows->values)[i];
        else
            ((double *)to.values)[at] = ((double *)rows->values)[i];
    }
    memmove(rows->starts + 1, rows->starts, (size_t)rows_count * sizeof *rows->starts);
    rows->starts[0] = 0;
    free(rows->indices);
    free(rows->values);
    rows->indices = to.indices;
    rows->values = to.values;
    return KM_OK;
}

// Columns -----------------------------------------------------------------------------------------------------

static int compare_columns(const void *a, const void *b) {
    return compare_pairs(a, b);
}

// Where a column goes, or -1. `places` is in the order of the columns.
static int32_t place_of(int32_t index, const pair *places, int64_t count) {
    int64_t low = 0, high = count;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (places[mid].index < index)
            low = mid + 1;
        else
            high = mid;
    }
    return low < count && places[low].index == index ? (int32_t)places[low].value : -1;
}

// Leaves the nonzeros of columns that have a place, in the order of their places.
static km_status keep_places(km_rows *rows, const pair *places, int64_t count, km_error *err) {
    int64_t kept = 0, from = 0;
    for (int64_t r = 0; r < rows->rows; r++) {
        int64_t first = kept;
        for (; from < rows->starts[r + 1]; from++) {
            int32_t place = place_of(rows->indices[from], places, count);
            if (place < 0) continue;
            move(rows, kept, from);
            rows->indices[kept++] = place;
        }
        int32_t twice;
        KM_TRY(km_rows_sort(&twice, rows, first, kept - first, err));
        rows->starts[r + 1] = kept;
    }
    rows->count = kept;
    return KM_OK;
}

int km_columns_have_label(const char *columns) {
    static const char word[] = "label";
    for (const char *item = columns; item; item = strchr(item, ',') ? strchr(item, ',') + 1 : NULL) {
        const char *at = item + strspn(item, " ");
        if (strncmp(at, word, sizeof word - 1) != 0) continue;
        at += sizeof word - 1;
        at += strspn(at, " ");
        if (*at == ',' || !*at) return 1;
    }
    return 0;
}

// The table's columns: those that are picked. A label stands behind the last column in the list of picks.
static km_status pick(km_table *table, km_rows *rows, int64_t columns, const char *wanted, km_error *err) {
    km_status status;
    int64_t *picks = NULL, count;
    pair *places = NULL;
    int in_order = 1;
    KM_TRY(km_columns_parse(&picks, &count, "--columns", wanted, rows->file, NULL, columns,
                            rows->has_labels ? "label" : NULL, err));
    places = malloc((size_t)count * sizeof *places);
    if (!places) KM_TRY_GOTO(km_fail_memory(err, "the choice of columns", count * (int64_t)sizeof *places));
    for (int64_t f = 0; f < count; f++) {
        int is_label = picks[f] == columns;
        places[f] = (pair){is_label ? -1 : (int32_t)picks[f], (double)f};
        in_order &= picks[f] == f && !is_label;
        picks[f] = is_label ? 0 : picks[f] + 1; // a label has no number
    }
    table->columns = count;
    table->numbers = picks;
    picks = NULL;
    status = KM_OK;
    if (in_order && count == columns) goto done; // all of them
    qsort(places, (size_t)count, sizeof *places, compare_columns);
    KM_TRY_GOTO(keep_places(rows, places, count, err));
done:
    free(places);
    free(picks);
    return status;
}

// The table ---------------------------------------------------------------------------------------------------

// Gives back what was reserved and not needed.
static void shrink(void **array, int64_t bytes) {
    void *less = realloc(*array, (size_t)km_max(bytes, 1));
    if (less) *array = less;
}

static int64_t count_zeros(const km_rows *rows) {
    int64_t zeros = 0;
    for (int64_t i = 0; i < rows->count; i++) zeros += value_at(rows, i) == 0;
    return zeros;
}

km_status km_rows_finish(km_table *table, km_rows *rows, int64_t columns, const km_data_params *params,
                         km_error *err) {
    table->rows = rows->rows;
    table->columns = columns;
    if (params->columns) KM_TRY(pick(table, rows, columns, params->columns, err));
    void *starts = rows->starts, *indices = rows->indices;
    shrink(&starts, (rows->rows + 1) * (int64_t)sizeof *rows->starts);
    shrink(&indices, rows->count * (int64_t)sizeof *rows->indices);
    shrink(&rows->values, rows->count * km_type_bytes(rows->type));
    rows->starts = starts;
    rows->indices = indices;
    km_csr *csr = calloc(1, sizeof *csr);
    if (!csr || !starts || !indices || !rows->values) {
        free(csr);
        return km_fail_memory(err, "a sparse table", (int64_t)sizeof *csr);
    }
    int64_t zeros = count_zeros(rows);
    km_log_line(params->log, KM_LOG_DEBUG,
                "data: %s has %" PRId64 " values in %" PRId64 " x %" PRId64 ", %" PRId64 " of them zeros",
                rows->file, rows->count, table->rows, table->columns, zeros);
    *csr = (km_csr){.rows = table->rows,
                    .columns = table->columns,
                    .starts = starts,
                    .indices = indices,
                    .index_bytes = sizeof *rows->indices,
                    .type = rows->type,
                    .values = rows->values,
                    .owned = {starts, indices, rows->values}};
    rows->starts = NULL;
    rows->indices = NULL;
    rows->values = NULL;
    table->csr = csr;
    return KM_OK;
}

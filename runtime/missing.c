// SPDX-License-Identifier: MIT
#include "missing.h"
#include "../base/text.h"
#include "memory.h"
#include "share.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t rows_of(const km_table *table) {
    return table->rows_all ? table->rows_all : table->rows;
}

// Values that are there of column f, into `out` with room for all rows: where ranks have a part of them, of all ranks.
static km_status read_column(double *out, int64_t *count, const km_table *table, int64_t f, km_share *share,
                             km_error *err) {
    km_table column = *table;
    int64_t source = table->picks ? table->picks[f] : f, rows = rows_of(table);
    column.picks = &source;
    column.columns = 1;
    if (table->rows_all) memset(out, 0, (size_t)rows * sizeof *out);
    km_table_read(out + table->first_of_all, &column, 0, table->rows, KM_FLOAT64);
    if (table->rows_all) KM_TRY(km_share_sum(share, out, rows, err));
    *count = 0;
    for (int64_t i = 0; i < rows; i++)
        if (!isnan(out[i])) out[(*count)++] = out[i];
    return KM_OK;
}

// Partly sorts: values[k] is the one that sorting puts there, and nothing before it is larger (Hoare's selection).
static double select_nth(double *values, int64_t count, int64_t k) {
    int64_t low = 0, high = count - 1;
    while (low < high) {
        double pivot = values[low + (high - low) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (values[i] < pivot) i++;
            while (values[j] > pivot) j--;
            if (i > j) break;
            double swapped = values[i];
            values[i++] = values[j];
            values[j--] = swapped;
        }
        if (k <= j)
            high = j;
        else if (k >= i)
            low = i;
        else
            break;
    }
    return values[k];
}

static double median_of(double *values, int64_t count) {
    double upper = select_nth(values, count, count / 2), lower = -INFINITY;
    if (count % 2) return upper;
    for (int64_t i = 0; i < count / 2; i++) lower = fmax(lower, values[i]);
    return lower + (upper - lower) / 2;
}

static double mean_of(const double *values, int64_t count) {
    long double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += values[i];
    return (double)(sum / (long double)count);
}

km_status km_missing_fills(double **out, const km_table *table, const char *file, km_missing mode,
                           km_share *share, km_error *err) {
    int64_t d = table->columns, bytes = (rows_of(table) + d) * (int64_t)sizeof(double);
    *out = NULL;
    if (table->csr)
        return km_fail(
            err, KM_ERROR_USAGE,
            "%s is sparse, where missing values are refused or their rows dropped (--missing drop); "
            "what is not written is 0",
            file);
    km_status status = km_host_check("a column's values", bytes, err);
    double *values = NULL, *fills = NULL;
    if (status == KM_OK) {
        values = malloc((size_t)rows_of(table) * sizeof *values + 1);
        fills = malloc((size_t)d * sizeof *fills);
        if (!values || !fills) status = km_fail_memory(err, "a column's values", bytes);
    }
    if (table->rows_all) status = km_share_agree(share, status, err);
    for (int64_t f = 0; f < d && status == KM_OK; f++) {
        int64_t count = 0;
        status = read_column(values, &count, table, f, share, err);
        if (status != KM_OK) break;
        if (count) {
            fills[f] = mode == KM_MISSING_MEAN ? mean_of(values, count) : median_of(values, count);
            continue;
        }
        const char *name = table->names ? table->names[f] : NULL;
        status = km_fail(err, KM_ERROR_DATA,
                         "%s: column %" PRId64
                         "%s%.80s%s is missing in every row, so nothing can fill it in; leave "
                         "it out: --exclude %" PRId64,
                         file, table->numbers ? table->numbers[f] : f + 1, name ? " (" : "", name ? name : "",
                         name ? ")" : "", table->numbers ? table->numbers[f] : f + 1);
    }
    free(values);
    if (status == KM_OK)
        *out = fills;
    else
        free(fills);
    return status;
}

static void list_counts(km_text *text, const km_table *table, const double *fill) {
    int64_t listed = 0;
    for (int64_t f = 0; f < table->columns; f++) {
        if (!table->missing[f] || (fill && !isnan(fill[f]))) continue;
        if (text->size > 300) {
            km_text_puts(text, ", ...");
            return;
        }
        km_text_puts(text, listed++ ? ", " : "");
        if (table->names)
            km_text_printf(text, "%.60s", table->names[f]);
        else
            km_text_printf(text, "column %" PRId64, table->numbers ? table->numbers[f] : f + 1);
        km_text_printf(text, " %" PRId64, table->missing[f]);
    }
}

km_status km_missing_counts(char **out, const km_table *table, const double *fill, km_error *err) {
    km_text text = {0};
    list_counts(&text, table, fill);
    return km_text_take(out, &text, err);
}

km_status km_missing_refuse(const km_table *table, const char *file, const double *fill, km_error *err) {
    int64_t d = table->columns, total = 0, row = 0, column = -1;
    for (int64_t f = 0; table->missing && f < d; f++)
        total += fill && !isnan(fill[f]) ? 0 : table->missing[f];
    if (!total) return KM_OK;
    double *values = malloc((size_t)d * sizeof *values);
    if (!values) return km_fail_memory(err, "a row", d * (int64_t)sizeof *values);
    for (; row < table->rows && column < 0; row++) {
        km_table_read(values, table, row, 1, KM_FLOAT64);
        for (int64_t f = d - 1; f >= 0; f--)
            if (isnan(values[f]) && !(fill && !isnan(fill[f]))) column = f;
    }
    free(values);
    if (column < 0) return KM_OK; // another rank has it
    char place[KM_PLACE_SIZE], *counts = NULL;
    KM_TRY(km_missing_counts(&counts, table, fill, err));
    km_status status = km_fail(err, KM_ERROR_DATA,
                               "%s: %s: the value is missing (missing: %s); drop such rows by --missing "
                               "drop, or fill them in by --missing mean or median",
                               file, km_table_place(place, table, row - 1, column), counts);
    km_text_free(counts);
    return status;
}

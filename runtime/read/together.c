// SPDX-License-Identifier: MIT
// Several files that are one table: rows in the order of the files.
#include "../../base/error.h"
#include "../../base/size.h"
#include "ranks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// Whether a file has what the first one has; refuses it otherwise.
static km_status check_like(const km_table *first, const km_table *other, km_error *err) {
    static const char *const dtypes[] = {
#define KM_DTYPE(name, type, dtype) dtype,
        KM_ELEMENTS(KM_DTYPE)
#undef KM_DTYPE
    };
    if (other->columns != first->columns)
        return km_fail(err, KM_ERROR_DATA,
                       "%s has %" PRId64 " columns that are used, %s has %" PRId64
                       "; files that are clustered together have the same (--columns names them)",
                       other->file, other->columns, first->file, first->columns);
    if (other->element != first->element)
        return km_fail(
            err, KM_ERROR_DATA,
            "%s holds values of type %s, %s of type %s; files that are clustered together have the "
            "same",
            other->file, dtypes[other->element], first->file, dtypes[first->element]);
    if (!first->names != !other->names)
        return km_fail(err, KM_ERROR_DATA,
                       "%s has a header, %s has none; --header says what the first line is",
                       first->names ? first->file : other->file, first->names ? other->file : first->file);
    for (int64_t f = 0; first->names && f < first->columns; f++)
        if (strcmp(first->names[f], other->names[f]) != 0)
            return km_fail(err, KM_ERROR_DATA, "%s calls column %" PRId64 " %.60s, %s calls it %.60s",
                           other->file, f + 1, other->names[f], first->file, first->names[f]);
    return KM_OK;
}

// The rows' weights of all files, as one list.
static km_status join_weights(km_table *table, km_error *err) {
    if (!table->files[0].weights) return KM_OK;
    table->weights = malloc((size_t)table->rows * sizeof *table->weights);
    if (!table->weights) return km_fail_memory(err, "weights", table->rows * (int64_t)sizeof(double));
    for (int64_t i = 0; i < table->files_count; i++) {
        km_table *file = &table->files[i];
        memcpy(table->weights + table->starts[i], file->weights, (size_t)file->rows * sizeof *file->weights);
        free(file->weights);
        file->weights = NULL;
    }
    return KM_OK;
}

// What the first file says of columns becomes the table's.
static km_status join(km_table *table, km_error *err) {
    km_table *first = &table->files[0];
    for (int64_t i = 0; i < table->files_count; i++) {
        table->starts[i] = table->rows;
        table->rows += table->files[i].rows;
        table->parse_ms += table->files[i].parse_ms;
        for (int64_t f = 0; i > 0 && first->missing && f < first->columns; f++)
            first->missing[f] += table->files[i].missing ? table->files[i].missing[f] : 0;
    }
    table->starts[table->files_count] = table->rows;
    KM_TRY(join_weights(table, err));
    table->columns = first->columns;
    table->element = first->element;
    table->is_from_0 = first->is_from_0;
    table->separator = first->separator;
    table->decimal = first->decimal;
    table->missing = first->missing;
    table->names = first->names;
    table->prepared = first->prepared;
    first->missing = NULL;
    first->names = NULL;
    first->prepared = NULL;
    if (!first->numbers) return KM_OK;
    table->numbers = malloc((size_t)first->columns * sizeof *table->numbers);
    if (!table->numbers) return km_fail_memory(err, "columns", first->columns * (int64_t)sizeof(int64_t));
    memcpy(table->numbers, first->numbers, (size_t)first->columns * sizeof *table->numbers);
    return KM_OK;
}

static km_status open_one(km_table *table, int64_t i, const char *path, const km_data_params *params,
                          const struct km_text_part *part, km_error *err) {
    km_table *file = &table->files[i];
    km_data_params own = *params;
    const km_table *first = &table->files[0];
    if (i > 0 && first->names) { // in any order, made as the first file's
        own.names = (const char *const *)first->names;
        own.names_count = first->columns;
        own.prepared = first->prepared;
        own.columns = own.exclude = own.one_hot = NULL;
    }
    KM_TRY(km_table_open(file, path, &own, part, err));
    table->files_count = i + 1;
    file->file = strdup(path);
    if (!file->file) return km_fail_memory(err, "a file's name", (int64_t)strlen(path));
    if (file->csr)
        return km_fail(err, KM_ERROR_DATA,
                       "%s is sparse; several files are clustered together where they are "
                       "dense",
                       path);
    return i > 0 ? check_like(first, file, err) : KM_OK;
}

km_status km_table_open_files(km_table *table, const char *const *paths, int64_t count,
                              const km_data_params *params, const km_text_part *parts, km_error *err) {
    *table = (km_table){0};
    table->files = calloc((size_t)count, sizeof *table->files);
    table->starts = calloc((size_t)count + 1, sizeof *table->starts);
    km_status status = table->files && table->starts
                           ? KM_OK
                           : km_fail_memory(err, "files", count * (int64_t)sizeof *table->files);
    for (int64_t i = 0; i < count && status == KM_OK; i++)
        status = open_one(table, i, paths[i], params, parts ? &parts[i] : NULL, err);
    if (status == KM_OK) status = join(table, err);
    if (status != KM_OK) km_table_clear(table);
    return status;
}

int64_t km_table_file_of(const km_table *table, int64_t row) {
    int64_t low = 0, high = table->files_count - 1;
    while (low < high) {
        int64_t mid = (low + high + 1) / 2;
        if (table->starts[mid] <= row)
            low = mid;
        else
            high = mid - 1;
    }
    return low;
}

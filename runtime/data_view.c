// SPDX-License-Identifier: MIT
// Features by name, and views: data that choose or reorder features of others, fill them in, or have a part of their
// points.
#include "../base/error.h"
#include "data_refuse.h"
#include "data_source.h"
#include "data_state.h"
#include "names.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void names_free(char **names, int64_t count) {
    for (int64_t f = 0; names && f < count; f++) free(names[f]);
    free(names);
}

static km_status names_copy(char ***out, const char *const *names, int64_t count, const char *data_name,
                            km_error *err) {
    char **copies = calloc((size_t)count, sizeof *copies);
    if (!copies) return km_fail_memory(err, "the names of features", count * (int64_t)sizeof *copies);
    for (int64_t f = 0; f < count; f++) {
        if (names[f] && (copies[f] = strdup(names[f]))) continue;
        names_free(copies, count);
        if (names[f]) return km_fail_memory(err, "the names of features", count * (int64_t)sizeof *copies);
        return km_fail(err, KM_ERROR_USAGE, "%s: the name of feature %" PRId64 " of %" PRId64 " is NULL",
                       data_name, f, count);
    }
    *out = copies;
    return KM_OK;
}

km_status km_data_set_names(km_data *data, const char *const *names, km_error *err) {
    int64_t d = data->table.columns;
    char **copies = NULL;
    if (names) KM_TRY(names_copy(&copies, names, d, data->name, err));
    names_free(data->table.names, d);
    data->table.names = copies;
    return KM_OK;
}

static km_status refuse_resident(const km_data *data, const char *what, km_error *err) {
    return km_fail(err, KM_ERROR_USAGE,
                   "%s: points on a device are taken as they lie, and not %s; do it there", data->name, what);
}

// The view's own part of a table: which columns, their numbers and names.
static km_status view_columns(km_table *view, const km_table *table, const int64_t *picks, km_error *err) {
    int64_t d = view->columns;
    view->picks = malloc((size_t)d * sizeof *view->picks);
    view->numbers = malloc((size_t)d * sizeof *view->numbers);
    if (table->names) view->names = calloc((size_t)d, sizeof *view->names);
    if (!view->picks || !view->numbers || (table->names && !view->names))
        return km_fail_memory(err, "the choice of features", d * 3 * (int64_t)sizeof *view->picks);
    int in_order = d == table->columns;
    if (table->csr) KM_TRY(km_csr_pick(&view->csr, table->csr, picks, d, err));
    for (int64_t f = 0; f < d; f++) {
        in_order = in_order && picks[f] == f;
        view->picks[f] = table->picks ? table->picks[picks[f]] : picks[f];
        view->numbers[f] = table->numbers ? table->numbers[picks[f]] : picks[f] + 1;
        if (table->names) view->names[f] = strdup(table->names[picks[f]]);
        if (table->names && !view->names[f]) return km_fail_memory(err, "the choice of features", 64);
    }
    if ((in_order && !table->picks) || table->csr) { // all of them: the view as it is
        free(view->picks);
        view->picks = NULL;
    }
    return KM_OK;
}

static km_status view_fill(km_data *view, const km_data *data, const int64_t *picks, km_error *err) {
    int64_t d = view->table.columns;
    if (!data->fill) return KM_OK;
    view->fill = malloc((size_t)d * sizeof *view->fill);
    if (!view->fill) return km_fail_memory(err, "the choice of features", d * (int64_t)sizeof *view->fill);
    for (int64_t f = 0; f < d; f++) view->fill[f] = data->fill[picks[f]];
    return KM_OK;
}

static km_status view_make(km_data **out, const km_data *data, const int64_t *picks, int64_t count,
                           km_error *err) {
    km_data *view = NULL;
    KM_TRY(km_data_create(&view, data->name, err));
    view->is_view = 1;
    view->is_memory = data->is_memory;
    view->is_piece = data->is_piece;
    view->drops = data->drops;
    view->table = data->table;
    view->table.columns = count;
    view->table.picks = view->table.numbers = view->table.missing = NULL;
    view->table.names = NULL;
    view->table.csr = NULL;
    view->table.prepared = NULL;
    view->table.weights = NULL;
    view->n = data->n;
    view->kept = data->kept;
    view->weights = data->weights;
    view->resident = data->resident;
    km_status status = view_fill(view, data, picks, err);
    if (status == KM_OK) status = view_columns(&view->table, &data->table, picks, err);
    if (status == KM_OK && data->resident && view->table.picks)
        status = refuse_resident(data, "put into another order", err);
    if (status != KM_OK) km_data_destroy(&view);
    *out = view;
    return status;
}

km_status km_data_select(km_data **out, const km_data *data, const char *const *names, int64_t count,
                         km_error *err) {
    const km_table *table = &data->table;
    *out = NULL;
    if (count < 1 || count > KM_FEATURES_MAX)
        return km_fail(err, KM_ERROR_USAGE, "%s: 1..%d features can be selected, got %" PRId64, data->name,
                       KM_FEATURES_MAX, count);
    if (!table->names)
        return km_fail(err, KM_ERROR_DATA,
                       "%s has no names to select features by; read it with a header, or give it names",
                       data->name);
    km_named named = {data->name, km_data_feature_names(data), table->numbers, table->columns,
                      "name them alike, or take the names away, so that columns count by position"};
    km_status status;
    int64_t *picks = malloc((size_t)count * sizeof *picks);
    if (!picks) return km_fail_memory(err, "the choice of features", count * (int64_t)sizeof *picks);
    KM_TRY_GOTO(km_names_match(picks, names, count, &named, err));
    KM_TRY_GOTO(view_make(out, data, picks, count, err));
done:
    free(picks);
    return status;
}

km_status km_data_fill_in(km_data **view, const km_data *data, const km_feature *prepared, km_error *err) {
    int64_t d = data->table.columns;
    if (data->resident) return refuse_resident(data, "filled in", err);
    if (!*view) {
        int64_t *picks = malloc((size_t)d * sizeof *picks);
        if (!picks) return km_fail_memory(err, "the choice of features", d * (int64_t)sizeof *picks);
        for (int64_t f = 0; f < d; f++) picks[f] = f;
        km_status status = view_make(view, data, picks, d, err);
        free(picks);
        KM_TRY(status);
    }
    d = (*view)->table.columns;
    free((*view)->fill);
    double *fill = (*view)->fill = malloc((size_t)d * sizeof *fill);
    if (!fill) return km_fail_memory(err, "the choice of features", d * (int64_t)sizeof *fill);
    for (int64_t f = 0; f < d; f++) fill[f] = prepared[f].fill;
    return KM_OK;
}

// Parts ------------------------------------------------------------------------------------------------------

km_status km_data_part(km_data **out, const km_data *data, int64_t first, int64_t count, km_error *err) {
    km_data *part = *out = NULL;
    KM_TRY(km_data_create(&part, data->name, err));
    part->is_part = 1;
    part->is_memory = data->is_memory;
    part->table = data->table;
    part->n = count;
    // The rows stay those of the whole table, so that messages and labels name them.
    part->kept = data->kept ? data->kept + first : NULL;
    part->first = data->first + (data->kept ? 0 : first);
    part->fill = data->fill;
    part->resident = data->resident;
    part->is_unit = data->is_unit;
    part->unit_rounding = data->unit_rounding;
    part->drops = data->drops;
    part->is_range = data->is_range;
    part->share = data->share;
    *out = part;
    return KM_OK;
}

km_status km_data_range(km_data **out, const km_data *data, int64_t first, int64_t count, km_error *err) {
    *out = NULL;
    if (first < 0 || count < 0 || first > data->n - count)
        return km_fail(err, KM_ERROR_USAGE,
                       "%s has the points 0..%" PRId64 ", a range was asked for of %" PRId64 " from %" PRId64,
                       data->name, data->n - 1, count, first);
    if (data->kept || data->table.csr || data->resident)
        return km_fail(err, KM_ERROR_USAGE, "%s: a range is to be had of %s", data->name,
                       data->table.csr ? "dense points only, and these are sparse"
                       : data->resident
                           ? "points on the host only"
                           : "whole tables only, and rows were left out; fill in what is missing");
    KM_TRY(km_data_part(out, data, first, count, err));
    (*out)->is_range = 1;
    (*out)->prepared = data->prepared;
    (*out)->weights = data->weights ? data->weights + first : NULL;
    return KM_OK;
}

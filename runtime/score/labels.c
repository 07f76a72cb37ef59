// SPDX-License-Identifier: MIT
// Labels from a file: a table of one column.
#include "../../base/error.h"
#include "../data_refuse.h"
#include <kmgen/score.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void km_labels_free(int64_t **labels) {
    free(*labels);
    *labels = NULL;
}

static km_status open_column(km_data **out, const char *path, const char *column, km_error *err) {
    km_data_params params;
    km_data_params_init(&params);
    params.columns = column;
    params.missing = KM_MISSING_DROP;
    return km_data_open(out, path, &params, err);
}

// The column that is named, or the only one, or that of a header which calls it "label". A table of other columns may
// hold cells that are no numbers, so that name is tried first; but standard input and pipes can be read once.
static km_status open_labels(km_data **out, const char *path, const char *column, km_error *err) {
    if (column) return open_column(out, path, column, err);
    struct stat info;
    if (stat(path, &info) == 0 && S_ISREG(info.st_mode)) {
        km_error why = {""};
        km_status status = open_column(out, path, "label", &why);
        if (status != KM_OK && status != KM_ERROR_USAGE) km_fail(err, status, "%s", why.text);
        if (status != KM_ERROR_USAGE) return status; // else no column has that name
    }
    KM_TRY(open_column(out, path, NULL, err));
    if (km_data_features(*out) == 1) return KM_OK;
    int64_t columns = km_data_features(*out);
    km_data_destroy(out);
    return km_fail(err, KM_ERROR_USAGE,
                   "%s has %lld columns and none is named label; name that of the labels: --label-column",
                   path, (long long)columns);
}

static km_status copy_labels(int64_t *labels, const km_data *data, km_error *err) {
    for (int64_t i = 0; i < km_data_points(data); i++) {
        double value;
        int64_t row = km_data_row_of(data, i);
        KM_TRY(km_data_read(&value, data, i, 1, KM_FLOAT64, err));
        if (value != floor(value) || fabs(value) > 0x1p53)
            return km_fail(err, KM_ERROR_DATA, "%s: the label of row %lld is %g; labels are whole numbers",
                           km_data_name(data), (long long)row + 1, value);
        labels[row] = (int64_t)value;
    }
    return KM_OK;
}

km_status km_labels_read(int64_t **out, int64_t *count, const char *path, const char *column, km_error *err) {
    km_data *data = NULL;
    *out = NULL;
    KM_TRY(open_labels(&data, path, column, err));
    km_status status = KM_OK;
    int64_t rows = km_data_rows(data);
    if (km_data_features(data) != 1) {
        status = km_fail(err, KM_ERROR_USAGE, "%s: the labels are one column, and %s are %lld", path, column,
                         (long long)km_data_features(data));
        goto done;
    }
    int64_t *labels = *out = malloc((size_t)rows * sizeof *labels + 1);
    if (!labels) {
        status = km_fail_memory(err, "the labels", rows * (int64_t)sizeof *labels);
        goto done;
    }
    for (int64_t i = 0; i < rows; i++) labels[i] = KM_LABEL_EMPTY;
    status = copy_labels(labels, data, err);
    if (km_data_check(data, err) != KM_OK) status = KM_ERROR_IO;
    *count = rows;
done:
    if (status != KM_OK) km_labels_free(out);
    km_data_destroy(&data);
    return status;
}

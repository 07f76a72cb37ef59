// SPDX-License-Identifier: MIT
// The table of readers, and the choice among them.
#include "reader.h"
#include "../../base/error.h"
#include "unpack.h"

#include <string.h>
#include <strings.h>

const km_reader km_readers[] = {
    {"npy", {".npy"}, km_npy_sniff, km_npy_open, 0},
    {"npz", {".npz"}, km_npz_sniff, km_npz_open, 0},
    {"h5", {".h5", ".hdf5", ".he5"}, km_h5_sniff, km_h5_open, 1},
    {"mtx", {".mtx"}, km_mtx_sniff, km_mtx_open, 0},
    {"svmlight", {".svm", ".svmlight", ".libsvm"}, km_svmlight_sniff, km_svmlight_open, 0},
    {"csv", {".csv"}, km_text_sniff, km_csv_open, 0},
    {"tsv", {".tsv", ".tab"}, NULL, km_tsv_open, 0},
    {"f32", {".f32"}, NULL, km_f32_open, 0},
    {"f64", {".f64"}, NULL, km_f64_open, 0},
    {NULL, {NULL}, NULL, NULL, 0},
};

#define FORMATS "npy, npz, h5, mtx, svmlight, csv, tsv, f32 or f64"

static int ends_with(const char *text, size_t size, const char *end) {
    size_t end_size = strlen(end);
    return size > end_size && strncasecmp(text + size - end_size, end, end_size) == 0;
}

static const km_reader *by_name(const char *name) {
    for (const km_reader *reader = km_readers; reader->name; reader++)
        if (strcmp(reader->name, name) == 0) return reader;
    return NULL;
}

static const km_reader *by_extension(const char *path, size_t size) {
    size = km_packing_strip(path, size);
    for (const km_reader *reader = km_readers; reader->name; reader++)
        for (int i = 0; i < 3 && reader->extensions[i]; i++)
            if (ends_with(path, size, reader->extensions[i])) return reader;
    return NULL;
}

const char *km_data_format(const char *path) {
    const km_reader *reader = by_extension(path, strlen(path));
    for (const char *colon = strchr(path, ':'); colon && !reader; colon = strchr(colon + 1, ':')) {
        reader = by_extension(path, (size_t)(colon - path)); // FILE:PART
        if (reader && !reader->has_parts) reader = by_name("npy");
    }
    return reader ? reader->name : NULL;
}

static const km_reader *by_content(const km_input *input) {
    for (const km_reader *reader = km_readers; reader->name; reader++)
        if (reader->sniff && reader->sniff(input)) return reader;
    return NULL;
}

static km_status reader_of(const km_reader **out, const km_data_params *params, km_error *err) {
    *out = params->format ? by_name(params->format) : NULL;
    if (*out || !params->format) return KM_OK;
    return km_fail(err, KM_ERROR_USAGE, "the format must be " FORMATS ", got \"%.40s\"", params->format);
}

static km_status read_table(km_table *table, const km_reader *reader, km_input *input,
                            const km_data_params *params, km_error *err) {
    km_status status = reader->open(table, input, params, err);
    if (km_table_is_lost(table)) status = km_table_check(table, input->name, err);
    if (status != KM_OK) km_table_clear(table);
    return status;
}

// params->format, else by the file's extension, else by content.
static km_status choose_reader(const km_reader **out, const km_input *input, const km_data_params *params,
                               km_error *err) {
    const char *file = km_input_file(input);
    KM_TRY(reader_of(out, params, err));
    if (!*out) *out = by_extension(file, strlen(file));
    if (!*out) KM_TRY(km_foreign_refuse(input, err));
    if (!*out) *out = by_content(input);
    if (!*out)
        return km_fail(err, KM_ERROR_DATA, "%s: cannot tell what this holds; name the format: " FORMATS,
                       input->name);
    if (!input->part || (*out)->has_parts) return KM_OK;
    return km_fail(err, KM_ERROR_DATA, "%s has no parts that a colon could name; give %s", input->name,
                   input->file);
}

const char *km_input_format(const km_input *input, const km_data_params *params, km_error *err) {
    const km_reader *reader;
    return choose_reader(&reader, input, params, err) == KM_OK ? reader->name : NULL;
}

km_status km_table_read_input(km_table *table, km_input *input, const km_data_params *params, km_error *err) {
    const km_reader *reader;
    *table = (km_table){0};
    KM_TRY(reader_of(&reader, params, err));
    return read_table(table, reader, input, params, err);
}

km_status km_table_open(km_table *table, const char *path, const km_data_params *params, km_error *err) {
    const km_reader *reader;
    km_input input;
    *table = (km_table){0};
    KM_TRY(reader_of(&reader, params, err));
    KM_TRY(km_input_open(&input, path, err));
    km_status status = choose_reader(&reader, &input, params, err);
    if (status == KM_OK) status = read_table(table, reader, &input, params, err);
    km_input_close(&input);
    return status;
}

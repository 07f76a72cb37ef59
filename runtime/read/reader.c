// SPDX-License-Identifier: MIT
// The table of readers, and the choice among them.
#include "reader.h"
#include "../../base/error.h"

#include <string.h>
#include <strings.h>

const km_reader km_readers[] = {
    {"npy", {".npy"}, km_npy_sniff, km_npy_open},
    {"npz", {".npz"}, km_npz_sniff, km_npz_open},
    {"mtx", {".mtx"}, km_mtx_sniff, km_mtx_open},
    {"svmlight", {".svm", ".svmlight", ".libsvm"}, km_svmlight_sniff, km_svmlight_open},
    {"csv", {".csv"}, km_text_sniff, km_csv_open},
    {"tsv", {".tsv", ".tab"}, NULL, km_tsv_open},
    {"f32", {".f32"}, NULL, km_f32_open},
    {"f64", {".f64"}, NULL, km_f64_open},
    {NULL, {NULL}, NULL, NULL},
};

#define FORMATS "npy, npz, mtx, svmlight, csv, tsv, f32 or f64"

static int ends_with(const char *text, size_t size, const char *end) {
    size_t end_size = strlen(end);
    return size > end_size && strncasecmp(text + size - end_size, end, end_size) == 0;
}

static const km_reader *by_name(const char *name) {
    for (const km_reader *reader = km_readers; reader->name; reader++)
        if (strcmp(reader->name, name) == 0) return reader;
    return NULL;
}

static const km_reader *by_extension(const char *path) {
    size_t size = strlen(path);
    if (ends_with(path, size, ".gz")) size -= 3;
    for (const km_reader *reader = km_readers; reader->name; reader++)
        for (int i = 0; i < 3 && reader->extensions[i]; i++)
            if (ends_with(path, size, reader->extensions[i])) return reader;
    return NULL;
}

const char *km_data_format(const char *path) {
    const km_reader *reader = by_extension(path);
    return reader ? reader->name : NULL;
}

// The first bytes as they are unpacked.
static void unpack_head(km_input *head, const km_input *input) {
    km_input packed = *input;
    km_unpacker *unpacker = NULL;
    int64_t got = 0;
    packed.fd = -1; // it ends behind the head
    *head = *input;
    if (!km_input_is_gzip(input) || km_unpacker_create(&unpacker, &packed, NULL) != KM_OK) return;
    // What can be unpacked stays, though the text is cut there.
    km_unpacker_read(&got, head->head, sizeof head->head, unpacker, NULL);
    if (got > 0) head->head_size = got;
    km_unpacker_destroy(&unpacker);
}

static const km_reader *by_content(const km_input *input) {
    km_input head;
    unpack_head(&head, input);
    for (const km_reader *reader = km_readers; reader->name; reader++)
        if (reader->sniff && reader->sniff(&head)) return reader;
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
static km_status choose_reader(const km_reader **out, const char *path, const km_input *input,
                               const km_data_params *params, km_error *err) {
    KM_TRY(reader_of(out, params, err));
    if (!*out && strcmp(path, "-") != 0) *out = by_extension(path);
    if (!*out) *out = by_content(input);
    if (*out) return KM_OK;
    return km_fail(err, KM_ERROR_DATA, "%s: cannot tell what this holds; name the format: " FORMATS,
                   input->name);
}

const char *km_input_format(const char *path, const km_input *input, const km_data_params *params,
                            km_error *err) {
    const km_reader *reader;
    return choose_reader(&reader, path, input, params, err) == KM_OK ? reader->name : NULL;
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
    km_status status = choose_reader(&reader, path, &input, params, err);
    if (status == KM_OK) status = read_table(table, reader, &input, params, err);
    km_input_close(&input);
    return status;
}

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

km_status km_table_open(km_table *table, const char *path, const km_data_params *params, km_error *err) {
    const km_reader *reader = NULL;
    *table = (km_table){0};
    if (params->format) {
        reader = by_name(params->format);
        if (!reader)
            return km_fail(err, KM_ERROR_USAGE, "the format must be " FORMATS ", got \"%.40s\"",
                           params->format);
    }
    km_input input;
    KM_TRY(km_input_open(&input, path, err));
    if (!reader && strcmp(path, "-") != 0) reader = by_extension(path);
    if (!reader) reader = by_content(&input);
    km_status status;
    if (reader)
        status = reader->open(table, &input, params, err);
    else
        status = km_fail(err, KM_ERROR_DATA, "%s: cannot tell what this holds; name the format: " FORMATS,
                         input.name);
    if (km_table_is_lost(table)) status = km_table_check(table, input.name, err);
    km_input_close(&input);
    if (status != KM_OK) km_table_clear(table);
    return status;
}

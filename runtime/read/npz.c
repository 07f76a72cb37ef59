// SPDX-License-Identifier: MIT
// .npz: a zip file, read by libarchive, of .npy arrays. Those of SciPy's sparse matrices (scipy.sparse.save_npz) are
// format, shape, indptr, indices and data: CSR is taken as it is, CSC is turned. Of others, a file has to hold one
// array alone, or `FILE:ARRAY` names it, which km_input_open unpacks.
#include "../../base/size.h"
#include "../memory.h"
#include "archive_calls.h"
#include "npy.h"
#include "rows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 1 << 18, OTHERS_SIZE = 200 };

typedef struct npz {
    const char *file;
    km_error *err;
    struct archive *archive;
    unsigned char *chunk;
    char format[8]; // "": not seen
    int64_t shape[2];
    int64_t *starts, starts_count;
    km_rows rows; // its indices and values
    int64_t indices_count, values_count;
    int has_shape, has_objects;
    int64_t others_count;     // arrays that no sparse matrix has ...
    char others[OTHERS_SIZE]; // ... and their names
} npz;

// One array of the zip file while it is read.
typedef struct stream {
    npz *z;
    char name[512]; // "FILE: indices.npy", for messages
    km_npy_header header;
    km_table element; // how a value is spelled
    int64_t value_bytes;
    int64_t left;       // values that are not read yet
    int64_t at, filled; // of the chunk
} stream;

int km_npz_sniff(const km_input *input) {
    return input->head_size >= 4 && memcmp(input->head, "PK\3\4", 4) == 0;
}

static const char way_out[] = "save it by scipy.sparse.save_npz(path, x.tocsr())";

static km_status damaged(const npz *z, const char *what) {
    return km_fail(z->err, KM_ERROR_DATA, "%s is damaged: %s; %s", z->file, what, way_out);
}

static km_status archive_failed(const npz *z) {
    const char *why = archive_error_string(z->archive);
    if (archive_errno(z->archive) == ENOMEM)
        return km_fail_memory(z->err, "unpacking a zip file", CHUNK_BYTES);
    return km_fail(z->err, KM_ERROR_DATA, "%s is damaged or cut short: %s", z->file,
                   why ? why : "its zip directory");
}

// Whether the record that ends a zip file is there; comments of up to 64 KiB may follow it. Arrays can be read without
// it, as far as they go.
static int has_end(const unsigned char *bytes, int64_t size) {
    enum { END_BYTES = 22, COMMENT_MAX = 65535 };
    for (int64_t at = size - END_BYTES; at >= 0 && at >= size - END_BYTES - COMMENT_MAX; at--)
        if (memcmp(bytes + at, "PK\5\6", 4) == 0) return 1;
    return 0;
}

// Arrays ------------------------------------------------------------------------------------------------------

// Fills the chunk behind what is left of it, as far as there is more.
static km_status fill(stream *s) {
    npz *z = s->z;
    int64_t kept = s->filled - s->at;
    memmove(z->chunk, z->chunk + s->at, (size_t)kept);
    s->at = 0;
    s->filled = kept;
    while (s->filled < CHUNK_BYTES) {
        ssize_t got = archive_read_data(z->archive, z->chunk + s->filled, (size_t)(CHUNK_BYTES - s->filled));
        if (got < 0) return archive_failed(z);
        if (got == 0) break;
        s->filled += got;
    }
    return KM_OK;
}

static km_status stream_open(stream *s, npz *z, const char *name) {
    *s = (stream){.z = z};
    snprintf(s->name, sizeof s->name, "%.480s: %.24s", z->file, name);
    KM_TRY(fill(s));
    KM_TRY(km_npy_header_read(&s->header, z->chunk, s->filled, s->name, z->err));
    s->at = s->header.bytes;
    s->left = s->header.dimensions == 0 ? 1 : s->header.shape[0];
    return KM_OK;
}

// For an array of numbers of one dimension.
static km_status stream_expect_numbers(stream *s) {
    if (s->header.dimensions != 1)
        return km_fail(s->z->err, KM_ERROR_DATA, "%s has %" PRId64 " dimensions, and 1 is expected; %s",
                       s->name, s->header.dimensions, way_out);
    KM_TRY(km_npy_set_element(&s->element, &s->header, s->name, s->z->err));
    s->value_bytes = km_element_size(s->element.element);
    s->element.columns = s->element.row_stride = s->element.column_stride = 1;
    return KM_OK;
}

// The next values at hand, at least one while some are left.
static km_status stream_next(int64_t *count, stream *s) {
    if (s->filled - s->at < s->value_bytes) KM_TRY(fill(s));
    *count = km_min((s->filled - s->at) / s->value_bytes, s->left);
    s->element.base = s->z->chunk + s->at;
    s->element.rows = *count;
    s->at += *count * s->value_bytes;
    s->left -= *count;
    if (*count || s->left == 0) return KM_OK;
    return km_fail(s->z->err, KM_ERROR_DATA, "%s is cut short: %" PRId64 " of its values are missing",
                   s->name, s->left);
}

// To the end of the array, so that its checksum is looked at.
static km_status stream_end(stream *s) {
    for (s->filled = s->at = 0;; s->filled = s->at = 0) {
        KM_TRY(fill(s));
        if (s->filled == 0) return KM_OK;
    }
}

// Value i of the chunk as an integer, saturated.
static int64_t integer_at(const stream *s, int64_t i) {
    uint64_t value = 0;
    int64_t size = s->value_bytes;
    const unsigned char *bytes = s->element.base + i * size;
    int is_little = (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) != s->element.swapped;
    for (int64_t b = 0; b < size; b++) value = value << 8 | bytes[is_little ? size - 1 - b : b];
    if (s->header.dtype[1] == 'u') return value > INT64_MAX ? INT64_MAX : (int64_t)value;
    return (int64_t)(value << (64 - 8 * size)) >> (64 - 8 * size);
}

static km_status expect_integers(const stream *s) {
    char kind = s->header.dtype[1];
    if (kind == 'i' || kind == 'u') return KM_OK;
    return km_fail(s->z->err, KM_ERROR_DATA, "%s has values of dtype \"%s\", and integers are expected; %s",
                   s->name, s->header.dtype, way_out);
}

static km_status read_integers(int64_t **out, int64_t *out_count, stream *s) {
    void *array = NULL;
    int64_t capacity = 0, done = 0, count;
    km_status status;
    KM_TRY(stream_expect_numbers(s));
    KM_TRY(expect_integers(s));
    while (s->left > 0) {
        KM_TRY_GOTO(stream_next(&count, s));
        KM_TRY_GOTO(km_array_reserve(&array, &capacity, done + count, sizeof **out, s->z->file, s->z->err));
        for (int64_t i = 0; i < count; i++) ((int64_t *)array)[done + i] = integer_at(s, i);
        done += count;
    }
    status = stream_end(s);
done:
    free(*out);
    *out = array;
    *out_count = done;
    return status;
}

static km_status read_indices(npz *z, stream *s) {
    int64_t capacity = 0, count;
    km_rows *rows = &z->rows;
    KM_TRY(stream_expect_numbers(s));
    KM_TRY(expect_integers(s));
    free(rows->indices);
    rows->indices = NULL;
    z->indices_count = 0;
    int is_plain = s->value_bytes == 4 && s->header.dtype[1] == 'i' && !s->element.swapped;
    while (s->left > 0) {
        void *array = rows->indices;
        KM_TRY(stream_next(&count, s));
        km_status status = km_array_reserve(&array, &capacity, z->indices_count + count, 4, z->file, z->err);
        rows->indices = array;
        KM_TRY(status);
        int32_t *to = rows->indices + z->indices_count;
        if (is_plain) memcpy(to, s->element.base, (size_t)count * 4);
        for (int64_t i = 0; i < count; i++) {
            int64_t index = is_plain ? to[i] : integer_at(s, i);
            if (index != (int32_t)index)
                return km_fail(z->err, KM_ERROR_DATA,
                               "%s: value %" PRId64 " is %" PRId64 ", and indices are 0..%d; %s", s->name,
                               z->indices_count + i + 1, index, INT32_MAX, way_out);
            to[i] = (int32_t)index;
        }
        z->indices_count += count;
    }
    return stream_end(s);
}

// float32, and integers that it holds, stay float32.
static km_status read_values(npz *z, stream *s) {
    int64_t capacity = 0, count;
    km_rows *rows = &z->rows;
    KM_TRY(stream_expect_numbers(s));
    km_element element = s->element.element;
    rows->type = element == KM_ELEMENT_F4 || (element != KM_ELEMENT_F8 && s->value_bytes <= 2) ? KM_FLOAT32
                                                                                               : KM_FLOAT64;
    free(rows->values);
    rows->values = NULL;
    z->values_count = 0;
    int64_t bytes = km_type_bytes(rows->type);
    while (s->left > 0) {
        KM_TRY(stream_next(&count, s));
        KM_TRY(km_array_reserve(&rows->values, &capacity, z->values_count + count, bytes, z->file, z->err));
        km_table_read((char *)rows->values + z->values_count * bytes, &s->element, 0, count, rows->type);
        z->values_count += count;
    }
    return stream_end(s);
}

// b'csr' (dtype S3) or 'csr' (U3): the letters are its bytes that are not zero.
static km_status read_format(npz *z, stream *s) {
    size_t size = 0;
    for (int64_t i = s->at; i < s->filled && size < sizeof z->format - 1; i++)
        if (z->chunk[i]) z->format[size++] = (char)z->chunk[i];
    z->format[size] = 0;
    if (strcmp(z->format, "csr") == 0 || strcmp(z->format, "csc") == 0) return stream_end(s);
    char got[KM_QUOTED_SIZE];
    return km_fail(z->err, KM_ERROR_DATA,
                   "%s holds a sparse matrix of the format %s; csr and csc are read: %s", z->file,
                   km_quoted(got, z->format), way_out);
}

static km_status read_shape(npz *z, stream *s) {
    int64_t *shape = NULL, count;
    KM_TRY(read_integers(&shape, &count, s));
    z->has_shape = count == 2;
    for (int64_t i = 0; i < 2 && z->has_shape; i++) z->shape[i] = shape[i];
    free(shape);
    return z->has_shape ? KM_OK : damaged(z, "its shape is no pair");
}

// An array that no sparse matrix has, for the sentence that refuses a file without one.
static void note_other(npz *z, const char *name) {
    stream s;
    size_t used = strlen(z->others);
    int size = (int)strcspn(name, ".");
    z->others_count++;
    snprintf(z->others + used, sizeof z->others - used, "%s%.*s", used ? ", " : "", size < 40 ? size : 40,
             name);
    km_error *err = z->err;
    z->err = NULL;
    if (stream_open(&s, z, name) == KM_OK && strchr(s.header.dtype, 'O')) z->has_objects = 1;
    z->err = err;
}

static km_status read_array(npz *z, const char *name) {
    static const char *const names[] = {"format.npy", "shape.npy", "indptr.npy", "indices.npy", "data.npy"};
    stream s;
    int n = 0;
    while (n < 5 && strcmp(name, names[n]) != 0) n++;
    if (n == 5) {
        note_other(z, name);
        return KM_OK;
    }
    KM_TRY(stream_open(&s, z, name));
    switch (n) {
    case 0:
        return read_format(z, &s);
    case 1:
        return read_shape(z, &s);
    case 2:
        return read_integers(&z->starts, &z->starts_count, &s);
    case 3:
        return read_indices(z, &s);
    default:
        return read_values(z, &s);
    }
}

// Rows --------------------------------------------------------------------------------------------------------

static km_status check_arrays(npz *z) {
    if (!z->format[0] && z->has_objects)
        return km_fail(z->err, KM_ERROR_DATA,
                       "%s holds an object array (%s), which is no table of numbers; %s", z->file, z->others,
                       way_out);
    if (!z->format[0])
        return km_fail(z->err, KM_ERROR_DATA,
                       z->others_count ? "%s holds several arrays; name one of them, %s:NAME: %s"
                                       : "%s holds no array",
                       z->file, z->file, z->others);
    if (!z->starts || !z->has_shape || !z->rows.indices != !z->rows.values)
        return damaged(z, "indptr, indices, data or shape is missing");
    if (z->indices_count != z->values_count) return damaged(z, "it has not as many indices as values");
    int64_t n = z->shape[0], d = z->shape[1];
    if (n < 1 || d < 1)
        return km_fail(z->err, KM_ERROR_DATA, "%s has no values: its shape is %" PRId64 " x %" PRId64,
                       z->file, n, d);
    int is_csc = strcmp(z->format, "csc") == 0;
    if (d > KM_FEATURES_MAX || (is_csc && n > INT32_MAX))
        return km_fail(z->err, KM_ERROR_DATA,
                       "%s is %" PRId64 " x %" PRId64
                       ", and at most %d columns are taken; are rows and columns exchanged?",
                       z->file, n, d, KM_FEATURES_MAX);
    if (z->starts_count - 1 != (is_csc ? d : n)) return damaged(z, "indptr does not fit the shape");
    return KM_OK;
}

// Values column by column become entries of rows.
static km_status turn(npz *z) {
    km_rows *rows = &z->rows;
    int64_t bytes = rows->count * (int64_t)sizeof *rows->indices;
    KM_TRY(km_host_check("the columns of a CSC matrix", bytes, z->err));
    int32_t *columns = malloc((size_t)bytes + 1), *entry_rows = rows->indices;
    if (!columns) return km_fail_memory(z->err, "the columns of a CSC matrix", bytes);
    for (int64_t f = 0; f < rows->rows; f++)
        for (int64_t i = rows->starts[f]; i < rows->starts[f + 1]; i++) columns[i] = (int32_t)f;
    rows->indices = columns;
    km_status status = km_rows_from_entries(rows, entry_rows, z->shape[0], z->err);
    free(entry_rows);
    return status;
}

static km_status make_rows(npz *z) {
    char name[512];
    km_rows *rows = &z->rows;
    KM_TRY(check_arrays(z));
    int is_csc = strcmp(z->format, "csc") == 0;
    rows->count = z->indices_count;
    rows->rows = z->starts_count - 1;
    rows->starts = z->starts;
    z->starts = NULL;
    snprintf(name, sizeof name, "%.480s%s", z->file, is_csc ? ", transposed" : "");
    KM_TRY(km_rows_check(rows, z->shape[is_csc ? 0 : 1], is_csc ? name : z->file, z->err));
    return is_csc ? turn(z) : KM_OK;
}

static km_status read_archive(npz *z, const unsigned char *bytes, int64_t size) {
    z->archive = archive_read_new();
    if (!z->archive || archive_read_support_format_zip(z->archive) != ARCHIVE_OK)
        return km_fail_memory(z->err, "unpacking a zip file", 1 << 16);
    if (archive_read_open_memory(z->archive, bytes, (size_t)size) != ARCHIVE_OK) return archive_failed(z);
    for (;;) {
        struct archive_entry *entry;
        int result = archive_read_next_header(z->archive, &entry);
        if (result == ARCHIVE_EOF) return KM_OK;
        if (result != ARCHIVE_OK && result != ARCHIVE_WARN) return archive_failed(z);
        const char *name = archive_entry_pathname(entry);
        KM_TRY(read_array(z, name ? name : "?"));
    }
}

km_status km_npz_open(km_table *table, km_input *input, const km_data_params *params, km_error *err) {
    km_status status;
    const unsigned char *bytes;
    int64_t size;
    km_table packed = {0}; // the file, mapped or read
    npz z = {.file = input->name, .err = err, .rows = {.file = input->name}};
    if (!km_npz_sniff(input))
        return km_fail(err, KM_ERROR_DATA, "%s is no .npz file: its first bytes are not those of a zip file",
                       input->name);
    KM_TRY(km_archive_open(KM_ERROR_DATA, input->name, err));
    z.chunk = malloc(CHUNK_BYTES);
    if (!z.chunk) return km_fail_memory(err, "unpacking a zip file", CHUNK_BYTES);
    KM_TRY_GOTO(km_input_whole(&bytes, &size, &packed, input, err));
    if (!has_end(bytes, size)) {
        status = km_fail(
            err, KM_ERROR_DATA,
            "%s was cut short: the directory that ends a zip file is not there; write or copy it again",
            input->name);
        goto done;
    }
    KM_TRY_GOTO(read_archive(&z, bytes, size));
    if (!z.format[0] && z.others_count == 1 && !z.has_objects) {
        km_input array;
        KM_TRY_GOTO(km_input_open_zip(&array, input->name, bytes, size, err));
        status = km_npy_open(table, &array, params, err);
        km_input_close(&array);
        goto done;
    }
    KM_TRY_GOTO(make_rows(&z));
    table->first_line = 1;
    KM_TRY_GOTO(km_rows_finish(table, &z.rows, z.shape[1], params, err));
done:
    if (km_table_is_lost(&packed)) status = km_table_check(&packed, input->name, err);
    if (z.archive) archive_read_free(z.archive);
    km_table_clear(&packed);
    free(z.chunk);
    free(z.starts);
    km_rows_clear(&z.rows);
    return status;
}

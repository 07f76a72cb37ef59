// SPDX-License-Identifier: MIT
// NumPy's .npy files: a magic, a version, the text of a Python dict, then the values. Source of the format: the
// documentation of numpy.lib.format (versions 1.0, 2.0 and 3.0).
#include "../../base/error.h"
#include "../../base/size.h"
#include "../../gen/spec_fields.h"
#include "npy.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const unsigned char magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
static const char other_order = '>';
#else
static const char other_order = '<';
#endif

int km_npy_sniff(const km_input *input) {
    return input->head_size >= (int64_t)sizeof magic && memcmp(input->head, magic, sizeof magic) == 0;
}

// Header -----------------------------------------------------------------------------------------------------

typedef km_npy_header header;

typedef struct cursor {
    const char *at, *end;
    const char *file;
    km_error *err;
} cursor;

static km_status damaged(const cursor *c, const char *what) {
    return km_fail(c->err, KM_ERROR_DATA, "%s: the .npy header is damaged: %s", c->file, what);
}

static void skip_spaces(cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t')) c->at++;
}

// Takes one character, with the spaces before it, when it is the next one.
static int take(cursor *c, char wanted) {
    skip_spaces(c);
    if (c->at == c->end || *c->at != wanted) return 0;
    c->at++;
    return 1;
}

static int take_word(cursor *c, const char *word) {
    int64_t size = (int64_t)strlen(word);
    skip_spaces(c);
    if (c->end - c->at < size || memcmp(c->at, word, (size_t)size) != 0) return 0;
    c->at += size;
    return 1;
}

static km_status take_string(char *out, int64_t capacity, cursor *c) {
    skip_spaces(c);
    char quote = (char)(c->at < c->end ? *c->at : 0);
    if (quote != '\'' && quote != '"') return damaged(c, "a quoted word is missing");
    const char *start = ++c->at;
    while (c->at < c->end && *c->at != quote) c->at++;
    int64_t size = c->at - start;
    if (c->at == c->end) return damaged(c, "a quote is not closed");
    c->at++;
    if (size >= capacity) return damaged(c, "a word is far too long");
    memcpy(out, start, (size_t)size);
    out[size] = 0;
    return KM_OK;
}

static km_status take_size(int64_t *out, cursor *c) {
    skip_spaces(c);
    if (c->at == c->end || *c->at < '0' || *c->at > '9')
        return damaged(c, "the shape is not a tuple of sizes");
    int64_t value = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (km_mul_overflows(&value, value, 10) || km_add_overflows(&value, value, *c->at - '0'))
            return damaged(c, "a size in the shape does not fit 63 bits");
    if (c->at < c->end && *c->at == 'L') c->at++; // Python 2 wrote 10L
    *out = value;
    return KM_OK;
}

static km_status take_shape(header *h, cursor *c) {
    if (!take(c, '(')) return damaged(c, "the shape is not a tuple");
    h->dimensions = 0;
    while (!take(c, ')')) {
        int64_t size = 0;
        KM_TRY(take_size(&size, c));
        if (h->dimensions < 2) h->shape[h->dimensions] = size;
        h->dimensions++;
        if (take(c, ',')) continue;
        if (!take(c, ')')) return damaged(c, "the shape does not end");
        break;
    }
    return KM_OK;
}

static km_status take_entry(header *h, cursor *c) {
    char key[32];
    KM_TRY(take_string(key, sizeof key, c));
    if (!take(c, ':')) return damaged(c, "a colon is missing");
    if (strcmp(key, "shape") == 0) return take_shape(h, c);
    if (strcmp(key, "fortran_order") == 0) {
        h->has_order = 1;
        h->is_fortran = take_word(c, "True");
        return h->is_fortran || take_word(c, "False") ? KM_OK
                                                      : damaged(c, "fortran_order is neither True nor False");
    }
    if (strcmp(key, "descr") != 0)
        return damaged(c, "it has a key other than descr, fortran_order and shape");
    skip_spaces(c);
    if (c->at < c->end && *c->at == '[')
        return km_fail(
            c->err, KM_ERROR_DATA,
            "%s holds records with named fields; save its columns as one plain array of numbers, as "
            "numpy.lib.recfunctions.structured_to_unstructured(x[['a', 'b']]) makes it",
            c->file);
    h->has_dtype = 1;
    return take_string(h->dtype, sizeof h->dtype, c);
}

static km_status parse_header(header *h, cursor *c) {
    *h = (header){.dimensions = -1};
    if (!take(c, '{')) return damaged(c, "it does not open with {");
    while (!take(c, '}')) {
        KM_TRY(take_entry(h, c));
        if (take(c, ',')) continue;
        if (!take(c, '}')) return damaged(c, "it does not end with }");
        break;
    }
    if (!h->has_dtype || !h->has_order || h->dimensions < 0)
        return damaged(c, "descr, fortran_order or shape is missing");
    return KM_OK;
}

// Table ------------------------------------------------------------------------------------------------------

km_status km_npy_set_element(km_table *table, const km_npy_header *h, const char *file, km_error *err) {
    static const char *const dtypes[] = {
#define KM_DTYPE(name, type, dtype) dtype,
        KM_ELEMENTS(KM_DTYPE)
#undef KM_DTYPE
    };
    char order = h->dtype[0];
    int is_known = order == '<' || order == '>' || order == '|' || order == '=';
    for (int i = 0; is_known && i < KM_ELEMENT_COUNT; i++) {
        if (strcmp(h->dtype + 1, dtypes[i]) != 0) continue;
        table->element = (km_element)i;
        table->swapped = order == other_order && km_element_size(table->element) > 1;
        return KM_OK;
    }
    if (h->dtype[0] && h->dtype[1] == 'O')
        return km_fail(err, KM_ERROR_DATA,
                       "%s holds Python objects; save numbers with astype('float32'), words as text by "
                       "numpy.savetxt(path, x, fmt='%%s'), a sparse matrix by "
                       "scipy.sparse.save_npz(path, x.tocsr())",
                       file);
    if (h->dtype[0] && (h->dtype[1] == 'U' || h->dtype[1] == 'S'))
        return km_fail(err, KM_ERROR_DATA,
                       "%s holds words, which are read from text: numpy.savetxt('words.csv', x, fmt='%%s')",
                       file);
    char got[KM_QUOTED_SIZE];
    return km_fail(err, KM_ERROR_DATA,
                   "%s: values of dtype %s are not read; save float16, float32, float64, bool or integers of "
                   "8 to 64 bits, e.g. "
                   "with astype('float32')",
                   file, km_quoted(got, h->dtype));
}

static km_status set_shape(km_table *table, const header *h, int64_t bytes, const char *file, km_error *err) {
    if (h->dimensions < 1 || h->dimensions > 2)
        return km_fail(err, KM_ERROR_DATA,
                       "%s has %" PRId64 " dimensions; points are rows x columns, so 2 (or 1) are read", file,
                       h->dimensions);
    int64_t n = h->shape[0], d = h->dimensions == 2 ? h->shape[1] : 1, count, needed;
    if (n == 0 || d == 0)
        return km_fail(err, KM_ERROR_DATA, "%s has no values: its shape is %" PRId64 " x %" PRId64, file, n,
                       d);
    if (d > KM_FEATURES_DENSE_MAX)
        return km_fail(err, KM_ERROR_DATA,
                       "%s has %" PRId64 " columns, and at most %d are taken; are rows and columns "
                       "exchanged?",
                       file, d, KM_FEATURES_DENSE_MAX);
    if (km_mul_overflows(&count, n, d) || km_mul_overflows(&needed, count, km_element_size(table->element)))
        return km_fail(err, KM_ERROR_DATA,
                       "%s: the shape %" PRId64 " x %" PRId64 " is larger than any memory; the "
                       "header is damaged",
                       file, n, d);
    if (needed > bytes)
        return km_fail(err, KM_ERROR_DATA,
                       "%s is cut short: %" PRId64 " x %" PRId64 " values take %" PRId64 " bytes, %" PRId64
                       " are there",
                       file, n, d, needed, bytes);
    table->rows = n;
    table->columns = d;
    table->row_stride = h->is_fortran ? 1 : d;
    table->column_stride = h->is_fortran ? n : 1;
    return KM_OK;
}

km_status km_npy_header_read(km_npy_header *h, const unsigned char *bytes, int64_t size, const char *file,
                             km_error *err) {
    if (size < (int64_t)sizeof magic || memcmp(bytes, magic, sizeof magic) != 0)
        return km_fail(err, KM_ERROR_DATA, "%s is no .npy file: its first bytes differ", file);
    int major = size > 6 ? bytes[6] : 0;
    int64_t start = major == 1 ? 10 : 12;
    if (size < start)
        return km_fail(err, KM_ERROR_DATA, "%s is cut short: its .npy header is not whole", file);
    if (major < 1 || major > 3)
        return km_fail(err, KM_ERROR_DATA, "%s has .npy version %d.%d; versions 1.0 to 3.0 are read", file,
                       major, bytes[7]);
    int64_t header_size = bytes[8] | (int64_t)bytes[9] << 8;
    if (major > 1) header_size |= (int64_t)bytes[10] << 16 | (int64_t)bytes[11] << 24;
    if (header_size > size - start)
        return km_fail(err, KM_ERROR_DATA, "%s is cut short: its .npy header is not whole", file);
    cursor c = {(const char *)bytes + start, (const char *)bytes + start + header_size, file, err};
    KM_TRY(parse_header(h, &c));
    h->bytes = start + header_size;
    return KM_OK;
}

km_status km_npy_open(km_table *table, km_input *input, const km_data_params *params, km_error *err) {
    const char *file = input->name;
    const unsigned char *bytes;
    int64_t size;
    if (!km_npy_sniff(input))
        return km_fail(err, KM_ERROR_DATA, "%s is no .npy file: its first bytes differ", file);
    KM_TRY(km_input_whole(&bytes, &size, table, input, err));
    header h;
    KM_TRY(km_npy_header_read(&h, bytes, size, file, err));
    KM_TRY(km_npy_set_element(table, &h, file, err));
    KM_TRY(set_shape(table, &h, size - h.bytes, file, err));
    table->base = bytes + h.bytes;
    table->first_line = input->line ? input->line : 1;
    return km_table_pick(table, params->columns, file, err);
}

// SPDX-License-Identifier: MIT
// Labels and distances of the rows of a file, of any length: a text goes through in
// pieces, each a table of its own that begins with the text's header.
#include "../base/error.h"
#include "../base/size.h"
#include "../base/text.h"
#include "data_refuse.h"
#include "data_source.h"
#include "predictor.h"
#include "read/npy.h"
#include "write/assigned.h"
#include "write/npy_head.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_RECORDS = 1 << 17, PIECE_BYTES = 8 << 20 };

typedef struct job {
    km_predict_outputs *outputs;
    const km_predictor *predictor;
    km_data_params data;
    km_predicting *predicting;
    km_space space;
    km_assigned assigned;
    km_original original; // of a text: the piece's records
    int32_t *labels;
    int64_t labels_room;
    int is_begun;
    char *columns; // numbers of those that count, by the first piece; NULL: not needed
    int fd;        // the piece as a file in memory
    km_error *err;
} job;

void km_predict_outputs_init(km_predict_outputs *outputs) {
    *outputs = (km_predict_outputs){0};
}

// What is written ---------------------------------------------------------------------------------------------

static int needs_distances(const km_predict_outputs *o) {
    return o->labels || o->distances || o->transform || o->output || o->score;
}

static km_status prepare(job *j, const km_fit_params *params) {
    const km_predictor *p = j->predictor;
    const km_predict_outputs *o = j->outputs;
    j->space = (km_space){p->d, p->k, p->centre, p->factor, p->centroids_fitted, ldexp(1, -p->exponent)};
    j->assigned = (km_assigned){.space = &j->space,
                                .sets_count = 1,
                                .id = o->id,
                                .threads = params->threads,
                                .wants_inertia = o->score,
                                .err = j->err};
    const char *const paths[] = {[KM_ASSIGNED_LABELS] = o->labels,
                                 [KM_ASSIGNED_DISTANCES] = o->distances,
                                 [KM_ASSIGNED_TRANSFORM] = o->transform,
                                 [KM_ASSIGNED_TABLE] = o->output,
                                 [KM_ASSIGNED_LINES] = o->lines};
    for (int kind = 0; kind < KM_ASSIGNED_COUNT; kind++) j->assigned.files[kind].path = paths[kind];
    if (p->has_exponent || !needs_distances(o)) return KM_OK;
    return km_fail(
        j->err, KM_ERROR_DATA,
        "the model was written before models kept the unit of their distances; fit again, or write labels "
        "alone");
}

static km_status begin(job *j, const km_data *data, int64_t rows) {
    km_assigned *a = &j->assigned;
    if (j->is_begun) return KM_OK;
    j->is_begun = 1;
    a->features = km_data_features(data);
    a->names = km_data_feature_names(data);
    a->is_single = km_data_is_single(data);
    a->decimal = km_data_decimal(data);
    if (km_assigned_needs_original(a, km_data_separator(data) != 0)) {
        if (!j->original.separator) KM_TRY(km_original_open(&j->original, data, j->err));
        a->original = &j->original;
    } else if (j->outputs->output && !km_data_is_dense(data)) {
        return km_fail(j->err, KM_ERROR_USAGE, "%s is sparse, which is not written as a table; write labels",
                       km_data_name(data));
    }
    return km_assigned_begin(a, rows);
}

static km_status labels_reserve(job *j, int64_t rows) {
    if (rows <= j->labels_room) return KM_OK;
    free(j->labels);
    j->labels_room = 0;
    j->labels = malloc((size_t)rows * sizeof *j->labels);
    if (!j->labels) return km_fail_memory(j->err, "labels", rows * (int64_t)sizeof *j->labels);
    j->labels_room = rows;
    return KM_OK;
}

// `rows`: of all that will come, or -1.
static km_status add(job *j, const km_data *data, int64_t rows) {
    km_data *selected = NULL;
    KM_TRY(labels_reserve(j, km_data_rows(data)));
    km_status status = km_predicting_labels(j->labels, &selected, j->predicting, data);
    const int32_t *labels = j->labels;
    if (status == KM_OK) status = begin(j, data, rows);
    if (status == KM_OK) status = km_assigned_rows(&j->assigned, selected ? selected : data, &labels);
    if (km_data_check(data, j->err) != KM_OK) status = KM_ERROR_IO;
    j->outputs->rows += km_data_rows(data);
    km_data_destroy(&selected);
    return status;
}

// Pieces of text ----------------------------------------------------------------------------------------------

static int64_t newlines_in(const km_record *record) {
    int64_t count = 0;
    for (int64_t i = 0; i < record->size; i++) count += record->bytes[i] == '\n';
    return count;
}

static km_status put(job *j, const char *bytes, int64_t size) {
    while (size > 0) {
        ssize_t done = write(j->fd, bytes, (size_t)size);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return km_fail(j->err, KM_ERROR_MEMORY, "a piece of text: %s", strerror(errno));
        bytes += done;
        size -= done;
    }
    return KM_OK;
}

static km_status piece_begin(job *j) {
    if (j->fd < 0) j->fd = memfd_create("kmgen-piece", MFD_CLOEXEC);
    if (j->fd < 0 || ftruncate(j->fd, 0) != 0 || lseek(j->fd, 0, SEEK_SET) != 0)
        return km_fail(j->err, KM_ERROR_MEMORY, "a piece of the table: %s", strerror(errno));
    return KM_OK;
}

// What was put, as a table of its own. `line`: where it begins in the whole.
static km_status piece_open(km_data **out, job *j, const char *name, int64_t line) {
    char path[48];
    km_input input;
    snprintf(path, sizeof path, "/proc/self/fd/%d", j->fd);
    KM_TRY(km_input_open(&input, path, j->err));
    input.name = name;
    input.line = line;
    km_status status = km_data_open_input(out, &input, &j->data, j->err);
    km_input_close(&input);
    return status;
}

// The header, if there is one, and the records, as a table.
static km_status open_piece(km_data **out, job *j, const char *name, const km_record *records,
                            int64_t count) {
    const km_record *header = &j->original.header, *last = &records[count - 1];
    KM_TRY(piece_begin(j));
    if (header->bytes) {
        KM_TRY(put(j, header->bytes, header->size));
        KM_TRY(put(j, "\n", 1));
    }
    KM_TRY(put(j, records->bytes, last->bytes + last->size - records->bytes));
    KM_TRY(put(j, "\n", 1));
    return piece_open(out, j, name, records->line - (header->bytes ? 1 + newlines_in(header) : 0));
}

// Without names the first piece says which columns count, too.
static km_status note_columns(job *j, const km_data *data) {
    km_text text = {0};
    if (j->data.names || j->data.columns || !j->data.numbers_only) return KM_OK;
    for (int64_t f = 0; f < km_data_features(data); f++)
        km_text_printf(&text, "%s%lld", f ? "," : "", (long long)km_data_number(data, f));
    KM_TRY(km_text_take(&j->columns, &text, j->err));
    j->data.columns = j->columns;
    return KM_OK;
}

// The first piece says whether the text begins with a header; all others are told.
static km_status note_header(job *j, const km_data *data, const km_record *first) {
    if (km_data_decimal(data) == ',') j->data.decimal = ',';
    if (j->data.header == KM_HEADER_SKIP || first->line < km_data_line(data, 0)) {
        if (j->data.header != KM_HEADER_SKIP) j->data.header = KM_HEADER_YES;
        return km_original_set_header(&j->original, first, j->err);
    }
    j->data.header = KM_HEADER_NO;
    return KM_OK;
}

static km_status predict_text(job *j, km_input *input, char separator) {
    km_records *records = NULL;
    km_status status;
    KM_TRY_GOTO(km_records_create(&records, input, separator, j->err));
    j->original.separator = km_records_separator(records);
    j->original.has_mark = km_records_has_mark(records);
    j->original.is_given = 1;
    for (int is_first = 1;; is_first = 0) {
        const km_record *batch;
        int64_t count;
        km_data *data = NULL;
        KM_TRY_GOTO(km_records_next(&batch, &count, records, PIECE_RECORDS, PIECE_BYTES, j->err));
        if (count == 0) {
            status = j->is_begun ? KM_OK : km_fail(j->err, KM_ERROR_DATA, "%s has no rows", input->name);
            break;
        }
        KM_TRY_GOTO(open_piece(&data, j, input->name, batch, count));
        j->original.batch = batch;
        j->original.count = count;
        j->original.at = 0;
        status = is_first ? note_header(j, data, batch) : KM_OK;
        if (status == KM_OK && is_first) status = note_columns(j, data);
        if (status == KM_OK) status = add(j, data, -1);
        km_data_destroy(&data);
        if (status != KM_OK) break;
    }
done:
    km_records_destroy(&records);
    return status;
}

// Pieces of .npy -----------------------------------------------------------------------------------------------

// Whether rows come one after the other, of what cannot be mapped.
static int is_stream_of_rows(km_npy_header *header, const km_input *input) {
    km_error none;
    if (input->is_regular || !km_npy_sniff(input)) return 0;
    return km_npy_header_read(header, input->head, input->head_size, input->name, &none) == KM_OK &&
           !header->is_fortran && header->dimensions >= 1 && header->dimensions <= 2 &&
           header->shape[0] > 0 && (header->dimensions == 1 || header->shape[1] > 0);
}

static km_status read_all(void *out, int64_t size, km_input *input, km_error *err) {
    int64_t got, done = 0;
    do {
        KM_TRY(km_input_fill(&got, (unsigned char *)out + done, size - done, input, err));
        done += got;
    } while (got > 0 && done < size);
    if (done == size) return KM_OK;
    return km_fail(err, KM_ERROR_DATA, "%s is cut short: its .npy header says more values than came",
                   input->name);
}

static km_status predict_rows(job *j, km_input *input, const km_npy_header *header) {
    int64_t n = header->shape[0], columns = header->dimensions == 2 ? header->shape[1] : 1, row_bytes;
    unsigned char head[KM_NPY_HEAD_SIZE], *buffer = NULL;
    km_table table = {0};
    km_status status;
    KM_TRY(km_npy_set_element(&table, header, input->name, j->err));
    if (km_mul_overflows(&row_bytes, columns, km_element_size(table.element)))
        return km_fail(j->err, KM_ERROR_DATA, "%s: a row is larger than any memory", input->name);
    int64_t piece = km_min(n, km_max(1, PIECE_BYTES / row_bytes));
    buffer = malloc((size_t)km_max(piece * row_bytes, header->bytes));
    if (!buffer) return km_fail_memory(j->err, "a piece of the table", piece * row_bytes);
    KM_TRY_GOTO(read_all(buffer, header->bytes, input, j->err));
    for (int64_t first = 0; first < n; first += piece) {
        int64_t count = km_min(piece, n - first);
        km_data *data = NULL;
        KM_TRY_GOTO(read_all(buffer, count * row_bytes, input, j->err));
        km_npy_head(head, header->dtype, count, header->dimensions == 2 ? columns : 0);
        KM_TRY_GOTO(piece_begin(j));
        KM_TRY_GOTO(put(j, (const char *)head, sizeof head));
        KM_TRY_GOTO(put(j, (const char *)buffer, count * row_bytes));
        KM_TRY_GOTO(piece_open(&data, j, input->name, first + 1));
        status = add(j, data, n);
        km_data_destroy(&data);
        if (status != KM_OK) break;
    }
done:
    free(buffer);
    return status;
}

static km_status predict_input(job *j, const char *path) {
    km_input input;
    km_data *data = NULL;
    km_npy_header header;
    KM_TRY(km_input_open(&input, path, j->err));
    km_status status;
    j->data.format = km_input_format(&input, &j->data, j->err);
    if (!j->data.format) {
        status = KM_ERROR_DATA;
    } else if (strcmp(j->data.format, "csv") == 0 || strcmp(j->data.format, "tsv") == 0) {
        status = predict_text(j, &input, j->data.format[0] == 't' ? '\t' : 0);
    } else if (strcmp(j->data.format, "npy") == 0 && is_stream_of_rows(&header, &input)) {
        status = predict_rows(j, &input, &header);
    } else {
        status = km_data_open_input(&data, &input, &j->data, j->err);
        if (status == KM_OK) status = add(j, data, km_data_rows(data));
        km_data_destroy(&data);
    }
    km_input_close(&input);
    return status;
}

km_status km_predict_files(km_predict_outputs *outputs, const km_predictor *predictor, const char *path,
                           const km_data_params *data, const km_fit_params *params, km_error *err) {
    km_fit_params defaults;
    km_fit_params_init(&defaults);
    if (!params) params = &defaults;
    job j = {.outputs = outputs, .predictor = predictor, .fd = -1, .err = err};
    km_data_params_init(&j.data);
    if (data) j.data = *data;
    if (!j.data.features) j.data.features = predictor->d; // raw files need it
    j.data.names = km_predictor_feature_names(predictor);
    j.data.names_count = predictor->d;
    j.data.prepared = predictor->prepared;
    j.data.weights = NULL;
    outputs->rows = 0;
    km_status status;
    KM_TRY_GOTO(prepare(&j, params));
    KM_TRY_GOTO(km_predicting_open(&j.predicting, predictor, params, err));
    KM_TRY_GOTO(predict_input(&j, path));
    KM_TRY_GOTO(km_assigned_end(&j.assigned));
    outputs->inertia = j.assigned.inertia;
done:
    if (j.fd >= 0) close(j.fd);
    km_predicting_close(&j.predicting);
    km_assigned_free(&j.assigned);
    km_original_close(&j.original);
    free(j.labels);
    km_text_free(j.columns);
    return status;
}

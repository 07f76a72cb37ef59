// SPDX-License-Identifier: MIT
// Datasets of HDF5 files, FILE:/PATH; without a path the only one of two dimensions. Rows are read by hyperslabs into
// memory: whatever the file's layout, packing and type, the library gives values.
#include "../../base/size.h"
#include "../../gen/spec_fields.h"
#include "../memory.h"
#include "hdf5_calls.h"
#include "library_files.h"
#include "reader.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLAB_BYTES = 4 << 20, NAMES_SIZE = 400 };

km_hdf5_calls km_hdf5;

km_status km_hdf5_open(km_status failed, const char *what, km_error *err) {
    static km_library library = KM_LIBRARY("HDF5", KM_FILE_HDF5, "libhdf5-dev", KM_HDF5_CALLS, &km_hdf5);
    return km_library_open(&library, failed, what, err);
}

// The library need not be built for several threads.
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

typedef struct h5 {
    const char *file; // for messages
    km_error *err;
    hid_t id, dataset, space, memory_type;
    hsize_t shape[2];
    int dimensions;
} h5;

int km_h5_sniff(const km_input *input) {
    static const char magic[] = "\x89HDF\r\n\x1a\n";
    for (int64_t at = 0; at + 8 <= input->head_size; at = at ? 2 * at : 512) // behind a block of the user's
        if (memcmp(input->head + at, magic, 8) == 0) return 1;
    return 0;
}

// What the library says ---------------------------------------------------------------------------------------

static herr_t keep_description(unsigned depth, const H5E_error2_t *error, void *out) {
    if (depth == 0 || !*(char *)out) snprintf(out, KM_QUOTED_SIZE, "%.60s", error->desc ? error->desc : "?");
    return 0;
}

static km_status failed(const h5 *h, const char *what) {
    char why[KM_QUOTED_SIZE] = "";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_description, why);
    km_text_plain(why);
    return km_fail(h->err, KM_ERROR_DATA, "%s is damaged or cut short: HDF5 cannot %s (%s)", h->file, what,
                   *why ? why : "unknown reason");
}

// Which dataset -----------------------------------------------------------------------------------------------

typedef struct found {
    int64_t count;
    int64_t indices; // of a table of records
    char *only;      // the last one of two dimensions
    char names[NAMES_SIZE];
} found;

static herr_t note_dataset(hid_t id, const char *name, const H5O_info_t *info, void *user) {
    found *f = user;
    if (info->type != H5O_TYPE_DATASET) return 0;
    hid_t dataset = H5Dopen2(id, name, H5P_DEFAULT), space = dataset < 0 ? -1 : H5Dget_space(dataset);
    int dimensions = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
    if (space >= 0) H5Sclose(space);
    if (dataset >= 0) H5Dclose(dataset);
    if (dimensions != 2) return 0;
    size_t used = strlen(f->names);
    snprintf(f->names + used, sizeof f->names - used, "%s/%.60s", used ? ", " : "", name);
    f->count++;
    f->indices += strstr(name, "/_i_table/") != NULL;
    free(f->only);
    f->only = strdup(name);
    return f->only ? 0 : -1;
}

// Of tables, which pandas and PyTables write as records: beside them lie only their indices.
static km_status refuse_records(const h5 *h) {
    return km_fail(
        h->err, KM_ERROR_DATA,
        "%s holds records, as pandas writes a table, which are not read; convert it: python3 -c \"import "
        "pandas; pandas.read_hdf('FILE').to_csv('table.csv', index=False)\"",
        h->file);
}

static km_status open_dataset(h5 *h, const char *part) {
    found f = {0};
    char quoted[KM_QUOTED_SIZE];
    // Only what is used: where libhdf5 adds up sizes, too, damaged files make it read beyond its buffers.
    herr_t visited = H5Ovisit2(h->id, H5_INDEX_NAME, H5_ITER_INC, note_dataset, &f, H5O_INFO_BASIC);
    const char *name = part ? part : f.only;
    km_status status;
    km_text_plain(f.names);
    if (visited < 0) {
        status = failed(h, "list its datasets");
    } else if (!part && f.count > 0 && f.count == f.indices) {
        status = refuse_records(h);
    } else if (!part && f.count != 1) {
        status = km_fail(h->err, KM_ERROR_DATA,
                         f.count ? "%s holds several datasets; name one of them, %s:/PATH: %s"
                                 : "%s holds no dataset of two dimensions",
                         h->file, h->file, f.names);
    } else {
        h->dataset = H5Dopen2(h->id, name, H5P_DEFAULT);
        status = h->dataset >= 0 ? KM_OK
                                 : km_fail(h->err, KM_ERROR_DATA,
                                           "%s: there is no dataset %s in it; of two dimensions it holds %s",
                                           h->file, km_quoted(quoted, name), f.count ? f.names : "none");
    }
    free(f.only);
    return status;
}

// Its shape and type ------------------------------------------------------------------------------------------

static km_status take_shape(h5 *h, km_table *table) {
    h->space = H5Dget_space(h->dataset);
    h->dimensions = h->space < 0 ? -1 : H5Sget_simple_extent_ndims(h->space);
    if (h->dimensions < 0) return failed(h, "say the dataset's shape");
    if (h->dimensions < 1 || h->dimensions > 2)
        return km_fail(h->err, KM_ERROR_DATA,
                       "%s: the dataset has %d dimensions; points are rows x columns, so 2 (or 1) are read",
                       h->file, h->dimensions);
    h->shape[1] = 1;
    H5Sget_simple_extent_dims(h->space, h->shape, NULL);
    if (h->shape[0] == 0 || h->shape[1] == 0)
        return km_fail(h->err, KM_ERROR_DATA,
                       "%s: the dataset has no values: its shape is %" PRIu64 " x %" PRIu64, h->file,
                       (uint64_t)h->shape[0], (uint64_t)h->shape[1]);
    if (h->shape[1] > KM_FEATURES_DENSE_MAX)
        return km_fail(h->err, KM_ERROR_DATA,
                       "%s: the dataset has %" PRIu64
                       " columns, and at most %d are taken; are rows and columns "
                       "exchanged?",
                       h->file, (uint64_t)h->shape[1], KM_FEATURES_DENSE_MAX);
    if (h->shape[0] > INT64_MAX / 8 / h->shape[1])
        return km_fail(h->err, KM_ERROR_DATA, "%s: the dataset is larger than any memory", h->file);
    table->rows = (int64_t)h->shape[0];
    table->columns = table->row_stride = (int64_t)h->shape[1];
    table->column_stride = 1;
    table->first_line = 1;
    return KM_OK;
}

static km_status take_type(h5 *h, km_table *table) {
    static const km_element signed_ones[] = {KM_ELEMENT_I1, KM_ELEMENT_I2, KM_ELEMENT_I4, KM_ELEMENT_I8};
    static const km_element unsigned_ones[] = {KM_ELEMENT_U1, KM_ELEMENT_U2, KM_ELEMENT_U4, KM_ELEMENT_U8};
    const hid_t signed_types[] = {H5T_NATIVE_INT8, H5T_NATIVE_INT16, H5T_NATIVE_INT32, H5T_NATIVE_INT64};
    const hid_t unsigned_types[] = {H5T_NATIVE_UINT8, H5T_NATIVE_UINT16, H5T_NATIVE_UINT32,
                                    H5T_NATIVE_UINT64};
    hid_t type = H5Dget_type(h->dataset);
    if (type < 0) return failed(h, "say the dataset's type");
    H5T_class_t class = H5Tget_class(type);
    size_t size = H5Tget_size(type);
    int log = size <= 1 ? 0 : size <= 2 ? 1 : size <= 4 ? 2 : 3;
    km_status status = KM_OK;
    if (class == H5T_FLOAT && size <= 8) {
        table->element = size <= 4 ? KM_ELEMENT_F4 : KM_ELEMENT_F8;
        h->memory_type = size <= 4 ? H5T_NATIVE_FLOAT : H5T_NATIVE_DOUBLE;
    } else if (class == H5T_INTEGER && size <= 8) {
        int is_signed = H5Tget_sign(type) != H5T_SGN_NONE;
        table->element = is_signed ? signed_ones[log] : unsigned_ones[log];
        h->memory_type = is_signed ? signed_types[log] : unsigned_types[log];
    } else if (class == H5T_ENUM && size == 1) { // as h5py writes bool
        table->element = KM_ELEMENT_U1;
        h->memory_type = type;
        return KM_OK;
    } else if (class == H5T_COMPOUND) {
        status = refuse_records(h);
    } else {
        status =
            km_fail(h->err, KM_ERROR_DATA,
                    "%s: the dataset holds no numbers; integers and floating point of up to 64 bits are read",
                    h->file);
    }
    H5Tclose(type);
    return status;
}

// Its values --------------------------------------------------------------------------------------------------

static km_status report(const h5 *h, const km_data_params *params, int64_t done, int64_t rows,
                        int64_t bytes) {
    if (!params->progress) return KM_OK;
    km_progress progress = {"read", done * bytes, rows * bytes, done, 0};
    if (params->progress(params->progress_user, &progress))
        return km_fail(h->err, KM_ERROR_INTERRUPTED, "stopped while %s was read", h->file);
    return KM_OK;
}

static km_status read_rows(h5 *h, km_table *table, const km_data_params *params) {
    int64_t row_bytes = table->columns * km_element_size(table->element), bytes = table->rows * row_bytes;
    int64_t rows_max = km_max(SLAB_BYTES / row_bytes, 1);
    KM_TRY(km_host_check("a dataset of HDF5", bytes, h->err));
    table->memory = malloc((size_t)bytes);
    if (!table->memory) return km_fail_memory(h->err, "a dataset of HDF5", bytes);
    table->base = table->memory;
    for (int64_t first = 0; first < table->rows; first += rows_max) {
        hsize_t start[2] = {(hsize_t)first, 0},
                count[2] = {(hsize_t)km_min(rows_max, table->rows - first), h->shape[1]};
        hid_t slab = H5Screate_simple(h->dimensions, count, NULL);
        herr_t done = slab < 0 ? -1 : H5Sselect_hyperslab(h->space, H5S_SELECT_SET, start, NULL, count, NULL);
        if (done >= 0)
            done = H5Dread(h->dataset, h->memory_type, slab, h->space, H5P_DEFAULT,
                           (char *)table->memory + first * row_bytes);
        if (slab >= 0) H5Sclose(slab);
        if (done < 0) return failed(h, "read the dataset");
        KM_TRY(report(h, params, first + (int64_t)count[0], table->rows, row_bytes));
    }
    return KM_OK;
}

// Zero bytes of a dataset that the file says it has, and never wrote, would be points of zeros.
static km_status check_written(const h5 *h) {
    H5D_space_status_t written;
    if (H5Dget_space_status(h->dataset, &written) >= 0 && written != H5D_SPACE_STATUS_NOT_ALLOCATED)
        return KM_OK;
    return km_fail(h->err, KM_ERROR_DATA, "%s: the dataset was created and never written", h->file);
}

static km_status read_file(h5 *h, km_table *table, const km_input *input, const km_data_params *params) {
    h->id = H5Fopen(input->file ? input->file : input->name, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (h->id < 0) return failed(h, "open it");
    KM_TRY(open_dataset(h, input->part));
    KM_TRY(take_shape(h, table));
    KM_TRY(take_type(h, table));
    KM_TRY(check_written(h));
    return read_rows(h, table, params);
}

km_status km_h5_open(km_table *table, km_input *input, const km_data_params *params, km_error *err) {
    h5 h = {.file = input->name, .err = err, .id = -1, .dataset = -1, .space = -1, .memory_type = -1};
    H5E_auto2_t print;
    void *print_data;
    if (!km_h5_sniff(input))
        return km_fail(err, KM_ERROR_DATA, "%s is no HDF5 file: its first bytes differ", input->name);
    if (input->unpacker || !input->is_regular || input->fd == STDIN_FILENO)
        return km_fail(
            err, KM_ERROR_DATA,
            "%s: HDF5 is read from a file of its own, since its parts lie anywhere in it; write it to one, "
            "unpacked",
            input->name);
    KM_TRY(km_hdf5_open(KM_ERROR_DATA, input->name, err));
    pthread_mutex_lock(&turn);
    H5Eget_auto2(H5E_DEFAULT, &print, &print_data); // a library does not print
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    km_status status = read_file(&h, table, input, params);
    if (h.space >= 0) H5Sclose(h.space);
    if (h.dataset >= 0) H5Dclose(h.dataset);
    if (h.id >= 0) H5Fclose(h.id);
    H5Eset_auto2(H5E_DEFAULT, print, print_data);
    pthread_mutex_unlock(&turn);
    KM_TRY(status);
    return km_table_pick(table, params->columns, input->name, err);
}

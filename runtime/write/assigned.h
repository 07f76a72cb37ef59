// SPDX-License-Identifier: MIT
// Files with a row for each row of the data: labels, distances, the table itself. Several are written from one walk
// over the rows, which may come in parts.
#ifndef KM_RUNTIME_WRITE_ASSIGNED_H
#define KM_RUNTIME_WRITE_ASSIGNED_H
#include "distances.h"
#include "sink.h"
#include "original.h"

typedef enum km_assigned_kind {
    KM_ASSIGNED_LABELS,    // .npy: labels; text: row or id, label, distance, margin
    KM_ASSIGNED_DISTANCES, // to the label's centroid
    KM_ASSIGNED_TRANSFORM, // to every centroid
    KM_ASSIGNED_TABLE,     // text: the data's own columns, then cluster, distance
    KM_ASSIGNED_LINES,     // a label a line, -1: dropped
    KM_ASSIGNED_COUNT
} km_assigned_kind;

// One file that is wanted. Its columns point into the walk's buffers.
typedef struct km_assigned_file {
    const char *path; // NULL: not wanted
    km_sink sink;
    km_sink_column *columns;
    char *names; // of numbered columns, one after the other
} km_assigned_file;

// One walk. Fill in what stands first; the rest begins as zeros.
typedef struct km_assigned {
    km_assigned_file files[KM_ASSIGNED_COUNT];
    const km_space *space;
    const int32_t
        *clusters;      // sets_count numbers K, where labels of several models stand side by side; else NULL
    int64_t sets_count; // 1 or more
    int64_t best;       // the set that space, and the columns cluster and label, are of
    const char *id;     // a column of the text, or NULL
    int64_t threads;
    char decimal;             // of the text that the data came of: files of text have it as well; 0: a point
    const char *const *names; // of the features, where the table is no text; NULL: x1, x2, ...
    int64_t features;
    int is_single; // features are floats
    int wants_inertia;
    km_original *original; // NULL: what is written needs no text
    km_error *err;
    double inertia; // out: sum of squared distances so far, where it is wanted
    int64_t id_cell;
    char *id_name;
    // Buffers of a chunk of rows.
    double *own, *margin, *all, *points;
    km_record *records;
    km_span *raw, *ids;
    char *arena;
    int64_t arena_size, arena_room;
} km_assigned;

// Which columns are needed of the data's text.
int km_assigned_needs_original(const km_assigned *a, int is_text);
// `rows`: all that will come, -1: not known. Opens the files that have a path.
km_status km_assigned_begin(km_assigned *a, int64_t rows);
// The next rows, all of `data`; labels of each set, km_data_rows of them.
km_status km_assigned_rows(km_assigned *a, const km_data *data, const int32_t *const *labels);
km_status km_assigned_end(km_assigned *a); // puts the files into place
void km_assigned_free(km_assigned *a);     // what has no place is left out

#endif

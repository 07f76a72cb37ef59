// SPDX-License-Identifier: MIT
// Runs of a sweep that are done, in a file: a fit that was ended goes on from there. Only whole runs are kept; totals
// of a run are moved from pass to pass, so one that begins again in its midst could differ in its last bits.
#ifndef KM_RUNTIME_CHECKPOINT_H
#define KM_RUNTIME_CHECKPOINT_H
#include "../base/error.h"
#include "share.h"

// Numbers that are kept of a run: k x d centroids, k weights, and k x d means of the clusters, where they are known.
static inline int64_t km_model_numbers(int64_t k, int64_t d) {
    return k * (2 * d + 1);
}

// A run that is done, before its numbers.
typedef struct km_kept_run {
    int64_t k_index, restart;
    double inertia;
    int64_t iterations;
    int32_t converged, is_fixed, has_means;
    double *centroids; // km_model_numbers
} km_kept_run;

typedef struct km_checkpoint {
    const char *path;  // written to; NULL: nothing is
    double every_ms;   // at most so often
    double written_ms; // km_now_ms
    uint64_t key;      // of all that decides what a run finds
    int64_t d;
    const int32_t *clusters; // clusters_count
    int64_t clusters_count, restarts;
    km_share *share; // rank 0 reads and writes; NULL
    double *numbers; // of runs that were kept, one after another
    int64_t count, capacity;
    int64_t runs; // that were kept
    int is_new;   // some are not in the file yet
    const km_log *log;
} km_checkpoint;

// Whether the file is a whole checkpoint, of whatever fit: as km_checkpoint_read.
km_status km_checkpoint_check(const char *path, km_error *err);
// Takes the runs of a file, on all ranks. KM_ERROR_IO: it cannot be read; KM_ERROR_DATA: it is no whole checkpoint, or
// that of another fit.
km_status km_checkpoint_read(km_checkpoint *checkpoint, const char *path, km_error *err);
// The run at *at, from 0, which moves on; 0 behind the last.
int km_checkpoint_next(const km_checkpoint *checkpoint, int64_t *at, km_kept_run *run);
// Adds a run, and writes the file where it is time. KM_ERROR_MEMORY. A file that cannot be written is a warning in the
// log.
km_status km_checkpoint_add(km_checkpoint *checkpoint, const km_kept_run *run, km_error *err);
// Writes what is new.
void km_checkpoint_write(km_checkpoint *checkpoint);
void km_checkpoint_free(km_checkpoint *checkpoint);

#endif

// SPDX-License-Identifier: MIT
// Measures candidates of a tuning on one device: builds a plan, holds its sums against the double reference, and times
// passes. One thread at a time.
#ifndef KM_RUNTIME_TUNE_MEASURE_H
#define KM_RUNTIME_TUNE_MEASURE_H
#include "../../base/error.h"
#include <kmgen/module.h>
#include <kmgen/tune.h>

typedef struct km_measure km_measure;

typedef struct km_measure_params {
    const km_spec *spec;     // complete
    int device;              // KM_HOST or a CUDA ordinal
    int64_t points, threads; // n of what is timed; CPU threads, 0: all
    km_module_params module; // cache and compiler
    int compiles_only;       // km_measure_compile alone is called
    void (*timing)(
        void *); // called when all is loaded and checked, before samples are taken; NULL: nobody asks
    void *timing_user;
} km_measure_params;

// Opens the device; points are made when they are first needed.
km_status km_measure_open(km_measure **out, const km_measure_params *params, km_error *err);
void km_measure_close(km_measure **measure);

// Compiles the candidate into the cache. Fills registers, blocks_per_sm and occupancy, and where it is not to be run
// its outcome and reason; the outcome is UNMEASURED where it may be. Errors are those that are not the candidate's.
km_status km_measure_compile(km_measure *measure, km_tune_candidate *candidate, km_error *err);

// Times the candidate and, where `beside` is not NULL, that one too, turn by turn: `count` samples of each, in ms of a
// pass of one restart, into ms and beside_ms. A candidate that is new here is compiled, and checked first: outcome and
// reason as above, or MEASURED. Both stay loaded until others need their place.
km_status km_measure_sample(km_measure *measure, km_tune_candidate *candidate, double *ms,
                            const km_tune_candidate *beside, double *beside_ms, int count, km_error *err);

// Milliseconds to read all points of the timed set once; the least of several.
km_status km_measure_read(km_measure *measure, double *ms, km_error *err);

#endif

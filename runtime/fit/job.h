// SPDX-License-Identifier: MIT
// One fit while it runs: what its steps share, and the steps in the order in which km_fit takes them. One thread at a
// time; every step returns what km_fit returns, with the sentence in job.err.
#ifndef KMGEN_RUNTIME_FIT_JOB_H
#define KMGEN_RUNTIME_FIT_JOB_H

#include "../asking.h"
#include "../build.h"
#include "../checkpoint.h"
#include "../refine/refine.h"
#include "../result_owner.h"
#include "../share.h"
#include "../sweep.h"

// Everything it owns is freed when the fit ends; the result is handed over.
typedef struct km_fit_job {
    const km_fit_params *params;
    const km_fit_params *asked; // the caller's, where `params` are a copy with a callback of our own
    const km_data *data;
    km_data *shared;       // the same as a share, which `data` is then; NULL
    km_share share;        // used where there is `shared`
    int64_t ranks_planned; // that are to share the points, where only a plan is wanted
    km_data *unit;         // the same with rows of length 1, which `data` is then; NULL
    km_scale scale;        // the caller's, or that of the metric
    km_spec spec;          // completed from the data
    int64_t restarts;
    km_result_owner *owner; // NULL: only a plan is wanted
    km_device *device;
    char *table, table_path[4200]; // the device's own tuning table; NULL: none
    struct km_fit_ahead *ahead;    // NULL: nothing is compiled ahead
    km_build build;
    km_engine *engine;
    km_data_stats stats;
    km_load_params load;
    double nonzeros; // km_data_nonzeros
    km_seeds seeds;
    km_sweep_best *best; // clusters_count
    km_checkpoint checkpoint;
    double *restart_centroids;          // as in km_sweep_params
    double *measured, *measured_errors; // clusters_count x KM_CRITERION_COUNT, NaN: not measured
    struct km_cluster_means *means;     // of finished models (criteria/means.h)
    int64_t sweep_work;
    int is_ending;    // the caller wants no more than a result of what is there
    km_progress told; // what the caller's callback was told last
    km_asking asking; // the same callback, inside long loops
    double begin_ms;
    km_error *err;
    km_completion completion; // of a module that has begun
} km_fit_job;

// For tests: how many passes a fit that begins with a starting pass does by it; KM_START_ALWAYS: all that it can. -1:
// until the plan's own kernels are there.
enum { KM_START_ALWAYS = INT32_MAX };
extern int64_t km_fit_start_passes;

// fit.c: tells the caller of a phase; KM_ERROR_INTERRUPTED where the caller wants to stop.
km_status km_fit_report_phase(const km_fit_job *f, const char *phase, int64_t done, int64_t total);

// prepare.c: spec, device, plan, module.
// `own`: as in km_fit_begin_share.
km_status km_fit_complete_spec(km_fit_job *f, const km_spec *spec, km_status own);
km_status km_fit_open_device(km_fit_job *f);
// A plan with which the whole fit has its place in the free memory; else the fit ends before it reads or sends
// points. `recalls`: plans that spill, as the cache knows, are left out.
km_status km_fit_plan_within(km_plan *plan, km_fit_job *f, int recalls);
km_status km_fit_plan_fit(km_fit_job *f);
km_status km_fit_build_module(km_fit_job *f);
// What the caller lets the fit take counts as free, where that is less.
void km_fit_limit_memory(const km_fit_params *p, km_device_facts *facts);
// Where the device's memory is not what it was when the fit was planned: a plan of which points come from the host. 0:
// there is none, and `first` stays the error.
int km_fit_stream_instead(km_fit_job *f, const km_error *first);

// The device's tuning table; the parameters of a build on f->device.
void km_fit_read_table(km_fit_job *f);
void km_fit_build_params(km_build_params *build, const km_fit_job *f);

// ahead.c: compiles what a fit on a GPU will most likely build into the cache, on a thread of its own, while the device
// is opened and points are sent. It never fails a fit: what it could not compile the build compiles. A compile that is
// under way when the fit ends is finished behind it, and stays in the cache, unless the caller stopped the fit; a
// process that ends waits for it. With leaves_compile the text of the plan is kept instead (../unfinished.h).
void km_fit_begin_ahead(km_fit_job *f, int ordinal);
void km_fit_note_device(km_fit_job *f); // which is open now: the next fit's compiler need not wait for it
km_status km_fit_end_ahead(km_fit_job *f, km_error *err); // waits for it; KM_ERROR_INTERRUPTED
int km_fit_is_ahead(km_fit_job *f);                       // whether it still compiles
km_built *km_fit_built_ahead(const km_fit_job *f);
void km_fit_stop_ahead(km_fit_job *f); // nobody wants what it compiles
void km_fit_free_ahead(km_fit_job *f);

// ranks.c: what a fit has to say to other ranks, where there are some (km_fit_params.communicator).
// `own`: what was found of this rank's parameters.
km_status km_fit_begin_share(km_fit_job *f, km_status own);
// The same device, memory and threads to plan for, on all ranks.
km_status km_fit_share_facts(km_fit_job *f);
// Each rank's own status; then, whether all have the same plan and parameters.
km_status km_fit_agree(km_fit_job *f, km_status own);
km_status km_fit_compare_plans(km_fit_job *f);
// Of the plan and the parameters, but for its numbers, what decides which centroids runs find.
uint64_t km_fit_hash_runs(const km_fit_job *f);
// Labels of all ranks in the digest; which rows of all the result has.
km_status km_fit_describe_share(km_fit_job *f);

// points.c: points on the device, and the seeds of all restarts.
km_status km_fit_fetch_points(km_fit_job *f);
km_status km_fit_load_points(km_fit_job *f);
km_status km_fit_make_seeds(km_fit_job *f);

// run.c: what iterates. A checkpoint that is not whole is refused before anything is read, one of another fit when the
// points are known.
km_status km_fit_check_checkpoint(km_fit_job *f);
km_status km_fit_take_checkpoint(km_fit_job *f);
km_status km_fit_run_sweep(km_fit_job *f);
km_status km_fit_run_refine(km_fit_job *f);
// No K is worse than the K before it: after the finishing pass, model q from that of q - 1 where it is.
km_status km_fit_keep_falling(km_fit_job *f, km_finish_model *finished, int64_t q);

// agree.c: best[q].restarts_agreed of the sweep's restarts, whose runs stopped at this shift (km_stop).
km_status km_fit_restarts_agree(km_fit_job *f, double shift_max);

// number.c: puts the clusters of best[q] in order, before the finishing pass, whose labels are of the new numbers.
// Where the caller gave the first centroids their order stays.
km_status km_fit_number_clusters(km_fit_job *f, int64_t q);

// finish.c: the finishing pass; arrays belong to the result. `finished` has one more, of one cluster, for the totals.
km_status km_fit_finishing_pass(km_fit_job *f, km_model **models, km_finish_model **finished);
km_status km_fit_finish_again(km_fit_job *f, km_finish_model *finished, int64_t q); // of a model that changed
km_status km_fit_finish_labels(km_fit_job *f, km_finish_model *finished, km_model *models);
// Values of the clustered space in the units of the scale: divided by the fit's own power of two, `powers` times (2
// for squares). NULL: no memory.
double *km_fit_without_power(km_fit_job *f, const double *values, int64_t count, int powers);

// decide.c: the finishing pass, criteria, the best K and its labels.
km_status km_fit_finish_models(km_fit_job *f);

// warnings.c: of one sentence; of each of these lines, which are as in km_spec.warnings; of features and models.
void km_fit_warn(km_fit_job *f, const char *sentence);
void km_fit_warn_of_lines(km_fit_job *f, const char *lines);
void km_fit_warn_of_features(km_fit_job *f);
void km_fit_warn_of_models(km_fit_job *f, const km_model *models);

#endif

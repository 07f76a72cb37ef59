// SPDX-License-Identifier: MIT
// Criteria that need more than the finishing pass. Each is one row of KM_CRITERIA and one file here, with the function
// km_measure_NAME, which km_criteria_measure finds by the row.
#ifndef KM_RUNTIME_CRITERIA_H
#define KM_RUNTIME_CRITERIA_H
#include "../backend.h"
#include "../result_owner.h"
#include "../sweep.h"

// What a running fit knows when its models are finished.
typedef struct km_measuring {
    const km_fit_params *params;
    const km_data *data;
    const km_spec *spec; // complete
    km_engine *engine;   // with the points
    km_engine **own;     // where the fit keeps it: one with other points may take its place
    const km_data_stats *stats;
    const km_load_params *load; // of the points: the clustered space
    const km_sweep_best *best;
    int64_t restarts;
    const double *restart_centroids;      // as in km_sweep_params; NULL unless km_criteria_keep_restarts
    const km_finish_model *finished;      // clusters_count, then the model of one cluster; clustered space
    const struct km_cluster_means *means; // clusters_count (means.h)
    km_result_owner *owner;               // for warnings
    double begin_ms;                      // km_now_ms when the fit began
    double *scores, *errors;              // out: clusters_count x KM_CRITERION_COUNT, NaN before
} km_measuring;

// Writes its own column of scores, and of errors where it has some. A criterion of KM_NEEDS_FITS may put another engine
// in the place of the fit's (`own`); it leaves one with the data's points, as others, and labels, come after it.
typedef km_status km_measure(const km_measuring *m, km_criterion own, km_error *err);

// Whether the fit is to measure any criterion that needs this.
int km_criteria_wanted(const km_fit_params *params, km_needs needs);

// Bit 1 << c of each criterion c that the fit computes, those of the finishing pass included.
uint64_t km_criteria_computed(const km_fit_params *params);

// Whether a wanted criterion compares the restarts.
int km_criteria_keep_restarts(const km_fit_params *params);

// Measures all that are wanted and need this.
km_status km_criteria_measure(const km_measuring *m, km_needs needs, km_error *err);

// The phase "criteria": `done` of `total`. KM_ERROR_INTERRUPTED.
km_status km_measuring_report(const km_measuring *m, int64_t done, int64_t total, km_error *err);

#endif

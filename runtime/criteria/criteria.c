// SPDX-License-Identifier: MIT
// The table of criteria that are measured, and the loop over it.
#include "criteria.h"
#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/log.h"

#define DECLARE_KM_NEEDS_FINISH(name)
#define DECLARE_KM_NEEDS_PASS(name) km_measure km_measure_##name;
#define DECLARE_KM_NEEDS_FITS(name) km_measure km_measure_##name;
#define DECLARE(name, title, best, needs) DECLARE_##needs(name)
KM_CRITERIA(DECLARE)

#define MEASURE_KM_NEEDS_FINISH(name) NULL
#define MEASURE_KM_NEEDS_PASS(name) km_measure_##name
#define MEASURE_KM_NEEDS_FITS(name) km_measure_##name
#define MEASURE(name, title, best, needs) MEASURE_##needs(name),
static km_measure *const measures[KM_CRITERION_COUNT] = {KM_CRITERIA(MEASURE)};

static int is_named(const km_fit_params *params, km_criterion c) {
    return params->criterion == c || (params->criteria >> c & 1) != 0;
}

static int is_gap(km_criterion c) {
    return c == KM_CRITERION_gap || c == KM_CRITERION_gap_2001;
}

// Both rules of the gap come of the same fits, of the first row.
static int is_wanted(const km_fit_params *params, km_criterion c) {
    if (is_gap(c)) return is_named(params, KM_CRITERION_gap) || is_named(params, KM_CRITERION_gap_2001);
    return is_named(params, c);
}

static int decides(const km_fit_params *params, km_criterion c) {
    return params->criterion == c || (is_gap(c) && is_gap(params->criterion));
}

int km_criteria_keep_restarts(const km_fit_params *params) {
    return is_wanted(params, KM_CRITERION_stability);
}

uint64_t km_criteria_computed(const km_fit_params *params) {
    uint64_t computed = 0;
    for (int c = 0; c < KM_CRITERION_COUNT; c++)
        if (!measures[c] || is_wanted(params, (km_criterion)c)) computed |= (uint64_t)1 << c;
    return computed;
}

int km_criteria_wanted(const km_fit_params *params, km_needs needs) {
    int wanted = 0;
    for (int c = 0; c < KM_CRITERION_COUNT; c++)
        wanted |=
            measures[c] && km_criterion_needs((km_criterion)c) == needs && is_wanted(params, (km_criterion)c);
    return wanted;
}

km_status km_criteria_measure(const km_measuring *m, km_needs needs, km_error *err) {
    for (int c = 0; c < KM_CRITERION_COUNT; c++) {
        km_criterion own = (km_criterion)c;
        if (!measures[c] || km_criterion_needs(own) != needs || !is_wanted(m->params, own)) continue;
        double begin_ms = km_now_ms();
        KM_TRY(km_measuring_report(m, 0, 0, err));
        km_error reason = {{0}};
        km_measuring now = *m;
        now.engine = *m->own; // which the criterion before may have put there
        km_status status = measures[c](&now, own, &reason);
        if (status == KM_ERROR_MEMORY && !decides(m->params, own))
            km_result_warn(m->owner, m->params->log, "%s is left out: %s", km_criterion_title(own),
                           reason.text);
        else if (status != KM_OK)
            return km_fail(err, status, "%s", reason.text);
        km_log_line(m->params->log, KM_LOG_INFO, "criteria: %s in %.1f ms", km_criterion_name(own),
                    km_now_ms() - begin_ms);
    }
    return KM_OK;
}

km_status km_measuring_report(const km_measuring *m, int64_t done, int64_t total, km_error *err) {
    const km_fit_params *p = m->params;
    km_progress progress = {"criteria", done, total, m->owner->result.passes,
                            (km_now_ms() - m->begin_ms) / 1e3};
    if (p->progress && p->progress(p->progress_user, &progress))
        return km_fail(err, KM_ERROR_INTERRUPTED, "interrupted in the phase criteria");
    return KM_OK;
}

// SPDX-License-Identifier: MIT
// A fit of several ranks: what they tell each other around the engine, which joins what it finds of the points itself.
// A step that may fail on one rank alone ends with km_fit_agree, so that all end with one sentence.
#include "../../base/size.h"
#include "../criteria/criteria.h"
#include "../csr.h"
#include "../resident.h"
#include "../threads.h"
#include "../../gen/memory.h"
#include "job.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static km_status check_params(const km_fit_job *f) {
    const km_fit_params *p = f->params;
    const char *wrong = NULL;
    if (f->spec.target.kind == KM_TARGET_CUDA && p->device == KM_HOST)
        wrong = "each on a GPU has its own: say which, or leave the target out";
    else if (p->algorithm != KM_ALGORITHM_AUTO && p->algorithm != KM_ALGORITHM_LLOYD)
        wrong = "their algorithm is lloyd: leave the algorithm out";
    else if (p->source_text)
        wrong = "each plans for itself: leave the source text out";
    else if (km_criteria_wanted(p, KM_NEEDS_FITS))
        wrong = "gap, gap_2001 and prediction_strength need all points in one process: leave them out";
    else if (km_data_csr(f->data) || f->spec.layout == KM_LAYOUT_CSR)
        wrong = "their points are dense, and these are to lie as CSR";
    else if (km_data_resident(f->data))
        wrong = "their points are on the host, and these lie on a device";
    return wrong ? km_fail(f->err, KM_ERROR_USAGE, "several ranks: %s", wrong) : KM_OK;
}

km_status km_fit_begin_share(km_fit_job *f, km_status own) {
    const km_communicator *ranks = f->params->communicator;
    if (!ranks) return own;
    if (ranks->size < 1 || ranks->rank < 0 || ranks->rank >= ranks->size || !ranks->sum)
        return km_fail(f->err, KM_ERROR_USAGE, "a communicator needs a rank below its size, and sum");
    KM_TRY(km_share_begin(&f->share, ranks, km_data_points(f->data), f->err));
    KM_TRY(km_share_agree(&f->share, own == KM_OK ? check_params(f) : own, f->err));
    f->spec.layout = KM_LAYOUT_DENSE;
    KM_TRY(km_data_shared(&f->shared, f->data, &f->share, f->err));
    f->data = f->shared;
    return KM_OK;
}

km_status km_fit_agree(km_fit_job *f, km_status own) {
    return f->shared ? km_share_agree(&f->share, own, f->err) : own;
}

km_status km_fit_share_facts(km_fit_job *f) {
    enum { FREE, THREADS, KIND, ARCH, UNITS, COUNT };
    km_device_facts *facts = &f->device->facts;
    if (!f->shared) return KM_OK;
    const km_communicator *ranks = f->share.ranks;
    int64_t here = km_max(ranks->local_size, 1), other = -1; // ranks that share the memory
    if (facts->target.kind == KM_TARGET_CUDA) here = km_divide_up(here, km_max(km_device_count(), 1));
    double *all = malloc((size_t)(ranks->size * COUNT) * sizeof *all);
    if (!all) return km_fail_memory(f->err, "the facts of ranks", ranks->size * COUNT * 8);
    int64_t left = facts->memory_free_bytes / (f->params->memory_max > 0 ? 1 : here);
    const double own[COUNT] = {(double)left, (double)km_threads(f->params->threads, 0, NULL),
                               (double)facts->target.kind, (double)facts->target.arch, (double)facts->units};
    km_status status = km_share_gather(&f->share, all, ranks->size, own, ranks->rank, 1, COUNT, f->err);
    for (int64_t r = 0; r < ranks->size && status == KM_OK; r++) {
        const double *of = all + r * COUNT;
        facts->memory_free_bytes =
            r ? km_min(facts->memory_free_bytes, (int64_t)of[FREE]) : (int64_t)of[FREE];
        f->share.threads = km_max(f->share.threads, (int64_t)of[THREADS]);
        facts->units = (int32_t)km_max(facts->units, (int64_t)of[UNITS]);
        if ((of[KIND] != all[KIND] || of[ARCH] != all[ARCH]) && other < 0) other = r;
    }
    free(all);
    if (status != KM_OK || other < 0) return status;
    f->share.is_over = 1;
    return km_fail(
        f->err, KM_ERROR_DEVICE,
        "rank %lld runs on a processor with other instructions than rank 0; name a target that both "
        "have in the spec",
        (long long)other);
}

uint64_t km_fit_hash_runs(const km_fit_job *f) {
    const km_plan *plan = &f->owner->result.plan;
    const km_fit_params *p = f->params;
    const int64_t numbers[] = {(int64_t)plan->design,
                               (int64_t)plan->algorithm,
                               plan->facts.target.kind,
                               plan->facts.target.arch,
                               plan->points,
                               plan->weighted,
                               plan->spec.features,
                               (int64_t)plan->spec.type,
                               (int64_t)f->scale,
                               (int64_t)plan->spec.metric,
                               f->restarts,
                               p->max_iter,
                               p->changes_min,
                               (int64_t)p->init,
                               p->init_count,
                               (int64_t)p->seed};
    uint64_t hash = XXH3_64bits(numbers, sizeof numbers);
    hash = XXH3_64bits_withSeed(&p->tol, sizeof p->tol, hash);
    hash = XXH3_64bits_withSeed(plan->spec.clusters,
                                (size_t)plan->spec.clusters_count * sizeof *plan->spec.clusters, hash);
    if (p->init == KM_INIT_GIVEN)
        hash = XXH3_64bits_withSeed(
            p->init_rows, (size_t)(p->init_count * plan->spec.features) * sizeof *p->init_rows, hash);
    return hash;
}

// What must be alike on all ranks, as one number: the first 52 bits of a hash.
static double hash_of(const km_fit_job *f) {
    const km_plan *plan = &f->owner->result.plan;
    const km_fit_params *p = f->params;
    const int64_t numbers[] = {plan->spec.refine,    p->refine,          (int64_t)p->criterion,
                               (int64_t)p->criteria, (int64_t)p->labels, p->checkpoint != NULL,
                               p->resume != NULL};
    uint64_t hash = XXH3_64bits_withSeed(numbers, sizeof numbers, km_fit_hash_runs(f));
    for (int64_t i = 0; i < plan->numbers_count; i++)
        hash = XXH3_64bits_withSeed(&plan->numbers[i].value, sizeof plan->numbers[i].value, hash);
    return (double)(hash >> 12);
}

static km_status check_plan(const km_fit_job *f) {
    const km_plan *plan = &f->owner->result.plan;
    int64_t k = plan->spec.clusters[plan->spec.clusters_count - 1];
    if (plan->facts.target.kind == KM_TARGET_CUDA) return KM_OK; // the planner has seen to it
    if (!km_cpu_sums_are_owned(plan, k)) return KM_OK;
    return km_fail(f->err, KM_ERROR_PLAN,
                   "several ranks: K=%lld with %lld features is too much for one total; ask for smaller K",
                   (long long)k, (long long)plan->spec.features);
}

km_status km_fit_compare_plans(km_fit_job *f) {
    if (!f->shared) return KM_OK;
    const km_communicator *ranks = f->share.ranks;
    double *all = malloc((size_t)ranks->size * sizeof *all), own = hash_of(f);
    if (!all) return km_fail_memory(f->err, "the plans of ranks", ranks->size * 8);
    km_status status = km_share_gather(&f->share, all, ranks->size, &own, ranks->rank, 1, 1, f->err);
    int64_t other = 0;
    while (status == KM_OK && other < ranks->size && all[other] == all[0]) other++;
    free(all);
    KM_TRY(status);
    if (other == ranks->size) return km_share_agree(&f->share, check_plan(f), f->err);
    f->share.is_over = 1;
    return km_fail(f->err, KM_ERROR_USAGE,
                   "rank %lld has another plan or other parameters than rank 0; give all the same",
                   (long long)other);
}

km_status km_fit_describe_share(km_fit_job *f) {
    enum { HALVES = 2 };
    km_result *result = &f->owner->result;
    if (!f->shared) return KM_OK;
    int64_t ks = result->models_count;
    km_model *models = (km_model *)result->models; // the result's own
    double *halves = malloc((size_t)(HALVES * ks) * sizeof *halves);
    if (!halves) return km_fail_memory(f->err, "the digest of labels", HALVES * ks * 8);
    result->first_row = f->share.first;
    result->rows_all = f->share.n_all;
    for (int64_t m = 0; m < ks; m++) {
        uint64_t own = km_labels_digest(&models[m], result);
        halves[HALVES * m] = (double)(own >> 32);
        halves[HALVES * m + 1] = (double)(uint32_t)own;
    }
    km_status status = km_share_sum(&f->share, halves, HALVES * ks, f->err);
    for (int64_t m = 0; m < ks && status == KM_OK; m++)
        models[m].labels_elsewhere = ((uint64_t)halves[HALVES * m] << 32) + (uint64_t)halves[HALVES * m + 1] -
                                     km_labels_digest(&models[m], result);
    free(halves);
    return status;
}

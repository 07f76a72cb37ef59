// SPDX-License-Identifier: MIT
// The gap statistic: how much smaller ln W_K is than for points without clusters, which are drawn in a box around the
// data and fitted alike. Tibshirani, Walther and Hastie, "Estimating the number of clusters in a data set via the gap
// statistic", 2001. A reference set is drawn into an engine of the same kernels, and one sweep serves all its K; the
// data's own points are loaded again in the end.
#include "../../base/error.h"
#include "../../base/log.h"
#include "../../base/size.h"
#include "../../gen/design.h"
#include "../../gen/memory.h"
#include "../drawn.h"
#include "../memory.h"
#include "../refine/refine.h"
#include "../threads.h"
#include "axes.h"
#include "criteria.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { REFERENCES_DEFAULT = 10 };
// Of the draws of reference set b: no restart has these numbers.
#define STREAM_GAP UINT64_C(0x6761700000000000)

typedef struct gap {
    const km_measuring *m;
    const km_backend *backend;
    const km_kernels *kernels;
    struct km_asking *asking; // of the fit's engine
    int is_other;             // the engine has, or had, other points than the data's
    int64_t ks, d, restarts, references;
    km_draws draws;
    double *box;  // low, width: d each; then axes: d x d
    double *logs; // ln W* of each set: K = 1, then the list
    km_seeds seeds;
    km_sweep_best *best; // of a reference set
    km_data_stats stats;
    km_load_params load;
    double *transform; // d each: centre, factor
} gap;

static void gap_free(gap *g) {
    for (int64_t q = 0; g->best && q < g->ks; q++) {
        free(g->best[q].centroids);
        free(g->best[q].inertias);
    }
    free(g->best);
    free(g->box);
    free(g->logs);
    free(g->seeds.indices);
    free(g->transform);
    km_data_stats_free(&g->stats);
}

static km_status gap_alloc(gap *g, km_error *err) {
    const km_spec *spec = g->m->spec;
    int64_t d = g->d, picks = spec->clusters[g->ks - 1],
            axes = g->m->params->gap_box == KM_GAP_PRINCIPAL ? d : 0;
    g->box = malloc((size_t)((2 + axes) * d) * sizeof(double));
    g->logs = malloc((size_t)(g->references * (g->ks + 1)) * sizeof(double));
    g->transform = malloc((size_t)(2 * d) * sizeof(double));
    g->seeds.indices = malloc((size_t)(g->restarts * picks) * sizeof(int64_t));
    g->seeds.picks_count = picks;
    g->best = calloc((size_t)g->ks, sizeof *g->best);
    int failed = !g->box || !g->logs || !g->transform || !g->seeds.indices || !g->best;
    for (int64_t q = 0; !failed && q < g->ks; q++) {
        g->best[q].centroids = malloc((size_t)km_model_numbers(spec->clusters[q], d) * sizeof(double));
        g->best[q].inertias = malloc((size_t)g->restarts * sizeof(double));
        failed = !g->best[q].centroids || !g->best[q].inertias;
    }
    if (failed)
        return km_fail_memory(err, "the gap's reference sets", (2 + axes) * d * (int64_t)sizeof(double));
    return km_data_stats_alloc(&g->stats, d, err);
}

// The box ---------------------------------------------------------------------------------------------------

// The factor of the scale, without the power of two of the kernels.
static double unit_factor(const km_measuring *m, int64_t f) {
    return ldexp(m->load->factor[f], -m->load->exponent);
}

static void uniform_box(gap *g) {
    const km_measuring *m = g->m;
    for (int64_t f = 0; f < g->d; f++) {
        double factor = unit_factor(m, f);
        g->box[f] = (m->stats->minimum[f] - m->load->centre[f]) * factor;
        g->box[g->d + f] = (m->stats->maximum[f] - m->stats->minimum[f]) * factor;
    }
}

static km_status make_box(gap *g, km_error *err) {
    const km_measuring *m = g->m;
    double *low = g->box, *width = g->box + g->d, *axes = g->box + 2 * g->d;
    g->draws =
        (km_draws){.type = m->spec->type, .seed = m->params->seed, .d = g->d, .low = low, .width = width};
    if (m->params->gap_box == KM_GAP_UNIFORM) {
        uniform_box(g);
        return KM_OK;
    }
    g->draws.axes = axes;
    double *space = g->transform; // free until points are loaded
    for (int64_t f = 0; f < g->d; f++) {
        space[f] = m->load->centre[f];
        space[g->d + f] = unit_factor(m, f);
    }
    return km_principal_box(low, width, axes, m->data, space, space + g->d, err);
}

// Fits of the reference sets --------------------------------------------------------------------------------

// An engine without points in the place of the fit's.
static km_status renew_engine(gap *g, km_error *err) {
    km_engine **own = g->m->own;
    g->is_other = 1;
    if (*own) g->backend->engine_destroy(own);
    KM_TRY(g->backend->engine_create(own, g->kernels, g->m->params->threads, NULL, err));
    (*own)->asking = g->asking;
    return KM_OK;
}

static km_status draw_seeds(const gap *g, int64_t set, km_error *err) {
    const km_engine *engine = *g->m->own;
    km_memory memory;
    km_memory_of(&memory, engine->plan);
    for (int64_t r = 0; r < g->restarts; r += memory.chains) {
        int64_t count = g->restarts - r < memory.chains ? g->restarts - r : memory.chains;
        KM_TRY(engine->backend->seed_plusplus(
            *g->m->own, g->seeds.indices + r * g->seeds.picks_count, r, count, g->seeds.picks_count,
            g->m->params->seed ^ (STREAM_GAP + (uint64_t)set), NULL, NULL, err));
    }
    return KM_OK;
}

static double variance_of(const gap *g) {
    double sum = 0;
    for (int64_t f = 0; f < g->d; f++) sum += g->stats.variance[f];
    return sum;
}

static km_status fit_reference(gap *g, int64_t set, km_error *err) {
    const km_measuring *m = g->m;
    km_data *drawn = NULL;
    int64_t passes;
    double *logs = g->logs + set * (g->ks + 1);
    g->draws.set = STREAM_GAP + (uint64_t)set;
    km_status status;
    KM_TRY(renew_engine(g, err));
    KM_TRY(km_data_drawn(&drawn, &g->draws, km_data_points(m->data), km_data_weights(m->data), err));
    g->load = (km_load_params){.scale = KM_SCALE_NONE, .centre = g->transform, .factor = g->transform + g->d};
    KM_TRY_GOTO(g->backend->load(*m->own, &g->stats, drawn, &g->load, err));
    KM_TRY_GOTO(draw_seeds(g, set, err));
    km_sweep_params params = {
        .restarts = g->restarts, .total_square = g->stats.total_square, .begin_ms = m->begin_ms};
    params.stop = km_sweep_stop(m->params, &g->stats, g->load.factor, g->d);
    // As the data's models were found: their W_K would be smaller otherwise, and each gap larger.
    km_refine_params refine = {.passes_max = m->owner->result.refine,
                               .stop = params.stop,
                               .total_square = params.total_square,
                               .data = drawn,
                               .seed = m->params->seed,
                               .threads = km_host_threads(m->params->threads),
                               .begin_ms = m->begin_ms};
    KM_TRY_GOTO(km_sweep_run(*m->own, g->best, &passes, &refine.sweep_work, &g->seeds, &params, err));
    if (refine.passes_max != 0) KM_TRY_GOTO(km_refine(*m->own, g->best, &passes, &refine, err));
    logs[0] = log(g->stats.total_weight * variance_of(g));
    for (int64_t q = 0; q < g->ks; q++) logs[1 + q] = log(ldexp(g->best[q].inertia, -2 * g->load.exponent));
done:
    km_data_destroy(&drawn);
    return status;
}

// The data's points, in the same space as before.
static km_status load_again(gap *g, km_error *err) {
    const km_measuring *m = g->m;
    memcpy(g->transform, m->load->centre, (size_t)g->d * sizeof(double));
    memcpy(g->transform + g->d, m->load->factor, (size_t)g->d * sizeof(double));
    km_load_params load = {.transform_given = 1, .centre = g->transform, .factor = g->transform + g->d};
    KM_TRY(renew_engine(g, err));
    return g->backend->load(*m->own, &g->stats, m->data, &load, err);
}

// Scores ----------------------------------------------------------------------------------------------------

typedef struct gap_score {
    double gap, error;
} gap_score;

// Of K number q of the list; -1: K = 1, whose centroid is the mean.
static gap_score score_of(const gap *g, int64_t q) {
    const km_measuring *m = g->m;
    double within = 0, mean = 0, square = 0;
    for (int64_t f = 0; f < g->d && q < 0; f++)
        within += m->stats->total_weight * m->stats->variance[f] * unit_factor(m, f) * unit_factor(m, f);
    for (int64_t j = 0; q >= 0 && j < m->finished[q].k; j++)
        within += ldexp(m->finished[q].sse[j], -2 * m->load->exponent);
    if (!(within > 0)) return (gap_score){NAN, NAN};
    for (int64_t b = 0; b < g->references; b++) mean += g->logs[b * (g->ks + 1) + 1 + q];
    mean /= (double)g->references;
    for (int64_t b = 0; b < g->references; b++) {
        double away = g->logs[b * (g->ks + 1) + 1 + q] - mean;
        square += away * away;
    }
    double deviation = sqrt(square / (double)g->references);
    return (gap_score){mean - log(within), deviation * sqrt(1 + 1 / (double)g->references)};
}

// Where the list has no K = 1, whether the rule of 2001 would take it.
static void warn_of_one(const gap *g) {
    const km_measuring *m = g->m;
    gap_score one = score_of(g, -1), first = score_of(g, 0);
    if (m->spec->clusters[0] == 1 || !(one.gap >= first.gap - first.error)) return;
    km_result_warn(
        m->owner, m->params->log,
        "by the gap K = 1 is no worse than K = %d (%.4g against %.4g with a standard error of %.2g), so "
        "the data may have no clusters: put 1 into the list of K to compare it with the others",
        m->spec->clusters[0], one.gap, first.gap, first.error);
}

static void write_scores(const gap *g) {
    const km_measuring *m = g->m;
    for (int64_t q = 0; q < g->ks; q++) {
        double *scores = m->scores + q * KM_CRITERION_COUNT;
        gap_score own = score_of(g, q);
        scores[KM_CRITERION_gap] = own.gap;
        m->errors[q * KM_CRITERION_COUNT + KM_CRITERION_gap] = own.error;
        if (q + 1 == g->ks) break;
        gap_score next = score_of(g, q + 1);
        scores[KM_CRITERION_gap_2001] = own.gap - next.gap + next.error;
    }
    warn_of_one(g);
}

km_status km_measure_gap(const km_measuring *m, km_criterion own, km_error *err) {
    (void)own;
    gap g = {.m = m,
             .backend = m->engine->backend,
             .kernels = m->engine->kernels,
             .asking = m->engine->asking,
             .ks = m->spec->clusters_count,
             .d = m->spec->features,
             .restarts = m->spec->n_init,
             .references = m->params->gap_references ? m->params->gap_references : REFERENCES_DEFAULT};
    km_status status;
    // Drawn points have no zeros.
    if (km_plan_is_csr(m->engine->plan))
        KM_TRY(km_host_check("the gap's reference sets, which have no zeros,",
                             m->engine->n_all * g.d * (km_type_bytes(m->spec->type) + 4), err));
    KM_TRY_GOTO(gap_alloc(&g, err));
    KM_TRY_GOTO(make_box(&g, err));
    for (int64_t b = 0; b < g.references; b++) {
        KM_TRY_GOTO(km_measuring_report(m, b, g.references, err));
        KM_TRY_GOTO(fit_reference(&g, b, err));
    }
done:
    if (g.is_other && status != KM_ERROR_INTERRUPTED) {
        km_error reason = {{0}};
        if (load_again(&g, &reason) != KM_OK)
            status = km_fail(err, KM_ERROR_INTERNAL, "the points could not be loaded again after the gap: %s",
                             reason.text);
    }
    if (status == KM_OK) write_scores(&g);
    gap_free(&g);
    return status;
}

// Measured with the gap, whose row comes before.
km_status km_measure_gap_2001(const km_measuring *m, km_criterion own, km_error *err) {
    (void)m, (void)own, (void)err;
    return KM_OK;
}

// SPDX-License-Identifier: MIT
// What is kept of each subset: its figures, and the K that the ranking prefers.
#include "../../base/error.h"
#include "../formulas.h"
#include "exploring.h"
#include "outcome.h"
#include <math.h>
#include <string.h>

km_status km_explore_keep_alloc(explore *x) {
    km_explore_owner *out = x->out;
    km_explore_result *result = &out->result;
    int64_t count = result->wanted, k = x->k_max, size = x->choice.size_max;
    out->explored = km_result_alloc(out->owner, count, sizeof *out->explored, x->err);
    out->centroids = km_result_alloc(out->owner, 2 * count * k * size, sizeof *out->centroids, x->err);
    out->counts = km_result_alloc(out->owner, count * k, sizeof *out->counts, x->err);
    out->ranking = km_result_alloc(out->owner, count, sizeof *out->ranking, x->err);
    out->among_best = km_result_alloc(out->owner, 2 * result->d, sizeof *out->among_best, x->err);
    x->is_done = km_result_alloc(out->owner, count, 1, x->err);
    if (!out->explored || !out->centroids || !out->counts || !out->ranking || !out->among_best || !x->is_done)
        return KM_ERROR_MEMORY;
    return km_explore_keep_names(out, x->data, x->err);
}

// Figures of one fit.
static void figures_of(double *figures, const explore *x, const km_subset *subset, const km_subset_fit *fit,
                       const double *permuted) {
    double within = 0, margin = 0, total = 0, weight = x->stats.total_weight;
    int64_t k = 0;
    for (int r = 0; r < KM_RANK_COUNT; r++) figures[r] = NAN;
    for (int64_t j = 0; j < fit->k; j++) {
        within += fit->sse[j];
        k += fit->weights[j] > 0;
        if (fit->counts[j] > 1) margin += fit->margin[j];
    }
    for (int64_t f = 0; f < subset->size; f++) {
        int64_t c = subset->columns[f];
        total += x->stats.variance[c] * x->load.factor[c] * x->load.factor[c] * weight;
    }
    if (total > 0) figures[KM_RANK_explained] = fmax(1 - within / total, 0); // below by rounding
    if (x->params->n_init > 1)
        figures[KM_RANK_agreed] = (double)fit->restarts_agreed / (double)x->params->n_init;
    if (k > 1) figures[KM_RANK_simplified_silhouette] = margin / weight;
    double about_means = within - fit->off_means; // the means of the labels, as a fit's criterion
    if (k > 1)
        figures[KM_RANK_calinski_harabasz] =
            km_calinski_harabasz(fmax(total - about_means, 0), about_means, (double)k, weight);
    if (permuted && *permuted > 0 && figures[KM_RANK_calinski_harabasz] > 0)
        figures[KM_RANK_permuted] = log(figures[KM_RANK_calinski_harabasz] / *permuted);
    if (fit->tallies)
        km_outcome_figures(figures, fit->tallies, x->params->outcome, fit->k, x->params->holdout > 0);
}

// Adds to the means over tables of permuted columns.
void km_explore_add_permuted(explore *x, int64_t index, const km_subset_fit *fits) {
    for (int64_t q = 0; q < x->clusters_count; q++) {
        double figures[KM_RANK_COUNT];
        figures_of(figures, x, &x->subsets[index], &fits[q], NULL);
        x->permuted[index * x->clusters_count + q] +=
            figures[KM_RANK_calinski_harabasz] / (double)x->params->permutations;
    }
}

// Keeps the K that the ranking prefers.
void km_explore_keep_best(explore *x, int64_t index, const km_subset_fit *fits) {
    km_explore_owner *out = x->out;
    const km_subset *subset = &x->subsets[index];
    km_explored *explored = &out->explored[index];
    int64_t size = subset->size, place = index * x->k_max * x->choice.size_max, best = 0;
    double figures[KM_RANK_COUNT];
    for (int64_t q = 0; q < x->clusters_count; q++) {
        figures_of(figures, x, subset, &fits[q],
                   x->permuted ? &x->permuted[index * x->clusters_count + q] : NULL);
        double own = figures[out->result.rank], other = explored->figures[out->result.rank];
        if (q && !(own > other || (isnan(other) && !isnan(own)))) continue;
        best = q;
        memcpy(explored->figures, figures, sizeof figures);
    }
    const km_subset_fit *fit = &fits[best];
    double *centroids = out->centroids + 2 * place, *fitted = centroids + x->k_max * x->choice.size_max;
    int64_t *counts = out->counts + index * x->k_max;
    explored->columns = subset->columns;
    explored->size = size;
    explored->k = (int32_t)fit->k;
    explored->restart = fit->restart;
    explored->restarts_agreed = fit->restarts_agreed;
    explored->n_iter = fit->n_iter;
    explored->converged = fit->converged;
    for (int64_t j = 0; j < fit->k; j++) {
        explored->inertia += ldexp(fit->sse[j], -2 * x->load.exponent);
        explored->effective_k += fit->weights[j] > 0;
        counts[j] = fit->counts[j];
        for (int64_t f = 0; f < size; f++) {
            int64_t c = subset->columns[f];
            double value = fit->centroids[j * size + f];
            fitted[j * size + f] = ldexp(value, -x->load.exponent);
            centroids[j * size + f] = value / x->load.factor[c] + x->load.centre[c];
        }
    }
    explored->centroids = centroids;
    explored->centroids_fitted = fitted;
    explored->counts = counts;
}

// Only what is done stays, in its order.
void km_explore_keep_done(explore *x) {
    km_explore_owner *out = x->out;
    int64_t kept = 0;
    for (int64_t i = 0; i < out->result.wanted; i++) {
        if (!x->is_done[i]) continue;
        out->explored[kept] = out->explored[i];
        x->subsets[kept++] = x->subsets[i];
    }
    out->result.subsets = out->explored;
    out->result.count = kept;
}

void km_explore_warn(explore *x) {
    const km_explore_result *result = &x->out->result;
    int64_t few = 0, unconverged = 0;
    for (int64_t i = 0; i < result->count; i++) {
        few += result->subsets[i].effective_k < result->subsets[i].k;
        unconverged += !result->subsets[i].converged;
    }
    if (few)
        km_result_warn(x->out->owner, x->params->log,
                       "%lld of %lld subsets %s fewer different points than K, and so fewer clusters",
                       (long long)few, (long long)result->count, few == 1 ? "has" : "have");
    if (unconverged && x->params->max_iter >= 100)
        km_result_warn(x->out->owner, x->params->log, "%lld of %lld subsets stopped at %lld iterations",
                       (long long)unconverged, (long long)result->count, (long long)x->params->max_iter);
}

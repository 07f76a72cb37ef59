// SPDX-License-Identifier: MIT
// What km_explore is asked for: the defaults, and what is refused before the table is read.
#include "../../base/error.h"
#include "exploring.h"
#include "outcome.h"
#include <math.h>

enum { CLUSTERS_MAX = 255 }; // a code is a byte, and 255 is a row that was dropped

void km_explore_params_init(km_explore_params *params) {
    *params = (km_explore_params){.type = KM_FLOAT32,
                                  .scale = KM_SCALE_STANDARD,
                                  .n_init = 10,
                                  .max_iter = 300,
                                  .tol = 1e-4,
                                  .rank = KM_RANK_AUTO,
                                  .permutations = 3,
                                  .device = KM_HOST};
}

static km_status check_clusters(const explore *x) {
    for (int64_t q = 0; q < x->clusters_count; q++) {
        if (x->clusters[q] < 1 || x->clusters[q] > CLUSTERS_MAX)
            return km_fail(x->err, KM_ERROR_USAGE, "K is %d; exploring takes 1..%d", x->clusters[q],
                           CLUSTERS_MAX);
        if (q && x->clusters[q] <= x->clusters[q - 1])
            return km_fail(x->err, KM_ERROR_USAGE, "the list of K must ascend, got %d after %d",
                           x->clusters[q], x->clusters[q - 1]);
        if (x->clusters[q] > km_data_points(x->data))
            return km_fail(x->err, KM_ERROR_DATA,
                           "%s has %lld points, fewer than K = %d: ask for a smaller K",
                           km_data_name(x->data), (long long)km_data_points(x->data), x->clusters[q]);
    }
    return KM_OK;
}

static km_status check_rank(const explore *x) {
    const km_explore_params *p = x->params;
    if (p->rank != KM_RANK_AUTO && (unsigned)p->rank >= KM_RANK_COUNT)
        return km_fail(x->err, KM_ERROR_USAGE, "rank %d does not exist", (int)p->rank);
    int needs = p->rank == KM_RANK_AUTO ? KM_RANK_ANY : (int)km_rank_needs_of(p->rank);
    if (needs != KM_RANK_ANY && !p->outcome)
        return km_fail(x->err, KM_ERROR_USAGE,
                       "ranking by %s needs an outcome: name its column (--outcome COLUMN)",
                       km_rank_title(p->rank));
    if ((needs == KM_RANK_CLASSES && !p->outcome->classes) ||
        (needs == KM_RANK_NUMBERS && p->outcome->classes))
        return km_fail(x->err, KM_ERROR_USAGE,
                       "ranking by %s needs an outcome of %s, and %s is one of %s: rank by %s",
                       km_rank_title(p->rank), needs == KM_RANK_CLASSES ? "classes" : "numbers",
                       p->outcome->name, needs == KM_RANK_CLASSES ? "numbers" : "classes",
                       needs == KM_RANK_CLASSES ? "r2, or read it as classes (--outcome-kind class)"
                                                : "balanced_accuracy, accuracy or mutual_information");
    return KM_OK;
}

static km_status check_permuted(const explore *x) {
    const km_explore_params *p = x->params;
    if (p->rank != KM_RANK_permuted) return KM_OK;
    if (p->permutations < 1 || p->permutations > 1000)
        return km_fail(x->err, KM_ERROR_USAGE, "permutations is %lld; it must be 1..1000",
                       (long long)p->permutations);
    if (km_data_weights(x->data))
        return km_fail(
            x->err, KM_ERROR_USAGE,
            "ranking by permuted columns takes points without weights, as a value would lose its weight; "
            "choose another rank, or leave the weights out");
    return KM_OK;
}

km_status km_explore_check(const explore *x) {
    const km_explore_params *p = x->params;
    if (p->n_init < 1 || p->n_init > 1000000)
        return km_fail(x->err, KM_ERROR_USAGE, "n_init is %lld; it must be 1..1000000", (long long)p->n_init);
    if (p->max_iter < 1)
        return km_fail(x->err, KM_ERROR_USAGE, "max_iter is %lld; it must be at least 1",
                       (long long)p->max_iter);
    if (!(p->tol >= 0) || !isfinite(p->tol))
        return km_fail(x->err, KM_ERROR_USAGE, "tol is %g; it must be 0 or more", p->tol);
    if ((unsigned)p->scale >= KM_SCALE_COUNT)
        return km_fail(x->err, KM_ERROR_USAGE, "scale %d does not exist", (int)p->scale);
    if (p->scale == KM_SCALE_UNIT)
        return km_fail(x->err, KM_ERROR_USAGE,
                       "the scale unit is for all columns together, and subsets of them have rows of other "
                       "lengths; take another scale, or `kmgen fit --scale unit --columns` for one subset");
    if (!(p->holdout >= 0 && p->holdout < 1))
        return km_fail(x->err, KM_ERROR_USAGE, "holdout is %g; it must be 0 or more, and below 1",
                       p->holdout);
    if (p->holdout > 0 && !p->outcome)
        return km_fail(x->err, KM_ERROR_USAGE,
                       "rows are held out for an outcome, and there is none: name its column "
                       "(--outcome COLUMN)");
    if (p->init != KM_INIT_PLUSPLUS && p->init != KM_INIT_RANDOM)
        return km_fail(x->err, KM_ERROR_USAGE,
                       "first centroids are those of k-means++ or random points here");
    if (p->subsets < 0 || p->best < 0 || p->codes < -1 || p->size_min < 0 || p->size_max < 0)
        return km_fail(x->err, KM_ERROR_USAGE, "subsets, best, codes and sizes must not be negative");
    if (p->combine < 0 || p->combine > KM_COMBINE_MAX)
        return km_fail(x->err, KM_ERROR_USAGE, "combine is %lld; it must be 0..%d", (long long)p->combine,
                       KM_COMBINE_MAX);
    if (p->with_replacement && !p->subsets)
        return km_fail(x->err, KM_ERROR_USAGE,
                       "drawing with replacement needs a number of subsets (--subsets N)");
    KM_TRY(check_rank(x));
    KM_TRY(check_permuted(x));
    return check_clusters(x);
}

// SPDX-License-Identifier: MIT
#include "advice.h"
#include "../base/size.h"
#include "../base/wording.h"
#include "data_refuse.h"
#include "share.h"

#include <stdio.h>

// Fewer restarts than this say nothing about agreement.
#define RESTARTS_MIN 5
#define CLOSE_RELATIVE 1e-3
// One feature with more than this share of the squared distances between centroids and mean decides alone.
#define FEATURE_SHARE 0.95

typedef struct advice {
    km_result_owner *owner;
    const km_data *data;
    km_scale scale;
    const km_log *log;
    const km_selection *selection;
    const km_model *best;
} advice;

// Whether the best K leaves inertia that is more than rounding, of which neither criteria nor restarts say anything.
static int has_inertia(const km_model *model) {
    return model->inertia > 0 && model->scores[KM_CRITERION_wb] != 0; // 0: rounding
}

static void of_no_clusters(const advice *a) {
    km_result_warn(
        a->owner, a->log,
        "the data look like no clusters: one cluster (K = 1) describes them no worse than K = %d, the "
        "best of the list; before using labels look at the data (%s), or try other features, %s, or more "
        "points",
        a->best->k, km_say(KM_SAY_PICTURE),
        a->scale == KM_SCALE_UNIT ? KM_SAY(METRIC, "euclidean") : KM_SAY(SCALE, "standard"));
}

// Votes for a K.
static int64_t votes_for(const advice *a, int k) {
    int64_t votes = 0;
    for (int c = 0; c < KM_CRITERION_COUNT; c++) votes += a->selection->votes[c] == k;
    return votes;
}

static int64_t voters_of(const advice *a) {
    int64_t voters = 0;
    for (int c = 0; c < KM_CRITERION_COUNT; c++) voters += a->selection->votes[c] >= 0;
    return voters;
}

static int last_k(const advice *a) {
    return a->owner->result.models[a->owner->result.models_count - 1].k;
}

// Most criteria are best at the end of the list, which was not taken, and there are larger K.
static int is_cut_short(const advice *a) {
    int k = last_k(a);
    return k != a->best->k && k < km_data_points_all(a->data) - 1 && k < KM_CLUSTERS_MAX &&
           2 * votes_for(a, k) > voters_of(a);
}

static void of_votes(const advice *a) {
    int64_t voters = voters_of(a), others = voters - votes_for(a, a->best->k);
    if (2 * others > voters && !is_cut_short(a))
        km_result_warn(a->owner, a->log,
                       "%lld of %lld criteria prefer another K than %d: compare the scores of all K (%s), "
                       "and %s if it suits the data better",
                       (long long)others, (long long)voters, a->best->k, km_say(KM_SAY_SCORES),
                       km_say(KM_SAY_OTHER_K));
}

// Which list to try where the best K, or that of most criteria, is at an end of this one.
static void of_range(const advice *a) {
    const km_result *result = &a->owner->result;
    int cut_short = is_cut_short(a);
    int64_t k = cut_short ? last_k(a) : a->best->k, points = km_data_points_all(a->data);
    int at_first = a->selection->best == 0 && k > 2 && !cut_short, at_last = k == last_k(a) && k < points - 1;
    int64_t low = at_first ? 2 : km_max(2, km_min(k / 2, a->best->k));
    // Behind the first: what the list leaves out up to its second.
    int64_t high = at_first ? result->models[1].k - 1 : 2 * k;
    if (high > points - 1) high = points - 1;
    if (high > KM_CLUSTERS_MAX) high = KM_CLUSTERS_MAX;
    if ((!at_first && !at_last) || high <= low) return;
    char list[64];
    snprintf(list, sizeof list, "%lld..%lld", (long long)low, (long long)high);
    if (cut_short)
        km_result_warn(a->owner, a->log,
                       "%lld of %lld criteria prefer K = %lld, the last of the list, and a wider list may "
                       "hold a better one: try %s",
                       (long long)votes_for(a, (int)k), (long long)voters_of(a), (long long)k,
                       KM_SAY(CLUSTERS, list));
    else
        km_result_warn(
            a->owner, a->log,
            "the best K = %lld is the %s of the list, and a wider list may hold a better one: try %s",
            (long long)k, at_first ? "first" : "last", KM_SAY(CLUSTERS, list));
}

// Restarts whose inertia is next to the best: they ended in much the same clusters, wherever tol stopped them.
static int64_t restarts_close(const km_model *model) {
    int64_t close = 0;
    for (int64_t r = 0; r < model->restarts; r++)
        close += model->restart_inertia[r] <= (1 + CLOSE_RELATIVE) * model->inertia;
    return close;
}

static void of_restarts(const advice *a) {
    if (a->best->restarts < RESTARTS_MIN || !a->best->restart_inertia) return;
    int64_t close = restarts_close(a->best);
    if (RESTARTS_MIN * close >= a->best->restarts) return;
    char more[32], few[32];
    snprintf(more, sizeof more, "%lld", 5 * (long long)a->best->restarts);
    snprintf(few, sizeof few, close ? "only %lld" : "none", (long long)close);
    km_result_warn(a->owner, a->log,
                   "at K = %d %s of %lld restarts came within %g %% of the best inertia, so other seeds may "
                   "end in other clusters: try %s",
                   a->best->k, few, (long long)a->best->restarts, 100 * CLOSE_RELATIVE, KM_SAY(N_INIT, more));
}

// Squared distances between centroids and mean, of the feature that has most of them and of all.
static int64_t widest_feature(const advice *a, double *own, double *all) {
    const km_result *result = &a->owner->result;
    int64_t widest = 0, d = km_data_features(a->data);
    *own = *all = 0;
    for (int64_t f = 0; f < d; f++) {
        double mean = (result->mean[f] - result->centre[f]) * result->factor[f], sum = 0;
        for (int64_t j = 0; j < a->best->k; j++) {
            double away = a->best->centroids_fitted[j * d + f] - mean;
            if (a->best->weights[j] > 0) sum += a->best->weights[j] * away * away;
        }
        *all += sum;
        if (sum > *own) *own = sum, widest = f;
    }
    return widest;
}

static void of_features(const advice *a) {
    double own, all;
    int64_t f = widest_feature(a, &own, &all);
    if (km_data_features(a->data) < 2 || a->best->effective_k < 2 || !(own > FEATURE_SHARE * all)) return;
    char column[KM_COLUMN_TEXT_SIZE];
    int is_scaled = a->scale != KM_SCALE_NONE;
    km_result_warn(a->owner, a->log,
                   "one feature decides alone: column %s makes %.1f %% of the squared distances between the "
                   "clusters of K = %d; %s%s%s",
                   km_data_column_text(column, a->data, f), 100 * own / all, a->best->k,
                   is_scaled ? "" : KM_SAY(SCALE, "standard"),
                   is_scaled ? "" : " weighs all features alike, ",
                   km_say(is_scaled ? KM_SAY_WITHOUT_FEATURE : KM_SAY_FEWER_FEATURES));
}

static void of_single_points(const advice *a) {
    int64_t single = 0;
    for (int64_t j = 0; j < a->best->k; j++) single += a->best->counts[j] == 1;
    if (!single || a->best->k >= km_data_points_all(a->data)) return;
    km_result_warn(
        a->owner, a->log,
        "%lld of %d clusters of K = %d hold%s one point only: outliers take a cluster each; find them "
        "%s, and leave their rows out or take a smaller K",
        (long long)single, a->best->k, a->best->k, single == 1 ? "s" : "", km_say(KM_SAY_BY_LABELS));
}

void km_advise(km_result_owner *owner, const km_data *data, km_scale scale, const km_log *log) {
    const km_selection *selection = &owner->result.selection;
    advice a = {owner, data, scale, log, selection, &owner->result.models[selection->best]};
    int has_choice = owner->result.models_count > 1 && has_inertia(a.best);
    if (!selection->clustered && has_choice && a.best->k > 1) {
        of_no_clusters(&a);
    } else if (selection->clustered && has_choice) {
        of_votes(&a);
        of_range(&a);
    }
    if (a.best->k > 1 && a.best->inertia > 0) {
        if (has_inertia(a.best)) of_restarts(&a);
        of_features(&a);
        of_single_points(&a);
    }
}

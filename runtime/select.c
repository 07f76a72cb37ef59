// SPDX-License-Identifier: MIT
// The table of criteria, each with its formula and source, and the choice of the best K.
//
// Symbols of the formulas: K clusters with points, N total weight, d features, n_j, SSE_j, R_j weight,
// squared and plain distance sums of cluster j, W = sum_j SSE_j, T total sum of squares about the mean, B = T - W.
#include "../base/error.h"
#include <kmgen/select.h>

#include "formulas.h"
#include "rounding.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// From this K on, threads share the distances between centroids. Only maxima, minima and one ordered sum are taken, so
// the number of threads does not change a bit.
#define PARALLEL_CLUSTERS_MIN 1024

// A valley of so many standard errors parts two clusters ...
#define PARTED_MIN 1.
// ... one of so many, or all of a K together, are no chance: the data are clustered ...
#define CLUSTERED_MIN 3.
// ... and where it is no more than this the two are one hump of points.
#define ONE_HUMP_MAX (-1.)
// Criteria that must prefer a K in the rule of KM_CRITERION_AUTO.
#define VOTES_MIN 2

// One model reduced to what the formulas need. Empty clusters are gone.
typedef struct summary {
    int64_t k, d, points;
    int defined;                   // 2 <= K < points
    double n;                      // N
    double within, between;        // W, B
    double distance;               // sum_j R_j
    double total_distance;         // E1
    double margin;                 // sum of M_j, clusters of one point count 0
    double size_logs;              // sum n_j ln n_j
    double davies_bouldin;         // mean_i max_j (R_i/n_i + R_j/n_j) / |c_i - c_j|
    double square_min, square_max; // of the squared distances between centroids
    double valley;                 // the least of the valleys; NaN: not measured
} summary;

typedef double score_function(const summary *models, int64_t m, int64_t count);
typedef int64_t vote_function(const double *scores, int64_t criterion, int64_t count);

// Formulas --------------------------------------------------------------------------------------------------

static double score_calinski_harabasz(const summary *models, int64_t m, int64_t count) {
    (void)count;
    const summary *s = &models[m];
    return km_calinski_harabasz(s->between, s->within, (double)s->k, s->n);
}

// mean_i max_j (R_i/n_i + R_j/n_j) / |c_i - c_j|. Davies and Bouldin, "A cluster separation measure", 1979.
static double score_davies_bouldin(const summary *models, int64_t m, int64_t count) {
    (void)count;
    return models[m].davies_bouldin;
}

// mean of (d2 - d1) / d2 over points, 0 in clusters of one point. Hruschka et al., "Evolving clusters in
// gene-expression data", 2006: the silhouette of Rousseeuw (1987) with centroids in place of clusters.
static double score_simplified_silhouette(const summary *models, int64_t m, int64_t count) {
    (void)count;
    return models[m].margin / models[m].n;
}

// Log-likelihood of K spherical Gaussians of one variance, sigma2 = W / ((N - K) d):
// L = sum_j n_j ln n_j - N ln N - (N d / 2)(ln 2 pi + ln sigma2) - (N - K) d / 2.
static double log_likelihood(const summary *s) {
    double freedom = s->n - (double)s->k;
    if (!(freedom > 0) || s->within == 0) return NAN;
    double d = (double)s->d, sigma2 = s->within / (freedom * d);
    return s->size_logs - s->n * log(s->n) - s->n * d / 2 * (log(2 * M_PI) + log(sigma2)) - freedom * d / 2;
}

// Numbers that a model of K clusters estimates: K - 1 shares, K centroids and the variance.
static double parameters_count(const summary *s) {
    return (double)(s->k - 1) + (double)s->k * (double)s->d + 1;
}

// L - (p / 2) ln N. Pelleg and Moore, "X-means", 2000, with the corrected likelihood of Foglia and Hancock,
// "Notes on Bayesian information criterion calculation for X-means clustering", 2012.
static double score_bic(const summary *models, int64_t m, int64_t count) {
    (void)count;
    return log_likelihood(&models[m]) - parameters_count(&models[m]) / 2 * log(models[m].n);
}

// L - p. Akaike, "A new look at the statistical model identification", 1974, over the same likelihood.
static double score_aic(const summary *models, int64_t m, int64_t count) {
    (void)count;
    return log_likelihood(&models[m]) - parameters_count(&models[m]);
}

// K W / B. Zhao and Franti, "WB-index: a sum-of-squares based index for cluster validity", 2014.
static double score_wb(const summary *models, int64_t m, int64_t count) {
    (void)count;
    return (double)models[m].k * models[m].within / models[m].between;
}

// (W / N) / min |c_i - c_j|^2. Xie and Beni, "A validity measure for fuzzy clustering", 1991, crisp.
static double score_xie_beni(const summary *models, int64_t m, int64_t count) {
    (void)count;
    return models[m].within / models[m].n / models[m].square_min;
}

// ((1 / K) (E1 / EK) max |c_i - c_j|)^2, EK = sum_j R_j. Pakhira, Bandyopadhyay and Maulik, "Validity index
// for crisp and fuzzy clusters", 2004.
static double score_pbm(const summary *models, int64_t m, int64_t count) {
    (void)count;
    const summary *s = &models[m];
    double root = s->total_distance / s->distance / (double)s->k;
    return root * root * s->square_max;
}

// Whether the list has K + step too, right beside this model's K.
static int has_neighbour(const summary *models, int64_t m, int64_t count, int step) {
    int64_t other = m + step;
    return other >= 0 && other < count && models[other].k == models[m].k + step;
}

// (W_K / W_{K+1} - 1)(N - K - 1). Hartigan, "Clustering algorithms", 1975.
static double score_hartigan(const summary *models, int64_t m, int64_t count) {
    const summary *s = &models[m];
    if (!has_neighbour(models, m, count, 1) || !(s->n > (double)s->k + 1)) return NAN;
    return (s->within / models[m + 1].within - 1) * (s->n - (double)s->k - 1);
}

// DIFF_K = (K - 1)^(2/d) W_{K-1} - K^(2/d) W_K.
static double krzanowski_lai_step(const summary *models, int64_t m) {
    const summary *s = &models[m];
    double power = 2.0 / (double)s->d;
    return pow((double)(s->k - 1), power) * models[m - 1].within - pow((double)s->k, power) * s->within;
}

// |DIFF_K / DIFF_{K+1}|. Krzanowski and Lai, "A criterion for determining the number of groups in a data set
// using sum-of-squares clustering", 1988.
static double score_krzanowski_lai(const summary *models, int64_t m, int64_t count) {
    if (!has_neighbour(models, m, count, -1) || !has_neighbour(models, m, count, 1)) return NAN;
    return fabs(krzanowski_lai_step(models, m) / krzanowski_lai_step(models, m + 1));
}

// The least clear of the valleys that part neighbouring clusters. runtime/criteria/valley.h.
static double score_valley(const summary *models, int64_t m, int64_t count) {
    (void)count;
    return models[m].valley;
}

// Votes -----------------------------------------------------------------------------------------------------

// The model with the largest sign * score, `left_out` aside; ties go to the smallest K.
static int64_t extreme(const double *scores, int64_t criterion, int64_t count, double sign,
                       int64_t left_out) {
    int64_t best = -1;
    for (int64_t m = 0; m < count; m++) {
        double score = scores[m * KM_CRITERION_COUNT + criterion];
        if (m == left_out || isnan(score)) continue;
        if (best < 0 || sign * score > sign * scores[best * KM_CRITERION_COUNT + criterion]) best = m;
    }
    return best;
}

static int64_t vote_max(const double *scores, int64_t criterion, int64_t count) {
    return extreme(scores, criterion, count, 1, -1);
}

static int64_t vote_min(const double *scores, int64_t criterion, int64_t count) {
    return extreme(scores, criterion, count, -1, -1);
}

// Hartigan's rule of thumb: one more cluster is worth it while the value is above 10.
static const char rule_hartigan[] = "the first value that is not above 10";

static int64_t vote_hartigan(const double *scores, int64_t criterion, int64_t count) {
    for (int64_t m = 0; m < count; m++) {
        if (scores[m * KM_CRITERION_COUNT + criterion] <= 10) return m;
    }
    return -1;
}

// The rule of Tibshirani and Walther: the largest K that the halves of the data agree about.
static const char rule_prediction_strength[] = "the largest K of a value above 0.8";

static int64_t vote_prediction_strength(const double *scores, int64_t criterion, int64_t count) {
    for (int64_t m = count - 1; m >= 0; m--)
        if (scores[m * KM_CRITERION_COUNT + criterion] > 0.8) return m;
    return -1;
}

// The largest K whose clusters are all parted from their neighbours.
static const char rule_valley[] = "the largest K at which valleys part each cluster from its neighbours";

static int is_parted(const double *scores, int64_t m) {
    return scores[m * KM_CRITERION_COUNT + KM_CRITERION_valley] > PARTED_MIN;
}

static int64_t vote_valley(const double *scores, int64_t criterion, int64_t count) {
    (void)criterion;
    int64_t best = -1;
    for (int64_t m = 0; m < count; m++)
        if (is_parted(scores, m)) best = m;
    return best;
}

// The smallest K that the next one does not beat by more than its standard error.
static const char rule_gap_2001[] =
    "the smallest K whose gap the next K does not pass by more than its standard error";

static int64_t vote_gap_2001(const double *scores, int64_t criterion, int64_t count) {
    for (int64_t m = 0; m < count; m++)
        if (scores[m * KM_CRITERION_COUNT + criterion] >= 0) return m;
    return -1;
}

// The table -------------------------------------------------------------------------------------------------

// A criterion that needs more than the finishing pass has no formula: its scores are given.
#define SCORE_KM_NEEDS_FINISH(name) score_##name
#define SCORE_KM_NEEDS_PASS(name) NULL
#define SCORE_KM_NEEDS_FITS(name) NULL
#define VOTE_KM_BEST_MAX(name) vote_max
#define VOTE_KM_BEST_MIN(name) vote_min
#define VOTE_KM_BEST_RULE(name) vote_##name
#define RULE_KM_BEST_MAX(name) NULL
#define RULE_KM_BEST_MIN(name) NULL
#define RULE_KM_BEST_RULE(name) rule_##name

static const struct criterion {
    const char *name, *title;
    km_best best;
    km_needs needs;
    score_function *score; // its source stands above the function; NULL: given
    vote_function *vote;
    const char *rule; // which score a rule of its own takes, for people
} criteria[KM_CRITERION_COUNT] = {
#define ROW(name, title, best, needs)                                                                        \
    {#name, title, best, needs, SCORE_##needs(name), VOTE_##best(name), RULE_##best(name)},
    KM_CRITERIA(ROW)
#undef ROW
};

static int is_criterion(km_criterion criterion) {
    return (int)criterion >= 0 && criterion < KM_CRITERION_COUNT;
}

const char *km_criterion_name(km_criterion criterion) {
    if (criterion == KM_CRITERION_AUTO) return "auto";
    return is_criterion(criterion) ? criteria[criterion].name : "none";
}

const char *km_criterion_title(km_criterion criterion) {
    return is_criterion(criterion) ? criteria[criterion].title : "none";
}

km_best km_criterion_best(km_criterion criterion) {
    return is_criterion(criterion) ? criteria[criterion].best : KM_BEST_RULE;
}

km_needs km_criterion_needs(km_criterion criterion) {
    return is_criterion(criterion) ? criteria[criterion].needs : KM_NEEDS_FINISH;
}

km_criterion km_criterion_find(const char *name) {
    if (name && strcmp(name, "auto") == 0) return KM_CRITERION_AUTO;
    for (int c = 0; name && c < KM_CRITERION_COUNT; c++) {
        if (strcmp(name, criteria[c].name) == 0) return (km_criterion)c;
    }
    return KM_CRITERION_COUNT;
}

// Summaries -------------------------------------------------------------------------------------------------

static double within_of(const km_score_input *in) {
    double sum = 0;
    for (int64_t j = 0; j < in->k; j++) {
        if (in->weights[j] > 0) sum += in->sse[j];
    }
    return sum;
}

static int64_t points_of(const km_score_input *in) {
    int64_t points = 0;
    for (int64_t j = 0; j < in->k; j++) points += in->counts[j];
    return points;
}

// |c_j|^2.
static double centroid_square(const km_score_input *in, int64_t j) {
    double square = 0;
    for (int64_t f = 0; f < in->d; f++) square += in->centroids[j * in->d + f] * in->centroids[j * in->d + f];
    return square;
}

// Whether a cluster's points are all equal and its sse is rounding of the centroid alone: then all have the same
// distance from it. Different points do not, even where they differ in their last bits only, unless that is rounding:
// then their distances differ by that much.
static int is_cluster_zero(const km_score_input *in, int64_t j, double size) {
    double weight = in->weights[j], sse = in->sse[j], rounding2 = in->rounding * in->rounding * weight;
    if (sse <= rounding2) return 1;
    const double bit = in->type == KM_FLOAT32 ? 0x1p-24 : 0x1p-52, differ = 0x1p-8;
    double square = weight * fmax(centroid_square(in, j), size);
    if (sse > km_mean_rounding2(in->counts[j], in->type) * square + rounding2) return 0;
    if (sse <= bit * bit * square) return 1;
    return sse - in->distance[j] / weight * in->distance[j] <= fmax(differ * sse, rounding2);
}

// Weight of the clusters whose centroids lie no farther out than `square`.
static double weight_within(const km_score_input *in, double square) {
    double weight = 0;
    for (int64_t j = 0; j < in->k; j++)
        if (in->weights[j] > 0 && centroid_square(in, j) <= square) weight += in->weights[j];
    return weight;
}

// The median of |c_j|^2, each cluster with its weight: few points far out do not move it. Doubles that are not negative
// are ordered as their bits are, so bisection over the bits finds it in 64 steps.
static double typical_square(const km_score_input *in, double largest) {
    uint64_t low = 0, high;
    double square = largest;
    memcpy(&high, &largest, sizeof high);
    while (low < high) {
        uint64_t mid = low + (high - low) / 2;
        memcpy(&square, &mid, sizeof square);
        if (2 * weight_within(in, square) >= in->total_weight)
            high = mid;
        else
            low = mid + 1;
    }
    memcpy(&square, &high, sizeof square);
    return square;
}

// Whether W is rounding of the centroids alone: the mean of 50 points at 0.1 is off by some units in the last place.
// Cluster by cluster, relative to the larger of |c_j|^2 and the typical |c|^2 (kernels may add points on one
// lattice for all clusters), so that one point far out does not make the rest look like rounding.
static int is_zero_inertia(const km_score_input *in) {
    double rounding2 = km_mean_rounding2(points_of(in), in->type), largest = 0;
    for (int64_t j = 0; j < in->k; j++)
        if (in->weights[j] > 0) largest = fmax(largest, centroid_square(in, j));
    double most = rounding2 * largest + in->rounding * in->rounding;
    if (within_of(in) > most * in->total_weight) return 0; // nearly always
    double size = typical_square(in, largest);
    for (int64_t j = 0; j < in->k; j++)
        if (in->weights[j] > 0 && !is_cluster_zero(in, j, size)) return 0;
    return 1;
}

static int64_t effective_k_of(const km_score_input *in) {
    int64_t k = 0;
    for (int64_t j = 0; j < in->k; j++) k += in->weights[j] > 0;
    return k;
}

// Distances from centroid i to the others: nearest, farthest, and Davies and Bouldin's largest ratio, which leaves out
// centroids at the same place.
typedef struct separation {
    double ratio_max, square_min, square_max;
} separation;

static separation separation_of(const double *centroids, const double *spread, int64_t k, int64_t d,
                                int64_t i) {
    separation out = {0, INFINITY, 0};
    const double *a = centroids + i * d;
    for (int64_t j = 0; j < k; j++) {
        if (j == i) continue;
        const double *b = centroids + j * d;
        double square = 0;
        for (int64_t f = 0; f < d; f++) square += (a[f] - b[f]) * (a[f] - b[f]);
        if (square < out.square_min) out.square_min = square;
        if (square > out.square_max) out.square_max = square;
        double ratio = square > 0 ? (spread[i] + spread[j]) / sqrt(square) : 0;
        if (ratio > out.ratio_max) out.ratio_max = ratio;
    }
    return out;
}

static km_status separate(summary *s, const double *centroids, const double *spread, km_error *err) {
    int64_t k = s->k, d = s->d;
    separation *rows = malloc((size_t)k * sizeof *rows);
    if (!rows) return km_fail_memory(err, "the distances between centroids", k * (int64_t)sizeof *rows);
#pragma omp parallel for schedule(static) if (k >= PARALLEL_CLUSTERS_MIN)
    for (int64_t i = 0; i < k; i++) rows[i] = separation_of(centroids, spread, k, d, i);
    double ratios = 0;
    s->square_min = INFINITY;
    for (int64_t i = 0; i < k; i++) {
        ratios += rows[i].ratio_max;
        s->square_min = fmin(s->square_min, rows[i].square_min);
        s->square_max = fmax(s->square_max, rows[i].square_max);
    }
    s->davies_bouldin = ratios / (double)k;
    free(rows);
    return KM_OK;
}

// Adds up the clusters with points; `centroids` and `spread` receive theirs without gaps.
static void add_clusters(summary *s, double *centroids, double *spread, const km_score_input *in) {
    for (int64_t j = 0; j < in->k; j++) {
        double weight = in->weights[j];
        if (!(weight > 0)) continue;
        memcpy(centroids + s->k * in->d, in->centroids + j * in->d, (size_t)in->d * sizeof(double));
        spread[s->k] = in->distance[j] / weight;
        s->distance += in->distance[j];
        s->size_logs += weight * log(weight);
        if (in->counts[j] > 1) s->margin += in->margin[j];
        s->k++;
    }
}

static double least_valley(const km_score_input *in) {
    double valley = INFINITY;
    for (int64_t j = 0; in->valleys && j < in->k; j++)
        valley = fmin(valley, in->valleys[j]); // NaN is passed over
    return isfinite(valley) ? valley : NAN;
}

static km_status summarise(summary *s, const km_score_input *in, km_error *err) {
    *s = (summary){.d = in->d, .n = in->total_weight, .total_distance = in->total_distance};
    s->points = points_of(in);
    s->within = is_zero_inertia(in) ? 0 : within_of(in);
    s->between = fmax(in->total_sse - s->within, 0);
    s->valley = least_valley(in);
    int64_t values = in->k * (in->d + 1);
    double *centroids = malloc((size_t)values * sizeof(double));
    if (!centroids) return km_fail_memory(err, "the centroids of a model", values * (int64_t)sizeof(double));
    double *spread = centroids + in->k * in->d;
    add_clusters(s, centroids, spread, in);
    if (s->within == 0) s->distance = 0;
    s->defined = s->k >= 2 && s->k < s->points;
    km_status status = s->defined ? separate(s, centroids, spread, err) : KM_OK;
    free(centroids);
    return status;
}

static km_status check_models(const km_score_input *models, int64_t count, km_error *err) {
    if (!models || count < 1)
        return km_fail(err, KM_ERROR_USAGE, "scores need at least one model, got %lld", (long long)count);
    for (int64_t m = 0; m < count; m++) {
        if (models[m].k < 1 || models[m].d < 1 || models[m].k > KM_CLUSTERS_MAX ||
            models[m].d > KM_FEATURES_MAX)
            return km_fail(err, KM_ERROR_USAGE,
                           "model %lld has k = %lld and d = %lld: give k 1..%d and d 1..%d", (long long)m,
                           (long long)models[m].k, (long long)models[m].d, KM_CLUSTERS_MAX, KM_FEATURES_MAX);
        if (m > 0 && models[m].k <= models[m - 1].k)
            return km_fail(err, KM_ERROR_USAGE, "models must come in ascending K: %lld follows %lld",
                           (long long)models[m].k, (long long)models[m - 1].k);
    }
    return KM_OK;
}

// By the formula, where the criterion is defined; else what was measured.
static double score_of(const summary *summaries, const km_score_input *in, int64_t m, int64_t count,
                       km_criterion c) {
    if (!criteria[c].score) return in->given ? in->given[c] : NAN;
    return summaries[m].defined ? criteria[c].score(summaries, m, count) : NAN;
}

km_status km_score_models(double *scores, const km_score_input *models, int64_t count, km_error *err) {
    KM_TRY(check_models(models, count, err));
    summary *summaries = calloc((size_t)count, sizeof *summaries);
    if (!summaries) return km_fail_memory(err, "the scores", count * (int64_t)sizeof *summaries);
    km_status status;
    for (int64_t m = 0; m < count; m++) KM_TRY_GOTO(summarise(&summaries[m], &models[m], err));
    for (int64_t m = 0; m < count; m++) {
        for (int c = 0; c < KM_CRITERION_COUNT; c++) {
            double score = score_of(summaries, &models[m], m, count, (km_criterion)c);
            scores[m * KM_CRITERION_COUNT + c] = isfinite(score) ? score : NAN;
        }
    }
    status = KM_OK;
done:
    free(summaries);
    return status;
}

// Selection -------------------------------------------------------------------------------------------------

int64_t km_select_vote(km_criterion criterion, const double *scores, int64_t count) {
    return is_criterion(criterion) ? criteria[criterion].vote(scores, criterion, count) : -1;
}

// The smallest K with inertia 0 that has fewer clusters than points, or -1.
static int64_t zero_inertia_model(const km_score_input *models, int64_t count) {
    for (int64_t m = 0; m < count; m++) {
        if (is_zero_inertia(&models[m]) && effective_k_of(&models[m]) < points_of(&models[m])) return m;
    }
    return -1;
}

static void explain_vote(km_selection *out, const km_score_input *models, const double *scores,
                         int64_t count) {
    int c = (int)out->criterion;
    int64_t best = out->best;
    double score = scores[best * KM_CRITERION_COUNT + c];
    char *text = out->reason;
    size_t size = sizeof out->reason;
    if (criteria[c].best == KM_BEST_RULE) {
        snprintf(text, size, "%s is %.6g at K = %lld, %s", criteria[c].title, score,
                 (long long)models[best].k, criteria[c].rule);
        return;
    }
    int is_max = criteria[c].best == KM_BEST_MAX;
    int64_t second = extreme(scores, c, count, is_max ? 1 : -1, best);
    if (second < 0)
        snprintf(text, size, "%s is defined at K = %lld only: %.6g", criteria[c].title,
                 (long long)models[best].k, score);
    else
        snprintf(text, size, "%s is %s at K = %lld: %.6g, and next at K = %lld: %.6g", criteria[c].title,
                 is_max ? "highest" : "lowest", (long long)models[best].k, score, (long long)models[second].k,
                 scores[second * KM_CRITERION_COUNT + c]);
}

// Where the chosen criterion has no vote, the first of these that has one decides.
static void fall_back(km_selection *out, const km_score_input *models, const double *scores, int64_t count) {
    static const km_criterion others[] = {KM_CRITERION_calinski_harabasz, KM_CRITERION_simplified_silhouette};
    const char *asked = criteria[out->criterion].title;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        int64_t best = km_select_vote(others[i], scores, count);
        if (best < 0) continue;
        out->best = best;
        out->criterion = others[i];
        snprintf(out->reason, sizeof out->reason, "%s prefers no K of this list, so %s decides: K = %lld",
                 asked, criteria[others[i]].title, (long long)models[best].k);
        return;
    }
    out->best = 0;
    snprintf(
        out->reason, sizeof out->reason,
        "no criterion is defined for any K of this list (each is 1 or the number of points), so the smallest "
        "K = %lld is kept",
        (long long)models[0].k);
}

// How sure it is that valleys part clusters of this model: the clearest valley, or all together, as the sum of
// independent ones has the standard error sqrt(count). NaN: not measured. Their number is added to *looks.
static double valleys_together(const km_score_input *in, int64_t *looks) {
    double sum = 0, clearest = NAN;
    int64_t pairs = 0;
    for (int64_t j = 0; in->valleys && j < in->k; j++) {
        if (isnan(in->valleys[j])) continue;
        sum += in->valleys[j];
        clearest = fmax(clearest, in->valleys[j]);
        pairs++;
    }
    *looks += pairs;
    return pairs ? fmax(clearest, sum / sqrt((double)pairs)) : NAN;
}

// The chance of so many standard errors or more.
static double chance_of(double errors) {
    return .5 * erfc(errors / sqrt(2.));
}

// Whether valleys that are no chance part clusters of any K; also where none was measured. Of several features the
// midpoint of two centroids of a hump is fuller than both ends, and only a gap makes a valley of it. Of one feature
// evenly spread points leave it as full, and k-means puts it where points are fewest by chance: so the chance counts
// for each valley that was looked at.
static int32_t are_clustered(const km_score_input *models, int64_t count) {
    double clearest = NAN;
    int64_t looks = 0;
    for (int64_t m = 0; m < count; m++) clearest = fmax(clearest, valleys_together(&models[m], &looks));
    double times = models[0].d == 1 ? (double)looks : 1;
    return !(chance_of(clearest) * times >= chance_of(CLUSTERED_MIN));
}

// Criteria that the rule counts: those of every fit. AIC follows BIC with a penalty that is too small, and Hartigan's
// rule is one of small samples.
static int is_counted(int c) {
    return criteria[c].needs == KM_NEEDS_FINISH && c != KM_CRITERION_aic && c != KM_CRITERION_hartigan;
}

static int votes_for(const km_selection *selection, int64_t k) {
    int votes = 0;
    for (int c = 0; c < KM_CRITERION_COUNT; c++) votes += is_counted(c) && selection->votes[c] == k;
    return votes;
}

// Criteria that prefer some K, of those that count.
static int voters_count(const km_selection *selection) {
    int count = 0;
    for (int c = 0; c < KM_CRITERION_COUNT; c++) count += is_counted(c) && selection->votes[c] >= 0;
    return count;
}

// The most votes that any K has.
static int most_votes(const km_selection *selection, const km_score_input *models, int64_t count) {
    int most = 0;
    for (int64_t m = 0; m < count; m++) {
        int votes = votes_for(selection, models[m].k);
        most = votes > most ? votes : most;
    }
    return most;
}

// The largest K that several criteria prefer and at which no two neighbouring clusters are one hump, or -1. Criteria
// that run off go to the end of the list together: there it takes the most votes.
static int64_t agreed_model(const km_selection *selection, const km_score_input *models, const double *scores,
                            int64_t count) {
    for (int64_t m = count - 1; m >= 0; m--) {
        double valley = scores[m * KM_CRITERION_COUNT + KM_CRITERION_valley];
        int votes = votes_for(selection, models[m].k);
        if (m == count - 1 && votes < most_votes(selection, models, count)) continue;
        if (votes >= VOTES_MIN && !(valley <= ONE_HUMP_MAX)) return m;
    }
    return -1;
}

// The first criterion that prefers this K.
static km_criterion first_voter(const km_selection *selection, int64_t k) {
    int c = 0;
    while (c < KM_CRITERION_COUNT - 1 && !(is_counted(c) && selection->votes[c] == k)) c++;
    return (km_criterion)c;
}

// The rule of KM_CRITERION_AUTO, at km_selection. Returns whether it prefers a model.
static int select_auto(km_selection *out, const km_score_input *models, const double *scores, int64_t count) {
    int64_t agreed = out->clustered ? agreed_model(out, models, scores, count) : -1;
    int64_t vote = vote_max(scores, KM_CRITERION_simplified_silhouette, count);
    if (agreed >= 0) {
        int64_t k = models[agreed].k;
        out->best = agreed;
        out->criterion = first_voter(out, k);
        snprintf(out->reason, sizeof out->reason,
                 "K = %lld is the largest that two criteria or more prefer (%d of the %d that vote) and "
                 "at which no two neighbouring clusters are one hump of points",
                 (long long)k, votes_for(out, k), voters_count(out));
        return 1;
    }
    if (vote < 0) return 0;
    out->best = vote;
    out->criterion = KM_CRITERION_simplified_silhouette;
    snprintf(
        out->reason, sizeof out->reason, "%ssimplified silhouette is highest at K = %lld: %.6g",
        out->clustered
            ? "no K that two criteria prefer is free of neighbouring clusters that are one hump of points; "
            : "",
        (long long)models[vote].k, scores[vote * KM_CRITERION_COUNT + KM_CRITERION_simplified_silhouette]);
    return 1;
}

// By the criterion that was asked for.
static int select_by(km_selection *out, const km_score_input *models, const double *scores, int64_t count) {
    if (out->asked == KM_CRITERION_AUTO) return select_auto(out, models, scores, count);
    int64_t vote = km_select_vote(out->asked, scores, count);
    if (vote < 0) return 0;
    out->best = vote;
    explain_vote(out, models, scores, count);
    return 1;
}

km_status km_select(km_selection *out, const km_score_input *models, const double *scores, int64_t count,
                    km_criterion criterion, km_error *err) {
    KM_TRY(check_models(models, count, err));
    if (criterion != KM_CRITERION_AUTO && !is_criterion(criterion))
        return km_fail(err, KM_ERROR_USAGE, "criterion %d does not exist: give %d (auto) to %d",
                       (int)criterion, KM_CRITERION_AUTO, KM_CRITERION_COUNT - 1);
    *out =
        (km_selection){.asked = criterion, .criterion = criterion, .clustered = are_clustered(models, count)};
    if (criterion == KM_CRITERION_AUTO) out->criterion = KM_CRITERION_simplified_silhouette;
    for (int c = 0; c < KM_CRITERION_COUNT; c++) {
        int64_t vote = km_select_vote((km_criterion)c, scores, count);
        out->votes[c] = vote < 0 ? -1 : models[vote].k;
    }
    int64_t zero = zero_inertia_model(models, count);
    if (count == 1) {
        snprintf(out->reason, sizeof out->reason, "K = %lld is the only one in the list",
                 (long long)models[0].k);
    } else if (zero >= 0) {
        out->best = zero;
        out->clustered = 1;
        snprintf(
            out->reason, sizeof out->reason,
            "K = %lld is the smallest with inertia 0: every point lies on its centroid, and criteria say "
            "nothing there",
            (long long)models[zero].k);
    } else if (!select_by(out, models, scores, count)) {
        fall_back(out, models, scores, count);
    }
    return KM_OK;
}

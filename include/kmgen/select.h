// SPDX-License-Identifier: MIT
/// @file
/// Criteria that compare models of different K, and the choice of the best K.
///
/// Most are computed from the numbers of one finishing pass (km_score_input) and read no points; the others are
/// measured on request (km_fit_params.criteria).
/// Formulas and their sources stand beside each criterion in runtime/select.c and in docs/criteria.md.
///
/// All functions here depend on their arguments alone: any number of threads may call them at once.
#ifndef KMGEN_SELECT_H
#define KMGEN_SELECT_H
#include <kmgen/kmgen.h>
KM_BEGIN
/// @defgroup select Select: criteria and the best K
/// @{

/// X(name, title, best, needs). The one list: JSON keys, `--criterion`, `--criteria`, table columns and votes come from
/// it. What a criterion needs (km_needs) besides the finishing pass is computed on request only.
///
/// Formulas. K clusters that have points, N total weight, d features; n_j, SSE_j and R_j the weight, the sums of
/// squared and of plain distances of cluster j; W = sum of SSE_j; T the sum of squares about the mean, B = T - W;
/// d1, d2 the distances of a point to its nearest and second-nearest centroid. Two need neighbours in the list:
/// Hartigan the model of K + 1, Krzanowski-Lai those of K - 1 and K + 1.
///
/// - Calinski-Harabasz: (B / (K - 1)) / (W / (N - K)). Calinski and Harabasz 1974.
/// - Davies-Bouldin: mean over i of max over j of (R_i / n_i + R_j / n_j) / |c_i - c_j|. Davies and Bouldin 1979.
/// - simplified silhouette: mean over points of (d2 - d1) / d2. Hruschka and others 2006, after Rousseeuw 1987.
/// - BIC: L - (p / 2) ln N, L the log-likelihood of K spherical Gaussians of one variance, p = (K - 1) + K d + 1.
///   Pelleg and Moore 2000, L as corrected by Foglia and Hancock 2012.
/// - AIC: L - p. Akaike 1974.
/// - WB index: K W / B. Zhao and Franti 2014.
/// - Xie-Beni: (W / N) / min |c_i - c_j|^2. Xie and Beni 1991, crisp.
/// - PBM: ((1 / K) (E_1 / E_K) max |c_i - c_j|)^2, E_1 the sum of distances to the mean, E_K the sum of R_j. Pakhira,
///   Bandyopadhyay and Maulik 2004.
/// - Hartigan: (W_K / W_{K+1} - 1) (N - K - 1). Hartigan 1975.
/// - Krzanowski-Lai: |D_K / D_{K+1}|, D_K = (K - 1)^(2/d) W_{K-1} - K^(2/d) W_K. Krzanowski and Lai 1988.
/// - valley: the least of km_score_input.valleys, how clearly a valley of lower density parts each cluster from a
///   neighbour, in standard errors; the largest K whose score is above 1. docs/criteria.md.
/// - silhouette: mean over points of (b - a) / max(a, b), a the mean squared distance to the other points of its
///   cluster, b the least mean squared distance to the points of another. Rousseeuw 1987, of squared distances.
/// - Euclidean silhouette: the same of plain distances, of a sample where there are more than 10,000 points.
/// - stability: mean adjusted Rand index of the restarts' labels with those of the best. Hubert and Arabie 1985.
/// - prediction strength: of two halves of the points, the share of pairs of the worst cluster that the other half's
///   centroids leave together; mean over splits. Tibshirani and Walther 2005.
/// - gap: mean over reference sets of ln W*_K - ln W_K, W* of points drawn in a box around the data, fitted alike; at
///   its maximum. By the rule of 2001: the smallest K with gap(K) >= gap(K') - s(K'), K' the next K of the list and s
///   the standard error; its score is the left side less the right. Tibshirani, Walther and Hastie 2001.
#define KM_CRITERIA(X)                                                                                       \
    X(calinski_harabasz, "Calinski-Harabasz", KM_BEST_MAX, KM_NEEDS_FINISH)                                  \
    X(davies_bouldin, "Davies-Bouldin", KM_BEST_MIN, KM_NEEDS_FINISH)                                        \
    X(simplified_silhouette, "simplified silhouette", KM_BEST_MAX, KM_NEEDS_FINISH)                          \
    X(bic, "BIC", KM_BEST_MAX, KM_NEEDS_FINISH)                                                              \
    X(aic, "AIC", KM_BEST_MAX, KM_NEEDS_FINISH)                                                              \
    X(wb, "WB index", KM_BEST_MIN, KM_NEEDS_FINISH)                                                          \
    X(xie_beni, "Xie-Beni", KM_BEST_MIN, KM_NEEDS_FINISH)                                                    \
    X(pbm, "PBM", KM_BEST_MAX, KM_NEEDS_FINISH)                                                              \
    X(hartigan, "Hartigan", KM_BEST_RULE, KM_NEEDS_FINISH)                                                   \
    X(krzanowski_lai, "Krzanowski-Lai", KM_BEST_MAX, KM_NEEDS_FINISH)                                        \
    X(valley, "valley", KM_BEST_RULE, KM_NEEDS_FINISH)                                                       \
    X(silhouette, "silhouette", KM_BEST_MAX, KM_NEEDS_PASS)                                                  \
    X(silhouette_euclidean, "Euclidean silhouette", KM_BEST_MAX, KM_NEEDS_PASS)                              \
    X(stability, "stability", KM_BEST_MAX, KM_NEEDS_PASS)                                                    \
    X(prediction_strength, "prediction strength", KM_BEST_RULE, KM_NEEDS_FITS)                               \
    X(gap, "gap", KM_BEST_MAX, KM_NEEDS_FITS)                                                                \
    X(gap_2001, "gap (2001 rule)", KM_BEST_RULE, KM_NEEDS_FITS)

/// Which score of a list of models a criterion prefers.
typedef enum km_best {
    KM_BEST_MAX, ///< The largest.
    KM_BEST_MIN, ///< The smallest.
    /// A rule of its own: Hartigan, the smallest K whose score is at most 10; prediction strength, the largest K whose
    /// score is above 0.8; valley, the largest above 1; gap by the rule of 2001, the smallest K whose score is not
    /// below 0.
    KM_BEST_RULE,
} km_best;

/// What a criterion is computed from.
typedef enum km_needs {
    KM_NEEDS_FINISH, ///< The numbers of the finishing pass: always computed.
    KM_NEEDS_PASS,   ///< One more pass over the points, or a sample of them.
    KM_NEEDS_FITS,   ///< Fits of its own.
} km_needs;

/// One criterion, KM_CRITERION_calinski_harabasz and so on: a row of KM_CRITERIA, in that order.
/// KM_CRITERION_COUNT: how many there are. KM_CRITERION_AUTO is none of them, but the rule at km_selection.
typedef enum km_criterion {
    KM_CRITERION_AUTO = -1,
#define KM_CRITERION_ENUM(name, title, best, needs) KM_CRITERION_##name,
    KM_CRITERIA(KM_CRITERION_ENUM)
#undef KM_CRITERION_ENUM
        KM_CRITERION_COUNT
} km_criterion;

/// Its name in JSON and on the command line, e.g. "calinski_harabasz", "auto"; "none" when out of range. Static text.
KM_API const char *km_criterion_name(km_criterion criterion);

/// Its name for people, e.g. "Calinski-Harabasz"; "none" when out of range. Static text.
KM_API const char *km_criterion_title(km_criterion criterion);

/// Which of its scores it prefers; KM_BEST_RULE when out of range.
KM_API km_best km_criterion_best(km_criterion criterion);

/// What it is computed from; KM_NEEDS_FINISH when out of range.
KM_API km_needs km_criterion_needs(km_criterion criterion);

/// The criterion of that name (km_criterion_name); KM_CRITERION_COUNT when no criterion has it.
KM_API km_criterion km_criterion_find(const char *name);

/// What the finishing pass knows of one model (one K); every array has k entries, empty clusters have
/// weight 0 and are left out of the formulas. Distances are Euclidean in the (scaled) space that was clustered.
typedef struct km_score_input {
    int64_t k;               ///< K, 1..KM_CLUSTERS_MAX.
    int64_t d;               ///< Features, 1..KM_FEATURES_MAX; the same of all models.
    const double *centroids; ///< k x d.
    const double *weights;   ///< k: n_j, the sum of the weights.
    const int64_t *counts;   ///< k: points.
    const double *sse;       ///< k: sum w |x - c_j|^2.
    const double *distance;  ///< k: R_j, sum w |x - c_j|.
    const double *margin; ///< k: M_j, sum w (d2 - d1) / d2, 0 where d2 = 0; d1, d2 nearest and second-nearest
    double total_weight;  ///< N: sum of the weights of all points.
    double total_sse;     ///< T = sum w |x - mean|^2.
    double total_distance; ///< E1 = sum w |x - mean|.
    km_type type;          ///< Of the kernels: how far rounding leaves a mean of equal points from them.
    /// KM_CRITERION_COUNT scores that were measured apart, of the criteria that need more than the finishing pass
    /// (km_criterion_needs); NaN: not measured. NULL: none was.
    const double *given;
    /// k: how clearly a valley of lower density parts each cluster from a neighbour, in standard errors; NaN: an empty
    /// cluster, or one that is only a neighbour of others. NULL: not measured.
    const double *valleys;
    /// Points no farther apart than this are equal but for rounding: rows of one direction that were divided by their
    /// length. 0: only points of the same coordinates are equal.
    double rounding;
} km_score_input;

/// Scores of `count` models in ascending K, by the formulas at KM_CRITERIA. `scores`: the caller's, count x
/// KM_CRITERION_COUNT, that of model m by a criterion at [m * KM_CRITERION_COUNT + criterion]; NaN where a criterion
/// is not defined (K = 1, K = N, lists too short) or was not measured. KM_ERROR_USAGE: no models, K not ascending, k or
/// d out of range.
KM_API km_status km_score_models(double *scores, const km_score_input *models, int64_t count, km_error *err);

/// Which model a criterion prefers: its index, or -1 when no score is defined, (Hartigan) none meets the rule, or there
/// is no such criterion. `scores`: count x KM_CRITERION_COUNT, as km_score_models leaves them.
KM_API int64_t km_select_vote(km_criterion criterion, const double *scores, int64_t count);

/// The chosen model and its reason. Alone, a single model wins; else the smallest K with inertia 0 and fewer
/// clusters than points (criteria fail there); else the vote of the criterion that was asked for; where it has none,
/// that of Calinski-Harabasz or the simplified silhouette, and where nothing is defined the smallest K.
///
/// KM_CRITERION_AUTO: the largest K that two criteria or more prefer (of those of the finishing pass without AIC and
/// Hartigan; the last K of the list only where no other has more votes) and at which no two neighbouring clusters are
/// one hump of points (valley at most -1); where there is none, or the data look like no clusters, the highest
/// simplified silhouette.
typedef struct km_selection {
    int64_t best;       ///< Index of the chosen model.
    km_criterion asked; ///< What was to decide: KM_CRITERION_AUTO or a criterion.
    km_criterion
        criterion; ///< What decided; of KM_CRITERION_AUTO the first that prefers this K, never itself.
    /// 0: the data look like no clusters, as no two neighbouring clusters of any K have a valley between them that
    /// chance does not explain. 1 also where that is not known.
    int32_t clustered;
    int64_t votes[KM_CRITERION_COUNT]; ///< K that each criterion prefers; -1: none.
    char reason[320];                  ///< One sentence.
} km_selection;

/// Chooses among `count` models in ascending K, by the rule at km_selection. `models` and `scores` as in
/// km_score_models; `*out` is plain data, which refers to neither. KM_ERROR_USAGE: no models, K not ascending, k or
/// d out of range, no such criterion.
KM_API km_status km_select(km_selection *out, const km_score_input *models, const double *scores,
                           int64_t count, km_criterion criterion, km_error *err);

/// @}
KM_END
#endif

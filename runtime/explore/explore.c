// SPDX-License-Identifier: MIT
// The walk of km_explore: load the table once, choose subsets, run them in blocks, rank them.
#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/log.h"
#include "../../base/size.h"
#include "../build.h"
#include "../cuda/subsets.h"
#include "../data_refuse.h"
#include "../memory.h"
#include "../read/reader.h"
#include "../threads.h"
#include "choose.h"
#include "combine.h"
#include "explored.h"
#include "outcome.h"
#include "subsets.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SIZE_DEFAULT = 3,   // columns of a subset
    CLUSTERS_MAX = 255, // a code is a byte, and 255 is a row that was dropped
    BLOCK_MAX = 32,     // subsets that a thread has in work
    BLOCKS_A_THREAD = 8,
    TALLIES_BYTES = 1 << 30, // of the outcome's counts of the subsets that a GPU has in work
    LABELS_BYTES =
        64 << 20 // of labels, and of tallies, that a thread has in work, where it has several subsets
};

typedef struct explore {
    const km_explore_params *params;
    const km_data *data;
    km_explore_owner *out;
    km_device *device;
    km_spec spec;
    km_build build;
    km_engine *engine;
    km_data_stats stats;
    km_load_params load;
    km_choice choice;
    int32_t *always, *others;
    int32_t clusters_default[1];
    const int32_t *clusters;
    int64_t clusters_count, k_max, k_sum;
    km_tally tally;
    uint32_t *cells;
    double *values, *squares;
    km_subset *subsets;
    int32_t *columns;
    uint8_t *is_done; // of each subset
    km_subsets_job job;
    int ordinal;           // KM_HOST, or a GPU's
    km_cuda_subsets *cuda; // NULL: the CPU's kernels run
    int64_t threads, block, done;
    // Of KM_RANK_permuted: the mean of Calinski-Harabasz of each subset and K, and the tables that are run beside it.
    double *permuted;
    int64_t turn, turns;
    int stop;
    double begin_ms;
    km_error *err;
} explore;

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

// Params ------------------------------------------------------------------------------------------------------

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

static km_status check_params(const explore *x) {
    const km_explore_params *p = x->params;
    if (p->n_init < 1 || p->n_init > 1000000)
        return km_fail(x->err, KM_ERROR_USAGE, "n_init is %lld; it must be 1..1000000", (long long)p->n_init);
    if (p->max_iter < 1)
        return km_fail(x->err, KM_ERROR_USAGE, "max_iter is %lld; it must be at least 1",
                       (long long)p->max_iter);
    if (!(p->tol >= 0) || !isfinite(p->tol))
        return km_fail(x->err, KM_ERROR_USAGE, "tol is %g; it must be 0 or more", p->tol);
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
        return km_fail(x->err, KM_ERROR_USAGE, "with replacement needs a number of subsets to draw");
    KM_TRY(check_rank(x));
    KM_TRY(check_permuted(x));
    return check_clusters(x);
}

// The table ---------------------------------------------------------------------------------------------------

static km_status report(explore *x, const char *phase) {
    const km_explore_params *p = x->params;
    km_progress progress = {phase, x->done, x->out->result.wanted, 0, (km_now_ms() - x->begin_ms) / 1e3};
    if (p->progress && p->progress(p->progress_user, &progress))
        return km_fail(x->err, KM_ERROR_INTERRUPTED, "interrupted in the phase %s", phase);
    return KM_OK;
}

static void module_params(km_module_params *params, const explore *x) {
    km_module_params_init(params);
    params->cache_dir = x->params->cache_dir;
    params->compiler = x->params->compiler;
    params->log = x->params->log;
}

static km_status build_table(explore *x) {
    km_build_params params = {.spec = &x->spec};
    x->spec.features = km_data_features(x->data);
    x->spec.type = x->params->type;
    x->spec.n_init = 1;
    x->spec.layout = KM_LAYOUT_DENSE;
    int is_cpu = x->ordinal == KM_HOST;
    x->spec.target.kind = is_cpu ? KM_TARGET_CPU : KM_TARGET_CUDA;
    KM_TRY(km_spec_set_clusters(&x->spec, "1", x->err));
    if (is_cpu) KM_TRY(km_spec_fix(&x->spec, "design", "prebuilt", x->err));
    KM_TRY(km_spec_fix(&x->spec, "algorithm", "lloyd", x->err));
    KM_TRY(km_device_open(&x->device, x->ordinal, x->params->compiler, x->params->log, x->err));
    km_plan_params_init(&params.plan);
    params.plan.weighted = !is_cpu && km_data_weights(x->data);
    module_params(&params.module, x);
    params.plan.points = km_data_points(x->data);
    int64_t threads = is_cpu ? x->device->facts.units : omp_get_num_procs(); // a GPU's are those that copy
    x->threads = km_threads(x->params->threads, threads, x->params->log);
    params.plan.threads = x->threads;
    params.plan.untuned = 1;
    return km_build_on(&x->build, x->device, &params, x->err);
}

static km_status load_table(explore *x) {
    km_explore_result *result = &x->out->result;
    int64_t n = km_data_points(x->data), d = km_data_features(x->data);
    if (n < 1) return km_fail(x->err, KM_ERROR_DATA, "%s has no points", km_data_name(x->data));
    if (d > KM_FEATURES_DENSE_MAX)
        return km_fail(x->err, KM_ERROR_DATA, "%s has %lld columns; exploring takes up to %d",
                       km_data_name(x->data), (long long)d, KM_FEATURES_DENSE_MAX);
    result->table_bytes = km_round_up(n, 64) * d * km_type_bytes(x->params->type);
    if (x->ordinal == KM_HOST) KM_TRY(km_host_check("the table", result->table_bytes, x->err));
    KM_TRY(report(x, "read"));
    KM_TRY(build_table(x));
    double *columns = km_result_alloc(x->out->owner, 3 * d, sizeof *columns, x->err);
    if (!columns) return KM_ERROR_MEMORY;
    x->load = (km_load_params){
        .scale = x->params->scale, .centre = columns, .factor = columns + d, .log = x->params->log};
    x->out->centre = columns;
    x->out->factor = columns + d;
    KM_TRY(km_data_stats_alloc(&x->stats, d, x->err));
    KM_TRY(x->device->backend->engine_create(&x->engine, x->build.module->kernels, x->threads, x->params->log,
                                             x->err));
    KM_TRY(x->engine->backend->load(x->engine, &x->stats, x->data, &x->load, x->err));
    x->out->exponent = x->load.exponent;
    x->squares = columns + 2 * d;
    if (x->ordinal == KM_HOST) km_cpu_subsets_squares(x->squares, x->engine);
    result->n = n;
    result->d = d;
    result->rows = km_data_rows(x->data);
    return KM_OK;
}

// Columns and subsets -----------------------------------------------------------------------------------------

// Marks of the columns of a list in the words of the command line.
static km_status mark(uint8_t *marks, const explore *x, const char *list, const char *option, uint8_t as) {
    int64_t *picks = NULL, count, d = km_data_features(x->data);
    km_status status = KM_OK;
    if (!list) return KM_OK;
    KM_TRY(km_columns_parse(&picks, &count, option, list, km_data_name(x->data),
                            (char *const *)km_data_feature_names(x->data), d, NULL, x->err));
    for (int64_t i = 0; i < count; i++) {
        if (marks[picks[i]]) {
            km_fail(x->err, status = KM_ERROR_USAGE, "column %lld is both included and excluded",
                    (long long)picks[i] + 1);
            break;
        }
        marks[picks[i]] = as;
    }
    free(picks);
    return status;
}

static void name_of(char text[80], const explore *x, int64_t column) {
    const char *name = km_data_feature_name(x->data, column);
    if (name)
        snprintf(text, 80, "%.75s", name);
    else
        snprintf(text, 80, "%lld", (long long)column + 1);
}

// Columns that never change hold no clusters.
static void drop_constant(explore *x, uint8_t *marks) {
    int64_t dropped = 0, first = 0, d = x->engine->d;
    char name[80];
    for (int64_t c = d - 1; c >= 0; c--) {
        if (x->stats.maximum[c] > x->stats.minimum[c] || marks[c] == 2) continue;
        marks[c] = 2;
        dropped++;
        first = c;
    }
    if (!dropped) return;
    name_of(name, x, first);
    km_result_warn(x->out->owner, x->params->log,
                   "%lld of %lld columns never change (the first is column %s): no subset has them",
                   (long long)dropped, (long long)d, name);
}

static km_status choose_columns(explore *x) {
    enum { ALWAYS = 1, NEVER = 2 };
    int64_t d = x->engine->d;
    km_status status;
    uint8_t *marks = calloc((size_t)d, 1);
    x->always = malloc((size_t)(2 * d) * sizeof *x->always);
    x->others = x->always ? x->always + d : NULL;
    if (!marks || !x->always) {
        status = km_fail_memory(x->err, "the columns", d * 9);
        goto done;
    }
    KM_TRY_GOTO(mark(marks, x, x->params->include, "--include", ALWAYS));
    KM_TRY_GOTO(mark(marks, x, x->params->exclude, "--exclude", NEVER));
    drop_constant(x, marks);
    km_choice *choice = &x->choice;
    *choice = (km_choice){.always = x->always, .others = x->others};
    for (int64_t c = 0; c < d; c++) {
        if (marks[c] == ALWAYS) x->always[choice->always_count++] = (int32_t)c;
        if (!marks[c]) x->others[choice->others_count++] = (int32_t)c;
    }
done:
    free(marks);
    return status;
}

static km_status choose_sizes(explore *x) {
    const km_explore_params *p = x->params;
    km_choice *choice = &x->choice;
    int64_t all = choice->always_count + choice->others_count, least = km_max(choice->always_count, 1);
    if (all == 0)
        return km_fail(x->err, KM_ERROR_DATA, "%s has no column left to choose", km_data_name(x->data));
    choice->size_min = p->size_min ? p->size_min : p->size_max;
    choice->size_max = p->size_max ? p->size_max : p->size_min;
    if (!choice->size_max) choice->size_min = choice->size_max = km_max(least, km_min(SIZE_DEFAULT, all));
    if (choice->size_min > choice->size_max)
        return km_fail(x->err, KM_ERROR_USAGE,
                       "subsets of %lld..%lld columns: the first number must not be larger",
                       (long long)choice->size_min, (long long)choice->size_max);
    if (choice->size_max > all)
        return km_fail(
            x->err, KM_ERROR_USAGE,
            "subsets of %lld columns cannot be: there are %lld to choose from; choose so many at most",
            (long long)choice->size_max, (long long)all);
    if (choice->size_min < least)
        return km_fail(x->err, KM_ERROR_USAGE,
                       "subsets of %lld column%s cannot be: %lld are included in each",
                       (long long)choice->size_min, choice->size_min == 1 ? "" : "s", (long long)least);
    return KM_OK;
}

static km_status count_subsets(explore *x) {
    km_explore_result *result = &x->out->result;
    double possible = result->possible = km_choice_count(&x->choice);
    int64_t wanted = x->params->subsets;
    if (wanted == 0 && possible > KM_SUBSETS_MAX)
        return km_fail(x->err, KM_ERROR_USAGE,
                       "there are %.4g subsets of these sizes, more than %d: draw some (--subsets N), or "
                       "exclude columns",
                       possible, KM_SUBSETS_MAX);
    if (wanted > KM_SUBSETS_MAX)
        return km_fail(x->err, KM_ERROR_USAGE, "%lld subsets are more than %d: draw fewer", (long long)wanted,
                       KM_SUBSETS_MAX);
    if ((double)wanted > possible && !x->params->with_replacement)
        return km_fail(
            x->err, KM_ERROR_USAGE,
            "there are %.0f subsets of these sizes, fewer than %lld: ask for as many at most, or draw "
            "them --with-replacement",
            possible, (long long)wanted);
    if (possible >= 0x1p53)
        return km_fail(
            x->err, KM_ERROR_USAGE,
            "there are %.4g subsets of these sizes, too many to draw from: exclude columns, or choose "
            "fewer at a time",
            possible);
    result->wanted = wanted ? wanted : (int64_t)possible;
    return KM_OK;
}

static int same_columns(const km_subset *a, const km_subset *b) {
    return a->size == b->size && memcmp(a->columns, b->columns, (size_t)a->size * sizeof *a->columns) == 0;
}

static int by_columns(const void *a, const void *b) {
    const km_subset *x = *(km_subset *const *)a, *y = *(km_subset *const *)b;
    if (x->size != y->size) return x->size < y->size ? -1 : 1;
    for (int64_t i = 0; i < x->size; i++)
        if (x->columns[i] != y->columns[i]) return x->columns[i] < y->columns[i] ? -1 : 1;
    return x < y ? -1 : x > y;
}

// A subset that was drawn before has restarts of its own.
static km_status number_restarts(explore *x) {
    int64_t count = x->out->result.wanted;
    // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
    km_subset **sorted = malloc((size_t)count * sizeof *sorted);
    if (!sorted) return km_fail_memory(x->err, "the subsets", count * 8);
    for (int64_t i = 0; i < count; i++) sorted[i] = &x->subsets[i];
    // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
    qsort(sorted, (size_t)count, sizeof *sorted, by_columns);
    for (int64_t i = 1; i < count; i++)
        if (same_columns(sorted[i - 1], sorted[i]))
            sorted[i]->first_restart = sorted[i - 1]->first_restart + x->params->n_init;
    free(sorted);
    return KM_OK;
}

static km_status choose_subsets(explore *x) {
    KM_TRY(choose_columns(x));
    KM_TRY(choose_sizes(x));
    KM_TRY(count_subsets(x));
    const km_explore_params *p = x->params;
    int64_t count = x->out->result.wanted, most = x->choice.size_max;
    double *numbers = NULL;
    km_status status = KM_OK;
    x->subsets = calloc((size_t)count, sizeof *x->subsets);
    x->columns = km_result_alloc(x->out->owner, count * most, sizeof *x->columns, x->err);
    if (!x->subsets) return km_fail_memory(x->err, "the subsets", count * (int64_t)sizeof *x->subsets);
    if (!x->columns) return KM_ERROR_MEMORY;
    if (p->subsets) {
        numbers = malloc((size_t)count * sizeof *numbers);
        if (!numbers) return km_fail_memory(x->err, "the drawn subsets", count * 8);
        status =
            km_choice_draw(numbers, count, x->out->result.possible, p->with_replacement, p->seed, x->err);
    }
    for (int64_t i = 0; i < count && status == KM_OK; i++) {
        int32_t *columns = x->columns + i * most;
        x->subsets[i].size = km_choice_subset(columns, &x->choice, numbers ? numbers[i] : (double)i);
        x->subsets[i].columns = columns;
    }
    free(numbers);
    return status == KM_OK && p->with_replacement ? number_restarts(x) : status;
}

// Results -----------------------------------------------------------------------------------------------------

static km_status results_alloc(explore *x) {
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

// As a fit's criterion, of the means of the labels.
static double calinski_harabasz(double total, double within, int64_t k, double weight) {
    if (!(within > 0)) return 1;
    return fmax(total - within, 0) / (double)(k - 1) / (within / (weight - (double)k));
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
    if (total > 0) figures[KM_RANK_explained] = 1 - within / total;
    if (x->params->n_init > 1)
        figures[KM_RANK_agreed] = (double)fit->restarts_agreed / (double)x->params->n_init;
    if (k > 1) figures[KM_RANK_simplified_silhouette] = margin / weight;
    if (k > 1 && weight > (double)k)
        figures[KM_RANK_calinski_harabasz] = calinski_harabasz(total, within - fit->off_means, k, weight);
    if (permuted && *permuted > 0 && figures[KM_RANK_calinski_harabasz] > 0)
        figures[KM_RANK_permuted] = log(figures[KM_RANK_calinski_harabasz] / *permuted);
    if (fit->tallies)
        km_outcome_figures(figures, fit->tallies, x->params->outcome, fit->k, x->params->holdout > 0);
}

// Adds to the means over tables of permuted columns.
static void add_permuted(explore *x, int64_t index, const km_subset_fit *fits) {
    for (int64_t q = 0; q < x->clusters_count; q++) {
        double figures[KM_RANK_COUNT];
        figures_of(figures, x, &x->subsets[index], &fits[q], NULL);
        x->permuted[index * x->clusters_count + q] +=
            figures[KM_RANK_calinski_harabasz] / (double)x->params->permutations;
    }
}

// Keeps the K that the ranking prefers.
static void keep_best(explore *x, int64_t index, const km_subset_fit *fits) {
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

// Running -----------------------------------------------------------------------------------------------------

// The fits of one block, with memory of their own.
typedef struct fits {
    km_subset_fit *fits;
    double *reals;
    int64_t *counts;
} fits;

static void fits_free(fits *f) {
    free(f->fits);
    free(f->reals);
    free(f->counts);
}

static int64_t tally_numbers(const explore *x, int64_t k) {
    return x->params->outcome && x->turn == x->turns ? x->tally.cells_count * km_tally_sums(&x->tally) * k
                                                     : 0;
}

static km_status fits_alloc(fits *f, const explore *x, int64_t count, km_error *err) {
    int64_t ks = x->clusters_count, size = x->choice.size_max, numbers = 0;
    for (int64_t q = 0; q < ks; q++)
        numbers += x->clusters[q] * (size + 4) + tally_numbers(x, x->clusters[q]);
    f->fits = calloc((size_t)(count * ks), sizeof *f->fits);
    f->reals = calloc((size_t)(count * numbers), sizeof *f->reals);
    f->counts = calloc((size_t)(count * x->k_sum), sizeof *f->counts);
    if (!f->fits || !f->reals || !f->counts)
        return km_fail_memory(err, "what becomes of a block of subsets", count * numbers * 8);
    double *at = f->reals;
    int64_t *counts = f->counts;
    for (int64_t i = 0; i < count * ks; i++) {
        int64_t k = x->clusters[i % ks];
        f->fits[i] = (km_subset_fit){.k = k, .centroids = at, .counts = counts};
        f->fits[i].weights = at + k * size;
        f->fits[i].sse = f->fits[i].weights + k;
        f->fits[i].distance = f->fits[i].sse + k;
        f->fits[i].margin = f->fits[i].distance + k;
        if (x->params->outcome && x->turn == x->turns) f->fits[i].tallies = f->fits[i].margin + k;
        at += k * (size + 4) + tally_numbers(x, k);
        counts += k;
    }
    return KM_OK;
}

// The thread that called km_explore asks the caller; the others look at what it heard.
static int is_stopped(void *user) {
    explore *x = user;
    int stop;
#pragma omp atomic read
    stop = x->stop;
    if (stop || omp_get_thread_num() != 0) return stop;
    int64_t done;
#pragma omp atomic read
    done = x->done;
    int64_t wanted = x->out->result.wanted;
    km_progress progress = {"explore", x->turn * wanted + done, (x->turns + 1) * wanted, 0,
                            (km_now_ms() - x->begin_ms) / 1e3};
    if (!x->params->progress || !x->params->progress(x->params->progress_user, &progress)) return 0;
#pragma omp atomic write
    x->stop = 1;
    return 1;
}

km_status km_subsets_ask_stopped(const km_subsets_job *job, km_error *err) {
    if (!job->stopped || !job->stopped(job->stopped_user)) return KM_OK;
    return km_fail(err, KM_ERROR_INTERRUPTED, "interrupted");
}

static km_status run_block(explore *x, int64_t first, int64_t count, km_error *err) {
    fits f = {0};
    km_status status = fits_alloc(&f, x, count, err);
    if (status == KM_OK && x->cuda)
        status = km_cuda_subsets_run(x->cuda, &x->job, x->subsets + first, count, f.fits, err);
    else if (status == KM_OK)
        status = km_cpu_subsets_run(&x->job, x->subsets + first, count, f.fits, err);
    for (int64_t i = 0; i < count && status == KM_OK; i++) {
        if (x->turn < x->turns) {
            add_permuted(x, first + i, f.fits + i * x->clusters_count);
            continue;
        }
        keep_best(x, first + i, f.fits + i * x->clusters_count);
        x->is_done[first + i] = 1;
    }
    int64_t distances = 0;
    for (int64_t i = 0; i < count * x->clusters_count && status == KM_OK; i++)
        distances += x->engine->n * f.fits[i].k * f.fits[i].passes;
    fits_free(&f);
    if (status != KM_OK) return status;
#pragma omp atomic update
    x->done += count;
#pragma omp atomic update
    x->out->result.distances += distances;
    return KM_OK;
}

static void make_job(explore *x) {
    const km_explore_params *p = x->params;
    x->job = (km_subsets_job){.table = x->engine,
                              .data = x->data,
                              .stats = &x->stats,
                              .centre = x->load.centre,
                              .factor = x->load.factor,
                              .squares = x->squares,
                              .clusters = x->clusters,
                              .clusters_count = x->clusters_count,
                              .restarts = p->n_init,
                              .init_random = p->init == KM_INIT_RANDOM,
                              .seed = p->seed,
                              .tol = p->tol,
                              .max_iter = p->max_iter,
                              .tally = p->outcome ? &x->tally : NULL,
                              .stopped = is_stopped,
                              .stopped_user = x};
    int64_t count = x->out->result.wanted;
    int64_t labels = x->engine->n * p->n_init * x->clusters_count;
    int64_t tallies = 0; // as numbers, and as counts while they are made
    for (int64_t q = 0; q < x->clusters_count; q++) tallies += 16 * tally_numbers(x, x->clusters[q]);
    x->block = km_min(count / (x->threads * BLOCKS_A_THREAD), km_min(BLOCK_MAX, LABELS_BYTES / labels));
    if (tallies) x->block = km_min(x->block, LABELS_BYTES / tallies);
    x->block = km_max(x->block, 1);
    if (x->ordinal == KM_HOST)
        x->out->result.subset_bytes = km_cpu_subsets_bytes(&x->job, x->choice.size_max) + tallies;
}

// A GPU's kernels for the sizes that are explored. One thread starts them, with many subsets at a time.
static km_status make_cuda(explore *x) {
    int32_t sizes[KM_FEATURES_DENSE_MAX];
    int64_t count = 0;
    km_module_params module;
    if (x->ordinal == KM_HOST) return KM_OK;
    for (int64_t size = x->choice.size_min; size <= x->choice.size_max; size++)
        sizes[count++] = (int32_t)size;
    module_params(&module, x);
    KM_TRY(km_cuda_subsets_create(&x->cuda, &x->job, sizes, count, &module, x->err));
    x->threads = 1;
    x->block = km_cuda_subsets_block(&x->job);
    if (x->params->outcome)
        x->block = km_max(km_min(x->block, TALLIES_BYTES / (8 * tally_numbers(x, x->k_sum))), 1);
    x->out->result.subset_bytes = km_cuda_subsets_bytes(&x->job, x->choice.size_max);
    return KM_OK;
}

static km_status run_all(explore *x) {
    int64_t count = x->out->result.wanted, blocks = km_divide_up(count, x->block);
    int threads = (int)km_min(x->threads, blocks);
    km_status first = KM_OK;
    if (!x->cuda) KM_TRY(km_host_check("the subsets in work", x->out->result.subset_bytes * threads, x->err));
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1)
    for (int64_t b = 0; b < blocks; b++) {
        km_error own = {""};
        if (is_stopped(x)) continue;
        int64_t from = b * x->block;
        km_status status = run_block(x, from, km_min(x->block, count - from), &own);
        if (status == KM_OK) continue;
#pragma omp critical(km_explore_failed)
        if (first == KM_OK || (first == KM_ERROR_INTERRUPTED && status != first)) {
            first = status;
            if (x->err) x->err->text[0] = 0;
            km_fail(x->err, status, "%s", own.text);
        }
#pragma omp atomic write
        x->stop = 1;
    }
    if (first == KM_ERROR_INTERRUPTED || (first == KM_OK && x->done < count)) {
        if (x->done == 0 || x->turn < x->turns)
            return km_fail(x->err, KM_ERROR_INTERRUPTED, "interrupted before a subset was done");
        if (x->err) x->err->text[0] = 0;
        km_result_warn(x->out->owner, x->params->log,
                       "interrupted after %lld of %lld subsets: the result is of these", (long long)x->done,
                       (long long)count);
        return KM_OK;
    }
    return first;
}

static km_status permute(explore *x, int undo, km_error *err) {
    if (x->cuda) return km_cuda_subsets_permute(x->cuda, x->params->seed, x->turn, undo, err);
    km_cpu_subsets_permute(x->engine, x->params->seed, x->turn, undo);
    return KM_OK;
}

// The same subsets of tables whose columns are permuted, one after another, before those of the table itself.
static km_status run_permuted(explore *x) {
    km_status status = KM_OK;
    int64_t count = x->out->result.wanted * x->clusters_count;
    if (x->params->rank != KM_RANK_permuted) return KM_OK;
    x->permuted = calloc((size_t)count, sizeof *x->permuted);
    if (!x->permuted) return km_fail_memory(x->err, "figures of permuted columns", count * 8);
    const km_tally *tally = x->job.tally;
    x->turns = x->params->permutations;
    x->job.tally = NULL;
    for (x->turn = 0; x->turn < x->turns && status == KM_OK; x->turn++) {
        status = permute(x, 0, x->err);
        if (status == KM_OK) status = run_all(x);
        km_status undone = permute(x, 1, status == KM_OK ? x->err : NULL);
        if (status == KM_OK) status = undone;
        x->done = 0;
    }
    x->job.tally = tally;
    return status;
}

// Ranking -----------------------------------------------------------------------------------------------------

// Only what is done stays, in its order.
static void keep_done(explore *x) {
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

static void warn_of_subsets(explore *x) {
    const km_explore_result *result = &x->out->result;
    int64_t few = 0, unconverged = 0;
    for (int64_t i = 0; i < result->count; i++) {
        few += result->subsets[i].effective_k < result->subsets[i].k;
        unconverged += !result->subsets[i].converged;
    }
    if (few)
        km_result_warn(x->out->owner, x->params->log,
                       "%lld of %lld subsets have fewer different points than K, and so fewer clusters",
                       (long long)few, (long long)result->count);
    if (unconverged && x->params->max_iter >= 100)
        km_result_warn(x->out->owner, x->params->log, "%lld of %lld subsets stopped at %lld iterations",
                       (long long)unconverged, (long long)result->count, (long long)x->params->max_iter);
}

// Labels of all points by one of the best subsets, by one more read of the table.
static km_status make_code(explore *x, uint8_t *code, int64_t place) {
    const km_explore_result *result = &x->out->result;
    const km_explored *explored = &result->subsets[result->ranking[place]];
    int32_t k = explored->k;
    explore alone = *x;
    alone.clusters = &k;
    alone.clusters_count = 1;
    alone.k_sum = k;
    fits f = {0};
    km_subsets_job job = x->job;
    job.clusters = &k;
    job.clusters_count = job.restarts = 1;
    job.tally = NULL;
    job.stopped = NULL;
    km_status status = fits_alloc(&f, &alone, 1, x->err);
    if (status == KM_OK) {
        f.fits[0].codes = code;
        f.fits[0].tallies = NULL;
        for (int64_t j = 0; j < k * explored->size; j++)
            f.fits[0].centroids[j] = ldexp(explored->centroids_fitted[j], x->load.exponent);
        const km_subset *subset = &x->subsets[result->ranking[place]];
        status = x->cuda ? km_cuda_subsets_finish(x->cuda, &job, subset, 1, f.fits, x->err)
                         : km_cpu_subsets_finish(&job, subset, 1, f.fits, x->err);
    }
    fits_free(&f);
    return status;
}

// Codes of the best subsets: a row for each row of the table, and what they say together.
static km_status make_codes(explore *x) {
    km_explore_owner *out = x->out;
    km_explore_result *result = &out->result;
    int64_t n = result->n, rows = result->rows,
            count = km_min(x->params->codes < 0 ? result->best : x->params->codes, result->count);
    int64_t combined = x->params->outcome ? km_min(x->params->combine, result->count) : 0;
    km_codes codes = {.n = n, .count = combined, .weights = km_data_weights(x->data)};
    km_status status = KM_OK;
    if (count == 0 && combined == 0) return KM_OK;
    uint8_t *all = count ? km_result_alloc_large(out->owner, rows * count, 1, x->err) : NULL;
    uint8_t *own = malloc((size_t)(n * (combined + 1)));
    if ((count && !all) || !own)
        status = km_fail_memory(x->err, "the codes", rows * count + n * (combined + 1));
    if (status == KM_OK && all) memset(all, 255, (size_t)(rows * count));
    for (int64_t i = 0; i < km_max(count, combined) && status == KM_OK; i++) {
        uint8_t *one = own + km_min(i, combined) * n;
        status = make_code(x, one, i);
        for (int64_t p = 0; p < n && i < count && status == KM_OK; p++)
            all[km_data_row_of(x->data, p) * count + i] = one[p];
        if (i < combined) codes.k[i] = result->subsets[result->ranking[i]].k;
    }
    codes.codes = own;
    if (status == KM_OK && combined)
        status = km_explore_combine(out, &codes, &x->tally, x->params->outcome, x->err);
    free(own);
    result->codes = status == KM_OK ? count : 0;
    result->codes_of_rows = status == KM_OK ? all : NULL;
    return status;
}

static void describe(explore *x) {
    const km_explore_params *p = x->params;
    km_explore_result *result = &x->out->result;
    result->type = p->type;
    result->scale = p->scale;
    result->seed = p->seed;
    result->n_init = p->n_init;
    result->holdout = p->holdout;
    result->best = p->best;
    result->classes = p->outcome ? p->outcome->classes : 0;
    result->rank = p->rank != KM_RANK_AUTO ? p->rank
                   : !p->outcome           ? KM_RANK_simplified_silhouette
                   : p->outcome->classes   ? KM_RANK_balanced_accuracy
                                           : KM_RANK_r2;
    for (int r = 0; r < KM_RANK_COUNT; r++) result->baseline[r] = NAN;
}

static km_status prepare_outcome(explore *x) {
    const km_explore_params *p = x->params;
    km_explore_result *result = &x->out->result;
    if (!p->outcome) return KM_OK;
    for (int64_t c = 0; c < km_data_features(x->data); c++) {
        const char *name = km_data_feature_name(x->data, c);
        if (!name || strcmp(name, p->outcome->name) != 0) continue;
        return km_fail(x->err, KM_ERROR_USAGE,
                       "the outcome %s is also a column that is clustered; leave it out of the "
                       "columns, or exclude it",
                       name);
    }
    KM_TRY(km_outcome_tally(&x->tally, &x->cells, &x->values, p->outcome, x->data, p->holdout, p->seed,
                            &result->outcome_rows, &result->outcome_held_out, x->err));
    return km_outcome_baseline(result->baseline, &x->tally, p->outcome, x->data, p->holdout > 0, x->err);
}

static void explore_free(explore *x) {
    km_cuda_subsets_destroy(&x->cuda);
    if (x->engine) x->engine->backend->engine_destroy(&x->engine);
    km_build_clear(&x->build);
    if (x->device) km_device_close(&x->device);
    km_spec_clear(&x->spec);
    km_data_stats_free(&x->stats);
    free(x->always);
    free(x->cells);
    free(x->values);
    free(x->permuted);
    free(x->subsets);
}

static km_status walk(explore *x) {
    km_explore_result *result = &x->out->result;
    x->clusters_default[0] = 8;
    x->clusters = x->params->clusters_count ? x->params->clusters : x->clusters_default;
    x->clusters_count = x->params->clusters_count ? x->params->clusters_count : 1;
    for (int64_t q = 0; q < x->clusters_count; q++) {
        x->k_max = km_max(x->k_max, x->clusters[q]);
        x->k_sum += x->clusters[q];
    }
    KM_TRY(check_params(x));
    describe(x);
    KM_TRY(prepare_outcome(x));
    KM_TRY(load_table(x));
    result->load_ms = km_now_ms() - x->begin_ms;
    KM_TRY(choose_subsets(x));
    KM_TRY(results_alloc(x));
    make_job(x);
    KM_TRY(make_cuda(x));
    km_log_line(x->params->log, KM_LOG_INFO, "explore: %lld subsets in blocks of %lld on %lld threads",
                (long long)result->wanted, (long long)x->block, (long long)x->threads);
    KM_TRY(run_permuted(x));
    KM_TRY(run_all(x));
    km_log_line(x->params->log, KM_LOG_INFO,
                "explore: %.4g distances in the passes, %.0f ms; %.3g MB of table, %.3g MB a subset in work",
                (double)result->distances, km_now_ms() - x->begin_ms - result->load_ms,
                (double)result->table_bytes / 1e6, (double)result->subset_bytes / 1e6);
    keep_done(x);
    KM_TRY(km_explore_rank(x->out, x->err));
    warn_of_subsets(x);
    KM_TRY(make_codes(x));
    if (x->cuda) result->distances = km_cuda_subsets_distances(x->cuda);
    result->warnings = x->out->owner->result.warnings;
    result->warnings_count = x->out->owner->result.warnings_count;
    result->run_ms = km_now_ms() - x->begin_ms - result->load_ms;
    return km_data_check(x->data, x->err);
}

// Whether a GPU pays: its start and kernels take as long as the CPU takes for so many distances.
static int pays_on_gpu(const km_data *data, const km_explore_params *p) {
    const double distances_enough = 2e10;
    double passes = 10 * (p->rank == KM_RANK_permuted ? 1 + (double)p->permutations : 1);
    int64_t d = km_data_features(data), size = p->size_max ? p->size_max : SIZE_DEFAULT;
    km_choice all = {.others_count = d, .size_min = p->size_min ? p->size_min : size, .size_max = size};
    double clusters = 0, subsets = p->subsets ? (double)p->subsets : km_choice_count(&all);
    for (int64_t q = 0; q < p->clusters_count; q++) clusters += p->clusters[q];
    if (p->clusters_count == 0) clusters = 8;
    return (double)km_data_points(data) * subsets * (double)p->n_init * clusters * passes >= distances_enough;
}

static km_status explore_on(km_explore_result **out, const km_data *data, const km_explore_params *params,
                            int ordinal, const char *instead, km_error *err) {
    explore x = {.params = params, .data = data, .begin_ms = km_now_ms(), .ordinal = ordinal, .err = err};
    *out = NULL;
    km_spec_init(&x.spec);
    km_build_init(&x.build);
    km_status status = km_explore_create(&x.out, err);
    if (status == KM_OK && instead)
        km_result_warn(x.out->owner, params->log, "the CPU explores, as the GPU could not: %s", instead);
    if (status == KM_OK) status = walk(&x);
    explore_free(&x);
    km_explore_result *result = x.out ? &x.out->result : NULL;
    if (status == KM_OK)
        *out = result;
    else
        km_explore_destroy(&result);
    return status;
}

km_status km_explore(km_explore_result **out, const km_data *data, const km_explore_params *params,
                     km_error *err) {
    km_explore_params defaults;
    km_error first = {""};
    km_explore_params_init(&defaults);
    if (!params) params = &defaults;
    if (params->device != KM_DEVICE_AUTO) return explore_on(out, data, params, params->device, NULL, err);
    if (!pays_on_gpu(data, params) || km_device_count() == 0)
        return explore_on(out, data, params, KM_HOST, NULL, err);
    km_status status = explore_on(out, data, params, 0, NULL, &first);
    if (status == KM_ERROR_DEVICE || status == KM_ERROR_COMPILE || status == KM_ERROR_PLAN ||
        status == KM_ERROR_MEMORY)
        return explore_on(out, data, params, KM_HOST, first.text, err);
    return status == KM_OK ? KM_OK : km_fail(err, status, "%s", first.text);
}

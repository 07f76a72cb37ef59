// SPDX-License-Identifier: MIT
// The result of km_explore: its memory, the order of its subsets, models of them.
#include "explored.h"
#include "../../base/error.h"
#include <kmgen/model.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BEST_DEFAULT = 10 };

static const struct {
    const char *name, *title;
    km_rank_needs needs;
} ranks[] = {
#define KM_RANK_ROW(name, title, needs) {#name, title, needs},
    KM_RANKS(KM_RANK_ROW)
#undef KM_RANK_ROW
};

const char *km_rank_name(km_rank rank) {
    if (rank == KM_RANK_AUTO) return "auto";
    return (unsigned)rank < KM_RANK_COUNT ? ranks[rank].name : "none";
}

const char *km_rank_title(km_rank rank) {
    return (unsigned)rank < KM_RANK_COUNT ? ranks[rank].title : "none";
}

km_rank_needs km_rank_needs_of(km_rank rank) {
    return (unsigned)rank < KM_RANK_COUNT ? ranks[rank].needs : KM_RANK_ANY;
}

km_status km_explore_create(km_explore_owner **out, km_error *err) {
    *out = calloc(1, sizeof **out);
    if (!*out) return km_fail_memory(err, "the result", (int64_t)sizeof **out);
    return km_result_create(&(*out)->owner, err);
}

void km_explore_destroy(km_explore_result **result) {
    km_explore_owner *out = result ? (km_explore_owner *)*result : NULL;
    if (!out) return;
    km_result *memory = out->owner ? &out->owner->result : NULL;
    km_result_destroy(&memory);
    free(out);
    *result = NULL;
}

km_status km_explore_keep_names(km_explore_owner *out, const km_data *data, km_error *err) {
    int64_t d = out->result.d;
    if (!km_data_feature_names(data)) return KM_OK;
    const char **names = km_result_alloc(out->owner, d, sizeof *names, err);
    if (!names) return KM_ERROR_MEMORY;
    for (int64_t c = 0; c < d; c++) {
        const char *name = km_data_feature_name(data, c);
        char *copy = km_result_alloc(out->owner, (int64_t)strlen(name) + 1, 1, err);
        if (!copy) return KM_ERROR_MEMORY;
        names[c] = strcpy(copy, name);
    }
    out->result.names = names;
    return KM_OK;
}

// Ranking -----------------------------------------------------------------------------------------------------

typedef struct place {
    double figure;
    int64_t index;
} place;

// The larger figure first, then the lower index; what has none last.
static int by_figure(const void *a, const void *b) {
    const place *x = a, *y = b;
    if (isnan(x->figure) != isnan(y->figure)) return isnan(x->figure) ? 1 : -1;
    if (x->figure > y->figure || x->figure < y->figure) return x->figure > y->figure ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

km_status km_explore_rank(km_explore_owner *out, km_error *err) {
    km_explore_result *result = &out->result;
    int64_t count = result->count, *in_subsets = out->among_best + result->d;
    place *places = malloc((size_t)count * sizeof *places);
    if (!places) return km_fail_memory(err, "the ranking", count * (int64_t)sizeof *places);
    for (int64_t i = 0; i < count; i++) places[i] = (place){out->explored[i].figures[result->rank], i};
    qsort(places, (size_t)count, sizeof *places, by_figure);
    if (!result->best) result->best = count < 5 * BEST_DEFAULT ? (count + 4) / 5 : BEST_DEFAULT;
    if (result->best > count) result->best = count;
    for (int64_t i = 0; i < count; i++) {
        const km_explored *subset = &out->explored[out->ranking[i] = places[i].index];
        for (int64_t f = 0; f < subset->size; f++) {
            in_subsets[subset->columns[f]]++;
            out->among_best[subset->columns[f]] += i < result->best;
        }
    }
    free(places);
    result->ranking = out->ranking;
    result->among_best = out->among_best;
    result->in_subsets = in_subsets;
    return KM_OK;
}

// Models ------------------------------------------------------------------------------------------------------

km_status km_explore_write_model(const char *path, const km_explore_result *result, int64_t index,
                                 km_error *err) {
    const km_explore_owner *out = (const km_explore_owner *)result;
    if (index < 0 || index >= result->count)
        return km_fail(err, KM_ERROR_USAGE, "subset %lld does not exist: there are 0..%lld", (long long)index,
                       (long long)result->count - 1);
    const km_explored *subset = &result->subsets[index];
    int64_t size = subset->size;
    const char **names = calloc((size_t)size, sizeof *names);
    double *numbers = calloc((size_t)(2 * size), sizeof *numbers);
    km_status status = names && numbers ? KM_OK : km_fail_memory(err, "the model", size * 24);
    km_model model = {.k = subset->k,
                      .inertia = subset->inertia,
                      .centroids = subset->centroids,
                      .centroids_fitted = subset->centroids_fitted};
    km_result one = {.d = size,
                     .type = result->type,
                     .scale = result->scale,
                     .centre = numbers,
                     .exponent = out->exponent,
                     .models = &model,
                     .models_count = 1};
    one.factor = numbers + size;
    km_plan_init(&one.plan);
    one.selection.clustered = 1;
    for (int64_t f = 0; f < size && status == KM_OK; f++) {
        int64_t c = subset->columns[f];
        numbers[f] = out->centre[c];
        numbers[size + f] = ldexp(out->factor[c], -out->exponent);
        if (result->names) names[f] = result->names[c];
    }
    if (result->names) one.feature_names = names;
    if (status == KM_OK) status = km_predictor_write(path, &one, 0, err);
    free(names);
    free(numbers);
    return status;
}

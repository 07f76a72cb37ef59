// SPDX-License-Identifier: MIT
// The digest of a result. It goes through the parts one by one, each hashed with the hash of those before as its seed:
// so there is no state to allocate. Numbers are 64-bit little-endian words, labels 32-bit ones.
#include "../base/size.h"
#include "result_owner.h"
#include "threads.h"
#include <kmgen/result.h>

#include <endian.h>
#include <math.h>
#include <string.h>
#include <xxhash.h>

enum {
    LABELS_TOGETHER = 1 << 14, // that one call hashes: part of the digest's definition
    THREADS_MAX = 16           // a result does not know how many its fit had
};

static uint64_t add_integer(uint64_t digest, int64_t value) {
    uint64_t bytes = htole64((uint64_t)value);
    return XXH3_64bits_withSeed(&bytes, sizeof bytes, digest);
}

// NaN has many forms, and counts as one.
static uint64_t add_reals(uint64_t digest, const double *values, int64_t count) {
    for (int64_t i = 0; values && i < count; i++) {
        uint64_t bits = 0x7ff8000000000000u;
        if (!isnan(values[i])) memcpy(&bits, &values[i], sizeof bits);
        digest = add_integer(digest, (int64_t)bits);
    }
    return digest;
}

static uint64_t add_integers(uint64_t digest, const int64_t *values, int64_t count) {
    for (int64_t i = 0; i < count; i++) digest = add_integer(digest, values[i]);
    return digest;
}

static uint64_t add_name(uint64_t digest, int criterion) {
    const char *name = km_criterion_name((km_criterion)criterion);
    return XXH3_64bits_withSeed(name, strlen(name), digest);
}

// Of the criteria that were computed, by name: one that is added to the list changes no digest of results without it.
static uint64_t add_scores(uint64_t digest, const km_model *model) {
    for (int c = 0; c < KM_CRITERION_COUNT; c++) {
        if (isnan(model->scores[c])) continue;
        digest = add_reals(add_name(digest, c), &model->scores[c], 1);
        digest = add_reals(digest, &model->score_errors[c], 1);
    }
    return digest;
}

static uint64_t add_votes(uint64_t digest, const int64_t votes[KM_CRITERION_COUNT]) {
    for (int c = 0; c < KM_CRITERION_COUNT; c++)
        if (votes[c] >= 0) digest = add_integer(add_name(digest, c), votes[c]);
    return digest;
}

// Hashes of blocks, each with its number among all as its seed, are added up: so each rank hashes its own.
uint64_t km_labels_digest(const km_model *model, const km_result *result) {
    int64_t rows = model->labels ? result->rows : 0;
    int threads = (int)km_min(km_min(km_host_threads(0), THREADS_MAX), rows / (16 * LABELS_TOGETHER) + 1);
    uint64_t sum = 0;
    (void)threads;
#pragma omp parallel for schedule(static) num_threads(threads) reduction(+ : sum) if (threads > 1)
    for (int64_t first = 0; first < rows; first += LABELS_TOGETHER) {
        uint32_t words[LABELS_TOGETHER];
        int64_t here = km_min(rows - first, LABELS_TOGETHER);
        for (int64_t i = 0; i < here; i++) words[i] = htole32((uint32_t)model->labels[first + i]);
        sum += XXH3_64bits_withSeed(words, (size_t)here * sizeof *words,
                                    (uint64_t)((result->first_row + first) / LABELS_TOGETHER));
    }
    return sum;
}

static uint64_t add_model(uint64_t digest, const km_result *result, const km_model *model) {
    int64_t k = model->k;
    const int64_t numbers[] = {k,
                               model->effective_k,
                               model->restart,
                               model->restarts,
                               model->restarts_agreed,
                               model->n_iter,
                               model->converged != 0,
                               model->refined != 0,
                               model->at_rest != 0,
                               model->restart_inertia != NULL,
                               model->valleys != NULL,
                               model->labels != NULL};
    digest = add_integers(digest, numbers, (int64_t)(sizeof numbers / sizeof *numbers));
    digest = add_reals(digest, &model->inertia, 1);
    digest = add_reals(digest, model->restart_inertia, model->restarts);
    digest = add_reals(digest, model->centroids, k * result->d);
    digest = add_integers(digest, model->counts, k);
    digest = add_reals(digest, model->weights, k);
    digest = add_reals(digest, model->sse, k);
    digest = add_scores(digest, model);
    digest = add_reals(digest, model->valleys, k);
    if (!model->labels) return digest;
    return add_integer(digest, (int64_t)(km_labels_digest(model, result) + model->labels_elsewhere));
}

uint64_t km_result_digest(const km_result *result) {
    const km_selection *chosen = &result->selection;
    const int64_t numbers[] = {
        result->n,      result->d,     result->rows_all,    result->type, (int64_t)result->seed,
        result->n_init, result->scale, result->models_count};
    uint64_t digest = add_integers(0, numbers, (int64_t)(sizeof numbers / sizeof *numbers));
    for (int64_t m = 0; m < result->models_count; m++) digest = add_model(digest, result, &result->models[m]);
    digest = add_integer(digest, chosen->best);
    digest = add_integer(digest, chosen->clustered != 0);
    return add_votes(digest, chosen->votes);
}

// SPDX-License-Identifier: MIT
// A restart can win only while its inertia is within the limit and no restart of a lower number has one as small. The
// limit never rises, so what is dropped could not have won any more: the winner does not depend on the order.
#include "contest.h"
#include "../base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void km_contest_init(km_contest *contest, double *rows, int64_t rows_bytes) {
    *contest = (km_contest){.limit = HUGE_VAL, .rows = rows, .rows_bytes = rows_bytes};
}

static void restart_free(const km_contest *contest, km_restart *restart) {
    if (restart->centroids != contest->rows) free(restart->centroids);
}

void km_contest_free(km_contest *contest) {
    for (int64_t i = 0; i < contest->count; i++) restart_free(contest, &contest->restarts[i]);
    free(contest->restarts);
    *contest = (km_contest){0};
}

// Whether `a` wins whenever `b` could.
static int is_ahead(const km_restart *a, const km_restart *b) {
    return a->index < b->index && a->inertia <= b->inertia;
}

static void drop_hopeless(km_contest *contest, const km_restart *restart) {
    int64_t kept = 0;
    for (int64_t i = 0; i < contest->count; i++) {
        if (contest->restarts[i].inertia > contest->limit || is_ahead(restart, &contest->restarts[i]))
            restart_free(contest, &contest->restarts[i]);
        else
            contest->restarts[kept++] = contest->restarts[i];
    }
    contest->count = kept;
}

// Memory for centroids: the caller's while no restart has it.
static double *memory_for_rows(const km_contest *contest) {
    for (int64_t i = 0; i < contest->count; i++)
        if (contest->restarts[i].centroids == contest->rows) return malloc((size_t)contest->rows_bytes);
    return contest->rows;
}

static km_status insert(km_contest *contest, const km_restart *restart, km_error *err) {
    if (contest->count == contest->capacity) {
        int64_t capacity = 2 * contest->capacity + 2;
        km_restart *more = realloc(contest->restarts, (size_t)capacity * sizeof *more);
        if (!more) return km_fail_memory(err, "restarts of equal inertia", capacity * (int64_t)sizeof *more);
        contest->restarts = more;
        contest->capacity = capacity;
    }
    double *centroids = memory_for_rows(contest);
    if (!centroids) return km_fail_memory(err, "centroids of restarts of equal inertia", contest->rows_bytes);
    memcpy(centroids, restart->centroids, (size_t)contest->rows_bytes);
    int64_t at = contest->count++;
    for (; at > 0 && contest->restarts[at - 1].index > restart->index; at--)
        contest->restarts[at] = contest->restarts[at - 1];
    contest->restarts[at] = *restart;
    contest->restarts[at].centroids = centroids;
    return KM_OK;
}

km_status km_contest_offer(km_contest *contest, const km_restart *restart, km_error *err) {
    if (restart->inertia + restart->rounding < contest->limit)
        contest->limit = restart->inertia + restart->rounding;
    drop_hopeless(contest, restart);
    if (restart->inertia > contest->limit) return KM_OK;
    for (int64_t i = 0; i < contest->count; i++)
        if (is_ahead(&contest->restarts[i], restart)) return KM_OK;
    return insert(contest, restart, err);
}

const km_restart *km_contest_winner(km_contest *contest) {
    km_restart *winner = &contest->restarts[0];
    if (winner->centroids != contest->rows)
        memcpy(contest->rows, winner->centroids, (size_t)contest->rows_bytes);
    for (int64_t i = 0; i < contest->count; i++) restart_free(contest, &contest->restarts[i]);
    winner->centroids = contest->rows;
    contest->count = 1;
    return winner;
}

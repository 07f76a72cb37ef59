// SPDX-License-Identifier: MIT
#include "share.h"
#include "../base/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 1024 };   // of a sentence that goes to all ranks
enum { COPIED_MAX = 2048 }; // numbers that are copied, so that the answers of callers travel with them

// The sum of the answers of all ranks: those that stop with a result count 1, those that stop count so much.
#define STOPS 0x1p24

void km_share_tell(km_share *share, int answer) {
    km_share_stop told = !answer                             ? KM_SHARE_GOES_ON
                         : answer == KM_FIT_STOP_WITH_RESULT ? KM_SHARE_STOPS_WITH_RESULT
                                                             : KM_SHARE_STOPS;
    if (told > share->told) share->told = told;
}

// Whether there is nothing to wait for.
static int is_end(const km_share *share, km_share_stop stop) {
    return stop == KM_SHARE_STOPS || (stop == KM_SHARE_STOPS_WITH_RESULT && !share->has_models);
}

int km_share_leaves(const km_share *share) {
    return is_end(share, share->told);
}

static double own_answer(const km_share *share) {
    return share->told == KM_SHARE_STOPS ? STOPS : (double)(share->told == KM_SHARE_STOPS_WITH_RESULT);
}

static km_status interrupted(km_share *share, km_error *err) {
    share->is_over = 1;
    return km_fail(err, KM_ERROR_INTERRUPTED, "interrupted");
}

static km_status take_answers(km_share *share, double sum, km_error *err) {
    if (sum >= STOPS)
        share->agreed = KM_SHARE_STOPS;
    else if (sum > 0 && share->agreed == KM_SHARE_GOES_ON)
        share->agreed = KM_SHARE_STOPS_WITH_RESULT;
    return is_end(share, share->agreed) ? interrupted(share, err) : KM_OK;
}

static km_status add(km_share *share, double *values, int64_t count, km_error *err) {
    const km_communicator *ranks = share->ranks;
    if (is_end(share, share->agreed)) return interrupted(share, err);
    for (int64_t i = 0; i < count; i++) values[i] += 0.0;
    return ranks->sum(ranks->user, values, count) == 0 ? KM_OK : km_share_lost(share, err);
}

km_status km_share_sum_in_room(km_share *share, double *values, int64_t count, km_error *err) {
    if (!share) return KM_OK;
    values[count] = own_answer(share);
    KM_TRY(add(share, values, count + 1, err));
    return take_answers(share, values[count], err);
}

// Of many numbers the answers are a message of their own, which adds little to theirs.
km_status km_share_sum(km_share *share, double *values, int64_t count, km_error *err) {
    double room[COPIED_MAX + 1];
    if (!share || count < 1) return KM_OK;
    if (count > COPIED_MAX) {
        KM_TRY(add(share, values, count, err));
        return km_share_sum_in_room(share, room, 0, err);
    }
    memcpy(room, values, (size_t)count * sizeof *room);
    km_status status = km_share_sum_in_room(share, room, count, err);
    if (status == KM_OK) memcpy(values, room, (size_t)count * sizeof *room);
    return status;
}

int km_share_is_lost(const km_share *share) {
    return share && (share->is_over || (share->ranks->is_lost && share->ranks->is_lost(share->ranks->user)));
}

km_status km_share_lost(km_share *share, km_error *err) {
    const km_communicator *ranks = share->ranks;
    share->is_over = 1;
    return km_fail(err, KM_ERROR_IO, "rank %lld of %lld: another rank has ended, so this one does",
                   (long long)ranks->rank, (long long)ranks->size);
}

km_status km_share_gather(km_share *share, double *all, int64_t all_count, const double *own, int64_t at,
                          int64_t count, int64_t width, km_error *err) {
    memset(all, 0, (size_t)(all_count * width) * sizeof *all);
    if (count > 0) memcpy(all + at * width, own, (size_t)(count * width) * sizeof *all);
    return km_share_sum(share, all, all_count * width, err);
}

// The sentence of one rank, on all.
static km_status tell(km_share *share, km_status own, int64_t teller, int all_failed, km_error *err) {
    double letters[TEXT_MAX + 1] = {0};
    char text[TEXT_MAX] = "";
    const km_communicator *ranks = share->ranks;
    if (ranks->rank == teller) {
        letters[TEXT_MAX] = (double)own;
        for (int64_t i = 0; err->text[i] && i < TEXT_MAX - 1; i++) letters[i] = (unsigned char)err->text[i];
    }
    KM_TRY(km_share_sum(share, letters, TEXT_MAX + 1, err));
    for (int64_t i = 0; i < TEXT_MAX - 1; i++) text[i] = (char)(unsigned char)letters[i];
    share->is_over = 1;
    err->text[0] = 0;
    km_status status = (km_status)(int)letters[TEXT_MAX];
    if (all_failed) return km_fail(err, status, "%s", text);
    return km_fail(err, status, "rank %lld of %lld: %s", (long long)teller, (long long)ranks->size, text);
}

km_status km_share_agree(km_share *share, km_status own, km_error *err) {
    enum { FINE, FAILED, FAILED_UNNAMED };
    if (!share || share->is_over) return own;
    const km_communicator *ranks = share->ranks;
    double *found = calloc((size_t)ranks->size, sizeof *found);
    if (!found) return km_fail_memory(err, "the states of ranks", ranks->size * 8);
    if (own != KM_OK) found[ranks->rank] = err->text[0] ? FAILED : FAILED_UNNAMED;
    km_status status = km_share_sum(share, found, ranks->size, err);
    int64_t named = -1, failed = 0, teller = -1;
    for (int64_t r = ranks->size - 1; r >= 0; r--) {
        failed += found[r] != FINE;
        if (found[r] != FINE) teller = r;
        if (found[r] == FAILED) named = r;
    }
    free(found);
    if (status != KM_OK || !failed) return status;
    // An error of the data as a whole is found by all, but only one rank has the value that it is about.
    return tell(share, own, named >= 0 ? named : teller, failed == ranks->size, err);
}

km_status km_share_same(km_share *share, int64_t number, const char *file, const char *what, km_error *err) {
    double sum = (double)number;
    km_status own = KM_OK;
    KM_TRY(km_share_sum(share, &sum, 1, err));
    if (sum != (double)number * (double)share->ranks->size)
        own = km_fail(err, KM_ERROR_DATA,
                      "%s has %lld %s here, and others on other ranks; give all the same file", file,
                      (long long)number, what);
    return km_share_agree(share, own, err);
}

// Each but the last that has points holds whole chunks, so that chunks are those of one process.
static km_status check_shares(const double *counts, int64_t size, int64_t n_all, km_error *err) {
    int64_t before = 0;
    for (int64_t r = 0; r < size; r++) {
        if (counts[r] > 0 && before % KM_CHUNK_POINTS != 0)
            return km_fail(err, KM_ERROR_USAGE,
                           "the ranks below %lld have %lld points together; all ranks but the last that has "
                           "points need a multiple of %d each (km_share_of says which)",
                           (long long)r, (long long)before, KM_CHUNK_POINTS);
        before += (int64_t)counts[r];
    }
    return n_all > 0 ? KM_OK : km_fail(err, KM_ERROR_DATA, "no rank has points");
}

km_status km_share_begin(km_share *share, const km_communicator *ranks, int64_t n, km_error *err) {
    *share = (km_share){.ranks = ranks, .n = n};
    double *counts = calloc((size_t)ranks->size, sizeof *counts);
    if (!counts) return km_fail_memory(err, "the shares of ranks", ranks->size * 8);
    counts[ranks->rank] = (double)n;
    km_status status = km_share_sum(share, counts, ranks->size, err);
    for (int64_t r = 0; r < ranks->size; r++) {
        if (r < ranks->rank) share->first += (int64_t)counts[r];
        share->n_all += (int64_t)counts[r];
    }
    if (status == KM_OK) {
        status = check_shares(counts, ranks->size, share->n_all, err);
        share->is_over = status != KM_OK; // which all find alike
    }
    free(counts);
    return status;
}

void km_share_of(int64_t *first, int64_t *count, int64_t n, int64_t rank, int64_t size) {
    int64_t chunks = km_chunks_of(n), from = chunks / size * rank + km_min(chunks % size, rank);
    int64_t to = from + chunks / size + (rank < chunks % size);
    *first = km_min(from * KM_CHUNK_POINTS, n);
    *count = km_min(to * KM_CHUNK_POINTS, n) - *first;
}

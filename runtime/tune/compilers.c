// SPDX-License-Identifier: MIT
// Processes that compile candidates ahead of the search.
#include "../../base/clock.h"
#include "../../base/size.h"
#include "../../gen/words.h"
#include "running.h"

#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum {
    NOTHING = -1, // what a compiler is at, where it is no candidate
    OPENING = -2,
    AHEAD = 48 // candidates that are compiled ahead of the search
};

km_status km_tuning_start_compilers(km_tuning_state *t) {
    // A GPU is measured meanwhile: a core is left to what launches its passes.
    int64_t cores = km_max(1, omp_get_num_procs() - (t->result->facts.target.kind == KM_TARGET_CUDA));
    int64_t jobs = t->params->jobs > 0 ? t->params->jobs : cores;
    if (!t->params->cache_dir) jobs = 0; // what one compiles, another could not load
    jobs = km_min(km_min(jobs, KM_COMPILERS_MAX), t->space.count);
    for (int64_t i = 0; i < jobs; i++) {
        t->compiling[i] = OPENING;
        KM_TRY(km_tuning_start_worker(t, &t->compilers[t->compilers_count++]));
    }
    return KM_OK;
}

static int is_compiling(const km_tuning_state *t) {
    for (int64_t i = 0; i < t->compilers_count; i++)
        if (t->compiling[i] != NOTHING) return 1;
    return 0;
}

static int is_being_compiled(const km_tuning_state *t, int64_t at) {
    for (int64_t i = 0; i < t->compilers_count; i++)
        if (t->compiling[i] == at) return 1;
    return 0;
}

int km_tuning_takes_turns(const km_tuning_state *t) {
    return t->result->facts.target.kind == KM_TARGET_CPU && t->compilers_count;
}

// Takes what a compiler says of a candidate: one that is not to be run is told at once.
static km_status take_compiled(km_tuning_state *t, int64_t at, const km_tune_candidate *found) {
    if (found->outcome == KM_TUNE_UNMEASURED || t->space.candidates[at].outcome != KM_TUNE_UNMEASURED)
        return KM_OK;
    t->space.candidates[at] = *found;
    t->space.candidates[at].samples = 0;
    km_tuning_tell(t, at);
    return t->journal.file >= 0 ? km_journal_add(&t->journal, &t->space.candidates[at], t->err) : KM_OK;
}

// Takes what compilers have done.
static km_status collect(km_tuning_state *t, double timeout_ms) {
    for (int64_t i = 0; i < t->compilers_count; i++) {
        km_status status;
        double ms[KM_TUNE_SAMPLES_MAX];
        km_error own = {""};
        int64_t at = t->compiling[i];
        km_tune_candidate found = {0};
        if (at == NOTHING) continue;
        if (at >= 0) found = t->space.candidates[at];
        km_worker_answer answer =
            km_worker_wait(&t->compilers[i], timeout_ms, at >= 0 ? &found : NULL, ms, ms, &status, &own);
        if (answer == KM_WORKER_NONE) continue;
        if (at == OPENING && (answer == KM_WORKER_GONE || status != KM_OK))
            return km_fail(t->err, status != KM_OK ? status : KM_ERROR_DEVICE, "a process that compiles %s",
                           own.text[0] ? own.text : "ended when it was opened");
        t->compiling[i] = NOTHING;
        if (answer ==
            KM_WORKER_GONE) { // the process that measures compiles that one, and says what it makes of it
            km_worker_stop(&t->compilers[i]);
            t->compiling[i] = OPENING;
            KM_TRY(km_tuning_start_worker(t, &t->compilers[i]));
        } else if (at >= 0 && status == KM_OK) {
            KM_TRY(take_compiled(t, at, &found));
        }
    }
    return KM_OK;
}

static int is_of_entry(const km_tune_candidate *candidate, const km_tuning_entry *entry) {
    for (int64_t i = 0; i < entry->numbers_count; i++) {
        int64_t j = 0;
        while (j < candidate->numbers_count &&
               strcmp(candidate->numbers[j].name, entry->numbers[i].name) != 0)
            j++;
        if (j == candidate->numbers_count || candidate->numbers[j].value != entry->numbers[i].value) return 0;
    }
    return 1;
}

// A candidate that the table has for this very shape, stale as it may be: it was the fastest once. -1: none is left.
static int64_t known_best(const km_tuning_state *t) {
    const km_spec *spec = &t->result->spec;
    size_t bytes = (size_t)spec->clusters_count * sizeof *spec->clusters;
    for (int64_t e = 0; e < t->table.entries_count; e++) {
        const km_tuning_entry *entry = &t->table.entries[e];
        if (entry->features != spec->features || entry->type != spec->type || entry->weighted ||
            entry->clusters_count != spec->clusters_count ||
            memcmp(entry->clusters, spec->clusters, bytes) != 0)
            continue;
        for (int64_t i = 0; i < t->space.count; i++)
            if (t->space.candidates[i].outcome == KM_TUNE_UNMEASURED &&
                is_of_entry(&t->space.candidates[i], entry))
                return i;
    }
    return -1;
}

// The candidates that come next, in their order: the default, what the table has, what the search says.
static int64_t ahead_of(const km_tuning_state *t, int64_t out[AHEAD]) {
    int64_t known = t->incumbent >= 0 ? known_best(t) : -1, count = km_search_ahead(t->search, out, AHEAD),
            at = 0;
    if (known < 0 || count == 0) return count;
    while (at < count - 1 && out[at] != known) at++; // or in the last one's place
    memmove(out + 1, out, (size_t)at * sizeof *out);
    out[0] = known;
    return count;
}

// Gives each idle compiler a candidate that the search will come to.
static km_status compile_ahead(km_tuning_state *t) {
    int64_t ahead[AHEAD], count = ahead_of(t, ahead), next = 0;
    for (int64_t i = 0; i < t->compilers_count; i++) {
        while (next < count && t->is_compiled[ahead[next]]) next++;
        if (t->compiling[i] != NOTHING) continue;
        if (next == count) return KM_OK;
        t->is_compiled[ahead[next]] = 1;
        t->compiling[i] = ahead[next];
        KM_TRY(km_worker_ask(&t->compilers[i], &t->space.candidates[ahead[next]], NULL, 0, t->err));
    }
    return KM_OK;
}

// On a CPU a compiler takes cores from what is measured: compilers and passes take turns. What is about to be measured
// and a good many behind it are compiled first.
static km_status compile_in_turn(km_tuning_state *t, int64_t at) {
    if (t->is_compiled[at] && !is_compiling(t)) return KM_OK;
    int64_t ahead[AHEAD], count = ahead_of(t, ahead),
                          wanted = t->incumbent < 0 ? 1 : 4 * t->compilers_count; // one time soon
    for (int64_t i = 0; i < count && wanted > 0;) {
        KM_TRY(collect(t, 20));
        for (int64_t c = 0; c < t->compilers_count && i < count && wanted > 0; c++) {
            if (t->compiling[c] != NOTHING) continue;
            while (i < count && t->is_compiled[ahead[i]]) i++;
            if (i == count) break;
            t->is_compiled[ahead[i]] = 1;
            t->compiling[c] = ahead[i];
            wanted--;
            KM_TRY(km_worker_ask(&t->compilers[c], &t->space.candidates[ahead[i++]], NULL, 0, t->err));
        }
        if (km_tuning_report_search(t, "compile")) return KM_OK;
    }
    for (double end_ms = km_now_ms() + KM_COMPILE_MS; is_compiling(t) && km_now_ms() < end_ms;) {
        KM_TRY(collect(t, 20));
        if (km_tuning_report_search(t, "compile")) return KM_OK;
    }
    return KM_OK;
}

// Waits for the compiler that is at this candidate. One that takes too long is ended, and the candidate given up.
static km_status await_compiled(km_tuning_state *t, int64_t at) {
    double end_ms = km_now_ms() + KM_COMPILE_MS;
    for (int64_t i = 0; i < t->compilers_count; i++) {
        while (t->compiling[i] == at && km_now_ms() < end_ms) {
            KM_TRY(collect(t, 5));
            KM_TRY(compile_ahead(t));
            if (km_tuning_report_search(t, "measure")) return KM_OK;
        }
        if (t->compiling[i] != at) continue;
        km_tune_candidate found = t->space.candidates[at];
        found.outcome = KM_TUNE_HUNG;
        snprintf(found.reason, sizeof found.reason, "its compiler gave no answer in %.0f s",
                 KM_COMPILE_MS / 1e3);
        km_worker_stop(&t->compilers[i]);
        t->compiling[i] = OPENING;
        KM_TRY(km_tuning_start_worker(t, &t->compilers[i]));
        return take_compiled(t, at, &found);
    }
    return KM_OK;
}

// The first of those that the search will come to which is compiled: the device need not wait for a compiler. -1: none.
static int64_t first_compiled(const km_tuning_state *t) {
    int64_t ahead[AHEAD], count = ahead_of(t, ahead);
    for (int64_t i = 0; i < count; i++)
        if (t->is_compiled[ahead[i]] && !is_being_compiled(t, ahead[i])) return ahead[i];
    return -1;
}

km_status km_tuning_compile(km_tuning_state *t, int64_t *at) {
    if (!t->compilers_count) return KM_OK;
    if (km_tuning_takes_turns(t)) return compile_in_turn(t, *at);
    KM_TRY(collect(t, 0));
    KM_TRY(compile_ahead(t));
    int64_t other = first_compiled(t);
    if (other >= 0 && t->incumbent >= 0) *at = other;
    return await_compiled(t, *at);
}

// A host that is busy launches kernels late, which makes a pass of several launches look up to twice as long.
void km_tuning_hold_compilers(const km_tuning_state *t, int signal) {
    if (t->result->facts.target.kind != KM_TARGET_CUDA) return; // compilers and passes take turns
    for (int64_t i = 0; i < t->compilers_count; i++)
        if (t->compilers[i].process > 0) kill(t->compilers[i].process, signal);
}

void km_tuning_stop_compilers(km_tuning_state *t) {
    for (int64_t i = 0; i < t->compilers_count; i++) km_worker_stop(&t->compilers[i]);
    t->compilers_count = 0;
}

int64_t km_tuning_next(const km_tuning_state *t) {
    int64_t ahead[AHEAD];
    return ahead_of(t, ahead) > 0 ? ahead[0] : -1;
}

int64_t km_tuning_compiled(const km_tuning_state *t) {
    int64_t waiting = 0;
    for (int64_t i = 0; i < t->space.count && km_tuning_takes_turns(t); i++)
        waiting += t->is_compiled[i] && t->space.candidates[i].outcome == KM_TUNE_UNMEASURED &&
                   !is_being_compiled(t, i);
    return waiting;
}

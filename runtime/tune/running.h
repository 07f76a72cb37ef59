// SPDX-License-Identifier: MIT
// One running tuning, and its preparation.
#ifndef KM_RUNTIME_TUNE_RUNNING_H
#define KM_RUNTIME_TUNE_RUNNING_H
#include "../../gen/space.h"
#include "../../gen/tuning.h"
#include "journal.h"
#include "search.h"
#include "worker.h"

enum { KM_COMPILERS_MAX = 32, KM_COMPILE_MS = 300000 /* at most, of one candidate */ };

typedef struct km_tuning_state {
    const km_tune_params *params;
    km_tune_result *result;
    km_space space;
    km_search *search;
    km_journal journal;
    km_tuning table;
    char table_path[4200];
    km_measure_params measure_params;
    km_measure *own;    // measures in this process, or
    km_worker measurer; // ... in that one
    km_worker compilers[KM_COMPILERS_MAX];
    int64_t compiling[KM_COMPILERS_MAX];                   // the candidate that each compiles; below 0: none
    unsigned char *is_compiled;                            // of each candidate: it was given to one
    int64_t compilers_count, incumbent, failures, answers; // of the process that measures
    double began_ms, first_ms, longest_ms;
    km_error *err;
} km_tuning_state;

// Facts of the device, its compiler, driver and threads.
km_status km_tuning_describe_device(km_tuning_state *t, int device);
// Points enough that no cache holds them, and so few that a pass takes tens of milliseconds at most.
int64_t km_tuning_points(const km_tuning_state *t, const km_device_facts *facts, km_error *err);
km_plan_params km_tuning_plan_params(const km_tuning_state *t);
km_status km_tuning_make_space(km_tuning_state *t);
// The journal of what is measured, and the table.
km_status km_tuning_open_files(km_tuning_state *t);

// The search and the table's candidate learn what became of it.
void km_tuning_tell(km_tuning_state *t, int64_t at);
km_status km_tuning_start_worker(km_tuning_state *t, km_worker *worker);

double km_tuning_elapsed_s(const km_tuning_state *t);
double km_tuning_best_ms(const km_tuning_state *t); // 0: none was measured
// For the progress line, of a phase that began so many seconds after km_tune. Non-zero: it is to end with what it has.
int km_tuning_report(km_tuning_state *t, const char *phase, double began_s, int64_t done, int64_t total);
int km_tuning_report_search(km_tuning_state *t, const char *phase);

km_status km_tuning_start_compilers(km_tuning_state *t);
void km_tuning_stop_compilers(km_tuning_state *t);
// On a GPU compilers run beside the process that measures. While that takes samples they are held: SIGSTOP, SIGCONT.
void km_tuning_hold_compilers(const km_tuning_state *t, int signal);
// Non-zero: on a CPU compilers and passes take turns.
int km_tuning_takes_turns(const km_tuning_state *t);
int64_t
km_tuning_compiled(const km_tuning_state *t); // where they take turns: candidates that wait to be measured
int64_t km_tuning_next(const km_tuning_state *t); // the candidate that comes next; -1: none
// Compiles what is to be measured next, or finds what is compiled already and nearly as promising: *at is that one.
km_status km_tuning_compile(km_tuning_state *t, int64_t *at);

#endif

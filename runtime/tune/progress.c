// SPDX-License-Identifier: MIT
// What a tuning says of itself while it runs.
#include "../../base/clock.h"
#include "running.h"

#include <math.h>

static const double BUDGET_SEARCH = 0.85; // the rest is for the comparison with the default

double km_tuning_elapsed_s(const km_tuning_state *t) {
    return (km_now_ms() - t->began_ms) / 1e3;
}

double km_tuning_best_ms(const km_tuning_state *t) {
    return t->incumbent >= 0 ? t->space.candidates[t->incumbent].ms : 0;
}

// What a progress line says of a phase that began so many seconds after km_tune, with so much of its work done.
// Non-zero: it is to end with what it has.
static int report_work(km_tuning_state *t, km_tune_progress progress, double began_s, double work,
                       double share) {
    double spent = km_tuning_elapsed_s(t), budget = t->params->budget_s * share;
    double left = work > 0 ? (spent - began_s) / work * fmax((double)progress.total - work, 0) : 0;
    if (budget > 0 && (left > budget - spent || work <= 0)) left = fmax(budget - spent, 0);
    progress.best_ms = km_tuning_best_ms(t);
    progress.standard_ms = t->space.count ? t->space.candidates[t->space.standard].ms : 0;
    progress.elapsed_s = spent;
    progress.left_s = left;
    if (t->params->progress && t->params->progress(t->params->progress_user, &progress))
        t->result->stopped = 1;
    if (budget > 0 && spent > budget) t->result->stopped = 1;
    return t->result->stopped;
}

int km_tuning_report(km_tuning_state *t, const char *phase, double began_s, int64_t done, int64_t total) {
    km_tune_progress progress = {.phase = phase, .done = done, .total = total};
    return report_work(t, progress, began_s, (double)done, 1);
}

// Where compilers and passes take turns, what is compiled and waits has half of its work behind it.
int km_tuning_report_search(km_tuning_state *t, const char *phase) {
    km_tune_progress progress = {
        .phase = phase, .done = km_search_told(t->search), .total = km_search_most(t->search)};
    int64_t waiting = progress.done ? km_tuning_compiled(t) : 0;
    return report_work(t, progress, 0, (double)progress.done + .5 * (double)waiting, BUDGET_SEARCH);
}

// SPDX-License-Identifier: MIT
// What a whole fit is taken to cost beside its passes, in one table: planner and choice of a device count alike.
#ifndef KM_GEN_FIT_TIME_H
#define KM_GEN_FIT_TIME_H
#include <kmgen/plan.h>

// Milliseconds of the system's C compiler for one module, and what a fit on a GPU is charged for NVRTC's: a text takes
// seconds once, and nothing from the cache.
#define KM_CC_MS 800.
#define KM_NVRTC_MS 250.

// A driver's start, a context and its end: an H200's fit of 10,000 points takes 240 ms with every kernel in the cache,
// of which passes are 2.
#define KM_CONTEXT_MS 200.

// More, where a fit cannot begin by a starting pass: the first one of ten waits for the kernels of its pass. No more
// than this share of the sweep, as later fits have that and no wait.
#define KM_NVRTC_WAIT_MS 25.
#define KM_NVRTC_WAIT_SHARE .15

// Milliseconds to compile the text of a design; 0 for what the library holds, and where the points are not known.
double km_compile_ms(const km_plan *plan, km_design design);

// Fills wait_ms and host_ms of the estimate of the plan's design: the algorithm is known, and what comes from the host.
void km_estimate_waits(km_plan *plan);

// Milliseconds of the sweep with one design, all restarts, each of KM_UPDATES_TYPICAL updates or max_iter, if that is
// less.
double km_sweep_ms(const km_plan *plan, km_design design, int64_t max_iter);

#endif

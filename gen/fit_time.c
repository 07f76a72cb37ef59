// SPDX-License-Identifier: MIT
#include "fit_time.h"
#include "algorithm.h"
#include "design.h"
#include "memory.h"
#include "words.h"

#include <math.h>

// Bytes in a millisecond from pages that are not pinned to a GPU: 537 MB took 54 ms on an H200.
#define TRANSFER_BYTES_MS 1e7
// Bytes in a millisecond from pinned memory, of an H100: PCIe 5. Reads of the points beside seeding and passes: while
// they are loaded, and at the end.
#define STREAMED_BYTES_MS 5e7
#define STREAMED_STEPS 8.
// Seeding, refinement and finishing beside the sweep. Two cores, 10,000 x 4 to 1,000,000 x 4, K = 2..12, one to ten
// restarts: 0.6 to 1.3 times its estimate.
#define STEPS_SHARE 1.

double km_compile_ms(const km_plan *plan, km_design design) {
    if (!km_design_code_of(design)->names || !plan->points) return 0;
    return km_design_target(design) == KM_TARGET_CPU ? KM_CC_MS : KM_NVRTC_MS;
}

double km_sweep_ms(const km_plan *plan, km_design design, int64_t max_iter) {
    int64_t updates = max_iter < KM_UPDATES_TYPICAL ? max_iter : KM_UPDATES_TYPICAL;
    return (double)plan->points * plan->estimates[design].total_ns * (double)updates *
           (double)plan->spec.n_init * 1e-6;
}

static double points_bytes(const km_plan *plan) {
    double n = (double)plan->points, real = plan->spec.type == KM_FLOAT64 ? 8 : 4;
    return n * (km_plan_is_csr(plan) ? km_csr_point_bytes(plan) : real * (double)plan->spec.features);
}

// Of what comes from the host: a read for each pick, and for each pass. A window serves all launches and all restarts
// that run at once; without windows each launch of each restart reads the points itself.
static double streamed_ms(const km_plan *plan, int64_t max_iter) {
    double updates = (double)(max_iter < KM_UPDATES_TYPICAL ? max_iter : KM_UPDATES_TYPICAL);
    double picks = plan->spec.clusters[plan->spec.clusters_count - 1];
    double reads = (double)plan->spec.n_init;
    if (plan->window_points)
        reads = ceil(reads / fmax(1, (double)km_plan_get(plan, "concurrent_restarts")));
    else
        reads *= fmax(1, (double)km_plan_get(plan, "launches"));
    return (double)plan->streamed_bytes / STREAMED_BYTES_MS * (picks + updates * reads + STREAMED_STEPS);
}

void km_estimate_waits(km_plan *plan) {
    km_estimate *estimate = &plan->estimates[plan->design];
    double sweep_ms = km_sweep_ms(plan, plan->design, KM_UPDATES_TYPICAL);
    estimate->wait_ms = km_compile_ms(plan, plan->design);
    if (estimate->wait_ms > 0 && plan->spec.target.kind == KM_TARGET_CUDA && !km_plan_starts(plan))
        estimate->wait_ms += fmin(KM_NVRTC_WAIT_MS, KM_NVRTC_WAIT_SHARE * sweep_ms);
    estimate->host_ms = 0;
    if (!plan->streams) return;
    // Windows are copied while kernels run; else kernels wait for each read.
    estimate->host_ms = streamed_ms(plan, KM_UPDATES_TYPICAL);
    if (plan->window_points) estimate->host_ms = fmax(0, estimate->host_ms - sweep_ms);
}

void km_plan_fit_time(km_fit_time *time, const km_plan *plan, int64_t max_iter) {
    *time = (km_fit_time){0};
    if (!plan->points || !plan->design) return;
    if (plan->spec.target.kind == KM_TARGET_CUDA) {
        time->start_ms = KM_CONTEXT_MS;
        time->transfer_ms = points_bytes(plan) / TRANSFER_BYTES_MS;
    }
    time->compile_ms = plan->estimates[plan->design].wait_ms;
    time->passes_ms = (1 + STEPS_SHARE) * km_sweep_ms(plan, plan->design, max_iter);
    if (plan->streams) time->passes_ms = fmax(time->passes_ms, streamed_ms(plan, max_iter));
    time->total_ms = time->start_ms + time->compile_ms + time->transfer_ms + time->passes_ms;
}

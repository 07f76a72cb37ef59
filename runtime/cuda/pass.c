// SPDX-License-Identifier: MIT
// The launches of a pass: the kernels of the design, and the update behind them.
#include "../../base/error.h"
#include "../../base/size.h"
#include "cuda.h"
#include <string.h>

static void put_constants(void **constants, const km_cuda_engine *engine) {
    for (int i = 0; i < KM_CONSTANTS_MAX; i++)
        constants[i] = (void *)(uintptr_t)engine->kernels->constants[i];
}

// Passes of `tiled` and `tensor` can do without labels, where the plan's algorithm has no use for them now.
static int needs_labels(const km_cuda_engine *engine) {
    km_design design = engine->base.plan->design;
    const km_loop *loop = engine->mirror;
    return !engine->labels_idle || loop->changes_min > 0 ||
           (design != KM_DESIGN_TILED && design != KM_DESIGN_TENSOR);
}

km_pass_args km_cuda_pass_args(const km_cuda_engine *engine, int part) {
    km_pass_args args = {
        .control = (const km_control *)(uintptr_t)engine->state.address,
        .points = (const void *)(uintptr_t)engine->points.address,
        .weights = (const void *)(uintptr_t)engine->pass_weights.address,
        .n = engine->base.n,
        .centroids = (const void *)(uintptr_t)engine->centroids.address,
        .active = (const unsigned char *)(uintptr_t)(engine->dense_active
                                                         ? engine->dense_active
                                                         : engine->state.address +
                                                               (km_cu_ptr)km_cuda_active_at(engine)),
        .totals = (double *)(uintptr_t)engine->totals.address,
        .labels = needs_labels(engine) ? (void *)(uintptr_t)engine->labels.address : NULL,
        .labels_stride = km_divide_up(engine->base.n, KM_ALIGN_BYTES) * KM_ALIGN_BYTES,
        .changes = (unsigned long long *)(uintptr_t)engine->changes.address,
        .workspace = (void *)(uintptr_t)engine->workspace.address,
        .box = (const double *)(uintptr_t)engine->box.address,
        .part = part};
    put_constants(args.constants, engine);
    return args;
}

km_status km_cuda_launch_of_pass(km_cuda_engine *engine, int which, const km_pass_args *args, km_error *err) {
    km_status status = KM_OK;
    const km_driver *driver = engine->driver;
    const km_pass_launch *launch = &engine->kernels->launches[which];
    km_pass_args own = *args;
    void *arguments[] = {&own};
    // Blocks of it have 256 points at a time; those of a window are few.
    int64_t blocks = launch->grid_x;
    if (strcmp(launch->kernel, "km_tensor_tiles") == 0) blocks = km_min(blocks, km_divide_up(args->n, 256));
    KM_CU(cuLaunchKernel(engine->kernels->functions[which], (unsigned)blocks, launch->grid_y, 1,
                         launch->block, 1, 1, launch->shared_bytes, engine->stream, arguments, NULL));
done:
    return status;
}

// Labels that nobody asks for in this pass. Distinct points, where not all points lie here: the sums of blocks are
// added over windows and ranks.
static int is_idle(const km_cuda_engine *engine, const char *kernel) {
    if (strcmp(kernel, "km_tensor_distinct") == 0) return engine->windows || engine->base.share;
    return !needs_labels(engine) && strcmp(kernel, "km_tiled_track") == 0;
}

// Behind the launches from `first` on that read points and are not idle, of one stage; `first`: that one reads none.
static int readers_end(const km_cuda_engine *engine, int first) {
    const km_cuda_kernels *kernels = engine->kernels;
    static const char *const others[] = {"km_tensor_lattice", "km_tensor_prepare", "km_reduce"};
    int end = first, reads = 1;
    for (; end < kernels->facts.launches_count; end++) {
        const km_pass_launch *launch = &kernels->launches[end];
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            reads &= strcmp(launch->kernel, others[i]) != 0;
        reads &= !is_idle(engine, launch->kernel);
        if (!reads || launch->stage != kernels->launches[first].stage) break;
    }
    return end;
}

km_status km_cuda_launch_stage(km_cuda_engine *engine, int stage, km_error *err) {
    const km_cuda_kernels *kernels = engine->kernels;
    for (int i = 0; i < kernels->facts.launches_count; i++) {
        const km_pass_launch *launch = &kernels->launches[i];
        if (launch->stage != stage || is_idle(engine, launch->kernel)) continue;
        KM_TRY(km_cuda_join_before(engine, launch->kernel, err));
        int end = engine->windows ? readers_end(engine, i) : i;
        if (end > i) {
            KM_TRY(km_cuda_launch_windows(engine, i, end, stage, err));
            i = end - 1;
            continue;
        }
        km_pass_args args = km_cuda_pass_args(engine, launch->part);
        // The lattice of all points, of which a share of them may lie beyond.
        if (strcmp(launch->kernel, "km_tensor_lattice") == 0) args.n = engine->base.n_all;
        KM_TRY(km_cuda_launch_of_pass(engine, i, &args, err));
    }
    return KM_OK;
}

km_status km_cuda_launch_update(km_cuda_engine *engine, km_error *err) {
    km_update_args args = {
        .loop = (km_loop *)(uintptr_t)engine->state.address,
        .slots = (km_slot_record *)(uintptr_t)(engine->state.address + KM_RECORDS_AT),
        .active = (unsigned char *)(uintptr_t)(engine->state.address + (km_cu_ptr)km_cuda_active_at(engine)),
        .centroids = (void *)(uintptr_t)engine->centroids.address,
        .before = (void *)(uintptr_t)engine->before.address,
        .totals = (const double *)(uintptr_t)engine->totals.address,
        .weights = (double *)(uintptr_t)engine->slot_weights.address,
        .given_up = (const unsigned char *)(uintptr_t)(engine->state.address +
                                                       (km_cu_ptr)km_cuda_given_up_at(engine)),
        .changes = (unsigned long long *)(uintptr_t)engine->changes.address,
        .workspace = (void *)(uintptr_t)engine->workspace.address,
        .box = (const double *)(uintptr_t)engine->box.address,
        .report = (unsigned long long *)(uintptr_t)engine->report,
        .part_sums = (double *)(uintptr_t)engine->part_sums.address};
    put_constants(args.constants, engine);
    void *arguments[] = {&args};
    km_cu_function update =
        km_cuda_starts(engine) ? engine->kernels->starter_update : engine->kernels->update;
    return km_cuda_launch(engine, update, engine->base.slots_count, km_cuda_update_parts(engine), arguments,
                          err);
}

km_status km_cuda_prepare(km_cuda_engine *engine, km_error *err) {
    int64_t zero = engine->kernels->facts.workspace_bytes_zero, all = engine->workspace.bytes;
    int64_t is_prepared = engine->prepared;
    if (engine->has_no_pass) return KM_OK;
    KM_TRY(km_cuda_least_of_ranks(engine, &is_prepared, 1, err)); // all or none: they join their lattices
    if (is_prepared) return KM_OK;
    if (km_cuda_starts(engine)) return km_cuda_starter_prepare(engine, err);
    KM_TRY(km_cuda_clear(engine, engine->workspace.address, 0, zero > 0 && zero < all ? zero : all, err));
    KM_TRY(km_cuda_launch_stage(engine, KM_STAGE_LOAD, err));
    KM_TRY(km_cuda_wait(engine, err));
    engine->prepared = 1;
    return KM_OK;
}

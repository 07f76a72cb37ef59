// SPDX-License-Identifier: MIT
// The pass --------------------------------------------------------------------------------------------------------

// The arguments of the kernels of the pass (km_pass_args above says what they mean).
static km_pass_args host_pass_args(const $name_fit *fit, int part) {
    km_pass_args args = {};
    const host_state *state = fit->device_state.as<host_state>();
    args.control = &state->loop.head;
    args.points = fit->points.at;
    args.weights = fit->pass_weights.at;
    args.n = fit->n;
    args.centroids = fit->centroids.at;
    args.active = state->active;
    args.totals = fit->totals.as<double>();
    args.labels = fit->labels.at;
    args.labels_stride = host_parts(fit->n, KM_ALIGN_BYTES) * (long long)KM_ALIGN_BYTES;
    args.changes = fit->changes.as<unsigned long long>();
    args.workspace = fit->workspace.at;
    args.constants[0] = fit->constants;
    args.box = fit->box.as<double>();
    args.part = part;
    return args;
}

static int host_launch_stage(const $name_fit *fit, int stage) {
    for (int i = 0; i < HOST_LAUNCHES; i++) {
        const km_pass_launch *launch = &fit->launches[i];
        if (launch->stage != stage) continue;
        km_pass_args args = host_pass_args(fit, launch->part);
        void *arguments[] = {&args};
        HOST_TRY(host_cuda(cudaLaunchKernel(fit->functions[i], dim3(launch->grid_x, launch->grid_y),
                                            dim3(launch->block), arguments, launch->shared_bytes, 0),
                           launch->kernel));
    }
    return $upper_OK;
}

static int host_launch_update(const $name_fit *fit) {
    km_update_args args = {};
    host_state *state = fit->device_state.as<host_state>();
    args.loop = &state->loop;
    args.slots = state->slots;
    args.active = state->active;
    args.centroids = fit->centroids.at;
    args.before = fit->before.at;
    args.totals = fit->totals.as<double>();
    args.weights = fit->slot_weights.as<double>();
    args.given_up = state->given_up;
    args.changes = fit->changes.as<unsigned long long>();
    args.workspace = fit->workspace.at;
    args.constants[0] = fit->constants;
    args.box = fit->box.as<double>();
    args.report = fit->device_report;
    args.part_sums = fit->part_sums.as<double>();
    km_update<<<dim3(HOST_SLOTS, HOST_PARTS), KM_THREADS>>>(args);
    HOST_LAUNCHED(km_update);
    return $upper_OK;
}

// Waits for a report of km_update (passes done, and 2^32 where the loop stops) that differs from the last one. It polls
// host memory, as a pass may take no more than ten microseconds.
static int host_look(unsigned long long *seen, const $name_fit *fit) {
    enum { LOOKS = 256 };
    const unsigned long long before = *seen;
    for (;;) {
        for (int i = 0; i < LOOKS; i++)
            if ((*seen = *fit->report) != before) return $upper_OK;
        const cudaError_t error = cudaStreamQuery(0);
        if (error == cudaErrorNotReady) continue;
        HOST_TRY(host_cuda(error, "a pass"));
        if ((*seen = *fit->report) == before)
            return host_fail($upper_DEVICE, "passes ended without a report");
    }
}

// Runs passes until every K has stopped or has an empty cluster; at most so many. A few are queued ahead of the
// report, so that the device does not wait for the host. Those behind the one that stops do nothing.
static int host_passes($name_fit *fit, long long passes_max, long long *done) {
    enum { AHEAD = 4 };
    const unsigned long long stopped = 1ull << 32;
    host_state *state = fit->device_state.as<host_state>();
    unsigned long long seen = 0, queued = 0;
    *fit->report = 0;
    HOST_CUDA(cudaMemcpy(state, &fit->state, sizeof *state, cudaMemcpyHostToDevice));
    HOST_TRY(host_launch_stage(fit, KM_STAGE_BEGIN));
    while (seen < stopped) {
        if (queued < (unsigned long long)passes_max && queued < seen + AHEAD) {
            HOST_TRY(host_launch_stage(fit, KM_STAGE_PASS));
            HOST_TRY(host_launch_update(fit));
            queued++;
            seen = *fit->report;
        } else {
            HOST_TRY(host_look(&seen, fit));
        }
    }
    HOST_CUDA(cudaMemcpy(&fit->state, state, sizeof *state, cudaMemcpyDeviceToHost));
    *done += fit->state.loop.head.passes;
    return $upper_OK;
}

// SPDX-License-Identifier: MIT
//@ include host/common.c
#include <new>

enum { HOST_SLOTS = RESTARTS * KS, HOST_PARTS = (int)KM_UPDATE_PARTS(K_MAX, D) };

// Device memory that is freed with its owner.
struct host_memory {
    void *at = nullptr;
    size_t bytes = 0;
    ~host_memory() {
        cudaFree(at);
    }
    template <typename T> T *as() const {
        return (T *)at;
    }
};

// What the host and km_update share: the loop's control, and where each slot is. A slot is an entry of the list of K;
// of those beside the first restart none is used here.
struct host_state {
    alignas(KM_ALIGN_BYTES) km_loop loop;
    alignas(KM_ALIGN_BYTES) km_slot_record slots[HOST_SLOTS];
    alignas(KM_ALIGN_BYTES) unsigned char active[HOST_SLOTS];
    alignas(KM_ALIGN_BYTES) unsigned char given_up[RESTARTS * S];
};

// A kernel of the pass by the name that km_pass_launches gives it.
struct host_kernel {
    const char *name;
    const void *function;
};
static const host_kernel host_kernels[] = {
    //@ for kernel in pass_kernels
    {"$kernel", (const void *)$kernel},
    //@ end
};
enum {
    HOST_KERNELS = sizeof host_kernels / sizeof host_kernels[0],
    HOST_LAUNCHES = sizeof km_pass_launches / sizeof km_pass_launches[0]
};

struct $name_fit {
    long long n, subchunks, chunks;
    host_data data;
    host_memory points, weights, pass_weights, subchunk_weights, box;
    host_memory centroids, totals, slot_weights, part_sums, workspace, device_state, labels, changes;
    host_state state;
    km_pass_facts facts;
    km_pass_launch launches[HOST_LAUNCHES];
    const void *functions[HOST_LAUNCHES];
    void *constants = nullptr;
    int shared_max = 0; // bytes of shared memory that a block may have
    volatile unsigned long long *report =
        nullptr; // in the host's memory, where km_update writes how far it is ...
    unsigned long long *device_report = nullptr; // ... by this address
    ~$name_fit() {
        cudaFreeHost((void *)report);
    }
    bool started = false;
};

static int host_cuda(cudaError_t error, const char *what) {
    if (error == cudaSuccess) return $upper_OK;
    cudaGetLastError(); // the error is reported here, and not again
    if (error == cudaErrorMemoryAllocation)
        return host_fail($upper_MEMORY, "the device has not enough memory (%s): give fewer points", what);
    return host_fail($upper_DEVICE, "%s: %s: %s", what, cudaGetErrorName(error), cudaGetErrorString(error));
}

#define HOST_TRY(call)                                                                                       \
    do {                                                                                                     \
        const int failed = call;                                                                             \
        if (failed) return failed;                                                                           \
    } while (0)
#define HOST_CUDA(call) HOST_TRY(host_cuda(call, #call))
#define HOST_LAUNCHED(kernel) HOST_TRY(host_cuda(cudaGetLastError(), #kernel))

static int host_reserve(host_memory *room, long long bytes) {
    room->bytes = (size_t)(bytes > 0 ? bytes : 1);
    HOST_CUDA(cudaMalloc(&room->at, room->bytes));
    return $upper_OK;
}

static int host_reserve_zero(host_memory *room, long long bytes) {
    HOST_TRY(host_reserve(room, bytes));
    HOST_CUDA(cudaMemset(room->at, 0, room->bytes));
    return $upper_OK;
}

static unsigned host_parts(long long count, long long size) {
    return (unsigned)((count + size - 1) / size);
}

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

// Load ------------------------------------------------------------------------------------------------------------

//@ if weighted
static __global__ void $name_host_weights(const double *weights, long long n, unsigned long long *bad) {
    const long long i = blockIdx.x * (long long)KM_THREADS + threadIdx.x;
    if (i < n && !(weights[i] >= 0.0 && km_is_finite(weights[i]))) atomicMin(bad, (unsigned long long)i);
}

static int host_take_weights($name_fit *fit, const double *weights, unsigned long long *bad) {
    unsigned long long first;
    HOST_TRY(host_reserve(&fit->weights, fit->n * 8));
    HOST_TRY(host_reserve_zero(&fit->pass_weights, (fit->n + KM_PAD_ROWS) * (long long)sizeof(km_real)));
    if (weights) {
        HOST_CUDA(cudaMemcpy(fit->weights.at, weights, (size_t)fit->n * 8, cudaMemcpyDefault));
    } else {
        double *ones = (double *)malloc((size_t)fit->n * 8);
        if (!ones) return host_fail($upper_MEMORY, "not enough memory for %lld weights", fit->n);
        for (long long i = 0; i < fit->n; i++) ones[i] = 1.0;
        const cudaError_t error = cudaMemcpy(fit->weights.at, ones, (size_t)fit->n * 8, cudaMemcpyDefault);
        free(ones);
        HOST_TRY(host_cuda(error, "the weights"));
    }
    $name_host_weights<<<host_parts(fit->n, KM_THREADS), KM_THREADS>>>(fit->weights.as<double>(), fit->n,
                                                                       bad);
    HOST_LAUNCHED($name_host_weights);
    HOST_CUDA(cudaMemcpy(&first, bad, sizeof first, cudaMemcpyDeviceToHost));
    if (first == ~0ull) return $upper_OK;
    return host_fail($upper_DATA, "the weight of point %llu is negative or no finite number", first);
}
//@ else
static int host_take_weights($name_fit *, const double *weights, unsigned long long *) {
    if (!weights) return $upper_OK;
    return host_fail(
        $upper_ARGUMENT,
        "$name.cu was emitted for points without weights: give NULL, or emit it with --weighted");
}
//@ end

// Small tables of the steps that load points.
struct host_loader {
    host_memory origin, partial, results; // results: the first bad value's index, a sum over subchunks, 4 x D
    double host[2 + 4 * D];
    unsigned long long *bad() const {
        return results.as<unsigned long long>();
    }
};

static int host_add_subchunks(const $name_fit *fit, host_loader *load, const double *subchunk_sums) {
    km_load_add<<<1, KM_THREADS>>>(subchunk_sums, fit->subchunks, load->results.as<double>() + 1);
    HOST_LAUNCHED(km_load_add);
    return $upper_OK;
}

static int host_get_results(host_loader *load) {
    unsigned long long bad;
    HOST_CUDA(cudaMemcpy(load->host, load->results.at, sizeof load->host, cudaMemcpyDeviceToHost));
    memcpy(&bad, load->host, sizeof bad);
    if (bad == ~0ull) return $upper_OK;
    return host_fail($upper_DATA, "feature %llu of point %llu is no finite number: leave such points out",
                     bad % D, bad / D);
}

// Sums around `origin`: of w (x - origin), of w (x - origin)^2; the smallest and the largest values.
static int host_sums(const $name_fit *fit, host_loader *load, const double *origin) {
    const km_real *raw = fit->points.as<km_real>();
    const double *weights = fit->weights.as<double>();
    HOST_CUDA(cudaMemcpy(load->origin.at, origin, D * sizeof *origin, cudaMemcpyHostToDevice));
    //@ if float64
    km_load_sums_f64<<<dim3((unsigned)fit->chunks, host_parts(D, KM_THREADS)), KM_THREADS>>>(
        raw, weights, fit->n, load->origin.as<double>(), load->partial.as<double>(), load->bad());
    //@ else
    km_load_sums_f32<<<dim3((unsigned)fit->chunks, host_parts(D, KM_THREADS)), KM_THREADS>>>(
        raw, weights, fit->n, load->origin.as<double>(), load->partial.as<double>(), load->bad());
    //@ end
    HOST_LAUNCHED(sums of the points);
    km_load_reduce<<<4 * host_parts(D, KM_REDUCED_NUMBERS), KM_THREADS>>>(
        load->partial.as<double>(), fit->chunks, load->results.as<double>() + 2);
    HOST_LAUNCHED(km_load_reduce);
    return host_get_results(load);
}

static int host_statistics($name_fit *fit, host_loader *load) {
    host_data *data = &fit->data;
    km_real first[D];
    double origin[D];
    HOST_TRY(host_add_subchunks(fit, load, fit->subchunk_weights.as<double>()));
    HOST_CUDA(cudaMemcpy(first, fit->points.at, sizeof first, cudaMemcpyDeviceToHost));
    for (int f = 0; f < D; f++) origin[f] = fabs((double)first[f]) <= DBL_MAX ? (double)first[f] : 0.0;
    HOST_TRY(host_sums(fit, load, origin));
    data->total_weight = load->host[1];
    if (host_take_statistics(data, load->host + 2, origin)) return host_choose_move(data);
    for (int f = 0; f < D; f++) origin[f] = data->mean[f];
    HOST_TRY(host_sums(fit, load, origin));
    host_take_statistics(data, load->host + 2, origin);
    return host_choose_move(data);
}

static int host_move($name_fit *fit, host_loader *load) {
    host_data *data = &fit->data;
    host_memory centre, factor;
    double factors[D], box[2 * D];
    for (int f = 0; f < D; f++) {
        factors[f] = data->factor;
        box[f] = (double)host_there(data, (km_real)data->low[f], f);
        box[D + f] = (double)host_there(data, (km_real)data->high[f], f);
    }
    HOST_TRY(host_reserve(&centre, sizeof factors));
    HOST_TRY(host_reserve(&factor, sizeof factors));
    HOST_TRY(host_reserve(&fit->box, sizeof box));
    HOST_CUDA(cudaMemcpy(centre.at, data->centre, sizeof factors, cudaMemcpyHostToDevice));
    HOST_CUDA(cudaMemcpy(factor.at, factors, sizeof factors, cudaMemcpyHostToDevice));
    HOST_CUDA(cudaMemcpy(fit->box.at, box, sizeof box, cudaMemcpyHostToDevice));
    km_real *points = fit->points.as<km_real>();
    //@ if float64
    km_load_transform_f64<<<(unsigned)fit->subchunks, KM_THREADS>>>(
        points, fit->weights.as<double>(), fit->n, centre.as<double>(), factor.as<double>(), points,
        load->bad(), load->partial.as<double>());
    //@ else
    km_load_transform_f32<<<(unsigned)fit->subchunks, KM_THREADS>>>(
        points, fit->weights.as<double>(), fit->n, centre.as<double>(), factor.as<double>(), points,
        load->bad(), load->partial.as<double>());
    //@ end
    HOST_LAUNCHED(moving the points);
    HOST_TRY(host_add_subchunks(fit, load, load->partial.as<double>()));
    HOST_TRY(host_get_results(load));
    data->total_square = load->host[1];
    return $upper_OK;
}

static int host_take_points($name_fit *fit, const km_real *points, const double *weights) {
    host_loader *load = new (std::nothrow) host_loader();
    const long long row = D * (long long)sizeof(km_real), partial = fit->chunks * 4 * D;
    if (!load) return host_fail($upper_MEMORY, "not enough memory for the statistics of the points");
    const auto take = [&]() -> int {
        HOST_TRY(host_reserve(&load->origin, D * 8));
        HOST_TRY(host_reserve(&load->partial, (partial > fit->subchunks ? partial : fit->subchunks) * 8));
        HOST_TRY(host_reserve(&load->results, sizeof load->host));
        HOST_CUDA(cudaMemset(load->results.at, 0xff, 8)); // no bad value so far
        HOST_TRY(host_reserve(&fit->points, (fit->n + KM_PAD_ROWS) * row));
        HOST_CUDA(cudaMemcpy(fit->points.at, points, (size_t)(fit->n * row), cudaMemcpyDefault));
        HOST_CUDA(cudaMemset((char *)fit->points.at + fit->n * row, 0, (size_t)(KM_PAD_ROWS * row)));
        HOST_TRY(host_take_weights(fit, weights, load->bad()));
        HOST_TRY(host_reserve(&fit->subchunk_weights, fit->subchunks * 8));
        km_load_weights<<<WEIGHTED ? (unsigned)fit->subchunks : host_parts(fit->subchunks, KM_THREADS),
                          KM_THREADS>>>(fit->weights.as<double>(), fit->n, fit->pass_weights.as<km_real>(),
                                        fit->subchunk_weights.as<double>());
        HOST_LAUNCHED(km_load_weights);
        HOST_TRY(host_statistics(fit, load));
        return host_move(fit, load);
    };
    const int failed = take();
    delete load;
    return failed;
}

// Finds the kernels of the pass, and allows them the shared memory that they need.
static int host_find_kernels($name_fit *fit) {
    HOST_CUDA(cudaMemcpyFromSymbol(&fit->facts, km_pass, sizeof fit->facts));
    HOST_CUDA(cudaMemcpyFromSymbol(fit->launches, km_pass_launches, sizeof fit->launches));
    //@ if has_constants
    HOST_CUDA(cudaGetSymbolAddress(&fit->constants, km_constants));
    //@ end
    for (int i = 0; i < HOST_LAUNCHES; i++) {
        const km_pass_launch *launch = &fit->launches[i];
        for (int k = 0; k < HOST_KERNELS; k++)
            if (!strcmp(host_kernels[k].name, launch->kernel)) fit->functions[i] = host_kernels[k].function;
        if (!fit->functions[i])
            return host_fail($upper_DEVICE, "km_pass_launches names %s, which is no kernel of this file",
                             launch->kernel);
        if (launch->shared_bytes <= 48 << 10) continue;
        HOST_TRY(
            host_cuda(cudaFuncSetAttribute(fit->functions[i], cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           (int)launch->shared_bytes),
                      launch->kernel));
    }
    return $upper_OK;
}

static int host_check_device($name_fit *fit) {
    int device, major, minor;
    const cudaError_t error = cudaGetDevice(&device);
    if (error != cudaSuccess) {
        cudaGetLastError();
        return host_fail($upper_DEVICE, "no CUDA device: %s; $name.c (kmgen --target cpu) runs without one",
                         cudaGetErrorString(error));
    }
    HOST_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    HOST_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
    HOST_CUDA(cudaDeviceGetAttribute(&fit->shared_max, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    if (10 * major + minor < $arch_number)
        return host_fail($upper_DEVICE,
                         "$name.cu was emitted for $arch, and this device is sm_%d: emit with --target "
                         "cuda:sm_%d",
                         10 * major + minor, 10 * major + minor);
    return $upper_OK;
}

static int host_equip($name_fit *fit) {
    const long long rows = RESTARTS * (long long)S;
    HOST_TRY(host_reserve_zero(&fit->centroids, rows * D * (long long)sizeof(km_real)));
    HOST_TRY(host_reserve_zero(&fit->totals, rows * (D + 1) * 8));
    HOST_TRY(host_reserve_zero(&fit->slot_weights, rows * 8));
    HOST_TRY(host_reserve_zero(&fit->part_sums, HOST_SLOTS * (long long)HOST_PARTS * 32));
    HOST_TRY(host_reserve_zero(&fit->device_state, sizeof fit->state));
    //@ if track_labels
    HOST_TRY(host_reserve_zero(&fit->labels,
                               HOST_SLOTS * (fit->n + KM_ALIGN_BYTES) * (long long)sizeof(km_label)));
    HOST_TRY(host_reserve_zero(&fit->changes, HOST_SLOTS * 8));
    //@ end
    void *report;
    HOST_CUDA(cudaHostAlloc(&report, sizeof *fit->report, cudaHostAllocMapped));
    fit->report = (volatile unsigned long long *)report;
    HOST_CUDA(cudaHostGetDevicePointer((void **)&fit->device_report, report, 0));
    const long long zero = fit->facts.workspace_bytes_zero;
    HOST_TRY(host_reserve(&fit->workspace,
                          fit->facts.workspace_bytes + fit->facts.workspace_bytes_per_point * fit->n));
    HOST_CUDA(
        cudaMemset(fit->workspace.at, 0,
                   zero > 0 && zero < (long long)fit->workspace.bytes ? (size_t)zero : fit->workspace.bytes));
    HOST_TRY(host_launch_stage(fit, KM_STAGE_LOAD));
    HOST_CUDA(cudaDeviceSynchronize());
    return $upper_OK;
}

static int host_fill($name_fit *fit, const km_real *points, const double *weights) {
    HOST_TRY(host_check(fit, points, fit->n));
    HOST_TRY(host_check_device(fit));
    HOST_TRY(host_find_kernels(fit));
    fit->subchunks = host_parts(fit->n, KM_SUBCHUNK_POINTS);
    fit->chunks = host_parts(fit->n, KM_CHUNK_POINTS);
    HOST_TRY(host_take_points(fit, points, weights));
    return host_equip(fit);
}

int $name_create($name_fit **out, const $name_real *points, const double *weights, long long n) {
    if (!out) return host_fail($upper_ARGUMENT, "out is NULL");
    $name_fit *fit = *out = new (std::nothrow) $name_fit();
    if (!fit) return host_fail($upper_MEMORY, "not enough memory for a fit");
    fit->n = n;
    const int failed = host_fill(fit, points, weights);
    if (failed) $name_destroy(out);
    return failed;
}

void $name_destroy($name_fit **fit) {
    if (!fit) return;
    delete *fit;
    *fit = nullptr;
}

// First centroids -------------------------------------------------------------------------------------------------

// A table of reals on the host becomes the first restart's centroids, and every K begins.
static int host_begin($name_fit *fit, const km_real *table) {
    HOST_CUDA(cudaMemcpy(fit->centroids.at, table, S * (size_t)D * sizeof *table, cudaMemcpyHostToDevice));
    fit->state = host_state();
    for (int q = 0; q < KS; q++) {
        fit->state.slots[q].state.phase = KM_SLOT_RUNNING;
        fit->state.active[q] = 1;
    }
    fit->started = true;
    return $upper_OK;
}

int $name_start($name_fit *fit, const $name_real *centroids) {
    HOST_TRY(host_check(fit, centroids, K_MAX));
    km_real *table = (km_real *)malloc(S * (size_t)D * sizeof *table);
    int failed = table ? $upper_OK : host_fail($upper_MEMORY, "not enough memory for the centroids");
    for (long long i = 0; i < S * (long long)D && !failed; i++) {
        failed = host_check_first(&fit->data, (double)centroids[i], i);
        table[i] = host_there(&fit->data, centroids[i], (int)(i % D));
    }
    if (!failed) failed = host_begin(fit, table);
    free(table);
    return failed;
}

// Some points, centred and scaled.
static int host_get_rows(const $name_fit *fit, double *rows, const long long *indices, long long count) {
    host_memory device_rows;
    HOST_TRY(host_reserve(&device_rows, count * D * 8));
    km_rows<<<host_parts(count * D, KM_THREADS), KM_THREADS>>>(fit->points.as<km_real>(), indices, count,
                                                               device_rows.as<double>());
    HOST_LAUNCHED(km_rows);
    HOST_CUDA(cudaMemcpy(rows, device_rows.at, (size_t)(count * D) * 8, cudaMemcpyDeviceToHost));
    return $upper_OK;
}

// One chain of k-means++: the first K picks seed K, so one chain serves the whole list.
static int host_draw_rows(const $name_fit *fit, double *rows, unsigned long long seed) {
    host_memory nearest, picks, candidates, subchunk_sums;
    km_seed_args args = {};
    HOST_TRY(host_reserve(&nearest, fit->n * (long long)sizeof(km_real)));
    HOST_TRY(host_reserve(&picks, K_MAX * 8ll));
    HOST_TRY(host_reserve(&candidates, 2 * KM_CANDIDATES_MAX * 8));
    HOST_TRY(host_reserve(&subchunk_sums, KM_CANDIDATES_MAX * fit->subchunks * 8));
    args.points = fit->points.at;
    args.weights = fit->weights.as<double>();
    args.n = fit->n;
    args.subchunks = fit->subchunks;
    args.subchunk_weights = fit->subchunk_weights.as<double>();
    args.nearest = nearest.at;
    args.picks = picks.as<long long>();
    args.picks_count = K_MAX;
    args.candidates = candidates.as<long long>();
    args.subchunk_sums = subchunk_sums.as<double>();
    args.chains = 1;
    args.seed = seed;
    for (long long pick = 0; pick <= K_MAX; pick++) { // the last round decides the last pick
        const int before = pick > 0 ? host_candidates(pick - 1) : 0,
                  now = pick < K_MAX ? host_candidates(pick) : 0;
        km_seed_draw<<<dim3(1, now > 0 ? (unsigned)now : 1), KM_THREADS>>>(args, pick, before, now);
        HOST_LAUNCHED(km_seed_draw);
        if (pick == K_MAX) break;
        km_seed_pass<<<host_parts(fit->subchunks, 2), KM_THREADS>>>(args, pick, now);
        HOST_LAUNCHED(km_seed_pass);
    }
    return host_get_rows(fit, rows, args.picks, K_MAX);
}

int $name_seed($name_fit *fit, unsigned long long seed) {
    HOST_TRY(host_check(fit, fit, K_MAX));
    double *rows = (double *)malloc(K_MAX * (size_t)D * sizeof *rows);
    km_real *table = (km_real *)malloc(S * (size_t)D * sizeof *table);
    int failed = rows && table ? host_draw_rows(fit, rows, seed)
                               : host_fail($upper_MEMORY, "not enough memory for the centroids");
    for (int q = 0; q < KS && !failed; q++)
        for (long long i = 0; i < host_ks[q] * (long long)D; i++)
            table[host_offsets[q] * (long long)D + i] = (km_real)rows[i];
    if (!failed) failed = host_begin(fit, table);
    free(rows);
    free(table);
    return failed;
}

// Empty clusters --------------------------------------------------------------------------------------------------

// Squared distances up to this are rounding of a typical point's centroid.
static int host_square_min(const $name_fit *fit, double *square_min) {
    double squares[HOST_SAMPLE];
    km_real row[D];
    const int count = (int)(fit->n < HOST_SAMPLE ? fit->n : HOST_SAMPLE);
    for (int s = 0; s < count; s++) {
        const long long i = (long long)((double)s * (double)fit->n / (double)count);
        HOST_CUDA(cudaMemcpy(row, fit->points.as<km_real>() + i * D, sizeof row, cudaMemcpyDeviceToHost));
        squares[s] = 0.0;
        for (int f = 0; f < D; f++) squares[s] += (double)row[f] * (double)row[f];
    }
    *square_min = host_rounding2(fit->n) * host_typical(squares, count);
    return $upper_OK;
}

// What km_assign needs of one K: its centroids as doubles too.
struct host_model {
    host_memory numbers, centroids;
    double *host = nullptr; // k x D
    km_assign_args args = {};
    ~host_model() {
        free(host);
    }
};

static int host_model_init(host_model *model, const $name_fit *fit, int q) {
    const long long k = host_ks[q], zero = 0;
    const km_real *table = fit->centroids.as<km_real>() + host_offsets[q] * (long long)D;
    model->host = (double *)malloc((size_t)(k * D) * sizeof *model->host);
    if (!model->host) return host_fail($upper_MEMORY, "not enough memory for the centroids");
    HOST_TRY(host_reserve(&model->numbers, 2 * KM_ALIGN_BYTES));
    HOST_TRY(host_reserve(&model->centroids, k * D * 8));
    km_real *floats = (km_real *)model->host; // widened in place, from the end
    HOST_CUDA(cudaMemcpy(floats, table, (size_t)(k * D) * sizeof *floats, cudaMemcpyDeviceToHost));
    for (long long i = k * D; i-- > 0;) {
        km_real value;
        memcpy(&value, floats + i, sizeof value);
        const double as_double = (double)value;
        memcpy(model->host + i, &as_double, sizeof as_double);
    }
    char *numbers = model->numbers.as<char>();
    HOST_CUDA(cudaMemcpy(numbers, &zero, sizeof zero, cudaMemcpyHostToDevice));
    HOST_CUDA(cudaMemcpy(numbers + KM_ALIGN_BYTES, &host_ks[q], sizeof(int), cudaMemcpyHostToDevice));
    HOST_CUDA(cudaMemcpy(model->centroids.at, model->host, (size_t)(k * D) * 8, cudaMemcpyHostToDevice));
    model->args.points = fit->points.at;
    model->args.centroids = model->centroids.as<double>();
    model->args.table = table;
    model->args.rows = (const long long *)numbers;
    model->args.ks = (const int *)(numbers + KM_ALIGN_BYTES);
    model->args.models = 1;
    return $upper_OK;
}

// The empty clusters of a K, in order, get the points farthest from their centroids; those that get none are given up.
static int host_relocate($name_fit *fit, int q) {
    host_model model;
    host_memory nearest, labels, picks, values, indices;
    const long long k = host_ks[q], row = host_offsets[q];
    double square_min, moved[D];
    const double rounding2 = host_rounding2(fit->n);
    HOST_TRY(host_model_init(&model, fit, q));
    HOST_TRY(host_square_min(fit, &square_min));
    HOST_TRY(host_reserve(&nearest, fit->n * 8));
    HOST_TRY(host_reserve(&labels, fit->n * 4));
    HOST_TRY(host_reserve(&picks, k * 8));
    HOST_TRY(host_reserve(&values, fit->subchunks * 8));
    HOST_TRY(host_reserve(&indices, fit->subchunks * 8));
    model.args.count = fit->n;
    model.args.nearest = nearest.as<double>();
    model.args.labels = labels.as<int>();
    km_assign<<<(unsigned)fit->subchunks, KM_THREADS>>>(model.args);
    HOST_LAUNCHED(km_assign);
    long long taken = 0, found = 0;
    for (long long j = 0; j < k; j++) {
        double weight;
        HOST_CUDA(cudaMemcpy(&weight, fit->slot_weights.as<double>() + row + j, sizeof weight,
                             cudaMemcpyDeviceToHost));
        if (weight > 0.0 || fit->state.given_up[row + j]) continue;
        if (found >= 0) {
            km_farthest_subchunk<<<(unsigned)fit->subchunks, KM_THREADS>>>(
                fit->points.as<km_real>(), fit->weights.as<double>(), fit->n, square_min, rounding2,
                nearest.as<double>(), picks.as<long long>(), taken, values.as<double>(),
                indices.as<long long>());
            HOST_LAUNCHED(km_farthest_subchunk);
            km_farthest_pick<<<1, KM_THREADS>>>(values.as<double>(), indices.as<long long>(), fit->subchunks,
                                                fit->n, picks.as<long long>(), taken);
            HOST_LAUNCHED(km_farthest_pick);
            HOST_CUDA(
                cudaMemcpy(&found, picks.as<long long>() + taken, sizeof found, cudaMemcpyDeviceToHost));
        }
        fit->state.given_up[row + j] = found < 0;
        if (found < 0) continue;
        HOST_TRY(host_get_rows(fit, moved, picks.as<long long>() + taken++, 1));
        km_real floats[D];
        for (int f = 0; f < D; f++) floats[f] = (km_real)moved[f];
        HOST_CUDA(cudaMemcpy(fit->centroids.as<km_real>() + (row + j) * D, floats, sizeof floats,
                             cudaMemcpyHostToDevice));
    }
    fit->state.slots[q].state.phase = KM_SLOT_RUNNING;
    fit->state.slots[q].state.empty_count = 0;
    fit->state.active[q] = 1;
    return $upper_OK;
}

int $name_run($name_fit *fit, long long passes_max, double tolerance, long long *passes) {
    long long done = 0, own_done;
    HOST_TRY(host_check(fit, fit, K_MAX));
    if (!passes) passes = &own_done;
    *passes = 0;
    if (!fit->started) return host_fail($upper_ARGUMENT, "there are no first centroids yet: start or seed");
    if (!(tolerance >= 0))
        return host_fail($upper_ARGUMENT, "tolerance is %g; it must be 0 or more", tolerance);
    double shift_max = host_shift_max(&fit->data, tolerance);
    //@ if rests
    // Sums are relative to a pivot that may change from pass to pass: a shift within rounding counts as none.
    shift_max = fmax(shift_max, host_rounding2(fit->n) * fit->data.total_square / fit->data.total_weight);
    //@ end
    while (done < passes_max) {
        int active = 0;
        for (int q = 0; q < KS; q++) {
            if (fit->state.slots[q].state.phase == KM_SLOT_EMPTY) HOST_TRY(host_relocate(fit, q));
            active += fit->state.active[q];
        }
        if (!active) break;
        km_loop *loop = &fit->state.loop;
        *loop = km_loop();
        loop->head.passes_max = (int)(passes_max - done < 1 << 30 ? passes_max - done : 1 << 30);
        loop->stopped_min = active;
        loop->shift_max = shift_max;
        loop->max_iter = 1ll << 62;
        loop->total_square = fit->data.total_square;
        HOST_TRY(host_passes(fit, loop->head.passes_max, &done));
        *passes = done;
    }
    return $upper_OK;
}

// Labels, distances, sums of one K: the last read -----------------------------------------------------------------

struct host_finish {
    host_model model;
    host_memory sums, partial, nearest, margin, labels;
    double *host = nullptr;     // k x KM_FINISH_SUMS
    int few_clusters_bytes = 0; // of shared memory, where km_finish_few_clusters is used
    ~host_finish() {
        free(host);
    }
};

static int host_finish_slice(const $name_fit *fit, host_finish *f, long long first, long long count,
                             long long k, int *labels) {
    const long long blocks = host_parts(count, KM_CHUNK_POINTS), numbers = k * KM_FINISH_SUMS;
    const double *weights = fit->weights.as<double>();
    double *partial = f->partial.as<double>();
    f->model.args.first = first;
    f->model.args.count = count;
    if (f->few_clusters_bytes > 0) {
        km_finish_few_clusters<<<(unsigned)blocks, KM_FINISH_THREADS, (size_t)f->few_clusters_bytes>>>(
            f->model.args, weights, partial, k);
        HOST_LAUNCHED(km_finish_few_clusters);
    } else {
        const int in_shared = k <= KM_FINISH_SHARED_MAX;
        km_assign<<<host_parts(count, KM_SUBCHUNK_POINTS), KM_THREADS>>>(f->model.args);
        HOST_LAUNCHED(km_assign);
        km_finish_chunks<<<(unsigned)blocks, 32, in_shared ? (size_t)numbers * 8 : 0>>>(
            f->model.args, weights, partial, k, in_shared);
        HOST_LAUNCHED(km_finish_chunks);
    }
    km_finish_add<<<host_parts(numbers, KM_REDUCED_NUMBERS), KM_THREADS>>>(partial, blocks, numbers,
                                                                           f->sums.as<double>());
    HOST_LAUNCHED(km_finish_add);
    if (labels)
        HOST_CUDA(cudaMemcpy(labels + first, f->labels.at, (size_t)count * 4, cudaMemcpyDeviceToHost));
    return $upper_OK;
}

static int host_finish_all(const $name_fit *fit, host_finish *f, int q, int *labels) {
    const long long k = host_ks[q], numbers = k * KM_FINISH_SUMS;
    const int few_clusters_bytes =
        (int)k * KM_FINISH_THREADS * (WEIGHTED ? KM_FINISH_WEIGHTED_BYTES : KM_FINISH_BYTES);
    if (k <= KM_FINISH_FEW_MAX && few_clusters_bytes <= fit->shared_max)
        f->few_clusters_bytes = few_clusters_bytes;
    const long long slice =
        (f->few_clusters_bytes ? 1024 : 64) * (long long)KM_CHUNK_POINTS; // points that memory is taken for
    const long long here = fit->n < slice ? fit->n : slice;
    if (few_clusters_bytes > 48 << 10 && f->few_clusters_bytes)
        HOST_CUDA(cudaFuncSetAttribute(km_finish_few_clusters, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       few_clusters_bytes));
    HOST_TRY(host_model_init(&f->model, fit, q));
    HOST_TRY(host_reserve_zero(&f->sums, numbers * 8));
    HOST_TRY(host_reserve(&f->partial, host_parts(here, KM_CHUNK_POINTS) * numbers * 8));
    if (!f->few_clusters_bytes || labels) HOST_TRY(host_reserve(&f->labels, here * 4));
    if (!f->few_clusters_bytes) {
        HOST_TRY(host_reserve(&f->nearest, here * 8));
        HOST_TRY(host_reserve(&f->margin, here * 8));
    }
    f->model.args.labels = f->labels.as<int>();
    f->model.args.nearest = f->nearest.as<double>();
    f->model.args.margin = f->margin.as<double>();
    for (long long first = 0; first < fit->n; first += slice)
        HOST_TRY(
            host_finish_slice(fit, f, first, fit->n - first < slice ? fit->n - first : slice, k, labels));
    f->host = (double *)malloc((size_t)numbers * 8);
    if (!f->host) return host_fail($upper_MEMORY, "not enough memory for the sums");
    HOST_CUDA(cudaMemcpy(f->host, f->sums.at, (size_t)numbers * 8, cudaMemcpyDeviceToHost));
    return $upper_OK;
}

int $name_result($name_fit *fit, int index, $name_model *model) {
    host_finish f;
    HOST_TRY(host_check(fit, model, K_MAX));
    HOST_TRY(host_check_index(index));
    if (!fit->started) return host_fail($upper_ARGUMENT, "there are no first centroids yet: start or seed");
    HOST_TRY(host_finish_all(fit, &f, index, model->labels));
    model->k = host_ks[index];
    model->converged = fit->state.slots[index].state.converged;
    model->n_iter = fit->state.slots[index].state.iterations;
    model->inertia = 0.0;
    for (int j = 0; j < model->k; j++) {
        model->inertia += f.host[j * KM_FINISH_SUMS + KM_FINISH_SSE] / fit->data.factor / fit->data.factor;
        if (model->counts) model->counts[j] = (long long)f.host[j * KM_FINISH_SUMS + KM_FINISH_COUNT];
        for (int i = 0; i < D && model->centroids; i++)
            model->centroids[j * (long long)D + i] =
                host_back(&fit->data, f.model.host[j * (long long)D + i], i);
    }
    return $upper_OK;
}

#ifdef $upper_MAIN
#include <time.h>

static double host_now_ms(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void host_device_name(char *text, size_t size) {
    int device = 0;
    cudaDeviceProp properties;
    snprintf(text, size, "unknown");
    if (cudaGetDevice(&device) == cudaSuccess && cudaGetDeviceProperties(&properties, device) == cudaSuccess)
        snprintf(text, size, "%s", properties.name);
}

static __global__ void $name_host_read(const uint4 *pieces, long long count, unsigned *out) {
    unsigned sum = 0;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count;
         i += (long long)gridDim.x * blockDim.x) {
        const uint4 piece = pieces[i];
        sum += piece.x ^ piece.y ^ piece.z ^ piece.w;
    }
    if (sum == 12345) *out = sum; // or nothing would be read
}

// Milliseconds of a plain read of the points.
static double host_read_ms($name_fit *fit) {
    const long long pieces = fit->n * D * (long long)sizeof(km_real) / 16;
    cudaEvent_t begin, end;
    float ms, least = 1e30f;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    for (int turn = 0; turn < 6; turn++) {
        cudaEventRecord(begin);
        for (int i = 0; i < 10; i++)
            $name_host_read<<<2112, 512>>>(fit->points.as<uint4>(), pieces, fit->totals.as<unsigned>());
        cudaEventRecord(end);
        cudaEventSynchronize(end);
        cudaEventElapsedTime(&ms, begin, end);
        least = ms / 10 < least ? ms / 10 : least;
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    return least;
}
//@ include host/main.c
#endif

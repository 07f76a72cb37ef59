// SPDX-License-Identifier: MIT
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
    HOST_TRY(host_reserve_zero(&fit->before, rows * D * (long long)sizeof(km_real)));
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

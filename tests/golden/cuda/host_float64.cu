// Of the text of {features: 4, clusters: 3..5, type: float64, target: cuda:sm_75} weighted tracked: Head; The host part: what the header declares
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 3 definitions

// ... 1 more of 2 lines, other numbers: d10d17c1
// How far the mean of n equal points may lie from them by rounding, squared, for points of size 1.
static double host_rounding2(long long n) {
    const double relative = (double)(n < 65536 ? n : 65536) * 2.220446049250313e-16;
    return relative * relative;
}

// ... 31 definitions

static __global__ void host_float64_host_weights(const double *weights, long long n, unsigned long long *bad) {
    const long long i = blockIdx.x * (long long)KM_THREADS + threadIdx.x;
    if (i < n && !(weights[i] >= 0.0 && km_is_finite(weights[i]))) atomicMin(bad, (unsigned long long)i);
}

static int host_take_weights(host_float64_fit *fit, const double *weights, unsigned long long *bad) {
    unsigned long long first;
    HOST_TRY(host_reserve(&fit->weights, fit->n * 8));
    HOST_TRY(host_reserve_zero(&fit->pass_weights, (fit->n + KM_PAD_ROWS) * (long long)sizeof(km_real)));
    if (weights) {
        HOST_CUDA(cudaMemcpy(fit->weights.at, weights, (size_t)fit->n * 8, cudaMemcpyDefault));
    } else {
        double *ones = (double *)malloc((size_t)fit->n * 8);
        if (!ones) return host_fail(HOST_FLOAT64_MEMORY, "not enough memory for %lld weights", fit->n);
        for (long long i = 0; i < fit->n; i++) ones[i] = 1.0;
        const cudaError_t error = cudaMemcpy(fit->weights.at, ones, (size_t)fit->n * 8, cudaMemcpyDefault);
        free(ones);
        HOST_TRY(host_cuda(error, "the weights"));
    }
    host_float64_host_weights<<<host_parts(fit->n, KM_THREADS), KM_THREADS>>>(fit->weights.as<double>(), fit->n,
                                                                       bad);
    HOST_LAUNCHED(host_float64_host_weights);
    HOST_CUDA(cudaMemcpy(&first, bad, sizeof first, cudaMemcpyDeviceToHost));
    if (first == ~0ull) return HOST_FLOAT64_OK;
    return host_fail(HOST_FLOAT64_DATA, "the weight of point %llu is negative or no finite number", first);
}

// ... 3 definitions

// Sums around `origin`: of w (x - origin), of w (x - origin)^2; the smallest and the largest values.
static int host_sums(const host_float64_fit *fit, host_loader *load, const double *origin) {
    const km_real *raw = fit->points.as<km_real>();
    const double *weights = fit->weights.as<double>();
    HOST_CUDA(cudaMemcpy(load->origin.at, origin, D * sizeof *origin, cudaMemcpyHostToDevice));
    km_load_sums_f64<<<dim3((unsigned)fit->chunks, host_parts(D, KM_THREADS)), KM_THREADS>>>(
        raw, weights, fit->n, load->origin.as<double>(), load->partial.as<double>(), load->bad());
    HOST_LAUNCHED(sums of the points);
    km_load_reduce<<<4 * host_parts(D, KM_REDUCED_NUMBERS), KM_THREADS>>>(
        load->partial.as<double>(), fit->chunks, load->results.as<double>() + 2);
    HOST_LAUNCHED(km_load_reduce);
    return host_get_results(load);
}

// ... 1 definition

static int host_move(host_float64_fit *fit, host_loader *load) {
    // ... lines of a template
    km_load_transform_f64<<<(unsigned)fit->subchunks, KM_THREADS>>>(
        points, fit->weights.as<double>(), fit->n, centre.as<double>(), factor.as<double>(), points,
        load->bad(), load->partial.as<double>());
    HOST_LAUNCHED(moving the points);
    HOST_TRY(host_add_subchunks(fit, load, load->partial.as<double>()));
    HOST_TRY(host_get_results(load));
    data->total_square = load->host[1];
    return HOST_FLOAT64_OK;
}

// ... 3 definitions

static int host_equip(host_float64_fit *fit) {
    const long long rows = RESTARTS * (long long)S;
    HOST_TRY(host_reserve_zero(&fit->centroids, rows * D * (long long)sizeof(km_real)));
    HOST_TRY(host_reserve_zero(&fit->before, rows * D * (long long)sizeof(km_real)));
    HOST_TRY(host_reserve_zero(&fit->totals, rows * (D + 1) * 8));
    HOST_TRY(host_reserve_zero(&fit->slot_weights, rows * 8));
    HOST_TRY(host_reserve_zero(&fit->part_sums, HOST_SLOTS * (long long)HOST_PARTS * 32));
    HOST_TRY(host_reserve_zero(&fit->device_state, sizeof fit->state));
    HOST_TRY(host_reserve_zero(&fit->labels,
                               HOST_SLOTS * (fit->n + KM_ALIGN_BYTES) * (long long)sizeof(km_label)));
    HOST_TRY(host_reserve_zero(&fit->changes, HOST_SLOTS * 8));
    // ... lines of a template
    return HOST_FLOAT64_OK;
}

// ... 45 definitions

// SPDX-License-Identifier: MIT
//@ if not weighted
// The weight of each subchunk: how many points it has.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_load_weights(const double *, long long n, km_real *, double *subchunk_weights) {
    const long long subchunk = blockIdx.x * (long long)KM_THREADS + threadIdx.x,
                    left = n - subchunk * KM_SUBCHUNK_POINTS;
    if (left > 0)
        subchunk_weights[subchunk] = left < KM_SUBCHUNK_POINTS ? (double)left : (double)KM_SUBCHUNK_POINTS;
}

//@ else
// One subchunk a block: its weight, and the weights in the plan's type for the pass.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_load_weights(const double *weights, long long n, km_real *pass_weights, double *subchunk_weights) {
    double sum = 0.0;
    for (int p = 0; p < KM_SUBCHUNK_POINTS / KM_THREADS; p++) {
        const long long i = blockIdx.x * (long long)KM_SUBCHUNK_POINTS + p * KM_THREADS + threadIdx.x;
        if (i >= n) break;
        const double weight = km_weight(weights, i);
        if (pass_weights) pass_weights[i] = (km_real)weight;
        sum = __dadd_rn(sum, weight);
    }
    km_block_sums<1>(&sum);
    if (threadIdx.x == 0) subchunk_weights[blockIdx.x] = sum;
}

//@ end
// Adds the sums of subchunks to those of chunks, and these to one number, in index order. One block.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_load_add(const double *subchunk_sums, long long subchunks, double *out) {
    __shared__ double sums[KM_THREADS];
    const long long chunks_count = (subchunks + KM_SUBCHUNKS_PER_CHUNK - 1) / KM_SUBCHUNKS_PER_CHUNK;
    double total = 0.0;
    for (long long first = 0; first < chunks_count; first += KM_THREADS) {
        const long long subchunk = (first + threadIdx.x) * KM_SUBCHUNKS_PER_CHUNK;
        double sum = 0.0;
        if (subchunk + KM_SUBCHUNKS_PER_CHUNK <= subchunks) {
            double2 pairs[KM_SUBCHUNKS_PER_CHUNK / 2]; // all loads at a time
#pragma unroll
            for (int u = 0; u < KM_SUBCHUNKS_PER_CHUNK / 2; u++)
                pairs[u] = ((const double2 *)(subchunk_sums + subchunk))[u];
#pragma unroll
            for (int u = 0; u < KM_SUBCHUNKS_PER_CHUNK / 2; u++)
                sum = __dadd_rn(__dadd_rn(sum, pairs[u].x), pairs[u].y);
        } else {
            for (int u = 0; subchunk + u < subchunks; u++) sum = __dadd_rn(sum, subchunk_sums[subchunk + u]);
        }
        sums[threadIdx.x] = sum;
        __syncthreads();
        const long long left = chunks_count - first;
        if (threadIdx.x == 0)
#pragma unroll 8
            for (int c = 0; c < KM_THREADS && c < left; c++) total = __dadd_rn(total, sums[c]);
        __syncthreads();
    }
    if (threadIdx.x == 0) *out = total;
}

// SPDX-License-Identifier: MIT
// The lattice, which holds nearly all points -----------------------------------------------------------------

static __device__ __forceinline__ int km_exponent_max(const km_pass_args &args, int f) {
    return km_exponent(fmax(fabs(args.box[f]), fabs(args.box[D + f])));
}

// Load: counts the points of each power of two below the largest, feature by feature.
extern "C" __global__ void __launch_bounds__(256)
    km_tensor_histogram(const __grid_constant__ km_pass_args args) {
    __shared__ unsigned bins[D * BINS];
    for (int i = threadIdx.x; i < D * BINS; i += 256) bins[i] = 0;
    __syncthreads();
    // A thread has one feature. It counts the first eight bins in bytes of a register, and the rare others by atomics.
    constexpr int AHEAD = 4, ROUNDS = 60; // coordinates at a time; rounds until a byte may be full
    const long long stride = gridDim.x * 256ll / D * D, begin = blockIdx.x * 256ll + threadIdx.x;
    const int f = (int)(begin % D), largest = km_exponent_max(args, f);
    unsigned long long counts = 0;
    for (long long at = begin, round = 1; begin < stride && at < args.n * D; at += AHEAD * stride, round++) {
        float x[AHEAD];
        KM_UNROLL_FOR (int i = 0; i < AHEAD; i++)
            if (at + i * stride < args.n * D) x[i] = ((const float *)args.points)[at + i * stride];
        KM_UNROLL_FOR (int i = 0; i < AHEAD; i++) {
            if (at + i * stride >= args.n * D) break;
            const int bin = largest - km_exponent(x[i]);
            if (bin < 8)
                counts += 1ull << 8 * bin;
            else
                atomicAdd(&bins[f * BINS + (bin < BINS ? bin : BINS - 1)], 1u);
        }
        if (round % ROUNDS && at + AHEAD * stride < args.n * D) continue;
        for (int bin = 0; bin < 8; bin++, counts >>= 8)
            if (counts & 0xff) atomicAdd(&bins[f * BINS + bin], (unsigned)counts & 0xff);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < D * BINS; i += 256)
        if (bins[i]) atomicAdd(km_histogram(args) + i, bins[i]);
}

// Load: the exponent e of each feature. Beyond 2^e there may be one point in 16,384, or a single one, and the sum
// of their integers must fit 64 bits.
extern "C" __global__ void __launch_bounds__(256)
    km_tensor_lattice(const __grid_constant__ km_pass_args args) {
    const double points = fmax((double)args.n, 16384.0);
    for (int f = threadIdx.x; f < D; f += 256) {
        const unsigned *bins = km_histogram(args) + f * BINS;
        const int largest = km_exponent_max(args, f);
        double beyond = 0;
        int bin = 0;
        for (; bin < BINS - 1 && largest - bin > -100; bin++) {
            beyond += bins[bin];
            if (beyond * 16384 > points || beyond * km_power_of_2(bin + 1 + BITS) > km_power_of_2(61)) break;
        }
        km_exponents(args)[f] = largest - bin < 127 ? largest - bin : 127;
    }
}

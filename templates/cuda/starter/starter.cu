// SPDX-License-Identifier: MIT
// A pass of the design tensor that takes little time to compile and does not know the list of K: until the plan's own
// kernels are there a fit iterates with it. Each label is exact, and sums are the same integers of the same lattice, so
// totals have the same bits, and a fit may go over from one to the other between any two passes.
// ==== The starting pass
//@ need d weighted cosine cancelled form_digits prepares_coefficients
typedef float km_real;

enum {
    D = $d,
    BITS = 22, // as in templates/cuda/tensor
    BINS = 64,
    THREADS = 128,
    PITCH = (D + 1 + 3) / 4 *
            4 // of a row of centroids in shared memory: its features, and half its square behind
};

#define KM_BOTH __device__ __forceinline__
//@ verbatim cuda/abi.h
//@ verbatim slot.h
//@ verbatim cuda/steps.h
//@ verbatim cuda/starter.h
//@ words cuda/words.cu
//@ use unroll_for unroll_1_for unroll_2_for

//@ include cuda/steps/sums.cu

__constant__ km_starter_list km_list; // the host fills it

//@ include cuda/tensor/exponents.cu

static __device__ __forceinline__ int *km_exponents(const km_pass_args &args) {
    return (int *)args.workspace;
}

static __device__ __forceinline__ unsigned *km_histogram(const km_pass_args &args) {
    return (unsigned *)(km_exponents(args) + D);
}

static __device__ __forceinline__ unsigned long long *km_starter_sums(const km_pass_args &args) {
    return (unsigned long long *)((char *)args.workspace + KM_STARTER_SUMS_AT(D)) +
           (long long)blockIdx.y * km_list.s * (D + 1);
}

//@ include cuda/tensor/lattice.cu

//@ include cuda/tensor/nearest.cu

// Shared memory of a block, in the order of KM_STARTER_BYTES.
struct starter_block {
    unsigned long long *sums; // [s][D + 1]
    float *rows;              // [s][PITCH]
    float *norms;             // [ks_count]: of the longest centroid of each K, rounded up
    float *scale;             // [D]: by which a coordinate becomes an integer
    int *short_sums;          // [s][D + 1]
    int *numbers;             // [THREADS][D + 1]: of a thread's point
    int *labels;              // [ks_count][THREADS]: rows of a thread's point
};

static __device__ __forceinline__ starter_block starter_block_of(void *memory) {
    starter_block shared;
    shared.rows = (float *)memory; // aligned for reads of four
    shared.sums = (unsigned long long *)(shared.rows + km_list.s * PITCH);
    shared.short_sums = (int *)(shared.sums + km_list.s * (D + 1));
    shared.numbers = shared.short_sums + km_list.s * (D + 1);
    shared.labels = shared.numbers + THREADS * (D + 1);
    shared.norms = (float *)(shared.labels + km_list.ks_count * THREADS);
    shared.scale = shared.norms + km_list.ks_count;
    return shared;
}

static __device__ __forceinline__ void starter_begin(const starter_block &shared, const km_pass_args &args) {
    const float *from = (const float *)args.centroids + (long long)blockIdx.y * km_list.s * D;
    KM_UNROLL_1_FOR (int i = threadIdx.x; i < km_list.s * (D + 1); i += THREADS)
        shared.sums[i] = shared.short_sums[i] = 0;
    KM_UNROLL_1_FOR (int i = threadIdx.x; i < km_list.ks_count; i += THREADS) shared.norms[i] = 0;
    KM_UNROLL_1_FOR (int f = threadIdx.x; f < D; f += THREADS)
        shared.scale[f] = (float)km_power_of_2(BITS - km_exponents(args)[f]);
    __syncthreads();
    KM_UNROLL_1_FOR (int i = 0; i < km_list.ks_count; i++)
        KM_UNROLL_1_FOR (int j = threadIdx.x; j < km_list.ks[i]; j += THREADS) {
            const int row = km_list.offsets[i] + j;
            double square = 0;
            KM_UNROLL_1_FOR (int f = 0; f < D; f++) {
                const float c = from[row * D + f];
                shared.rows[row * PITCH + f] = c;
                square = fma((double)c, (double)c, square);
            }
            shared.rows[row * PITCH + D] = (float)(0.5 * square);
            // Floats that are not negative are ordered as their bits are.
            atomicMax((int *)shared.norms + i, __float_as_int(__fsqrt_ru(__double2float_ru(square))));
        }
    __syncthreads();
}

// Half of |c|^2 less |x - c|^2 + |x|^2: the larger, the nearer.
static __device__ __forceinline__ float starter_score(const float *x, const float *row) {
    float c[PITCH], score;
    KM_UNROLL_FOR (int f = 0; f < PITCH; f += 4) {
        const float4 four = *(const float4 *)(row + f);
        c[f] = four.x;
        c[f + 1] = four.y;
        c[f + 2] = four.z;
        c[f + 3] = four.w;
    }
    score = -c[D];
    KM_UNROLL_FOR (int f = 0; f < D; f++) score = fmaf(x[f], c[f], score);
    return score;
}

// The row of the point's nearest centroid. D products and additions are off by less than (D + 4) 2^-24 |c| (|x| + |c|)
// and what underflows; a lead of more than twice as much proves the label.
static __device__ __forceinline__ int starter_label(const float *x, float norm, const starter_block &shared,
                                                    const km_pass_args &args, int k_index, long long point) {
    const int k = km_list.ks[k_index], first = km_list.offsets[k_index];
    const float *row = shared.rows + first * PITCH, longest = shared.norms[k_index];
    const float least = -__int_as_float(0x7f800000); // minus infinity
    float best = least, second = least;
    int label = 0;
    KM_UNROLL_2_FOR (int j = 0; j < k; j++, row += PITCH) {
        const float score = starter_score(x, row);
        second = fmaxf(second, fminf(best, score));
        label = score > best ? j : label;
        best = fmaxf(best, score);
    }
    const float margin = (D + 8) * 0x1p-22f * longest * (norm + longest) + 1e-36f;
    if (best - second > margin && best > least) return first + label; // not where numbers overflowed
    return first + km_nearest_in_double(
                       (const float *)args.points + point * D,
                       (const float *)args.centroids + ((long long)blockIdx.y * km_list.s + first) * D, k);
}

// Moves the sums of 32 bits to those of 64.
static __device__ __forceinline__ void starter_flush(const starter_block &shared) {
    __syncthreads();
    KM_UNROLL_1_FOR (int i = threadIdx.x; i < km_list.s * (D + 1); i += THREADS) {
        shared.sums[i] += (unsigned long long)(long long)shared.short_sums[i];
        shared.short_sums[i] = 0;
    }
    __syncthreads();
}

// One pass: a thread a point, blocks of threads in turn.
extern "C" __global__ void __launch_bounds__(THREADS)
    km_starter_pass(const __grid_constant__ km_pass_args args) {
    extern __shared__ uint4 km_memory[];
    const starter_block shared = starter_block_of(km_memory);
    if (args.control->stop) return;
    const unsigned char *active = args.active + (long long)blockIdx.y * km_list.ks_count;
    const long long rounds = (args.n + THREADS - 1) / THREADS;
    int *own = shared.numbers + threadIdx.x * (D + 1), *labels = shared.labels + threadIdx.x;
    int since_flush = 0;
    starter_begin(shared, args);
    KM_UNROLL_1_FOR (long long round = blockIdx.x; round < rounds; round += gridDim.x) {
        const long long point = round * THREADS + threadIdx.x;
        if (point < args.n) {
            const float *from = (const float *)args.points + point * D;
            float x[D], square = 0;
            unsigned long_numbers = 0; // whether one has more than BITS bits
            KM_UNROLL_FOR (int f = 0; f < D; f++) {
                x[f] = from[f];
                square = fmaf(x[f], x[f], square);
                const float z = x[f] * shared.scale[f]; // exact
                long_numbers |= fabsf(z) > (1 << BITS);
                own[f] = __float2int_rn(z);
            }
            own[D] = 1;
            const float norm = sqrtf(square) * 1.001f + 1e-18f;
            KM_UNROLL_1_FOR (int i = 0; i < km_list.ks_count; i++)
                if (active[i]) labels[i * THREADS] = starter_label(x, norm, shared, args, i, point);
            KM_UNROLL_1_FOR (int i = 0; i < km_list.ks_count; i++) {
                if (!active[i]) continue;
                const int row = labels[i * THREADS] * (D + 1);
                int f = threadIdx.x % (D + 1); // lanes of one label add to different features
                if (long_numbers) {
                    KM_UNROLL_1_FOR (f = 0; f < D; f++)
                        atomicAdd(shared.sums + row + f,
                                  (unsigned long long)__double2ll_rn((double)from[f] * shared.scale[f]));
                    atomicAdd(shared.sums + row + D, 1ull);
                    continue;
                }
#pragma unroll 4
                for (int step = 0; step <= D; step++) {
                    atomicAdd(shared.short_sums + row + f, own[f]);
                    f = f == D ? 0 : f + 1;
                }
            }
        }
        if (++since_flush == KM_STARTER_POINTS / THREADS) {
            starter_flush(shared);
            since_flush = 0;
        }
    }
    starter_flush(shared);
    unsigned long long *sums = km_starter_sums(args);
    KM_UNROLL_1_FOR (int i = threadIdx.x; i < km_list.s * (D + 1); i += THREADS)
        if (shared.sums[i]) atomicAdd(sums + i, shared.sums[i]);
}

// The totals of a pass: integers become doubles once. Leaves the sums at 0 for the next.
extern "C" __global__ void __launch_bounds__(THREADS)
    km_starter_totals(const __grid_constant__ km_pass_args args) {
    if (args.control->stop) return;
    const int i = blockIdx.x, columns = km_list.ks[i] * (D + 1);
    if (!args.active[(long long)blockIdx.y * km_list.ks_count + i]) return;
    const long long first = km_list.offsets[i] * (D + 1ll);
    long long *sums = (long long *)km_starter_sums(args) + first;
    double *totals = args.totals + (long long)blockIdx.y * km_list.s * (D + 1) + first;
    KM_UNROLL_1_FOR (int at = threadIdx.x; at < columns; at += THREADS) {
        const int f = at % (D + 1);
        totals[at] =
            f < D ? (double)sums[at] * km_power_of_2(km_exponents(args)[f] - BITS) : (double)sums[at];
        sums[at] = 0;
    }
}

// ==== Its update
// To the update the list of K is known by these names.
#define KS km_list.ks_count
#define S km_list.s
#define km_ks km_list.ks
#define km_offsets km_list.offsets
//@ include cuda/steps/update.cu

// SPDX-License-Identifier: MIT
// Few distinct points, as of answers yes and no or small numbers: a pass has each of them once, with its number, in the
// place of all points. Labels are exact and sums are integers, so totals have the same bits.

//@ def distinct_memory
// Few distinct points. Where each stands for DISTINCT_SHARE points or more, the kernel that prepares a launch adds
// these, and the launch has nothing to do.
enum {
    DISTINCT_MAX = 4096,                   // distinct points
    DISTINCT_SHARE = 1024,                 // points for each of them, on average
    DISTINCT_WORK = 4 << 20,               // most products of these and a restart's centroids
    DISTINCT_SLOTS = 2 * DISTINCT_MAX,     // of their table
    DISTINCT_PARTS = GRID < 32 ? GRID : 32 // blocks that add them for a launch
};

struct km_distinct_point {
    long long point, count; // the index of one of them, and how many are the same
};

struct km_distinct {
    int found, blocks_done;          // while they are counted
    int count;                       // of `points`; 0: a pass has all points
    int unused;                      // so that the next is aligned
    long long slots[DISTINCT_SLOTS]; // 1 + the index of one of them; 0: none
    long long counts[DISTINCT_SLOTS];
    km_distinct_point points[DISTINCT_MAX];
};
constexpr long long DISTINCT_BYTES = sizeof(km_distinct);

static __device__ __forceinline__ km_distinct *km_distinct_of(const km_pass_args &args) {
    return (km_distinct *)((long long *)args.workspace + (long long)RESTARTS * COLUMNS * GRID);
}

//@ end
//@ def distinct_load
// Load: finds the distinct points by their bits, in a table by hash. Gives up as soon as there are too many.
extern "C" __global__ void __launch_bounds__(256)
    km_tensor_distinct(const __grid_constant__ km_pass_args args) {
    __shared__ unsigned counts[DISTINCT_SLOTS];
    __shared__ bool is_last;
    km_distinct *all = km_distinct_of(args);
    volatile int *found = &all->found;
    long long most = args.n / DISTINCT_SHARE;
    most = most < DISTINCT_MAX ? most : DISTINCT_MAX;
    const float *points = (const float *)args.points;
    for (int s = threadIdx.x; s < DISTINCT_SLOTS; s += 256) counts[s] = 0;
    __syncthreads();
    KM_UNROLL_1_FOR (long long i = blockIdx.x * 256ll + threadIdx.x; i < args.n && *found <= most;
                     i += gridDim.x * 256ll) {
        const float *x = points + i * D;
        unsigned hash = 0;
        KM_UNROLL_2_FOR (int f = 0; f < D; f++) {
            hash = (hash ^ __float_as_uint(x[f])) * 0x9e3779b1u;
            hash ^= hash >> 15;
        }
        int same = 0; // features that are those of the point in the slot
        KM_UNROLL_1_FOR (int probe = 0; same < D && *found <= most; probe++) {
            const unsigned slot = (hash + probe) % DISTINCT_SLOTS;
            long long there = ((volatile long long *)all->slots)[slot];
            if (there == 0) {
                there = (long long)atomicCAS((unsigned long long *)all->slots + slot, 0ull, i + 1ull);
                if (there == 0) atomicAdd(&all->found, 1);
            }
            const float *y = there == 0 ? x : points + (there - 1) * D;
            for (same = 0; same < D && __float_as_uint(x[same]) == __float_as_uint(y[same]);) same++;
            if (same == D) atomicAdd(&counts[slot], 1u);
        }
    }
    __syncthreads();
    for (int s = threadIdx.x; s < DISTINCT_SLOTS; s += 256)
        if (counts[s]) atomicAdd((unsigned long long *)all->counts + s, (unsigned long long)counts[s]);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) is_last = atomicAdd(&all->blocks_done, 1) == (int)gridDim.x - 1;
    __syncthreads();
    if (!is_last || *found > most || *found * (long long)(S * D) > DISTINCT_WORK) return;
    for (int s = threadIdx.x; s < DISTINCT_SLOTS; s += 256) {
        const long long there = ((volatile long long *)all->slots)[s];
        if (there == 0) continue;
        const int at = atomicAdd(&all->count, 1);
        all->points[at].point = there - 1;
        all->points[at].count = ((volatile long long *)all->counts)[s];
    }
}

//@ end
//@ def distinct_pass
//@ include cuda/tensor/nearest.cu

// The sums of a launch from the distinct points, by DISTINCT_PARTS blocks, as if the first blocks of the launch had
// found them. All others have left theirs at 0, as no K of the launch counts as active.
static __device__ __noinline__ void km_add_distinct(const km_pass_args &args, int launch, int part) {
    const km_distinct *all = km_distinct_of(args);
    if (threadIdx.x == 0) km_prepared_of(args, launch)->any_active = 0;
    if (args.control->stop) return;
    const auto is_own = [&](int i) {
        return km_k_layouts[i].launch == launch && args.active[blockIdx.y * KS + i];
    };
    KM_UNROLL_1_FOR (int i = 0; i < KS; i++) {
        if (!is_own(i)) continue;
        KM_UNROLL_1_FOR (int at = threadIdx.x; at < km_ks[i] * (D + 1); at += PREPARERS)
            *km_block_sum(args, part, km_offsets[i] * (D + 1) + at) = 0;
    }
    __syncthreads();
    const int count = all->count;
    KM_UNROLL_1_FOR (int at = part * PREPARERS + threadIdx.x; at < count * KS;
                     at += DISTINCT_PARTS * PREPARERS) {
        const int i = at / count; // lanes have the same K
        if (!is_own(i)) continue;
        const km_distinct_point item = all->points[at % count];
        const float *x = (const float *)args.points + item.point * D;
        const float *c = (const float *)args.centroids + ((long long)blockIdx.y * S + km_offsets[i]) * D;
        const int row = km_offsets[i] + km_nearest_in_double(x, c, km_ks[i]);
        KM_UNROLL_1_FOR (int step = 0; step <= D; step++) {
            const int f = (threadIdx.x + step) % (D + 1); // lanes of one label add to different features
            const long long number =
                f < D ? __double2ll_rn((double)x[f] * km_power_of_2(BITS - km_exponents(args)[f])) : 1;
            atomicAdd(km_block_sum(args, part, row * (D + 1) + f), (unsigned long long)(number * item.count));
        }
    }
}
//@ end

// SPDX-License-Identifier: MIT
// What the kernels of hamerly share.

enum {
    BOUNDS_PIECE = D % 4 == 0 && sizeof(km_real) == 4 ? 4
                   : D % 2 == 0                       ? 2
                                                      : 1, // numbers of a point that are read at a time
    BOUNDS_INTEGERS = BOUNDS_SUMS(D) // of a cluster
};

struct __align__(BOUNDS_PIECE * sizeof(km_real)) bounds_piece {
    km_real at[BOUNDS_PIECE];
};

// Rounding. u is half a unit of the last place of a float. A squared distance, the sum of D squared differences in
// float, errs by a part of at most (D + 4) u, its root by half of that and u.
constexpr float BOUNDS_UNIT = 5.9604644775390625e-8f, BOUNDS_ERROR = (D + 8) * BOUNDS_UNIT;
// What a score loses where its last bits say which column it is of.
constexpr float BOUNDS_KEY_ERROR = 1.0f / (1 << 20);
// Each step that a bound takes is to the safe side, by as much as floats need and more.
constexpr double BOUNDS_STEP = 1.0 / (1 << 21), BOUNDS_LEAST = 1e-21;

// What belongs to a slot.
struct bounds_run {
    km_bounds_slot *slot;
    const km_real *centroids;
    km_bounds_centroid *table;
    float *pairs;
    unsigned short *candidates;
    bounds_label *labels;
    float *upper, *slack;
    km_bounds_entry *list;
    int *sorted, *ambiguous;
    unsigned short *tile_labels;
    long long *sums;
    unsigned long long *counts;
    //@ if elkan
    unsigned short *lower;
    float lower_unit, lower_unmade;
    //@ end
    long long row; // its first
    int index, k, pitch;
};

static __device__ __forceinline__ bounds_run bounds_run_of(const km_bounds_args &args, int slot) {
    bounds_run run;
    const int q = slot % args.ks_count, restart = slot / args.ks_count;
    const long long pairs = restart * args.pairs_at[args.ks_count] + args.pairs_at[q];
    run.index = slot;
    run.k = args.ks[q];
    run.pitch = BOUNDS_ROW(run.k);
    run.row = (long long)restart * args.rows + args.offsets[q];
    run.slot = args.slots + slot;
    run.centroids = (const km_real *)args.centroids + run.row * D;
    run.table = args.table + run.row;
    run.pairs = args.pairs + pairs;
    run.candidates = args.candidates + pairs;
    run.labels = (bounds_label *)args.labels + slot * args.stride;
    run.upper = args.upper + slot * args.n;
    run.slack = args.slack + slot * args.n;
    run.list = args.list + slot * args.n;
    run.ambiguous = args.ambiguous + slot * args.n;
    run.sorted = args.sorted + slot * args.sorted_stride;
    run.tile_labels = args.tile_labels + slot * (args.sorted_stride / BOUNDS_TILE);
    run.sums = args.sums + run.row * BOUNDS_INTEGERS;
    run.counts = args.counts + slot * BOUNDS_COUNTS;
    //@ if elkan
    run.lower = args.lower + run.row * args.n;
    run.lower_unit = args.lower_unit;
    run.lower_unmade = 1.0f / args.lower_unit;
    //@ end
    return run;
}

// Whether the slot takes part in this pass, by bounds.
static __device__ __forceinline__ bool bounds_takes(const km_bounds_args &args, int slot) {
    return !args.control->stop && args.active[slot] && args.slots[slot].mode != BOUNDS_DENSE;
}

template <typename Number> static __device__ __forceinline__ Number bounds_warp_sum(Number value) {
    for (int away = 16; away > 0; away /= 2) value += __shfl_xor_sync(0xffffffffu, value, away);
    return value;
}

static __device__ __forceinline__ float bounds_warp_min(float value) {
    for (int away = 16; away > 0; away /= 2) value = fminf(value, __shfl_xor_sync(0xffffffffu, value, away));
    return value;
}

// Integers in the order of floats, and back.
static __device__ __forceinline__ int bounds_key(float value) {
    const int bits = __float_as_int(value);
    return bits < 0 ? bits ^ 0x7fffffff : bits;
}

static __device__ __forceinline__ float bounds_value(int key) {
    return __int_as_float(key < 0 ? key ^ 0x7fffffff : key);
}

static __device__ __forceinline__ void bounds_raise(int *most, int key) {
    if (key > *(volatile int *)most) atomicMax(most, key);
}

// Keeps bounds of a point: u at most, l at least. l may be infinite.
static __device__ __forceinline__ void bounds_keep(const bounds_run &run, km_bounds_centroid *own, int point,
                                                   float u, float l) {
    const float path = own->path_least, credit = own->credit;
    const float upper = __fsub_ru(u, path);
    run.upper[point] = upper;
    run.slack[point] = __fadd_rd(__fsub_rd(fminf(l, 1e30f), u), credit);
    bounds_raise(&own->radius, bounds_key(upper));
}

// A coordinate as the integers of a sum.
struct bounds_integers {
    long long whole;
    long long rest;
};

static __device__ __forceinline__ bounds_integers bounds_integers_of(const km_bounds_args &args, double x,
                                                                     int f) {
    const double value = x * args.scale[f];
    bounds_integers integers;
    integers.whole = __double2ll_rn(value);
    integers.rest = __double2ll_rn((value - (double)integers.whole) * args.rest);
    return integers;
}

static __device__ __forceinline__ void bounds_add(long long *sums, int f, const bounds_integers &integers,
                                                  long long sign) {
    atomicAdd((unsigned long long *)&sums[f], (unsigned long long)(sign * integers.whole));
    if (integers.rest)
        atomicAdd((unsigned long long *)&sums[D + 1 + f], (unsigned long long)(sign * integers.rest));
}

// A point goes from one cluster to another, by a warp.
static __device__ __forceinline__ void bounds_move(const km_bounds_args &args, const bounds_run &run,
                                                   int point, int from, int to) {
    const km_real *x = (const km_real *)args.points + (long long)point * D;
    long long *less = run.sums + (long long)from * BOUNDS_INTEGERS,
              *more = run.sums + (long long)to * BOUNDS_INTEGERS;
    for (int f = threadIdx.x % 32; f < D; f += 32) {
        const bounds_integers integers = bounds_integers_of(args, (double)x[f], f);
        bounds_add(less, f, integers, -1);
        bounds_add(more, f, integers, 1);
    }
    if (threadIdx.x % 32 == 0) {
        atomicAdd((unsigned long long *)&less[D], ~0ull);
        atomicAdd((unsigned long long *)&more[D], 1ull);
    }
}

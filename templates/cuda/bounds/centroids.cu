// SPDX-License-Identifier: MIT
// Before the points: how far centroids have moved, how far they are apart, and what follows for the bounds of all
// points with a label.

// A run that begins has the dense design's pass first: `dense`.
extern "C" __global__ void __launch_bounds__(BOUNDS_THREADS)
    km_bounds_dense(const __grid_constant__ km_bounds_args args) {
    const int slot = blockIdx.y * BOUNDS_THREADS + threadIdx.x;
    if (slot >= args.slots_count) return;
    args.dense[slot] = args.active[slot] && args.records[slot].state.iterations == 0;
    if (args.dense[slot]) args.slots[slot].mode = BOUNDS_DENSE;
}

// Moves, a warp each centroid. Clears what the pass counts.
extern "C" __global__ void __launch_bounds__(BOUNDS_THREADS)
    km_bounds_moves(const __grid_constant__ km_bounds_args args) {
    if (!bounds_takes(args, blockIdx.y)) return;
    const bounds_run run = bounds_run_of(args, blockIdx.y);
    const int j = blockIdx.x * (BOUNDS_THREADS / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    const bool is_new = run.slot->mode == BOUNDS_NEW;
    if (j == 0 && lane == 0) {
        run.slot->listed = run.slot->tiles = run.slot->ambiguous = 0;
        run.slot->compared = 0;
    }
    if (j >= run.k) return;
    km_real *before = (km_real *)args.before + (run.row + j) * D;
    double square = 0.0;
    for (int f = lane; f < D; f += 32) {
        const km_real value = run.centroids[(long long)j * D + f];
        const double apart = (double)value - (double)before[f];
        square = fma(apart, apart, square);
        before[f] = value;
    }
    square = bounds_warp_sum(square);
    if (is_new)
        for (int f = lane; f < BOUNDS_INTEGERS; f += 32) run.sums[(long long)j * BOUNDS_INTEGERS + f] = 0;
    if (lane != 0) return;
    km_bounds_centroid *own = run.table + j;
    const double drift = is_new ? 0.0 : sqrt(square) * (1 + BOUNDS_STEP);
    own->drift = __double2float_ru(drift);
    own->path = is_new ? 0.0 : own->path + drift;
    own->listed = own->candidates = 0;
    own->farthest = 0;
}

// Half the distances of 64 x 64 centroids, at most. A block has a square of the upper triangle, and writes the lower
// one, too. A thread has 4 x 4 pairs.
extern "C" __global__ void __launch_bounds__(BOUNDS_THREADS)
    km_bounds_pairs(const __grid_constant__ km_bounds_args args) {
    enum { SLAB = 16, PITCH = BOUNDS_PAIRS + 4 / sizeof(km_real) * 4 };
    __shared__ __align__(16) km_real rows[SLAB][PITCH], columns[SLAB][PITCH];
    if (!bounds_takes(args, blockIdx.y)) return;
    const bounds_run run = bounds_run_of(args, blockIdx.y);
    int below = blockIdx.x, from = 0;
    const int squares = (run.k + BOUNDS_PAIRS - 1) / BOUNDS_PAIRS;
    if (below >= squares * (squares + 1) / 2) return;
    while (below >= squares - from) below -= squares - from++;
    const int first = from * BOUNDS_PAIRS, other = (from + below) * BOUNDS_PAIRS;
    const int x = threadIdx.x % 16 * 4, y = threadIdx.x / 16 * 4;
    float square[4][4] = {};
    for (int slab = 0; slab < D; slab += SLAB) {
        __syncthreads();
        for (int at = threadIdx.x; at < BOUNDS_PAIRS * SLAB; at += BOUNDS_THREADS) {
            const int i = at / SLAB, f = slab + at % SLAB;
            rows[at % SLAB][i] =
                f < D && first + i < run.k ? run.centroids[(first + i) * (long long)D + f] : (km_real)0;
            columns[at % SLAB][i] =
                f < D && other + i < run.k ? run.centroids[(other + i) * (long long)D + f] : (km_real)0;
        }
        __syncthreads();
#pragma unroll 4
        for (int f = 0; f < SLAB; f++) {
            km_real a[4], b[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                a[i] = rows[f][y + i];
                b[i] = columns[f][x + i];
            }
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    const float apart = (float)(a[i] - b[j]);
                    square[i][j] = fmaf(apart, apart, square[i][j]);
                }
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int row = first + y + i, column = other + x + j;
            if (row >= run.k || column >= run.k) continue;
            const float half = 0.5f * sqrtf(square[i][j]) * (1.0f - BOUNDS_ERROR);
            run.pairs[(long long)row * run.pitch + column] = half;
            run.pairs[(long long)column * run.pitch + row] = half;
        }
}

static __device__ __forceinline__ float bounds_block_min(float value, float *shared) {
    value = bounds_warp_min(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    for (int warp = 0; warp < BOUNDS_ROW_THREADS / 32; warp++) value = fminf(value, shared[warp]);
    return value;
}

// What follows for a centroid's points, a block each. Another centroid counts where a point of the cluster could have
// it as its second nearest: centroid i is farther from each of them than the nearest other centroid is, if half the
// distance between i and their own is at least gap + radius (Rysavy and Hamerly, "Geometric methods to accelerate
// k-means algorithms", 2016).
extern "C" __global__ void __launch_bounds__(BOUNDS_ROW_THREADS)
    km_bounds_rows(const __grid_constant__ km_bounds_args args) {
    __shared__ float shared[BOUNDS_ROW_THREADS / 32];
    const int j = blockIdx.x;
    if (!bounds_takes(args, blockIdx.y)) return;
    const bounds_run run = bounds_run_of(args, blockIdx.y);
    if (j >= run.k) return;
    km_bounds_centroid *own = run.table + j;
    const float *pairs = run.pairs + (long long)j * run.pitch;
    const bool is_new = run.slot->mode == BOUNDS_NEW;
    float gap = 1e30f, move = 0.0f;
    for (int i = threadIdx.x; i < run.k; i += BOUNDS_ROW_THREADS)
        if (i != j) gap = fminf(gap, pairs[i]);
    gap = bounds_block_min(gap, shared);
    const double radius = (double)bounds_value(own->radius);
    const double limit = (double)gap * (1 + 4 * (double)BOUNDS_ERROR) + radius + own->path +
                         4 * BOUNDS_STEP * (fabs(radius) + own->path) + BOUNDS_LEAST;
    for (int i = threadIdx.x; i < run.k; i += BOUNDS_ROW_THREADS)
        if (i != j && (double)pairs[i] < limit) move = fmaxf(move, run.table[i].drift);
    move = -bounds_block_min(-move, shared);
    if (threadIdx.x != 0) return;
    const double path = own->path, others = is_new ? 0.0 : own->others + (double)move;
    own->others = others;
    own->gap = gap;
    own->expiry = __double2float_ru((path + others) * (1 + BOUNDS_STEP) + BOUNDS_LEAST);
    own->credit = __double2float_rd((path + others) * (1 - BOUNDS_STEP));
    own->path_least = __double2float_rd(path * (1 - BOUNDS_STEP));
    own->inner = __double2float_rd((double)gap - path - BOUNDS_STEP * ((double)gap + path));
    own->lower_less = __double2float_ru(others * (1 + BOUNDS_STEP) + 2 * BOUNDS_STEP * path + BOUNDS_LEAST);
    // From here on it is taken anew.
    if (is_new || run.slot->passes % BOUNDS_RADIUS_PASSES == 0) own->radius = bounds_key(-1e30f);
}

// Behind the lists: where the points of each label begin in `sorted`, in whole tiles. A block each run.
extern "C" __global__ void __launch_bounds__(BOUNDS_OFFSETS_THREADS)
    km_bounds_offsets(const __grid_constant__ km_bounds_args args) {
    enum { EACH = BOUNDS_CLUSTERS_MAX / BOUNDS_OFFSETS_THREADS };
    __shared__ int sums[BOUNDS_OFFSETS_THREADS];
    if (!bounds_takes(args, blockIdx.y)) return;
    const bounds_run run = bounds_run_of(args, blockIdx.y);
    int tiles[EACH], sum = 0;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int j = threadIdx.x * EACH + e;
        tiles[e] = j < run.k ? (run.table[j].listed + BOUNDS_TILE - 1) / BOUNDS_TILE : 0;
        sum += tiles[e];
    }
    sums[threadIdx.x] = sum;
    for (int step = 1; step < BOUNDS_OFFSETS_THREADS; step *= 2) {
        __syncthreads();
        const int lower = (int)threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
        __syncthreads();
        sums[threadIdx.x] += lower;
    }
    int at = sums[threadIdx.x] - sum;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int j = threadIdx.x * EACH + e;
        if (j < run.k) run.table[j].start = at * BOUNDS_TILE;
        at += tiles[e];
    }
    if (threadIdx.x == BOUNDS_OFFSETS_THREADS - 1) run.slot->tiles = sums[threadIdx.x];
}

// The candidates of the listed points of a label, in the order of their numbers, a block each: by the triangle
// inequality no centroid is nearer to a point that is twice as far from the point's own as the point is.
extern "C" __global__ void __launch_bounds__(BOUNDS_ROW_THREADS)
    km_bounds_candidates(const __grid_constant__ km_bounds_args args) {
    __shared__ float shared[BOUNDS_ROW_THREADS / 32];
    __shared__ int counts[BOUNDS_ROW_THREADS / 32];
    const int j = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (!bounds_takes(args, blockIdx.y)) return;
    const bounds_run run = bounds_run_of(args, blockIdx.y);
    if (j >= run.k || run.table[j].listed == 0) return;
    km_bounds_centroid *own = run.table + j;
    float *pairs = run.pairs + (long long)j * run.pitch;
    unsigned short *candidates = run.candidates + (long long)j * run.pitch;
    const float limit = __int_as_float(own->farthest) * (1.0f + (float)BOUNDS_STEP);
    float outer = 1e30f;
    int found = 0;
    for (int first = 0; first < run.k; first += BOUNDS_ROW_THREADS) {
        const int i = first + threadIdx.x;
        const bool is_other = i < run.k && i != j;
        const float half = is_other ? pairs[i] : 1e30f;
        const bool is_candidate = is_other && !(half >= limit && limit < 1e30f);
        if (!is_candidate) outer = fminf(outer, half);
        const unsigned lanes = __ballot_sync(0xffffffffu, is_candidate);
        __syncthreads();
        if (lane == 0) counts[warp] = __popc(lanes);
        __syncthreads();
        int at = found + __popc(lanes & ((1u << lane) - 1));
        for (int w = 0; w < BOUNDS_ROW_THREADS / 32; w++) {
            if (w < warp) at += counts[w];
            found += counts[w];
        }
        if (!is_candidate) continue;
        candidates[at] = (unsigned short)i;
        pairs[at] = half; // at most i: what has been read
    }
    outer = bounds_block_min(outer, shared);
    if (threadIdx.x != 0) return;
    own->candidates = found;
    own->outer = outer;
    atomicAdd(&run.slot->compared, (unsigned long long)own->listed * found);
}

// Behind the points: the totals in double, a thread each number.
extern "C" __global__ void __launch_bounds__(BOUNDS_THREADS)
    km_bounds_totals(const __grid_constant__ km_bounds_args args) {
    if (!bounds_takes(args, blockIdx.y)) return;
    const bounds_run run = bounds_run_of(args, blockIdx.y);
    const int at = blockIdx.x * BOUNDS_THREADS + threadIdx.x, j = at / (D + 1), f = at % (D + 1);
    if (j >= run.k) return;
    const long long *sums = run.sums + (long long)j * BOUNDS_INTEGERS;
    double total = (double)sums[f];
    if (f < D) total += (double)sums[D + 1 + f] / args.rest;
    args.totals[(run.row + j) * (D + 1) + f] = f < D ? total / args.scale[f] : total;
}

// The runs' next pass: those of the dense design have labels now. Where bounds rest it had all of them.
extern "C" __global__ void __launch_bounds__(BOUNDS_THREADS)
    km_bounds_end(const __grid_constant__ km_bounds_args args) {
    const int slot = blockIdx.y * BOUNDS_THREADS + threadIdx.x;
    if (args.control->stop || slot >= args.slots_count) return;
    km_bounds_slot *own = args.slots + slot;
    if (args.rests) own->mode = args.active[slot] ? BOUNDS_DENSE : BOUNDS_NEW;
    if (!args.active[slot]) return;
    unsigned long long *counts = args.counts + slot * BOUNDS_COUNTS;
    if (own->mode == BOUNDS_DENSE) {
        counts[BOUNDS_PASSES] += 1;
    } else {
        counts[BOUNDS_SKIPPING] += 1;
        counts[BOUNDS_LISTED] += own->listed;
        //@ if not elkan
        counts[BOUNDS_OPEN] += own->listed;
        counts[BOUNDS_COMPARED] += own->compared;
        //@ end
        counts[BOUNDS_RESOLVED] += own->ambiguous;
    }
    own->passes = own->mode == BOUNDS_KEPT ? own->passes + 1 : 0;
    own->mode = own->mode == BOUNDS_DENSE ? BOUNDS_NEW : BOUNDS_KEPT;
}

// SPDX-License-Identifier: MIT
// Seeding: greedy k-means++, all chains in the same passes, as runtime/seed.h states it. For each pick two kernels:
// km_seed_draw closes the pick before (the candidate with the smallest cost wins) and draws the candidates of this
// one; km_seed_pass reads the points once, brings each chain's distances up to date and sums what every candidate
// would leave. Nothing goes through the host.

// Candidates that a thread serves at a time: all of a pick, up to K = 20. Their rows are kept in shared memory where
// they fit. A candidate is fetched once for several points of a thread.
constexpr int SEED_CANDIDATES = 4, SEED_ROWS = SEED_CANDIDATES + 1;
constexpr bool SEED_STAGED = SEED_ROWS * D * sizeof(km_real) <= 32768;
constexpr int SEED_GROUP = D * sizeof(km_real) <= 32 ? 4 : D * sizeof(km_real) <= 64 ? 2 : 1;
constexpr int SEED_POINTS = KM_UNIT_POINTS / KM_THREADS; // of a thread, where one draws
constexpr int SEED_STRIDE = KM_THREADS / 2;               // half of a block's threads share a unit
// Blocks of a multiprocessor: a third one hides memory, where registers allow it.
constexpr int SEED_BLOCKS = sizeof(km_real) == 4 && D <= 4 && !WEIGHTED ? 3 : 2;
constexpr km_real SEED_FAR = sizeof(km_real) == 4 ? (km_real)3.4028234e38 : (km_real)1.7976931348623157e308;

__device__ __forceinline__ unsigned long long seed_mix(unsigned long long z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

// Uniform in [0, 1), a function of its four words alone.
__device__ __forceinline__ double seed_uniform(unsigned long long seed, unsigned long long restart,
                                               unsigned long long pick, unsigned long long candidate) {
    unsigned long long z = seed_mix(seed + 0x9e3779b97f4a7c15ull);
    z = seed_mix(z + restart * 0x9e3779b97f4a7c15ull + 0x632be59bd9b4e019ull);
    z = seed_mix(z + pick * 0x9e3779b97f4a7c15ull + 0xd1b54a32d192ed03ull);
    z = seed_mix(z + candidate * 0x9e3779b97f4a7c15ull + 0x8cb92ba72f3d8dd7ull);
    return (double)(z >> 11) * (1.0 / 9007199254740992.0);
}

__device__ __forceinline__ km_real seed_distance(const km_real *x, const km_real *y) {
    km_real sum = 0;
#pragma unroll 4 // only the points of one unit come here: short code, which compiles sooner
    for (int f = 0; f < D; f++) {
        const km_real t = x[f] - y[f];
        sum = fma(t, t, sum);
    }
    return sum;
}

// Sums of blocks of 65,536 points from those of their units: a warp takes a block at a time. Shared memory.
__device__ __forceinline__ void seed_block_sums(double *sums, const double *unit_sums, long long units, long long first,
                                                int count) {
    constexpr int WARPS = KM_THREADS / 32, TOGETHER = 16; // loads on their way at a time
    const int lane = threadIdx.x % 32;
    for (int first_b = threadIdx.x / 32; first_b < count; first_b += TOGETHER * WARPS) {
        double part[TOGETHER];
#pragma unroll
        for (int t = 0; t < TOGETHER; t++) {
            const long long unit = (first + first_b + t * WARPS) * KM_UNITS_PER_BLOCK + lane;
            part[t] = unit < units ? unit_sums[unit] : 0.0;
        }
#pragma unroll
        for (int t = 0; t < TOGETHER; t++) {
            for (int step = 16; step > 0; step >>= 1) part[t] += __shfl_xor_sync(0xffffffffu, part[t], step);
            if (lane == 0 && first_b + t * WARPS < count) sums[first_b + t * WARPS] = part[t];
        }
    }
}
static_assert(KM_UNITS_PER_BLOCK == 32, "a lane a unit");

// Of the sums that the candidates of a pick left, the totals; `totals` is shared memory.
__device__ void seed_totals(double *totals, const double *unit_sums, long long units, int candidates) {
    __shared__ double sums[KM_CANDIDATES_MAX][KM_THREADS];
    const long long blocks = (units + KM_UNITS_PER_BLOCK - 1) / KM_UNITS_PER_BLOCK;
    double total = 0.0;
    for (long long first = 0; first < blocks; first += KM_THREADS) {
        const int here = (int)(blocks - first < KM_THREADS ? blocks - first : KM_THREADS);
        for (int c = 0; c < candidates; c++) seed_block_sums(sums[c], unit_sums + c * units, units, first, here);
        __syncthreads();
        if (threadIdx.x < candidates)
#pragma unroll 8
            for (int b = 0; b < here; b++) total = __dadd_rn(total, sums[threadIdx.x][b]);
        __syncthreads();
    }
    if (threadIdx.x < candidates) totals[threadIdx.x] = total;
    __syncthreads();
}

// Where a running sum over parts first exceeds the target. When rounding lets none do so, the last part that is
// not 0 is taken. In shared memory.
struct seed_search {
    double target, running, before; // `before`: the running sum before the part that was taken
    long long taken;
    int found;
    int first, last; // of the parts in hand: the first that exceeds the target, the last that is not 0
    double parts[KM_THREADS], sums[KM_THREADS];
};

// Goes on with search->parts[0 ... count), the first of which is part `index` of all. Only the running sum is made by
// one thread.
__device__ void seed_search_parts(seed_search *search, int count, long long index) {
    const int t = threadIdx.x;
    __syncthreads();
    if (t == 0) {
        double sum = search->running;
#pragma unroll 8
        for (int b = 0; b < count; b++) search->sums[b] = sum = __dadd_rn(sum, search->parts[b]);
        search->first = count;
        search->last = -1;
    }
    __syncthreads();
    if (t < count && search->parts[t] > 0.0) {
        if (search->sums[t] > search->target) atomicMin(&search->first, t);
        atomicMax(&search->last, t);
    }
    __syncthreads();
    if (t == 0) {
        search->found = search->first < count;
        const int taken = search->found ? search->first : search->last;
        if (taken >= 0) {
            search->taken = index + taken;
            search->before = taken > 0 ? search->sums[taken - 1] : search->running;
        }
        search->running = search->sums[count - 1];
    }
    __syncthreads();
}

// What a point weighs in the draw of `pick`, given the pick before and the distances before that.
__device__ __forceinline__ double seed_value(const km_seed_args *args, const km_real *nearest, long long i,
                                             long long pick, const km_real *last) {
    const double weight = km_weight(args->weights, i);
    if (pick == 0) return weight;
    km_real square = seed_distance((const km_real *)args->points + i * D, last);
    if (pick > 1) square = nearest[i] < square ? nearest[i] : square;
    return __dmul_rn(weight, square);
}

// Walks down: blocks, units of the block, threads of the unit, points of the thread.
__device__ long long seed_find(const km_seed_args *args, const km_real *nearest, const double *unit_sums, double target,
                               long long pick, const km_real *last) {
    __shared__ seed_search search;
    const long long units = args->units, blocks = (units + KM_UNITS_PER_BLOCK - 1) / KM_UNITS_PER_BLOCK;
    if (threadIdx.x == 0) {
        search.target = target;
        search.running = search.before = 0.0;
        search.taken = 0;
        search.found = 0;
    }
    __syncthreads();
    for (long long first = 0; first < blocks && !search.found; first += KM_THREADS) {
        const int here = (int)(blocks - first < KM_THREADS ? blocks - first : KM_THREADS);
        seed_block_sums(search.parts, unit_sums, units, first, here);
        seed_search_parts(&search, here, first);
    }
    const long long begin = search.taken * KM_UNITS_PER_BLOCK;
    const int left = (int)(units - begin < KM_UNITS_PER_BLOCK ? units - begin : KM_UNITS_PER_BLOCK);
    if (threadIdx.x < left) search.parts[threadIdx.x] = unit_sums[begin + threadIdx.x];
    if (threadIdx.x == 0) search.running = search.before;
    seed_search_parts(&search, left, begin);
    const long long mine = search.taken * KM_UNIT_POINTS + threadIdx.x * SEED_POINTS;
    double values[SEED_POINTS], sum = 0.0;
#pragma unroll
    for (int p = 0; p < SEED_POINTS; p++) {
        values[p] = mine + p < args->n ? seed_value(args, nearest, mine + p, pick, last) : 0.0;
        sum = __dadd_rn(sum, values[p]);
    }
    __syncthreads();
    search.parts[threadIdx.x] = sum;
    if (threadIdx.x == 0) search.running = search.before;
    seed_search_parts(&search, KM_THREADS, 0);
    const long long taken = search.taken;
    double running = search.before;
    __syncthreads();
    if (threadIdx.x == taken) {
        long long drawn = mine;
        bool found = false;
#pragma unroll
        for (int p = 0; p < SEED_POINTS; p++) {
            running = __dadd_rn(running, values[p]);
            if (!found && values[p] > 0.0) {
                drawn = mine + p;
                found = running > target;
            }
        }
        search.taken = drawn;
    }
    __syncthreads();
    return search.taken;
}

// Block (chain, candidate). candidates_before and candidates_now: of pick - 1 (0 for the first) and of this pick (0
// after the last).
extern "C" __global__ void __launch_bounds__(KM_THREADS, 2)
    km_seed_draw(const __grid_constant__ km_seed_args args, long long pick, int candidates_before, int candidates_now) {
    __shared__ double totals[KM_CANDIDATES_MAX];
    const int chain = blockIdx.x, candidate = blockIdx.y;
    const km_real *points = (const km_real *)args.points;
    const double *unit_sums =
        pick == 0 ? args.unit_weights : args.unit_sums + (long long)chain * KM_CANDIDATES_MAX * args.units;
    seed_totals(totals, unit_sums, args.units, pick == 0 ? 1 : candidates_before);
    int best = 0;
    for (int c = 1; c < candidates_before; c++)
        if (totals[c] < totals[best]) best = c;
    const double total = totals[best];
    const km_real *last = points;
    if (pick > 0) {
        const long long *before = args.candidates + ((pick - 1) % 2 * args.chains + chain) * KM_CANDIDATES_MAX;
        last = points + before[best] * D;
        if (candidate == 0 && threadIdx.x == 0) args.picks[chain * args.picks_count + pick - 1] = before[best];
    }
    if (candidate >= candidates_now) return;
    const double u = seed_uniform(args.seed, args.first_restart + chain, pick, candidate);
    long long drawn = (long long)(u * args.n);
    if (drawn > args.n - 1) drawn = args.n - 1;
    if (total > 0.0)
        drawn = seed_find(&args, (const km_real *)args.nearest + chain * args.n, unit_sums + best * args.units,
                          u * total, pick, last);
    if (threadIdx.x == 0)
        args.candidates[(pick % 2 * args.chains + chain) * KM_CANDIDATES_MAX + candidate] = drawn;
}

// What one chain needs in a pass, for the candidates in hand.
struct seed_chain {
    const km_real *staged;  // in shared memory: row 0 the last pick, row 1 + c candidate c; or
    const long long *point; // in shared memory: the points that they are
    int candidates;
    int picked;  // how many picks there are; 2: two or more
    bool update; // distances are to be brought up to date with the last pick
};

// Some points of a thread, every SEED_STRIDE-th from here on.
struct seed_points {
    const km_real *x;
    const double *weights;
    km_real *nearest;
};

__device__ __forceinline__ const km_real *seed_row(const km_seed_args &args, const seed_chain &chain, int c) {
    return SEED_STAGED ? chain.staged + c * D : (const km_real *)args.points + chain.point[c] * D;
}

// Adds features f ... of the points' squared distances to row `c` of the chain.
template <int POINTS>
__device__ __forceinline__ void seed_distances(km_real *square, const km_real (*x)[STEP_CHUNK],
                                               const km_seed_args &args, const seed_chain &chain, int c, int f) {
    km_real row[STEP_CHUNK];
    step_load(row, seed_row(args, chain, c), f);
#pragma unroll
    for (int g = 0; g < STEP_CHUNK; g++)
#pragma unroll
        for (int p = 0; p < POINTS; p++) {
            const km_real t = x[p][g] - row[g];
            square[p] = fma(t, t, square[p]);
        }
}

// The distances as the pick before left them. Each is read once and chain after chain, so it stays out of the first
// cache, where the points are.
template <int POINTS>
__device__ __forceinline__ void seed_known(km_real *known, const km_real *nearest, int picked) {
#pragma unroll
    for (int p = 0; p < POINTS; p++) known[p] = picked > 1 ? __ldcg(nearest + p * SEED_STRIDE) : SEED_FAR;
}

// Brings distances up to date with the last pick and adds to sums[c] what the points would cost with candidate c: w
// times the smaller of the distance to what was picked before (`best`) and to the candidate.
template <int POINTS>
__device__ __forceinline__ void seed_group(double *sums, km_real *best, const km_seed_args &args,
                                           const seed_chain &chain, const seed_points &at) {
    km_real square[SEED_ROWS][POINTS] = {}, x[POINTS][STEP_CHUNK];
#pragma unroll 1
    for (int f = 0; f < D; f += STEP_CHUNK) {
#pragma unroll
        for (int p = 0; p < POINTS; p++) step_load(x[p], at.x + p * SEED_STRIDE * D, f);
        if (chain.update) seed_distances<POINTS>(square[0], x, args, chain, 0, f);
#pragma unroll
        for (int c = 1; c < SEED_ROWS && !STEP_WHOLE; c++) // whole points take them one by one, below
            if (c <= chain.candidates) seed_distances<POINTS>(square[c], x, args, chain, c, f);
    }
#pragma unroll
    for (int p = 0; p < POINTS; p++) {
        const bool nearer = chain.update && square[0][p] < best[p];
        if (nearer) best[p] = square[0][p];
        if (nearer || (chain.update && chain.picked == 1)) at.nearest[p * SEED_STRIDE] = best[p];
    }
#pragma unroll
    for (int c = 0; c < SEED_CANDIDATES; c++) {
        if (c >= chain.candidates) break;
        if (STEP_WHOLE) seed_distances<POINTS>(square[c + 1], x, args, chain, c + 1, 0);
        //@ if weighted
#pragma unroll
        for (int p = 0; p < POINTS; p++) {
            const km_real left = fmin(best[p], square[c + 1][p]);
            sums[c] = __dadd_rn(sums[c], __dmul_rn(km_weight(at.weights, p * SEED_STRIDE), left));
        }
        //@ else
        km_real sum = fmin(best[0], square[c + 1][0]); // of a few points: their distances are no more exact than it
#pragma unroll
        for (int p = 1; p < POINTS; p++) sum += fmin(best[p], square[c + 1][p]);
        sums[c] = __dadd_rn(sums[c], fmin(sum, SEED_FAR));
        //@ end
    }
}

// A whole unit; what is known of the first two groups of a thread's points has been fetched to `ahead`, and so is, on
// leaving, that of the next chain, from `next` on.
__device__ __forceinline__ void seed_whole_unit(double *sums, km_real (*ahead)[SEED_GROUP], const km_seed_args &args,
                                                const seed_chain &chain, seed_points at, const km_real *next) {
    constexpr int STEP = SEED_GROUP * SEED_STRIDE, GROUPS = KM_UNIT_POINTS / STEP;
#pragma unroll 1
    for (int group = 0; group < GROUPS; group += 2) {
        const km_real *ahead_at = group + 2 < GROUPS ? at.nearest + 2 * STEP : next;
#pragma unroll
        for (int turn = 0; turn < 2; turn++) {
            km_real best[SEED_GROUP];
#pragma unroll
            for (int p = 0; p < SEED_GROUP; p++) best[p] = ahead[turn][p];
            seed_known<SEED_GROUP>(ahead[turn], ahead_at + turn * STEP, chain.picked);
            seed_group<SEED_GROUP>(sums, best, args, chain, at);
            at.x += STEP * D;
            at.weights += STEP;
            at.nearest += STEP;
        }
    }
}

// Sums over the threads of each unit, for the candidates in hand; `out` is where the unit's go, NULL where it is none.
__device__ __forceinline__ void seed_sums_write(double *out, const double *sums, long long units, int candidates) {
    __shared__ double warps[SEED_CANDIDATES][KM_THREADS / 32];
#pragma unroll
    for (int c = 0; c < SEED_CANDIDATES; c++) {
        double sum = sums[c];
        for (int step = 16; step > 0; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        if (threadIdx.x % 32 == 0) warps[c][threadIdx.x / 32] = sum;
    }
    __syncthreads();
    const int c = threadIdx.x % SEED_STRIDE, half = threadIdx.x / SEED_STRIDE;
    if (c < candidates && out) {
        double sum = 0.0;
        for (int w = 0; w < SEED_STRIDE / 32; w++) sum = __dadd_rn(sum, warps[c][half * (SEED_STRIDE / 32) + w]);
        out[c * units] = sum;
    }
    // `warps` is written again only behind the next barrier of the caller.
}

// Two units of points, each by half of the threads; chain after chain, a few candidates at a time.
extern "C" __global__ void __launch_bounds__(KM_THREADS, SEED_BLOCKS)
    km_seed_pass(const __grid_constant__ km_seed_args args, long long pick, int candidates) {
    __shared__ __align__(16) km_real staged[SEED_STAGED ? SEED_ROWS * D : 1];
    __shared__ long long rows[SEED_ROWS];
    const km_real *points = (const km_real *)args.points;
    const long long unit = blockIdx.x * 2ll + threadIdx.x / SEED_STRIDE, left = args.n - unit * KM_UNIT_POINTS;
    const int mine = threadIdx.x % SEED_STRIDE, picked = pick > 1 ? 2 : (int)pick;
    const bool whole = left >= KM_UNIT_POINTS;
    const long long first = whole || left > mine ? unit * KM_UNIT_POINTS + mine : 0;
    const int count = whole ? int(KM_UNIT_POINTS) : left > 0 ? (int)left : 0; // of the unit's points
    const seed_points begin = {points + first * D, args.weights + first, (km_real *)args.nearest + first};
    km_real ahead[2][SEED_GROUP];
    if (whole)
        for (int turn = 0; turn < 2; turn++)
            seed_known<SEED_GROUP>(ahead[turn], begin.nearest + turn * SEED_GROUP * SEED_STRIDE, picked);
    for (int index = 0; index < args.chains; index++)
        for (int c = 0; c < candidates; c += SEED_CANDIDATES) {
            const long long *drawn = args.candidates + (pick % 2 * args.chains + index) * KM_CANDIDATES_MAX + c;
            const long long last = pick > 0 ? args.picks[index * args.picks_count + pick - 1] : 0;
            const int here = candidates - c < SEED_CANDIDATES ? candidates - c : int(SEED_CANDIDATES);
            const int next = c + SEED_CANDIDATES < candidates || index + 1 == args.chains ? index : index + 1;
#pragma unroll 1
            for (int at = threadIdx.x; SEED_STAGED && at < (here + 1) * D; at += KM_THREADS)
                staged[at] = points[(at < D ? last : drawn[at / D - 1]) * D + at % D];
            if (!SEED_STAGED && threadIdx.x <= here)
                rows[threadIdx.x] = threadIdx.x == 0 ? last : drawn[threadIdx.x - 1];
            __syncthreads();
            const seed_chain chain = {staged, rows, here, picked, picked && c == 0};
            double sums[SEED_CANDIDATES] = {};
            seed_points at = begin;
            at.nearest += index * args.n;
            if (whole)
                seed_whole_unit(sums, ahead, args, chain, at, begin.nearest + next * args.n);
            else
                for (int i = mine; i < count; i += SEED_STRIDE) {
                    km_real best[1];
                    seed_known<1>(best, at.nearest, picked);
                    seed_group<1>(sums, best, args, chain, at);
                    at.x += SEED_STRIDE * D;
                    at.weights += SEED_STRIDE;
                    at.nearest += SEED_STRIDE;
                }
            double *out = args.unit_sums + ((long long)index * KM_CANDIDATES_MAX + c) * args.units + unit;
            seed_sums_write(left > 0 ? out : nullptr, sums, args.units, here);
        }
}

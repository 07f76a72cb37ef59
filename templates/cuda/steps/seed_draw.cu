// SPDX-License-Identifier: MIT
// Finds the drawn point: its chunk, its subchunk, its thread, the point.
static __device__ long long seed_find(const km_seed_args *args, const km_real *nearest,
                                      const double *subchunk_sums, double target, long long pick,
                                      long long last, const unsigned short *nearer, int best) {
    __shared__ seed_search search;
    const long long subchunks = args->subchunks,
                    chunks = (subchunks + KM_SUBCHUNKS_PER_CHUNK - 1) / KM_SUBCHUNKS_PER_CHUNK;
    if (threadIdx.x == 0) {
        search.target = target;
        search.running = search.before = 0.0;
        search.taken = 0;
        search.found = 0;
    }
    __syncthreads();
    for (long long first = 0; first < chunks && !search.found; first += KM_THREADS) {
        const int here = (int)(chunks - first < KM_THREADS ? chunks - first : KM_THREADS);
        seed_chunk_sums(&search.parts, subchunk_sums, subchunks, first, here, 1);
        seed_search_parts(&search, here, first);
    }
    const long long begin = search.taken * KM_SUBCHUNKS_PER_CHUNK;
    const int left =
        (int)(subchunks - begin < KM_SUBCHUNKS_PER_CHUNK ? subchunks - begin : KM_SUBCHUNKS_PER_CHUNK);
    if (threadIdx.x < left) search.parts[threadIdx.x] = subchunk_sums[begin + threadIdx.x];
    if (threadIdx.x == 0) search.running = search.before;
    seed_search_parts(&search, left, begin);
    const long long own_first = search.taken * KM_SUBCHUNK_POINTS + threadIdx.x * SEED_POINTS;
    double values[SEED_POINTS], sum = 0.0;
    seed_values(values, args, nearest, own_first, pick, last, nearer, best);
#pragma unroll
    for (int p = 0; p < SEED_POINTS; p++) sum = __dadd_rn(sum, values[p]);
    __syncthreads();
    search.parts[threadIdx.x] = sum;
    if (threadIdx.x == 0) search.running = search.before;
    seed_search_parts(&search, KM_THREADS, 0);
    const long long taken = search.taken;
    double running = search.before;
    __syncthreads();
    if (threadIdx.x == taken) {
        long long drawn = own_first;
        bool found = false;
#pragma unroll
        for (int p = 0; p < SEED_POINTS; p++) {
            running = __dadd_rn(running, values[p]);
            if (!found && values[p] > 0.0) {
                drawn = own_first + p;
                found = running > target;
            }
        }
        search.taken = drawn;
    }
    __syncthreads();
    return search.taken;
}

// Block (chain, candidate). candidates_before: how many pick - 1 had, 0 for the first pick. candidates_now: how
// many this pick has, 0 behind the last. nearer: of each chain's points, bit c: the distance to candidate c of the pick
// before is less than `nearest`; NULL: not known.
extern "C" __global__ void __launch_bounds__(KM_THREADS, 2)
    km_seed_draw(const __grid_constant__ km_seed_args args, long long pick, int candidates_before,
                 int candidates_now, const unsigned short *nearer) {
    __shared__ double totals[KM_CANDIDATES_MAX];
    const int chain = blockIdx.x, candidate = blockIdx.y;
    const double *subchunk_sums =
        pick == 0 ? args.subchunk_weights
                  : args.subchunk_sums + (long long)chain * KM_CANDIDATES_MAX * args.subchunks;
    seed_totals(totals, subchunk_sums, args.subchunks, pick == 0 ? 1 : candidates_before);
    int best = 0;
    for (int c = 1; c < candidates_before; c++)
        if (totals[c] < totals[best]) best = c;
    const double total = totals[best];
    long long last = 0;
    if (pick > 0) {
        const long long *before =
            args.candidates + ((pick - 1) % 2 * args.chains + chain) * KM_CANDIDATES_MAX;
        last = before[best];
        if (candidate == 0 && threadIdx.x == 0)
            args.picks[chain * args.picks_count + pick - 1] = before[best];
    }
    if (candidate >= candidates_now) return;
    const double u = km_draw(args.seed, args.first_restart + chain, pick, candidate);
    long long drawn = (long long)(u * args.n);
    if (drawn > args.n - 1) drawn = args.n - 1;
    if (total > 0.0)
        drawn = seed_find(&args, (const km_real *)args.nearest + chain * args.n,
                          subchunk_sums + best * args.subchunks, u * total, pick, last,
                          nearer ? nearer + chain * args.n : nearer, best);
    if (threadIdx.x == 0)
        args.candidates[(pick % 2 * args.chains + chain) * KM_CANDIDATES_MAX + candidate] = drawn;
}

// SPDX-License-Identifier: MIT
// Drawing is a small part of seeding: short code, which compiles sooner, so not inlined and with loops where reads need
// not be side by side.

// The sums of `count` chunks from those of their subchunks, of each candidate, to shared memory: a chunk a warp at a
// time.
static __device__ __noinline__ void seed_chunk_sums(double (*sums)[KM_THREADS], const double *subchunk_sums,
                                                    long long subchunks, long long first, int count,
                                                    int candidates) {
    constexpr int WARPS = KM_THREADS / 32, AT_ONCE = 16; // loads at a time
    const int lane = threadIdx.x % 32, all = count * candidates;
    for (int begin = threadIdx.x / 32; begin < all; begin += AT_ONCE * WARPS) {
        double part[AT_ONCE];
#pragma unroll
        for (int t = 0; t < AT_ONCE; t++) {
            const int c = (begin + t * WARPS) / count, chunk = (begin + t * WARPS) % count;
            const long long subchunk = (first + chunk) * KM_SUBCHUNKS_PER_CHUNK + lane;
            part[t] = c < candidates && subchunk < subchunks ? subchunk_sums[c * subchunks + subchunk] : 0.0;
        }
#pragma unroll 1
        for (int step = 16; step > 0; step >>= 1)
#pragma unroll
            for (int t = 0; t < AT_ONCE; t++) part[t] += __shfl_xor_sync(0xffffffffu, part[t], step);
#pragma unroll
        for (int t = 0; t < AT_ONCE; t++)
            if (lane == 0 && begin + t * WARPS < all)
                sums[(begin + t * WARPS) / count][(begin + t * WARPS) % count] = part[t];
    }
}
static_assert(KM_SUBCHUNKS_PER_CHUNK == 32, "a lane a subchunk");

// The inertia that each candidate of a pick would leave: totals over the chunks, to shared memory.
static __device__ void seed_totals(double *totals, const double *subchunk_sums, long long subchunks,
                                   int candidates) {
    __shared__ double sums[KM_CANDIDATES_MAX][KM_THREADS];
    const long long chunks = (subchunks + KM_SUBCHUNKS_PER_CHUNK - 1) / KM_SUBCHUNKS_PER_CHUNK;
    double total = 0.0;
    for (long long first = 0; first < chunks; first += KM_THREADS) {
        const int here = (int)(chunks - first < KM_THREADS ? chunks - first : KM_THREADS);
        seed_chunk_sums(sums, subchunk_sums, subchunks, first, here, candidates);
        __syncthreads();
        if (threadIdx.x < candidates)
#pragma unroll 8
            for (int b = 0; b < here; b++) total = __dadd_rn(total, sums[threadIdx.x][b]);
        __syncthreads();
    }
    if (threadIdx.x < candidates) totals[threadIdx.x] = total;
    __syncthreads();
}

// Search for the part at which a running sum exceeds the target; in shared memory. Where rounding lets none do so, the
// last part that is not 0 is taken.
struct seed_search {
    double target, running, before; // before: the running sum without the part that was taken
    long long taken;
    int found;
    int first, last; // of the current parts: the first that exceeds the target, the last that is not 0
    double parts[KM_THREADS], sums[KM_THREADS];
};

// Continues with search->parts[0 ... count), the first of which is part `index` of all. One thread computes the running
// sum, all threads compare.
static __device__ __noinline__ void seed_search_parts(seed_search *search, int count, long long index) {
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

// SPDX-License-Identifier: MIT
// The first half of a pass: boxes. A warp tests a group of supertiles for eight K at a time, a lane for each;
// then the tiles of each supertile that stays open for a K, a lane for each. What is closed is added to the
// sums. Tiles that stay open are listed.

// What a lane found of its box. owner is -1 where the box is open or none.
struct tiles_found {
    tiles_mask candidates;
    int owner;
};

// A lane's box, whose numbers lie `apart` from each other, against the centroids of a list.
static __device__ __forceinline__ tiles_found tiles_test(const float *box, const int apart, const float *rows,
                                                         tiles_mask list) {
    float midpoint[D], half[D], own[D], best = -3.4e38f;
    tiles_found found = {0, tiles_lowest(list)};
#pragma unroll
    for (int f = 0; f < D; f++) midpoint[f] = box[f * apart];
#pragma unroll
    for (int f = 0; f < D; f++) half[f] = box[(D + f) * apart];
    const float square = box[2 * D * apart];
    for (tiles_mask left = list; left; left &= left - 1) {
        const int j = tiles_lowest(left);
        const float *row = rows + j * (D + 1);
        float score = row[D];
#pragma unroll
        for (int f = 0; f < D; f++) score = fmaf(midpoint[f], row[f], score);
        if (score > best) found.owner = j;
        best = fmaxf(best, score);
    }
    const float *nearest = rows + found.owner * (D + 1);
#pragma unroll
    for (int f = 0; f < D; f++) own[f] = nearest[f];
    const float low = best - TILES_MARGIN * (square - nearest[D]);
    for (tiles_mask left = list; left; left &= left - 1) {
        const int j = tiles_lowest(left);
        const float *row = rows + j * (D + 1);
        float high = row[D] - TILES_MARGIN * row[D];
#pragma unroll
        for (int f = 0; f < D; f++) {
            high = fmaf(midpoint[f], row[f], high);
            high = fmaf(fabsf(row[f] - own[f]), half[f], high);
        }
        if (!(high < low)) found.candidates |= (tiles_mask)1 << j;
    }
    return found;
}

// Adds the sums of closed boxes, which are adjacent in runs of `run` lanes; a box begins at tile `first`, and
// the next one at `next`. Where the owner changes from one box to the next, what stands before belongs to the
// one, and is taken from the other.
static __device__ __forceinline__ void tiles_close(const km_tiles_args &args, const tiles_shared &shared,
                                                   int first_row, int owner, long long first, long long next,
                                                   int run) {
    const int at = threadIdx.x % run, before = __shfl_up_sync(0xffffffffu, owner, 1, run);
    const bool begins = at > 0 && owner != before;
    if (begins || (at == 0 && owner >= 0)) {
        const long long *sums = args.prefix + min(first, args.tiles) * TILES_PITCH(D);
#pragma unroll
        for (int f = 0; f <= D; f++) {
            const long long sum = sums[f];
            if (begins && before >= 0) tiles_add(shared, first_row + before, f, sum);
            if (owner >= 0) tiles_add(shared, first_row + owner, f, -sum);
        }
    }
    if (at == run - 1 && owner >= 0) {
        const long long *sums = args.prefix + min(next, args.tiles) * TILES_PITCH(D);
#pragma unroll
        for (int f = 0; f <= D; f++) tiles_add(shared, first_row + owner, f, sums[f]);
    }
}

// What is counted of each slot in shared memory, behind the sums; and added to the counts of all.
static __device__ __forceinline__ unsigned *tiles_counts_begin(const km_tiles_args &args,
                                                               const tiles_shared &shared) {
    unsigned *counts = shared.high + args.rows * (D + 1);
    for (int i = threadIdx.x; i < args.ks_count * TILES_COUNTS; i += blockDim.x) counts[i] = 0;
    __syncthreads();
    return counts;
}

static __device__ __forceinline__ void tiles_counts_end(const km_tiles_args &args, const unsigned *counts,
                                                        int restart) {
    for (int i = threadIdx.x; i < args.ks_count * TILES_COUNTS; i += blockDim.x)
        if (counts[i])
            atomicAdd(&args.counts[restart * (long long)args.ks_count * TILES_COUNTS + i],
                      (unsigned long long)counts[i]);
}

// A warp takes a group of supertiles and eight K at a time, a lane for each.
extern "C" __global__ void __launch_bounds__(TILES_BOXES_THREADS(int(D)), 1)
    km_tiles_super_boxes(const __grid_constant__ km_tiles_args args) {
    enum { WARPS = TILES_BOXES_THREADS(int(D)) / 32, KS_AT_ONCE = 32 / TILES_GROUP_SUPERS };
    extern __shared__ __align__(16) char tiles_memory[];
    if (args.control->stop) return;
    const int lane = threadIdx.x % 32, restart = blockIdx.y, in_group = lane % TILES_GROUP_SUPERS;
    const tiles_shared shared = tiles_begin(args, tiles_memory, restart);
    unsigned *counts = tiles_counts_begin(args, shared);
    const int parts = (args.ks_count + KS_AT_ONCE - 1) / KS_AT_ONCE;
    const int step = args.sampled ? args.sampled : 1;
    const long long groups = ((args.supers + TILES_GROUP_SUPERS - 1) / TILES_GROUP_SUPERS + step - 1) / step;
    const long long tasks = groups * parts;
    for (long long task = blockIdx.x * WARPS + threadIdx.x / 32; task < tasks; task += gridDim.x * WARPS) {
        const long long group = task % groups * step, super = group * TILES_GROUP_SUPERS + in_group;
        const int own = (int)(task / groups) * KS_AT_ONCE + lane / TILES_GROUP_SUPERS,
                  q = min(own, args.ks_count - 1);
        const int first_row = args.offsets[q];
        tiles_found found = {0, -1};
        if (own < args.ks_count && super < args.supers && tiles_takes(args, restart, q)) {
            atomicAdd(&counts[q * TILES_COUNTS + TILES_TESTED], 1u);
            found = tiles_test(args.super_boxes + group * (TILES_BOX(D) * TILES_GROUP_SUPERS) + in_group,
                               TILES_GROUP_SUPERS, shared.rows + first_row * (D + 1),
                               ~(tiles_mask)0 >> (8 * sizeof(tiles_mask) - args.ks[q]));
        }
        const bool is_open = found.candidates & (found.candidates - 1);
        const unsigned opened = __ballot_sync(0xffffffffu, is_open);
        if (!args.sampled)
            tiles_close(args, shared, first_row, is_open ? -1 : found.owner, super * TILES_OF_SUPER,
                        (super + 1) * TILES_OF_SUPER, TILES_GROUP_SUPERS);
        int at = 0;
        if (lane == 0 && opened) at = atomicAdd(&args.items_count[restart], __popc(opened));
        at = __shfl_sync(0xffffffffu, at, 0) + __popc(opened & ((1u << lane) - 1));
        if (!is_open) continue;
        args.items[restart * args.supers * args.ks_count + at] = {found.candidates, (int)super, q};
        atomicAdd(&counts[q * TILES_COUNTS + TILES_OPEN_SUPERS], 1u);
        atomicAdd(&counts[q * TILES_COUNTS + TILES_SUPER_CANDIDATES],
                  (unsigned)tiles_count(found.candidates));
    }
    tiles_end(args, shared, restart);
    tiles_counts_end(args, counts, restart);
}

// A warp takes an open supertile, a lane each of its tiles. The first K that a tile is open for lists it.
extern "C" __global__ void __launch_bounds__(TILES_BOXES_THREADS(int(D)), 1)
    km_tiles_boxes(const __grid_constant__ km_tiles_args args) {
    enum { WARPS = TILES_BOXES_THREADS(int(D)) / 32 };
    extern __shared__ __align__(16) char tiles_memory[];
    if (args.control->stop) return;
    const int lane = threadIdx.x % 32, restart = blockIdx.y, items_count = args.items_count[restart];
    if (blockIdx.x * WARPS >= items_count) return;
    const tiles_shared shared = tiles_begin(args, tiles_memory, restart);
    unsigned *counts = tiles_counts_begin(args, shared);
    tiles_mask *candidates = (tiles_mask *)args.candidates + restart * args.tiles * args.ks_count;
    unsigned long long *open = args.open + restart * args.tiles;
    const km_tiles_item *items = args.items + restart * args.supers * args.ks_count;
    for (int i = blockIdx.x * WARPS + threadIdx.x / 32; i < items_count; i += gridDim.x * WARPS) {
        const km_tiles_item item = items[i];
        const int first_row = args.offsets[item.q];
        const long long tile = (long long)item.super * TILES_OF_SUPER + lane;
        tiles_found found =
            tiles_test(args.boxes + item.super * (long long)(TILES_BOX(D) * TILES_OF_SUPER) + lane,
                       TILES_OF_SUPER, shared.rows + first_row * (D + 1), (tiles_mask)item.candidates);
        const bool is_open = tile < args.tiles && (found.candidates & (found.candidates - 1));
        if (is_open || tile >= args.tiles) found.owner = -1;
        bool is_first = false;
        if (is_open && !args.sampled) {
            candidates[tile * args.ks_count + item.q] = found.candidates;
            is_first = atomicOr(&open[tile], 1ull << item.q) == 0;
        }
        if (!args.sampled) tiles_close(args, shared, first_row, found.owner, tile, tile + 1, TILES_OF_SUPER);
        const unsigned opened = __ballot_sync(0xffffffffu, is_open),
                       firsts = __ballot_sync(0xffffffffu, is_first);
        if (!opened) continue;
        int at = 0;
        if (lane == 0 && firsts) at = atomicAdd(&args.listed[restart], __popc(firsts));
        at = __shfl_sync(0xffffffffu, at, 0) + __popc(firsts & ((1u << lane) - 1));
        if (is_first) args.list[restart * args.tiles + at] = (int)tile;
        const int all = tiles_warp_sum(is_open ? tiles_count(found.candidates) : 0);
        if (lane == 0) {
            atomicAdd(&counts[item.q * TILES_COUNTS + TILES_OPEN_TILES], (unsigned)__popc(opened));
            atomicAdd(&counts[item.q * TILES_COUNTS + TILES_TILE_CANDIDATES], (unsigned)all);
        }
    }
    tiles_end(args, shared, restart);
    tiles_counts_end(args, counts, restart);
}

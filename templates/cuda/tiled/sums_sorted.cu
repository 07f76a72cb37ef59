// SPDX-License-Identifier: MIT
//@ need grid sum_lanes numbers feature_parts segments sort_passes_count
// Sums of many clusters. The points of a slot are sorted by label (a stable radix sort). A subwarp of lanes adds a
// segment of that order in registers, one cluster after the other. The sums of a cluster that is in several
// segments are added in their order.

enum {
    CHUNKS = $grid,                   // of points, a block each, while they are sorted
    DIGITS = 256,                     // values of the digit by which one pass sorts
    SORT_PASSES = $sort_passes_count, // digits of a label
    SEGMENTS = $segments,             // of the order, a subwarp each
    SEGMENT_POINTS = 32,              // of a segment, at least
    LANES_PER_POINT = $sum_lanes,     // lanes of a subwarp
    NUMBERS = $numbers,               // adjacent features of a lane
    FEATURE_PARTS = $feature_parts,   // subwarps that split the features of a point
    SUM_AHEAD = 4                     // points that a subwarp reads ahead
};
constexpr long long SUMS_BYTES = 4ll * RESTARTS * KS * CHUNKS * DIGITS + 4ll * RESTARTS * (S + KS) +
                                 16ll * RESTARTS * KS * SEGMENTS * (D + 1);
constexpr long long SUMS_POINT_BYTES = (SORT_PASSES - 1) * 4ll * RESTARTS * KS;

struct km_sorting {
    unsigned *counts;    // [CHUNKS][DIGITS] of the slot
    unsigned *orders[2]; // points in the order after the first pass, and after the last
    unsigned *starts;    // first position of each cluster in the order; and the end
    double *edges;       // [SEGMENTS][2][D + 1]: sums of the segment's first cluster and of its last
};

__device__ __forceinline__ km_sorting km_sorting_of(const km_pass_args &args, const km_workspace &workspace,
                                                    int slot) {
    km_sorting sorting;
    char *at = workspace.sums;
    const long long row = (long long)(slot / KS) * (S + KS) + km_offsets[slot % KS] + slot % KS;
    sorting.counts =
        (unsigned *)km_take_bytes(&at, 4ll * RESTARTS * KS * CHUNKS * DIGITS) + slot * (CHUNKS * DIGITS);
    sorting.starts = (unsigned *)km_take_bytes(&at, 4ll * RESTARTS * (S + KS)) + row;
    sorting.edges = (double *)km_take_bytes(&at, 16ll * RESTARTS * KS * SEGMENTS * (D + 1));
    sorting.edges += slot * (2ll * SEGMENTS * (D + 1));
    // The lists of ambiguous points are not needed any more.
    sorting.orders[SORT_PASSES - 1] = workspace.lists + slot * args.n;
    if (SORT_PASSES == 2) sorting.orders[0] = (unsigned *)at + slot * args.n;
    return sorting;
}

// The point at a position of the order so far, and its digit; past the end the digit is DIGITS + lane.
struct km_entry {
    unsigned point;
    int digit;
};

__device__ __forceinline__ km_entry km_entry_at(const km_pass_args &args, const km_sorting &sorting,
                                                const km_label *labels, long long at, long long end) {
    km_entry entry = {0, DIGITS + (int)threadIdx.x % 32};
    if (at >= end) return entry;
    entry.point = args.part == 0 ? (unsigned)at : sorting.orders[0][at];
    entry.digit = labels[entry.point] >> 8 * args.part & (DIGITS - 1);
    return entry;
}

// Counts the points of a chunk that have each digit.
extern "C" __global__ void __launch_bounds__(DIGITS)
    km_tiled_count(const __grid_constant__ km_pass_args args) {
    __shared__ unsigned counts[DIGITS];
    const int slot = blockIdx.y;
    if (args.control->stop || !args.active[slot]) return;
    const km_workspace workspace = km_workspace_of(args);
    const km_sorting sorting = km_sorting_of(args, workspace, slot);
    const km_label *labels = workspace.labels + slot * workspace.stride;
    const long long length = (args.n + CHUNKS - 1) / CHUNKS, first = blockIdx.x * length;
    const long long end = first + length < args.n ? first + length : args.n;
    counts[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll 4
    for (long long at = first + threadIdx.x; at < end; at += DIGITS)
        atomicAdd(&counts[km_entry_at(args, sorting, labels, at, end).digit], 1u);
    __syncthreads();
    sorting.counts[blockIdx.x * DIGITS + threadIdx.x] = counts[threadIdx.x];
}

// The first position of the chunk's points with a digit, a thread each: behind points with smaller digits, and those of
// earlier chunks.
static __device__ unsigned km_first_position(const km_sorting &sorting, unsigned *scan) {
    unsigned before = 0, all = 0;
#pragma unroll 8
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        const unsigned count = sorting.counts[chunk * DIGITS + threadIdx.x];
        before += chunk < (int)blockIdx.x ? count : 0;
        all += count;
    }
    scan[threadIdx.x] = all;
    for (int step = 1; step < DIGITS; step *= 2) {
        __syncthreads();
        const unsigned lower = (int)threadIdx.x >= step ? scan[threadIdx.x - step] : 0;
        __syncthreads();
        scan[threadIdx.x] += lower;
    }
    return scan[threadIdx.x] - all + before;
}

extern "C" __global__ void __launch_bounds__(DIGITS)
    km_tiled_order(const __grid_constant__ km_pass_args args) {
    __shared__ unsigned positions[DIGITS], scan[DIGITS], warp_counts[DIGITS / 32][DIGITS];
    const int slot = blockIdx.y, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (args.control->stop || !args.active[slot]) return;
    const km_workspace workspace = km_workspace_of(args);
    const km_sorting sorting = km_sorting_of(args, workspace, slot);
    const km_label *labels = workspace.labels + slot * workspace.stride;
    unsigned *order = sorting.orders[args.part];
    const long long length = (args.n + CHUNKS - 1) / CHUNKS, first = blockIdx.x * length;
    const long long end = first + length < args.n ? first + length : args.n;
    positions[threadIdx.x] = km_first_position(sorting, scan);
    for (int w = 0; w < DIGITS / 32; w++) warp_counts[w][threadIdx.x] = 0;
    for (long long at = first; at < end; at += DIGITS) {
        const km_entry entry = km_entry_at(args, sorting, labels, at + threadIdx.x, end);
        const unsigned same = __match_any_sync(0xffffffffu, entry.digit), lower = same & ((1u << lane) - 1);
        __syncthreads(); // warp_counts are 0, positions are those of these points
        if (lower == 0 && entry.digit < DIGITS) warp_counts[warp][entry.digit] = __popc(same);
        __syncthreads();
        if (entry.digit < DIGITS) {
            unsigned position = positions[entry.digit] + __popc(lower);
            for (int w = 0; w < warp; w++) position += warp_counts[w][entry.digit];
            order[position] = entry.point;
        }
        __syncthreads();
        for (int w = 0; w < DIGITS / 32; w++) {
            positions[threadIdx.x] += warp_counts[w][threadIdx.x];
            warp_counts[w][threadIdx.x] = 0;
        }
    }
}

// Points of a segment. Few points have fewer segments, however many there may be.
static __device__ __forceinline__ long long km_segment_points(long long n) {
    const long long points = (n + SEGMENTS - 1) / SEGMENTS;
    return points > SEGMENT_POINTS ? points : SEGMENT_POINTS;
}

// Features of a point that one lane adds.
struct __align__(NUMBERS * sizeof(km_real)) km_features {
    km_real at[NUMBERS];
};

// The sums of consecutive points with the same label.
struct km_label_sums {
    double sums[NUMBERS], weight;
    long long first;
    int label;
};

// Clusters from `from` to `to` begin at this position of the order.
static __device__ void km_begin_clusters(const km_sorting &sorting, int from, int to, long long position) {
    for (int j = from; j <= to; j++) sorting.starts[j] = (unsigned)position;
}

extern "C" __global__ void __launch_bounds__(128)
    km_tiled_segments(const __grid_constant__ km_pass_args args) {
    const int slot = blockIdx.y, lane = threadIdx.x % LANES_PER_POINT, part = blockIdx.x % FEATURE_PARTS;
    if (args.control->stop || !args.active[slot]) return;
    const km_workspace workspace = km_workspace_of(args);
    const km_sorting sorting = km_sorting_of(args, workspace, slot);
    const km_label *labels = workspace.labels + slot * workspace.stride;
    const unsigned *order = sorting.orders[SORT_PASSES - 1];
    const long long segment =
        (blockIdx.x / FEATURE_PARTS) * (128 / LANES_PER_POINT) + threadIdx.x / LANES_PER_POINT;
    const long long length = km_segment_points(args.n), begin = segment * length;
    const long long end = begin + length < args.n ? begin + length : args.n;
    if (begin >= end) return;
    const int f = (part * LANES_PER_POINT + lane) * NUMBERS, writes_weight = part == 0 && lane == 0;
    double *totals = args.totals + ((long long)(slot / KS) * S + km_offsets[slot % KS]) * (D + 1);
    double *edges = sorting.edges + segment * 2 * (D + 1);
    const auto write_sums = [&](km_label_sums &current, long long position) {
        double *inner = totals + current.label * (D + 1ll);
        double *to = current.first == begin ? edges : position == end ? edges + D + 1 : inner;
        KM_UNROLL_FOR (int i = 0; i < NUMBERS; i++)
            if (f + i < D) to[f + i] = current.sums[i];
        //@ if weighted
        if (writes_weight) to[D] = current.weight;
        //@ else
        if (writes_weight) to[D] = (double)(position - current.first);
        //@ end
    };
    km_label_sums current = {};
    current.first = begin;
    current.label = labels[order[begin]];
    if (writes_weight)
        km_begin_clusters(sorting, begin > 0 ? labels[order[begin - 1]] + 1 : 0, current.label, begin);
    for (long long at = begin; at < end; at += SUM_AHEAD) {
        km_features x[SUM_AHEAD];
        int label[SUM_AHEAD];
        //@ if weighted
        double weight[SUM_AHEAD];
        //@ end
        KM_UNROLL_FOR (int a = 0; a < SUM_AHEAD; a++) {
            const long long point = order[at + a < end ? at + a : at];
            label[a] = labels[point];
            x[a] = {};
            if (f < D) x[a] = *(const km_features *)((const km_real *)args.points + point * D + f);
            //@ if weighted
            weight[a] = ((const km_real *)args.weights)[point];
            //@ end
        }
        KM_UNROLL_FOR (int a = 0; a < SUM_AHEAD; a++) {
            if (at + a >= end) break;
            if (label[a] != current.label) {
                write_sums(current, at + a);
                if (writes_weight) km_begin_clusters(sorting, current.label + 1, label[a], at + a);
                current = {};
                current.first = at + a;
                current.label = label[a];
            }
            //@ if weighted
            KM_UNROLL_FOR (int i = 0; i < NUMBERS; i++)
                current.sums[i] = fma(weight[a], (double)x[a].at[i], current.sums[i]);
            current.weight += weight[a];
            //@ else
            KM_UNROLL_FOR (int i = 0; i < NUMBERS; i++) current.sums[i] += x[a].at[i];
            //@ end
        }
    }
    write_sums(current, end);
    if (writes_weight && end == args.n) km_begin_clusters(sorting, current.label + 1, km_ks[slot % KS], end);
}

// The totals of a cluster that reaches the edge of a segment, a block each. Clears the bounds of the slots for the next
// pass.
extern "C" __global__ void __launch_bounds__(128) km_tiled_totals(const __grid_constant__ km_pass_args args) {
    const int j = blockIdx.x, slot = blockIdx.y;
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    if (j == 0 && threadIdx.x == 0) workspace.slots[slot] = {0, 0, 0, 0};
    if (!args.active[slot] || j >= km_ks[slot % KS]) return;
    const km_sorting sorting = km_sorting_of(args, workspace, slot);
    const long long start = sorting.starts[j], end = sorting.starts[j + 1];
    const long long length = km_segment_points(args.n);
    const long long first = start / length, last = end > start ? (end - 1) / length : first;
    const long long begin = first * length, segment_end = begin + length < args.n ? begin + length : args.n;
    if (end > start && start != begin && end < segment_end)
        return; // it is inside of one segment: its total is written
    const double *edges = sorting.edges + (2 * first + (start != begin)) * (D + 1);
    double *to = args.totals + ((long long)(slot / KS) * S + km_offsets[slot % KS] + j) * (D + 1);
    for (int f = threadIdx.x; f <= D; f += 128) {
        double sum = end > start ? edges[f] : 0;
#pragma unroll 8
        for (long long s = first + 1; s <= last; s++) sum += sorting.edges[2 * s * (D + 1) + f];
        to[f] = sum;
    }
}

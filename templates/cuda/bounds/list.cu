// SPDX-License-Identifier: MIT
// Points whose bounds leave their label open.

enum {
    BOUNDS_ROW_LANES = D <= BOUNDS_PIECE        ? 1
                       : D <= 2 * BOUNDS_PIECE  ? 2
                       : D <= 4 * BOUNDS_PIECE  ? 4
                       : D <= 8 * BOUNDS_PIECE  ? 8
                       : D <= 16 * BOUNDS_PIECE ? 16
                                                : 32, // lanes that read a point together
    BOUNDS_ROWS = 32 / BOUNDS_ROW_LANES,              // points that a warp reads at a time
    BOUNDS_WARPS = BOUNDS_THREADS / 32,
    BOUNDS_AHEAD = 4 // points that a lane reads ahead
};

// Of a warp: points that wait until there are 32 of them, so that its lanes are busy.
struct bounds_queue {
    int point[32 * BOUNDS_AHEAD + 32];
    int label[32 * BOUNDS_AHEAD + 32];
    float square[32];
};

// Computes the distances of up to 32 queued points, from `first` on, to their own centroids. Lists those whose label is
// open still.
static __device__ __forceinline__ void bounds_tighten(const km_bounds_args &args, const bounds_run &run,
                                                      bounds_queue &queue, int first, int count,
                                                      bool is_new) {
    const int lane = threadIdx.x % 32, part = lane % BOUNDS_ROW_LANES;
#pragma unroll(BOUNDS_ROW_LANES < 2 ? 1 : 2)
    for (int round = 0; round < BOUNDS_ROW_LANES; round++) {
        const int at = round * BOUNDS_ROWS + lane / BOUNDS_ROW_LANES, which = first + (at < count ? at : 0);
        const km_real *x = (const km_real *)args.points + (long long)queue.point[which] * D;
        const km_real *c = run.centroids + (long long)queue.label[which] * D;
        float square = 0.0f;
#pragma unroll 4
        for (int f = part * BOUNDS_PIECE; f < D; f += BOUNDS_ROW_LANES * BOUNDS_PIECE) {
            const bounds_piece a = *(const bounds_piece *)(x + f), b = *(const bounds_piece *)(c + f);
#pragma unroll
            for (int i = 0; i < BOUNDS_PIECE; i++) {
                const float apart = (float)(a.at[i] - b.at[i]);
                square = fmaf(apart, apart, square);
            }
        }
#pragma unroll
        for (int away = BOUNDS_ROW_LANES / 2; away > 0; away /= 2)
            square += __shfl_xor_sync(0xffffffffu, square, away);
        if (part == 0) queue.square[at] = square;
    }
    __syncwarp();
    bool is_open = lane < count;
    const int point = queue.point[first + (is_open ? lane : 0)],
              label = queue.label[first + (is_open ? lane : 0)];
    km_bounds_centroid *own = run.table + label;
    const float u = sqrtf(queue.square[is_open ? lane : 0]) * (1.0f + BOUNDS_ERROR) + (float)BOUNDS_LEAST;
    if (is_open && !is_new) {
        const float slack = run.slack[point], upper = run.upper[point];
        const float less = own->lower_less + 4 * BOUNDS_UNIT * (fabsf(slack) + fabsf(upper));
        const float lower = __fsub_rd(__fadd_rd(slack, upper), less), gap = own->gap;
        is_open = !(u < lower) && !(u < gap);
        if (!is_open) bounds_keep(run, own, point, u, fmaxf(lower, 0.0f));
    }
    const unsigned lanes = __ballot_sync(0xffffffffu, is_open);
    int begin = 0;
    if (lane == 0 && lanes) begin = atomicAdd(&run.slot->listed, __popc(lanes));
    begin = __shfl_sync(0xffffffffu, begin, 0);
    if (is_open) {
        const km_bounds_entry entry = {point, atomicAdd(&own->listed, 1)};
        run.list[begin + __popc(lanes & ((1u << lane) - 1))] = entry;
        bounds_raise(&own->farthest, __float_as_int(u));
        //@ if elkan
        run.upper[point] = __fsub_ru(u, own->path_least);
        //@ end
    }
    if (lane == 0) atomicAdd(&run.counts[BOUNDS_OWN], (unsigned long long)count);
    __syncwarp();
}

// With no bound of three blocks a multiprocessor the compiler would aim at more, and spill.
extern "C" __global__ void __launch_bounds__(BOUNDS_THREADS, 3)
    km_bounds_list(const __grid_constant__ km_bounds_args args) {
    __shared__ bounds_queue queues[BOUNDS_WARPS];
    if (!bounds_takes(args, blockIdx.y)) return;
    const bounds_run run = bounds_run_of(args, blockIdx.y);
    const bool is_new = run.slot->mode == BOUNDS_NEW,
               asks_radius = !is_new && run.slot->passes % BOUNDS_RADIUS_PASSES == 0;
    const int lane = threadIdx.x % 32;
    bounds_queue &queue = queues[threadIdx.x / 32];
    int queued = 0;
    for (long long first = (blockIdx.x * (long long)BOUNDS_WARPS + threadIdx.x / 32) * (32 * BOUNDS_AHEAD);
         first < args.n; first += gridDim.x * (long long)(BOUNDS_THREADS * BOUNDS_AHEAD)) {
        int label[BOUNDS_AHEAD];
        float slack[BOUNDS_AHEAD];
#pragma unroll
        for (int a = 0; a < BOUNDS_AHEAD; a++) {
            const long long i = first + a * 32 + lane;
            label[a] = i < args.n ? run.labels[i] : 0;
            slack[a] = i < args.n && !is_new ? run.slack[i] : -1e30f;
        }
#pragma unroll
        for (int a = 0; a < BOUNDS_AHEAD; a++) {
            const long long i = first + a * 32 + lane;
            bool is_open = i < args.n;
            if (is_open && !is_new) {
                const km_bounds_centroid *own = run.table + label[a];
                is_open = !(slack[a] > own->expiry);
                if (is_open || asks_radius) {
                    const float upper = run.upper[i];
                    is_open = is_open && !(upper < own->inner);
                    if (asks_radius) bounds_raise(&run.table[label[a]].radius, bounds_key(upper));
                }
            }
            const unsigned lanes = __ballot_sync(0xffffffffu, is_open);
            if (is_open) {
                const int at = queued + __popc(lanes & ((1u << lane) - 1));
                queue.point[at] = (int)i;
                queue.label[at] = label[a];
            }
            queued += __popc(lanes);
        }
        __syncwarp();
        while (queued >= 32) {
            queued -= 32;
            bounds_tighten(args, run, queue, queued, 32, is_new);
        }
    }
    if (queued) bounds_tighten(args, run, queue, 0, queued, is_new);
}

// Listed points to their places: those of a label side by side.
extern "C" __global__ void __launch_bounds__(BOUNDS_THREADS)
    km_bounds_sort(const __grid_constant__ km_bounds_args args) {
    if (!bounds_takes(args, blockIdx.y)) return;
    const bounds_run run = bounds_run_of(args, blockIdx.y);
    const int listed = run.slot->listed;
    for (int at = blockIdx.x * BOUNDS_THREADS + threadIdx.x; at < listed; at += gridDim.x * BOUNDS_THREADS) {
        const km_bounds_entry entry = run.list[at];
        const int label = run.labels[entry.point], to = run.table[label].start + entry.rank;
        run.sorted[to] = entry.point;
        if (entry.rank % BOUNDS_TILE == 0) run.tile_labels[to / BOUNDS_TILE] = (unsigned short)label;
    }
}

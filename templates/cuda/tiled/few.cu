// SPDX-License-Identifier: MIT
//@ need point_warps ahead tile_slots redo_grid
// Labels of lists of few clusters, by tensor cores. A block keeps a tile of centroids, all of their features, in shared
// memory and has its warps walk over points, POINTS at a time: features go from memory to registers in the order in
// which products take them, some steps ahead, so that no warp waits for another. Each tile reads the points again.
//
// A tile has whole slots only. Scores of a warp's points go through shared memory: a lane then has a point, takes the
// scores of a slot one by one and keeps the best two; two lanes share a point's slots.

enum {
    WARPS = $point_warps,
    BLOCK = 32 * WARPS,
    POINTS = 16,               // of a warp at a time
    //@ if half_filter
    STEP = 16,                 // features of one product
    //@ else
    STEP = 8,                  // features of one product
    //@ end
    STEPS = WIDTH / STEP,
    AHEAD = $ahead,            // steps that are read before they are worked on
    OWN = STEP / 4,            // numbers of a step in a lane: those of one 16-byte load
    ROW = (STEPS | 1) * STEP,  // numbers from row to row in shared memory: eight rows in different banks
    PRODUCTS = TILE / 8,       // side by side
    SCORES = TILE + 7,         // from point to point: rows of a warp's lanes in different banks
    TILE_SLOTS = $tile_slots,  // an even number
    REDO_GRID = $redo_grid
};
static_assert(K_MAX <= 32, "a lane for each centroid of a slot");

// A slot of a tile.
struct pass_seat {
    pass_slot known;
    int slot, row, k; // k = 0: none, or not active
};

// What the threads of a block share.
struct __align__(16) pass_block {
    pass_number table[TILE][ROW];
    km_real half_squares[TILE];
    km_real scores[WARPS][POINTS][SCORES];
    pass_seat seats[TILE_SLOTS];
};

// A step of two points, eight apart: the lane's numbers.
struct pass_step {
    km_real at[2][OWN];
};

// `x`: the lane's first number of its first point.
__device__ __forceinline__ pass_step pass_read_step(const km_real *x, int step) {
    constexpr int NUMBERS = PIECE / sizeof(km_real);
    pass_step read;
    KM_UNROLL for (int r = 0; r < 2; r++)
        KM_UNROLL for (int p = 0; p < OWN; p += NUMBERS) {
            const pass_piece piece = *(const pass_piece *)(x + r * 8 * D + step * STEP + p);
            KM_UNROLL for (int i = 0; i < NUMBERS; i++) read.at[r][p + i] = piece.at[i];
        }
    return read;
}

//@ if half_filter
__device__ __forceinline__ unsigned pass_halves(float low, float high, float scale) {
    unsigned halves;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(halves) : "f"(high * scale), "f"(low * scale));
    return halves;
}

// Scores of the points += a step of products. The four features of a lane stand for its four places in a product.
__device__ __forceinline__ void pass_multiply(float (&score)[PRODUCTS][4], const pass_block &block,
                                              const pass_step &x, int step, float scale) {
    const int lane = threadIdx.x % 32;
    const unsigned a0 = pass_halves(x.at[0][0], x.at[0][1], scale), a1 = pass_halves(x.at[1][0], x.at[1][1], scale),
                   a2 = pass_halves(x.at[0][2], x.at[0][3], scale), a3 = pass_halves(x.at[1][2], x.at[1][3], scale);
    const pass_number *c = &block.table[lane / 4][step * STEP + lane % 4 * OWN];
    KM_UNROLL for (int p = 0; p < PRODUCTS; p++) {
        const uint2 b = *(const uint2 *)(c + p * 8 * ROW);
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(score[p][0]), "+f"(score[p][1]), "+f"(score[p][2]), "+f"(score[p][3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b.x), "r"(b.y));
    }
}
//@ else
// Scores of the points += a step of products. The two features of a lane stand for its two places in a product.
__device__ __forceinline__ void pass_multiply(double (&score)[PRODUCTS][4], const pass_block &block,
                                              const pass_step &x, int step, double) {
    const int lane = threadIdx.x % 32;
    const double *c = &block.table[lane / 4][step * STEP + lane % 4 * OWN];
    KM_UNROLL for (int p = 0; p < PRODUCTS; p++) {
        const double2 b = *(const double2 *)(c + p * 8 * ROW);
        asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+d"(score[p][0]), "+d"(score[p][1]), "+d"(score[p][2]), "+d"(score[p][3])
            : "d"(x.at[0][0]), "d"(x.at[1][0]), "d"(x.at[0][1]), "d"(x.at[1][1]), "d"(b.x), "d"(b.y));
    }
}
//@ end

// Brings a tile of centroids and its slots to shared memory.
__device__ __forceinline__ void pass_open(pass_block &block, const km_pass_args &args, const pass_memory &memory,
                                          int tile) {
    constexpr int NUMBERS = 16 / sizeof(pass_number), PIECES = WIDTH / NUMBERS;
    __syncthreads(); // the tile before is done with
    const pass_number *from = memory.table + (long long)tile * TILE * WIDTH;
    for (int at = threadIdx.x; at < TILE * PIECES; at += BLOCK)
        *(uint4 *)&block.table[at / PIECES][at % PIECES * NUMBERS] = *(const uint4 *)(from + (long long)at * NUMBERS);
    for (int row = threadIdx.x; row < TILE; row += BLOCK)
        block.half_squares[row] = memory.half_squares[tile * TILE + row];
    const int first = pass_slot_of(tile * TILE);
    for (int s = threadIdx.x; s < TILE_SLOTS; s += BLOCK) {
        pass_seat seat = {};
        if (first + s < COPIES * KS) {
            const pass_place place = pass_place_of(first + s);
            seat.known = memory.slots[place.slot];
            seat.slot = place.slot;
            seat.row = place.begin - tile * TILE;
            seat.k = seat.row < TILE && args.active[place.slot] ? place.k : 0;
        }
        block.seats[s] = seat;
    }
    __syncthreads();
}

// Writes a label where `mine`, and lists the point where another centroid may be the nearest. The halves of a warp have
// slots of their own.
__device__ __forceinline__ void pass_settle(const pass_memory &memory, long long n, int slot, long long i, bool mine,
                                            int j, bool unsure) {
    if (mine) memory.labels[slot * memory.stride + i] = (km_label)j;
    const unsigned lane = threadIdx.x % 32, both = __ballot_sync(0xffffffffu, unsure);
    if (!both) return;
    const unsigned lanes = both & (lane < POINTS ? 0xffffu : 0xffff0000u), leader = lanes ? __ffs(lanes) - 1 : lane;
    unsigned at = 0;
    if (lanes && lane == leader) at = atomicAdd(&memory.slots[slot].listed, (unsigned)__popc(lanes));
    at = __shfl_sync(0xffffffffu, at, leader) + __popc(lanes & ((1u << lane) - 1));
    if (unsure) memory.lists[slot * n + at] = (unsigned)i;
}

//@ include cuda/tiled/scores.cu

// Labels of the warp's points in all slots of the tile, from their scores.
__device__ __forceinline__ void pass_choose_labels(const pass_block &block, const pass_memory &memory, long long n,
                                                   long long first, const pass_point &point, km_real fine) {
    const int lane = threadIdx.x % 32, half = lane / POINTS;
    const km_real *scores = block.scores[threadIdx.x / 32][lane % POINTS];
    const long long i = first + lane % POINTS;
    for (int s = 0; s < TILE_SLOTS; s += 2) {
        const pass_seat &seat = block.seats[s + half];
        pass_best best = {-FAR, -FAR, 0};
        const int row = seat.row, k = seat.k;
#pragma unroll 4
        for (int j = 0; j < k; j++) pass_take_score(best, scores[row + j], j);
        const bool mine = k > 0 && i < n;
        const km_real margin = pass_margin(fine, seat.known, point, best.best);
        pass_settle(memory, n, seat.slot, i, mine, best.j, mine && !(best.best - best.second > margin));
    }
}

// Labels of all active slots; what is not sure is listed.
extern "C" __global__ void __launch_bounds__(BLOCK, 1)
    km_shared_labels(const __grid_constant__ km_pass_args args) {
    extern __shared__ __align__(16) char pass_shared[];
    pass_block &block = *(pass_block *)pass_shared;
    if (args.control->stop) return;
    const pass_memory memory = pass_memory_of(args);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    //@ if half_filter
    const float scale = *memory.scale, factor = 1 / (scale * scale);
    //@ else
    const double scale = 1, factor = 1;
    //@ end
    const km_real fine = pass_fine_of(memory);
    const long long stride = gridDim.x * (long long)(WARPS * POINTS);
    for (int tile = 0; tile < TILES; tile++) {
        if (memory.tile_slots[tile] < 0) continue;
        pass_open(block, args, memory, tile);
        long long first = (blockIdx.x * WARPS + warp) * (long long)POINTS;
        const km_real *x = (const km_real *)args.points + (first + lane / 4) * D + lane % 4 * OWN;
        pass_step ahead[AHEAD];
        KM_UNROLL for (int a = 0; a < AHEAD; a++)
            if (first < args.n) ahead[a] = pass_read_step(x, a);
        for (; first < args.n; first += stride) {
            const pass_point point = pass_point_of(memory, min(first + lane % POINTS, args.n - 1));
            km_real score[PRODUCTS][4] = {};
#pragma unroll 1
            for (int step = 0; step < STEPS; step += AHEAD)
                KM_UNROLL for (int a = 0; a < AHEAD; a++) {
                    if (step + a >= STEPS) break;
                    const pass_step now = ahead[a];
                    if (step + a + AHEAD < STEPS) ahead[a] = pass_read_step(x, step + a + AHEAD);
                    pass_multiply(score, block, now, step + a, scale);
                }
            x += stride * D;
            KM_UNROLL for (int a = 0; a < AHEAD; a++)
                if (first + stride < args.n) ahead[a] = pass_read_step(x, a);
            km_real(*scores)[SCORES] = block.scores[warp];
            KM_UNROLL for (int p = 0; p < PRODUCTS; p++)
                KM_UNROLL for (int v = 0; v < 4; v++) {
                    const int column = p * 8 + lane % 4 * 2 + v % 2;
                    scores[lane / 4 + v / 2 * 8][column] = fma(score[p][v], factor, -block.half_squares[column]);
                }
            __syncwarp();
            pass_choose_labels(block, memory, args.n, first, point, fine);
            __syncwarp();
        }
    }
}

// Sums of the warp's values in every lane.
template <typename Real> __device__ __forceinline__ Real pass_all_lanes(Real value) {
    for (int step = 16; step > 0; step >>= 1) value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
}

// The squared distance of a point and a centroid, by a warp, in Real.
template <typename Real> __device__ __forceinline__ Real pass_distance(const km_real *x, const km_real *c) {
    constexpr int NUMBERS = PIECE / sizeof(km_real);
    Real square = 0;
#pragma unroll 2
    for (int first = 0; first < D; first += 32 * NUMBERS) {
        const int f = first + threadIdx.x % 32 * NUMBERS, at = f < D ? f : 0;
        const pass_piece a = *(const pass_piece *)(x + at), centroid = *(const pass_piece *)(c + at),
                         b = f < D ? centroid : a; // no difference where there is no feature
        KM_UNROLL for (int i = 0; i < NUMBERS; i++) {
            const Real t = (Real)a.at[i] - (Real)b.at[i];
            square = fma(t, t, square);
        }
    }
    return pass_all_lanes(square);
}

// Decides the listed points, a warp each: the nearest in double of all centroids that may be it.
//@ if half_filter
// Those are found by distances in float, which are right but for (D / 32 + 12) units: additions of a lane, of lanes,
// and what differences and squares round.
//@ end
extern "C" __global__ void __launch_bounds__(256, 4) km_shared_redo(const __grid_constant__ km_pass_args args) {
    const int slot = blockIdx.y;
    if (args.control->stop || !args.active[slot]) return;
    const pass_memory memory = pass_memory_of(args);
    const pass_place place = pass_place_of(slot);
    const km_real *centroids =
        (const km_real *)args.centroids + ((long long)(slot / KS) * S + km_offsets[slot % KS]) * D;
    const unsigned listed = memory.slots[slot].listed, lane = threadIdx.x % 32;
    for (unsigned at = blockIdx.x * 8 + threadIdx.x / 32; at < listed; at += gridDim.x * 8) {
        const long long i = memory.lists[slot * args.n + at];
        const km_real *x = (const km_real *)args.points + i * D;
        unsigned open = 0xffffffffu >> (32 - place.k); // centroids that may be the nearest
        //@ if half_filter
        float mine = 3e38f, least = 3e38f; // of centroid `lane`; of all
#pragma unroll 2
        for (int j = 0; j < place.k; j++) {
            const float distance = pass_distance<float>(x, centroids + (long long)j * D);
            mine = lane == j ? distance : mine;
            least = fminf(least, distance);
        }
        // Squares of very large and very small differences are not what they should be.
        if (least > 1e-28f * D && least < 1e37f)
            open = __ballot_sync(0xffffffffu, mine <= least * (1 + 2.1f * (D / 32 + 12) / 16777216.f));
        int nearest = __ffs(open) - 1;
        if (!(open & (open - 1))) open = 0;
        //@ else
        int nearest = 0;
        //@ end
        double best = 1e308;
        for (; open; open &= open - 1) {
            const int j = __ffs(open) - 1;
            const double distance = pass_distance<double>(x, centroids + (long long)j * D);
            nearest = distance < best ? j : nearest;
            best = distance < best ? distance : best;
        }
        if (lane == 0) memory.labels[slot * memory.stride + i] = (km_label)nearest;
    }
}

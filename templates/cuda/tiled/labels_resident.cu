// SPDX-License-Identifier: MIT
//@ need point_warps ahead tile_slots resolve_grid
// Labels of lists of few clusters, on tensor cores. A block keeps a tile of centroids, with all of their features, in
// shared memory. Its warps go through the points, POINTS at a time. Features go from memory straight to registers, some
// steps ahead, in the layout of operands of products, so that no warp waits for another. The points are read again for
// each tile.
//
// A tile has whole slots only. The scores of a warp's points go through shared memory. Then a lane has a point,
// compares the scores of a slot one by one, and keeps the best two; two lanes split the slots of a point.

enum {
    WARPS = $point_warps,
    BLOCK = 32 * WARPS,
    POINTS = 16, // of a warp at a time
    //@ if fp16
    STEP = 16, // features of one product
    //@ else
    STEP = 8, // features of one product
    //@ end
    STEPS = PADDED_D / STEP,
    AHEAD = $ahead,          // steps that are read ahead
    LANE_NUMBERS = STEP / 4, // numbers of a step that a lane has: one 16-byte load
    TABLE_PITCH =
        (STEPS | 1) * STEP,   // numbers from row to row in shared memory: eight rows have no bank conflicts
    PRODUCTS = TILE / 8,      // of eight centroids each
    SCORE_PITCH = TILE + 7,   // numbers from point to point: no bank conflicts of a warp's lanes
    TILE_SLOTS = $tile_slots, // of a tile; an even number
    RESOLVE_GRID = $resolve_grid
};
static_assert(K_MAX <= 32, "a lane for each centroid of a slot");

// A slot of a tile.
struct km_resident_slot {
    km_slot_bounds bounds;
    int slot, row, k; // k = 0: none, or not active
};

// Shared memory of a block.
struct __align__(16) km_block {
    km_table_number table[TILE][TABLE_PITCH];
    km_real half_squares[TILE];
    km_real scores[WARPS][POINTS][SCORE_PITCH];
    km_resident_slot tile_entries[TILE_SLOTS];
};

// The lane's numbers of a step: of two points, eight apart.
struct km_step {
    km_real at[2][LANE_NUMBERS];
};

// `x`: the lane's first number of its first point.
__device__ __forceinline__ km_step km_read_step(const km_real *x, int step) {
    constexpr int NUMBERS = PIECE_BYTES / sizeof(km_real);
    km_step read;
    KM_UNROLL_FOR (int r = 0; r < 2; r++)
        KM_UNROLL_FOR (int p = 0; p < LANE_NUMBERS; p += NUMBERS) {
            const km_piece piece = *(const km_piece *)(x + r * 8 * D + step * STEP + p);
            KM_UNROLL_FOR (int i = 0; i < NUMBERS; i++) read.at[r][p + i] = piece.at[i];
        }
    return read;
}

//@ if fp16
//@ use halves mma_f16
// Adds the products of a step to the scores. A lane's operand has four adjacent features: in a product, features may be
// in any order if it is the same for both operands.
__device__ __forceinline__ void km_multiply(float (&score)[PRODUCTS][4], const km_block &block,
                                            const km_step &x, int step, float scale) {
    const int lane = threadIdx.x % 32;
    const unsigned points[4] = {
        km_halves(x.at[0][0] * scale, x.at[0][1] * scale), km_halves(x.at[1][0] * scale, x.at[1][1] * scale),
        km_halves(x.at[0][2] * scale, x.at[0][3] * scale), km_halves(x.at[1][2] * scale, x.at[1][3] * scale)};
    const km_table_number *c = &block.table[lane / 4][step * STEP + lane % 4 * LANE_NUMBERS];
    KM_UNROLL_FOR (int p = 0; p < PRODUCTS; p++) {
        const uint2 b = *(const uint2 *)(c + p * 8 * TABLE_PITCH);
        const unsigned centroids[2] = {b.x, b.y};
        km_mma_f16(score[p], points, centroids, score[p]);
    }
}
//@ else
//@ use mma_f64
// Adds the products of a step to the scores. A lane's operand has two adjacent features: in a product, features may be
// in any order if it is the same for both operands.
__device__ __forceinline__ void km_multiply(double (&score)[PRODUCTS][4], const km_block &block,
                                            const km_step &x, int step, double) {
    const int lane = threadIdx.x % 32;
    const double *c = &block.table[lane / 4][step * STEP + lane % 4 * LANE_NUMBERS];
    const double points[4] = {x.at[0][0], x.at[1][0], x.at[0][1], x.at[1][1]};
    KM_UNROLL_FOR (int p = 0; p < PRODUCTS; p++) {
        const double2 b = *(const double2 *)(c + p * 8 * TABLE_PITCH);
        const double centroids[2] = {b.x, b.y};
        km_mma_f64(score[p], points, centroids, score[p]);
    }
}
//@ end

// Loads a tile of centroids and its slots to shared memory.
__device__ __forceinline__ void km_begin_block(km_block &block, const km_pass_args &args,
                                               const km_workspace &workspace, int tile) {
    constexpr int NUMBERS = 16 / sizeof(km_table_number), PIECES = PADDED_D / NUMBERS;
    __syncthreads(); // all warps are done with the tile before
    const km_table_number *from = workspace.table + (long long)tile * TILE * PADDED_D;
    for (int at = threadIdx.x; at < TILE * PIECES; at += BLOCK)
        *(uint4 *)&block.table[at / PIECES][at % PIECES * NUMBERS] =
            *(const uint4 *)(from + (long long)at * NUMBERS);
    for (int row = threadIdx.x; row < TILE; row += BLOCK)
        block.half_squares[row] = workspace.half_squares[tile * TILE + row];
    const int first = km_slot_of(tile * TILE);
    for (int s = threadIdx.x; s < TILE_SLOTS; s += BLOCK) {
        km_resident_slot entry = {};
        if (first + s < RESTARTS * KS) {
            const km_slot_panels panels = km_panels_of(first + s);
            entry.bounds = workspace.slots[panels.slot];
            entry.slot = panels.slot;
            entry.row = panels.begin - tile * TILE;
            entry.k = entry.row < TILE && args.active[panels.slot] ? panels.k : 0;
        }
        block.tile_entries[s] = entry;
    }
    __syncthreads();
}

// Writes a label where `mine`, and adds the point to the slot's list where it is ambiguous. Each half of a warp has
// a slot of its own.
__device__ __forceinline__ void km_write_label(const km_workspace &workspace, long long n, int slot,
                                               long long i, bool mine, int j, bool ambiguous) {
    if (mine) workspace.labels[slot * workspace.stride + i] = (km_label)j;
    const unsigned lane = threadIdx.x % 32, both = __ballot_sync(0xffffffffu, ambiguous);
    if (!both) return;
    const unsigned lanes = both & (lane < POINTS ? 0xffffu : 0xffff0000u),
                   leader = lanes ? __ffs(lanes) - 1 : lane;
    unsigned at = 0;
    if (lanes && lane == leader) at = atomicAdd(&workspace.slots[slot].ambiguous, (unsigned)__popc(lanes));
    at = __shfl_sync(0xffffffffu, at, leader) + __popc(lanes & ((1u << lane) - 1));
    if (ambiguous) workspace.lists[slot * n + at] = (unsigned)i;
}

//@ include cuda/tiled/best_two.cu

// Writes the labels of the warp's points in all slots of the tile, from their scores.
__device__ __forceinline__ void km_choose_labels(const km_block &block, const km_workspace &workspace,
                                                 long long n, long long first, const km_norms &point,
                                                 km_real underflow) {
    const int lane = threadIdx.x % 32, half = lane / POINTS;
    const km_real *scores = block.scores[threadIdx.x / 32][lane % POINTS];
    const long long i = first + lane % POINTS;
    for (int s = 0; s < TILE_SLOTS; s += 2) {
        const km_resident_slot &entry = block.tile_entries[s + half];
        km_best_two best = {-FAR, -FAR, 0};
        const int row = entry.row, k = entry.k;
#pragma unroll 4
        for (int j = 0; j < k; j++) km_take_score(best, scores[row + j], j);
        const bool mine = k > 0 && i < n;
        const km_real margin = km_margin(underflow, entry.bounds, point, best.best);
        km_write_label(workspace, n, entry.slot, i, mine, best.j,
                       mine && !(best.best - best.second > margin));
    }
}

// Labels of all active slots, and lists of ambiguous points.
extern "C" __global__ void __launch_bounds__(BLOCK, 1)
    km_tiled_labels(const __grid_constant__ km_pass_args args) {
    extern __shared__ __align__(16) char km_shared[];
    km_block &block = *(km_block *)km_shared;
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    //@ if fp16
    const float scale = *workspace.scale, factor = 1 / (scale * scale);
    //@ else
    const double scale = 1, factor = 1;
    //@ end
    const km_real underflow = km_underflow(workspace);
    const long long stride = gridDim.x * (long long)(WARPS * POINTS);
    for (int tile = 0; tile < TILES; tile++) {
        if (workspace.tile_slots[tile] < 0) continue;
        km_begin_block(block, args, workspace, tile);
        long long first = (blockIdx.x * WARPS + warp) * (long long)POINTS;
        const km_real *x = (const km_real *)args.points + (first + lane / 4) * D + lane % 4 * LANE_NUMBERS;
        km_step ahead[AHEAD];
        KM_UNROLL_FOR (int a = 0; a < AHEAD; a++)
            if (first < args.n) ahead[a] = km_read_step(x, a);
        for (; first < args.n; first += stride) {
            const km_norms point = km_norms_of(workspace, min(first + lane % POINTS, args.n - 1));
            km_real score[PRODUCTS][4] = {};
#pragma unroll 1
            for (int step = 0; step < STEPS; step += AHEAD)
                KM_UNROLL_FOR (int a = 0; a < AHEAD; a++) {
                    if (step + a >= STEPS) break;
                    const km_step now = ahead[a];
                    if (step + a + AHEAD < STEPS) ahead[a] = km_read_step(x, step + a + AHEAD);
                    km_multiply(score, block, now, step + a, scale);
                }
            x += stride * D;
            KM_UNROLL_FOR (int a = 0; a < AHEAD; a++)
                if (first + stride < args.n) ahead[a] = km_read_step(x, a);
            km_real(*scores)[SCORE_PITCH] = block.scores[warp];
            KM_UNROLL_FOR (int p = 0; p < PRODUCTS; p++)
                KM_UNROLL_FOR (int v = 0; v < 4; v++) {
                    const int column = p * 8 + lane % 4 * 2 + v % 2;
                    scores[lane / 4 + v / 2 * 8][column] =
                        fma(score[p][v], factor, -block.half_squares[column]);
                }
            __syncwarp();
            km_choose_labels(block, workspace, args.n, first, point, underflow);
            __syncwarp();
        }
    }
}

// The squared distance of a point and a centroid, by a warp, in Real.
template <typename Real> __device__ __forceinline__ Real km_distance(const km_real *x, const km_real *c) {
    constexpr int NUMBERS = PIECE_BYTES / sizeof(km_real);
    Real square = 0;
#pragma unroll 2
    for (int first = 0; first < D; first += 32 * NUMBERS) {
        const int f = first + threadIdx.x % 32 * NUMBERS, at = f < D ? f : 0;
        const km_piece a = *(const km_piece *)(x + at), centroid = *(const km_piece *)(c + at),
                       b = f < D ? centroid : a; // the same number where there is no feature
        KM_UNROLL_FOR (int i = 0; i < NUMBERS; i++) {
            const Real t = (Real)a.at[i] - (Real)b.at[i];
            square = fma(t, t, square);
        }
    }
    return km_warp_sum(square);
}

// Resolves the ambiguous points, a warp each: the nearest in double of all candidates.
//@ if fp16
// Candidates are found by distances in float, whose error is at most (D / 32 + 12) units: from additions in a lane and
// over lanes, and from rounding differences and squares.
//@ end
extern "C" __global__ void __launch_bounds__(256, 4)
    km_tiled_resolve(const __grid_constant__ km_pass_args args) {
    const int slot = blockIdx.y;
    if (args.control->stop || !args.active[slot]) return;
    const km_workspace workspace = km_workspace_of(args);
    const km_slot_panels panels = km_panels_of(slot);
    const km_real *centroids =
        (const km_real *)args.centroids + ((long long)(slot / KS) * S + km_offsets[slot % KS]) * D;
    const unsigned listed = workspace.slots[slot].ambiguous, lane = threadIdx.x % 32;
    for (unsigned at = blockIdx.x * 8 + threadIdx.x / 32; at < listed; at += gridDim.x * 8) {
        const long long i = workspace.lists[slot * args.n + at];
        const km_real *x = (const km_real *)args.points + i * D;
        unsigned candidates =
            0xffffffffu >> (32 - panels.k); // a bit for each centroid that may be the nearest
        //@ if fp16
        float mine = 3e38f, least = 3e38f; // the distance of centroid `lane`; the least of all
#pragma unroll 2
        for (int j = 0; j < panels.k; j++) {
            const float distance = km_distance<float>(x, centroids + (long long)j * D);
            mine = lane == j ? distance : mine;
            least = fminf(least, distance);
        }
        // Squares of very large and very small differences overflow or underflow.
        if (least > 1e-28f * D && least < 1e37f)
            candidates = __ballot_sync(0xffffffffu, mine <= least * (1 + 2.1f * (D / 32 + 12) / 16777216.f));
        int nearest = __ffs(candidates) - 1;
        if (!(candidates & (candidates - 1))) candidates = 0;
        //@ else
        int nearest = 0;
        //@ end
        double best = 1e308;
        for (; candidates; candidates &= candidates - 1) {
            const int j = __ffs(candidates) - 1;
            const double distance = km_distance<double>(x, centroids + (long long)j * D);
            nearest = distance < best ? j : nearest;
            best = distance < best ? distance : best;
        }
        if (lane == 0) workspace.labels[slot * workspace.stride + i] = (km_label)nearest;
    }
}

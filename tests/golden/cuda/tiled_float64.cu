// Of the text of {features: 64, clusters: 2..20, type: float64, target: cuda:sm_90}: Numbers and types; The list of K; The pass
// "..." stands for what a template or an earlier part shows.

// ... 2 definitions

// ... 3 definitions

// ... 3 definitions

// The workspace.
typedef km_real km_table_number;
typedef unsigned long long km_bits; // of a km_real

// ... 21 definitions

enum {
    WARPS = 8,
    BLOCK = 32 * WARPS,
    POINTS = 16, // of a warp at a time
    STEP = 8,    // features of one product
    STEPS = PADDED_D / STEP,
    AHEAD = 8,               // steps that are read ahead
    LANE_NUMBERS = STEP / 4, // numbers of a step that a lane has: one 16-byte load
    TABLE_PITCH =
        (STEPS | 1) * STEP, // numbers from row to row in shared memory: eight rows have no bank conflicts
    PRODUCTS = TILE / 8,    // of eight centroids each
    SCORE_PITCH = TILE + 7, // numbers from point to point: no bank conflicts of a warp's lanes
    TILE_SLOTS = 12,        // of a tile; an even number
    RESOLVE_GRID = 41
};
static_assert(K_MAX <= 32, "a lane for each centroid of a slot");

// ... 10 definitions

// Compares one more score, of column or centroid j.
__device__ __forceinline__ void km_take_score(km_best_two &row, km_real score, int j) {
    const bool better = score > row.best;
    const double loser = better ? row.best : score;
    row.second = loser > row.second ? loser : row.second;
    row.best = better ? score : row.best;
    row.j = better ? j : row.j;
}

// ... 1 definition

// Labels of all active slots, and lists of ambiguous points.
extern "C" __global__ void __launch_bounds__(BLOCK, 1)
    km_tiled_labels(const __grid_constant__ km_pass_args args) {
    extern __shared__ __align__(16) char km_shared[];
    km_block &block = *(km_block *)km_shared;
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const double scale = 1, factor = 1;
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

// ... 1 definition

// Resolves the ambiguous points, a warp each: the nearest in double of all candidates.
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
        int nearest = 0;
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

// ... 6 definitions

extern "C" __global__ void __launch_bounds__(SUM_WARPS * 32, 2)
    km_tiled_sums(const __grid_constant__ km_pass_args args) {
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    const int tile = blockIdx.y, lane = threadIdx.x % 32, id = blockIdx.x * SUM_WARPS + threadIdx.x / 32;
    const int chunk = id / SUM_FEATURE_WARPS;
    if (chunk >= CHUNKS || workspace.tile_slots[tile] < 0) return;
    km_row rows[2 * SUM_TILES];
    KM_UNROLL_FOR (int r = 0; r < 2 * SUM_TILES; r++) {
        const int row = tile * TILE + r * 8 + lane / 4;
        const km_slot_panels panels = km_panels_of(km_slot_of(row));
        rows[r] = {panels.slot, row < panels.end ? (row - panels.begin) * 0x01010101u : 0xffffffffu};
    }
    const int f =
        (id % SUM_FEATURE_WARPS * 8 + lane / 4) * SUM_COLUMNS; // the first of the lane's adjacent features
    const long long length = ((args.n + CHUNKS - 1) / CHUNKS + SUM_POINTS - 1) / SUM_POINTS * SUM_POINTS;
    const long long first = chunk * length, end = first + length < args.n ? first + length : args.n;
    double sums[SUM_TILES][SUM_COLUMNS][4] = {};
    km_sum_input next;
    if (first < end) next = km_read_sum_input(args, workspace, rows, first + lane % 4 * 4, f);
    for (long long at = first; at < end; at += SUM_POINTS) {
        const km_sum_input input = next;
        const long long i =
            at + lane % 4 * 4; // the lane's first point; past the last point there are rows of zeros
        if (at + SUM_POINTS < end) next = km_read_sum_input(args, workspace, rows, i + SUM_POINTS, f);
        KM_UNROLL_FOR (int p = 0; p < 4; p += 2) {
            double numbers[SUM_COLUMNS][2];
            KM_UNROLL_FOR (int c = 0; c < SUM_COLUMNS; c++)
                KM_UNROLL_FOR (int q = 0; q < 2; q++) {
                    const double one = i + p + q < args.n ? 1 : 0;
                    numbers[c][q] = f + c == D ? one : (double)input.numbers[p + q][c];
                }
            KM_UNROLL_FOR (int t = 0; t < SUM_TILES; t++) {
                double ones[4];
                KM_UNROLL_FOR (int v = 0; v < 4;
                               v++) { // row t * 16 + v % 2 * 8 + lane / 4 of the tile, point p + v / 2
                    const int r = 2 * t + v % 2, q = p + v / 2;
                    const unsigned other = input.labels[r] ^ rows[r].wanted;
                    ones[v] = __hiloint2double(other & 255u << q * 8 ? 0 : 0x3ff00000, 0);
                }
                KM_UNROLL_FOR (int c = 0; c < SUM_COLUMNS; c++)
                    km_mma_f64(sums[t][c], ones, numbers[c], sums[t][c]);
            }
        }
    }
    // Columns of a product are SUM_COLUMNS features apart.
    double *out = (double *)workspace.sums + chunk * (long long)RESTARTS * S * (D + 1);
    KM_UNROLL_FOR (int r = 0; r < 2 * SUM_TILES; r++) {
        const int row = tile * TILE + r * 8 + lane / 4;
        if (rows[r].wanted == 0xffffffffu) continue;
        const km_slot_panels panels = km_panels_of(rows[r].slot);
        const int first_row = panels.slot / KS * S + km_offsets[panels.slot % KS];
        double *to = out + (first_row + row - panels.begin) * (D + 1ll);
        KM_UNROLL_FOR (int c = 0; c < SUM_COLUMNS; c++)
            KM_UNROLL_FOR (int v = 0; v < 2; v++) {
                const int feature = (id % SUM_FEATURE_WARPS * 8 + lane % 4 * 2 + v) * SUM_COLUMNS + c;
                if (feature <= D) to[feature] = sums[r / 2][c][r % 2 * 2 + v];
            }
    }
}

// ... 2 definitions

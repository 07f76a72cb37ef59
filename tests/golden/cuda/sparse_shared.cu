// Of the text of {features: 100, clusters: 2..12, layout: csr, target: cuda:sm_90, plan: {form: nonzeros}}: Numbers and types; The list of K; The pass; The steps around the pass; The host part: what the header declares
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 2 definitions

// ... 1 more of 2 lines, other numbers: f3d81d81
// ==== The pass =============================================================================================
// Compiled apart: pass
// Points as CSR on the device: what args.points is the address of, in every kernel of a file for sparse points. Row i's
// nonzeros are in the order of their columns. Rows lie in chunks of KM_SPARSE_CHUNK: starts are counted from the first
// nonzero of the chunk, and each chunk has one more of them, its end.
#ifndef KM_SPARSE_POINTS_CUDA_H
#define KM_SPARSE_POINTS_CUDA_H

// ... 2 definitions

#endif
#define KM_UNROLL_FOR(...) _Pragma("unroll") for (__VA_ARGS__)
// The sum of all lanes' values, in every lane.
template <typename Number> static __device__ __forceinline__ Number km_warp_sum(Number value) {
    for (int width = 16; width > 0; width /= 2) value += __shfl_xor_sync(0xffffffffu, value, width);
    return value;
}

// The pass, design `sparse_warps`: points in the layout CSR, any d, any K, any type.
//
// Labels. The score of a point and a centroid is
//     x . c - |c|^2 / 2,
// a sum over the nonzeros of x, and the centroid with the largest score is the nearest. The centroids of all slots are
// the columns of a table that has a row for each feature: a nonzero meets all of them side by side. ROW_LANES lanes
// have a point, each of them LANE_COLUMNS columns; so a warp works on ROWS_AT_ONCE points at a time.
// For each point and slot the best two scores are kept. Where they are closer than the error of a score, the point is
// ambiguous, and its warp decides again by scores in double. Ties go to the lowest index.
//
// Sums. Values are multiples of a small power of two for each feature, so sums are integers, which are the same in any
// order. A point joins the sums of its cluster when its label changes, and leaves those of the cluster before: sums and
// labels stay from pass to pass, whatever the centroids become.
enum {
    BLOCK = 768,
    WARPS = BLOCK / 32,
    GRID = 132,
    BLOCKS_PER_SM = 1,
    TILE = 32,        // points of a warp at a time, a lane for each where labels are decided
    ROW_LANES = 4,    // lanes that share a point where scores are added
    LANE_COLUMNS = 4, // columns that each of them has
    ROWS_AT_ONCE = 32 / ROW_LANES,
    PANEL = ROW_LANES * LANE_COLUMNS, // columns at a time
    PANELS = 5,
    COLUMNS = RESTARTS * S,         // in use: slot by slot, as args.centroids
    PITCH = 16,                     // numbers of a row of a panel's table; some panels are there twice, for other banks
    INTEGERS = sizeof(km_real) / 4, // integers of a sum
    SLOTS = RESTARTS * KS
};

// The workspace.
typedef unsigned char km_index; // a column of a nonzero
typedef unsigned km_bits;

// ... 2 definitions

struct km_progress {
    unsigned next_tile; // to be taken by a warp
    unsigned unused;
    unsigned long long weight_bits; // of the largest weight
};

struct km_workspace {
    km_progress *progress;
    km_slot_note *slots;
    unsigned long long *sums; // [COLUMNS][D + 1][INTEGERS]; the last is the weight
    // Up to here zero in the beginning.
    double *scales;       // [D + 1]: what a value is multiplied by to be an integer; powers of two
    double *halves;       // |c|^2 / 2 of each column ...
    km_real *real_halves; // ... and in the plan's type
    km_real *table;       // [PANELS][D][PITCH]
    km_label *labels;     // of each slot, `stride` apart
    long long stride;
};

// ... 1 definition

constexpr long long SUMS = (long long)COLUMNS * (D + 1ll) * INTEGERS;
constexpr long long WORKSPACE_ZERO_BYTES = km_aligned(sizeof(km_progress)) +
                                           km_aligned(SLOTS * (long long)sizeof(km_slot_note)) +
                                           km_aligned(8 * SUMS);
constexpr long long LABELS_POINT_BYTES = SLOTS * (long long)sizeof(km_label);
constexpr long long TABLE_NUMBERS = (long long)PANELS * D * PITCH;
constexpr long long WORKSPACE_POINT_BYTES = LABELS_POINT_BYTES;
constexpr long long WORKSPACE_BYTES =
    WORKSPACE_ZERO_BYTES + km_aligned(8 * (D + 1ll)) + km_aligned(8ll * PANELS * PANEL) +
    km_aligned(PANELS * PANEL * (long long)sizeof(km_real)) +
    km_aligned(TABLE_NUMBERS * (long long)sizeof(km_real)) + KM_ALIGN_BYTES * WORKSPACE_POINT_BYTES;

// ... 1 definition

__device__ __forceinline__ km_workspace km_workspace_of(const km_pass_args &args) {
    km_workspace workspace;
    char *at = (char *)args.workspace;
    workspace.progress = (km_progress *)km_take_bytes(&at, sizeof(km_progress));
    workspace.slots = (km_slot_note *)km_take_bytes(&at, SLOTS * (long long)sizeof(km_slot_note));
    workspace.sums = (unsigned long long *)km_take_bytes(&at, 8 * SUMS);
    workspace.scales = (double *)km_take_bytes(&at, 8 * (D + 1ll));
    workspace.halves = (double *)km_take_bytes(&at, 8ll * PANELS * PANEL);
    workspace.real_halves = (km_real *)km_take_bytes(&at, PANELS * PANEL * (long long)sizeof(km_real));
    workspace.table = (km_real *)km_take_bytes(&at, TABLE_NUMBERS * (long long)sizeof(km_real));
    workspace.stride = km_aligned(args.n);
    workspace.labels = (km_label *)km_take_bytes(&at, LABELS_POINT_BYTES * workspace.stride);
    return workspace;
}

// The labels of a slot.
__device__ __forceinline__ km_label *km_labels_of(const km_pass_args &args, const km_workspace &workspace,
                                                  int slot) {
    return workspace.labels + slot * workspace.stride;
}

// ... 6 definitions

// Load: what values of each feature are multiplied by. The sum of all points stays below 2^62.
extern "C" __global__ void __launch_bounds__(256)
    km_sparse_scales(const __grid_constant__ km_pass_args args) {
    const km_workspace workspace = km_workspace_of(args);
    const long long f = blockIdx.x * 256ll + threadIdx.x;
    if (f > D) return;
    double largest = 1;
    if (f < D) largest = fmax(fabs(args.box[f]), fabs(args.box[D + f]));
    const int weight = 0;
    const int exponent = km_value_bits(args.n) - weight - km_exponent_above(largest);
    if (f == D) { // counts
        workspace.scales[f] = 1;
        return;
    }
    workspace.scales[f] = ldexp(1.0, exponent > 1000 ? 1000 : exponent < -1000 ? -1000 : exponent);
}

// ... 1 definition

// In each pass: |c|^2 / 2 of a column, a block each, and the largest |c| of its slot. Sums that are made
// anew begin at 0.
extern "C" __global__ void __launch_bounds__(256)
    km_sparse_halves(const __grid_constant__ km_pass_args args) {
    __shared__ double sums[8];
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    const int column = blockIdx.x;
    const km_real *c = (const km_real *)args.centroids + (long long)column * D;
    double square = 0;
    for (long long f = threadIdx.x; f < D; f += 256) square = fma((double)c[f], (double)c[f], square);
    square = km_warp_sum(square);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = square;
    __syncthreads();
    if (threadIdx.x != 0) return;
    square = 0;
    for (int w = 0; w < 8; w++) square += sums[w];
    workspace.halves[column] = square / 2;
    workspace.real_halves[column] = (km_real)(square / 2);
    atomicMax(&workspace.slots[km_slot_of(column)].norm,
              __float_as_uint(__double2float_ru(sqrt(square) * (1 + 1e-9))));
}

// ... 3 definitions

enum {
    VECTOR = 16 / sizeof(km_real), // columns of one load
    IN_VECTORS =
        LANE_COLUMNS / VECTOR * VECTOR,             // columns of a lane that are loaded so; the others one by one
    ROUND = 32 + 2 * ROWS_AT_ONCE * ROW_LANES / 16, // nonzeros of a round of km_score_rounds, with padding
    MANY_MOVES = 12,                                // so many points of a tile are moved by a lane each; fewer by more lanes
    STAGED = 257,                                   // nonzeros that a warp has in shared memory at a time, and one more
    SCORE_PITCH = TILE + 1                          // numbers from column to column of scores: no bank conflicts
};
static_assert(STAGED >= 2 * ROUND, "two rounds at least");

// ... 1 definition

// Shared memory of a warp.
struct __align__(16) km_warp_memory {
    km_nonzero nonzeros[STAGED + STAGED % 2];
    km_real scores[PANEL][SCORE_PITCH];
    km_move moves[2 * TILE];
    km_label labels[SLOTS][TILE]; // those of the pass before
};

// ... 2 definitions

__device__ __forceinline__ void km_add_nonzero(km_real (&score)[LANE_COLUMNS], const char *lane_table,
                                               const char *lane_rest, const km_nonzero &nonzero) {
    const char *row = lane_table + nonzero.feature, *rest = lane_rest + nonzero.feature;
    KM_UNROLL_FOR (int j = 0; j < IN_VECTORS; j += VECTOR) {
        const km_vector c = *(const km_vector *)(row + j * ROW_LANES * (int)sizeof(km_real));
        KM_UNROLL_FOR (int v = 0; v < VECTOR; v++) score[j + v] = fma(nonzero.x, c.at[v], score[j + v]);
    }
    KM_UNROLL_FOR (int j = IN_VECTORS; j < LANE_COLUMNS; j++)
        score[j] = fma(nonzero.x, *(const km_real *)(rest + j * ROW_LANES * (int)sizeof(km_real)), score[j]);
}

// ... 1 definition
// ... lines of a template
#pragma unroll 1
        // ... lines of a template
// ... 6 definitions

// Adds a value, which is a multiple of the feature's unit but for rounding, to the sum of a column, and takes it away
// from that of another.
__device__ __forceinline__ void km_move_value(km_block_sums_of &sums, long long to, long long from,
                                              bool has_old, long long f, double value) {
    const long long to_at = (to * (D + 1ll) + f) * INTEGERS, from_at = (from * (D + 1ll) + f) * INTEGERS;
    km_add(sums, to_at, from_at, has_old, __double2ll_rn(value));
}

// ... 2 definitions

// Totals of active slots, a thread each; and what the next pass begins with.
extern "C" __global__ void __launch_bounds__(256)
    km_sparse_totals(const __grid_constant__ km_pass_args args) {
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    const long long at = blockIdx.x * 256ll + threadIdx.x;
    if (at >= COLUMNS * (D + 1ll)) return;
    const int column = (int)(at / (D + 1ll)), slot = km_slot_of(column);
    const long long f = at % (D + 1ll);
    if (at == 0) {
        workspace.progress->next_tile = 0;
    }
    if (f == 0 && column == km_first_column(slot)) {
        workspace.slots[slot].norm = 0;
        if (args.active[slot]) workspace.slots[slot].begun = 1;
    }
    if (!args.active[slot]) return;
    const double sum = (double)(long long)workspace.sums[at];
    args.totals[at] = sum / workspace.scales[f];
}

// ... 2 definitions

constexpr int TABLE_BYTES = (int)km_aligned(TABLE_NUMBERS * (long long)sizeof(km_real));
constexpr int SUMS_BYTES = (int)km_aligned(sizeof(km_block_sums_of));
constexpr int CHANGES_BYTES = 0;
constexpr int FACTS_BYTES = (int)km_aligned(SLOTS * (long long)sizeof(km_slot_facts));
constexpr int SHARED_BYTES =
    TABLE_BYTES + SUMS_BYTES + CHANGES_BYTES + FACTS_BYTES + WARPS * (int)sizeof(km_warp_memory);

// ... 2 definitions

__device__ __forceinline__ const km_real *km_table_of(const km_block &block) {
    return (const km_real *)km_shared;
}

__device__ __forceinline__ km_block_sums_of &km_sums_of(const km_block &block) {
    return *(km_block_sums_of *)(km_shared + TABLE_BYTES);
}

__device__ __forceinline__ const double *km_scales_of(const km_block &block) {
    return km_sums_of(block).scales;
}

// ... 3 definitions

// A tile: a lane has one of its points.
struct km_tile {
    unsigned index;
    int at; // where its nonzeros are in shared memory; -1: they are not
    km_row own;
    bool valid; // there is a point, and it is not long
    float norm;
};

// ... 4 definitions

// ... lines of a template
            if (own_at >= 0)
                km_move_staged(km_sums_of(block), km_scales_of(block), memory.nonzeros + own_at, row.count,
                               own_weight, move.has_old, column + move.from, column + move.to, lane % LANES,
                               LANES);
            else
                km_move_values(km_sums_of(block), block.points, km_scales_of(block), row, own_weight,
                               move.has_old, column + move.from, column + move.to, lane % LANES, LANES);
        }
    }
    __syncwarp();
}

// Moves the lane's point.
__device__ __forceinline__ void km_move_point(const km_warp &warp, const km_tile &tile, int column,
                                              bool has_old, int old, int label) {
    const km_block &block = warp.block;
    if (tile.at >= 0) {
        km_move_staged(km_sums_of(block), km_scales_of(block), warp.memory.nonzeros + tile.at, tile.own.count,
                       km_weight_of(tile), has_old, column + old, column + label, 0, 1);
        return;
    }
    km_move_values(km_sums_of(block), block.points, km_scales_of(block), tile.own, km_weight_of(tile),
                   has_old, column + old, column + label, 0, 1);
}

// Stores the labels of a slot, and notes the moves.
__device__ __forceinline__ void km_store_labels(km_warp &warp, const km_tile &tile, int slot, int label) {
    const int lane = threadIdx.x % 32;
    km_label *stored =
        km_labels_of(*warp.block.args, warp.block.workspace, slot) + tile.index * (long long)TILE + lane;
    const bool begun = km_facts_of(slot).begun;
    const int old = tile.valid ? warp.memory.labels[slot][lane] : label;
    if (old != label) *stored = (km_label)label;
    const unsigned changed = __ballot_sync(0xffffffffu, old != label);
    const unsigned moved = begun ? changed : __ballot_sync(0xffffffffu, tile.valid);
    if (!moved) return;
    if (__popc(moved) >= MANY_MOVES) { // each lane its own point
        if (moved >> lane & 1) km_move_point(warp, tile, km_facts_of(slot).first, begun, old, label);
        return;
    }
    // ... lines of a template
// ... 1 definition

__device__ __forceinline__ void km_take_score(km_best_two &found, km_real score, int j) {
    found.second = fmaxf(found.second, fminf(found.best, score));
    found.j = score > found.best ? j : found.j;
    found.best = fmax(found.best, score);
}

// Decides the labels of a slot, whose columns have all been compared.
__device__ __forceinline__ void km_decide(km_warp &warp, const km_tile &tile, int slot, int column, int k,
                                          const km_best_two &found) {
    int label = found.j;
    // Twice the error of a score: of adding the products, of the difference, and of half the square.
    const float norm = km_facts_of(slot).norm;
    const float margin =
        1.25e-7f * (((float)tile.own.count + 3.0f) * tile.norm * norm + norm * norm) + 1.2e-38f;
    const unsigned ambiguous =
        __ballot_sync(0xffffffffu, tile.valid && !(found.best - found.second > margin));
    if (ambiguous) label = km_resolve_lanes(warp, tile, ambiguous, column, k, label);
    km_store_labels(warp, tile, slot, label);
}

// ... 2 definitions

// A tile of points with all columns: scores of a panel, then the slots of its columns one after the other. A slot may
// go on in the next panel.
__device__ __forceinline__ void km_label_tile(km_warp &warp, km_tile tile) {
    const km_real none = (km_real)__int_as_float(0xff800000);
    const int lane = threadIdx.x % 32;
    km_best_two found = {none, none, 0};
    const long long i = tile.index * (long long)TILE + lane;
    if (tile.valid) tile.norm = warp.block.points.norms[i];
    int slot = 0, column = 0;
    km_stage_labels(warp, tile);
    unsigned at;
    const bool is_staged = km_stage_tile(&at, warp.memory, warp.block.points, tile.own);
    const unsigned sorted = km_sort_lanes(tile.own.count * TILE + lane);
    if (is_staged) tile.at = (int)at;
// ... lines of a template
        if (is_staged)
            km_score_staged(warp.memory, at, sorted, lane_table, halves);
        else
            km_score_rounds(warp.memory, warp.block.points, tile.own, lane_table, halves);
        // ... lines of a template
// ... 3 definitions

static __device__ __noinline__ void km_label_long(const km_block &block, km_long_memory &memory,
                                                  long long i) {
    const int lane = threadIdx.x % 32, own = threadIdx.x / 32;
    const km_row row = km_row_of(block.points, i);
    const unsigned part = (row.count + WARPS - 1) / WARPS, begin = min(own * part, row.count),
                   end = min(begin + part, row.count);
    const double weight = 1;
    // ... lines of a template
                // ... lines of a template
// ... 1 definition

extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS_PER_SM)
    km_sparse_labels(const __grid_constant__ km_pass_args args) {
    __shared__ km_block block;
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    for (int at = threadIdx.x; at < TABLE_BYTES / 16; at += BLOCK)
        ((uint4 *)km_shared)[at] = ((const uint4 *)workspace.table)[at];
    km_block_sums_of &sums = km_sums_of(block);
    for (int at = threadIdx.x; at < SUMS; at += BLOCK) sums.low[at] = sums.high[at] = 0;
    for (int f = threadIdx.x; f <= D; f += BLOCK) sums.scales[f] = workspace.scales[f];
    for (int slot = threadIdx.x; slot < SLOTS; slot += BLOCK) {
        const km_slot_note note = workspace.slots[slot];
        km_facts_of(slot) = {km_value_of(note.norm), km_first_column(slot), args.active[slot], note.begun};
    // ... lines of a template
    for (int at = threadIdx.x; at < SUMS; at += BLOCK) {
        const unsigned long long sum = sums.low[at] | (unsigned long long)sums.high[at] << 32;
        if (sum) atomicAdd(workspace.sums + at, sum);
    }
}

extern "C" {
__device__ km_pass_launch km_pass_launches[] = {
    // ... lines of a template
// ==== The steps around the pass ============================================================================
// As for dense points (cuda/steps), by the same names and with the same arguments; but points are a km_sparse_table,
// and some kernels take a table of columns as well: D rows of doubles, one for each feature, and behind them
// |c|^2 / 2 of each column. Distances are double: |x|^2 - 2 x.c + |c|^2, and x.c is a chain of fma over the nonzeros
// in their order.
#define KM_BOTH __device__ __forceinline__
// Counter-based random numbers, for host and device: each is a function of its four words alone.
#ifndef KM_DRAWS_H
#define KM_DRAWS_H

// ... 33 definitions

// Seeding: greedy k-means++ as runtime/seed.h states it. km_seed_draw decides the pick before and draws candidates, as
// for dense points. km_seed_columns then makes the last pick and the candidates columns of a chain's table; there are
// SEED_COLUMNS. km_seed_pass reads the points, updates the chain's distances, and adds the inertia that each candidate
// would leave.
constexpr int SEED_COLUMNS = 16;                             // column 0 is the last pick, column 1 + c candidate c
constexpr int SEED_POINTS = KM_SUBCHUNK_POINTS / KM_THREADS; // of a thread of km_seed_draw
static_assert(KM_CANDIDATES_MAX < SEED_COLUMNS, "a column for each candidate");

// ... 42 definitions

// ==== The host part: what the header declares ==============================================================
#if !defined(__CUDACC_RTC__) && !defined(KM_KERNELS_ONLY)
#error "sparse_shared.cu has kernels alone, for kmgen fit --source: of points in the layout csr there is no host part"
#endif

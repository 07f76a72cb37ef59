// SPDX-License-Identifier: MIT
// Labels of all active slots, and the moves between sums that follow.

// What all warps know of a slot.
struct km_slot_facts {
    km_real norm; // the largest |c|
    int first;    // column
    int active;
    int begun; // as in km_slot_note
};

//@ if table_shared
constexpr int TABLE_BYTES = (int)km_aligned(TABLE_NUMBERS * (long long)sizeof(km_real));
//@ else
constexpr int TABLE_BYTES = 0;
//@ end
//@ if sums_shared
constexpr int SUMS_BYTES = (int)km_aligned(sizeof(km_block_sums_of));
//@ else
constexpr int SUMS_BYTES = 0;
//@ end
//@ if track_labels
constexpr int CHANGES_BYTES = (int)km_aligned(4ll * SLOTS); // of a block, a slot each
//@ else
constexpr int CHANGES_BYTES = 0;
//@ end
constexpr int FACTS_BYTES = (int)km_aligned(SLOTS * (long long)sizeof(km_slot_facts));
constexpr int SHARED_BYTES =
    TABLE_BYTES + SUMS_BYTES + CHANGES_BYTES + FACTS_BYTES + WARPS * (int)sizeof(km_warp_memory);

// Dynamic shared memory: the table, sums, counts of changes, facts of the slots, the warps' memory. Functions find
// these by their offsets: by pointers in a struct the compiler would not know that they are in shared memory.
extern __shared__ __align__(16) char km_shared[];

// What all warps of a block work with; in shared memory, which takes no registers.
struct km_block {
    const km_pass_args *args;
    km_sparse_table points;
    km_workspace workspace;
    km_real halves[PANEL]; // of the squares, where there is one panel
};

__device__ __forceinline__ const km_real *km_table_of(const km_block &block) {
    //@ if table_shared
    return (const km_real *)km_shared;
    //@ else
    return block.workspace.table;
    //@ end
}

__device__ __forceinline__ km_block_sums_of &km_sums_of(const km_block &block) {
    //@ if sums_shared
    return *(km_block_sums_of *)(km_shared + TABLE_BYTES);
    //@ else
    return *block.workspace.sums;
    //@ end
}

__device__ __forceinline__ const double *km_scales_of(const km_block &block) {
    //@ if sums_shared
    return km_sums_of(block).scales;
    //@ else
    return block.workspace.scales;
    //@ end
}

//@ if track_labels
// Changes of a slot's labels, counted by the block.
__device__ __forceinline__ unsigned *km_changes_of(int slot) {
    return (unsigned *)(km_shared + TABLE_BYTES + SUMS_BYTES) + slot;
}

//@ end
__device__ __forceinline__ km_slot_facts &km_facts_of(int slot) {
    return ((km_slot_facts *)(km_shared + TABLE_BYTES + SUMS_BYTES + CHANGES_BYTES))[slot];
}

__device__ __forceinline__ km_warp_memory &km_memory_of(int warp) {
    return ((km_warp_memory *)(km_shared + TABLE_BYTES + SUMS_BYTES + CHANGES_BYTES + FACTS_BYTES))[warp];
}

// What a warp has of its own.
struct km_warp {
    const km_block &block;
    km_warp_memory &memory;
    int moves; // in memory.moves
};

// A tile: a lane has one of its points.
struct km_tile {
    unsigned index;
    int at; // where its nonzeros are in shared memory; -1: they are not
    km_row own;
    bool valid; // there is a point, and it is not long
    float norm;
    //@ if weighted
    km_real weight;
    //@ end
};

//@ if weighted
__device__ __forceinline__ double km_weight_of(const km_tile &tile) {
    return tile.weight;
}
//@ else
__device__ __forceinline__ double km_weight_of(const km_tile &) {
    return 1.0;
}
//@ end

//@ if not float64
// The score of a point and a column, in double, over its nonzeros in their order.
__device__ __forceinline__ double km_exact_score(const km_block &block, const km_row &row, int column) {
    const km_real *c = km_table_of(block) + (long long)(column / PANEL) * D * PITCH + column % PANEL;
    double dot = 0;
    for (unsigned i = 0; i < row.count; i++)
        dot = fma((double)((const km_real *)block.points.values)[row.begin + i],
                  (double)c[((const km_index *)block.points.indices)[row.begin + i] * (long long)PITCH], dot);
    return dot - block.workspace.halves[column];
}

// The nearest centroid of a slot by scores in double, by a warp.
static __device__ __forceinline__ int km_resolve(const km_block &block, long long begin, unsigned count,
                                                 int column, int k) {
    const km_row row = {begin, count};
    double best = -1e308;
    int nearest = K_MAX;
    for (int j = threadIdx.x % 32; j < k; j += 32) {
        const double score = km_exact_score(block, row, column + j);
        if (score > best) nearest = j;
        best = fmax(best, score);
    }
    for (int width = 16; width > 0; width /= 2) {
        const double other = __shfl_xor_sync(0xffffffffu, best, width);
        const int j = __shfl_xor_sync(0xffffffffu, nearest, width);
        if (other > best || (other == best && j < nearest)) nearest = j;
        best = fmax(best, other);
    }
    return nearest;
}

// Resolves the points of these lanes.
__device__ __forceinline__ int km_resolve_lanes(const km_warp &warp, const km_tile &tile, unsigned lanes,
                                                int column, int k, int label) {
    for (; lanes; lanes &= lanes - 1) {
        const int from = __ffs(lanes) - 1;
        const int nearest = km_resolve(warp.block, __shfl_sync(0xffffffffu, tile.own.begin, from),
                                       __shfl_sync(0xffffffffu, tile.own.count, from), column, k);
        if (threadIdx.x % 32 == from) label = nearest;
    }
    return label;
}

//@ end
// Does the moves that were noted; eight lanes a move. The lane has the nonzeros of a point of the tile, its weight, and
// where its nonzeros are in shared memory: -1 where they are not.
static __device__ __forceinline__ void km_do_moves(const km_block &block, const km_warp_memory &memory,
                                                   int count, long long begin, unsigned nonzeros,
                                                   double weight, int at) {
    enum { LANES = 8 };
    const int lane = threadIdx.x % 32;
    __syncwarp();
    for (int first = 0; first < count; first += 32 / LANES) {
        const int own = first + lane / LANES;
        const km_move move = memory.moves[own < count ? own : first];
        const km_row row = {__shfl_sync(0xffffffffu, begin, move.row),
                            __shfl_sync(0xffffffffu, nonzeros, move.row)};
        const double own_weight = __shfl_sync(0xffffffffu, weight, move.row);
        const int column = km_facts_of(move.slot).first, own_at = __shfl_sync(0xffffffffu, at, move.row);
        if (own < count) {
            //@ if stages_tiles
            if (own_at >= 0)
                km_move_staged(km_sums_of(block), km_scales_of(block), memory.nonzeros + own_at, row.count,
                               own_weight, move.has_old, column + move.from, column + move.to, lane % LANES,
                               LANES);
            else
                //@ end
                km_move_values(km_sums_of(block), block.points, km_scales_of(block), row, own_weight,
                               move.has_old, column + move.from, column + move.to, lane % LANES, LANES);
        }
    }
    __syncwarp();
}

//@ if sums_shared
// Moves the lane's point.
__device__ __forceinline__ void km_move_point(const km_warp &warp, const km_tile &tile, int column,
                                              bool has_old, int old, int label) {
    const km_block &block = warp.block;
    //@ if stages_tiles
    if (tile.at >= 0) {
        km_move_staged(km_sums_of(block), km_scales_of(block), warp.memory.nonzeros + tile.at, tile.own.count,
                       km_weight_of(tile), has_old, column + old, column + label, 0, 1);
        return;
    }
    //@ end
    km_move_values(km_sums_of(block), block.points, km_scales_of(block), tile.own, km_weight_of(tile),
                   has_old, column + old, column + label, 0, 1);
}

//@ end
// Stores the labels of a slot, and notes the moves.
__device__ __forceinline__ void km_store_labels(km_warp &warp, const km_tile &tile, int slot, int label) {
    const int lane = threadIdx.x % 32;
    km_label *stored =
        km_labels_of(*warp.block.args, warp.block.workspace, slot) + tile.index * (long long)TILE + lane;
    const bool begun = km_facts_of(slot).begun;
    //@ if stages_labels
    const int old = tile.valid ? warp.memory.labels[slot][lane] : label;
    //@ else
    const int old = tile.valid ? *stored : label;
    //@ end
    if (old != label) *stored = (km_label)label;
    const unsigned changed = __ballot_sync(0xffffffffu, old != label);
    //@ if track_labels
    if (lane == 0 && changed) atomicAdd(km_changes_of(slot), (unsigned)__popc(changed));
    //@ end
    const unsigned moved = begun ? changed : __ballot_sync(0xffffffffu, tile.valid);
    if (!moved) return;
    //@ if sums_shared
    if (__popc(moved) >= MANY_MOVES) { // each lane its own point
        if (moved >> lane & 1) km_move_point(warp, tile, km_facts_of(slot).first, begun, old, label);
        return;
    }
    //@ end
    if (moved >> lane & 1) {
        const int at = warp.moves + __popc(moved & ((1u << lane) - 1));
        warp.memory.moves[at] = {slot, (unsigned char)lane, begun, (unsigned short)old,
                                 (unsigned short)label};
    }
    warp.moves += __popc(moved);
    if (warp.moves < TILE) return;
    km_do_moves(warp.block, warp.memory, warp.moves, tile.own.begin, tile.own.count, km_weight_of(tile),
                tile.at);
    warp.moves = 0;
}

// The best two scores of a point so far.
struct km_best_two {
    km_real best, second;
    int j;
};

__device__ __forceinline__ void km_take_score(km_best_two &found, km_real score, int j) {
    //@ if float64
    found.j = score > found.best ? j : found.j;
    //@ else
    found.second = fmaxf(found.second, fminf(found.best, score));
    found.j = score > found.best ? j : found.j;
    //@ end
    found.best = fmax(found.best, score);
}

// Decides the labels of a slot, whose columns have all been compared.
__device__ __forceinline__ void km_decide(km_warp &warp, const km_tile &tile, int slot, int column, int k,
                                          const km_best_two &found) {
    int label = found.j;
    //@ if not float64
    // Twice the error of a score: of adding the products, of the difference, and of half the square.
    const float norm = km_facts_of(slot).norm;
    const float margin =
        1.25e-7f * (((float)tile.own.count + 3.0f) * tile.norm * norm + norm * norm) + 1.2e-38f;
    const unsigned ambiguous =
        __ballot_sync(0xffffffffu, tile.valid && !(found.best - found.second > margin));
    if (ambiguous) label = km_resolve_lanes(warp, tile, ambiguous, column, k, label);
    //@ end
    km_store_labels(warp, tile, slot, label);
}

// Whether a slot of the panel is active.
__device__ __forceinline__ bool km_panel_is_active(const km_pass_args &args, int panel) {
    const int end = min((panel + 1) * PANEL, (int)COLUMNS);
    for (int slot = km_slot_of(panel * PANEL); slot < SLOTS && km_first_column(slot) < end; slot++)
        if (args.active[slot]) return true;
    return false;
}

//@ if stages_labels
// Loads the labels of the tile's points in the pass before, some for each lane.
__device__ __forceinline__ void km_stage_labels(km_warp &warp, const km_tile &tile) {
    constexpr int WORDS = TILE * (int)sizeof(km_label) / 4,
                  AT_ONCE = 32 / WORDS; // of a slot; slots at a time
    const int lane = threadIdx.x % 32;
    KM_UNROLL_FOR (int slot = lane / WORDS; slot < SLOTS; slot += AT_ONCE) {
        const km_label *labels =
            km_labels_of(*warp.block.args, warp.block.workspace, slot) + tile.index * (long long)TILE;
        ((unsigned *)warp.memory.labels[slot])[lane % WORDS] = ((const unsigned *)labels)[lane % WORDS];
    }
    __syncwarp();
}

//@ end
// A tile of points with all columns: scores of a panel, then the slots of its columns one after the other. A slot may
// go on in the next panel.
__device__ __forceinline__ void km_label_tile(km_warp &warp, km_tile tile) {
    const km_real none = (km_real)__int_as_float(0xff800000);
    const int lane = threadIdx.x % 32;
    km_best_two found = {none, none, 0};
    const long long i = tile.index * (long long)TILE + lane;
    if (tile.valid) tile.norm = warp.block.points.norms[i];
    //@ if weighted
    if (tile.valid) tile.weight = ((const km_real *)warp.block.args->weights)[i];
    //@ end
    int slot = 0, column = 0;
    //@ if stages_labels
    km_stage_labels(warp, tile);
    //@ end
    //@ if stages_tiles
    unsigned at;
    const bool is_staged = km_stage_tile(&at, warp.memory, warp.block.points, tile.own);
    const unsigned sorted = km_sort_lanes(tile.own.count * TILE + lane);
    if (is_staged) tile.at = (int)at;
        //@ end
#pragma unroll 1
    for (int panel = 0; panel < PANELS; panel++) {
        const int end = min((panel + 1) * PANEL, (int)COLUMNS);
        if (PANELS > 1) {
            if (!km_panel_is_active(*warp.block.args, panel)) {
                if (panel + 1 < PANELS) slot = km_slot_of(end);
                column = end;
                continue;
            }
        }
        const char *lane_table = km_lane_table(km_table_of(warp.block), panel);
        const km_real *halves =
            PANELS == 1 ? warp.block.halves : warp.block.workspace.real_halves + panel * PANEL;
        //@ if stages_tiles
        if (is_staged)
            km_score_staged(warp.memory, at, sorted, lane_table, halves);
        else
            km_score_rounds(warp.memory, warp.block.points, tile.own, lane_table, halves);
        //@ else
        km_score_rounds(warp.memory, warp.block.points, tile.own, lane_table, halves);
        //@ end
        const km_real *scores = &warp.memory.scores[0][lane];
        while (column < end) {
            const km_slot_facts &facts = km_facts_of(slot);
            const int first = facts.first, k = km_ks[slot % KS], stop = min(first + k, end);
            const bool active = facts.active;
#pragma unroll 4
            for (int c = active ? column : stop; c < stop; c++)
                km_take_score(found, scores[(c - panel * PANEL) * SCORE_PITCH], c - first);
            column = stop;
            if (stop < first + k) break;
            if (active) km_decide(warp, tile, slot, first, k, found);
            found = {none, none, 0};
            slot++;
        }
        __syncwarp();
    }
    if (warp.moves)
        km_do_moves(warp.block, warp.memory, warp.moves, tile.own.begin, tile.own.count, km_weight_of(tile),
                    tile.at);
    warp.moves = 0;
}

// Brings the line of an address to the cache.
__device__ __forceinline__ void km_prefetch(const void *address) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

__device__ __forceinline__ km_tile km_load_tile(const km_warp &warp, unsigned index) {
    km_tile tile = {index, -1, {0, 0}, false};
    const long long i = index * (long long)TILE + threadIdx.x % 32;
    if (i >= warp.block.args->n) return tile;
    tile.own = km_row_of(warp.block.points, i);
    tile.valid = tile.own.count <= KM_SPARSE_LONG;
    if (!tile.valid) tile.own.count = 0;
    km_prefetch((const km_real *)warp.block.points.values + tile.own.begin);
    km_prefetch((const km_index *)warp.block.points.indices + tile.own.begin);
    return tile;
}

// A long point, by a block: a score at a time for each lane, the warps split the nonzeros.
struct km_long_memory {
    double dots[WARPS][32];
    int label, old;
};
static_assert(sizeof(km_long_memory) <= WARPS * sizeof(km_warp_memory),
              "it lies where the warps' memory does");

static __device__ __noinline__ void km_label_long(const km_block &block, km_long_memory &memory,
                                                  long long i) {
    const int lane = threadIdx.x % 32, own = threadIdx.x / 32;
    const km_row row = km_row_of(block.points, i);
    const unsigned part = (row.count + WARPS - 1) / WARPS, begin = min(own * part, row.count),
                   end = min(begin + part, row.count);
    //@ if weighted
    const double weight = ((const km_real *)block.args->weights)[i];
    //@ else
    const double weight = 1;
    //@ end
    for (int slot = 0; slot < SLOTS; slot++) {
        if (!block.args->active[slot]) continue;
        const int first = km_first_column(slot), k = km_ks[slot % KS];
        double best = -1e308;
        int nearest = K_MAX;
        for (int c = 0; c < k; c += 32) {
            const int column = first + min(c + lane, k - 1);
            const km_real *table =
                km_table_of(block) + (long long)(column / PANEL) * D * PITCH + column % PANEL;
            double dot = 0;
            for (unsigned at = begin; at < end; at++)
                dot = fma(
                    (double)((const km_real *)block.points.values)[row.begin + at],
                    (double)
                        table[((const km_index *)block.points.indices)[row.begin + at] * (long long)PITCH],
                    dot);
            memory.dots[own][lane] = dot;
            __syncthreads();
            if (own == 0) {
                for (int w = 1; w < WARPS; w++) dot += memory.dots[w][lane];
                const double score = dot - block.workspace.halves[column];
                if (score > best) nearest = min(c + lane, k - 1);
                best = fmax(best, score);
            }
            __syncthreads();
        }
        if (own == 0) {
            for (int width = 16; width > 0; width /= 2) {
                const double other = __shfl_xor_sync(0xffffffffu, best, width);
                const int j = __shfl_xor_sync(0xffffffffu, nearest, width);
                if (other > best || (other == best && j < nearest)) nearest = j;
                best = fmax(best, other);
            }
            if (lane == 0) {
                km_label *stored = km_labels_of(*block.args, block.workspace, slot) + i;
                memory.old = *stored;
                memory.label = nearest;
                //@ if track_labels
                if (memory.old != nearest) atomicAdd(km_changes_of(slot), 1u);
                //@ end
                *stored = (km_label)nearest;
            }
        }
        __syncthreads();
        const bool begun = block.workspace.slots[slot].begun;
        if (!begun || memory.old != memory.label)
            km_move_values(km_sums_of(block), block.points, km_scales_of(block), row, weight, begun,
                           first + memory.old, first + memory.label, threadIdx.x, BLOCK);
        __syncthreads();
    }
}

// The next tile, for a warp.
__device__ __forceinline__ unsigned km_take_tile(const km_workspace &workspace) {
    unsigned index = 0;
    if (threadIdx.x % 32 == 0) index = atomicAdd(&workspace.progress->next_tile, 1u);
    return __shfl_sync(0xffffffffu, index, 0);
}

extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS_PER_SM)
    km_sparse_labels(const __grid_constant__ km_pass_args args) {
    __shared__ km_block block;
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    //@ if table_shared
    for (int at = threadIdx.x; at < TABLE_BYTES / 16; at += BLOCK)
        ((uint4 *)km_shared)[at] = ((const uint4 *)workspace.table)[at];
    //@ end
    //@ if sums_shared
    km_block_sums_of &sums = km_sums_of(block);
    for (int at = threadIdx.x; at < SUMS; at += BLOCK) sums.low[at] = sums.high[at] = 0;
    for (int f = threadIdx.x; f <= D; f += BLOCK) sums.scales[f] = workspace.scales[f];
    //@ end
    for (int slot = threadIdx.x; slot < SLOTS; slot += BLOCK) {
        const km_slot_note note = workspace.slots[slot];
        km_facts_of(slot) = {km_value_of(note.norm), km_first_column(slot), args.active[slot], note.begun};
        //@ if track_labels
        *km_changes_of(slot) = 0;
        //@ end
    }
    for (int column = threadIdx.x; column < PANEL; column += BLOCK)
        block.halves[column] = workspace.real_halves[column];
    if (threadIdx.x == 0) {
        block.args = &args;
        block.points = *(const km_sparse_table *)args.points;
        block.workspace = workspace;
    }
    __syncthreads();
    for (long long at = blockIdx.x; at < block.points.long_count; at += GRID)
        km_label_long(block, *(km_long_memory *)&km_memory_of(0), block.points.long_rows[at]);
    km_warp warp = {block, km_memory_of(threadIdx.x / 32), 0};
    const unsigned tiles = (unsigned)((args.n + TILE - 1) / TILE);
    // One tile ahead: its rows are known, and its nonzeros on their way, before this one is worked on.
    unsigned index = km_take_tile(workspace), next_index = km_take_tile(workspace);
    km_tile tile = km_load_tile(warp, index);
#pragma unroll 1
    while (index < tiles) {
        const km_tile next = km_load_tile(warp, next_index);
        const unsigned index_after = km_take_tile(workspace);
        km_label_tile(warp, tile);
        tile = next;
        index = next_index;
        next_index = index_after;
    }
    __syncthreads();
    //@ if sums_shared
    for (int at = threadIdx.x; at < SUMS; at += BLOCK) {
        const unsigned long long sum = sums.low[at] | (unsigned long long)sums.high[at] << 32;
        if (sum) atomicAdd(workspace.sums + at, sum);
    }
    //@ end
    //@ if track_labels
    for (int slot = threadIdx.x; slot < SLOTS; slot += BLOCK)
        if (*km_changes_of(slot)) atomicAdd(args.changes + slot, (unsigned long long)*km_changes_of(slot));
    //@ end
}

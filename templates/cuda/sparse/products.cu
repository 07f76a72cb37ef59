// SPDX-License-Identifier: MIT
// Labels of all active slots by products of tiles with the centroids, and the moves between sums that follow.

// What all warps know of a slot.
struct __align__(16) km_slot_facts {
    km_margin margin;
    int active, begun; // begun: labels and sums of a pass are there
    //@ if track_labels
    unsigned changes; // labels of the block's points that changed
    //@ end
};

// A set of centroids of a slot.
//@ if many_candidates
typedef unsigned long long km_candidates;
//@ else
typedef unsigned km_candidates;
//@ end

// An ambiguous point that waits.
struct km_waiting {
    unsigned point; // n is below 2^32 there
    int slot;
    km_candidates candidates;
};

// A point that moves, and waits for that.
struct __align__(8) km_move {
    unsigned sums; // where in `low` the sums lie that it joins, and << 16 leaves
    unsigned point;
};

// Shared memory of a warp.
struct __align__(16) km_warp_memory {
    unsigned char tile[TILE_BYTES + 16]; // behind it lie the entries that fill up a tile's
    km_label labels[2][SLOTS][TILE];     // those of the pass before, of this tile and of the next one
    km_move moves[QUEUE];
    km_waiting queue[QUEUE];
};

constexpr unsigned NONE = 0xffff; // sums that a point leaves: it is in none

// Dynamic shared memory. Functions find all they need here, which takes no registers.
struct __align__(16) km_shared_memory {
    const km_pass_args *args;
    km_sparse_table points;
    km_workspace workspace;
    //@ if sums_anew
    int anew;         // sums are made by km_sparse_masks: no moves
    unsigned changes; // labels that changed
    //@ end
    __align__(16) uint2 fragments[RESTARTS * FRAGMENT_TILES * STEPS * 32];
    int low[SUMS], high[SUMS]; // sums of the block: the lower 32 bits have a sign, too
    km_slot_facts facts[SLOTS];
    km_warp_memory warps[WARPS];
};
static_assert(SUMS < NONE, "a move has 16 bits for each of its sums");
constexpr int SHARED_BYTES = (int)sizeof(km_shared_memory);

extern __shared__ __align__(16) char km_shared[];

__device__ __forceinline__ km_shared_memory &km_memory() {
    return *(km_shared_memory *)km_shared;
}

__device__ __forceinline__ km_warp_memory &km_warp_memory_of() {
    return km_memory().warps[threadIdx.x / 32];
}

// Whether the pass makes sums anew, of all points.
__device__ __forceinline__ bool km_makes_anew() {
    //@ if sums_anew
    return km_memory().anew != 0;
    //@ else
    return false;
    //@ end
}

// A tile: a lane has one of its points.
struct km_tile {
    unsigned index, first, count; // first entry and how many, in fours
    unsigned bounds;              // of the lane's point
    bool valid;
    int stage;  // where its labels are
    int queued; // of the warp's queue
    int moves;  // of the warp's that wait
    //@ if sums_anew
    unsigned changes; // labels of the lane's points that changed
    //@ end
};

// The point of a tile whose scores a lane gets.
__device__ __forceinline__ unsigned km_point_of(unsigned lane) {
    return lane % 4 * 8 + lane / 4;
}

// Adds a number that is not 0 to the lower half of a sum, and returns what was there; 0 where the number is 0. By
// predicates: branches would keep the additions of a thread from overlapping.
__device__ __forceinline__ int km_add_low(unsigned at, int number) {
    int before = 0;
    asm volatile("{ .reg .pred adds; setp.ne.s32 adds, %2, 0; @adds atom.shared.add.u32 %0, [%1], %2; }"
                 : "+r"(before)
                 : "r"(km_shared_address(km_memory().low) + 4 * at), "r"(number)
                 : "memory");
    return before;
}

__device__ __forceinline__ void km_add_high(unsigned at, int number) {
    asm volatile("{ .reg .pred adds; setp.ne.s32 adds, %1, 0; @adds red.shared.add.u32 [%0], %1; }" ::"r"(
                     km_shared_address(km_memory().high) + 4 * at),
                 "r"(number)
                 : "memory");
}

// Carries, where the lower half could not hold a sum.
__device__ __forceinline__ void km_carry(unsigned at, int before, int number) {
    const int after = (int)((unsigned)before + (unsigned)number), sign = number >> 31;
    km_add_high(at, ((before ^ after) & (number ^ after)) >> 31 & (sign | 1));
}

// Adds a number of 64 bits to one sum, and takes it away from another where has_old.
static __device__ __noinline__ void km_move_long(unsigned to, unsigned from, bool has_old, long long number) {
    for (int which = 0; which <= has_old; which++, number = -number, to = from) {
        const int low = (int)number, high = (int)((number - low) >> 32);
        km_carry(to, km_add_low(to, low), low);
        km_add_high(to, high);
    }
}

// Moves a nonzero of a point, whose number has more than 31 bits.
static __device__ __noinline__ void km_move_large(const km_move &move, unsigned f) {
    const km_row row = km_row_of(km_memory().points, move.point);
    unsigned at = 0;
    while (at < row.count && ((const km_index *)km_memory().points.indices)[row.begin + at] != f) at++;
    if (at == row.count) return;
    const long long number =
        km_number_of(((const float *)km_memory().points.values)[row.begin + at],
                     km_weight_of(*km_memory().args, move.point), km_memory().workspace.scales[f]);
    km_move_long((move.sums & 0xffff) + f, (move.sums >> 16) + f, move.sums >> 16 != NONE, number);
}

// Does the last moves that wait, up to 32: entry after entry, a lane each, whatever point they are of.
static __device__ __noinline__ void km_do_moves(int first, int count) {
    constexpr int AT_ONCE = $moves_at_once;
    const unsigned lane = threadIdx.x % 32;
    const km_workspace &workspace = km_memory().workspace;
    __syncwarp();
    km_move move = {0, 0};
    unsigned own = 0;
    long long entry = 0; // the point's first one
    if ((int)lane < count) {
        move = km_warp_memory_of().moves[first + lane];
        const km_row row = km_row_of(km_memory().points, move.point);
        const long long tile = move.point / TILE;
        own = row.count + POINT_ENTRIES;
        entry = 4ll * __ldg(workspace.tiles + tile).x + row.begin -
                km_row_of(km_memory().points, tile * TILE).begin + POINT_ENTRIES * (move.point % TILE);
        //@ if weighted
        if (own == 0) { // what it finds joins and leaves the same sum
            move.sums = 0;
            own = 1;
        }
        //@ end
    }
    unsigned end = own;
    KM_UNROLL_FOR (unsigned width = 1; width < 32; width *= 2) {
        const unsigned before = __shfl_up_sync(ALL, end, width);
        if (lane >= width) end += before;
    }
    const unsigned begin = end - own, total = __shfl_sync(ALL, end, 31);
    entry -= begin;
    int begun = -1; // moves that began before, less one
    for (unsigned base = 0; base < total; base += 32 * AT_ONCE) {
        unsigned sums[AT_ONCE], features[AT_ONCE];
        int values[AT_ONCE], before[2][AT_ONCE], from[AT_ONCE];
        bool large = false;
        KM_UNROLL_FOR (int u = 0; u < AT_ONCE; u++) {
            const unsigned at = base + 32 * u, ahead = begin - at;
            const unsigned starts = __reduce_or_sync(ALL, own && ahead < 32 ? 1u << ahead : 0);
            from[u] = begun + __popc(starts & ((2u << lane) - 1));
            begun += __popc(starts);
            sums[u] = __shfl_sync(ALL, move.sums, from[u]);
            const long long found = at + lane + __shfl_sync(ALL, entry, from[u]);
            const bool is_there = at + lane < total;
            const unsigned word = is_there ? __ldg(workspace.entries + found) : 0;
            values[u] = is_there ? __ldg(workspace.numbers + found) : 0;
            features[u] = word >> 25 << 3 | (word >> 17 & 7);
        }
        KM_UNROLL_FOR (int u = 0; u < AT_ONCE; u++) {
            large |= values[u] == LARGE;
            const int joining = values[u] == LARGE ? 0 : values[u],
                      leaving = sums[u] >> 16 == NONE ? 0 : joining;
            before[0][u] = km_add_low((sums[u] & 0xffff) + features[u], joining);
            before[1][u] = km_add_low((sums[u] >> 16) + features[u], -leaving);
        }
        KM_UNROLL_FOR (int u = 0; u < AT_ONCE; u++) {
            const int joining = values[u] == LARGE ? 0 : values[u],
                      leaving = sums[u] >> 16 == NONE ? 0 : joining;
            km_carry((sums[u] & 0xffff) + features[u], before[0][u], joining);
            km_carry((sums[u] >> 16) + features[u], before[1][u], -leaving);
        }
        if (!__any_sync(ALL, large)) continue;
        KM_UNROLL_FOR (int u = 0; u < AT_ONCE; u++) {
            const km_move own_move = {sums[u], __shfl_sync(ALL, move.point, from[u])};
            if (values[u] == LARGE) km_move_large(own_move, features[u]);
        }
    }
    __syncwarp();
}

// Notes the moves of these lanes' points.
__device__ __forceinline__ void km_note_moves(km_tile &tile, unsigned lanes, unsigned sums) {
    const unsigned lane = threadIdx.x % 32;
    if (lanes >> lane & 1)
        km_warp_memory_of().moves[tile.moves + __popc(lanes & ~(ALL << lane))] = {
            sums, tile.index * TILE + km_point_of(lane)};
    tile.moves += __popc(lanes);
    if (tile.moves < 32) return;
    tile.moves -= 32;
    km_do_moves(tile.moves, 32);
}

// Scores of a point and two columns, in double, over its nonzeros in their order.
__device__ __forceinline__ void km_exact_scores(double (&scores)[2], const km_row &row,
                                                const int (&columns)[2]) {
    constexpr unsigned AHEAD = 4; // nonzeros that are read at a time
    const float *values = (const float *)km_memory().points.values + row.begin;
    const km_index *indices = (const km_index *)km_memory().points.indices + row.begin;
    const float *first = (const float *)km_memory().args->centroids + columns[0] * (long long)D,
                *second = (const float *)km_memory().args->centroids + columns[1] * (long long)D;
    scores[0] = scores[1] = 0;
    KM_UNROLL_1_FOR (unsigned at = 0; at < row.count; at += AHEAD) {
        float x[AHEAD];
        unsigned f[AHEAD];
        KM_UNROLL_FOR (unsigned a = 0; a < AHEAD; a++) { // behind the last one 0, which changes no score
            x[a] = at + a < row.count ? __ldg(values + at + a) : 0;
            f[a] = at + a < row.count ? __ldg(indices + at + a) : 0;
        }
        KM_UNROLL_FOR (unsigned a = 0; a < AHEAD; a++) {
            scores[0] = fma((double)x[a], (double)__ldg(first + f[a]), scores[0]);
            scores[1] = fma((double)x[a], (double)__ldg(second + f[a]), scores[1]);
        }
    }
    for (int i = 0; i < 2; i++) scores[i] -= km_memory().workspace.halves[columns[i]];
}

// The lowest candidate, which is taken out of the set.
__device__ __forceinline__ int km_take_candidate(km_candidates &left) {
    //@ if many_candidates
    const int lowest = __ffsll((long long)left) - 1;
    //@ else
    const int lowest = __ffs((int)left) - 1;
    //@ end
    left &= left - 1;
    return lowest;
}

// Decides the last points of the queue, up to 32, by scores of their candidates in double, a lane each, and moves them.
static __device__ __noinline__ void km_resolve(int first, int count) {
    const int lane = threadIdx.x % 32;
    __syncwarp();
    if (lane < count) {
        const km_waiting own = km_warp_memory_of().queue[first + lane];
        const km_row row = km_row_of(km_memory().points, own.point);
        const int column = km_first_column(own.slot);
        km_candidates left = own.candidates;
        double best = -1e308;
        int label = 0;
        while (left) { // two at a time, the lowest first
            const int lower = km_take_candidate(left), higher = left ? km_take_candidate(left) : lower;
            double scores[2];
            km_exact_scores(scores, row, {column + lower, column + higher});
            if (scores[0] > best) label = lower;
            best = fmax(best, scores[0]);
            if (scores[1] > best) label = higher;
            best = fmax(best, scores[1]);
        }
        km_slot_facts &facts = km_memory().facts[own.slot];
        km_label *stored = km_labels_of(*km_memory().args, km_memory().workspace, own.slot) + own.point;
        const int old = *stored;
        if (old != label) {
            *stored = (km_label)label;
            //@ if track_labels
            atomicAdd(&facts.changes, 1u);
            //@ end
        }
        //@ if sums_anew
        if (old != label || !facts.begun) atomicAdd(&km_memory().changes, 1u);
        //@ end
        if ((old != label || !facts.begun) && !km_makes_anew()) {
            const unsigned to = (column + label) * (D + 1), from = (column + old) * (D + 1);
            const double weight = km_weight_of(*km_memory().args, own.point);
            for (unsigned at = 0; at < row.count; at++) {
                const unsigned f = ((const km_index *)km_memory().points.indices)[row.begin + at];
                const long long number =
                    km_number_of(((const float *)km_memory().points.values)[row.begin + at], weight,
                                 km_memory().workspace.scales[f]);
                km_move_long(to + f, from + f, facts.begun, number);
            }
            km_move_long(to + D, from + D, facts.begun,
                         km_number_of(1.0f, weight, km_memory().workspace.scales[D]));
        }
    }
    __syncwarp();
}

// Adds points of these lanes to the queue.
__device__ __forceinline__ void km_defer(km_tile &tile, unsigned lanes, int slot, km_candidates candidates) {
    const int lane = threadIdx.x % 32;
    if (lanes >> lane & 1)
        km_warp_memory_of().queue[tile.queued + __popc(lanes & ~(ALL << lane))] = {
            tile.index * TILE + km_point_of(lane), slot, candidates};
    tile.queued += __popc(lanes);
    if (tile.queued < 32) return;
    tile.queued -= 32;
    km_resolve(tile.queued, 32);
}

// What is known of the lane's point in a slot when its scores are: in the last bits of the best one is its label.
struct km_found {
    float best;
    int old; // the label of the pass before
    bool is_clear;
};

// Stores the label of the lane's point in a slot, unless the point is ambiguous; returns the lanes whose point is.
__device__ __forceinline__ unsigned km_decide(km_tile &tile, const km_found &found, int slot) {
    const unsigned point = km_point_of(threadIdx.x % 32);
    const int label = (int)(__float_as_uint(found.best) & CODE);
    const bool begun = km_memory().facts[slot].begun,
               takes_part = tile.valid && km_memory().facts[slot].active,
               ambiguous = takes_part && !found.is_clear;
    const bool moves = takes_part && !ambiguous && (found.old != label || !begun);
    if (moves && found.old != label) {
        km_labels_of(*km_memory().args, km_memory().workspace, slot)[tile.index * (long long)TILE + point] =
            (km_label)label;
        //@ if track_labels
        atomicAdd(&km_memory().facts[slot].changes, 1u);
        //@ end
    }
    //@ if sums_anew
    tile.changes += moves;
    //@ end
    const unsigned lanes = __ballot_sync(ALL, moves);
    if (lanes) {
        const unsigned first = km_first_column(slot) * (D + 1), to = first + label * (D + 1),
                       from = first + found.old * (D + 1);
        if (!km_makes_anew()) km_note_moves(tile, lanes, to | (begun ? from : NONE) << 16);
        //@ if weighted
        if (moves)
            km_move_long(to + D, from + D, begun,
                         km_number_of(1.0f,
                                      km_weight_of(*km_memory().args, tile.index * (long long)TILE + point),
                                      km_memory().workspace.scales[D]));
        //@ end
    }
    return __ballot_sync(ALL, ambiguous);
}

// The best two scores of a point. The last bits of the best one are its index in the slot.
struct km_best_two {
    float best, second;
};

__device__ __forceinline__ void km_join(km_best_two &own, const km_best_two &other) {
    own.second = fmaxf(fmaxf(own.second, other.second), fminf(own.best, other.best));
    own.best = fmaxf(own.best, other.best);
}

// Hands the best two of half of the points to the lane WIDTH away, and joins those of the other half.
template <int WIDTH> __device__ __forceinline__ void km_exchange(km_best_two (&found)[4]) {
    const bool upper = threadIdx.x & WIDTH;
    KM_UNROLL_FOR (int i = 0; i < WIDTH; i++) {
        const km_best_two kept = upper ? found[i + WIDTH] : found[i],
                          given = upper ? found[i] : found[i + WIDTH];
        found[i] = kept;
        km_join(found[i],
                {__shfl_xor_sync(ALL, given.best, WIDTH), __shfl_xor_sync(ALL, given.second, WIDTH)});
    }
}

// The candidates of the lane's point: centroids whose score is not below `least`. The lanes of a quad have scores of
// its four points with some of the centroids each; a lane gets what all of them have seen of its own point.
template <int K, int COLUMN, int TILES>
__device__ __forceinline__ km_candidates km_candidates_of(const float (&sums)[2][TILES][4], float least) {
    const unsigned lane = threadIdx.x % 32;
    km_candidates seen[4]; // of rows lane / 4 + 8 q
    KM_UNROLL_FOR (int q = 0; q < 4; q++) {
        const float own = __shfl_sync(ALL, least, (int)(lane & ~3u) + q);
        seen[q] = 0;
        KM_UNROLL_FOR (int j = 0; j < (K + 3) / 4; j++) {
            const float score = sums[q / 2][(COLUMN + j) / 2][q % 2 * 2 + (COLUMN + j) % 2];
            const float rounded = __uint_as_float((__float_as_uint(score) & ~CODE) | (4 * j + lane % 4));
            seen[q] |= (km_candidates) !(rounded < own) << 4 * j;
        }
        seen[q] <<= lane % 4;
    }
    KM_UNROLL_FOR (int width = 2; width > 0; width /= 2) {
        const bool upper = lane & width;
        KM_UNROLL_FOR (int i = 0; i < width; i++) {
            const km_candidates kept = upper ? seen[i + width] : seen[i],
                                given = upper ? seen[i] : seen[i + width];
            seen[i] = kept | __shfl_xor_sync(ALL, given, width);
        }
    }
    return seen[0] & ~(km_candidates)0 >> (sizeof(km_candidates) * 8 - K);
}

// By how much the best score of the lane's point must be above all others of a slot. Where it is needed again it is
// computed again: of all slots at a time they would take too many registers.
__device__ __forceinline__ float km_limit_of(const km_tile &tile, int slot) {
    const km_margin margin = km_memory().facts[slot].margin;
    return fmaf(km_low_half(tile.bounds), margin.by_norm,
                fmaf(km_low_half(tile.bounds >> 16), margin.by_rest, margin.least));
}

// Finds the best scores of K list entries I to END - 1 of a restart, of which FIRST is the panel's first; the lane's
// scores of I are in COLUMN and the next ones of `sums`. Without branches: what one slot waits for, another fills.
template <int I, int FIRST, int END, int COLUMN, int TILES>
__device__ __forceinline__ void km_find_slots(km_found (&slots)[END - FIRST],
                                              const float (&sums)[2][TILES][4], const km_tile &tile,
                                              int restart) {
    if constexpr (I < END) {
        constexpr int WIDTH = km_lane_columns(I);
        const int slot = restart * KS + I;
        km_best_two found[4]; // of rows lane / 4 + 8 q
        KM_UNROLL_FOR (int j = 0; j < WIDTH; j++)
            KM_UNROLL_FOR (int q = 0; q < 4; q++) {
                const float sum = sums[q / 2][(COLUMN + j) / 2][q % 2 * 2 + (COLUMN + j) % 2];
                const float score =
                    __uint_as_float((__float_as_uint(sum) & ~CODE) | (4 * j + threadIdx.x % 4));
                found[q].second =
                    j == 0 ? __int_as_float(0xff800000) : fmaxf(found[q].second, fminf(found[q].best, score));
                found[q].best = j == 0 ? score : fmaxf(found[q].best, score);
            }
        km_exchange<2>(found);
        km_exchange<1>(found);
        slots[I - FIRST] = {found[0].best,
                            km_warp_memory_of().labels[tile.stage][slot][km_point_of(threadIdx.x % 32)],
                            found[0].best - found[0].second > km_limit_of(tile, slot)};
        km_find_slots<I + 1, FIRST, END, COLUMN + WIDTH>(slots, sums, tile, restart);
    }
}

// Labels of the same.
template <int I, int FIRST, int END, int COLUMN, int TILES>
__device__ __forceinline__ void km_label_slots(const km_found (&slots)[END - FIRST],
                                               const float (&sums)[2][TILES][4], km_tile &tile, int restart) {
    if constexpr (I < END) {
        const km_found &found = slots[I - FIRST];
        const unsigned lanes = km_decide(tile, found, restart * KS + I);
        if (lanes)
            km_defer(tile, lanes, restart * KS + I,
                     km_candidates_of<km_k_at(I), COLUMN>(
                         sums, __fsub_rd(found.best, km_limit_of(tile, restart * KS + I))));
        km_label_slots<I + 1, FIRST, END, COLUMN + km_lane_columns(I)>(slots, sums, tile, restart);
    }
}

// A panel: scores of the tile's points with the slots of K list entries FIRST to END - 1 of a restart, whose columns
// begin at FRAGMENTS; then their labels.
template <int FIRST, int END, int FRAGMENTS, int TILES>
__device__ __forceinline__ void km_label_panel(km_tile &tile, int restart) {
    const km_shared_memory &shared = km_memory();
    const unsigned lane = threadIdx.x % 32;
    bool any = false;
    for (int i = FIRST; i < END; i++) any |= shared.facts[restart * KS + i].active != 0;
    if (!any) return;
    float sums[2][TILES][4] = {};
    const uint2 *fragments = shared.fragments + (restart * FRAGMENT_TILES + FRAGMENTS) * STEPS * 32 + lane;
    const unsigned row =
        km_shared_address(km_warp_memory_of().tile) + lane / 16 * EIGHT_BYTES + lane % 16 * 16;
#pragma unroll(STEPS_AT_ONCE)
    for (int step = 0; step < STEPS; step++) {
        unsigned points[2][4];
        KM_UNROLL_FOR (int m = 0; m < 2; m++)
            km_ldmatrix_x4(points[m], row + step * (2 * EIGHT_BYTES) + m * 256);
        KM_UNROLL_FOR (int t = 0; t < TILES; t++) {
            const uint2 fragment = fragments[(t * STEPS + step) * 32];
            const unsigned columns[2] = {fragment.x, fragment.y};
            KM_UNROLL_FOR (int m = 0; m < 2; m++) km_mma_f16(sums[m][t], points[m], columns, sums[m][t]);
        }
    }
    km_found slots[END - FIRST];
    km_find_slots<FIRST, FIRST, END, 0>(slots, sums, tile, restart);
    km_label_slots<FIRST, FIRST, END, 0>(slots, sums, tile, restart);
}

// Brings the line of an address to the cache.
__device__ __forceinline__ void km_prefetch(const void *address) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

// Where a tile's entries are; none behind the last tile.
__device__ __forceinline__ uint2 km_place_of(unsigned index, unsigned tiles) {
    return index < tiles ? __ldg(km_memory().workspace.tiles + index) : uint2{0, 0};
}

//@ use copy_cached copy_commit copy_wait_all
// A tile: its bounds; and its labels and nonzeros on their way.
__device__ __forceinline__ km_tile km_load_tile(const km_pass_args &args, unsigned index, uint2 place,
                                                int stage) {
    const unsigned lane = threadIdx.x % 32;
    const long long first = index * (long long)TILE, i = first + km_point_of(lane);
    km_tile tile = {index, place.x, place.y, 0, i < args.n, stage, 0, 0};
    if (first >= args.n) return tile;
    if (tile.valid) tile.bounds = __ldg(km_memory().workspace.bounds + i);
    constexpr int WORDS = TILE * (int)sizeof(km_label) / 4; // of a slot
    KM_UNROLL_FOR (int word = (int)lane; word < SLOTS * WORDS; word += 32)
        km_copy_cached<4>(
            km_shared_address((unsigned *)km_warp_memory_of().labels[stage] + word),
            (const unsigned *)(km_labels_of(args, km_memory().workspace, word / WORDS) + first) +
                word % WORDS);
    km_copy_commit();
    for (unsigned at = lane * 8; at < tile.count; at += 256) {
        km_prefetch((const uint4 *)km_memory().workspace.entries + tile.first + at);
        km_prefetch((const uint4 *)km_memory().workspace.numbers + tile.first + at);
    }
    return tile;
}

// Eight features of a point that has no nonzero among them: zeros, and for the constants 1, 2^-11, 2^-22.
__device__ __forceinline__ uint4 km_empty_eight(int eight) {
    unsigned words[4] = {0, 0, 0, 0};
    KM_UNROLL_FOR (int i = 0; i < 8; i++)
        if (eight * 8 + i >= D && eight * 8 + i < D + 3)
            words[i / 2] |= (eight * 8 + i == D       ? 0x3c00u
                             : eight * 8 + i == D + 1 ? 0x1000u
                                                      : 0x0004u)
                            << i % 2 * 16;
    return {words[0], words[1], words[2], words[3]};
}

__device__ __forceinline__ void km_clear_tile() {
    KM_UNROLL_FOR (int eight = 0; eight < 2 * STEPS; eight++)
        ((uint4 *)km_warp_memory_of().tile)[eight * TILE + threadIdx.x % 32] = km_empty_eight(eight);
}

// A tile of points with all slots.
__device__ __forceinline__ void km_label_tile(km_tile &tile) {
    constexpr int AHEAD = $entries_ahead; // loads at a time
    const unsigned lane = threadIdx.x % 32;
    const uint4 *entries = (const uint4 *)km_memory().workspace.entries + tile.first;
#pragma unroll 1
    for (unsigned first = lane; first < tile.count; first += 32 * AHEAD) {
        uint4 four[AHEAD];
        KM_UNROLL_FOR (int a = 0; a < AHEAD; a++)
            if (first + 32 * a < tile.count) four[a] = __ldg(entries + first + 32 * a);
        KM_UNROLL_FOR (int a = 0; a < AHEAD; a++) {
            if (first + 32 * a >= tile.count) break;
            const unsigned each[4] = {four[a].x, four[a].y, four[a].z, four[a].w};
            KM_UNROLL_FOR (int u = 0; u < 4; u++)
                *(unsigned short *)(km_warp_memory_of().tile + (each[u] >> 16)) = (unsigned short)each[u];
        }
    }
    __syncwarp();
#pragma unroll 1
    for (int restart = 0; restart < RESTARTS; restart++) {
        //@ for panel in panels
        km_label_panel<$panel_first, $panel_end, $panel_fragments, $panel_tiles>(tile, restart);
        //@ end
    }
    __syncwarp();
    km_clear_tile();
}

extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS_PER_SM)
    km_sparse_labels(const __grid_constant__ km_pass_args args) {
    if (args.control->stop) return;
    km_shared_memory &shared = km_memory();
    const km_workspace &workspace = shared.workspace;
    if (threadIdx.x == 0) {
        shared.args = &args;
        shared.points = *(const km_sparse_table *)args.points;
        shared.workspace = km_workspace_of(args);
        //@ if sums_anew
        shared.anew = km_sums_anew(shared.workspace, args.n);
        shared.changes = 0;
        //@ end
    }
    __syncthreads();
    for (int at = threadIdx.x; at < RESTARTS * FRAGMENT_TILES * STEPS * 16; at += BLOCK)
        ((uint4 *)shared.fragments)[at] = ((const uint4 *)workspace.fragments)[at];
    for (int at = threadIdx.x; at < SUMS; at += BLOCK) shared.low[at] = shared.high[at] = 0;
    for (int slot = threadIdx.x; slot < SLOTS; slot += BLOCK) {
        km_slot_facts facts = {workspace.margins[slot], args.active[slot], workspace.slots[slot].begun};
        shared.facts[slot] = facts;
    }
    km_clear_tile();
    __syncthreads();
    const unsigned tiles = (unsigned)((args.n + TILE - 1) / TILE), step = GRID * WARPS;
    // One tile ahead: its nonzeros are on their way before this one is worked on.
    unsigned index = threadIdx.x / 32 * GRID + blockIdx.x;
    km_tile tile = km_load_tile(args, index, km_place_of(index, tiles), 0);
    uint2 place = km_place_of(index + step, tiles);
#pragma unroll 1
    for (; index < tiles; index += step) {
        km_copy_wait_all();
        __syncwarp();
        km_tile next = km_load_tile(args, index + step < tiles ? index + step : tiles, place, tile.stage ^ 1);
        place = km_place_of(index + 2 * step, tiles);
        km_label_tile(tile);
        next.queued = tile.queued;
        next.moves = tile.moves;
        //@ if sums_anew
        next.changes = tile.changes;
        //@ end
        tile = next;
    }
    if (tile.moves) km_do_moves(0, tile.moves);
    if (tile.queued) km_resolve(0, tile.queued);
    //@ if sums_anew
    atomicAdd(&shared.changes, tile.changes);
    //@ end
    __syncthreads();
    //@ if sums_anew
    if (threadIdx.x == 0) atomicAdd(&workspace.progress->changes[1], (unsigned long long)shared.changes);
    //@ end
    for (int at = threadIdx.x; at < SUMS; at += BLOCK)
        if (shared.low[at] || shared.high[at])
            atomicAdd(workspace.sums + at,
                      (unsigned long long)(shared.high[at] * (1ll << 32) + shared.low[at]));
    //@ if track_labels
    for (int slot = threadIdx.x; slot < SLOTS; slot += BLOCK)
        if (shared.facts[slot].changes)
            atomicAdd(args.changes + slot, (unsigned long long)shared.facts[slot].changes);
    //@ end
}

// SPDX-License-Identifier: MIT
// Scores of a tile of points with a panel of centroids.

//@ if table_shared
typedef unsigned km_feature; // where a feature's row is in the table, in bytes
__device__ __forceinline__ km_feature km_feature_of(unsigned f) {
    return f * (PITCH * (unsigned)sizeof(km_real));
}
__device__ __forceinline__ unsigned km_index_of(km_feature feature) {
    return feature / (PITCH * (unsigned)sizeof(km_real));
}
//@ else
typedef unsigned km_feature;
__device__ __forceinline__ km_feature km_feature_of(unsigned f) {
    return f;
}
__device__ __forceinline__ unsigned km_index_of(km_feature feature) {
    return feature;
}
//@ end

// A nonzero, as a warp hands it to its lanes.
struct __align__(2 * sizeof(km_real)) km_nonzero {
    km_real x;
    km_feature feature;
};
struct __align__(16) km_two_nonzeros {
    km_nonzero at[2];
};
struct __align__(16) km_vector {
    km_real at[16 / sizeof(km_real)];
};

enum {
    VECTOR = 16 / sizeof(km_real), // columns of one load
    IN_VECTORS =
        LANE_COLUMNS / VECTOR * VECTOR, // columns of a lane that are loaded so; the others one by one
    ROUND = 32 + 2 * ROWS_AT_ONCE * ROW_LANES / 16, // nonzeros of a round of km_score_rounds, with padding
    //@ if sums_shared
    MANY_MOVES = 12, // so many points of a tile are moved by a lane each; fewer by more lanes
    //@ end
    STAGED = $staged,      // nonzeros that a warp has in shared memory at a time, and one more
    SCORE_PITCH = TILE + 1 // numbers from column to column of scores: no bank conflicts
};
static_assert(STAGED >= 2 * ROUND, "two rounds at least");

// A change of a label, as a warp notes it.
struct km_move {
    int slot;
    unsigned char row, has_old; // of the tile; the point is in the sums of `from`
    unsigned short from, to;
};

// Shared memory of a warp.
struct __align__(16) km_warp_memory {
    km_nonzero nonzeros[STAGED + STAGED % 2];
    km_real scores[PANEL][SCORE_PITCH];
    km_move moves[2 * TILE];
    //@ if stages_labels
    km_label labels[SLOTS][TILE]; // those of the pass before
    //@ end
};

// Where a lane's part of a table's row begins.
__device__ __forceinline__ const char *km_lane_table(const km_real *table, int panel) {
    const int lane = threadIdx.x % ROW_LANES, row = threadIdx.x % 32 / ROW_LANES;
    return (const char *)(table + (long long)panel * D * PITCH + row % (PITCH / PANEL) * PANEL +
                          lane * VECTOR);
}

// The column of the lane's j-th number.
__device__ __forceinline__ int km_column_of(int j) {
    const int lane = threadIdx.x % ROW_LANES;
    return j < IN_VECTORS ? j / VECTOR * (VECTOR * ROW_LANES) + lane * VECTOR + j % VECTOR
                          : j * ROW_LANES + lane;
}

__device__ __forceinline__ void km_add_nonzero(km_real (&score)[LANE_COLUMNS], const char *lane_table,
                                               const char *lane_rest, const km_nonzero &nonzero) {
    //@ if table_shared
    const char *row = lane_table + nonzero.feature, *rest = lane_rest + nonzero.feature;
    //@ else
    const long long at = (long long)nonzero.feature * (PITCH * (long long)sizeof(km_real));
    const char *row = lane_table + at, *rest = lane_rest + at;
    //@ end
    KM_UNROLL_FOR (int j = 0; j < IN_VECTORS; j += VECTOR) {
        const km_vector c = *(const km_vector *)(row + j * ROW_LANES * (int)sizeof(km_real));
        KM_UNROLL_FOR (int v = 0; v < VECTOR; v++) score[j + v] = fma(nonzero.x, c.at[v], score[j + v]);
    }
    KM_UNROLL_FOR (int j = IN_VECTORS; j < LANE_COLUMNS; j++)
        score[j] = fma(nonzero.x, *(const km_real *)(rest + j * ROW_LANES * (int)sizeof(km_real)), score[j]);
}

// Loads the lane's nonzero of its row; 0 behind the row's end.
__device__ __forceinline__ km_nonzero km_load_nonzero(const km_real *values, const km_index *indices,
                                                      long long begin, unsigned count, unsigned done) {
    const unsigned at = done + threadIdx.x % ROW_LANES;
    if (at >= count) return {(km_real)0, 0};
    return {__ldg(values + begin + at), km_feature_of(__ldg(indices + begin + at))};
}

// Scores of a warp's tile whose nonzeros come in rounds, ROW_LANES of each point: a lane of the warp has the row of one
// point.
__device__ __forceinline__ void km_score_rounds(km_warp_memory &warp, const km_sparse_table &points,
                                                const km_row &own, const char *lane_table,
                                                const km_real *halves) {
    const km_real *values = (const km_real *)points.values;
    const km_index *indices = (const km_index *)points.indices;
    const int lane = threadIdx.x % 32, subwarp = lane / ROW_LANES;
    const int from = subwarp * ROW_LANES + subwarp * ROW_LANES / 16 * 2, to = from + lane % ROW_LANES;
    const char *lane_rest =
        lane_table - (lane % ROW_LANES) * ((VECTOR - 1) * (int)sizeof(km_real)); // columns one by one
    unsigned most = own.count; // of the rows that are worked on together
    for (int width = 1; width < ROWS_AT_ONCE; width *= 2)
        most = max(most, __shfl_xor_sync(0xffffffffu, most, width));
    long long begin = __shfl_sync(0xffffffffu, own.begin, subwarp);
    unsigned count = __shfl_sync(0xffffffffu, own.count, subwarp);
    unsigned longest = __shfl_sync(0xffffffffu, most, 0), done = 0, turn = 0;
    km_real score[LANE_COLUMNS] = {};
    km_nonzero next = km_load_nonzero(values, indices, begin, count, 0);
#pragma unroll 1
    for (int row = 0; row < TILE;) {
        warp.nonzeros[turn * ROUND + to] = next;
        const unsigned staged = longest - done;
        const bool ends = staged <= ROW_LANES;
        const int next_row = ends ? row + ROWS_AT_ONCE : row;
        done += ROW_LANES;
        if (ends) {
            const int at = next_row < TILE ? next_row : 0;
            begin = __shfl_sync(0xffffffffu, own.begin, at + subwarp);
            count = __shfl_sync(0xffffffffu, own.count, at + subwarp);
            longest = __shfl_sync(0xffffffffu, most, at);
            done = 0;
        }
        next = km_load_nonzero(values, indices, begin, count, done);
        __syncwarp();
        const km_nonzero *list = &warp.nonzeros[turn * ROUND + from];
        const int pairs = min((staged + 1) / 2, (unsigned)ROW_LANES / 2);
#pragma unroll $round_pairs
        for (int p = 0; p < pairs; p++) {
            const km_two_nonzeros two = *(const km_two_nonzeros *)(list + 2 * p);
            km_add_nonzero(score, lane_table, lane_rest, two.at[0]);
            km_add_nonzero(score, lane_table, lane_rest, two.at[1]);
        }
        turn ^= 1;
        if (ends) {
            KM_UNROLL_FOR (int j = 0; j < LANE_COLUMNS; j++) {
                warp.scores[km_column_of(j)][row + subwarp] = score[j] - halves[km_column_of(j)];
                score[j] = 0;
            }
        }
        row = next_row;
    }
    __syncwarp();
}

//@ if stages_tiles
// Copies the nonzeros of a tile to shared memory, if it has room for all of them. *at becomes where those of the lane's
// point begin.
__device__ __forceinline__ bool km_stage_tile(unsigned *at, km_warp_memory &warp,
                                              const km_sparse_table &points, const km_row &own) {
    const int lane = threadIdx.x % 32;
    const long long first = __shfl_sync(0xffffffffu, own.begin, 0);
    *at = own.count ? (unsigned)(own.begin - first) : 0;
    unsigned span = *at + own.count;
    for (int width = 16; width > 0; width /= 2) span = max(span, __shfl_xor_sync(0xffffffffu, span, width));
    if (span >= STAGED) return false;
    const km_real *values = (const km_real *)points.values + first;
    const km_index *indices = (const km_index *)points.indices + first;
#pragma unroll 4
    for (unsigned i = lane; i < span; i += 32)
        warp.nonzeros[i] = {__ldg(values + i), km_feature_of(__ldg(indices + i))};
    if (lane == 0) warp.nonzeros[span] = {(km_real)0, 0};
    __syncwarp();
    return true;
}

// Sorts numbers over the lanes of a warp, the smallest first.
__device__ __forceinline__ unsigned km_sort_lanes(unsigned number) {
    const int lane = threadIdx.x % 32;
    KM_UNROLL_FOR (int run = 2; run <= 32; run *= 2)
        KM_UNROLL_FOR (int step = run / 2; step > 0; step /= 2) {
            const unsigned other = __shfl_xor_sync(0xffffffffu, number, step);
            const bool lower = ((lane & run) == 0 || run == 32) == ((lane & step) == 0);
            number = lower ? min(number, other) : max(number, other);
        }
    return number;
}

// Scores of a warp's tile whose nonzeros are in shared memory. Points of about the same length are worked on together.
__device__ __forceinline__ void km_score_staged(km_warp_memory &warp, unsigned at, unsigned sorted,
                                                const char *lane_table, const km_real *halves) {
    const int lane = threadIdx.x % 32, subwarp = lane / ROW_LANES;
    const char *lane_rest =
        lane_table - (lane % ROW_LANES) * ((VECTOR - 1) * (int)sizeof(km_real)); // columns one by one
#pragma unroll 1
    for (int row = 0; row < TILE; row += ROWS_AT_ONCE) {
        const unsigned own = __shfl_sync(0xffffffffu, sorted, row + subwarp), count = own / TILE;
        const unsigned shortest = __shfl_sync(0xffffffffu, sorted, row) / TILE,
                       longest = __shfl_sync(0xffffffffu, sorted, row + ROWS_AT_ONCE - 1) / TILE;
        const km_nonzero *list = warp.nonzeros + __shfl_sync(0xffffffffu, at, own % TILE);
        km_real score[LANE_COLUMNS] = {};
        unsigned i = 0;
#pragma unroll 1
        for (; i + 4 <= shortest; i += 4)
            KM_UNROLL_FOR (int u = 0; u < 4; u++) km_add_nonzero(score, lane_table, lane_rest, list[i + u]);
#pragma unroll 1
        for (; i < longest; i += 4)
            KM_UNROLL_FOR (int u = 0; u < 4; u++) {
                km_nonzero nonzero = list[min(i + u, count)]; // behind the point is another one, or the end
                if (i + u >= count) nonzero.x = 0;
                km_add_nonzero(score, lane_table, lane_rest, nonzero);
            }
        KM_UNROLL_FOR (int j = 0; j < LANE_COLUMNS; j++)
            warp.scores[km_column_of(j)][own % TILE] = score[j] - halves[km_column_of(j)];
    }
    __syncwarp();
}
//@ end

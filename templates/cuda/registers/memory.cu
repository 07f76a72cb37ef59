// SPDX-License-Identifier: MIT
// Data in a thread's registers, in shared memory, and in the workspace.

struct __align__(16) km_vector {
    km_real at[VECTOR];
};

// The points that a thread works on.
struct km_points {
    km_real x[POINTS][$lane_d_name];
    //@ if weighted
    km_real weight[POINTS]; // 0 for padding
    //@ end
    //@ if track_labels
    int label[POINTS]; // for the K that is worked on
    //@ end
};

// Coefficients of a score: it is constant + x . factors. It is 0 where the centroid and its pivot are equally near.
struct __align__(16) km_coefficients {
    km_real factors[$lane_d_name];
    km_real constant;
};

// The coefficients of all scores; computed again after each update.
struct km_table {
    //@ if lanes_share_point
    km_coefficients
        coefficients[COEFFICIENTS *
                     LANES_PER_POINT]; // of each centroid but the pivots: those of the lanes of a point
                                       // are adjacent
    //@ else
    km_coefficients coefficients[COEFFICIENTS]; // of each centroid but the pivots
    //@ end
    int pivots[KS];
};
//@ if form_constant
__constant__ km_table km_constants;
//@ end

//@ if ring
// The points of a tile of $stage_text.
struct km_stage {
    km_vector pieces[LOADS * 32 * PIECES];
    //@ if weighted
    __align__(16) km_real weights[LOADS][$row_weights];
    //@ end
};

//@ end
// A sum as an integer: high units, and low ones, each 2^-32 of those. Any order of adding gives the same two numbers.
struct __align__(16) km_sum {
    long long high, low;
};

// The unit of sums, a power of two so small that the sum of the magnitudes of all points is below 2^62 of it; and that
// of the weights.
struct __align__(16) km_units {
    double per_one, unit;           // 1 is so many high units; the high unit
    unsigned long long weight_most; // bits of the largest weight, as a double
};

static __device__ __forceinline__ km_sum km_sum_of(double number, double per_one) {
    const double scaled = number * per_one;
    const long long high = __double2ll_rn(scaled);
    return {high, __double2ll_rn((scaled - (double)high) * 0x1p32)};
}

static __device__ __forceinline__ void km_sum_add(km_sum &to, const km_sum &sum) {
    to.high += sum.high;
    to.low += sum.low;
}

// What the threads of a block share.
struct km_block {
    //@ if ring
    km_stage ring[WARPS][STAGES];
    //@ end
    __align__(16) km_real gathered[BLOCK / 32][GATHERED][GATHERED_ROW]; // of a warp
    km_sum warp_sums[BLOCK / 32][WARP_SUMS];
    //@ if not form_constant
    km_table table;
    //@ end
};

//@ if weighted
// Each sum of a block has a column. For each K: D sums and the weight of each cluster but the pivot, then the pivot's
// weight. At the end: the sums over all points. This is the first column of each K.
//@ else
// Each sum of a block has a column. For each K: D sums and the weight of each cluster but the pivot. At the end: the
// sums over all points. This is the first column of each K.
//@ end
__device__ const int km_columns[KS] = {
    //@ for k in ks
    $k_column,
    //@ end
};

//@ if form_constant
// The workspace holds the units; then, for each column, one sum of each block.
//@ else
// The workspace holds the units, then the table of each restart; then, for each restart and column, one sum of each
// block.
//@ end
static __device__ __forceinline__ km_units &km_units_in(const km_pass_args &args) {
    return *(km_units *)args.workspace;
}

static __device__ __forceinline__ km_sum *km_column(const km_pass_args &args, int column) {
    //@ if form_constant
    return (km_sum *)(&km_units_in(args) + 1) + (long long)column * GRID;
    //@ else
    km_sum *columns = (km_sum *)((km_table *)(&km_units_in(args) + 1) + RESTARTS);
    return columns + ((long long)blockIdx.y * COLUMNS + column) * GRID;
    //@ end
}

//@ if form_constant
// The table as kernels between two passes write it: constant memory has an address, too.
//@ else
// The table of one restart, as kernels between two passes write it.
//@ end
static __device__ __forceinline__ km_table *km_table_of(void *workspace, void *const *constants,
                                                        int restart) {
    //@ if form_constant
    return (km_table *)constants[0];
    //@ else
    return (km_table *)((km_units *)workspace + 1) + restart;
    //@ end
}

// The coefficients of one K.
static __device__ __forceinline__ km_coefficients *km_coefficients_of(km_table *table, int k_index) {
    return table->coefficients + $first_coefficients;
}

// How many tiles the points have; the last one is padded.
static __device__ __forceinline__ int km_tiles(const km_pass_args &args) {
    return (int)((args.n + TILE - 1) / TILE);
}

// Spans: large ones have three quarters of the points, where there are many, and small ones the rest, so that warps end
// together. Their number and their tiles follow from the number of points, whatever the grid.
struct km_spans {
    int large, large_tiles, small_tiles, small_of_large; // small ones are so many times smaller
};

static __device__ __forceinline__ km_spans km_spans_of(long long n) {
    const unsigned shortest = (unsigned)((n + SPAN_POINTS - 1) / SPAN_POINTS);
    const int wanted = shortest / SPANS > 1 ? (int)(shortest / SPANS) : 1;
    const int large = wanted < LONGEST_SPAN ? wanted : LONGEST_SPAN, small = large > 4 ? large / 4 : 1;
    return {large > 1 ? (int)(shortest / 4 * 3) / large : 0, large * (SPAN_POINTS / TILE),
            small * (SPAN_POINTS / TILE), large / small};
}

// The span that a warp has behind `span`, every WARPS * GRID-th one. Warps that have one large span less have small
// ones in its place first.
static __device__ __forceinline__ int km_span_behind(const km_spans &spans, int span) {
    constexpr int WARPS_ALL = WARPS * GRID;
    const int own = $warp * GRID + blockIdx.x, more = spans.large % WARPS_ALL;
    const int in_place = spans.large + (own - more) * spans.small_of_large;
    const int others = spans.large + (more ? (WARPS_ALL - more) * spans.small_of_large : 0);
    if (span + WARPS_ALL < spans.large) return span + WARPS_ALL;
    if (span < spans.large) return more && own >= more ? in_place : others + own;
    if (span >= others) return span + WARPS_ALL;
    return span + 1 < in_place + spans.small_of_large ? span + 1 : others + own;
}

static __device__ __forceinline__ int km_first_tile(const km_spans &spans, int span) {
    const int small = span - spans.large;
    return small < 0 ? span * spans.large_tiles : spans.large * spans.large_tiles + small * spans.small_tiles;
}

// Where a warp is in the points.
struct km_place {
    int tile, span;
    int left; // tiles of the span, from this one on
    int next; // the first tile of the span behind it
};

static __device__ __forceinline__ km_place km_place_behind(const km_pass_args &args, int last) {
    const km_spans spans = km_spans_of(args.n);
    const int span = km_span_behind(spans, last);
    return {km_first_tile(spans, span), span, span < spans.large ? spans.large_tiles : spans.small_tiles,
            km_first_tile(spans, km_span_behind(spans, span))};
}

static __device__ __forceinline__ km_place km_first_place(const km_pass_args &args) {
    return km_place_behind(args, (int)($warp * GRID + blockIdx.x) - WARPS * GRID);
}

// The tile that the warp works on so many tiles later: no more than a span has.
static __device__ __forceinline__ int km_tile_ahead(const km_place &place, int tiles) {
    return tiles < place.left ? place.tile + tiles : place.next + (tiles - place.left);
}

//@ if needs_first_point
// The thread's first point of a tile.
static __device__ __forceinline__ long long km_first_point(int tile) {
    const int lane = threadIdx.x % 32;
    return (long long)tile * TILE + $lane_point;
}

//@ end
//@ if writes_labels
// The index of point r of the thread, less that of its first point.
static __device__ __forceinline__ constexpr int km_point_offset(int r) {
    //@ if adjacent_points
    return r / ADJACENT * LOAD_POINTS + r % ADJACENT;
    //@ else
    return r * LOAD_POINTS;
    //@ end
}

//@ end

// Of the text of {features: 64, clusters: 2..12, target: cuda:sm_90} tracked: The pass
// "..." stands for what a template or an earlier part shows.

// ... 1 definition

// Design tensor, form digits. Scores and sums are matrix products: centroids are the rows, points the columns.
//
// Lattice. When points are loaded, a coordinate becomes z = x / 2^e, |z| < 1, with an exponent e of its feature, and
// z 2^22 is rounded to an integer. The workspace keeps these in tiles of 32 points, in the layout of operands of matrix
// products. A pass reads only the tiles. A point with a coordinate beyond 2^e is an outlier.
//
// Labels. All centroids of a K are rows of one quad (four lanes) or of a few quads, so that the largest score is found
// in the lane or by a shuffle. Scores are compared by 16 bits, two points in a register. A centroid is a candidate when
// a bound on the error cannot tell its score from the largest. A point with one candidate has its label. A point with
// several is ambiguous: its label is resolved in double on the original point. So is that of an outlier.
//
// Sums. Integers of the lattice are added without any rounding: the same bits in any order.
// Points: an integer N = z 2^22 = b2 2^16 + b1 2^8 + b0, each digit from -128 to 127. In a tile, a feature's digits of
// all points are adjacent.
//
// Scores: p is the midpoint of a K, and A = F (c - p) 2^e, F such that A fits 16 bits. C = c2 2^8 + c1 is A rounded. A
// score, N . C / 2^16 and a constant, is
//     S = sum b2 c2 2^8 + sum (b2 c1 + b1 c2) + start,
// two sums that 32 bits hold exactly. S leaves out sum b1 c1 / 2^8, sum b0 C / 2^16, and the fractions of N and A.
// km_find_error bounds that by lengths of vectors: E. A centroid is a candidate when its S is within 2 E of the
// largest. km_resolve compares the candidates of an ambiguous point in double.
//
// Sums: masks of candidates times the digits of the points. Each warp of a block compares points of its own, and writes
// its masks to shared memory. Then each warp adds columns of its own, of all points of the block. So the sums of many
// features stay in registers until the end.
enum {
    BLOCK = 256, // threads of a block
    GRID = 132,  // blocks of a launch, for one restart
    WARPS = BLOCK / 32,
    PREPARERS = 512,       // threads of a block that prepares a launch: a warp for each of 16 K
    TILE = 32,             // points of a tile
    COLUMNS = S * (D + 1), // sums of a restart
    QUEUE = 64,            // ambiguous points of a warp that are not resolved yet
    BITS = 22,             // of a coordinate's integer, without its sign
    BINS = 64,             // of a feature's histogram: powers of two below the largest coordinate
    STAGES = 4             // of the ring: tiles that are being copied, and those that are worked on
};
enum {
    COLUMN_PAIRS = 1,                             // pairs of columns, 16 points, that a warp compares at a time
    WIDTH = 2 * COLUMN_PAIRS,                     // columns of 8 points
    MASKS = COLUMN_PAIRS,                         // of a lane and row of scores, for four points each
    STEP_TILES = WARPS * COLUMN_PAIRS / 2,        // tiles that a block works on at a time
    FOURS = (D + 3) / 4,                          // features in fours
    SLICES = (D + 31) / 32,                       // slices of 32 features: one product of bytes
    LINES = (3 * FOURS + 1) / 2 * 2,              // of 128 bytes: a tile's, one digit of four features each
    SUM_TILES = LINES / 2,                        // column tiles of sums: eight columns each, three columns a feature
    WARP_TILES = (SUM_TILES + WARPS - 1) / WARPS, // of these, those of one warp
    QUEUE_FULL = 24,                              // ambiguous points of a warp for which the block pauses
    LANES_PER_POINT = 8,                          // lanes that resolve a point
    FLUSH_STEPS = 2048,                           // steps after which sums are flushed: counts have 16 bits
    MARGIN_MAX = 1000,                            // units of a 16-bit score
    NORMS = 2,                                    // of which a load finds the largest: |x|, |z|
    FETCHERS = PREPARERS,                         // threads that fetch the centroids of a K
    REDUCE = 128                                  // threads of a block of km_reduce
};
constexpr float BINADE = 0x7c000000; // scores are integers below it; their upper 16 bits are compared
constexpr unsigned ALL = 0xffffffff;

// ... 34 definitions

// Load: writes the tiles. Finds the outliers, and the largest norm of the other points. Points past the last one count
// as outliers.
extern "C" __global__ void __launch_bounds__(256) km_tensor_tiles(const __grid_constant__ km_pass_args args) {
    __shared__ float limit[D], scale[D];
    for (int f = threadIdx.x; f < D; f += 256) {
        limit[f] =
            (float)(km_power_of_2(km_exponents(args)[f]) * (1 - km_power_of_2(-BITS))); // exact in float
        scale[f] = (float)km_power_of_2(-km_exponents(args)[f]);
    }
    __syncthreads();
    const long long points = km_tiles_count(args) * TILE;
    double largest[NORMS] = {};
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < points; i += gridDim.x * 256ll) {
        bool beyond = i >= args.n;
        const float *x = (const float *)args.points + (beyond ? 0 : i) * D;
        double squares[NORMS] = {};
#pragma unroll 8
        for (int f = 0; f < D; f++) {
            beyond = beyond | (fabsf(x[f]) > limit[f]);
            squares[0] = fma((double)x[f], (double)x[f], squares[0]);
            const double z = (double)x[f] * scale[f];
            squares[1] = fma(z, z, squares[1]);
        }
        for (int which = 0; which < NORMS; which++)
            largest[which] = beyond ? largest[which] : fmax(largest[which], squares[which]);
        km_put_point(args, i, x, scale, beyond, squares[0]);
        const unsigned outliers = __ballot_sync(ALL, beyond);
        if (i % TILE == 0) km_outliers(args)[i / TILE] = outliers;
    }
    // Numbers that are not negative are ordered as their bits are. Few warps have a larger one than is there.
    for (int which = 0; which < NORMS; which++) {
        largest[which] = km_warp_max(largest[which]);
        if (threadIdx.x % 32 == 0 && largest[which] > ((volatile double *)km_largest(args))[which])
            atomicMax((unsigned long long *)km_largest(args) + which,
                      (unsigned long long)__double_as_longlong(largest[which]));
    }
}

// ... 17 definitions

// ==== What the launches of a pass share ====================================================================
// Compiled apart: pass/launches
template <typename LAUNCH>
static __device__ __forceinline__ void km_clear_block(km_block<LAUNCH> &shared, const km_pass_args &args) {
    if (threadIdx.x == 0) {
        const long long steps = km_steps(args), begin = blockIdx.x;
        shared.steps = (int)(begin < steps ? (steps - 1 - begin) / GRID + 1 : 0);
        shared.tiles = km_tiles(args);
        shared.all_outliers = km_outliers(args);
    }
    if (threadIdx.x < WARPS) shared.queued[threadIdx.x] = 0;
    KM_UNROLL_1_FOR (int i = 0; i < KS && !args.control->stop; i++)
        if (km_k_layouts[i].launch == LAUNCH::INDEX)
            for (int at = threadIdx.x; at < km_ks[i] * (D + 1); at += BLOCK)
                km_sums_of(args, blockIdx.x)[km_offsets[i] * (D + 1) + at] = 0;
    __threadfence(); // the sums are 0 before any thread adds to them
}

// ... 2 definitions

// Resolves the points of the warp's queue, LANES_PER_POINT lanes each, and adds them to the block's sums.
template <typename LAUNCH>
static __device__ __noinline__ void km_resolve(const km_block<LAUNCH> &shared, const km_pass_args &args,
                                               int queued) {
    constexpr int LANE_D = (D + LANES_PER_POINT - 1) / LANES_PER_POINT; // features of a lane
    const int lane = threadIdx.x % 32, own = lane % LANES_PER_POINT;
    __syncwarp();
    KM_UNROLL_1_FOR (int first = lane / LANES_PER_POINT; first - lane / LANES_PER_POINT < queued;
                     first += 32 / LANES_PER_POINT) {
        const km_queue_entry item = shared.queue[threadIdx.x / 32][first < queued ? first : 0];
        const int k_index = item.point_and_k >> 5, k = km_ks[k_index];
        long long point = (long long)item.tile * TILE + item.point_and_k % 32;
        const bool valid = first < queued && point < args.n;
        point = valid ? point : 0;
        const float *c =
            (const float *)args.centroids + ((long long)blockIdx.y * S + km_offsets[k_index]) * D + own;
        const float *from = (const float *)args.points + point * D + own;
        double x[LANE_D], smallest = 1e308;
        KM_UNROLL_FOR (int i = 0; i < LANE_D; i++)
            x[i] = i * LANES_PER_POINT + own < D ? from[i * LANES_PER_POINT] : 0;
        unsigned left = item.candidates;
        int label = 0;
        for (int next = 0;; next++) {
            int j = item.candidates ? __ffs(left) - 1 : next < k ? next : -1;
            left &= left - 1;
            j = valid ? j : -1;
            if (!__any_sync(ALL, j >= 0)) break;
            const float *centroid = c + (j < 0 ? 0 : j) * D;
            double square = 0;
            KM_UNROLL_FOR (int i = 0; i < LANE_D; i++) {
                const double away =
                    i * LANES_PER_POINT + own < D ? x[i] - (double)centroid[i * LANES_PER_POINT] : 0;
                square = fma(away, away, square);
            }
            for (int width = LANES_PER_POINT / 2; width > 0; width /= 2)
                square += __shfl_xor_sync(ALL, square, width);
            if (j < 0 || square >= smallest) continue;
            label = j;
            smallest = square;
        }
        if (!valid) continue;
        unsigned long long *to = km_sums_of(args, blockIdx.x) + (km_offsets[k_index] + label) * (D + 1) + own;
        KM_UNROLL_FOR (int i = 0; i < LANE_D; i++)
            if (i * LANES_PER_POINT + own < D)
                atomicAdd(to + i * LANES_PER_POINT,
                          (unsigned long long)__double2ll_rn(
                              x[i] * shared.lattice_scale[i * LANES_PER_POINT + own]));
        if (own > 0) continue;
        atomicAdd(to + D, 1ull);
        km_label *stored = (km_label *)args.labels + (blockIdx.y * KS + k_index) * args.labels_stride + point;
        if (*stored == label) continue;
        *stored = (km_label)label;
        atomicAdd(args.changes + blockIdx.y * KS + k_index, 1ull);
    }
    __syncwarp();
}

// ... 8 definitions

// What a lane needs of its quad's Ks, and where it reads in a tile: not worth registers between two steps.
struct km_lane {
    unsigned same_k[4];
    km_quad_scale quad_scale;
    int k_index[2];
    int first;       // of the points whose masks it has
    int features_at; // offset in a tile of feature 4 t of the points that it compares
};

template <typename LAUNCH>
static __device__ __forceinline__ km_lane km_lane_of(const km_block<LAUNCH> &shared) {
    km_lane own;
    const unsigned thread = km_opaque(threadIdx.x), g = thread % 32 / 4, t = thread % 4;
    for (int l = 0; l < 4; l++) own.same_k[l] = shared.same_k[l][g];
    own.quad_scale = shared.quad_scale[g];
    for (int s = 0; s < 2; s++) own.k_index[s] = shared.k_index[s][g];
    // A lane has masks of points 8 t to 8 t + 7, or of four of these.
    const unsigned half = COLUMN_PAIRS == 1 ? thread / 32 % 2 * 4 : 0;
    own.first = 8 * t + half;
    own.features_at = t * 128 + t * TILE + (COLUMN_PAIRS == 1 ? g / 2 * 8 + half + g % 2 * 2 : 4 * g);
    return own;
}

// ... 13 definitions

// What a warp keeps from step to step.
template <typename LAUNCH> struct km_state {
    km_columns columns;
    km_sums<LAUNCH> sums;
    int changes[2];
};

// Labels a warp's points of a step, and writes their masks. Returns whether the block should pause for the queue.
template <typename LAUNCH>
static __device__ __forceinline__ bool km_label_step(km_state<LAUNCH> &state, km_block<LAUNCH> &shared,
                                                     const km_pass_args &args, int step, int stage) {
    const unsigned thread = km_opaque(threadIdx.x);
    const int tile = thread / 32 * COLUMN_PAIRS / 2; // of the step
    const km_lane own = km_lane_of(shared);
    unsigned candidates[LAUNCH::SCORE_ROWS][MASKS], added[MASKS][2];
    km_find_candidates<LAUNCH>(candidates, shared, (const unsigned char *)&shared.ring[stage][tile], own);
    const bool ambiguous = km_has_ambiguous<LAUNCH>(added, candidates, own.same_k);
    const unsigned outliers = shared.outliers[stage][tile];
    bool full = false;
    if (__any_sync(ALL, ambiguous) || outliers)
        full = km_defer(candidates, added, shared, args, own, outliers, (int)km_first_tile(step) + tile);
    km_label_points<LAUNCH>(candidates, args, own, (km_first_tile(step) + tile) * TILE, state.changes);
    KM_UNROLL_FOR (int i = 0; i < LAUNCH::ROW_TILES; i++) {
        int first = state.sums.counts[i], second = 0;
        KM_UNROLL_FOR (int m = 0; m < MASKS; m++) {
            first = __dp4a((int)candidates[2 * i][m], 0x01010101, first);
            second = __dp4a((int)candidates[2 * i + 1][m], 0x01010101, second);
        }
        state.sums.counts[i] = first + second * 65536;
        uint2 *to = (uint2 *)&shared.masks[step % 2][tile][i][thread % 32];
        if (COLUMN_PAIRS == 1)
            to[thread / 32 % 2] = {candidates[2 * i][0], candidates[2 * i + 1][0]};
        else
            *(uint4 *)to = {candidates[2 * i][0], candidates[2 * i + 1][0], candidates[2 * i][MASKS - 1],
                            candidates[2 * i + 1][MASKS - 1]};
    }
    return full;
}

// ... 9 definitions

// Processes a block's steps: between two barriers it labels the points of one step and adds those of the step before.
template <typename LAUNCH>
static __device__ __forceinline__ void km_process_tiles(km_block<LAUNCH> &shared, const km_pass_args &args) {
    km_state<LAUNCH> state;
    KM_UNROLL_FOR (int n = 0; n < WARP_TILES; n++) state.columns.at[n] = km_find_column(threadIdx.x, n);
    state.sums = {};
    state.changes[0] = state.changes[1] = 0;
    for (int s = 0; s < STAGES - 2; s++) km_copy_step(shared, s, s);
    bool full = false;
    for (int step = 0, stage = 0; step <= shared.steps; step++) { // stage: index in the ring
        km_copy_wait<STAGES - 3>();
        if (__syncthreads_or(full)) km_resolve_queue(shared, args);
        full = false;
        const int before = stage > 0 ? stage - 1 : STAGES - 1;
        km_copy_step(shared, before > 0 ? before - 1 : STAGES - 1, step + STAGES - 2);
        // Half of the warps begin with the sums, so that the two kinds of work overlap.
        KM_UNROLL_1_FOR (int phase = 0; phase < 2; phase++) {
            if ((phase ^ (threadIdx.x >= BLOCK / 2)) == 0) {
                if (step == shared.steps) continue;
                full = km_label_step(state, shared, args, step, stage);
            } else if (step > 0) {
                km_add_step(state, shared.masks[(step + 1) % 2], shared.ring[before]);
            }
        }
        stage = stage + 1 < STAGES ? stage + 1 : 0;
        if (step == shared.steps || step % FLUSH_STEPS == FLUSH_STEPS - 1) km_flush(state.sums, shared, args);
    }
    km_resolve_queue(shared, args);
    KM_UNROLL_FOR (int segment = 0; segment < 2; segment++)
        if (state.changes[segment])
            atomicAdd(args.changes + blockIdx.y * KS + shared.k_index[segment][threadIdx.x % 32 / 4],
                      (unsigned long long)state.changes[segment]);
}

// ... 3 definitions

// ==== The totals of a pass =================================================================================
// Compiled apart: pass/rest
// Adds a column over the blocks, as integers; rounds once, to double.
extern "C" __global__ void __launch_bounds__(REDUCE) km_reduce(const __grid_constant__ km_pass_args args) {
    const int column = blockIdx.x * REDUCE + threadIdx.x, f = column % (D + 1);
    int k_index = 0;
    while (k_index + 1 < KS && km_offsets[k_index + 1] * (D + 1) <= column) k_index++;
    if (args.control->stop || column >= COLUMNS || !args.active[blockIdx.y * KS + k_index]) return;
    long long sum = 0;
#pragma unroll 16
    for (int block = 0; block < GRID; block++) sum += (long long)km_sums_of(args, block)[column];
    args.totals[(long long)blockIdx.y * COLUMNS + column] =
        f < D ? (double)sum * km_power_of_2(km_exponents(args)[f] - BITS) : (double)sum;
}
constexpr int REDUCE_GRID = (COLUMNS + REDUCE - 1) / REDUCE;

// ... 1 definition

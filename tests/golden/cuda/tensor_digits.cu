// Of the text of {features: 64, clusters: 2..12, target: cuda:sm_90} tracked: The pass
// "..." stands for what a template or an earlier part shows.

// ... 1 definition

// Design tensor, form digits. Scores and sums are matrix products: centroids are the rows, points the columns.
//
// Lattice. When points are loaded, a coordinate becomes z = x / 2^e, |z| < 1, e of its feature, and z 2^22 is rounded
// to an integer. The workspace keeps them in tiles of 32 points, as matrix products take them. A pass reads only those.
// A point beyond 2^e is an outlier.
//
// Labels. All centroids of a K are rows of one quad (four lanes) or of a few quads, so that the largest score is found
// in the lane or by a shuffle. 16 bits of a score, two points in a register, take part: a centroid is a candidate when
// it comes so close to the nearest that a bound on the error cannot tell them apart. A point with one candidate has its
// label. A point with several is ambiguous: its label is resolved on the points as they are, as that of an outlier.
//
// Sums. Integers of the lattice, which are added without any rounding, the same in any order.
// Points: an integer N = z 2^22 = b2 2^16 + b1 2^8 + b0, each digit from -128 to 127, a feature's digit of all points
// of a tile side by side.
//
// Scores: of a K with midpoint p, A = F (c - p) 2^e, F such that two bytes hold it: C = c2 2^8 + c1 is A without its
// fraction. A score, N . C / 2^16 and what does not depend on the point, is
//     S = sum b2 c2 2^8 + sum (b2 c1 + b1 c2) + start,
// two sums that 32 bits hold exactly. It lacks sum b1 c1 / 2^8 and sum b0 C / 2^16, and fractions of N and A. What that
// is at most, E, follows from lengths of vectors (km_find_error). A centroid is a candidate when S comes within 2 E of
// the largest. Of an ambiguous point the candidates are compared (km_resolve).
//
// Sums: the candidates of a point times its bytes. A block's warps compare points of their own, and leave masks of
// candidates in shared memory: then each adds, of all points of the block, the bytes of columns of its own. So sums
// stay in registers until the end.
enum {
    BLOCK = 256, // threads of a block
    GRID = 132,  // blocks of a launch, for one restart
    WARPS = BLOCK / 32,
    TILE = 32,             // points of a tile
    COLUMNS = S * (D + 1), // sums of a restart
    QUEUE = 64,            // ambiguous points of a warp that are not resolved yet
    BITS = 22,             // of a coordinate's integer, beside its sign
    BINS = 64,             // of the histogram: powers of two below the largest coordinate
    STAGES = 4             // of the ring: tiles that are on their way, and those that are worked on
};
enum {
    PAIRS = 1,                                   // of columns, 16 points, that a warp compares
    WIDTH = 2 * PAIRS,                           // columns of 8 points
    MASKS = PAIRS,                               // of a lane and slot, for four points each
    STEP_TILES = WARPS * PAIRS / 2,              // tiles that a block works on at a time
    QUARTERS = (D + 3) / 4,                      // features in fours
    CHUNKS = (D + 31) / 32,                      // in products of 32
    LINES = (3 * QUARTERS + 1) / 2 * 2,          // of 128 bytes, a tile's
    SUM_TILES = LINES / 2,                       // columns of sums, in eights: three of each feature
    OWN_TILES = (SUM_TILES + WARPS - 1) / WARPS, // of them a warp's
    QUEUE_FULL = 24,                             // so many ambiguous points are worth a pause of the block
    TEAM = 8,                                    // lanes that resolve a point
    CHUNK_STEPS = 2048,                          // so many steps fit 16 bits of a count
    MARGIN_MAX = 1000,                           // units of a 16-bit score
    NORMS = 2,                                   // that a load finds the largest of: |x|, |z|
    FETCHERS = BLOCK,                            // threads that fetch the centroids of a K
    REDUCE = 128                                 // threads of a block of km_reduce
};
constexpr float BINADE = 0x7c000000; // scores are integers below it, of which the upper halves are compared
constexpr unsigned ALL = 0xffffffff;

// ... 28 definitions

// Load: writes the tiles; finds the outliers, as which those past the end of the last tile count, and how far out the
// others are.
extern "C" __global__ void __launch_bounds__(256) km_tensor_tiles(const __grid_constant__ km_pass_args args) {
    __shared__ float limit[D], scale[D];
    for (int f = threadIdx.x; f < D; f += 256) {
        limit[f] = (float)(km_power(km_exponents(args)[f]) * (1 - km_power(-BITS))); // all its bits
        scale[f] = (float)km_power(-km_exponents(args)[f]);
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
    // Numbers that are not negative are ordered as their bits are. Few tell more than others did.
    for (int which = 0; which < NORMS; which++) {
        largest[which] = km_warp_max(largest[which]);
        if (threadIdx.x % 32 == 0 && largest[which] > ((volatile double *)km_largest(args))[which])
            atomicMax((unsigned long long *)km_largest(args) + which,
                      (unsigned long long)__double_as_longlong(largest[which]));
    }
}

// ... 18 definitions

// Decides the points of the warp's queue, each by a team of lanes, and adds them to the block's sums.
template <typename LAUNCH>
static __device__ __noinline__ void km_resolve(const km_block<LAUNCH> &shared, const km_pass_args &args,
                                               int queued) {
    constexpr int OWN = (D + TEAM - 1) / TEAM; // features of a lane
    const int lane = threadIdx.x % 32, own = lane % TEAM;
    __syncwarp();
    KM_UNROLL_1_FOR (int first = lane / TEAM; first - lane / TEAM < queued; first += 32 / TEAM) {
        const km_item item = shared.queue[threadIdx.x / 32][first < queued ? first : 0];
        const int k_index = item.what >> 5, k = km_ks[k_index];
        long long point = (long long)item.tile * TILE + item.what % 32;
        const bool valid = first < queued && point < args.n;
        point = valid ? point : 0;
        const float *c =
            (const float *)args.centroids + ((long long)blockIdx.y * S + km_offsets[k_index]) * D + own;
        const float *from = (const float *)args.points + point * D + own;
        double x[OWN], smallest = 1e308;
        KM_UNROLL_FOR (int i = 0; i < OWN; i++) x[i] = i * TEAM + own < D ? from[i * TEAM] : 0;
        unsigned left = item.candidates;
        int label = 0;
        for (int next = 0;; next++) {
            int j = item.candidates ? __ffs(left) - 1 : next < k ? next : -1;
            left &= left - 1;
            j = valid ? j : -1;
            if (!__any_sync(ALL, j >= 0)) break;
            const float *centroid = c + (j < 0 ? 0 : j) * D;
            double square = 0;
            KM_UNROLL_FOR (int i = 0; i < OWN; i++) {
                const double away = i * TEAM + own < D ? x[i] - (double)centroid[i * TEAM] : 0;
                square = fma(away, away, square);
            }
            for (int width = TEAM / 2; width > 0; width /= 2) square += __shfl_xor_sync(ALL, square, width);
            if (j < 0 || square >= smallest) continue;
            label = j;
            smallest = square;
        }
        if (!valid) continue;
        unsigned long long *to = km_sums_of(args, blockIdx.x) + (km_offsets[k_index] + label) * (D + 1) + own;
        KM_UNROLL_FOR (int i = 0; i < OWN; i++)
            if (i * TEAM + own < D)
                atomicAdd(to + i * TEAM,
                          (unsigned long long)__double2ll_rn(x[i] * shared.lattice_scale[i * TEAM + own]));
        if (own > 0) continue;
        atomicAdd(to + D, 1ull);
        km_label *kept = (km_label *)args.labels + (blockIdx.y * KS + k_index) * args.labels_stride + point;
        if (*kept == label) continue;
        *kept = (km_label)label;
        atomicAdd(args.changes + blockIdx.y * KS + k_index, 1ull);
    }
    __syncwarp();
}

// ... 8 definitions

// What a lane knows of its quad's Ks, and where it reads in a tile: not worth registers between two steps.
struct km_lane {
    unsigned link[4];
    km_choice choice;
    int k_index[2];
    int first;   // of the points whose masks it has
    int quarter; // where it finds feature 4 t of the points that it compares
};

template <typename LAUNCH>
static __device__ __forceinline__ km_lane km_lane_of(const km_block<LAUNCH> &shared) {
    km_lane own;
    const unsigned thread = km_opaque(threadIdx.x), g = thread % 32 / 4, t = thread % 4;
    for (int l = 0; l < 4; l++) own.link[l] = shared.link[l][g];
    own.choice = shared.choice[g];
    for (int s = 0; s < 2; s++) own.k_index[s] = shared.k_index[s][g];
    // Masks of a lane are of points 8 t to 8 t + 7, or of four of these.
    const unsigned half = PAIRS == 1 ? thread / 32 % 2 * 4 : 0;
    own.first = 8 * t + half;
    own.quarter = t * 128 + t * TILE + (PAIRS == 1 ? g / 2 * 8 + half + g % 2 * 2 : 4 * g);
    return own;
}

// ... 13 definitions

// What a warp keeps from step to step.
template <typename LAUNCH> struct km_state {
    km_columns columns;
    km_sums<LAUNCH> sums;
    int changes[2];
};

// Compares a warp's points of a step; leaves masks of candidates. Gives whether the queue is worth a pause.
template <typename LAUNCH>
static __device__ __forceinline__ bool km_label_step(km_state<LAUNCH> &state, km_block<LAUNCH> &shared,
                                                     const km_pass_args &args, int step, int stage) {
    const unsigned thread = km_opaque(threadIdx.x);
    const int tile = thread / 32 * PAIRS / 2; // of the step
    const km_lane own = km_lane_of(shared);
    unsigned candidates[LAUNCH::SLOTS][MASKS], added[MASKS][2];
    km_find_candidates<LAUNCH>(candidates, shared, (const unsigned char *)&shared.ring[stage][tile], own);
    const bool several = km_has_several<LAUNCH>(added, candidates, own.link);
    const unsigned outliers = shared.outliers[stage][tile];
    bool full = false;
    if (__any_sync(ALL, several) || outliers)
        full = km_defer(candidates, added, shared, args, own, outliers, (int)km_first_tile(step) + tile);
    km_label_points<LAUNCH>(candidates, args, own, (km_first_tile(step) + tile) * TILE, state.changes);
    KM_UNROLL_FOR (int i = 0; i < LAUNCH::TILES; i++) {
        int first = state.sums.counts[i], second = 0;
        KM_UNROLL_FOR (int m = 0; m < MASKS; m++) {
            first = __dp4a((int)candidates[2 * i][m], 0x01010101, first);
            second = __dp4a((int)candidates[2 * i + 1][m], 0x01010101, second);
        }
        state.sums.counts[i] = first + second * 65536;
        uint2 *to = (uint2 *)&shared.masks[step % 2][tile][i][thread % 32];
        if (PAIRS == 1)
            to[thread / 32 % 2] = {candidates[2 * i][0], candidates[2 * i + 1][0]};
        else
            *(uint4 *)to = {candidates[2 * i][0], candidates[2 * i + 1][0], candidates[2 * i][MASKS - 1],
                            candidates[2 * i + 1][MASKS - 1]};
    }
    return full;
}

// ... 8 definitions

// Between two barriers a block compares points of one step and adds those of the step before.
template <typename LAUNCH>
static __device__ __forceinline__ void km_walk(km_block<LAUNCH> &shared, const km_pass_args &args) {
    km_state<LAUNCH> state;
    KM_UNROLL_FOR (int n = 0; n < OWN_TILES; n++) state.columns.at[n] = km_find_column(threadIdx.x, n);
    state.sums = {};
    state.changes[0] = state.changes[1] = 0;
    for (int s = 0; s < STAGES - 2; s++) km_copy_tile(shared, s, s);
    bool full = false;
    for (int step = 0, now = 0; step <= shared.steps; step++) { // now: where in the ring
        km_copy_wait<STAGES - 3>();
        if (__syncthreads_or(full)) km_empty_queue(shared, args);
        full = false;
        const int before = now > 0 ? now - 1 : STAGES - 1;
        km_copy_tile(shared, before > 0 ? before - 1 : STAGES - 1, step + STAGES - 2);
        // Half of the warps begin with sums, so that one kind of work fills the gaps of the other.
        KM_UNROLL_1_FOR (int turn = 0; turn < 2; turn++) {
            if ((turn ^ (threadIdx.x >= BLOCK / 2)) == 0) {
                if (step == shared.steps) continue;
                full = km_label_step(state, shared, args, step, now);
            } else if (step > 0) {
                km_add_step(state, shared.masks[(step + 1) % 2], shared.ring[before]);
            }
        }
        now = now + 1 < STAGES ? now + 1 : 0;
        if (step == shared.steps || step % CHUNK_STEPS == CHUNK_STEPS - 1) km_flush(state.sums, shared, args);
    }
    km_empty_queue(shared, args);
    KM_UNROLL_FOR (int segment = 0; segment < 2; segment++)
        if (state.changes[segment])
            atomicAdd(args.changes + blockIdx.y * KS + shared.k_index[segment][threadIdx.x % 32 / 4],
                      (unsigned long long)state.changes[segment]);
}

// ... 5 definitions

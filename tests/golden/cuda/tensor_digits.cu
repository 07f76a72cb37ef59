// Of the text of {features: 64, clusters: 2..12, target: cuda:sm_90} tracked: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

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
// ... lines of a template
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
    RESOLVED_AT_ONCE = 8,                         // of one tile for which it does not wait until the queue is full
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
// ... lines of a template
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

// ... 18 definitions

// ==== What the launches of a pass share ====================================================================
// Compiled apart: pass/launches
// ... lines of a template
// ... 6 definitions
// ... lines of a template
        km_label *stored = (km_label *)args.labels + (blockIdx.y * KS + k_index) * args.labels_stride + point;
        if (!args.labels || *stored == label) continue;
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

// ... 14 definitions

// What a warp keeps from step to step.
template <typename LAUNCH> struct km_state {
    km_columns columns;
    km_sums<LAUNCH> sums;
    int changes[2];
// ... lines of a template
    km_label_points<LAUNCH>(candidates, args, own, (km_first_tile(step) + tile) * TILE, state.changes);
    // ... lines of a template
// ... 9 definitions

// Processes a block's steps: between two barriers it labels the points of one step and adds those of the step before.
template <typename LAUNCH>
static __device__ __forceinline__ void km_process_tiles(km_block<LAUNCH> &shared, const km_pass_args &args) {
    km_state<LAUNCH> state;
    KM_UNROLL_FOR (int n = 0; n < WARP_TILES; n++) state.columns.at[n] = km_find_column(threadIdx.x, n);
    state.sums = {};
    state.changes[0] = state.changes[1] = 0;
    // ... lines of a template
    KM_UNROLL_FOR (int segment = 0; segment < 2; segment++)
        if (state.changes[segment])
            atomicAdd(args.changes + blockIdx.y * KS + shared.k_index[segment][threadIdx.x % 32 / 4],
                      (unsigned long long)state.changes[segment]);
}

// ... 3 definitions

// ==== The totals of a pass =================================================================================
// Compiled apart: pass/rest
// ... lines of a template
// ... 1 definition

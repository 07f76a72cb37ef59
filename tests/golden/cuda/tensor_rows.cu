// Of the text of {features: 8, clusters: 256, target: cuda:sm_90} tracked: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 1 definition

// Design tensor, form rows. Scores and sums are matrix products: centroids are the rows, points the columns.
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
// Points: each coordinate is kept twice: rounded to half precision, for scores, and as the integer of z 2^22, for sums.
//
// Scores: as those of the form rounded. Each candidate has a code, 256 and its index. The codes of a point's candidates
// are added: a sum below 512 is the code of a single candidate, and gives the label.
//
// Sums are in shared memory, not in registers: each point is added to one row of them. Integers are made positive by a
// bias. The low 32 bits of a sum are added by a native atomic, and where that carries, 1 is added to the high 32 bits.
//
// TIGHT: the compiler would spill if it worked on all columns at once. That of CUDA 12 always does.
constexpr bool TIGHT = 0 || __CUDACC_VER_MAJOR__ < 13;
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
    WIDTH = TIGHT ? 2 : 4,                   // columns of 8 points that are worked on at a time
    BIAS = 1 << BITS,                        // makes a coordinate's integer positive
    EIGHTS = D <= 8 ? 1 : (D + 15) / 16 * 2, // features in eights
    ROW = D | 1,                             // words of a row of sums: odd, so that rows begin in different banks
    FLUSH_TILES = 1 << 30,                   // sums are flushed once, in the end
    STEP_TILES = 1,                          // tiles that are worked on at a time
    NORMS = 1,                               // of which a load finds the largest: |x|
    RESOLVE_AHEAD = 2,                       // features at a time when an ambiguous point is added
    FETCHERS = PREPARERS,                    // threads that fetch the centroids of a K
    REDUCE = 128                             // threads of a block of km_reduce
};
constexpr float BINADE = 8192;             // scores are at least this and less than twice this
constexpr unsigned ONE_CANDIDATE = 0x5c00; // 256 in half precision, where units are 1/4
constexpr unsigned ALL = 0xffffffff;

// ... 18 definitions

template <typename LAUNCH> struct km_block : km_prepared {
    alignas(16) unsigned low[LAUNCH::SUM_ROWS][ROW]; // low and high words of the sums
    unsigned high[LAUNCH::SUM_ROWS][ROW];
    unsigned counts[LAUNCH::SUM_ROWS];
    km_warp warps[WARPS];
    unsigned changes[KS];
};

// ... 38 definitions

// ==== What the launches of a pass share ====================================================================
// Compiled apart: pass/launches
template <typename LAUNCH>
static __device__ __forceinline__ void km_clear_block(km_block<LAUNCH> &shared, const km_pass_args &) {
    for (int i = threadIdx.x; i < LAUNCH::SUM_ROWS * ROW; i += BLOCK)
        shared.low[0][i] = shared.high[0][i] = 0;
    for (int i = threadIdx.x; i < LAUNCH::SUM_ROWS; i += BLOCK) shared.counts[i] = 0;
    for (int i = threadIdx.x; i < KS; i += BLOCK) shared.changes[i] = 0;
}

// ... 29 definitions
// ... lines of a template
            km_label *stored = (km_label *)args.labels +
                               (blockIdx.y * KS + own.k_index) * args.labels_stride + tile * (long long)TILE +
                               lane;
            if (args.labels && *stored != row - own.sum_row) {
                *stored = (km_label)(row - own.sum_row);
                atomicAdd(&shared.changes[own.k_index], 1u);
            }
            km_add_point(shared, row, numbers);
        }
        km_defer(shared, args, ambiguous, tile, own.k_index);
    }
}

// ... 7 definitions

// Starts to copy a tile to shared memory. `from` is the address of the lane's first 16 bytes.
static __device__ __forceinline__ void km_copy_tile(unsigned to, const uint4 *from) {
    to += km_opaque(threadIdx.x % 32) *
          (unsigned)sizeof(uint4); // computed again: not worth a register from tile to tile
    // ... lines of a template
    const unsigned ring = km_opaque(km_shared_address(first_tile));
    km_state<LAUNCH> state;
    km_begin_warp(state, shared, args, ring, tile, tiles);
    unsigned stage = 0; // offset in the ring, in bytes
    KM_UNROLL_FOR (int s = 0; s < STAGES - 1; s++) {
        if (tile + s * STRIDE < tiles) km_copy_tile(ring + s * TILE_BYTES, from(tile + s * STRIDE));
        km_copy_commit();
    }
    while (tile < tiles) {
        for (int since_flush = 0; since_flush < FLUSH_TILES && tile < tiles; since_flush++, tile += STRIDE) {
            km_copy_wait<STAGES - 2>();
            __syncwarp();
            const int ahead = tile + (STAGES - 1) * STRIDE;
            const unsigned before = stage > 0 ? stage - TILE_BYTES : (STAGES - 1) * TILE_BYTES;
            if (ahead < tiles) km_copy_tile(ring + before, from(ahead));
            km_copy_commit();
            km_assign_tile(state, shared, args, stage, tile);
            stage = stage < (STAGES - 1) * TILE_BYTES ? stage + TILE_BYTES : 0;
        }
    }
    km_end_warp(state, shared, args);
}

// ... lines of a template
        if (threadIdx.x == 0 && shared.changes[own.k_index])
            atomicAdd(args.changes + blockIdx.y * KS + own.k_index,
                      (unsigned long long)shared.changes[own.k_index]);
    }
}

// ... 4 definitions

// SPDX-License-Identifier: MIT
// The skeleton of all forms of the design. A form is the file $form.cu, with the definitions that `use form_...` takes.
//@ need form block grid blocks_per_sm parts stages launches_count row_tiles_most sum_rows_most max3
//@ include cuda/head.h
//@ words cuda/words.cu
//@ words cuda/tensor/scores.cu
//@ words cuda/tensor/masks.cu
//@ words cuda/tensor/distinct.cu
//@ words cuda/tensor/$form.cu
//@ use unroll_for unroll_1_for unroll_2_for

// Design tensor, form $form. Scores and sums are matrix products: centroids are the rows, points the columns.
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
//@ use form_text
enum {
    BLOCK = $block, // threads of a block
    GRID = $grid,   // blocks of a launch, for one restart
    WARPS = BLOCK / 32,
    PREPARERS = 512,       // threads of a block that prepares a launch: a warp for each of 16 K
    TILE = 32,             // points of a tile
    COLUMNS = S * (D + 1), // sums of a restart
    QUEUE = 64,            // ambiguous points of a warp that are not resolved yet
    BITS = 22,             // of a coordinate's integer, without its sign
    BINS = 64,             // of a feature's histogram: powers of two below the largest coordinate
    STAGES = $stages       // of the ring: tiles that are being copied, and those that are worked on
};
//@ use form_numbers
constexpr unsigned ALL = 0xffffffff;

// Where the centroids of each K are: launch, first quad, number of quads, first row of scores in a quad, number of
// rows, first row of the block's sums.
struct km_k_layout {
    short launch, quad, quads, score_row, score_rows, sum_row;
};
__device__ const km_k_layout km_k_layouts[KS] = {
    //@ for k in ks
    {$k_part, $k_quad, $k_quads, $k_score_row, $k_score_rows, $k_sum_row},
    //@ end
};

// A launch. A lane has SCORE_ROWS rows of scores, two of each row tile. Its first FIRST_ROWS rows are one segment and
// belong to one K; the others are a second segment and belong to another K or, in a whole quad, to the same. With
// LEVELS > 0 up to 2^LEVELS quads share a K.
//@ for part in parts
struct km_launch_$part { // K = $part_text
    enum {
        INDEX = $part,
        ROW_TILES = $part_row_tiles,
        SCORE_ROWS = 2 * ROW_TILES,
        FIRST_ROWS = $part_first_rows,
        LEVELS = $part_levels
    };
    //@ if not form_digits
    enum { SUM_ROWS = $part_sum_rows }; // of the block's sums
    //@ end
};
//@ end

// The same as numbers; and the most of any launch.
struct km_launch_shape {
    int index, score_rows, first_rows, levels;
};
__device__ const km_launch_shape km_launch_shapes[] = {
    //@ for part in parts
    {$part, 2 * $part_row_tiles, $part_first_rows, $part_levels},
    //@ end
};
enum { LAUNCHES = $launches_count, ROW_TILES_MAX = $row_tiles_most, SUM_ROWS_MAX = $sum_rows_most };

// What a launch needs of the centroids, in every form. One block prepares it for all: then the launch's own code is
// short, and takes half the time to compile. It is the first part of each block's shared memory.
struct km_prepared_base {
    double lattice_scale[D]; // 2^(22 - e), by which a coordinate becomes an integer
    unsigned same_k
        [4][8]; // masks of a quad, ALL where: its segments have the same K; it and the quad 1, 2, 4 away do
    short k_index[2][8];                 // of a quad's segments: index in the K list, -1: none
    short sum_row[8][2 * ROW_TILES_MAX]; // row of the sums of each row of scores, -1: none
    int any_active;                      // whether a K of the launch is
    unsigned char active[KS];
};

// What is needed only to prepare it.
struct km_preparation_base {
    km_launch_shape launch;
    double radius;                         // the largest norm of all points but outliers
    double extent[D];                      // 2^e
    unsigned char dominated[SUM_ROWS_MAX]; // centroids that are nearest nowhere in the lattice
};

//@ def tiles_of_warps
enum { TILE_SIZE = sizeof(km_tile) / sizeof(uint4) };

static __device__ __forceinline__ long long km_tiles_count(const km_pass_args &args) {
    return (args.n + TILE - 1) / TILE;
}

// An ambiguous point, packed: its tile; its index in the tile and its K.
struct km_queue_entry {
    int tile, point_and_k;
};

//@ end
//@ def warp_memory
//@ use tiles_of_warps
// Shared memory of a warp.
struct km_warp {
    km_tile ring[STAGES];
    km_queue_entry queue[QUEUE];
    int queued; // how many; not in a register, as few tiles need it
};

//@ end
//@ use form_memory

// Workspace --------------------------------------------------------------------------------------------------

// In this order: the sums of each restart; the distinct points; the largest |x|^2 of the points but outliers, and in
// one form |z|^2; the exponents e; the histogram; what is prepared for each restart and launch; the outliers of tiles;
// the tiles.
constexpr long long PREPARED_BYTES = (long long)sizeof(km_prepared) * LAUNCHES * RESTARTS;

//@ if distinct_points
//@ use distinct_memory
//@ else
constexpr long long DISTINCT_BYTES = 0;
constexpr int DISTINCT_PARTS = 1;
//@ end
static __device__ __forceinline__ double *km_largest(const km_pass_args &args) {
    return (double *)((char *)args.workspace + 8ll * RESTARTS * COLUMNS * GRID + DISTINCT_BYTES);
}

static __device__ __forceinline__ int *km_exponents(const km_pass_args &args) {
    return (int *)(km_largest(args) + NORMS);
}

static __device__ __forceinline__ unsigned *km_histogram(const km_pass_args &args) {
    return (unsigned *)(km_exponents(args) + D);
}

static __device__ __forceinline__ km_prepared *km_prepared_of(const km_pass_args &args, int launch) {
    const long long after = (long long)(km_histogram(args) + D * BINS);
    return (km_prepared *)((after + 255) / 256 * 256) + blockIdx.y * LAUNCHES + launch;
}

static __device__ __forceinline__ unsigned *km_outliers(const km_pass_args &args) {
    const long long after = (long long)(km_histogram(args) + D * BINS);
    return (unsigned *)((after + 255) / 256 * 256 + PREPARED_BYTES);
}

static __device__ __forceinline__ km_tile *km_tiles(const km_pass_args &args) {
    const long long after = (long long)(km_outliers(args) + km_tiles_count(args));
    return (km_tile *)((after + 255) / 256 * 256);
}

//@ include cuda/tensor/exponents.cu

//@ def columns
// The numbers of a column in the workspace, one of each block, for each restart.
static __device__ __forceinline__ long long *km_column(const km_pass_args &args, int column) {
    return (long long *)args.workspace + ((long long)blockIdx.y * COLUMNS + column) * GRID;
}

//@ if distinct_points
static __device__ __forceinline__ unsigned long long *km_block_sum(const km_pass_args &args, int block,
                                                                   int column) {
    return (unsigned long long *)km_column(args, column) + block;
}

//@ end
//@ end
//@ def block_rows
// The sums of a restart that a block leaves.
static __device__ __forceinline__ unsigned long long *km_sums_of(const km_pass_args &args, int block) {
    return (unsigned long long *)args.workspace + ((long long)blockIdx.y * GRID + block) * COLUMNS;
}

//@ if distinct_points
static __device__ __forceinline__ unsigned long long *km_block_sum(const km_pass_args &args, int block,
                                                                   int column) {
    return km_sums_of(args, block) + column;
}

//@ end
//@ end
//@ use form_load warp_max
// ==== Loading points into tiles
// Compiled apart: pass/rest
//@ include cuda/tensor/lattice.cu
//@ if distinct_points
//@ use distinct_load
//@ end

// The tiles --------------------------------------------------------------------------------------------------

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
            //@ if form_digits
            const double z = (double)x[f] * scale[f];
            squares[1] = fma(z, z, squares[1]);
            //@ end
        }
        for (int which = 0; which < NORMS; which++)
            largest[which] = beyond ? largest[which] : fmax(largest[which], squares[which]);
        km_put_point(args, i, x, scale, beyond, squares[0]);
        //@ if not form_rows
        const unsigned outliers = __ballot_sync(ALL, beyond);
        if (i % TILE == 0) km_outliers(args)[i / TILE] = outliers;
        //@ end
    }
    // Numbers that are not negative are ordered as their bits are. Few warps have a larger one than is there.
    for (int which = 0; which < NORMS; which++) {
        largest[which] = km_warp_max(largest[which]);
        if (threadIdx.x % 32 == 0 && largest[which] > ((volatile double *)km_largest(args))[which])
            atomicMax((unsigned long long *)km_largest(args) + which,
                      (unsigned long long)__double_as_longlong(largest[which]));
    }
}

// ==== Rows of products from centroids
// Compiled apart: pass/prepare
//@ include cuda/tensor/prepare.cu

// ==== What the launches of a pass share
// Compiled apart: pass/launches
//@ use form_clear
// Fills the shared memory of a block. False: no K of the launch is active, or the fit has stopped.
template <typename LAUNCH>
static __device__ __forceinline__ bool km_begin_block(km_block<LAUNCH> &shared, const km_pass_args &args) {
    const int stop = args.control->stop; // read now and tested later: one wait for all reads
    const uint4 *from = (const uint4 *)km_prepared_of(args, LAUNCH::INDEX);
#pragma unroll 4
    for (int i = threadIdx.x; i < (int)(sizeof(km_prepared) / sizeof(uint4)); i += BLOCK)
        ((uint4 *)&shared)[i] = from[i];
    km_clear_block(shared, args);
    __syncthreads();
    return !stop && shared.any_active;
}

//@ def block_sums
// Adds to a 64-bit sum of the block in shared memory, where many threads may do so at once. Two atomics of 32 bits are
// native instructions; one of 64 bits is a loop.
static __device__ __forceinline__ void km_add_long(long long *sum, long long number) {
    unsigned *words = (unsigned *)sum;
    const unsigned low = (unsigned)number, before = atomicAdd(words, low);
    atomicAdd(words + 1, (unsigned)(number >> 32) + (before + low < before));
}

//@ end
//@ def resolve_from_block
template <typename LAUNCH>
static __device__ __forceinline__ const float *km_exact_centroids(const km_block<LAUNCH> &shared,
                                                                  const km_pass_args &, int k_index) {
    return shared.centroids + km_k_layouts[k_index].sum_row * D;
}

//@ use block_sums
template <typename LAUNCH>
static __device__ __forceinline__ void km_add_exact(km_block<LAUNCH> &shared, int row, int f,
                                                    long long number) {
    km_add_long(shared.sums + row * (D + 1) + f, number);
}

template <typename LAUNCH>
static __device__ __forceinline__ void km_add_count(km_block<LAUNCH> &shared, int row) {
    km_add_long(shared.sums + row * (D + 1) + D, 1);
}

//@ end
// Ambiguous points -------------------------------------------------------------------------------------------

//@ def unpack_point
// An entry of the queue holds the index of the point in its tile, and the index of the K << 5.
template <typename LAUNCH>
static __device__ __forceinline__ km_point_k km_unpack(const km_block<LAUNCH> &, const km_queue_entry &item) {
    return {item.point_and_k % 32, item.point_and_k >> 5};
}

//@ end
//@ if not form_digits
struct km_point_k {
    int point, k_index;
};

//@ end
//@ use form_resolve
//@ if not form_digits
// Resolves up to 32 points at the end of the warp's queue, a lane each, and adds them to the sums. Returns how many are
// left.
template <typename LAUNCH>
static __device__ __forceinline__ int km_resolve(km_block<LAUNCH> &shared, const km_pass_args &args,
                                                 int queued) {
    km_warp &warp = shared.warps[threadIdx.x / 32];
    const int lane = threadIdx.x % 32, count = queued < 32 ? queued : 32;
    __syncwarp();
    const km_queue_entry entry = warp.queue[queued - count + (lane < count ? lane : 0)];
    __syncwarp();
    queued -= count;
    const km_point_k unpacked = km_unpack(shared, entry);
    const long long point = (long long)entry.tile * TILE + unpacked.point;
    if (point >= args.n || lane >= count) return queued;
    const float *x = (const float *)args.points + point * D;
    const int label =
        km_find_nearest(x, km_exact_centroids(shared, args, unpacked.k_index), km_ks[unpacked.k_index]);
    //@ if track_labels
    const int at = blockIdx.y * KS + unpacked.k_index;
    km_label *stored = (km_label *)args.labels + at * args.labels_stride + point;
    if (args.labels && *stored != label) {
        *stored = (km_label)label;
        atomicAdd(args.changes + at, 1ull);
    }
    //@ end
    const int row = km_k_layouts[unpacked.k_index].sum_row + label;
#pragma unroll RESOLVE_AHEAD
    for (int f = 0; f < D; f++)
        km_add_exact(shared, row, f, __double2ll_rn((double)x[f] * shared.lattice_scale[f]));
    km_add_count(shared, row);
    return queued;
}

//@ end
// What a warp keeps from tile to tile.
//@ def fragments
// The fragments of the centroids: in a lane's registers, or in shared memory.
//@ if fragments_in_registers
typedef uint4 km_fragments[FRAGMENTS];

static __device__ __forceinline__ uint4 km_fragment(const km_fragments *fragments, int tile, int k) {
    return fragments[tile][k];
}
//@ else
typedef uint4 km_fragments[FRAGMENTS][32];

static __device__ __forceinline__ uint4 km_fragment(const km_fragments *fragments, int tile, int k) {
    return fragments[tile][k][threadIdx.x % 32];
}
//@ end

template <typename State, typename LAUNCH>
static __device__ __forceinline__ void km_read_fragments(State &state, const km_block<LAUNCH> &shared) {
    //@ if fragments_in_registers
    KM_UNROLL_FOR (int i = 0; i < LAUNCH::ROW_TILES; i++)
        KM_UNROLL_FOR (int k = 0; k < FRAGMENTS; k++)
            state.fragments[i][k] = shared.fragments[i][k][threadIdx.x % 32];
    //@ else
    state.fragments = shared.fragments;
    //@ end
}

//@ end
//@ if track_labels
//@ def add_changes
// Adds the changes of labels to those of the slots.
template <typename State>
static __device__ __forceinline__ void km_add_changes(const State &state, const km_pass_args &args) {
    KM_UNROLL_FOR (int segment = 0; segment < 2; segment++)
        if (state.changes[segment])
            atomicAdd(args.changes + blockIdx.y * KS + state.own.k_index[segment],
                      (unsigned long long)state.changes[segment]);
}

//@ end
//@ end
//@ def tile_source
//@ use opaque_address
// The address of a lane's first 16 bytes of a tile; the address of the first tile stays in a register.
template <typename LAUNCH>
static __device__ __forceinline__ auto km_tile_source(const km_block<LAUNCH> &, const km_pass_args &args) {
    const uint4 *lane_from = km_opaque((const uint4 *)km_tiles(args) + threadIdx.x % 32);
    return [lane_from](int tile) { return lane_from + tile * (long long)TILE_SIZE; };
}

//@ end
//@ use form_assign
//@ if not form_digits
// The loop ---------------------------------------------------------------------------------------------------

//@ use copy_16 copy_commit copy_wait opaque shared_address
// Starts to copy a tile to shared memory. `from` is the address of the lane's first 16 bytes.
static __device__ __forceinline__ void km_copy_tile(unsigned to, const uint4 *from) {
    //@ if form_rows
    to += km_opaque(threadIdx.x % 32) *
          (unsigned)sizeof(uint4); // computed again: not worth a register from tile to tile
    //@ end
    KM_UNROLL_FOR (int i = 0; i < TILE_SIZE; i += 32)
        if (i + 32 <= TILE_SIZE || (int)(threadIdx.x % 32) < TILE_SIZE - i)
            km_copy_16(to + i * (int)sizeof(uint4), from + i);
}

// Processes a warp's tiles, one after the other, through its ring.
template <typename LAUNCH>
static __device__ __forceinline__ void km_process_tiles(km_block<LAUNCH> &shared, const km_pass_args &args) {
    constexpr int STRIDE = GRID * WARPS;
    constexpr unsigned TILE_BYTES = sizeof(km_tile);
    const int tiles = (int)km_tiles_count(args);
    int tile = blockIdx.x * WARPS + threadIdx.x / 32;
    const auto from = km_tile_source(shared, args);
    const uint4 *first_tile = (const uint4 *)shared.warps[threadIdx.x / 32].ring;
    //@ if form_rows
    const unsigned ring = km_opaque(km_shared_address(first_tile));
    //@ else
    const unsigned ring = km_opaque(km_shared_address(first_tile + threadIdx.x % 32));
    //@ end
    km_state<LAUNCH> state;
    km_begin_warp(state, shared, args, ring, tile, tiles);
    unsigned stage = 0; // offset in the ring, in bytes
    KM_UNROLL_FOR (int s = 0; s < STAGES - 1; s++) {
        if (tile + s * STRIDE < tiles) km_copy_tile(ring + s * TILE_BYTES, from(tile + s * STRIDE));
        km_copy_commit();
    }
    while (tile < tiles) {
        for (int since_flush = 0; since_flush < FLUSH_TILES && tile < tiles; since_flush++, tile += STRIDE) {
            //@ if form_hi_lo
            km_prefetch_outliers(state, tile + STRIDE, tiles);
            //@ end
            km_copy_wait<STAGES - 2>();
            __syncwarp();
            const int ahead = tile + (STAGES - 1) * STRIDE;
            const unsigned before = stage > 0 ? stage - TILE_BYTES : (STAGES - 1) * TILE_BYTES;
            if (ahead < tiles) km_copy_tile(ring + before, from(ahead));
            km_copy_commit();
            km_assign_tile(state, shared, args, stage, tile);
            //@ if form_rounded
            if (since_flush % COUNT_TILES == COUNT_TILES - 1) km_flush_counts(state.sums, shared);
            //@ end
            stage = stage < (STAGES - 1) * TILE_BYTES ? stage + TILE_BYTES : 0;
        }
        //@ if not form_rows
        km_flush(state.sums, shared);
        //@ end
    }
    km_end_warp(state, shared, args);
}

//@ end
//@ def write_columns
// Leaves the block's sums in the workspace.
template <typename LAUNCH>
static __device__ __forceinline__ void km_write_block_sums(const km_block<LAUNCH> &shared,
                                                           const km_pass_args &args) {
    __syncthreads();
    for (int i = 0; i < KS; i++) {
        if (km_k_layouts[i].launch != LAUNCH::INDEX || !shared.active[i]) continue;
        for (int at = threadIdx.x; at < km_ks[i] * (D + 1); at += BLOCK)
            km_column(args, km_offsets[i] * (D + 1) + at)[blockIdx.x] =
                shared.sums[km_k_layouts[i].sum_row * (D + 1) + at];
    }
}

//@ end
//@ use form_write_sums
// One launch: a part of the K list.
template <typename LAUNCH> static __device__ __forceinline__ void km_run_launch(const km_pass_args &args) {
    extern __shared__ uint4 km_memory[];
    km_block<LAUNCH> &shared = *(km_block<LAUNCH> *)km_memory;
    if (!km_begin_block(shared, args)) return;
    km_process_tiles(shared, args);
    km_write_block_sums(shared, args);
}

//@ for part in parts
// ==== Launch $part
// Compiled apart: pass/launches/$part_apart
extern "C" __global__ void __launch_bounds__(BLOCK, $blocks_per_sm)
    km_tensor_$part(const __grid_constant__ km_pass_args args) {
    km_run_launch<km_launch_$part>(args);
}

//@ end
// ==== The totals of a pass
// Compiled apart: pass/rest
//@ def reduce_columns
//@ use warp_sum
// Adds the columns of one K over the blocks, as integers; rounds once, to double.
extern "C" __global__ void __launch_bounds__(REDUCE) km_reduce(const __grid_constant__ km_pass_args args) {
    const int k_index = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (args.control->stop || !args.active[blockIdx.y * KS + k_index]) return;
    const int first = km_offsets[k_index] * (D + 1);
    double *totals = args.totals + (long long)blockIdx.y * COLUMNS + first;
    for (int c = warp; c < km_ks[k_index] * (D + 1); c += REDUCE / 32) {
        const long long *column = km_column(args, first + c);
        long long sum = 0;
        for (int block = lane; block < GRID; block += 32) sum += column[block];
        sum = km_warp_sum(sum);
        const int f = c % (D + 1);
        if (lane == 0)
            totals[c] = f < D ? (double)sum * km_power_of_2(km_exponents(args)[f] - BITS) : (double)sum;
    }
}
constexpr int REDUCE_GRID = KS;

//@ end
//@ def reduce_rows
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

//@ end
//@ use form_reduce
extern "C" {
__device__ km_pass_facts km_pass = {
    KM_ABI_VERSION,
    LAUNCHES + 5 + (DISTINCT_BYTES > 0),
    8LL * RESTARTS *COLUMNS *GRID + DISTINCT_BYTES + 4LL * D *(1 + BINS) + PREPARED_BYTES +
        (sizeof(km_tile) + 4) * STEP_TILES + 768,
    sizeof(km_tile) / TILE + 1,
    0,
    8LL * RESTARTS *COLUMNS *GRID + DISTINCT_BYTES + 4LL * D *(1 + BINS) + 8 * NORMS,
};
__device__ km_pass_launch km_pass_launches[] = {
    {"km_tensor_histogram", KM_STAGE_LOAD, 8 * GRID, 1, 256, 0, 0},
    //@ if distinct_points
    {"km_tensor_distinct", KM_STAGE_LOAD, 4 * GRID, 1, 256, 0, 0},
    //@ end
    {"km_tensor_lattice", KM_STAGE_LOAD, 1, 1, 256, 0, 0},
    {"km_tensor_tiles", KM_STAGE_LOAD, 48 * GRID, 1, 256, 0, 0}, // many blocks, so that they end together
    {"km_tensor_prepare", KM_STAGE_PASS, LAUNCHES *DISTINCT_PARTS, RESTARTS, PREPARERS,
     sizeof(km_preparation), 0},
    //@ for part in parts
    {"km_tensor_$part", KM_STAGE_PASS, GRID, RESTARTS, BLOCK, sizeof(km_block<km_launch_$part>), $part},
    //@ end
    {"km_reduce", KM_STAGE_PASS, REDUCE_GRID, RESTARTS, REDUCE, 0, 0},
};
}
//@ include cuda/steps/steps.cu

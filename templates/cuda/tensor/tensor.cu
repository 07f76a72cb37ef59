// SPDX-License-Identifier: MIT
// The skeleton of all forms of the design. A form is the file $form.cu: it defines what the lines `use form_...` name.
//@ need form block grid blocks_per_sm parts stages launches_count max3
//@ include cuda/head.h
//@ words cuda/words.cu
//@ words cuda/tensor/scores.cu
//@ words cuda/tensor/masks.cu
//@ words cuda/tensor/$form.cu
//@ use unroll_for unroll_1_for unroll_2_for

// Design tensor, form $form. Scores and sums are matrix products: centroids are the rows, points the columns.
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
//@ use form_text
enum {
    BLOCK = $block, // threads of a block
    GRID = $grid,   // blocks of a launch, for one restart
    WARPS = BLOCK / 32,
    TILE = 32,             // points of a tile
    COLUMNS = S * (D + 1), // sums of a restart
    QUEUE = 64,            // ambiguous points of a warp that are not resolved yet
    BITS = 22,             // of a coordinate's integer, beside its sign
    BINS = 64,             // of the histogram: powers of two below the largest coordinate
    STAGES = $stages       // of the ring: tiles that are on their way, and those that are worked on
};
//@ use form_numbers
constexpr unsigned ALL = 0xffffffff;

// Where the centroids of each K lie: launch, first quad, quads, first slot in a quad, slots in a quad.
struct km_place {
    short launch, quad, quads, slot, slots, row; // row: its first row of the block's sums
};
__device__ const km_place km_places[KS] = {
    //@ for k in ks
    {$k_part, $k_group, $k_span, $k_slot, $k_slots, $k_row},
    //@ end
};

// A launch. A lane has SLOTS rows of scores, two of each tile of 16; the first FIRST belong to one K, the others to a
// second K or, where linked, to the same. With LEVELS > 0 up to 2^LEVELS quads share a K.
//@ for part in parts
struct km_launch_$part { // K = $part_text
    enum {
        INDEX = $part,
        TILES = $part_tiles,
        SLOTS = 2 * TILES,
        FIRST = $part_first,
        LEVELS = $part_levels
    };
    enum { ROWS = $part_rows }; // of the block's sums
};
//@ end

// What the threads of a block share in every form.
template <typename LAUNCH> struct km_shared {
    double radius;                      // no point but outliers has a larger norm
    double extent[D], lattice_scale[D]; // 2^e; 2^(22 - e), which makes an integer
    unsigned link[4][8];         // ALL where: the two parts of a lane belong together; quads 1, 2, 4 apart do
    short k_index[2][8];         // of a quad's parts the index in the K list, -1: none
    short row[8][LAUNCH::SLOTS]; // row of the sums, -1: none
    unsigned char dominated[LAUNCH::ROWS]; // centroids that are never nearest inside the lattice
    unsigned char active[KS];
};

//@ def tiles_of_warps
enum { TILE_SIZE = sizeof(km_tile) / sizeof(uint4) };

static __device__ __forceinline__ long long km_tiles_count(const km_pass_args &args) {
    return (args.n + TILE - 1) / TILE;
}

// An ambiguous point of a tile, and which; for which K.
struct km_item {
    int tile, what;
};

//@ end
//@ def warp_memory
//@ use tiles_of_warps
// What a warp has in shared memory.
struct km_warp {
    km_tile ring[STAGES];
    km_item queue[QUEUE];
    int queued; // not in a register, as few tiles ask
};

//@ end
//@ use form_memory

// Workspace --------------------------------------------------------------------------------------------------

// In this order: the sums of each restart; the largest |x|^2 of the points but outliers, and in one form |z|^2; the
// exponents e; the histogram; the outliers of tiles; the tiles.
static __device__ __forceinline__ double *km_largest(const km_pass_args &args) {
    return (double *)args.workspace + (long long)RESTARTS * COLUMNS * GRID;
}

static __device__ __forceinline__ int *km_exponents(const km_pass_args &args) {
    return (int *)(km_largest(args) + NORMS);
}

static __device__ __forceinline__ unsigned *km_histogram(const km_pass_args &args) {
    return (unsigned *)(km_exponents(args) + D);
}

static __device__ __forceinline__ unsigned *km_outliers(const km_pass_args &args) {
    return km_histogram(args) + D * BINS;
}

static __device__ __forceinline__ km_tile *km_tiles(const km_pass_args &args) {
    const long long after = (long long)(km_outliers(args) + km_tiles_count(args));
    return (km_tile *)((after + 255) / 256 * 256);
}

// Load: the lattice that holds nearly all points, feature by feature -----------------------------------------

static __device__ __forceinline__ double km_power(int exponent) { // 2^exponent
    return __longlong_as_double((1023ll + exponent) << 52);
}

// Exponent of the smallest power of two above |x|, or `least`.
static __device__ __forceinline__ int km_exponent(double x, int least = -100) {
    const int exponent = (int)(__double_as_longlong(x) >> 52 & 0x7ff) - 1022;
    return exponent < least ? least : exponent;
}

static __device__ __forceinline__ int km_exponent_max(const km_pass_args &args, int f) {
    return km_exponent(fmax(fabs(args.box[f]), fabs(args.box[D + f])));
}

// Load: counts the points of each power of two below the largest, feature by feature.
extern "C" __global__ void __launch_bounds__(256)
    km_tensor_histogram(const __grid_constant__ km_pass_args args) {
    __shared__ unsigned bins[D * BINS];
    for (int i = threadIdx.x; i < D * BINS; i += 256) bins[i] = 0;
    __syncthreads();
    // A thread has one feature, and counts most of its points by itself: of the first bins, a byte each.
    constexpr int AHEAD = 4, ROUNDS = 60; // coordinates at a time; so many times they fit the bytes
    const long long stride = gridDim.x * 256ll / D * D, begin = blockIdx.x * 256ll + threadIdx.x;
    const int f = (int)(begin % D), largest = km_exponent_max(args, f);
    unsigned long long counts = 0;
    for (long long at = begin, round = 1; begin < stride && at < args.n * D; at += AHEAD * stride, round++) {
        float x[AHEAD];
        KM_UNROLL_FOR (int i = 0; i < AHEAD; i++)
            if (at + i * stride < args.n * D) x[i] = ((const float *)args.points)[at + i * stride];
        KM_UNROLL_FOR (int i = 0; i < AHEAD; i++) {
            if (at + i * stride >= args.n * D) break;
            const int bin = largest - km_exponent(x[i]);
            if (bin < 8)
                counts += 1ull << 8 * bin;
            else
                atomicAdd(&bins[f * BINS + (bin < BINS ? bin : BINS - 1)], 1u);
        }
        if (round % ROUNDS && at + AHEAD * stride < args.n * D) continue;
        for (int bin = 0; bin < 8; bin++, counts >>= 8)
            if (counts & 0xff) atomicAdd(&bins[f * BINS + bin], (unsigned)counts & 0xff);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < D * BINS; i += 256)
        if (bins[i]) atomicAdd(km_histogram(args) + i, bins[i]);
}

// Load: e of each feature. At most one point in 16,384, or one, may lie beyond, and the sum of their integers must fit.
extern "C" __global__ void __launch_bounds__(256)
    km_tensor_lattice(const __grid_constant__ km_pass_args args) {
    const double points = fmax((double)args.n, 16384.0);
    for (int f = threadIdx.x; f < D; f += 256) {
        const unsigned *bins = km_histogram(args) + f * BINS;
        const int largest = km_exponent_max(args, f);
        double beyond = 0;
        int bin = 0;
        for (; bin < BINS - 1 && largest - bin > -100; bin++) {
            beyond += bins[bin];
            if (beyond * 16384 > points || beyond * km_power(bin + 1 + BITS) > km_power(61)) break;
        }
        km_exponents(args)[f] = largest - bin < 127 ? largest - bin : 127;
    }
}

// Load: the tiles --------------------------------------------------------------------------------------------

//@ use form_load warp_max
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
    // Numbers that are not negative are ordered as their bits are. Few tell more than others did.
    for (int which = 0; which < NORMS; which++) {
        largest[which] = km_warp_max(largest[which]);
        if (threadIdx.x % 32 == 0 && largest[which] > ((volatile double *)km_largest(args))[which])
            atomicMax((unsigned long long *)km_largest(args) + which,
                      (unsigned long long)__double_as_longlong(largest[which]));
    }
}

// Centroids become rows of products --------------------------------------------------------------------------

// The centroid nearest to the origin.
static __device__ int km_nearest_to_origin(const float *c, int k) {
    double smallest = 1e308;
    int nearest = 0;
    KM_UNROLL_1_FOR (int j = threadIdx.x % 32; j < k; j += 32) {
        double square = 0;
        KM_UNROLL_2_FOR (int f = 0; f < D; f++) {
            const double x = c[j * D + f];
            square = fma(x, x, square);
        }
        nearest = square < smallest ? j : nearest;
        smallest = fmin(square, smallest);
    }
    for (int width = 16; width > 0; width /= 2) {
        const double square = __shfl_xor_sync(ALL, smallest, width);
        const int j = __shfl_xor_sync(ALL, nearest, width);
        const bool closer = square < smallest || (square == smallest && j < nearest);
        nearest = closer ? j : nearest;
        smallest = closer ? square : smallest;
    }
    return nearest;
}

// Of one K: finds the centroids that another dominates everywhere inside the lattice. A centroid far outside would cost
// the scores of the others their digits.
template <typename LAUNCH>
static __device__ void km_find_dominated(km_block<LAUNCH> &shared, const float *c, const km_place &place,
                                         int k) {
    const int nearest = km_nearest_to_origin(c, k);
    KM_UNROLL_1_FOR (int j = threadIdx.x % 32; j < k; j += 32) {
        double lead = 0, size = 0; // of j over that one, at most
        KM_UNROLL_2_FOR (int f = 0; f < D; f++) {
            const double a = c[j * D + f], b = c[nearest * D + f];
            lead += fabs(a - b) * shared.extent[f] - 0.5 * (a - b) * (a + b);
            size += fabs(a - b) * shared.extent[f] + fabs(a - b) * fabs(a + b);
        }
        shared.dominated[place.row + j] = j != nearest && lead < -1e-12 * size;
    }
    __syncwarp();
}

// Goes through the rows of a K, by so many threads: `write_row` writes a quarter of a row, that of lanes with
// lane % 4 = t, centroid j or, -1, none that a point of the lattice could be nearest to: the row stays empty (outliers
// are compared with the centroids themselves, which shared.row still names); `begin_quad` is told once of each quad,
// and of the K's part of it.
template <typename LAUNCH, typename Row, typename Quad>
static __device__ __forceinline__ void km_for_rows(km_block<LAUNCH> &shared, int k_index, int thread,
                                                   int threads, Row write_row, Quad begin_quad) {
    const km_place place = km_places[k_index];
    const bool linked = LAUNCH::LEVELS == 0 && place.slots > LAUNCH::FIRST;
    KM_UNROLL_1_FOR (int at = thread; at < place.quads * LAUNCH::SLOTS * 4; at += threads) {
        const int quad = place.quad + at / 4 / LAUNCH::SLOTS, slot = at / 4 % LAUNCH::SLOTS;
        const int j = (quad - place.quad) * place.slots + slot - place.slot,
                  segment = place.slot >= LAUNCH::FIRST;
        const bool real = slot >= place.slot && slot < place.slot + place.slots && j < km_ks[k_index];
        if (!linked && (slot >= LAUNCH::FIRST) != segment) continue;
        shared.row[quad][slot] = real ? place.row + j : -1;
        write_row(quad, slot, at % 4, real && !shared.dominated[place.row + j] ? j : -1);
        if (slot != place.slot) continue;
        shared.k_index[segment][quad] = k_index;
        shared.link[0][quad] = linked ? ALL : 0;
        for (int level = 0; level < LAUNCH::LEVELS; level++)
            shared.link[1 + level][quad] = place.quads >> level > 1 ? ALL : 0;
        begin_quad(quad, segment, linked);
    }
}

//@ use form_prepare
//@ if not form_rows
// The rows of each K that takes part, by one warp. Gives whether there is one.
template <typename LAUNCH> static __device__ __forceinline__ bool km_prepare_all(km_block<LAUNCH> &shared) {
    bool active = false;
    for (int i = 0, own = 0; i < KS; i++) {
        if (km_places[i].launch != LAUNCH::INDEX) continue;
        if (own++ % WARPS == threadIdx.x / 32 && shared.active[i])
            km_prepare(shared, shared.centroids + km_places[i].row * D, i);
        active = active | shared.active[i];
    }
    return active;
}

//@ end
// Everything that the threads of a block share. False: no K of the launch takes part in this pass, or none does.
template <typename LAUNCH>
static __device__ bool km_begin(km_block<LAUNCH> &shared, const km_pass_args &args) {
    const int stop = args.control->stop; // One wait for all that is read here.
    const float *from = (const float *)args.centroids + (long long)blockIdx.y * S * D;
    if (threadIdx.x == 0) shared.radius = sqrt(*km_largest(args)) * (1 + 1e-9);
    for (int i = threadIdx.x; i < KS; i += BLOCK) shared.active[i] = args.active[blockIdx.y * KS + i];
    for (int f = threadIdx.x; f < D; f += BLOCK) {
        shared.extent[f] = km_power(km_exponents(args)[f]);
        shared.lattice_scale[f] = km_power(BITS - km_exponents(args)[f]);
    }
    for (int i = 0, own = 0; i < KS; i++) {
        if (km_places[i].launch != LAUNCH::INDEX || own++ % (BLOCK / FETCHERS) != threadIdx.x / FETCHERS)
            continue;
        for (int at = threadIdx.x % FETCHERS; at < km_ks[i] * D; at += FETCHERS)
            shared.centroids[km_places[i].row * D + at] = from[km_offsets[i] * D + at];
    }
    for (int i = threadIdx.x; i < 8 * LAUNCH::SLOTS * 4; i += BLOCK) {
        const int quad = i / 4 / LAUNCH::SLOTS, slot = i / 4 % LAUNCH::SLOTS;
        km_clear_row(shared, quad, slot, i % 4);
        shared.row[quad][slot] = -1;
    }
    for (int i = threadIdx.x; i < 8; i += BLOCK) {
        shared.k_index[0][i] = shared.k_index[1][i] = -1;
        shared.link[0][i] = shared.link[1][i] = shared.link[2][i] = shared.link[3][i] = 0;
    }
    km_clear(shared, args);
    __syncthreads();
    if (stop) return false;
    const bool active = km_prepare_all(shared);
    __syncthreads();
    return active;
}

// The block's sums as 64-bit integers in shared memory.
//@ def block_sums
// Adds to a sum of the block; many threads at once, and native, unlike 64-bit atomics of shared memory.
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
    return shared.centroids + km_places[k_index].row * D;
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

//@ def asked_by_point
// An item holds the point of the tile, and the index of the K << 5.
template <typename LAUNCH>
static __device__ __forceinline__ km_asked km_asked_by(const km_block<LAUNCH> &, const km_item &item) {
    return {item.what % 32, item.what >> 5};
}

//@ end
//@ if not form_digits
struct km_asked {
    int of_tile, k_index;
};

//@ end
//@ use form_resolve
//@ if not form_digits
// Resolves the last points of the warp's queue, a lane each, and adds them to the sums. Gives how many are left.
template <typename LAUNCH>
static __device__ __forceinline__ int km_resolve(km_block<LAUNCH> &shared, const km_pass_args &args,
                                                 int queued) {
    km_warp &warp = shared.warps[threadIdx.x / 32];
    const int lane = threadIdx.x % 32, count = queued < 32 ? queued : 32;
    __syncwarp();
    const km_item own = warp.queue[queued - count + (lane < count ? lane : 0)];
    __syncwarp();
    queued -= count;
    const km_asked asked = km_asked_by(shared, own);
    const long long point = (long long)own.tile * TILE + asked.of_tile;
    if (point >= args.n || lane >= count) return queued;
    const float *x = (const float *)args.points + point * D;
    const int label =
        km_find_nearest(x, km_exact_centroids(shared, args, asked.k_index), km_ks[asked.k_index]);
    //@ if track_labels
    const int at = blockIdx.y * KS + asked.k_index;
    km_label *kept = (km_label *)args.labels + at * args.labels_stride + point;
    if (*kept != label) {
        *kept = (km_label)label;
        atomicAdd(args.changes + at, 1ull);
    }
    //@ end
    const int row = km_places[asked.k_index].row + label;
#pragma unroll RESOLVE_AHEAD
    for (int f = 0; f < D; f++)
        km_add_exact(shared, row, f, __double2ll_rn((double)x[f] * shared.lattice_scale[f]));
    km_add_count(shared, row);
    return queued;
}

//@ end
// What a warp keeps from tile to tile.
//@ def fragments
// Planes as products find them: in a lane's registers, or in shared memory.
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
    KM_UNROLL_FOR (int i = 0; i < LAUNCH::TILES; i++)
        KM_UNROLL_FOR (int k = 0; k < FRAGMENTS; k++)
            state.fragments[i][k] = shared.fragments[i][k][threadIdx.x % 32];
    //@ else
    state.fragments = shared.fragments;
    //@ end
}

//@ end
//@ if track_labels
//@ def tell_changes
// Adds up how many labels changed.
template <typename State>
static __device__ __forceinline__ void km_tell_changes(const State &state, const km_pass_args &args) {
    KM_UNROLL_FOR (int segment = 0; segment < 2; segment++)
        if (state.changes[segment])
            atomicAdd(args.changes + blockIdx.y * KS + state.own.k_index[segment],
                      (unsigned long long)state.changes[segment]);
}

//@ end
//@ end
//@ def source_of_lane
//@ use opaque_address
// Where a lane's first piece of a tile is; the address stays in a register.
template <typename LAUNCH>
static __device__ __forceinline__ auto km_find_source(const km_block<LAUNCH> &, const km_pass_args &args) {
    const uint4 *lane_from = km_opaque((const uint4 *)km_tiles(args) + threadIdx.x % 32);
    return [lane_from](int tile) { return lane_from + tile * (long long)TILE_SIZE; };
}

//@ end
//@ use form_take
//@ if not form_digits
// The loop ---------------------------------------------------------------------------------------------------

//@ use copy_16 copy_commit copy_wait opaque shared_address
// Begins to copy a tile to shared memory; both addresses are the lane's first.
static __device__ __forceinline__ void km_copy_tile(unsigned to, const uint4 *from) {
    //@ if form_rows
    to += km_opaque(threadIdx.x % 32) * (unsigned)sizeof(uint4); // not worth a register from tile to tile
    //@ end
    KM_UNROLL_FOR (int i = 0; i < TILE_SIZE; i += 32)
        if (i + 32 <= TILE_SIZE || (int)(threadIdx.x % 32) < TILE_SIZE - i)
            km_copy_16(to + i * (int)sizeof(uint4), from + i);
}

// A warp's tiles, one after the other, through its ring.
template <typename LAUNCH>
static __device__ __forceinline__ void km_walk(km_block<LAUNCH> &shared, const km_pass_args &args) {
    constexpr int STRIDE = GRID * WARPS;
    constexpr unsigned TILE_BYTES = sizeof(km_tile);
    const int tiles = (int)km_tiles_count(args);
    int tile = blockIdx.x * WARPS + threadIdx.x / 32;
    const auto from = km_find_source(shared, args);
    const uint4 *first_tile = (const uint4 *)shared.warps[threadIdx.x / 32].ring;
    //@ if form_rows
    const unsigned ring = km_opaque(km_shared_address(first_tile));
    //@ else
    const unsigned ring = km_opaque(km_shared_address(first_tile + threadIdx.x % 32));
    //@ end
    km_state<LAUNCH> state;
    km_open(state, shared, args, ring, tile, tiles);
    unsigned stage = 0; // where in the ring
    KM_UNROLL_FOR (int s = 0; s < STAGES - 1; s++) {
        if (tile + s * STRIDE < tiles) km_copy_tile(ring + s * TILE_BYTES, from(tile + s * STRIDE));
        km_copy_commit();
    }
    while (tile < tiles) {
        for (int chunk = 0; chunk < CHUNK_TILES && tile < tiles; chunk++, tile += STRIDE) {
            //@ if form_hi_lo
            km_look_ahead(state, tile + STRIDE, tiles);
            //@ end
            km_copy_wait<STAGES - 2>();
            __syncwarp();
            const int ahead = tile + (STAGES - 1) * STRIDE;
            const unsigned before = stage > 0 ? stage - TILE_BYTES : (STAGES - 1) * TILE_BYTES;
            if (ahead < tiles) km_copy_tile(ring + before, from(ahead));
            km_copy_commit();
            km_assign_tile(state, shared, args, stage, tile);
            //@ if form_rounded
            if (chunk % COUNT_TILES == COUNT_TILES - 1) km_flush_counts(state.sums, shared);
            //@ end
            stage = stage < (STAGES - 1) * TILE_BYTES ? stage + TILE_BYTES : 0;
        }
        //@ if not form_rows
        km_flush(state.sums, shared);
        //@ end
    }
    km_close(state, shared, args);
}

//@ end
//@ def publish_columns
// Leaves the block's sums in the workspace: for each restart and column one number per block.
static __device__ __forceinline__ long long *km_column(const km_pass_args &args, int column) {
    return (long long *)args.workspace + ((long long)blockIdx.y * COLUMNS + column) * GRID;
}

template <typename LAUNCH>
static __device__ __forceinline__ void km_publish(const km_block<LAUNCH> &shared, const km_pass_args &args) {
    __syncthreads();
    for (int i = 0; i < KS; i++) {
        if (km_places[i].launch != LAUNCH::INDEX || !shared.active[i]) continue;
        for (int at = threadIdx.x; at < km_ks[i] * (D + 1); at += BLOCK)
            km_column(args, km_offsets[i] * (D + 1) + at)[blockIdx.x] =
                shared.sums[km_places[i].row * (D + 1) + at];
    }
}

//@ end
//@ use form_publish
// One launch: a share of the K list.
template <typename LAUNCH> static __device__ __forceinline__ void km_run(const km_pass_args &args) {
    extern __shared__ uint4 km_memory[];
    km_block<LAUNCH> &shared = *(km_block<LAUNCH> *)km_memory;
    if (!km_begin(shared, args)) return;
    km_walk(shared, args);
    km_publish(shared, args);
}

//@ for part in parts
extern "C" __global__ void __launch_bounds__(BLOCK, $blocks_per_sm)
    km_tensor_$part(const __grid_constant__ km_pass_args args) {
    km_run<km_launch_$part>(args);
}

//@ end
//@ def reduce_columns
//@ use warp_sum
// Adds up the columns of one K over the blocks: integers, then one rounding.
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
        if (lane == 0) totals[c] = f < D ? (double)sum * km_power(km_exponents(args)[f] - BITS) : (double)sum;
    }
}
constexpr int REDUCE_GRID = KS;

//@ end
//@ def reduce_rows
// Adds up a column over the blocks: integers, then one rounding.
extern "C" __global__ void __launch_bounds__(REDUCE) km_reduce(const __grid_constant__ km_pass_args args) {
    const int column = blockIdx.x * REDUCE + threadIdx.x, f = column % (D + 1);
    int k_index = 0;
    while (k_index + 1 < KS && km_offsets[k_index + 1] * (D + 1) <= column) k_index++;
    if (args.control->stop || column >= COLUMNS || !args.active[blockIdx.y * KS + k_index]) return;
    long long sum = 0;
#pragma unroll 16
    for (int block = 0; block < GRID; block++) sum += (long long)km_sums_of(args, block)[column];
    args.totals[(long long)blockIdx.y * COLUMNS + column] =
        f < D ? (double)sum * km_power(km_exponents(args)[f] - BITS) : (double)sum;
}
constexpr int REDUCE_GRID = (COLUMNS + REDUCE - 1) / REDUCE;

//@ end
//@ use form_reduce
extern "C" {
__device__ km_pass_facts km_pass = {
    KM_ABI_VERSION,
    $launches_count + 4,
    8LL * RESTARTS *COLUMNS *GRID + 4LL * D *(1 + BINS) + (sizeof(km_tile) + 4) * STEP_TILES + 512,
    sizeof(km_tile) / TILE + 1,
    0,
    8LL * RESTARTS *COLUMNS *GRID + 4LL * D *(1 + BINS) + 8 * NORMS,
};
__device__ km_pass_launch km_pass_launches[] = {
    {"km_tensor_histogram", KM_STAGE_LOAD, 8 * GRID, 1, 256, 0, 0},
    {"km_tensor_lattice", KM_STAGE_LOAD, 1, 1, 256, 0, 0},
    {"km_tensor_tiles", KM_STAGE_LOAD, 48 * GRID, 1, 256, 0, 0}, // many, so that the last ones end together
    //@ for part in parts
    {"km_tensor_$part", KM_STAGE_PASS, GRID, RESTARTS, BLOCK, sizeof(km_block<km_launch_$part>), $part},
    //@ end
    {"km_reduce", KM_STAGE_PASS, REDUCE_GRID, RESTARTS, REDUCE, 0, 0},
};
}
//@ include cuda/steps/steps.cu

// SPDX-License-Identifier: MIT
//@ need block grid resident parts max3 bytes scores rounded stages pairs planes_in_registers launches_count
//@ include cuda/head.h

// Design `tensor`. Distances and sums are matrix products: clusters are the rows, 32 points of a warp the columns.
//
// Points. When they come home, a coordinate becomes z = x / 2^e, |z| < 1, e of its feature, rounded to a multiple
// of 2^-22, and z = hi + lo in half precision: hi a multiple of 2^-11, lo the rest. The workspace keeps them in
// tiles of 32 points, as matrix products take them. A pass reads only those.
//
// Labels. All centroids of a K belong to one group of four lanes or to a few such groups, so that the nearest one
// is found in the lane or by a shuffle. 16 bits of a distance, two points in a register, take part: a centroid is
// near when it comes so close to the nearest that a bound on the error cannot tell them apart. A point with one
// near centroid has its label. All others are decided in double on the points as they are (km_drain).
//
// Sums. The near centroids of a point, times the point: integers z * 2^22, which are added without any rounding,
// the same in any order. A point beyond 2^e is marked once, when the points come home, and goes through km_drain,
// where its integer may be long.
//@ if rounded
// Whether the compiler spills unless it is kept from reading ahead: that of CUDA 12 always does.
constexpr bool TIGHT = $tight || __CUDACC_VER_MAJOR__ < 13;
//@ end
enum {
    BLOCK = $block,        // threads of a block
    GRID = $grid,          // blocks of a launch, for one copy
    WARPS = BLOCK / 32,
    TILE = 32,             // points that a warp fetches at a time
    //@ if scores
    PAIRS = $pairs,        // of columns, 16 points, that it works on at a time
    WIDTH = 2 * PAIRS,     // columns of 8 points
    //@ end
    //@ if not rounded
    LANE_D = (D + 3) / 4,  // features of a lane: lane % 4 says which
    //@ end
    COLUMNS = S * (D + 1), // sums of a copy
    QUEUE = 64,            // points of a warp that wait for km_drain
    BITS = 22,             // of a coordinate's integer, beside its sign
    BINS = 64,             // of the survey: powers of two below the largest coordinate
    STAGES = $stages,      // tiles of a warp that are on their way, and the one that it works on
    //@ if bytes
    LIMBS = 3 * D,                       // bytes of a point's integers
    //@ if rounded
    BLOCKS = (D + 7) / 8,                // of 8 features
    PLANES = BLOCKS + 1,                 // of a tile of rows: factors of a block, and where sums start
    SUM_TILES = (LIMBS + 7) / 8,         // columns of sums, in eights
    COUNT_TILES = 64,                    // so many points fit bytes that count: two of each tile
    //@ else
    PLANES = LANE_D,                     // of a tile of rows
    SUM_TILES = (LIMBS + 1 + 2 + 7) / 8, // columns of sums, in eights: limbs, a count, and two that hold |x|^2 / 2
    //@ end
    CHUNK_TILES = 65536,                 // so many points of a warp fit sums of bytes: 2^21
    //@ else
    PLANES = LANE_D,       // of a tile of rows
    CHUNK_TILES = 64,      // so many points of a warp fit sums of halves: 2048
    //@ end
    REDUCE = 1024          // threads of a block of km_reduce
};
//@ if scores
constexpr float BINADE = 8192;        // scores are at least this and less than twice this
//@ end
constexpr unsigned ALL = 0xffffffff;
//@ if not rounded
constexpr unsigned ONES = 0x3c003c00; // 1 and 1 in half precision
//@ end

//@ include cuda/tensor/places.cu

// A point that waits to be decided.
struct km_item {
    int tile;
    int what; // point of the tile, index of the K << 5
};

//@ if rounded
// Points as matrix products take them.
struct km_tile {
    uint4 points[BLOCKS][TILE]; // halves of features 8 i to 8 i + 7 of each point
    uint2 limbs[SUM_TILES][32]; // of lane 4 n + t a byte of each of eight points: what its column n takes
    uint4 errors[4]; // of points 2 t, 2 t + 1, 8 + 2 t, ...: what rounding took away, as halves; negative: marked
};
//@ else
//@ if bytes
// Points as matrix products take them; lane 4 n + t holds, of each, what its column n and its rows take.
struct km_tile {
    uint4 points[LANE_D][32]; // the halves of feature 4 i + t of points n, 8 + n, 16 + n, 24 + n
    uint2 limbs[SUM_TILES][32]; // a byte of each of eight points; the last two columns: |x|^2 / 2, negative: marked
};
//@ else
// Points as matrix products take them: halves of four features, 4 i to 4 i + 3, of each point.
struct km_tile {
    uint4 points[LANE_D][TILE];
};
//@ end
//@ end

enum { TILE_SIZE = sizeof(km_tile) / sizeof(uint4) };

// What a warp has in shared memory.
struct km_warp {
    km_tile ring[STAGES];
    km_item queue[QUEUE];
    //@ if bytes
    int queued; // not in a register, as few tiles ask
    //@ end
};

//@ if rounded
// How far below the largest score a centroid of either K is near: where a point is off by 1 more than by 0, and there.
struct alignas(16) km_margin {
    unsigned slope[2], least[2]; // two halves each
};

//@ end
// What the threads of a block share.
template <typename PART> struct km_block {
    uint4 planes[PART::TILES][PLANES][32]; // centroids, as matrix products take them
    long long sums[PART::ROWS * (D + 1)];
    km_warp warps[WARPS];
    //@ if rounded
    const uint4 *tiles;                   // where they begin: rarely enough needed to stay here
    //@ end
    double radius;                        // no point that is not marked has a larger norm
    double reach[D], unit[D];             // 2^e; 2^(22 - e), which makes an integer
    float centroids[PART::ROWS * D];
    float middle[WARPS][D];
    //@ if bytes
    //@ if rounded
    km_margin margin[8];                  // of a group's Ks
    //@ else
    unsigned minus_zero;                  // in halves: what comes from here stays in a register
    //@ end
    unsigned asks[8];                     // which Ks of a group send points to the queue: bit 0 and bit 1 of each byte
    //@ else
    unsigned margin[2][8];                // of a K in a group: from the largest score to the least that is near
    unsigned ones, zero;                  // ONES and 0: what comes from here stays in a register
    unsigned bits[8];                     // of the ones of a lane where its points are certain, added up as integers
    //@ end
    unsigned link[4][8];                  // ALL where: the two parts of a lane belong together; groups 1, 2, 4 apart do
    short member[2][8];                   // index in the K list, -1: none
    short row[8][PART::SLOTS];            // row of the sums, -1: none
    unsigned char beaten[PART::ROWS];     // centroids that are never nearest inside the grid
    unsigned char active[KS];
};

// The workspace: for each copy and column one number per block; the largest |x|^2 of the points that are not marked;
// the exponents e; the survey; the marks of tiles; the tiles.
static __device__ __forceinline__ long long *km_column(const km_pass_args &args, int column) {
    return (long long *)args.workspace + ((long long)blockIdx.y * COLUMNS + column) * GRID;
}

static __device__ __forceinline__ double *km_largest(const km_pass_args &args) {
    return (double *)args.workspace + (long long)COPIES * COLUMNS * GRID;
}

static __device__ __forceinline__ int *km_exponents(const km_pass_args &args) {
    return (int *)(km_largest(args) + 1);
}

static __device__ __forceinline__ unsigned *km_survey(const km_pass_args &args) {
    return (unsigned *)(km_exponents(args) + D);
}

static __device__ __forceinline__ unsigned *km_marks(const km_pass_args &args) {
    return km_survey(args) + D * BINS;
}

static __device__ __forceinline__ km_tile *km_tiles(const km_pass_args &args) {
    const long long after = (long long)(km_marks(args) + (args.n + TILE - 1) / TILE);
    return (km_tile *)((after + 255) / 256 * 256);
}

//@ include cuda/tensor/words.cu

//@ if not rounded
// Sums of two pairs of halves.
static __device__ __forceinline__ unsigned km_plus(unsigned a, unsigned b) {
    unsigned sum;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
    return sum;
}

// The two halves of a coordinate's integer.
static __device__ __forceinline__ unsigned km_halves_of(int number) {
    const int high = (number + 1024) >> 11;
    return km_halves((float)high / (1 << 11), (float)(number - high * 2048) / (1 << BITS));
}

//@ end
//@ include cuda/tensor/grid.cu

// Products --------------------------------------------------------------------------------------------------

//@ if not rounded
static __device__ __forceinline__ const uint4 *km_keep(const uint4 *address) {
    const uint4 *kept;
    asm volatile("mov.b64 %0, %1;" : "=l"(kept) : "l"(address));
    return kept;
}

//@ end
//@ include cuda/tensor/rows.cu

// Points that wait ------------------------------------------------------------------------------------------

// Adds to a sum of the block; many threads at once, and native, unlike 64-bit atomics of shared memory.
static __device__ __forceinline__ void km_add_long(long long *sum, long long number) {
    unsigned *words = (unsigned *)sum;
    const unsigned low = (unsigned)number, before = atomicAdd(words, low);
    atomicAdd(words + 1, (unsigned)(number >> 32) + (before + low < before));
}

// The integer of a coordinate.
template <typename PART>
static __device__ __forceinline__ long long km_integer(const km_block<PART> &shared, double x, int f) {
    return __double2ll_rn(x * shared.unit[f]);
}

// Decides the last points of the warp's queue, a lane each, and adds them to the sums. Gives how many still wait.
template <typename PART>
//@ if bytes
static __device__ __noinline__ int km_drain(km_block<PART> &shared, const km_pass_args &args, int waiting) {
//@ else
static __device__ __forceinline__ int km_drain(km_block<PART> &shared, const km_pass_args &args, int waiting) {
//@ end
    km_warp &warp = shared.warps[threadIdx.x / 32];
    const int lane = threadIdx.x % 32, count = waiting < 32 ? waiting : 32;
    __syncwarp();
    const km_item own = warp.queue[waiting - count + (lane < count ? lane : 0)];
    __syncwarp();
    waiting -= count;
    //@ if bytes
    const int asker = own.what % 32, bit = own.what >> 5; // as km_settle left it
    const int of_tile = bit % 4 / 2 * 16 + bit / 16 * 8 + bit / 8 % 2 + asker % 4 * 2;
    const int k_index = shared.member[bit % 2][asker / 4];
    //@ else
    const int of_tile = own.what % 32, k_index = own.what >> 5;
    //@ end
    const long long point = (long long)own.tile * TILE + of_tile;
    const int row = km_places[k_index].row;
    if (point >= args.n || lane >= count) return waiting;
    const float *c = shared.centroids + row * D;
    //@ if bytes
    double x[D];
    KM_UNROLL for (int f = 0; f < D; f++) x[f] = ((const float *)args.points)[point * D + f];
    //@ else
    const float *x = (const float *)args.points + point * D;
    //@ end
    double smallest = 1e308;
    int label = 0;
    _Pragma("unroll 1") for (int j = 0; j < km_ks[k_index]; j++) {
        double square = 0;
        //@ if bytes
        KM_UNROLL for (int f = 0; f < D; f++) {
        //@ else
        _Pragma("unroll 2") for (int f = 0; f < D; f++) {
        //@ end
            const double away = (double)x[f] - (double)c[j * D + f];
            square = fma(away, away, square);
        }
        label = square < smallest ? j : label;
        smallest = fmin(square, smallest);
    }
    //@ if track_labels
    km_label *kept = (km_label *)args.labels + (blockIdx.y * KS + k_index) * args.labels_stride + point;
    if (*kept != label) {
        *kept = (km_label)label;
        atomicAdd(args.changes + blockIdx.y * KS + k_index, 1ull);
    }
    //@ end
    long long *sums = shared.sums + (row + label) * (D + 1);
    //@ if bytes
    KM_UNROLL for (int f = 0; f < D; f++) km_add_long(sums + f, km_integer(shared, x[f], f));
    //@ else
    _Pragma("unroll 2") for (int f = 0; f < D; f++) km_add_long(sums + f, km_integer(shared, x[f], f));
    //@ end
    km_add_long(sums + D, 1);
    return waiting;
}

// Preparing the planes --------------------------------------------------------------------------------------

// Planes as products find them: in a lane's registers, or in shared memory.
//@ if planes_in_registers
typedef uint4 km_planes[PLANES];

static __device__ __forceinline__ uint4 km_plane(const km_planes *planes, int tile, int k) {
    return planes[tile][k];
}
//@ else
typedef uint4 km_planes[PLANES][32];

static __device__ __forceinline__ uint4 km_plane(const km_planes *planes, int tile, int k) {
    return planes[tile][k][threadIdx.x % 32];
}
//@ end

//@ if bytes
//@ include cuda/tensor/bytes.cu
//@ else
//@ include cuda/tensor/halves.cu
//@ end

// Load: the tiles; marks points that the grid does not hold, and those past the end of the last tile; how far out the
// others are.
extern "C" __global__ void __launch_bounds__(256, 2) km_tensor_tiles(const __grid_constant__ km_pass_args args) {
    const long long points = (args.n + TILE - 1) / TILE * TILE;
    double largest = 0;
    //@ if bytes
    float limit[D], scale[D];
    KM_UNROLL for (int f = 0; f < D; f++) {
        limit[f] = (float)(km_power(km_exponents(args)[f]) * (1 - km_power(-BITS))); // all its bits
        scale[f] = (float)km_power(-km_exponents(args)[f]);
    }
    //@ if not scores
    const int exponent = km_square_exponent([&](int f) { return km_power(km_exponents(args)[f]); });
    const double of_square = 0.5 * km_power(SQUARE_BITS - exponent);
    //@ end
    //@ end
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < points; i += gridDim.x * 256ll) {
        bool beyond = i >= args.n;
        double square = 0;
        //@ if bytes
        float x[D];
        KM_UNROLL for (int f = 0; f < D; f++) x[f] = ((const float *)args.points)[(beyond ? 0 : i) * D + f];
        KM_UNROLL for (int f = 0; f < D; f++) {
            beyond = beyond | (fabsf(x[f]) > limit[f]);
            square = fma((double)x[f], (double)x[f], square);
        }
        //@ else
        const float *x = (const float *)args.points + i * D;
        for (int f = 0; f < D && !beyond; f++) {
            beyond = fabs((double)x[f]) > km_power(km_exponents(args)[f]) * (1 - km_power(-BITS));
            square = fma((double)x[f], (double)x[f], square);
        }
        //@ end
        largest = beyond ? largest : fmax(largest, square);
        const unsigned marks = __ballot_sync(ALL, beyond);
        if (i % TILE == 0) km_marks(args)[i / TILE] = marks;
        //@ if bytes
        //@ if rounded
        km_put_point(args, i, x, scale, beyond);
        //@ else
        km_put_point(args, i, x, scale, beyond, (float)(square * of_square));
        //@ end
        //@ else
        km_put_point(args, i, x, beyond);
        //@ end
    }
    // Numbers that are not negative are ordered as their bits are. Few have news to tell.
    largest = km_max_lanes(largest);
    if (threadIdx.x % 32 == 0 && largest > *(volatile double *)km_largest(args))
        atomicMax((unsigned long long *)km_largest(args), (unsigned long long)__double_as_longlong(largest));
}

// Everything that the threads of a block share. False: no K of the launch takes part in this pass, or none does.
template <typename PART> static __device__ bool km_begin(km_block<PART> &shared, const km_pass_args &args) {
    const int stop = args.control->stop, warp = threadIdx.x / 32; // One wait for all that is read here.
    const float *centroids = (const float *)args.centroids + (long long)blockIdx.y * S * D;
    //@ if bytes
    //@ if not scores
    if (threadIdx.x == 0) shared.minus_zero = 0x80008000;
    //@ end
    //@ else
    if (threadIdx.x == 0) shared.ones = ONES, shared.zero = 0;
    //@ end
    //@ if rounded
    if (threadIdx.x == 0) shared.tiles = (const uint4 *)km_tiles(args);
    //@ end
    if (threadIdx.x == 0) shared.radius = sqrt(*km_largest(args)) * (1 + 1e-9);
    for (int i = threadIdx.x; i < KS; i += BLOCK) shared.active[i] = args.active[blockIdx.y * KS + i];
    for (int f = threadIdx.x; f < D; f += BLOCK) {
        shared.reach[f] = km_power(km_exponents(args)[f]);
        shared.unit[f] = km_power(BITS - km_exponents(args)[f]);
    }
    for (int i = 0, own = 0; i < KS; i++) {
        if (km_places[i].part != PART::INDEX || own++ % WARPS != warp) continue;
        for (int at = threadIdx.x % 32; at < km_ks[i] * D; at += 32)
            shared.centroids[km_places[i].row * D + at] = centroids[km_offsets[i] * D + at];
    }
    for (int i = threadIdx.x; i < PART::ROWS * (D + 1); i += BLOCK) shared.sums[i] = 0;
    for (int i = threadIdx.x; i < 8 * PART::SLOTS * 4; i += BLOCK) {
        const int group = i / 4 / PART::SLOTS, slot = i / 4 % PART::SLOTS;
        const bool high = slot == 0 || slot == PART::FIRST; // so that a lane without a K has its one near row
        //@ if scores
        km_write_row(shared, group, slot, i % 4, [](int) { return 0.0f; }, high ? 1.25f * BINADE : BINADE);
        //@ else
        km_write_row(shared, group, slot, i % 4, [](int) { return 0.0f; }, high ? NEARER : FARTHER, 0);
        //@ end
        shared.row[group][slot] = -1;
    }
    for (int i = threadIdx.x; i < 8; i += BLOCK) {
        //@ if bytes
        shared.asks[i] = 0;
        //@ if rounded
        shared.margin[i] = {{0, 0}, {NONE + 0x10001, NONE + 0x10001}};
        //@ end
        //@ else
        shared.margin[0][i] = shared.margin[1][i] = 0x10001;
        shared.bits[i] = (int(PART::FIRST) < int(PART::SLOTS) ? 2 : 1) * WIDTH * ONES;
        //@ end
        shared.member[0][i] = shared.member[1][i] = -1;
        shared.link[0][i] = shared.link[1][i] = shared.link[2][i] = shared.link[3][i] = 0;
    }
    __syncthreads();
    if (stop) return false;
    bool active = false;
    for (int i = 0, own = 0; i < KS; i++) {
        if (km_places[i].part != PART::INDEX) continue;
        if (own++ % WARPS == warp && shared.active[i])
            km_prepare(shared, shared.centroids + km_places[i].row * D, i);
        active = active | shared.active[i];
    }
    __syncthreads();
    return active;
}

// The loop --------------------------------------------------------------------------------------------------

// Begins to bring a tile to shared memory; both addresses are the lane's first.
static __device__ __forceinline__ void km_bring(unsigned to, const uint4 *from) {
    KM_UNROLL for (int i = 0; i < TILE_SIZE; i += 32)
        if (i + 32 <= TILE_SIZE || (int)(threadIdx.x % 32) < TILE_SIZE - i)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + i * (int)sizeof(uint4)), "l"(from + i)
                         : "memory");
}

template <typename PART>
static __device__ __forceinline__ void km_walk(km_block<PART> &shared, const km_pass_args &args) {
    constexpr int STRIDE = GRID * WARPS;
    constexpr unsigned TILE_BYTES = sizeof(km_tile);
    const int lane = threadIdx.x % 32, tiles = (int)((args.n + TILE - 1) / TILE);
    km_warp &warp = shared.warps[threadIdx.x / 32];
    const km_lane own = km_lane_of(shared);
    //@ if planes_in_registers
    km_planes planes[PART::TILES];
    KM_UNROLL for (int i = 0; i < PART::TILES; i++)
        KM_UNROLL for (int k = 0; k < PLANES; k++) planes[i][k] = shared.planes[i][k][lane];
    //@ else
    const km_planes *planes = shared.planes;
    //@ end
    km_sums<PART> sums = {};
    //@ if track_labels
    int changes[2] = {};
    //@ end
    //@ if rounded
    const auto from = [&](int tile) { return shared.tiles + threadIdx.x % 32 + tile * (long long)TILE_SIZE; };
    //@ else
    const uint4 *lane_from = km_keep((const uint4 *)km_tiles(args) + lane);
    const auto from = [&](int tile) { return lane_from + tile * (long long)TILE_SIZE; };
    //@ end
    //@ if not bytes
    const unsigned *all_marks = km_marks(args);
    //@ end
    int tile = blockIdx.x * WARPS + threadIdx.x / 32;
    //@ if bytes
    if (lane == 0) warp.queued = 0;
    //@ else
    int queued = 0;
    unsigned next_marks = tile < tiles ? all_marks[tile] : 0;
    //@ end
    const uint4 *first_tile = warp.ring[0].points[0];
    const unsigned ring = km_keep((unsigned)__cvta_generic_to_shared(first_tile + lane));
    const km_places_in_tile at = km_find_places(ring);
    unsigned stage = 0; // where in the ring
    KM_UNROLL for (int s = 0; s < STAGES - 1; s++) {
        if (tile + s * STRIDE < tiles)
            km_bring(ring + s * TILE_BYTES, from(tile + s * STRIDE));
        asm volatile("cp.async.commit_group;");
    }
    while (tile < tiles) {
        for (int chunk = 0; chunk < CHUNK_TILES && tile < tiles; chunk++, tile += STRIDE) {
            //@ if not bytes
            const unsigned marks = next_marks;
            if (tile + STRIDE < tiles) next_marks = all_marks[tile + STRIDE];
            //@ end
            asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
            __syncwarp();
            const int ahead = tile + (STAGES - 1) * STRIDE;
            const unsigned before = stage > 0 ? stage - TILE_BYTES : (STAGES - 1) * TILE_BYTES;
            if (ahead < tiles) km_bring(ring + before, from(ahead));
            asm volatile("cp.async.commit_group;");
            //@ if bytes
            //@ if track_labels
            km_take<PART>(sums, planes, at, stage, shared, args, own, tile, changes);
            //@ else
            km_take<PART>(sums, planes, at, stage, shared, args, own, tile);
            //@ end
            //@ else
            //@ if track_labels
            km_take<PART>(sums, planes, at, stage, shared, args, own, marks, tile, queued, changes);
            //@ else
            km_take<PART>(sums, planes, at, stage, shared, args, own, marks, tile, queued);
            //@ end
            //@ end
            //@ if rounded
            if (chunk % COUNT_TILES == COUNT_TILES - 1) km_flush_counts(sums, shared);
            //@ end
            stage = stage < (STAGES - 1) * TILE_BYTES ? stage + TILE_BYTES : 0;
        }
        km_flush(sums, shared);
    }
    //@ if bytes
    __syncwarp();
    int queued = warp.queued;
    //@ end
    while (queued > 0) queued = km_drain(shared, args, queued);
    //@ if track_labels
    KM_UNROLL for (int segment = 0; segment < 2; segment++)
        if (changes[segment])
            atomicAdd(args.changes + blockIdx.y * KS + own.member[segment], (unsigned long long)changes[segment]);
    //@ end
}

// One launch: a share of the K list.
template <typename PART> static __device__ __forceinline__ void km_run(const km_pass_args &args) {
    extern __shared__ uint4 km_memory[];
    km_block<PART> &shared = *(km_block<PART> *)km_memory;
    if (!km_begin(shared, args)) return;
    km_walk(shared, args);
    __syncthreads();
    for (int i = 0; i < KS; i++) {
        if (km_places[i].part != PART::INDEX || !shared.active[i]) continue;
        for (int at = threadIdx.x; at < km_ks[i] * (D + 1); at += BLOCK)
            km_column(args, km_offsets[i] * (D + 1) + at)[blockIdx.x] = shared.sums[km_places[i].row * (D + 1) + at];
    }
}

//@ for part in parts
extern "C" __global__ void __launch_bounds__(BLOCK, $resident)
    km_tensor_$part(const __grid_constant__ km_pass_args args) {
    km_run<km_part_$part>(args);
}

//@ end
// Adds up the columns of one slot over the blocks: integers, then one rounding.
extern "C" __global__ void __launch_bounds__(REDUCE) km_reduce(const __grid_constant__ km_pass_args args) {
    const int k_index = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (args.control->stop || !args.active[blockIdx.y * KS + k_index]) return;
    const int first = km_offsets[k_index] * (D + 1);
    double *totals = args.totals + (long long)blockIdx.y * COLUMNS + first;
    for (int c = warp; c < km_ks[k_index] * (D + 1); c += REDUCE / 32) {
        const long long *column = km_column(args, first + c);
        long long sum = 0;
        for (int block = lane; block < GRID; block += 32) sum += column[block];
        for (int width = 16; width > 0; width /= 2) sum += __shfl_xor_sync(ALL, sum, width);
        const int f = c % (D + 1);
        if (lane == 0) totals[c] = f < D ? (double)sum * km_power(km_exponents(args)[f] - BITS) : (double)sum;
    }
}

extern "C" {
__device__ km_pass_facts km_pass = {
    KM_ABI_VERSION, $launches_count + 4,
    8LL * COPIES * COLUMNS * GRID + 4LL * D * (1 + BINS) + sizeof(km_tile) + 512, sizeof(km_tile) / TILE + 1, 0,
    8LL * COPIES * COLUMNS * GRID + 4LL * D * (1 + BINS) + 8};
__device__ km_pass_launch km_pass_launches[] = {
    {"km_tensor_survey", KM_STAGE_LOAD, 8 * GRID, 1, 256, 0, 0},
    {"km_tensor_grid", KM_STAGE_LOAD, 1, 1, 256, 0, 0},
    {"km_tensor_tiles", KM_STAGE_LOAD, 48 * GRID, 1, 256, 0, 0}, // many, so that the last ones end together
    //@ for part in parts
    {"km_tensor_$part", KM_STAGE_PASS, GRID, COPIES, BLOCK, sizeof(km_block<km_part_$part>), $part},
    //@ end
    {"km_reduce", KM_STAGE_PASS, KS, COPIES, REDUCE, 0, 0},
};
}
//@ include cuda/steps/steps.cu

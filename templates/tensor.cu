// SPDX-License-Identifier: MIT
//@ need block grid resident parts max3 stages pairs planes_in_registers launches_count
//@ include cuda.h

// Design `tensor`. Scores and sums are matrix products: clusters are the rows, 32 points of a warp the columns.
//
// Points. When they come home, a coordinate becomes z = x / 2^e, |z| < 1, e of its feature, rounded to a multiple of
// 2^-22, and z = hi + lo in half precision: hi a multiple of 2^-11, lo the rest. The workspace keeps these pairs of
// halves in tiles of 32 points, as matrix products take them. A pass reads only those.
//
// Scores. A score is
//     score_j = x . (c_j - p) - (|c_j|^2 - |p|^2) / 2,  p the middle of the K's centroids,
// scaled so that all scores of a K lie in one binade of float. Four products a feature, (hi, lo, hi, lo) times
// (chi, chi, clo, clo), give it with an error that km_prepare bounds for each K; the first features of the lanes leave
// out lo clo, and have 1 times a piece of the constant instead.
// All centroids of a K belong to one group of four lanes or to a few such groups, so that the largest score is found in
// the lane or by a shuffle. 15 bits of the score, two points in a register, take part: a centroid is near when its
// score comes so close to the largest that the bound cannot tell them apart. A point with one near centroid has its
// label. All others are decided in double on the points as they are (km_decide).
//
// Sums. Ones and zeros, a one for each near centroid, times the halves of the points: multiples of 2^-11 and of 2^-22,
// so few at a time that floats hold their sums exactly. They become integers, z * 2^22, then: the sums are those of the
// rounded points, exact, and the same in any order. A point beyond 2^e is marked once, when the points come home,
// and goes through km_decide, where its integer may be long.
enum {
    BLOCK = $block,        // threads of a block
    GRID = $grid,          // blocks of a launch, for one copy
    WARPS = BLOCK / 32,
    TILE = 32,             // points that a warp fetches at a time
    PAIRS = $pairs,        // of columns, 16 points, that it works on at a time
    WIDTH = 2 * PAIRS,     // columns of 8 points
    LANE_D = (D + 3) / 4,  // features of a lane: lane % 4 says which
    COLUMNS = S * (D + 1), // sums of a copy
    QUEUE = 64,            // points of a warp that wait for km_decide
    BITS = 22,             // of a coordinate's integer, beside its sign
    BINS = 64,             // of the survey: powers of two below the largest coordinate
    STAGES = $stages,      // tiles of a warp that are on their way, and the one that it works on
    CHUNK_TILES = 64,      // so many points of a warp fit sums of halves: 2048
    REDUCE = 1024          // threads of a block of km_reduce
};
constexpr float BINADE = 8192;        // scores are at least this and less than twice this
constexpr unsigned ALL = 0xffffffff;
constexpr unsigned ONES = 0x3c003c00; // 1 and 1 in half precision

#define KM_UNROLL _Pragma("unroll")

// Where the centroids of each K lie: launch, first group of lanes, groups, first row in a group, rows in a group.
struct km_place {
    short part, group, span, slot, slots, row; // row: its first row of the block's sums
};
__device__ const km_place km_places[KS] = {
    //@ for k in ks
    {$k_part, $k_group, $k_span, $k_slot, $k_slots, $k_row},
    //@ end
};

// A launch. A lane has SLOTS rows, two of each tile; the first FIRST belong to one K, the others to a second K or,
// where linked, to the same. With LEVELS > 0 up to 2^LEVELS groups of lanes share a K.
//@ for part in parts
struct km_part_$part { // K = $part_text
    enum { INDEX = $part, TILES = $part_tiles, SLOTS = 2 * TILES, FIRST = $part_first, LEVELS = $part_levels };
    enum { ROWS = $part_rows }; // of the block's sums
};
//@ end

// A point that waits to be decided.
struct km_item {
    int tile;
    int what; // point of the tile, index of the K << 5
};

// Points as matrix products take them: halves of four features, 4 i to 4 i + 3, of each point.
struct km_tile {
    uint4 points[LANE_D][TILE];
};

// What a warp has in shared memory.
struct km_warp {
    km_tile ring[STAGES];
    km_item queue[QUEUE];
};

// What the threads of a block share.
template <typename PART> struct km_block {
    uint4 planes[PART::TILES][LANE_D][32]; // centroids, as matrix products take them
    long long sums[PART::ROWS * (D + 1)];
    km_warp warps[WARPS];
    double radius;                        // no point that is not marked has a larger norm
    double reach[D], unit[D];             // 2^e; 2^(22 - e), which makes an integer
    float centroids[PART::ROWS * D];
    float middle[WARPS][D];
    unsigned margin[2][8];                // of a K in a group: from the largest score to the least that is near
    unsigned ones, zero;                  // ONES and 0: what comes from here stays in a register
    unsigned bits[8];                     // of the ones of a lane where its points are certain, added up as integers
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

// Two floats as halves, the first in the low bits.
static __device__ __forceinline__ unsigned km_halves(float low, float high) {
    unsigned pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

static __device__ __forceinline__ float km_low(unsigned pair) {
    float value;
    asm("{ .reg .f16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(value) : "r"(pair));
    return value;
}

static __device__ __forceinline__ double km_power(int exponent) { // 2^exponent
    return __longlong_as_double((1023ll + exponent) << 52);
}

// Exponent of the smallest power of two above |x|; -100 at least.
static __device__ __forceinline__ int km_exponent(double x) {
    const int exponent = (int)(__double_as_longlong(x) >> 52 & 0x7ff) - 1022;
    return exponent < -100 ? -100 : exponent;
}

static __device__ __forceinline__ int km_exponent_max(const km_pass_args &args, int f) {
    return km_exponent(fmax(fabs(args.box[f]), fabs(args.box[D + f])));
}

// Load: counts the points of each power of two below the largest, feature by feature.
extern "C" __global__ void __launch_bounds__(256) km_tensor_survey(const __grid_constant__ km_pass_args args) {
    __shared__ unsigned bins[D * BINS];
    for (int i = threadIdx.x; i < D * BINS; i += 256) bins[i] = 0;
    __syncthreads();
    for (long long at = blockIdx.x * 256ll + threadIdx.x; at < args.n * D; at += gridDim.x * 256ll) {
        const int f = (int)(at % D), bin = km_exponent_max(args, f) - km_exponent(((const float *)args.points)[at]);
        atomicAdd(&bins[f * BINS + (bin < BINS ? bin : BINS - 1)], 1u);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < D * BINS; i += 256)
        if (bins[i]) atomicAdd(km_survey(args) + i, bins[i]);
}

// Load: e of each feature. At most one point in 16,384 may lie beyond, and the sum of their integers must fit.
extern "C" __global__ void __launch_bounds__(256) km_tensor_grid(const __grid_constant__ km_pass_args args) {
    for (int f = threadIdx.x; f < D; f += 256) {
        const unsigned *bins = km_survey(args) + f * BINS;
        const int largest = km_exponent_max(args, f);
        double beyond = 0;
        int bin = 0;
        for (; bin < BINS - 1 && largest - bin > -100; bin++) {
            beyond += bins[bin];
            if (beyond * 16384 > args.n || beyond * km_power(bin + 1 + BITS) > km_power(61)) break;
        }
        km_exponents(args)[f] = largest - bin < 127 ? largest - bin : 127;
    }
}

// A coordinate of the grid as its two halves.
static __device__ __forceinline__ unsigned km_limbs(float z) {
    const int number = __float2int_rn(z * (1 << BITS)), high = (number + 1024) >> 11;
    return km_halves((float)high / (1 << 11), (float)(number - high * 2048) / (1 << BITS));
}

// Load: the tiles; marks points that the grid does not hold, and those past the end of the last tile; how far out the
// others are.
extern "C" __global__ void __launch_bounds__(256) km_tensor_tiles(const __grid_constant__ km_pass_args args) {
    const long long points = (args.n + TILE - 1) / TILE * TILE;
    double largest = 0;
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < points; i += gridDim.x * 256ll) {
        const float *x = (const float *)args.points + i * D;
        bool beyond = i >= args.n;
        double square = 0;
        for (int f = 0; f < D && !beyond; f++) {
            beyond = fabs((double)x[f]) > km_power(km_exponents(args)[f]) * (1 - km_power(-BITS));
            square = fma((double)x[f], (double)x[f], square);
        }
        largest = beyond ? largest : fmax(largest, square);
        const unsigned marks = __ballot_sync(ALL, beyond);
        if (i % TILE == 0) km_marks(args)[i / TILE] = marks;
        for (int k = 0; k < LANE_D; k++) {
            unsigned words[4];
            KM_UNROLL for (int t = 0; t < 4; t++) {
                const int f = 4 * k + t;
                words[t] = beyond || f >= D ? 0 : km_limbs(x[f] * (float)km_power(-km_exponents(args)[f]));
            }
            km_tiles(args)[i / TILE].points[k][i % TILE] = {words[0], words[1], words[2], words[3]};
        }
    }
    // Numbers that are not negative are ordered as their bits are.
    atomicMax((unsigned long long *)km_largest(args), (unsigned long long)__double_as_longlong(largest));
}

// Products --------------------------------------------------------------------------------------------------

// Four of the eight bytes of a and b, or their signs.
template <unsigned WHICH> static __device__ __forceinline__ unsigned km_pick(unsigned a, unsigned b) {
    unsigned bytes;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "n"(WHICH));
    return bytes;
}

// Halves above zero compare like the integers of their bits, and that is how scores come here.
static __device__ __forceinline__ unsigned km_max(unsigned a, unsigned b) {
    unsigned larger;
    //@ if max3
    asm("max.u16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
    //@ else
    asm("max.f16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
    //@ end
    return larger;
}

// Two sums or two answers of halves. An answer is 1 or 0.
static __device__ __forceinline__ unsigned km_plus(unsigned a, unsigned b) {
    unsigned sum;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
    return sum;
}

static __device__ __forceinline__ unsigned km_reaches(unsigned a, unsigned b) { // a >= b
    unsigned answer;
    asm("set.ge.f16x2.f16x2 %0, %1, %2;" : "=r"(answer) : "r"(a), "r"(b));
    return answer;
}

static __device__ __forceinline__ void km_multiply(float *sums, const unsigned *a, const unsigned *b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Adds the ones of two rows, each twice: counts in halves.
static __device__ __forceinline__ void km_count(unsigned *counts, const unsigned (*near)[WIDTH], int c,
                                                const unsigned *ones) {
    asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
        : "+r"(counts[0]), "+r"(counts[1])
        : "r"(near[0][c]), "r"(near[1][c]), "r"(near[0][c + 1]), "r"(near[1][c + 1]), "r"(ones[0]), "r"(ones[1]));
}

// Two 8 x 8 matrices of halves, each twice, as the second factor of a product; `row`: of the lane, lane l has row l % 8
// of matrix l / 16.
static __device__ __forceinline__ void km_fetch(unsigned (*matrices)[2], unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0][0]), "=r"(matrices[0][1]), "=r"(matrices[1][0]), "=r"(matrices[1][1])
                 : "r"(row));
}

// The two transposed; lane l < 16 has row l % 8 of matrix l / 8.
static __device__ __forceinline__ void km_fetch_transposed(unsigned *matrices, unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(matrices[0]), "=r"(matrices[1])
                 : "r"(row));
}

// The same address, of which the compiler does not know how it came: it stays in a register.
static __device__ __forceinline__ unsigned km_keep(unsigned address) {
    unsigned kept;
    asm volatile("mov.b32 %0, %1;" : "=r"(kept) : "r"(address));
    return kept;
}

static __device__ __forceinline__ const uint4 *km_keep(const uint4 *address) {
    const uint4 *kept;
    asm volatile("mov.b64 %0, %1;" : "=l"(kept) : "l"(address));
    return kept;
}

// Preparing the planes --------------------------------------------------------------------------------------

// Writes a quarter of a row of the planes, the part of the lanes with lane % 4 = t: scaled factors of D features, or
// none, and a piece of the constant.
template <typename PART, typename Factor>
static __device__ __forceinline__ void km_write_row(km_block<PART> &shared, int group, int slot, int t, Factor factor,
                                                    float constant) {
    float piece = km_low(km_halves(constant, 0)); // the t-th of three pieces, as halves
    for (int i = 0; i < t; i++) {
        constant -= piece;
        piece = i < 2 ? km_low(km_halves(constant, 0)) : 0;
    }
    _Pragma("unroll 1") for (int i = 0; i < LANE_D; i++) {
        const float value = 4 * i + t < D ? factor(4 * i + t) : 0;
        const float high = km_low(km_halves(value, 0));
        unsigned *words = (unsigned *)&shared.planes[slot / 2][i][group * 4 + t] + slot % 2;
        words[0] = km_halves(high, high);
        words[2] = km_halves(value - high, i == 0 ? piece : value - high);
    }
}

static __device__ __forceinline__ double km_max_lanes(double value) {
    for (int width = 16; width > 0; width /= 2) value = fmax(value, __shfl_xor_sync(ALL, value, width));
    return value;
}

// The centroid nearest to the origin.
static __device__ int km_find_middle(const float *c, int k) {
    double smallest = 1e308;
    int middle = 0;
    _Pragma("unroll 1") for (int j = threadIdx.x % 32; j < k; j += 32) {
        double square = 0;
        _Pragma("unroll 2") for (int f = 0; f < D; f++) {
            const double x = c[j * D + f];
            square = fma(x, x, square);
        }
        middle = square < smallest ? j : middle;
        smallest = fmin(square, smallest);
    }
    for (int width = 16; width > 0; width /= 2) {
        const double square = __shfl_xor_sync(ALL, smallest, width);
        const int j = __shfl_xor_sync(ALL, middle, width);
        const bool closer = square < smallest || (square == smallest && j < middle);
        middle = closer ? j : middle;
        smallest = closer ? square : smallest;
    }
    return middle;
}

// Of one K: finds the centroids that another beats everywhere inside the grid. A centroid far outside would cost the
// scores of the others their digits.
template <typename PART>
static __device__ void km_find_beaten(km_block<PART> &shared, const float *c, const km_place &place, int k) {
    const int middle = km_find_middle(c, k);
    _Pragma("unroll 1") for (int j = threadIdx.x % 32; j < k; j += 32) {
        double lead = 0, size = 0; // of j over the middle one, at most
        _Pragma("unroll 2") for (int f = 0; f < D; f++) {
            const double a = c[j * D + f], b = c[middle * D + f];
            lead += fabs(a - b) * shared.reach[f] - 0.5 * (a - b) * (a + b);
            size += fabs(a - b) * shared.reach[f] + fabs(a - b) * fabs(a + b);
        }
        shared.beaten[place.row + j] = j != middle && lead < -1e-12 * size;
    }
    __syncwarp();
}

// Of one K, by one warp: planes, margin, links.
template <typename PART>
static __device__ void km_prepare(km_block<PART> &shared, const float *c, int k_index) {
    const km_place place = km_places[k_index];
    const int k = km_ks[k_index], lane = threadIdx.x % 32;
    float *middle = shared.middle[threadIdx.x / 32];
    const unsigned char *beaten = shared.beaten + place.row;
    km_find_beaten(shared, c, place, k);
    for (int f = lane; f < D; f += 32) {
        float low = 3.4e38f, high = -3.4e38f;
        _Pragma("unroll 1") for (int j = 0; j < k; j++) {
            low = beaten[j] ? low : fminf(low, c[j * D + f]);
            high = beaten[j] ? high : fmaxf(high, c[j * D + f]);
        }
        middle[f] = 0.5f * low + 0.5f * high;
    }
    __syncwarp();
    const auto constant_of = [&](int j) {
        double constant = 0;
        _Pragma("unroll 2") for (int f = 0; f < D; f++) {
            const double a = c[j * D + f], p = middle[f];
            constant -= 0.5 * (a - p) * (a + p);
        }
        return constant;
    };
    double lowest = 1e308, highest = -1e308, swing = 0, corner = 0; // scores, and what coordinates add to them at most
    _Pragma("unroll 1") for (int j = lane; j < k; j += 32) {
        if (beaten[j]) continue;
        double own = 0, square = 0;
        _Pragma("unroll 2") for (int f = 0; f < D; f++) {
            const double away = (double)c[j * D + f] - middle[f];
            own += fabs(away) * shared.reach[f];
            square = fma(away, away, square);
        }
        corner = fmax(corner, own);
        own = fmin(own, sqrt(square) * shared.radius);
        const double constant = constant_of(j);
        lowest = fmin(lowest, constant - own);
        highest = fmax(highest, constant + own);
        swing = fmax(swing, own);
    }
    lowest = -km_max_lanes(-lowest);
    highest = km_max_lanes(highest);
    swing = km_max_lanes(swing);
    corner = km_max_lanes(corner);
    const double factor = highest > lowest ? 0.84 * BINADE / (highest - lowest) : 0;

    // Twice the error of a score: of the grid, of the halves' products, and of at most 20 truncated additions a
    // product. A unit of the 16-bit score is BINADE / 2^15.
    const double halves = (corner + swing) * factor * km_power(-21);
    const double error = 2 * (halves + LANE_D * 20 * BINADE * km_power(-22) + 0.001);
    const int units = 1 + (int)(error / (BINADE * km_power(-15)));
    const unsigned margin = units < 1024 ? units * 0x10001 : 0x7c007c00; // the latter: all are near
    _Pragma("unroll 1") for (int at = lane; at < place.span * PART::SLOTS * 4; at += 32) {
        const int group = place.group + at / 4 / PART::SLOTS, slot = at / 4 % PART::SLOTS;
        const bool linked = PART::LEVELS == 0 && place.slots > PART::FIRST;
        const bool own = linked || (slot < PART::FIRST) == (place.slot < PART::FIRST);
        const int j = (group - place.group) * place.slots + slot - place.slot;
        const bool real = slot >= place.slot && slot < place.slot + place.slots && j < k;
        if (!own) continue;
        shared.row[group][slot] = real ? place.row + j : -1;
        if (real && !beaten[j])
            km_write_row(
                shared, group, slot, at % 4,
                [&](int f) { return (float)(((double)c[j * D + f] - middle[f]) * shared.reach[f] * factor); },
                (float)(1.08 * BINADE + (constant_of(j) - lowest) * factor));
        else
            km_write_row(shared, group, slot, at % 4, [](int) { return 0.0f; }, BINADE);
        if (slot != place.slot) continue;
        shared.margin[place.slot >= PART::FIRST][group] = margin;
        shared.member[place.slot >= PART::FIRST][group] = k_index;
        if (linked) shared.margin[1][group] = margin;
        shared.link[0][group] = linked ? ALL : 0;
        if (linked) shared.bits[group] = WIDTH * ONES;
        for (int level = 0; level < PART::LEVELS; level++)
            shared.link[1 + level][group] = place.span >> level > 1 ? ALL : 0;
    }
}

// Everything that the threads of a block share. False: no K of the launch takes part in this pass, or none does.
template <typename PART> static __device__ bool km_begin(km_block<PART> &shared, const km_pass_args &args) {
    const int stop = args.control->stop, warp = threadIdx.x / 32; // One wait for all that is read here.
    const float *centroids = (const float *)args.centroids + (long long)blockIdx.y * S * D;
    if (threadIdx.x == 0) shared.ones = ONES, shared.zero = 0;
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
        const bool high = slot == 0 || slot == PART::FIRST;
        km_write_row(shared, group, slot, i % 4, [](int) { return 0.0f; }, high ? 1.25f * BINADE : BINADE);
        shared.row[group][slot] = -1;
    }
    for (int i = threadIdx.x; i < 8; i += BLOCK) {
        shared.margin[0][i] = shared.margin[1][i] = 0x10001;
        shared.member[0][i] = shared.member[1][i] = -1;
        shared.bits[i] = (int(PART::FIRST) < int(PART::SLOTS) ? 2 : 1) * WIDTH * ONES;
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

// Points that wait ------------------------------------------------------------------------------------------

// Adds to a sum of the block; many threads at once, and native, unlike 64-bit atomics of shared memory.
static __device__ __forceinline__ void km_add_long(long long *sum, long long number) {
    unsigned *words = (unsigned *)sum;
    const unsigned low = (unsigned)number, before = atomicAdd(words, low);
    atomicAdd(words + 1, (unsigned)(number >> 32) + (before + low < before));
}

// The integer of a coordinate.
template <typename PART>
static __device__ __forceinline__ long long km_integer(const km_block<PART> &shared, float x, int f) {
    return __double2ll_rn((double)x * shared.unit[f]);
}

// Decides the last points of the warp's queue, a lane each, and adds them to the sums. Leaves how many still wait.
template <typename PART>
static __device__ __forceinline__ void km_drain(km_block<PART> &shared, const km_pass_args &args, int &waiting) {
    km_warp &warp = shared.warps[threadIdx.x / 32];
    const int lane = threadIdx.x % 32, count = waiting < 32 ? waiting : 32;
    __syncwarp();
    const km_item own = warp.queue[waiting - count + (lane < count ? lane : 0)];
    __syncwarp();
    waiting -= count;
    const long long point = (long long)own.tile * TILE + own.what % 32;
    const int k_index = own.what >> 5, row = km_places[k_index].row;
    if (point >= args.n || lane >= count) return;
    const float *x = (const float *)args.points + point * D, *c = shared.centroids + row * D;
    double smallest = 1e308;
    int label = 0;
    _Pragma("unroll 1") for (int j = 0; j < km_ks[k_index]; j++) {
        double square = 0;
        _Pragma("unroll 2") for (int f = 0; f < D; f++) {
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
    _Pragma("unroll 2") for (int f = 0; f < D; f++) km_add_long(sums + f, km_integer(shared, x[f], f));
    km_add_long(sums + D, 1);
}

// What a lane knows of its group's Ks.
struct km_lane {
    unsigned margin[2], link[4];
    //@ if track_labels
    int member[2];
    //@ end
    unsigned expected; // how many near centroids a point has that needs no decision, as two halves
    unsigned bits;     // of the ones of a lane where its points are certain, added up as integers
    unsigned ones[2];  // ONES twice
    unsigned zero;
};

template <typename PART> static __device__ km_lane km_lane_of(const km_block<PART> &shared) {
    km_lane own;
    const int group = threadIdx.x % 32 / 4;
    for (int s = 0; s < 2; s++) own.margin[s] = shared.margin[s][group];
    for (int l = 0; l < 4; l++) own.link[l] = shared.link[l][group];
    //@ if track_labels
    for (int s = 0; s < 2; s++) own.member[s] = shared.member[s][group];
    //@ end
    const bool two = int(PART::FIRST) < int(PART::SLOTS) && !own.link[0];
    own.expected = two ? 0x40004000 : ONES;
    own.bits = shared.bits[group];
    own.ones[0] = own.ones[1] = shared.ones;
    own.zero = shared.zero;
    return own;
}

// The rare step: points with several near centroids of a K, and marked ones, join the queue instead of the sums.
// `marks`: of the points from `first` of the tile on.
template <typename PART>
static __device__ __forceinline__ void km_settle(unsigned (*near)[WIDTH], km_block<PART> &shared,
                                                 const km_pass_args &args, const km_lane &own, unsigned marks, int tile,
                                                 int first, int &queued) {
    km_warp &warp = shared.warps[threadIdx.x / 32];
    const int lane = threadIdx.x % 32;
    unsigned pending = 0;
    KM_UNROLL for (int c = 0; c < WIDTH; c++) {
        unsigned count = near[0][c];
        KM_UNROLL for (int s = 1; s < PART::SLOTS; s++) count = km_plus(count, near[s][c]);
        KM_UNROLL for (int level = 0; level < PART::LEVELS; level++)
            count = km_plus(count, __shfl_xor_sync(ALL, count, 4 << level) & own.link[1 + level]);
        const unsigned marked = marks >> (8 * c + lane % 4 * 2);
        const unsigned waits = (count ^ own.expected) | (marked & 1) | (marked & 2) << 15;
        const unsigned low = waits & 0xffff, high = waits >> 16;
        const unsigned keep = (low ? 0 : 0xffff) | (high ? 0 : 0xffff0000);
        KM_UNROLL for (int s = 0; s < PART::SLOTS; s++) near[s][c] &= keep;
        pending |= (low != 0 | (high != 0) << 1) << 2 * c;
    }
    const int members[2] = {shared.member[0][lane / 4], shared.member[1][lane / 4]};
    pending |= members[1] >= 0 ? pending << 8 : 0; // of a K, its first group of lanes asks
    pending = members[0] >= 0 && km_places[members[0]].group == lane / 4 ? pending : pending & 0xff00;
    while (const unsigned askers = __ballot_sync(ALL, pending != 0)) {
        if (pending) {
            const int bit = __ffs(pending) - 1, member = bit < 8 ? members[0] : members[1];
            pending &= pending - 1;
            warp.queue[queued + __popc(askers & ~(ALL << lane))] = {
                tile, (first + bit / 2 % 4 * 8 + lane % 4 * 2 + bit % 2) | member << 5};
        }
        queued += __popc(askers);
        if (queued >= 32) km_drain(shared, args, queued);
        __syncwarp();
    }
}

//@ if track_labels
// Writes the labels of a lane's points that do not wait; counts changes of its one or two Ks.
template <typename PART>
static __device__ __forceinline__ void km_label_points(const unsigned (*near)[WIDTH], const km_pass_args &args,
                                                       const km_lane &own, long long first, int *changes) {
    const int lane = threadIdx.x % 32;
    KM_UNROLL for (int segment = 0; segment < 2; segment++) {
        if (own.member[segment] < 0) continue;
        const km_place place = km_places[own.member[segment]];
        KM_UNROLL for (int c = 0; c < WIDTH; c++) {
            unsigned labels = 0, found = 0;
            KM_UNROLL for (int s = 0; s < PART::SLOTS; s++) {
                const bool counts = (s < PART::FIRST) == (segment == 0) || own.link[0];
                const unsigned cluster = (lane / 4 - place.group) * place.slots + s - place.slot;
                const unsigned ones = counts ? near[s][c] / 0x0400 & 0x10001 : 0;
                labels += ones * cluster;
                found |= ones;
            }
            km_label *kept = (km_label *)args.labels + (blockIdx.y * KS + own.member[segment]) * args.labels_stride +
                             first + 8 * c + lane % 4 * 2;
            KM_UNROLL for (int point = 0; point < 2; point++) {
                const km_label label = labels >> 16 * point & 0xffff;
                if (!(found >> 16 * point & 1) || kept[point] == label) continue;
                kept[point] = label;
                changes[segment]++;
            }
        }
    }
}

//@ end
// The loop --------------------------------------------------------------------------------------------------

// Begins to bring a tile to shared memory; both addresses are the lane's first.
static __device__ __forceinline__ void km_bring(unsigned to, const uint4 *from) {
    KM_UNROLL for (int i = 0; i < LANE_D; i++)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + i * (int)sizeof(uint4[TILE])),
                     "l"(from + i * TILE)
                     : "memory");
}

// The largest score of each K, for the points of one column: of the first slots, and of the others.
template <typename PART>
static __device__ __forceinline__ void km_find_largest(unsigned *largest, const unsigned (*scores)[WIDTH], int c,
                                                       const km_lane &own) {
    if (int(PART::FIRST) < int(PART::SLOTS)) {
        unsigned other = scores[PART::FIRST % PART::SLOTS][c];
        KM_UNROLL for (int s = PART::FIRST + 1; s < PART::SLOTS; s++) other = km_max(other, scores[s][c]);
        largest[0] = scores[0][c];
        KM_UNROLL for (int s = 1; s < PART::FIRST; s++) largest[0] = km_max(largest[0], scores[s][c]);
        largest[0] = km_max(largest[0], other & own.link[0]);
        largest[1] = (largest[0] & own.link[0]) | (other & ~own.link[0]);
    } else {
        largest[0] = largest[1] = scores[0][c];
        KM_UNROLL for (int s = 1; s < PART::FIRST; s++) largest[0] = km_max(largest[0], scores[s][c]);
    }
    KM_UNROLL for (int level = 0; level < PART::LEVELS; level++)
        largest[0] = km_max(largest[0], __shfl_xor_sync(ALL, largest[0], 4 << level) & own.link[1 + level]);
}

// Which centroids are near, for the points of some columns: `near` [slot][column].
template <typename PART>
//@ if planes_in_registers
static __device__ __forceinline__ void km_compare(unsigned (*near)[WIDTH], const uint4 (*planes)[LANE_D],
//@ else
static __device__ __forceinline__ void km_compare(unsigned (*near)[WIDTH], const uint4 (*planes)[LANE_D][32],
//@ end
                                                  unsigned row, const km_lane &own) {
    unsigned points[LANE_D][WIDTH][2], scores[PART::SLOTS][WIDTH];
    KM_UNROLL for (int k = 0; k < LANE_D; k++)
        KM_UNROLL for (int c = 0; c < WIDTH; c += 2)
            km_fetch(points[k] + c, row + (k * TILE + 8 * c) * (int)sizeof(uint4));
    KM_UNROLL for (int c = 0; c < WIDTH; c++) {
        points[0][c][0] += own.zero; // With two new numbers the compiler makes no copies of the pair.
        points[0][c][1] = km_pick<0x7610>(points[0][c][1], own.ones[0]);
    }
    KM_UNROLL for (int i = 0; i < PART::TILES; i++) {
        float sums[WIDTH][4] = {};
        KM_UNROLL for (int k = 0; k < LANE_D; k++) {
            //@ if planes_in_registers
            const uint4 plane = planes[i][k];
            //@ else
            const uint4 plane = planes[i][k][threadIdx.x % 32];
            //@ end
            const unsigned a[4] = {plane.x, plane.y, plane.z, plane.w};
            KM_UNROLL for (int c = 0; c < WIDTH; c++) km_multiply(sums[c], a, points[k][c]);
        }
        KM_UNROLL for (int r = 0; r < 2; r++)
            KM_UNROLL for (int c = 0; c < WIDTH; c++)
                scores[2 * i + r][c] =
                    km_pick<0x6521>(__float_as_uint(sums[c][2 * r]), __float_as_uint(sums[c][2 * r + 1]));
    }
    KM_UNROLL for (int c = 0; c < WIDTH; c++) {
        unsigned largest[2];
        km_find_largest<PART>(largest, scores, c, own);
        KM_UNROLL for (int segment = 0; segment < 2; segment++)
            largest[segment] -= own.margin[segment];
        KM_UNROLL for (int s = 0; s < PART::SLOTS; s++)
            near[s][c] = km_reaches(scores[s][c], largest[s >= PART::FIRST]);
    }
}

// Whether each point has just one near centroid of each K.
template <typename PART>
static __device__ __forceinline__ bool km_is_certain(const unsigned (*near)[WIDTH], const km_lane &own) {
    unsigned count = 0;
    if (int(PART::LEVELS) == 0) {
        // Sums of bits: of up to 63 ones in each half of a register they tell how many there are.
        KM_UNROLL for (int s = 0; s < PART::SLOTS; s++)
            KM_UNROLL for (int c = 0; c < WIDTH; c++) count += near[s][c];
        return count == own.bits;
    } else {
        KM_UNROLL for (int s = 0; s < PART::SLOTS; s++)
            KM_UNROLL for (int c = 0; c < WIDTH; c += 2) count = km_plus(count, km_plus(near[s][c], near[s][c + 1]));
        KM_UNROLL for (int level = 0; level < PART::LEVELS; level++)
            count = km_plus(count, __shfl_xor_sync(ALL, count, 4 << level) & own.link[1 + level]);
        return count == km_halves(WIDTH, WIDTH);
    }
}

// Sums of a warp: of the two halves of features; of ones.
template <typename PART> struct km_sums {
    float of[PART::TILES][LANE_D][4];
    unsigned counts[PART::TILES][2];
};

template <typename PART>
static __device__ __forceinline__ void km_add(km_sums<PART> &sums, const unsigned (*near)[WIDTH], unsigned row,
                                              const km_lane &own) {
    KM_UNROLL for (int c = 0; c < WIDTH; c += 2) {
        KM_UNROLL for (int i = 0; i < PART::TILES; i++) km_count(sums.counts[i], near + 2 * i, c, own.ones);
        KM_UNROLL for (int n = 0; n < LANE_D; n++) {
            unsigned points[2];
            km_fetch_transposed(points, row + (n * TILE + 8 * c) * (int)sizeof(uint4));
            KM_UNROLL for (int i = 0; i < PART::TILES; i++) {
                const unsigned a[4] = {near[2 * i][c], near[2 * i + 1][c], near[2 * i][c + 1], near[2 * i + 1][c + 1]};
                km_multiply(sums.of[i][n], a, points);
            }
        }
    }
}

// Adds a warp's sums to the block's.
template <typename PART>
static __device__ __forceinline__ void km_flush(km_sums<PART> &sums, km_block<PART> &shared) {
    const int lane = threadIdx.x % 32, t = lane % 4;
    KM_UNROLL for (int i = 0; i < PART::TILES; i++)
        KM_UNROLL for (int half = 0; half < 2; half++) {
            const int row = shared.row[lane / 4][2 * i + half];
            long long *out = shared.sums + row * (D + 1);
            const int count = (int)km_low(sums.counts[i][half]);
            sums.counts[i][half] = 0;
            if (row >= 0 && t == 0) km_add_long(out + D, count);
            KM_UNROLL for (int n = 0; n < LANE_D; n++) {
                const int f = 4 * n + t;
                const int high = (int)(sums.of[i][n][2 * half] * (1 << 11));
                const int low = (int)(sums.of[i][n][2 * half + 1] * (1 << BITS));
                sums.of[i][n][2 * half] = sums.of[i][n][2 * half + 1] = 0;
                if (row >= 0 && f < D) km_add_long(out + f, high * 2048ll + low);
            }
        }
}

template <typename PART>
static __device__ __forceinline__ void km_walk(km_block<PART> &shared, const km_pass_args &args) {
    constexpr int SLOTS = PART::SLOTS, STRIDE = GRID * WARPS;
    constexpr unsigned TILE_BYTES = sizeof(km_tile);
    constexpr long long TILE_STEP = TILE * LANE_D;
    const int lane = threadIdx.x % 32, tiles = (int)((args.n + TILE - 1) / TILE);
    km_warp &warp = shared.warps[threadIdx.x / 32];
    const km_lane own = km_lane_of(shared);
    //@ if planes_in_registers
    uint4 planes[PART::TILES][LANE_D];
    KM_UNROLL for (int i = 0; i < PART::TILES; i++)
        KM_UNROLL for (int k = 0; k < LANE_D; k++) planes[i][k] = shared.planes[i][k][lane];
    //@ else
    const uint4(*planes)[LANE_D][32] = shared.planes;
    //@ end
    km_sums<PART> sums = {};
    //@ if track_labels
    int changes[2] = {};
    //@ end
    const uint4 *from = km_keep(&km_tiles(args)->points[0][lane]);
    const unsigned *all_marks = km_marks(args);
    int queued = 0, tile = blockIdx.x * WARPS + threadIdx.x / 32;
    unsigned next_marks = tile < tiles ? all_marks[tile] : 0;
    const uint4 *first_tile = warp.ring[0].points[0];
    const unsigned ring = km_keep((unsigned)__cvta_generic_to_shared(first_tile + lane));
    const unsigned rows = km_keep((unsigned)__cvta_generic_to_shared(first_tile + lane % 8 + lane / 16 * 8));
    unsigned stage = 0, before = (STAGES - 1) * TILE_BYTES; // where in the ring
    KM_UNROLL for (int s = 0; s < STAGES - 1; s++) {
        if (tile + s * STRIDE < tiles)
            km_bring(ring + s * TILE_BYTES, from + (tile + s * STRIDE) * TILE_STEP);
        asm volatile("cp.async.commit_group;");
    }
    while (tile < tiles) {
        for (int chunk = 0; chunk < CHUNK_TILES && tile < tiles; chunk++, tile += STRIDE) {
            const unsigned marks = next_marks;
            if (tile + STRIDE < tiles) next_marks = all_marks[tile + STRIDE];
            asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
            __syncwarp();
            const int ahead = tile + (STAGES - 1) * STRIDE;
            if (ahead < tiles) km_bring(ring + before, from + ahead * TILE_STEP);
            asm volatile("cp.async.commit_group;");
            KM_UNROLL for (int first = 0; first < TILE; first += 8 * WIDTH) {
                unsigned near[SLOTS][WIDTH];
                km_compare<PART>(near, planes, rows + stage + first * (int)sizeof(uint4), own);
                const bool marked = marks & (ALL >> (TILE - 8 * WIDTH)) << first;
                if (__any_sync(ALL, !km_is_certain<PART>(near, own)) || marked)
                    km_settle(near, shared, args, own, marks >> first, tile, first, queued);
                //@ if track_labels
                km_label_points<PART>(near, args, own, tile * (long long)TILE + first, changes);
                //@ end
                km_add(sums, near, ring + stage + first * (int)sizeof(uint4), own);
            }
            before = stage;
            stage = stage < (STAGES - 1) * TILE_BYTES ? stage + TILE_BYTES : 0;
        }
        km_flush(sums, shared);
    }
    while (queued > 0) km_drain(shared, args, queued);
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
    8LL * COPIES * COLUMNS * GRID + 4LL * D * (1 + BINS) + sizeof(km_tile) + 512, sizeof(km_tile) / TILE + 1, 0};
__device__ km_pass_launch km_pass_launches[] = {
    {"km_tensor_survey", KM_STAGE_LOAD, 8 * GRID, 1, 256, 0, 0},
    {"km_tensor_grid", KM_STAGE_LOAD, 1, 1, 256, 0, 0},
    {"km_tensor_tiles", KM_STAGE_LOAD, 8 * GRID, 1, 256, 0, 0},
    //@ for part in parts
    {"km_tensor_$part", KM_STAGE_PASS, GRID, COPIES, BLOCK, sizeof(km_block<km_part_$part>), $part},
    //@ end
    {"km_reduce", KM_STAGE_PASS, KS, COPIES, REDUCE, 0, 0},
};
}
//@ include steps.cu

// SPDX-License-Identifier: MIT
//@ need block grid resident parts max3 stages launches_count
//@ include cuda/head.h

// Design `tensor`, of many clusters. Distances are matrix products: clusters are the rows, 32 points of a warp the
// columns. No register holds sums: they are the block's, in shared memory, and each point is added to one row of them.
//
// Points. When they come home, a coordinate becomes z = x / 2^e, |z| < 1, e of its feature, and is kept twice, in tiles
// of 32 points: rounded to half precision, as products take it, and as the integer of z 2^22, which sums take.
//
// Labels. All centroids of a K belong to one group of four lanes or to a few such groups, so that the nearest one
// is found in the lane or by a shuffle. 16 bits of a score, two points in a register, take part: a centroid is near
// when it comes so close to the nearest that a bound on the error cannot tell them apart. Near centroids add up, 256
// and their place each: what is less than 512 is the place of the only one. A point with more waits and is decided
// on the points as they are (km_drain).
//
// Sums. Integers, made positive by a bias, which are added without any rounding, the same in any order. 32 bits of a
// sum take native additions; what they carry is added where there is any, to 32 bits more. A point beyond 2^e is marked
// once, when the points come home, and waits for km_drain, where its integer may be long.
// Whether the compiler would spill if all columns were worked on at once: that of CUDA 12 always does.
constexpr bool TIGHT = $tight || __CUDACC_VER_MAJOR__ < 13;
enum {
    BLOCK = $block,        // threads of a block
    GRID = $grid,          // blocks of a launch, for one copy
    WARPS = BLOCK / 32,
    TILE = 32,             // points that a warp fetches at a time
    WIDTH = TIGHT ? 2 : 4, // columns of 8 points that are worked on at a time
    COLUMNS = S * (D + 1), // sums of a copy
    QUEUE = 64,            // points of a warp that wait for km_drain
    BITS = 22,             // of a coordinate's integer, beside its sign
    BIAS = 1 << BITS,      // makes it positive
    BINS = 64,             // of the survey: powers of two below the largest coordinate
    STAGES = $stages,      // tiles of a warp that are on their way, and the one that it works on
    BLOCKS = D <= 8 ? 1 : (D + 15) / 16 * 2, // of 8 features
    ROW = D | 1,           // words of a row of sums: odd, so that rows begin in different banks
    REDUCE = 128           // threads of a block of km_reduce
};
constexpr float BINADE = 8192;        // scores are at least this and less than twice this
constexpr unsigned ALL = 0xffffffff;
constexpr unsigned ONE_NEAR = 0x5c00; // 256 in half precision, where units are 1/4

//@ include cuda/tensor/places.cu

// A point that waits to be decided.
struct km_item {
    int tile;
    int what; // point of the tile, index of the K << 5
};

struct km_tile {
    uint4 points[BLOCKS][TILE]; // halves of features 8 i to 8 i + 7 of each point
    unsigned numbers[D][TILE];  // integers, with the bias; ALL: the point is marked
    uint4 errors[4];            // of points 2 t, 2 t + 1, 8 + 2 t, ...: what rounding took away, as halves
};

enum { TILE_SIZE = sizeof(km_tile) / sizeof(uint4) };

// What a warp has in shared memory.
struct km_warp {
    km_tile ring[STAGES];
    km_item queue[QUEUE];
    int queued; // not in a register, as few tiles ask
};

// How far below the largest score a centroid of a K is near: where a point is off by 1 more than by 0, and there; 32
// for each group of the K before this one. Two halves each.
struct alignas(16) km_margin {
    unsigned slope, least, before, unused;
};

// A K that takes part: its first group of lanes, its first row, its index in the list.
struct km_member {
    int group, row, k_index;
};

template <typename PART> struct km_block;

// The workspace: for each copy and block a row of sums; the largest |x|^2 of the points that are not marked; the
// exponents e; the survey; the tiles.
static __device__ __forceinline__ long long *km_sums_of(const km_pass_args &args, int block) {
    return (long long *)args.workspace + ((long long)blockIdx.y * GRID + block) * COLUMNS;
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

static __device__ __forceinline__ km_tile *km_tiles(const km_pass_args &args) {
    const long long after = (long long)(km_survey(args) + D * BINS);
    return (km_tile *)((after + 255) / 256 * 256);
}

//@ include cuda/tensor/words.cu

// Sums of two pairs of halves.
static __device__ __forceinline__ unsigned km_plus(unsigned a, unsigned b) {
    unsigned sum;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
    return sum;
}

// Two answers of halves, each 1 or 0.
static __device__ __forceinline__ unsigned km_exceeds(unsigned a, unsigned b) {
    unsigned answer;
    asm("set.gt.f16x2.f16x2 %0, %1, %2;" : "=r"(answer) : "r"(a), "r"(b));
    return answer;
}

//@ include cuda/tensor/reads.cu

static __device__ __forceinline__ unsigned km_read(unsigned address) {
    unsigned word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address));
    return word;
}

//@ include cuda/tensor/grid.cu

//@ include cuda/tensor/rows.cu

//@ include cuda/tensor/scores.cu

//@ include cuda/tensor/margins.cu

// How the scores of a K are made, and which are near.
struct km_scaled {
    km_scale scale;
    km_margin margin;
    float middle[D];
};

// What the threads of a block share.
template <typename PART> struct km_block {
    uint4 planes[PART::TILES][BLOCKS][32]; // centroids, as matrix products take them
    float4 starts[PART::TILES][8];         // where the scores of a group's two rows start, each twice
    unsigned low[PART::ROWS][ROW];         // sums: their low words, their high ones
    unsigned high[PART::ROWS][ROW];
    unsigned counts[PART::ROWS];
    union {
        km_warp warps[WARPS];
        float centroids[PART::ROWS * D];   // while planes are made
    };
    double radius;                         // no point that is not marked has a larger norm
    double reach[D], unit[D];              // 2^e; 2^(22 - e), which makes an integer
    km_scaled scaled[8];                   // of the K that begins in a group
    km_margin margin[8];                   // of a group's K
    km_member members[8];
    int members_count;
    unsigned link[4][8];                   // ALL where groups 1, 2, 4 apart belong together: the last three
    short member[2][8];                    // index in the K list, -1: none
    short row[8][PART::SLOTS];             // row of the sums, -1: none
    unsigned char beaten[PART::ROWS];      // centroids that are never nearest inside the grid
    unsigned char active[KS];
    //@ if track_labels
    unsigned changes[KS];
    //@ end
};

// Load: the tiles. Marks points that the grid does not hold, and those past the end of the last tile; finds how far out
// the others are.
extern "C" __global__ void __launch_bounds__(256) km_tensor_tiles(const __grid_constant__ km_pass_args args) {
    __shared__ float limit[D], scale[D];
    for (int f = threadIdx.x; f < D; f += 256) {
        limit[f] = (float)(km_power(km_exponents(args)[f]) * (1 - km_power(-BITS))); // all its bits
        scale[f] = (float)km_power(-km_exponents(args)[f]);
    }
    __syncthreads();
    const long long points = (args.n + TILE - 1) / TILE * TILE;
    const int lane = threadIdx.x % 32;
    double largest = 0;
    for (long long point = blockIdx.x * 256ll + threadIdx.x; point < points; point += gridDim.x * 256ll) {
        const float *x = (const float *)args.points + (point < args.n ? point : 0) * D;
        km_tile &tile = km_tiles(args)[point / TILE];
        bool beyond = point >= args.n;
        double square = 0, away_square = 0;
        KM_UNROLL for (int f = 0; f < D; f++) {
            beyond = beyond | (fabsf(x[f]) > limit[f]);
            square = fma((double)x[f], (double)x[f], square);
        }
        largest = beyond ? largest : fmax(largest, square);
        _Pragma("unroll 1") for (int b = 0; b < BLOCKS; b++) {
            unsigned halves[8] = {};
            KM_UNROLL for (int i = 0; i < 8; i++) {
                const int f = 8 * b + i;
                if (f >= D) continue;
                const float z = beyond ? 0 : x[f] * scale[f];
                halves[i] = km_halves(z, 0);
                const double away = (double)z - km_low(halves[i]);
                away_square = fma(away, away, away_square);
                tile.numbers[f][lane] = beyond ? ALL : (unsigned)(__float2int_rn(z * (1 << BITS)) + BIAS);
            }
            tile.points[b][lane] = {halves[0] | halves[1] << 16, halves[2] | halves[3] << 16,
                                    halves[4] | halves[5] << 16, halves[6] | halves[7] << 16};
        }
        const float error = (float)(sqrt(away_square) * km_power(ERROR_BITS) * (1 + km_power(-10)));
        ((unsigned short *)&tile.errors[lane / 2 % 4])[lane / 8 * 2 + lane % 2] = (unsigned short)km_halves(error, 0);
    }
    // Numbers that are not negative are ordered as their bits are. Few have news to tell.
    largest = km_max_lanes(largest);
    if (lane == 0 && largest > *(volatile double *)km_largest(args))
        atomicMax((unsigned long long *)km_largest(args), (unsigned long long)__double_as_longlong(largest));
}

// Preparing the planes --------------------------------------------------------------------------------------

// Writes a quarter of a row of the planes, the part of the lanes with lane % 4 = t: scaled factors of D features, and
// where scores start. Of 8 features both parts of a factor are in one product, of 16 each has its own.
template <typename PART, typename Factor>
static __device__ __forceinline__ void km_write_row(km_block<PART> &shared, int group, int slot, int t, Factor factor,
                                                    float start) {
    _Pragma("unroll 1") for (int i = 0; i < BLOCKS; i++) {
        const int f = 8 * i + 2 * t;
        const float first = f < D ? factor(f) : 0, second = f + 1 < D ? factor(f + 1) : 0;
        const float high = km_low(km_halves(first, 0)), second_high = km_low(km_halves(second, 0));
        const auto words_of = [&](int plane) {
            return (unsigned *)&shared.planes[slot / 2][plane][group * 4 + t] + slot % 2;
        };
        words_of(i / 2 * 2)[i % 2 * 2] = km_halves(high, second_high);
        words_of(BLOCKS > 1 ? i / 2 * 2 + 1 : 0)[BLOCKS > 1 ? i % 2 * 2 : 2] =
            km_halves(first - high, second - second_high);
    }
    ((float2 *)&shared.starts[slot / 2][group])[slot % 2] = {start, start};
}

// Of one K, by one warp: how its scores are scaled, and margins.
template <typename PART>
static __device__ void km_scale_scores(km_block<PART> &shared, int k_index) {
    const km_place place = km_places[k_index];
    const float *c = shared.centroids + place.row * D;
    const int k = km_ks[k_index];
    km_scaled &own = shared.scaled[place.group];
    const unsigned char *beaten = shared.beaten + place.row;
    km_find_beaten(shared, c, place, k);
    km_scale scale = km_find_scale(shared, own.middle, c, beaten, k);

    // No two centroids are farther apart than twice the distance of one from the middle, each feature in units of 2^e.
    double spread = 0;
    _Pragma("unroll 1") for (int j = threadIdx.x % 32; j < k; j += 32) {
        if (beaten[j]) continue;
        double square = 0;
        _Pragma("unroll 2") for (int f = 0; f < D; f++) {
            const double away = ((double)c[j * D + f] - (double)own.middle[f]) * shared.reach[f];
            square = fma(away, away, square);
        }
        spread = fmax(spread, 2 * sqrt(square));
    }

    // Two scores are off by twice the error of one, of which at most 20 truncated additions a product are part, and by
    // what rounding the point changes between them. A unit of the 16-bit score is BINADE / 2^15; half of one is lost
    // where the margin is rounded, and one where scores are.
    const double unit = BINADE * km_power(-15);
    const double error = 2 * (scale.error + BLOCKS * 20 * BINADE * km_power(-22) + 0.001) / unit;
    spread = km_max_lanes(spread) * scale.factor / unit * km_power(-ERROR_BITS);
    if (error + spread * 8 > MARGIN_MAX) scale.factor = spread = 0; // |r| is at most 8: all are near
    own.scale = scale;
    own.margin.slope = km_halves((float)(spread * (1 + km_power(-10))), 0) * 0x10001;
    own.margin.least = km_halves((float)(1024 + ceil(error + 0.51)), 0) * 0x10001;
}

// Everything that the threads of a block share. False: no K of the launch takes part in this pass, or none does.
template <typename PART> static __device__ bool km_begin(km_block<PART> &shared, const km_pass_args &args) {
    const int stop = args.control->stop, warp = threadIdx.x / 32; // One wait for all that is read here.
    const float *centroids = (const float *)args.centroids + (long long)blockIdx.y * S * D;
    if (threadIdx.x == 0) shared.radius = sqrt(*km_largest(args)) * (1 + 1e-9);
    for (int i = threadIdx.x; i < KS; i += BLOCK) {
        shared.active[i] = args.active[blockIdx.y * KS + i];
        //@ if track_labels
        shared.changes[i] = 0;
        //@ end
    }
    for (int f = threadIdx.x; f < D; f += BLOCK) {
        shared.reach[f] = km_power(km_exponents(args)[f]);
        shared.unit[f] = km_power(BITS - km_exponents(args)[f]);
    }
    for (int i = 0; i < KS; i++) {
        if (km_places[i].part != PART::INDEX) continue;
        for (int at = threadIdx.x; at < km_ks[i] * D; at += BLOCK)
            shared.centroids[km_places[i].row * D + at] = centroids[km_offsets[i] * D + at];
    }
    for (int i = threadIdx.x; i < PART::ROWS * ROW; i += BLOCK) shared.low[0][i] = shared.high[0][i] = 0;
    for (int i = threadIdx.x; i < PART::ROWS; i += BLOCK) shared.counts[i] = 0;
    for (int i = threadIdx.x; i < 8 * PART::SLOTS * 4; i += BLOCK) // rows that are never near, if any is above
        km_write_row(shared, i / 4 / PART::SLOTS, i / 4 % PART::SLOTS, i % 4, [](int) { return 0.0f; }, BINADE);
    for (int i = threadIdx.x; i < 8; i += BLOCK) {
        shared.margin[i] = {0, NONE, 0, 0};
        shared.member[0][i] = -1;
        shared.link[0][i] = shared.link[1][i] = shared.link[2][i] = shared.link[3][i] = 0;
    }
    __syncthreads();
    if (stop) return false;
    int members_count = 0;
    for (int i = 0; i < KS; i++) {
        if (km_places[i].part != PART::INDEX || !shared.active[i]) continue;
        if (members_count % WARPS == warp) km_scale_scores<PART>(shared, i);
        if (threadIdx.x == 0)
            shared.members[members_count] = {km_places[i].group, km_places[i].row, i};
        members_count++;
    }
    if (threadIdx.x == 0) shared.members_count = members_count;
    __syncthreads();
    for (int i = 0; i < members_count; i++) {
        const km_member member = shared.members[i];
        const km_scaled &scaled = shared.scaled[member.group];
        km_write_rows(shared, shared.centroids + member.row * D, scaled.middle, member.k_index, threadIdx.x, BLOCK,
                      scaled.scale,
                      [&](int group, int, bool) {
                          const float before = 32.0f * (group - member.group);
                          shared.margin[group] = {scaled.margin.slope, scaled.margin.least,
                                                  km_halves(before, before), 0};
                      });
    }
    __syncthreads();
    return members_count > 0;
}

// Points that wait ------------------------------------------------------------------------------------------

static __device__ __forceinline__ double km_square(const float *x, const float *c) {
    double square = 0;
    _Pragma("unroll 4") for (int f = 0; f < D; f++) {
        const double away = (double)x[f] - (double)c[f];
        square = fma(away, away, square);
    }
    return square;
}

// The nearest centroid in double. Most are told apart in float, where a square is off by less than 2^-21 (D + 4) of
// itself, but for those too small for it.
static __device__ __forceinline__ int km_find_nearest(const float *x, const float *c, int k) {
    constexpr float WIDER = 1 + (D + 4) * 0x1p-20f, LEAST = 1e-36f, FARTHEST = 3.4e38f;
    float own[D], smallest = FARTHEST, second = FARTHEST, third = FARTHEST;
    int label = 0, other = 0;
    KM_UNROLL for (int f = 0; f < D; f++) own[f] = x[f]; // lanes' points lie far apart
    _Pragma("unroll 4") for (int j = 0; j < k; j++) {
        float square = 0;
        KM_UNROLL for (int f = 0; f < D; f++) {
            const float away = own[f] - c[j * D + f];
            square = fmaf(away, away, square);
        }
        third = fminf(third, fmaxf(square, second));
        other = square < smallest ? label : square < second ? j : other;
        second = fminf(second, fmaxf(square, smallest));
        label = square < smallest ? j : label;
        smallest = fminf(smallest, square);
    }
    const float limit = smallest * WIDER + LEAST;
    if (second > limit) return label;
    if (third > limit) {
        const double a = km_square(x, c + label * D), b = km_square(x, c + other * D);
        return a < b || (a == b && label < other) ? label : other;
    }
    double least = 1e308;
    _Pragma("unroll 1") for (int j = 0; j < k; j++) {
        const double square = km_square(x, c + j * D);
        label = square < least ? j : label;
        least = fmin(square, least);
    }
    return label;
}

// Decides the last points of the warp's queue, a lane each, and adds them to the sums. Gives how many still wait.
template <typename PART>
static __device__ __forceinline__ int km_drain(km_block<PART> &shared, const km_pass_args &args, int waiting) {
    km_warp &warp = shared.warps[threadIdx.x / 32];
    const int lane = threadIdx.x % 32, count = waiting < 32 ? waiting : 32;
    __syncwarp();
    const km_item own = warp.queue[waiting - count + (lane < count ? lane : 0)];
    __syncwarp();
    waiting -= count;
    const int k_index = own.what >> 5;
    const long long point = (long long)own.tile * TILE + own.what % 32;
    if (point >= args.n || lane >= count) return waiting;
    const float *x = (const float *)args.points + point * D;
    const float *c = (const float *)args.centroids + ((long long)blockIdx.y * S + km_offsets[k_index]) * D;
    const int label = km_find_nearest(x, c, km_ks[k_index]);
    //@ if track_labels
    km_label *kept = (km_label *)args.labels + (blockIdx.y * KS + k_index) * args.labels_stride + point;
    if (*kept != label) {
        *kept = (km_label)label;
        atomicAdd(&shared.changes[k_index], 1u);
    }
    //@ end
    const int row = km_places[k_index].row + label;
    _Pragma("unroll 2") for (int f = 0; f < D; f++) {
        const long long number = __double2ll_rn(x[f] * shared.unit[f]) + BIAS;
        const unsigned low = (unsigned)number, before = atomicAdd(&shared.low[row][f], low);
        atomicAdd(&shared.high[row][f], (unsigned)(number >> 32) + (before + low < before));
    }
    atomicAdd(&shared.counts[row], 1u);
    return waiting;
}

// Comparing -------------------------------------------------------------------------------------------------

// No address is worth a register while there are scores: the lane's number is asked for again.
static __device__ __forceinline__ unsigned km_lane() {
    return km_keep(threadIdx.x % 32);
}

// The scores of a tile of rows, two points in a register.
template <typename PART>
static __device__ __forceinline__ void km_score(unsigned (*scores)[WIDTH], const km_block<PART> &shared, int tile,
                                                const unsigned (*points)[WIDTH][2]) {
    float sums[WIDTH][4];
    const unsigned lane = threadIdx.x % 32;
    const uint4 start = *(const uint4 *)&shared.starts[tile][lane / 4];
    KM_UNROLL for (int k = 0; k < BLOCKS; k++) {
        const uint4 plane = shared.planes[tile][k][lane];
        const unsigned a[4] = {plane.x, plane.y, plane.z, plane.w};
        KM_UNROLL for (int c = 0; c < WIDTH; c++)
            if (k == 0)
                km_multiply(sums[c], plane, points[0][c], start);
            else
                km_multiply(sums[c], a, points[k / 2][c]);
    }
    KM_UNROLL for (int r = 0; r < 2; r++)
        KM_UNROLL for (int c = 0; c < WIDTH; c++)
            scores[r][c] = km_pick<0x6521>(__float_as_uint(sums[c][2 * r]), __float_as_uint(sums[c][2 * r + 1]));
}

// Adds up what near centroids count, for the points of each column: 256 and 32 group + slot.
template <typename PART>
static __device__ __forceinline__ void km_compare(unsigned *places, const km_block<PART> &shared, unsigned tile) {
    const unsigned reader = km_lane(), second = BLOCKS > 1 ? reader / 8 % 2 * TILE : 0;
    const unsigned row = tile + (reader % 8 + reader / 16 * 8 + second) * (unsigned)sizeof(uint4);
    KM_UNROLL for (int first = 0; first < 4; first += WIDTH) {
        unsigned scores[PART::SLOTS][WIDTH], points[(BLOCKS + 1) / 2][WIDTH][2]; // halves of 16 features, or of 8 twice
        if (first > 0) __syncwarp();                                             // not both at a time
        KM_UNROLL for (int i = 0; i < (BLOCKS + 1) / 2; i++)
            KM_UNROLL for (int c = 0; c < WIDTH; c += 2)
                km_fetch(points[i] + c, row + (2 * i * TILE + 8 * (first + c)) * (unsigned)sizeof(uint4));
        KM_UNROLL for (int i = 0; i < PART::TILES; i++) km_score(scores + 2 * i, shared, i, points);
        const unsigned lane = km_lane();
        const uint4 read = km_read_four(tile + lane % 4 * (unsigned)sizeof(uint4) +
                                        (unsigned)(sizeof(uint4[BLOCKS][TILE]) + sizeof(unsigned[D][TILE])));
        const unsigned errors[4] = {read.x, read.y, read.z, read.w};
        const km_margin margin = shared.margin[lane / 4];
        unsigned link[4];
        KM_UNROLL for (int level = 0; level < PART::LEVELS; level++)
            link[1 + level] = shared.link[1 + level][lane / 4];
        KM_UNROLL for (int c = 0; c < WIDTH; c++) {
            unsigned largest[2], sum = 0;
            km_find_largest<PART>(largest, scores, c, link);
            // The largest score that is not near.
            const unsigned limit = largest[0] + NEXT - km_multiply_add(errors[first + c], margin.slope, margin.least);
            KM_UNROLL for (int s = 0; s < PART::SLOTS; s++) {
                constexpr unsigned STEP = 0x40004; // 1 where units are 1/4
                sum = km_multiply_add(km_exceeds(scores[s][c], limit), ONE_NEAR * 0x10001 + s * STEP, sum);
            }
            sum = km_multiply_add(km_exceeds(sum, 0), margin.before, sum);
            KM_UNROLL for (int level = 0; level < PART::LEVELS; level++)
                sum = km_plus(sum, __shfl_xor_sync(ALL, sum, 4 << level) & link[1 + level]);
            places[first + c] = sum;
        }
    }
}

// The loop --------------------------------------------------------------------------------------------------

// Adds a point's integers to a row of the block's sums. Each lane begins with another feature: points of one cluster,
// or of rows that begin in one bank, do not wait for each other all the time.
template <typename PART>
static __device__ __forceinline__ void km_add_point(km_block<PART> &shared, int row, unsigned numbers) {
    constexpr int AHEAD = D < 8 ? D : 8; // features at a time, so that additions do not wait for each other
    unsigned f = km_lane() % D, at[AHEAD], number[AHEAD], before[AHEAD];
    KM_UNROLL for (int first = 0; first < D; first += AHEAD) {
        KM_UNROLL for (int i = 0; i < AHEAD && first + i < D; i++) {
            at[i] = f;
            number[i] = km_read(numbers + f * (unsigned)sizeof(unsigned[TILE]));
            f = f + 1 < D ? f + 1 : 0;
        }
        KM_UNROLL for (int i = 0; i < AHEAD && first + i < D; i++)
            before[i] = atomicAdd(&shared.low[row][at[i]], number[i]);
        KM_UNROLL for (int i = 0; i < AHEAD && first + i < D; i++)
            if (before[i] > ~number[i]) atomicAdd(&shared.high[row][at[i]], 1u);
    }
    atomicAdd(&shared.counts[row], 1u);
}

// A tile that is at `address` in shared memory.
template <typename PART>
static __device__ __forceinline__ void km_take(km_block<PART> &shared, const km_pass_args &args, unsigned address,
                                               int tile) {
    unsigned places[4]; // of column c: points 8 c + 2 t and the next, t the lane % 4
    km_compare<PART>(places, shared, address);
    const int lane = (int)km_lane();
    const unsigned numbers = address + (unsigned)(sizeof(uint4[BLOCKS][TILE]) + lane * sizeof(unsigned));
    const bool marked = km_read(numbers) == ALL;
    _Pragma("unroll 1") for (int i = 0; i < shared.members_count; i++) { // a lane has one point now
        const km_member member = shared.members[i];
        unsigned place = 0;
        KM_UNROLL for (int c = 0; c < 4; c++) {
            const unsigned of_column = __shfl_sync(ALL, places[c], member.group * 4 + lane % 8 / 2);
            place = lane / 8 == c ? of_column : place;
        }
        place = ((lane % 2 ? place >> 16 : place & 0xffff) - ONE_NEAR) / 4;
        const bool waits = marked || place >= 256;
        if (!waits) {
            const int row = shared.row[member.group + place / 32][place % 32];
            //@ if track_labels
            km_label *kept = (km_label *)args.labels + (blockIdx.y * KS + member.k_index) * args.labels_stride +
                             tile * (long long)TILE + lane;
            if (*kept != row - member.row) {
                *kept = (km_label)(row - member.row);
                atomicAdd(&shared.changes[member.k_index], 1u);
            }
            //@ end
            km_add_point(shared, row, numbers);
        }
        const unsigned waiting = __ballot_sync(ALL, waits);
        if (!waiting) continue;
        km_warp &warp = shared.warps[threadIdx.x / 32];
        int queued = warp.queued;
        if (waits) warp.queue[queued + __popc(waiting & ~(ALL << lane))] = {tile, lane | member.k_index << 5};
        queued += __popc(waiting);
        if (queued >= 32) queued = km_drain(shared, args, queued);
        __syncwarp(); // all lanes have read it
        if (lane == 0) warp.queued = queued;
        __syncwarp();
    }
}

// Begins to bring a tile to shared memory; `from` is the lane's first address.
static __device__ __forceinline__ void km_bring(unsigned tile, const uint4 *from) {
    const unsigned to = tile + km_lane() * (unsigned)sizeof(uint4);
    KM_UNROLL for (int i = 0; i < TILE_SIZE; i += 32)
        if (i + 32 <= TILE_SIZE || (int)(threadIdx.x % 32) < TILE_SIZE - i)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + i * (int)sizeof(uint4)), "l"(from + i)
                         : "memory");
}

template <typename PART>
static __device__ __forceinline__ void km_walk(km_block<PART> &shared, const km_pass_args &args) {
    constexpr int STRIDE = GRID * WARPS;
    constexpr unsigned TILE_BYTES = sizeof(km_tile);
    const int tiles = (int)((args.n + TILE - 1) / TILE);
    const auto from = [&](int tile) {
        return (const uint4 *)km_tiles(args) + threadIdx.x % 32 + tile * (long long)TILE_SIZE;
    };
    km_warp &warp = shared.warps[threadIdx.x / 32];
    int tile = blockIdx.x * WARPS + threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) warp.queued = 0;
    const unsigned ring = km_keep((unsigned)__cvta_generic_to_shared(warp.ring));
    unsigned stage = 0; // where in the ring
    KM_UNROLL for (int s = 0; s < STAGES - 1; s++) {
        if (tile + s * STRIDE < tiles) km_bring(ring + s * TILE_BYTES, from(tile + s * STRIDE));
        asm volatile("cp.async.commit_group;");
    }
    for (; tile < tiles; tile += STRIDE) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncwarp();
        const int ahead = tile + (STAGES - 1) * STRIDE;
        const unsigned before = stage > 0 ? stage - TILE_BYTES : (STAGES - 1) * TILE_BYTES;
        if (ahead < tiles) km_bring(ring + before, from(ahead));
        asm volatile("cp.async.commit_group;");
        km_take(shared, args, ring + stage, tile);
        stage = stage < (STAGES - 1) * TILE_BYTES ? stage + TILE_BYTES : 0;
    }
    __syncwarp();
    int queued = warp.queued;
    while (queued > 0) queued = km_drain(shared, args, queued);
}

// One launch: a share of the K list.
template <typename PART> static __device__ __forceinline__ void km_run(const km_pass_args &args) {
    extern __shared__ uint4 km_memory[];
    km_block<PART> &shared = *(km_block<PART> *)km_memory;
    if (!km_begin(shared, args)) return;
    km_walk(shared, args);
    __syncthreads();
    for (int i = 0; i < shared.members_count; i++) {
        const km_member member = shared.members[i];
        long long *to = km_sums_of(args, blockIdx.x) + km_offsets[member.k_index] * (D + 1);
        for (int at = threadIdx.x; at < km_ks[member.k_index] * (D + 1); at += BLOCK) {
            const int row = member.row + at / (D + 1), f = at % (D + 1);
            const long long count = shared.counts[row];
            to[at] = f < D ? ((long long)shared.high[row][f] << 32 | shared.low[row][f]) - count * BIAS : count;
        }
        //@ if track_labels
        if (threadIdx.x == 0 && shared.changes[member.k_index])
            atomicAdd(args.changes + blockIdx.y * KS + member.k_index,
                      (unsigned long long)shared.changes[member.k_index]);
        //@ end
    }
}

//@ for part in parts
extern "C" __global__ void __launch_bounds__(BLOCK, $resident)
    km_tensor_$part(const __grid_constant__ km_pass_args args) {
    km_run<km_part_$part>(args);
}

//@ end
//@ include cuda/tensor/reduce.cu

extern "C" {
__device__ km_pass_facts km_pass = {
    KM_ABI_VERSION, $launches_count + 4,
    8LL * COPIES * COLUMNS * GRID + 4LL * D * (1 + BINS) + sizeof(km_tile) + 512, sizeof(km_tile) / TILE, 0,
    8LL * COPIES * COLUMNS * GRID + 4LL * D * (1 + BINS) + 8};
__device__ km_pass_launch km_pass_launches[] = {
    {"km_tensor_survey", KM_STAGE_LOAD, 8 * GRID, 1, 256, 0, 0},
    {"km_tensor_grid", KM_STAGE_LOAD, 1, 1, 256, 0, 0},
    {"km_tensor_tiles", KM_STAGE_LOAD, 48 * GRID, 1, 256, 0, 0}, // many, so that the last ones end together
    //@ for part in parts
    {"km_tensor_$part", KM_STAGE_PASS, GRID, COPIES, BLOCK, sizeof(km_block<km_part_$part>), $part},
    //@ end
    {"km_reduce", KM_STAGE_PASS, (COLUMNS + REDUCE - 1) / REDUCE, COPIES, REDUCE, 0, 0},
};
}
//@ include cuda/steps/steps.cu

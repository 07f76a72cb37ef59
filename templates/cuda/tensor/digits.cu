// SPDX-License-Identifier: MIT
// Form digits: scores and sums of int8 digits, for many features.

//@ def form_text
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
//@ end
//@ def form_numbers
enum {
    COLUMN_PAIRS = $column_pairs,          // pairs of columns, 16 points, that a warp compares at a time
    WIDTH = 2 * COLUMN_PAIRS,              // columns of 8 points
    MASKS = COLUMN_PAIRS,                  // of a lane and row of scores, for four points each
    STEP_TILES = WARPS * COLUMN_PAIRS / 2, // tiles that a block works on at a time
    FOURS = (D + 3) / 4,                   // features in fours
    SLICES = (D + 31) / 32,                // slices of 32 features: one product of bytes
    LINES = (3 * FOURS + 1) / 2 * 2,       // of 128 bytes: a tile's, one digit of four features each
    SUM_TILES = LINES / 2, // column tiles of sums: eight columns each, three columns a feature
    WARP_TILES = (SUM_TILES + WARPS - 1) / WARPS, // of these, those of one warp
    QUEUE_FULL = 24,                              // ambiguous points of a warp for which the block pauses
    RESOLVED_AT_ONCE = 8, // of one tile for which it does not wait until the queue is full
    LANES_PER_POINT = 8,  // lanes that resolve a point
    FLUSH_STEPS = 2048,   // steps after which sums are flushed: counts have 16 bits
    MARGIN_MAX = 1000,    // units of a 16-bit score
    NORMS = 2,            // of which a load finds the largest: |x|, |z|
    FETCHERS = PREPARERS, // threads that fetch the centroids of a K
    REDUCE = 128          // threads of a block of km_reduce
};
constexpr float BINADE = 0x7c000000; // scores are integers below it; their upper 16 bits are compared
//@ end

//@ def form_memory
// An ambiguous point.
struct km_queue_entry {
    int tile;
    unsigned point_and_k; // index of the point in the tile, index of the K << 5
    unsigned candidates;  // a bit for each of the first 32 centroids of the K; 0: any may be a candidate
};

// Digits of 32 points: the highest digits of all features first, then the others; a line holds four features. The four
// are swizzled from line to line, so that lanes that read four lines have no bank conflicts.
struct alignas(16) km_tile {
    unsigned char lines[LINES][4][TILE];
};

enum { PIECES = sizeof(km_tile) * STEP_TILES / sizeof(uint4) }; // 16-byte pieces of a step

// Of each segment of a quad: the factor that spreads scores over 31 bits; the margin, from the largest score to the
// first that is too small for a candidate, in both halves.
struct alignas(16) km_quad_scale {
    int factor[2];
    unsigned margin[2];
};

struct km_prepared : km_prepared_base {
    uint4 fragments[ROW_TILES_MAX][SLICES][2][32]; // of the centroids' two digits
    int2 starts[ROW_TILES_MAX][8];                 // of a quad's rows: the constant of the score
    km_quad_scale quad_scale[8];                   // of a quad's Ks
    unsigned queue_bits
        [8]; // of each quad: which of its Ks it queues points for; bits 0 and 2, 1 and 3 of each byte
};

struct km_preparation : km_prepared, km_preparation_base {
    double z_radius; // the largest |z| of all points but outliers
    float centroids[SUM_ROWS_MAX * D];
    float midpoint[PREPARERS / 32][D];
};

template <typename LAUNCH> struct km_block : km_prepared {
    km_tile ring[STAGES][STEP_TILES];
    unsigned outliers[STAGES][STEP_TILES];
    uint4 masks[2][STEP_TILES][LAUNCH::ROW_TILES]
               [32]; // of candidates: the first operand of products; of two steps
    km_queue_entry queue[WARPS][QUEUE];
    const km_tile
        *tiles; // the first tile and its outliers, and how many steps: needed too rarely for registers
    const unsigned *all_outliers;
    int steps;
    int queued[WARPS];
};

// How many steps all blocks have, and their tiles.
static __device__ __forceinline__ long long km_steps(const km_pass_args &args) {
    return (args.n + STEP_TILES * TILE - 1) / (STEP_TILES * TILE);
}

static __device__ __forceinline__ long long km_tiles_count(const km_pass_args &args) {
    return km_steps(args) * STEP_TILES;
}

// The first tile of a block's step.
static __device__ __forceinline__ long long km_first_tile(int step) {
    return (blockIdx.x + step * (long long)GRID) * STEP_TILES;
}
//@ end

//@ def form_load
//@ use bytes_of block_rows
static __device__ __forceinline__ void km_put_point(const km_pass_args &args, long long i, const float *x,
                                                    const float *scale, bool beyond, double) {
    km_tile &tile = km_tiles(args)[i / TILE];
    KM_UNROLL_2_FOR (int four = 0; four < FOURS; four++)
        KM_UNROLL_FOR (int at = 0; at < 4; at++) {
            const int f = 4 * four + at;
            const unsigned bytes = km_bytes_of(f < D && !beyond ? x[f] * scale[f] : 0);
            KM_UNROLL_FOR (int digit = 0; digit < 3; digit++)
                tile.lines[digit * FOURS + four][(at ^ four) % 4][threadIdx.x % 32] =
                    (unsigned char)(bytes >> (2 - digit) * 8);
        }
}

//@ end
//@ def form_prepare
//@ use scale
// How a K's centroids become integers, A = (c - p) 2^e integer_scale; and the factor of S, which is a score times
// 64 integer_scale.
struct km_integer_scale {
    double integer_scale;
    int factor;
};

static __device__ __forceinline__ double km_scaled_coordinate(const km_preparation &shared, const float *c,
                                                              const float *midpoint, int f) {
    return ((double)c[f] - midpoint[f]) * shared.extent[f];
}

static __device__ km_integer_scale km_find_integer_scale(const km_preparation &shared, const float *midpoint,
                                                         const float *c, const unsigned char *dominated,
                                                         int k, const km_scale &scale) {
    double largest = 0;
    KM_UNROLL_1_FOR (int j = 0; j < k; j++)
        for (int f = threadIdx.x % 32; f < D && !dominated[j]; f += 32)
            largest = fmax(largest, fabs(km_scaled_coordinate(shared, c + j * D, midpoint, f)));
    largest = km_warp_max(largest);
    const double most = scale.factor / 64;
    const double integer_scale = largest * most > 127 * 256 ? 127 * 256 / largest : most;
    return {integer_scale, most < integer_scale * (1 << 24) && integer_scale > 0 ? (int)(most / integer_scale)
                           : integer_scale > 0                                   ? 1 << 24
                                                                                 : 1};
}

// The largest error of a score S of the K.
static __device__ double km_find_error(const km_preparation &shared, const float *midpoint, const float *c,
                                       const unsigned char *dominated, int k, double integer_scale) {
    const double byte = 128 * sqrt((double)D), number = fmin(shared.z_radius, sqrt((double)D)) * (1 << BITS);
    double largest = 0;
    KM_UNROLL_1_FOR (int j = threadIdx.x % 32; j < k; j += 32) {
        if (dominated[j]) continue;
        double low = 0, all = 0, rest = 0;
        KM_UNROLL_2_FOR (int f = 0; f < D; f++) {
            const double exact = km_scaled_coordinate(shared, c + j * D, midpoint, f) * integer_scale;
            const int whole = __double2int_rn(exact), digit = (signed char)whole;
            low = fma((double)digit, (double)digit, low);
            all = fma(exact, exact, all);
            rest = fma(exact - whole, exact - whole, rest);
        }
        // The fraction of a coordinate is at most half a unit.
        const double error =
            byte * sqrt(low) * km_power_of_2(-8) +
            ((byte + sqrt((double)D)) * sqrt(all) + (number + byte) * sqrt(rest)) * km_power_of_2(-16);
        largest = fmax(largest, error);
    }
    return (km_warp_max(largest) + 1) * (1 + km_power_of_2(-10));
}

// Writes the quarter of a row of fragments that lanes with lane % 4 = t hold: the integers of D features, as two
// digits, and the constant.
template <typename Number>
static __device__ __forceinline__ void km_write_row(km_preparation &shared, int quad, int score_row, int t,
                                                    Number number, int start) {
    KM_UNROLL_1_FOR (int i = 0; i < 2 * SLICES; i++) {
        unsigned high = 0, low = 0;
        KM_UNROLL_1_FOR (int byte = 0; byte < 4; byte++) {
            const int f = 16 * i + 4 * t + byte, whole = f < D ? number(f) : 0;
            high |= (unsigned)((whole + 128) >> 8 & 0xff) << 8 * byte;
            low |= (unsigned)(whole & 0xff) << 8 * byte;
        }
        uint4 *fragments = &shared.fragments[score_row / 2][i / 2][0][quad * 4 + t];
        ((unsigned *)fragments)[i % 2 * 2 + score_row % 2] = high;
        ((unsigned *)(fragments + 32))[i % 2 * 2 + score_row % 2] = low;
    }
    if (t == 0) ((int *)&shared.starts[score_row / 2][quad])[score_row % 2] = start;
}

// Prepares one K, by one warp: fragments, factor, margin, masks of quads.
static __device__ void km_prepare(km_preparation &shared, const float *c, int k_index) {
    const km_k_layout layout = km_k_layouts[k_index];
    const int k = km_ks[k_index];
    float *midpoint = shared.midpoint[threadIdx.x / 32];
    const unsigned char *dominated = shared.dominated + layout.sum_row;
    km_find_dominated(shared, c, layout, k);
    const km_scale scale = km_find_scale(shared, midpoint, c, dominated, k);
    km_integer_scale to = km_find_integer_scale(shared, midpoint, c, dominated, k, scale);
    const double error = km_find_error(shared, midpoint, c, dominated, k, to.integer_scale);
    double units = 2 * error * to.factor * km_power_of_2(-16);
    if (units > MARGIN_MAX - 2) to = {0, 1}, units = 0; // every centroid is a candidate
    // Rounded up; 1 as scores are truncated, 1 as the margin is the first that is too large.
    const unsigned margin = ((unsigned)units + 3) * 0x10001;
    const auto write_row = [&](int quad, int score_row, int t, int j) {
        const auto number = [&](int f) {
            return j >= 0 ? __double2int_rn(km_scaled_coordinate(shared, c + j * D, midpoint, f) *
                                            to.integer_scale)
                          : 0;
        };
        const auto constant = [&] {
            return (km_constant(c + j * D, midpoint) - scale.lowest) * 64 * to.integer_scale * to.factor;
        };
        km_write_row(shared, quad, score_row, t, number, j >= 0 ? (int)(0.08 * BINADE + constant()) : 0);
    };
    km_for_score_rows(shared, k_index, threadIdx.x % 32, 32, write_row,
                      [&](int quad, int segment, bool whole_quad) {
                          if (quad == layout.quad)
                              atomicOr(&shared.queue_bits[quad], segment ? 0x0a0a0a0a : 0x05050505);
                          for (int s = 0; s < 2; s++) {
                              if (s != segment && !whole_quad) continue;
                              shared.quad_scale[quad].factor[s] = to.factor;
                              shared.quad_scale[quad].margin[s] = margin;
                          }
                      });
}

// A row without a centroid. In a segment without a K one row has the largest score: a single candidate.
static __device__ __forceinline__ void km_clear_row(km_preparation &shared, int quad, int score_row, int t) {
    const bool high = score_row == 0 || score_row == shared.launch.first_rows;
    km_write_row(
        shared, quad, score_row, t, [](int) { return 0; }, high ? 0x40000000 : 0);
}

static __device__ __forceinline__ void km_clear_prepared(km_preparation &shared, const km_pass_args &args) {
    if (threadIdx.x == 0) shared.z_radius = sqrt(km_largest(args)[1]) * (1 + 1e-9);
    for (int i = threadIdx.x; i < 8; i += PREPARERS) {
        shared.queue_bits[i] = 0;
        shared.quad_scale[i] = {{1, 1}, {0x10001, 0x10001}};
    }
}

//@ end
//@ def form_clear
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

//@ end
//@ def form_resolve
// The tile whose masks a warp makes; `outliers` of it, a bit for each point. Tile -1: masks are made.
struct km_open_tile {
    int tile;
    unsigned outliers;
    uint4 (*masks)[32];
};

// Makes a resolved point a candidate of its centroid alone, in masks in shared memory.
static __device__ __forceinline__ void km_set_mask(const km_open_tile &open, int point, int k_index,
                                                   int label) {
    const km_k_layout layout = km_k_layouts[k_index];
    const int quad = layout.quad + label / layout.score_rows,
              score_row = layout.score_row + label % layout.score_rows;
    unsigned *masks = (unsigned *)&open.masks[score_row / 2][quad * 4 + point / 8];
    atomicOr(masks + point % 8 / 4 * 2 + score_row % 2, 255u << point % 4 * 8);
}

// Goes through the candidates of a point, all k where the entry has none, by LANES_PER_POINT lanes: add(j, c) for each,
// c the lane's features of its centroid. Lanes that have none left, or no point, call it with j = -1 until others end.
template <typename Add>
static __device__ __forceinline__ void km_for_candidates(unsigned candidates, const float *c, int k,
                                                         bool valid, Add add) {
    unsigned left = candidates;
    for (int next = 0;; next++) {
        int j = candidates ? __ffs(left) - 1 : next < k ? next : -1;
        left &= left - 1;
        j = valid ? j : -1;
        if (!__any_sync(ALL, j >= 0)) break;
        add(j, c + (j < 0 ? 0 : j) * D);
    }
}

// A point's squared distance from a centroid, in every lane of the point.
template <typename Real>
static __device__ __forceinline__ Real km_square(const float *x, const float *c, int own) {
    constexpr int LANE_D = (D + LANES_PER_POINT - 1) / LANES_PER_POINT;
    Real square = 0;
    KM_UNROLL_FOR (int i = 0; i < LANE_D; i++) {
        const Real away = i * LANES_PER_POINT + own < D ? (Real)x[i] - (Real)c[i * LANES_PER_POINT] : (Real)0;
        square = fma(away, away, square);
    }
    for (int width = LANES_PER_POINT / 2; width > 0; width /= 2)
        square += __shfl_xor_sync(ALL, square, width);
    return square;
}

// Resolves the points of the warp's queue, LANES_PER_POINT lanes each: by float squares, which are off by less than
// 2^-21 (D + 4) of themselves unless they are very small, and in double where these do not decide. Points of the open
// tile get their masks, and are added with the others; the rest, and outliers, are added to the block's sums.
template <typename LAUNCH>
static __device__ __noinline__ void km_resolve(const km_block<LAUNCH> &shared, const km_pass_args &args,
                                               int queued, km_open_tile open) {
    constexpr int LANE_D = (D + LANES_PER_POINT - 1) / LANES_PER_POINT; // features of a lane
    constexpr float WIDER = 1 + (D + 4) * 0x1p-20f, LEAST = 1e-36f, FARTHEST = 3.4e38f;
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
        float x[LANE_D], smallest = FARTHEST, second = FARTHEST;
        KM_UNROLL_FOR (int i = 0; i < LANE_D; i++)
            x[i] = i * LANES_PER_POINT + own < D ? from[i * LANES_PER_POINT] : 0;
        int label = 0;
        km_for_candidates(item.candidates, c, k, valid, [&](int j, const float *centroid) {
            const float square = km_square<float>(x, centroid, own);
            if (j < 0) return;
            second = fminf(second, fmaxf(square, smallest));
            label = square < smallest ? j : label;
            smallest = fminf(smallest, square);
        });
        const bool is_close = valid && !(second > smallest * WIDER + LEAST);
        if (__any_sync(ALL, is_close)) {
            double least = 1e308;
            km_for_candidates(item.candidates, c, k, is_close, [&](int j, const float *centroid) {
                const double square = km_square<double>(x, centroid, own);
                if (j < 0 || square >= least) return;
                label = j;
                least = square;
            });
        }
        if (!valid) continue;
        const int in_tile = item.point_and_k % 32;
        const bool is_open = item.tile == open.tile && !(open.outliers >> in_tile & 1);
        unsigned long long *to = km_sums_of(args, blockIdx.x) + (km_offsets[k_index] + label) * (D + 1) + own;
        KM_UNROLL_FOR (int i = 0; i < LANE_D; i++)
            if (!is_open && i * LANES_PER_POINT + own < D)
                atomicAdd(to + i * LANES_PER_POINT,
                          (unsigned long long)__double2ll_rn(
                              (double)x[i] * shared.lattice_scale[i * LANES_PER_POINT + own]));
        if (own > 0) continue;
        if (is_open)
            km_set_mask(open, in_tile, k_index, label);
        else
            atomicAdd(to + D, 1ull);
        //@ if track_labels
        km_label *stored = (km_label *)args.labels + (blockIdx.y * KS + k_index) * args.labels_stride + point;
        if (!args.labels || *stored == label) continue;
        *stored = (km_label)label;
        atomicAdd(args.changes + blockIdx.y * KS + k_index, 1ull);
        //@ end
    }
    __syncwarp();
}

// Resolves all points of the warp's queue.
template <typename LAUNCH>
static __device__ __forceinline__ void km_resolve_queue(km_block<LAUNCH> &shared, const km_pass_args &args) {
    km_resolve(shared, args, shared.queued[threadIdx.x / 32], {-1, 0, nullptr});
    if (threadIdx.x % 32 == 0) shared.queued[threadIdx.x / 32] = 0;
    __syncwarp();
}

//@ end
//@ def form_assign
//@ use prmt opaque mma_s8 half2_sub largest
// What a lane needs of its quad's Ks, and where it reads in a tile: not worth registers between two steps.
struct km_lane {
    unsigned same_k[4];
    km_quad_scale quad_scale;
    //@ if track_labels
    int k_index[2];
    //@ end
    int first;       // of the points whose masks it has
    int features_at; // offset in a tile of feature 4 t of the points that it compares
};

template <typename LAUNCH>
static __device__ __forceinline__ km_lane km_lane_of(const km_block<LAUNCH> &shared) {
    km_lane own;
    const unsigned thread = km_opaque(threadIdx.x), g = thread % 32 / 4, t = thread % 4;
    for (int l = 0; l < 4; l++) own.same_k[l] = shared.same_k[l][g];
    own.quad_scale = shared.quad_scale[g];
    //@ if track_labels
    for (int s = 0; s < 2; s++) own.k_index[s] = shared.k_index[s][g];
    //@ end
    // A lane has masks of points 8 t to 8 t + 7, or of four of these.
    const unsigned half = COLUMN_PAIRS == 1 ? thread / 32 % 2 * 4 : 0;
    own.first = 8 * t + half;
    own.features_at = t * 128 + t * TILE + (COLUMN_PAIRS == 1 ? g / 2 * 8 + half + g % 2 * 2 : 4 * g);
    return own;
}

// The offset in a tile of a lane's column of digits, of the warp's n-th column tile.
static __device__ __forceinline__ int km_find_column(int thread, int n) {
    const int at = 8 * (thread / 32 + n * WARPS) + thread % 32 / 4, line = at / 4;
    return line * 128 + (at ^ line % FOURS) % 4 * TILE + thread % 4 * 8;
}

struct km_columns {
    int at[WARP_TILES];
};

static __device__ __forceinline__ int km_column(const km_columns &columns, int thread, int n) {
    return FOURS % 4 == 0 ? km_find_column(thread, 0) + n * WARPS * 8 * TILE : columns.at[n];
}

// Reads points that a warp compares: one digit of 32 features, of WIDTH columns.
static __device__ __forceinline__ void km_read_points(unsigned (*points)[2], const unsigned char *tile,
                                                      int digit, int slice, const km_lane &own) {
    KM_UNROLL_FOR (int half = 0; half < 2; half++) {
        unsigned rows[4];
        KM_UNROLL_FOR (int j = 0; j < 4; j++) {
            const int line = digit * FOURS + 8 * slice + 4 * half;
            const unsigned char *from = tile + (own.features_at ^ j * TILE) + line * 128;
            rows[j] = COLUMN_PAIRS == 1 ? *(const unsigned short *)from : *(const unsigned *)from;
        }
        KM_UNROLL_FOR (int pair = 0; pair < COLUMN_PAIRS; pair++) {
            const unsigned low = pair ? km_prmt<0x7362>(rows[0], rows[1]) : km_prmt<0x5140>(rows[0], rows[1]);
            const unsigned high =
                pair ? km_prmt<0x7362>(rows[2], rows[3]) : km_prmt<0x5140>(rows[2], rows[3]);
            const unsigned words[2] = {km_prmt<0x5410>(low, high), km_prmt<0x7632>(low, high)};
            KM_UNROLL_FOR (int i = 0; i < 2; i++) points[2 * pair + i][half] = words[i];
        }
    }
}

// The scores of a row tile: their upper 16 bits, two points in a register.
template <typename LAUNCH>
static __device__ __forceinline__ void km_score(unsigned (*scores)[WIDTH], const km_block<LAUNCH> &shared,
                                                int tile, const unsigned (*points)[2][WIDTH][2],
                                                const km_lane &own) {
    const int lane = (int)km_opaque(threadIdx.x % 32);
    const int2 start = shared.starts[tile][lane / 4];
    const int zeros[4] = {};
    int high[WIDTH][4], low[WIDTH][4];
    KM_UNROLL_FOR (int slice = 0; slice < SLICES; slice++) {
        const uint4 first = shared.fragments[tile][slice][0][lane],
                    second = shared.fragments[tile][slice][1][lane];
        const unsigned upper[4] = {first.x, first.y, first.z, first.w};
        const unsigned lower[4] = {second.x, second.y, second.z, second.w};
        KM_UNROLL_FOR (int c = 0; c < WIDTH; c++)
            km_mma_s8(high[c], upper, points[slice][0][c], slice ? high[c] : zeros);
        KM_UNROLL_FOR (int c = 0; c < WIDTH; c++)
            km_mma_s8(low[c], upper, points[slice][1][c], slice ? low[c] : zeros);
        KM_UNROLL_FOR (int c = 0; c < WIDTH; c++) km_mma_s8(low[c], lower, points[slice][0][c], low[c]);
    }
    KM_UNROLL_FOR (int r = 0; r < 2; r++) {
        const int factor = own.quad_scale.factor[2 * tile + r >= LAUNCH::FIRST_ROWS],
                  added = r ? start.y : start.x;
        KM_UNROLL_FOR (int c = 0; c < WIDTH; c += 2)
            KM_UNROLL_FOR (int column = 0; column < 2; column++) {
                const int at = 2 * r + column;
                scores[r][column * COLUMN_PAIRS + c / 2] =
                    km_prmt<0x7632>((unsigned)((high[c][at] * 256 + low[c][at]) * factor + added),
                                    (unsigned)((high[c + 1][at] * 256 + low[c + 1][at]) * factor + added));
            }
    }
}

// Finds the candidates: masks of four points each, candidates[score_row][..].
template <typename LAUNCH>
static __device__ __forceinline__ void km_find_candidates(unsigned (*candidates)[MASKS],
                                                          const km_block<LAUNCH> &shared,
                                                          const unsigned char *tile, const km_lane &own) {
    unsigned points[SLICES][2][WIDTH][2];
    unsigned scores[LAUNCH::SCORE_ROWS][WIDTH], limits[WIDTH][2];
    KM_UNROLL_FOR (int slice = 0; slice < SLICES; slice++)
        KM_UNROLL_FOR (int digit = 0; digit < 2; digit++)
            km_read_points(points[slice][digit], tile, digit, slice, own);
    KM_UNROLL_FOR (int i = 0; i < LAUNCH::ROW_TILES; i++) km_score(scores + 2 * i, shared, i, points, own);
    KM_UNROLL_FOR (int c = 0; c < WIDTH; c++) { // limits: the largest score that is too small for a candidate
        km_find_largest<LAUNCH>(limits[c], scores, c, own.same_k);
        KM_UNROLL_FOR (int segment = 0; segment < 2; segment++)
            limits[c][segment] -= own.quad_scale.margin[segment];
    }
    KM_UNROLL_FOR (int s = 0; s < LAUNCH::SCORE_ROWS; s++)
        KM_UNROLL_FOR (int m = 0; m < MASKS; m++)
            candidates[s][m] = km_prmt<0xfdb9>(
                km_half2_sub(limits[2 * m][s >= LAUNCH::FIRST_ROWS], scores[s][2 * m]),
                km_half2_sub(limits[2 * m + 1][s >= LAUNCH::FIRST_ROWS], scores[s][2 * m + 1]));
}

//@ if track_labels
// The index in the tile of the point of a byte of a lane's masks.
static __device__ __forceinline__ int km_point_of(const km_lane &own, int m, int byte) {
    return own.first + 4 * m + byte;
}

//@ end
//@ use masks
// A lane's mask of four points in shared memory.
static __device__ __forceinline__ unsigned &km_mask_of(const km_open_tile &open, int score_row, int m) {
    const unsigned thread = km_opaque(threadIdx.x), four = COLUMN_PAIRS == 1 ? thread / 32 % 2 : m;
    return ((unsigned *)&open.masks[score_row / 2][thread % 32])[four * 2 + score_row % 2];
}

// Moves ambiguous points and outliers from the masks to the queue. Where the tile has many, they are resolved at once,
// and come back to the masks by way of shared memory. Returns whether the block should pause for the queue.
template <typename LAUNCH>
static __device__ __forceinline__ bool km_defer(unsigned (*candidates)[MASKS], const unsigned (*sums)[2],
                                                km_block<LAUNCH> &shared, const km_pass_args &args,
                                                const km_lane &own, const km_open_tile &open) {
    constexpr unsigned ROWS_ALL = (1u << LAUNCH::SCORE_ROWS) - 1, ROWS_FIRST = (1u << LAUNCH::FIRST_ROWS) - 1;
    const int thread = (int)km_opaque(threadIdx.x), lane = thread % 32, warp = thread / 32;
    unsigned ambiguous[MASKS][2],
        pending = 0; // in a point's byte, bits 2 m and 2 m + 1: the Ks of the point of masks m
    KM_UNROLL_FOR (int m = 0; m < MASKS; m++) {
        km_find_ambiguous<LAUNCH>(ambiguous[m], sums[m], own.same_k);
        const unsigned bits = open.outliers >> (own.first + 4 * m) & 15;
        const unsigned has_outlier =
            ((bits & 1) | (bits & 2) << 7 | (bits & 4) << 14 | (bits & 8) << 21) * 255;
        KM_UNROLL_FOR (int s = 0; s < 2; s++) ambiguous[m][s] |= has_outlier;
        pending |= ((ambiguous[m][0] & 0x01010101) | (ambiguous[m][1] & 0x02020202)) << 2 * m;
    }
    pending &= shared.queue_bits[lane / 4]; // the first quad of a K queues its points
    int queued = shared.queued[warp], queued_here = 0;
    bool comes_back = false;
    const auto resolve = [&] {
        if (!comes_back)
            KM_UNROLL_FOR (int s = 0; s < LAUNCH::SCORE_ROWS; s++)
                KM_UNROLL_FOR (int m = 0; m < MASKS; m++) km_mask_of(open, s, m) = 0;
        comes_back = true;
        km_resolve(shared, args, queued, open);
        queued = 0;
    };
    while (const unsigned senders = __ballot_sync(ALL, pending != 0)) {
        const int bit = pending ? __ffs(pending) - 1 : 0, segment = bit % 2, m = bit / 2 % 2;
        unsigned clusters = 0; // the candidates
        KM_UNROLL_FOR (int s = 0; s < LAUNCH::SCORE_ROWS; s++)
            clusters |= ((m ? candidates[s][MASKS - 1] : candidates[s][0]) >> bit / 8 * 8 & 1) << s;
        clusters = own.same_k[0] ? clusters
                   : segment     ? (clusters & ROWS_ALL) >> LAUNCH::FIRST_ROWS
                                 : clusters & ROWS_FIRST;
        const int point = own.first + 4 * m + bit / 8;
        if (LAUNCH::LEVELS > 0 || open.outliers >> point & 1) clusters = 0;
        const unsigned point_and_k = (unsigned)shared.k_index[segment][lane / 4] << 5 | point;
        if (pending)
            shared.queue[warp][queued + __popc(senders & ~(ALL << lane))] = {open.tile, point_and_k,
                                                                             clusters};
        pending &= pending - 1;
        queued += __popc(senders);
        queued_here += __popc(senders);
        if (queued > QUEUE - 32) resolve();
    }
    if (queued_here >= RESOLVED_AT_ONCE && queued > 0) resolve();
    __syncwarp(); // all lanes have read how many are queued
    if (lane == 0) shared.queued[warp] = queued;
    KM_UNROLL_FOR (int m = 0; m < MASKS; m++)
        KM_UNROLL_FOR (int s = 0; s < LAUNCH::SCORE_ROWS; s++)
            candidates[s][m] &= ~ambiguous[m][s >= LAUNCH::FIRST_ROWS];
    if (comes_back)
        KM_UNROLL_FOR (int s = 0; s < LAUNCH::SCORE_ROWS; s++)
            KM_UNROLL_FOR (int m = 0; m < MASKS; m++) candidates[s][m] |= km_mask_of(open, s, m);
    return queued >= QUEUE_FULL;
}

// Sums of a warp, negative: of its own columns of digits, over all points of the block; and counts of the points
// that it compared itself, of each row.
template <typename LAUNCH> struct km_sums {
    int of[LAUNCH::ROW_TILES][WARP_TILES][4];
    int counts[LAUNCH::ROW_TILES]; // of two rows, the second in the high 16 bits
};

// What a warp keeps from step to step.
template <typename LAUNCH> struct km_state {
    km_columns columns;
    km_sums<LAUNCH> sums;
    //@ if track_labels
    int changes[2];
    //@ end
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
    const km_open_tile open = {(int)km_first_tile(step) + tile, shared.outliers[stage][tile],
                               shared.masks[step % 2][tile]};
    bool full = false;
    if (__any_sync(ALL, ambiguous) || open.outliers)
        full = km_defer(candidates, added, shared, args, own, open);
    //@ if track_labels
    km_label_points<LAUNCH>(candidates, args, own, (km_first_tile(step) + tile) * TILE, state.changes);
    //@ end
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

// Adds all points of a step to a warp's columns.
template <typename LAUNCH>
static __device__ __forceinline__ void
km_add_step(km_state<LAUNCH> &state, const uint4 (*masks)[LAUNCH::ROW_TILES][32], const km_tile *tiles) {
    const int thread = (int)km_opaque(threadIdx.x), lane = thread % 32, warp = thread / 32;
    constexpr int EVERY = SUM_TILES / WARPS; // column tiles that every warp has
    KM_UNROLL_2_FOR (int tile = 0; tile < STEP_TILES; tile++) {
        unsigned b[WARP_TILES][2];
        KM_UNROLL_FOR (int n = 0; n < WARP_TILES; n++)
            if (n < EVERY || warp < SUM_TILES % WARPS) {
                const unsigned char *from = (const unsigned char *)&tiles[tile];
                const uint2 bytes = *(const uint2 *)(from + km_column(state.columns, thread, n));
                b[n][0] = bytes.x;
                b[n][1] = bytes.y;
            }
        KM_UNROLL_FOR (int i = 0; i < LAUNCH::ROW_TILES; i++) {
            const uint4 rows = masks[tile][i][lane];
            const unsigned a[4] = {rows.x, rows.y, rows.z, rows.w};
            KM_UNROLL_FOR (int n = 0; n < WARP_TILES; n++)
                if (n < EVERY || warp < SUM_TILES % WARPS)
                    km_mma_s8(state.sums.of[i][n], a, b[n], state.sums.of[i][n]);
        }
    }
}

//@ use move_up
// Adds a warp's sums to the block's.
template <typename LAUNCH>
static __device__ __forceinline__ void km_flush(km_sums<LAUNCH> &sums, const km_block<LAUNCH> &shared,
                                                const km_pass_args &args) {
    const int thread = (int)km_opaque(threadIdx.x), lane = thread % 32, warp = thread / 32;
    KM_UNROLL_1_FOR (int i = 0; i < LAUNCH::ROW_TILES; i++) {
        KM_UNROLL_FOR (int half = 0; half < 2; half++) {
            const int score_row = 2 * i + half, quad = lane / 4, row = shared.sum_row[quad][score_row];
            const int k_index =
                shared.k_index[score_row >= LAUNCH::FIRST_ROWS && !shared.same_k[0][quad]][quad];
            const int first = k_index < 0 ? 0 : km_offsets[k_index] - km_k_layouts[k_index].sum_row;
            unsigned long long *to = km_sums_of(args, blockIdx.x) + (long long)(first + row) * (D + 1);
            const int both = sums.counts[0], low = (short)both, count = -(half ? (both - low) / 65536 : low);
            if (row >= 0) atomicAdd(to + D, (unsigned long long)count);
            KM_UNROLL_FOR (int n = 0; n < WARP_TILES; n++)
                KM_UNROLL_FOR (int column = 0; column < 2; column++) {
                    const int at = 8 * (warp + n * WARPS) + lane % 4 * 2 + column, digit = at / (4 * FOURS);
                    const int f = at % (4 * FOURS), sum = sums.of[0][n][half * 2 + column];
                    if (row >= 0 && f < D && digit < 3)
                        atomicAdd(to + f, (unsigned long long)-(long long)sum << 8 * (2 - digit));
                }
        }
        km_move_up<LAUNCH::ROW_TILES, 1>(sums.counts);
        km_move_up<LAUNCH::ROW_TILES, 4 * WARP_TILES>(&sums.of[0][0][0]);
    }
}

//@ use copy_16 copy_cached copy_commit copy_wait shared_address
// Starts to copy a step's tiles and outliers to shared memory, if there is such a step.
template <typename LAUNCH>
static __device__ __forceinline__ void km_copy_step(km_block<LAUNCH> &shared, int stage, int step) {
    if (step < shared.steps) {
        const unsigned thread = km_opaque(threadIdx.x);
        const unsigned to = km_shared_address((uint4 *)shared.ring[stage] + thread);
        const uint4 *from = (const uint4 *)(shared.tiles + km_first_tile(step)) + thread;
        KM_UNROLL_FOR (int i = 0; i < PIECES; i += BLOCK)
            if (i + BLOCK <= PIECES || (int)thread < PIECES - i)
                km_copy_16(to + i * (int)sizeof(uint4), from + i);
        if (thread < STEP_TILES)
            km_copy_cached<4>(km_shared_address(shared.outliers[stage] + thread),
                              shared.all_outliers + km_first_tile(step) + thread);
    }
    km_copy_commit();
}

// Processes a block's steps: between two barriers it labels the points of one step and adds those of the step before.
template <typename LAUNCH>
static __device__ __forceinline__ void km_process_tiles(km_block<LAUNCH> &shared, const km_pass_args &args) {
    km_state<LAUNCH> state;
    KM_UNROLL_FOR (int n = 0; n < WARP_TILES; n++) state.columns.at[n] = km_find_column(threadIdx.x, n);
    state.sums = {};
    //@ if track_labels
    state.changes[0] = state.changes[1] = 0;
    //@ end
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
    //@ if track_labels
    KM_UNROLL_FOR (int segment = 0; segment < 2; segment++)
        if (state.changes[segment])
            atomicAdd(args.changes + blockIdx.y * KS + shared.k_index[segment][threadIdx.x % 32 / 4],
                      (unsigned long long)state.changes[segment]);
    //@ end
}

//@ end
//@ def form_write_sums
template <typename LAUNCH>
static __device__ __forceinline__ void km_write_block_sums(const km_block<LAUNCH> &, const km_pass_args &) {
    // The sums are in the workspace already.
}

//@ end
//@ def form_reduce
//@ use reduce_rows
//@ end

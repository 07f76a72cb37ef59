// SPDX-License-Identifier: MIT
// Form rounded: scores of rounded points, sums of int8 digits.

//@ def form_text
// Scores: a coordinate is rounded to a half; a factor c - p is fp16 hi and lo. So 8 features fill a product of 16, and
// sums start at the constant. Rounding a point by r, in units of 2^e, changes the difference of two scores by
// r . (c_j - c_z), at most |r| times the largest |c_j - c_z| of the K. |r| is kept with the point, and the margin of a
// point and K follows from both.
//
// Sums: masks, in which a candidate's byte is -1, times the int8 digits of the integers of 24 bits.
//
// TIGHT: the compiler would spill unless it is kept from reading ahead. That of CUDA 12 always does.
constexpr bool TIGHT = $tight || __CUDACC_VER_MAJOR__ < 13;
//@ end
//@ def form_numbers
enum {
    COLUMN_PAIRS = $column_pairs, // pairs of columns, 16 points, that a warp works on at a time
    WIDTH = 2 * COLUMN_PAIRS,     // columns of 8 points
    DIGITS = 3 * D,               // int8 digits of a point
    EIGHTS = (D + 7) / 8,         // features in eights
    FRAGMENTS = EIGHTS + 1,       // of a row tile: factors of eight features each, and where sums start
    SUM_TILES = (DIGITS + 7) / 8, // column tiles of sums: eight columns each
    COUNT_COLUMNS = 0, // of sums, beside those of coordinates: none, as points are counted by their masks
    SQUARE_COLUMNS = 0,
    MASKS = 2,           // of a lane and row of scores, for four points each
    COUNT_TILES = 64,    // tiles after which bytes that count points are flushed: two points of each tile
    FLUSH_TILES = 65536, // tiles of a warp after which sums are flushed: 2^21 points
    STEP_TILES = 1,      // tiles that are worked on at a time
    NORMS = 1,           // of which a load finds the largest: |x|
    RESOLVE_AHEAD = D,   // features at a time when an ambiguous point is added
    FETCHERS = 32,       // threads that fetch the centroids of a K
    REDUCE = 1024        // threads of a block of km_reduce
};
constexpr float BINADE = 8192; // scores are at least this and less than twice this
//@ end

//@ def form_memory
// 32 points in the layout of operands of matrix products.
struct km_tile {
    uint4 points[EIGHTS][TILE];  // halves of features 8 i to 8 i + 7 of each point
    uint2 digits[SUM_TILES][32]; // lane 4 n + t: digits of eight points, for its column n of products
    uint4 errors[4];             // |r| of points 2 t, 2 t + 1, 8 + 2 t, ... as halves; negative: outliers
};

//@ use warp_memory
// The margins of a quad's two Ks, as km_margin_of_k.
struct alignas(16) km_margin {
    unsigned slope[2], least[2];
};

struct km_prepared : km_prepared_base {
    uint4 fragments[ROW_TILES_MAX][FRAGMENTS][32]; // of the centroids
    float centroids[SUM_ROWS_MAX * D];
    km_margin margin[8]; // of each quad
    unsigned queue_bits
        [8]; // of each quad: which of its Ks it queues points for; bits 0 and 2, 1 and 3 of each byte
};

struct km_preparation : km_prepared, km_preparation_base {
    float midpoint[PREPARERS / 32][D];
};

template <typename LAUNCH> struct km_block : km_prepared {
    alignas(16) long long sums[LAUNCH::SUM_ROWS * (D + 1)];
    km_warp warps[WARPS];
    const uint4 *tiles; // the first one; needed too rarely for a register
};
//@ end

//@ def form_load
//@ use halves low_half rounding point_halves columns
static __device__ __forceinline__ void km_put_factors(km_tile &tile, const km_pass_args &, const float *z,
                                                      bool beyond, double) {
    km_put_halves(tile, beyond, [&](int f) { return z[f]; });
}

//@ use byte_load
//@ end
//@ def form_prepare
//@ use factor_halves
// Writes a quarter of a row of fragments: scaled factors of D features, and where sums start.
template <typename Factor>
static __device__ __forceinline__ void km_write_row(km_preparation &shared, int quad, int score_row, int t,
                                                    Factor factor, float start) {
    km_write_halves(shared, quad, score_row, t, factor);
    for (int point = 0; point < 2; point++)
        ((unsigned *)&shared.fragments[score_row / 2][EIGHTS][quad * 4 + t])[score_row % 2 * 2 + point] =
            __float_as_uint(start);
}

// A row without a centroid. In a segment without a K one row has the largest score: a single candidate.
static __device__ __forceinline__ void km_clear_row(km_preparation &shared, int quad, int score_row, int t) {
    const bool high = score_row == 0 || score_row == shared.launch.first_rows;
    km_write_row(
        shared, quad, score_row, t, [](int) { return 0.0f; }, high ? 1.25f * BINADE : BINADE);
}

static __device__ __forceinline__ void km_clear_prepared(km_preparation &shared, const km_pass_args &) {
    for (int i = threadIdx.x; i < 8; i += PREPARERS) {
        shared.queue_bits[i] = 0;
        shared.margin[i] = {{0, 0}, {MARGIN_BASE + 0x10001, MARGIN_BASE + 0x10001}};
    }
}

// The largest distance of two centroids of a K, each feature in units of 2^e.
static __device__ double km_find_spread(const km_preparation &shared, const float *c,
                                        const unsigned char *dominated, int k) {
    double largest = 0;
    KM_UNROLL_1_FOR (int pair = threadIdx.x % 32; pair < k * k; pair += 32) {
        const int i = pair / k, j = pair % k;
        if (i >= j || dominated[i] || dominated[j]) continue;
        double square = 0;
        KM_UNROLL_2_FOR (int f = 0; f < D; f++) {
            const double away = ((double)c[i * D + f] - (double)c[j * D + f]) * shared.extent[f];
            square = fma(away, away, square);
        }
        largest = fmax(largest, square);
    }
    return sqrt(km_warp_max(largest));
}

//@ use score_rows margin
// Prepares one K, by one warp: fragments, margin, masks of quads.
static __device__ void km_prepare(km_preparation &shared, const float *c, int k_index) {
    const km_k_layout layout = km_k_layouts[k_index];
    const int k = km_ks[k_index];
    float *midpoint = shared.midpoint[threadIdx.x / 32];
    const unsigned char *dominated = shared.dominated + layout.sum_row;
    km_find_dominated(shared, c, layout, k);
    km_scale scale = km_find_scale(shared, midpoint, c, dominated, k);
    const km_margin_of_k margin = km_find_margin(scale, km_find_spread(shared, c, dominated, k));
    const auto begin_quad = [&](int quad, int segment, bool whole_quad) {
        if (quad == layout.quad) atomicOr(&shared.queue_bits[quad], segment ? 0x0a0a0a0a : 0x05050505);
        for (int s = 0; s < 2; s++) {
            if (s != segment && !whole_quad) continue;
            shared.margin[quad].slope[s] = margin.slope;
            shared.margin[quad].least[s] = margin.least;
        }
    };
    km_write_rows(shared, c, midpoint, k_index, threadIdx.x % 32, 32, scale, begin_quad);
}

//@ end
//@ def form_clear
template <typename LAUNCH>
static __device__ __forceinline__ void km_clear_block(km_block<LAUNCH> &shared, const km_pass_args &args) {
    if (threadIdx.x == 0) shared.tiles = (const uint4 *)km_tiles(args);
    for (int i = threadIdx.x; i < LAUNCH::SUM_ROWS * (D + 1); i += BLOCK) shared.sums[i] = 0;
}

//@ end
//@ def form_resolve
//@ use byte_resolve
//@ end
//@ def form_assign
//@ use prmt ldmatrix_x4 mma_f16 half2_sub half2_fma read_shared_4 largest fragments
// What a lane keeps of its quad's Ks.
struct km_lane {
    unsigned same_k[4];
    //@ if track_labels
    int k_index[2];
    //@ end
    unsigned margin; // shared address of the quads' margins
};

//@ if track_labels
//@ use byte_point_of add_changes
//@ end
//@ use byte_assign
template <typename LAUNCH> static __device__ km_lane km_lane_of(const km_block<LAUNCH> &shared) {
    km_lane own;
    km_read_quad(own, shared);
    own.margin = km_shared_address(shared.margin);
    return own;
}

// Where a lane reads in a tile, as shared addresses: points, their |r|, digits.
struct km_tile_addresses {
    unsigned points, errors, digits;
};

static __device__ __forceinline__ km_tile_addresses km_find_addresses(unsigned ring) {
    const unsigned lane = threadIdx.x % 32, tile = ring - lane * (unsigned)sizeof(uint4);
    const unsigned digits = tile + sizeof(uint4[EIGHTS][TILE]),
                   errors = digits + sizeof(uint2[SUM_TILES][32]);
    const unsigned row = lane % 8 + lane / 16 * 8 + lane / 8 % 2 * (EIGHTS - 1) * TILE;
    return {tile + row * (unsigned)sizeof(uint4), errors + lane % 4 * (unsigned)sizeof(uint4),
            digits + lane * (unsigned)sizeof(uint2)};
}

// The scores of a row tile, two points in a register, for WIDTH columns of points.
static __device__ __forceinline__ void km_score(unsigned (*scores)[WIDTH], const km_fragments *fragments,
                                                int tile, const unsigned (*points)[2]) {
    float sums[WIDTH][4];
    const uint4 start = km_fragment(fragments, tile, EIGHTS);
    const float starts[4] = {__uint_as_float(start.x), __uint_as_float(start.y), __uint_as_float(start.z),
                             __uint_as_float(start.w)};
    KM_UNROLL_FOR (int k = 0; k < EIGHTS; k++) {
        const uint4 fragment = km_fragment(fragments, tile, k);
        const unsigned a[4] = {fragment.x, fragment.y, fragment.z, fragment.w};
        KM_UNROLL_FOR (int c = 0; c < WIDTH; c++) km_mma_f16(sums[c], a, points[c], k ? sums[c] : starts);
    }
    KM_UNROLL_FOR (int r = 0; r < 2; r++)
        KM_UNROLL_FOR (int c = 0; c < WIDTH; c++)
            scores[r][c] =
                km_prmt<0x6521>(__float_as_uint(sums[c][2 * r]), __float_as_uint(sums[c][2 * r + 1]));
}

// Finds the candidates of a tile, which is `stage` bytes behind the first one of the ring: masks of four points each,
// candidates[score_row][half of the tile]. Returns whether the lane has seen an outlier.
template <typename LAUNCH>
static __device__ __forceinline__ bool
km_find_candidates(unsigned (*candidates)[MASKS], const km_fragments *fragments,
                   const km_tile_addresses &addresses, unsigned stage, const km_lane &own) {
    const uint4 read = km_read_shared_4(addresses.errors + stage);
    const unsigned errors[4] = {read.x, read.y, read.z, read.w};
    KM_UNROLL_FOR (int first = 0; first < 4; first += WIDTH) {
        unsigned points[WIDTH][2], scores[LAUNCH::SCORE_ROWS][WIDTH], limits[WIDTH][2];
        KM_UNROLL_FOR (int c = 0; c < WIDTH; c += 2)
            km_ldmatrix_x4(points[c], addresses.points + stage + 8 * (first + c) * (unsigned)sizeof(uint4));
        KM_UNROLL_FOR (int i = 0; i < LAUNCH::ROW_TILES; i++) {
            if (TIGHT && i > 0) __syncwarp(); // else the compiler reads too much ahead
            km_score(scores + 2 * i, fragments, i, points);
        }
        // With more than 8 features the sums leave no register for the address.
        const unsigned thread = EIGHTS > 1 ? km_opaque(threadIdx.x) : threadIdx.x;
        const uint4 margin = km_read_shared_4(own.margin + thread % 32 / 4 * (unsigned)sizeof(km_margin));
        KM_UNROLL_FOR (int c = 0; c < WIDTH;
                       c++) { // limits: the largest score that is too small for a candidate
            km_find_largest<LAUNCH>(limits[c], scores, c, own.same_k);
            limits[c][0] += LIMIT_BASE - km_half2_fma(errors[first + c], margin.x, margin.z);
            limits[c][1] += LIMIT_BASE - km_half2_fma(errors[first + c], margin.y, margin.w);
        }
        KM_UNROLL_FOR (int s = 0; s < LAUNCH::SCORE_ROWS; s++)
            KM_UNROLL_FOR (int c = 0; c < WIDTH; c += 2) {
                const int segment = s >= LAUNCH::FIRST_ROWS;
                candidates[s][(first + c) / 2] =
                    km_prmt<0xfdb9>(km_half2_sub(limits[c][segment], scores[s][c]),
                                    km_half2_sub(limits[c + 1][segment], scores[s][c + 1]));
            }
    }
    return (errors[0] | errors[1] | errors[2] | errors[3]) & 0x80008000;
}

// Sums of a warp, negative: of the digits of each feature; of masks, as km_add_masks adds them.
template <typename LAUNCH> struct km_sums {
    int of[LAUNCH::ROW_TILES][SUM_TILES][4];
    unsigned masks[LAUNCH::SCORE_ROWS];
};

template <typename LAUNCH>
static __device__ __forceinline__ void km_count_points(km_sums<LAUNCH> &sums,
                                                       const unsigned (*candidates)[MASKS]) {
    KM_UNROLL_FOR (int s = 0; s < LAUNCH::SCORE_ROWS; s++)
        sums.masks[s] += candidates[s][0] + candidates[s][1];
}

//@ use move_up
// Adds the counts of points to the block's sums.
template <typename LAUNCH>
static __device__ __forceinline__ void km_flush_counts(km_sums<LAUNCH> &sums, km_block<LAUNCH> &shared) {
    constexpr unsigned OVER_255 = 0xfefefeff;              // times 255: 1
    const unsigned quad = km_opaque(threadIdx.x % 32 / 4); // no address is worth a register between two calls
    KM_UNROLL_1_FOR (int s = 0; s < LAUNCH::SCORE_ROWS; s++) {
        const int row = shared.sum_row[quad][s];
        const unsigned count = __dp4a(sums.masks[0] * OVER_255, 0x01010101u, 0u); // the sum of four bytes
        km_move_up<LAUNCH::SCORE_ROWS, 1>(sums.masks);
        if (row >= 0) km_add_long(shared.sums + row * (D + 1) + D, count);
    }
}

template <typename LAUNCH>
static __device__ __forceinline__ void km_flush(km_sums<LAUNCH> &sums, km_block<LAUNCH> &shared) {
    km_flush_bytes(sums.of, shared);
    km_flush_counts(sums, shared);
}

template <typename LAUNCH>
static __device__ __forceinline__ auto km_tile_source(const km_block<LAUNCH> &shared, const km_pass_args &) {
    return [&shared](int tile) { return shared.tiles + threadIdx.x % 32 + tile * (long long)TILE_SIZE; };
}

//@ use byte_walk
//@ end
//@ def form_write_sums
//@ use write_columns
//@ end
//@ def form_reduce
//@ use reduce_columns
//@ end

// SPDX-License-Identifier: MIT
// Form distance: distances in half precision, sums of int8 digits.

//@ def form_text
// Distances instead of scores: with |x|^2 / 2 among the products of a point, a row gives
//     distance_j = |x|^2 / 2 - x . c_j + |c_j|^2 / 2 + bias = |x - c_j|^2 / 2 + bias.
// This is small for near centroids, where half precision tells centroids apart about as well as 15 bits of a score do.
// And a product leaves two points in a register. Every row of a K gets the same |x|^2 / 2, however it was rounded.
//
// Products are added in at least 24 bits, and a distance is rounded once, at the end: rounding keeps the order of two
// numbers. The error before that is less than half a unit of the bias, and no distance is below the bias. So the
// nearest centroid is at most one unit above the smallest distance: all centroids within that are candidates.
//
// Sums: masks, in which a candidate's byte is -1, times the int8 digits of the integers of 24 bits.
//@ end
//@ def form_numbers
enum {
    LANE_D = (D + 3) / 4, // features of a lane: every fourth, from lane % 4 on
    FRAGMENTS = LANE_D,   // of a row tile
    DIGITS = 3 * D,       // int8 digits of a point
    COUNT_COLUMNS = 1, // of sums, beside those of coordinates: a count; two columns of a tile hold |x|^2 / 2
    SQUARE_COLUMNS = 2,
    SUM_TILES = (DIGITS + COUNT_COLUMNS + SQUARE_COLUMNS + 7) / 8, // column tiles of sums: eight columns each
    MASKS = 2,           // of a lane and row of scores, for four points each
    FLUSH_TILES = 65536, // tiles of a warp after which sums are flushed: 2^21 points
    STEP_TILES = 1,      // tiles that are worked on at a time
    NORMS = 1,           // of which a load finds the largest: |x|
    RESOLVE_AHEAD = D,   // features at a time when an ambiguous point is added
    FETCHERS = 32,       // threads that fetch the centroids of a K
    UNITS = 2,           // above the smallest distance: the first that is too large for a candidate
    SQUARE_BITS = 10,    // |x|^2 / 2 is scaled to less than 2^10 in the whole lattice
    DISTANCE_BITS = 15,  // distances without the bias are scaled to less than 2^15
    BIAS_MAX = 8192,
    REDUCE = 1024 // threads of a block of km_reduce
};
constexpr unsigned ONES = 0x3c003c00;           // 1 and 1 in half precision
constexpr float NEARER = 1024, FARTHER = 49152; // distances of rows without a centroid
//@ end

//@ def form_memory
// 32 points in the layout of operands of matrix products: what lane 4 n + t holds of them.
struct km_tile {
    uint4 points[LANE_D][32]; // fp16 hi and lo of feature 4 i + t of points n, 8 + n, 16 + n, 24 + n
    uint2 digits[SUM_TILES]
                [32]; // digits of eight points; the last two columns: |x|^2 / 2, negative: outliers
};

//@ use warp_memory
struct km_prepared : km_prepared_base {
    uint4 fragments[ROW_TILES_MAX][FRAGMENTS][32]; // of the centroids
    float centroids[SUM_ROWS_MAX * D];
    unsigned minus_zero; // in halves; read from here, so that it stays in a register
    unsigned queue_bits
        [8]; // of each quad: which of its Ks it queues points for; bits 0 and 2, 1 and 3 of each byte
};

struct km_preparation : km_prepared, km_preparation_base {};

template <typename LAUNCH> struct km_block : km_prepared {
    alignas(16) long long sums[SUM_ROWS_MAX * (D + 1)];
    km_warp warps[WARPS];
};
//@ end

//@ def form_load
//@ use halves hi_lo_of columns
// The exponent of a power of two above |x|^2 / 2 of all points in the lattice, which is `extent(f)` wide in a feature.
template <typename Extent> static __device__ int km_square_exponent(Extent extent) {
    double square = 0;
    for (int f = 0; f < D; f++) square += extent(f) * extent(f);
    return km_exponent(square / 2, -400);
}

// Writes the fp16 hi and lo of a point in the lattice, and |x|^2 / 2; -0: an outlier.
static __device__ __forceinline__ void km_put_factors(km_tile &tile, const km_pass_args &args, const float *z,
                                                      bool beyond, double square) {
    const int lane = threadIdx.x % 32, n = lane % 8;
    KM_UNROLL_FOR (int f = 0; f < 4 * LANE_D; f++) {
        unsigned *words = (unsigned *)&tile.points[f / 4][n * 4 + f % 4];
        words[lane / 8] = f < D ? km_hi_lo_of(z[f % D]) : 0;
    }
    const int exponent = km_square_exponent([&](int f) { return km_power_of_2(km_exponents(args)[f]); });
    const float half_square = (float)(square * (0.5 * km_power_of_2(SQUARE_BITS - exponent)));
    unsigned short *squares = (unsigned short *)&tile.digits[SUM_TILES - 1][24 + n];
    squares[lane / 8] = (unsigned short)km_halves(beyond ? -0.0f : half_square, 0);
}

//@ use byte_load
//@ end
//@ def form_prepare
//@ use low_half warp_max
// Writes the quarter of a row of fragments that lanes with lane % 4 = t hold: factors of D features, a piece of the
// constant, and the factor of |x|^2 / 2.
template <typename Factor>
static __device__ __forceinline__ void km_write_row(km_preparation &shared, int quad, int score_row, int t,
                                                    Factor factor, float constant, float of_square) {
    float piece = km_low_half(km_halves(constant, 0)); // of three pieces, in lanes 0, 1 and 3
    for (int i = 0; i < t - t / 3; i++) {
        constant -= piece;
        piece = km_low_half(km_halves(constant, 0));
    }
    const float value = t < D ? factor(t) : 0, high = km_low_half(km_halves(value, 0));
    unsigned *words = (unsigned *)&shared.fragments[score_row / 2][0][quad * 4 + t] + score_row % 2;
    words[0] = km_halves(high, high);
    words[2] = km_halves(value - high, t == 2 ? of_square : piece);
}

// A row without a centroid. In a segment without a K one row has the largest score: a single candidate.
static __device__ __forceinline__ void km_clear_row(km_preparation &shared, int quad, int score_row, int t) {
    const bool nearer = score_row == 0 || score_row == shared.launch.first_rows;
    km_write_row(
        shared, quad, score_row, t, [](int) { return 0.0f; }, nearer ? NEARER : FARTHER, 0);
}

static __device__ __forceinline__ void km_clear_prepared(km_preparation &shared, const km_pass_args &) {
    if (threadIdx.x == 0) shared.minus_zero = 0x80008000;
    for (int i = threadIdx.x; i < 8; i += PREPARERS) shared.queue_bits[i] = 0;
}

// The scale of a K's distances. of_square, the factor of |x|^2 / 2, is 0 where half precision cannot hold them: then
// every point is ambiguous.
struct km_scale {
    double factor, bias, of_square;
};

static __device__ km_scale km_find_scale(const km_preparation &shared, const float *c,
                                         const unsigned char *dominated, int k) {
    double farthest = 0, in_lattice = 0, largest = 0.5 * shared.radius * shared.radius;
    KM_UNROLL_1_FOR (int j = threadIdx.x % 32; j < k; j += 32) {
        if (dominated[j]) continue;
        double square = 0, box = 0, sum = 0;
        KM_UNROLL_2_FOR (int f = 0; f < D; f++) {
            const double away = fabs((double)c[j * D + f]), extent = shared.extent[f];
            box = fma(extent + away, extent + away, box);
            square = fma(away, away, square);
            sum = fma(extent, away, sum);
            largest = fmax(largest, extent * away);
        }
        const double ball = shared.radius + sqrt(square);
        farthest = fmax(farthest, 0.5 * fmin(box, ball * ball));
        in_lattice = fmax(in_lattice, sum);
        largest = fmax(largest, 0.5 * square);
    }
    farthest = km_warp_max(farthest);
    in_lattice = km_warp_max(in_lattice);
    largest = km_warp_max(largest);
    const int exponent = km_exponent(farthest, -400);
    const int squares = km_square_exponent([&](int f) { return shared.extent[f]; });
    km_scale scale = {km_power_of_2(DISTANCE_BITS - exponent), 0,
                      km_power_of_2(DISTANCE_BITS - exponent + squares - SQUARE_BITS)};

    // The error of a distance before it is rounded: from rounding to the lattice, products of halves, at most 20
    // truncated additions, and the constant. The bias leaves room for the rounding of |x|^2 / 2.
    const double halves = 2 * in_lattice * scale.factor * km_power_of_2(-21);
    const double error = halves + 20 * km_power_of_2(km_exponent(largest * scale.factor) - 23) + 0.004;
    scale.bias = km_power_of_2(km_exponent(2048 * error));
    const bool representable = largest * scale.factor < 60000 && scale.bias <= BIAS_MAX &&
                               scale.of_square >= km_power_of_2(-14) && scale.of_square <= km_power_of_2(15);
    if (!representable) scale.of_square = 0;
    return scale;
}

// Prepares one K, by one warp: fragments, masks of quads.
static __device__ void km_prepare(km_preparation &shared, const float *c, int k_index) {
    const km_k_layout layout = km_k_layouts[k_index];
    const int k = km_ks[k_index];
    const unsigned char *dominated = shared.dominated + layout.sum_row;
    km_find_dominated(shared, c, layout, k);
    const km_scale scale = km_find_scale(shared, c, dominated, k);
    const bool representable = scale.of_square > 0;
    const auto write_row = [&](int quad, int score_row, int t, int j) {
        const auto factor = [&](int f) {
            return (float)(-(double)c[j * D + f] * shared.extent[f] * scale.factor);
        };
        const auto zero = [](int) { return 0.0f; };
        if (j < 0 || !representable) {
            km_write_row(shared, quad, score_row, t, zero, j >= 0 ? NEARER : FARTHER, 0);
            return;
        }
        double constant = 0;
        KM_UNROLL_2_FOR (int f = 0; f < D; f++)
            constant = fma(0.5 * c[j * D + f], (double)c[j * D + f], constant);
        constant = constant * scale.factor + scale.bias + 32;
        km_write_row(shared, quad, score_row, t, factor, (float)constant, (float)scale.of_square);
    };
    km_for_score_rows(shared, k_index, threadIdx.x % 32, 32, write_row, [&](int quad, int segment, bool) {
        if (quad == layout.quad) atomicOr(&shared.queue_bits[quad], segment ? 0x0a0a0a0a : 0x05050505);
    });
}

//@ end
//@ def form_clear
template <typename LAUNCH>
static __device__ __forceinline__ void km_clear_block(km_block<LAUNCH> &shared, const km_pass_args &) {
    for (int i = threadIdx.x; i < LAUNCH::SUM_ROWS * (D + 1); i += BLOCK) shared.sums[i] = 0;
}

//@ end
//@ def form_resolve
//@ use byte_resolve
//@ end
//@ def form_assign
//@ use prmt mma_f16_half half2_add half2_sub half2_min read_shared_4 fragments
// What a lane keeps of its quad's Ks.
struct km_lane {
    unsigned same_k[4];
    //@ if track_labels
    int k_index[2];
    //@ end
    unsigned square,
        one; // masks for its operand of points: ALL in the lane with the square; ONES in the others
    unsigned minus_zero;
};

//@ if track_labels
//@ use byte_point_of add_changes
//@ end
//@ use byte_assign
template <typename LAUNCH> static __device__ km_lane km_lane_of(const km_block<LAUNCH> &shared) {
    km_lane own;
    const int lane = threadIdx.x % 32;
    km_read_quad(own, shared);
    own.square = km_opaque(lane % 4 == 2 ? ALL : 0);
    own.one = km_opaque(lane % 4 == 2 ? 0 : ONES);
    own.minus_zero = shared.minus_zero;
    return own;
}

// The limits of distances, from which on a centroid is no candidate, for the points of one column: limits[0] of the
// first segment, limits[1] of the second.
template <typename LAUNCH>
static __device__ __forceinline__ void km_find_limits(unsigned *limits, const unsigned (*distances)[2], int c,
                                                      const km_lane &own) {
    constexpr unsigned units = UNITS * 0x10001;
    unsigned smallest = distances[0][c];
    KM_UNROLL_FOR (int s = 1; s < LAUNCH::FIRST_ROWS; s++) smallest = km_half2_min(smallest, distances[s][c]);
    if (int(LAUNCH::FIRST_ROWS) < int(LAUNCH::SCORE_ROWS)) {
        unsigned other = distances[LAUNCH::FIRST_ROWS % LAUNCH::SCORE_ROWS][c];
        KM_UNROLL_FOR (int s = LAUNCH::FIRST_ROWS + 1; s < LAUNCH::SCORE_ROWS; s++)
            other = km_half2_min(other, distances[s][c]);
        smallest = km_half2_min(smallest, other | ~own.same_k[0]);
        limits[0] = smallest + units;
        limits[1] = (limits[0] & own.same_k[0]) | ((other + units) & ~own.same_k[0]);
    } else {
        KM_UNROLL_FOR (int level = 0; level < LAUNCH::LEVELS; level++)
            smallest =
                km_half2_min(smallest, __shfl_xor_sync(ALL, smallest, 4 << level) | ~own.same_k[1 + level]);
        limits[0] = limits[1] = smallest + units;
    }
}

// Finds the candidates of half of the points: masks of four points each, candidates[score_row][half].
template <typename LAUNCH>
static __device__ __forceinline__ void
km_find_candidates_of_half(unsigned (*candidates)[MASKS], int half, const km_fragments *fragments,
                           const unsigned *points, unsigned squares, const km_lane &own) {
    unsigned distances[LAUNCH::SCORE_ROWS][2], limits[2][2];
    const unsigned fourth = (squares & own.square) | own.one, zeros[2] = {0, 0};
    // Adding -0 copies on another pipe than moves use, which has time.
    const unsigned factors[2][2] = {
        {km_half2_add(points[0], own.minus_zero), km_prmt<0x5410>(points[0], fourth)},
        {km_half2_add(points[1], own.minus_zero), km_prmt<0x7610>(points[1], fourth)}};
    KM_UNROLL_FOR (int i = 0; i < LAUNCH::ROW_TILES; i++) {
        const uint4 fragment = km_fragment(fragments, i, 0);
        const unsigned a[4] = {fragment.x, fragment.y, fragment.z, fragment.w};
        KM_UNROLL_FOR (int c = 0; c < 2; c++) {
            unsigned rows[2];
            km_mma_f16_half(rows, a, factors[c], zeros);
            distances[2 * i][c] = rows[0];
            distances[2 * i + 1][c] = rows[1];
        }
    }
    KM_UNROLL_FOR (int c = 0; c < 2; c++) km_find_limits<LAUNCH>(limits[c], distances, c, own);
    KM_UNROLL_FOR (int s = 0; s < LAUNCH::SCORE_ROWS; s++)
        candidates[s][half] =
            km_prmt<0xfdb9>(km_half2_sub(distances[s][0], limits[0][s >= LAUNCH::FIRST_ROWS]),
                            km_half2_sub(distances[s][1], limits[1][s >= LAUNCH::FIRST_ROWS]));
}

// Where a lane reads in a tile, as shared addresses: points, squares, digits.
struct km_tile_addresses {
    unsigned points, squares, digits;
};

static __device__ __forceinline__ km_tile_addresses km_find_addresses(unsigned ring) {
    const unsigned lane = threadIdx.x % 32;
    const unsigned digits = ring - lane * (unsigned)sizeof(uint4) + sizeof(uint4[LANE_D][32]);
    return {ring, km_opaque(digits + (32 * (SUM_TILES - 1) + 24 + lane / 4) * (unsigned)sizeof(uint2)),
            km_opaque(digits + lane * (unsigned)sizeof(uint2))};
}

// Finds the candidates of a tile, which is `stage` bytes behind the first one of the ring: candidates[score_row][half].
// Returns whether the lane has seen an outlier.
template <typename LAUNCH>
static __device__ __forceinline__ bool
km_find_candidates(unsigned (*candidates)[MASKS], const km_fragments *fragments,
                   const km_tile_addresses &addresses, unsigned stage, const km_lane &own) {
    const uint4 points = km_read_shared_4(addresses.points + stage);
    const uint2 squares = km_read_shared_2(addresses.squares + stage);
    const unsigned words[4] = {points.x, points.y, points.z, points.w};
    km_find_candidates_of_half<LAUNCH>(candidates, 0, fragments, words, squares.x, own);
    km_find_candidates_of_half<LAUNCH>(candidates, 1, fragments, words + 2, squares.y, own);
    return (squares.x | squares.y) & 0x80008000;
}

// Sums of a warp, negative: of the digits of each feature, of ones.
template <typename LAUNCH> struct km_sums { int of[LAUNCH::ROW_TILES][SUM_TILES][4]; };

template <typename LAUNCH>
static __device__ __forceinline__ void km_flush(km_sums<LAUNCH> &sums, km_block<LAUNCH> &shared) {
    km_flush_bytes(sums.of, shared);
}

//@ use tile_source byte_walk
//@ end
//@ def form_write_sums
//@ use write_columns
//@ end
//@ def form_reduce
//@ use reduce_columns
//@ end

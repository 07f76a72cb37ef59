// SPDX-License-Identifier: MIT
// Form distance: distances in half precision, sums of bytes.

//@ def form_text
// Scores: with |x|^2 / 2 among the products of a point, a row gives
//     distance_j = |x|^2 / 2 - x . c_j + |c_j|^2 / 2 + bias = |x - c_j|^2 / 2 + bias,
// which is small where it matters: half precision tells near centroids apart about as well as 15 bits of a score do,
// and a product leaves two points in a register. Every row of a K gets the same |x|^2 / 2, however it was rounded.
// Products are added in at least 24 bits, so that a distance is rounded once, at the end, and no rounding changes the
// order of two numbers. What is off before that is less than half a unit of the bias, and no distance is below the
// bias: the nearest centroid is at most one unit above the smallest distance. All of those are candidates.
//
// Sums: a candidate's byte is 0xff, -1; the integers of 24 bits are bytes too, from -128 to 127 each.
//@ end
//@ def form_numbers
enum {
    LANE_D = (D + 3) / 4, // features of a lane: lane % 4 says which
    FRAGMENTS = LANE_D,   // of a tile of rows
    DIGITS = 3 * D,       // bytes of a point's integers
    COUNT_COLUMNS = 1,    // of sums, beside those of coordinates: a count, and two that hold |x|^2 / 2
    SQUARE_COLUMNS = 2,
    SUM_TILES = (DIGITS + COUNT_COLUMNS + SQUARE_COLUMNS + 7) / 8, // columns of sums, in eights
    MASKS = 2,                                                     // of a lane and slot, for four points each
    CHUNK_TILES = 65536, // so many points of a warp fit sums of bytes: 2^21
    STEP_TILES = 1,      // tiles that are worked on at a time
    NORMS = 1,           // that a load finds the largest of: |x|
    RESOLVE_AHEAD = D,   // features at a time when an ambiguous point is added
    FETCHERS = 32,       // threads that fetch the centroids of a K
    UNITS = 2,           // from the smallest distance to the first of no candidate
    SQUARE_BITS = 10,    // |x|^2 / 2 of the farthest in_lattice of the lattice is less than 2^10 as a half
    DISTANCE_BITS = 15,  // the largest distance, without its bias, is less than 2^15
    BIAS_MAX = 8192,
    REDUCE = 1024 // threads of a block of km_reduce
};
constexpr unsigned ONES = 0x3c003c00;           // 1 and 1 in half precision
constexpr float NEARER = 1024, FARTHER = 49152; // of rows without a centroid
//@ end

//@ def form_memory
// Points as matrix products take them; lane 4 n + t holds, of each, what its column n and its rows take.
struct km_tile {
    uint4 points[LANE_D][32]; // the halves of feature 4 i + t of points n, 8 + n, 16 + n, 24 + n
    uint2 digits[SUM_TILES]
                [32]; // a byte of each of eight points; the last two columns: |x|^2 / 2, negative: outliers
};

//@ use warp_memory
template <typename LAUNCH> struct km_block : km_shared<LAUNCH> {
    uint4 fragments[LAUNCH::TILES][FRAGMENTS][32]; // centroids, as matrix products take them
    long long sums[LAUNCH::ROWS * (D + 1)];
    km_warp warps[WARPS];
    float centroids[LAUNCH::ROWS * D];
    unsigned minus_zero; // in halves: what comes from here stays in a register
    unsigned asks[8];    // which Ks of a quad send points to the queue: bit 0 and bit 1 of each byte
};
//@ end

//@ def form_load
//@ use halves halves_of
// The exponent of what |x|^2 / 2 is less than in the lattice, whose extent in each feature is `extent(f)`.
template <typename Extent> static __device__ int km_square_exponent(Extent extent) {
    double square = 0;
    for (int f = 0; f < D; f++) square += extent(f) * extent(f);
    return km_exponent(square / 2, -400);
}

// Writes the halves of a point in the lattice, and its square. Negative: an outlier.
static __device__ __forceinline__ void km_put_factors(km_tile &tile, const km_pass_args &args, const float *z,
                                                      bool beyond, double square) {
    const int lane = threadIdx.x % 32, n = lane % 8;
    KM_UNROLL_FOR (int f = 0; f < 4 * LANE_D; f++) {
        unsigned *words = (unsigned *)&tile.points[f / 4][n * 4 + f % 4];
        words[lane / 8] = f < D ? km_halves_of(z[f % D]) : 0;
    }
    const int exponent = km_square_exponent([&](int f) { return km_power(km_exponents(args)[f]); });
    const float half_square = (float)(square * (0.5 * km_power(SQUARE_BITS - exponent)));
    unsigned short *squares = (unsigned short *)&tile.digits[SUM_TILES - 1][24 + n];
    squares[lane / 8] = (unsigned short)km_halves(beyond ? -0.0f : half_square, 0);
}

//@ use byte_load
//@ end
//@ def form_prepare
//@ use low_half warp_max
// Writes a quarter of a row of the fragments, the part of the lanes with lane % 4 = t: factors of D features, a
// piece of the constant, and what a square counts.
template <typename LAUNCH, typename Factor>
static __device__ __forceinline__ void km_write_row(km_block<LAUNCH> &shared, int quad, int slot, int t,
                                                    Factor factor, float constant, float of_square) {
    float piece = km_low_half(km_halves(constant, 0)); // lanes 0, 1 and 3 have a piece each
    for (int i = 0; i < t - t / 3; i++) {
        constant -= piece;
        piece = km_low_half(km_halves(constant, 0));
    }
    const float value = t < D ? factor(t) : 0, high = km_low_half(km_halves(value, 0));
    unsigned *words = (unsigned *)&shared.fragments[slot / 2][0][quad * 4 + t] + slot % 2;
    words[0] = km_halves(high, high);
    words[2] = km_halves(value - high, t == 2 ? of_square : piece);
}

// A row of no centroid; a lane without a K has one candidate.
template <typename LAUNCH>
static __device__ __forceinline__ void km_clear_row(km_block<LAUNCH> &shared, int quad, int slot, int t) {
    const bool nearer = slot == 0 || slot == LAUNCH::FIRST;
    km_write_row(
        shared, quad, slot, t, [](int) { return 0.0f; }, nearer ? NEARER : FARTHER, 0);
}

template <typename LAUNCH>
static __device__ __forceinline__ void km_clear(km_block<LAUNCH> &shared, const km_pass_args &) {
    if (threadIdx.x == 0) shared.minus_zero = 0x80008000;
    for (int i = threadIdx.x; i < LAUNCH::ROWS * (D + 1); i += BLOCK) shared.sums[i] = 0;
    for (int i = threadIdx.x; i < 8; i += BLOCK) shared.asks[i] = 0;
}

// How the distances of a K are scaled. `of_square` 0: half precision cannot hold them, and every point is ambiguous.
struct km_scale {
    double factor, bias, of_square;
};

template <typename LAUNCH>
static __device__ km_scale km_find_scale(const km_block<LAUNCH> &shared, const float *c,
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
    km_scale scale = {km_power(DISTANCE_BITS - exponent), 0,
                      km_power(DISTANCE_BITS - exponent + squares - SQUARE_BITS)};

    // The error of a distance before it is rounded: of the lattice and of the halves' products, of at most 20 truncated
    // additions, and of the constant. The bias leaves room for the rounding of |x|^2 / 2.
    const double halves = 2 * in_lattice * scale.factor * km_power(-21);
    const double error = halves + 20 * km_power(km_exponent(largest * scale.factor) - 23) + 0.004;
    scale.bias = km_power(km_exponent(2048 * error));
    const bool held = largest * scale.factor < 60000 && scale.bias <= BIAS_MAX &&
                      scale.of_square >= km_power(-14) && scale.of_square <= km_power(15);
    if (!held) scale.of_square = 0;
    return scale;
}

// Of one K, by one warp: fragments, links.
template <typename LAUNCH>
static __device__ void km_prepare(km_block<LAUNCH> &shared, const float *c, int k_index) {
    const km_place place = km_places[k_index];
    const int k = km_ks[k_index];
    const unsigned char *dominated = shared.dominated + place.row;
    km_find_dominated(shared, c, place, k);
    const km_scale scale = km_find_scale(shared, c, dominated, k);
    const bool held = scale.of_square > 0;
    const auto write_row = [&](int quad, int slot, int t, int j) {
        const auto factor = [&](int f) {
            return (float)(-(double)c[j * D + f] * shared.extent[f] * scale.factor);
        };
        const auto zero = [](int) { return 0.0f; };
        if (j < 0 || !held) {
            km_write_row(shared, quad, slot, t, zero, j >= 0 ? NEARER : FARTHER, 0);
            return;
        }
        double constant = 0;
        KM_UNROLL_2_FOR (int f = 0; f < D; f++)
            constant = fma(0.5 * c[j * D + f], (double)c[j * D + f], constant);
        constant = constant * scale.factor + scale.bias + 32;
        km_write_row(shared, quad, slot, t, factor, (float)constant, (float)scale.of_square);
    };
    km_for_rows(shared, k_index, threadIdx.x % 32, 32, write_row, [&](int quad, int segment, bool) {
        if (quad == place.quad) atomicOr(&shared.asks[quad], segment ? 0x0a0a0a0a : 0x05050505);
    });
}

//@ end
//@ def form_resolve
//@ use byte_resolve
//@ end
//@ def form_take
//@ use prmt mma_f16_half half2_add half2_sub half2_min read_shared_4 fragments
// What a lane knows of its quad's Ks.
struct km_lane {
    unsigned link[4];
    //@ if track_labels
    int k_index[2];
    //@ end
    unsigned square, one; // of its factors of points: ALL where it is the square, 1 where it is not
    unsigned minus_zero;
};

//@ if track_labels
//@ use byte_point_of tell_changes
//@ end
//@ use byte_take
template <typename LAUNCH> static __device__ km_lane km_lane_of(const km_block<LAUNCH> &shared) {
    km_lane own;
    const int lane = threadIdx.x % 32;
    km_know_quad(own, shared);
    own.square = km_opaque(lane % 4 == 2 ? ALL : 0);
    own.one = km_opaque(lane % 4 == 2 ? 0 : ONES);
    own.minus_zero = shared.minus_zero;
    return own;
}

// From where on a distance is of no candidate, for the points of one column: of the first slots, and of the others.
template <typename LAUNCH>
static __device__ __forceinline__ void km_find_limits(unsigned *limits, const unsigned (*distances)[2], int c,
                                                      const km_lane &own) {
    constexpr unsigned units = UNITS * 0x10001;
    unsigned smallest = distances[0][c];
    KM_UNROLL_FOR (int s = 1; s < LAUNCH::FIRST; s++) smallest = km_half2_min(smallest, distances[s][c]);
    if (int(LAUNCH::FIRST) < int(LAUNCH::SLOTS)) {
        unsigned other = distances[LAUNCH::FIRST % LAUNCH::SLOTS][c];
        KM_UNROLL_FOR (int s = LAUNCH::FIRST + 1; s < LAUNCH::SLOTS; s++)
            other = km_half2_min(other, distances[s][c]);
        smallest = km_half2_min(smallest, other | ~own.link[0]);
        limits[0] = smallest + units;
        limits[1] = (limits[0] & own.link[0]) | ((other + units) & ~own.link[0]);
    } else {
        KM_UNROLL_FOR (int level = 0; level < LAUNCH::LEVELS; level++)
            smallest =
                km_half2_min(smallest, __shfl_xor_sync(ALL, smallest, 4 << level) | ~own.link[1 + level]);
        limits[0] = limits[1] = smallest + units;
    }
}

// Which centroids are candidates, for half of the points: `candidates` [slot][half], a byte for each of four points.
template <typename LAUNCH>
static __device__ __forceinline__ void
km_find_candidates_of_half(unsigned (*candidates)[MASKS], int half, const km_fragments *fragments,
                           const unsigned *points, unsigned squares, const km_lane &own) {
    unsigned distances[LAUNCH::SLOTS][2], limits[2][2];
    const unsigned fourth = (squares & own.square) | own.one, zeros[2] = {0, 0};
    // A copy made on the other pipe.
    const unsigned factors[2][2] = {
        {km_half2_add(points[0], own.minus_zero), km_prmt<0x5410>(points[0], fourth)},
        {km_half2_add(points[1], own.minus_zero), km_prmt<0x7610>(points[1], fourth)}};
    KM_UNROLL_FOR (int i = 0; i < LAUNCH::TILES; i++) {
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
    KM_UNROLL_FOR (int s = 0; s < LAUNCH::SLOTS; s++)
        candidates[s][half] = km_prmt<0xfdb9>(km_half2_sub(distances[s][0], limits[0][s >= LAUNCH::FIRST]),
                                              km_half2_sub(distances[s][1], limits[1][s >= LAUNCH::FIRST]));
}

// Where in a tile a lane reads, in shared memory: points, squares, bytes.
struct km_places_in_tile {
    unsigned points, squares, digits;
};

static __device__ __forceinline__ km_places_in_tile km_find_places(unsigned ring) {
    const unsigned lane = threadIdx.x % 32;
    const unsigned digits = ring - lane * (unsigned)sizeof(uint4) + sizeof(uint4[LANE_D][32]);
    return {ring, km_opaque(digits + (32 * (SUM_TILES - 1) + 24 + lane / 4) * (unsigned)sizeof(uint2)),
            km_opaque(digits + lane * (unsigned)sizeof(uint2))};
}

// Which centroids are candidates in a tile, `stage` bytes from the first one of the ring: `candidates`
// [slot][half]. Gives whether a lane knows of an outlier.
template <typename LAUNCH>
static __device__ __forceinline__ bool
km_find_candidates(unsigned (*candidates)[MASKS], const km_fragments *fragments, const km_places_in_tile &at,
                   unsigned stage, const km_lane &own) {
    const uint4 points = km_read_shared_4(at.points + stage);
    const uint2 squares = km_read_shared_2(at.squares + stage);
    const unsigned words[4] = {points.x, points.y, points.z, points.w};
    km_find_candidates_of_half<LAUNCH>(candidates, 0, fragments, words, squares.x, own);
    km_find_candidates_of_half<LAUNCH>(candidates, 1, fragments, words + 2, squares.y, own);
    return (squares.x | squares.y) & 0x80008000;
}

// Sums of a warp, negative: of the bytes of each feature, of ones.
template <typename LAUNCH> struct km_sums { int of[LAUNCH::TILES][SUM_TILES][4]; };

template <typename LAUNCH>
static __device__ __forceinline__ void km_flush(km_sums<LAUNCH> &sums, km_block<LAUNCH> &shared) {
    km_flush_bytes(sums.of, shared);
}

//@ use source_of_lane byte_walk
//@ end
//@ def form_publish
//@ use publish_columns
//@ end
//@ def form_reduce
//@ use reduce_columns
//@ end

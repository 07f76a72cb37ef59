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
    PLANES = LANE_D,      // of a tile of rows
    LIMBS = 3 * D,        // bytes of a point's integers
    COUNT_COLUMNS = 1,    // of sums, beside those of coordinates: a count, and two that hold |x|^2 / 2
    SQUARE_COLUMNS = 2,
    SUM_TILES = (LIMBS + COUNT_COLUMNS + SQUARE_COLUMNS + 7) / 8, // columns of sums, in eights
    MASKS = 2,                                                    // of a lane and slot, for four points each
    CHUNK_TILES = 65536, // so many points of a warp fit sums of bytes: 2^21
    STEP_TILES = 1,      // tiles that are worked on at a time
    NORMS = 1,           // that a load finds the largest of: |x|
    RESOLVE_AHEAD = D,   // features at a time when an ambiguous point is added
    FETCHERS = 32,       // threads that fetch the centroids of a K
    UNITS = 2,           // from the smallest distance to the first of no candidate
    SQUARE_BITS = 10,    // |x|^2 / 2 of the farthest corner of the lattice is less than 2^10 as a half
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
    uint2 limbs[SUM_TILES]
               [32]; // a byte of each of eight points; the last two columns: |x|^2 / 2, negative: outliers
};

//@ use warp_memory
template <typename PART> struct km_block : km_shared<PART> {
    uint4 planes[PART::TILES][PLANES][32]; // centroids, as matrix products take them
    long long sums[PART::ROWS * (D + 1)];
    km_warp warps[WARPS];
    float centroids[PART::ROWS * D];
    unsigned minus_zero; // in halves: what comes from here stays in a register
    unsigned asks[8];    // which Ks of a quad send points to the queue: bit 0 and bit 1 of each byte
};
//@ end

//@ def form_load
//@ use halves halves_of
// The exponent of what |x|^2 / 2 is less than in the lattice, whose reach in each feature is `reach(f)`.
template <typename Reach> static __device__ int km_square_exponent(Reach reach) {
    double square = 0;
    for (int f = 0; f < D; f++) square += reach(f) * reach(f);
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
    unsigned short *squares = (unsigned short *)&tile.limbs[SUM_TILES - 1][24 + n];
    squares[lane / 8] = (unsigned short)km_halves(beyond ? -0.0f : half_square, 0);
}

//@ use byte_load
//@ end
//@ def form_prepare
//@ use low_half warp_max
// Writes a quarter of a row of the planes, the part of the lanes with lane % 4 = t: factors of D features, a piece of
// the constant, and what a square counts.
template <typename PART, typename Factor>
static __device__ __forceinline__ void km_write_row(km_block<PART> &shared, int group, int slot, int t,
                                                    Factor factor, float constant, float of_square) {
    float piece = km_low_half(km_halves(constant, 0)); // lanes 0, 1 and 3 have a piece each
    for (int i = 0; i < t - t / 3; i++) {
        constant -= piece;
        piece = km_low_half(km_halves(constant, 0));
    }
    const float value = t < D ? factor(t) : 0, high = km_low_half(km_halves(value, 0));
    unsigned *words = (unsigned *)&shared.planes[slot / 2][0][group * 4 + t] + slot % 2;
    words[0] = km_halves(high, high);
    words[2] = km_halves(value - high, t == 2 ? of_square : piece);
}

// A row of no centroid; a lane without a K has one candidate.
template <typename PART>
static __device__ __forceinline__ void km_clear_row(km_block<PART> &shared, int group, int slot, int t) {
    const bool near = slot == 0 || slot == PART::FIRST;
    km_write_row(
        shared, group, slot, t, [](int) { return 0.0f; }, near ? NEARER : FARTHER, 0);
}

template <typename PART>
static __device__ __forceinline__ void km_clear(km_block<PART> &shared, const km_pass_args &) {
    if (threadIdx.x == 0) shared.minus_zero = 0x80008000;
    for (int i = threadIdx.x; i < PART::ROWS * (D + 1); i += BLOCK) shared.sums[i] = 0;
    for (int i = threadIdx.x; i < 8; i += BLOCK) shared.asks[i] = 0;
}

// How the distances of a K are scaled. `of_square` 0: half precision cannot hold them, and every point is ambiguous.
struct km_scale {
    double factor, bias, of_square;
};

template <typename PART>
static __device__ km_scale km_find_scale(const km_block<PART> &shared, const float *c,
                                         const unsigned char *beaten, int k) {
    double farthest = 0, corner = 0, largest = 0.5 * shared.radius * shared.radius;
    KM_UNROLL_1_FOR (int j = threadIdx.x % 32; j < k; j += 32) {
        if (beaten[j]) continue;
        double square = 0, box = 0, sum = 0;
        KM_UNROLL_2_FOR (int f = 0; f < D; f++) {
            const double away = fabs((double)c[j * D + f]), reach = shared.reach[f];
            box = fma(reach + away, reach + away, box);
            square = fma(away, away, square);
            sum = fma(reach, away, sum);
            largest = fmax(largest, reach * away);
        }
        const double ball = shared.radius + sqrt(square);
        farthest = fmax(farthest, 0.5 * fmin(box, ball * ball));
        corner = fmax(corner, sum);
        largest = fmax(largest, 0.5 * square);
    }
    farthest = km_warp_max(farthest);
    corner = km_warp_max(corner);
    largest = km_warp_max(largest);
    const int exponent = km_exponent(farthest, -400);
    const int squares = km_square_exponent([&](int f) { return shared.reach[f]; });
    km_scale scale = {km_power(DISTANCE_BITS - exponent), 0,
                      km_power(DISTANCE_BITS - exponent + squares - SQUARE_BITS)};

    // The error of a distance before it is rounded: of the lattice and of the halves' products, of at most 20 truncated
    // additions, and of the constant. The bias leaves room for the rounding of |x|^2 / 2.
    const double halves = 2 * corner * scale.factor * km_power(-21);
    const double error = halves + 20 * km_power(km_exponent(largest * scale.factor) - 23) + 0.004;
    scale.bias = km_power(km_exponent(2048 * error));
    const bool held = largest * scale.factor < 60000 && scale.bias <= BIAS_MAX &&
                      scale.of_square >= km_power(-14) && scale.of_square <= km_power(15);
    if (!held) scale.of_square = 0;
    return scale;
}

// Of one K, by one warp: planes, links.
template <typename PART>
static __device__ void km_prepare(km_block<PART> &shared, const float *c, int k_index) {
    const km_place place = km_places[k_index];
    const int k = km_ks[k_index];
    const unsigned char *beaten = shared.beaten + place.row;
    km_find_beaten(shared, c, place, k);
    const km_scale scale = km_find_scale(shared, c, beaten, k);
    const bool held = scale.of_square > 0;
    const auto write_row = [&](int group, int slot, int t, int j) {
        const auto factor = [&](int f) {
            return (float)(-(double)c[j * D + f] * shared.reach[f] * scale.factor);
        };
        const auto zero = [](int) { return 0.0f; };
        if (j < 0 || !held) {
            km_write_row(shared, group, slot, t, zero, j >= 0 ? NEARER : FARTHER, 0);
            return;
        }
        double constant = 0;
        KM_UNROLL_2_FOR (int f = 0; f < D; f++)
            constant = fma(0.5 * c[j * D + f], (double)c[j * D + f], constant);
        constant = constant * scale.factor + scale.bias + 32;
        km_write_row(shared, group, slot, t, factor, (float)constant, (float)scale.of_square);
    };
    km_for_rows(shared, k_index, threadIdx.x % 32, 32, write_row, [&](int group, int segment, bool) {
        if (group == place.group) atomicOr(&shared.asks[group], segment ? 0x0a0a0a0a : 0x05050505);
    });
}

//@ end
//@ def form_resolve
//@ use byte_resolve
//@ end
//@ def form_take
//@ use prmt mma_f16_half half2_add half2_sub half2_min read_shared_4 planes
// What a lane knows of its quad's Ks.
struct km_lane {
    unsigned link[4];
    //@ if track_labels
    int member[2];
    //@ end
    unsigned square, one; // of its factors of points: ALL where it is the square, 1 where it is not
    unsigned minus_zero;
};

//@ if track_labels
//@ use byte_point_of tell_changes
//@ end
//@ use byte_take
template <typename PART> static __device__ km_lane km_lane_of(const km_block<PART> &shared) {
    km_lane own;
    const int lane = threadIdx.x % 32;
    km_know_group(own, shared);
    own.square = km_opaque(lane % 4 == 2 ? ALL : 0);
    own.one = km_opaque(lane % 4 == 2 ? 0 : ONES);
    own.minus_zero = shared.minus_zero;
    return own;
}

// From where on a distance is of no candidate, for the points of one column: of the first slots, and of the others.
template <typename PART>
static __device__ __forceinline__ void km_find_limits(unsigned *limits, const unsigned (*distances)[2], int c,
                                                      const km_lane &own) {
    constexpr unsigned units = UNITS * 0x10001;
    unsigned smallest = distances[0][c];
    KM_UNROLL_FOR (int s = 1; s < PART::FIRST; s++) smallest = km_half2_min(smallest, distances[s][c]);
    if (int(PART::FIRST) < int(PART::SLOTS)) {
        unsigned other = distances[PART::FIRST % PART::SLOTS][c];
        KM_UNROLL_FOR (int s = PART::FIRST + 1; s < PART::SLOTS; s++)
            other = km_half2_min(other, distances[s][c]);
        smallest = km_half2_min(smallest, other | ~own.link[0]);
        limits[0] = smallest + units;
        limits[1] = (limits[0] & own.link[0]) | ((other + units) & ~own.link[0]);
    } else {
        KM_UNROLL_FOR (int level = 0; level < PART::LEVELS; level++)
            smallest =
                km_half2_min(smallest, __shfl_xor_sync(ALL, smallest, 4 << level) | ~own.link[1 + level]);
        limits[0] = limits[1] = smallest + units;
    }
}

// Which centroids are candidates, for half of the points: `near` [slot][half], a byte for each of four points.
template <typename PART>
static __device__ __forceinline__ void km_compare_half(unsigned (*near)[MASKS], int half,
                                                       const km_planes *planes, const unsigned *points,
                                                       unsigned squares, const km_lane &own) {
    unsigned distances[PART::SLOTS][2], limits[2][2];
    const unsigned fourth = (squares & own.square) | own.one, zeros[2] = {0, 0};
    // A copy made on the other pipe.
    const unsigned factors[2][2] = {
        {km_half2_add(points[0], own.minus_zero), km_prmt<0x5410>(points[0], fourth)},
        {km_half2_add(points[1], own.minus_zero), km_prmt<0x7610>(points[1], fourth)}};
    KM_UNROLL_FOR (int i = 0; i < PART::TILES; i++) {
        const uint4 plane = km_plane(planes, i, 0);
        const unsigned a[4] = {plane.x, plane.y, plane.z, plane.w};
        KM_UNROLL_FOR (int c = 0; c < 2; c++) {
            unsigned rows[2];
            km_mma_f16_half(rows, a, factors[c], zeros);
            distances[2 * i][c] = rows[0];
            distances[2 * i + 1][c] = rows[1];
        }
    }
    KM_UNROLL_FOR (int c = 0; c < 2; c++) km_find_limits<PART>(limits[c], distances, c, own);
    KM_UNROLL_FOR (int s = 0; s < PART::SLOTS; s++)
        near[s][half] = km_prmt<0xfdb9>(km_half2_sub(distances[s][0], limits[0][s >= PART::FIRST]),
                                        km_half2_sub(distances[s][1], limits[1][s >= PART::FIRST]));
}

// Where in a tile a lane reads, in shared memory: points, squares, bytes.
struct km_places_in_tile {
    unsigned points, squares, limbs;
};

static __device__ __forceinline__ km_places_in_tile km_find_places(unsigned ring) {
    const unsigned lane = threadIdx.x % 32;
    const unsigned limbs = ring - lane * (unsigned)sizeof(uint4) + sizeof(uint4[LANE_D][32]);
    return {ring, km_opaque(limbs + (32 * (SUM_TILES - 1) + 24 + lane / 4) * (unsigned)sizeof(uint2)),
            km_opaque(limbs + lane * (unsigned)sizeof(uint2))};
}

// Which centroids are candidates in a tile, `stage` bytes from the first one of the ring: `near` [slot][half]. Gives
// whether a lane knows of an outlier.
template <typename PART>
static __device__ __forceinline__ bool km_compare(unsigned (*near)[MASKS], const km_planes *planes,
                                                  const km_places_in_tile &at, unsigned stage,
                                                  const km_lane &own) {
    const uint4 points = km_read_shared_4(at.points + stage);
    const uint2 squares = km_read_shared_2(at.squares + stage);
    const unsigned words[4] = {points.x, points.y, points.z, points.w};
    km_compare_half<PART>(near, 0, planes, words, squares.x, own);
    km_compare_half<PART>(near, 1, planes, words + 2, squares.y, own);
    return (squares.x | squares.y) & 0x80008000;
}

// Sums of a warp, negative: of the bytes of each feature, of ones.
template <typename PART> struct km_sums { int of[PART::TILES][SUM_TILES][4]; };

template <typename PART>
static __device__ __forceinline__ void km_flush(km_sums<PART> &sums, km_block<PART> &shared) {
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

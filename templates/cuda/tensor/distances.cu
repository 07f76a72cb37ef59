// SPDX-License-Identifier: MIT
// Distances in half precision, added as such.
//
// With |x|^2 / 2 among the products of a point, a row gives
//     distance_j = |x|^2 / 2 - x . c_j + |c_j|^2 / 2 + bias = |x - c_j|^2 / 2 + bias,
// which is small where it matters: half precision tells near centroids apart about as well as 15 bits of a score do,
// and a product leaves two points in a register. Every row of a K gets the same |x|^2 / 2, however it was rounded.
// Products are added in at least 24 bits, so that a distance is rounded once, at the end, and no rounding changes the
// order of two numbers. What is off before that is less than half a unit of the bias, and no distance is below the
// bias: the nearest centroid is at most one unit above the smallest distance. All of those are near.

constexpr float NEARER = 1024, FARTHER = 49152; // of rows without a centroid
enum {
    UNITS = 2,               // from the smallest distance to the first that is not near
    SQUARE_BITS = 10,        // |x|^2 / 2 of the farthest corner of the grid is less than 2^10 as a half
    DISTANCE_BITS = 15,      // the largest distance, without its bias, is less than 2^15
    BIAS_MAX = 8192
};

// The smaller ones of two halves each.
static __device__ __forceinline__ unsigned km_min(unsigned a, unsigned b) { // above zero: like integers
    unsigned smaller;
    asm("min.u16x2 %0, %1, %2;" : "=r"(smaller) : "r"(a), "r"(b));
    return smaller;
}

static __device__ __forceinline__ void km_multiply(unsigned *distances, const uint4 &a, const unsigned *b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %8};"
        : "=r"(distances[0]), "=r"(distances[1])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b[0]), "r"(b[1]), "r"(0));
}

// Points ----------------------------------------------------------------------------------------------------

// The exponent of what |x|^2 / 2 is less than in the grid, whose reach in each feature is `reach(f)`.
template <typename Reach> static __device__ int km_square_exponent(Reach reach) {
    double square = 0;
    for (int f = 0; f < D; f++) square += reach(f) * reach(f);
    return km_exponent(square / 2, -400);
}

// Load: writes the halves of a point in the grid, and its square. Negative: marked.
static __device__ __forceinline__ void km_put_factors(km_tile &tile, const float *z, bool beyond, float half_square) {
    const int lane = threadIdx.x % 32, n = lane % 8;
    KM_UNROLL for (int f = 0; f < 4 * LANE_D; f++) {
        unsigned *words = (unsigned *)&tile.points[f / 4][n * 4 + f % 4];
        words[lane / 8] = f < D ? km_halves_of(km_number(z[f % D])) : 0;
    }
    unsigned short *squares = (unsigned short *)&tile.limbs[SUM_TILES - 1][24 + n];
    squares[lane / 8] = (unsigned short)km_halves(beyond ? -0.0f : half_square, 0);
}

// Preparing the planes --------------------------------------------------------------------------------------

// Writes a quarter of a row of the planes, the part of the lanes with lane % 4 = t: factors of D features, a piece of
// the constant, and what a square counts.
template <typename PART, typename Factor>
static __device__ __forceinline__ void km_write_row(km_block<PART> &shared, int group, int slot, int t, Factor factor,
                                                    float constant, float of_square) {
    float piece = km_low(km_halves(constant, 0)); // lanes 0, 1 and 3 have a piece each
    for (int i = 0; i < t - t / 3; i++) {
        constant -= piece;
        piece = km_low(km_halves(constant, 0));
    }
    const float value = t < D ? factor(t) : 0, high = km_low(km_halves(value, 0));
    unsigned *words = (unsigned *)&shared.planes[slot / 2][0][group * 4 + t] + slot % 2;
    words[0] = km_halves(high, high);
    words[2] = km_halves(value - high, t == 2 ? of_square : piece);
}

// How the distances of a K are scaled. `of_square` 0: half precision cannot hold them, and every point is decided in
// double.
struct km_scale {
    double factor, bias, of_square;
};

template <typename PART>
static __device__ km_scale km_find_scale(const km_block<PART> &shared, const float *c, const unsigned char *beaten,
                                         int k) {
    double farthest = 0, corner = 0, largest = 0.5 * shared.radius * shared.radius;
    _Pragma("unroll 1") for (int j = threadIdx.x % 32; j < k; j += 32) {
        if (beaten[j]) continue;
        double square = 0, box = 0, sum = 0;
        _Pragma("unroll 2") for (int f = 0; f < D; f++) {
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
    farthest = km_max_lanes(farthest);
    corner = km_max_lanes(corner);
    largest = km_max_lanes(largest);
    const int exponent = km_exponent(farthest, -400);
    const int squares = km_square_exponent([&](int f) { return shared.reach[f]; });
    km_scale scale = {km_power(DISTANCE_BITS - exponent), 0,
                      km_power(DISTANCE_BITS - exponent + squares - SQUARE_BITS)};

    // The error of a distance before it is rounded: of the grid and of the halves' products, of at most 20 truncated
    // additions, and of the constant. The bias leaves room for the rounding of |x|^2 / 2.
    const double halves = 2 * corner * scale.factor * km_power(-21);
    const double error = halves + 20 * km_power(km_exponent(largest * scale.factor) - 23) + 0.004;
    scale.bias = km_power(km_exponent(2048 * error));
    const bool held = largest * scale.factor < 60000 && scale.bias <= BIAS_MAX && scale.of_square >= km_power(-14) &&
                      scale.of_square <= km_power(15);
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
    const auto constant_of = [&](int j) {
        double constant = 0;
        _Pragma("unroll 2") for (int f = 0; f < D; f++)
            constant = fma(0.5 * c[j * D + f], (double)c[j * D + f], constant);
        return (float)(constant * scale.factor + scale.bias + 32);
    };
    const auto write_row = [&](int group, int slot, int t, int j) {
        if (j >= 0 && held)
            km_write_row(
                shared, group, slot, t,
                [&](int f) { return (float)(-(double)c[j * D + f] * shared.reach[f] * scale.factor); }, constant_of(j),
                (float)scale.of_square);
        else
            km_write_row(shared, group, slot, t, [](int) { return 0.0f; }, j >= 0 && !held ? NEARER : FARTHER, 0);
    };
    km_for_rows(shared, k_index, threadIdx.x % 32, 32, write_row, [&](int group, int segment, bool linked) {
        if (group == place.group) atomicOr(&shared.asks[group], segment ? 0x0a0a0a0a : 0x05050505);
    });
}

// What a lane knows of its group's Ks.
struct km_lane {
    unsigned link[4];
    //@ if track_labels
    int member[2];
    //@ end
    unsigned square, one;       // of its factors of points: ALL where it is the square, 1 where it is not
    unsigned minus_zero;
};

template <typename PART> static __device__ km_lane km_lane_of(const km_block<PART> &shared) {
    km_lane own;
    const int lane = threadIdx.x % 32;
    km_know_group(own, shared);
    own.square = km_keep(lane % 4 == 2 ? ALL : 0);
    own.one = km_keep(lane % 4 == 2 ? 0 : ONES);
    own.minus_zero = shared.minus_zero;
    return own;
}

// Comparing -------------------------------------------------------------------------------------------------

// From where on a distance is not near, for the points of one column: of the first slots, and of the others.
template <typename PART>
static __device__ __forceinline__ void km_find_limits(unsigned *limits, const unsigned (*distances)[2], int c,
                                                      const km_lane &own) {
    constexpr unsigned units = UNITS * 0x10001;
    unsigned smallest = distances[0][c];
    KM_UNROLL for (int s = 1; s < PART::FIRST; s++) smallest = km_min(smallest, distances[s][c]);
    if (int(PART::FIRST) < int(PART::SLOTS)) {
        unsigned other = distances[PART::FIRST % PART::SLOTS][c];
        KM_UNROLL for (int s = PART::FIRST + 1; s < PART::SLOTS; s++) other = km_min(other, distances[s][c]);
        smallest = km_min(smallest, other | ~own.link[0]);
        limits[0] = smallest + units;
        limits[1] = (limits[0] & own.link[0]) | ((other + units) & ~own.link[0]);
    } else {
        KM_UNROLL for (int level = 0; level < PART::LEVELS; level++)
            smallest = km_min(smallest, __shfl_xor_sync(ALL, smallest, 4 << level) | ~own.link[1 + level]);
        limits[0] = limits[1] = smallest + units;
    }
}

// Which centroids are near, for half of the points: `near` [slot][half], a byte for each of four points.
template <typename PART>
static __device__ __forceinline__ void km_compare_half(unsigned (*near)[2], int half, const km_planes *planes,
                                                       const unsigned *points, unsigned squares, const km_lane &own) {
    unsigned distances[PART::SLOTS][2], limits[2][2];
    const unsigned fourth = (squares & own.square) | own.one;
    // A copy made on the other pipe.
    const unsigned factors[2][2] = {{km_plus(points[0], own.minus_zero), km_pick<0x5410>(points[0], fourth)},
                                    {km_plus(points[1], own.minus_zero), km_pick<0x7610>(points[1], fourth)}};
    KM_UNROLL for (int i = 0; i < PART::TILES; i++) {
        const uint4 plane = km_plane(planes, i, 0);
        KM_UNROLL for (int c = 0; c < 2; c++) {
            unsigned rows[2];
            km_multiply(rows, plane, factors[c]);
            distances[2 * i][c] = rows[0];
            distances[2 * i + 1][c] = rows[1];
        }
    }
    KM_UNROLL for (int c = 0; c < 2; c++) km_find_limits<PART>(limits[c], distances, c, own);
    KM_UNROLL for (int s = 0; s < PART::SLOTS; s++)
        near[s][half] = km_pick<0xfdb9>(km_minus(distances[s][0], limits[0][s >= PART::FIRST]),
                                        km_minus(distances[s][1], limits[1][s >= PART::FIRST]));
}

// Where in a tile a lane reads, in shared memory: points, squares, bytes.
struct km_places_in_tile {
    unsigned points, squares, limbs;
};

static __device__ __forceinline__ km_places_in_tile km_find_places(unsigned ring) {
    const unsigned lane = threadIdx.x % 32, limbs = ring - lane * (unsigned)sizeof(uint4) + sizeof(uint4[LANE_D][32]);
    return {ring, km_keep(limbs + (32 * (SUM_TILES - 1) + 24 + lane / 4) * (unsigned)sizeof(uint2)),
            km_keep(limbs + lane * (unsigned)sizeof(uint2))};
}

// Which centroids are near in a tile, `stage` bytes from the first one of the ring: `near` [slot][half]. Gives whether
// a lane knows of a marked point.
template <typename PART>
static __device__ __forceinline__ bool km_compare(unsigned (*near)[2], const km_planes *planes,
                                                  const km_places_in_tile &at, unsigned stage, const km_lane &own) {
    const uint4 points = km_read_four(at.points + stage);
    const uint2 squares = km_read_two(at.squares + stage);
    const unsigned words[4] = {points.x, points.y, points.z, points.w};
    km_compare_half<PART>(near, 0, planes, words, squares.x, own);
    km_compare_half<PART>(near, 1, planes, words + 2, squares.y, own);
    return (squares.x | squares.y) & 0x80008000;
}

// SPDX-License-Identifier: MIT
// Words of forms that compare scores: how a K's scores are scaled, the largest of them, rows of halves.

//@ def halves_of
// The two halves of a coordinate of the lattice.
static __device__ __forceinline__ unsigned km_halves_of(float z) {
    const int number = __float2int_rn(z * (1 << BITS)), high = (number + 1024) >> 11;
    return km_halves((float)high / (1 << 11), (float)(number - high * 2048) / (1 << BITS));
}

//@ end
//@ def scale_type
// How the scores of a K are scaled: (score - lowest) * factor. `error` of a scaled one: of the lattice and of the
// halves' products.
struct km_scale {
    double lowest, factor, error;
};

//@ end
//@ def scale
//@ use warp_max scale_type
// What a score has beside x . (c - p), not scaled.
static __device__ double km_constant(const float *c, const float *midpoint) {
    double constant = 0;
    KM_UNROLL_2_FOR (int f = 0; f < D; f++) {
        const double a = c[f], p = midpoint[f];
        constant -= 0.5 * (a - p) * (a + p);
    }
    return constant;
}

// Finds the midpoint of a K's centroids, too.
template <typename LAUNCH>
static __device__ km_scale km_find_scale(const km_block<LAUNCH> &shared, float *midpoint, const float *c,
                                         const unsigned char *dominated, int k) {
    const int lane = threadIdx.x % 32;
    for (int f = lane; f < D; f += 32) {
        float low = 3.4e38f, high = -3.4e38f;
        KM_UNROLL_1_FOR (int j = 0; j < k; j++) {
            low = dominated[j] ? low : fminf(low, c[j * D + f]);
            high = dominated[j] ? high : fmaxf(high, c[j * D + f]);
        }
        midpoint[f] = 0.5f * low + 0.5f * high;
    }
    __syncwarp();
    // Scores, and what coordinates add to them at most: of points in the ball, and in the whole lattice.
    double lowest = 1e308, highest = -1e308, in_ball = 0, in_lattice = 0;
    KM_UNROLL_1_FOR (int j = lane; j < k; j += 32) {
        if (dominated[j]) continue;
        double own = 0, square = 0;
        KM_UNROLL_2_FOR (int f = 0; f < D; f++) {
            const double away = (double)c[j * D + f] - midpoint[f];
            own += fabs(away) * shared.extent[f];
            square = fma(away, away, square);
        }
        in_lattice = fmax(in_lattice, own);
        own = fmin(own, sqrt(square) * shared.radius);
        const double constant = km_constant(c + j * D, midpoint);
        lowest = fmin(lowest, constant - own);
        highest = fmax(highest, constant + own);
        in_ball = fmax(in_ball, own);
    }
    lowest = -km_warp_max(-lowest);
    highest = km_warp_max(highest);
    in_ball = km_warp_max(in_ball);
    in_lattice = km_warp_max(in_lattice);
    const double factor = highest > lowest ? 0.84 * BINADE / (highest - lowest) : 0;

    return {lowest, factor, (in_lattice + in_ball) * factor * km_power(-21)};
}

//@ end
//@ def largest
//@ use half2_max
// The largest score of each K, for the points of one column: of the first slots, and of the others.
template <typename LAUNCH>
static __device__ __forceinline__ void km_find_largest(unsigned *largest, const unsigned (*scores)[WIDTH],
                                                       int c, const unsigned *link) {
    if (int(LAUNCH::FIRST) < int(LAUNCH::SLOTS)) {
        unsigned other = scores[LAUNCH::FIRST % LAUNCH::SLOTS][c];
        KM_UNROLL_FOR (int s = LAUNCH::FIRST + 1; s < LAUNCH::SLOTS; s++)
            other = km_half2_max(other, scores[s][c]);
        largest[0] = scores[0][c];
        KM_UNROLL_FOR (int s = 1; s < LAUNCH::FIRST; s++) largest[0] = km_half2_max(largest[0], scores[s][c]);
        largest[0] = km_half2_max(largest[0], other & link[0]);
        largest[1] = (largest[0] & link[0]) | (other & ~link[0]);
    } else {
        largest[0] = largest[1] = scores[0][c];
        KM_UNROLL_FOR (int s = 1; s < LAUNCH::FIRST; s++) largest[0] = km_half2_max(largest[0], scores[s][c]);
    }
    KM_UNROLL_FOR (int level = 0; level < LAUNCH::LEVELS; level++)
        largest[0] = km_half2_max(largest[0], __shfl_xor_sync(ALL, largest[0], 4 << level) & link[1 + level]);
}

//@ end
//@ def score_rows
//@ use scale
// The rows of a K, scaled, by so many threads; `begin_quad` as in km_for_rows. Scores are
//     score_j = x . (c_j - p) - (|c_j|^2 - |p|^2) / 2,  p the midpoint of the K's centroids,
// scaled so that all scores of a K lie in one binade of float, of which 15 bits are compared.
template <typename LAUNCH, typename Quad>
static __device__ __forceinline__ void km_write_rows(km_block<LAUNCH> &shared, const float *c,
                                                     const float *midpoint, int k_index, int thread,
                                                     int threads, const km_scale &scale, Quad begin_quad) {
    const auto write_row = [&](int quad, int slot, int t, int j) {
        const auto factor = [&](int f) {
            return (float)(((double)c[j * D + f] - midpoint[f]) * shared.extent[f] * scale.factor);
        };
        const auto zero = [](int) { return 0.0f; };
        if (j >= 0)
            km_write_row(
                shared, quad, slot, t, factor,
                (float)(1.08 * BINADE + (km_constant(c + j * D, midpoint) - scale.lowest) * scale.factor));
        else
            km_write_row(shared, quad, slot, t, zero, BINADE);
    };
    km_for_rows(shared, k_index, thread, threads, write_row, begin_quad);
}

//@ end
//@ def rounding
// |r|, by which rounding moved a point, is kept in units of 2^-12; margins in units of a 16-bit score.
enum { ERROR_BITS = 12, MARGIN_MAX = 512 };
// 1024 in half precision, where units are 1: the bits of what is added to it are an integer.
constexpr unsigned NONE = 0x64006400, NEXT = NONE - 0x10001;

// How far below the largest score a centroid of a K is a candidate: where a point is off by 1 more than by 0, and
// there; two halves each. `spread`: the largest distance of two centroids, each feature in units of 2^e.
struct km_margin_of_k {
    unsigned slope, least;
};

//@ end
//@ def margin
//@ use scale rounding
// Two scores are off by twice the error of one, of which at most 20 truncated additions a product are part, and by what
// rounding the point changes between them. A unit of the 16-bit score is BINADE / 2^15; half of one is lost where the
// margin is rounded, and one where scores are. Where it would be too large no score counts: all are candidates.
static __device__ __forceinline__ km_margin_of_k km_find_margin(km_scale &scale, double spread) {
    const double unit = BINADE * km_power(-15);
    const double error = 2 * (scale.error + BLOCKS * 20 * BINADE * km_power(-22) + 0.001) / unit;
    spread = spread * scale.factor / unit * km_power(-ERROR_BITS);
    if (error + spread * 8 > MARGIN_MAX) scale.factor = spread = 0; // |r| is at most 8
    return {km_halves((float)(spread * (1 + km_power(-10))), 0) * 0x10001,
            km_halves((float)(1024 + ceil(error + 0.51)), 0) * 0x10001};
}

//@ end
//@ def factor_halves
// The part of the lanes with lane % 4 = t of a row: factors of D features, as two halves each. Of 8 features both are
// in one product, of 16 each has its own.
template <typename LAUNCH, typename Factor>
static __device__ __forceinline__ void km_write_halves(km_block<LAUNCH> &shared, int quad, int slot, int t,
                                                       Factor factor) {
    KM_UNROLL_1_FOR (int i = 0; i < BLOCKS; i++) {
        const int f = 8 * i + 2 * t;
        const float first = f < D ? factor(f) : 0, second = f + 1 < D ? factor(f + 1) : 0;
        const float high = km_low_half(km_halves(first, 0)), second_high = km_low_half(km_halves(second, 0));
        const auto words_of = [&](int fragment) {
            return (unsigned *)&shared.fragments[slot / 2][fragment][quad * 4 + t] + slot % 2;
        };
        words_of(i / 2 * 2)[i % 2 * 2] = km_halves(high, second_high);
        words_of(BLOCKS > 1 ? i / 2 * 2 + 1 : 0)[BLOCKS > 1 ? i % 2 * 2 : 2] =
            km_halves(first - high, second - second_high);
    }
}

//@ end
//@ def point_halves
// A point in the lattice as halves, and how far they are from it. Negative: an outlier.
template <typename Coordinate>
static __device__ __forceinline__ void km_put_halves(km_tile &tile, bool beyond, Coordinate z) {
    const int lane = threadIdx.x % 32;
    double square = 0;
    KM_UNROLL_FOR (int f = 0; f < 8 * BLOCKS; f++) {
        const float exact = f < D ? z(f % D) : 0;
        const unsigned half = km_halves(exact, 0);
        const double away = (double)exact - km_low_half(half);
        square = fma(away, away, square);
        ((unsigned short *)&tile.points[f / 8][lane])[f % 8] = (unsigned short)half;
    }
    const float error = (float)(sqrt(square) * km_power(ERROR_BITS) * (1 + km_power(-10)));
    unsigned short *errors = (unsigned short *)&tile.errors[lane / 2 % 4];
    errors[lane / 8 * 2 + lane % 2] = (unsigned short)km_halves(beyond ? -0.0f : error, 0);
}

//@ end

// SPDX-License-Identifier: MIT
// Definitions for forms that compare scores: the scale of a K's scores, the largest of them, rows of halves.

//@ def hi_lo_of
// A coordinate of the lattice as fp16 hi and lo, hi in the low bits of the word.
static __device__ __forceinline__ unsigned km_hi_lo_of(float z) {
    const int number = __float2int_rn(z * (1 << BITS)), high = (number + 1024) >> 11;
    return km_halves((float)high / (1 << 11), (float)(number - high * 2048) / (1 << BITS));
}

//@ end
//@ def move_up
// Moves the numbers of each row (of tiles, or of scores) up by one row, and clears the last row. So a loop over rows
// takes the first one each time. Unrolled, steps that are rarely taken were a third of a launch's code, and of the time
// to compile it.
template <int ROWS, int NUMBERS, typename Number>
static __device__ __forceinline__ void km_move_up(Number *rows) {
    KM_UNROLL_FOR (int at = 0; at < ROWS * NUMBERS; at++)
        rows[at] = at + NUMBERS < ROWS * NUMBERS ? rows[(at + NUMBERS) % (ROWS * NUMBERS)] : 0;
}

//@ end
//@ def scale_type
// The scale of a K's scores: (score - lowest) * factor. `error`: that of a scaled score, from rounding to the
// lattice and from products of halves.
struct km_scale {
    double lowest, factor, error;
};

//@ end
//@ def scale
//@ use warp_max scale_type
// The constant of a score, which is x . (c - p) and this; not scaled.
static __device__ double km_constant(const float *c, const float *midpoint) {
    double constant = 0;
    KM_UNROLL_2_FOR (int f = 0; f < D; f++) {
        const double a = c[f], p = midpoint[f];
        constant -= 0.5 * (a - p) * (a + p);
    }
    return constant;
}

// Finds the midpoint of a K's centroids, and the scale of its scores.
static __device__ km_scale km_find_scale(const km_preparation &shared, float *midpoint, const float *c,
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
    // The range of scores, and the largest |x . (c - p)|: for points within the largest norm, and in the whole lattice.
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

    return {lowest, factor, (in_lattice + in_ball) * factor * km_power_of_2(-21)};
}

//@ end
//@ def largest
//@ use half2_max
// The largest score of each K, for the points of one column: largest[0] of the first segment, largest[1] of the second.
template <typename LAUNCH>
static __device__ __forceinline__ void km_find_largest(unsigned *largest, const unsigned (*scores)[WIDTH],
                                                       int c, const unsigned *same_k) {
    if (int(LAUNCH::FIRST_ROWS) < int(LAUNCH::SCORE_ROWS)) {
        unsigned other = scores[LAUNCH::FIRST_ROWS % LAUNCH::SCORE_ROWS][c];
        KM_UNROLL_FOR (int s = LAUNCH::FIRST_ROWS + 1; s < LAUNCH::SCORE_ROWS; s++)
            other = km_half2_max(other, scores[s][c]);
        largest[0] = scores[0][c];
        KM_UNROLL_FOR (int s = 1; s < LAUNCH::FIRST_ROWS; s++)
            largest[0] = km_half2_max(largest[0], scores[s][c]);
        largest[0] = km_half2_max(largest[0], other & same_k[0]);
        largest[1] = (largest[0] & same_k[0]) | (other & ~same_k[0]);
    } else {
        largest[0] = largest[1] = scores[0][c];
        KM_UNROLL_FOR (int s = 1; s < LAUNCH::FIRST_ROWS; s++)
            largest[0] = km_half2_max(largest[0], scores[s][c]);
    }
    KM_UNROLL_FOR (int level = 0; level < LAUNCH::LEVELS; level++)
        largest[0] =
            km_half2_max(largest[0], __shfl_xor_sync(ALL, largest[0], 4 << level) & same_k[1 + level]);
}

//@ end
//@ def score_rows
//@ use scale
// Writes the scaled rows of a K, by so many threads; `begin_quad` as in km_for_score_rows. Scores are
//     score_j = x . (c_j - p) - (|c_j|^2 - |p|^2) / 2,  p the midpoint of the K's centroids,
// scaled so that all scores of a K are in one binade of float. 15 bits of them are compared.
template <typename Quad>
static __device__ __forceinline__ void km_write_rows(km_preparation &shared, const float *c,
                                                     const float *midpoint, int k_index, int thread,
                                                     int threads, const km_scale &scale, Quad begin_quad) {
    const auto write_row = [&](int quad, int score_row, int t, int j) {
        const auto factor = [&](int f) {
            return (float)(((double)c[j * D + f] - midpoint[f]) * shared.extent[f] * scale.factor);
        };
        const auto zero = [](int) { return 0.0f; };
        if (j >= 0)
            km_write_row(
                shared, quad, score_row, t, factor,
                (float)(1.08 * BINADE + (km_constant(c + j * D, midpoint) - scale.lowest) * scale.factor));
        else
            km_write_row(shared, quad, score_row, t, zero, BINADE);
    };
    km_for_score_rows(shared, k_index, thread, threads, write_row, begin_quad);
}

//@ end
//@ def rounding
// |r|, the distance by which rounding moved a point, is kept in units of 2^-12; margins in units of a 16-bit score.
enum { ERROR_BITS = 12, MARGIN_MAX = 512 };
// 1024 in half precision, where units are 1: the low bits of 1024 plus a margin are the margin, as an integer. And this
// less 1.
constexpr unsigned MARGIN_BASE = 0x64006400, LIMIT_BASE = MARGIN_BASE - 0x10001;

// The margin of a K, how far below the largest score a centroid is a candidate: slope * |r| + least, in halves,
// twice in a register. It depends on `spread`, the largest distance of two centroids, each feature in units of 2^e.
struct km_margin_of_k {
    unsigned slope, least;
};

//@ end
//@ def margin
//@ use scale rounding
// The difference of two scores is off by twice the error of one, which includes at most 20 truncated additions a
// product, and by the rounding of the point. A unit of the 16-bit score is BINADE / 2^15. Rounding the margin loses
// half a unit, rounding the scores one. Where the margin would be too large, all scores become equal: every
// centroid is a candidate.
static __device__ __forceinline__ km_margin_of_k km_find_margin(km_scale &scale, double spread) {
    const double unit = BINADE * km_power_of_2(-15);
    const double error = 2 * (scale.error + EIGHTS * 20 * BINADE * km_power_of_2(-22) + 0.001) / unit;
    spread = spread * scale.factor / unit * km_power_of_2(-ERROR_BITS);
    if (error + spread * 8 > MARGIN_MAX) scale.factor = spread = 0; // |r| is at most 8
    return {km_halves((float)(spread * (1 + km_power_of_2(-10))), 0) * 0x10001,
            km_halves((float)(1024 + ceil(error + 0.51)), 0) * 0x10001};
}

//@ end
//@ def factor_halves
// Writes the quarter of a row that lanes with lane % 4 = t hold: the factors of D features, as fp16 hi and lo. Up to 8
// features, one product of 16 takes both; of more, hi and lo have a product each.
template <typename Factor>
static __device__ __forceinline__ void km_write_halves(km_preparation &shared, int quad, int score_row, int t,
                                                       Factor factor) {
    KM_UNROLL_1_FOR (int i = 0; i < EIGHTS; i++) {
        const int f = 8 * i + 2 * t;
        const float first = f < D ? factor(f) : 0, second = f + 1 < D ? factor(f + 1) : 0;
        const float high = km_low_half(km_halves(first, 0)), second_high = km_low_half(km_halves(second, 0));
        const auto words_of = [&](int fragment) {
            return (unsigned *)&shared.fragments[score_row / 2][fragment][quad * 4 + t] + score_row % 2;
        };
        words_of(i / 2 * 2)[i % 2 * 2] = km_halves(high, second_high);
        words_of(EIGHTS > 1 ? i / 2 * 2 + 1 : 0)[EIGHTS > 1 ? i % 2 * 2 : 2] =
            km_halves(first - high, second - second_high);
    }
}

//@ end
//@ def point_halves
// Writes a point as halves, and |r|, the distance by which rounding moved it; -0: an outlier.
template <typename Coordinate>
static __device__ __forceinline__ void km_put_halves(km_tile &tile, bool beyond, Coordinate z) {
    const int lane = threadIdx.x % 32;
    double square = 0;
    KM_UNROLL_FOR (int f = 0; f < 8 * EIGHTS; f++) {
        const float exact = f < D ? z(f % D) : 0;
        const unsigned half = km_halves(exact, 0);
        const double away = (double)exact - km_low_half(half);
        square = fma(away, away, square);
        ((unsigned short *)&tile.points[f / 8][lane])[f % 8] = (unsigned short)half;
    }
    const float error = (float)(sqrt(square) * km_power_of_2(ERROR_BITS) * (1 + km_power_of_2(-10)));
    unsigned short *errors = (unsigned short *)&tile.errors[lane / 2 % 4];
    errors[lane / 8 * 2 + lane % 2] = (unsigned short)km_halves(beyond ? -0.0f : error, 0);
}

//@ end

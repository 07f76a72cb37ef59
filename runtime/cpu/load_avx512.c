// SPDX-License-Identifier: MIT
// The load of float32 rows for AVX-512.
#include "load.h"
#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma")))
#define INLINE TARGET static inline __attribute__((always_inline))
#define WIDE(values) _mm512_maskz_cvtps_pd((__mmask8)-1, values)
#define LEAST(a, b) _mm512_maskz_min_pd((__mmask8)-1, a, b)
#define MOST(a, b) _mm512_maskz_max_pd((__mmask8)-1, a, b)

enum { LINE = 64, PIECE = 16, QUAD = 4 };

// Statistics --------------------------------------------------------------------------------------------------

// Of `vectors` vectors side by side: `count` of each, `stride` values apart. What stands one chunk ahead is fetched
// meanwhile, line by line: as far as the second cache, which can wait for more lines than the first.
INLINE void lane_moments(const cpu_moments *out, const float *x, int64_t count, int64_t stride,
                         const double *first, const char **ahead, const int vectors) {
    __m512d start[QUAD], sum[QUAD], square[QUAD], low[QUAD], high[QUAD];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        low[v] = high[v] = start[v] = _mm512_loadu_pd(first + v * LOAD_LANES);
        sum[v] = square[v] = _mm512_setzero_pd();
    }
    for (int64_t i = 0; i < count; i++, x += stride, *ahead += vectors * LINE / 2) {
        _mm_prefetch(*ahead, _MM_HINT_T1);
        if (vectors == QUAD) _mm_prefetch(*ahead + LINE, _MM_HINT_T1);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            const __m512d value = WIDE(_mm256_loadu_ps(x + v * LOAD_LANES)),
                          t = _mm512_sub_pd(value, start[v]);
            sum[v] = _mm512_add_pd(sum[v], t);
            square[v] = _mm512_add_pd(square[v], _mm512_mul_pd(t, t));
            low[v] = LEAST(value, low[v]);
            high[v] = MOST(value, high[v]);
        }
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        _mm512_storeu_pd(out->sum + v * LOAD_LANES, sum[v]);
        _mm512_storeu_pd(out->square + v * LOAD_LANES, square[v]);
        _mm512_storeu_pd(out->low + v * LOAD_LANES, low[v]);
        _mm512_storeu_pd(out->high + v * LOAD_LANES, high[v]);
    }
}

// Value i of LOAD_LANES rows belongs to feature i % d; they join it in the order of i.
INLINE void lanes_join(const cpu_moments *out, const cpu_moments *lanes, int64_t d) {
    for (int64_t row = 0; row < LOAD_LANES * d; row += d)
        for (int64_t f = 0; f < d; f++) {
            const double low = lanes->low[row + f], high = lanes->high[row + f];
            out->sum[f] += lanes->sum[row + f];
            out->square[f] += lanes->square[row + f];
            out->low[f] = low < out->low[f] ? low : out->low[f];
            out->high[f] = high > out->high[f] ? high : out->high[f];
        }
}

TARGET void km_cpu_moments_avx512(const cpu_moments *out, const float *rows, int64_t count, int64_t d,
                                  const double *first, double *lanes) {
    const int64_t size = LOAD_LANES * d, whole = count / LOAD_LANES;
    const char *ahead = (const char *)(rows + count * d);
    const cpu_moments all = {lanes, lanes + size, lanes + 2 * size, lanes + 3 * size};
    for (int64_t f = 0; f < d; f++) {
        out->sum[f] = out->square[f] = 0;
        out->low[f] = out->high[f] = first[f];
    }
    for (int64_t at = 0, left = whole ? d : 0; left;) {
        const cpu_moments here = {all.sum + at, all.square + at, all.low + at, all.high + at};
        const int64_t vectors = left >= QUAD ? QUAD : left >= 2 ? 2 : 1;
        if (vectors == QUAD)
            lane_moments(&here, rows + at, whole, size, first + at, &ahead, QUAD);
        else if (vectors == 2)
            lane_moments(&here, rows + at, whole, size, first + at, &ahead, 2);
        else
            lane_moments(&here, rows + at, whole, size, first + at, &ahead, 1);
        at += vectors * LOAD_LANES;
        left -= vectors;
    }
    if (whole) lanes_join(out, &all, d);
    for (int64_t i = whole * LOAD_LANES; i < count; i++)
        for (int64_t f = 0; f < d; f++) {
            const double value = (double)rows[i * d + f], t = value - first[f];
            out->sum[f] += t;
            out->square[f] += t * t;
            out->low[f] = value < out->low[f] ? value : out->low[f];
            out->high[f] = value > out->high[f] ? value : out->high[f];
        }
}

// The copy ----------------------------------------------------------------------------------------------------

// A vector of values, stored where the mask says; their squares join eight sums.
INLINE __m512d values_add(__m512d squares, float *values, const float *x, __mmask8 here, const double *centre,
                          const double *factor) {
    const __m512d wide = WIDE(_mm256_maskz_loadu_ps(here, x));
    const __m512d value =
        _mm512_mul_pd(_mm512_sub_pd(wide, _mm512_loadu_pd(centre)), _mm512_loadu_pd(factor));
    const __m256 rounded = _mm512_maskz_cvtpd_ps(here, value);
    const __m512d exact = WIDE(rounded);
    _mm256_mask_storeu_ps(values, here, rounded);
    return _mm512_fmadd_pd(exact, exact, squares); // the product is exact
}

// Up to LOAD_LANES rows of values.
INLINE __m512d rows_values(__m512d squares, float *values, const float *x, int64_t size, const double *centre,
                           const double *factor) {
    int64_t at = 0;
    for (; at + LOAD_LANES <= size; at += LOAD_LANES)
        squares = values_add(squares, values + at, x + at, (__mmask8)-1, centre + at, factor + at);
    if (at == size) return squares;
    return values_add(squares, values + at, x + at, (__mmask8)((1 << (size - at)) - 1), centre + at,
                      factor + at);
}

// Four values of rows i, i + 4, i + 8, i + 12.
INLINE __m512 quads(const float *x, int64_t d) {
    __m512 out = _mm512_castps128_ps512(_mm_loadu_ps(x));
    out = _mm512_insertf32x4(out, _mm_loadu_ps(x + 4 * d), 1);
    out = _mm512_insertf32x4(out, _mm_loadu_ps(x + 8 * d), 2);
    return _mm512_insertf32x4(out, _mm_loadu_ps(x + 12 * d), 3);
}

// Four features of sixteen rows, `stride` apart.
INLINE void columns_of(__m512 columns[QUAD], const float *x, int64_t d) {
    const __m512 a = quads(x, d), b = quads(x + d, d), c = quads(x + 2 * d, d), e = quads(x + 3 * d, d);
    const __mmask16 all = (__mmask16)-1;
    const __m512d low_0 = _mm512_castps_pd(_mm512_maskz_unpacklo_ps(all, a, b));
    const __m512d high_0 = _mm512_castps_pd(_mm512_maskz_unpackhi_ps(all, a, b));
    const __m512d low_1 = _mm512_castps_pd(_mm512_maskz_unpacklo_ps(all, c, e));
    const __m512d high_1 = _mm512_castps_pd(_mm512_maskz_unpackhi_ps(all, c, e));
    columns[0] = _mm512_castpd_ps(_mm512_maskz_unpacklo_pd((__mmask8)-1, low_0, low_1));
    columns[1] = _mm512_castpd_ps(_mm512_maskz_unpackhi_pd((__mmask8)-1, low_0, low_1));
    columns[2] = _mm512_castpd_ps(_mm512_maskz_unpacklo_pd((__mmask8)-1, high_0, high_1));
    columns[3] = _mm512_castpd_ps(_mm512_maskz_unpackhi_pd((__mmask8)-1, high_0, high_1));
}

// To the lanes of a group; past the caches where all sixteen are there.
INLINE void lanes_put(float *to, __m512 column, __mmask16 lanes, int streams) {
    if (lanes != (__mmask16)-1)
        _mm512_mask_storeu_ps(to, lanes, column);
    else if (streams)
        _mm512_stream_ps(to, column);
    else
        _mm512_storeu_ps(to, column);
}

// Rows of values to their lanes, which are up to sixteen side by side; returns their squares.
INLINE __m512 rows_group(float *to, const float *values, const cpu_rows_copy *copy, __mmask16 lanes) {
    const int64_t d = copy->d, group = copy->group;
    __m512 squares = _mm512_setzero_ps(), columns[QUAD];
    for (int64_t f = 0; f < d; f += QUAD) {
        columns_of(columns, values + f, d);
#pragma GCC unroll 4
        for (int q = 0; q < QUAD; q++) {
            if (f + q >= d) break;
            squares = _mm512_add_ps(squares, _mm512_mul_ps(columns[q], columns[q]));
            lanes_put(to + (f + q) * group, columns[q], lanes, copy->streams);
        }
    }
    return squares;
}

TARGET double km_cpu_rows_copy_avx512(cpu_rows_copy *copy) {
    const int64_t d = copy->d, group = copy->group, count = copy->count;
    __m512d squares = _mm512_setzero_pd();
    __m512 largest = _mm512_setzero_ps();
    for (int64_t row = 0, here; row < count; row += here) {
        const int64_t lane = (copy->first + row) % group, room = PIECE - lane % PIECE;
        here = count - row < room ? count - row : room;
        for (int64_t i = 0; i < here; i += LOAD_LANES) {
            const int64_t size = (here - i < LOAD_LANES ? here - i : (int64_t)LOAD_LANES) * d;
            squares = rows_values(squares, copy->values + (row + i) * d, copy->rows + (row + i) * d, size,
                                  copy->centre, copy->factor);
        }
        const __mmask16 lanes = (__mmask16)((1u << here) - 1);
        float *to = copy->groups + (copy->first + row - lane) * d + lane;
        const __m512 each = rows_group(to, copy->values + row * d, copy, lanes);
        largest = _mm512_mask_max_ps(largest, lanes, largest, each);
    }
    if (copy->wants_largest) {
        const float most = _mm512_reduce_max_ps(largest);
        copy->largest = most > copy->largest ? most : copy->largest;
    }
    double sums[LOAD_LANES];
    _mm512_storeu_pd(sums, squares);
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

void km_cpu_rows_copy_end(void) {
    _mm_sfence();
}
#endif

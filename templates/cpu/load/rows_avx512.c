// SPDX-License-Identifier: MIT
// Moments, and the copy into SoA groups, for rows of floats by AVX-512. The same bits as the plain loops.
#define TO_DOUBLES(values) _mm512_maskz_cvtps_pd((__mmask8)-1, values)

enum { LINE = 64, COPIED = 16, QUAD = 4 };

// Statistics --------------------------------------------------------------------------------------------------

// Moments of `vectors` vectors side by side: `count` of each, `stride` values apart. The next batch is prefetched
// meanwhile, line by line, into the second cache, which can wait for more lines than the first.
KM_INLINE void lane_moments(const cpu_moments *out, const float *x, int64_t count, int64_t stride,
                            const double *first, const char **ahead, const int vectors) {
    km_doubles start[QUAD], sum[QUAD], square[QUAD], low[QUAD], high[QUAD];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        low[v] = high[v] = start[v] = KM_D_LOAD(first + v * LOAD_LANES);
        sum[v] = square[v] = KM_D_SPLAT(0);
    }
    for (int64_t i = 0; i < count; i++, x += stride, *ahead += vectors * LINE / 2) {
        _mm_prefetch(*ahead, _MM_HINT_T1);
        if (vectors == QUAD) _mm_prefetch(*ahead + LINE, _MM_HINT_T1);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            const km_doubles value = KM_LOAD_DOUBLES(x + v * LOAD_LANES), t = KM_D_SUB(value, start[v]);
            sum[v] = KM_D_ADD(sum[v], t);
            square[v] = KM_D_ADD(square[v], _mm512_mul_pd(t, t));
            low[v] = _mm512_maskz_min_pd((__mmask8)-1, value, low[v]);
            high[v] = _mm512_maskz_max_pd((__mmask8)-1, value, high[v]);
        }
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        KM_D_STORE(out->sum + v * LOAD_LANES, sum[v]);
        KM_D_STORE(out->square + v * LOAD_LANES, square[v]);
        KM_D_STORE(out->low + v * LOAD_LANES, low[v]);
        KM_D_STORE(out->high + v * LOAD_LANES, high[v]);
    }
}

// Joins the lanes' moments to those of features, in the order of lanes: value i of LOAD_LANES rows has feature i % d.
KM_INLINE void lanes_join(const cpu_moments *out, const cpu_moments *lanes, int64_t d) {
    for (int64_t row = 0; row < LOAD_LANES * d; row += d)
        for (int64_t f = 0; f < d; f++) {
            const double low = lanes->low[row + f], high = lanes->high[row + f];
            out->sum[f] += lanes->sum[row + f];
            out->square[f] += lanes->square[row + f];
            out->low[f] = low < out->low[f] ? low : out->low[f];
            out->high[f] = high > out->high[f] ? high : out->high[f];
        }
}

KM_TARGET static void rows_moments(const cpu_moments *out, const void *values, int64_t count, int64_t d,
                                   const double *first, double *lanes) {
    const float *rows = (const float *)values;
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

// Stores a vector of values where the mask says, and adds their squares to eight sums.
KM_INLINE km_doubles values_add(km_doubles squares, float *values, const float *x, __mmask8 here,
                                const double *centre, const double *factor) {
    const km_doubles given = TO_DOUBLES(_mm256_maskz_loadu_ps(here, x));
    const km_doubles value = _mm512_mul_pd(KM_D_SUB(given, KM_D_LOAD(centre)), KM_D_LOAD(factor));
    const __m256 rounded = _mm512_maskz_cvtpd_ps(here, value);
    const km_doubles exact = TO_DOUBLES(rounded);
    _mm256_mask_storeu_ps(values, here, rounded);
    return KM_D_FMA(exact, exact, squares); // the product is exact
}

// The same for up to LOAD_LANES (eight) rows.
KM_INLINE km_doubles eight_values(km_doubles squares, float *values, const float *x, int64_t size,
                                  const double *centre, const double *factor) {
    int64_t at = 0;
    for (; at + LOAD_LANES <= size; at += LOAD_LANES)
        squares = values_add(squares, values + at, x + at, (__mmask8)-1, centre + at, factor + at);
    if (at == size) return squares;
    return values_add(squares, values + at, x + at, (__mmask8)((1 << (size - at)) - 1), centre + at,
                      factor + at);
}

// Four values of rows i, i + 4, i + 8, i + 12.
KM_INLINE __m512 quads(const float *x, int64_t d) {
    __m512 out = _mm512_castps128_ps512(_mm_loadu_ps(x));
    out = _mm512_insertf32x4(out, _mm_loadu_ps(x + 4 * d), 1);
    out = _mm512_insertf32x4(out, _mm_loadu_ps(x + 8 * d), 2);
    return _mm512_insertf32x4(out, _mm_loadu_ps(x + 12 * d), 3);
}

// Four features of sixteen rows, `stride` apart.
KM_INLINE void columns_of(__m512 columns[QUAD], const float *x, int64_t d) {
    const __m512 a = quads(x, d), b = quads(x + d, d), c = quads(x + 2 * d, d), e = quads(x + 3 * d, d);
    const __mmask16 all = (__mmask16)-1;
    const km_doubles low_0 = _mm512_castps_pd(_mm512_maskz_unpacklo_ps(all, a, b));
    const km_doubles high_0 = _mm512_castps_pd(_mm512_maskz_unpackhi_ps(all, a, b));
    const km_doubles low_1 = _mm512_castps_pd(_mm512_maskz_unpacklo_ps(all, c, e));
    const km_doubles high_1 = _mm512_castps_pd(_mm512_maskz_unpackhi_ps(all, c, e));
    columns[0] = _mm512_castpd_ps(_mm512_maskz_unpacklo_pd((__mmask8)-1, low_0, low_1));
    columns[1] = _mm512_castpd_ps(_mm512_maskz_unpackhi_pd((__mmask8)-1, low_0, low_1));
    columns[2] = _mm512_castpd_ps(_mm512_maskz_unpacklo_pd((__mmask8)-1, high_0, high_1));
    columns[3] = _mm512_castpd_ps(_mm512_maskz_unpackhi_pd((__mmask8)-1, high_0, high_1));
}

// Stores up to sixteen lanes of an SoA group. Past the caches where all sixteen are there.
KM_INLINE void lanes_put(float *to, __m512 column, __mmask16 lanes, int streams) {
    if (lanes != (__mmask16)-1)
        _mm512_mask_storeu_ps(to, lanes, column);
    else if (streams)
        _mm512_stream_ps(to, column);
    else
        _mm512_storeu_ps(to, column);
}

// Copies up to sixteen rows of values to their lanes of an SoA group. Returns their squared norms.
KM_INLINE __m512 rows_group(float *to, const float *values, const cpu_rows_copy *copy, __mmask16 lanes) {
    const int64_t d = copy->d, soa_points = copy->soa_points;
    __m512 squares = _mm512_setzero_ps(), columns[QUAD];
    for (int64_t f = 0; f < d; f += QUAD) {
        columns_of(columns, values + f, d);
#pragma GCC unroll 4
        for (int q = 0; q < QUAD; q++) {
            if (f + q >= d) break;
            squares = _mm512_add_ps(squares, _mm512_mul_ps(columns[q], columns[q]));
            lanes_put(to + (f + q) * soa_points, columns[q], lanes, copy->streams);
        }
    }
    return squares;
}

KM_TARGET static double rows_copy(cpu_rows_copy *copy) {
    const int64_t d = copy->d, soa_points = copy->soa_points, count = copy->count;
    km_doubles squares = KM_D_SPLAT(0);
    __m512 largest = _mm512_setzero_ps();
    for (int64_t row = 0, here; row < count; row += here) {
        const int64_t lane = (copy->first + row) % soa_points, room = COPIED - lane % COPIED;
        here = count - row < room ? count - row : room;
        for (int64_t i = 0; i < here; i += LOAD_LANES) {
            const int64_t size = (here - i < LOAD_LANES ? here - i : (int64_t)LOAD_LANES) * d;
            squares = eight_values(squares, copy->values + (row + i) * d, copy->rows + (row + i) * d, size,
                                   copy->centre, copy->factor);
        }
        const __mmask16 lanes = (__mmask16)((1u << here) - 1);
        float *to = copy->soa_groups + (copy->first + row - lane) * d + lane;
        const __m512 each = rows_group(to, copy->values + row * d, copy, lanes);
        largest = _mm512_mask_max_ps(largest, lanes, largest, each);
    }
    if (copy->wants_largest) {
        const float most = _mm512_reduce_max_ps(largest);
        copy->largest = most > copy->largest ? most : copy->largest;
    }
    double sums[LOAD_LANES];
    KM_D_STORE(sums, squares);
    return load_lanes_sum(sums);
}

static void rows_copy_end(void) {
    _mm_sfence();
}

// SPDX-License-Identifier: MIT
// Exact squared distances to the nearest and the second-nearest centroid, in double, features in index order.
enum {
    FINISH_TILE = $finish_tile, // centroids at a time, each with two vectors of doubles
    FINISH_SPAN = 512           // points whose distances stay in the first cache until they are summed
};

// Of the points of a span: w, w d1^2, w d1, w (d2 - d1) / d2.
typedef struct km_span {
    double weights[FINISH_SPAN], squares[FINISH_SPAN], near[FINISH_SPAN], margin[FINISH_SPAN];
} km_span;

// Two vectors of points, `at` of the span, against all centroids.
KM_TARGET static void km_finish_points(const km_cpu_finish *finish, km_span *span, int64_t base, int64_t at) {
    const int64_t k = finish->k, whole = k / FINISH_TILE * FINISH_TILE, here = base + at;
    const km_real *points = (const km_real *)finish->points + here / GROUP * GROUP * D + here % GROUP;
    km_doubles first_0 = KM_D_SPLAT(HUGE_VAL), first_1 = first_0, second_0 = first_0, second_1 = first_0;
    km_longs index_0 = KM_LONGS(0), index_1 = index_0;
    for (int64_t from = 0; from < whole; from += FINISH_TILE) {
        const double *rows = finish->centroids + from * D;
        //@ for c in finish_list
        km_doubles a_$c = KM_D_SPLAT(0), b_$c = KM_D_SPLAT(0);
        //@ end
        for (int f = 0; f < D; f++) {
            const km_doubles x = KM_LOAD_DOUBLES(points + f * GROUP);
            const km_doubles y = KM_LOAD_DOUBLES(points + f * GROUP + DOUBLES);
            //@ for c in finish_list
            const km_doubles c_$c = KM_D_SPLAT(rows[$c * D + f]);
            const km_doubles t_$c = KM_D_SUB(x, c_$c), u_$c = KM_D_SUB(y, c_$c);
            a_$c = KM_D_FMA(t_$c, t_$c, a_$c);
            b_$c = KM_D_FMA(u_$c, u_$c, b_$c);
            //@ end
        }
        //@ for c in finish_list
        const km_longs j_$c = KM_LONGS(from + $c);
        KM_NEAREST(first_0, second_0, index_0, a_$c, j_$c);
        KM_NEAREST(first_1, second_1, index_1, b_$c, j_$c);
        //@ end
    }
    for (int64_t from = whole; from < k; from++) {
        const double *row = finish->centroids + from * D;
        km_doubles a = KM_D_SPLAT(0), b = KM_D_SPLAT(0);
        for (int f = 0; f < D; f++) {
            const km_doubles c = KM_D_SPLAT(row[f]);
            const km_doubles t = KM_D_SUB(KM_LOAD_DOUBLES(points + f * GROUP), c);
            const km_doubles u = KM_D_SUB(KM_LOAD_DOUBLES(points + f * GROUP + DOUBLES), c);
            a = KM_D_FMA(t, t, a);
            b = KM_D_FMA(u, u, b);
        }
        const km_longs j = KM_LONGS(from);
        KM_NEAREST(first_0, second_0, index_0, a, j);
        KM_NEAREST(first_1, second_1, index_1, b, j);
    }
    int64_t found[2 * DOUBLES];
    KM_PUT_LONGS(found, index_0);
    KM_PUT_LONGS(found + DOUBLES, index_1);
    for (int i = 0; i < 2 * DOUBLES; i++) finish->labels[here + i] = (int32_t)found[i];
    KM_D_STORE(finish->squares + here, first_0);
    KM_D_STORE(finish->squares + here + DOUBLES, first_1);
    if (!finish->sums) return;
    if (k == 1) second_0 = second_1 = KM_D_SPLAT(0); // there is no second: no margin
    //@ for v in pair
    {
        const km_doubles w = KM_D_LOAD(span->weights + at + $v * DOUBLES), d1 = KM_D_SQRT(first_$v),
                         d2 = KM_D_SQRT(second_$v);
        KM_D_STORE(span->squares + at + $v * DOUBLES, KM_D_MUL(w, first_$v));
        KM_D_STORE(span->near + at + $v * DOUBLES, KM_D_MUL(w, d1));
        KM_D_STORE(span->margin + at + $v * DOUBLES, KM_D_MUL(w, KM_D_QUOTIENT(KM_D_SUB(d2, d1), d2)));
    }
    //@ end
}

// Sums of a span, one point after the other: every backend adds in this order, so that all give the same bits.
KM_TARGET static void km_finish_sums(const km_cpu_finish *finish, const km_span *span, int64_t base,
                                     int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        double *sum = finish->sums + (int64_t)finish->labels[base + i] * KM_CPU_SUMS;
        sum[KM_CPU_SUM_WEIGHT] += span->weights[i];
        sum[KM_CPU_SUM_COUNT] += 1.0;
        sum[KM_CPU_SUM_SSE] += span->squares[i];
        sum[KM_CPU_SUM_DISTANCE] += span->near[i];
        sum[KM_CPU_SUM_MARGIN] += span->margin[i];
    }
}

KM_TARGET static void km_finish(const km_cpu_finish *finish) {
    km_span span;
    for (int64_t base = 0; base < finish->points_count; base += FINISH_SPAN) {
        int64_t count = finish->points_count - base;
        if (count > FINISH_SPAN) count = FINISH_SPAN;
        for (int64_t i = 0; i < FINISH_SPAN; i++)
            span.weights[i] = i >= count ? 0.0 : finish->weights ? finish->weights[base + i] : 1.0;
        for (int64_t at = 0; at < count; at += 2 * DOUBLES) km_finish_points(finish, &span, base, at);
        if (finish->sums) km_finish_sums(finish, &span, base, count);
    }
}

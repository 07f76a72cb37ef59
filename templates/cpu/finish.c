// SPDX-License-Identifier: MIT
// ==== The finishing pass
// The finishing pass: labels as double arithmetic gives them, and the sums that criteria ask for.
//@ if not float64
// Distances to all centroids are float, in the difference form: their relative error is at most (D + 2) 2^-24. Points
// whose second-nearest centroid is no farther than that beyond the nearest are ambiguous, and are resolved in double.
// Squared distances are summed in double, from the stored values; distances and margins are float.
//@ end
//@ need finish_tile finish_span finish_row finish_rows finish_list any_d finish_most finish_doubles
//@ need finish_points finish_avx512 cluster_sets four_clusters
//@ if any_d
//@ if finish_rows
// Doubles of a point or centroid: D, then zeros to whole vectors. Points of a span, which stays in the first cache.
#define FINISH_ROW ((D + DOUBLES - 1) / DOUBLES * DOUBLES)
#define FINISH_SPAN km_finish_points()
//@ else
#define FINISH_ROW D // doubles of a centroid
//@ end
//@ end
enum {
    //@ if not float64
    FINISH_TILE = $finish_tile, // centroids at a time, each with two vectors
    //@ end
    //@ if finish_rows
    //@ if any_d
    FINISH_SPAN_MAX = $finish_span,
    FINISH_DOUBLES = $finish_most,
    //@ else
    FINISH_SPAN = $finish_span, // points of a span, which stays in the first cache for all models
    FINISH_ROW = $finish_row,   // doubles of a point or centroid: D, then zeros to whole vectors
    //@ end
    //@ else
    FINISH_SPAN = $finish_span, // points of a span, which stays in the first cache for all models
    //@ if not any_d
    FINISH_ROW = $finish_row, // doubles of a centroid
    //@ end
    //@ end
    //@ if finish_avx512
    MARGIN_SCALE = 1 << 25, // of margins as integers: 32 bits hold the sum of a span's margins in a lane
    //@ end
    PAIR_POINTS = 2 * LANES // points of two vectors
};

//@ if any_d
//@ if finish_rows
KM_TARGET static inline int km_finish_points(void) {
    const int points = FINISH_DOUBLES / FINISH_ROW / SOA_POINTS * SOA_POINTS;
    return points < FINISH_SPAN_MAX ? points : FINISH_SPAN_MAX;
}

//@ end
//@ end
// A span, and what is known of its points.
typedef struct km_finish_span {
    int64_t first, count; // of the chunk's points
    //@ if finish_rows
    int64_t rows_count;           // points that `rows` holds
    double rows[$finish_doubles]; // coordinates side by side
    //@ end
    int32_t labels[$finish_points]; // -1 after the last point, up to a whole vector
    //@ if finish_avx512
    double squares[$finish_points];    // d1^2
    km_real distances[$finish_points]; // d1
    km_int margins[$finish_points];    // (d2 - d1) / d2 in steps of 1 / MARGIN_SCALE
    //@ else
    double squares[$finish_points], distances[$finish_points],
        margins[$finish_points]; // d1^2, d1, (d2 - d1) / d2
    //@ end
} km_finish_span;

// Two vectors of doubles from point `at` of the chunk on, against all centroids: to the last bit as on every backend.
KM_TARGET static void km_finish_exact(int32_t *labels, double *nearest, double *next,
                                      const km_cpu_finish *finish, const km_cpu_finish_model *model,
                                      int64_t at) {
    const km_real *points =
        (const km_real *)finish->points + at / SOA_POINTS * SOA_POINTS * D + at % SOA_POINTS;
    km_doubles first_0 = KM_D_SPLAT(HUGE_VAL), first_1 = first_0, second_0 = first_0, second_1 = first_0;
    km_longs index_0 = KM_LONGS(0), index_1 = index_0;
    int64_t found[2 * DOUBLES];
    for (int64_t j = 0; j < model->k; j++) {
        const double *row = model->centroids + j * FINISH_ROW;
        km_doubles a = KM_D_SPLAT(0), b = a;
        for (int f = 0; f < D; f++) {
            const km_doubles c = KM_D_SPLAT(row[f]);
            const km_doubles t = KM_D_SUB(KM_LOAD_DOUBLES(points + f * SOA_POINTS), c);
            const km_doubles u = KM_D_SUB(KM_LOAD_DOUBLES(points + f * SOA_POINTS + DOUBLES), c);
            a = KM_D_FMA(t, t, a);
            b = KM_D_FMA(u, u, b);
        }
        const km_longs index = KM_LONGS(j);
        KM_KEEP_NEAREST(first_0, second_0, index_0, a, index);
        KM_KEEP_NEAREST(first_1, second_1, index_1, b, index);
    }
    KM_PUT_LONGS(found, index_0);
    KM_PUT_LONGS(found + DOUBLES, index_1);
    for (int i = 0; i < 2 * DOUBLES; i++) labels[i] = (int32_t)found[i];
    KM_D_STORE(nearest, first_0);
    KM_D_STORE(nearest + DOUBLES, first_1);
    KM_D_STORE(next, second_0);
    KM_D_STORE(next + DOUBLES, second_1);
}

// The same for two vectors of points; squared distances rounded to km_real.
KM_TARGET static void km_finish_resolve(int32_t *labels, km_real *nearest, km_real *next,
                                        const km_cpu_finish *finish, const km_cpu_finish_model *model,
                                        int64_t at) {
    double first[PAIR_POINTS], second[PAIR_POINTS];
    for (int i = 0; i < PAIR_POINTS; i += 2 * DOUBLES)
        km_finish_exact(labels + i, first + i, second + i, finish, model, at + i);
    for (int i = 0; i < PAIR_POINTS; i++) {
        nearest[i] = (km_real)first[i];
        next[i] = (km_real)second[i];
        if (model->squares && at + i < finish->points_count) model->squares[at + i] = first[i];
    }
}

//@ if not float64
// Two vectors of points against all centroids in float. Non-zero where a point is ambiguous.
KM_TARGET static int km_finish_fast(int32_t *labels, km_real *nearest, km_real *next,
                                    const km_cpu_finish *finish, const km_cpu_finish_model *model,
                                    int64_t at) {
    const km_real *points =
        (const km_real *)finish->points + at / SOA_POINTS * SOA_POINTS * D + at % SOA_POINTS;
    const int64_t k = model->k, tiles_end = 1 + (k - 1) / FINISH_TILE * FINISH_TILE;
    const km_real *start = (const km_real *)model->table;
    km_vec first_0 = KM_SPLAT(0), first_1 = first_0, second_0 = KM_SPLAT(INFINITY), second_1 = second_0;
    km_ints index_0 = KM_INTS(0), index_1 = index_0;
    for (int f = 0; f < D; f++) { // to the first centroid, which nothing is compared with
        const km_vec c = KM_SPLAT(start[f]);
        const km_vec t = KM_SUB(KM_LOAD(points + f * SOA_POINTS), c),
                     u = KM_SUB(KM_LOAD(points + f * SOA_POINTS + LANES), c);
        first_0 = KM_FMA(t, t, first_0);
        first_1 = KM_FMA(u, u, first_1);
    }
    for (int64_t from = 1; from < tiles_end; from += FINISH_TILE) {
        const km_real *rows = (const km_real *)model->table + from * (D + 1);
        //@ for c in finish_list
        km_vec a_$c = KM_SPLAT(0), b_$c = a_$c;
        //@ end
        for (int f = 0; f < D; f++) {
            const km_vec x = KM_LOAD(points + f * SOA_POINTS), y = KM_LOAD(points + f * SOA_POINTS + LANES);
            //@ for c in finish_list
            const km_vec c_$c = KM_SPLAT(rows[$c * (D + 1) + f]);
            const km_vec t_$c = KM_SUB(x, c_$c), u_$c = KM_SUB(y, c_$c);
            a_$c = KM_FMA(t_$c, t_$c, a_$c);
            b_$c = KM_FMA(u_$c, u_$c, b_$c);
            //@ end
        }
        //@ for c in finish_list
        const km_ints j_$c = KM_INTS((int32_t)from + $c);
        KM_F_KEEP_NEAREST(first_0, second_0, index_0, a_$c, j_$c);
        KM_F_KEEP_NEAREST(first_1, second_1, index_1, b_$c, j_$c);
        //@ end
    }
    for (int64_t from = tiles_end; from < k; from++) {
        const km_real *row = (const km_real *)model->table + from * (D + 1);
        km_vec a = KM_SPLAT(0), b = a;
        for (int f = 0; f < D; f++) {
            const km_vec c = KM_SPLAT(row[f]);
            const km_vec t = KM_SUB(KM_LOAD(points + f * SOA_POINTS), c);
            const km_vec u = KM_SUB(KM_LOAD(points + f * SOA_POINTS + LANES), c);
            a = KM_FMA(t, t, a);
            b = KM_FMA(u, u, b);
        }
        const km_ints j = KM_INTS((int32_t)from);
        KM_F_KEEP_NEAREST(first_0, second_0, index_0, a, j);
        KM_F_KEEP_NEAREST(first_1, second_1, index_1, b, j);
    }
    KM_PUT_INTS(labels, index_0);
    KM_PUT_INTS(labels + LANES, index_1);
    KM_STORE(nearest, first_0);
    KM_STORE(nearest + LANES, first_1);
    KM_STORE(next, second_0);
    KM_STORE(next + LANES, second_1);
    // Twice the error bound, and what squares may lose by underflow.
    const km_vec apart = KM_SPLAT(1.0f + (D + 4) * 0x1p-22f), lost = KM_SPLAT(1e-37f);
    return KM_ANY_ABOVE(KM_FMA(first_0, apart, lost), second_0) |
           KM_ANY_ABOVE(KM_FMA(first_1, apart, lost), second_1);
}

//@ end
// Labels of a span, and the distances and margins that are summed.
KM_TARGET static void km_finish_assign(km_finish_span *span, const km_cpu_finish *finish,
                                       const km_cpu_finish_model *model) {
    for (int64_t at = 0; at < span->count; at += PAIR_POINTS) {
        km_real nearest[PAIR_POINTS], next[PAIR_POINTS];
        int32_t *labels = span->labels + at;
        //@ if float64
        km_finish_resolve(labels, nearest, next, finish, model, span->first + at);
        //@ else
        if (model->k == 1 || model->squares ||
            km_finish_fast(labels, nearest, next, finish, model, span->first + at))
            km_finish_resolve(labels, nearest, next, finish, model, span->first + at);
        //@ end
        for (int i = 0; i < PAIR_POINTS; i += LANES) {
            const km_vec first = KM_LOAD(nearest + i);
            const km_vec second =
                KM_LOAD((model->k > 1 ? next : nearest) + i); // a single centroid has no margin
            //@ if finish_avx512
            const km_vec inverse = KM_INVERSE_ROOT(second), d1 = KM_MUL(first, KM_INVERSE_ROOT(first));
            const km_vec margin = KM_MUL(KM_SUB(KM_MUL(second, inverse), d1), inverse);
            //@ else
            const km_vec d1 = KM_SQRT(first), d2 = KM_SQRT(second);
            const km_vec margin = KM_QUOTIENT(KM_SUB(d2, d1), d2);
            //@ end
            //@ if finish_avx512
            KM_STORE(span->distances + at + i, d1);
            KM_PUT_INTS(span->margins + at + i, KM_ROUND(KM_MUL(margin, KM_SPLAT(MARGIN_SCALE))));
            //@ else
            KM_STORE_WIDE(span->distances + at + i, d1);
            KM_STORE_WIDE(span->margins + at + i, margin);
            //@ end
            //@ if float64
            KM_STORE(span->squares + at + i, KM_LOAD(nearest + i));
            //@ end
        }
    }
}

//@ if finish_rows
// Points of a span as rows of doubles.
KM_TARGET static void km_finish_rows(km_finish_span *span, const km_cpu_finish *finish) {
    for (int64_t base = 0; base < span->count; base += SOA_POINTS) {
        const km_real *points = (const km_real *)finish->points + (span->first + base) * D;
        double *rows = span->rows + base * FINISH_ROW;
        for (int i = 0; i < SOA_POINTS; i++, rows += FINISH_ROW) {
            const km_real *point = points + i;
            int f = 0;
            for (; f + 4 <= D; f += 4, point += 4 * SOA_POINTS)
                *(km_quad *)(rows + f) = __builtin_convertvector(KM_FOUR(point), km_quad);
            for (; f < D; f++, point += SOA_POINTS) rows[f] = (double)point[0];
        }
    }
    span->rows_count = span->count;
}

//@ end
//@ if not float64
//@ if finish_avx512
// Squared distances of a span to few rows by label. A feature of all of them fits two vectors, from which an
// instruction picks by label.
KM_TARGET static void km_finish_squares_few(km_finish_span *span, const km_cpu_finish *finish,
                                            const double *columns) {
    const int64_t count = span->count;
    for (int64_t base = 0; base < count; base += SOA_POINTS) {
        const km_real *points = (const km_real *)finish->points + (span->first + base) * D;
        for (int i = 0; i < SOA_POINTS && base + i < count; i += DOUBLES) {
            const km_longs labels = KM_LOAD_LONGS(span->labels + base + i);
            km_doubles square = KM_D_SPLAT(0);
            for (int f = 0; f < D; f++) {
                const km_doubles t = KM_D_SUB(KM_LOAD_DOUBLES(points + f * SOA_POINTS + i),
                                              KM_D_PICK(columns + KM_CPU_FEW_CLUSTERS * f, labels));
                square = KM_D_FMA(t, t, square);
            }
            KM_D_STORE(span->squares + base + i, square);
        }
    }
}

// Distances of a span whose squares are known.
KM_TARGET static void km_finish_distances(km_finish_span *span) {
    for (int64_t at = 0; at < span->count; at += LANES) {
        km_real rounded[LANES];
        for (int i = 0; i < LANES; i++) rounded[i] = (km_real)span->squares[at + i];
        const km_vec nearest = KM_LOAD(rounded);
        KM_STORE(span->distances + at, KM_MUL(nearest, KM_INVERSE_ROOT(nearest)));
    }
}

// Stores labels of a span past the caches, which the points need.
KM_TARGET static void km_finish_labels(int32_t *to, const int32_t *from, int64_t count) {
    int64_t i = 0;
    for (; i < count && (uintptr_t)(to + i) % sizeof(km_ints); i++) to[i] = from[i];
    for (; i + LANES <= count; i += LANES) KM_STREAM_INTS(to + i, KM_LOAD_INTS(from + i));
    for (; i < count; i++) to[i] = from[i];
}

//@ end
//@ end
// Squared distances of a span to any number of rows by label, point by point.
KM_TARGET static void km_finish_squares(double *out, km_finish_span *span, const km_cpu_finish *finish,
                                        const double *rows) {
    //@ if finish_rows
    if (!span->rows_count) km_finish_rows(span, finish);
    //@ end
    for (int64_t i = 0; i < span->count; i++) {
        const double *c = rows + span->labels[i] * (int64_t)FINISH_ROW;
        //@ if finish_rows
        const double *x = span->rows + i * FINISH_ROW;
        km_doubles squares = KM_D_SPLAT(0);
        double lanes[DOUBLES], square = 0;
        for (int f = 0; f < FINISH_ROW; f += DOUBLES) {
            const km_doubles t = KM_D_SUB(KM_D_LOAD(x + f), KM_D_LOAD(c + f));
            squares = KM_D_FMA(t, t, squares);
        }
        KM_D_STORE(lanes, squares);
        for (int l = 0; l < DOUBLES; l++) square += lanes[l];
        out[i] = square;
        //@ else
        const int64_t at = span->first + i;
        const km_real *x =
            (const km_real *)finish->points + at / SOA_POINTS * SOA_POINTS * D + at % SOA_POINTS;
        double parts[4] = {0, 0, 0, 0}; // four sums, so that an addition need not wait for the one before
        int64_t f = 0;
        for (; f + 4 <= D; f += 4)
            for (int p = 0; p < 4; p++) {
                const double t = (double)x[(f + p) * SOA_POINTS] - c[f + p];
                parts[p] += t * t;
            }
        for (; f < D; f++) {
            const double t = (double)x[f * SOA_POINTS] - c[f];
            parts[0] += t * t;
        }
        out[i] = (parts[0] + parts[1]) + (parts[2] + parts[3]);
        //@ end
    }
}

// Distances of a span to the means by label, in the place of those to the centroids.
KM_TARGET static void km_finish_mean_distances(km_finish_span *span, const km_cpu_finish *finish,
                                               const km_cpu_finish_model *model) {
    //@ if finish_avx512
    if (model->k <= KM_CPU_FEW_CLUSTERS)
        km_finish_squares_few(span, finish, model->mean_columns);
    else
        km_finish_squares(span->squares, span, finish, model->means);
    km_finish_distances(span);
    //@ else
    km_finish_squares(span->distances, span, finish, model->means);
    for (int64_t at = 0; at < span->count; at += LANES) {
        km_real rounded[LANES];
        for (int i = 0; i < LANES; i++)
            rounded[i] = at + i < span->count ? (km_real)span->distances[at + i] : 0;
        KM_STORE_WIDE(span->distances + at, KM_SQRT(KM_LOAD(rounded)));
    }
    //@ end
}

//@ if finish_avx512
// How many bits of `count` points are set.
KM_TARGET static inline int64_t km_count_bits(const uint16_t *words, int64_t count) {
    int64_t bits = 0, at = 0;
    for (; at + 4 * LANES <= count; at += 4 * LANES) {
        uint64_t four;
        memcpy(&four, words + at / LANES, sizeof four);
        bits += __builtin_popcountll(four);
    }
    for (; at < count; at += LANES) bits += __builtin_popcount(words[at / LANES]);
    return bits;
}

//@ end
//@ for set in cluster_sets
// Sums of a span for clusters from .. from + $set - 1: each adds the points that have its label.
KM_TARGET static void km_finish_sums_$set(const km_finish_span *span, const km_cpu_finish_model *model,
                                          int64_t from) {
    //@ for c in set_centroids
    km_doubles square_$c = KM_D_SPLAT(0), near_$c = square_$c;
    //@ if finish_avx512
    km_ints margin_$c = KM_INTS(0);
    uint16_t points_$c[$finish_points / LANES]; // a bit for each
    //@ else
    km_doubles margin_$c = square_$c;
    km_ints count_$c = KM_INTS(0);
    //@ end
    const km_ints j_$c = KM_INTS((int32_t)from + $c);
    //@ end
    for (int64_t at = 0; at < span->count; at += LANES) {
        const km_ints labels = KM_LOAD_LABELS(span->labels + at);
        //@ if finish_avx512
        const km_doubles low = KM_LOAD_DOUBLES(span->distances + at),
                         high = KM_LOAD_DOUBLES(span->distances + at + DOUBLES);
        const km_ints margins = KM_LOAD_INTS(span->margins + at);
        //@ end
        //@ for c in set_centroids
        const km_mask own_$c = KM_EQUAL(labels, j_$c);
        KM_D_ADD_WHERE(square_$c, own_$c, span->squares + at);
        //@ if finish_avx512
        points_$c[at / LANES] = own_$c;
        KM_D_ADD_BOTH(near_$c, own_$c, low, high);
        KM_ADD_INTS_WHERE(margin_$c, own_$c, margins);
        //@ else
        KM_COUNT_WHERE(count_$c, own_$c);
        KM_D_ADD_WHERE(near_$c, own_$c, span->distances + at);
        KM_D_ADD_WHERE(margin_$c, own_$c, span->margins + at);
        //@ end
        //@ end
    }
    //@ for c in set_centroids
    if (from + $c < model->k) {
        double *sum = model->sums + (from + $c) * KM_CPU_SUMS;
        //@ if finish_avx512
        const double count = (double)km_count_bits(points_$c, span->count);
        //@ else
        const double count = (double)KM_SUM_INTS(count_$c);
        //@ end
        sum[KM_CPU_SUM_WEIGHT] += count;
        sum[KM_CPU_SUM_COUNT] += count;
        sum[KM_CPU_SUM_SSE] += KM_D_SUM(square_$c);
        sum[KM_CPU_SUM_DISTANCE] += KM_D_SUM(near_$c);
        //@ if finish_avx512
        sum[KM_CPU_SUM_MARGIN] += KM_SUM_WIDE(margin_$c) / MARGIN_SCALE;
        //@ else
        sum[KM_CPU_SUM_MARGIN] += KM_D_SUM(margin_$c);
        //@ end
    }
    //@ end
}

//@ end
KM_TARGET static void km_finish_sums_few(km_finish_span *span, const km_cpu_finish_model *model) {
    int64_t from = 0;
    for (int64_t i = span->count; i % LANES; i++) span->labels[i] = -1;
    //@ if four_clusters
    // Three where they leave an even number.
    if (model->k % 2 == 1 && model->k > 1) {
        km_finish_sums_3(span, model, from);
        from = 3;
    }
    for (; model->k - from > 2; from += 4) km_finish_sums_4(span, model, from);
    //@ end
    for (; from < model->k; from += 2) km_finish_sums_2(span, model, from);
}

// Sums of a span for any number of clusters, point by point.
static void km_finish_sums_many(const km_finish_span *span, const km_cpu_finish_model *model,
                                const double *weights) {
    for (int64_t i = 0; i < span->count; i++) {
        double *sum = model->sums + span->labels[i] * (int64_t)KM_CPU_SUMS;
        const double weight = weights ? weights[i] : 1.0;
        sum[KM_CPU_SUM_WEIGHT] += weight;
        sum[KM_CPU_SUM_COUNT] += 1.0;
        sum[KM_CPU_SUM_SSE] += weight * span->squares[i];
        //@ if finish_avx512
        sum[KM_CPU_SUM_DISTANCE] += weight * (double)span->distances[i];
        sum[KM_CPU_SUM_MARGIN] += weight * ((double)span->margins[i] / MARGIN_SCALE);
        //@ else
        sum[KM_CPU_SUM_DISTANCE] += weight * span->distances[i];
        sum[KM_CPU_SUM_MARGIN] += weight * span->margins[i];
        //@ end
    }
}

// Sums of a span, whose labels and distances are known.
KM_TARGET static void km_finish_sum(km_finish_span *span, const km_cpu_finish *finish,
                                    const km_cpu_finish_model *model) {
    if (model->means) km_finish_mean_distances(span, finish, model);
    //@ if not float64
    //@ if finish_avx512
    if (model->k <= KM_CPU_FEW_CLUSTERS)
        km_finish_squares_few(span, finish, model->columns);
    else
        km_finish_squares(span->squares, span, finish, model->centroids);
    if (model->k == 1 && !model->means) km_finish_distances(span);
    //@ else
    km_finish_squares(span->squares, span, finish, model->centroids);
    //@ end
    //@ end
    if (model->k <= KM_CPU_FEW_CLUSTERS && !finish->weights)
        km_finish_sums_few(span, model);
    else
        km_finish_sums_many(span, model, finish->weights ? finish->weights + span->first : NULL);
}

KM_TARGET static void km_finish(const km_cpu_finish *finish) {
    km_finish_span span;
    //@ if any_d
    D = (int)finish->d;
    //@ end
    //@ if finish_rows
    memset(span.rows, 0, sizeof span.rows);
    //@ end
    for (span.first = 0; span.first < finish->points_count; span.first += FINISH_SPAN) {
        span.count = finish->points_count - span.first;
        if (span.count > FINISH_SPAN) span.count = FINISH_SPAN;
        //@ if finish_rows
        span.rows_count = 0;
        //@ end
        for (int64_t m = 0; m < finish->models_count; m++) {
            const km_cpu_finish_model *model = &finish->models[m];
            //@ if finish_avx512
            if (model->k == 1 && model->sums && !model->squares) { // all points are its own
                memset(span.labels, 0, sizeof span.labels);
                memset(span.margins, 0, sizeof span.margins);
            } else {
                km_finish_assign(&span, finish, model);
            }
            if (model->labels) km_finish_labels(model->labels + span.first, span.labels, span.count);
            //@ else
            km_finish_assign(&span, finish, model);
            if (model->labels)
                memcpy(model->labels + span.first, span.labels, (size_t)span.count * sizeof *span.labels);
            //@ end
            if (model->sums) km_finish_sum(&span, finish, model);
        }
    }
    //@ if finish_avx512
    KM_STREAM_END;
    //@ end
}

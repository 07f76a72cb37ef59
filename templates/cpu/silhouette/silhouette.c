// SPDX-License-Identifier: MIT
// The pass of the silhouette in the squared Euclidean form (runtime/cpu/silhouette.h). Points lie across lanes; the
// squared distances to four centroids are computed at a time, in the difference form: their relative error is at most
// (d + 2) u, u half a unit of a real's last place.

//@ include cpu/prebuilt.h
#include "runtime/cpu/silhouette.h"

//@ if float64
#define SILHOUETTE_UNIT 0x1p-53
// The nearest centroid is the finishing pass's: the same fused operations in the same order.
#define DISTANCE_FMA(a, b, c) KM_D_FMA(a, b, c)
//@ else
#define SILHOUETTE_UNIT 0x1p-24f
#define DISTANCE_FMA(a, b, c) KM_FMA(a, b, c)
//@ end

// What is known of a vector of points.
typedef struct found {
    km_vec own,
        other;     // mean squared distances to the points of the own cluster, and of the nearest other one
    km_vec factor; // of the own cluster
    uint64_t open; // a bit for each point whose label is not sure: the rest means nothing
} found;

// Adds (x - c)^2 and (y - c)^2 of one feature.
#define ADD_FEATURE(a, b, value)                                                                             \
    do {                                                                                                     \
        const km_vec centre = KM_SPLAT(value), t = KM_SUB(x, centre), u = KM_SUB(y, centre);                 \
        a = DISTANCE_FMA(t, t, a);                                                                           \
        b = DISTANCE_FMA(u, u, b);                                                                           \
    } while (0)

// Squared distances of two vectors of points to rows of a table: four at a time, so that a value that was loaded serves
// several times. The last ones may be computed twice: there is space for a multiple of four.
KM_INLINE void squares(km_real *to, const km_real *points, const km_real *others, const km_real *table,
                       const cpu_silhouette_work *work, int64_t rows) {
    const int64_t d = work->d, soa_points = work->soa_points, step = d + 2;
    for (int64_t j = 0; j < rows; j += 4, to += 8 * LANES) {
        const int64_t left = rows - j;
        const km_real *row = table + j * step, *row_1 = row + (left > 1 ? step : 0),
                      *row_2 = row + (left > 2 ? 2 * step : 0), *row_3 = row + (left > 3 ? 3 * step : 0);
        km_vec a_0 = KM_SPLAT(0), a_1 = a_0, b_0 = a_0, b_1 = a_0, c_0 = a_0, c_1 = a_0, e_0 = a_0, e_1 = a_0;
        for (int64_t f = 0; f < d; f++) {
            const km_vec x = KM_LOAD(points + f * soa_points), y = KM_LOAD(others + f * soa_points);
            ADD_FEATURE(a_0, a_1, row[f]);
            ADD_FEATURE(b_0, b_1, row_1[f]);
            ADD_FEATURE(c_0, c_1, row_2[f]);
            ADD_FEATURE(e_0, e_1, row_3[f]);
        }
        KM_STORE(to, a_0);
        KM_STORE(to + LANES, a_1);
        KM_STORE(to + 2 * LANES, b_0);
        KM_STORE(to + 3 * LANES, b_1);
        KM_STORE(to + 4 * LANES, c_0);
        KM_STORE(to + 5 * LANES, c_1);
        KM_STORE(to + 6 * LANES, e_0);
        KM_STORE(to + 7 * LANES, e_1);
    }
}

// What a squared distance can be at most that may still be the least one, whose value is `least`.
KM_INLINE km_vec widened(km_vec least, int64_t d) {
    //@ if float64
    (void)d;
    return least;
    //@ else
    // Twice the error bound, and what squares may lose by underflow.
    return KM_FMA(least, KM_SPLAT(1.0f + (float)(d + 4) * 0x1p-22f), KM_SPLAT(1e-37f));
    //@ end
}

// The same of squared distances to means, none of which is farther from its centroid than half of `apart`.
KM_INLINE km_vec widened_by(km_vec least, km_real apart, int64_t d) {
    const km_vec far = KM_ADD(KM_SQRT(least), KM_SPLAT(apart));
    return widened(KM_MUL_REAL(KM_MUL_REAL(far, far), KM_SPLAT(1 + (km_real)(d + 4) * 4 * SILHOUETTE_UNIT)),
                   d);
}

// Row j of one vector of points.
#define TAKE(v)                                                                                              \
    do {                                                                                                     \
        const km_choice is_own = KM_REACHES(within_##v, KM_LOAD(by + (v)*LANES));                            \
        const km_vec mean = KM_ADD(KM_LOAD(to_means + (v)*LANES), spread);                                   \
        KM_LEAST_UNLESS(other_##v, is_own, mean);                                                            \
        KM_KEEP_WHERE(own_##v, is_own, mean);                                                                \
        KM_KEEP_WHERE(factor_##v, is_own, own_factor);                                                       \
        KM_COUNT_CHOSEN(count_##v, is_own);                                                                  \
    } while (0)

// Of two vectors of points, the squared distances in `by` decide which cluster is the own one: the only one that is not
// farther than the nearest, but for rounding and for `apart`. `to_means`: squared distances to the means of the
// clusters; terms of row j are at terms[j * (d + 2)].
KM_INLINE void take(found *n, const km_real *by, km_real apart, const km_real *to_means, const km_real *terms,
                    int64_t k, int64_t d) {
    km_vec within_0 = KM_LOAD(by), within_1 = KM_LOAD(by + LANES);
    for (int64_t j = 1; j < k; j++) {
        within_0 = KM_MIN(KM_LOAD(by + 2 * j * LANES), within_0);
        within_1 = KM_MIN(KM_LOAD(by + 2 * j * LANES + LANES), within_1);
    }
    within_0 = apart > 0 ? widened_by(within_0, apart, d) : widened(within_0, d);
    within_1 = apart > 0 ? widened_by(within_1, apart, d) : widened(within_1, d);
    km_vec own_0 = KM_SPLAT(0), own_1 = own_0, factor_0 = own_0, factor_1 = own_0,
           other_0 = KM_SPLAT(INFINITY), other_1 = other_0;
    km_ints count_0 = KM_INTS(0), count_1 = count_0;
    for (int64_t j = 0; j < k; j++, by += 2 * LANES, to_means += 2 * LANES, terms += d + 2) {
        const km_vec spread = KM_SPLAT(terms[0]), own_factor = KM_SPLAT(terms[1]);
        TAKE(0);
        TAKE(1);
    }
    n[0] = (found){own_0, other_0, factor_0, KM_DIFFERENT(count_0, KM_INTS(1))};
    n[1] = (found){own_1, other_1, factor_1, KM_DIFFERENT(count_1, KM_INTS(1))};
}

KM_INLINE km_vec silhouettes(const found *n) {
    const km_vec zero = KM_SPLAT(0), own = KM_MUL_REAL(n->own, n->factor);
    const km_vec larger = KM_MAX(own, n->other), quotient = KM_DIVIDE(KM_SUB(n->other, own), larger);
    // A point alone in its cluster has 0 by definition, and one among copies of itself in all clusters as well.
    return KM_WHERE(KM_LESS(zero, KM_MIN(n->factor, larger)), quotient, zero);
}

// Adds the silhouettes of two vectors of points that start at `at`.
KM_INLINE void add(const cpu_silhouette_work *work, int64_t m, const found *n, int64_t at) {
    const int64_t here = work->count - at;
    double values[2 * LANES], *sums = work->sums + m * SILHOUETTE_SUMS;
    const km_vec x = silhouettes(&n[0]), y = silhouettes(&n[1]);
    if (!(n[0].open | n[1].open) && here >= 2 * LANES && !work->weights) {
        KM_STORE_WIDE(values, KM_ADD(x, y));
        for (int i = 0; i < LANES; i += DOUBLES)
            KM_D_STORE(sums + i, KM_D_ADD(KM_D_LOAD(sums + i), KM_D_LOAD(values + i)));
        return;
    }
    KM_STORE_WIDE(values, x);
    KM_STORE_WIDE(values + LANES, y);
    for (int64_t i = 0; i < here && i < 2 * LANES; i++) {
        const double value = n[i / LANES].open >> i % LANES & 1 ? work->exact(work, m, at + i) : values[i];
        sums[i % LANES] += work->weights ? work->weights[at + i] * value : value;
    }
}

KM_INLINE const km_real *points_at(const cpu_silhouette_work *work, int64_t at) {
    const int64_t first = at / work->soa_points * work->soa_points;
    return (const km_real *)work->points + first * work->d + (at - first);
}

// By squared distances to the means of a model's clusters; labels that those leave open by its centroids, where these
// lie elsewhere.
KM_INLINE void take_model(found *n, const cpu_silhouette_work *work, const cpu_silhouette_model *model,
                          const km_real *x, const km_real *y, const km_real *to_means) {
    const int64_t d = work->d, k = model->k;
    const km_real *terms = (const km_real *)model->means + d;
    const km_real apart = (km_real)model->apart;
    km_real *to_centroids = (km_real *)work->squares + 2 * LANES * SILHOUETTE_ROWS(work->rows);
    take(n, to_means, apart, to_means, terms, k, d);
    if (!(apart > 0) || !(n[0].open | n[1].open)) return;
    squares(to_centroids, x, y, (const km_real *)model->centroids, work, k);
    take(n, to_centroids, 0, to_means, terms, k, d);
}

KM_TARGET static void pass(const cpu_silhouette_work *work) {
    for (int64_t at = 0; at < work->count; at += 2 * LANES) {
        const int64_t here = work->count - at;
        const km_real *x = points_at(work, at), *y = here > LANES ? points_at(work, at + LANES) : x;
        km_real *to_means = (km_real *)work->squares;
        for (int64_t m = 0; m < work->models_count; m++) {
            const cpu_silhouette_model *model = &work->models[m];
            found n[2];
            if (model->together) {
                to_means = (km_real *)work->squares;
                squares(to_means, x, y, (const km_real *)model->means, work, model->together);
            }
            take_model(n, work, model, x, y, to_means);
            to_means += model->k * 2 * LANES;
            add(work, m, n, at);
        }
    }
}

const cpu_silhouette_kernels $name = {{$isa, sizeof(km_real)}, pass};

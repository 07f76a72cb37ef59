// SPDX-License-Identifier: MIT
// The pass of the silhouette in the squared Euclidean form (runtime/cpu/silhouette.h). Points lie across lanes; the
// squared distances to four centroids are computed at a time, in the difference form: their relative error is at most
// (d + 2) u, u half a unit of a real's last place.

//@ include cpu/prebuilt.h
#include "runtime/cpu/silhouette.h"

//@ if float64
// The nearest centroid is the finishing pass's: the same fused operations in the same order.
#define DISTANCE_FMA(a, b, c) KM_D_FMA(a, b, c)
//@ else
#define DISTANCE_FMA(a, b, c) KM_FMA(a, b, c)
//@ end

// What is known of a vector of points after some centroids.
typedef struct nearest {
    km_vec first, second; // squared distances
    km_vec label;         // as a real: every index is one
    km_vec factor;        // of the own cluster
    km_vec own,
        other; // mean squared distances to the points of the own cluster, and of the nearest other one
} nearest;

KM_INLINE nearest nearest_none(void) {
    const km_vec far = KM_SPLAT(INFINITY), zero = KM_SPLAT(0);
    return (nearest){far, far, zero, zero, far, far};
}

// Takes a squared distance into the two least so far. Equal ones keep the lower index.
#define KEEP_NEAREST(n, square)                                                                              \
    n.second = KM_MIN(n.second, KM_MAX(square, n.first));                                                    \
    n.first = KM_MIN(square, n.first)

// Centroid j, which is also the mean of its points.
#define TAKE(n, square, row, j)                                                                              \
    do {                                                                                                     \
        const km_choice near = KM_LESS(square, n.first);                                                     \
        const km_vec mean = KM_ADD(square, KM_SPLAT((row)[d]));                                              \
        KEEP_NEAREST(n, square);                                                                             \
        n.other = KM_MIN(n.other, KM_WHERE(near, n.own, mean));                                              \
        n.own = KM_WHERE(near, mean, n.own);                                                                 \
        n.factor = KM_WHERE(near, KM_SPLAT((row)[d + 1]), n.factor);                                         \
    } while (0)

// Centroid j, whose points have another mean: the label alone.
#define TAKE_LABEL(n, square, row, j)                                                                        \
    do {                                                                                                     \
        const km_choice near = KM_LESS(square, n.first);                                                     \
        KEEP_NEAREST(n, square);                                                                             \
        n.label = KM_WHERE(near, KM_SPLAT((km_real)(j)), n.label);                                           \
    } while (0)

// The mean of cluster j, of points whose labels are known.
#define TAKE_MEAN(n, square, row, j)                                                                         \
    do {                                                                                                     \
        const km_choice is_own = KM_SAME(n.label, KM_SPLAT((km_real)(j)));                                   \
        const km_vec mean = KM_ADD(square, KM_SPLAT((row)[d]));                                              \
        n.other = KM_MIN(n.other, KM_WHERE(is_own, KM_SPLAT(INFINITY), mean));                               \
        n.own = KM_WHERE(is_own, mean, n.own);                                                               \
        n.factor = KM_WHERE(is_own, KM_SPLAT((row)[d + 1]), n.factor);                                       \
    } while (0)

// Adds (x - c)^2 and (y - c)^2 of one feature.
#define ADD_FEATURE(a, b, value)                                                                             \
    do {                                                                                                     \
        const km_vec centre = KM_SPLAT(value), t = KM_SUB(x, centre), u = KM_SUB(y, centre);                 \
        a = DISTANCE_FMA(t, t, a);                                                                           \
        b = DISTANCE_FMA(u, u, b);                                                                           \
    } while (0)

// A function that takes the distances of two vectors of points to all rows of a table by one of these: four rows at a
// time, so that a value that was loaded serves several times.
#define DISTANCES(name, take)                                                                                \
    KM_INLINE void name(nearest *n, const km_real *points, const km_real *others, int64_t soa_points,        \
                        const km_real *table, int64_t k, int64_t d) {                                        \
        const int64_t step = d + 2;                                                                          \
        const km_real *row = table;                                                                          \
        nearest n_0 = n[0], n_1 = n[1];                                                                      \
        int64_t j = 0;                                                                                       \
        for (; j + 4 <= k; j += 4, row += 4 * step) {                                                        \
            km_vec a_0 = KM_SPLAT(0), a_1 = a_0, b_0 = a_0, b_1 = a_0, c_0 = a_0, c_1 = a_0, e_0 = a_0,      \
                   e_1 = a_0;                                                                                \
            for (int64_t f = 0; f < d; f++) {                                                                \
                const km_vec x = KM_LOAD(points + f * soa_points), y = KM_LOAD(others + f * soa_points);     \
                ADD_FEATURE(a_0, a_1, row[f]);                                                               \
                ADD_FEATURE(b_0, b_1, row[step + f]);                                                        \
                ADD_FEATURE(c_0, c_1, row[2 * step + f]);                                                    \
                ADD_FEATURE(e_0, e_1, row[3 * step + f]);                                                    \
            }                                                                                                \
            take(n_0, a_0, row, j);                                                                          \
            take(n_0, b_0, row + step, j + 1);                                                               \
            take(n_0, c_0, row + 2 * step, j + 2);                                                           \
            take(n_0, e_0, row + 3 * step, j + 3);                                                           \
            take(n_1, a_1, row, j);                                                                          \
            take(n_1, b_1, row + step, j + 1);                                                               \
            take(n_1, c_1, row + 2 * step, j + 2);                                                           \
            take(n_1, e_1, row + 3 * step, j + 3);                                                           \
        }                                                                                                    \
        for (; j < k; j++, row += step) {                                                                    \
            km_vec a_0 = KM_SPLAT(0), a_1 = a_0;                                                             \
            for (int64_t f = 0; f < d; f++) {                                                                \
                const km_vec x = KM_LOAD(points + f * soa_points), y = KM_LOAD(others + f * soa_points);     \
                ADD_FEATURE(a_0, a_1, row[f]);                                                               \
            }                                                                                                \
            take(n_0, a_0, row, j);                                                                          \
            take(n_1, a_1, row, j);                                                                          \
        }                                                                                                    \
        n[0] = n_0;                                                                                          \
        n[1] = n_1;                                                                                          \
    }

DISTANCES(distances, TAKE)
DISTANCES(labels, TAKE_LABEL)
DISTANCES(means, TAKE_MEAN)

// Silhouettes of a vector of points from what is known of them; points of which the label is not sure have a bit in
// `ambiguous`.
KM_INLINE km_vec silhouettes(uint64_t *ambiguous, const nearest *n, int64_t d) {
    //@ if float64
    *ambiguous = 0;
    (void)d;
    //@ else
    // Twice the error bound, and what squares may lose by underflow.
    const km_vec apart = KM_SPLAT(1.0f + (float)(d + 4) * 0x1p-22f), lost = KM_SPLAT(1e-37f);
    *ambiguous = KM_NOT_BELOW(KM_FMA(n->first, apart, lost), n->second);
    //@ end
    const km_vec zero = KM_SPLAT(0), own = KM_MUL_REAL(n->own, n->factor);
    const km_vec larger = KM_MAX(own, n->other), quotient = KM_DIVIDE(KM_SUB(n->other, own), larger);
    // A point alone in its cluster has 0 by definition, and one among copies of itself in all clusters as well.
    return KM_WHERE(KM_LESS(zero, KM_MIN(n->factor, larger)), quotient, zero);
}

// Adds the silhouettes of `here` points from `at` on.
KM_INLINE void add(const cpu_silhouette_work *work, int64_t m, const nearest *n, int64_t at, int64_t here) {
    uint64_t ambiguous;
    double values[LANES], *sums = work->sums + m * SILHOUETTE_SUMS;
    const km_vec found = silhouettes(&ambiguous, n, work->d);
    KM_STORE_WIDE(values, found);
    for (; ambiguous; ambiguous &= ambiguous - 1) {
        const int lane = __builtin_ctzll(ambiguous);
        if (lane < here) values[lane] = work->exact(work, m, at + lane);
    }
    if (here >= LANES && !work->weights) {
        for (int i = 0; i < LANES; i += DOUBLES)
            KM_D_STORE(sums + i, KM_D_ADD(KM_D_LOAD(sums + i), KM_D_LOAD(values + i)));
        return;
    }
    for (int64_t i = 0; i < here && i < LANES; i++)
        sums[i] += work->weights ? work->weights[at + i] * values[i] : values[i];
}

KM_INLINE const km_real *points_at(const cpu_silhouette_work *work, int64_t at) {
    const int64_t first = at / work->soa_points * work->soa_points;
    return (const km_real *)work->points + first * work->d + (at - first);
}

KM_TARGET static void pass(const cpu_silhouette_work *work) {
    const int64_t d = work->d, soa_points = work->soa_points;
    for (int64_t at = 0; at < work->count; at += 2 * LANES) {
        const int64_t here = work->count - at;
        const km_real *x = points_at(work, at), *y = here > LANES ? points_at(work, at + LANES) : x;
        for (int64_t m = 0; m < work->models_count; m++) {
            const cpu_silhouette_model *model = &work->models[m];
            nearest n[2] = {nearest_none(), nearest_none()};
            if (model->means) {
                labels(n, x, y, soa_points, model->table, model->k, d);
                means(n, x, y, soa_points, model->means, model->k, d);
            } else {
                distances(n, x, y, soa_points, model->table, model->k, d);
            }
            add(work, m, &n[0], at, here);
            if (here > LANES) add(work, m, &n[1], at + LANES, here - LANES);
        }
    }
}

const cpu_silhouette_kernels $name = {{$isa, sizeof(km_real)}, pass};

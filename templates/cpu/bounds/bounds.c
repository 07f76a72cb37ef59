// SPDX-License-Identifier: MIT
// The passes of the algorithms hamerly and elkan (runtime/cpu/bounds.h): the bounds, which are floats whatever reals
// are, then scores and distances.
//
// Rounding. u is half a unit of a real's last place, T the largest |c_j|^2 / 2, R = |x|^2. A score
// x . c_j - |c_j|^2 / 2 errs by at most (d + 2) u (2 T + R / 2). So a difference of two scores errs by less than
// 2 (d + 4) u (R + 2 T), and so does a squared distance, which is R less twice a score. The margin is m (R + 2 T) with
// m = 3 (d + 4) u, which covers its own rounding as well. A sum of d squared differences errs by (d + 3) u of itself.

//@ include cpu/prebuilt.h
#include "runtime/cpu/bounds.h"

enum { SCORE_VECTORS = $score_vectors }; // vectors of points that are scored at a time

// Sum and least value of a vector's lanes.
KM_TARGET static inline km_real sum_of(km_vec x) {
    //@ if avx512
    return KM_SUM(x);
    //@ else
    km_real lanes[LANES], sum = 0;
    KM_STORE(lanes, x);
    for (int lane = 0; lane < LANES; lane++) sum += lanes[lane];
    return sum;
    //@ end
}

KM_TARGET static inline float least_of(km_floats x) {
    //@ if avx512
    return KM_F_LEAST(x);
    //@ else
    float lanes[FLOATS], least = INFINITY;
    KM_F_STORE(lanes, x);
    for (int lane = 0; lane < FLOATS; lane++) least = lanes[lane] < least ? lanes[lane] : least;
    return least;
    //@ end
}

//@ include cpu/bounds/floats.c

// Reals ------------------------------------------------------------------------------------------------------

static inline km_real relative_margin(const int64_t d) {
    return (km_real)(3 * (d + 4)) * (sizeof(km_real) == 4 ? (km_real)0x1p-24 : (km_real)0x1p-53);
}

// A float that is not below (not above) a length that sums of d squares gave.
static inline float length_above(km_real length, int64_t d) {
    return (float)length * (1 + 2 * bounds_step + (float)relative_margin(d)) + bounds_least;
}

static inline float length_below(km_real length, int64_t d) {
    float below = (float)length * (1 - 2 * bounds_step - (float)relative_margin(d)) - bounds_least;
    return below < bounds_most ? (below > 0 ? below : 0) : bounds_most;
}

static inline int64_t offset(const cpu_bounds_work *work, int64_t i) {
    return (i & -work->soa_points) * work->tables->d + (i & (work->soa_points - 1));
}

// Before a pass -----------------------------------------------------------------------------------------------

static void prepare(cpu_bounds_tables *tables) {
    int64_t k = tables->k, d = tables->d;
    const km_real *table = (const km_real *)tables->table;
    km_real *columns = (km_real *)tables->columns, *rows = (km_real *)tables->rows, half_square_max = 0;
    for (int64_t j = 0; j < k; j++) {
        const km_real *row = table + j * (d + 1);
        for (int64_t f = 0; f <= d; f++) columns[f * tables->k_row + j] = row[f];
        memcpy(rows + j * tables->d_row, row, (size_t)d * sizeof *row);
        if (!(-row[d] <= half_square_max)) half_square_max = -row[d];
    }
    for (int64_t j = k; j < tables->k_row; j++) columns[d * tables->k_row + j] = (km_real)-INFINITY;
    tables->half_square_max = (double)half_square_max;
}

// Half the distances of some centroids to all.
KM_TARGET static void gaps(cpu_bounds_tables *tables, int64_t from, int64_t end) {
    const int64_t k = tables->k, d = tables->d, k_row = tables->k_row;
    const km_real *columns = (const km_real *)tables->columns;
    for (int64_t j = from; j < end; j++) {
        const km_real *own = (const km_real *)tables->rows + j * tables->d_row;
        float gap = bounds_most;
        for (int64_t first = 0; first < k; first += BOUNDS_LANES) {
            km_vec squares[BOUNDS_LANES / LANES];
            km_real lengths[BOUNDS_LANES];
            for (int v = 0; v < BOUNDS_LANES / LANES; v++) squares[v] = KM_SPLAT((km_real)0);
            for (int64_t f = 0; f < d; f++)
                for (int v = 0; v < BOUNDS_LANES / LANES; v++) {
                    const km_vec apart =
                        KM_SUB(KM_LOAD(columns + f * k_row + first + v * LANES), KM_SPLAT(own[f]));
                    squares[v] = KM_FMA(apart, apart, squares[v]);
                }
            for (int v = 0; v < BOUNDS_LANES / LANES; v++) KM_STORE(lengths + v * LANES, KM_SQRT(squares[v]));
            for (int lane = 0; lane < BOUNDS_LANES; lane++) {
                float half = length_below((km_real)0.5 * lengths[lane], d);
                tables->half_distances[j * k_row + first + lane] = half;
                if (first + lane < k && first + lane != j && half < gap) gap = half;
            }
        }
        tables->gap[j] = gap;
    }
}

// Points --------------------------------------------------------------------------------------------------------

KM_TARGET static void fetch_row(km_real *row, const cpu_bounds_work *work, int64_t i) {
    const int64_t d = work->tables->d;
    const km_real *point = (const km_real *)work->points + offset(work, i);
    if (work->rows)
        memcpy(row, (const km_real *)work->rows + i * work->tables->d_row, (size_t)d * sizeof *row);
    else
        for (int64_t f = 0; f < d; f++) row[f] = point[f * work->soa_points];
}

// Gathers the coordinates of listed points, whole vectors of them: a row of BOUNDS_SCORED values for each feature.
KM_INLINE void fetch(km_real *values, const cpu_bounds_work *work, const int32_t *list, const int vectors) {
    const int64_t d = work->tables->d, step = work->rows ? 1 : work->soa_points;
    const km_real *from = work->rows ? (const km_real *)work->rows : (const km_real *)work->points;
    for (int v = 0; v < vectors; v++, list += LANES, values += LANES) {
        const km_real *points = (const km_real *)work->points + offset(work, list[0]);
        int32_t offsets[LANES];
        for (int lane = 0; lane < LANES; lane++) offsets[lane] = (int32_t)offset(work, list[lane]);
        // Points that lie side by side need no gather; a list's end may repeat its last point.
        if (list[LANES - 1] - list[0] == LANES - 1 && offsets[LANES - 1] - offsets[0] == LANES - 1 &&
            list[LANES - 1] != list[LANES - 2]) {
            for (int64_t f = 0; f < d; f++)
                KM_STORE(values + f * BOUNDS_SCORED, KM_LOAD(points + f * work->soa_points));
            continue;
        }
        for (int lane = 0; work->rows && lane < LANES; lane++)
            offsets[lane] = list[lane] * (int32_t)work->tables->d_row;
        for (int64_t f = 0; f < d; f++)
            KM_STORE(values + f * BOUNDS_SCORED, KM_GATHER(from + f * step, offsets));
    }
}

// Scores of a point against some centroid groups.
KM_INLINE void score_groups(km_real *scores, const km_real *row, const cpu_bounds_tables *tables,
                            int64_t first, const int groups) {
    const km_real *columns = (const km_real *)tables->columns + first;
    const int64_t d = tables->d, k_row = tables->k_row;
    km_vec s[4 * BOUNDS_LANES / LANES];
    for (int v = 0; v < groups * BOUNDS_LANES / LANES; v++) s[v] = KM_LOAD(columns + d * k_row + v * LANES);
    for (int64_t f = 0; f < d; f++) {
        const km_vec x = KM_SPLAT(row[f]);
        for (int v = 0; v < groups * BOUNDS_LANES / LANES; v++)
            s[v] = KM_FMA(x, KM_LOAD(columns + f * k_row + v * LANES), s[v]);
    }
    for (int v = 0; v < groups * BOUNDS_LANES / LANES; v++) KM_STORE(scores + first + v * LANES, s[v]);
}

KM_TARGET static void score_all(km_real *scores, const km_real *row, const cpu_bounds_tables *tables) {
    int64_t first = 0;
    for (; first + 4 * BOUNDS_LANES <= tables->k_row; first += 4 * BOUNDS_LANES)
        score_groups(scores, row, tables, first, 4);
    for (; first < tables->k_row; first += BOUNDS_LANES) score_groups(scores, row, tables, first, 1);
}

// The margin of a point's scores. It also covers the rounding of a squared distance.
static inline km_real margin_of(const cpu_bounds_tables *tables, km_real norm) {
    return relative_margin(tables->d) * (norm + 2 * (km_real)tables->half_square_max);
}

// Resolves an ambiguous point: the nearest of its candidates by squared differences in double.
KM_TARGET static int32_t resolve(const km_real *scores, const km_real *row, const cpu_bounds_tables *tables,
                                 km_real margin) {
    km_real best = (km_real)-INFINITY;
    for (int64_t j = 0; j < tables->k; j++) best = scores[j] > best ? scores[j] : best;
    double least = INFINITY;
    int32_t label = 0;
    for (int64_t j = 0; j < tables->k; j++) {
        if (scores[j] < best - margin) continue;
        const km_real *c = (const km_real *)tables->table + j * (tables->d + 1);
        double square = 0;
        for (int64_t f = 0; f < tables->d; f++) {
            double t = (double)row[f] - (double)c[f];
            square = __builtin_fma(t, t, square);
        }
        if (square < least) {
            least = square;
            label = (int32_t)j;
        }
    }
    return label;
}

//@ include cpu/bounds/hamerly.c

//@ include cpu/bounds/elkan.c

// Sums --------------------------------------------------------------------------------------------------------

KM_INLINE void add_row(double *sums, const double *x, int64_t d, double weight, double points) {
    for (int64_t f = 0; f < d; f++) sums[f] += weight * x[f];
    sums[d] += weight;
    sums[d + 1] += points;
}

// Adds a point to the sums of its label, and subtracts it from those of the old one (-1: none).
KM_INLINE void add_point(cpu_bounds_work *work, int64_t i, int32_t old) {
    const int64_t d = work->tables->d;
    const km_real *point = (const km_real *)work->points + offset(work, i);
    double *x = work->scratch->doubles, weight = work->weights ? work->weights[i] : 1.0;
    if (weight == 0) return;
    for (int64_t f = 0; f < d; f++) x[f] = (double)point[f * work->soa_points];
    add_row(work->sums + bounds_label(work, i) * work->pitch, x, d, weight, 1.0);
    if (old >= 0) add_row(work->sums + old * work->pitch, x, d, -weight, -1.0);
}

KM_TARGET static void add(cpu_bounds_work *work, int64_t moved) {
    const cpu_bounds_scratch *scratch = work->scratch;
    if (work->mode == KM_CPU_MOVE)
        for (int64_t at = 0; at < moved; at++) add_point(work, scratch->moved[at], scratch->moved_old[at]);
    else
        for (int64_t i = 0; i < work->count; i++) add_point(work, i, -1);
}

static void pass(cpu_bounds_work *work) {
    int64_t listed = bounds_list(work);
    work->skipped += work->count - listed;
    int64_t moved = work->is_elkan ? elkan(work, listed) : hamerly(work, listed);
    work->changed += moved;
    if (work->sums) add(work, moved);
}

const cpu_bounds_kernels $name = {{$isa, sizeof(km_real)}, pass, prepare, gaps};

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

// Bounds -----------------------------------------------------------------------------------------------------

enum {
    ELKAN_ONE_BY_ONE = 8, // what one centroid costs beside its products, in vectors of products
    FETCHED_TOGETHER = 16 // elkan: listed points that are prefetched together
};
// What covers a few roundings of a float, relatively; lengths whose squares would underflow, or overflow.
static const float bounds_step = 0x1p-22f, bounds_least = 0x1p-60f, bounds_most = 0x1p60f;

static inline int32_t bounds_label(const cpu_bounds_work *work, int64_t i) {
    if (work->labels_bytes == 1) return ((const uint8_t *)work->labels)[i];
    if (work->labels_bytes == 2) return ((const uint16_t *)work->labels)[i];
    return ((const int32_t *)work->labels)[i];
}

// Takes over a point's label. `moved` points had changed theirs before; returns how many have now.
static inline int64_t bounds_label_put(cpu_bounds_work *work, int64_t i, int32_t label, int64_t moved) {
    int32_t old = bounds_label(work, i);
    if (work->mode != KM_CPU_FIRST && label == old) return moved;
    if (work->labels_bytes == 1)
        ((uint8_t *)work->labels)[i] = (uint8_t)label;
    else if (work->labels_bytes == 2)
        ((uint16_t *)work->labels)[i] = (uint16_t)label;
    else
        ((int32_t *)work->labels)[i] = label;
    work->scratch->moved[moved] = (int32_t)i;
    work->scratch->moved_old[moved] = old;
    return moved + 1;
}

// Keeps bounds as if no centroid had moved yet (runtime/cpu/bounds.h).
static inline void bounds_keep(const cpu_bounds_work *work, int64_t i, int32_t label, float upper,
                               float lower) {
    const cpu_bounds_tables *tables = work->tables;
    float path = tables->path_least[label], credit = tables->credit[label];
    lower = lower < bounds_most ? lower : bounds_most;
    float kept = upper - path + bounds_step * (upper + path);
    if (kept > work->radius[label]) work->radius[label] = kept;
    work->upper[i] = kept;
    work->slack[i] = lower - upper + credit - bounds_step * (lower + upper + credit);
}

// The bounds as they are now.
static inline float bounds_upper(const cpu_bounds_work *work, int64_t i, int32_t label) {
    float kept = work->upper[i], path = work->tables->path_most[label];
    return kept + path + 2 * bounds_step * (fabsf(kept) + path);
}

static inline float bounds_lower(const cpu_bounds_work *work, int64_t i, int32_t label) {
    const cpu_bounds_tables *tables = work->tables;
    float slack = work->slack[i], upper = work->upper[i];
    float margin = 8 * bounds_step * (fabsf(slack) + fabsf(upper) + tables->expiry[label]);
    return slack + upper - tables->others_path_most[label] - margin;
}

KM_INLINE km_floats bounds_of_labels(const float *table, const void *labels, const int labels_bytes) {
    if (labels_bytes == 1) return KM_F_GATHER_BYTES(table, labels);
    return labels_bytes == 2 ? KM_F_GATHER_SHORTS(table, labels)
                             : KM_F_GATHER(table, (const int32_t *)labels);
}

// A bit for each point of a vector whose bounds leave its label open.
KM_INLINE uint64_t bounds_open(const cpu_bounds_work *work, int64_t i, const void *labels,
                               const int labels_bytes) {
    const cpu_bounds_tables *tables = work->tables;
    uint64_t open =
        KM_F_NOT_BELOW(bounds_of_labels(tables->expiry, labels, labels_bytes), KM_F_LOAD(work->slack + i));
    return open ? open & KM_F_NOT_BELOW(KM_F_LOAD(work->upper + i),
                                        bounds_of_labels(tables->inner, labels, labels_bytes))
                : 0;
}

KM_INLINE int64_t bounds_list_by(const cpu_bounds_work *work, const int labels_bytes) {
    const uint8_t *labels = (const uint8_t *)work->labels;
    int32_t *list = work->scratch->list;
    int64_t listed = 0, i = 0, rest = work->count % FLOATS;
    for (; i + FLOATS <= work->count; i += FLOATS)
        for (uint64_t open = bounds_open(work, i, labels + i * labels_bytes, labels_bytes); open;
             open &= open - 1)
            list[listed++] = (int32_t)i + __builtin_ctzll(open);
    if (rest == 0) return listed;
    uint8_t last[4 * FLOATS] = {0}; // behind the last point labels hold nothing
    memcpy(last, labels + i * labels_bytes, (size_t)(rest * labels_bytes));
    for (uint64_t open = bounds_open(work, i, last, labels_bytes) & (((uint64_t)1 << rest) - 1); open;
         open &= open - 1)
        list[listed++] = (int32_t)i + __builtin_ctzll(open);
    return listed;
}

// The radius of each cluster from all points' bounds.
static void bounds_radius(const cpu_bounds_work *work) {
    for (int64_t i = 0; i < work->count; i++) {
        float *radius = work->radius + bounds_label(work, i);
        if (work->upper[i] > *radius) *radius = work->upper[i];
    }
}

// Lists the points whose bounds leave their label open.
KM_TARGET static int64_t bounds_list(const cpu_bounds_work *work) {
    if (work->is_new) {
        for (int64_t i = 0; i < work->count; i++) work->scratch->list[i] = (int32_t)i;
        return work->count;
    }
    if (work->asks_radius) bounds_radius(work);
    if (work->labels_bytes == 1) return bounds_list_by(work, 1);
    return work->labels_bytes == 2 ? bounds_list_by(work, 2) : bounds_list_by(work, 4);
}

// Elkan: the candidates of a centroid group, to which a point may be nearer than to its own centroid. Lower bounds are
// compared with `upper`, the bound of the nearest that is known; half distances between centroids with `own`, the bound
// of the point's own centroid.
KM_INLINE uint64_t bounds_candidates(const cpu_bounds_tables *tables, const float *lower,
                                     const float *half_distances, int64_t first, float upper, float own) {
    const km_floats limit = KM_F_SPLAT(upper + 2 * bounds_step * upper), limit_own = KM_F_SPLAT(own);
    uint64_t open = 0;
    for (int v = 0; v < BOUNDS_LANES; v += FLOATS) {
        const km_floats bound =
            KM_F_SUB(KM_F_LOAD(lower + first + v), KM_F_LOAD(tables->path_most + first + v));
        open |=
            (KM_F_NOT_BELOW(limit, bound) & KM_F_NOT_BELOW(limit_own, KM_F_LOAD(half_distances + first + v)))
            << v;
    }
    return tables->k - first < BOUNDS_LANES ? open & (((uint64_t)1 << (tables->k - first)) - 1) : open;
}

// Vectors that leave one lane out: those from [BOUNDS_LANES - i] on have infinity in lane i, those from
// [BOUNDS_LANES + 1] on in none.
static const float bounds_but[2 * BOUNDS_LANES + 1] = {[BOUNDS_LANES] = INFINITY};

// Elkan: keeps the least lower bound of a centroid group, without that of the point's own centroid. By the triangle
// inequality another centroid is at least as far as it is from the point's own, less the point's distance to that.
KM_INLINE void bounds_group_keep(const cpu_bounds_tables *tables, float *group_lower, const float *lower,
                                 int64_t first, int32_t label, float upper) {
    const float *half_distances = tables->half_distances + label * tables->k_row;
    const int is_own = label >= first && label < first + BOUNDS_LANES;
    const float *but = bounds_but + BOUNDS_LANES + (is_own ? first - label : 1);
    const km_floats away = KM_F_SPLAT(upper), two = KM_F_SPLAT(2.0f);
    km_floats least = KM_F_SPLAT(bounds_most);
    float last[BOUNDS_LANES] = {0}; // the next point's bounds follow, which may not be written yet
    lower += first;
    if (tables->k - first < BOUNDS_LANES)
        lower = memcpy(last, lower, (size_t)(tables->k - first) * sizeof *lower);
    for (int64_t v = 0; v < BOUNDS_LANES; v += FLOATS) { // path_most is minus infinity behind the last
        const km_floats bound = KM_F_SUB(KM_F_LOAD(lower + v), KM_F_LOAD(tables->path_most + first + v));
        const km_floats across =
            KM_F_SUB(KM_F_FMA(two, KM_F_LOAD(half_distances + first + v), KM_F_LOAD(but + v)), away);
        const km_floats other = KM_F_MAX(KM_F_ADD(KM_F_LOAD(but + v), bound), across);
        least = KM_F_MIN(other, least);
    }
    float length = least_of(least), path = tables->group_path_least[first / BOUNDS_LANES];
    group_lower[first / BOUNDS_LANES] = length + path - 2 * bounds_step * (fabsf(length) + path + upper);
}

// Elkan: lower bounds, as they are kept, from the distances to a centroid group.
KM_INLINE void bounds_group_lower(float *lower, const float *lengths, const float *path_least) {
    const km_floats shorten = KM_F_SPLAT(1 - 2 * bounds_step), keep = KM_F_SPLAT(1 - bounds_step),
                    none = KM_F_SPLAT(0.0f);
    const km_floats least = KM_F_SPLAT(-bounds_least), most = KM_F_SPLAT(bounds_most);
    for (int v = 0; v < BOUNDS_LANES; v += FLOATS) {
        const km_floats length =
            KM_F_MIN(KM_F_MAX(KM_F_FMA(KM_F_LOAD(lengths + v), shorten, least), none), most);
        KM_F_STORE(lower + v, KM_F_FMA(KM_F_ADD(length, KM_F_LOAD(path_least + v)), keep, none));
    }
}

// Elkan: the least of a point's lower bounds as they are now, without that of its own centroid.
KM_TARGET static float bounds_least_other(const cpu_bounds_tables *tables, const float *group_lower) {
    const int64_t whole = tables->groups_count / FLOATS * FLOATS, rest = tables->groups_count - whole;
    km_floats least = KM_F_SPLAT(bounds_most);
    for (int64_t b = 0; b < whole; b += FLOATS)
        least = KM_F_MIN(KM_F_SUB(KM_F_LOAD(group_lower + b), KM_F_LOAD(tables->group_path_most + b)), least);
    if (rest) { // as above; group_path_most is minus infinity behind the last
        float last[FLOATS] = {0};
        memcpy(last, group_lower + whole, (size_t)rest * sizeof *last);
        least = KM_F_MIN(KM_F_SUB(KM_F_LOAD(last), KM_F_LOAD(tables->group_path_most + whole)), least);
    }
    float result = least_of(least);
    result -= 2 * bounds_step * fabsf(result);
    return result > 0 ? result : 0;
}

// Elkan: a bit for each centroid group, of a vector of them, in which a centroid may be nearer than `upper`.
KM_INLINE uint64_t bounds_open_groups(const cpu_bounds_tables *tables, const float *group_lower, int64_t from,
                                      float upper) {
    const km_floats bound =
        KM_F_SUB(KM_F_LOAD(group_lower + from), KM_F_LOAD(tables->group_path_most + from));
    uint64_t open = KM_F_NOT_BELOW(KM_F_SPLAT(upper + 2 * bounds_step * upper), bound);
    return tables->groups_count - from < FLOATS ? open & (((uint64_t)1 << (tables->groups_count - from)) - 1)
                                                : open;
}

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

// Hamerly -----------------------------------------------------------------------------------------------------

// What scoring finds of points: the nearest centroid, and bounds of the distance to it and to any other.
typedef struct scored {
    km_int index[BOUNDS_SCORED];
    km_real upper[BOUNDS_SCORED], lower[BOUNDS_SCORED], margin[BOUNDS_SCORED];
    uint64_t ambiguous; // a bit for each point that is to be resolved
} scored;

KM_INLINE void score(scored *found, const km_real *values, const cpu_bounds_tables *tables, const int vectors,
                     const int tile) {
    const int64_t d = tables->d, k = tables->k;
    const km_vec lowest = KM_SPLAT((km_real)-INFINITY), zero = KM_SPLAT((km_real)0);
    km_vec best[SCORE_VECTORS], second[SCORE_VECTORS];
    km_ints index[SCORE_VECTORS];
    for (int v = 0; v < vectors; v++) {
        best[v] = second[v] = lowest;
        index[v] = KM_INTS(0);
    }
    const km_real *row = (const km_real *)tables->table;
    for (int64_t j = 0; j < k; j += tile, row += tile * (d + 1)) {
        km_vec s[8][SCORE_VECTORS];
        for (int t = 0; t < tile; t++)
            for (int v = 0; v < vectors; v++) s[t][v] = KM_SPLAT(row[t * (d + 1) + d]);
        for (int64_t f = 0; f < d; f++) {
            km_vec x[SCORE_VECTORS];
            for (int v = 0; v < vectors; v++) x[v] = KM_LOAD(values + f * BOUNDS_SCORED + v * LANES);
            for (int t = 0; t < tile; t++) {
                const km_vec c = KM_SPLAT(row[t * (d + 1) + f]);
                for (int v = 0; v < vectors; v++) s[t][v] = KM_FMA(x[v], c, s[t][v]);
            }
        }
        for (int t = 0; t < tile; t++) {
            const km_ints j_index = KM_INTS((km_int)(j + t));
            for (int v = 0; v < vectors; v++) {
                second[v] = KM_MAX(second[v], KM_MIN(best[v], s[t][v]));
                KM_KEEP(best[v], index[v], s[t][v], j_index);
            }
        }
    }
    found->ambiguous = 0;
    const km_vec twice = KM_SPLAT((km_real)-2), slack = KM_SPLAT(relative_margin(d)),
                 square_max = KM_SPLAT(2 * (km_real)tables->half_square_max);
    for (int v = 0; v < vectors; v++) {
        km_vec norm = zero;
        for (int64_t f = 0; f < d; f++) {
            const km_vec x = KM_LOAD(values + f * BOUNDS_SCORED + v * LANES);
            norm = KM_FMA(x, x, norm);
        }
        const km_vec margin = KM_FMA(slack, KM_ADD(norm, square_max), zero);
        // A NaN stays one, and a bound that is NaN never holds.
        KM_STORE(found->upper + v * LANES,
                 KM_SQRT(KM_MAX(zero, KM_ADD(KM_FMA(twice, best[v], norm), margin))));
        KM_STORE(found->lower + v * LANES,
                 KM_SQRT(KM_MAX(zero, KM_SUB(KM_FMA(twice, second[v], norm), margin))));
        KM_STORE(found->margin + v * LANES, margin);
        KM_PUT_INTS(found->index + v * LANES, index[v]);
        found->ambiguous |= KM_NOT_BELOW(margin, KM_SUB(best[v], second[v])) << (v * LANES);
    }
}

// Resolves a point of a vector. Its distance to any other centroid has no lower bound then.
KM_TARGET static int32_t resolve_lane(const cpu_bounds_work *work, const km_real *values, km_real margin) {
    km_real *row = (km_real *)work->scratch->row, *scores = (km_real *)work->scratch->scores;
    for (int64_t f = 0; f < work->tables->d; f++) row[f] = values[f * BOUNDS_SCORED];
    score_all(scores, row, work->tables);
    return resolve(scores, row, work->tables, margin);
}

// Scores up to SCORE_VECTORS vectors of listed points against all centroids: their labels and bounds.
KM_INLINE int64_t score_points(cpu_bounds_work *work, const int32_t *list, int64_t count, int64_t moved,
                               const int vectors, const int tile) {
    const cpu_bounds_tables *tables = work->tables;
    km_real *values = (km_real *)work->scratch->values;
    scored found;
    fetch(values, work, list, vectors);
    score(&found, values, tables, vectors, tile);
    for (int64_t at = 0; at < count; at++) {
        int32_t label = (int32_t)found.index[at];
        float upper = length_above(found.upper[at], 0), lower = length_below(found.lower[at], 0);
        if (found.ambiguous >> at & 1) {
            label = resolve_lane(work, values + at, found.margin[at]);
            lower = 0;
        }
        bounds_keep(work, list[at], label, upper, lower);
        moved = bounds_label_put(work, list[at], label, moved);
    }
    work->distances += count * tables->k;
    return moved;
}

// Fills a list up to whole vectors with its last point.
static void list_fill(int32_t *list, int64_t count) {
    for (int64_t at = count; at % LANES || at == count; at++) list[at] = list[count - 1];
}

// The squared distances of a vector of listed points to their own centroids. Points are read as rows where they are
// kept so.
KM_INLINE void own_squares(km_real *squares, const cpu_bounds_work *work, const int32_t *list,
                           const int32_t *labels) {
    const cpu_bounds_tables *tables = work->tables;
    const int64_t d = tables->d, d_row = tables->d_row;
    const km_real *centroids = (const km_real *)tables->rows;
    if (work->rows) {
        for (int lane = 0; lane < LANES; lane++) {
            const km_real *point = (const km_real *)work->rows + list[lane] * d_row,
                          *own = centroids + labels[lane] * d_row;
            km_vec square = KM_SPLAT((km_real)0);
            for (int64_t f = 0; f < d_row; f += LANES) {
                const km_vec apart = KM_SUB(KM_LOAD(point + f), KM_LOAD(own + f));
                square = KM_FMA(apart, apart, square);
            }
            squares[lane] = sum_of(square);
        }
        return;
    }
    km_real *values = (km_real *)work->scratch->values;
    int32_t indices[LANES];
    for (int lane = 0; lane < LANES; lane++) indices[lane] = labels[lane] * (int32_t)d_row;
    fetch(values, work, list, 1);
    km_vec square = KM_SPLAT((km_real)0);
    for (int64_t f = 0; f < d; f++) {
        const km_vec apart = KM_SUB(KM_LOAD(values + f * BOUNDS_SCORED), KM_GATHER(centroids + f, indices));
        square = KM_FMA(apart, apart, square);
    }
    KM_STORE(squares, square);
}

// Computes the distances of listed points to their own centroids. Points whose label is still open stay listed.
KM_TARGET static int64_t tighten(cpu_bounds_work *work, int64_t listed) {
    const cpu_bounds_tables *tables = work->tables;
    int32_t *list = work->scratch->list;
    int64_t left = 0, bytes = tables->d * (int64_t)sizeof(km_real);
    list_fill(list, listed);
    for (int64_t first = 0; first < listed; first += LANES) {
        int32_t labels[LANES];
        km_real lengths[LANES];
        for (int lane = 0; lane < LANES; lane++) labels[lane] = bounds_label(work, list[first + lane]);
        for (int lane = 0; work->rows && first + LANES + lane < listed && lane < LANES; lane++)
            for (int64_t byte = 0; byte < bytes; byte += 64)
                __builtin_prefetch(
                    (const char *)((const km_real *)work->rows + list[first + LANES + lane] * tables->d_row) +
                    byte);
        own_squares(lengths, work, list + first, labels);
        KM_STORE(lengths, KM_SQRT(KM_LOAD(lengths)));
        for (int64_t lane = 0; lane < LANES && first + lane < listed; lane++) {
            int32_t i = list[first + lane], label = labels[lane];
            float upper = length_above(lengths[lane], tables->d), lower = bounds_lower(work, i, label);
            float limit = lower > tables->gap[label] ? lower : tables->gap[label];
            if (upper < limit)
                bounds_keep(work, i, label, upper, lower > 0 ? lower : 0);
            else
                list[left++] = i;
        }
    }
    work->distances += listed;
    return left;
}

KM_TARGET static int64_t hamerly(cpu_bounds_work *work, int64_t listed) {
    int32_t *list = work->scratch->list;
    int64_t moved = 0, at = 0;
    if (!work->is_new && listed && work->tables->k >= BOUNDS_TIGHTEN_K) listed = tighten(work, listed);
    if (!listed) return 0;
    list_fill(list, listed);
    for (; at + SCORE_VECTORS * LANES <= listed; at += SCORE_VECTORS * LANES)
        moved = score_points(work, list + at, SCORE_VECTORS * LANES, moved, SCORE_VECTORS, 4);
    for (; at < listed; at += LANES)
        moved = score_points(work, list + at, listed - at < LANES ? listed - at : LANES, moved, 1, 8);
    return moved;
}

// Elkan -------------------------------------------------------------------------------------------------------

// A point that is worked on, and its best scores so far.
typedef struct elkan_point {
    float *lower;         // k
    km_real norm, margin; // |x|^2; see margin_of
    km_real best, second; // the two largest scores ...
    int32_t index;        // ... and the centroid of the largest
    int64_t distances;
} elkan_point;

// Reads a point's coordinates.
KM_TARGET static elkan_point elkan_start(const cpu_bounds_work *work, int64_t i) {
    const cpu_bounds_tables *tables = work->tables;
    km_real *row = (km_real *)work->scratch->row;
    km_vec norm = KM_SPLAT((km_real)0);
    fetch_row(row, work, i);
    for (int64_t f = 0; f < tables->d_row; f += LANES)
        norm = KM_FMA(KM_LOAD(row + f), KM_LOAD(row + f), norm);
    elkan_point p = {.lower = work->lower + i * tables->k,
                     .norm = sum_of(norm),
                     .best = (km_real)-INFINITY,
                     .second = (km_real)-INFINITY};
    p.margin = margin_of(tables, p.norm);
    return p;
}

// Lower bounds of a centroid group from its scores, but for that of `own`.
KM_INLINE void elkan_bounds(const elkan_point *p, const cpu_bounds_work *work, int64_t first, int32_t own) {
    const cpu_bounds_tables *tables = work->tables;
    const km_real *scores = (const km_real *)work->scratch->scores + first;
    const km_vec norm = KM_SPLAT(p->norm - p->margin), twice = KM_SPLAT((km_real)-2),
                 zero = KM_SPLAT((km_real)0);
    km_real squares[BOUNDS_LANES];
    float lengths[BOUNDS_LANES], bounds[BOUNDS_LANES], kept = p->lower[own];
    for (int v = 0; v < BOUNDS_LANES; v += LANES)
        KM_STORE(squares + v, KM_SQRT(KM_MAX(KM_FMA(twice, KM_LOAD(scores + v), norm), zero)));
    for (int lane = 0; lane < BOUNDS_LANES; lane++) lengths[lane] = (float)squares[lane];
    bounds_group_lower(bounds, lengths, tables->path_least + first);
    if (tables->k - first >= BOUNDS_LANES)
        memcpy(p->lower + first, bounds, sizeof bounds);
    else
        for (int64_t j = first; j < tables->k; j++) p->lower[j] = bounds[j - first];
    p->lower[own] = kept;
}

// The same for one centroid.
KM_TARGET static void elkan_bound(const elkan_point *p, const cpu_bounds_work *work, int64_t j) {
    km_real square = p->norm - p->margin - 2 * ((const km_real *)work->scratch->scores)[j];
    float length = 0, path = work->tables->path_least[j];
    if (square > 0)
        length = length_below(
            sizeof(km_real) == 4 ? (km_real)sqrtf((float)square) : (km_real)sqrt((double)square), 0);
    p->lower[j] = (length + path) * (1 - bounds_step);
}

// Takes a score into the two best.
static inline void elkan_take(elkan_point *p, km_real score, int32_t index) {
    if (score > p->best) {
        p->second = p->best;
        p->best = score;
        p->index = index;
    } else if (!(score <= p->second)) {
        p->second = score;
    }
}

KM_TARGET static km_real score_one(const km_real *row, const cpu_bounds_tables *tables, int64_t j) {
    const km_real *own = (const km_real *)tables->rows + j * tables->d_row;
    km_vec sum = KM_SPLAT((km_real)0);
    for (int64_t f = 0; f < tables->d_row; f += LANES) sum = KM_FMA(KM_LOAD(row + f), KM_LOAD(own + f), sum);
    return sum_of(sum) + ((const km_real *)tables->table)[j * (tables->d + 1) + tables->d];
}

static inline float elkan_upper(const elkan_point *p) {
    km_real square = p->norm - 2 * p->best + p->margin;
    square = square < 0 ? 0 : square; // a NaN stays one
    return length_above(sizeof(km_real) == 4 ? (km_real)sqrtf((float)square) : (km_real)sqrt((double)square),
                        0);
}

// Scores the candidates of a centroid group: one by one where they are few, else the whole group.
KM_INLINE void elkan_group(elkan_point *p, const cpu_bounds_work *work, int64_t first, uint64_t open,
                           int32_t own) {
    const cpu_bounds_tables *tables = work->tables;
    const km_real *row = (const km_real *)work->scratch->row;
    km_real *scores = (km_real *)work->scratch->scores;
    int64_t one_by_one = __builtin_popcountll(open) * (ELKAN_ONE_BY_ONE + tables->d_row / LANES);
    if (one_by_one >= tables->d * (BOUNDS_LANES / LANES)) {
        const km_real score = scores[own];
        score_groups(scores, row, tables, first, 1);
        scores[own] = score;
        elkan_bounds(p, work, first, own);
        open = tables->k - first < BOUNDS_LANES ? ((uint64_t)1 << (tables->k - first)) - 1 : 0xffff;
        if (own >= first && own < first + BOUNDS_LANES) open &= ~((uint64_t)1 << (own - first));
    } else {
        for (uint64_t left = open; left; left &= left - 1) {
            int64_t j = first + __builtin_ctzll(left);
            scores[j] = score_one(row, tables, j);
            elkan_bound(p, work, j);
        }
    }
    p->distances += __builtin_popcountll(open);
    for (; open; open &= open - 1) {
        int64_t j = first + __builtin_ctzll(open);
        elkan_take(p, scores[j], (int32_t)j);
    }
}

// The label of a point whose two best scores are known. Ambiguous points are resolved.
KM_INLINE int32_t elkan_label(const elkan_point *p, const cpu_bounds_work *work) {
    const cpu_bounds_tables *tables = work->tables;
    km_real *row = (km_real *)work->scratch->row, *scores = (km_real *)work->scratch->scores;
    if (p->best - p->second > p->margin) return p->index;
    score_all(scores, row, tables);
    return resolve(scores, row, tables, p->margin);
}

// A point that has no bounds yet: scores all centroids.
KM_TARGET static int64_t elkan_first(cpu_bounds_work *work, int64_t i, int64_t moved) {
    const cpu_bounds_tables *tables = work->tables;
    km_real *scores = (km_real *)work->scratch->scores, bests[LANES], seconds[LANES];
    km_int indices[LANES];
    elkan_point p = elkan_start(work, i);
    score_all(scores, (const km_real *)work->scratch->row, tables);
    km_vec best = KM_SPLAT((km_real)-INFINITY), second = best;
    km_ints index = KM_INTS(0);
    for (int64_t first = 0; first < tables->k; first += BOUNDS_LANES) {
        elkan_bounds(&p, work, first, 0);
        for (int64_t v = first; v < first + BOUNDS_LANES; v += LANES) {
            const km_vec score = KM_LOAD(scores + v);
            const km_ints j_index = KM_INTS((km_int)v);
            second = KM_MAX(second, KM_MIN(best, score));
            KM_KEEP(best, index, score, j_index);
        }
    }
    elkan_bound(&p, work, 0); // which elkan_bounds left as it was
    KM_STORE(bests, best);
    KM_STORE(seconds, second);
    KM_PUT_INTS(indices, index);
    for (int lane = 0; lane < LANES; lane++) {
        elkan_take(&p, bests[lane], (int32_t)indices[lane] + lane);
        elkan_take(&p, seconds[lane], 0); // never the best
    }
    int32_t label = elkan_label(&p, work);
    float upper = elkan_upper(&p), *group_lower = work->group_lower + i * tables->groups_count;
    for (int64_t first = 0; first < tables->k; first += BOUNDS_LANES)
        bounds_group_keep(tables, group_lower, p.lower, first, label, upper);
    bounds_keep(work, i, label, upper, bounds_least_other(tables, group_lower));
    work->distances += tables->k;
    return bounds_label_put(work, i, label, moved);
}

// The distance of a point to its own centroid.
KM_TARGET static float elkan_own(elkan_point *p, const cpu_bounds_work *work, int64_t i, int32_t own) {
    km_real *scores = (km_real *)work->scratch->scores;
    *p = elkan_start(work, i);
    scores[own] = score_one((const km_real *)work->scratch->row, work->tables, own);
    elkan_take(p, scores[own], own);
    elkan_bound(p, work, own);
    p->distances = 1;
    return elkan_upper(p);
}

KM_TARGET static int64_t elkan_next(cpu_bounds_work *work, int64_t i, int64_t moved) {
    const cpu_bounds_tables *tables = work->tables;
    const int32_t own = bounds_label(work, i), own_group = own / BOUNDS_LANES;
    const float *half_distances = tables->half_distances + own * tables->k_row;
    float upper = bounds_upper(work, i, own), upper_own = upper;
    float *lower = work->lower + i * tables->k, *group_lower = work->group_lower + i * tables->groups_count;
    int32_t *touched_groups = work->scratch->touched_groups, label = own, touched_groups_count = 0;
    elkan_point p = {.distances = 0};
    for (int64_t from = 0; from < tables->groups_count; from += FLOATS) {
        uint64_t left = bounds_open_groups(tables, group_lower, from, upper);
        for (; left; left &= left - 1) {
            int32_t chunk = (int32_t)from + __builtin_ctzll(left);
            int64_t first = (int64_t)chunk * BOUNDS_LANES;
            touched_groups[touched_groups_count++] = chunk;
            uint64_t open = bounds_candidates(tables, lower, half_distances, first, upper, upper_own);
            if (chunk == own_group) open &= ~((uint64_t)1 << (own - first));
            if (open && !p.distances) {
                upper = upper_own = elkan_own(&p, work, i, own);
                open &= bounds_candidates(tables, lower, half_distances, first, upper, upper_own);
            }
            if (!open) continue;
            elkan_group(&p, work, first, open, own);
            upper = elkan_upper(&p);
        }
    }
    if (p.distances)
        label = elkan_label(&p, work);
    else
        work->skipped++;
    if (label != own) { // their centroid groups now leave out another one
        touched_groups[touched_groups_count++] = own_group;
        touched_groups[touched_groups_count++] = label / BOUNDS_LANES;
    }
    for (int32_t t = 0; t < touched_groups_count; t++)
        bounds_group_keep(tables, group_lower, lower, (int64_t)touched_groups[t] * BOUNDS_LANES, label,
                          upper);
    bounds_keep(work, i, label, upper, bounds_least_other(tables, group_lower));
    work->distances += p.distances;
    return label == own ? moved : bounds_label_put(work, i, label, moved);
}

// Prefetches what a point's open centroid groups need. 0: none is open, and the point keeps its label.
KM_INLINE int elkan_opens(cpu_bounds_work *work, int64_t i) {
    const cpu_bounds_tables *tables = work->tables;
    const int32_t own = bounds_label(work, i);
    const float upper = bounds_upper(work, i, own),
                *group_lower = work->group_lower + i * tables->groups_count;
    int opens = 0;
    for (int64_t from = 0; from < tables->groups_count; from += FLOATS)
        for (uint64_t left = bounds_open_groups(tables, group_lower, from, upper); left;
             left &= left - 1, opens = 1) {
            const float *lower = work->lower + i * tables->k + (from + __builtin_ctzll(left)) * BOUNDS_LANES;
            __builtin_prefetch(lower);
            __builtin_prefetch(lower + BOUNDS_LANES - 1);
        }
    if (!opens) {
        bounds_keep(work, i, own, upper, bounds_least_other(tables, group_lower));
        work->skipped++;
    } else if (work->rows) {
        const char *row = (const char *)((const km_real *)work->rows + i * tables->d_row);
        for (int64_t byte = 0; byte < tables->d * (int64_t)sizeof(km_real); byte += 64)
            __builtin_prefetch(row + byte);
    }
    return opens;
}

KM_TARGET static int64_t elkan(cpu_bounds_work *work, int64_t listed) {
    int32_t *list = work->scratch->list;
    const int64_t groups_count = work->tables->groups_count;
    int64_t moved = 0;
    if (work->is_new) {
        for (int64_t at = 0; at < listed; at++) moved = elkan_first(work, list[at], moved);
        return moved;
    }
    for (int64_t first = 0; first < listed; first += FETCHED_TOGETHER) {
        int64_t end = first + FETCHED_TOGETHER < listed ? first + FETCHED_TOGETHER : listed, left = first;
        for (int64_t at = end; at < end + FETCHED_TOGETHER && at < listed; at++)
            __builtin_prefetch(work->group_lower + list[at] * groups_count);
        for (int64_t at = first; at < end; at++)
            if (elkan_opens(work, list[at])) list[left++] = list[at];
        for (int64_t at = first; at < left; at++) moved = elkan_next(work, list[at], moved);
    }
    return moved;
}

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

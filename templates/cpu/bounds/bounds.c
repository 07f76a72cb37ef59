// SPDX-License-Identifier: MIT
// The passes of the algorithms hamerly and elkan (runtime/cpu/bounds.h): the bounds, which are floats whatever reals
// are, then scores and distances.
//
// Rounding. u is half a unit of a real's last place, T the largest |c_j|^2 / 2, R = |x|^2. A score
// x . c_j - |c_j|^2 / 2 errs by at most (d + 2) u (2 T + R / 2), so a difference of two, and R less twice a score,
// which is a squared distance, by less than 2 (d + 4) u (R + 2 T): SLACK (R + 2 T) with SLACK = 3 (d + 4) u covers the
// rounding of that product as well. A sum of d squared differences errs by (d + 3) u of itself.

//@ include cpu/prebuilt.h
#include "runtime/cpu/bounds.h"

enum { SCORE_VECTORS = $score_vectors }; // of points that are scored at a time

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

// Relative widening that covers a few roundings of a float, and a length below which squares get lost.
enum {
    ELKAN_ALONE = 8,      // what a centroid alone costs beside its products, in vectors of them
    FETCHED_TOGETHER = 16 // elkan: listed points for which memory is asked together
};
static const float bounds_step = 0x1p-22f, bounds_least = 0x1p-60f, bounds_most = 0x1p60f;

static inline int32_t bounds_label(const cpu_bounds_work *work, int64_t i) {
    if (work->labels_bytes == 1) return ((const uint8_t *)work->labels)[i];
    if (work->labels_bytes == 2) return ((const uint16_t *)work->labels)[i];
    return ((const int32_t *)work->labels)[i];
}

// Takes over a point's label; `moved`: how many points have changed theirs.
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

// Keeps bounds as they would stand if no centroid had moved yet.
static inline void bounds_keep(const cpu_bounds_work *work, int64_t i, int32_t label, float upper,
                               float lower) {
    const cpu_bounds_tables *tables = work->tables;
    float path = tables->path_least[label], credit = tables->credit[label];
    lower = lower < bounds_most ? lower : bounds_most;
    float kept = upper - path + bounds_step * (upper + path);
    if (kept > work->reach[label]) work->reach[label] = kept;
    work->upper[i] = kept;
    work->slack[i] = lower - upper + credit - bounds_step * (lower + upper + credit);
}

// The same bounds as they stand now.
static inline float bounds_upper(const cpu_bounds_work *work, int64_t i, int32_t label) {
    float kept = work->upper[i], path = work->tables->path_most[label];
    return kept + path + 2 * bounds_step * (fabsf(kept) + path);
}

static inline float bounds_lower(const cpu_bounds_work *work, int64_t i, int32_t label) {
    const cpu_bounds_tables *tables = work->tables;
    float slack = work->slack[i], upper = work->upper[i];
    float margin = 8 * bounds_step * (fabsf(slack) + fabsf(upper) + tables->expiry[label]);
    return slack + upper - tables->others_most[label] - margin;
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

// The largest bounds of each cluster, of all points.
static void bounds_reach(const cpu_bounds_work *work) {
    for (int64_t i = 0; i < work->count; i++) {
        float *reach = work->reach + bounds_label(work, i);
        if (work->upper[i] > *reach) *reach = work->upper[i];
    }
}

// Lists the points whose bounds leave their label open.
KM_TARGET static int64_t bounds_list(const cpu_bounds_work *work) {
    if (work->is_new) {
        for (int64_t i = 0; i < work->count; i++) work->scratch->list[i] = (int32_t)i;
        return work->count;
    }
    if (work->asks_reach) bounds_reach(work);
    if (work->labels_bytes == 1) return bounds_list_by(work, 1);
    return work->labels_bytes == 2 ? bounds_list_by(work, 2) : bounds_list_by(work, 4);
}

// Elkan: which centroids of a block a point could be nearer to than to its own: lower bounds are held against the
// nearest that is known, at most `upper` away, half distances between centroids against its own, at most `own` away.
KM_INLINE uint64_t bounds_candidates(const cpu_bounds_tables *tables, const float *lower, const float *halves,
                                     int64_t first, float upper, float own) {
    const km_floats reach = KM_F_SPLAT(upper + 2 * bounds_step * upper), reach_own = KM_F_SPLAT(own);
    uint64_t open = 0;
    for (int v = 0; v < BOUNDS_LANES; v += FLOATS) {
        const km_floats bound =
            KM_F_SUB(KM_F_LOAD(lower + first + v), KM_F_LOAD(tables->path_most + first + v));
        open |= (KM_F_NOT_BELOW(reach, bound) & KM_F_NOT_BELOW(reach_own, KM_F_LOAD(halves + first + v)))
                << v;
    }
    return tables->k - first < BOUNDS_LANES ? open & (((uint64_t)1 << (tables->k - first)) - 1) : open;
}

// Lanes from [BOUNDS_LANES - i] on: infinity in lane i; from [BOUNDS_LANES + 1] on: nowhere.
static const float bounds_but[2 * BOUNDS_LANES + 1] = {[BOUNDS_LANES] = INFINITY};

// Elkan: keeps the least of a block's lower bounds but that of the point's own centroid. Another centroid is at least
// as far as from its own, less the point's distance to that.
KM_INLINE void bounds_block_keep(const cpu_bounds_tables *tables, float *blocks, const float *lower,
                                 int64_t first, int32_t label, float upper) {
    const float *halves = tables->halves + label * tables->k_row;
    const int is_own = label >= first && label < first + BOUNDS_LANES;
    const float *but = bounds_but + BOUNDS_LANES + (is_own ? first - label : 1);
    const km_floats away = KM_F_SPLAT(upper), two = KM_F_SPLAT(2.0f);
    km_floats least = KM_F_SPLAT(bounds_most);
    float last[BOUNDS_LANES] = {0}; // the next point's bounds follow, which nobody may have written yet
    lower += first;
    if (tables->k - first < BOUNDS_LANES)
        lower = memcpy(last, lower, (size_t)(tables->k - first) * sizeof *lower);
    for (int64_t v = 0; v < BOUNDS_LANES; v += FLOATS) { // path_most is minus infinity behind the last
        const km_floats bound = KM_F_SUB(KM_F_LOAD(lower + v), KM_F_LOAD(tables->path_most + first + v));
        const km_floats across =
            KM_F_SUB(KM_F_FMA(two, KM_F_LOAD(halves + first + v), KM_F_LOAD(but + v)), away);
        const km_floats other = KM_F_MAX(KM_F_ADD(KM_F_LOAD(but + v), bound), across);
        least = KM_F_MIN(other, least);
    }
    float length = least_of(least), way = tables->block_least[first / BOUNDS_LANES];
    blocks[first / BOUNDS_LANES] = length + way - 2 * bounds_step * (fabsf(length) + way + upper);
}

// Elkan: lower bounds as they are kept, of a block of distances that are right but for rounding.
KM_INLINE void bounds_block_lower(float *lower, const float *lengths, const float *path_least) {
    const km_floats narrow = KM_F_SPLAT(1 - 2 * bounds_step), keep = KM_F_SPLAT(1 - bounds_step),
                    none = KM_F_SPLAT(0.0f);
    const km_floats least = KM_F_SPLAT(-bounds_least), most = KM_F_SPLAT(bounds_most);
    for (int v = 0; v < BOUNDS_LANES; v += FLOATS) {
        const km_floats length =
            KM_F_MIN(KM_F_MAX(KM_F_FMA(KM_F_LOAD(lengths + v), narrow, least), none), most);
        KM_F_STORE(lower + v, KM_F_FMA(KM_F_ADD(length, KM_F_LOAD(path_least + v)), keep, none));
    }
}

// Elkan: the least of a point's lower bounds but that of its own centroid, as they stand now.
KM_TARGET static float bounds_least_other(const cpu_bounds_tables *tables, const float *blocks) {
    const int64_t whole = tables->chunks_count / FLOATS * FLOATS, rest = tables->chunks_count - whole;
    km_floats least = KM_F_SPLAT(bounds_most);
    for (int64_t b = 0; b < whole; b += FLOATS)
        least = KM_F_MIN(KM_F_SUB(KM_F_LOAD(blocks + b), KM_F_LOAD(tables->block_most + b)), least);
    if (rest) { // as above; block_most is minus infinity behind the last
        float last[FLOATS] = {0};
        memcpy(last, blocks + whole, (size_t)rest * sizeof *last);
        least = KM_F_MIN(KM_F_SUB(KM_F_LOAD(last), KM_F_LOAD(tables->block_most + whole)), least);
    }
    float result = least_of(least);
    result -= 2 * bounds_step * fabsf(result);
    return result > 0 ? result : 0;
}

// Elkan: a bit for each block of a vector of them in which a centroid may be nearer than `upper`.
KM_INLINE uint64_t bounds_open_blocks(const cpu_bounds_tables *tables, const float *blocks, int64_t from,
                                      float upper) {
    const km_floats bound = KM_F_SUB(KM_F_LOAD(blocks + from), KM_F_LOAD(tables->block_most + from));
    uint64_t open = KM_F_NOT_BELOW(KM_F_SPLAT(upper + 2 * bounds_step * upper), bound);
    return tables->chunks_count - from < FLOATS ? open & (((uint64_t)1 << (tables->chunks_count - from)) - 1)
                                                : open;
}

// Reals ------------------------------------------------------------------------------------------------------

static inline km_real slack_of(const int64_t d) {
    return (km_real)(3 * (d + 4)) * (sizeof(km_real) == 4 ? (km_real)0x1p-24 : (km_real)0x1p-53);
}

// A float that is not below (not above) a length that sums of d squares gave.
static inline float length_above(km_real length, int64_t d) {
    return (float)length * (1 + 2 * bounds_step + (float)slack_of(d)) + bounds_least;
}

static inline float length_below(km_real length, int64_t d) {
    float below = (float)length * (1 - 2 * bounds_step - (float)slack_of(d)) - bounds_least;
    return below < bounds_most ? (below > 0 ? below : 0) : bounds_most;
}

static inline int64_t offset(const cpu_bounds_work *work, int64_t i) {
    return (i & -work->soa_points) * work->tables->d + (i & (work->soa_points - 1));
}

// Before a pass -----------------------------------------------------------------------------------------------

static void prepare(cpu_bounds_tables *tables) {
    int64_t k = tables->k, d = tables->d;
    const km_real *table = (const km_real *)tables->table;
    km_real *columns = (km_real *)tables->columns, *rows = (km_real *)tables->rows, widest = 0;
    for (int64_t j = 0; j < k; j++) {
        const km_real *row = table + j * (d + 1);
        for (int64_t f = 0; f <= d; f++) columns[f * tables->k_row + j] = row[f];
        memcpy(rows + j * tables->d_row, row, (size_t)d * sizeof *row);
        if (!(-row[d] <= widest)) widest = -row[d];
    }
    for (int64_t j = k; j < tables->k_row; j++) columns[d * tables->k_row + j] = (km_real)-INFINITY;
    tables->widest = (double)widest;
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
                tables->halves[j * k_row + first + lane] = half;
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

// The coordinates of listed points, whole vectors of them, become rows of BOUNDS_SCORED.
KM_INLINE void fetch(km_real *values, const cpu_bounds_work *work, const int32_t *list, const int vectors) {
    const int64_t d = work->tables->d, step = work->rows ? 1 : work->soa_points;
    const km_real *from = work->rows ? (const km_real *)work->rows : (const km_real *)work->points;
    for (int v = 0; v < vectors; v++, list += LANES, values += LANES) {
        const km_real *points = (const km_real *)work->points + offset(work, list[0]);
        int32_t offsets[LANES];
        for (int lane = 0; lane < LANES; lane++) offsets[lane] = (int32_t)offset(work, list[lane]);
        // Side by side, and none twice.
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

// Scores of a point against some blocks of centroids.
KM_INLINE void score_blocks(km_real *scores, const km_real *row, const cpu_bounds_tables *tables,
                            int64_t first, const int blocks) {
    const km_real *columns = (const km_real *)tables->columns + first;
    const int64_t d = tables->d, k_row = tables->k_row;
    km_vec s[4 * BOUNDS_LANES / LANES];
    for (int v = 0; v < blocks * BOUNDS_LANES / LANES; v++) s[v] = KM_LOAD(columns + d * k_row + v * LANES);
    for (int64_t f = 0; f < d; f++) {
        const km_vec x = KM_SPLAT(row[f]);
        for (int v = 0; v < blocks * BOUNDS_LANES / LANES; v++)
            s[v] = KM_FMA(x, KM_LOAD(columns + f * k_row + v * LANES), s[v]);
    }
    for (int v = 0; v < blocks * BOUNDS_LANES / LANES; v++) KM_STORE(scores + first + v * LANES, s[v]);
}

KM_TARGET static void score_all(km_real *scores, const km_real *row, const cpu_bounds_tables *tables) {
    int64_t first = 0;
    for (; first + 4 * BOUNDS_LANES <= tables->k_row; first += 4 * BOUNDS_LANES)
        score_blocks(scores, row, tables, first, 4);
    for (; first < tables->k_row; first += BOUNDS_LANES) score_blocks(scores, row, tables, first, 1);
}

// Scores closer than this are decided in double; it also covers what a squared distance errs by.
static inline km_real close_of(const cpu_bounds_tables *tables, km_real norm) {
    return slack_of(tables->d) * (norm + 2 * (km_real)tables->widest);
}

// The nearest centroid by squared differences in double, of those whose score says that they may be it.
KM_TARGET static int32_t decide(const km_real *scores, const km_real *row, const cpu_bounds_tables *tables,
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

// What scoring finds of a vector's points: the nearest centroid, and bounds of its distance and of any other's.
typedef struct scored {
    km_int place[BOUNDS_SCORED];
    km_real upper[BOUNDS_SCORED], lower[BOUNDS_SCORED], margin[BOUNDS_SCORED];
    uint64_t near; // points that are to be decided in double
} scored;

KM_INLINE void score(scored *found, const km_real *values, const cpu_bounds_tables *tables, const int vectors,
                     const int tile) {
    const int64_t d = tables->d, k = tables->k;
    const km_vec lowest = KM_SPLAT((km_real)-INFINITY), zero = KM_SPLAT((km_real)0);
    km_vec best[SCORE_VECTORS], second[SCORE_VECTORS];
    km_ints place[SCORE_VECTORS];
    for (int v = 0; v < vectors; v++) {
        best[v] = second[v] = lowest;
        place[v] = KM_INTS(0);
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
            const km_ints mine = KM_INTS((km_int)(j + t));
            for (int v = 0; v < vectors; v++) {
                second[v] = KM_MAX(second[v], KM_MIN(best[v], s[t][v]));
                KM_KEEP(best[v], place[v], s[t][v], mine);
            }
        }
    }
    found->near = 0;
    const km_vec twice = KM_SPLAT((km_real)-2), slack = KM_SPLAT(slack_of(d)),
                 wide = KM_SPLAT(2 * (km_real)tables->widest);
    for (int v = 0; v < vectors; v++) {
        km_vec norm = zero;
        for (int64_t f = 0; f < d; f++) {
            const km_vec x = KM_LOAD(values + f * BOUNDS_SCORED + v * LANES);
            norm = KM_FMA(x, x, norm);
        }
        const km_vec margin = KM_FMA(slack, KM_ADD(norm, wide), zero);
        // What is not a number stays so, and no bound that is made of it holds.
        KM_STORE(found->upper + v * LANES,
                 KM_SQRT(KM_MAX(zero, KM_ADD(KM_FMA(twice, best[v], norm), margin))));
        KM_STORE(found->lower + v * LANES,
                 KM_SQRT(KM_MAX(zero, KM_SUB(KM_FMA(twice, second[v], norm), margin))));
        KM_STORE(found->margin + v * LANES, margin);
        KM_PUT_INTS(found->place + v * LANES, place[v]);
        found->near |= KM_NOT_BELOW(margin, KM_SUB(best[v], second[v])) << (v * LANES);
    }
}

// A point that is near a tie: nothing is known of what is farther than its own centroid.
KM_TARGET static int32_t decide_lane(const cpu_bounds_work *work, const km_real *values, km_real margin) {
    km_real *row = (km_real *)work->scratch->row, *scores = (km_real *)work->scratch->scores;
    for (int64_t f = 0; f < work->tables->d; f++) row[f] = values[f * BOUNDS_SCORED];
    score_all(scores, row, work->tables);
    return decide(scores, row, work->tables, margin);
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
        int32_t label = (int32_t)found.place[at];
        float upper = length_above(found.upper[at], 0), lower = length_below(found.lower[at], 0);
        if (found.near >> at & 1) {
            label = decide_lane(work, values + at, found.margin[at]);
            lower = 0;
        }
        bounds_keep(work, list[at], label, upper, lower);
        moved = bounds_label_put(work, list[at], label, moved);
    }
    work->distances += count * tables->k;
    return moved;
}

// Lists are filled up to whole vectors by their last point.
static void list_fill(int32_t *list, int64_t count) {
    for (int64_t at = count; at % LANES || at == count; at++) list[at] = list[count - 1];
}

// The squared distances of a vector of listed points to their own centroids: by rows where points have them.
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
    int32_t places[LANES];
    for (int lane = 0; lane < LANES; lane++) places[lane] = labels[lane] * (int32_t)d_row;
    fetch(values, work, list, 1);
    km_vec square = KM_SPLAT((km_real)0);
    for (int64_t f = 0; f < d; f++) {
        const km_vec apart = KM_SUB(KM_LOAD(values + f * BOUNDS_SCORED), KM_GATHER(centroids + f, places));
        square = KM_FMA(apart, apart, square);
    }
    KM_STORE(squares, square);
}

// Computes the distance of listed points to their own centroids; those that it does not settle stay listed.
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

// The point in hand, and the best of what has been scored of it.
typedef struct elkan_point {
    float *lower;         // k
    km_real norm, margin; // |x|^2; see close_of
    km_real best, second; // the two largest scores ...
    int32_t place;        // ... and whose the first is
    int64_t distances;
} elkan_point;

// Takes a point's coordinates in hand.
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
    p.margin = close_of(tables, p.norm);
    return p;
}

// Lower bounds of a block of centroids follow from its scores: of all but `own`.
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
    bounds_block_lower(bounds, lengths, tables->path_least + first);
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

// A score may be the best so far.
static inline void elkan_take(elkan_point *p, km_real score, int32_t place) {
    if (score > p->best) {
        p->second = p->best;
        p->best = score;
        p->place = place;
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
    square = square < 0 ? 0 : square; // what is not a number stays so
    return length_above(sizeof(km_real) == 4 ? (km_real)sqrtf((float)square) : (km_real)sqrt((double)square),
                        0);
}

// Scores candidates of a block, one by one where they are few, else the whole block.
KM_INLINE void elkan_block(elkan_point *p, const cpu_bounds_work *work, int64_t first, uint64_t open,
                           int32_t own) {
    const cpu_bounds_tables *tables = work->tables;
    const km_real *row = (const km_real *)work->scratch->row;
    km_real *scores = (km_real *)work->scratch->scores;
    int64_t alone = __builtin_popcountll(open) * (ELKAN_ALONE + tables->d_row / LANES);
    if (alone >= tables->d * (BOUNDS_LANES / LANES)) {
        const km_real score = scores[own];
        score_blocks(scores, row, tables, first, 1);
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

// The label of a point whose best two scores are known, near ties included.
KM_INLINE int32_t elkan_label(const elkan_point *p, const cpu_bounds_work *work) {
    const cpu_bounds_tables *tables = work->tables;
    km_real *row = (km_real *)work->scratch->row, *scores = (km_real *)work->scratch->scores;
    if (p->best - p->second > p->margin) return p->place;
    score_all(scores, row, tables);
    return decide(scores, row, tables, p->margin);
}

// A point without bounds: all centroids.
KM_TARGET static int64_t elkan_first(cpu_bounds_work *work, int64_t i, int64_t moved) {
    const cpu_bounds_tables *tables = work->tables;
    km_real *scores = (km_real *)work->scratch->scores, bests[LANES], seconds[LANES];
    km_int places[LANES];
    elkan_point p = elkan_start(work, i);
    score_all(scores, (const km_real *)work->scratch->row, tables);
    km_vec best = KM_SPLAT((km_real)-INFINITY), second = best;
    km_ints place = KM_INTS(0);
    for (int64_t first = 0; first < tables->k; first += BOUNDS_LANES) {
        elkan_bounds(&p, work, first, 0);
        for (int64_t v = first; v < first + BOUNDS_LANES; v += LANES) {
            const km_vec score = KM_LOAD(scores + v);
            const km_ints mine = KM_INTS((km_int)v);
            second = KM_MAX(second, KM_MIN(best, score));
            KM_KEEP(best, place, score, mine);
        }
    }
    elkan_bound(&p, work, 0); // which the blocks left as it was
    KM_STORE(bests, best);
    KM_STORE(seconds, second);
    KM_PUT_INTS(places, place);
    for (int lane = 0; lane < LANES; lane++) {
        elkan_take(&p, bests[lane], (int32_t)places[lane] + lane);
        elkan_take(&p, seconds[lane], 0); // never the best
    }
    int32_t label = elkan_label(&p, work);
    float upper = elkan_upper(&p), *blocks = work->blocks + i * tables->chunks_count;
    for (int64_t first = 0; first < tables->k; first += BOUNDS_LANES)
        bounds_block_keep(tables, blocks, p.lower, first, label, upper);
    bounds_keep(work, i, label, upper, bounds_least_other(tables, blocks));
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
    const int32_t own = bounds_label(work, i), own_block = own / BOUNDS_LANES;
    const float *halves = tables->halves + own * tables->k_row;
    float upper = bounds_upper(work, i, own), upper_own = upper;
    float *lower = work->lower + i * tables->k, *blocks = work->blocks + i * tables->chunks_count;
    int32_t *touched = work->scratch->touched, label = own, touched_count = 0;
    elkan_point p = {.distances = 0};
    for (int64_t from = 0; from < tables->chunks_count; from += FLOATS) {
        uint64_t left = bounds_open_blocks(tables, blocks, from, upper);
        for (; left; left &= left - 1) {
            int32_t chunk = (int32_t)from + __builtin_ctzll(left);
            int64_t first = (int64_t)chunk * BOUNDS_LANES;
            touched[touched_count++] = chunk;
            uint64_t open = bounds_candidates(tables, lower, halves, first, upper, upper_own);
            if (chunk == own_block) open &= ~((uint64_t)1 << (own - first));
            if (open && !p.distances) {
                upper = upper_own = elkan_own(&p, work, i, own);
                open &= bounds_candidates(tables, lower, halves, first, upper, upper_own);
            }
            if (!open) continue;
            elkan_block(&p, work, first, open, own);
            upper = elkan_upper(&p);
        }
    }
    if (p.distances)
        label = elkan_label(&p, work);
    else
        work->skipped++;
    if (label != own) { // the least of their blocks is now another's
        touched[touched_count++] = own_block;
        touched[touched_count++] = label / BOUNDS_LANES;
    }
    for (int32_t t = 0; t < touched_count; t++)
        bounds_block_keep(tables, blocks, lower, (int64_t)touched[t] * BOUNDS_LANES, label, upper);
    bounds_keep(work, i, label, upper, bounds_least_other(tables, blocks));
    work->distances += p.distances;
    return label == own ? moved : bounds_label_put(work, i, label, moved);
}

// Asks for what a point's open blocks need; 0: there is none, the point keeps its label.
KM_INLINE int elkan_opens(cpu_bounds_work *work, int64_t i) {
    const cpu_bounds_tables *tables = work->tables;
    const int32_t own = bounds_label(work, i);
    const float upper = bounds_upper(work, i, own), *blocks = work->blocks + i * tables->chunks_count;
    int opens = 0;
    for (int64_t from = 0; from < tables->chunks_count; from += FLOATS)
        for (uint64_t left = bounds_open_blocks(tables, blocks, from, upper); left;
             left &= left - 1, opens = 1) {
            const float *lower = work->lower + i * tables->k + (from + __builtin_ctzll(left)) * BOUNDS_LANES;
            __builtin_prefetch(lower);
            __builtin_prefetch(lower + BOUNDS_LANES - 1);
        }
    if (!opens) {
        bounds_keep(work, i, own, upper, bounds_least_other(tables, blocks));
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
    const int64_t chunks_count = work->tables->chunks_count;
    int64_t moved = 0;
    if (work->is_new) {
        for (int64_t at = 0; at < listed; at++) moved = elkan_first(work, list[at], moved);
        return moved;
    }
    for (int64_t first = 0; first < listed; first += FETCHED_TOGETHER) {
        int64_t end = first + FETCHED_TOGETHER < listed ? first + FETCHED_TOGETHER : listed, left = first;
        for (int64_t at = end; at < end + FETCHED_TOGETHER && at < listed; at++)
            __builtin_prefetch(work->blocks + list[at] * chunks_count);
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

// A point joins the sums of its label, and leaves those of the old one (-1: none).
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

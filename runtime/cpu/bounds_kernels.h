// SPDX-License-Identifier: MIT
// The passes of hamerly and elkan for one type and instruction set: REAL and the words of filter_words.h and
// bounds_words.h, NAME(stem), and TARGET; included once for each, so no include guard.
//
// Rounding. u is half a unit of REAL's last place, T the largest |c_j|^2 / 2, R = |x|^2. A score x . c_j - |c_j|^2 / 2
// errs by at most (d + 2) u (2 T + R / 2), so a difference of two, and R less twice a score, which is a squared
// distance, by less than 2 (d + 4) u (R + 2 T): SLACK (R + 2 T) with SLACK = 3 (d + 4) u covers the rounding of that
// product as well. A sum of d squared differences errs by (d + 3) u of itself.

#define BOUNDS_INLINE TARGET static inline __attribute__((always_inline))

#if !WORDS_DOUBLE
// What both types share: bounds are floats.

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

BOUNDS_INLINE V bounds_of_labels(const float *table, const void *labels, const int labels_bytes) {
    if (labels_bytes == 1) return V_GATHER_BYTES(table, labels);
    return labels_bytes == 2 ? V_GATHER_SHORTS(table, labels) : V_GATHER(table, (const int32_t *)labels);
}

// A bit for each point of a vector whose bounds leave its label open.
BOUNDS_INLINE uint64_t bounds_open(const cpu_bounds_work *work, int64_t i, const void *labels,
                                   const int labels_bytes) {
    const cpu_bounds_tables *tables = work->tables;
    uint64_t open = V_NLT(bounds_of_labels(tables->expiry, labels, labels_bytes), V_LOAD(work->slack + i));
    return open ? open & V_NLT(V_LOAD(work->upper + i), bounds_of_labels(tables->inner, labels, labels_bytes))
                : 0;
}

BOUNDS_INLINE int64_t bounds_list_by(const cpu_bounds_work *work, const int labels_bytes) {
    const uint8_t *labels = (const uint8_t *)work->labels;
    int32_t *list = work->scratch->list;
    int64_t listed = 0, i = 0, rest = work->count % W;
    for (; i + W <= work->count; i += W)
        for (uint64_t open = bounds_open(work, i, labels + i * labels_bytes, labels_bytes); open;
             open &= open - 1)
            list[listed++] = (int32_t)i + __builtin_ctzll(open);
    if (rest == 0) return listed;
    uint8_t last[4 * W] = {0}; // behind the last point labels hold nothing
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
TARGET static int64_t bounds_list(const cpu_bounds_work *work) {
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
BOUNDS_INLINE uint64_t bounds_candidates(const cpu_bounds_tables *tables, const float *lower,
                                         const float *halves, int64_t first, float upper, float own) {
    const V reach = V_SPLAT(upper + 2 * bounds_step * upper), reach_own = V_SPLAT(own);
    uint64_t open = 0;
    for (int v = 0; v < BOUNDS_LANES; v += W) {
        const V bound = V_SUB(V_LOAD(lower + first + v), V_LOAD(tables->path_most + first + v));
        open |= (V_NLT(reach, bound) & V_NLT(reach_own, V_LOAD(halves + first + v))) << v;
    }
    return tables->k - first < BOUNDS_LANES ? open & (((uint64_t)1 << (tables->k - first)) - 1) : open;
}

// Lanes from [BOUNDS_LANES - i] on: infinity in lane i; from [BOUNDS_LANES + 1] on: nowhere.
static const float bounds_but[2 * BOUNDS_LANES + 1] = {[BOUNDS_LANES] = INFINITY};

// Elkan: keeps the least of a block's lower bounds but that of the point's own centroid. Another centroid is at least
// as far as from its own, less the point's distance to that.
BOUNDS_INLINE void bounds_block_keep(const cpu_bounds_tables *tables, float *blocks, const float *lower,
                                     int64_t first, int32_t label, float upper) {
    const float *halves = tables->halves + label * tables->k_row;
    const int is_own = label >= first && label < first + BOUNDS_LANES;
    const float *but = bounds_but + BOUNDS_LANES + (is_own ? first - label : 1);
    const V away = V_SPLAT(upper), two = V_SPLAT(2.0f);
    V least = V_SPLAT(bounds_most);
    float last[BOUNDS_LANES] = {0}; // the next point's bounds follow, which nobody may have written yet
    lower += first;
    if (tables->k - first < BOUNDS_LANES)
        lower = memcpy(last, lower, (size_t)(tables->k - first) * sizeof *lower);
    for (int64_t v = 0; v < BOUNDS_LANES; v += W) { // path_most is minus infinity behind the last
        const V bound = V_SUB(V_LOAD(lower + v), V_LOAD(tables->path_most + first + v));
        const V across = V_SUB(V_FMA(two, V_LOAD(halves + first + v), V_LOAD(but + v)), away);
        const V other = V_MAX(V_ADD(V_LOAD(but + v), bound), across);
        least = V_MIN(other, least);
    }
    float length = V_LEAST(least), way = tables->block_least[first / BOUNDS_LANES];
    blocks[first / BOUNDS_LANES] = length + way - 2 * bounds_step * (fabsf(length) + way + upper);
}

// Elkan: lower bounds as they are kept, of a block of distances that are right but for rounding.
BOUNDS_INLINE void bounds_block_lower(float *lower, const float *lengths, const float *path_least) {
    const V narrow = V_SPLAT(1 - 2 * bounds_step), keep = V_SPLAT(1 - bounds_step), none = V_SPLAT(0.0f);
    const V least = V_SPLAT(-bounds_least), most = V_SPLAT(bounds_most);
    for (int v = 0; v < BOUNDS_LANES; v += W) {
        const V length = V_MIN(V_MAX(V_FMA(V_LOAD(lengths + v), narrow, least), none), most);
        V_STORE(lower + v, V_FMA(V_ADD(length, V_LOAD(path_least + v)), keep, none));
    }
}

// Elkan: the least of a point's lower bounds but that of its own centroid, as they stand now.
TARGET static float bounds_least_other(const cpu_bounds_tables *tables, const float *blocks) {
    const int64_t whole = tables->blocks_count / W * W, rest = tables->blocks_count - whole;
    V least = V_SPLAT(bounds_most);
    for (int64_t b = 0; b < whole; b += W)
        least = V_MIN(V_SUB(V_LOAD(blocks + b), V_LOAD(tables->block_most + b)), least);
    if (rest) { // as above; block_most is minus infinity behind the last
        float last[W] = {0};
        memcpy(last, blocks + whole, (size_t)rest * sizeof *last);
        least = V_MIN(V_SUB(V_LOAD(last), V_LOAD(tables->block_most + whole)), least);
    }
    float result = V_LEAST(least);
    result -= 2 * bounds_step * fabsf(result);
    return result > 0 ? result : 0;
}

// Elkan: a bit for each block of a vector of them in which a centroid may be nearer than `upper`.
BOUNDS_INLINE uint64_t bounds_open_blocks(const cpu_bounds_tables *tables, const float *blocks, int64_t from,
                                          float upper) {
    const V bound = V_SUB(V_LOAD(blocks + from), V_LOAD(tables->block_most + from));
    uint64_t open = V_NLT(V_SPLAT(upper + 2 * bounds_step * upper), bound);
    return tables->blocks_count - from < W ? open & (((uint64_t)1 << (tables->blocks_count - from)) - 1)
                                           : open;
}

// Elkan: blocks of a vector of them, whatever the type.
enum { BLOCKS_TOGETHER = W };
#endif

static inline REAL NAME(slack_of)(const int64_t d) {
    return (REAL)(3 * (d + 4)) * (sizeof(REAL) == 4 ? (REAL)0x1p-24 : (REAL)0x1p-53);
}

// A float that is not below (not above) a length that sums of d squares gave.
static inline float NAME(length_above)(REAL length, int64_t d) {
    return (float)length * (1 + 2 * bounds_step + (float)NAME(slack_of)(d)) + bounds_least;
}

static inline float NAME(length_below)(REAL length, int64_t d) {
    float below = (float)length * (1 - 2 * bounds_step - (float)NAME(slack_of)(d)) - bounds_least;
    return below < bounds_most ? (below > 0 ? below : 0) : bounds_most;
}

static inline int64_t NAME(offset)(const cpu_bounds_work *work, int64_t i) {
    return (i & -work->group) * work->tables->d + (i & (work->group - 1));
}

// Before a pass -----------------------------------------------------------------------------------------------

static void NAME(prepare)(cpu_bounds_tables *tables) {
    int64_t k = tables->k, d = tables->d;
    const REAL *table = (const REAL *)tables->table;
    REAL *columns = (REAL *)tables->columns, *rows = (REAL *)tables->rows, widest = 0;
    for (int64_t j = 0; j < k; j++) {
        const REAL *row = table + j * (d + 1);
        for (int64_t f = 0; f <= d; f++) columns[f * tables->k_row + j] = row[f];
        memcpy(rows + j * tables->d_row, row, (size_t)d * sizeof *row);
        if (!(-row[d] <= widest)) widest = -row[d];
    }
    for (int64_t j = k; j < tables->k_row; j++) columns[d * tables->k_row + j] = (REAL)-INFINITY;
    tables->widest = (double)widest;
}

// Half the distances of some centroids to all.
TARGET static void NAME(gaps)(cpu_bounds_tables *tables, int64_t from, int64_t end) {
    const int64_t k = tables->k, d = tables->d, k_row = tables->k_row;
    const REAL *columns = (const REAL *)tables->columns;
    for (int64_t j = from; j < end; j++) {
        const REAL *own = (const REAL *)tables->rows + j * tables->d_row;
        float gap = bounds_most;
        for (int64_t first = 0; first < k; first += BOUNDS_LANES) {
            V squares[BOUNDS_LANES / W];
            REAL lengths[BOUNDS_LANES];
            for (int v = 0; v < BOUNDS_LANES / W; v++) squares[v] = V_SPLAT((REAL)0);
            for (int64_t f = 0; f < d; f++)
                for (int v = 0; v < BOUNDS_LANES / W; v++) {
                    const V apart = V_SUB(V_LOAD(columns + f * k_row + first + v * W), V_SPLAT(own[f]));
                    squares[v] = V_FMA(apart, apart, squares[v]);
                }
            for (int v = 0; v < BOUNDS_LANES / W; v++) V_STORE(lengths + v * W, V_SQRT(squares[v]));
            for (int lane = 0; lane < BOUNDS_LANES; lane++) {
                float half = NAME(length_below)((REAL)0.5 * lengths[lane], d);
                tables->halves[j * k_row + first + lane] = half;
                if (first + lane < k && first + lane != j && half < gap) gap = half;
            }
        }
        tables->gap[j] = gap;
    }
}

// Points --------------------------------------------------------------------------------------------------------

TARGET static void NAME(fetch_row)(REAL *row, const cpu_bounds_work *work, int64_t i) {
    const int64_t d = work->tables->d;
    const REAL *point = (const REAL *)work->points + NAME(offset)(work, i);
    if (work->rows)
        memcpy(row, (const REAL *)work->rows + i * work->tables->d_row, (size_t)d * sizeof *row);
    else
        for (int64_t f = 0; f < d; f++) row[f] = point[f * work->group];
}

// The coordinates of listed points, whole vectors of them, become rows of BOUNDS_SCORED.
BOUNDS_INLINE void NAME(fetch)(REAL *values, const cpu_bounds_work *work, const int32_t *list,
                               const int vectors) {
    const int64_t d = work->tables->d, step = work->rows ? 1 : work->group;
    const REAL *from = work->rows ? (const REAL *)work->rows : (const REAL *)work->points;
    for (int v = 0; v < vectors; v++, list += W, values += W) {
        const REAL *points = (const REAL *)work->points + NAME(offset)(work, list[0]);
        int32_t offsets[W];
        for (int lane = 0; lane < W; lane++) offsets[lane] = (int32_t)NAME(offset)(work, list[lane]);
        // Side by side, and none twice.
        if (list[W - 1] - list[0] == W - 1 && offsets[W - 1] - offsets[0] == W - 1 &&
            list[W - 1] != list[W - 2]) {
            for (int64_t f = 0; f < d; f++)
                V_STORE(values + f * BOUNDS_SCORED, V_LOAD(points + f * work->group));
            continue;
        }
        for (int lane = 0; work->rows && lane < W; lane++)
            offsets[lane] = list[lane] * (int32_t)work->tables->d_row;
        for (int64_t f = 0; f < d; f++)
            V_STORE(values + f * BOUNDS_SCORED, V_GATHER(from + f * step, offsets));
    }
}

// Scores of a point against some blocks of centroids.
BOUNDS_INLINE void NAME(score_blocks)(REAL *scores, const REAL *row, const cpu_bounds_tables *tables,
                                      int64_t first, const int blocks) {
    const REAL *columns = (const REAL *)tables->columns + first;
    const int64_t d = tables->d, k_row = tables->k_row;
    V s[4 * BOUNDS_LANES / W];
    for (int v = 0; v < blocks * BOUNDS_LANES / W; v++) s[v] = V_LOAD(columns + d * k_row + v * W);
    for (int64_t f = 0; f < d; f++) {
        const V x = V_SPLAT(row[f]);
        for (int v = 0; v < blocks * BOUNDS_LANES / W; v++)
            s[v] = V_FMA(x, V_LOAD(columns + f * k_row + v * W), s[v]);
    }
    for (int v = 0; v < blocks * BOUNDS_LANES / W; v++) V_STORE(scores + first + v * W, s[v]);
}

TARGET static void NAME(score_all)(REAL *scores, const REAL *row, const cpu_bounds_tables *tables) {
    int64_t first = 0;
    for (; first + 4 * BOUNDS_LANES <= tables->k_row; first += 4 * BOUNDS_LANES)
        NAME(score_blocks)(scores, row, tables, first, 4);
    for (; first < tables->k_row; first += BOUNDS_LANES) NAME(score_blocks)(scores, row, tables, first, 1);
}

// Scores closer than this are decided in double; it also covers what a squared distance errs by.
static inline REAL NAME(close_of)(const cpu_bounds_tables *tables, REAL norm) {
    return NAME(slack_of)(tables->d) * (norm + 2 * (REAL)tables->widest);
}

// The nearest centroid by squared differences in double, of those whose score says that they may be it.
TARGET static int32_t NAME(decide)(const REAL *scores, const REAL *row, const cpu_bounds_tables *tables,
                                   REAL close) {
    REAL best = (REAL)-INFINITY;
    for (int64_t j = 0; j < tables->k; j++) best = scores[j] > best ? scores[j] : best;
    double least = INFINITY;
    int32_t label = 0;
    for (int64_t j = 0; j < tables->k; j++) {
        if (scores[j] < best - close) continue;
        const REAL *c = (const REAL *)tables->table + j * (tables->d + 1);
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
typedef struct NAME(found) {
    REAL place[BOUNDS_SCORED], upper[BOUNDS_SCORED], lower[BOUNDS_SCORED], close[BOUNDS_SCORED];
    uint64_t near; // points that are to be decided in double
} NAME(found);

BOUNDS_INLINE void NAME(score)(NAME(found) * found, const REAL *values, const cpu_bounds_tables *tables,
                               const int vectors, const int tile) {
    const int64_t d = tables->d, k = tables->k;
    const V lowest = V_SPLAT((REAL)-INFINITY), zero = V_SPLAT((REAL)0);
    V best[SCORE_VECTORS], second[SCORE_VECTORS], place[SCORE_VECTORS];
    for (int v = 0; v < vectors; v++) {
        best[v] = second[v] = lowest;
        place[v] = zero;
    }
    const REAL *row = (const REAL *)tables->table;
    for (int64_t j = 0; j < k; j += tile, row += tile * (d + 1)) {
        V s[8][SCORE_VECTORS];
        for (int t = 0; t < tile; t++)
            for (int v = 0; v < vectors; v++) s[t][v] = V_SPLAT(row[t * (d + 1) + d]);
        for (int64_t f = 0; f < d; f++) {
            V x[SCORE_VECTORS];
            for (int v = 0; v < vectors; v++) x[v] = V_LOAD(values + f * BOUNDS_SCORED + v * W);
            for (int t = 0; t < tile; t++) {
                const V c = V_SPLAT(row[t * (d + 1) + f]);
                for (int v = 0; v < vectors; v++) s[t][v] = V_FMA(x[v], c, s[t][v]);
            }
        }
        for (int t = 0; t < tile; t++) {
            const V mine = V_SPLAT((REAL)(j + t));
            for (int v = 0; v < vectors; v++) {
                second[v] = V_MAX(second[v], V_MIN(best[v], s[t][v]));
                V_KEEP(best[v], place[v], s[t][v], mine);
            }
        }
    }
    found->near = 0;
    const V twice = V_SPLAT((REAL)-2), slack = V_SPLAT(NAME(slack_of)(d)),
            wide = V_SPLAT(2 * (REAL)tables->widest);
    for (int v = 0; v < vectors; v++) {
        V norm = zero;
        for (int64_t f = 0; f < d; f++) {
            const V x = V_LOAD(values + f * BOUNDS_SCORED + v * W);
            norm = V_FMA(x, x, norm);
        }
        const V close = V_FMA(slack, V_ADD(norm, wide), zero);
        // What is not a number stays so, and no bound that is made of it holds.
        V_STORE(found->upper + v * W, V_SQRT(V_MAX(zero, V_ADD(V_FMA(twice, best[v], norm), close))));
        V_STORE(found->lower + v * W, V_SQRT(V_MAX(zero, V_SUB(V_FMA(twice, second[v], norm), close))));
        V_STORE(found->close + v * W, close);
        V_STORE(found->place + v * W, place[v]);
        found->near |= V_NLT(close, V_SUB(best[v], second[v])) << (v * W);
    }
}

// A point that is near a tie: nothing is known of what is farther than its own centroid.
TARGET static int32_t NAME(decide_lane)(const cpu_bounds_work *work, const REAL *values, REAL close) {
    REAL *row = (REAL *)work->scratch->row, *scores = (REAL *)work->scratch->scores;
    for (int64_t f = 0; f < work->tables->d; f++) row[f] = values[f * BOUNDS_SCORED];
    NAME(score_all)(scores, row, work->tables);
    return NAME(decide)(scores, row, work->tables, close);
}

// Scores up to SCORE_VECTORS vectors of listed points against all centroids: their labels and bounds.
BOUNDS_INLINE int64_t NAME(score_points)(cpu_bounds_work *work, const int32_t *list, int64_t count,
                                         int64_t moved, const int vectors, const int tile) {
    const cpu_bounds_tables *tables = work->tables;
    REAL *values = (REAL *)work->scratch->values;
    NAME(found) found;
    NAME(fetch)(values, work, list, vectors);
    NAME(score)(&found, values, tables, vectors, tile);
    for (int64_t at = 0; at < count; at++) {
        int32_t label = (int32_t)found.place[at];
        float upper = NAME(length_above)(found.upper[at], 0), lower = NAME(length_below)(found.lower[at], 0);
        if (found.near >> at & 1) {
            label = NAME(decide_lane)(work, values + at, found.close[at]);
            lower = 0;
        }
        bounds_keep(work, list[at], label, upper, lower);
        moved = bounds_label_put(work, list[at], label, moved);
    }
    work->distances += count * tables->k;
    return moved;
}

// Lists are filled up to whole vectors by their last point.
static void NAME(list_fill)(int32_t *list, int64_t count) {
    for (int64_t at = count; at % W || at == count; at++) list[at] = list[count - 1];
}

// The squared distances of a vector of listed points to their own centroids: by rows where points have them.
BOUNDS_INLINE void NAME(own_squares)(REAL *squares, const cpu_bounds_work *work, const int32_t *list,
                                     const int32_t *labels) {
    const cpu_bounds_tables *tables = work->tables;
    const int64_t d = tables->d, d_row = tables->d_row;
    const REAL *centroids = (const REAL *)tables->rows;
    if (work->rows) {
        for (int lane = 0; lane < W; lane++) {
            const REAL *point = (const REAL *)work->rows + list[lane] * d_row,
                       *own = centroids + labels[lane] * d_row;
            V square = V_SPLAT((REAL)0);
            for (int64_t f = 0; f < d_row; f += W) {
                const V apart = V_SUB(V_LOAD(point + f), V_LOAD(own + f));
                square = V_FMA(apart, apart, square);
            }
            squares[lane] = V_SUM(square);
        }
        return;
    }
    REAL *values = (REAL *)work->scratch->values;
    int32_t places[W];
    for (int lane = 0; lane < W; lane++) places[lane] = labels[lane] * (int32_t)d_row;
    NAME(fetch)(values, work, list, 1);
    V square = V_SPLAT((REAL)0);
    for (int64_t f = 0; f < d; f++) {
        const V apart = V_SUB(V_LOAD(values + f * BOUNDS_SCORED), V_GATHER(centroids + f, places));
        square = V_FMA(apart, apart, square);
    }
    V_STORE(squares, square);
}

// Computes the distance of listed points to their own centroids; those that it does not settle stay listed.
TARGET static int64_t NAME(tighten)(cpu_bounds_work *work, int64_t listed) {
    const cpu_bounds_tables *tables = work->tables;
    int32_t *list = work->scratch->list;
    int64_t left = 0, bytes = tables->d * (int64_t)sizeof(REAL);
    NAME(list_fill)(list, listed);
    for (int64_t first = 0; first < listed; first += W) {
        int32_t labels[W];
        REAL lengths[W];
        for (int lane = 0; lane < W; lane++) labels[lane] = bounds_label(work, list[first + lane]);
        for (int lane = 0; work->rows && first + W + lane < listed && lane < W; lane++)
            for (int64_t byte = 0; byte < bytes; byte += 64)
                __builtin_prefetch(
                    (const char *)((const REAL *)work->rows + list[first + W + lane] * tables->d_row) + byte);
        NAME(own_squares)(lengths, work, list + first, labels);
        V_STORE(lengths, V_SQRT(V_LOAD(lengths)));
        for (int64_t lane = 0; lane < W && first + lane < listed; lane++) {
            int32_t i = list[first + lane], label = labels[lane];
            float upper = NAME(length_above)(lengths[lane], tables->d), lower = bounds_lower(work, i, label);
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

TARGET static int64_t NAME(hamerly)(cpu_bounds_work *work, int64_t listed) {
    int32_t *list = work->scratch->list;
    int64_t moved = 0, at = 0;
    if (!work->is_new && listed && work->tables->k >= BOUNDS_TIGHTEN_K) listed = NAME(tighten)(work, listed);
    if (!listed) return 0;
    NAME(list_fill)(list, listed);
    for (; at + SCORE_VECTORS * W <= listed; at += SCORE_VECTORS * W)
        moved = NAME(score_points)(work, list + at, SCORE_VECTORS * W, moved, SCORE_VECTORS, 4);
    for (; at < listed; at += W)
        moved = NAME(score_points)(work, list + at, listed - at < W ? listed - at : W, moved, 1, 8);
    return moved;
}

// Elkan -------------------------------------------------------------------------------------------------------

// The point in hand, and the best of what has been scored of it.
typedef struct NAME(elkan_point) {
    float *lower;             // k
    REAL norm, close;         // |x|^2; see close_of
    REAL best, second, place; // the two largest scores, and whose the first is
    int64_t distances;
} NAME(elkan_point);

// Takes a point's coordinates in hand.
TARGET static NAME(elkan_point) NAME(elkan_start)(const cpu_bounds_work *work, int64_t i) {
    const cpu_bounds_tables *tables = work->tables;
    REAL *row = (REAL *)work->scratch->row;
    V norm = V_SPLAT((REAL)0);
    NAME(fetch_row)(row, work, i);
    for (int64_t f = 0; f < tables->d_row; f += W) norm = V_FMA(V_LOAD(row + f), V_LOAD(row + f), norm);
    NAME(elkan_point)
    p = {.lower = work->lower + i * tables->k,
         .norm = V_SUM(norm),
         .best = (REAL)-INFINITY,
         .second = (REAL)-INFINITY};
    p.close = NAME(close_of)(tables, p.norm);
    return p;
}

// Lower bounds of a block of centroids follow from its scores: of all but `own`.
BOUNDS_INLINE void NAME(elkan_bounds)(const NAME(elkan_point) * p, const cpu_bounds_work *work, int64_t first,
                                      int32_t own) {
    const cpu_bounds_tables *tables = work->tables;
    const REAL *scores = (const REAL *)work->scratch->scores + first;
    const V norm = V_SPLAT(p->norm - p->close), twice = V_SPLAT((REAL)-2), zero = V_SPLAT((REAL)0);
    REAL squares[BOUNDS_LANES];
    float lengths[BOUNDS_LANES], bounds[BOUNDS_LANES], kept = p->lower[own];
    for (int v = 0; v < BOUNDS_LANES; v += W)
        V_STORE(squares + v, V_SQRT(V_MAX(V_FMA(twice, V_LOAD(scores + v), norm), zero)));
    for (int lane = 0; lane < BOUNDS_LANES; lane++) lengths[lane] = (float)squares[lane];
    bounds_block_lower(bounds, lengths, tables->path_least + first);
    if (tables->k - first >= BOUNDS_LANES)
        memcpy(p->lower + first, bounds, sizeof bounds);
    else
        for (int64_t j = first; j < tables->k; j++) p->lower[j] = bounds[j - first];
    p->lower[own] = kept;
}

// The same for one centroid.
TARGET static void NAME(elkan_bound)(const NAME(elkan_point) * p, const cpu_bounds_work *work, int64_t j) {
    REAL square = p->norm - p->close - 2 * ((const REAL *)work->scratch->scores)[j];
    float length = 0, path = work->tables->path_least[j];
    if (square > 0)
        length = NAME(length_below)(
            sizeof(REAL) == 4 ? (REAL)sqrtf((float)square) : (REAL)sqrt((double)square), 0);
    p->lower[j] = (length + path) * (1 - bounds_step);
}

// A score may be the best so far.
static inline void NAME(elkan_take)(NAME(elkan_point) * p, REAL score, REAL place) {
    if (score > p->best) {
        p->second = p->best;
        p->best = score;
        p->place = place;
    } else if (!(score <= p->second)) {
        p->second = score;
    }
}

TARGET static REAL NAME(score_one)(const REAL *row, const cpu_bounds_tables *tables, int64_t j) {
    const REAL *own = (const REAL *)tables->rows + j * tables->d_row;
    V sum = V_SPLAT((REAL)0);
    for (int64_t f = 0; f < tables->d_row; f += W) sum = V_FMA(V_LOAD(row + f), V_LOAD(own + f), sum);
    return V_SUM(sum) + ((const REAL *)tables->table)[j * (tables->d + 1) + tables->d];
}

static inline float NAME(elkan_upper)(const NAME(elkan_point) * p) {
    REAL square = p->norm - 2 * p->best + p->close;
    square = square < 0 ? 0 : square; // what is not a number stays so
    return NAME(length_above)(sizeof(REAL) == 4 ? (REAL)sqrtf((float)square) : (REAL)sqrt((double)square), 0);
}

// Scores candidates of a block, one by one where they are few, else the whole block.
BOUNDS_INLINE void NAME(elkan_block)(NAME(elkan_point) * p, const cpu_bounds_work *work, int64_t first,
                                     uint64_t open, int32_t own) {
    const cpu_bounds_tables *tables = work->tables;
    const REAL *row = (const REAL *)work->scratch->row;
    REAL *scores = (REAL *)work->scratch->scores;
    int64_t alone = __builtin_popcountll(open) * (ELKAN_ALONE + tables->d_row / W);
    if (alone >= tables->d * (BOUNDS_LANES / W)) {
        const REAL score = scores[own];
        NAME(score_blocks)(scores, row, tables, first, 1);
        scores[own] = score;
        NAME(elkan_bounds)(p, work, first, own);
        open = tables->k - first < BOUNDS_LANES ? ((uint64_t)1 << (tables->k - first)) - 1 : 0xffff;
        if (own >= first && own < first + BOUNDS_LANES) open &= ~((uint64_t)1 << (own - first));
    } else {
        for (uint64_t left = open; left; left &= left - 1) {
            int64_t j = first + __builtin_ctzll(left);
            scores[j] = NAME(score_one)(row, tables, j);
            NAME(elkan_bound)(p, work, j);
        }
    }
    p->distances += __builtin_popcountll(open);
    for (; open; open &= open - 1) {
        int64_t j = first + __builtin_ctzll(open);
        NAME(elkan_take)(p, scores[j], (REAL)j);
    }
}

// The label of a point whose best two scores are known, near ties included.
BOUNDS_INLINE int32_t NAME(elkan_label)(const NAME(elkan_point) * p, const cpu_bounds_work *work) {
    const cpu_bounds_tables *tables = work->tables;
    REAL *row = (REAL *)work->scratch->row, *scores = (REAL *)work->scratch->scores;
    if (p->best - p->second > p->close) return (int32_t)p->place;
    NAME(score_all)(scores, row, tables);
    return NAME(decide)(scores, row, tables, p->close);
}

// A point without bounds: all centroids.
TARGET static int64_t NAME(elkan_first)(cpu_bounds_work *work, int64_t i, int64_t moved) {
    const cpu_bounds_tables *tables = work->tables;
    REAL *scores = (REAL *)work->scratch->scores, bests[W], seconds[W], places[W];
    NAME(elkan_point) p = NAME(elkan_start)(work, i);
    NAME(score_all)(scores, (const REAL *)work->scratch->row, tables);
    V best = V_SPLAT((REAL)-INFINITY), second = best, place = V_SPLAT((REAL)0);
    for (int64_t first = 0; first < tables->k; first += BOUNDS_LANES) {
        NAME(elkan_bounds)(&p, work, first, 0);
        for (int64_t v = first; v < first + BOUNDS_LANES; v += W) {
            const V score = V_LOAD(scores + v), mine = V_SPLAT((REAL)v);
            second = V_MAX(second, V_MIN(best, score));
            V_KEEP(best, place, score, mine);
        }
    }
    NAME(elkan_bound)(&p, work, 0); // which the blocks left as it was
    V_STORE(bests, best);
    V_STORE(seconds, second);
    V_STORE(places, place);
    for (int lane = 0; lane < W; lane++) {
        NAME(elkan_take)(&p, bests[lane], places[lane] + (REAL)lane);
        NAME(elkan_take)(&p, seconds[lane], (REAL)0); // never the best
    }
    int32_t label = NAME(elkan_label)(&p, work);
    float upper = NAME(elkan_upper)(&p), *blocks = work->blocks + i * tables->blocks_count;
    for (int64_t first = 0; first < tables->k; first += BOUNDS_LANES)
        bounds_block_keep(tables, blocks, p.lower, first, label, upper);
    bounds_keep(work, i, label, upper, bounds_least_other(tables, blocks));
    work->distances += tables->k;
    return bounds_label_put(work, i, label, moved);
}

// The distance of a point to its own centroid.
TARGET static float NAME(elkan_own)(NAME(elkan_point) * p, const cpu_bounds_work *work, int64_t i,
                                    int32_t own) {
    REAL *scores = (REAL *)work->scratch->scores;
    *p = NAME(elkan_start)(work, i);
    scores[own] = NAME(score_one)((const REAL *)work->scratch->row, work->tables, own);
    NAME(elkan_take)(p, scores[own], (REAL)own);
    NAME(elkan_bound)(p, work, own);
    p->distances = 1;
    return NAME(elkan_upper)(p);
}

TARGET static int64_t NAME(elkan_next)(cpu_bounds_work *work, int64_t i, int64_t moved) {
    const cpu_bounds_tables *tables = work->tables;
    const int32_t own = bounds_label(work, i), own_block = own / BOUNDS_LANES;
    const float *halves = tables->halves + own * tables->k_row;
    float upper = bounds_upper(work, i, own), upper_own = upper;
    float *lower = work->lower + i * tables->k, *blocks = work->blocks + i * tables->blocks_count;
    int32_t *touched = work->scratch->touched, label = own, touched_count = 0;
    NAME(elkan_point) p = {.distances = 0};
    for (int64_t from = 0; from < tables->blocks_count; from += BLOCKS_TOGETHER) {
        uint64_t left = bounds_open_blocks(tables, blocks, from, upper);
        for (; left; left &= left - 1) {
            int32_t block = (int32_t)from + __builtin_ctzll(left);
            int64_t first = (int64_t)block * BOUNDS_LANES;
            touched[touched_count++] = block;
            uint64_t open = bounds_candidates(tables, lower, halves, first, upper, upper_own);
            if (block == own_block) open &= ~((uint64_t)1 << (own - first));
            if (open && !p.distances) {
                upper = upper_own = NAME(elkan_own)(&p, work, i, own);
                open &= bounds_candidates(tables, lower, halves, first, upper, upper_own);
            }
            if (!open) continue;
            NAME(elkan_block)(&p, work, first, open, own);
            upper = NAME(elkan_upper)(&p);
        }
    }
    if (p.distances)
        label = NAME(elkan_label)(&p, work);
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
BOUNDS_INLINE int NAME(elkan_opens)(cpu_bounds_work *work, int64_t i) {
    const cpu_bounds_tables *tables = work->tables;
    const int32_t own = bounds_label(work, i);
    const float upper = bounds_upper(work, i, own), *blocks = work->blocks + i * tables->blocks_count;
    int opens = 0;
    for (int64_t from = 0; from < tables->blocks_count; from += BLOCKS_TOGETHER)
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
        const char *row = (const char *)((const REAL *)work->rows + i * tables->d_row);
        for (int64_t byte = 0; byte < tables->d * (int64_t)sizeof(REAL); byte += 64)
            __builtin_prefetch(row + byte);
    }
    return opens;
}

TARGET static int64_t NAME(elkan)(cpu_bounds_work *work, int64_t listed) {
    int32_t *list = work->scratch->list;
    const int64_t blocks_count = work->tables->blocks_count;
    int64_t moved = 0;
    if (work->is_new) {
        for (int64_t at = 0; at < listed; at++) moved = NAME(elkan_first)(work, list[at], moved);
        return moved;
    }
    for (int64_t first = 0; first < listed; first += FETCHED_TOGETHER) {
        int64_t end = first + FETCHED_TOGETHER < listed ? first + FETCHED_TOGETHER : listed, left = first;
        for (int64_t at = end; at < end + FETCHED_TOGETHER && at < listed; at++)
            __builtin_prefetch(work->blocks + list[at] * blocks_count);
        for (int64_t at = first; at < end; at++)
            if (NAME(elkan_opens)(work, list[at])) list[left++] = list[at];
        for (int64_t at = first; at < left; at++) moved = NAME(elkan_next)(work, list[at], moved);
    }
    return moved;
}

// Sums --------------------------------------------------------------------------------------------------------

BOUNDS_INLINE void NAME(add_row)(double *sums, const double *x, int64_t d, double weight, double points) {
    for (int64_t f = 0; f < d; f++) sums[f] += weight * x[f];
    sums[d] += weight;
    sums[d + 1] += points;
}

// A point joins the sums of its label, and leaves those of the old one (-1: none).
BOUNDS_INLINE void NAME(add_point)(cpu_bounds_work *work, int64_t i, int32_t old) {
    const int64_t d = work->tables->d;
    const REAL *point = (const REAL *)work->points + NAME(offset)(work, i);
    double *x = work->scratch->doubles, weight = work->weights ? work->weights[i] : 1.0;
    if (weight == 0) return;
    for (int64_t f = 0; f < d; f++) x[f] = (double)point[f * work->group];
    NAME(add_row)(work->sums + bounds_label(work, i) * work->pitch, x, d, weight, 1.0);
    if (old >= 0) NAME(add_row)(work->sums + old * work->pitch, x, d, -weight, -1.0);
}

TARGET static void NAME(add)(cpu_bounds_work *work, int64_t moved) {
    const cpu_bounds_scratch *scratch = work->scratch;
    if (work->mode == KM_CPU_MOVE)
        for (int64_t at = 0; at < moved; at++)
            NAME(add_point)(work, scratch->moved[at], scratch->moved_old[at]);
    else
        for (int64_t i = 0; i < work->count; i++) NAME(add_point)(work, i, -1);
}

static void NAME(pass)(cpu_bounds_work *work) {
    int64_t listed = bounds_list(work);
    work->skipped += work->count - listed;
    int64_t moved = work->is_elkan ? NAME(elkan)(work, listed) : NAME(hamerly)(work, listed);
    work->changed += moved;
    if (work->sums) NAME(add)(work, moved);
}

#undef BOUNDS_INLINE

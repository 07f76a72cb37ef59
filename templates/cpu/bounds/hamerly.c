// SPDX-License-Identifier: MIT
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

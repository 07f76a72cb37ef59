// SPDX-License-Identifier: MIT
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

// SPDX-License-Identifier: MIT
// The body of the filter for one type and instruction set: REAL and the words of filter_words.h, NAME(stem), and
// TARGET; included once for each, so no include guard.
//
// Rounding. u is half a unit of REAL's last place, T_j = |c_j|^2 / 2, R the squared norm of a box's farthest corner.
// A score x . c_j - T_j errs by at most (d + 2) u (2 T_j + R / 2), the width of a box along c_j - c_z by
// (d + 2) u (T_j + T_z + R): with SLACK = 4 (d + 4) u, the comparison of two centroids in a box errs by less than
// SLACK (T_j + T_z + R). What is closer than that is kept, and among points decided in double.

#define FILTER_INLINE TARGET static inline __attribute__((always_inline))

FILTER_INLINE REAL NAME(slack_of)(const int64_t d) {
    return (REAL)(4 * (d + 4)) * (sizeof(REAL) == 4 ? (REAL)0x1p-24 : (REAL)0x1p-53);
}

// Rows and slacks of the centroids that are the best in W boxes.
FILTER_INLINE void NAME(pick_best)(REAL *near, REAL *slack, const cpu_filter_work *work, const REAL *best,
                                   const int64_t d) {
    const REAL *table = (const REAL *)work->table, *slacks = (const REAL *)work->scratch->slacks;
#ifdef V_PICK
    if (work->k <= FILTER_COLUMN) {
        const REAL *columns = (const REAL *)work->scratch->columns;
        for (int64_t f = 0; f < d; f++)
            V_STORE(near + f * W, V_PICK(columns + f * FILTER_COLUMN, V_LOAD(best)));
        V_STORE(slack, V_PICK(columns + d * FILTER_COLUMN, V_LOAD(best)));
        return;
    }
#endif
    for (int lane = 0; lane < W; lane++) {
        const int64_t j = (int64_t)best[lane];
        slack[lane] = slacks[j];
        for (int64_t f = 0; f < d; f++) near[f * W + lane] = table[j * (d + 1) + f];
    }
}

// For each of BOXES boxes: a centroid z that is as good as any at its middle; for each centroid of the list, the boxes
// in which it may be the nearest somewhere, z's own among them. Returns the boxes in which several may be.
FILTER_INLINE uint32_t NAME(test_boxes)(REAL *z, uint16_t *kept, const cpu_filter_work *work, const REAL *box,
                                        const int32_t *list, const int64_t count, const int64_t lanes,
                                        const int64_t d) {
    const REAL *table = (const REAL *)work->table, *slacks = (const REAL *)work->scratch->slacks;
    REAL *scores = (REAL *)work->scratch->scores;
    const V slack = V_SPLAT(-NAME(slack_of)(d));
    uint64_t several = 0;
    for (int64_t o = 0; o < lanes; o += W) {
        V best = V_SPLAT((REAL)-INFINITY), index = V_SPLAT((REAL)list[0]);
        for (int64_t c = 0; c < count; c++) {
            const REAL *row = table + list[c] * (d + 1);
            V score = V_SPLAT(row[d]);
            for (int64_t f = 0; f < d; f++)
                score = V_FMA(V_LOAD(box + f * BOXES + o), V_SPLAT(row[f]), score);
            V_STORE(scores + c * W, score);
            const V j = V_SPLAT((REAL)list[c]);
            V_KEEP(best, index, score, j);
        }
        REAL near[KM_CPU_FILTER_FEATURES_MAX * W], z_slack[W];
        V_STORE(z + o, index);
        NAME(pick_best)(near, z_slack, work, z + o, d);
        // The least score of z, less what rounding may have added to any other.
        const V low = V_FMA(slack, V_LOAD(box + 2 * d * BOXES + o), V_SUB(best, V_LOAD(z_slack)));
        uint64_t some = 0;
        for (int64_t c = 0; c < count; c++) {
            const REAL *row = table + list[c] * (d + 1);
            V high = V_ADD(V_LOAD(scores + c * W), V_SPLAT(slacks[list[c]]));
            for (int64_t f = 0; f < d; f++) {
                const V apart = V_SUB(V_SPLAT(row[f]), V_LOAD(near + f * W));
                high = V_FMA(V_ABS(apart), V_LOAD(box + (d + f) * BOXES + o), high);
            }
            const uint64_t here = V_NLT(high, low);
            several |= (some & here) << o;
            some |= here;
            kept[c] = (uint16_t)((o ? kept[c] : 0) | here << o);
        }
    }
    return (uint32_t)several;
}

// The centroids that may be the nearest in a box, ascending as they are listed; returns how many there are. Written
// without a branch, as nobody foresees which these are.
FILTER_INLINE int64_t NAME(list_kept)(int32_t *out, const uint16_t *kept, const int32_t *list,
                                      const int64_t count, const int64_t lane) {
    int64_t found = 0;
    for (int64_t c = 0; c < count; c++) {
        out[found] = list[c];
        found += kept[c] >> lane & 1;
    }
    return found;
}

// Adds a row of sums to cluster j's row of this supertile.
FILTER_INLINE void NAME(add_row)(cpu_filter_scratch *scratch, const double *row, int64_t j, int64_t pitch) {
    double *to = scratch->rows + j * pitch;
    for (int64_t i = 0; i < pitch; i++) to[i] += row[i];
}

// The nearest centroid of the list to one point, in double; equal distances go to the lowest index.
TARGET static int64_t NAME(decide)(const cpu_filter_work *work, const REAL *point, const int32_t *list,
                                   int64_t count) {
    int64_t d = work->tiles->d, best = 0;
    double least = INFINITY;
    for (int64_t c = 0; c < count; c++) {
        const REAL *row = (const REAL *)work->table + list[c] * (d + 1);
        double square = 0;
        for (int64_t f = 0; f < d; f++) {
            double t = (double)point[f * TILE_POINTS] - (double)row[f];
            square = __builtin_fma(t, t, square);
        }
        if (square < least || (square == least && list[c] < list[best])) {
            least = square;
            best = c;
        }
    }
    return best;
}

// Points of a tile that are scored at a time.
enum { NAME(SCORED) = W * 4 < TILE_POINTS ? 4 * W : TILE_POINTS };

// Their scores for a centroid, less those of another: `apart` is the one's row less the other's.
FILTER_INLINE void NAME(score)(V *score, const REAL *points, const REAL *apart, const int64_t d) {
    for (int v = 0; v < NAME(SCORED) / W; v++) score[v] = V_SPLAT(apart[d]);
    for (int64_t f = 0; f < d; f++) {
        const V value = V_SPLAT(apart[f]);
        for (int v = 0; v < NAME(SCORED) / W; v++)
            score[v] = V_FMA(V_LOAD(points + f * TILE_POINTS + v * W), value, score[v]);
    }
}

// Scores that lie no farther apart than this are decided in double; `widest`: the largest T_j of the list.
FILTER_INLINE V NAME(close)(REAL widest, REAL corner, const int64_t d) {
    return V_SPLAT(2 * NAME(slack_of)(d) * (2 * widest + corner));
}

// Which of two centroids owns each point of a tile: one hyperplane. Returns the points that it does not decide.
FILTER_INLINE uint64_t NAME(split_two)(uint64_t *owners, const cpu_filter_work *work, const REAL *points,
                                       REAL corner, const int32_t *list, const int64_t d) {
    const REAL *table = (const REAL *)work->table, *origin = table + list[0] * (d + 1);
    const REAL *row = table + list[1] * (d + 1), widest = -row[d] > -origin[d] ? -row[d] : -origin[d];
    const V close = NAME(close)(widest, corner, d), zero = V_SPLAT((REAL)0);
    REAL apart[KM_CPU_FILTER_FEATURES_MAX + 1];
    for (int64_t f = 0; f <= d; f++) apart[f] = row[f] - origin[f];
    uint64_t second = 0, near = 0;
    for (int from = 0; from < TILE_POINTS; from += NAME(SCORED)) {
        V score[NAME(SCORED) / W];
        NAME(score)(score, points + from, apart, d);
        for (int v = 0; v < NAME(SCORED) / W; v++) {
            second |= V_GT(score[v], zero) << (from + v * W);
            near |= V_NLT(close, V_ABS(score[v])) << (from + v * W);
        }
    }
    owners[0] = ~second;
    owners[1] = second;
    return near;
}

// The same for any number of them; list[0] stands for the origin of the scores.
FILTER_INLINE uint64_t NAME(split_many)(uint64_t *owners, const cpu_filter_work *work, const REAL *points,
                                        REAL corner, const int32_t *list, const int64_t count,
                                        const int64_t d) {
    const REAL *table = (const REAL *)work->table, *origin = table + list[0] * (d + 1);
    REAL best[TILE_POINTS], second[TILE_POINTS], widest = -origin[d];
    for (int at = 0; at < TILE_POINTS; at += W) {
        V_STORE(best + at, V_SPLAT((REAL)0));
        V_STORE(second + at, V_SPLAT((REAL)-INFINITY));
    }
    owners[0] = ~(uint64_t)0;
    for (int64_t c = 1; c < count; c++) {
        const REAL *row = table + list[c] * (d + 1);
        REAL apart[KM_CPU_FILTER_FEATURES_MAX + 1];
        for (int64_t f = 0; f <= d; f++) apart[f] = row[f] - origin[f];
        widest = -row[d] > widest ? -row[d] : widest;
        uint64_t better = 0;
        for (int from = 0; from < TILE_POINTS; from += NAME(SCORED)) {
            V score[NAME(SCORED) / W];
            NAME(score)(score, points + from, apart, d);
            for (int v = 0; v < NAME(SCORED) / W; v++) {
                const int at = from + v * W;
                const V first = V_LOAD(best + at);
                better |= V_GT(score[v], first) << at;
                V_STORE(second + at, V_MAX(V_LOAD(second + at), V_MIN(first, score[v])));
                V_STORE(best + at, V_MAX(first, score[v]));
            }
        }
        owners[c] = better;
        for (int64_t e = 0; e < c; e++) owners[e] &= ~better;
    }
    const V close = NAME(close)(widest, corner, d);
    uint64_t near = 0;
    for (int at = 0; at < TILE_POINTS; at += W)
        near |= V_NLT(close, V_SUB(V_LOAD(best + at), V_LOAD(second + at))) << at;
    return near;
}

// Which points of a tile each centroid of the list owns.
FILTER_INLINE void NAME(split_points)(uint64_t *owners, const cpu_filter_work *work, const REAL *points,
                                      REAL corner, uint64_t valid, const int32_t *list, const int64_t count,
                                      const int64_t d) {
    uint64_t near = count == 2 ? NAME(split_two)(owners, work, points, corner, list, d)
                               : NAME(split_many)(owners, work, points, corner, list, count, d);
    for (int64_t c = 0; c < count; c++) owners[c] &= valid;
    for (near &= valid; near; near &= near - 1) {
        int i = __builtin_ctzll(near);
        int64_t right = NAME(decide)(work, points + i, list, count);
        for (int64_t e = 0; e < count; e++) owners[e] &= ~((uint64_t)1 << i);
        owners[right] |= (uint64_t)1 << i;
    }
}

#ifdef V_WIDE
// Sums of some points of a tile, without weights: eight lanes, as no branch depends on how many points there are.
FILTER_INLINE void NAME(sum_lanes)(double *row, const REAL *points, uint64_t mine, const int64_t d,
                                   const int64_t pitch) {
    for (int64_t f = 0; f < d; f++) {
        V_WIDE sum = {0};
        for (int i = 0; i < TILE_POINTS; i += 8) V_ADD_WIDE(sum, mine >> i, points + f * TILE_POINTS + i);
        row[f] = V_WIDE_SUM(sum);
    }
    row[d] = row[d + 1] = (double)__builtin_popcountll(mine);
    for (int64_t i = d + 2; i < pitch; i++) row[i] = 0;
}
#endif

// Sums of some points of a tile.
FILTER_INLINE void NAME(sum_points)(double *row, const REAL *points, const double *weights, uint64_t mine,
                                    const int64_t d, const int64_t pitch) {
#ifdef V_WIDE
    if (!weights) {
        NAME(sum_lanes)(row, points, mine, d, pitch);
        return;
    }
#endif
    for (int64_t i = 0; i < pitch; i++) row[i] = 0;
    if (!weights) row[d] = row[d + 1] = (double)__builtin_popcountll(mine);
    for (; mine; mine &= mine - 1) {
        int i = __builtin_ctzll(mine);
        const REAL *point = points + i;
        double weight = weights ? weights[i] : 1.0;
        if (weights) {
            row[d] += weight;
            row[d + 1] += weight != 0;
        }
        for (int64_t f = 0; f < d; f++) row[f] += weight * (double)point[f * TILE_POINTS];
    }
}

FILTER_INLINE void NAME(label)(cpu_filter_work *work, int64_t at, int32_t label) {
    int64_t old;
    if (work->labels_bytes == 1) {
        old = ((uint8_t *)work->labels)[at];
        ((uint8_t *)work->labels)[at] = (uint8_t)label;
    } else if (work->labels_bytes == 2) {
        old = ((uint16_t *)work->labels)[at];
        ((uint16_t *)work->labels)[at] = (uint16_t)label;
    } else {
        old = ((int32_t *)work->labels)[at];
        ((int32_t *)work->labels)[at] = label;
    }
    work->changed += work->first_pass || old != label;
}

TARGET static void NAME(label_range)(cpu_filter_work *work, int64_t first, int64_t count, int32_t label) {
    if (work->tiles->n - first < count) count = work->tiles->n - first;
    for (int64_t i = first; i < first + count; i++) NAME(label)(work, i, label);
}

// Looks at a tile point by point.
FILTER_INLINE void NAME(split_tile)(cpu_filter_work *work, int64_t tile, REAL corner, const int32_t *list,
                                    const int64_t count, const int64_t d, const int64_t pitch) {
    const cpu_tiles *tiles = work->tiles;
    cpu_filter_scratch *scratch = work->scratch;
    const REAL *points = (const REAL *)tiles->points + tile * TILE_POINTS * d;
    const double *weights = tiles->weights ? tiles->weights + tile * TILE_POINTS : NULL;
    int64_t here = tiles->n - tile * TILE_POINTS;
    uint64_t valid = here < TILE_POINTS ? ((uint64_t)1 << here) - 1 : ~(uint64_t)0, *owners = scratch->owners;
    if (here > TILE_POINTS) here = TILE_POINTS;
    NAME(split_points)(owners, work, points, corner, valid, list, count, d);
    work->point_pairs += here * count;
    work->split_points += here;
    // For floats the cluster with most points takes the tile's sums less what the others take: less to add, and as
    // good once it is rounded. Of doubles, or with weights (a cluster of weightless points has the weight 0), no
    // difference is taken.
    const int direct = sizeof(REAL) == 8 || weights;
    int64_t most = 0;
    for (int64_t c = 1; c < count; c++) {
        if (__builtin_popcountll(owners[c]) > __builtin_popcountll(owners[most])) most = c;
    }
    double rest[KM_CPU_FILTER_FEATURES_MAX + 8], row[KM_CPU_FILTER_FEATURES_MAX + 8];
    for (int64_t i = 0; i < pitch; i++) rest[i] = tiles->sums[tile * pitch + i];
    int whole = owners[most] == valid;
    for (int64_t c = 0; c < count && !whole; c++) {
        if (!owners[c] || (c == most && !direct)) continue;
        NAME(sum_points)(row, points, weights, owners[c], d, pitch);
        NAME(add_row)(scratch, row, list[c], pitch);
        for (int64_t i = 0; i < pitch; i++) rest[i] -= row[i];
    }
    if (whole || !direct) NAME(add_row)(scratch, rest, list[most], pitch);
    if (!work->labels) return;
    for (int64_t c = 0; c < count; c++)
        for (uint64_t mine = owners[c]; mine; mine &= mine - 1)
            NAME(label)(work, tile * TILE_POINTS + __builtin_ctzll(mine), list[c]);
}

// A supertile that several centroids can reach.
FILTER_INLINE void NAME(split_super)(cpu_filter_work *work, int64_t super, const int32_t *list,
                                     const int64_t count, const int64_t d, const int64_t pitch) {
    const cpu_tiles *tiles = work->tiles;
    cpu_filter_scratch *scratch = work->scratch;
    const REAL *box = (const REAL *)tiles->boxes + super * filter_box_values(d);
    REAL z[BOXES];
    int64_t first = super * TILES_OF_SUPER, lanes = tiles->tiles_count - first;
    if (lanes > TILES_OF_SUPER) lanes = TILES_OF_SUPER;
    for (int64_t c = 0; c < count; c++)
        for (int64_t i = 0; i < pitch; i++) scratch->rows[list[c] * pitch + i] = 0;
    const uint32_t several = NAME(test_boxes)(z, scratch->tile_kept, work, box, list, count, lanes, d);
    work->box_pairs += lanes * count;
    for (int64_t t = 0; t < lanes; t++) {
        int64_t tile = first + t;
        if (!(several >> t & 1)) {
            NAME(add_row)(scratch, tiles->sums + tile * pitch, (int64_t)z[t], pitch);
            if (work->labels) NAME(label_range)(work, tile * TILE_POINTS, TILE_POINTS, (int32_t)z[t]);
            continue;
        }
        int64_t own = NAME(list_kept)(scratch->tile_list, scratch->tile_kept, list, count, t);
        NAME(split_tile)(work, tile, box[2 * d * BOXES + t], scratch->tile_list, own, d, pitch);
    }
    for (int64_t c = 0; c < count; c++) {
        int64_t j = list[c];
        for (int64_t f = 0; f < pitch; f++) work->sums[j * pitch + f] += scratch->rows[j * pitch + f];
    }
}

FILTER_INLINE void NAME(walk)(cpu_filter_work *work, const int64_t d) {
    const int64_t pitch = KM_CPU_PITCH(d);
    const cpu_tiles *tiles = work->tiles;
    cpu_filter_scratch *scratch = work->scratch;
    const REAL *table = (const REAL *)work->table;
    REAL *slacks = (REAL *)scratch->slacks, *columns = (REAL *)scratch->columns;
    for (int64_t j = 0; j < work->k; j++) {
        slacks[j] = -NAME(slack_of)(d) * table[j * (d + 1) + d];
        scratch->list[j] = (int32_t)j;
        for (int64_t f = 0; f <= d && j < FILTER_COLUMN; f++)
            columns[f * FILTER_COLUMN + j] = f < d ? table[j * (d + 1) + f] : slacks[j];
    }
    int64_t end = work->first_super + work->supers_count;
    for (int64_t first = work->first_super; first < end; first += BOXES) {
        const REAL *box = (const REAL *)tiles->super_boxes + first / BOXES * filter_box_values(d);
        REAL z[BOXES];
        int64_t lanes = end - first < BOXES ? end - first : BOXES;
        const uint32_t several =
            NAME(test_boxes)(z, scratch->super_kept, work, box, scratch->list, work->k, lanes, d);
        work->box_pairs += lanes * work->k;
        for (int64_t s = 0; s < lanes; s++) {
            int64_t super = first + s;
            if (!(several >> s & 1)) {
                const double *from = tiles->super_sums + super * pitch;
                double *to = work->sums + (int64_t)z[s] * pitch;
                for (int64_t i = 0; i < pitch; i++) to[i] += from[i];
                if (work->labels) NAME(label_range)(work, super * SUPER_POINTS, SUPER_POINTS, (int32_t)z[s]);
                continue;
            }
            int64_t own =
                NAME(list_kept)(scratch->super_list, scratch->super_kept, scratch->list, work->k, s);
            NAME(split_super)(work, super, scratch->super_list, own, d, pitch);
        }
    }
}

TARGET static void NAME(filter)(cpu_filter_work *work) {
    switch (work->tiles->d) {
    case 2:
        NAME(walk)(work, 2);
        break;
    case 3:
        NAME(walk)(work, 3);
        break;
    case 4:
        NAME(walk)(work, 4);
        break;
    case 8:
        NAME(walk)(work, 8);
        break;
    case 16:
        NAME(walk)(work, 16);
        break;
    default:
        NAME(walk)(work, work->tiles->d);
    }
}

// SPDX-License-Identifier: MIT
// The passes of the algorithm tiles (runtime/cpu/tiles.h).
//
// Rounding. u is half a unit of km_real's last place, T_j = |c_j|^2 / 2, R the squared norm of a box's farthest corner.
// A score x . c_j - T_j errs by at most (d + 2) u (2 T_j + R / 2), the width of a box along c_j - c_z by
// (d + 2) u (T_j + T_z + R): with SLACK = 4 (d + 4) u, the comparison of two centroids in a box errs by less than
// SLACK (T_j + T_z + R). What is closer than that is kept, and among points decided in double.

//@ include cpu/prebuilt.h
#include "runtime/cpu/tiles.h"

KM_INLINE km_real slack_of(const int64_t d) {
    return (km_real)(4 * (d + 4)) * (sizeof(km_real) == 4 ? (km_real)0x1p-24 : (km_real)0x1p-53);
}

// Rows and slacks of the centroids that are the best in LANES boxes.
KM_INLINE void pick_best(km_real *near, km_real *slack, const cpu_tiles_work *work, const km_int *best,
                         const int64_t d) {
    const km_real *table = (const km_real *)work->table, *slacks = (const km_real *)work->scratch->slacks;
    //@ if avx512_float
    if (work->k <= TILES_COLUMN) {
        const km_real *columns = (const km_real *)work->scratch->columns;
        for (int64_t f = 0; f < d; f++)
            KM_STORE(near + f * LANES, KM_PICK(columns + f * TILES_COLUMN, KM_LOAD_INTS(best)));
        KM_STORE(slack, KM_PICK(columns + d * TILES_COLUMN, KM_LOAD_INTS(best)));
        return;
    }
    //@ end
    for (int lane = 0; lane < LANES; lane++) {
        const int64_t j = best[lane];
        slack[lane] = slacks[j];
        for (int64_t f = 0; f < d; f++) near[f * LANES + lane] = table[j * (d + 1) + f];
    }
}

// For each of BOXES boxes: a centroid z that is as good as any at its middle; for each centroid of the list, the boxes
// in which it may be the nearest somewhere, z's own among them. Returns the boxes in which several may be.
KM_INLINE uint32_t test_boxes(km_int *z, uint16_t *kept, const cpu_tiles_work *work, const km_real *box,
                              const int32_t *list, const int64_t count, const int64_t lanes,
                              const int64_t d) {
    const km_real *table = (const km_real *)work->table, *slacks = (const km_real *)work->scratch->slacks;
    km_real *scores = (km_real *)work->scratch->scores;
    const km_vec slack = KM_SPLAT(-slack_of(d));
    uint64_t several = 0;
    for (int64_t o = 0; o < lanes; o += LANES) {
        km_vec best = KM_SPLAT((km_real)-INFINITY);
        km_ints index = KM_INTS(list[0]);
        for (int64_t c = 0; c < count; c++) {
            const km_real *row = table + list[c] * (d + 1);
            km_vec score = KM_SPLAT(row[d]);
            for (int64_t f = 0; f < d; f++)
                score = KM_FMA(KM_LOAD(box + f * BOXES + o), KM_SPLAT(row[f]), score);
            KM_STORE(scores + c * LANES, score);
            const km_ints j = KM_INTS(list[c]);
            KM_KEEP(best, index, score, j);
        }
        km_real near[KM_CPU_TILES_FEATURES_MAX * LANES], z_slack[LANES];
        KM_PUT_INTS(z + o, index);
        pick_best(near, z_slack, work, z + o, d);
        // The least score of z, less what rounding may have added to any other.
        const km_vec low = KM_FMA(slack, KM_LOAD(box + 2 * d * BOXES + o), KM_SUB(best, KM_LOAD(z_slack)));
        uint64_t some = 0;
        for (int64_t c = 0; c < count; c++) {
            const km_real *row = table + list[c] * (d + 1);
            km_vec high = KM_ADD(KM_LOAD(scores + c * LANES), KM_SPLAT(slacks[list[c]]));
            for (int64_t f = 0; f < d; f++) {
                const km_vec apart = KM_SUB(KM_SPLAT(row[f]), KM_LOAD(near + f * LANES));
                high = KM_FMA(KM_ABS(apart), KM_LOAD(box + (d + f) * BOXES + o), high);
            }
            const uint64_t here = KM_NOT_BELOW(high, low);
            several |= (some & here) << o;
            some |= here;
            kept[c] = (uint16_t)((o ? kept[c] : 0) | here << o);
        }
    }
    return (uint32_t)several;
}

// The centroids that may be the nearest in a box, ascending as they are listed; returns how many there are. Written
// without a branch, as nobody foresees which these are.
KM_INLINE int64_t list_kept(int32_t *out, const uint16_t *kept, const int32_t *list, const int64_t count,
                            const int64_t lane) {
    int64_t found = 0;
    for (int64_t c = 0; c < count; c++) {
        out[found] = list[c];
        found += kept[c] >> lane & 1;
    }
    return found;
}

// Adds a row of sums to cluster j's row of this supertile.
KM_INLINE void add_row(cpu_tiles_scratch *scratch, const double *row, int64_t j, int64_t pitch) {
    double *to = scratch->rows + j * pitch;
    for (int64_t i = 0; i < pitch; i++) to[i] += row[i];
}

// The nearest centroid of the list to one point, in double; equal distances go to the lowest index.
KM_TARGET static int64_t decide(const cpu_tiles_work *work, const km_real *point, const int32_t *list,
                                int64_t count) {
    int64_t d = work->tiles->d, best = 0;
    double least = INFINITY;
    for (int64_t c = 0; c < count; c++) {
        const km_real *row = (const km_real *)work->table + list[c] * (d + 1);
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
enum { SCORED = LANES * 4 < TILE_POINTS ? 4 * LANES : TILE_POINTS };

// Their scores for a centroid, less those of another: `apart` is the one's row less the other's.
KM_INLINE void score_apart(km_vec *score, const km_real *points, const km_real *apart, const int64_t d) {
    for (int v = 0; v < SCORED / LANES; v++) score[v] = KM_SPLAT(apart[d]);
    for (int64_t f = 0; f < d; f++) {
        const km_vec value = KM_SPLAT(apart[f]);
        for (int v = 0; v < SCORED / LANES; v++)
            score[v] = KM_FMA(KM_LOAD(points + f * TILE_POINTS + v * LANES), value, score[v]);
    }
}

// Scores that lie no farther apart than this are decided in double; `widest`: the largest T_j of the list.
KM_INLINE km_vec close_within(km_real widest, km_real corner, const int64_t d) {
    return KM_SPLAT(2 * slack_of(d) * (2 * widest + corner));
}

// Which of two centroids owns each point of a tile: one hyperplane. Returns the points that it does not decide.
KM_INLINE uint64_t split_two(uint64_t *owners, const cpu_tiles_work *work, const km_real *points,
                             km_real corner, const int32_t *list, const int64_t d) {
    const km_real *table = (const km_real *)work->table, *origin = table + list[0] * (d + 1);
    const km_real *row = table + list[1] * (d + 1), widest = -row[d] > -origin[d] ? -row[d] : -origin[d];
    const km_vec margin = close_within(widest, corner, d), zero = KM_SPLAT((km_real)0);
    km_real apart[KM_CPU_TILES_FEATURES_MAX + 1];
    for (int64_t f = 0; f <= d; f++) apart[f] = row[f] - origin[f];
    uint64_t second = 0, near = 0;
    for (int from = 0; from < TILE_POINTS; from += SCORED) {
        km_vec score[SCORED / LANES];
        score_apart(score, points + from, apart, d);
        for (int v = 0; v < SCORED / LANES; v++) {
            second |= KM_ABOVE(score[v], zero) << (from + v * LANES);
            near |= KM_NOT_BELOW(margin, KM_ABS(score[v])) << (from + v * LANES);
        }
    }
    owners[0] = ~second;
    owners[1] = second;
    return near;
}

// The same for any number of them; list[0] stands for the origin of the scores.
KM_INLINE uint64_t split_many(uint64_t *owners, const cpu_tiles_work *work, const km_real *points,
                              km_real corner, const int32_t *list, const int64_t count, const int64_t d) {
    const km_real *table = (const km_real *)work->table, *origin = table + list[0] * (d + 1);
    km_real best[TILE_POINTS], second[TILE_POINTS], widest = -origin[d];
    for (int at = 0; at < TILE_POINTS; at += LANES) {
        KM_STORE(best + at, KM_SPLAT((km_real)0));
        KM_STORE(second + at, KM_SPLAT((km_real)-INFINITY));
    }
    owners[0] = ~(uint64_t)0;
    for (int64_t c = 1; c < count; c++) {
        const km_real *row = table + list[c] * (d + 1);
        km_real apart[KM_CPU_TILES_FEATURES_MAX + 1];
        for (int64_t f = 0; f <= d; f++) apart[f] = row[f] - origin[f];
        widest = -row[d] > widest ? -row[d] : widest;
        uint64_t better = 0;
        for (int from = 0; from < TILE_POINTS; from += SCORED) {
            km_vec score[SCORED / LANES];
            score_apart(score, points + from, apart, d);
            for (int v = 0; v < SCORED / LANES; v++) {
                const int at = from + v * LANES;
                const km_vec first = KM_LOAD(best + at);
                better |= KM_ABOVE(score[v], first) << at;
                KM_STORE(second + at, KM_MAX(KM_LOAD(second + at), KM_MIN(first, score[v])));
                KM_STORE(best + at, KM_MAX(first, score[v]));
            }
        }
        owners[c] = better;
        for (int64_t e = 0; e < c; e++) owners[e] &= ~better;
    }
    const km_vec margin = close_within(widest, corner, d);
    uint64_t near = 0;
    for (int at = 0; at < TILE_POINTS; at += LANES)
        near |= KM_NOT_BELOW(margin, KM_SUB(KM_LOAD(best + at), KM_LOAD(second + at))) << at;
    return near;
}

// Which points of a tile each centroid of the list owns.
KM_INLINE void split_points(uint64_t *owners, const cpu_tiles_work *work, const km_real *points,
                            km_real corner, uint64_t valid, const int32_t *list, const int64_t count,
                            const int64_t d) {
    uint64_t near = count == 2 ? split_two(owners, work, points, corner, list, d)
                               : split_many(owners, work, points, corner, list, count, d);
    for (int64_t c = 0; c < count; c++) owners[c] &= valid;
    for (near &= valid; near; near &= near - 1) {
        int i = __builtin_ctzll(near);
        int64_t right = decide(work, points + i, list, count);
        for (int64_t e = 0; e < count; e++) owners[e] &= ~((uint64_t)1 << i);
        owners[right] |= (uint64_t)1 << i;
    }
}

//@ if avx512_float
// Sums of some points of a tile, without weights: eight lanes, as no branch depends on how many points there are.
KM_INLINE void sum_lanes(double *row, const km_real *points, uint64_t mine, const int64_t d,
                         const int64_t pitch) {
    for (int64_t f = 0; f < d; f++) {
        km_doubles sum = KM_D_SPLAT(0);
        for (int i = 0; i < TILE_POINTS; i += DOUBLES)
            KM_D_ADD_BITS(sum, mine >> i, KM_LOAD_DOUBLES(points + f * TILE_POINTS + i));
        row[f] = KM_D_SUM(sum);
    }
    row[d] = row[d + 1] = (double)__builtin_popcountll(mine);
    for (int64_t i = d + 2; i < pitch; i++) row[i] = 0;
}
//@ end

// Sums of some points of a tile.
KM_INLINE void sum_points(double *row, const km_real *points, const double *weights, uint64_t mine,
                          const int64_t d, const int64_t pitch) {
    //@ if avx512_float
    if (!weights) {
        sum_lanes(row, points, mine, d, pitch);
        return;
    }
    //@ end
    for (int64_t i = 0; i < pitch; i++) row[i] = 0;
    if (!weights) row[d] = row[d + 1] = (double)__builtin_popcountll(mine);
    for (; mine; mine &= mine - 1) {
        int i = __builtin_ctzll(mine);
        const km_real *point = points + i;
        double weight = weights ? weights[i] : 1.0;
        if (weights) {
            row[d] += weight;
            row[d + 1] += weight != 0;
        }
        for (int64_t f = 0; f < d; f++) row[f] += weight * (double)point[f * TILE_POINTS];
    }
}

KM_INLINE void label_put(cpu_tiles_work *work, int64_t at, int32_t label) {
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

KM_TARGET static void label_range(cpu_tiles_work *work, int64_t first, int64_t count, int32_t label) {
    if (work->tiles->n - first < count) count = work->tiles->n - first;
    for (int64_t i = first; i < first + count; i++) label_put(work, i, label);
}

// Looks at a tile point by point.
KM_INLINE void split_tile(cpu_tiles_work *work, int64_t tile, km_real corner, const int32_t *list,
                          const int64_t count, const int64_t d, const int64_t pitch) {
    const cpu_tiles *tiles = work->tiles;
    cpu_tiles_scratch *scratch = work->scratch;
    const km_real *points = (const km_real *)tiles->points + tile * TILE_POINTS * d;
    const double *weights = tiles->weights ? tiles->weights + tile * TILE_POINTS : NULL;
    int64_t here = tiles->n - tile * TILE_POINTS;
    uint64_t valid = here < TILE_POINTS ? ((uint64_t)1 << here) - 1 : ~(uint64_t)0, *owners = scratch->owners;
    if (here > TILE_POINTS) here = TILE_POINTS;
    split_points(owners, work, points, corner, valid, list, count, d);
    work->point_pairs += here * count;
    work->split_points += here;
    // For floats the cluster with most points takes the tile's sums less what the others take: less to add, and as
    // good once it is rounded. Of doubles, or with weights (a cluster of weightless points has the weight 0), no
    // difference is taken.
    const int direct = sizeof(km_real) == 8 || weights;
    int64_t most = 0;
    for (int64_t c = 1; c < count; c++) {
        if (__builtin_popcountll(owners[c]) > __builtin_popcountll(owners[most])) most = c;
    }
    double rest[KM_CPU_TILES_FEATURES_MAX + 8], row[KM_CPU_TILES_FEATURES_MAX + 8];
    for (int64_t i = 0; i < pitch; i++) rest[i] = tiles->sums[tile * pitch + i];
    int whole = owners[most] == valid;
    for (int64_t c = 0; c < count && !whole; c++) {
        if (!owners[c] || (c == most && !direct)) continue;
        sum_points(row, points, weights, owners[c], d, pitch);
        add_row(scratch, row, list[c], pitch);
        for (int64_t i = 0; i < pitch; i++) rest[i] -= row[i];
    }
    if (whole || !direct) add_row(scratch, rest, list[most], pitch);
    if (!work->labels) return;
    for (int64_t c = 0; c < count; c++)
        for (uint64_t mine = owners[c]; mine; mine &= mine - 1)
            label_put(work, tile * TILE_POINTS + __builtin_ctzll(mine), list[c]);
}

// A supertile that several centroids can reach.
KM_INLINE void split_super(cpu_tiles_work *work, int64_t super, const int32_t *list, const int64_t count,
                           const int64_t d, const int64_t pitch) {
    const cpu_tiles *tiles = work->tiles;
    cpu_tiles_scratch *scratch = work->scratch;
    const km_real *box = (const km_real *)tiles->boxes + super * tiles_box_values(d);
    km_int z[BOXES];
    int64_t first = super * TILES_OF_SUPER, lanes = tiles->tiles_count - first;
    if (lanes > TILES_OF_SUPER) lanes = TILES_OF_SUPER;
    for (int64_t c = 0; c < count; c++)
        for (int64_t i = 0; i < pitch; i++) scratch->rows[list[c] * pitch + i] = 0;
    const uint32_t several = test_boxes(z, scratch->tile_kept, work, box, list, count, lanes, d);
    work->box_pairs += lanes * count;
    for (int64_t t = 0; t < lanes; t++) {
        int64_t tile = first + t;
        if (!(several >> t & 1)) {
            add_row(scratch, tiles->sums + tile * pitch, z[t], pitch);
            if (work->labels) label_range(work, tile * TILE_POINTS, TILE_POINTS, (int32_t)z[t]);
            continue;
        }
        int64_t own = list_kept(scratch->tile_list, scratch->tile_kept, list, count, t);
        split_tile(work, tile, box[2 * d * BOXES + t], scratch->tile_list, own, d, pitch);
    }
    for (int64_t c = 0; c < count; c++) {
        int64_t j = list[c];
        for (int64_t f = 0; f < pitch; f++) work->sums[j * pitch + f] += scratch->rows[j * pitch + f];
    }
}

KM_INLINE void walk(cpu_tiles_work *work, const int64_t d) {
    const int64_t pitch = KM_CPU_PITCH(d);
    const cpu_tiles *tiles = work->tiles;
    cpu_tiles_scratch *scratch = work->scratch;
    const km_real *table = (const km_real *)work->table;
    km_real *slacks = (km_real *)scratch->slacks, *columns = (km_real *)scratch->columns;
    for (int64_t j = 0; j < work->k; j++) {
        slacks[j] = -slack_of(d) * table[j * (d + 1) + d];
        scratch->list[j] = (int32_t)j;
        for (int64_t f = 0; f <= d && j < TILES_COLUMN; f++)
            columns[f * TILES_COLUMN + j] = f < d ? table[j * (d + 1) + f] : slacks[j];
    }
    int64_t end = work->first_super + work->supers_count;
    for (int64_t first = work->first_super; first < end; first += BOXES) {
        const km_real *box = (const km_real *)tiles->super_boxes + first / BOXES * tiles_box_values(d);
        km_int z[BOXES];
        int64_t lanes = end - first < BOXES ? end - first : BOXES;
        const uint32_t several =
            test_boxes(z, scratch->super_kept, work, box, scratch->list, work->k, lanes, d);
        work->box_pairs += lanes * work->k;
        for (int64_t s = 0; s < lanes; s++) {
            int64_t super = first + s;
            if (!(several >> s & 1)) {
                const double *from = tiles->super_sums + super * pitch;
                double *to = work->sums + z[s] * pitch;
                for (int64_t i = 0; i < pitch; i++) to[i] += from[i];
                if (work->labels) label_range(work, super * SUPER_POINTS, SUPER_POINTS, (int32_t)z[s]);
                continue;
            }
            int64_t own = list_kept(scratch->super_list, scratch->super_kept, scratch->list, work->k, s);
            split_super(work, super, scratch->super_list, own, d, pitch);
        }
    }
}

KM_TARGET static void pass(cpu_tiles_work *work) {
    switch (work->tiles->d) {
    case 2:
        walk(work, 2);
        break;
    case 3:
        walk(work, 3);
        break;
    case 4:
        walk(work, 4);
        break;
    case 8:
        walk(work, 8);
        break;
    case 16:
        walk(work, 16);
        break;
    default:
        walk(work, work->tiles->d);
    }
}

//@ include cpu/tiles/fill.c

const cpu_tiles_kernels $name = {{$isa, sizeof(km_real)}, pass, make_keys, fill};

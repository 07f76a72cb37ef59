// SPDX-License-Identifier: MIT
// The passes of the algorithm tiles (runtime/cpu/tiles.h).
//
// Rounding. u is half a unit of km_real's last place, T_j = |c_j|^2 / 2, R the largest squared norm of a point of a
// box. A score x . c_j - T_j errs by at most (d + 2) u (2 T_j + R / 2), the width of a box along c_j - c_z by (d + 2)
// u (T_j + T_z + R). So with m = 4 (d + 4) u, the comparison of two centroids in a box errs by less than the margin m
// (T_j + T_z + R). A centroid within the margin stays a candidate. Points between candidates within the margin are
// resolved in double.

//@ include cpu/prebuilt.h
#include "runtime/cpu/tiles.h"

KM_INLINE km_real relative_margin(const int64_t d) {
    return (km_real)(4 * (d + 4)) * (sizeof(km_real) == 4 ? (km_real)0x1p-24 : (km_real)0x1p-53);
}

// Rows and margins (m T_z) of the centroids z of LANES boxes.
KM_INLINE void pick_rows(km_real *rows, km_real *margin, const cpu_tiles_work *work, const km_int *best,
                         const int64_t d) {
    const km_real *table = (const km_real *)work->table, *margins = (const km_real *)work->scratch->margins;
    //@ if avx512_float
    if (work->k <= TILES_PICKED_MAX) {
        const km_real *columns = (const km_real *)work->scratch->columns;
        for (int64_t f = 0; f < d; f++)
            KM_STORE(rows + f * LANES, KM_PICK(columns + f * TILES_PICKED_MAX, KM_LOAD_INTS(best)));
        KM_STORE(margin, KM_PICK(columns + d * TILES_PICKED_MAX, KM_LOAD_INTS(best)));
        return;
    }
    //@ end
    for (int lane = 0; lane < LANES; lane++) {
        const int64_t j = best[lane];
        margin[lane] = margins[j];
        for (int64_t f = 0; f < d; f++) rows[f * LANES + lane] = table[j * (d + 1) + f];
    }
}

// For each of BOXES boxes: a centroid z that no other of the list beats at the box's midpoint. For each centroid of the
// list: a bit for each box in which it is a candidate, which z always is. Returns a bit for each open box: one that has
// several candidates.
KM_INLINE uint32_t test_boxes(km_int *z, uint16_t *candidates, const cpu_tiles_work *work, const km_real *box,
                              const int32_t *list, const int64_t count, const int64_t lanes,
                              const int64_t d) {
    const km_real *table = (const km_real *)work->table, *margins = (const km_real *)work->scratch->margins;
    km_real *scores = (km_real *)work->scratch->scores;
    const km_vec margin = KM_SPLAT(-relative_margin(d));
    uint64_t open = 0;
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
        km_real z_rows[KM_CPU_TILES_FEATURES_MAX * LANES], z_margin[LANES];
        KM_PUT_INTS(z + o, index);
        pick_rows(z_rows, z_margin, work, z + o, d);
        // The least score of z in the box, less the margin.
        const km_vec low = KM_FMA(margin, KM_LOAD(box + 2 * d * BOXES + o), KM_SUB(best, KM_LOAD(z_margin)));
        uint64_t any = 0;
        for (int64_t c = 0; c < count; c++) {
            const km_real *row = table + list[c] * (d + 1);
            km_vec high = KM_ADD(KM_LOAD(scores + c * LANES), KM_SPLAT(margins[list[c]]));
            for (int64_t f = 0; f < d; f++) {
                const km_vec apart = KM_SUB(KM_SPLAT(row[f]), KM_LOAD(z_rows + f * LANES));
                high = KM_FMA(KM_ABS(apart), KM_LOAD(box + (d + f) * BOXES + o), high);
            }
            const uint64_t here = KM_NOT_BELOW(high, low);
            open |= (any & here) << o;
            any |= here;
            candidates[c] = (uint16_t)((o ? candidates[c] : 0) | here << o);
        }
    }
    return (uint32_t)open;
}

// Lists the candidates of a box, in the order of the list; returns how many there are. Without a branch, as no branch
// predictor could foresee them.
KM_INLINE int64_t list_candidates(int32_t *out, const uint16_t *candidates, const int32_t *list,
                                  const int64_t count, const int64_t lane) {
    int64_t found = 0;
    for (int64_t c = 0; c < count; c++) {
        out[found] = list[c];
        found += candidates[c] >> lane & 1;
    }
    return found;
}

// Adds a row of sums to cluster j's row of this supertile.
KM_INLINE void add_row(cpu_tiles_scratch *scratch, const double *row, int64_t j, int64_t pitch) {
    double *to = scratch->rows + j * pitch;
    for (int64_t i = 0; i < pitch; i++) to[i] += row[i];
}

// Resolves an ambiguous point: the nearest centroid of the list, in double. Ties go to the lowest index.
KM_TARGET static int64_t resolve(const cpu_tiles_work *work, const km_real *point, const int32_t *list,
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

// Their scores for a centroid, less those for another. `apart` is the one's row of the table less the other's.
KM_INLINE void score_apart(km_vec *score, const km_real *points, const km_real *apart, const int64_t d) {
    for (int v = 0; v < SCORED / LANES; v++) score[v] = KM_SPLAT(apart[d]);
    for (int64_t f = 0; f < d; f++) {
        const km_vec value = KM_SPLAT(apart[f]);
        for (int v = 0; v < SCORED / LANES; v++)
            score[v] = KM_FMA(KM_LOAD(points + f * TILE_POINTS + v * LANES), value, score[v]);
    }
}

// The margin of the points of a box. half_square_max is the largest T_j of the list, square_max is R.
KM_INLINE km_vec margin_of(km_real half_square_max, km_real square_max, const int64_t d) {
    return KM_SPLAT(2 * relative_margin(d) * (2 * half_square_max + square_max));
}

// Which of two centroids owns each point of a tile: one hyperplane. Returns a bit for each ambiguous point.
KM_INLINE uint64_t score_two(uint64_t *owners, const cpu_tiles_work *work, const km_real *points,
                             km_real square_max, const int32_t *list, const int64_t d) {
    const km_real *table = (const km_real *)work->table, *origin = table + list[0] * (d + 1);
    const km_real *row = table + list[1] * (d + 1),
                  half_square_max = -row[d] > -origin[d] ? -row[d] : -origin[d];
    const km_vec margin = margin_of(half_square_max, square_max, d), zero = KM_SPLAT((km_real)0);
    km_real apart[KM_CPU_TILES_FEATURES_MAX + 1];
    for (int64_t f = 0; f <= d; f++) apart[f] = row[f] - origin[f];
    uint64_t second = 0, ambiguous = 0;
    for (int from = 0; from < TILE_POINTS; from += SCORED) {
        km_vec score[SCORED / LANES];
        score_apart(score, points + from, apart, d);
        for (int v = 0; v < SCORED / LANES; v++) {
            second |= KM_ABOVE(score[v], zero) << (from + v * LANES);
            ambiguous |= KM_NOT_BELOW(margin, KM_ABS(score[v])) << (from + v * LANES);
        }
    }
    owners[0] = ~second;
    owners[1] = second;
    return ambiguous;
}

// The same for any number of centroids. Scores are taken against list[0].
KM_INLINE uint64_t score_many(uint64_t *owners, const cpu_tiles_work *work, const km_real *points,
                              km_real square_max, const int32_t *list, const int64_t count, const int64_t d) {
    const km_real *table = (const km_real *)work->table, *origin = table + list[0] * (d + 1);
    km_real best[TILE_POINTS], second[TILE_POINTS], half_square_max = -origin[d];
    for (int at = 0; at < TILE_POINTS; at += LANES) {
        KM_STORE(best + at, KM_SPLAT((km_real)0));
        KM_STORE(second + at, KM_SPLAT((km_real)-INFINITY));
    }
    owners[0] = ~(uint64_t)0;
    for (int64_t c = 1; c < count; c++) {
        const km_real *row = table + list[c] * (d + 1);
        km_real apart[KM_CPU_TILES_FEATURES_MAX + 1];
        for (int64_t f = 0; f <= d; f++) apart[f] = row[f] - origin[f];
        half_square_max = -row[d] > half_square_max ? -row[d] : half_square_max;
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
    const km_vec margin = margin_of(half_square_max, square_max, d);
    uint64_t ambiguous = 0;
    for (int at = 0; at < TILE_POINTS; at += LANES)
        ambiguous |= KM_NOT_BELOW(margin, KM_SUB(KM_LOAD(best + at), KM_LOAD(second + at))) << at;
    return ambiguous;
}

// Which points of a tile each centroid of the list owns.
KM_INLINE void split_points(uint64_t *owners, const cpu_tiles_work *work, const km_real *points,
                            km_real square_max, uint64_t valid, const int32_t *list, const int64_t count,
                            const int64_t d) {
    uint64_t ambiguous = count == 2 ? score_two(owners, work, points, square_max, list, d)
                                    : score_many(owners, work, points, square_max, list, count, d);
    for (int64_t c = 0; c < count; c++) owners[c] &= valid;
    for (ambiguous &= valid; ambiguous; ambiguous &= ambiguous - 1) {
        int i = __builtin_ctzll(ambiguous);
        int64_t right = resolve(work, points + i, list, count);
        for (int64_t e = 0; e < count; e++) owners[e] &= ~((uint64_t)1 << i);
        owners[right] |= (uint64_t)1 << i;
    }
}

//@ if avx512_float
// Sums of some points of a tile, without weights. Eight lanes, and no branch depends on how many points there are.
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

// Scores a tile point by point, and adds its sums.
KM_INLINE void split_tile(cpu_tiles_work *work, int64_t tile, km_real square_max, const int32_t *list,
                          const int64_t count, const int64_t d, const int64_t pitch) {
    const cpu_tiles *tiles = work->tiles;
    cpu_tiles_scratch *scratch = work->scratch;
    const km_real *points = (const km_real *)tiles->points + tile * TILE_POINTS * d;
    const double *weights = tiles->weights ? tiles->weights + tile * TILE_POINTS : NULL;
    int64_t here = tiles->n - tile * TILE_POINTS;
    uint64_t valid = here < TILE_POINTS ? ((uint64_t)1 << here) - 1 : ~(uint64_t)0, *owners = scratch->owners;
    if (here > TILE_POINTS) here = TILE_POINTS;
    split_points(owners, work, points, square_max, valid, list, count, d);
    work->point_pairs += here * count;
    work->points_split += here;
    // For floats the cluster with most points takes the tile's sums less those of the others: fewer additions, and as
    // good once it is rounded to float. For doubles, or with weights (a cluster of points without weight must have
    // weight 0), no difference is taken.
    const int direct = sizeof(km_real) == 8 || weights;
    int64_t most = 0;
    for (int64_t c = 1; c < count; c++) {
        if (__builtin_popcountll(owners[c]) > __builtin_popcountll(owners[most])) most = c;
    }
    double rest[KM_CPU_TILES_FEATURES_MAX + 8], row[KM_CPU_TILES_FEATURES_MAX + 8];
    for (int64_t i = 0; i < pitch; i++) rest[i] = tiles->sums[tile * pitch + i];
    int is_single = owners[most] == valid;
    for (int64_t c = 0; c < count && !is_single; c++) {
        if (!owners[c] || (c == most && !direct)) continue;
        sum_points(row, points, weights, owners[c], d, pitch);
        add_row(scratch, row, list[c], pitch);
        for (int64_t i = 0; i < pitch; i++) rest[i] -= row[i];
    }
    if (is_single || !direct) add_row(scratch, rest, list[most], pitch);
    if (!work->labels) return;
    for (int64_t c = 0; c < count; c++)
        for (uint64_t mine = owners[c]; mine; mine &= mine - 1)
            label_put(work, tile * TILE_POINTS + __builtin_ctzll(mine), list[c]);
}

// A supertile that has several candidates.
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
    const uint32_t open = test_boxes(z, scratch->tile_candidates, work, box, list, count, lanes, d);
    work->box_pairs += lanes * count;
    for (int64_t t = 0; t < lanes; t++) {
        int64_t tile = first + t;
        if (!(open >> t & 1)) {
            add_row(scratch, tiles->sums + tile * pitch, z[t], pitch);
            if (work->labels) label_range(work, tile * TILE_POINTS, TILE_POINTS, (int32_t)z[t]);
            continue;
        }
        int64_t own = list_candidates(scratch->tile_list, scratch->tile_candidates, list, count, t);
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
    km_real *margins = (km_real *)scratch->margins, *columns = (km_real *)scratch->columns;
    for (int64_t j = 0; j < work->k; j++) {
        margins[j] = -relative_margin(d) * table[j * (d + 1) + d];
        scratch->list[j] = (int32_t)j;
        for (int64_t f = 0; f <= d && j < TILES_PICKED_MAX; f++)
            columns[f * TILES_PICKED_MAX + j] = f < d ? table[j * (d + 1) + f] : margins[j];
    }
    int64_t end = work->first_super + work->supers_count;
    for (int64_t first = work->first_super; first < end; first += BOXES) {
        const km_real *box = (const km_real *)tiles->super_boxes + first / BOXES * tiles_box_values(d);
        km_int z[BOXES];
        int64_t lanes = end - first < BOXES ? end - first : BOXES;
        const uint32_t open =
            test_boxes(z, scratch->super_candidates, work, box, scratch->list, work->k, lanes, d);
        work->box_pairs += lanes * work->k;
        for (int64_t s = 0; s < lanes; s++) {
            int64_t super = first + s;
            if (!(open >> s & 1)) {
                const double *from = tiles->super_sums + super * pitch;
                double *to = work->sums + z[s] * pitch;
                for (int64_t i = 0; i < pitch; i++) to[i] += from[i];
                if (work->labels) label_range(work, super * SUPER_POINTS, SUPER_POINTS, (int32_t)z[s]);
                continue;
            }
            int64_t own =
                list_candidates(scratch->super_list, scratch->super_candidates, scratch->list, work->k, s);
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

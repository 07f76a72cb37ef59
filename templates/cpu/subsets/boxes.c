// SPDX-License-Identifier: MIT
// Passes over boxes of nearby points (cpu_subset_boxes), for float32 and AVX-512. A label is that of `nearest`
// above, bit for bit: a centroid is left out of a box only where its score is below another's at every point,
// whatever rounding does, and those that are left have the same scores in the same order.
//
// Rounding. u is half a unit of a float's last place, T_j = |c_j|^2 / 2, R no point's |x|^2 is above. Scores of points,
// and those at a box's midpoint with its width along c_j - c_z, err by less than m (T_j + T_z + R) together, where
// m = 8 (d + 4) u: as in cpu/tiles/tiles.c, and as much again for the two scores of a point.

enum { BOX_CLUSTERS = SUBSET_BOX_CLUSTERS_MAX };

// Adds the points of the bits to a sum: two vectors of doubles at from.
#define ADD_BITS(sum, bits, from)                                                                            \
    KM_D_ADD_BITS(sum, bits, KM_LOAD_DOUBLES(from));                                                         \
    KM_D_ADD_BITS(sum, (bits) >> DOUBLES, KM_LOAD_DOUBLES((from) + DOUBLES))

//@ for s in sizes
// ==== $s columns
// A bit for each centroid that may be the nearest somewhere in a box, of each box. The first of them gets the
// box's sums: of each cluster $s + 1 vectors.
KM_INLINE void box_candidates_$s(uint32_t *candidates, double *moved, const cpu_subset_boxes *boxes,
                                 int64_t begin, int64_t end, const float *table, int64_t k) {
    const float relative = 8 * ($s + 4) * 0x1p-24f;
    const int64_t stride = boxes->stride;
    float columns[($s + 1) * BOX_CLUSTERS] = {0};
    for (int64_t j = 0; j < k; j++) {
        for (int64_t f = 0; f < $s; f++) columns[f * BOX_CLUSTERS + j] = table[j * ($s + 1) + f];
        columns[$s * BOX_CLUSTERS + j] = -relative * table[j * ($s + 1) + $s];
    }
    for (int64_t at = begin; at < end; at += LANES) {
        km_vec scores[BOX_CLUSTERS], best = KM_SPLAT(-INFINITY);
        km_ints z = KM_INTS(0), bits = KM_INTS(0);
        for (int64_t j = 0; j < k; j++) {
            const float *row = table + j * ($s + 1);
            const km_ints index = KM_INTS((int32_t)j);
            km_vec score = KM_SPLAT(row[$s]);
            //@ for f in s_columns
            score = KM_FMA(KM_LOAD(boxes->midpoint + $f * stride + at), KM_SPLAT(row[$f]), score);
            //@ end
            scores[j] = score;
            KM_KEEP(best, z, score, index);
        }
        //@ for f in s_columns
        const km_vec z_$f = KM_PICK(columns + $f * BOX_CLUSTERS, z),
                     half_$f = KM_LOAD(boxes->half + $f * stride + at);
        //@ end
        const km_vec low = KM_FMA(KM_SPLAT(-relative), KM_LOAD(boxes->square + at),
                                  KM_SUB(best, KM_PICK(columns + $s * BOX_CLUSTERS, z)));
        uint32_t taken = 0;
        for (int64_t j = 0; j < k; j++) {
            const float *row = table + j * ($s + 1);
            double *to = moved + j * ($s + 1) * DOUBLES;
            km_vec high = KM_ADD(scores[j], KM_SPLAT(columns[$s * BOX_CLUSTERS + j]));
            //@ for f in s_columns
            high = KM_FMA(KM_ABS(KM_SUB(KM_SPLAT(row[$f]), z_$f)), half_$f, high);
            //@ end
            const uint32_t here = (uint32_t)KM_NOT_BELOW(high, low), first = here & ~taken;
            taken |= here;
            KM_INTS_OR_WHERE(bits, here, KM_INTS(1 << j));
            for (int f = 0; f <= $s; f++) {
                const double *sums = boxes->sums + f * stride + at;
                km_doubles sum = KM_D_LOAD(to + f * DOUBLES);
                KM_D_ADD_BITS(sum, first, KM_D_LOAD(sums));
                KM_D_ADD_BITS(sum, first >> DOUBLES, KM_D_LOAD(sums + DOUBLES));
                KM_D_STORE(to + f * DOUBLES, sum);
            }
        }
        KM_PUT_INTS(candidates + at - begin, bits);
    }
}

// Labels of a box's points among `count` candidates, ascending. The first of them has the sums of the whole box
// already: what the others own moves to them.
KM_INLINE void box_split_$s(double *moved, int64_t *counts, const float *points, int64_t here,
                            const float *table, const uint32_t *list, const int count) {
    km_doubles own[(BOX_CLUSTERS - 1) * $s];
    int64_t owned[BOX_CLUSTERS - 1] = {0};
#pragma GCC unroll 16
    for (int c = 0; c < (count - 1) * $s; c++) own[c] = KM_D_SPLAT(0);
    for (int64_t i = 0; i < here; i += LANES) {
        const uint32_t all = here - i < LANES ? ((uint32_t)1 << (here - i)) - 1 : 0xffff;
        uint32_t better[BOX_CLUSTERS];
        km_vec best = KM_SPLAT(table[list[0] * ($s + 1) + $s]);
        //@ for f in s_columns
        const float *x_$f = points + $f * SUBSET_BOX_POINTS + i;
        best = KM_FMA(KM_LOAD(x_$f), KM_SPLAT(table[list[0] * ($s + 1) + $f]), best);
        //@ end
#pragma GCC unroll 5
        for (int c = 1; c < count; c++) {
            const float *row = table + list[c] * ($s + 1);
            km_vec score = KM_SPLAT(row[$s]);
            //@ for f in s_columns
            score = KM_FMA(KM_LOAD(x_$f), KM_SPLAT(row[$f]), score);
            //@ end
            better[c] = (uint32_t)KM_ABOVE(score, best) & all;
            best = KM_MAX(best, score);
        }
        uint32_t taken = 0;
#pragma GCC unroll 5
        for (int c = count - 1; c > 0; c--) {
            const uint32_t mine = better[c] & ~taken;
            taken |= better[c];
            owned[c - 1] += __builtin_popcount(mine);
            //@ for f in s_columns
            ADD_BITS(own[(c - 1) * $s + $f], mine, x_$f);
            //@ end
        }
    }
    double *first = moved + list[0] * ($s + 1) * DOUBLES;
#pragma GCC unroll 5
    for (int c = 1; c < count; c++) {
        double *to = moved + list[c] * ($s + 1) * DOUBLES;
        counts[list[c]] += owned[c - 1];
        counts[list[0]] -= owned[c - 1];
        //@ for f in s_columns
        KM_D_STORE(to + $f * DOUBLES, KM_D_ADD(KM_D_LOAD(to + $f * DOUBLES), own[(c - 1) * $s + $f]));
        KM_D_STORE(first + $f * DOUBLES, KM_D_SUB(KM_D_LOAD(first + $f * DOUBLES), own[(c - 1) * $s + $f]));
        //@ end
    }
}

KM_TARGET static void boxes_pass_$s(const cpu_subset_boxes *boxes, int64_t begin, int64_t end,
                                    cpu_subset_run *run) {
    const float *table = (const float *)run->table;
    double moved[BOX_CLUSTERS * ($s + 1) * DOUBLES];
    int64_t counts[BOX_CLUSTERS] = {0}, listed[BOX_CLUSTERS + 1] = {0};
    uint32_t candidates[SUBSET_BOXES];
    uint8_t open[BOX_CLUSTERS + 1][SUBSET_BOXES];
    for (int64_t i = 0; i < run->k * ($s + 1); i++) KM_D_STORE(moved + i * DOUBLES, KM_D_SPLAT(0));
    box_candidates_$s(candidates, moved, boxes, begin, end, table, run->k);
    for (int64_t b = begin; b < end; b++) {
        const int count = __builtin_popcount(candidates[b - begin]);
        open[count][listed[count]++] = (uint8_t)(b - begin);
    }
    // Boxes of as many candidates one after another: no processor foresees how many one has.
    for (int count = 2; count <= run->k; count++)
        for (int64_t o = 0; o < listed[count]; o++) {
            const int64_t b = begin + open[count][o];
            const int64_t here = (int64_t)boxes->sums[$s * boxes->stride + b];
            const float *points = boxes->points + b * $s * SUBSET_BOX_POINTS;
            uint32_t list[LANES];
            KM_LIST(list, candidates[b - begin], 0);
            run->scored += here * count;
            switch (count) {
            case 2:
                box_split_$s(moved, counts, points, here, table, list, 2);
                break;
            case 3:
                box_split_$s(moved, counts, points, here, table, list, 3);
                break;
            case 4:
                box_split_$s(moved, counts, points, here, table, list, 4);
                break;
            case 5:
                box_split_$s(moved, counts, points, here, table, list, 5);
                break;
            default:
                box_split_$s(moved, counts, points, here, table, list, count);
            }
        }
    for (int64_t j = 0; j < run->k; j++) {
        for (int64_t f = 0; f <= $s; f++)
            run->sums[j * SUBSET_ROW + f] += KM_D_SUM(KM_D_LOAD(moved + (j * ($s + 1) + f) * DOUBLES));
        run->sums[j * SUBSET_ROW + $s] += (double)counts[j];
    }
}

// Copies points into box b, from rows of $s values; its sums, and its edges.
KM_TARGET static void box_fill_$s(cpu_subset_boxes *boxes, int64_t b, const uint64_t *keys, int64_t here,
                                  const float *rows) {
    const int64_t stride = boxes->stride;
    float *points = boxes->points + b * SUBSET_BOX_POINTS * $s, square = 0;
    double *sums = boxes->sums + b;
    for (int64_t i = 0; i < here; i++) {
        const float *row = rows + (int64_t)(uint32_t)keys[i] * $s;
        //@ for f in s_columns
        points[$f * SUBSET_BOX_POINTS + i] = row[$f];
        //@ end
    }
    for (int64_t f = 0; f < $s; f++) {
        float *x = points + f * SUBSET_BOX_POINTS, lowest[LANES], highest[LANES];
        for (int64_t i = here; i < SUBSET_BOX_POINTS; i++) x[i] = 0;
        km_doubles even = KM_D_SPLAT(0), odd = even;
        for (int i = 0; i < SUBSET_BOX_POINTS; i += 2 * DOUBLES) {
            even = KM_D_ADD(even, KM_LOAD_DOUBLES(x + i));
            odd = KM_D_ADD(odd, KM_LOAD_DOUBLES(x + i + DOUBLES));
        }
        sums[f * stride] = KM_D_SUM(KM_D_ADD(even, odd));
        for (int64_t i = here; i < SUBSET_BOX_POINTS; i++) x[i] = x[0];
        km_vec low = KM_LOAD(x), high = low;
        for (int i = LANES; i < SUBSET_BOX_POINTS; i += LANES) {
            low = KM_MIN(low, KM_LOAD(x + i));
            high = KM_MAX(high, KM_LOAD(x + i));
        }
        KM_STORE(lowest, low);
        KM_STORE(highest, high);
        for (int l = 1; l < LANES; l++) {
            lowest[0] = lowest[l] < lowest[0] ? lowest[l] : lowest[0];
            highest[0] = highest[l] > highest[0] ? highest[l] : highest[0];
        }
        const float midpoint = 0.5f * lowest[0] + 0.5f * highest[0];
        const float above = highest[0] - midpoint, below = midpoint - lowest[0];
        const float half = (above > below ? above : below) * (1 + 0x1p-22f) + 0x1p-126f;
        const float far = (midpoint < 0 ? -midpoint : midpoint) + half;
        boxes->midpoint[f * stride + b] = midpoint;
        boxes->half[f * stride + b] = half;
        square += far * far;
    }
    boxes->square[b] = square * (1 + 0x1p-20f);
    sums[$s * stride] = (double)here;
}

//@ end
KM_TARGET static void box_fill(cpu_subset_boxes *boxes, int64_t box, const uint64_t *keys, int64_t points,
                               const float *rows) {
    switch (boxes->size) {
        //@ for s in sizes
    case $s:
        box_fill_$s(boxes, box, keys, points, rows);
        break;
        //@ end
    }
}

KM_TARGET static void boxes_pass(const cpu_subset_boxes *boxes, int64_t begin, int64_t end,
                                 cpu_subset_run *run) {
    switch (boxes->size) {
        //@ for s in sizes
    case $s:
        boxes_pass_$s(boxes, begin, end, run);
        break;
        //@ end
    }
}

// Of the text of prebuilt subsets avx512_float32: All
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 25 definitions

enum { LISTED = 16 }; // points that are listed at a time
enum {
    VECTORS = 4, // of points worked on at a time
    FEW = 16,    // clusters up to which there are several rows of sums for each
    COPIES = 4   // of them: additions to one row wait for each other
};

// ... 5 definitions

// The points of a tile that have a bit, in their order; some numbers behind them may be written, too. A loop over the
// bits themselves would end at a place that no processor foresees.
KM_TARGET static int64_t list_moved(uint32_t *points, const uint64_t *moved, int64_t count) {
    uint32_t *to = points;
    for (int64_t base = 0; base < count; base += SUBSET_GROUP) {
        uint64_t bits = moved[base / SUBSET_GROUP];
        for (int i = 0; i < SUBSET_GROUP; i += LISTED, bits >>= LISTED) {
            KM_LIST(to, bits, base + i);
            to += __builtin_popcountll(bits & ((1 << LISTED) - 1));
        }
    }
    return to - points;
}

// ... 5 definitions

// The same by masks of an SoA group, a cluster at a time, for few clusters: additions to a row do not wait for each
// other. `all`: bits of the group's points. sums: of each cluster and column a vector.
KM_INLINE void add_group_1(double *sums, int64_t *counts, const uint8_t *labels, uint64_t all, int64_t k,
                            const km_real *x_0) {
    double doubles[1 * SUBSET_GROUP];
    for (int i = 0; i < SUBSET_GROUP; i += DOUBLES) {
        KM_D_STORE(doubles + 0 * SUBSET_GROUP + i, KM_LOAD_DOUBLES(x_0 + i));
    }
    for (int64_t j = 0; j < k; j++) {
        const uint64_t own = KM_OWN(labels, j) & all;
        double *to = sums + j * 1 * DOUBLES;
        counts[j] += __builtin_popcountll(own);
        km_doubles sum_0 = KM_D_LOAD(to + 0 * DOUBLES);
        KM_D_ADD_OWN(sum_0, own >> 0, doubles + 0 * SUBSET_GROUP + 0);
        // ... 7 more, other numbers: 53e31693
        KM_D_STORE(to + 0 * DOUBLES, sum_0);
    }
}

// Labels and sums of all points, SoA group by SoA group: coordinates are still in the first cache.
KM_TARGET static void pass_first_1(const cpu_subset_tile *tile, cpu_subset_run *run) {
    double sums[FEW * 1 * DOUBLES];
    int64_t counts[FEW] = {0};
    for (int64_t i = 0; i < run->k * 1; i++) KM_D_STORE(sums + i * DOUBLES, KM_D_SPLAT(0));
    for (int64_t base = 0; base < tile->count; base += SUBSET_GROUP) {
        const int64_t at = base / SUBSET_GROUP * tile->step;
        const km_real *x_0 = (const km_real *)tile->columns[0] + at;
        fetch_ahead(&run->ahead, base);
        nearest_1(run->labels + base, x_0, (const km_real *)run->table, run->k);
        add_group_1(sums, counts, run->labels + base, bits_of(tile->count, base), run->k, x_0);
    }
    run->changed = tile->count;
    for (int64_t j = 0; j < run->k; j++) {
        for (int64_t f = 0; f < 1; f++)
            run->sums[j * SUBSET_ROW + f] += KM_D_SUM(KM_D_LOAD(sums + (j * 1 + f) * DOUBLES));
        run->sums[j * SUBSET_ROW + 1] += (double)counts[j];
    }
}

// ... 2 definitions

KM_TARGET static void pass_1(const cpu_subset_tile *tile, cpu_subset_run *run) {
    if (run->mode == KM_CPU_FIRST && run->k <= FEW) {
        pass_first_1(tile, run);
        return;
    }
    uint8_t labels[SUBSET_TILE_POINTS];
    uint64_t moved[SUBSET_TILE_POINTS / SUBSET_GROUP];
    const uint64_t fresh = run->mode == KM_CPU_FIRST ? ~(uint64_t)0 : 0;
    run->changed = 0;
    for (int64_t base = 0; base < tile->count; base += SUBSET_GROUP) {
        const int64_t at = base / SUBSET_GROUP * tile->step;
        const km_real *x_0 = (const km_real *)tile->columns[0] + at;
        fetch_ahead(&run->ahead, base);
        nearest_1(labels + base, x_0, (const km_real *)run->table, run->k);
        const uint64_t bits =
            (KM_DIFFER(labels + base, run->labels + base) | fresh) & bits_of(tile->count, base);
        moved[base / SUBSET_GROUP] = bits;
        run->changed += __builtin_popcountll(bits);
    }
    take_1(tile, run, labels, moved);
}

// ... 54 definitions

// ==== 1 columns
// A bit for each centroid that may be the nearest somewhere in a box, of each box. The first of them gets the
// box's sums: of each cluster 1 + 1 vectors.
KM_INLINE void box_candidates_1(uint32_t *candidates, double *moved, const cpu_subset_boxes *boxes,
                                 int64_t begin, int64_t end, const float *table, int64_t k) {
    const float relative = 8 * (1 + 4) * 0x1p-24f;
    const int64_t stride = boxes->stride;
    float columns[(1 + 1) * BOX_CLUSTERS] = {0};
    for (int64_t j = 0; j < k; j++) {
        for (int64_t f = 0; f < 1; f++) columns[f * BOX_CLUSTERS + j] = table[j * (1 + 1) + f];
        columns[1 * BOX_CLUSTERS + j] = -relative * table[j * (1 + 1) + 1];
    }
    for (int64_t at = begin; at < end; at += LANES) {
        km_vec scores[BOX_CLUSTERS], best = KM_SPLAT(-INFINITY);
        km_ints z = KM_INTS(0), bits = KM_INTS(0);
        for (int64_t j = 0; j < k; j++) {
            const float *row = table + j * (1 + 1);
            const km_ints index = KM_INTS((int32_t)j);
            km_vec score = KM_SPLAT(row[1]);
            score = KM_FMA(KM_LOAD(boxes->midpoint + 0 * stride + at), KM_SPLAT(row[0]), score);
            scores[j] = score;
            KM_KEEP(best, z, score, index);
        }
        const km_vec z_0 = KM_PICK(columns + 0 * BOX_CLUSTERS, z),
                     half_0 = KM_LOAD(boxes->half + 0 * stride + at);
        const km_vec low = KM_FMA(KM_SPLAT(-relative), KM_LOAD(boxes->square + at),
                                  KM_SUB(best, KM_PICK(columns + 1 * BOX_CLUSTERS, z)));
        uint32_t taken = 0;
        for (int64_t j = 0; j < k; j++) {
            const float *row = table + j * (1 + 1);
            double *to = moved + j * (1 + 1) * DOUBLES;
            km_vec high = KM_ADD(scores[j], KM_SPLAT(columns[1 * BOX_CLUSTERS + j]));
            high = KM_FMA(KM_ABS(KM_SUB(KM_SPLAT(row[0]), z_0)), half_0, high);
            const uint32_t here = (uint32_t)KM_NOT_BELOW(high, low), first = here & ~taken;
            taken |= here;
            KM_INTS_OR_WHERE(bits, here, KM_INTS(1 << j));
            for (int f = 0; f <= 1; f++) {
                // ... lines of a template
KM_INLINE void box_split_1(double *moved, int64_t *counts, const float *points, int64_t here,
                            const float *table, const uint32_t *list, const int count) {
    km_doubles own[(BOX_CLUSTERS - 1) * 1];
    int64_t owned[BOX_CLUSTERS - 1] = {0};
#pragma GCC unroll 16
    for (int c = 0; c < (count - 1) * 1; c++) own[c] = KM_D_SPLAT(0);
    for (int64_t i = 0; i < here; i += LANES) {
        const uint32_t all = here - i < LANES ? ((uint32_t)1 << (here - i)) - 1 : 0xffff;
        uint32_t better[BOX_CLUSTERS];
        km_vec best = KM_SPLAT(table[list[0] * (1 + 1) + 1]);
        const float *x_0 = points + 0 * SUBSET_BOX_POINTS + i;
        best = KM_FMA(KM_LOAD(x_0), KM_SPLAT(table[list[0] * (1 + 1) + 0]), best);
#pragma GCC unroll 5
        for (int c = 1; c < count; c++) {
            const float *row = table + list[c] * (1 + 1);
            km_vec score = KM_SPLAT(row[1]);
            score = KM_FMA(KM_LOAD(x_0), KM_SPLAT(row[0]), score);
            better[c] = (uint32_t)KM_ABOVE(score, best) & all;
            best = KM_MAX(best, score);
        }
        uint32_t taken = 0;
#pragma GCC unroll 5
        for (int c = count - 1; c > 0; c--) {
            const uint32_t mine = better[c] & ~taken;
            taken |= better[c];
            owned[c - 1] += __builtin_popcount(mine);
            ADD_BITS(own[(c - 1) * 1 + 0], mine, x_0);
        }
    }
    double *first = moved + list[0] * (1 + 1) * DOUBLES;
#pragma GCC unroll 5
    for (int c = 1; c < count; c++) {
        double *to = moved + list[c] * (1 + 1) * DOUBLES;
        counts[list[c]] += owned[c - 1];
        counts[list[0]] -= owned[c - 1];
        KM_D_STORE(to + 0 * DOUBLES, KM_D_ADD(KM_D_LOAD(to + 0 * DOUBLES), own[(c - 1) * 1 + 0]));
        KM_D_STORE(first + 0 * DOUBLES, KM_D_SUB(KM_D_LOAD(first + 0 * DOUBLES), own[(c - 1) * 1 + 0]));
    }
}

KM_TARGET static void boxes_pass_1(const cpu_subset_boxes *boxes, int64_t begin, int64_t end,
                                    cpu_subset_run *run) {
    const float *table = (const float *)run->table;
    double moved[BOX_CLUSTERS * (1 + 1) * DOUBLES];
    int64_t counts[BOX_CLUSTERS] = {0}, listed[BOX_CLUSTERS + 1] = {0};
    uint32_t candidates[SUBSET_BOXES];
    uint8_t open[BOX_CLUSTERS + 1][SUBSET_BOXES];
    for (int64_t i = 0; i < run->k * (1 + 1); i++) KM_D_STORE(moved + i * DOUBLES, KM_D_SPLAT(0));
    box_candidates_1(candidates, moved, boxes, begin, end, table, run->k);
    for (int64_t b = begin; b < end; b++) {
        const int count = __builtin_popcount(candidates[b - begin]);
        open[count][listed[count]++] = (uint8_t)(b - begin);
    }
    // Boxes of as many candidates one after another: no processor foresees how many one has.
    for (int count = 2; count <= run->k; count++)
        for (int64_t o = 0; o < listed[count]; o++) {
            const int64_t b = begin + open[count][o];
            const int64_t here = (int64_t)boxes->sums[1 * boxes->stride + b];
            const float *points = boxes->points + b * 1 * SUBSET_BOX_POINTS;
            uint32_t list[LANES];
            KM_LIST(list, candidates[b - begin], 0);
            run->scored += here * count;
            switch (count) {
            case 2:
                box_split_1(moved, counts, points, here, table, list, 2);
                break;
            // ... 3 more of 3 lines, other numbers: 1c5d6568
            default:
                box_split_1(moved, counts, points, here, table, list, count);
            }
        }
    for (int64_t j = 0; j < run->k; j++) {
        for (int64_t f = 0; f <= 1; f++)
            run->sums[j * SUBSET_ROW + f] += KM_D_SUM(KM_D_LOAD(moved + (j * (1 + 1) + f) * DOUBLES));
        run->sums[j * SUBSET_ROW + 1] += (double)counts[j];
    }
}

// Copies points into box b, from rows of 1 values; its sums, and its edges.
KM_TARGET static void box_fill_1(cpu_subset_boxes *boxes, int64_t b, const uint64_t *keys, int64_t here,
                                  const float *rows) {
    const int64_t stride = boxes->stride;
    float *points = boxes->points + b * SUBSET_BOX_POINTS * 1, square = 0;
    double *sums = boxes->sums + b;
    for (int64_t i = 0; i < here; i++) {
        const float *row = rows + (int64_t)(uint32_t)keys[i] * 1;
        points[0 * SUBSET_BOX_POINTS + i] = row[0];
    }
    for (int64_t f = 0; f < 1; f++) {
        // ... lines of a template
    sums[1 * stride] = (double)here;
}

// ... 12 definitions

KM_TARGET static void box_fill(cpu_subset_boxes *boxes, int64_t box, const uint64_t *keys, int64_t points,
                               const float *rows) {
    switch (boxes->size) {
    case 1:
        box_fill_1(boxes, box, keys, points, rows);
        break;
    // ... 3 more of 3 lines, other numbers: a9444fc9
    }
}

KM_TARGET static void boxes_pass(const cpu_subset_boxes *boxes, int64_t begin, int64_t end,
                                 cpu_subset_run *run) {
    switch (boxes->size) {
    case 1:
        boxes_pass_1(boxes, begin, end, run);
        break;
    // ... 3 more of 3 lines, other numbers: d5e82617
    }
}
const cpu_subset_kernels km_subsets_avx512_float32 = {
    {3, sizeof(km_real)}, pass, finish, count_cells, {seed_1, seed_2, seed_3, seed_4}, box_fill, boxes_pass};

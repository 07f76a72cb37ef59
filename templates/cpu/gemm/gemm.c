// SPDX-License-Identifier: MIT
// The design gemm: tiled like a matrix product. Scores of TILE centroids and an SoA group (VECTORS vectors of points)
// stay in registers. An SoA group works through a panel of centroids, and a span of SoA groups shares the panel.
//@ need symbol vectors_list tile_list panel feature_tiles tile_features labels_32bit
//@ include cpu/head.h

enum {
    PANEL = $panel, // centroids that a span works through before it goes on to the next panel; whole tiles
    //@ if feature_tiles
    TILE_FEATURES = $tile_features // features whose values of an SoA group stay in the first cache
    //@ end
};

// The largest score x . c - |c|^2 / 2 so far of each point of an SoA group, and the centroid that it belongs to.
typedef struct km_best {
    km_real score[SOA_POINTS];
    km_int index[SOA_POINTS];
} km_best;

//@ if feature_tiles
// Adds the products of `count` features to the scores of TILE centroids.
KM_TARGET static void km_products(km_real *scores, const km_real *points, const km_real *rows, int count) {
    //@ for c in tile_list
    //@ for v in vectors_list
    km_vec s_$c_$v = KM_SPLAT(0);
    //@ end
    //@ end
    for (int f = 0; f < count; f++) {
        //@ include cpu/gemm/products.c
    }
    //@ for c in tile_list
    //@ for v in vectors_list
    KM_STORE(scores + $c * SOA_POINTS + $v * LANES,
             KM_ADD(KM_LOAD(scores + $c * SOA_POINTS + $v * LANES), s_$c_$v));
    //@ end
    //@ end
}

// Scores an SoA group against the centroids first .. end - 1 of a panel. Features go tile by tile, and the products of
// each tile are summed from zero, which also keeps rounding small where there are thousands. The rows behind a table's
// last centroid never win.
KM_TARGET static void km_score_panel(km_best *bests, const km_real *points, const km_real *table,
                                     int64_t first, int64_t end) {
    km_real scores[PANEL * SOA_POINTS];
    end = first + (end - first + TILE - 1) / TILE * TILE;
    for (int64_t j = first; j < end; j++)
        for (int i = 0; i < SOA_POINTS; i++) scores[(j - first) * SOA_POINTS + i] = table[j * (D + 1) + D];
    for (int f = 0; f < D; f += TILE_FEATURES)
        for (int64_t j = first; j < end; j += TILE)
            km_products(scores + (j - first) * SOA_POINTS, points + f * SOA_POINTS, table + j * (D + 1) + f,
                        D - f < TILE_FEATURES ? D - f : TILE_FEATURES);
    //@ for v in vectors_list
    km_vec best_$v = KM_LOAD(bests->score + $v * LANES);
    km_ints index_$v = KM_LOAD_INTS(bests->index + $v * LANES);
    //@ end
    for (int64_t j = first; j < end; j++) {
        const km_real *score = scores + (j - first) * SOA_POINTS;
        const km_ints index = KM_INTS((km_int)j);
        //@ for v in vectors_list
        KM_KEEP(best_$v, index_$v, KM_LOAD(score + $v * LANES), index);
        //@ end
    }
    //@ for v in vectors_list
    KM_STORE(bests->score + $v * LANES, best_$v);
    KM_PUT_INTS(bests->index + $v * LANES, index_$v);
    //@ end
}
//@ else
// Scores an SoA group against TILE centroids from `first` on. The rows behind a table's last centroid never win.
KM_TARGET static void km_score_panel(km_best *bests, const km_real *points, const km_real *rows,
                                     int64_t first) {
    //@ for c in tile_list
    //@ for v in vectors_list
    km_vec s_$c_$v = KM_SPLAT(rows[$c * (D + 1) + D]);
    //@ end
    //@ end
    for (int f = 0; f < D; f++) {
        //@ include cpu/gemm/products.c
    }
    const km_ints one = KM_INTS(1);
    __asm__("" : "+r"(bests)); // the best so far stay in memory: the scores need all registers
    //@ for v in vectors_list
    {
        km_vec best = KM_LOAD(bests->score + $v * LANES);
        km_ints index = KM_LOAD_INTS(bests->index + $v * LANES), j = KM_INTS((km_int)first);
        KM_KEEP(best, index, s_0_$v, j);
        //@ for c in later
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best, index, s_$c_$v, j);
        //@ end
        KM_STORE(bests->score + $v * LANES, best);
        KM_PUT_INTS(bests->index + $v * LANES, index);
    }
    //@ end
}
//@ end

// The nearest centroids of up to SPAN SoA groups. Ties go to the lowest index, as a later score must be larger to win.
KM_TARGET static void km_nearest(km_best *bests, const km_real *points, int64_t soa_groups,
                                 const km_real *table, int64_t k) {
    for (int64_t g = 0; g < soa_groups; g++)
        for (int i = 0; i < SOA_POINTS; i++) {
            bests[g].score[i] = -HUGE_VAL;
            bests[g].index[i] = 0;
        }
    for (int64_t first = 0; first < k; first += PANEL) {
        int64_t end = k - first < PANEL ? k : first + PANEL;
        for (int64_t g = 0; g < soa_groups; g++)
            //@ if feature_tiles
            km_score_panel(&bests[g], points + g * SOA_POINTS * D, table, first, end);
        //@ else
        for (int64_t j = first; j < end; j += TILE)
            km_score_panel(&bests[g], points + g * SOA_POINTS * D, table + j * (D + 1), j);
        //@ end
    }
}

//@ include cpu/labels.c

// A bit for each of the first `count` points whose label differs.
KM_TARGET static uint64_t km_changes(const km_index *labels, const km_index *old, int64_t count) {
    uint64_t changed = 0;
    //@ if labels_32bit
    for (int i = 0; i < SOA_POINTS; i++) changed |= (uint64_t)(labels[i] != old[i]) << i;
    //@ else
    const uint64_t low = 0x7f7f7f7f7f7f7f7f, ones = 0x0101010101010101;
    for (int i = 0; i < SOA_POINTS; i += 8) {
        uint64_t a, b;
        memcpy(&a, labels + i, 8);
        memcpy(&b, old + i, 8);
        if (a == b) continue;
        // The high bit of each byte that differs, then the eight of them side by side.
        a ^= b;
        a = (((a & low) + low) | a) >> 7 & ones;
        changed |= (a * 0x0102040810204080) >> 56 << i;
    }
    //@ end
    return count < SOA_POINTS ? changed & (((uint64_t)1 << count) - 1) : changed;
}

// One point's coordinates, as doubles side by side.
KM_TARGET static void km_fetch(double *out, const km_real *point) {
    for (int f = 0; f < D; f++) out[f] = (double)point[f * SOA_POINTS];
}

// Adds factor * x to a row of sums, and `points` to its count.
KM_TARGET static void km_add(double *row, const double *x, double factor, double points) {
    for (int f = 0; f < D; f++) row[f] += factor * x[f];
    row[D] += factor;
    row[D + 1] += points;
}

// Takes over the labels of an SoA group's first `count` points, and adds to the sums by the slot's mode.
KM_TARGET static void km_take_labels(km_cpu_slot *slot, const km_cpu_chunk *chunk, const km_best *bests,
                                     int64_t base, int64_t count) {
    const km_real *points = (const km_real *)chunk->points + base * D;
    const uint64_t all = count < SOA_POINTS ? ((uint64_t)1 << count) - 1 : ~(uint64_t)0 >> (64 - SOA_POINTS);
    km_index labels[SOA_POINTS], old[SOA_POINTS];
    for (int i = 0; i < SOA_POINTS; i++) labels[i] = (km_index)bests->index[i];
    km_labels_get(old, slot, base);
    uint64_t changed = slot->mode == KM_CPU_FIRST ? all : km_changes(labels, old, count);
    slot->changed += __builtin_popcountll(changed);
    if (changed) km_labels_put(slot, base, labels);
    if (!slot->sums) return;
    for (uint64_t left = slot->mode == KM_CPU_MOVE ? changed : all; left; left &= left - 1) {
        int i = __builtin_ctzll(left);
        double weight = chunk->weights ? chunk->weights[base + i] : 1.0, x[D];
        if (weight == 0) continue;
        km_fetch(x, points + i);
        km_add(slot->sums + (int64_t)labels[i] * PITCH, x, weight, 1.0);
        if (slot->mode == KM_CPU_MOVE) km_add(slot->sums + (int64_t)old[i] * PITCH, x, -weight, -1.0);
    }
}

KM_TARGET static void km_pass(const km_cpu_chunk *chunk) {
    km_best bests[SPAN];
    for (int64_t s = 0; s < chunk->slots_count; s++) chunk->slots[s].changed = 0;
    for (int64_t base = 0; base < chunk->points_count; base += SPAN * SOA_POINTS) {
        int64_t left = chunk->points_count - base, soa_groups = (left + SOA_POINTS - 1) / SOA_POINTS;
        if (soa_groups > SPAN) soa_groups = SPAN;
        for (int64_t s = 0; s < chunk->slots_count; s++) {
            km_cpu_slot *slot = &chunk->slots[s];
            km_nearest(bests, (const km_real *)chunk->points + base * D, soa_groups,
                       (const km_real *)slot->table, slot->k);
            for (int64_t g = 0; g < soa_groups; g++)
                km_take_labels(slot, chunk, &bests[g], base + g * SOA_POINTS,
                               left - g * SOA_POINTS < SOA_POINTS ? left - g * SOA_POINTS
                                                                  : (int64_t)SOA_POINTS);
        }
    }
}

//@ include cpu/seed.c
//@ include cpu/finish.c
//@ include cpu/exports.c

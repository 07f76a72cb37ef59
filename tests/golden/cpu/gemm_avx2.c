// Of the text of {features: 784, clusters: 10, target: cpu:avx2}: The pass; Seeding; The finishing pass
// "..." stands for what a template or an earlier part shows.

// ... 1 definition

enum {
    PANEL = 10,         // centroids that a span works through before it goes on to the next panel; whole tiles
    TILE_FEATURES = 196 // features whose values of an SoA group stay in the first cache
};

// ... 1 definition

// Adds the products of `count` features to the scores of TILE centroids.
KM_TARGET static void km_products(km_real *scores, const km_real *points, const km_real *rows, int count) {
    km_vec s_0_0 = KM_SPLAT(0);
    km_vec s_0_1 = KM_SPLAT(0);
    km_vec s_1_0 = KM_SPLAT(0);
    km_vec s_1_1 = KM_SPLAT(0);
    km_vec s_2_0 = KM_SPLAT(0);
    km_vec s_2_1 = KM_SPLAT(0);
    km_vec s_3_0 = KM_SPLAT(0);
    km_vec s_3_1 = KM_SPLAT(0);
    km_vec s_4_0 = KM_SPLAT(0);
    km_vec s_4_1 = KM_SPLAT(0);
    for (int f = 0; f < count; f++) {
        km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
        KM_PIN(x_0);
        km_vec x_1 = KM_LOAD(points + f * SOA_POINTS + 1 * LANES);
        KM_PIN(x_1);
        const km_vec c_0 = KM_SPLAT(rows[0 * (D + 1) + f]);
        s_0_0 = KM_FMA(x_0, c_0, s_0_0);
        s_0_1 = KM_FMA(x_1, c_0, s_0_1);
        const km_vec c_1 = KM_SPLAT(rows[1 * (D + 1) + f]);
        s_1_0 = KM_FMA(x_0, c_1, s_1_0);
        s_1_1 = KM_FMA(x_1, c_1, s_1_1);
        const km_vec c_2 = KM_SPLAT(rows[2 * (D + 1) + f]);
        s_2_0 = KM_FMA(x_0, c_2, s_2_0);
        s_2_1 = KM_FMA(x_1, c_2, s_2_1);
        const km_vec c_3 = KM_SPLAT(rows[3 * (D + 1) + f]);
        s_3_0 = KM_FMA(x_0, c_3, s_3_0);
        s_3_1 = KM_FMA(x_1, c_3, s_3_1);
        const km_vec c_4 = KM_SPLAT(rows[4 * (D + 1) + f]);
        s_4_0 = KM_FMA(x_0, c_4, s_4_0);
        s_4_1 = KM_FMA(x_1, c_4, s_4_1);
    }
    KM_STORE(scores + 0 * SOA_POINTS + 0 * LANES,
             KM_ADD(KM_LOAD(scores + 0 * SOA_POINTS + 0 * LANES), s_0_0));
    KM_STORE(scores + 0 * SOA_POINTS + 1 * LANES,
             KM_ADD(KM_LOAD(scores + 0 * SOA_POINTS + 1 * LANES), s_0_1));
    KM_STORE(scores + 1 * SOA_POINTS + 0 * LANES,
             KM_ADD(KM_LOAD(scores + 1 * SOA_POINTS + 0 * LANES), s_1_0));
    KM_STORE(scores + 1 * SOA_POINTS + 1 * LANES,
             KM_ADD(KM_LOAD(scores + 1 * SOA_POINTS + 1 * LANES), s_1_1));
    KM_STORE(scores + 2 * SOA_POINTS + 0 * LANES,
             KM_ADD(KM_LOAD(scores + 2 * SOA_POINTS + 0 * LANES), s_2_0));
    KM_STORE(scores + 2 * SOA_POINTS + 1 * LANES,
             KM_ADD(KM_LOAD(scores + 2 * SOA_POINTS + 1 * LANES), s_2_1));
    KM_STORE(scores + 3 * SOA_POINTS + 0 * LANES,
             KM_ADD(KM_LOAD(scores + 3 * SOA_POINTS + 0 * LANES), s_3_0));
    KM_STORE(scores + 3 * SOA_POINTS + 1 * LANES,
             KM_ADD(KM_LOAD(scores + 3 * SOA_POINTS + 1 * LANES), s_3_1));
    KM_STORE(scores + 4 * SOA_POINTS + 0 * LANES,
             KM_ADD(KM_LOAD(scores + 4 * SOA_POINTS + 0 * LANES), s_4_0));
    KM_STORE(scores + 4 * SOA_POINTS + 1 * LANES,
             KM_ADD(KM_LOAD(scores + 4 * SOA_POINTS + 1 * LANES), s_4_1));
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
    km_vec best_0 = KM_LOAD(bests->score + 0 * LANES);
    km_ints index_0 = KM_LOAD_INTS(bests->index + 0 * LANES);
    km_vec best_1 = KM_LOAD(bests->score + 1 * LANES);
    km_ints index_1 = KM_LOAD_INTS(bests->index + 1 * LANES);
    for (int64_t j = first; j < end; j++) {
        const km_real *score = scores + (j - first) * SOA_POINTS;
        const km_ints index = KM_INTS((km_int)j);
        KM_KEEP(best_0, index_0, KM_LOAD(score + 0 * LANES), index);
        KM_KEEP(best_1, index_1, KM_LOAD(score + 1 * LANES), index);
    }
    KM_STORE(bests->score + 0 * LANES, best_0);
    KM_PUT_INTS(bests->index + 0 * LANES, index_0);
    KM_STORE(bests->score + 1 * LANES, best_1);
    KM_PUT_INTS(bests->index + 1 * LANES, index_1);
}

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
            km_score_panel(&bests[g], points + g * SOA_POINTS * D, table, first, end);
    }
}

// ... 3 definitions

// A bit for each of the first `count` points whose label differs.
KM_TARGET static uint64_t km_changes(const km_index *labels, const km_index *old, int64_t count) {
    uint64_t changed = 0;
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
    return count < SOA_POINTS ? changed & (((uint64_t)1 << count) - 1) : changed;
}

// ... 4 definitions

// ... 8 definitions

// ... 13 definitions

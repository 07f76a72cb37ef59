// Of the text of {features: 128, clusters: 1024, target: cpu:generic}: The pass
// "..." stands for what a template or an earlier part shows.

// ... 3 definitions

// Scores an SoA group against TILE centroids from `first` on. The rows behind a table's last centroid never win.
KM_TARGET static void km_score_panel(km_best *bests, const km_real *points, const km_real *rows,
                                     int64_t first) {
    km_vec s_0_0 = KM_SPLAT(rows[0 * (D + 1) + D]);
    km_vec s_0_1 = KM_SPLAT(rows[0 * (D + 1) + D]);
    km_vec s_1_0 = KM_SPLAT(rows[1 * (D + 1) + D]);
    km_vec s_1_1 = KM_SPLAT(rows[1 * (D + 1) + D]);
    km_vec s_2_0 = KM_SPLAT(rows[2 * (D + 1) + D]);
    km_vec s_2_1 = KM_SPLAT(rows[2 * (D + 1) + D]);
    km_vec s_3_0 = KM_SPLAT(rows[3 * (D + 1) + D]);
    km_vec s_3_1 = KM_SPLAT(rows[3 * (D + 1) + D]);
    for (int f = 0; f < D; f++) {
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
    }
    const km_ints one = KM_INTS(1);
    __asm__("" : "+r"(bests)); // the best so far stay in memory: the scores need all registers
    {
        km_vec best = KM_LOAD(bests->score + 0 * LANES);
        km_ints index = KM_LOAD_INTS(bests->index + 0 * LANES), j = KM_INTS((km_int)first);
        KM_KEEP(best, index, s_0_0, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best, index, s_1_0, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best, index, s_2_0, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best, index, s_3_0, j);
        KM_STORE(bests->score + 0 * LANES, best);
        KM_PUT_INTS(bests->index + 0 * LANES, index);
    }
    {
        km_vec best = KM_LOAD(bests->score + 1 * LANES);
        km_ints index = KM_LOAD_INTS(bests->index + 1 * LANES), j = KM_INTS((km_int)first);
        KM_KEEP(best, index, s_0_1, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best, index, s_1_1, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best, index, s_2_1, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best, index, s_3_1, j);
        KM_STORE(bests->score + 1 * LANES, best);
        KM_PUT_INTS(bests->index + 1 * LANES, index);
    }
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
        for (int64_t j = first; j < end; j += TILE)
            km_score_panel(&bests[g], points + g * SOA_POINTS * D, table + j * (D + 1), j);
    }
}

// ... 3 definitions

// A bit for each of the first `count` points whose label differs.
KM_TARGET static uint64_t km_changes(const km_index *labels, const km_index *old, int64_t count) {
    uint64_t changed = 0;
    for (int i = 0; i < SOA_POINTS; i++) changed |= (uint64_t)(labels[i] != old[i]) << i;
    return count < SOA_POINTS ? changed & (((uint64_t)1 << count) - 1) : changed;
}

// ... 4 definitions

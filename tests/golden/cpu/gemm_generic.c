// Of the text of {features: 128, clusters: 1024, target: cpu:generic}: The pass
// "..." stands for what a template or an earlier part shows.

// ... 3 definitions

// A group against TILE centroids from `first` on: what the table has behind its last centroid never wins.
KM_TARGET static void km_meet(km_found *found, const km_real *points, const km_real *rows, int64_t first) {
    km_vec s_0_0 = KM_SPLAT(rows[0 * (D + 1) + D]);
    km_vec s_0_1 = KM_SPLAT(rows[0 * (D + 1) + D]);
    km_vec s_1_0 = KM_SPLAT(rows[1 * (D + 1) + D]);
    km_vec s_1_1 = KM_SPLAT(rows[1 * (D + 1) + D]);
    km_vec s_2_0 = KM_SPLAT(rows[2 * (D + 1) + D]);
    km_vec s_2_1 = KM_SPLAT(rows[2 * (D + 1) + D]);
    km_vec s_3_0 = KM_SPLAT(rows[3 * (D + 1) + D]);
    km_vec s_3_1 = KM_SPLAT(rows[3 * (D + 1) + D]);
    for (int f = 0; f < D; f++) {
        km_vec x_0 = KM_LOAD(points + f * GROUP + 0 * LANES);
        KM_PIN(x_0);
        km_vec x_1 = KM_LOAD(points + f * GROUP + 1 * LANES);
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
    __asm__("" : "+r"(found)); // what is found stays in memory: the scores need all registers
    {
        km_vec best = KM_LOAD(found->best + 0 * LANES);
        km_ints index = KM_LOAD_INTS(found->index + 0 * LANES), j = KM_INTS((km_int)first);
        KM_KEEP(best, index, s_0_0, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best, index, s_1_0, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best, index, s_2_0, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best, index, s_3_0, j);
        KM_STORE(found->best + 0 * LANES, best);
        KM_PUT_INTS(found->index + 0 * LANES, index);
    }
    {
        km_vec best = KM_LOAD(found->best + 1 * LANES);
        km_ints index = KM_LOAD_INTS(found->index + 1 * LANES), j = KM_INTS((km_int)first);
        KM_KEEP(best, index, s_0_1, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best, index, s_1_1, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best, index, s_2_1, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best, index, s_3_1, j);
        KM_STORE(found->best + 1 * LANES, best);
        KM_PUT_INTS(found->index + 1 * LANES, index);
    }
}

// The nearest centroids of up to SPAN groups; the lowest index among equals, as a score must be larger to win.
KM_TARGET static void km_nearest(km_found *found, const km_real *points, int64_t groups, const km_real *table,
                                 int64_t k) {
    for (int64_t g = 0; g < groups; g++)
        for (int i = 0; i < GROUP; i++) {
            found[g].best[i] = -HUGE_VAL;
            found[g].index[i] = 0;
        }
    for (int64_t first = 0; first < k; first += PANEL) {
        int64_t end = k - first < PANEL ? k : first + PANEL;
        for (int64_t g = 0; g < groups; g++)
        for (int64_t j = first; j < end; j += TILE)
            km_meet(&found[g], points + g * GROUP * D, table + j * (D + 1), j);
    }
}

// ... 3 definitions

// A bit for each of the first `count` points whose label differs.
KM_TARGET static uint64_t km_changes(const km_index *labels, const km_index *old, int64_t count) {
    uint64_t changed = 0;
    for (int i = 0; i < GROUP; i++) changed |= (uint64_t)(labels[i] != old[i]) << i;
    return count < GROUP ? changed & (((uint64_t)1 << count) - 1) : changed;
}

// ... 4 definitions

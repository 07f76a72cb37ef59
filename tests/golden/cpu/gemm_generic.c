// Of the text of {features: 128, clusters: 1024, target: cpu:generic}: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 3 definitions

// Scores an SoA group against TILE centroids from `first` on. The rows behind a table's last centroid never win.
KM_TARGET static void km_score_panel(km_best *bests, const km_real *points, const km_real *rows,
                                     int64_t first) {
    km_vec s_0_0 = KM_SPLAT(rows[0 * (D + 1) + D]);
    // ... 7 more, other numbers: 59688973
    for (int f = 0; f < D; f++) {
        km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
        KM_PIN(x_0);
        // ... 1 more of 2 lines, other numbers: 29778454
        const km_vec c_0 = KM_SPLAT(rows[0 * (D + 1) + f]);
        s_0_0 = KM_FMA(x_0, c_0, s_0_0);
        s_0_1 = KM_FMA(x_1, c_0, s_0_1);
        // ... 3 more of 3 lines, other numbers: 94172ea1
    }
    const km_ints one = KM_INTS(1);
    __asm__("" : "+r"(bests)); // the best so far stay in memory: the scores need all registers
    {
        km_vec best = KM_LOAD(bests->score + 0 * LANES);
        km_ints index = KM_LOAD_INTS(bests->index + 0 * LANES), j = KM_INTS((km_int)first);
        KM_KEEP(best, index, s_0_0, j);
        j = KM_INTS_ADD(j, one);
        // ... 2 more of 2 lines, other numbers: f4c4cfbe
        KM_KEEP(best, index, s_3_0, j);
        KM_STORE(bests->score + 0 * LANES, best);
        KM_PUT_INTS(bests->index + 0 * LANES, index);
    }
    // ... 1 more of 10 lines, other numbers: 925beafb
}
// ... lines of a template
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

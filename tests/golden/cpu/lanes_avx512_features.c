// Of the text of {features: 64, clusters: 2..12, target: cpu:avx512}: The pass
// "..." stands for what a template or an earlier part shows.

// ... 1 definition

// Labels of VECTORS x LANES points: the centroid with the largest x . c - |c|^2 / 2, ties to the lowest index.
KM_TARGET static inline void km_nearest(km_index *labels, const km_real *points, const km_real *table,
                                        int64_t k) {
    km_vec best_0;
    km_ints index_0 = KM_INTS(0);
    km_vec best_1;
    km_ints index_1 = KM_INTS(0);
    km_vec best_2;
    km_ints index_2 = KM_INTS(0);
    km_vec best_3;
    km_ints index_3 = KM_INTS(0);
    const km_real *row = table;
    km_ints j = KM_INTS(0);
    const km_ints one = KM_INTS(1);
    // What k leaves beside whole tiles goes first: centroid 0 starts as the best.
    // One alone would wait for its own additions: it goes with a whole tile.
    const int64_t start = k > 1 && k % TILE == 1 ? TILE + 1 : (k - 1) % TILE + 1;
    switch (start) {
        case 1: {
            km_vec s_0_0 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_1 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_2 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_3 = KM_SPLAT(row[0 * (D + 1) + D]);
            for (int f = 0; f < D; f++) {
                km_vec x_0 = KM_LOAD(points + f * GROUP + 0 * LANES);
                KM_PIN(x_0);
                km_vec x_1 = KM_LOAD(points + f * GROUP + 1 * LANES);
                KM_PIN(x_1);
                km_vec x_2 = KM_LOAD(points + f * GROUP + 2 * LANES);
                KM_PIN(x_2);
                km_vec x_3 = KM_LOAD(points + f * GROUP + 3 * LANES);
                KM_PIN(x_3);
                const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
                s_0_0 = KM_FMA(x_0, c_0, s_0_0);
                s_0_1 = KM_FMA(x_1, c_0, s_0_1);
                s_0_2 = KM_FMA(x_2, c_0, s_0_2);
                s_0_3 = KM_FMA(x_3, c_0, s_0_3);
            }
            best_0 = s_0_0;
            best_1 = s_0_1;
            best_2 = s_0_2;
            best_3 = s_0_3;
            break;
        }
        case 2: {
            km_vec s_0_0 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_1 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_2 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_3 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_1_0 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_1_1 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_1_2 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_1_3 = KM_SPLAT(row[1 * (D + 1) + D]);
            for (int f = 0; f < D; f++) {
                km_vec x_0 = KM_LOAD(points + f * GROUP + 0 * LANES);
                KM_PIN(x_0);
                km_vec x_1 = KM_LOAD(points + f * GROUP + 1 * LANES);
                KM_PIN(x_1);
                km_vec x_2 = KM_LOAD(points + f * GROUP + 2 * LANES);
                KM_PIN(x_2);
                km_vec x_3 = KM_LOAD(points + f * GROUP + 3 * LANES);
                KM_PIN(x_3);
                const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
                s_0_0 = KM_FMA(x_0, c_0, s_0_0);
                s_0_1 = KM_FMA(x_1, c_0, s_0_1);
                s_0_2 = KM_FMA(x_2, c_0, s_0_2);
                s_0_3 = KM_FMA(x_3, c_0, s_0_3);
                const km_vec c_1 = KM_SPLAT(row[1 * (D + 1) + f]);
                s_1_0 = KM_FMA(x_0, c_1, s_1_0);
                s_1_1 = KM_FMA(x_1, c_1, s_1_1);
                s_1_2 = KM_FMA(x_2, c_1, s_1_2);
                s_1_3 = KM_FMA(x_3, c_1, s_1_3);
            }
            best_0 = s_0_0;
            best_1 = s_0_1;
            best_2 = s_0_2;
            best_3 = s_0_3;
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_1_0, j);
            KM_KEEP(best_1, index_1, s_1_1, j);
            KM_KEEP(best_2, index_2, s_1_2, j);
            KM_KEEP(best_3, index_3, s_1_3, j);
            break;
        }
        case 3: {
            km_vec s_0_0 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_1 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_2 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_3 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_1_0 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_1_1 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_1_2 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_1_3 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_2_0 = KM_SPLAT(row[2 * (D + 1) + D]);
            km_vec s_2_1 = KM_SPLAT(row[2 * (D + 1) + D]);
            km_vec s_2_2 = KM_SPLAT(row[2 * (D + 1) + D]);
            km_vec s_2_3 = KM_SPLAT(row[2 * (D + 1) + D]);
            for (int f = 0; f < D; f++) {
                km_vec x_0 = KM_LOAD(points + f * GROUP + 0 * LANES);
                KM_PIN(x_0);
                km_vec x_1 = KM_LOAD(points + f * GROUP + 1 * LANES);
                KM_PIN(x_1);
                km_vec x_2 = KM_LOAD(points + f * GROUP + 2 * LANES);
                KM_PIN(x_2);
                km_vec x_3 = KM_LOAD(points + f * GROUP + 3 * LANES);
                KM_PIN(x_3);
                const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
                s_0_0 = KM_FMA(x_0, c_0, s_0_0);
                s_0_1 = KM_FMA(x_1, c_0, s_0_1);
                s_0_2 = KM_FMA(x_2, c_0, s_0_2);
                s_0_3 = KM_FMA(x_3, c_0, s_0_3);
                const km_vec c_1 = KM_SPLAT(row[1 * (D + 1) + f]);
                s_1_0 = KM_FMA(x_0, c_1, s_1_0);
                s_1_1 = KM_FMA(x_1, c_1, s_1_1);
                s_1_2 = KM_FMA(x_2, c_1, s_1_2);
                s_1_3 = KM_FMA(x_3, c_1, s_1_3);
                const km_vec c_2 = KM_SPLAT(row[2 * (D + 1) + f]);
                s_2_0 = KM_FMA(x_0, c_2, s_2_0);
                s_2_1 = KM_FMA(x_1, c_2, s_2_1);
                s_2_2 = KM_FMA(x_2, c_2, s_2_2);
                s_2_3 = KM_FMA(x_3, c_2, s_2_3);
            }
            best_0 = s_0_0;
            best_1 = s_0_1;
            best_2 = s_0_2;
            best_3 = s_0_3;
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_1_0, j);
            KM_KEEP(best_1, index_1, s_1_1, j);
            KM_KEEP(best_2, index_2, s_1_2, j);
            KM_KEEP(best_3, index_3, s_1_3, j);
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_2_0, j);
            KM_KEEP(best_1, index_1, s_2_1, j);
            KM_KEEP(best_2, index_2, s_2_2, j);
            KM_KEEP(best_3, index_3, s_2_3, j);
            break;
        }
        case 4: {
            km_vec s_0_0 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_1 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_2 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_3 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_1_0 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_1_1 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_1_2 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_1_3 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_2_0 = KM_SPLAT(row[2 * (D + 1) + D]);
            km_vec s_2_1 = KM_SPLAT(row[2 * (D + 1) + D]);
            km_vec s_2_2 = KM_SPLAT(row[2 * (D + 1) + D]);
            km_vec s_2_3 = KM_SPLAT(row[2 * (D + 1) + D]);
            km_vec s_3_0 = KM_SPLAT(row[3 * (D + 1) + D]);
            km_vec s_3_1 = KM_SPLAT(row[3 * (D + 1) + D]);
            km_vec s_3_2 = KM_SPLAT(row[3 * (D + 1) + D]);
            km_vec s_3_3 = KM_SPLAT(row[3 * (D + 1) + D]);
            for (int f = 0; f < D; f++) {
                km_vec x_0 = KM_LOAD(points + f * GROUP + 0 * LANES);
                KM_PIN(x_0);
                km_vec x_1 = KM_LOAD(points + f * GROUP + 1 * LANES);
                KM_PIN(x_1);
                km_vec x_2 = KM_LOAD(points + f * GROUP + 2 * LANES);
                KM_PIN(x_2);
                km_vec x_3 = KM_LOAD(points + f * GROUP + 3 * LANES);
                KM_PIN(x_3);
                const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
                s_0_0 = KM_FMA(x_0, c_0, s_0_0);
                s_0_1 = KM_FMA(x_1, c_0, s_0_1);
                s_0_2 = KM_FMA(x_2, c_0, s_0_2);
                s_0_3 = KM_FMA(x_3, c_0, s_0_3);
                const km_vec c_1 = KM_SPLAT(row[1 * (D + 1) + f]);
                s_1_0 = KM_FMA(x_0, c_1, s_1_0);
                s_1_1 = KM_FMA(x_1, c_1, s_1_1);
                s_1_2 = KM_FMA(x_2, c_1, s_1_2);
                s_1_3 = KM_FMA(x_3, c_1, s_1_3);
                const km_vec c_2 = KM_SPLAT(row[2 * (D + 1) + f]);
                s_2_0 = KM_FMA(x_0, c_2, s_2_0);
                s_2_1 = KM_FMA(x_1, c_2, s_2_1);
                s_2_2 = KM_FMA(x_2, c_2, s_2_2);
                s_2_3 = KM_FMA(x_3, c_2, s_2_3);
                const km_vec c_3 = KM_SPLAT(row[3 * (D + 1) + f]);
                s_3_0 = KM_FMA(x_0, c_3, s_3_0);
                s_3_1 = KM_FMA(x_1, c_3, s_3_1);
                s_3_2 = KM_FMA(x_2, c_3, s_3_2);
                s_3_3 = KM_FMA(x_3, c_3, s_3_3);
            }
            best_0 = s_0_0;
            best_1 = s_0_1;
            best_2 = s_0_2;
            best_3 = s_0_3;
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_1_0, j);
            KM_KEEP(best_1, index_1, s_1_1, j);
            KM_KEEP(best_2, index_2, s_1_2, j);
            KM_KEEP(best_3, index_3, s_1_3, j);
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_2_0, j);
            KM_KEEP(best_1, index_1, s_2_1, j);
            KM_KEEP(best_2, index_2, s_2_2, j);
            KM_KEEP(best_3, index_3, s_2_3, j);
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_3_0, j);
            KM_KEEP(best_1, index_1, s_3_1, j);
            KM_KEEP(best_2, index_2, s_3_2, j);
            KM_KEEP(best_3, index_3, s_3_3, j);
            break;
        }
        default: {
            km_vec s_0_0 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_1 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_2 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_3 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_1_0 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_1_1 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_1_2 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_1_3 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_2_0 = KM_SPLAT(row[2 * (D + 1) + D]);
            km_vec s_2_1 = KM_SPLAT(row[2 * (D + 1) + D]);
            km_vec s_2_2 = KM_SPLAT(row[2 * (D + 1) + D]);
            km_vec s_2_3 = KM_SPLAT(row[2 * (D + 1) + D]);
            km_vec s_3_0 = KM_SPLAT(row[3 * (D + 1) + D]);
            km_vec s_3_1 = KM_SPLAT(row[3 * (D + 1) + D]);
            km_vec s_3_2 = KM_SPLAT(row[3 * (D + 1) + D]);
            km_vec s_3_3 = KM_SPLAT(row[3 * (D + 1) + D]);
            km_vec s_4_0 = KM_SPLAT(row[4 * (D + 1) + D]);
            km_vec s_4_1 = KM_SPLAT(row[4 * (D + 1) + D]);
            km_vec s_4_2 = KM_SPLAT(row[4 * (D + 1) + D]);
            km_vec s_4_3 = KM_SPLAT(row[4 * (D + 1) + D]);
            for (int f = 0; f < D; f++) {
                km_vec x_0 = KM_LOAD(points + f * GROUP + 0 * LANES);
                KM_PIN(x_0);
                km_vec x_1 = KM_LOAD(points + f * GROUP + 1 * LANES);
                KM_PIN(x_1);
                km_vec x_2 = KM_LOAD(points + f * GROUP + 2 * LANES);
                KM_PIN(x_2);
                km_vec x_3 = KM_LOAD(points + f * GROUP + 3 * LANES);
                KM_PIN(x_3);
                const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
                s_0_0 = KM_FMA(x_0, c_0, s_0_0);
                s_0_1 = KM_FMA(x_1, c_0, s_0_1);
                s_0_2 = KM_FMA(x_2, c_0, s_0_2);
                s_0_3 = KM_FMA(x_3, c_0, s_0_3);
                const km_vec c_1 = KM_SPLAT(row[1 * (D + 1) + f]);
                s_1_0 = KM_FMA(x_0, c_1, s_1_0);
                s_1_1 = KM_FMA(x_1, c_1, s_1_1);
                s_1_2 = KM_FMA(x_2, c_1, s_1_2);
                s_1_3 = KM_FMA(x_3, c_1, s_1_3);
                const km_vec c_2 = KM_SPLAT(row[2 * (D + 1) + f]);
                s_2_0 = KM_FMA(x_0, c_2, s_2_0);
                s_2_1 = KM_FMA(x_1, c_2, s_2_1);
                s_2_2 = KM_FMA(x_2, c_2, s_2_2);
                s_2_3 = KM_FMA(x_3, c_2, s_2_3);
                const km_vec c_3 = KM_SPLAT(row[3 * (D + 1) + f]);
                s_3_0 = KM_FMA(x_0, c_3, s_3_0);
                s_3_1 = KM_FMA(x_1, c_3, s_3_1);
                s_3_2 = KM_FMA(x_2, c_3, s_3_2);
                s_3_3 = KM_FMA(x_3, c_3, s_3_3);
                const km_vec c_4 = KM_SPLAT(row[4 * (D + 1) + f]);
                s_4_0 = KM_FMA(x_0, c_4, s_4_0);
                s_4_1 = KM_FMA(x_1, c_4, s_4_1);
                s_4_2 = KM_FMA(x_2, c_4, s_4_2);
                s_4_3 = KM_FMA(x_3, c_4, s_4_3);
            }
            best_0 = s_0_0;
            best_1 = s_0_1;
            best_2 = s_0_2;
            best_3 = s_0_3;
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_1_0, j);
            KM_KEEP(best_1, index_1, s_1_1, j);
            KM_KEEP(best_2, index_2, s_1_2, j);
            KM_KEEP(best_3, index_3, s_1_3, j);
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_2_0, j);
            KM_KEEP(best_1, index_1, s_2_1, j);
            KM_KEEP(best_2, index_2, s_2_2, j);
            KM_KEEP(best_3, index_3, s_2_3, j);
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_3_0, j);
            KM_KEEP(best_1, index_1, s_3_1, j);
            KM_KEEP(best_2, index_2, s_3_2, j);
            KM_KEEP(best_3, index_3, s_3_3, j);
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_4_0, j);
            KM_KEEP(best_1, index_1, s_4_1, j);
            KM_KEEP(best_2, index_2, s_4_2, j);
            KM_KEEP(best_3, index_3, s_4_3, j);
            break;
        }
    }
    for (int64_t done = start; done < k; done += TILE) {
        row = table + done * (D + 1);
        km_vec s_0_0 = KM_SPLAT(row[0 * (D + 1) + D]);
        km_vec s_0_1 = KM_SPLAT(row[0 * (D + 1) + D]);
        km_vec s_0_2 = KM_SPLAT(row[0 * (D + 1) + D]);
        km_vec s_0_3 = KM_SPLAT(row[0 * (D + 1) + D]);
        km_vec s_1_0 = KM_SPLAT(row[1 * (D + 1) + D]);
        km_vec s_1_1 = KM_SPLAT(row[1 * (D + 1) + D]);
        km_vec s_1_2 = KM_SPLAT(row[1 * (D + 1) + D]);
        km_vec s_1_3 = KM_SPLAT(row[1 * (D + 1) + D]);
        km_vec s_2_0 = KM_SPLAT(row[2 * (D + 1) + D]);
        km_vec s_2_1 = KM_SPLAT(row[2 * (D + 1) + D]);
        km_vec s_2_2 = KM_SPLAT(row[2 * (D + 1) + D]);
        km_vec s_2_3 = KM_SPLAT(row[2 * (D + 1) + D]);
        km_vec s_3_0 = KM_SPLAT(row[3 * (D + 1) + D]);
        km_vec s_3_1 = KM_SPLAT(row[3 * (D + 1) + D]);
        km_vec s_3_2 = KM_SPLAT(row[3 * (D + 1) + D]);
        km_vec s_3_3 = KM_SPLAT(row[3 * (D + 1) + D]);
        for (int f = 0; f < D; f++) {
            km_vec x_0 = KM_LOAD(points + f * GROUP + 0 * LANES);
            KM_PIN(x_0);
            km_vec x_1 = KM_LOAD(points + f * GROUP + 1 * LANES);
            KM_PIN(x_1);
            km_vec x_2 = KM_LOAD(points + f * GROUP + 2 * LANES);
            KM_PIN(x_2);
            km_vec x_3 = KM_LOAD(points + f * GROUP + 3 * LANES);
            KM_PIN(x_3);
            const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
            s_0_0 = KM_FMA(x_0, c_0, s_0_0);
            s_0_1 = KM_FMA(x_1, c_0, s_0_1);
            s_0_2 = KM_FMA(x_2, c_0, s_0_2);
            s_0_3 = KM_FMA(x_3, c_0, s_0_3);
            const km_vec c_1 = KM_SPLAT(row[1 * (D + 1) + f]);
            s_1_0 = KM_FMA(x_0, c_1, s_1_0);
            s_1_1 = KM_FMA(x_1, c_1, s_1_1);
            s_1_2 = KM_FMA(x_2, c_1, s_1_2);
            s_1_3 = KM_FMA(x_3, c_1, s_1_3);
            const km_vec c_2 = KM_SPLAT(row[2 * (D + 1) + f]);
            s_2_0 = KM_FMA(x_0, c_2, s_2_0);
            s_2_1 = KM_FMA(x_1, c_2, s_2_1);
            s_2_2 = KM_FMA(x_2, c_2, s_2_2);
            s_2_3 = KM_FMA(x_3, c_2, s_2_3);
            const km_vec c_3 = KM_SPLAT(row[3 * (D + 1) + f]);
            s_3_0 = KM_FMA(x_0, c_3, s_3_0);
            s_3_1 = KM_FMA(x_1, c_3, s_3_1);
            s_3_2 = KM_FMA(x_2, c_3, s_3_2);
            s_3_3 = KM_FMA(x_3, c_3, s_3_3);
        }
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best_0, index_0, s_0_0, j);
        KM_KEEP(best_1, index_1, s_0_1, j);
        KM_KEEP(best_2, index_2, s_0_2, j);
        KM_KEEP(best_3, index_3, s_0_3, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best_0, index_0, s_1_0, j);
        KM_KEEP(best_1, index_1, s_1_1, j);
        KM_KEEP(best_2, index_2, s_1_2, j);
        KM_KEEP(best_3, index_3, s_1_3, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best_0, index_0, s_2_0, j);
        KM_KEEP(best_1, index_1, s_2_1, j);
        KM_KEEP(best_2, index_2, s_2_2, j);
        KM_KEEP(best_3, index_3, s_2_3, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best_0, index_0, s_3_0, j);
        KM_KEEP(best_1, index_1, s_3_1, j);
        KM_KEEP(best_2, index_2, s_3_2, j);
        KM_KEEP(best_3, index_3, s_3_3, j);
    }
    KM_PUT_LABELS_4(labels + 0 * LANES, index_0, index_1, index_2, index_3);
}

// Scores of 16-bit integers, two features a product and 64 points at a time. What rounding may hide is decided again.
enum {
    PAIR_TILE = 4, // centroids worked on at a time
    CLOSE_MOST = 4 // close points of a group up to which each is decided alone
};
enum { PAIRS = (D + 1) / 2 };

// ... 2 definitions

// Labels of a group from its integers. A bit for each point whose two largest scores are close.
KM_TARGET_PAIRS static uint64_t km_nearest_pairs(km_index *labels, const int32_t *pairs, const int32_t *table,
                                                 int64_t k, int64_t close) {
    km_ints best_0, best_1;
    km_ints second_0 = KM_WORDS(INT16_MIN), second_1 = second_0, index_0 = KM_INTS(0), index_1 = index_0;
    const km_ints one = KM_WORDS(1);
    km_ints j = KM_INTS(0);
    const int32_t *row = table;
    // What k leaves beside whole tiles goes first; one alone would wait for its own additions.
    const int64_t start = k > 1 && k % PAIR_TILE == 1 ? PAIR_TILE + 1 : (k - 1) % PAIR_TILE + 1;
    switch (start) {
        case 1: {
            KM_LOAD_ANEW;
            km_ints s_0_0 = KM_INTS(row[0 * (PAIRS + 1) + PAIRS]);
            km_ints s_0_1 = KM_INTS(row[0 * (PAIRS + 1) + PAIRS]);
            km_ints s_0_2 = KM_INTS(row[0 * (PAIRS + 1) + PAIRS]);
            km_ints s_0_3 = KM_INTS(row[0 * (PAIRS + 1) + PAIRS]);
            KM_UNROLL
            for (int p = 0; p < PAIRS; p++) {
                km_ints x_0 = KM_LOAD_INTS(pairs + p * GROUP + 0 * LANES);
                KM_PIN(x_0);
                km_ints x_1 = KM_LOAD_INTS(pairs + p * GROUP + 1 * LANES);
                KM_PIN(x_1);
                km_ints x_2 = KM_LOAD_INTS(pairs + p * GROUP + 2 * LANES);
                KM_PIN(x_2);
                km_ints x_3 = KM_LOAD_INTS(pairs + p * GROUP + 3 * LANES);
                KM_PIN(x_3);
                const km_ints c_0 = KM_INTS(row[0 * (PAIRS + 1) + p]);
                s_0_0 = KM_PAIRS_ADD(s_0_0, x_0, c_0);
                s_0_1 = KM_PAIRS_ADD(s_0_1, x_1, c_0);
                s_0_2 = KM_PAIRS_ADD(s_0_2, x_2, c_0);
                s_0_3 = KM_PAIRS_ADD(s_0_3, x_3, c_0);
            }
            best_0 = KM_HIGH_WORDS(s_0_0, s_0_1);
            best_1 = KM_HIGH_WORDS(s_0_2, s_0_3);
            break;
        }
        case 2: {
            KM_LOAD_ANEW;
            km_ints s_0_0 = KM_INTS(row[0 * (PAIRS + 1) + PAIRS]);
            km_ints s_0_1 = KM_INTS(row[0 * (PAIRS + 1) + PAIRS]);
            km_ints s_0_2 = KM_INTS(row[0 * (PAIRS + 1) + PAIRS]);
            km_ints s_0_3 = KM_INTS(row[0 * (PAIRS + 1) + PAIRS]);
            km_ints s_1_0 = KM_INTS(row[1 * (PAIRS + 1) + PAIRS]);
            km_ints s_1_1 = KM_INTS(row[1 * (PAIRS + 1) + PAIRS]);
            km_ints s_1_2 = KM_INTS(row[1 * (PAIRS + 1) + PAIRS]);
            km_ints s_1_3 = KM_INTS(row[1 * (PAIRS + 1) + PAIRS]);
            KM_UNROLL
            for (int p = 0; p < PAIRS; p++) {
                km_ints x_0 = KM_LOAD_INTS(pairs + p * GROUP + 0 * LANES);
                KM_PIN(x_0);
                km_ints x_1 = KM_LOAD_INTS(pairs + p * GROUP + 1 * LANES);
                KM_PIN(x_1);
                km_ints x_2 = KM_LOAD_INTS(pairs + p * GROUP + 2 * LANES);
                KM_PIN(x_2);
                km_ints x_3 = KM_LOAD_INTS(pairs + p * GROUP + 3 * LANES);
                KM_PIN(x_3);
                const km_ints c_0 = KM_INTS(row[0 * (PAIRS + 1) + p]);
                s_0_0 = KM_PAIRS_ADD(s_0_0, x_0, c_0);
                s_0_1 = KM_PAIRS_ADD(s_0_1, x_1, c_0);
                s_0_2 = KM_PAIRS_ADD(s_0_2, x_2, c_0);
                s_0_3 = KM_PAIRS_ADD(s_0_3, x_3, c_0);
                const km_ints c_1 = KM_INTS(row[1 * (PAIRS + 1) + p]);
                s_1_0 = KM_PAIRS_ADD(s_1_0, x_0, c_1);
                s_1_1 = KM_PAIRS_ADD(s_1_1, x_1, c_1);
                s_1_2 = KM_PAIRS_ADD(s_1_2, x_2, c_1);
                s_1_3 = KM_PAIRS_ADD(s_1_3, x_3, c_1);
            }
            best_0 = KM_HIGH_WORDS(s_0_0, s_0_1);
            best_1 = KM_HIGH_WORDS(s_0_2, s_0_3);
            j = KM_WORDS_ADD(j, one);
            KM_KEEP_WORDS(best_0, second_0, index_0, KM_HIGH_WORDS(s_1_0, s_1_1), j);
            KM_KEEP_WORDS(best_1, second_1, index_1, KM_HIGH_WORDS(s_1_2, s_1_3), j);
            break;
        }
        case 3: {
            KM_LOAD_ANEW;
            km_ints s_0_0 = KM_INTS(row[0 * (PAIRS + 1) + PAIRS]);
            km_ints s_0_1 = KM_INTS(row[0 * (PAIRS + 1) + PAIRS]);
            km_ints s_0_2 = KM_INTS(row[0 * (PAIRS + 1) + PAIRS]);
            km_ints s_0_3 = KM_INTS(row[0 * (PAIRS + 1) + PAIRS]);
            km_ints s_1_0 = KM_INTS(row[1 * (PAIRS + 1) + PAIRS]);
            km_ints s_1_1 = KM_INTS(row[1 * (PAIRS + 1) + PAIRS]);
            km_ints s_1_2 = KM_INTS(row[1 * (PAIRS + 1) + PAIRS]);
            km_ints s_1_3 = KM_INTS(row[1 * (PAIRS + 1) + PAIRS]);
            km_ints s_2_0 = KM_INTS(row[2 * (PAIRS + 1) + PAIRS]);
            km_ints s_2_1 = KM_INTS(row[2 * (PAIRS + 1) + PAIRS]);
            km_ints s_2_2 = KM_INTS(row[2 * (PAIRS + 1) + PAIRS]);
            km_ints s_2_3 = KM_INTS(row[2 * (PAIRS + 1) + PAIRS]);
            KM_UNROLL
            for (int p = 0; p < PAIRS; p++) {
                km_ints x_0 = KM_LOAD_INTS(pairs + p * GROUP + 0 * LANES);
                KM_PIN(x_0);
                km_ints x_1 = KM_LOAD_INTS(pairs + p * GROUP + 1 * LANES);
                KM_PIN(x_1);
                km_ints x_2 = KM_LOAD_INTS(pairs + p * GROUP + 2 * LANES);
                KM_PIN(x_2);
                km_ints x_3 = KM_LOAD_INTS(pairs + p * GROUP + 3 * LANES);
                KM_PIN(x_3);
                const km_ints c_0 = KM_INTS(row[0 * (PAIRS + 1) + p]);
                s_0_0 = KM_PAIRS_ADD(s_0_0, x_0, c_0);
                s_0_1 = KM_PAIRS_ADD(s_0_1, x_1, c_0);
                s_0_2 = KM_PAIRS_ADD(s_0_2, x_2, c_0);
                s_0_3 = KM_PAIRS_ADD(s_0_3, x_3, c_0);
                const km_ints c_1 = KM_INTS(row[1 * (PAIRS + 1) + p]);
                s_1_0 = KM_PAIRS_ADD(s_1_0, x_0, c_1);
                s_1_1 = KM_PAIRS_ADD(s_1_1, x_1, c_1);
                s_1_2 = KM_PAIRS_ADD(s_1_2, x_2, c_1);
                s_1_3 = KM_PAIRS_ADD(s_1_3, x_3, c_1);
                const km_ints c_2 = KM_INTS(row[2 * (PAIRS + 1) + p]);
                s_2_0 = KM_PAIRS_ADD(s_2_0, x_0, c_2);
                s_2_1 = KM_PAIRS_ADD(s_2_1, x_1, c_2);
                s_2_2 = KM_PAIRS_ADD(s_2_2, x_2, c_2);
                s_2_3 = KM_PAIRS_ADD(s_2_3, x_3, c_2);
            }
            best_0 = KM_HIGH_WORDS(s_0_0, s_0_1);
            best_1 = KM_HIGH_WORDS(s_0_2, s_0_3);
            j = KM_WORDS_ADD(j, one);
            KM_KEEP_WORDS(best_0, second_0, index_0, KM_HIGH_WORDS(s_1_0, s_1_1), j);
            KM_KEEP_WORDS(best_1, second_1, index_1, KM_HIGH_WORDS(s_1_2, s_1_3), j);
            j = KM_WORDS_ADD(j, one);
            KM_KEEP_WORDS(best_0, second_0, index_0, KM_HIGH_WORDS(s_2_0, s_2_1), j);
            KM_KEEP_WORDS(best_1, second_1, index_1, KM_HIGH_WORDS(s_2_2, s_2_3), j);
            break;
        }
        case 4: {
            KM_LOAD_ANEW;
            km_ints s_0_0 = KM_INTS(row[0 * (PAIRS + 1) + PAIRS]);
            km_ints s_0_1 = KM_INTS(row[0 * (PAIRS + 1) + PAIRS]);
            km_ints s_0_2 = KM_INTS(row[0 * (PAIRS + 1) + PAIRS]);
            km_ints s_0_3 = KM_INTS(row[0 * (PAIRS + 1) + PAIRS]);
            km_ints s_1_0 = KM_INTS(row[1 * (PAIRS + 1) + PAIRS]);
            km_ints s_1_1 = KM_INTS(row[1 * (PAIRS + 1) + PAIRS]);
            km_ints s_1_2 = KM_INTS(row[1 * (PAIRS + 1) + PAIRS]);
            km_ints s_1_3 = KM_INTS(row[1 * (PAIRS + 1) + PAIRS]);
            km_ints s_2_0 = KM_INTS(row[2 * (PAIRS + 1) + PAIRS]);
            km_ints s_2_1 = KM_INTS(row[2 * (PAIRS + 1) + PAIRS]);
            km_ints s_2_2 = KM_INTS(row[2 * (PAIRS + 1) + PAIRS]);
            km_ints s_2_3 = KM_INTS(row[2 * (PAIRS + 1) + PAIRS]);
            km_ints s_3_0 = KM_INTS(row[3 * (PAIRS + 1) + PAIRS]);
            km_ints s_3_1 = KM_INTS(row[3 * (PAIRS + 1) + PAIRS]);
            km_ints s_3_2 = KM_INTS(row[3 * (PAIRS + 1) + PAIRS]);
            km_ints s_3_3 = KM_INTS(row[3 * (PAIRS + 1) + PAIRS]);
            KM_UNROLL
            for (int p = 0; p < PAIRS; p++) {
                km_ints x_0 = KM_LOAD_INTS(pairs + p * GROUP + 0 * LANES);
                KM_PIN(x_0);
                km_ints x_1 = KM_LOAD_INTS(pairs + p * GROUP + 1 * LANES);
                KM_PIN(x_1);
                km_ints x_2 = KM_LOAD_INTS(pairs + p * GROUP + 2 * LANES);
                KM_PIN(x_2);
                km_ints x_3 = KM_LOAD_INTS(pairs + p * GROUP + 3 * LANES);
                KM_PIN(x_3);
                const km_ints c_0 = KM_INTS(row[0 * (PAIRS + 1) + p]);
                s_0_0 = KM_PAIRS_ADD(s_0_0, x_0, c_0);
                s_0_1 = KM_PAIRS_ADD(s_0_1, x_1, c_0);
                s_0_2 = KM_PAIRS_ADD(s_0_2, x_2, c_0);
                s_0_3 = KM_PAIRS_ADD(s_0_3, x_3, c_0);
                const km_ints c_1 = KM_INTS(row[1 * (PAIRS + 1) + p]);
                s_1_0 = KM_PAIRS_ADD(s_1_0, x_0, c_1);
                s_1_1 = KM_PAIRS_ADD(s_1_1, x_1, c_1);
                s_1_2 = KM_PAIRS_ADD(s_1_2, x_2, c_1);
                s_1_3 = KM_PAIRS_ADD(s_1_3, x_3, c_1);
                const km_ints c_2 = KM_INTS(row[2 * (PAIRS + 1) + p]);
                s_2_0 = KM_PAIRS_ADD(s_2_0, x_0, c_2);
                s_2_1 = KM_PAIRS_ADD(s_2_1, x_1, c_2);
                s_2_2 = KM_PAIRS_ADD(s_2_2, x_2, c_2);
                s_2_3 = KM_PAIRS_ADD(s_2_3, x_3, c_2);
                const km_ints c_3 = KM_INTS(row[3 * (PAIRS + 1) + p]);
                s_3_0 = KM_PAIRS_ADD(s_3_0, x_0, c_3);
                s_3_1 = KM_PAIRS_ADD(s_3_1, x_1, c_3);
                s_3_2 = KM_PAIRS_ADD(s_3_2, x_2, c_3);
                s_3_3 = KM_PAIRS_ADD(s_3_3, x_3, c_3);
            }
            best_0 = KM_HIGH_WORDS(s_0_0, s_0_1);
            best_1 = KM_HIGH_WORDS(s_0_2, s_0_3);
            j = KM_WORDS_ADD(j, one);
            KM_KEEP_WORDS(best_0, second_0, index_0, KM_HIGH_WORDS(s_1_0, s_1_1), j);
            KM_KEEP_WORDS(best_1, second_1, index_1, KM_HIGH_WORDS(s_1_2, s_1_3), j);
            j = KM_WORDS_ADD(j, one);
            KM_KEEP_WORDS(best_0, second_0, index_0, KM_HIGH_WORDS(s_2_0, s_2_1), j);
            KM_KEEP_WORDS(best_1, second_1, index_1, KM_HIGH_WORDS(s_2_2, s_2_3), j);
            j = KM_WORDS_ADD(j, one);
            KM_KEEP_WORDS(best_0, second_0, index_0, KM_HIGH_WORDS(s_3_0, s_3_1), j);
            KM_KEEP_WORDS(best_1, second_1, index_1, KM_HIGH_WORDS(s_3_2, s_3_3), j);
            break;
        }
        default: {
            KM_LOAD_ANEW;
            km_ints s_0_0 = KM_INTS(row[0 * (PAIRS + 1) + PAIRS]);
            km_ints s_0_1 = KM_INTS(row[0 * (PAIRS + 1) + PAIRS]);
            km_ints s_0_2 = KM_INTS(row[0 * (PAIRS + 1) + PAIRS]);
            km_ints s_0_3 = KM_INTS(row[0 * (PAIRS + 1) + PAIRS]);
            km_ints s_1_0 = KM_INTS(row[1 * (PAIRS + 1) + PAIRS]);
            km_ints s_1_1 = KM_INTS(row[1 * (PAIRS + 1) + PAIRS]);
            km_ints s_1_2 = KM_INTS(row[1 * (PAIRS + 1) + PAIRS]);
            km_ints s_1_3 = KM_INTS(row[1 * (PAIRS + 1) + PAIRS]);
            km_ints s_2_0 = KM_INTS(row[2 * (PAIRS + 1) + PAIRS]);
            km_ints s_2_1 = KM_INTS(row[2 * (PAIRS + 1) + PAIRS]);
            km_ints s_2_2 = KM_INTS(row[2 * (PAIRS + 1) + PAIRS]);
            km_ints s_2_3 = KM_INTS(row[2 * (PAIRS + 1) + PAIRS]);
            km_ints s_3_0 = KM_INTS(row[3 * (PAIRS + 1) + PAIRS]);
            km_ints s_3_1 = KM_INTS(row[3 * (PAIRS + 1) + PAIRS]);
            km_ints s_3_2 = KM_INTS(row[3 * (PAIRS + 1) + PAIRS]);
            km_ints s_3_3 = KM_INTS(row[3 * (PAIRS + 1) + PAIRS]);
            km_ints s_4_0 = KM_INTS(row[4 * (PAIRS + 1) + PAIRS]);
            km_ints s_4_1 = KM_INTS(row[4 * (PAIRS + 1) + PAIRS]);
            km_ints s_4_2 = KM_INTS(row[4 * (PAIRS + 1) + PAIRS]);
            km_ints s_4_3 = KM_INTS(row[4 * (PAIRS + 1) + PAIRS]);
            KM_UNROLL
            for (int p = 0; p < PAIRS; p++) {
                km_ints x_0 = KM_LOAD_INTS(pairs + p * GROUP + 0 * LANES);
                KM_PIN(x_0);
                km_ints x_1 = KM_LOAD_INTS(pairs + p * GROUP + 1 * LANES);
                KM_PIN(x_1);
                km_ints x_2 = KM_LOAD_INTS(pairs + p * GROUP + 2 * LANES);
                KM_PIN(x_2);
                km_ints x_3 = KM_LOAD_INTS(pairs + p * GROUP + 3 * LANES);
                KM_PIN(x_3);
                const km_ints c_0 = KM_INTS(row[0 * (PAIRS + 1) + p]);
                s_0_0 = KM_PAIRS_ADD(s_0_0, x_0, c_0);
                s_0_1 = KM_PAIRS_ADD(s_0_1, x_1, c_0);
                s_0_2 = KM_PAIRS_ADD(s_0_2, x_2, c_0);
                s_0_3 = KM_PAIRS_ADD(s_0_3, x_3, c_0);
                const km_ints c_1 = KM_INTS(row[1 * (PAIRS + 1) + p]);
                s_1_0 = KM_PAIRS_ADD(s_1_0, x_0, c_1);
                s_1_1 = KM_PAIRS_ADD(s_1_1, x_1, c_1);
                s_1_2 = KM_PAIRS_ADD(s_1_2, x_2, c_1);
                s_1_3 = KM_PAIRS_ADD(s_1_3, x_3, c_1);
                const km_ints c_2 = KM_INTS(row[2 * (PAIRS + 1) + p]);
                s_2_0 = KM_PAIRS_ADD(s_2_0, x_0, c_2);
                s_2_1 = KM_PAIRS_ADD(s_2_1, x_1, c_2);
                s_2_2 = KM_PAIRS_ADD(s_2_2, x_2, c_2);
                s_2_3 = KM_PAIRS_ADD(s_2_3, x_3, c_2);
                const km_ints c_3 = KM_INTS(row[3 * (PAIRS + 1) + p]);
                s_3_0 = KM_PAIRS_ADD(s_3_0, x_0, c_3);
                s_3_1 = KM_PAIRS_ADD(s_3_1, x_1, c_3);
                s_3_2 = KM_PAIRS_ADD(s_3_2, x_2, c_3);
                s_3_3 = KM_PAIRS_ADD(s_3_3, x_3, c_3);
                const km_ints c_4 = KM_INTS(row[4 * (PAIRS + 1) + p]);
                s_4_0 = KM_PAIRS_ADD(s_4_0, x_0, c_4);
                s_4_1 = KM_PAIRS_ADD(s_4_1, x_1, c_4);
                s_4_2 = KM_PAIRS_ADD(s_4_2, x_2, c_4);
                s_4_3 = KM_PAIRS_ADD(s_4_3, x_3, c_4);
            }
            best_0 = KM_HIGH_WORDS(s_0_0, s_0_1);
            best_1 = KM_HIGH_WORDS(s_0_2, s_0_3);
            j = KM_WORDS_ADD(j, one);
            KM_KEEP_WORDS(best_0, second_0, index_0, KM_HIGH_WORDS(s_1_0, s_1_1), j);
            KM_KEEP_WORDS(best_1, second_1, index_1, KM_HIGH_WORDS(s_1_2, s_1_3), j);
            j = KM_WORDS_ADD(j, one);
            KM_KEEP_WORDS(best_0, second_0, index_0, KM_HIGH_WORDS(s_2_0, s_2_1), j);
            KM_KEEP_WORDS(best_1, second_1, index_1, KM_HIGH_WORDS(s_2_2, s_2_3), j);
            j = KM_WORDS_ADD(j, one);
            KM_KEEP_WORDS(best_0, second_0, index_0, KM_HIGH_WORDS(s_3_0, s_3_1), j);
            KM_KEEP_WORDS(best_1, second_1, index_1, KM_HIGH_WORDS(s_3_2, s_3_3), j);
            j = KM_WORDS_ADD(j, one);
            KM_KEEP_WORDS(best_0, second_0, index_0, KM_HIGH_WORDS(s_4_0, s_4_1), j);
            KM_KEEP_WORDS(best_1, second_1, index_1, KM_HIGH_WORDS(s_4_2, s_4_3), j);
            break;
        }
    }
    for (int64_t done = start; done < k; done += PAIR_TILE) {
        row = table + done * (PAIRS + 1);
        KM_LOAD_ANEW;
        km_ints s_0_0 = KM_INTS(row[0 * (PAIRS + 1) + PAIRS]);
        km_ints s_0_1 = KM_INTS(row[0 * (PAIRS + 1) + PAIRS]);
        km_ints s_0_2 = KM_INTS(row[0 * (PAIRS + 1) + PAIRS]);
        km_ints s_0_3 = KM_INTS(row[0 * (PAIRS + 1) + PAIRS]);
        km_ints s_1_0 = KM_INTS(row[1 * (PAIRS + 1) + PAIRS]);
        km_ints s_1_1 = KM_INTS(row[1 * (PAIRS + 1) + PAIRS]);
        km_ints s_1_2 = KM_INTS(row[1 * (PAIRS + 1) + PAIRS]);
        km_ints s_1_3 = KM_INTS(row[1 * (PAIRS + 1) + PAIRS]);
        km_ints s_2_0 = KM_INTS(row[2 * (PAIRS + 1) + PAIRS]);
        km_ints s_2_1 = KM_INTS(row[2 * (PAIRS + 1) + PAIRS]);
        km_ints s_2_2 = KM_INTS(row[2 * (PAIRS + 1) + PAIRS]);
        km_ints s_2_3 = KM_INTS(row[2 * (PAIRS + 1) + PAIRS]);
        km_ints s_3_0 = KM_INTS(row[3 * (PAIRS + 1) + PAIRS]);
        km_ints s_3_1 = KM_INTS(row[3 * (PAIRS + 1) + PAIRS]);
        km_ints s_3_2 = KM_INTS(row[3 * (PAIRS + 1) + PAIRS]);
        km_ints s_3_3 = KM_INTS(row[3 * (PAIRS + 1) + PAIRS]);
        KM_UNROLL
        for (int p = 0; p < PAIRS; p++) {
            km_ints x_0 = KM_LOAD_INTS(pairs + p * GROUP + 0 * LANES);
            KM_PIN(x_0);
            km_ints x_1 = KM_LOAD_INTS(pairs + p * GROUP + 1 * LANES);
            KM_PIN(x_1);
            km_ints x_2 = KM_LOAD_INTS(pairs + p * GROUP + 2 * LANES);
            KM_PIN(x_2);
            km_ints x_3 = KM_LOAD_INTS(pairs + p * GROUP + 3 * LANES);
            KM_PIN(x_3);
            const km_ints c_0 = KM_INTS(row[0 * (PAIRS + 1) + p]);
            s_0_0 = KM_PAIRS_ADD(s_0_0, x_0, c_0);
            s_0_1 = KM_PAIRS_ADD(s_0_1, x_1, c_0);
            s_0_2 = KM_PAIRS_ADD(s_0_2, x_2, c_0);
            s_0_3 = KM_PAIRS_ADD(s_0_3, x_3, c_0);
            const km_ints c_1 = KM_INTS(row[1 * (PAIRS + 1) + p]);
            s_1_0 = KM_PAIRS_ADD(s_1_0, x_0, c_1);
            s_1_1 = KM_PAIRS_ADD(s_1_1, x_1, c_1);
            s_1_2 = KM_PAIRS_ADD(s_1_2, x_2, c_1);
            s_1_3 = KM_PAIRS_ADD(s_1_3, x_3, c_1);
            const km_ints c_2 = KM_INTS(row[2 * (PAIRS + 1) + p]);
            s_2_0 = KM_PAIRS_ADD(s_2_0, x_0, c_2);
            s_2_1 = KM_PAIRS_ADD(s_2_1, x_1, c_2);
            s_2_2 = KM_PAIRS_ADD(s_2_2, x_2, c_2);
            s_2_3 = KM_PAIRS_ADD(s_2_3, x_3, c_2);
            const km_ints c_3 = KM_INTS(row[3 * (PAIRS + 1) + p]);
            s_3_0 = KM_PAIRS_ADD(s_3_0, x_0, c_3);
            s_3_1 = KM_PAIRS_ADD(s_3_1, x_1, c_3);
            s_3_2 = KM_PAIRS_ADD(s_3_2, x_2, c_3);
            s_3_3 = KM_PAIRS_ADD(s_3_3, x_3, c_3);
        }
        j = KM_WORDS_ADD(j, one);
        KM_KEEP_WORDS(best_0, second_0, index_0, KM_HIGH_WORDS(s_0_0, s_0_1), j);
        KM_KEEP_WORDS(best_1, second_1, index_1, KM_HIGH_WORDS(s_0_2, s_0_3), j);
        j = KM_WORDS_ADD(j, one);
        KM_KEEP_WORDS(best_0, second_0, index_0, KM_HIGH_WORDS(s_1_0, s_1_1), j);
        KM_KEEP_WORDS(best_1, second_1, index_1, KM_HIGH_WORDS(s_1_2, s_1_3), j);
        j = KM_WORDS_ADD(j, one);
        KM_KEEP_WORDS(best_0, second_0, index_0, KM_HIGH_WORDS(s_2_0, s_2_1), j);
        KM_KEEP_WORDS(best_1, second_1, index_1, KM_HIGH_WORDS(s_2_2, s_2_3), j);
        j = KM_WORDS_ADD(j, one);
        KM_KEEP_WORDS(best_0, second_0, index_0, KM_HIGH_WORDS(s_3_0, s_3_1), j);
        KM_KEEP_WORDS(best_1, second_1, index_1, KM_HIGH_WORDS(s_3_2, s_3_3), j);
    }
    KM_PUT_WORDS(labels, index_0);
    KM_PUT_WORDS(labels + 2 * LANES, index_1);
    return KM_CLOSE_WORDS(best_0, second_0, close) | KM_CLOSE_WORDS(best_1, second_1, close) << 2 * LANES;
}

// ... 7 definitions

// What all slots share of a span.
typedef struct km_lanes_span {
    int64_t first, end;                                               // of the block's points
    const char *ahead, *ahead_end;                                    // points of the next span that are not fetched yet
    int64_t ahead_step;                                               // bytes of them to fetch at a time
    int32_t pairs[SPAN * GROUP * PAIRS] __attribute__((aligned(64))); // points as integers
    int has_rows;                                                     // all points stand in rows; else listed ones do
    int64_t single;                                                   // points that became rows alone
    double rows[SPAN * GROUP * ROW]
        __attribute__((aligned(64))); // what points add to sums: x, then ones
} km_lanes_span;

// ... 11 definitions

// What is to be fetched while all slots work on a span.
static void km_fetch_start(km_lanes_span *span, const km_cpu_chunk *block) {
    const int64_t next = span->first + SPAN * GROUP;
    const int64_t turns = block->slots_count * (SPAN * GROUP / (VECTORS * LANES));
    const int64_t points = next + SPAN * GROUP <= block->points_count ? SPAN * GROUP : 0;
    const int64_t bytes = points * D * (int64_t)sizeof(km_real);
    span->ahead = (const char *)((const km_real *)block->points + next * D);
    span->ahead_end = span->ahead + bytes;
    span->ahead_step = (bytes / turns + 63) / 64 * 64;
}

// One slot's labels of a span; in KM_CPU_MOVE its sums, of the points whose label changed.
KM_TARGET static void km_slot_span(km_cpu_slot *slot, const km_cpu_chunk *block, km_lanes_span *span) {
    const km_real *points = (const km_real *)block->points + span->first * D;
    const int moves = slot->mode == KM_CPU_MOVE && slot->sums;
    const int64_t count = span->end - span->first;
    km_index labels[SPAN * GROUP], old[SPAN * GROUP];
    uint16_t list[SPAN * GROUP + 3];
    int64_t listed = 0;
    for (int64_t base = 0; slot->pairs && base < count; base += GROUP) {
        km_fetch_ahead(span);
        slot->decided += km_nearest_group(labels + base, span->pairs + base * PAIRS, points + base * D, slot);
    }
    const int64_t labelled = slot->pairs ? count : 0;
    for (int64_t base = labelled; base < count; base += GROUP)
        for (int i = 0; i < GROUP; i += VECTORS * LANES) {
            km_fetch_ahead(span);
            km_nearest(labels + base + i, points + base * D + i, (const km_real *)slot->table, slot->k);
        }
    for (int64_t base = 0; base < count; base += GROUP) {
        uint64_t changed = ~(uint64_t)0 >> (count - base < GROUP ? GROUP - (count - base) : 0);
        if (slot->mode != KM_CPU_FIRST) {
            km_labels_get(old + base, slot, span->first + base);
            changed &= km_changes(labels + base, old + base);
        }
        if (!changed) continue;
        slot->changed += __builtin_popcountll(changed);
        km_labels_put(slot, span->first + base, labels + base);
        if (moves) listed = km_list(list, listed, changed, base);
    }
    if (listed) km_move(slot->sums, span, block, list, listed, labels, old);
}

KM_TARGET static void km_pass(const km_cpu_chunk *block) {
    km_lanes_span span;
    km_cpu_slot *together[TOGETHER];
    km_rows_clear(&span);
    for (int64_t s = 0; s < block->slots_count; s++) block->slots[s].changed = block->slots[s].decided = 0;
    for (int64_t first = 0; first < block->points_count; first += SPAN * GROUP) {
        int count = 0;
        span.first = first;
        span.end = first + SPAN * GROUP < block->points_count ? first + SPAN * GROUP : block->points_count;
        span.has_rows = 0;
        span.single = 0;
        km_fetch_start(&span, block);
        if (block->scales)
            km_pairs_make(span.pairs, (const km_real *)block->points + first * D, block->scales,
                          (span.end - first + GROUP - 1) / GROUP);
        for (int64_t s = 0; s < block->slots_count; s++) {
            km_cpu_slot *slot = &block->slots[s];
            km_slot_span(slot, block, &span);
            if (slot->mode != KM_CPU_MOVE && slot->sums) {
                together[count++] = slot;
            }
            if (count == TOGETHER || (count && s + 1 == block->slots_count)) {
                km_add_span(together, count, block, &span);
                count = 0;
            }
        }
    }
}

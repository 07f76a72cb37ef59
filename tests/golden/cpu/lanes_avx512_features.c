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
    // The centroids that k leaves beside whole tiles go first. Centroid 0 starts as the best.
    // A single one would wait for its own additions, so it goes with a whole tile.
    const int64_t start = k > 1 && k % TILE == 1 ? TILE + 1 : (k - 1) % TILE + 1;
    switch (start) {
        case 1: {
            km_vec s_0_0 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_1 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_2 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_3 = KM_SPLAT(row[0 * (D + 1) + D]);
            for (int f = 0; f < D; f++) {
                km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
                KM_PIN(x_0);
                km_vec x_1 = KM_LOAD(points + f * SOA_POINTS + 1 * LANES);
                KM_PIN(x_1);
                km_vec x_2 = KM_LOAD(points + f * SOA_POINTS + 2 * LANES);
                KM_PIN(x_2);
                km_vec x_3 = KM_LOAD(points + f * SOA_POINTS + 3 * LANES);
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
                km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
                KM_PIN(x_0);
                km_vec x_1 = KM_LOAD(points + f * SOA_POINTS + 1 * LANES);
                KM_PIN(x_1);
                km_vec x_2 = KM_LOAD(points + f * SOA_POINTS + 2 * LANES);
                KM_PIN(x_2);
                km_vec x_3 = KM_LOAD(points + f * SOA_POINTS + 3 * LANES);
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
                km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
                KM_PIN(x_0);
                km_vec x_1 = KM_LOAD(points + f * SOA_POINTS + 1 * LANES);
                KM_PIN(x_1);
                km_vec x_2 = KM_LOAD(points + f * SOA_POINTS + 2 * LANES);
                KM_PIN(x_2);
                km_vec x_3 = KM_LOAD(points + f * SOA_POINTS + 3 * LANES);
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
                km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
                KM_PIN(x_0);
                km_vec x_1 = KM_LOAD(points + f * SOA_POINTS + 1 * LANES);
                KM_PIN(x_1);
                km_vec x_2 = KM_LOAD(points + f * SOA_POINTS + 2 * LANES);
                KM_PIN(x_2);
                km_vec x_3 = KM_LOAD(points + f * SOA_POINTS + 3 * LANES);
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
                km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
                KM_PIN(x_0);
                km_vec x_1 = KM_LOAD(points + f * SOA_POINTS + 1 * LANES);
                KM_PIN(x_1);
                km_vec x_2 = KM_LOAD(points + f * SOA_POINTS + 2 * LANES);
                KM_PIN(x_2);
                km_vec x_3 = KM_LOAD(points + f * SOA_POINTS + 3 * LANES);
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
            km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
            KM_PIN(x_0);
            km_vec x_1 = KM_LOAD(points + f * SOA_POINTS + 1 * LANES);
            KM_PIN(x_1);
            km_vec x_2 = KM_LOAD(points + f * SOA_POINTS + 2 * LANES);
            KM_PIN(x_2);
            km_vec x_3 = KM_LOAD(points + f * SOA_POINTS + 3 * LANES);
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

// int16 scores: an instruction multiplies two features, and 64 points are scored at a time. Points whose largest scores
// lie within the margin are ambiguous. They are scored again as floats.
enum {
    INT16_TILE = 4,   // centroids worked on at a time
    AMBIGUOUS_MAX = 4 // ambiguous points of an SoA group up to which each is scored by itself
};
enum { FEATURE_PAIRS = (D + 1) / 2 };

// ... 2 definitions

// Labels of an SoA group by int16 scores. Returns a bit for each ambiguous point.
KM_TARGET_INT16 static uint64_t km_nearest_int16(km_index *labels, const int32_t *int16_points,
                                                 const int32_t *int16_table, int64_t k, int64_t margin) {
    km_ints best_0, best_1;
    km_ints second_0 = KM_INT16_SPLAT(INT16_MIN), second_1 = second_0, index_0 = KM_INTS(0),
            index_1 = index_0;
    const km_ints one = KM_INT16_SPLAT(1);
    km_ints j = KM_INTS(0);
    const int32_t *row = int16_table;
    // The centroids that k leaves beside whole tiles go first. A single one would wait for its own additions, so it
    // goes with a whole tile.
    const int64_t start = k > 1 && k % INT16_TILE == 1 ? INT16_TILE + 1 : (k - 1) % INT16_TILE + 1;
    switch (start) {
        case 1: {
            KM_LOAD_ANEW;
            km_ints s_0_0 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_0_1 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_0_2 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_0_3 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            KM_UNROLL
            for (int p = 0; p < FEATURE_PAIRS; p++) {
                km_ints x_0 = KM_LOAD_INTS(int16_points + p * SOA_POINTS + 0 * LANES);
                KM_PIN(x_0);
                km_ints x_1 = KM_LOAD_INTS(int16_points + p * SOA_POINTS + 1 * LANES);
                KM_PIN(x_1);
                km_ints x_2 = KM_LOAD_INTS(int16_points + p * SOA_POINTS + 2 * LANES);
                KM_PIN(x_2);
                km_ints x_3 = KM_LOAD_INTS(int16_points + p * SOA_POINTS + 3 * LANES);
                KM_PIN(x_3);
                const km_ints c_0 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + p]);
                s_0_0 = KM_INT16_DOT(s_0_0, x_0, c_0);
                s_0_1 = KM_INT16_DOT(s_0_1, x_1, c_0);
                s_0_2 = KM_INT16_DOT(s_0_2, x_2, c_0);
                s_0_3 = KM_INT16_DOT(s_0_3, x_3, c_0);
            }
            best_0 = KM_INT16_HIGH(s_0_0, s_0_1);
            best_1 = KM_INT16_HIGH(s_0_2, s_0_3);
            break;
        }
        case 2: {
            KM_LOAD_ANEW;
            km_ints s_0_0 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_0_1 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_0_2 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_0_3 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_1_0 = KM_INTS(row[1 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_1_1 = KM_INTS(row[1 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_1_2 = KM_INTS(row[1 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_1_3 = KM_INTS(row[1 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            KM_UNROLL
            for (int p = 0; p < FEATURE_PAIRS; p++) {
                km_ints x_0 = KM_LOAD_INTS(int16_points + p * SOA_POINTS + 0 * LANES);
                KM_PIN(x_0);
                km_ints x_1 = KM_LOAD_INTS(int16_points + p * SOA_POINTS + 1 * LANES);
                KM_PIN(x_1);
                km_ints x_2 = KM_LOAD_INTS(int16_points + p * SOA_POINTS + 2 * LANES);
                KM_PIN(x_2);
                km_ints x_3 = KM_LOAD_INTS(int16_points + p * SOA_POINTS + 3 * LANES);
                KM_PIN(x_3);
                const km_ints c_0 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + p]);
                s_0_0 = KM_INT16_DOT(s_0_0, x_0, c_0);
                s_0_1 = KM_INT16_DOT(s_0_1, x_1, c_0);
                s_0_2 = KM_INT16_DOT(s_0_2, x_2, c_0);
                s_0_3 = KM_INT16_DOT(s_0_3, x_3, c_0);
                const km_ints c_1 = KM_INTS(row[1 * (FEATURE_PAIRS + 1) + p]);
                s_1_0 = KM_INT16_DOT(s_1_0, x_0, c_1);
                s_1_1 = KM_INT16_DOT(s_1_1, x_1, c_1);
                s_1_2 = KM_INT16_DOT(s_1_2, x_2, c_1);
                s_1_3 = KM_INT16_DOT(s_1_3, x_3, c_1);
            }
            best_0 = KM_INT16_HIGH(s_0_0, s_0_1);
            best_1 = KM_INT16_HIGH(s_0_2, s_0_3);
            j = KM_INT16_ADD(j, one);
            KM_INT16_KEEP(best_0, second_0, index_0, KM_INT16_HIGH(s_1_0, s_1_1), j);
            KM_INT16_KEEP(best_1, second_1, index_1, KM_INT16_HIGH(s_1_2, s_1_3), j);
            break;
        }
        case 3: {
            KM_LOAD_ANEW;
            km_ints s_0_0 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_0_1 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_0_2 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_0_3 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_1_0 = KM_INTS(row[1 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_1_1 = KM_INTS(row[1 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_1_2 = KM_INTS(row[1 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_1_3 = KM_INTS(row[1 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_2_0 = KM_INTS(row[2 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_2_1 = KM_INTS(row[2 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_2_2 = KM_INTS(row[2 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_2_3 = KM_INTS(row[2 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            KM_UNROLL
            for (int p = 0; p < FEATURE_PAIRS; p++) {
                km_ints x_0 = KM_LOAD_INTS(int16_points + p * SOA_POINTS + 0 * LANES);
                KM_PIN(x_0);
                km_ints x_1 = KM_LOAD_INTS(int16_points + p * SOA_POINTS + 1 * LANES);
                KM_PIN(x_1);
                km_ints x_2 = KM_LOAD_INTS(int16_points + p * SOA_POINTS + 2 * LANES);
                KM_PIN(x_2);
                km_ints x_3 = KM_LOAD_INTS(int16_points + p * SOA_POINTS + 3 * LANES);
                KM_PIN(x_3);
                const km_ints c_0 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + p]);
                s_0_0 = KM_INT16_DOT(s_0_0, x_0, c_0);
                s_0_1 = KM_INT16_DOT(s_0_1, x_1, c_0);
                s_0_2 = KM_INT16_DOT(s_0_2, x_2, c_0);
                s_0_3 = KM_INT16_DOT(s_0_3, x_3, c_0);
                const km_ints c_1 = KM_INTS(row[1 * (FEATURE_PAIRS + 1) + p]);
                s_1_0 = KM_INT16_DOT(s_1_0, x_0, c_1);
                s_1_1 = KM_INT16_DOT(s_1_1, x_1, c_1);
                s_1_2 = KM_INT16_DOT(s_1_2, x_2, c_1);
                s_1_3 = KM_INT16_DOT(s_1_3, x_3, c_1);
                const km_ints c_2 = KM_INTS(row[2 * (FEATURE_PAIRS + 1) + p]);
                s_2_0 = KM_INT16_DOT(s_2_0, x_0, c_2);
                s_2_1 = KM_INT16_DOT(s_2_1, x_1, c_2);
                s_2_2 = KM_INT16_DOT(s_2_2, x_2, c_2);
                s_2_3 = KM_INT16_DOT(s_2_3, x_3, c_2);
            }
            best_0 = KM_INT16_HIGH(s_0_0, s_0_1);
            best_1 = KM_INT16_HIGH(s_0_2, s_0_3);
            j = KM_INT16_ADD(j, one);
            KM_INT16_KEEP(best_0, second_0, index_0, KM_INT16_HIGH(s_1_0, s_1_1), j);
            KM_INT16_KEEP(best_1, second_1, index_1, KM_INT16_HIGH(s_1_2, s_1_3), j);
            j = KM_INT16_ADD(j, one);
            KM_INT16_KEEP(best_0, second_0, index_0, KM_INT16_HIGH(s_2_0, s_2_1), j);
            KM_INT16_KEEP(best_1, second_1, index_1, KM_INT16_HIGH(s_2_2, s_2_3), j);
            break;
        }
        case 4: {
            KM_LOAD_ANEW;
            km_ints s_0_0 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_0_1 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_0_2 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_0_3 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_1_0 = KM_INTS(row[1 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_1_1 = KM_INTS(row[1 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_1_2 = KM_INTS(row[1 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_1_3 = KM_INTS(row[1 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_2_0 = KM_INTS(row[2 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_2_1 = KM_INTS(row[2 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_2_2 = KM_INTS(row[2 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_2_3 = KM_INTS(row[2 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_3_0 = KM_INTS(row[3 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_3_1 = KM_INTS(row[3 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_3_2 = KM_INTS(row[3 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_3_3 = KM_INTS(row[3 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            KM_UNROLL
            for (int p = 0; p < FEATURE_PAIRS; p++) {
                km_ints x_0 = KM_LOAD_INTS(int16_points + p * SOA_POINTS + 0 * LANES);
                KM_PIN(x_0);
                km_ints x_1 = KM_LOAD_INTS(int16_points + p * SOA_POINTS + 1 * LANES);
                KM_PIN(x_1);
                km_ints x_2 = KM_LOAD_INTS(int16_points + p * SOA_POINTS + 2 * LANES);
                KM_PIN(x_2);
                km_ints x_3 = KM_LOAD_INTS(int16_points + p * SOA_POINTS + 3 * LANES);
                KM_PIN(x_3);
                const km_ints c_0 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + p]);
                s_0_0 = KM_INT16_DOT(s_0_0, x_0, c_0);
                s_0_1 = KM_INT16_DOT(s_0_1, x_1, c_0);
                s_0_2 = KM_INT16_DOT(s_0_2, x_2, c_0);
                s_0_3 = KM_INT16_DOT(s_0_3, x_3, c_0);
                const km_ints c_1 = KM_INTS(row[1 * (FEATURE_PAIRS + 1) + p]);
                s_1_0 = KM_INT16_DOT(s_1_0, x_0, c_1);
                s_1_1 = KM_INT16_DOT(s_1_1, x_1, c_1);
                s_1_2 = KM_INT16_DOT(s_1_2, x_2, c_1);
                s_1_3 = KM_INT16_DOT(s_1_3, x_3, c_1);
                const km_ints c_2 = KM_INTS(row[2 * (FEATURE_PAIRS + 1) + p]);
                s_2_0 = KM_INT16_DOT(s_2_0, x_0, c_2);
                s_2_1 = KM_INT16_DOT(s_2_1, x_1, c_2);
                s_2_2 = KM_INT16_DOT(s_2_2, x_2, c_2);
                s_2_3 = KM_INT16_DOT(s_2_3, x_3, c_2);
                const km_ints c_3 = KM_INTS(row[3 * (FEATURE_PAIRS + 1) + p]);
                s_3_0 = KM_INT16_DOT(s_3_0, x_0, c_3);
                s_3_1 = KM_INT16_DOT(s_3_1, x_1, c_3);
                s_3_2 = KM_INT16_DOT(s_3_2, x_2, c_3);
                s_3_3 = KM_INT16_DOT(s_3_3, x_3, c_3);
            }
            best_0 = KM_INT16_HIGH(s_0_0, s_0_1);
            best_1 = KM_INT16_HIGH(s_0_2, s_0_3);
            j = KM_INT16_ADD(j, one);
            KM_INT16_KEEP(best_0, second_0, index_0, KM_INT16_HIGH(s_1_0, s_1_1), j);
            KM_INT16_KEEP(best_1, second_1, index_1, KM_INT16_HIGH(s_1_2, s_1_3), j);
            j = KM_INT16_ADD(j, one);
            KM_INT16_KEEP(best_0, second_0, index_0, KM_INT16_HIGH(s_2_0, s_2_1), j);
            KM_INT16_KEEP(best_1, second_1, index_1, KM_INT16_HIGH(s_2_2, s_2_3), j);
            j = KM_INT16_ADD(j, one);
            KM_INT16_KEEP(best_0, second_0, index_0, KM_INT16_HIGH(s_3_0, s_3_1), j);
            KM_INT16_KEEP(best_1, second_1, index_1, KM_INT16_HIGH(s_3_2, s_3_3), j);
            break;
        }
        default: {
            KM_LOAD_ANEW;
            km_ints s_0_0 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_0_1 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_0_2 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_0_3 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_1_0 = KM_INTS(row[1 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_1_1 = KM_INTS(row[1 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_1_2 = KM_INTS(row[1 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_1_3 = KM_INTS(row[1 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_2_0 = KM_INTS(row[2 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_2_1 = KM_INTS(row[2 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_2_2 = KM_INTS(row[2 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_2_3 = KM_INTS(row[2 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_3_0 = KM_INTS(row[3 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_3_1 = KM_INTS(row[3 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_3_2 = KM_INTS(row[3 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_3_3 = KM_INTS(row[3 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_4_0 = KM_INTS(row[4 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_4_1 = KM_INTS(row[4 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_4_2 = KM_INTS(row[4 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            km_ints s_4_3 = KM_INTS(row[4 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            KM_UNROLL
            for (int p = 0; p < FEATURE_PAIRS; p++) {
                km_ints x_0 = KM_LOAD_INTS(int16_points + p * SOA_POINTS + 0 * LANES);
                KM_PIN(x_0);
                km_ints x_1 = KM_LOAD_INTS(int16_points + p * SOA_POINTS + 1 * LANES);
                KM_PIN(x_1);
                km_ints x_2 = KM_LOAD_INTS(int16_points + p * SOA_POINTS + 2 * LANES);
                KM_PIN(x_2);
                km_ints x_3 = KM_LOAD_INTS(int16_points + p * SOA_POINTS + 3 * LANES);
                KM_PIN(x_3);
                const km_ints c_0 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + p]);
                s_0_0 = KM_INT16_DOT(s_0_0, x_0, c_0);
                s_0_1 = KM_INT16_DOT(s_0_1, x_1, c_0);
                s_0_2 = KM_INT16_DOT(s_0_2, x_2, c_0);
                s_0_3 = KM_INT16_DOT(s_0_3, x_3, c_0);
                const km_ints c_1 = KM_INTS(row[1 * (FEATURE_PAIRS + 1) + p]);
                s_1_0 = KM_INT16_DOT(s_1_0, x_0, c_1);
                s_1_1 = KM_INT16_DOT(s_1_1, x_1, c_1);
                s_1_2 = KM_INT16_DOT(s_1_2, x_2, c_1);
                s_1_3 = KM_INT16_DOT(s_1_3, x_3, c_1);
                const km_ints c_2 = KM_INTS(row[2 * (FEATURE_PAIRS + 1) + p]);
                s_2_0 = KM_INT16_DOT(s_2_0, x_0, c_2);
                s_2_1 = KM_INT16_DOT(s_2_1, x_1, c_2);
                s_2_2 = KM_INT16_DOT(s_2_2, x_2, c_2);
                s_2_3 = KM_INT16_DOT(s_2_3, x_3, c_2);
                const km_ints c_3 = KM_INTS(row[3 * (FEATURE_PAIRS + 1) + p]);
                s_3_0 = KM_INT16_DOT(s_3_0, x_0, c_3);
                s_3_1 = KM_INT16_DOT(s_3_1, x_1, c_3);
                s_3_2 = KM_INT16_DOT(s_3_2, x_2, c_3);
                s_3_3 = KM_INT16_DOT(s_3_3, x_3, c_3);
                const km_ints c_4 = KM_INTS(row[4 * (FEATURE_PAIRS + 1) + p]);
                s_4_0 = KM_INT16_DOT(s_4_0, x_0, c_4);
                s_4_1 = KM_INT16_DOT(s_4_1, x_1, c_4);
                s_4_2 = KM_INT16_DOT(s_4_2, x_2, c_4);
                s_4_3 = KM_INT16_DOT(s_4_3, x_3, c_4);
            }
            best_0 = KM_INT16_HIGH(s_0_0, s_0_1);
            best_1 = KM_INT16_HIGH(s_0_2, s_0_3);
            j = KM_INT16_ADD(j, one);
            KM_INT16_KEEP(best_0, second_0, index_0, KM_INT16_HIGH(s_1_0, s_1_1), j);
            KM_INT16_KEEP(best_1, second_1, index_1, KM_INT16_HIGH(s_1_2, s_1_3), j);
            j = KM_INT16_ADD(j, one);
            KM_INT16_KEEP(best_0, second_0, index_0, KM_INT16_HIGH(s_2_0, s_2_1), j);
            KM_INT16_KEEP(best_1, second_1, index_1, KM_INT16_HIGH(s_2_2, s_2_3), j);
            j = KM_INT16_ADD(j, one);
            KM_INT16_KEEP(best_0, second_0, index_0, KM_INT16_HIGH(s_3_0, s_3_1), j);
            KM_INT16_KEEP(best_1, second_1, index_1, KM_INT16_HIGH(s_3_2, s_3_3), j);
            j = KM_INT16_ADD(j, one);
            KM_INT16_KEEP(best_0, second_0, index_0, KM_INT16_HIGH(s_4_0, s_4_1), j);
            KM_INT16_KEEP(best_1, second_1, index_1, KM_INT16_HIGH(s_4_2, s_4_3), j);
            break;
        }
    }
    for (int64_t done = start; done < k; done += INT16_TILE) {
        row = int16_table + done * (FEATURE_PAIRS + 1);
        KM_LOAD_ANEW;
        km_ints s_0_0 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
        km_ints s_0_1 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
        km_ints s_0_2 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
        km_ints s_0_3 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
        km_ints s_1_0 = KM_INTS(row[1 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
        km_ints s_1_1 = KM_INTS(row[1 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
        km_ints s_1_2 = KM_INTS(row[1 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
        km_ints s_1_3 = KM_INTS(row[1 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
        km_ints s_2_0 = KM_INTS(row[2 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
        km_ints s_2_1 = KM_INTS(row[2 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
        km_ints s_2_2 = KM_INTS(row[2 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
        km_ints s_2_3 = KM_INTS(row[2 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
        km_ints s_3_0 = KM_INTS(row[3 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
        km_ints s_3_1 = KM_INTS(row[3 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
        km_ints s_3_2 = KM_INTS(row[3 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
        km_ints s_3_3 = KM_INTS(row[3 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
        KM_UNROLL
        for (int p = 0; p < FEATURE_PAIRS; p++) {
            km_ints x_0 = KM_LOAD_INTS(int16_points + p * SOA_POINTS + 0 * LANES);
            KM_PIN(x_0);
            km_ints x_1 = KM_LOAD_INTS(int16_points + p * SOA_POINTS + 1 * LANES);
            KM_PIN(x_1);
            km_ints x_2 = KM_LOAD_INTS(int16_points + p * SOA_POINTS + 2 * LANES);
            KM_PIN(x_2);
            km_ints x_3 = KM_LOAD_INTS(int16_points + p * SOA_POINTS + 3 * LANES);
            KM_PIN(x_3);
            const km_ints c_0 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + p]);
            s_0_0 = KM_INT16_DOT(s_0_0, x_0, c_0);
            s_0_1 = KM_INT16_DOT(s_0_1, x_1, c_0);
            s_0_2 = KM_INT16_DOT(s_0_2, x_2, c_0);
            s_0_3 = KM_INT16_DOT(s_0_3, x_3, c_0);
            const km_ints c_1 = KM_INTS(row[1 * (FEATURE_PAIRS + 1) + p]);
            s_1_0 = KM_INT16_DOT(s_1_0, x_0, c_1);
            s_1_1 = KM_INT16_DOT(s_1_1, x_1, c_1);
            s_1_2 = KM_INT16_DOT(s_1_2, x_2, c_1);
            s_1_3 = KM_INT16_DOT(s_1_3, x_3, c_1);
            const km_ints c_2 = KM_INTS(row[2 * (FEATURE_PAIRS + 1) + p]);
            s_2_0 = KM_INT16_DOT(s_2_0, x_0, c_2);
            s_2_1 = KM_INT16_DOT(s_2_1, x_1, c_2);
            s_2_2 = KM_INT16_DOT(s_2_2, x_2, c_2);
            s_2_3 = KM_INT16_DOT(s_2_3, x_3, c_2);
            const km_ints c_3 = KM_INTS(row[3 * (FEATURE_PAIRS + 1) + p]);
            s_3_0 = KM_INT16_DOT(s_3_0, x_0, c_3);
            s_3_1 = KM_INT16_DOT(s_3_1, x_1, c_3);
            s_3_2 = KM_INT16_DOT(s_3_2, x_2, c_3);
            s_3_3 = KM_INT16_DOT(s_3_3, x_3, c_3);
        }
        j = KM_INT16_ADD(j, one);
        KM_INT16_KEEP(best_0, second_0, index_0, KM_INT16_HIGH(s_0_0, s_0_1), j);
        KM_INT16_KEEP(best_1, second_1, index_1, KM_INT16_HIGH(s_0_2, s_0_3), j);
        j = KM_INT16_ADD(j, one);
        KM_INT16_KEEP(best_0, second_0, index_0, KM_INT16_HIGH(s_1_0, s_1_1), j);
        KM_INT16_KEEP(best_1, second_1, index_1, KM_INT16_HIGH(s_1_2, s_1_3), j);
        j = KM_INT16_ADD(j, one);
        KM_INT16_KEEP(best_0, second_0, index_0, KM_INT16_HIGH(s_2_0, s_2_1), j);
        KM_INT16_KEEP(best_1, second_1, index_1, KM_INT16_HIGH(s_2_2, s_2_3), j);
        j = KM_INT16_ADD(j, one);
        KM_INT16_KEEP(best_0, second_0, index_0, KM_INT16_HIGH(s_3_0, s_3_1), j);
        KM_INT16_KEEP(best_1, second_1, index_1, KM_INT16_HIGH(s_3_2, s_3_3), j);
    }
    KM_INT16_PUT_LABELS(labels, index_0);
    KM_INT16_PUT_LABELS(labels + 2 * LANES, index_1);
    return KM_INT16_AMBIGUOUS(best_0, second_0, margin) | KM_INT16_AMBIGUOUS(best_1, second_1, margin)
                                                              << 2 * LANES;
}

// ... 7 definitions

// A span, and what all slots share of it.
typedef struct km_lanes_span {
    int64_t first, end;            // of the chunk's points
    const char *ahead, *ahead_end; // points of the next span that are not prefetched yet
    int64_t ahead_step;            // bytes of them to prefetch at a time
    int32_t int16_points[SPAN * SOA_POINTS * FEATURE_PAIRS]
        __attribute__((aligned(64))); // points as int16
    int has_rows;                     // `rows` has all points; else listed ones
    int64_t rows_one_by_one;          // listed points that became rows so far
    double rows[SPAN * SOA_POINTS * ROW]
        __attribute__((aligned(64))); // what a point adds to sums: x, then ones
} km_lanes_span;

// ... 11 definitions

// Decides what to prefetch while all slots work on a span.
static void km_fetch_start(km_lanes_span *span, const km_cpu_chunk *chunk) {
    const int64_t next = span->first + SPAN * SOA_POINTS;
    const int64_t turns = chunk->slots_count * (SPAN * SOA_POINTS / (VECTORS * LANES));
    const int64_t points = next + SPAN * SOA_POINTS <= chunk->points_count ? SPAN * SOA_POINTS : 0;
    const int64_t bytes = points * D * (int64_t)sizeof(km_real);
    span->ahead = (const char *)((const km_real *)chunk->points + next * D);
    span->ahead_end = span->ahead + bytes;
    span->ahead_step = (bytes / turns + 63) / 64 * 64;
}

// Labels a span for one slot. With KM_CPU_MOVE, also moves the points whose label changed from sums to sums.
KM_TARGET static void km_slot_span(km_cpu_slot *slot, const km_cpu_chunk *chunk, km_lanes_span *span) {
    const km_real *points = (const km_real *)chunk->points + span->first * D;
    const int moves = slot->mode == KM_CPU_MOVE && slot->sums;
    const int64_t count = span->end - span->first;
    km_index labels[SPAN * SOA_POINTS], old[SPAN * SOA_POINTS];
    uint16_t list[SPAN * SOA_POINTS + 3];
    int64_t listed = 0;
    for (int64_t base = 0; slot->int16_table && base < count; base += SOA_POINTS) {
        km_fetch_ahead(span);
        slot->resolved += km_label_soa_group(labels + base, span->int16_points + base * FEATURE_PAIRS,
                                             points + base * D, slot);
    }
    const int64_t labelled_count = slot->int16_table ? count : 0;
    for (int64_t base = labelled_count; base < count; base += SOA_POINTS)
        for (int i = 0; i < SOA_POINTS; i += VECTORS * LANES) {
            km_fetch_ahead(span);
            km_nearest(labels + base + i, points + base * D + i, (const km_real *)slot->table, slot->k);
        }
    for (int64_t base = 0; base < count; base += SOA_POINTS) {
        uint64_t changed = ~(uint64_t)0 >> (count - base < SOA_POINTS ? SOA_POINTS - (count - base) : 0);
        if (slot->mode != KM_CPU_FIRST) {
            km_labels_get(old + base, slot, span->first + base);
            changed &= km_changes(labels + base, old + base);
        }
        if (!changed) continue;
        slot->changed += __builtin_popcountll(changed);
        km_labels_put(slot, span->first + base, labels + base);
        if (moves) listed = km_list_bits(list, listed, changed, base);
    }
    if (listed) km_move(slot->sums, span, chunk, list, listed, labels, old);
}

KM_TARGET static void km_pass(const km_cpu_chunk *chunk) {
    km_lanes_span span;
    km_cpu_slot *together[SLOTS_TOGETHER];
    km_rows_clear(&span);
    for (int64_t s = 0; s < chunk->slots_count; s++) chunk->slots[s].changed = chunk->slots[s].resolved = 0;
    for (int64_t first = 0; first < chunk->points_count; first += SPAN * SOA_POINTS) {
        int count = 0;
        span.first = first;
        span.end =
            first + SPAN * SOA_POINTS < chunk->points_count ? first + SPAN * SOA_POINTS : chunk->points_count;
        span.has_rows = 0;
        span.rows_one_by_one = 0;
        km_fetch_start(&span, chunk);
        if (chunk->int16_scales)
            km_int16_points_make(span.int16_points, (const km_real *)chunk->points + first * D,
                                 chunk->int16_scales, (span.end - first + SOA_POINTS - 1) / SOA_POINTS);
        for (int64_t s = 0; s < chunk->slots_count; s++) {
            km_cpu_slot *slot = &chunk->slots[s];
            km_slot_span(slot, chunk, &span);
            if (slot->mode != KM_CPU_MOVE && slot->sums) {
                together[count++] = slot;
            }
            if (count == SLOTS_TOGETHER || (count && s + 1 == chunk->slots_count)) {
                km_add_span(together, count, chunk, &span);
                count = 0;
            }
        }
    }
}

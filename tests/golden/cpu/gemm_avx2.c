// Of the text of {features: 784, clusters: 10, target: cpu:avx2}: The pass; Seeding; The finishing pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 1 definition

enum {
    PANEL = 10,         // centroids that a span works through before it goes on to the next panel; whole tiles
    TILE_FEATURES = 196 // features whose values of an SoA group stay in the first cache
};

// ... 1 definition

// Adds the products of `count` features to the scores of TILE centroids.
KM_TARGET static void km_products(km_real *scores, const km_real *points, const km_real *rows, int count) {
    km_vec s_0_0 = KM_SPLAT(0);
    // ... 9 more, other numbers: 1ef14101
    for (int f = 0; f < count; f++) {
        km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
        KM_PIN(x_0);
        // ... 1 more of 2 lines, other numbers: 29778454
        const km_vec c_0 = KM_SPLAT(rows[0 * (D + 1) + f]);
        s_0_0 = KM_FMA(x_0, c_0, s_0_0);
        s_0_1 = KM_FMA(x_1, c_0, s_0_1);
        // ... 4 more of 3 lines, other numbers: 782ed839
    }
    KM_STORE(scores + 0 * SOA_POINTS + 0 * LANES,
             KM_ADD(KM_LOAD(scores + 0 * SOA_POINTS + 0 * LANES), s_0_0));
    // ... 9 more of 2 lines, other numbers: 4a234c7e
// ... lines of a template
    km_vec best_0 = KM_LOAD(bests->score + 0 * LANES);
    km_ints index_0 = KM_LOAD_INTS(bests->index + 0 * LANES);
    // ... 1 more of 2 lines, other numbers: 4c21d8b8
    for (int64_t j = first; j < end; j++) {
        const km_real *score = scores + (j - first) * SOA_POINTS;
        const km_ints index = KM_INTS((km_int)j);
        KM_KEEP(best_0, index_0, KM_LOAD(score + 0 * LANES), index);
        KM_KEEP(best_1, index_1, KM_LOAD(score + 1 * LANES), index);
    }
    KM_STORE(bests->score + 0 * LANES, best_0);
    KM_PUT_INTS(bests->index + 0 * LANES, index_0);
    // ... 1 more of 2 lines, other numbers: 610b5b3e
}
// ... lines of a template
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

// ... 1 more of 2 lines, other numbers: d089a628
// ... 13 definitions

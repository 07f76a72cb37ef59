// SPDX-License-Identifier: MIT
//@ need int16_vectors int16_starts int16_tile
// int16 scores: an instruction multiplies two features, and 64 points are scored at a time. Points whose largest scores
// lie within the margin are ambiguous. They are scored again as floats.
enum {
    INT16_TILE = 4,   // centroids worked on at a time
    AMBIGUOUS_MAX = 4 // ambiguous points of an SoA group up to which each is scored by itself
};
//@ if any_d
#define FEATURE_PAIRS ((D + 1) / 2)
//@ else
enum { FEATURE_PAIRS = (D + 1) / 2 };
//@ end

// Points as int16: a 32-bit word holds two features of a point.
KM_TARGET static void km_int16_points_make(int32_t *int16_points, const km_real *points,
                                           const float *int16_scales, int64_t soa_groups) {
    for (int64_t g = 0; g < soa_groups; g++, points += SOA_POINTS * D)
        for (int f = 0; f < D; f += 2, int16_points += SOA_POINTS) {
            const km_vec even = KM_SPLAT(int16_scales[f]);
            const int other = f + 1 < D ? f + 1 : f; // beside an odd last feature the table has zeros
            const km_vec odd = KM_SPLAT(int16_scales[other]);
            for (int i = 0; i < SOA_POINTS; i += LANES)
                KM_PUT_INTS(int16_points + i, KM_INT16_PAIR(KM_LOAD(points + f * SOA_POINTS + i), even,
                                                            KM_LOAD(points + other * SOA_POINTS + i), odd));
        }
}

// The label of one point, the same as km_nearest finds. Here centroids lie across lanes.
KM_TARGET static km_index km_nearest_of_point(const km_real *point, const km_real *columns, int64_t k) {
    const int64_t width = KM_CPU_COLUMNS(k);
    km_vec best = KM_SPLAT(-INFINITY);
    km_ints index = KM_INTS(0), j = KM_LANE_NUMBERS;
    for (int64_t from = 0; from < k; from += LANES, j = KM_INTS_ADD(j, KM_INTS(LANES))) {
        km_vec s = KM_LOAD(columns + D * width + from);
        for (int f = 0; f < D; f++)
            s = KM_FMA(KM_SPLAT(point[f * SOA_POINTS]), KM_LOAD(columns + f * width + from), s);
        KM_KEEP(best, index, s, j);
    }
    return (km_index)KM_LOWEST(best, index);
}

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
        //@ for r in int16_starts
        $r_case {
            //@ include cpu/lanes/int16_tile.c with centroids = r_centroids, later = r_later, is_first = 1
            break;
        }
        //@ end
    }
    for (int64_t done = start; done < k; done += INT16_TILE) {
        row = int16_table + done * (FEATURE_PAIRS + 1);
        //@ include cpu/lanes/int16_tile.c with centroids = int16_tile, later = int16_tile, is_first = 0
    }
    KM_INT16_PUT_LABELS(labels, index_0);
    KM_INT16_PUT_LABELS(labels + 2 * LANES, index_1);
    return KM_INT16_AMBIGUOUS(best_0, second_0, margin) | KM_INT16_AMBIGUOUS(best_1, second_1, margin)
                                                              << 2 * LANES;
}

// Labels of an SoA group, the same as km_nearest finds. Returns how many points were ambiguous.
KM_TARGET static int km_label_soa_group(km_index *labels, const int32_t *int16_points, const km_real *points,
                                        const km_cpu_slot *slot) {
    const km_real *table = (const km_real *)slot->table;
    uint64_t ambiguous = km_nearest_int16(labels, int16_points, slot->int16_table, slot->k, slot->margin);
    const int count = __builtin_popcountll(ambiguous);
    if (count > AMBIGUOUS_MAX) {
        for (int i = 0; i < SOA_POINTS; i += VECTORS * LANES)
            km_nearest(labels + i, points + i, table, slot->k);
        return count;
    }
    for (; ambiguous; ambiguous &= ambiguous - 1) {
        const int i = KM_INT16_POINT(__builtin_ctzll(ambiguous));
        labels[i] = km_nearest_of_point(points + i, (const km_real *)slot->columns, slot->k);
    }
    return count;
}

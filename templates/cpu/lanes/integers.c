// SPDX-License-Identifier: MIT
//@ need pair_vectors pair_starts pair_tile
// Scores of 16-bit integers, two features a product and 64 points at a time. What rounding may hide is decided again.
enum {
    PAIR_TILE = 4, // centroids worked on at a time
    CLOSE_MOST = 4 // close points of a group up to which each is decided alone
};
//@ if any_d
#define PAIRS ((D + 1) / 2)
//@ else
enum { PAIRS = (D + 1) / 2 };
//@ end

// Points as integers: two features of a point side by side.
KM_TARGET static void km_pairs_make(int32_t *pairs, const km_real *points, const float *scales,
                                    int64_t groups) {
    for (int64_t g = 0; g < groups; g++, points += GROUP * D)
        for (int f = 0; f < D; f += 2, pairs += GROUP) {
            const km_vec even = KM_SPLAT(scales[f]);
            const int other = f + 1 < D ? f + 1 : f; // what stands beside a last one meets zeros
            const km_vec odd = KM_SPLAT(scales[other]);
            for (int i = 0; i < GROUP; i += LANES)
                KM_PUT_INTS(pairs + i, KM_PAIR(KM_LOAD(points + f * GROUP + i), even,
                                               KM_LOAD(points + other * GROUP + i), odd));
        }
}

// The label of one point, as km_nearest finds it: centroids across lanes.
KM_TARGET static km_index km_nearest_alone(const km_real *point, const km_real *columns, int64_t k) {
    const int64_t width = KM_CPU_COLUMNS(k);
    km_vec best = KM_SPLAT(-INFINITY);
    km_ints index = KM_INTS(0), j = KM_LANE_NUMBERS;
    for (int64_t from = 0; from < k; from += LANES, j = KM_INTS_ADD(j, KM_INTS(LANES))) {
        km_vec s = KM_LOAD(columns + D * width + from);
        for (int f = 0; f < D; f++)
            s = KM_FMA(KM_SPLAT(point[f * GROUP]), KM_LOAD(columns + f * width + from), s);
        KM_KEEP(best, index, s, j);
    }
    return (km_index)KM_LOWEST(best, index);
}

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
        //@ for r in pair_starts
        $r_case {
            //@ include cpu/lanes/tile_pairs.c with centroids = r_centroids, others = r_others, first = 1
            break;
        }
        //@ end
    }
    for (int64_t done = start; done < k; done += PAIR_TILE) {
        row = table + done * (PAIRS + 1);
        //@ include cpu/lanes/tile_pairs.c with centroids = pair_tile, others = pair_tile, first = 0
    }
    KM_PUT_WORDS(labels, index_0);
    KM_PUT_WORDS(labels + 2 * LANES, index_1);
    return KM_CLOSE_WORDS(best_0, second_0, close) | KM_CLOSE_WORDS(best_1, second_1, close) << 2 * LANES;
}

// Labels of a group, those of close points as km_nearest finds them; returns how many points were close.
KM_TARGET static int km_nearest_group(km_index *labels, const int32_t *pairs, const km_real *points,
                                      const km_cpu_slot *slot) {
    const km_real *table = (const km_real *)slot->table;
    uint64_t close = km_nearest_pairs(labels, pairs, slot->pairs, slot->k, slot->close);
    const int count = __builtin_popcountll(close);
    if (count > CLOSE_MOST) {
        for (int i = 0; i < GROUP; i += VECTORS * LANES) km_nearest(labels + i, points + i, table, slot->k);
        return count;
    }
    for (; close; close &= close - 1) {
        const int i = KM_WORD_POINT(__builtin_ctzll(close));
        labels[i] = km_nearest_alone(points + i, (const km_real *)slot->columns, slot->k);
    }
    return count;
}

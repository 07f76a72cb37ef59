// Of the text of {features: 64, clusters: 2..12, target: cpu:avx512}: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 1 definition

// Labels of VECTORS x LANES points: the centroid with the largest x . c - |c|^2 / 2, ties to the lowest index.
KM_TARGET static inline void km_nearest(km_index *labels, const km_real *points, const km_real *table,
                                        int64_t k) {
    km_vec best_0;
    km_ints index_0 = KM_INTS(0);
    // ... 3 more of 2 lines, other numbers: 28ecbfc5
    const km_real *row = table;
    km_ints j = KM_INTS(0);
    const km_ints one = KM_INTS(1);
    // The centroids that k leaves beside whole tiles go first. Centroid 0 starts as the best.
    // A single one would wait for its own additions, so it goes with a whole tile.
    const int64_t start = k > 1 && k % TILE == 1 ? TILE + 1 : (k - 1) % TILE + 1;
    switch (start) {
        case 1: {
            km_vec s_0_0 = KM_SPLAT(row[0 * (D + 1) + D]);
            // ... 3 more, other numbers: db9cb357
            for (int f = 0; f < D; f++) {
                km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
                KM_PIN(x_0);
                // ... 3 more of 2 lines, other numbers: 15104d5b
                const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
                s_0_0 = KM_FMA(x_0, c_0, s_0_0);
                // ... 3 more, other numbers: 98f1fc01
            }
            best_0 = s_0_0;
            // ... 3 more, other numbers: 2545ba20
            break;
        }
        case 2: {
            km_vec s_0_0 = KM_SPLAT(row[0 * (D + 1) + D]);
            // ... 7 more, other numbers: 5ad57fc7
            for (int f = 0; f < D; f++) {
                km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
                KM_PIN(x_0);
                // ... 3 more of 2 lines, other numbers: 15104d5b
                const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
                s_0_0 = KM_FMA(x_0, c_0, s_0_0);
                // ... 1 more of 3 lines, other numbers: 2d3e135f
                // ... 3 more, other numbers: b51e819b
            }
            best_0 = s_0_0;
            // ... 3 more, other numbers: 2545ba20
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_1_0, j);
            // ... 3 more, other numbers: 9eb18092
            break;
        }
        case 3: {
            km_vec s_0_0 = KM_SPLAT(row[0 * (D + 1) + D]);
            // ... 11 more, other numbers: bc2fcffa
            for (int f = 0; f < D; f++) {
                km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
                KM_PIN(x_0);
                // ... 3 more of 2 lines, other numbers: 15104d5b
                const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
                s_0_0 = KM_FMA(x_0, c_0, s_0_0);
                // ... 2 more of 3 lines, other numbers: bc141bda
                // ... 3 more, other numbers: bb7bfcb7
            }
            best_0 = s_0_0;
            // ... 3 more, other numbers: 2545ba20
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_1_0, j);
            // ... 1 more of 3 lines, other numbers: a0cc4db3
            // ... 3 more, other numbers: c6a2407e
            break;
        }
        // ... 1 more of 20 lines, other numbers: 1dc34e3d
        default: {
            km_vec s_0_0 = KM_SPLAT(row[0 * (D + 1) + D]);
            // ... 19 more, other numbers: 1a7bd7f7
            for (int f = 0; f < D; f++) {
                km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
                KM_PIN(x_0);
                // ... 3 more of 2 lines, other numbers: 15104d5b
                const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
                s_0_0 = KM_FMA(x_0, c_0, s_0_0);
                // ... 4 more of 3 lines, other numbers: 768c7f32
                // ... 3 more, other numbers: a9afc605
            }
            best_0 = s_0_0;
            // ... 3 more, other numbers: 2545ba20
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_1_0, j);
            // ... 3 more of 3 lines, other numbers: 1b7be361
            // ... 3 more, other numbers: a1bf9bf5
            break;
        }
    }
    for (int64_t done = start; done < k; done += TILE) {
        row = table + done * (D + 1);
        km_vec s_0_0 = KM_SPLAT(row[0 * (D + 1) + D]);
        // ... 15 more, other numbers: ff1483d5
        for (int f = 0; f < D; f++) {
            km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
            KM_PIN(x_0);
            // ... 3 more of 2 lines, other numbers: e7c6ed2f
            const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
            s_0_0 = KM_FMA(x_0, c_0, s_0_0);
            // ... 3 more of 3 lines, other numbers: 34f9dea8
            // ... 3 more, other numbers: e4a0138c
        }
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best_0, index_0, s_0_0, j);
        // ... 3 more, other numbers: 5cdb4f73
        // ... 3 more of 3 lines, other numbers: 5213780b
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
// ... lines of a template
        case 1: {
            KM_LOAD_ANEW;
            km_ints s_0_0 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            // ... 3 more, other numbers: 4cdd8ff7
            KM_UNROLL
            for (int p = 0; p < FEATURE_PAIRS; p++) {
                km_ints x_0 = KM_LOAD_INTS(int16_points + p * SOA_POINTS + 0 * LANES);
                KM_PIN(x_0);
                // ... 3 more of 2 lines, other numbers: ca0a6d32
                const km_ints c_0 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + p]);
                s_0_0 = KM_INT16_DOT(s_0_0, x_0, c_0);
                // ... 3 more, other numbers: 7257ac54
            }
            best_0 = KM_INT16_HIGH(s_0_0, s_0_1);
            best_1 = KM_INT16_HIGH(s_0_2, s_0_3);
            break;
        }
        case 2: {
            KM_LOAD_ANEW;
            km_ints s_0_0 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            // ... 7 more, other numbers: 0a0d60e4
            KM_UNROLL
            for (int p = 0; p < FEATURE_PAIRS; p++) {
                km_ints x_0 = KM_LOAD_INTS(int16_points + p * SOA_POINTS + 0 * LANES);
                KM_PIN(x_0);
                // ... 3 more of 2 lines, other numbers: ca0a6d32
                const km_ints c_0 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + p]);
                s_0_0 = KM_INT16_DOT(s_0_0, x_0, c_0);
                // ... 1 more of 3 lines, other numbers: 8839de96
                // ... 3 more, other numbers: b0a20d2e
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
            // ... 11 more, other numbers: 9692f18b
            KM_UNROLL
            for (int p = 0; p < FEATURE_PAIRS; p++) {
                km_ints x_0 = KM_LOAD_INTS(int16_points + p * SOA_POINTS + 0 * LANES);
                KM_PIN(x_0);
                // ... 3 more of 2 lines, other numbers: ca0a6d32
                const km_ints c_0 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + p]);
                s_0_0 = KM_INT16_DOT(s_0_0, x_0, c_0);
                // ... 2 more of 3 lines, other numbers: eb5c3ea6
                // ... 3 more, other numbers: c68d66e6
            }
            best_0 = KM_INT16_HIGH(s_0_0, s_0_1);
            best_1 = KM_INT16_HIGH(s_0_2, s_0_3);
            j = KM_INT16_ADD(j, one);
            KM_INT16_KEEP(best_0, second_0, index_0, KM_INT16_HIGH(s_1_0, s_1_1), j);
            KM_INT16_KEEP(best_1, second_1, index_1, KM_INT16_HIGH(s_1_2, s_1_3), j);
            // ... 1 more of 3 lines, other numbers: 144dc454
            break;
        }
        // ... 1 more of 22 lines, other numbers: 1caf65e8
        default: {
            KM_LOAD_ANEW;
            km_ints s_0_0 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
            // ... 19 more, other numbers: 856f0218
            KM_UNROLL
            for (int p = 0; p < FEATURE_PAIRS; p++) {
                km_ints x_0 = KM_LOAD_INTS(int16_points + p * SOA_POINTS + 0 * LANES);
                KM_PIN(x_0);
                // ... 3 more of 2 lines, other numbers: ca0a6d32
                const km_ints c_0 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + p]);
                s_0_0 = KM_INT16_DOT(s_0_0, x_0, c_0);
                // ... 4 more of 3 lines, other numbers: e68fe39e
                // ... 3 more, other numbers: c68b2244
            }
            best_0 = KM_INT16_HIGH(s_0_0, s_0_1);
            best_1 = KM_INT16_HIGH(s_0_2, s_0_3);
            j = KM_INT16_ADD(j, one);
            KM_INT16_KEEP(best_0, second_0, index_0, KM_INT16_HIGH(s_1_0, s_1_1), j);
            KM_INT16_KEEP(best_1, second_1, index_1, KM_INT16_HIGH(s_1_2, s_1_3), j);
            // ... 3 more of 3 lines, other numbers: 7b165643
            break;
        }
    }
    for (int64_t done = start; done < k; done += INT16_TILE) {
        row = int16_table + done * (FEATURE_PAIRS + 1);
        KM_LOAD_ANEW;
        km_ints s_0_0 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
        // ... 15 more, other numbers: a0c8f573
        KM_UNROLL
        for (int p = 0; p < FEATURE_PAIRS; p++) {
            km_ints x_0 = KM_LOAD_INTS(int16_points + p * SOA_POINTS + 0 * LANES);
            KM_PIN(x_0);
            // ... 3 more of 2 lines, other numbers: baaf25f2
            const km_ints c_0 = KM_INTS(row[0 * (FEATURE_PAIRS + 1) + p]);
            s_0_0 = KM_INT16_DOT(s_0_0, x_0, c_0);
            // ... 3 more of 3 lines, other numbers: a48aded4
            // ... 3 more, other numbers: 4a8a6267
        }
        j = KM_INT16_ADD(j, one);
        KM_INT16_KEEP(best_0, second_0, index_0, KM_INT16_HIGH(s_0_0, s_0_1), j);
        KM_INT16_KEEP(best_1, second_1, index_1, KM_INT16_HIGH(s_0_2, s_0_3), j);
        // ... 3 more of 3 lines, other numbers: b1233a8b
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
    // ... lines of a template
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

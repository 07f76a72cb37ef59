// Of the text of prebuilt lanes avx2_float64_any: All
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 20 definitions

// Keeps a loaded value in a register: compilers would load it again for each use.
#define KM_PIN(x) __asm__("" : "+x"(x))
typedef __m256i km_ints; // as many integers as km_vec has reals, of their size
// ... lines of a template
// A bit for each of 64 bytes that differ.
#define KM_HALF_EQUAL(a, b)                                                                                  \
    (uint32_t)                                                                                               \
        _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_loadu_si256((const __m256i *)(const void *)(a)),       \
                                               _mm256_loadu_si256((const __m256i *)(const void *)(b))))
#define KM_DIFFER(a, b) ~(KM_HALF_EQUAL(a, b) | (uint64_t)KM_HALF_EQUAL((a) + 32, (b) + 32) << 32)

// ... 5 definitions

// Labels of VECTORS x LANES points: the centroid with the largest x . c - |c|^2 / 2, ties to the lowest index.
KM_TARGET static inline void km_nearest(km_index *labels, const km_real *points, const km_real *table,
                                        int64_t k) {
    km_vec best_0;
    km_ints index_0 = KM_INTS(0);
    // ... 1 more of 2 lines, other numbers: 595afd6d
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
            for (int f = 0; f < D; f++) {
                km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
                KM_PIN(x_0);
                // ... 1 more of 2 lines, other numbers: d9c53d3e
                const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
                s_0_0 = KM_FMA(x_0, c_0, s_0_0);
                s_0_1 = KM_FMA(x_1, c_0, s_0_1);
            }
            best_0 = s_0_0;
            best_1 = s_0_1;
            break;
        }
        case 2: {
            km_vec s_0_0 = KM_SPLAT(row[0 * (D + 1) + D]);
            // ... 3 more, other numbers: 3281712f
            for (int f = 0; f < D; f++) {
                km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
                KM_PIN(x_0);
                // ... 1 more of 2 lines, other numbers: d9c53d3e
                const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
                s_0_0 = KM_FMA(x_0, c_0, s_0_0);
                s_0_1 = KM_FMA(x_1, c_0, s_0_1);
                // ... 1 more of 3 lines, other numbers: 6aa743db
            }
            best_0 = s_0_0;
            best_1 = s_0_1;
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_1_0, j);
            KM_KEEP(best_1, index_1, s_1_1, j);
            break;
        }
        case 3: {
            km_vec s_0_0 = KM_SPLAT(row[0 * (D + 1) + D]);
            // ... 5 more, other numbers: daace7f5
            for (int f = 0; f < D; f++) {
                km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
                KM_PIN(x_0);
                // ... 1 more of 2 lines, other numbers: d9c53d3e
                const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
                s_0_0 = KM_FMA(x_0, c_0, s_0_0);
                s_0_1 = KM_FMA(x_1, c_0, s_0_1);
                // ... 2 more of 3 lines, other numbers: f1745564
            }
            best_0 = s_0_0;
            best_1 = s_0_1;
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_1_0, j);
            KM_KEEP(best_1, index_1, s_1_1, j);
            // ... 1 more of 3 lines, other numbers: bcee4965
            break;
        }
        // ... 1 more of 20 lines, other numbers: 84736fc3
        default: {
            km_vec s_0_0 = KM_SPLAT(row[0 * (D + 1) + D]);
            // ... 9 more, other numbers: d08a22e2
            for (int f = 0; f < D; f++) {
                km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
                KM_PIN(x_0);
                // ... 1 more of 2 lines, other numbers: d9c53d3e
                const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
                s_0_0 = KM_FMA(x_0, c_0, s_0_0);
                s_0_1 = KM_FMA(x_1, c_0, s_0_1);
                // ... 4 more of 3 lines, other numbers: 657179bc
            }
            best_0 = s_0_0;
            best_1 = s_0_1;
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_1_0, j);
            KM_KEEP(best_1, index_1, s_1_1, j);
            // ... 3 more of 3 lines, other numbers: bb086761
            break;
        }
    }
    for (int64_t done = start; done < k; done += TILE) {
        row = table + done * (D + 1);
        km_vec s_0_0 = KM_SPLAT(row[0 * (D + 1) + D]);
        // ... 7 more, other numbers: b6b8dee8
        for (int f = 0; f < D; f++) {
            km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
            KM_PIN(x_0);
            // ... 1 more of 2 lines, other numbers: c3e2d390
            const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
            s_0_0 = KM_FMA(x_0, c_0, s_0_0);
            s_0_1 = KM_FMA(x_1, c_0, s_0_1);
            // ... 3 more of 3 lines, other numbers: f7a28d0b
        }
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best_0, index_0, s_0_0, j);
        KM_KEEP(best_1, index_1, s_0_1, j);
        // ... 3 more of 3 lines, other numbers: f1fc220a
    }
    km_int found[VECTORS * LANES];
    KM_PUT_INTS(found + 0 * LANES, index_0);
    KM_PUT_INTS(found + 1 * LANES, index_1);
    for (int i = 0; i < VECTORS * LANES; i++) labels[i] = (km_index)found[i];
}

// ... 3 definitions

// A bit for each point of an SoA group whose label differs.
KM_TARGET static uint64_t km_changes(const km_index *labels, const km_index *old) {
    uint64_t changed = 0;
    for (int i = 0; i < SOA_POINTS; i++) changed |= (uint64_t)(labels[i] != old[i]) << i;
    return changed;
}

// ... 8 definitions

// Labels a span for one slot. With KM_CPU_MOVE, also moves the points whose label changed from sums to sums.
KM_TARGET static void km_slot_span(km_cpu_slot *slot, const km_cpu_chunk *chunk, km_lanes_span *span) {
    const km_real *points = (const km_real *)chunk->points + span->first * D;
    const int moves = slot->mode == KM_CPU_MOVE && slot->sums;
    const int64_t count = span->end - span->first;
    km_index labels[SPAN * SOA_POINTS], old[SPAN * SOA_POINTS];
    uint16_t list[SPAN * SOA_POINTS + 3];
    int64_t listed = 0;
    for (int64_t base = 0; base < count; base += SOA_POINTS)
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
    const double *weights = chunk->weights ? chunk->weights + span->first : NULL;
    if (listed) km_move(slot->sums, points, weights, list, listed, labels, old);
}

// ... 8 definitions

KM_TARGET static void km_seed(const km_cpu_seeding *seeding) {
    D = (int)seeding->d;
    for (int64_t c = 0; c < seeding->chains_count; c++)
        for (int64_t a = 0; a < seeding->chains[c].candidates_count; a++)
            seeding->chains[c].potentials[a] = 0;
    for (int64_t first = 0; first < seeding->points_count; first += SEED_SPAN) {
        int64_t count = seeding->points_count - first;
        if (count > SEED_SPAN) count = SEED_SPAN;
        for (int64_t c = 0; c < seeding->chains_count; c++)
            km_seed_span(&seeding->chains[c], seeding, first, count);
    }
}
// ==== The finishing pass
// The finishing pass: labels as double arithmetic gives them, and the sums that criteria ask for.
#define FINISH_ROW D // doubles of a centroid
enum {
    FINISH_SPAN = 64, // points of a span, which stays in the first cache for all models
    PAIR_POINTS = 2 * LANES // points of two vectors
};

// ... 11 definitions

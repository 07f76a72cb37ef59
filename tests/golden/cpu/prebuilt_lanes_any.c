// Of the text of prebuilt lanes avx2_float64_any: All
// "..." stands for what a template or an earlier part shows.

// ... 20 definitions

// Keeps a loaded value in a register: compilers would load it again for each use.
#define KM_PIN(x) __asm__("" : "+x"(x))
typedef __m256i km_ints; // as many integers as km_vec has reals, of their size
typedef __m256d km_vec;
#define KM_LOAD(from) _mm256_loadu_pd(from)
#define KM_STORE(to, x) _mm256_storeu_pd(to, x)
#define KM_SPLAT(value) _mm256_set1_pd(value)
#define KM_ADD(a, b) _mm256_add_pd(a, b)
#define KM_SUB(a, b) _mm256_sub_pd(a, b)
#define KM_FMA(a, b, c) _mm256_fmadd_pd(a, b, c)
#define KM_MIN(a, b) _mm256_min_pd(a, b)
#define KM_INTS(value) _mm256_set1_epi64x(value)
#define KM_INTS_ADD(a, b) _mm256_add_epi64(a, b)
#define KM_LOAD_INTS(from) _mm256_loadu_si256((const __m256i *)(const void *)(from))
#define KM_PUT_INTS(to, index) _mm256_storeu_si256((__m256i *)(void *)(to), index)
// Where score > best: best and index become score and j.
#define KM_KEEP(best, index, score, j)                                                                       \
    index = _mm256_castpd_si256(_mm256_blendv_pd(_mm256_castsi256_pd(index), _mm256_castsi256_pd(j),         \
                                                 _mm256_cmp_pd(score, best, _CMP_GT_OQ)));                   \
    best = _mm256_max_pd(score, best)
// Stores the indices of two vectors, or of four, as labels of a byte.
#define KM_LOW_INTS(a)                                                                                       \
    _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(a, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6)))
#define KM_PUT_LABELS_2(to, a, b)                                                                            \
    do {                                                                                                     \
        const __m128i km_both = _mm_packs_epi32(KM_LOW_INTS(a), KM_LOW_INTS(b));                             \
        _mm_storel_epi64((__m128i *)(void *)(to), _mm_packus_epi16(km_both, km_both));                       \
    } while (0)
#define KM_PUT_LABELS_4(to, a, b, c, d)                                                                      \
    _mm_storeu_si128((__m128i *)(void *)(to),                                                                \
                     _mm_packus_epi16(_mm_packs_epi32(KM_LOW_INTS(a), KM_LOW_INTS(b)),                       \
                                      _mm_packs_epi32(KM_LOW_INTS(c), KM_LOW_INTS(d))))
#define KM_LOAD_DOUBLES(from) _mm256_loadu_pd(from)
#define KM_SQRT(x) _mm256_sqrt_pd(x)
// a / b, 0 where b is 0.
#define KM_QUOTIENT(a, b)                                                                                    \
    _mm256_and_pd(_mm256_div_pd(a, b), _mm256_cmp_pd(b, _mm256_setzero_pd(), _CMP_GT_OQ))
// Masks of the points that have a label: counts and sums of doubles of those points.
typedef __m256i km_mask;
#define KM_STORE_WIDE(to, x) KM_STORE(to, x)
#define KM_LOAD_LABELS(from) _mm256_cvtepi32_epi64(_mm_loadu_si128((const __m128i *)(const void *)(from)))
#define KM_EQUAL(a, b) _mm256_cmpeq_epi64(a, b)
#define KM_COUNT_WHERE(count, where) count = _mm256_sub_epi64(count, where)
#define KM_D_ADD_WHERE(sum, where, from)                                                                     \
    sum = _mm256_add_pd(sum, _mm256_and_pd(_mm256_loadu_pd(from), _mm256_castsi256_pd(where)))
#define KM_SUM_INTS(x)                                                                                       \
    (_mm256_extract_epi64(x, 0) + _mm256_extract_epi64(x, 1) + _mm256_extract_epi64(x, 2) +                  \
     _mm256_extract_epi64(x, 3))
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
    km_vec best_1;
    km_ints index_1 = KM_INTS(0);
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
                km_vec x_1 = KM_LOAD(points + f * SOA_POINTS + 1 * LANES);
                KM_PIN(x_1);
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
            km_vec s_0_1 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_1_0 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_1_1 = KM_SPLAT(row[1 * (D + 1) + D]);
            for (int f = 0; f < D; f++) {
                km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
                KM_PIN(x_0);
                km_vec x_1 = KM_LOAD(points + f * SOA_POINTS + 1 * LANES);
                KM_PIN(x_1);
                const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
                s_0_0 = KM_FMA(x_0, c_0, s_0_0);
                s_0_1 = KM_FMA(x_1, c_0, s_0_1);
                const km_vec c_1 = KM_SPLAT(row[1 * (D + 1) + f]);
                s_1_0 = KM_FMA(x_0, c_1, s_1_0);
                s_1_1 = KM_FMA(x_1, c_1, s_1_1);
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
            km_vec s_0_1 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_1_0 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_1_1 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_2_0 = KM_SPLAT(row[2 * (D + 1) + D]);
            km_vec s_2_1 = KM_SPLAT(row[2 * (D + 1) + D]);
            for (int f = 0; f < D; f++) {
                km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
                KM_PIN(x_0);
                km_vec x_1 = KM_LOAD(points + f * SOA_POINTS + 1 * LANES);
                KM_PIN(x_1);
                const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
                s_0_0 = KM_FMA(x_0, c_0, s_0_0);
                s_0_1 = KM_FMA(x_1, c_0, s_0_1);
                const km_vec c_1 = KM_SPLAT(row[1 * (D + 1) + f]);
                s_1_0 = KM_FMA(x_0, c_1, s_1_0);
                s_1_1 = KM_FMA(x_1, c_1, s_1_1);
                const km_vec c_2 = KM_SPLAT(row[2 * (D + 1) + f]);
                s_2_0 = KM_FMA(x_0, c_2, s_2_0);
                s_2_1 = KM_FMA(x_1, c_2, s_2_1);
            }
            best_0 = s_0_0;
            best_1 = s_0_1;
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_1_0, j);
            KM_KEEP(best_1, index_1, s_1_1, j);
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_2_0, j);
            KM_KEEP(best_1, index_1, s_2_1, j);
            break;
        }
        case 4: {
            km_vec s_0_0 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_1 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_1_0 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_1_1 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_2_0 = KM_SPLAT(row[2 * (D + 1) + D]);
            km_vec s_2_1 = KM_SPLAT(row[2 * (D + 1) + D]);
            km_vec s_3_0 = KM_SPLAT(row[3 * (D + 1) + D]);
            km_vec s_3_1 = KM_SPLAT(row[3 * (D + 1) + D]);
            for (int f = 0; f < D; f++) {
                km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
                KM_PIN(x_0);
                km_vec x_1 = KM_LOAD(points + f * SOA_POINTS + 1 * LANES);
                KM_PIN(x_1);
                const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
                s_0_0 = KM_FMA(x_0, c_0, s_0_0);
                s_0_1 = KM_FMA(x_1, c_0, s_0_1);
                const km_vec c_1 = KM_SPLAT(row[1 * (D + 1) + f]);
                s_1_0 = KM_FMA(x_0, c_1, s_1_0);
                s_1_1 = KM_FMA(x_1, c_1, s_1_1);
                const km_vec c_2 = KM_SPLAT(row[2 * (D + 1) + f]);
                s_2_0 = KM_FMA(x_0, c_2, s_2_0);
                s_2_1 = KM_FMA(x_1, c_2, s_2_1);
                const km_vec c_3 = KM_SPLAT(row[3 * (D + 1) + f]);
                s_3_0 = KM_FMA(x_0, c_3, s_3_0);
                s_3_1 = KM_FMA(x_1, c_3, s_3_1);
            }
            best_0 = s_0_0;
            best_1 = s_0_1;
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_1_0, j);
            KM_KEEP(best_1, index_1, s_1_1, j);
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_2_0, j);
            KM_KEEP(best_1, index_1, s_2_1, j);
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_3_0, j);
            KM_KEEP(best_1, index_1, s_3_1, j);
            break;
        }
        default: {
            km_vec s_0_0 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_1 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_1_0 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_1_1 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_2_0 = KM_SPLAT(row[2 * (D + 1) + D]);
            km_vec s_2_1 = KM_SPLAT(row[2 * (D + 1) + D]);
            km_vec s_3_0 = KM_SPLAT(row[3 * (D + 1) + D]);
            km_vec s_3_1 = KM_SPLAT(row[3 * (D + 1) + D]);
            km_vec s_4_0 = KM_SPLAT(row[4 * (D + 1) + D]);
            km_vec s_4_1 = KM_SPLAT(row[4 * (D + 1) + D]);
            for (int f = 0; f < D; f++) {
                km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
                KM_PIN(x_0);
                km_vec x_1 = KM_LOAD(points + f * SOA_POINTS + 1 * LANES);
                KM_PIN(x_1);
                const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
                s_0_0 = KM_FMA(x_0, c_0, s_0_0);
                s_0_1 = KM_FMA(x_1, c_0, s_0_1);
                const km_vec c_1 = KM_SPLAT(row[1 * (D + 1) + f]);
                s_1_0 = KM_FMA(x_0, c_1, s_1_0);
                s_1_1 = KM_FMA(x_1, c_1, s_1_1);
                const km_vec c_2 = KM_SPLAT(row[2 * (D + 1) + f]);
                s_2_0 = KM_FMA(x_0, c_2, s_2_0);
                s_2_1 = KM_FMA(x_1, c_2, s_2_1);
                const km_vec c_3 = KM_SPLAT(row[3 * (D + 1) + f]);
                s_3_0 = KM_FMA(x_0, c_3, s_3_0);
                s_3_1 = KM_FMA(x_1, c_3, s_3_1);
                const km_vec c_4 = KM_SPLAT(row[4 * (D + 1) + f]);
                s_4_0 = KM_FMA(x_0, c_4, s_4_0);
                s_4_1 = KM_FMA(x_1, c_4, s_4_1);
            }
            best_0 = s_0_0;
            best_1 = s_0_1;
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_1_0, j);
            KM_KEEP(best_1, index_1, s_1_1, j);
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_2_0, j);
            KM_KEEP(best_1, index_1, s_2_1, j);
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_3_0, j);
            KM_KEEP(best_1, index_1, s_3_1, j);
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_4_0, j);
            KM_KEEP(best_1, index_1, s_4_1, j);
            break;
        }
    }
    for (int64_t done = start; done < k; done += TILE) {
        row = table + done * (D + 1);
        km_vec s_0_0 = KM_SPLAT(row[0 * (D + 1) + D]);
        km_vec s_0_1 = KM_SPLAT(row[0 * (D + 1) + D]);
        km_vec s_1_0 = KM_SPLAT(row[1 * (D + 1) + D]);
        km_vec s_1_1 = KM_SPLAT(row[1 * (D + 1) + D]);
        km_vec s_2_0 = KM_SPLAT(row[2 * (D + 1) + D]);
        km_vec s_2_1 = KM_SPLAT(row[2 * (D + 1) + D]);
        km_vec s_3_0 = KM_SPLAT(row[3 * (D + 1) + D]);
        km_vec s_3_1 = KM_SPLAT(row[3 * (D + 1) + D]);
        for (int f = 0; f < D; f++) {
            km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
            KM_PIN(x_0);
            km_vec x_1 = KM_LOAD(points + f * SOA_POINTS + 1 * LANES);
            KM_PIN(x_1);
            const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
            s_0_0 = KM_FMA(x_0, c_0, s_0_0);
            s_0_1 = KM_FMA(x_1, c_0, s_0_1);
            const km_vec c_1 = KM_SPLAT(row[1 * (D + 1) + f]);
            s_1_0 = KM_FMA(x_0, c_1, s_1_0);
            s_1_1 = KM_FMA(x_1, c_1, s_1_1);
            const km_vec c_2 = KM_SPLAT(row[2 * (D + 1) + f]);
            s_2_0 = KM_FMA(x_0, c_2, s_2_0);
            s_2_1 = KM_FMA(x_1, c_2, s_2_1);
            const km_vec c_3 = KM_SPLAT(row[3 * (D + 1) + f]);
            s_3_0 = KM_FMA(x_0, c_3, s_3_0);
            s_3_1 = KM_FMA(x_1, c_3, s_3_1);
        }
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best_0, index_0, s_0_0, j);
        KM_KEEP(best_1, index_1, s_0_1, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best_0, index_0, s_1_0, j);
        KM_KEEP(best_1, index_1, s_1_1, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best_0, index_0, s_2_0, j);
        KM_KEEP(best_1, index_1, s_2_1, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best_0, index_0, s_3_0, j);
        KM_KEEP(best_1, index_1, s_3_1, j);
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

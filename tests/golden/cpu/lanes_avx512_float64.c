// Of the text of {features: 4, clusters: 2..8, type: float64, target: cpu:avx512}: Numbers and types; The pass; The finishing pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 20 definitions

// Keeps a loaded value in a register: compilers would load it again for each use.
#define KM_PIN(x) __asm__("" : "+v"(x))
// Some headers fill unmasked forms with an undefined vector, and warn of it: a full mask gives the same instruction.
typedef __m512i km_ints; // as many integers as km_vec has reals, of their size
// ... lines of a template
// Stores the indices of two vectors, or of four, as labels of a byte. Four of floats are stored at once, so that they
// may be loaded at once.
#define KM_PUT_LABELS_4(to, a, b, c, d)                                                                      \
    KM_PUT_LABELS_2(to, a, b);                                                                               \
    KM_PUT_LABELS_2((to) + 2 * LANES, c, d)
// A bit for each of 64 bytes that are j.
#define KM_OWN(labels, j)                                                                                    \
    _mm512_cmpeq_epi8_mask(_mm512_loadu_si512((const void *)(labels)), _mm512_set1_epi8((char)(j)))
// A bit for each of 64 bytes that differ.
#define KM_DIFFER(a, b)                                                                                      \
    _mm512_cmpneq_epi8_mask(_mm512_loadu_si512((const void *)(a)), _mm512_loadu_si512((const void *)(b)))

// ... 4 definitions

// ... 1 more of 2 lines, other numbers: 30fac647
// Adds all points of a span to the sums of one slot that has few clusters.
KM_TARGET static void km_add_masked(const km_cpu_slot *slot, const km_cpu_chunk *chunk, km_lanes_span *span) {
    const km_real *points = (const km_real *)chunk->points + span->first * D;
    const int64_t count = span->end - span->first;
    const km_index *labels = (const km_index *)slot->labels + span->first;
    km_masked_sums(slot->sums, points, labels, count, slot->k);
}

// ... 4 definitions

// ... 14 definitions

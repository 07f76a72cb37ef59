// Of the text of {features: 4, clusters: 2..8, type: float64, target: cpu:avx512}: Numbers and types; The pass; The finishing pass
// "..." stands for what a template or an earlier part shows.

// ... 20 definitions

// Keeps a loaded value in a register: compilers would load it again for each use.
#define KM_PIN(x) __asm__("" : "+v"(x))
// Some headers fill unmasked forms with an undefined vector, and warn of it: a full mask gives the same instruction.
typedef __m512i km_ints; // as many integers as km_vec has reals, of their size
typedef __m512d km_vec;
#define KM_LOAD(from) _mm512_loadu_pd(from)
#define KM_STORE(to, x) _mm512_storeu_pd(to, x)
#define KM_SPLAT(value) _mm512_set1_pd(value)
#define KM_ADD(a, b) _mm512_add_pd(a, b)
#define KM_SUB(a, b) _mm512_sub_pd(a, b)
#define KM_FMA(a, b, c) _mm512_fmadd_pd(a, b, c)
#define KM_MIN(a, b) _mm512_maskz_min_pd((__mmask8)-1, a, b)
#define KM_INTS(value) _mm512_set1_epi64(value)
#define KM_INTS_ADD(a, b) _mm512_add_epi64(a, b)
// Where score > best: best and index become score and j.
#define KM_KEEP(best, index, score, j)                                                                       \
    index = _mm512_mask_mov_epi64(index, _mm512_cmp_pd_mask(score, best, _CMP_GT_OQ), j);                    \
    best = _mm512_maskz_max_pd((__mmask8)-1, score, best)
#define KM_LOAD_INTS(from) _mm512_loadu_si512((const void *)(from))
#define KM_PUT_INTS(to, index) _mm512_storeu_si512((void *)(to), index)
#define KM_PUT_LABELS_2(to, a, b)                                                                            \
    _mm_storel_epi64((__m128i *)(void *)(to), _mm512_maskz_cvtepi64_epi8((__mmask8)-1, a));                  \
    _mm_storel_epi64((__m128i *)(void *)((to) + LANES), _mm512_maskz_cvtepi64_epi8((__mmask8)-1, b))
#define KM_LOAD_DOUBLES(from) _mm512_loadu_pd(from)
#define KM_D_GATHER(from) _mm512_i32gather_pd(KM_SOA_OFFSETS, from, 8)
#define KM_SQRT(x) _mm512_maskz_sqrt_pd((__mmask8)-1, x)
// a / b, 0 where b is 0.
#define KM_QUOTIENT(a, b) _mm512_maskz_div_pd(_mm512_cmp_pd_mask(b, _mm512_setzero_pd(), _CMP_GT_OQ), a, b)
// Masks of the points that have a label: counts and sums of doubles of those points.
typedef __mmask8 km_mask;
#define KM_STORE_WIDE(to, x) KM_STORE(to, x)
#define KM_LOAD_LABELS(from)                                                                                 \
    _mm512_maskz_cvtepi32_epi64((__mmask8)-1, _mm256_loadu_si256((const __m256i *)(const void *)(from)))
#define KM_EQUAL(a, b) _mm512_cmpeq_epi64_mask(a, b)
#define KM_COUNT_WHERE(count, where) count = _mm512_mask_add_epi64(count, where, count, _mm512_set1_epi64(1))
#define KM_D_ADD_WHERE(sum, where, from) KM_D_ADD_OWN(sum, where, from)
#define KM_SUM_INTS(x) _mm512_reduce_add_epi64(x)
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

// ... 23 definitions

// Adds all points of a span to the sums of one slot that has few clusters.
KM_TARGET static void km_add_masked(const km_cpu_slot *slot, const km_cpu_chunk *chunk, km_lanes_span *span) {
    const km_real *points = (const km_real *)chunk->points + span->first * D;
    const int64_t count = span->end - span->first;
    const km_index *labels = (const km_index *)slot->labels + span->first;
    km_masked_sums(slot->sums, points, labels, count, slot->k);
}

// ... 4 definitions

// ... 14 definitions

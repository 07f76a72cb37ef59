// Of the text of prebuilt lanes avx512_float32_few: All
// "..." stands for what a template or an earlier part shows.

// ... 18 definitions

// Features. Every kernel sets it first, from its arguments.
static _Thread_local __attribute__((tls_model("initial-exec"))) int D;
#define PITCH ((int)KM_CPU_PITCH(D))
#define ROW KM_ROW(D)
enum {
    D_MAX = 64, // features at most
    ROW_MAX = KM_ROW(D_MAX),
    LANES = 16,           // reals of a vector
    VECTORS = 4,       // vectors of points worked on at a time
    SOA_POINTS = 64, // points of an SoA group
    TILE = 4,             // centroids worked on at a time
    SPAN = 1 // SoA groups that stay in the cache while every slot works on them
};

// ... 1 definition

// Keeps a loaded value in a register: compilers would load it again for each use.
#define KM_PIN(x) __asm__("" : "+v"(x))
// Some headers fill unmasked forms with an undefined vector, and warn of it: a full mask gives the same instruction.
typedef __m512i km_ints; // as many integers as km_vec has reals, of their size
typedef __m512 km_vec;
#define KM_LOAD(from) _mm512_loadu_ps(from)
#define KM_STORE(to, x) _mm512_storeu_ps(to, x)
#define KM_SPLAT(value) _mm512_set1_ps(value)
#define KM_ADD(a, b) _mm512_add_ps(a, b)
#define KM_SUB(a, b) _mm512_sub_ps(a, b)
#define KM_MUL(a, b) _mm512_mul_ps(a, b)
#define KM_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define KM_MIN(a, b) _mm512_maskz_min_ps((__mmask16)-1, a, b)
#define KM_INTS(value) _mm512_set1_epi32(value)
#define KM_INTS_ADD(a, b) _mm512_add_epi32(a, b)
// Where score > best: best and index become score and j.
#define KM_KEEP(best, index, score, j)                                                                       \
    index = _mm512_mask_mov_epi32(index, _mm512_cmp_ps_mask(score, best, _CMP_GT_OQ), j);                    \
    best = _mm512_maskz_max_ps((__mmask16)-1, score, best)
#define KM_LOAD_INTS(from) _mm512_loadu_si512((const void *)(from))
#define KM_PUT_INTS(to, index) _mm512_storeu_si512((void *)(to), index)
#define KM_PUT_LABELS_2(to, a, b)                                                                            \
    _mm_storeu_si128((__m128i *)(void *)(to), _mm512_maskz_cvtepi32_epi8((__mmask16)-1, a));                 \
    _mm_storeu_si128((__m128i *)(void *)((to) + LANES), _mm512_maskz_cvtepi32_epi8((__mmask16)-1, b))
#define KM_LOAD_DOUBLES(from) _mm512_maskz_cvtps_pd((__mmask8)-1, _mm256_loadu_ps(from))
#define KM_D_GATHER(from) _mm512_maskz_cvtps_pd((__mmask8)-1, _mm256_i32gather_ps(from, KM_SOA_OFFSETS, 4))
// 1 / sqrt(x), 0 where squares underflow. The instruction gives 14 bits, and a step of Newton the rest: a fifth
// of the time of a root and a division.
#define KM_INVERSE_ROOT(x) km_inverse_root(x)
KM_TARGET static inline __m512 km_inverse_root(__m512 x) {
    const __m512 rough =
        _mm512_maskz_rsqrt14_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(1e-37f), _CMP_GT_OQ), x);
    const __m512 rest = _mm512_fnmadd_ps(_mm512_mul_ps(x, rough), rough, _mm512_set1_ps(1));
    return _mm512_fmadd_ps(_mm512_mul_ps(rough, _mm512_set1_ps(0.5f)), rest, rough);
}
// Takes a squared distance into the least and the second-least so far. Equal ones keep the lower index.
#define KM_F_KEEP_NEAREST(first, second, index, square, j)                                                   \
    index = _mm512_mask_mov_epi32(index, _mm512_cmp_ps_mask(square, first, _CMP_LT_OQ), j);                  \
    second = _mm512_maskz_min_ps((__mmask16)-1, second, _mm512_maskz_max_ps((__mmask16)-1, square, first));  \
    first = _mm512_maskz_min_ps((__mmask16)-1, square, first)
// Stores past the caches, to whole lines. KM_STREAM_END goes before other threads read.
#define KM_STREAM_INTS(to, x) _mm512_stream_si512((__m512i *)(void *)(to), x)
#define KM_STREAM_END _mm_sfence()
#define KM_ROUND(x) _mm512_maskz_cvtps_epi32((__mmask16)-1, x)
// Non-zero where a is not below b.
#define KM_ANY_ABOVE(a, b) (int)_mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ)
// Masks of the points that have a label: counts and sums of doubles of those points.
typedef __mmask16 km_mask;
#define KM_STORE_WIDE(to, x)                                                                                 \
    KM_D_STORE(to, _mm512_maskz_cvtps_pd((__mmask8)-1, _mm512_castps512_ps256(x)));                          \
    KM_D_STORE((to) + DOUBLES, _mm512_maskz_cvtps_pd((__mmask8)-1, _mm512_extractf32x8_ps(x, 1)))
#define KM_LOAD_LABELS(from) KM_LOAD_INTS(from)
#define KM_EQUAL(a, b) _mm512_cmpeq_epi32_mask(a, b)
#define KM_D_ADD_WHERE(sum, where, from)                                                                     \
    KM_D_ADD_OWN(sum, where, from);                                                                          \
    KM_D_ADD_OWN(sum, (where) >> 8, (from) + DOUBLES)
// The same for two vectors of doubles, and for integers, whose total may need more than 32 bits.
#define KM_D_ADD_BOTH(sum, where, low, high)                                                                 \
    sum = _mm512_mask_add_pd(sum, (__mmask8)(where), sum, low);                                              \
    sum = _mm512_mask_add_pd(sum, (__mmask8)((where) >> 8), sum, high)
#define KM_ADD_INTS_WHERE(sum, where, x) sum = _mm512_mask_add_epi32(sum, where, sum, x)
#define KM_SUM_WIDE(x)                                                                                       \
    KM_D_SUM(_mm512_add_pd(_mm512_maskz_cvtepi32_pd((__mmask8)-1, _mm512_castsi512_si256(x)),                \
                           _mm512_maskz_cvtepi32_pd((__mmask8)-1, _mm512_extracti64x4_epi64(x, 1))))
// Eight labels as 64-bit integers; eight of sixteen doubles, picked by label.
#define KM_LOAD_LONGS(from)                                                                                  \
    _mm512_maskz_cvtepi32_epi64((__mmask8)-1, _mm256_loadu_si256((const __m256i *)(const void *)(from)))
#define KM_D_PICK(from, index) _mm512_permutex2var_pd(KM_D_LOAD(from), index, KM_D_LOAD((from) + DOUBLES))
// int16 scores. Integers of 16 bits lie two in a 32-bit lane: features of points, scores, indices.
#define KM_TARGET_INT16 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma")))
// Makes compilers load again: they would keep all points in registers, and spill them.
#define KM_LOAD_ANEW __asm__ volatile("" : : : "memory")
// Unrolls loops over feature pairs whose length is known and short.
#define KM_UNROLL _Pragma("GCC unroll 2")
#define KM_INT16_SPLAT(value) _mm512_set1_epi16((short)(value))
#define KM_INT16_ADD(a, b) _mm512_add_epi16(a, b)
// sum + the products of both halves of x and c.
#define KM_INT16_DOT(sum, x, c) _mm512_dpwssd_epi32(sum, x, c)
// x * scale and y * other, rounded to 16 bits, as the halves of one lane. Adding 1.5 * 2^23 leaves no bit below one.
#define KM_ROUNDED(x, scale) _mm512_castps_si512(_mm512_fmadd_ps(x, scale, _mm512_set1_ps(0x1.8p23f)))
#define KM_INT16_PAIR(x, scale, y, other)                                                                    \
    _mm512_mask_blend_epi16(0xaaaaaaaa, KM_ROUNDED(x, scale),                                                \
                            _mm512_maskz_slli_epi32((__mmask16)-1, KM_ROUNDED(y, other), 16))
// The high halves of two vectors of 32-bit sums: those of `low` become the low halves.
#define KM_INT16_HIGH(low, high)                                                                             \
    _mm512_mask_shuffle_epi8(                                                                                \
        high, 0x3333333333333333, low,                                                                       \
        _mm512_set4_epi32((int)0x80800f0e, (int)0x80800b0a, (int)0x80800706, (int)0x80800302))
// The numbers of lanes; the lowest index among the lanes that hold the largest value.
#define KM_LANE_NUMBERS _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define KM_LOWEST(best, index)                                                                               \
    _mm512_mask_reduce_min_epi32(                                                                            \
        _mm512_cmp_ps_mask(best, _mm512_set1_ps(_mm512_reduce_max_ps(best)), _CMP_EQ_OQ), index)
// Takes a score into the largest and the second-largest so far. Equal ones keep the lower index.
#define KM_INT16_KEEP(best, second, index, score, j)                                                         \
    do {                                                                                                     \
        const __m512i score_ = score;                                                                        \
        index = _mm512_mask_mov_epi16(index, _mm512_cmpgt_epi16_mask(score_, best), j);                      \
        second = _mm512_max_epi16(second, _mm512_min_epi16(score_, best));                                   \
        best = _mm512_max_epi16(score_, best);                                                               \
    } while (0)
// Stores 16-bit indices, two in a lane, as labels of a byte.
#define KM_INT16_PUT_LABELS(to, index)                                                                       \
    KM_PUT_LABELS_2(to, index, _mm512_maskz_srli_epi32((__mmask16)-1, index, 16))
// A bit for each half whose second-largest score lies within `margin` of the largest.
#define KM_INT16_AMBIGUOUS(best, second, margin)                                                             \
    (uint64_t) _mm512_cmple_epi16_mask(_mm512_subs_epi16(best, second), KM_INT16_SPLAT(margin))
// The point of such a bit: low halves are the points of the first of two vectors, high halves those of the second.
#define KM_INT16_POINT(bit) ((bit) / 32 * 32 + (bit) % 2 * LANES + (bit) % 32 / 2)
// Stores the indices of two vectors, or of four, as labels of a byte. Four of floats are stored at once, so that they
// may be loaded at once.
#define KM_BYTES(x) _mm512_maskz_cvtepi32_epi8((__mmask16)-1, x)
#define KM_PUT_LABELS_4(to, a, b, c, d)                                                                      \
    _mm512_storeu_si512(                                                                                     \
        (void *)(to),                                                                                        \
        _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_inserti128_si256(                                   \
                               _mm256_castsi128_si256(KM_BYTES(a)), KM_BYTES(b), 1)),                        \
                           _mm256_inserti128_si256(_mm256_castsi128_si256(KM_BYTES(c)), KM_BYTES(d), 1), 1))
// A bit for each of 64 bytes that are j.
#define KM_OWN(labels, j)                                                                                    \
    _mm512_cmpeq_epi8_mask(_mm512_loadu_si512((const void *)(labels)), _mm512_set1_epi8((char)(j)))
// A bit for each of 64 bytes that differ.
#define KM_DIFFER(a, b)                                                                                      \
    _mm512_cmpneq_epi8_mask(_mm512_loadu_si512((const void *)(a)), _mm512_loadu_si512((const void *)(b)))

// ... 6 definitions

// int16 scores: an instruction multiplies two features, and 64 points are scored at a time. Points whose largest scores
// lie within the margin are ambiguous. They are scored again as floats.
enum {
    INT16_TILE = 4,   // centroids worked on at a time
    AMBIGUOUS_MAX = 4 // ambiguous points of an SoA group up to which each is scored by itself
};
#define FEATURE_PAIRS ((D + 1) / 2)

// ... 24 definitions

KM_TARGET static void km_pass(const km_cpu_chunk *chunk) {
    km_lanes_span span;
    km_cpu_slot *together[SLOTS_TOGETHER];
    D = (int)chunk->d;
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

// ... 7 definitions

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
// Distances to all centroids are float, in the difference form: their relative error is at most (D + 2) 2^-24. Points
// whose second-nearest centroid is no farther than that beyond the nearest are ambiguous, and are resolved in double.
// Squared distances are summed in double, from the stored values; distances and margins are float.
// Doubles of a point or centroid: D, then zeros to whole vectors. Points of a span, which stays in the first cache.
#define FINISH_ROW ((D + DOUBLES - 1) / DOUBLES * DOUBLES)
#define FINISH_SPAN km_finish_points()
enum {
    FINISH_TILE = 4, // centroids at a time, each with two vectors
    FINISH_SPAN_MAX = 512,
    FINISH_DOUBLES = 4096,
    MARGIN_SCALE = 1 << 25, // of margins as integers: 32 bits hold the sum of a span's margins in a lane
    PAIR_POINTS = 2 * LANES // points of two vectors
};

// ... 19 definitions

KM_TARGET static void km_finish(const km_cpu_finish *finish) {
    km_finish_span span;
    D = (int)finish->d;
    memset(span.rows, 0, sizeof span.rows);
    for (span.first = 0; span.first < finish->points_count; span.first += FINISH_SPAN) {
        span.count = finish->points_count - span.first;
        if (span.count > FINISH_SPAN) span.count = FINISH_SPAN;
        span.rows_count = 0;
        for (int64_t m = 0; m < finish->models_count; m++) {
            const km_cpu_finish_model *model = &finish->models[m];
            if (model->k == 1 && model->sums && !model->squares) { // all points are its own
                memset(span.labels, 0, sizeof span.labels);
                memset(span.margins, 0, sizeof span.margins);
            } else {
                km_finish_assign(&span, finish, model);
            }
            if (model->labels) km_finish_labels(model->labels + span.first, span.labels, span.count);
            if (model->sums) km_finish_sum(&span, finish, model);
        }
    }
    KM_STREAM_END;
}
// ==== What a program takes
// The engine looks for this symbol, whatever the spec is called and lists.
#ifdef __cplusplus
extern "C"
#endif
    const km_cpu_kernels km_lanes_avx512_float32_few = {
        KM_CPU_ABI,           sizeof(km_real),    3,          256,  1, D_MAX,  SOA_POINTS,
        8, 0, 1, km_pass, km_seed,  km_finish};

// Of the text of prebuilt lanes avx512_float32_few: All
// "..." stands for what a template or an earlier part shows.

// ... 18 definitions

// Features of the work in hand, which every kernel takes from its arguments first.
static _Thread_local __attribute__((tls_model("initial-exec"))) int D;
#define PITCH ((int)KM_CPU_PITCH(D))
#define ROW KM_ROW(D)
enum {
    D_MAX = 64, // features at most
    ROW_MAX = KM_ROW(D_MAX),
    LANES = 16,     // reals of a vector
    VECTORS = 4, // vectors of points worked on at a time
    GROUP = 64,     // points of a group
    TILE = 4,       // centroids worked on at a time
    SPAN = 1 // groups that stay in the cache while every slot works on them
};

// ... 1 definition

// Keeps a value that was loaded in a register: compilers would load it anew for each use.
#define KM_PIN(x) __asm__("" : "+v"(x))
// Some headers fill unmasked forms with an undefined vector, and warn of it: a full mask gives the same instruction.
typedef __m512i km_ints; // as many integers as km_vec has reals, of the same size
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
#define KM_D_GATHER(from) _mm512_maskz_cvtps_pd((__mmask8)-1, _mm256_i32gather_ps(from, KM_GROUPS, 4))
// 1 / sqrt(x), 0 where squares get lost: 14 bits, which a step of Newton's makes as good as float holds. A fifth of the
// time of a root and a division.
#define KM_INVERSE_ROOT(x) km_inverse_root(x)
KM_TARGET static inline __m512 km_inverse_root(__m512 x) {
    const __m512 rough =
        _mm512_maskz_rsqrt14_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(1e-37f), _CMP_GT_OQ), x);
    const __m512 rest = _mm512_fnmadd_ps(_mm512_mul_ps(x, rough), rough, _mm512_set1_ps(1));
    return _mm512_fmadd_ps(_mm512_mul_ps(rough, _mm512_set1_ps(0.5f)), rest, rough);
}
// A squared distance joins the nearest and the second-nearest; equal ones leave the lower index.
#define KM_SECOND(first, second, index, square, j)                                                           \
    index = _mm512_mask_mov_epi32(index, _mm512_cmp_ps_mask(square, first, _CMP_LT_OQ), j);                  \
    second = _mm512_maskz_min_ps((__mmask16)-1, second, _mm512_maskz_max_ps((__mmask16)-1, square, first));  \
    first = _mm512_maskz_min_ps((__mmask16)-1, square, first)
// Past the caches, to whole lines; before other threads look.
#define KM_STREAM_INTS(to, x) _mm512_stream_si512((__m512i *)(void *)(to), x)
#define KM_STREAM_END _mm_sfence()
#define KM_ROUND(x) _mm512_maskz_cvtps_epi32((__mmask16)-1, x)
// Non-zero where a is not below b.
#define KM_ANY_ABOVE(a, b) (int)_mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ)
// Of the points that have a label: how many there are, sums of doubles.
typedef __mmask16 km_mask;
#define KM_STORE_WIDE(to, x)                                                                                 \
    KM_D_STORE(to, _mm512_maskz_cvtps_pd((__mmask8)-1, _mm512_castps512_ps256(x)));                          \
    KM_D_STORE((to) + DOUBLES, _mm512_maskz_cvtps_pd((__mmask8)-1, _mm512_extractf32x8_ps(x, 1)))
#define KM_LOAD_LABELS(from) KM_LOAD_INTS(from)
#define KM_EQUAL(a, b) _mm512_cmpeq_epi32_mask(a, b)
#define KM_D_ADD_WHERE(sum, where, from)                                                                     \
    KM_D_ADD_OWN(sum, where, from);                                                                          \
    KM_D_ADD_OWN(sum, (where) >> 8, (from) + DOUBLES)
// Of two vectors of doubles, and of integers whose sum 32 bits need not hold.
#define KM_D_ADD_BOTH(sum, where, low, high)                                                                 \
    sum = _mm512_mask_add_pd(sum, (__mmask8)(where), sum, low);                                              \
    sum = _mm512_mask_add_pd(sum, (__mmask8)((where) >> 8), sum, high)
#define KM_ADD_INTS_WHERE(sum, where, x) sum = _mm512_mask_add_epi32(sum, where, sum, x)
#define KM_SUM_WIDE(x)                                                                                       \
    KM_D_SUM(_mm512_add_pd(_mm512_maskz_cvtepi32_pd((__mmask8)-1, _mm512_castsi512_si256(x)),                \
                           _mm512_maskz_cvtepi32_pd((__mmask8)-1, _mm512_extracti64x4_epi64(x, 1))))
// Eight labels as wide as doubles; eight of sixteen doubles by label.
#define KM_LOAD_LONGS(from)                                                                                  \
    _mm512_maskz_cvtepi32_epi64((__mmask8)-1, _mm256_loadu_si256((const __m256i *)(const void *)(from)))
#define KM_D_PICK(from, index) _mm512_permutex2var_pd(KM_D_LOAD(from), index, KM_D_LOAD((from) + DOUBLES))
// Integers of 16 bits: those of points, of scores and of indices lie in pairs, as halves of as many integers as km_vec
// has reals.
#define KM_TARGET_PAIRS __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma")))
// Nothing that was loaded before stays in registers: compilers would keep all points there, and spill them.
#define KM_LOAD_ANEW __asm__ volatile("" : : : "memory")
// Compilers unroll what is known and short.
#define KM_UNROLL _Pragma("GCC unroll 2")
#define KM_WORDS(value) _mm512_set1_epi16((short)(value))
#define KM_WORDS_ADD(a, b) _mm512_add_epi16(a, b)
// sum + products of both halves of x and c.
#define KM_PAIRS_ADD(sum, x, c) _mm512_dpwssd_epi32(sum, x, c)
// x * scale and y * other, rounded to 16 bits: halves of one integer. What is added leaves no bit below one.
#define KM_ROUNDED(x, scale) _mm512_castps_si512(_mm512_fmadd_ps(x, scale, _mm512_set1_ps(0x1.8p23f)))
#define KM_PAIR(x, scale, y, other)                                                                          \
    _mm512_mask_blend_epi16(0xaaaaaaaa, KM_ROUNDED(x, scale),                                                \
                            _mm512_maskz_slli_epi32((__mmask16)-1, KM_ROUNDED(y, other), 16))
// Their high halves: those of low are the low halves.
#define KM_HIGH_WORDS(low, high)                                                                             \
    _mm512_mask_shuffle_epi8(                                                                                \
        high, 0x3333333333333333, low,                                                                       \
        _mm512_set4_epi32((int)0x80800f0e, (int)0x80800b0a, (int)0x80800706, (int)0x80800302))
// The numbers of lanes; of those that hold the largest value, the lowest index.
#define KM_LANE_NUMBERS _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define KM_LOWEST(best, index)                                                                               \
    _mm512_mask_reduce_min_epi32(                                                                            \
        _mm512_cmp_ps_mask(best, _mm512_set1_ps(_mm512_reduce_max_ps(best)), _CMP_EQ_OQ), index)
// A score joins the largest and the second-largest; equal ones leave the lower index.
#define KM_KEEP_WORDS(best, second, index, score, j)                                                         \
    do {                                                                                                     \
        const __m512i score_ = score;                                                                        \
        index = _mm512_mask_mov_epi16(index, _mm512_cmpgt_epi16_mask(score_, best), j);                      \
        second = _mm512_max_epi16(second, _mm512_min_epi16(score_, best));                                   \
        best = _mm512_max_epi16(score_, best);                                                               \
    } while (0)
// Labels of a byte from indices of two vectors.
#define KM_PUT_WORDS(to, index) KM_PUT_LABELS_2(to, index, _mm512_maskz_srli_epi32((__mmask16)-1, index, 16))
// A bit for each half where the second-largest is no more than `close` below the largest.
#define KM_CLOSE_WORDS(best, second, close)                                                                  \
    (uint64_t) _mm512_cmple_epi16_mask(_mm512_subs_epi16(best, second), KM_WORDS(close))
// The point of a bit: low halves are points of the first vector of two, high halves of the second.
#define KM_WORD_POINT(bit) ((bit) / 32 * 32 + (bit) % 2 * LANES + (bit) % 32 / 2)
// Indices become labels of a byte: of two vectors, of four.
#define KM_PUT_LABELS_4(to, a, b, c, d)                                                                      \
    KM_PUT_LABELS_2(to, a, b);                                                                               \
    KM_PUT_LABELS_2((to) + 2 * LANES, c, d)
// A bit for each of 64 bytes that are j.
#define KM_OWN(labels, j)                                                                                    \
    _mm512_cmpeq_epi8_mask(_mm512_loadu_si512((const void *)(labels)), _mm512_set1_epi8((char)(j)))
// A bit for each of 64 bytes that differ.
#define KM_DIFFER(a, b)                                                                                      \
    _mm512_cmpneq_epi8_mask(_mm512_loadu_si512((const void *)(a)), _mm512_loadu_si512((const void *)(b)))

// ... 6 definitions

// Scores of 16-bit integers, two features a product and 64 points at a time. What rounding may hide is decided again.
enum {
    PAIR_TILE = 4, // centroids worked on at a time
    CLOSE_MOST = 4 // close points of a group up to which each is decided alone
};
#define PAIRS ((D + 1) / 2)

// ... 24 definitions

KM_TARGET static void km_pass(const km_cpu_chunk *block) {
    km_lanes_span span;
    km_cpu_slot *together[TOGETHER];
    D = (int)block->d;
    km_rows_clear(&span);
    for (int64_t s = 0; s < block->slots_count; s++) block->slots[s].changed = block->slots[s].decided = 0;
    for (int64_t first = 0; first < block->points_count; first += SPAN * GROUP) {
        int count = 0;
        span.first = first;
        span.end = first + SPAN * GROUP < block->points_count ? first + SPAN * GROUP : block->points_count;
        span.has_rows = 0;
        span.single = 0;
        km_fetch_start(&span, block);
        if (block->scales)
            km_pairs_make(span.pairs, (const km_real *)block->points + first * D, block->scales,
                          (span.end - first + GROUP - 1) / GROUP);
        for (int64_t s = 0; s < block->slots_count; s++) {
            km_cpu_slot *slot = &block->slots[s];
            km_slot_span(slot, block, &span);
            if (slot->mode != KM_CPU_MOVE && slot->sums) {
                together[count++] = slot;
            }
            if (count == TOGETHER || (count && s + 1 == block->slots_count)) {
                km_add_span(together, count, block, &span);
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
// Distances to all centroids are float, in the difference form: their relative error is at most (D + 2) 2^-24. Where
// the second-nearest is farther than the nearest by more than that, the nearest is certain; other points are looked at
// again in double. Squared distances are summed in double, from the stored values; distances and margins are float.
// Doubles of a point or centroid: D, then zeros to whole vectors; and points that stay in the first cache.
#define FINISH_ROW ((D + DOUBLES - 1) / DOUBLES * DOUBLES)
#define FINISH_SPAN km_finish_points()
enum {
    FINISH_TILE = 4, // centroids at a time, each with two vectors
    FINISH_SPAN_MAX = 512,
    FINISH_DOUBLES = 4096,
    MARGIN_UNITS = 1 << 25, // so that 32 bits hold a lane's sum of a span
    PAIR = 2 * LANES // points of two vectors
};

// ... 18 definitions

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
// What the engine looks for, whatever the spec is called and lists: one module serves them all.
#ifdef __cplusplus
extern "C"
#endif
    const km_cpu_kernels km_lanes_avx512_float32_few = {KM_CPU_ABI, sizeof(km_real), 3,         256,   1,
                                    D_MAX,    GROUP,           8, 0, 1,
                                    km_pass,    km_seed,         km_finish};

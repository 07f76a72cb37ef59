// Of the text of prebuilt lanes avx512_float32_few: All
// "..." stands for what a template or an earlier part shows, or what comes again.

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
// ... lines of a template
// int16 scores. Integers of 16 bits lie two in a 32-bit lane: features of points, scores, indices.
#define KM_TARGET_INT16 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma")))
// Makes compilers load again: they would keep all points in registers, and spill them.
#define KM_LOAD_ANEW __asm__ volatile("" : : : "memory")
// Unrolls loops over feature pairs whose length is known and short.
#define KM_UNROLL _Pragma("GCC unroll 2")
// ... lines of a template
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

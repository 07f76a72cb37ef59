// Of the text of prebuilt sparse_lanes avx512_float32: All
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 22 definitions

#define KM_INLINE KM_TARGET static inline __attribute__((always_inline))
// ... lines of a template
// ... lines of a template
#include "runtime/cpu/sparse.h"

// ... 9 definitions

// Takes the scores of a group for columns of one run. `slack`: of each row, what rounding may hide for a centroid of
// |c| = 1; `norm` and `least`: |c| at most, and what else rounding may hide.
KM_INLINE void km_search(run_found *found, int64_t at, const km_real *scores, const run_part *part,
                         const km_real *slack, km_real norm, km_real least) {
    uint64_t ambiguous = 0;
    km_vec first_0 = KM_SPLAT(INFINITY), second_0 = first_0;
    km_ints index_0 = KM_INTS(0);
    if (!part->is_first) {
        first_0 = KM_LOAD(found->first + at + 0 * LANES);
        second_0 = KM_LOAD(found->second + at + 0 * LANES);
        memcpy(&index_0, found->label + at + 0 * LANES, sizeof index_0);
    }
    const km_ints one = KM_INTS(1);
    km_ints j = KM_INTS((km_int)part->index);
    for (int64_t c = part->begin; c < part->end; c++) {
        const km_vec score_0 = KM_LOAD(scores + c * GROUP + 0 * LANES);
        KM_F_KEEP_NEAREST(first_0, second_0, index_0, score_0, j);
        j = KM_INTS_ADD(j, one);
    }
    memcpy(found->label + at + 0 * LANES, &index_0, sizeof index_0);
    if (!part->is_last) {
        KM_STORE(found->first + at + 0 * LANES, first_0);
        KM_STORE(found->second + at + 0 * LANES, second_0);
        return;
    }
    const km_vec norms = KM_SPLAT(norm), leasts = KM_SPLAT(least);
    const km_vec hidden_0 = KM_FMA(KM_LOAD(slack + 0 * LANES), norms, leasts);
    ambiguous |= KM_NOT_BELOW(KM_ADD(first_0, hidden_0), second_0) << (0 * LANES);
    found->ambiguous[at / 64] |= ambiguous << at % 64;
}

// ... 44 definitions

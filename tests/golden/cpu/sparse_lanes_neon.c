// Of the text of prebuilt sparse_lanes neon_float32: All
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 22 definitions

#define KM_INLINE KM_TARGET static inline __attribute__((always_inline))
// Transposes `count` rows of as many numbers, `from_step` and `to_step` apart.
#define KM_TRANSPOSE_PLAIN(to, to_step, from, from_step, count)                                              \
    for (int km_i = 0; km_i < (count); km_i++)                                                               \
        for (int km_j = 0; km_j < (count); km_j++)                                                           \
    (to)[(km_i) * (to_step) + km_j] = (from)[(km_j) * (from_step) + km_i]
#define KM_TRANSPOSE(to, to_step, from, from_step) KM_TRANSPOSE_PLAIN(to, to_step, from, from_step, LANES)
#define KM_TRANSPOSE_DOUBLES(to, to_step, from, from_step)                                                   \
    KM_TRANSPOSE_PLAIN(to, to_step, from, from_step, DOUBLES)
#include "runtime/cpu/sparse.h"

// ... 54 definitions

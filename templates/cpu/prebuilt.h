// SPDX-License-Identifier: MIT
// Numbers, types and vector operations of kernels that are only compiled into the library, for one type and instruction
// set.
//@ need type int_type lanes vec target_more float64 prunes
//@ verbatim cpu/abi.h
#include <math.h>
#include <stddef.h>
#include <string.h>

typedef $type km_real;
typedef $int_type km_int; // an integer of a real's size

enum { LANES = $lanes }; // reals of a vector

//@ include cpu/vec/$vec.h

#define KM_INLINE KM_TARGET static inline __attribute__((always_inline))

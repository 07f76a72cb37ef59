// SPDX-License-Identifier: MIT
// The algorithms hamerly and elkan for any machine.
#include "bounds.h"
#include "../../templates/cpu/abi.h"
#include <math.h>
#include <string.h>
#define TARGET

#define WORDS_DOUBLE 0
#define NAME(stem) stem##_float
#include "filter_words.h"
#include "bounds_words.h"
#include "bounds_kernels.h"
#undef NAME
#undef WORDS_DOUBLE

#define WORDS_DOUBLE 1
#define NAME(stem) stem##_double
#include "filter_words.h"
#include "bounds_words.h"
#include "bounds_kernels.h"
#undef NAME
#undef WORDS_DOUBLE

const cpu_bounds_kernels km_cpu_bounds_generic[2] = {{pass_float, prepare_float, gaps_float},
                                                     {pass_double, prepare_double, gaps_double}};

// SPDX-License-Identifier: MIT
// The filter for AVX-512.
#include "filter.h"
#include "../../templates/cpu/abi.h"
#include <math.h>
#if defined(__x86_64__)
#include <immintrin.h>
#define WORDS_AVX512
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,popcnt,bmi")))

#define WORDS_DOUBLE 0
#define NAME(stem) stem##_float
#include "filter_words.h"
#include "filter_kernels.h"
#include "filter_fill.h"
#undef NAME
#undef WORDS_DOUBLE
#undef FILTER_INLINE

#define WORDS_DOUBLE 1
#define NAME(stem) stem##_double
#include "filter_words.h"
#include "filter_kernels.h"
#include "filter_fill.h"
#undef NAME
#undef WORDS_DOUBLE
#undef FILTER_INLINE

const cpu_filter_kernels km_cpu_filter_avx512[2] = {{filter_float, keys_float, fill_float},
                                                    {filter_double, keys_double, fill_double}};
#endif

// Of the text of prebuilt load avx2_float64: All
// "..." stands for what a template or an earlier part shows.

// ... 21 definitions

// For kernels of the library alone (tiles, bounds, silhouette). Comparisons give a bit for each lane.
#define KM_D_SQRT(x) _mm256_sqrt_pd(x)
typedef km_vec km_choice; // lanes that are chosen: KM_WHERE takes these from a, the others from b
#define KM_LESS(a, b) _mm256_cmp_pd(a, b, _CMP_LT_OQ)
#define KM_WHERE(where, a, b) _mm256_blendv_pd(b, a, where)
#define KM_REACHES(a, b) _mm256_cmp_pd(a, b, _CMP_GE_OQ)
#define KM_COUNT_CHOSEN(count, where) KM_COUNT_WHERE(count, _mm256_castpd_si256(where))
// A minimum of which one operand is no number is the second operand.
#define KM_LEAST_UNLESS(least, where, x) least = _mm256_min_pd(_mm256_or_pd(x, where), least)
#define KM_KEEP_WHERE(kept, where, x) kept = _mm256_or_pd(kept, _mm256_and_pd(x, where))
#define KM_DIFFERENT(a, b) (~(uint64_t)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(a, b))) & 15)
#define KM_MUL_REAL(a, b) _mm256_mul_pd(a, b)
#define KM_DIVIDE(a, b) _mm256_div_pd(a, b)
#define KM_MAX(a, b) _mm256_max_pd(a, b)
#define KM_ABS(x) _mm256_andnot_pd(_mm256_set1_pd(-0.0), x)
#define KM_ABOVE(a, b) ((uint64_t)(unsigned)_mm256_movemask_pd(_mm256_cmp_pd(a, b, _CMP_GT_OQ)))
#define KM_NOT_BELOW(a, b) ((uint64_t)(unsigned)_mm256_movemask_pd(_mm256_cmp_pd(a, b, _CMP_NLT_UQ)))
// Values base[index] of indices that lie in memory, as int32_t.
#define KM_GATHER(base, index) _mm256_i32gather_pd(base, _mm_loadu_si128((const void *)(index)), 8)
// Floats, whatever the reals are.
enum { FLOATS = 8 };
typedef __m256 km_floats;
#define KM_F_LOAD(from) _mm256_loadu_ps(from)
#define KM_F_STORE(to, x) _mm256_storeu_ps(to, x)
#define KM_F_SPLAT(value) _mm256_set1_ps(value)
#define KM_F_ADD(a, b) _mm256_add_ps(a, b)
#define KM_F_SUB(a, b) _mm256_sub_ps(a, b)
#define KM_F_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define KM_F_MIN(a, b) _mm256_min_ps(a, b)
#define KM_F_MAX(a, b) _mm256_max_ps(a, b)
#define KM_F_NOT_BELOW(a, b) ((uint64_t)(unsigned)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_NLT_UQ)))
// Values base[index] of indices that lie in memory, as int32_t, uint8_t, uint16_t.
#define KM_F_GATHER(base, index) _mm256_i32gather_ps(base, _mm256_loadu_si256((const void *)(index)), 4)
#define KM_F_GATHER_BYTES(base, index)                                                                       \
    _mm256_i32gather_ps(base, _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(index))), 4)
#define KM_F_GATHER_SHORTS(base, index)                                                                      \
    _mm256_i32gather_ps(base, _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)(index))), 4)

// ... 7 definitions

const cpu_load_kernels km_load_avx2_float64 = {{2, sizeof(km_real)}, rows_moments, rows_values, NULL, NULL};

// Of the text of prebuilt load neon_float64: All
// "..." stands for what a template or an earlier part shows.

// ... 21 definitions

// For kernels of the library alone (tiles, bounds, silhouette). Comparisons give a bit for each lane.
#define KM_D_SQRT(x) vsqrtq_f64(x)
static inline uint64_t km_float_bits(uint32x4_t where) {
    const uint32x4_t places = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(where, places));
}
static inline uint64_t km_bits(uint64x2_t where) {
    return (vgetq_lane_u64(where, 0) & 1) | (vgetq_lane_u64(where, 1) & 2);
}
typedef uint64x2_t km_choice; // lanes that are chosen: KM_WHERE takes these from a, the others from b
#define KM_LESS(a, b) vcltq_f64(a, b)
#define KM_WHERE(where, a, b) vbslq_f64(where, a, b)
#define KM_REACHES(a, b) vcgeq_f64(a, b)
#define KM_COUNT_CHOSEN(count, where) KM_COUNT_WHERE(count, where)
#define KM_LEAST_UNLESS(least, where, x) least = vbslq_f64(where, least, vminq_f64(x, least))
#define KM_KEEP_WHERE(kept, where, x) kept = vbslq_f64(where, x, kept)
#define KM_DIFFERENT(a, b) (km_bits(vceqq_s64(a, b)) ^ 3)
#define KM_MUL_REAL(a, b) vmulq_f64(a, b)
#define KM_DIVIDE(a, b) vdivq_f64(a, b)
#define KM_MAX(a, b) vmaxq_f64(a, b)
#define KM_ABS(x) vabsq_f64(x)
#define KM_ABOVE(a, b) km_bits(vcgtq_f64(a, b))
#define KM_NOT_BELOW(a, b) (km_bits(vcltq_f64(a, b)) ^ 3)
// Values base[index] of indices that lie in memory.
#define KM_GATHER(base, index) ((float64x2_t){(base)[(index)[0]], (base)[(index)[1]]})
// Floats, whatever the reals are.
enum { FLOATS = 4 };
typedef float32x4_t km_floats;
#define KM_F_LOAD(from) vld1q_f32(from)
#define KM_F_STORE(to, x) vst1q_f32(to, x)
#define KM_F_SPLAT(value) vdupq_n_f32(value)
#define KM_F_ADD(a, b) vaddq_f32(a, b)
#define KM_F_SUB(a, b) vsubq_f32(a, b)
#define KM_F_FMA(a, b, c) vfmaq_f32(c, a, b)
#define KM_F_MIN(a, b) vminq_f32(a, b)
#define KM_F_MAX(a, b) vmaxq_f32(a, b)
#define KM_F_NOT_BELOW(a, b) km_float_bits(vmvnq_u32(vcltq_f32(a, b)))
// Values base[index] of indices that lie in memory, as int32_t, uint8_t, uint16_t.
#define KM_F_GATHER(base, index)                                                                             \
    ((float32x4_t){(base)[(index)[0]], (base)[(index)[1]], (base)[(index)[2]], (base)[(index)[3]]})
#define KM_F_GATHER_BYTES(base, index) KM_F_GATHER(base, (const uint8_t *)(index))
#define KM_F_GATHER_SHORTS(base, index) KM_F_GATHER(base, (const uint16_t *)(index))

// ... 8 definitions

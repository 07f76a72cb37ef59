// Of the text of {features: 12, clusters: 3..12, target: cpu:neon}: Numbers and types; The pass; Seeding; The finishing pass
// "..." stands for what a template or an earlier part shows.

// ... 21 definitions

// Doubles: the finishing pass and the sums of distances.
enum { DOUBLES = 2 };
typedef float64x2_t km_doubles;
#define KM_D_LOAD(from) vld1q_f64(from)
#define KM_D_STORE(to, x) vst1q_f64(to, x)
#define KM_D_SPLAT(value) vdupq_n_f64(value)
#define KM_D_ADD(a, b) vaddq_f64(a, b)
#define KM_D_SUM(x) vaddvq_f64(x)
#define KM_D_SUB(a, b) vsubq_f64(a, b)
#define KM_D_FMA(a, b, c) vfmaq_f64(c, a, b)
typedef int64x2_t km_longs;
#define KM_LONGS(value) vdupq_n_s64(value)
#define KM_PUT_LONGS(to, x) vst1q_s64(to, x)
// Takes a squared distance into the least and the second-least so far. Equal ones keep the lower index.
#define KM_KEEP_NEAREST(first, second, index, square, j)                                                     \
    index = vbslq_s64(vcltq_f64(square, first), j, index);                                                   \
    second = vminq_f64(second, vmaxq_f64(square, first));                                                    \
    first = vminq_f64(square, first)
// A bit for each of 64 bytes that differ. Each byte keeps the bit of its place in eight, then neighbours are added.
static uint64_t km_differ(const uint8_t *a, const uint8_t *b) {
    const uint8x16_t places = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
    uint8x16_t bits[4];
    for (int i = 0; i < 4; i++)
        bits[i] = vbicq_u8(places, vceqq_u8(vld1q_u8(a + 16 * i), vld1q_u8(b + 16 * i)));
    const uint8x16_t sums = vpaddq_u8(vpaddq_u8(bits[0], bits[1]), vpaddq_u8(bits[2], bits[3]));
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(sums, sums)), 0);
}
#define KM_DIFFER(a, b) km_differ(a, b)

// ... 3 definitions

// ... 23 definitions

// ... 8 definitions

// ... 16 definitions

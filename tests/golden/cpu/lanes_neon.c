// Of the text of {features: 12, clusters: 3..12, target: cpu:neon}: Numbers and types; The pass; Seeding; The finishing pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 21 definitions
// ... lines of a template
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

// ... 2 more of 2 lines, other numbers: b7ca986a
// ... 16 definitions

// SPDX-License-Identifier: MIT
// Reads memory once, 16 bytes of a lane at a time, four in flight: the floor of every pass. What was read is used, so
// that the compiler leaves no read out.
extern "C" __global__ void __launch_bounds__(512) km_read(const uint4 *words, long long count, unsigned *out) {
    long long step = (long long)gridDim.x * blockDim.x, i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    unsigned used = 0;
    for (; i + 3 * step < count; i += 4 * step) {
        const uint4 a = __ldcs(words + i), b = __ldcs(words + i + step), c = __ldcs(words + i + 2 * step),
                    d = __ldcs(words + i + 3 * step);
        used ^= a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w;
        used ^= c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
    }
    for (; i < count; i += step) used ^= words[i].x ^ words[i].y ^ words[i].z ^ words[i].w;
    if (used == 0x5bd1e995u) *out = used;
}

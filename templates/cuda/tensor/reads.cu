// SPDX-License-Identifier: MIT
static __device__ __forceinline__ uint4 km_read_four(unsigned address) {
    uint4 words;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "r"(address));
    return words;
}

// SPDX-License-Identifier: MIT
// Counter-based random numbers, for host and device: each is a function of its four words alone.
#ifndef KM_DRAWS_H
#define KM_DRAWS_H

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
KM_BOTH unsigned long long km_mix64(unsigned long long z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

// Uniform in [0, 1), 53 bits.
KM_BOTH double km_draw(unsigned long long seed, unsigned long long restart, unsigned long long pick,
                       unsigned long long candidate) {
    unsigned long long z = km_mix64(seed + 0x9e3779b97f4a7c15ull);
    z = km_mix64(z + restart * 0x9e3779b97f4a7c15ull + 0x632be59bd9b4e019ull);
    z = km_mix64(z + pick * 0x9e3779b97f4a7c15ull + 0xd1b54a32d192ed03ull);
    z = km_mix64(z + candidate * 0x9e3779b97f4a7c15ull + 0x8cb92ba72f3d8dd7ull);
    return (double)(z >> 11) * (1.0 / 9007199254740992.0);
}

#endif

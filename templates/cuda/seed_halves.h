// SPDX-License-Identifier: MIT
// What seeding by halves is given by the host beside km_seed_args.
#ifndef KM_SEED_HALVES_CUDA_H
#define KM_SEED_HALVES_CUDA_H

// Float32 points of so many features, and chains of so many picks.
#define KM_HALVES_SERVES(d, picks) ((d) > 16 && (d) <= 64 && (picks) >= 64)
// Halves of a point: those behind the last feature are 0.
#define KM_HALVES_WIDTH(d) (((d) + 31) / 32 * 32)
// Rows of a chain, the points of a thread at a time, and floats of a row in shared memory.
enum { KM_HALVES_ROWS = 16, KM_HALVES_STEPS = 4 };
#define KM_HALVES_PITCH(d) (((d) + 7) / 8 * 8 + 4)
// Pairs of a point and a row, of a warp, at most; bytes of shared memory of a block.
#define KM_HALVES_PAIRS (KM_HALVES_STEPS * (1 + KM_CANDIDATES_MAX) * 32)
#define KM_HALVES_BYTES(d)                                                                                   \
    (KM_CANDIDATES_MAX * KM_THREADS * 8 + KM_HALVES_ROWS * (8 + 4 + 4 * KM_HALVES_PITCH(d)) +                \
     KM_THREADS / 32 * KM_HALVES_PAIRS * 4 + 16)

#endif

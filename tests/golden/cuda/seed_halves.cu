// Of the text of {features: 24, clusters: "2,300", target: cuda:sm_90}: Seeding of many picks
// "..." stands for what a template or an earlier part shows, or what comes again.

// ==== Seeding of many picks ================================================================================
// Compiled apart: seed_halves
// Seeding by halves: many picks, many features. Few points are nearer to a candidate than to an earlier pick, and
// km_seed_pass reads all of every point to find them. Here points are read as halves, and products of these with the
// last pick and the candidates, on tensor cores, bound distances from below: where a bound leaves no doubt a point's
// distance stays as it is, and only of the others all is read. So the bits are those of km_seed_pass.
// What seeding by halves is given by the host beside km_seed_args.
#ifndef KM_SEED_HALVES_CUDA_H
#define KM_SEED_HALVES_CUDA_H

// ... 1 definition

#endif
enum {
    HALVES_WIDTH = KM_HALVES_WIDTH(D), // halves of a point
    HALVES_BLOCKS = HALVES_WIDTH / 32, // of 32 features: 8 of a lane
    HALVES_ROWS = KM_HALVES_ROWS,      // of a chain: row 0 is the last pick, row 1 + c candidate c
    HALVES_STRIDE =
        KM_THREADS / 2, // half of a block's threads have a subchunk: a thread every so many points of it
    HALVES_STEPS = KM_HALVES_STEPS
};
static_assert(KM_HALVES_SERVES(D, 64) && 1 + KM_CANDIDATES_MAX <= HALVES_ROWS, "a row for each candidate");

// ... 8 definitions
// ... lines of a template
                if (point < args.n) sum = __dadd_rn(sum, fmin(left, (km_real)3.4028234e38f));
            // ... lines of a template

// SPDX-License-Identifier: MIT
// How a K's scores are scaled, and the largest of them.

// Halves above zero compare like the integers of their bits, and that is how scores come here.
static __device__ __forceinline__ unsigned km_max(unsigned a, unsigned b) {
    unsigned larger;
    //@ if max3
    asm("max.u16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
    //@ else
    asm("max.f16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
    //@ end
    return larger;
}

// How the scores of a K are scaled: (score - lowest) * factor. `error` of a scaled one: of the grid and of the halves'
// products.
struct km_scale {
    double lowest, factor, error;
};

// What a score has beside x . (c - p), not scaled.
static __device__ double km_constant(const float *c, const float *middle) {
    double constant = 0;
    _Pragma("unroll 2") for (int f = 0; f < D; f++) {
        const double a = c[f], p = middle[f];
        constant -= 0.5 * (a - p) * (a + p);
    }
    return constant;
}

// Finds the middle of a K's centroids, too.
template <typename PART>
static __device__ km_scale km_find_scale(const km_block<PART> &shared, float *middle, const float *c,
                                         const unsigned char *beaten, int k) {
    const int lane = threadIdx.x % 32;
    for (int f = lane; f < D; f += 32) {
        float low = 3.4e38f, high = -3.4e38f;
        _Pragma("unroll 1") for (int j = 0; j < k; j++) {
            low = beaten[j] ? low : fminf(low, c[j * D + f]);
            high = beaten[j] ? high : fmaxf(high, c[j * D + f]);
        }
        middle[f] = 0.5f * low + 0.5f * high;
    }
    __syncwarp();
    double lowest = 1e308, highest = -1e308, swing = 0, corner = 0; // scores, and what coordinates add to them at most
    _Pragma("unroll 1") for (int j = lane; j < k; j += 32) {
        if (beaten[j]) continue;
        double own = 0, square = 0;
        _Pragma("unroll 2") for (int f = 0; f < D; f++) {
            const double away = (double)c[j * D + f] - middle[f];
            own += fabs(away) * shared.reach[f];
            square = fma(away, away, square);
        }
        corner = fmax(corner, own);
        own = fmin(own, sqrt(square) * shared.radius);
        const double constant = km_constant(c + j * D, middle);
        lowest = fmin(lowest, constant - own);
        highest = fmax(highest, constant + own);
        swing = fmax(swing, own);
    }
    lowest = -km_max_lanes(-lowest);
    highest = km_max_lanes(highest);
    swing = km_max_lanes(swing);
    corner = km_max_lanes(corner);
    const double factor = highest > lowest ? 0.84 * BINADE / (highest - lowest) : 0;

    return {lowest, factor, (corner + swing) * factor * km_power(-21)};
}

// The largest score of each K, for the points of one column: of the first slots, and of the others.
template <typename PART>
static __device__ __forceinline__ void km_find_largest(unsigned *largest, const unsigned (*scores)[WIDTH], int c,
                                                       const unsigned *link) {
    if (int(PART::FIRST) < int(PART::SLOTS)) {
        unsigned other = scores[PART::FIRST % PART::SLOTS][c];
        KM_UNROLL for (int s = PART::FIRST + 1; s < PART::SLOTS; s++) other = km_max(other, scores[s][c]);
        largest[0] = scores[0][c];
        KM_UNROLL for (int s = 1; s < PART::FIRST; s++) largest[0] = km_max(largest[0], scores[s][c]);
        largest[0] = km_max(largest[0], other & link[0]);
        largest[1] = (largest[0] & link[0]) | (other & ~link[0]);
    } else {
        largest[0] = largest[1] = scores[0][c];
        KM_UNROLL for (int s = 1; s < PART::FIRST; s++) largest[0] = km_max(largest[0], scores[s][c]);
    }
    KM_UNROLL for (int level = 0; level < PART::LEVELS; level++)
        largest[0] = km_max(largest[0], __shfl_xor_sync(ALL, largest[0], 4 << level) & link[1 + level]);
}

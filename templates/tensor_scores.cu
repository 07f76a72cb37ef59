// SPDX-License-Identifier: MIT
// Scores in float, of which 15 bits are compared.
//     score_j = x . (c_j - p) - (|c_j|^2 - |p|^2) / 2,  p the middle of the K's centroids,
// scaled so that all scores of a K lie in one binade of float.

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

static __device__ __forceinline__ void km_multiply(float *sums, const unsigned *a, const unsigned *b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Two 8 x 8 matrices of halves, each twice, as the second factor of a product; `row`: of the lane, lane l has row l % 8
// of matrix l / 16.
static __device__ __forceinline__ void km_fetch(unsigned (*matrices)[2], unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0][0]), "=r"(matrices[0][1]), "=r"(matrices[1][0]), "=r"(matrices[1][1])
                 : "r"(row));
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

// The rows of a K's planes, scaled, by one warp; `begin_group` as in km_for_rows.
template <typename PART, typename Group>
static __device__ __forceinline__ void km_write_rows(km_block<PART> &shared, const float *c, const float *middle,
                                                     const unsigned char *beaten, int k_index, const km_scale &scale,
                                                     Group begin_group) {
    const auto write_row = [&](int group, int slot, int t, int j) {
        if (j >= 0 && !beaten[j])
            km_write_row(
                shared, group, slot, t,
                [&](int f) { return (float)(((double)c[j * D + f] - middle[f]) * shared.reach[f] * scale.factor); },
                (float)(1.08 * BINADE + (km_constant(c + j * D, middle) - scale.lowest) * scale.factor));
        else
            km_write_row(shared, group, slot, t, [](int) { return 0.0f; }, BINADE);
    };
    km_for_rows(shared, k_index, write_row, begin_group);
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


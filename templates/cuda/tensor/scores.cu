// SPDX-License-Identifier: MIT
// Scores in float, of which 15 bits are compared.
//     score_j = x . (c_j - p) - (|c_j|^2 - |p|^2) / 2,  p the middle of the K's centroids,
// scaled so that all scores of a K lie in one binade of float.

//@ include cuda/tensor/scale.cu

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

// The rows of a K's planes, scaled, by so many threads; `begin_group` as in km_for_rows.
template <typename PART, typename Group>
static __device__ __forceinline__ void km_write_rows(km_block<PART> &shared, const float *c, const float *middle,
                                                     int k_index, int thread, int threads, const km_scale &scale,
                                                     Group begin_group) {
    const auto write_row = [&](int group, int slot, int t, int j) {
        if (j >= 0)
            km_write_row(
                shared, group, slot, t,
                [&](int f) { return (float)(((double)c[j * D + f] - middle[f]) * shared.reach[f] * scale.factor); },
                (float)(1.08 * BINADE + (km_constant(c + j * D, middle) - scale.lowest) * scale.factor));
        else
            km_write_row(shared, group, slot, t, [](int) { return 0.0f; }, BINADE);
    };
    km_for_rows(shared, k_index, thread, threads, write_row, begin_group);
}

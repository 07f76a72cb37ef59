// SPDX-License-Identifier: MIT
//@ if lanes_share_point
// Adds COUNT sums to `out`, each over the lanes of a warp that have the same features. Lanes write their sums to shared
// memory, then each lane adds one row of them.
template <int COUNT>
static __device__ __forceinline__ void km_add_lanes(const km_real *sums, km_real (*gathered)[33],
                                                    double *out) {
    const int lane = threadIdx.x % 32, column = lane / LANES_PER_POINT;
    KM_UNROLL_FOR (int first = 0; first < COUNT; first += GATHERED) {
        __syncwarp();
        KM_UNROLL_FOR (int i = 0; i < GATHERED && first + i < COUNT; i++) gathered[i][lane] = sums[first + i];
        __syncwarp();
        km_real parts[4] = {};
        KM_UNROLL_1_FOR (int from = lane % LANES_PER_POINT; from < 32; from += 4 * LANES_PER_POINT) {
            KM_UNROLL_FOR (int i = 0; i < 4; i++) parts[i] += gathered[column][from + i * LANES_PER_POINT];
        }
        if (first + column < COUNT)
            out[first * LANES_PER_POINT + lane] += (parts[0] + parts[1]) + (parts[2] + parts[3]);
    }
}
//@ else
// Adds COUNT sums to `out`, each over the lanes of a warp. Lanes write their sums to shared memory, then each lane adds
// one row of them.
template <int COUNT>
static __device__ __forceinline__ void km_add_lanes(const km_real *sums, km_real (*gathered)[33],
                                                    double *out) {
    const int lane = threadIdx.x % 32;
    KM_UNROLL_FOR (int first = 0; first < COUNT; first += 32) {
        __syncwarp();
        KM_UNROLL_FOR (int i = 0; i < 32 && first + i < COUNT; i++) gathered[i][lane] = sums[first + i];
        __syncwarp();
        km_real parts[4] = {};
        KM_UNROLL_1_FOR (int from = 0; from < 32; from += 4) {
            KM_UNROLL_FOR (int i = 0; i < 4; i++) parts[i] += gathered[lane][from + i];
        }
        if (first + lane < COUNT) out[first + lane] += (parts[0] + parts[1]) + (parts[2] + parts[3]);
    }
}
//@ end

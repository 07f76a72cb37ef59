// SPDX-License-Identifier: MIT
// Adds COUNT sums to `out`, each over the lanes of a warp that have the same features, always in the same order. Lanes
// write their sums to shared memory, then each lane adds one row of them. They become integers in the end, all at a
// time: that takes long for each.
template <int COUNT>
static __device__ __forceinline__ void km_add_lanes(const km_real *sums, km_real (*gathered)[GATHERED_ROW],
                                                    km_sum *out, double per_one) {
    constexpr int TIMES = (COUNT + GATHERED - 1) / GATHERED;
    const int lane = threadIdx.x % 32;
    double added[TIMES];
    KM_UNROLL_FOR (int t = 0; t < TIMES; t++) {
        __syncwarp();
        KM_UNROLL_FOR (int i = 0; i < GATHERED && t * GATHERED + i < COUNT; i++)
            gathered[i][lane] = sums[t * GATHERED + i];
        __syncwarp();
        double parts[4];
        KM_UNROLL_FOR (int part = 0; part < 4; part++) {
            //@ if lanes_share_point
            constexpr int NUMBERS = 8 / LANES_PER_POINT;
            const km_real *from = gathered[lane / LANES_PER_POINT] + lane % LANES_PER_POINT + part * 8;
            km_real sum = from[0];
            KM_UNROLL_FOR (int i = 1; i < NUMBERS; i++) sum += from[i * LANES_PER_POINT];
            parts[part] = (double)sum;
            //@ else
            //@ if float_sums
            const float4 *from = (const float4 *)(gathered[lane] + part * 8);
            const float4 a = from[0], b = from[1];
            parts[part] = (double)(((a.x + a.y) + (a.z + a.w)) + ((b.x + b.y) + (b.z + b.w)));
            //@ else
            const double *from = gathered[lane] + part * 8;
            parts[part] =
                ((from[0] + from[1]) + (from[2] + from[3])) + ((from[4] + from[5]) + (from[6] + from[7]));
            //@ end
            //@ end
        }
        added[t] = (parts[0] + parts[1]) + (parts[2] + parts[3]);
    }
    km_sum numbers[TIMES];
    KM_UNROLL_FOR (int t = 0; t < TIMES; t++) numbers[t] = km_sum_of(added[t], per_one);
    KM_UNROLL_FOR (int t = 0; t < TIMES; t++) {
        //@ if lanes_share_point
        if (t * GATHERED + lane / LANES_PER_POINT < COUNT) km_sum_add(out[t * 32 + lane], numbers[t]);
        //@ else
        if (t * 32 + lane < COUNT) km_sum_add(out[t * 32 + lane], numbers[t]);
        //@ end
    }
}

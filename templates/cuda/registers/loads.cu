// SPDX-License-Identifier: MIT
// Points are read straight from memory to registers.

// Reads the thread's part of one load, whose first point is `point`.
static __device__ __forceinline__ void km_load_points(km_points &points, const km_pass_args &args,
                                                      long long point, int load) {
    //@ if lanes_share_point
    const km_real *x = (const km_real *)args.points + point * D + threadIdx.x % LANES_PER_POINT * LANE_D;
    //@ else
    const km_real *x = (const km_real *)args.points + point * D;
    //@ end
    KM_UNROLL_FOR (int v = 0; v < $pieces; v++) {
        const km_vector numbers = ((const km_vector *)x)[v];
        //@ if adjacent_points
        KM_UNROLL_FOR (int i = v * VECTOR; i < (v + 1) * VECTOR; i++)
            points.x[load * ADJACENT + i / D][i % D] = numbers.at[i % VECTOR];
        //@ else
        KM_UNROLL_FOR (int i = 0; i < VECTOR; i++) points.x[load][v * VECTOR + i] = numbers.at[i];
        //@ end
    }
    //@ if weighted
    const km_real *weights = (const km_real *)args.weights + point;
    //@ if adjacent_points
    KM_UNROLL_FOR (int i = 0; i < ADJACENT; i++) points.weight[load * ADJACENT + i] = weights[i];
    //@ else
    points.weight[load] = *weights;
    //@ end
    //@ end
}

// Reads the thread's points of a tile. Past the last point it reads padding rows, which are zero.
static __device__ __forceinline__ void km_load_tile(km_points &points, const km_pass_args &args, int tile) {
    const long long first = km_first_point(tile);
    if (tile < (int)(args.n / TILE)) {
        KM_UNROLL_FOR (int load = 0; load < LOADS; load++)
            km_load_points(points, args, first + load * LOAD_POINTS, load);
    } else {
        //@ if adjacent_points
        const long long end = (args.n + ADJACENT - 1) / ADJACENT * ADJACENT;
        //@ else
        const long long end = args.n;
        //@ end
        KM_UNROLL_FOR (int load = 0; load < LOADS; load++) {
            const long long point = first + load * LOAD_POINTS;
            km_load_points(points, args, point < end ? point : end, load);
        }
    }
}

// SPDX-License-Identifier: MIT
// Points come straight from memory.

// Reads what the thread has of the points that one load brings, from `point` on.
static __device__ __forceinline__ void km_load_points(km_points &points, const km_pass_args &args,
                                                      long long point, int load) {
    //@ if teamed
    const km_real *x = (const km_real *)args.points + point * D + threadIdx.x % TEAM * OWN;
    //@ else
    const km_real *x = (const km_real *)args.points + point * D;
    //@ end
    KM_UNROLL_FOR (int v = 0; v < $pieces; v++) {
        const km_vector numbers = ((const km_vector *)x)[v];
        //@ if side_by_side
        KM_UNROLL_FOR (int i = v * VECTOR; i < (v + 1) * VECTOR; i++)
            points.x[load * RUN + i / D][i % D] = numbers.at[i % VECTOR];
        //@ else
        KM_UNROLL_FOR (int i = 0; i < VECTOR; i++) points.x[load][v * VECTOR + i] = numbers.at[i];
        //@ end
    }
    //@ if weighted
    const km_real *weights = (const km_real *)args.weights + point;
    //@ if side_by_side
    KM_UNROLL_FOR (int i = 0; i < RUN; i++) points.weight[load * RUN + i] = weights[i];
    //@ else
    points.weight[load] = *weights;
    //@ end
    //@ end
}

// Reads the thread's points of a tile; those past the end come from the padding rows, which are zero.
static __device__ __forceinline__ void km_load(km_points &points, const km_pass_args &args, int tile) {
    const long long first = km_first(tile);
    if (tile < (int)(args.n / TILE)) {
        KM_UNROLL_FOR (int load = 0; load < LOADS; load++)
            km_load_points(points, args, first + load * LOAD_POINTS, load);
    } else {
        //@ if side_by_side
        const long long end = (args.n + RUN - 1) / RUN * RUN;
        //@ else
        const long long end = args.n;
        //@ end
        KM_UNROLL_FOR (int load = 0; load < LOADS; load++) {
            const long long point = first + load * LOAD_POINTS;
            km_load_points(points, args, point < end ? point : end, load);
        }
    }
}

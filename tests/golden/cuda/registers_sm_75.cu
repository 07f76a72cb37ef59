// Of the text of {features: 1, clusters: 2, target: cuda:sm_75} weighted: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 28 definitions

// Reads the thread's part of one load, whose first point is `point`.
static __device__ __forceinline__ void km_load_points(km_points &points, const km_pass_args &args,
                                                      long long point, int load) {
    const km_real *x = (const km_real *)args.points + point * D;
    KM_UNROLL_FOR (int v = 0; v < 1; v++) {
        const km_vector numbers = ((const km_vector *)x)[v];
        KM_UNROLL_FOR (int i = v * VECTOR; i < (v + 1) * VECTOR; i++)
            points.x[load * ADJACENT + i / D][i % D] = numbers.at[i % VECTOR];
    }
    const km_real *weights = (const km_real *)args.weights + point;
    KM_UNROLL_FOR (int i = 0; i < ADJACENT; i++) points.weight[load * ADJACENT + i] = weights[i];
}

// Reads the thread's points of a tile. Past the last point it reads padding rows, which are zero.
static __device__ __forceinline__ void km_load_tile(km_points &points, const km_pass_args &args, int tile) {
    const long long first = km_first_point(tile);
    if (tile < (int)(args.n / TILE)) {
        KM_UNROLL_FOR (int load = 0; load < LOADS; load++)
            km_load_points(points, args, first + load * LOAD_POINTS, load);
    } else {
        const long long end = (args.n + ADJACENT - 1) / ADJACENT * ADJACENT;
        KM_UNROLL_FOR (int load = 0; load < LOADS; load++) {
            const long long point = first + load * LOAD_POINTS;
            km_load_points(points, args, point < end ? point : end, load);
        }
    }
}

// ... 27 definitions

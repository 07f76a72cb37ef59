// SPDX-License-Identifier: MIT
// Around the passes of runs on subsets: first centroids, sums of all spans, new centroids; and copies of columns
// and rows.

// Writes centroid j of a run, and -|c|^2 / 2 behind it, with |c|^2 added in double as everywhere.
__device__ __forceinline__ void subset_constant(km_real *table, long long stride, int c, int j) {
    km_real *row = table + (long long)j * (c + 1) * stride;
    double square = 0.0;
    for (int f = 0; f < c; f++)
        square = __dadd_rn(square, __dmul_rn((double)row[f * stride], (double)row[f * stride]));
    row[c * stride] = (km_real)(-0.5 * square);
}

// Thread (run, cluster): picked points are first centroids. picks: [K][stride].
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_subsets_start(const km_real *points, const long long *picks, const int *columns, km_real *table,
                     long long stride, long long runs, int c, int k) {
    const long long at = blockIdx.x * (long long)KM_THREADS + threadIdx.x, run = at % runs;
    const int j = (int)(at / runs);
    if (j >= k) return;
    const km_real *point = points + picks[j * stride + run] * D;
    for (int f = 0; f < c; f++)
        table[((long long)j * (c + 1) + f) * stride + run] = point[columns[f * stride + run]];
    subset_constant(table + run, stride, c, j);
}

// Centroids from the host, without their constants, get these.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_subsets_constants(km_real *table, long long stride, long long runs, int c, int k) {
    const long long at = blockIdx.x * (long long)KM_THREADS + threadIdx.x;
    if (at < runs * k) subset_constant(table + at % runs, stride, c, (int)(at / runs));
}

// Adds the spans from starts[cell] to before starts[cell + 1] in their order: totals[cell][numbers].
template <typename Number>
__device__ __forceinline__ void subset_add(const Number *partial, const long long *starts, long long numbers,
                                           double *totals) {
    const long long at = blockIdx.x * (long long)KM_THREADS + threadIdx.x, end = starts[blockIdx.y + 1];
    if (at >= numbers) return;
    double sum = 0.0;
#pragma unroll 8
    for (long long span = starts[blockIdx.y]; span < end; span++)
        sum = __dadd_rn(sum, (double)partial[span * numbers + at]);
    totals[blockIdx.y * numbers + at] = sum;
}

extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_subsets_add(const km_real *partial, const long long *starts, long long numbers, double *totals) {
    subset_add(partial, starts, numbers, totals);
}

extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_subsets_add_doubles(const double *partial, const long long *starts, long long numbers,
                           double *totals) {
    subset_add(partial, starts, numbers, totals);
}

// A thread has a run: new centroids from the sums about the old ones, and what the run does next, as km_update.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_subsets_update(const __grid_constant__ km_subsets_update_args args) {
    const long long at = blockIdx.x * (long long)KM_THREADS + threadIdx.x;
    if (at >= args.count) return;
    const long long run = args.active[at], stride = args.stride;
    const int c = args.c, k = args.k;
    km_real *table = (km_real *)args.table + run, *before = (km_real *)args.before + run;
    km_slot_state *state = args.states + run;
    const bool moves = state->phase == KM_SLOT_RUNNING;
    km_slot_found found = {args.total_square[run], 0.0, 0, 0, 0};
    for (int j = 0; j < k; j++) {
        const double *totals = args.totals + (long long)j * (c + 1) * args.count + at;
        const double weight = totals[c * args.count];
        km_real *row = table + (long long)j * (c + 1) * stride,
                *row_before = before + (long long)j * (c + 1) * stride;
        for (int f = 0; f < c; f++) {
            const double own = row[f * stride], sum = totals[f * args.count];
            found.inertia -= own * (weight * own + 2.0 * sum);
            row_before[f * stride] = (km_real)own;
            if (!moves || !(weight > 0.0)) continue;
            const km_real moved = (km_real)(own + sum / weight);
            found.shift += (moved - own) * (moved - own);
            row[f * stride] = moved;
        }
        args.weights[j * stride + run] = weight;
        if (moves) subset_constant(table, stride, c, j);
        if (weight > 0.0) continue;
        found.empty_count += 1;
        found.relocatable |= !args.given_up[j * stride + run];
    }
    km_slot_decide(state, &found, args.shift_max[run], args.max_iter);
}

// The columns of one subset: out[count][c].
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_subsets_columns(const km_real *points, long long count, const int *columns, long long stride, int c,
                       km_real *out) {
    const long long at = blockIdx.x * (long long)KM_THREADS + threadIdx.x, i = at / c;
    if (i < count) out[at] = points[i * D + columns[at % c * stride]];
}

// One column in another order.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_subsets_permute(const km_real *points, const unsigned *order, long long count, int column,
                       km_real *out) {
    const long long i = blockIdx.x * (long long)KM_THREADS + threadIdx.x;
    if (i < count) out[i * D + column] = points[order[i] * (long long)D + column];
}

// Rows in another order; zeros where order is -1.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_subsets_rows(const km_real *points, const long long *order, long long count, km_real *out) {
    const long long at = blockIdx.x * (long long)KM_THREADS + threadIdx.x, i = at / D;
    if (i < count) out[at] = order[i] < 0 ? (km_real)0 : points[order[i] * D + at % D];
}

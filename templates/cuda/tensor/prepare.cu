// SPDX-License-Identifier: MIT
// The centroid nearest to the origin.
static __device__ int km_nearest_to_origin(const float *c, int k) {
    double smallest = 1e308;
    int nearest = 0;
    KM_UNROLL_1_FOR (int j = threadIdx.x % 32; j < k; j += 32) {
        double square = 0;
        KM_UNROLL_2_FOR (int f = 0; f < D; f++) {
            const double x = c[j * D + f];
            square = fma(x, x, square);
        }
        nearest = square < smallest ? j : nearest;
        smallest = fmin(square, smallest);
    }
    for (int width = 16; width > 0; width /= 2) {
        const double square = __shfl_xor_sync(ALL, smallest, width);
        const int j = __shfl_xor_sync(ALL, nearest, width);
        const bool closer = square < smallest || (square == smallest && j < nearest);
        nearest = closer ? j : nearest;
        smallest = closer ? square : smallest;
    }
    return nearest;
}

// Whether an earlier centroid is the same, among the first 32: seeds of few distinct points come again after these. A
// function of its own: where it is inlined, NVRTC 13.0 and 13.4 spill a few bytes, which rules the design out.
static __device__ __noinline__ bool km_is_again(const float *c, int j) {
    unsigned same = 0; // a bit for each of which the first coordinate is
    const int before = j < 32 ? j : 32;
#pragma unroll 4
    for (int i = 0; i < before; i++) same |= (unsigned)(c[i * D] == c[j * D]) << i;
    KM_UNROLL_1_FOR (; same; same &= same - 1) {
        const int i = __ffs(same) - 1;
        int f = 1;
        while (f < D && c[i * D + f] == c[j * D + f]) f++;
        if (f >= D) return true;
    }
    return false;
}

// Finds the dominated centroids of one K: those that are nearest nowhere in the lattice, because another is nearer
// everywhere, or as near and earlier. Without them scores have a smaller range, and so a smaller error, and no point is
// ambiguous between equal centroids.
static __device__ void km_find_dominated(km_preparation &shared, const float *c, const km_k_layout &layout,
                                         int k) {
    const int nearest = km_nearest_to_origin(c, k);
    KM_UNROLL_1_FOR (int j = threadIdx.x % 32; j < k; j += 32) {
        double lead = 0, size = 0; // the largest lead of j over that centroid
        KM_UNROLL_2_FOR (int f = 0; f < D; f++) {
            const double a = c[j * D + f], b = c[nearest * D + f];
            lead += fabs(a - b) * shared.extent[f] - 0.5 * (a - b) * (a + b);
            size += fabs(a - b) * shared.extent[f] + fabs(a - b) * fabs(a + b);
        }
        shared.dominated[layout.sum_row + j] = (j != nearest && lead < -1e-12 * size) || km_is_again(c, j);
    }
    __syncwarp();
}

// Goes through the rows of a K, by so many threads. write_row(quad, score_row, t, j) writes the quarter of a row
// that lanes with lane % 4 = t hold. It is the row of centroid j; j is -1 where there is none, or where it is
// dominated. Such a row is empty, but a dominated centroid keeps its row of sums, for outliers. begin_quad(quad,
// segment, whole_quad) is called once for each quad.
template <typename Row, typename Quad>
static __device__ __forceinline__ void km_for_score_rows(km_preparation &shared, int k_index, int thread,
                                                         int threads, Row write_row, Quad begin_quad) {
    const km_k_layout layout = km_k_layouts[k_index];
    const bool whole_quad = shared.launch.levels == 0 && layout.score_rows > shared.launch.first_rows;
    KM_UNROLL_1_FOR (int at = thread; at < layout.quads * shared.launch.score_rows * 4; at += threads) {
        const int quad = layout.quad + at / 4 / shared.launch.score_rows,
                  score_row = at / 4 % shared.launch.score_rows;
        const int j = (quad - layout.quad) * layout.score_rows + score_row - layout.score_row,
                  segment = layout.score_row >= shared.launch.first_rows;
        const bool real = score_row >= layout.score_row && score_row < layout.score_row + layout.score_rows &&
                          j < km_ks[k_index];
        if (!whole_quad && (score_row >= shared.launch.first_rows) != segment) continue;
        shared.sum_row[quad][score_row] = real ? layout.sum_row + j : -1;
        write_row(quad, score_row, at % 4, real && !shared.dominated[layout.sum_row + j] ? j : -1);
        if (score_row != layout.score_row) continue;
        shared.k_index[segment][quad] = k_index;
        shared.same_k[0][quad] = whole_quad ? ALL : 0;
        for (int level = 0; level < shared.launch.levels; level++)
            shared.same_k[1 + level][quad] = layout.quads >> level > 1 ? ALL : 0;
        begin_quad(quad, segment, whole_quad);
    }
}

//@ use form_prepare
//@ if not form_rows
// The rows of each active K of the launch, each K by one warp. Returns whether there is one.
static __device__ __forceinline__ bool km_prepare_all(km_preparation &shared) {
    bool active = false;
    for (int i = 0, own = 0; i < KS; i++) {
        if (km_k_layouts[i].launch != shared.launch.index) continue;
        if (own++ % (PREPARERS / 32) == threadIdx.x / 32 && shared.active[i])
            km_prepare(shared, shared.centroids + km_k_layouts[i].sum_row * D, i);
        active = active | shared.active[i];
    }
    return active;
}

//@ end
//@ if distinct_points
//@ use distinct_pass
//@ end
// Prepares a launch, by one block a restart, and leaves that in the workspace.
static __device__ __forceinline__ void km_prepare_launch(const km_pass_args &args) {
    extern __shared__ uint4 km_memory[];
    km_preparation &shared = *(km_preparation *)km_memory;
    const km_launch_shape launch = km_launch_shapes[blockIdx.x % LAUNCHES];
    const int stop = args.control->stop; // read now and tested later: one wait for all reads
    const float *from = (const float *)args.centroids + (long long)blockIdx.y * S * D;
    //@ if distinct_points
    if (km_distinct_of(args)->count > 0) {
        km_add_distinct(args, launch.index, blockIdx.x / LAUNCHES);
        return;
    }
    if (blockIdx.x >= LAUNCHES) return;
    //@ end
    if (threadIdx.x == 0) shared.launch = launch;
    if (threadIdx.x == 0) shared.radius = sqrt(*km_largest(args)) * (1 + 1e-9);
    for (int i = threadIdx.x; i < KS; i += PREPARERS) shared.active[i] = args.active[blockIdx.y * KS + i];
    for (int f = threadIdx.x; f < D; f += PREPARERS) {
        shared.extent[f] = km_power_of_2(km_exponents(args)[f]);
        shared.lattice_scale[f] = km_power_of_2(BITS - km_exponents(args)[f]);
    }
    for (int i = 0, own = 0; i < KS; i++) {
        if (km_k_layouts[i].launch != launch.index ||
            own++ % (PREPARERS / FETCHERS) != threadIdx.x / FETCHERS)
            continue;
        for (int at = threadIdx.x % FETCHERS; at < km_ks[i] * D; at += FETCHERS)
            shared.centroids[km_k_layouts[i].sum_row * D + at] = from[km_offsets[i] * D + at];
    }
    __syncthreads(); // its launch is known
    for (int i = threadIdx.x; i < 8 * launch.score_rows * 4; i += PREPARERS) {
        const int quad = i / 4 / launch.score_rows, score_row = i / 4 % launch.score_rows;
        km_clear_row(shared, quad, score_row, i % 4);
        shared.sum_row[quad][score_row] = -1;
    }
    for (int i = threadIdx.x; i < 8; i += PREPARERS) {
        shared.k_index[0][i] = shared.k_index[1][i] = -1;
        shared.same_k[0][i] = shared.same_k[1][i] = shared.same_k[2][i] = shared.same_k[3][i] = 0;
    }
    km_clear_prepared(shared, args);
    __syncthreads();
    if (stop) return;
    const bool active = km_prepare_all(shared);
    if (threadIdx.x == 0) shared.any_active = active;
    __syncthreads();
    uint4 *to = (uint4 *)km_prepared_of(args, launch.index);
    for (int i = threadIdx.x; i < (int)(sizeof(km_prepared) / sizeof(uint4)); i += PREPARERS)
        to[i] = km_memory[i];
}

// So few blocks need not share a multiprocessor: without the 1 compilers aim at several, and spill.
extern "C" __global__ void __launch_bounds__(PREPARERS, 1)
    km_tensor_prepare(const __grid_constant__ km_pass_args args) {
    km_prepare_launch(args);
}

// SPDX-License-Identifier: MIT
// Whether scores are exact: the centroids and the bounds of the data are multiples of a power of two, large enough that
// no product or sum is rounded.
static __device__ __forceinline__ bool km_scores_are_exact(const double *box, const km_real *c, int count) {
    const int lane = threadIdx.x % 32;
    int largest = -1100; // exponent
    for (int i = lane; i < 2 * D; i += 32) {
        int exponent;
        frexp(box[i], &exponent);
        largest = box[i] != 0 && exponent > largest ? exponent : largest;
    }
    for (int width = 16; width > 0; width /= 2)
        largest = max(largest, __shfl_xor_sync(0xffffffff, largest, width));
    const double scale = ldexp(1.0, EXACT_BITS - largest);
    bool exact = true;
    for (int i = lane; i < 2 * D; i += 32) exact = exact & (rint(box[i] * scale) == box[i] * scale);
    for (int i = lane; i < count; i += 32) exact = exact & (rint(c[i] * scale) == c[i] * scale);
    return __all_sync(0xffffffff, exact);
}

// The pivot is the centroid with the smallest norm: a pivot far away would cost the other scores accuracy. Where scores
// are exact it is the last centroid, so that ties go to the lowest index.
static __device__ __forceinline__ int km_find_pivot(const double *box, const km_real *c, int k) {
    if (km_scores_are_exact(box, c, k * D)) return k - 1;
    double smallest = 1e308;
    int pivot = 0;
    for (int j = threadIdx.x % 32; j < k; j += 32) {
        double square = 0;
        for (int f = 0; f < D; f++) square = fma((double)c[j * D + f], (double)c[j * D + f], square);
        pivot = square < smallest ? j : pivot;
        smallest = square < smallest ? square : smallest;
    }
    for (int width = 16; width > 0; width /= 2) {
        const double square = __shfl_xor_sync(0xffffffff, smallest, width);
        const int j = __shfl_xor_sync(0xffffffff, pivot, width);
        const bool closer = square < smallest || (square == smallest && j < pivot);
        pivot = closer ? j : pivot;
        smallest = closer ? square : smallest;
    }
    return pivot;
}

// Writes the coefficients of one slot, by one warp. `c`: its centroids.
static __device__ __forceinline__ void km_write_coefficients(km_table *table, const km_real *c, int pivot,
                                                             int k_index) {
    const int lane = threadIdx.x % 32, k = km_ks[k_index];
    if (lane == 0) table->pivots[k_index] = pivot;
    for (int j = lane; j < k - 1; j += 32) {
        km_coefficients *to = km_coefficients_of(table, k_index) + $coefficients_j;
        double squares = 0; // |c_j|^2 - |c_p|^2
        for (int f = 0; f < D; f++) {
            const double a = c[(j + (j >= pivot)) * D + f], b = c[pivot * D + f];
            //@ if lanes_share_point
            to[f / LANE_D].factors[f % LANE_D] = (km_real)(a - b);
            //@ else
            to->factors[f] = (km_real)(a - b);
            //@ end
            squares = fma(a - b, a + b, squares);
        }
        to->constant = (km_real)(0 - 0.5 * squares); // not -0
        //@ if lanes_share_point
        for (int lane = 1; lane < LANES_PER_POINT; lane++)
            to[lane].constant = 0; // the sum over the lanes has it once
        //@ end
    }
}

// Computes the coefficients of one slot, by one warp.
static __device__ void km_make_coefficients(void *workspace, void *const *constants, int restart,
                                            const km_real *c, const double *box, int k_index) {
    const int pivot = km_find_pivot(box, c, km_ks[k_index]);
    //@ if form_constant
    for (int i = 0; i < KM_CONSTANTS_MAX && constants[i]; i++)
        km_write_coefficients((km_table *)constants[i], c, pivot, k_index);
    //@ else
    km_write_coefficients(km_table_of(workspace, constants, restart), c, pivot, k_index);
    //@ end
}

// The coefficients of centroids that the host wrote, a warp for each slot. Otherwise km_update computes them.
extern "C" __global__ void km_prepare_coefficients(const __grid_constant__ km_pass_args args) {
    const km_real *centroids = (const km_real *)args.centroids + (long long)blockIdx.y * S * D;
    km_make_coefficients(args.workspace, args.constants, blockIdx.y, centroids + km_offsets[blockIdx.x] * D,
                         args.box, blockIdx.x);
}

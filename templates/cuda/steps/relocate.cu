// SPDX-License-Identifier: MIT
// Relocate: finds the points farthest from their own centroids, one after the other. km_assign has written each point's
// squared distance. A point that was taken, and points with the same coordinates, get a distance of 0.

//@ include cuda/steps/farthest.cu

// Each point's squared distance to the centroid of its label, where the pass has left labels; and the label as an int.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_farthest_squares(const km_real *points, long long n, const void *labels, int label_bytes,
                        const double *centroids, double *nearest, int *labels_out) {
    for (int p = 0; p < KM_SUBCHUNK_POINTS; p += KM_THREADS) {
        const long long i = blockIdx.x * (long long)KM_SUBCHUNK_POINTS + p + threadIdx.x;
        if (i >= n) return;
        const int label =
            label_bytes == 1 ? ((const unsigned char *)labels)[i] : ((const unsigned short *)labels)[i];
        double square = 0.0;
        for (int f = 0; f < D; f++) {
            const double t = (double)points[i * D + f] - centroids[label * (long long)D + f];
            square = __fma_rn(t, t, square);
        }
        nearest[i] = square;
        labels_out[i] = label;
    }
}

// One subchunk a block. Drops points that equal the last taken one (picks[taken - 1]) or have no weight. Finds the
// farthest of the others whose distance is more than rounding: more than square_min, and than rounding2 times its
// own |x|^2, which the first search asks; the others find the distances of the rest to be 0.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_farthest_subchunk(const km_real *points, const double *weights, long long n, double square_min,
                         double rounding2, double *nearest, const long long *picks, long long taken,
                         double *subchunk_values, long long *subchunk_indices) {
    const long long last = taken > 0 ? picks[taken - 1] : -1;
    const bool is_over = taken > 0 && last < 0; // there was none before
    double value = 0.0;
    long long index = n;
    for (int p = 0; p < KM_SUBCHUNK_POINTS / KM_THREADS && !is_over; p++) {
        const long long i = blockIdx.x * (long long)KM_SUBCHUNK_POINTS + p * KM_THREADS + threadIdx.x;
        if (i >= n) break;
        double square = km_weight(weights, i) > 0.0 ? nearest[i] : 0.0;
        if (last >= 0 && square > 0.0) {
            int f = 0;
            while (f < D && points[i * D + f] == points[last * D + f]) f++;
            if (f == D) nearest[i] = square = 0.0;
        }
        if (!(square > square_min)) continue;
        if (taken == 0) {
            double size = 0.0;
#pragma unroll 1
            for (int f = 0; f < D; f++)
                size = __fma_rn((double)points[i * D + f], (double)points[i * D + f], size);
            if (!(square > __dmul_rn(rounding2, size))) {
                nearest[i] = 0.0;
                continue;
            }
        }
        farthest_of(&value, &index, square, i);
    }
    farthest_of_block(&value, &index);
    if (threadIdx.x == 0) {
        subchunk_values[blockIdx.x] = value;
        subchunk_indices[blockIdx.x] = index;
    }
}

//@ include cuda/steps/farthest_pick.cu

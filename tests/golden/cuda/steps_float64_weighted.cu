// Of the text of {features: 4, clusters: 3..5, type: float64, target: cuda:sm_90} weighted: The steps around the pass (whole); Loading (whole); Seeding (whole); Finishing (whole); Silhouettes (whole); Relocation (whole); The update (whole)
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 23 definitions

__device__ __forceinline__ double km_weight(const double *weights, long long i) {
    return weights[i];
}
// For several steps: rows of points.
enum { KM_CHUNK_POINTS = KM_SUBCHUNK_POINTS * KM_SUBCHUNKS_PER_CHUNK };

// ... 6 definitions

// ... 2 more of 2 lines, other numbers: 79e48f5c
// ... lines of a template
        double sum = 0.0;
#pragma unroll
        for (int p = 0; p < POINTS; p++) {
            const km_real left = fmin(best[p], square[c + 1][p]);
            sum = __dadd_rn(sum, __dmul_rn(km_weight(at.weights, p * SEED_STRIDE), left));
        }
        sums[c * KM_THREADS] = __dadd_rn(sums[c * KM_THREADS], sum);
    }
}

// ... 4 definitions

// ==== Finishing ============================================================================================
// Compiled apart: finish
// Finish: labels, distances and sums of the models in one last pass. Labels are
// bitwise those of every other backend. Few clusters: km_finish_few_clusters reads the points once for each model.
// Many: km_assign writes each point's label and distances, and km_finish_chunks adds them. Both add chunk by chunk,
// in index order.

// ... 4 definitions

// Distance to a row of means.
__device__ __forceinline__ km_real finish_distance(const km_real *x, const km_real *mean) {
    km_real square = 0;
#pragma unroll(STEP_ROW_IN_REGISTERS ? int(D) : 8)
    for (int f = 0; f < D; f++) {
        const km_real t = x[f] - mean[f];
        square = fma(t, t, square);
    }
    return __dsqrt_rn(square);
}

// ... 1 definition

// Decides the label of a point, from the two nearest; resolves it in double where it is ambiguous.
__device__ __forceinline__ finish_point finish_decide(const finish_nearest &found, const km_real *x,
                                                      const double *centroids, const km_real *table, int k) {
    return finish_of_squares(found.label, found.nearest, found.second, k);
}

// ==== Finishing: models ====================================================================================
// Compiled apart: finish/models
// Sums of a cluster in km_finish_few_clusters: a column for each thread, so that no thread waits for another; and
// counts.
enum { FINISH_SSE, FINISH_DISTANCE, FINISH_MARGIN, FINISH_WEIGHT, FINISH_NUMBERS };
static_assert(FINISH_NUMBERS * 8 + 4 == (WEIGHTED ? KM_FINISH_WEIGHTED_BYTES : KM_FINISH_BYTES),
              "as the engine knows");

__device__ __forceinline__ void finish_add(double *sums, unsigned *counts, const finish_point &point,
                                           double weight) {
    double *column = sums + point.label * (FINISH_NUMBERS * KM_FINISH_THREADS);
    column[FINISH_SSE * KM_FINISH_THREADS] += weight * point.square;
    column[FINISH_DISTANCE * KM_FINISH_THREADS] += weight * point.distance;
    column[FINISH_MARGIN * KM_FINISH_THREADS] += weight * point.margin;
    column[FINISH_WEIGHT * KM_FINISH_THREADS] += weight;
    counts[point.label * KM_FINISH_THREADS] += 1;
}

// ... 1 definition

__device__ __forceinline__ void finish_write(double *out, const double *sums, const unsigned *counts, int k) {
    for (int j = threadIdx.x / 32; j < k; j += KM_FINISH_THREADS / 32) {
        const double *columns = sums + j * (FINISH_NUMBERS * KM_FINISH_THREADS);
        const double count = finish_sum_columns(counts + j * KM_FINISH_THREADS);
        const double sse = finish_sum_columns(columns + FINISH_SSE * KM_FINISH_THREADS);
        const double distance = finish_sum_columns(columns + FINISH_DISTANCE * KM_FINISH_THREADS);
        const double margin = finish_sum_columns(columns + FINISH_MARGIN * KM_FINISH_THREADS);
        const double weight = finish_sum_columns(columns + FINISH_WEIGHT * KM_FINISH_THREADS);
        if (threadIdx.x % 32) continue;
        out[j * KM_FINISH_SUMS + KM_FINISH_COUNT] = count;
        out[j * KM_FINISH_SUMS + KM_FINISH_WEIGHT] = weight;
        out[j * KM_FINISH_SUMS + KM_FINISH_SSE] = sse;
        out[j * KM_FINISH_SUMS + KM_FINISH_DISTANCE] = distance;
        out[j * KM_FINISH_SUMS + KM_FINISH_MARGIN] = margin;
    }
}

// ... 9 definitions

// ==== Silhouettes ==========================================================================================
// Compiled apart: silhouette
// Silhouette: of all points and models in one read, in the squared Euclidean form. The
// mean squared distance of a point x to the points of cluster j is |x - m_j|^2 + v_j, m_j their mean and v_j their mean
// squared distance from it; to the others of its own cluster, of n_j points, n_j / (n_j - 1) times that.

// ... 10 definitions
// ... lines of a template
                sum += km_weight(weights, first + i) * value;
            }
            silhouette_sums[m * KM_THREADS + threadIdx.x] += sum;
        }
    }
    silhouette_write(partial, silhouette_sums, args.models);
}
// Silhouettes of few clusters. Labels come first: those that the finishing pass has kept, a byte each, or, where there
// was no memory for them, those that are found here. Whichever it is, what follows is the same text, so that a
// silhouette has the same bits. A squared distance is |x|^2 - 2 x . m + |m|^2, or the sum of the squares of
// differences, which takes nearly twice as long: the host says for each model whether products keep enough digits, for
// which clusters must lie far apart beside their distance from the origin. A point that loses too many all the same is
// resolved in double.

// ... 3 definitions

// Sums and products are fused as this text says, and not as a compiler likes: kernels have the same bits.
__device__ __forceinline__ silhouette_sum silhouette_add(silhouette_sum sum, const double *weights,
                                                         long long i, km_real difference, km_real inverse) {
    return __fma_rn(km_weight(weights, i), (double)fma(difference, inverse, (km_real)0), sum);
}

// ... 4 definitions

__device__ __forceinline__ km_real silhouette_inverse(km_real value) {
    return 1 / value;
}

// Keeps a value in its register: a compiler would rather compute it anew for each model.
__device__ __forceinline__ void silhouette_hold(km_real &value) {
    asm volatile("" : "+d"(value));
}

// ... 2 definitions
// ... lines of a template
        }
    }
}

// ... 4 definitions

// ... 1 more of 2 lines, other numbers: 04d67991
// ... 4 definitions

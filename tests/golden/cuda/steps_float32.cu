// Of the text of {features: 4, clusters: 3..5, target: cuda:sm_90}: The steps around the pass (whole); Loading (whole); Seeding (whole); Finishing (whole); Silhouettes (whole); Relocation (whole); The update (whole)
// "..." stands for what a template or an earlier part shows, or what comes again.

// ==== The steps around the pass ============================================================================
// Steps around the pass, the same for every design. What is compiled apart knows neither the list of K nor the design.
#define KM_BOTH __device__ __forceinline__
// Counter-based random numbers, for host and device: each is a function of its four words alone.
#ifndef KM_DRAWS_H
#define KM_DRAWS_H

// ... 2 definitions

#endif
// A slot between two passes: what is known of it, and what becomes of it. Host and device compile this.
#ifndef KM_SLOT_H
#define KM_SLOT_H

// ... 5 definitions

#endif
// ... lines of a template
    KM_SILHOUETTE_MODELS = 16,      // of a launch, at most: so many sums fit the shared memory of every device
    KM_UPDATE_NUMBERS = 2048,       // coordinates of a slot's centroids that a block of km_update computes ...
    KM_UPDATE_PARTS_MAX = 64        // ... and the most blocks of a slot
};

// ... 5 definitions

typedef struct km_update_args {
    km_loop *loop;
    km_slot_record *slots;
    unsigned char *active;
    void *centroids;      // [restarts][S][d] km_real
    void *before;         // the same: those of the last pass, which relocation goes back to
    const double *totals; // [restarts][S][d + 1]
    double *weights;      // [restarts][S]: of the last pass of each slot
    const unsigned char
        *given_up;                                 // [restarts][S]: clusters for which relocation found no point: they may stay empty
    unsigned long long *changes;                   // per slot, or NULL
    void *workspace, *constants[KM_CONSTANTS_MAX]; // as in km_pass_args
    const double *box;                             // likewise
    unsigned long long *report;                    // in the host's memory: passes done, and 2^32 when the loop stops; or NULL
    double *
        part_sums; // [slots][KM_UPDATE_PARTS][4]: partial sums of the blocks of a slot; not used where it has one block
} km_update_args;

// ... 1 definition
// ... lines of a template
        distance;      // [models][count]: to the centroid, or to the mean of the label; or NULL: roots of `nearest`
    const void *means; // rows of means like those of `table`, of the models that have some; not of CSR points
    const long long
        *mean_rows;           // per model: its first row of means, or -1; of CSR points a column; NULL: all -1
    unsigned char *kept;      // labels as bytes, by km_finish_few_clusters; NULL: no model's
    const long long *kept_at; // per model: where those of all points begin, or -1
} km_assign_args;

// ... 3 definitions

#endif
// For several steps: sums over a block of threads, the weight of a point.
// ... lines of a template
__device__ __forceinline__ double km_weight(const double *, long long) {
    return 1.0;
}
// For several steps: rows of points.
enum { KM_CHUNK_POINTS = KM_SUBCHUNK_POINTS * KM_SUBCHUNKS_PER_CHUNK };

// ... 6 definitions

// ==== Loading ==============================================================================================
// Compiled apart: load
// Load: statistics of the original points; then the points are centred and scaled. Sums are doubles over chunks of
// 65,536 points, and chunks are added in index order. In a chunk the layout of the threads fixes the order.

// ... 19 definitions

// ==== Seeding ==============================================================================================
// Compiled apart: seed
// Seeding: greedy k-means++, all chains in the same passes, as runtime/seed.h states it. Each pick takes two kernels.
// km_seed_draw decides the pick before (the candidate that leaves the least inertia), and draws the candidates of this
// one. km_seed_pass reads the points once, updates each chain's distances, and adds the inertia that each candidate
// would leave. Nothing goes through the host.

// ... 6 definitions

// The weights of a thread's points in the draw of `pick`, from the pick before and the distances to earlier ones; 0
// behind the last point.
__device__ __forceinline__ void seed_values(double *values, const km_seed_args *args, const km_real *nearest,
                                            long long first, long long pick, long long last,
                                            const unsigned short *nearer, int best) {
    // ... lines of a template
// ... 8 definitions

// ... lines of a template
        const double sum = fmin(seed_sum_smaller<POINTS>(best, square[c + 1]), SEED_FAR);
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
// Distances to all centroids are float, in the difference form: their relative error is at most (D + 2) 2^-24.
// Where the second-nearest centroid is not farther than the nearest by more than that, the point is ambiguous and
// resolved in double. Squared distances are added in double; distances and margins are float.

// ... 8 definitions

// Distance to a row of means.
__device__ __forceinline__ km_real finish_distance(const km_real *x, const km_real *mean) {
    km_real square = 0;
#pragma unroll(STEP_ROW_IN_REGISTERS ? int(D) : 8)
    for (int f = 0; f < D; f++) {
        const km_real t = x[f] - mean[f];
        square = fma(t, t, square);
    }
    return finish_root(square);
}

// ... 1 definition

// Decides the label of a point, from the two nearest; resolves it in double where it is ambiguous.
__device__ __forceinline__ finish_point finish_decide(const finish_nearest &found, const km_real *x,
                                                      const double *centroids, const km_real *table, int k) {
    // Twice the bound, and what squares lose by underflow. Quotients of large squares may overflow. With k = 1
    // there is no second, and the centroid need not be a float: distances are double.
    const float apart = 1.0f + (D + 4) * 2.384185791015625e-7f, lost = 1e-37f, largest = 1e37f;
    if (!(fma(found.nearest, apart, lost) < found.second && found.second < largest))
        return finish_exact(x, centroids, k);
    return {found.label, finish_square_of_row(x, table + (long long)found.label * D),
            finish_root(found.nearest), 1.0f - finish_root(__fdividef(found.nearest, found.second))};
}

// ==== Finishing: models ====================================================================================
// Compiled apart: finish/models
// Sums of a cluster in km_finish_few_clusters: a column for each thread, so that no thread waits for another; and
// counts.
enum { FINISH_SSE, FINISH_DISTANCE, FINISH_MARGIN, FINISH_NUMBERS }; // every point weighs 1
static_assert(FINISH_NUMBERS * 8 + 4 == (WEIGHTED ? KM_FINISH_WEIGHTED_BYTES : KM_FINISH_BYTES),
              "as the engine knows");

__device__ __forceinline__ void finish_add(double *sums, unsigned *counts, const finish_point &point,
                                           double weight) {
    double *column = sums + point.label * (FINISH_NUMBERS * KM_FINISH_THREADS);
    column[FINISH_SSE * KM_FINISH_THREADS] += weight * point.square;
    column[FINISH_DISTANCE * KM_FINISH_THREADS] += weight * point.distance;
    column[FINISH_MARGIN * KM_FINISH_THREADS] += weight * point.margin;
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
        const double weight = count;
        if (threadIdx.x % 32) continue;
        out[j * KM_FINISH_SUMS + KM_FINISH_COUNT] = count;
        out[j * KM_FINISH_SUMS + KM_FINISH_WEIGHT] = weight;
        out[j * KM_FINISH_SUMS + KM_FINISH_SSE] = sse;
        out[j * KM_FINISH_SUMS + KM_FINISH_DISTANCE] = distance;
        out[j * KM_FINISH_SUMS + KM_FINISH_MARGIN] = margin;
    }
}

// ... 1 definition

// ==== Finishing: labels ====================================================================================
// ... lines of a template
// ... 7 definitions

// ==== Silhouettes ==========================================================================================
// Compiled apart: silhouette
// Silhouette: of all points and models in one read, in the squared Euclidean form. The
// mean squared distance of a point x to the points of cluster j is |x - m_j|^2 + v_j, m_j their mean and v_j their mean
// squared distance from it; to the others of its own cluster, of n_j points, n_j / (n_j - 1) times that.
// Distances are float, as in the finishing pass: points whose label they leave open are resolved in double. A thread's
// silhouettes are added in double.

// ... 12 definitions
// ... lines of a template
                if (silhouette_is_open(found[p]))
                    value = silhouette_exact(x[p], args.centroids + row * D, args.centroids + mean_row * D,
                                             (const silhouette_terms<double> *)args.exact_terms + row, k);
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
    return fma(difference, inverse, sum);
}

// ... 4 definitions

__device__ __forceinline__ km_real silhouette_inverse(km_real value) {
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(value));
    return inverse;
}

// Keeps a value in its register: a compiler would rather compute it anew for each model.
__device__ __forceinline__ void silhouette_hold(km_real &value) {
    asm volatile("" : "+f"(value));
}

// ... 2 definitions
// ... lines of a template
            if (silhouette_is_open(found[p]))
                label[first + p] = silhouette_exact_label(x[p], args.centroids + row * D, k);
        }
    }
}

// ... 4 definitions

// ==== Relocation ===========================================================================================
// Compiled apart: relocate
// Relocate: finds the points farthest from their own centroids, one after the other. km_assign has written each point's
// squared distance. A point that was taken, and points with the same coordinates, get a distance of 0.

// ... 5 definitions

// ==== The update ===========================================================================================
// Compiled apart: pass/rest
// Update: the blocks of a slot compute new centroids from the totals, and the last of them decides what the slot does
// next. The last block of all writes the report. The host queues iterations ahead of it.

// ... 2 definitions

// A slot with many clusters has several blocks (KM_UPDATE_PARTS), blockIdx.y, each of which computes a part of
// them. With no bound of two blocks a multiprocessor the compiler would aim at more, and spill.
extern "C" __global__ void __launch_bounds__(KM_THREADS, 2)
    km_update(const __grid_constant__ km_update_args args) {
    constexpr int LANES = D < 2    ? 1
                          : D < 3  ? 2
                          // ... 2 more, other numbers: 8f6738ce
                          // ... lines of a template
            for (int f = threadIdx.x % LANES; f < D; f += LANES) {
                const double c = centroids[j * (long long)D + f], sum = totals[j * (D + 1ll) + f];
                sums[0] += c * (weight * c - 2.0 * sum);
                before[j * (long long)D + f] = (km_real)c;
                if (phase == KM_SLOT_RUNNING && weight > 0.0) {
                    const km_real moved = (km_real)(sum / weight);
                    // ... lines of a template
        // One warp computes the next pass's coefficients while the first one decides. All new centroids are there:
        // km_block_sums has synchronized the block.
        if (phase == KM_SLOT_RUNNING && threadIdx.x / 32 == 7)
            km_make_coefficients(args.workspace, args.constants, slot / KS, centroids, args.box, k_index);
        // ... lines of a template

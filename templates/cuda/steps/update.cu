// SPDX-License-Identifier: MIT
// Update: the blocks of a slot compute new centroids from the totals, and the last of them decides what the slot does
// next. The last block of all writes the report. The host queues iterations ahead of it.

// Whether this is the last of a slot's blocks to arrive. That block gets the sums of all of them, added in their
// order, and sees what they wrote.
__device__ __forceinline__ bool update_join(km_slot_record *record, double *part_sums, double (&sums)[4]) {
    __shared__ bool last;
    if (gridDim.y == 1) return true;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 4; i++) part_sums[blockIdx.y * 4 + i] = sums[i];
        __threadfence();
        last = atomicAdd(&record->arrived, 1u) == gridDim.y - 1;
        __threadfence();
    }
    __syncthreads();
    if (!last) return false;
    for (int i = 0; i < 4; i++) sums[i] = 0.0;
    for (int part = 0; part < (int)gridDim.y; part++)
        for (int i = 0; i < 4; i++) sums[i] += ((volatile double *)part_sums)[part * 4 + i];
    if (threadIdx.x == 0) record->arrived = 0;
    return true;
}

// The last slot to arrive closes the iteration. No block of this launch that has work to do reads `stop` after that.
__device__ __forceinline__ void update_close(const km_update_args &args, int slot) {
    if (args.changes) args.changes[slot] = 0;
    __threadfence();
    if (atomicAdd(&args.loop->updated, 1u) != gridDim.x - 1) return;
    km_control *head = &args.loop->head;
    args.loop->updated = 0;
    const int stopped_count = *(volatile int *)&args.loop->stopped_count, passes = head->passes + 1;
    const bool stop =
        (stopped_count > 0 && stopped_count >= args.loop->stopped_min) || passes >= head->passes_max;
    head->passes = passes;
    head->stop = stop;
    if (args.report) *(volatile unsigned long long *)args.report = passes | (unsigned long long)stop << 32;
}

//@ if cosine
// A mean of rows of length 1 that is no longer than this is what rounding leaves of 0: its centroid stays.
#define UNIT_CANCELLED $cancelled

// The length of a cluster's mean in the data's own coordinates, by `lanes` threads side by side, each of which gets it.
// Behind the box stand the centre and the factor of the points. With the cosine a centroid is the mean divided by it.
__device__ __forceinline__ double update_length(const double *total, const double *box, int lanes) {
    const unsigned first = threadIdx.x % 32 / lanes * lanes;
    const unsigned together = (lanes == 32 ? ~0u : (1u << lanes) - 1u) << first;
    const double weight = total[D], factor = box[3 * D];
    double square = 0.0;
    for (int f = threadIdx.x % lanes; f < D; f += lanes) {
        const double x = total[f] / weight / factor + box[2 * D + f];
        square += x * x;
    }
    for (int away = lanes / 2; away > 0; away /= 2) square += __shfl_xor_sync(together, square, away);
    return sqrt(square);
}

//@ end
// A slot with many clusters has several blocks (KM_UPDATE_PARTS), blockIdx.y, each of which computes a part of
// them. With no bound of two blocks a multiprocessor the compiler would aim at more, and spill.
extern "C" __global__ void __launch_bounds__(KM_THREADS, 2)
    km_update(const __grid_constant__ km_update_args args) {
    constexpr int LANES = D < 2    ? 1
                          : D < 3  ? 2
                          : D < 5  ? 4
                          : D < 9  ? 8
                          : D < 17 ? 16
                                   : 32; // threads of a cluster
    constexpr int AT_ONCE = KM_THREADS / LANES;
    const int slot = blockIdx.x, k_index = slot % KS, k = km_ks[k_index];
    const long long row = (long long)(slot / KS) * S + km_offsets[k_index];
    km_slot_record *record = args.slots + slot;
    const km_slot_phase phase = record->state.phase;
    if (args.loop->head.stop) return;
    if (km_slot_is_active(phase)) {
        km_real *centroids = (km_real *)args.centroids + row * D, *before = (km_real *)args.before + row * D;
        const double *totals = args.totals + row * (D + 1);
        double sums[4] =
            {}; // of inertia, of shifts; of empty clusters, and of those that may be given a point
        for (int j = blockIdx.y * AT_ONCE + threadIdx.x / LANES; j < k; j += gridDim.y * AT_ONCE) {
            const double weight = totals[j * (D + 1ll) + D];
            //@ if cosine
            const double length = update_length(totals + j * (D + 1ll), args.box, LANES);
            //@ end
            for (int f = threadIdx.x % LANES; f < D; f += LANES) {
                const double c = centroids[j * (long long)D + f], sum = totals[j * (D + 1ll) + f];
                sums[0] += c * (weight * c - 2.0 * sum);
                before[j * (long long)D + f] = (km_real)c;
                if (phase == KM_SLOT_RUNNING && weight > 0.0) {
                    //@ if cosine
                    if (length <= UNIT_CANCELLED) continue;
                    const double centre = args.box[2 * D + f], factor = args.box[3 * D];
                    const double mean = sum / weight / factor + centre;
                    const km_real moved = (km_real)((mean / length - centre) * factor);
                    //@ else
                    const km_real moved = (km_real)(sum / weight);
                    //@ end
                    sums[1] += (moved - c) * (moved - c);
                    centroids[j * (long long)D + f] = moved;
                }
            }
            if (threadIdx.x % LANES == 0) {
                args.weights[row + j] = weight;
                sums[2] += weight > 0.0 ? 0.0 : 1.0;
                sums[3] += weight > 0.0 || args.given_up[row + j] ? 0.0 : 1.0;
            }
        }
        km_block_sums<4>(sums);
        if (!update_join(record, args.part_sums + slot * (4ll * gridDim.y), sums)) return;
        //@ if prepares_coefficients
        // One warp computes the next pass's coefficients while the first one decides. All new centroids are there:
        // km_block_sums has synchronized the block.
        if (phase == KM_SLOT_RUNNING && threadIdx.x / 32 == 7)
            km_make_coefficients(args.workspace, args.constants, slot / KS, centroids, args.box, k_index);
        //@ end
        if (threadIdx.x == 0) {
            // The first pass of a run has no labels to compare with: all count as changed.
            const int few_changes = args.changes && record->state.iterations > 0 &&
                                    (long long)args.changes[slot] < args.loop->changes_min;
            const km_slot_found found = {sums[0] + args.loop->total_square, sums[1], (long long)sums[2],
                                         sums[3] > 0.0, few_changes};
            km_slot_decide(&record->state, &found, args.loop->shift_max, args.loop->max_iter);
            args.active[slot] = km_slot_is_active(record->state.phase);
            if (!args.active[slot]) atomicAdd(&args.loop->stopped_count, 1);
        }
    } else if (blockIdx.y > 0) {
        return;
    }
    if (threadIdx.x == 0) update_close(args, slot);
}

// Of the text of {features: 24, clusters: 2..12, metric: cosine, target: cuda:sm_90}: The update
// "..." stands for what a template or an earlier part shows.

// ... 3 definitions

// A mean of rows of length 1 that is no longer than this is what rounding leaves of 0: its centroid stays.
#define UNIT_CANCELLED 0x1p-20

// ... 1 definition

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
            const double length = update_length(totals + j * (D + 1ll), args.box, LANES);
            for (int f = threadIdx.x % LANES; f < D; f += LANES) {
                const double c = centroids[j * (long long)D + f], sum = totals[j * (D + 1ll) + f];
                sums[0] += c * (weight * c - 2.0 * sum);
                before[j * (long long)D + f] = (km_real)c;
                if (phase == KM_SLOT_RUNNING && weight > 0.0) {
                    if (length <= UNIT_CANCELLED) continue;
                    const double centre = args.box[2 * D + f], factor = args.box[3 * D];
                    const double mean = sum / weight / factor + centre;
                    const km_real moved = (km_real)((mean / length - centre) * factor);
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

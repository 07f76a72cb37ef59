// Of the text of {features: 24, clusters: 2..12, metric: cosine, target: cuda:sm_90}: The update
// "..." stands for what a template or an earlier part shows, or what comes again.

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
                          // ... 2 more, other numbers: 8f6738ce
                          // ... lines of a template
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
                    // ... lines of a template
        // ... lines of a template

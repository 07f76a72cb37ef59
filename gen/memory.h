// SPDX-License-Identifier: MIT
// How many bytes a whole fit takes: one count for planner and engines. What engines reserve is counted by the same
// functions, so that what was planned is what is taken.
#ifndef KM_GEN_MEMORY_H
#define KM_GEN_MEMORY_H
#include <kmgen/plan.h>

// Bytes by use. A fit's phases follow each other; what only one of them needs is counted once, as the largest.
typedef struct km_memory {
    int64_t points;   // table, weights and what is known of each feature
    int64_t arriving; // until the points are centred and scaled: the table as it came, statistics of chunks
    int64_t slots;    // centroids, sums and labels of the runs of a pass
    int64_t pass;     // workspace of a pass, or what the algorithm keeps
    int64_t
        steps; // seeding, relocation, finishing with its labels: the largest; CUDA: what the workspace cannot hold
    int64_t chains; // CPU: restarts whose k-means++ chains advance together: as many as there is memory for
    int64_t spare;  // kernels and the driver's own; stacks
    int64_t total;  // at most, at one time, on the plan's device
    int64_t host;   // CUDA: the machine's memory beside that; 0 on a CPU
    // CUDA, where the plan streams: what grows with the points lies on the host but for a part of it.
    int64_t far;            // bytes of `host` for that
    int64_t streamed;       // bytes that a pass reads there
    int64_t points_near;    // bytes of the table of points on the device
    int64_t workspace_near; // ... and of the workspace of a pass
    int64_t window;         // points that passes take at a time; 0: they read them where they lie
} km_memory;

// `plan` has its design, numbers and algorithm; plan->points must be known (else all is 0). Where ranks share them, of
// the one that has the most.
void km_memory_of(km_memory *memory, const km_plan *plan);

// Points of a rank at most: ranks have whole chunks. Without ranks all points.
int64_t km_share_points(const km_plan *plan);

// Bytes of temporary files: what km_memory_of leaves out.
int64_t km_memory_in_files(const km_plan *plan);

enum {
    KM_FINISH_POINT_BYTES = 20
}; // scratch of the finishing pass, a point and run: label, distance, margin

// CSR points in memory (runtime/sparse.h), on average: indices and values, the row's start, |x|.
double km_csr_point_bytes(const km_plan *plan);
// ... and of them an index: the least of 1, 2 and 4 bytes that holds d - 1.
static inline int32_t km_csr_index_bytes(int64_t d) {
    return d <= 256 ? 1 : d <= 65536 ? 2 : 4;
}

// CUDA: memory of the steps around the pass, n points, at most. `scratch`: a number a point and run; with
// less than that a step still works in the workspace, if that is no smaller. `work`: tables and sums.
// Of points that are streamed what grows with them has a place of its own: `scratch` is without that.
typedef struct km_cuda_steps {
    int64_t scratch, work;
} km_cuda_steps;
km_cuda_steps km_cuda_steps_of(const km_plan *plan, int64_t n);
enum { KM_WINDOW_SLOTS = 3 }; // windows of points in the ring of a pass
// For tests: points of a window; 0: the planner decides.
extern int64_t km_window_points;
#define KM_LABEL_SUMS_BYTES ((int64_t)64 << 20) // of the parts of sums by labels, at most, or one part
// Chunks whose sums the finishing pass keeps at a time.
int64_t km_cuda_finish_chunks(int64_t rows_count, int64_t chunks_count);

// A sample on the host lies in tiles of so many points, feature by feature (runtime/sample.h).
enum { KM_SAMPLE_TILE = 16 };

// Refinement (runtime/refine/), on the host of any device: the points of its sample, and all that it takes.
int64_t km_refine_sample(const km_plan *plan, int64_t n);
int64_t km_refine_bytes(const km_plan *plan, int64_t n);

// CPU: what the engine makes, by its plan and threads.
int64_t km_cpu_label_bytes(int64_t k);
int km_cpu_sums_are_owned(const km_plan *plan, int64_t k);        // too many rows for a copy of each thread
int64_t km_cpu_accumulators(int64_t threads, int64_t sums_count); // of totals in a pass
int64_t km_cpu_tiles_bytes(const km_plan *plan, int64_t n);       // tiles of the algorithm tiles
int64_t km_cpu_sorting_bytes(const km_plan *plan,
                             int64_t n); // ... and what sorting takes before they are filled

// Points of the sample by which valleys are measured (runtime/criteria/valley.h); 0: none.
int64_t km_valley_points(int64_t n, int64_t d, const int32_t *clusters, int64_t clusters_count);

#endif

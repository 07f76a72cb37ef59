// SPDX-License-Identifier: MIT
#include "memory.h"
#include "../base/size.h"
#include "../templates/both.h"
#include "../templates/cpu/abi.h"
#include "../templates/cuda/abi.h"
#include "../templates/cuda/steps.h"
#include "algorithm.h"
#include "cpu/facts.h"
#include "cuda/bounds.h"
#include "cuda/common.h"
#include "cuda/tiles.h"
#include "design.h"

enum {
    CHUNK_POINTS = KM_SUBCHUNK_POINTS * KM_SUBCHUNKS_PER_CHUNK, // the unit of every ordered sum over points
    CUDA_PAGE = 2 << 20,                                        // what the driver gives at a time
    CUDA_SPARE = 96 << 20,     // kernels, their stacks and the driver's own, beside what is allocated
    CUDA_RECORDS = 256,        // the control of the loop before the slots' records
    CUDA_RUNS_AT_ONCE = 64,    // of the finishing pass
    CUDA_PICKS_AT_ONCE = 64,   // farthest points
    CUDA_FAR_POINT_BYTES = 12, // label, distance
    CUDA_SUMS_BYTES_MAX = 64 << 20,
    CUDA_FINISH_BYTES = 32 << 20, // labels and distances of a slice of streamed points
    CUDA_WINDOW_BYTES = 32 << 20, // copies of fewer points are slower
    SEED_COLUMNS = 16,            // of a chain's table, CSR
    HOST_PAGE = 2 << 20,
    HOST_SPARE = 16 << 20,
    FIRST_ROWS_BYTES = 16 << 20, // picked points that the sweep keeps
    SPAN_POINTS = 4096           // of relocation
};
// Minimum distances of all chains in one seeding pass take at most this many bytes.
#define SEED_STATE_BYTES ((int64_t)2 << 30)

int64_t km_share_points(const km_plan *plan) {
    int64_t chunks = km_divide_up(plan->points, CHUNK_POINTS);
    if (plan->ranks < 2) return plan->points;
    return km_min(km_divide_up(chunks, plan->ranks) * CHUNK_POINTS, plan->points);
}

static int64_t restarts_of(const km_plan *plan) {
    return km_max(km_plan_value(plan, KM_PARAM_concurrent_restarts), 1);
}

static int64_t k_max_of(const km_plan *plan) {
    return plan->spec.clusters[plan->spec.clusters_count - 1];
}

// CUDA --------------------------------------------------------------------------------------------------------

static int64_t aligned(int64_t bytes) {
    return km_round_up(bytes, KM_ALIGN_BYTES);
}

static int64_t paged(int64_t bytes) {
    return km_round_up(bytes, CUDA_PAGE);
}

int64_t km_cuda_finish_chunks(int64_t rows_count, int64_t chunks_count) {
    return km_max(1, km_min(chunks_count, CUDA_SUMS_BYTES_MAX / (rows_count * KM_FINISH_SUMS * 8)));
}

// Tables of sums of a chunk, as runtime/cuda/finish.c has them.
static int64_t finish_pieces(const km_plan *plan) {
    int64_t d = plan->spec.features, k_max = k_max_of(plan);
    int64_t few_bytes =
        k_max * KM_FINISH_THREADS * (plan->weighted ? KM_FINISH_WEIGHTED_BYTES : KM_FINISH_BYTES);
    int is_csr = km_plan_is_csr(plan);
    if (!is_csr && KM_FINISH_HAS_TILES(d)) return KM_FINISH_PIECES(d);
    if (!is_csr && k_max <= KM_FINISH_FEW_MAX && few_bytes <= plan->facts.shared_bytes_per_block) return 1;
    return CHUNK_POINTS / KM_FINISH_SHARED_POINTS;
}

// Chains of k-means++ that one read from the host serves: their distances, which lie there as well, take no more than
// the points.
static int64_t streamed_chains(const km_plan *plan) {
    int64_t real = km_type_bytes(plan->spec.type), row = plan->spec.features * real;
    if (km_plan_is_csr(plan)) row = (int64_t)km_csr_point_bytes(plan);
    return km_max(1, km_min(plan->spec.n_init, row / real));
}

km_cuda_steps km_cuda_steps_of(const km_plan *plan, int64_t n) {
    int64_t d = plan->spec.features, real = km_type_bytes(plan->spec.type), rows = plan->clusters_sum + 1;
    int64_t k_max = k_max_of(plan), runs = km_min(plan->spec.clusters_count + 1, CUDA_RUNS_AT_ONCE);
    int64_t subchunks = (n + KM_SUBCHUNK_POINTS - 1) / KM_SUBCHUNK_POINTS,
            chunks = (n + CHUNK_POINTS - 1) / CHUNK_POINTS;
    int64_t d8 = aligned(d * 8), sums = rows * KM_FINISH_SUMS * 8;
    int is_csr = km_plan_is_csr(plan), shares = plan->ranks > 0;
    // Ranks join the sums of all chunks while they load, and keep those of their own in the last pass.
    int64_t joined = shares ? km_max(plan->points, n) : n;
    int64_t column = is_csr ? (d + 1) * 8 : 0; // CSR: centroids as columns of doubles
    int64_t loading = is_csr ? 0
                             : 5 * d8 + 16 + 4 * d8 + KM_ALIGN_BYTES +
                                   km_max(km_divide_up(joined, CHUNK_POINTS) * 4 * d8,
                                          km_divide_up(joined, KM_SUBCHUNK_POINTS) * 8);
    int64_t chains = plan->streams ? streamed_chains(plan) : 1;
    int64_t seeding = aligned(chains * k_max * 8) + aligned(2 * chains * KM_CANDIDATES_MAX * 8) +
                      chains * (KM_CANDIDATES_MAX * (subchunks + chunks) * 8 + SEED_COLUMNS * column);
    int64_t moving = KM_ALIGN_BYTES + aligned(k_max * d * 8) + aligned((k_max + CUDA_PICKS_AT_ONCE) * 8) +
                     2 * subchunks * 8;
    moving += k_max * column;
    // Rows of centroids, and of means; in double, sums of a model by its labels.
    int64_t pieces = finish_pieces(plan),
            kept = shares ? chunks : km_cuda_finish_chunks(rows * pieces, chunks);
    int64_t finishing = aligned(2 * rows * d * 8) + aligned(2 * rows * (is_csr ? column : d * real)) +
                        aligned(runs * 4) + 2 * aligned(runs * 8) + aligned(sums) +
                        aligned(kept * pieces * sums);
    int64_t table = k_max * d * KM_LABEL_PARTS(d) * 8;
    if (plan->spec.type == KM_FLOAT64)
        finishing += aligned(k_max * d * 8) + km_max(1, km_min(chunks, KM_LABEL_SUMS_BYTES / table)) * table;
    int64_t picked = plan->spec.n_init * k_max, fetched = k_max;
    if (picked <= FIRST_ROWS_BYTES / (8 * d)) fetched = km_max(picked, k_max);
    int64_t fetching = aligned(fetched * 8) + fetched * d * 8;
    int64_t chunk = runs * km_min(n, CHUNK_POINTS) * (KM_FINISH_POINT_BYTES + 8),
            more = n * CUDA_FAR_POINT_BYTES;
    if (plan->streams) more = km_min(more, CUDA_FINISH_BYTES); // for the last pass alone
    km_cuda_steps steps = {.scratch = km_max(more, chunk),
                           .work =
                               km_max(loading, km_max(seeding, km_max(moving, km_max(finishing, fetching))))};
    return steps;
}

// Everything of the slots but the workspace.
static int64_t cuda_slots(const km_plan *plan, int64_t n) {
    int64_t d = plan->spec.features, restarts = restarts_of(plan), rows = restarts * plan->clusters_sum;
    int64_t slots = restarts * plan->spec.clusters_count, parts = KM_UPDATE_PARTS(k_max_of(plan), d);
    int64_t state =
        CUDA_RECORDS + aligned(slots * (int64_t)sizeof(km_slot_record)) + aligned(slots) + aligned(rows);
    int64_t bytes = 2 * paged(rows * d * km_type_bytes(plan->spec.type)) + paged(rows * (d + 1) * 8) +
                    paged(rows * 8) + paged(state);
    if (parts > 1) bytes += paged(slots * parts * 32);
    if (plan->track_labels)
        bytes += paged(slots * 8) + paged(slots * aligned(n) * (k_max_of(plan) <= 256 ? 1 : 2));
    return bytes;
}

static int64_t pass_bytes(const km_plan *plan, int64_t n) {
    enum { SPARE = 16 << 20 };
    const km_design_code *code = km_design_code_of(plan->design);
    return SPARE + (code->workspace_bytes ? code->workspace_bytes(plan, n) : 0);
}

static int64_t csr_loading_bytes(const km_plan *plan);

// Bytes of the points, as CSR: nonzeros, starts and norms of whole chunks.
static int64_t csr_bytes(const km_plan *plan) {
    int64_t chunks = km_divide_up(plan->points, CHUNK_POINTS);
    return (int64_t)(km_csr_point_bytes(plan) * (double)plan->points) + chunks * 12 +
           (chunks * CHUNK_POINTS - plan->points) * 4;
}

// Large pieces come in whole pages (runtime/pages.c), or lie in temporary files.
static int64_t pages(const km_plan *plan, int64_t bytes) {
    if (plan->facts.scratch_from && bytes >= plan->facts.scratch_from) return 0;
    return bytes > HOST_PAGE / 2 ? km_round_up(bytes, HOST_PAGE) : bytes;
}

// The means of the labels, and the sums of a model whose labels are taken again (runtime/criteria/means.c).
static int64_t means_bytes(const km_plan *plan) {
    int64_t d = plan->spec.features;
    return plan->clusters_sum * (d + 3) * 8 + k_max_of(plan) * (d + 4) * 8;
}

int64_t km_window_points;

// Memory of windows of so many points: the ring, the tiles of one, the sums of those before it.
static int64_t windows_bytes(const km_plan *plan, int64_t points) {
    int64_t row = plan->spec.features * km_type_bytes(plan->spec.type);
    return paged(pass_bytes(plan, points)) + paged(KM_WINDOW_SLOTS * points * row) +
           paged(km_cuda_partial_bytes(plan));
}

// Points of a window: as many as keep the bus busy, if there is room for them beside all else, before any point stays
// on the device: launches take 0.1 to 0.2 ms of a window of whatever size. Of whole chunks, which the last pass then
// takes from the ring as well, if there are so many. 0: the design has none.
static int64_t window_of(const km_plan *plan, int64_t others) {
    int64_t row = plan->spec.features * km_type_bytes(plan->spec.type), least = KM_SUBCHUNK_POINTS;
    if (!km_cuda_has_windows(plan)) return 0;
    if (km_window_points) return km_window_points;
    int64_t room = plan->facts.memory_free_bytes - others - windows_bytes(plan, least), points = least;
    while (points < CUDA_WINDOW_BYTES / row &&
           windows_bytes(plan, 2 * points) - windows_bytes(plan, least) <= room)
        points *= 2;
    return points;
}

// Numbers of a point and chain, or of a point, that seeding or relocation has.
static int64_t far_scratch(const km_memory *memory, const km_plan *plan) {
    int64_t n = km_share_points(plan);
    return km_max(memory->chains * n * km_type_bytes(plan->spec.type), n * CUDA_FAR_POINT_BYTES);
}

// Points that do not fit: on the device are tables that do not grow with them, windows, and of the points what has a
// place beside those. All else lies on the host.
static void stream(km_memory *memory, const km_plan *plan) {
    enum { BESIDE = 16 << 20 };
    int64_t n = km_share_points(plan), d = plan->spec.features, real = km_type_bytes(plan->spec.type),
            row = d * real;
    int64_t table = km_plan_is_csr(plan) ? csr_bytes(plan) : (n + KM_PAD_ROWS) * row;
    int64_t workspace = pass_bytes(plan, n), weights = plan->weighted ? n * 8 + (n + KM_PAD_ROWS) * real : 0;
    int64_t slots = restarts_of(plan) * plan->spec.clusters_count, labels = 0;
    int64_t raw = plan->value_bytes && plan->value_bytes != real ? n * d * plan->value_bytes : 0;
    km_cuda_steps steps = km_cuda_steps_of(plan, n);
    if (plan->track_labels) labels = slots * aligned(n) * (k_max_of(plan) <= 256 ? 1 : 2);
    memory->chains = streamed_chains(plan);
    memory->points -= paged(table) + (plan->weighted ? paged(n * 8) + paged((n + KM_PAD_ROWS) * real) : 0);
    memory->arriving = paged(steps.work);
    memory->slots -= plan->track_labels ? paged(labels) : 0;
    memory->steps = paged(steps.work) + paged(steps.scratch);
    int64_t others = memory->points + memory->spare + memory->slots + memory->steps;
    memory->window = window_of(plan, others);
    if (memory->window) workspace = pass_bytes(plan, memory->window);
    memory->workspace_near =
        memory->window ? workspace : km_min(workspace, pass_bytes(plan, CHUNK_POINTS) + BESIDE);
    memory->pass = memory->window ? windows_bytes(plan, memory->window) : paged(memory->workspace_near);
    others += memory->pass;
    memory->points_near =
        km_max(0, km_min(table, plan->facts.memory_free_bytes - others)) / CUDA_PAGE * CUDA_PAGE;
    memory->points += memory->points_near;
    memory->total = others + memory->points_near;
    memory->far = table - memory->points_near + workspace - memory->workspace_near + weights + labels +
                  km_max(raw, far_scratch(memory, plan));
    memory->streamed = table - memory->points_near + (plan->weighted ? n * real : 0);
    memory->host += memory->far;
}

static void of_cuda(km_memory *memory, const km_plan *plan) {
    int64_t n = km_share_points(plan), d = plan->spec.features, real = km_type_bytes(plan->spec.type);
    int64_t subchunks = (n + KM_SUBCHUNK_POINTS - 1) / KM_SUBCHUNK_POINTS, workspace = pass_bytes(plan, n);
    km_cuda_steps steps = km_cuda_steps_of(plan, n);
    int is_csr = km_plan_is_csr(plan);
    memory->points = paged(is_csr ? csr_bytes(plan) : (n + KM_PAD_ROWS) * d * real) + paged(subchunks * 8) +
                     paged((plan->spec.metric == KM_METRIC_COSINE ? 3 * d + 1 : 2 * d) * 8);
    if (plan->weighted) memory->points += paged(n * 8) + paged((n + KM_PAD_ROWS) * real);
    int64_t comes = plan->value_bytes ? plan->value_bytes : real;
    memory->arriving = paged(steps.work) + (is_csr || comes == real ? 0 : paged(n * d * comes));
    memory->slots = cuda_slots(plan, n);
    memory->pass = paged(workspace);
    if (plan->algorithm == KM_ALGORITHM_TILES) {
        km_tiles_tables tables = km_cuda_tiles_tables(plan, n);
        memory->pass += paged(tables.kept) + paged(tables.sorting);
    }
    if (km_algorithm_has_bounds(plan->algorithm)) memory->pass += paged(km_cuda_bounds_tables(plan, n).kept);
    memory->steps = paged(steps.work) + (steps.scratch > workspace ? paged(steps.scratch) : 0);
    memory->spare = CUDA_SPARE;
    memory->total = memory->points + memory->spare +
                    km_max(memory->arriving, memory->slots + memory->pass + memory->steps);
    memory->host = plan->label_sets * n * 4 + HOST_SPARE +
                   km_max(km_refine_bytes(plan, plan->points), means_bytes(plan));
    if (is_csr) memory->host += csr_bytes(plan) + csr_loading_bytes(plan); // the host packs them
    memory->chains = km_max(1, km_min(plan->spec.n_init, SEED_STATE_BYTES / (n * (int64_t)sizeof(double))));
    if (plan->streams) stream(memory, plan);
}

double km_csr_point_bytes(const km_plan *plan) {
    int64_t d = plan->spec.features, index = km_csr_index_bytes(d);
    return plan->nonzeros * (double)(index + km_type_bytes(plan->spec.type)) + 2 * 4;
}

// Refinement --------------------------------------------------------------------------------------------------

int64_t km_refine_sample(const km_plan *plan, int64_t n) {
    enum {
        POINTS = 4096,    // where there are as many ...
        PER_CLUSTER = 16, // ... and for each cluster of the largest K
        VALUES = 1 << 20  // at most: of the sample, and of its distances for all K
    };
    int64_t wanted = km_max(POINTS, PER_CLUSTER * k_max_of(plan));
    int64_t most = VALUES / km_max(plan->spec.features, plan->spec.clusters_count);
    return km_min(n, km_max(km_min(wanted, most), 1));
}

int64_t km_refine_bytes(const km_plan *plan, int64_t n) {
    enum { PARTNER_BYTES = 16, LABEL_BYTES = 4, EXCHANGE_BYTES = 24, TRIAL_BYTES = 128 };
    if (plan->spec.refine == 0) return 0;
    int64_t d = plan->spec.features, ks = plan->spec.clusters_count, k_max = k_max_of(plan);
    int64_t count = km_refine_sample(plan, n), points = km_round_up(count, KM_SAMPLE_TILE);
    int64_t bytes = points * (2 * d + 4 + ks) * 8 + points * ks * LABEL_BYTES + k_max * (2 * d + 1) * 8;
    bytes += (plan->clusters_sum + k_max) * PARTNER_BYTES + ks * TRIAL_BYTES * 2;
    bytes += 4 * plan->clusters_sum * (2 * d + 1) * 8; // trials
    int64_t threads = km_max(plan->threads ? plan->threads : plan->facts.units, 1);
    if (count == n) bytes += km_min(threads, 2 * ks) * (points * EXCHANGE_BYTES + k_max * (2 * d + 1) * 8);
    return bytes;
}

// CPU ---------------------------------------------------------------------------------------------------------

int64_t km_cpu_label_bytes(int64_t k) {
    return k <= 256 ? 1 : k <= 65536 ? 2 : 4;
}

int km_cpu_sums_are_owned(const km_plan *plan, int64_t k) {
    // Doubles of sums above which they are not copied for each thread; of CSR points a chunk changes few of them.
    enum { DENSE_MAX = 4 * 1024 * 1024, CSR_MAX = 128 * 1024 };
    return k * KM_CPU_PITCH(plan->spec.features) > (km_plan_is_csr(plan) ? CSR_MAX : DENSE_MAX);
}

// One for each thread while those of all stay small, else one that threads share.
int64_t km_cpu_accumulators(int64_t threads, int64_t sums_count) {
    enum { DIGITS_MAX = 2 * 1024 * 1024 }; // doubles of all
    return km_max(1, km_min(threads, DIGITS_MAX / (3 * sums_count + 1)));
}

static int64_t threads_of(const km_plan *plan) {
    return km_max(plan->threads ? plan->threads : plan->facts.units, 1);
}

static int64_t soa_points_of(const km_plan *plan) {
    return km_max(km_plan_value(plan, KM_PARAM_soa_points), 1);
}

int64_t km_cpu_tiles_bytes(const km_plan *plan, int64_t n) {
    int64_t d = plan->spec.features, real = km_type_bytes(plan->spec.type),
            tiles = km_round_up(n, KM_CPU_TILE_POINTS) / KM_CPU_TILE_POINTS;
    int64_t supers = km_round_up(tiles, KM_CPU_TILES_OF_SUPER) / KM_CPU_TILES_OF_SUPER;
    int64_t box = (2 * d + 1) * KM_CPU_BOXES * real, row = KM_CPU_PITCH(d) * (int64_t)sizeof(double);
    int64_t boxes = (supers + km_round_up(supers, KM_CPU_BOXES) / KM_CPU_BOXES) * box;
    return pages(plan, tiles * KM_CPU_TILE_POINTS * d * real) + boxes + pages(plan, tiles * row) +
           pages(plan, supers * row) + (plan->weighted ? pages(plan, tiles * KM_CPU_TILE_POINTS * 8) : 0);
}

int64_t km_cpu_sorting_bytes(const km_plan *plan, int64_t n) {
    enum { CARRIED_BYTES = 16, DIGITS = 256 };
    int64_t row = plan->spec.features * (int64_t)sizeof(float),
            chunks = km_round_up(n, CHUNK_POINTS) / CHUNK_POINTS;
    int carried = row <= CARRIED_BYTES && !plan->weighted && plan->value_bytes != 8;
    return 2 * pages(plan, n * 8) + chunks * DIGITS * 4 + (carried ? pages(plan, n * row) : 0);
}

// Points that lie as CSR: centroids side by side, `bytes` a coordinate, and their constants.
static int64_t side_by_side(const km_plan *plan, int64_t centroids, int64_t bytes) {
    enum { COLUMNS = 16 };
    return pages(plan, (plan->spec.features + 2) * km_round_up(centroids, COLUMNS) * bytes);
}

// Scores in double of some rows, of all threads.
static int64_t csr_scores(const km_plan *plan, int64_t centroids) {
    enum { ROWS = 64, COLUMNS = 16 };
    return threads_of(plan) * ROWS * (km_round_up(centroids, COLUMNS) + 1) * 8;
}

// What passes over CSR points keep: the table of all runs, what threads find of a span, and changes of runs whose sums
// are owned.
static int64_t csr_pass_bytes(const km_plan *plan) {
    enum { SLOT_BYTES = 6224, CHANGES_SHARE = 2, CHANGE_BYTES = 8 };
    int64_t restarts = restarts_of(plan), slots = restarts * plan->spec.clusters_count, n = plan->points,
            owned = 0;
    for (int64_t i = 0; i < plan->spec.clusters_count; i++)
        owned += km_cpu_sums_are_owned(plan, plan->spec.clusters[i]);
    int64_t changes = restarts * owned * (n / CHANGES_SHARE + n / KM_CPU_PASS_POINTS) * CHANGE_BYTES;
    return side_by_side(plan, restarts * plan->clusters_sum, km_type_bytes(plan->spec.type)) +
           threads_of(plan) * slots * SLOT_BYTES + (owned ? changes + n * 8 + plan->spec.features * 8 : 0);
}

// Of one run, all but its labels.
static int64_t run_bytes(const km_plan *plan, int64_t k) {
    int64_t d = plan->spec.features, bytes = k * (2 * d * 8 + KM_CPU_PITCH(d) * 8 + 1);
    if (!km_cpu_sums_are_owned(plan, k)) bytes += 3 * k * KM_CPU_PITCH(d) * 8;
    if (km_plan_is_csr(plan)) return bytes;
    bytes += KM_CPU_TABLE_ROWS(k) * (d + 1) * km_type_bytes(plan->spec.type);
    if (km_plan_value(plan, KM_PARAM_int16_scores) == 1)
        bytes += (k * KM_CPU_INT16_ROW(d) + KM_CPU_COLUMNS(k) * (d + 1)) * 4;
    return bytes;
}

// Returns what is there before the points are.
static int64_t add_slots(km_memory *memory, const km_plan *plan) {
    int64_t points = km_round_up(plan->points, soa_points_of(plan)), restarts = restarts_of(plan), labels = 0,
            sums = 0, tables = 0;
    int64_t d = plan->spec.features, threads = threads_of(plan);
    for (int64_t i = 0; i < plan->spec.clusters_count; i++) {
        int64_t k = plan->spec.clusters[i];
        labels += restarts * km_round_up(points * km_cpu_label_bytes(k), 64);
        tables += restarts * run_bytes(plan, k);
        if (!km_cpu_sums_are_owned(plan, k)) sums += restarts * k * KM_CPU_PITCH(d);
    }
    int64_t partials = threads + 3 * km_cpu_accumulators(threads, sums),
            slots = restarts * plan->spec.clusters_count;
    // The engine's own note of a slot is about as long as that for a pass.
    int64_t lists = (2 + threads) * slots * (int64_t)sizeof(km_cpu_slot);
    int64_t totals = (partials * sums + 3 * KM_CPU_PITCH(d)) * 8; // and their units
    memory->slots = pages(plan, labels) + tables + totals + lists;
    return totals + lists;
}

int64_t km_cpu_bounds_point_bytes(const km_plan *plan) {
    int64_t restarts = restarts_of(plan), floats = 0;
    if (!km_algorithm_has_bounds(plan->algorithm)) return 0;
    for (int64_t i = 0; i < plan->spec.clusters_count; i++) {
        int64_t k = plan->spec.clusters[i], groups = km_divide_up(k, KM_CPU_BOUNDS_LANES);
        floats += 2 + (plan->algorithm == KM_ALGORITHM_ELKAN ? k + groups : 0);
    }
    return floats * restarts * (int64_t)sizeof(float);
}

int64_t km_cpu_row_point_bytes(const km_plan *plan) {
    int64_t d = plan->spec.features, vectors = km_divide_up(d, KM_CPU_BOUNDS_LANES);
    if (!km_algorithm_has_bounds(plan->algorithm) || d < KM_CPU_BOUNDS_ROWS_D) return 0;
    return vectors * KM_CPU_BOUNDS_LANES * km_type_bytes(plan->spec.type);
}

// Of hamerly and elkan: bounds and tables of all runs, lists of all threads.
static int64_t bounds_bytes(const km_plan *plan) {
    enum { ROWS_PER_K = 10, CHUNK = 2048, LANES = KM_CPU_BOUNDS_LANES };
    int64_t d = plan->spec.features, d_row = km_round_up(d, LANES), bytes = 0, n = plan->points + LANES;
    for (int64_t i = 0; i < plan->spec.clusters_count; i++) {
        int64_t k = plan->spec.clusters[i], k_row = km_round_up(k, LANES);
        bytes += k * (d + 4) * 8 + ((d + 1) * k_row + k * d_row) * km_type_bytes(plan->spec.type) +
                 (ROWS_PER_K + k) * k_row * 4;
        bytes += 2 * pages(plan, n * 4);
        if (plan->algorithm == KM_ALGORITHM_ELKAN)
            bytes += pages(plan, n * k * 4) + pages(plan, n * (k_row / LANES) * 4);
    }
    int64_t own = CHUNK * 16 + (d * (2 * LANES + 2) + km_round_up(k_max_of(plan), LANES)) * 8;
    return restarts_of(plan) * bytes + threads_of(plan) * (own + restarts_of(plan) * plan->clusters_sum * 4);
}

// What the algorithm keeps through all passes.
static int64_t kept_bytes(const km_plan *plan) {
    int64_t n = plan->points, k = k_max_of(plan), d = plan->spec.features,
            real = km_type_bytes(plan->spec.type);
    if (km_plan_is_csr(plan)) return csr_pass_bytes(plan);
    if (plan->algorithm == KM_ALGORITHM_TILES) {
        int64_t lists = k * (KM_CPU_PITCH(d) * 8 + 24 + (KM_CPU_BOXES + 1) * real) + 16 * (d + 1) * real;
        return km_cpu_tiles_bytes(plan, n) + threads_of(plan) * lists;
    }
    if (!km_algorithm_has_bounds(plan->algorithm)) return 0;
    return pages(plan, n * km_cpu_row_point_bytes(plan)) + bounds_bytes(plan);
}

static int64_t chain_bytes(const km_plan *plan) {
    enum { SUBCHUNK_POINTS = 1024, CANDIDATES = 16 };
    int64_t n = plan->points, d = plan->spec.features, soa_points = soa_points_of(plan),
            subchunks = n / km_max(SUBCHUNK_POINTS, soa_points) + 1;
    int64_t chunks = n / CHUNK_POINTS + 1;
    if (km_plan_is_csr(plan))
        return pages(plan, n * km_type_bytes(plan->spec.type)) + side_by_side(plan, CANDIDATES, 8) +
               csr_scores(plan, CANDIDATES) + subchunks * CANDIDATES * 8 + (subchunks + chunks) * 8 +
               (threads_of(plan) + 1) * d * 4;
    return pages(plan, km_round_up(n, soa_points) * km_type_bytes(plan->spec.type)) +
           (CANDIDATES + 1) * d * km_type_bytes(plan->spec.type) + subchunks * CANDIDATES * 8 +
           (subchunks + chunks) * 8 + threads_of(plan) * (int64_t)sizeof(km_cpu_chain);
}

static int64_t finishing_bytes(const km_plan *plan) {
    int64_t d = plan->spec.features, rows = plan->clusters_sum + 1, runs = plan->spec.clusters_count + 1;
    int64_t threads = km_min(threads_of(plan), plan->points / CHUNK_POINTS + 1);
    // In double, labels and sums of a model by them.
    int64_t again = plan->spec.type == KM_FLOAT64 ? CHUNK_POINTS * 4 + (k_max_of(plan) + 1) * d * 8 + 64 : 0;
    int64_t own = rows * KM_CPU_SUMS * 8 + 144 + runs * (int64_t)sizeof(km_cpu_finish_model) + again;
    // Rows of centroids, and of means.
    if (km_plan_is_csr(plan))
        return side_by_side(plan, 2 * rows, 8) + csr_scores(plan, 2 * rows) + threads * own;
    return 2 * rows * km_round_up(d, 8) * 8 + 2 * runs * d * KM_CPU_FEW_CLUSTERS * 8 +
           rows * (d + 1) * km_type_bytes(plan->spec.type) + threads * own;
}

static int64_t relocating_bytes(const km_plan *plan) {
    int64_t d = plan->spec.features, k = k_max_of(plan), span = km_round_up(SPAN_POINTS, soa_points_of(plan));
    int64_t own = span * 12 + k * 24 + d * 16 + 256, moved = k * (d * 8 + 40);
    if (km_plan_is_csr(plan))
        return side_by_side(plan, k, 8) + csr_scores(plan, k) + moved + threads_of(plan) * own;
    return k * (km_round_up(d, 8) * 8 + (d + 1) * km_type_bytes(plan->spec.type)) +
           d * KM_CPU_FEW_CLUSTERS * 8 + moved + threads_of(plan) * own;
}

int64_t km_valley_points(int64_t n, int64_t d, const int32_t *clusters, int64_t clusters_count) {
    // Points of a sample, and of each cluster of the largest K, at most; fewer of a cluster than the last show no
    // valley.
    enum { SAMPLE_POINTS = 8192, CLUSTER_POINTS = 32, CLUSTER_POINTS_MIN = 16 };
    const int64_t values_max = (int64_t)1 << 23;
    // Multiplications for the distances of all Ks: about a second of one core.
    const int64_t products_max = (int64_t)1 << 31;
    int64_t sum = 0, largest = clusters[clusters_count - 1];
    for (int64_t q = 0; q < clusters_count; q++) sum += clusters[q];
    int64_t count = km_min(n, km_max(SAMPLE_POINTS, CLUSTER_POINTS * largest));
    count = km_min(count, values_max / d);
    count = km_min(count, products_max / d / sum);
    return count < n && count < CLUSTER_POINTS_MIN * largest ? 0 : count;
}

// The sample of a decision, in double, and a tile of it as rows.
static int64_t deciding_bytes(const km_plan *plan) {
    int64_t points =
        km_valley_points(plan->points, plan->spec.features, plan->spec.clusters, plan->spec.clusters_count);
    int64_t rows = points ? km_round_up(points, KM_SAMPLE_TILE) + KM_SAMPLE_TILE : 0;
    return rows * (plan->spec.features + 1) * 8;
}

static int64_t refining_bytes(const km_plan *plan) {
    return km_refine_bytes(plan, plan->points) + relocating_bytes(plan);
}

static int64_t loading_bytes(const km_plan *plan) {
    enum { CHUNK_VALUES = 4096, LANES = 8 };
    int64_t d = plan->spec.features, chunks = plan->points / CHUNK_POINTS + 1;
    int64_t own = 2 * km_max(CHUNK_VALUES, LANES * d) + 2048 + (5 * LANES + 5) * d;
    return (chunks * (2 + 4 * d) + 2 * LANES * d) * 8 + pages(plan, threads_of(plan) * own * 8);
}

// Statistics of the parts that are gathered side by side (runtime/sparse.c), and batches of rows.
static int64_t csr_loading_bytes(const km_plan *plan) {
    enum { VALUES = 1 << 23, PARTS_MAX = 64, PARTS_MIN = 4, BATCH_VALUES = 1 << 16 };
    int64_t d = plan->spec.features, parts = km_max(PARTS_MIN, km_min(PARTS_MAX, VALUES / (6 * d)));
    parts = km_min(parts, plan->points / CHUNK_POINTS + 1);
    return (6 * parts + 3) * d * 8 + threads_of(plan) * (km_max(BATCH_VALUES, d) * 20);
}

static void of_cpu(km_memory *memory, const km_plan *plan) {
    int64_t n = plan->points, d = plan->spec.features, restarts = plan->spec.n_init;
    memory->points =
        (km_plan_is_csr(plan)
             ? pages(plan, (int64_t)(km_csr_point_bytes(plan) * (double)n))
             : pages(plan, km_round_up(n, soa_points_of(plan)) * d * km_type_bytes(plan->spec.type))) +
        8 * d * 8;
    memory->arriving = km_plan_is_csr(plan) ? csr_loading_bytes(plan) : loading_bytes(plan);
    int64_t early = add_slots(memory, plan);
    memory->pass = kept_bytes(plan);
    int64_t sorting = plan->algorithm == KM_ALGORITHM_TILES ? km_cpu_sorting_bytes(plan, n) : 0;
    int64_t last = km_max(finishing_bytes(plan), deciding_bytes(plan));
    int64_t finishing = pages(plan, plan->label_sets * n * 4) + last + means_bytes(plan);
    memory->steps = km_max(sorting, km_max(finishing, refining_bytes(plan)));
    // Picks, the first centroids, costs, and the centroids of the best as they are kept, with means, finished and
    // returned.
    int64_t first = restarts * k_max_of(plan) * d * 8;
    memory->spare = HOST_SPARE + restarts * k_max_of(plan) * 8 + (first <= FIRST_ROWS_BYTES ? first : 0) +
                    restarts * plan->spec.clusters_count * 8 + plan->clusters_sum * (3 * d + 5) * 8;
    int64_t there = memory->points + memory->spare, chain = chain_bytes(plan),
            limit = plan->facts.memory_free_bytes;
    memory->chains = km_min(restarts, SEED_STATE_BYTES / (n * (int64_t)sizeof(double)));
    if (limit) memory->chains = km_min(memory->chains, (limit - there - early) / chain);
    memory->chains = km_max(memory->chains, 1);
    int64_t passing = memory->slots + memory->pass + memory->steps;
    memory->total = there + km_max(early + km_max(memory->arriving, memory->chains * chain), passing);
}

void km_memory_of(km_memory *memory, const km_plan *plan) {
    *memory = (km_memory){0};
    if (!plan->points || plan->design == KM_DESIGN_NONE) return;
    km_plan own = *plan; // what it points to stays the plan's
    own.points = km_share_points(plan);
    if (plan->spec.target.kind == KM_TARGET_CUDA)
        of_cuda(memory, plan);
    else
        of_cpu(memory, &own);
}

int64_t km_memory_in_files(const km_plan *plan) {
    km_memory with, without;
    km_plan all = *plan; // what it points to stays the plan's
    all.facts.scratch_from = 0;
    km_memory_of(&with, plan);
    km_memory_of(&without, &all);
    return without.total - with.total;
}

int64_t km_plan_exchange_bytes(const km_plan *plan) {
    enum { DIGITS = 3, COUNTS = 2 };
    int64_t row = KM_CPU_PITCH(plan->spec.features);
    if (plan->facts.target.kind == KM_TARGET_CUDA) // integers of 64 bits
        return restarts_of(plan) * plan->clusters_sum * (plan->spec.features + 1) * 8;
    return restarts_of(plan) * (DIGITS * plan->clusters_sum * row + COUNTS * plan->spec.clusters_count) * 8;
}

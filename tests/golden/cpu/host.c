// Of the text of {features: 4, clusters: 3..5, target: cpu:avx2}: The host part: what the header declares; Header
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 19 definitions

// Refuses value i of the first centroids where it is far outside the points.
static int host_check_first(const host_data *data, double x, long long i) {
    const int f = (int)(i % HOST_FEATURES);
    if (fabs((x - data->centre[f]) * data->factor) <= 1048576.0) return HOST_OK;
    return host_fail(HOST_DATA,
                     "row %lld of the first centroids, feature %d: %g is no number among the points",
                     i / HOST_FEATURES, f, x);
}
#ifdef _OPENMP
#include <omp.h>
#endif

#define KM_BOTH static inline
// Counter-based random numbers, for host and device: each is a function of its four words alone.
#ifndef KM_DRAWS_H
#define KM_DRAWS_H

// ... 12 definitions

#endif
// Totals that do not depend on the order in which numbers are added: a wide fixed-point number in three doubles. Host
// and device compile this.
//
// A number x is cut into three digits, each a multiple of the digit's unit and at most half the unit above:
// x = high + mid + low, what is below the lowest unit rounded away. Digits are added apart. Each is a sum of
// multiples of one unit that a double holds exactly, so any order gives the same bits, on any thread or device; and two
// totals are joined by adding their digits, as MPI or NCCL add doubles.
#ifndef KM_TOTAL_H
#define KM_TOTAL_H

// ... 7 definitions

enum {
    HOST_CHUNK = 65536,                                    // points of a chunk: its statistics and last sums are added in index order
    HOST_PASS_POINTS = 16384,                              // points that a thread takes at a time in a pass
    HOST_SUBCHUNK = SOA_POINTS > 1024 ? SOA_POINTS : 1024, // points among which k-means++ draws one by one
    HOST_SUBCHUNKS = HOST_CHUNK / HOST_SUBCHUNK,           // of a chunk
    HOST_CANDIDATES = 13,                                  // of a pick, at most
    HOST_REFRESH = 32                                      // sums start again from zero after so many updates
};

// ... 1 definition

struct host_fit {
    long long n;
    host_data data;
    km_real *points; // in SoA groups: value f of point i of one lies at [f * SOA_POINTS + i]
    double *weights; // or NULL
    host_slot slots[HOST_KS];
    km_total_units units[PITCH]; // of the totals' columns
    int started, partials_count; // buffers of partial sums: pieces of a pass that are worked on together
    int64_t sums_count;
    double *partials;   // partials_count x sums_count
    km_cpu_slot *lists; // partials_count x the list of K
};

// ... 4 definitions

static int host_no_memory(int64_t bytes) {
    return host_fail(HOST_MEMORY, "not enough memory for %.1f MiB: give fewer points",
                     (double)bytes / 1048576);
}

// A point's first value; the next ones lie SOA_POINTS apart.
static const km_real *host_point(const host_fit *fit, int64_t i) {
    return fit->points + i / SOA_POINTS * SOA_POINTS * D + i % SOA_POINTS;
}

static double host_weight(const host_fit *fit, int64_t i) {
    return fit->weights ? fit->weights[i] : 1.0;
}

static const double *host_weights_from(const host_fit *fit, int64_t i) {
    return fit->weights ? fit->weights + i : NULL;
}

// ... 2 definitions

static int host_statistics(host_fit *fit, const km_real *points) {
    // ... lines of a template
static int host_check_values(host_fit *fit, const km_real *points) {
    int64_t bad = INT64_MAX;
#ifdef _OPENMP
#pragma omp parallel for reduction(min : bad)
#endif
    for (int64_t i = 0; i < fit->n * D; i++)
        if (!(fabs((double)points[i]) <= DBL_MAX)) bad = host_min(bad, i);
    if (bad < INT64_MAX)
        return host_fail(HOST_DATA, "feature %lld of point %lld is no finite number: leave such points out",
                         (long long)(bad % D), (long long)(bad / D));
    for (int64_t i = 0; i < fit->n; i++) {
        if (!(host_weight(fit, i) >= 0 && host_weight(fit, i) <= DBL_MAX))
            return host_fail(HOST_DATA, "the weight of point %lld is negative or no finite number",
                             (long long)i);
        fit->data.total_weight += host_weight(fit, i);
    }
    return HOST_OK;
}

static void host_move(host_fit *fit, const km_real *points) {
    const host_data *data = &fit->data;
#ifdef _OPENMP
#pragma omp parallel for
#endif
    for (int64_t g = 0; g < host_groups(fit->n); g++)
        for (int64_t i = g * SOA_POINTS; i < host_min((g + 1) * SOA_POINTS, fit->n); i++)
            for (int f = 0; f < D; f++)
                fit->points[(g * D + f) * SOA_POINTS + i % SOA_POINTS] =
                    (km_real)(((double)points[i * D + f] - data->centre[f]) * data->factor);
}

static int host_reserve(host_fit *fit) {
    int64_t rows = 0, bytes = host_groups(fit->n) * SOA_POINTS * (D + 1) * (int64_t)sizeof(km_real);
    int threads = 1, failed = 0;
#ifdef _OPENMP
    threads = omp_get_max_threads();
#endif
    for (int i = 0; i < HOST_KS; i++) {
        // ... lines of a template
    fit->lists = (km_cpu_slot *)host_alloc(fit->partials_count * HOST_KS, sizeof *fit->lists);
    fit->points = (km_real *)host_alloc(host_groups(fit->n) * SOA_POINTS * D, sizeof *fit->points);
    failed |= !fit->partials || !fit->lists || !fit->points;
    return failed ? host_no_memory(bytes + fit->partials_count * fit->sums_count * 8) : HOST_OK;
}

// ... 1 definition

// Of a feature's sums, weights and counts. While labels change, points join before others leave: two bits more.
static void host_choose_units(host_fit *fit) {
    // ... lines of a template
static int host_fill(host_fit *fit, const km_real *points, const double *weights) {
    int failed;
    if (weights) {
        fit->weights = (double *)host_alloc(host_groups(fit->n) * SOA_POINTS, sizeof *fit->weights);
        if (!fit->weights) return host_no_memory(fit->n * 8);
        memcpy(fit->weights, weights, (size_t)fit->n * sizeof *weights);
    }
    if ((failed = host_check_values(fit, points)) || (failed = host_statistics(fit, points)) ||
        (failed = host_reserve(fit)))
        return failed;
    host_choose_units(fit);
    host_move(fit, points);
    return HOST_OK;
}

static int host_check_machine(void) {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return host_fail(HOST_DEVICE, "this machine has no AVX2: emit with --target cpu:generic");
    return HOST_OK;
}

int host_create(host_fit **out, const host_real *points, const double *weights, long long n) {
    int failed;
    if (!out) return host_fail(HOST_ARGUMENT, "out is NULL");
    host_fit *fit = *out = (host_fit *)calloc(1, sizeof *fit);
    if (!fit) return host_no_memory(sizeof *fit);
    fit->n = n;
    failed = host_check(fit, points, n);
    if (!failed) failed = host_check_machine();
    if (!failed) failed = host_fill(fit, points, weights);
    if (failed) host_destroy(out);
    return failed;
}

void host_destroy(host_fit **out) {
    host_fit *fit = out ? *out : NULL;
    if (!fit) return;
    for (int i = 0; i < HOST_KS; i++) {
        // ... lines of a template

// ... 3 definitions

int host_start(host_fit *fit, const host_real *centroids) {
    int failed = host_check(fit, centroids, HOST_K_MAX);
    if (failed) return failed;
    for (int64_t i = 0; i < HOST_ROWS * (int64_t)D; i++)
        if ((failed = host_check_first(&fit->data, (double)centroids[i], i))) return failed;
    for (int q = 0; q < HOST_KS; q++) {
        host_slot *slot = &fit->slots[q];
        for (int64_t i = 0; i < slot->k * (int64_t)D; i++)
            slot->centroids[i] =
                (double)host_there(&fit->data, centroids[host_offsets[q] * (int64_t)D + i], (int)(i % D));
        host_begin(slot);
    }
    fit->started = 1;
    return HOST_OK;
}

// ... 2 definitions

static void host_get_row(km_real *row, const host_fit *fit, int64_t i) {
    const km_real *x = host_point(fit, i);
    for (int f = 0; f < D; f++) row[f] = x[(int64_t)f * SOA_POINTS];
}

// ... 1 definition

// w times the squared distance to the nearest pick, of which `nearest` does not know the last.
static double host_share(const host_fit *fit, host_chain *chain, int64_t i) {
    const km_real *x = host_point(fit, i), *row = host_row(chain, HOST_CANDIDATES);
    km_real square = 0;
    if (!chain->has_pick) return host_weight(fit, i);
    for (int f = 0; f < D; f++) {
        const km_real t = x[(int64_t)f * SOA_POINTS] - row[f];
        square += t * t;
    }
    return host_weight(fit, i) * (double)(square < chain->nearest[i] ? square : chain->nearest[i]);
}

// ... 1 definition

static int64_t host_draw(const host_fit *fit, host_chain *chain, double target) {
    // ... lines of a template
static void host_weigh(const host_fit *fit, host_chain *chain, int count) {
// ... lines of a template
static int64_t host_choose(const host_fit *fit, host_chain *chain, int count) {
    // ... lines of a template
static int64_t host_pick(const host_fit *fit, host_chain *chain, unsigned long long seed, int pick) {
    // ... lines of a template
static int host_chain_init(host_chain *chain, const host_fit *fit) {
    // ... lines of a template
    return HOST_OK;
}

// ... 1 definition

int host_seed(host_fit *fit, unsigned long long seed) {
    host_chain chain;
    int failed = host_check(fit, fit, HOST_K_MAX);
    if (failed) return failed;
    failed = host_chain_init(&chain, fit);
    for (int pick = 0; pick < HOST_K_MAX && !failed; pick++) {
        const km_real *x = host_point(fit, host_pick(fit, &chain, seed, pick));
        for (int q = 0; q < HOST_KS; q++)
            for (int f = 0; f < D && pick < host_ks[q]; f++)
                fit->slots[q].centroids[(int64_t)pick * D + f] = (double)x[(int64_t)f * SOA_POINTS];
    }
    host_chain_free(&chain);
    if (failed) return failed;
    for (int q = 0; q < HOST_KS; q++) host_begin(&fit->slots[q]);
    fit->started = 1;
    return HOST_OK;
}

// ... 1 definition

// One piece of a pass: labels of every active K, and its partial sums.
static void host_pass_piece(host_fit *fit, int64_t piece, km_cpu_slot *list, double *sums) {
    const int64_t first = piece * HOST_PASS_POINTS;
    int count = 0;
    for (int q = 0; q < HOST_KS; q++) {
        // ... lines of a template
static void host_collect(host_fit *fit, const km_cpu_slot *list) {
    for (int q = 0; q < HOST_KS; q++) {
        // ... lines of a template
static void host_read_totals(const host_fit *fit, host_slot *slot) {
    const int64_t count = slot->k * (int64_t)PITCH;
    double *high = slot->digits, *mid = high + count, *low = mid + count;
    for (int64_t i = 0; i < count; i++) {
        // An empty cluster starts again from exact zeros: its count, an integer, says so.
        if (high[i / PITCH * PITCH + D + 1] == 0) high[i] = mid[i] = low[i] = 0;
        km_total_carry(high + i, mid + i, low + i, &fit->units[i % PITCH]);
        slot->totals[i] = km_total_value(high[i], mid[i], low[i]);
    }
}

static void host_pass(host_fit *fit) {
    const int64_t pieces = host_pieces(fit->n, HOST_PASS_POINTS);
    for (int q = 0; q < HOST_KS; q++) {
        host_slot *slot = &fit->slots[q];
        slot->changed = 0;
        if (km_slot_is_active(slot->state.phase) && slot->mode != KM_CPU_MOVE)
            memset(slot->digits, 0, (size_t)(KM_TOTAL_DIGITS * slot->k * PITCH) * sizeof *slot->digits);
    }
    for (int64_t base = 0; base < pieces; base += fit->partials_count) {
        const int64_t here = host_min(fit->partials_count, pieces - base);
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 1)
#endif
        for (int64_t b = 0; b < here; b++)
            host_pass_piece(fit, base + b, fit->lists + b * HOST_KS, fit->partials + b * fit->sums_count);
        for (int64_t b = 0; b < here; b++) host_collect(fit, fit->lists + b * HOST_KS);
    }
    for (int q = 0; q < HOST_KS; q++) {
        host_slot *slot = &fit->slots[q];
        if (!km_slot_is_active(slot->state.phase)) continue;
        slot->mode = KM_CPU_MOVE;
        host_read_totals(fit, slot);
    }
}

// ... 1 definition

// Centroids become the means of their points. Returns the squared shift.
static double host_update(const host_fit *fit, host_slot *slot) {
    // ... lines of a template
static void host_step(const host_fit *fit, host_slot *slot, double shift_max) {
    km_slot_found found;
    memset(&found, 0, sizeof found);
    for (int64_t j = 0; j < slot->k; j++) found.relocatable |= host_is_relocatable(slot, j);
    if (found.relocatable) memcpy(slot->before, slot->centroids, (size_t)slot->k * D * sizeof *slot->before);
    if (slot->state.phase == KM_SLOT_RUNNING) found.shift = host_update(fit, slot);
    km_slot_decide(&slot->state, &found, shift_max, INT64_MAX);
}

// ... 2 definitions
// ... lines of a template
    return HOST_OK;
}

// ... 1 definition

// A chunk: labels, squared distances and sums, where they are wanted.
static void host_finish_chunk(const host_fit *fit, const host_finisher *f, int64_t chunk, int *labels,
                              // ... lines of a template
int host_result(host_fit *fit, int index, host_model *model) {
    host_finisher f;
    int failed = host_check(fit, model, HOST_K_MAX);
    if (!failed) failed = host_check_index(index);
    if (!failed && !fit->started)
        failed = host_fail(HOST_ARGUMENT, "there are no first centroids yet: start or seed");
    // ... lines of a template

// ... 1 definition

static double host_square_min(const host_fit *fit) {
    // ... lines of a template
static int64_t host_farthest(const host_fit *fit, double *squares, double square_min) {
    // ... lines of a template
static int host_relocate(host_fit *fit, host_slot *slot) {
    // ... lines of a template

int host_run(host_fit *fit, long long passes_max, double tolerance, long long *passes) {
    long long done = 0;
    int failed = host_check(fit, fit, HOST_K_MAX), active = 1;
    if (passes) *passes = 0;
    if (!failed && !fit->started)
        failed = host_fail(HOST_ARGUMENT, "there are no first centroids yet: start or seed");
    if (!failed && !(tolerance >= 0))
        failed = host_fail(HOST_ARGUMENT, "tolerance is %g; it must be 0 or more", tolerance);
    while (!failed && active && done < passes_max) {
        active = 0;
        for (int q = 0; q < HOST_KS; q++) {
            if (fit->slots[q].state.phase == KM_SLOT_EMPTY && !failed)
                failed = host_relocate(fit, &fit->slots[q]);
            active |= km_slot_is_active(fit->slots[q].state.phase);
        }
        if (failed || !active) break;
        host_pass(fit);
        done++;
        for (int q = 0; q < HOST_KS; q++)
            if (km_slot_is_active(fit->slots[q].state.phase))
                host_step(fit, &fit->slots[q], host_shift_max(&fit->data, tolerance));
    }
    if (passes) *passes = done;
    return failed;
}

// ... 3 definitions

// Milliseconds of a plain read of the points as they lie inside; a wrong sum would say that it was not read.
static double host_read_ms(host_fit *fit) {
    // ... lines of a template
// The program: reads points or makes some, runs, checks itself, measures.

// ... 14 definitions

// ... 14 definitions

// SPDX-License-Identifier: MIT
//@ include host/common.c
#ifdef _OPENMP
#include <omp.h>
#endif

#define KM_BOTH static inline
//@ verbatim draws.h
//@ verbatim slot.h
//@ verbatim relocation.h
//@ verbatim total.h

enum {
    HOST_CHUNK = 65536,       // points of a chunk: its statistics and last sums are added in index order
    HOST_PASS_POINTS = 16384, // points that a thread takes at a time in a pass
    HOST_SUBCHUNK = SOA_POINTS > 1024 ? SOA_POINTS : 1024, // points among which k-means++ draws one by one
    HOST_SUBCHUNKS = HOST_CHUNK / HOST_SUBCHUNK,           // of a chunk
    HOST_CANDIDATES = 13,                                  // of a pick, at most
    HOST_REFRESH = 32                                      // sums start again from zero after so many updates
};

// One K.
typedef struct host_slot {
    int k;
    km_slot_state state;
    int are_means; // the centroids are the means of their points
    int mode;      // of the next pass: KM_CPU_FIRST ...
    int labels_bytes;
    int64_t changed; // labels
    double *centroids,
        *before;    // k rows of D: as they are, and those of the last pass, if it left a cluster empty
    double *totals; // k rows of PITCH
    double *digits; // of the totals: KM_TOTAL_DIGITS x k rows
    km_real *table;
    void *labels;
    unsigned char *may_stay_empty; // k: relocation found no point for this cluster
} host_slot;

struct $name_fit {
    long long n;
    host_data data;
    km_real *points; // in SoA groups: value f of point i of one lies at [f * SOA_POINTS + i]
    double *weights; // or NULL
    host_slot slots[$upper_KS];
    km_total_units units[PITCH]; // of the totals' columns
    int started, partials_count; // buffers of partial sums: pieces of a pass that are worked on together
    int64_t sums_count;
    double *partials;   // partials_count x sums_count
    km_cpu_slot *lists; // partials_count x the list of K
};

static int64_t host_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t host_groups(long long n) {
    return (n + SOA_POINTS - 1) / SOA_POINTS;
}

static int64_t host_pieces(long long n, int64_t size) {
    return (n + size - 1) / size;
}

static void *host_alloc(int64_t count, int64_t bytes) {
    const int64_t size = (count * bytes + 127) / 64 * 64; // vectors may read behind the last value
    void *memory = aligned_alloc(64, (size_t)size);
    if (memory) memset(memory, 0, (size_t)size);
    return memory;
}

static int host_no_memory(int64_t bytes) {
    return host_fail($upper_MEMORY, "not enough memory for %.1f MiB: give fewer points",
                     (double)bytes / 1048576);
}

// A point's first value; the next ones lie SOA_POINTS apart.
static const km_real *host_point(const $name_fit *fit, int64_t i) {
    return fit->points + i / SOA_POINTS * SOA_POINTS * D + i % SOA_POINTS;
}

static double host_weight(const $name_fit *fit, int64_t i) {
    return fit->weights ? fit->weights[i] : 1.0;
}

static const double *host_weights_from(const $name_fit *fit, int64_t i) {
    return fit->weights ? fit->weights + i : NULL;
}

//@ include cpu/host/load.c

//@ include cpu/host/seed.c

//@ include cpu/host/pass.c

//@ include cpu/host/finish.c

//@ include cpu/host/relocate.c

int $name_run($name_fit *fit, long long passes_max, double tolerance, long long *passes) {
    long long done = 0;
    int failed = host_check(fit, fit, $upper_K_MAX), active = 1;
    if (passes) *passes = 0;
    if (!failed && !fit->started)
        failed = host_fail($upper_ARGUMENT, "there are no first centroids yet: start or seed");
    if (!failed && !(tolerance >= 0))
        failed = host_fail($upper_ARGUMENT, "tolerance is %g; it must be 0 or more", tolerance);
    while (!failed && active && done < passes_max) {
        active = 0;
        for (int q = 0; q < $upper_KS; q++) {
            if (fit->slots[q].state.phase == KM_SLOT_EMPTY && !failed)
                failed = host_relocate(fit, &fit->slots[q]);
            active |= km_slot_is_active(fit->slots[q].state.phase);
        }
        if (failed || !active) break;
        host_pass(fit);
        done++;
        for (int q = 0; q < $upper_KS; q++)
            if (km_slot_is_active(fit->slots[q].state.phase))
                host_step(fit, &fit->slots[q], host_shift_max(&fit->data, tolerance));
    }
    if (passes) *passes = done;
    return failed;
}

#ifdef $upper_MAIN
#include <time.h>

static double host_now_ms(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void host_device_name(char *text, size_t size) {
    int threads = 1;
#ifdef _OPENMP
    threads = omp_get_max_threads();
#endif
    snprintf(text, size, "CPU, %d thread%s", threads, threads == 1 ? "" : "s");
}

// Milliseconds of a plain read of the points as they lie inside; a wrong sum would say that it was not read.
static double host_read_ms($name_fit *fit) {
    const int64_t count = host_groups(fit->n) * SOA_POINTS * D;
    double least = 1e30, total = 0;
    for (int turn = 0; turn < 5; turn++) {
        const double begin = host_now_ms();
        uint64_t sum = 0;
#ifdef _OPENMP
#pragma omp parallel for reduction(+ : sum)
#endif
        for (int64_t i = 0; i < count * (int64_t)sizeof(km_real) / 8; i++) {
            uint64_t word;
            memcpy(&word, (const char *)fit->points + i * 8, 8);
            sum += word;
        }
        total += (double)(sum & 1);
        least = fmin(least, host_now_ms() - begin);
    }
    return total < 0 ? total : least;
}
//@ include host/main.c
#endif

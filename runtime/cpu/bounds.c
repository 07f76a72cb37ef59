// SPDX-License-Identifier: MIT
// The algorithms hamerly ("Making k-means even faster", 2010) and elkan ("Using the triangle inequality to accelerate
// k-means", 2003): bounds of each point's distances, kept from pass to pass, say which need not be computed.
//
// Bounds are floats that rounding never takes to the wrong side: upper ones are widened, lower ones narrowed, at each
// step. A distance is skipped only where it is strictly larger than the nearest; the others are squared differences in
// double, ties to the lowest index.
#include "cpu.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

typedef struct slot_bounds {
    float *upper;                  // n: distance to the point's own centroid, at most
    float *lower;                  // hamerly, n: distance to any other, at least; elkan, n x k: to each
    double *seen;                  // k x d: the centroids that the bounds are for
    double *columns;               // d x k: the centroids of this pass by feature
    float *drift;                  // k: how far each has moved since, at most
    float *gap;                    // k: half the distance to the nearest other centroid, at least
    float *halves;                 // elkan, k x k: half the distances between centroids, at least
    float drift_max, drift_second; // of all centroids but the one that moved most, in drift_second
    int64_t drift_most;
} slot_bounds;

typedef struct thread_counts {
    int64_t distances, skipped;
    double *squares; // largest k
    double *row;     // d
} thread_counts;

typedef struct cpu_bounds {
    int32_t is_elkan;
    slot_bounds *slots;
    int64_t slots_count;
    thread_counts *threads;
    int64_t threads_count;
} cpu_bounds;

static inline float above(double value) {
    return (float)(value * (1 + 0x1p-22) + 0x1p-126);
}

static inline float below(double value) {
    return value > 0 ? (float)(value * (1 - 0x1p-22)) : (float)(value * (1 + 0x1p-22));
}

km_status km_cpu_bounds_create(cpu_engine *engine, km_error *err) {
    const km_plan *plan = engine->base.plan;
    cpu_bounds *bounds = engine->bounds = calloc(1, sizeof *bounds);
    if (!bounds) return km_fail_memory(err, "bounds", (int64_t)sizeof *bounds);
    int64_t k = plan->spec.clusters[plan->spec.clusters_count - 1], d = engine->base.d;
    bounds->is_elkan = plan->algorithm == KM_ALGORITHM_ELKAN;
    bounds->slots_count = engine->base.slots_count;
    bounds->threads_count = engine->threads;
    bounds->slots = calloc((size_t)bounds->slots_count, sizeof *bounds->slots);
    bounds->threads = calloc((size_t)engine->threads, sizeof *bounds->threads);
    if (!bounds->slots || !bounds->threads) return km_fail_memory(err, "bounds", engine->threads * 64);
    for (int64_t t = 0; t < engine->threads; t++) {
        thread_counts *thread = &bounds->threads[t];
        thread->squares = malloc((size_t)(k + d) * sizeof *thread->squares);
        if (!thread->squares) return km_fail_memory(err, "distances of a point", (k + d) * 8);
        thread->row = thread->squares + k;
    }
    return KM_OK;
}

void km_cpu_bounds_destroy(cpu_engine *engine) {
    cpu_bounds *bounds = engine->bounds;
    if (!bounds) return;
    for (int64_t s = 0; bounds->slots && s < bounds->slots_count; s++) {
        km_pages_free(bounds->slots[s].upper);
        km_pages_free(bounds->slots[s].lower);
        free(bounds->slots[s].seen);
        free(bounds->slots[s].drift);
    }
    for (int64_t t = 0; bounds->threads && t < bounds->threads_count; t++) free(bounds->threads[t].squares);
    free(bounds->slots);
    free(bounds->threads);
    free(bounds);
    engine->bounds = NULL;
}

int64_t km_cpu_bounds_bytes(const km_plan *plan, int64_t n) {
    int64_t copies = km_plan_get(plan, "restarts_in_flight"), values = 0;
    for (int64_t i = 0; i < plan->spec.clusters_count; i++)
        values += 1 + (plan->algorithm == KM_ALGORITHM_ELKAN ? plan->spec.clusters[i] : 1);
    return n * values * (copies < 1 ? 1 : copies) * (int64_t)sizeof(float);
}

// Before a pass -----------------------------------------------------------------------------------------------

static km_status slot_alloc(slot_bounds *own, const cpu_bounds *bounds, int64_t n, int64_t k, int64_t d,
                            km_error *err) {
    if (own->drift) return KM_OK;
    int64_t lower = n * (bounds->is_elkan ? k : 1) * (int64_t)sizeof(float);
    own->upper = km_pages_alloc(n * (int64_t)sizeof(float));
    own->lower = km_pages_alloc(lower);
    own->seen = malloc((size_t)(2 * k * d) * sizeof(double));
    float *floats = malloc((size_t)(k * (2 + (bounds->is_elkan ? k : 0))) * sizeof(float));
    if (!own->upper || !own->lower || !own->seen || !floats) {
        free(floats);
        return km_fail_memory(err, "the bounds of a member", lower + n * 4);
    }
    own->columns = own->seen + k * d;
    own->drift = floats;
    own->gap = floats + k;
    own->halves = floats + 2 * k;
    return KM_OK;
}

static double distance(const double *a, const double *b, int64_t d) {
    double square = 0;
    for (int64_t f = 0; f < d; f++) square += (a[f] - b[f]) * (a[f] - b[f]);
    return sqrt(square);
}

static void slot_gaps(slot_bounds *own, const double *centroids, int64_t k, int64_t d, int is_elkan) {
    for (int64_t j = 0; j < k; j++) own->gap[j] = INFINITY;
    for (int64_t j = 0; j < k; j++)
        for (int64_t i = j + 1; i < k; i++) {
            float half = below(0.5 * distance(centroids + j * d, centroids + i * d, d));
            own->gap[j] = half < own->gap[j] ? half : own->gap[j];
            own->gap[i] = half < own->gap[i] ? half : own->gap[i];
            if (is_elkan) own->halves[j * k + i] = own->halves[i * k + j] = half;
        }
}

static void slot_prepare(slot_bounds *own, const cpu_slot *slot, int64_t d, int is_elkan) {
    int64_t k = slot->k;
    own->drift_max = own->drift_second = 0;
    own->drift_most = 0;
    for (int64_t j = 0; j < k; j++) {
        const double *c = slot->centroids + j * d;
        float drift = slot->mode == KM_CPU_FIRST ? 0 : above(distance(c, own->seen + j * d, d));
        own->drift[j] = drift;
        if (drift > own->drift_max) {
            own->drift_second = own->drift_max;
            own->drift_max = drift;
            own->drift_most = j;
        } else if (drift > own->drift_second) {
            own->drift_second = drift;
        }
        for (int64_t f = 0; f < d; f++) own->columns[f * k + j] = c[f];
    }
    memcpy(own->seen, slot->centroids, (size_t)(k * d) * sizeof(double));
    slot_gaps(own, slot->centroids, k, d, is_elkan);
}

km_status km_cpu_bounds_prepare(cpu_engine *engine, km_error *err) {
    cpu_bounds *bounds = engine->bounds;
    for (int64_t s = 0; s < bounds->slots_count; s++) {
        const cpu_slot *slot = &engine->slots[s];
        if (slot->phase != KM_SLOT_RUNNING && slot->phase != KM_SLOT_LAST) continue;
        KM_TRY(slot_alloc(&bounds->slots[s], bounds, engine->base.n, slot->k, engine->base.d, err));
        slot_prepare(&bounds->slots[s], slot, engine->base.d, bounds->is_elkan);
    }
    return KM_OK;
}

// One point ---------------------------------------------------------------------------------------------------

typedef struct point_work {
    const slot_bounds *own;
    thread_counts *thread;
    const double *x;
    int64_t k, d;
} point_work;

static inline __attribute__((always_inline)) double square_to(const point_work *w, int64_t j) {
    const double *c = w->own->seen + j * w->d;
    double square = 0;
    for (int64_t f = 0; f < w->d; f++) square = __builtin_fma(w->x[f] - c[f], w->x[f] - c[f], square);
    w->thread->distances++;
    return square;
}

// All squared distances of a point, into thread->squares; the nearest centroid.
static inline __attribute__((always_inline)) int64_t squares_all(const point_work *w) {
    double *squares = w->thread->squares;
    int64_t best = 0;
    for (int64_t j = 0; j < w->k; j++) squares[j] = 0;
    for (int64_t f = 0; f < w->d; f++) {
        const double *column = w->own->columns + f * w->k, x = w->x[f];
        for (int64_t j = 0; j < w->k; j++)
            squares[j] = __builtin_fma(x - column[j], x - column[j], squares[j]);
    }
    for (int64_t j = 1; j < w->k; j++)
        if (squares[j] < squares[best]) best = j;
    w->thread->distances += w->k;
    return best;
}

static inline __attribute__((always_inline)) int64_t hamerly(const point_work *w, float *upper, float *lower,
                                                             int64_t old, int first) {
    const slot_bounds *own = w->own;
    if (!first) {
        float least =
            below((double)*lower - (double)(old == own->drift_most ? own->drift_second : own->drift_max));
        float most = above((double)*upper + (double)own->drift[old]);
        float limit = own->gap[old] > least ? own->gap[old] : least;
        *lower = least;
        *upper = most;
        if (most < limit) {
            w->thread->skipped++;
            return old;
        }
        *upper = above(sqrt(square_to(w, old)));
        if (*upper < limit) return old;
    }
    const double *squares = w->thread->squares;
    int64_t best = squares_all(w);
    double second = INFINITY;
    for (int64_t j = 0; j < w->k; j++)
        if (j != best && squares[j] < second) second = squares[j];
    *upper = above(sqrt(squares[best]));
    *lower = second < INFINITY ? below(sqrt(second)) : INFINITY;
    return best;
}

static inline __attribute__((always_inline)) int64_t elkan(const point_work *w, float *upper, float *lower,
                                                           int64_t old, int first) {
    const slot_bounds *own = w->own;
    int64_t k = w->k, best = old;
    if (first) {
        best = squares_all(w);
        for (int64_t j = 0; j < k; j++) lower[j] = below(sqrt(w->thread->squares[j]));
        *upper = above(sqrt(w->thread->squares[best]));
        return best;
    }
    for (int64_t j = 0; j < k; j++) {
        float least = (lower[j] - own->drift[j]) * (1 - 0x1p-22f);
        lower[j] = least > 0 ? least : 0;
    }
    float most = above((double)*upper + (double)own->drift[old]);
    *upper = most;
    if (most < own->gap[old]) {
        w->thread->skipped++;
        return old;
    }
    double square = -1; // to `best`, when it is known
    for (int64_t j = 0; j < k; j++) {
        if (j == best || most < lower[j] || most < own->halves[best * k + j]) continue;
        if (square < 0) {
            square = square_to(w, best);
            lower[best] = below(sqrt(square));
            most = above(sqrt(square));
            if (most < lower[j] || most < own->halves[best * k + j]) continue;
        }
        double other = square_to(w, j);
        lower[j] = below(sqrt(other));
        if (other < square || (other == square && j < best)) {
            best = j;
            square = other;
            most = above(sqrt(square));
        }
    }
    if (square < 0) w->thread->skipped++;
    *upper = most;
    return best;
}

// A block -----------------------------------------------------------------------------------------------------

static inline int64_t label_get(const km_cpu_slot *slot, int64_t i) {
    if (slot->labels_bytes == 1) return ((const uint8_t *)slot->labels)[i];
    if (slot->labels_bytes == 2) return ((const uint16_t *)slot->labels)[i];
    return ((const int32_t *)slot->labels)[i];
}

static inline void label_put(km_cpu_slot *slot, int64_t i, int64_t label) {
    if (slot->labels_bytes == 1)
        ((uint8_t *)slot->labels)[i] = (uint8_t)label;
    else if (slot->labels_bytes == 2)
        ((uint16_t *)slot->labels)[i] = (uint16_t)label;
    else
        ((int32_t *)slot->labels)[i] = (int32_t)label;
}

static inline void add_point(double *row, const double *x, int64_t d, double weight, double sign) {
    for (int64_t f = 0; f < d; f++) row[f] += sign * weight * x[f];
    row[d] += sign * weight;
    row[d + 1] += sign;
}

// One slot over a block: as km_cpu_kernels.pass.
static inline __attribute__((always_inline)) void slot_block(cpu_engine *engine, int64_t block,
                                                             km_cpu_slot *slot, const slot_bounds *own,
                                                             thread_counts *thread) {
    int64_t d = engine->base.d, pitch = engine->pitch, first = block * KM_BLOCK_POINTS, k = slot->k;
    int64_t points = cpu_block_points(engine, block);
    int is_elkan = engine->bounds->is_elkan, is_first = slot->mode == KM_CPU_FIRST;
    point_work work = {own, thread, thread->row, k, d};
    for (int64_t i = 0; i < points; i++) {
        int64_t point = first + i, old = is_first ? 0 : label_get(slot, i);
        km_cpu_row(thread->row, engine, point);
        int64_t label = is_elkan ? elkan(&work, &own->upper[point], own->lower + point * k, old, is_first)
                                 : hamerly(&work, &own->upper[point], &own->lower[point], old, is_first);
        int changed = is_first || label != old;
        if (changed) label_put(slot, i, label);
        slot->changed += changed;
        if (!slot->sums || !(changed || slot->mode == KM_CPU_REFRESH)) continue;
        double weight = engine->weights ? engine->weights[point] : 1.0;
        if (weight == 0) continue;
        add_point(slot->sums + label * pitch, thread->row, d, weight, 1.0);
        if (slot->mode == KM_CPU_MOVE) add_point(slot->sums + old * pitch, thread->row, d, weight, -1.0);
    }
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void slot_block_fma(cpu_engine *engine, int64_t block,
                                                               km_cpu_slot *slot, const slot_bounds *own,
                                                               thread_counts *thread) {
    slot_block(engine, block, slot, own, thread);
}
#endif

static void slot_block_any(cpu_engine *engine, int64_t block, km_cpu_slot *slot, const slot_bounds *own,
                           thread_counts *thread) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2")) {
        slot_block_fma(engine, block, slot, own, thread);
        return;
    }
#endif
    slot_block(engine, block, slot, own, thread);
}

void km_cpu_bounds_block(cpu_engine *engine, int64_t block, km_cpu_slot *list) {
    cpu_bounds *bounds = engine->bounds;
    thread_counts *thread = &bounds->threads[omp_get_thread_num()];
    for (int64_t s = 0, at = 0; s < bounds->slots_count; s++) {
        const cpu_slot *slot = &engine->slots[s];
        if (slot->phase != KM_SLOT_RUNNING && slot->phase != KM_SLOT_LAST) continue;
        list[at].changed = 0;
        slot_block_any(engine, block, &list[at++], &bounds->slots[s], thread);
    }
}

void km_cpu_bounds_collect(cpu_engine *engine) {
    cpu_bounds *bounds = engine->bounds;
    for (int64_t t = 0; t < bounds->threads_count; t++) {
        engine->counters.distances += bounds->threads[t].distances;
        engine->counters.points_skipped += bounds->threads[t].skipped;
        bounds->threads[t].distances = bounds->threads[t].skipped = 0;
    }
}

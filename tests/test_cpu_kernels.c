// SPDX-License-Identifier: MIT
// The kernels of every CPU module against plain double loops: each instruction set that this machine runs, both
// types, both compilers, points around an SoA group, weights, guard zones around everything that is read or written.
// With KMGEN_TEST_COMPILER set (kernels_sanitized.sh) that compiler builds emitted kernels, and instruments them.
#include "gen/design.h"
#include "reference.h"
#include "runtime/cpu/cpu.h"
#include "runtime/file.h"
#include "runtime/module_state.h"

#include "kernel_cache.h"
#include "quiet_check.h"
#include "short_form.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GUARD = 256, GUARD_BYTE = 0x5a };

static char folder[] = "/tmp/kmgen-kernels-XXXXXX";
static km_error err;

static void must(km_status status) {
    ck_assert_msg(status == KM_OK, "%s: %s", km_status_name(status), err.text);
}

// Memory with guard zones on both sides -----------------------------------------------------------------------

// There where AddressSanitizer's runtime is: instrumented kernels then may not even read guard zones.
extern void __asan_poison_memory_region(const volatile void *from, size_t size) __attribute__((weak));
extern void __asan_unpoison_memory_region(const volatile void *from, size_t size) __attribute__((weak));

static void guards(void (*set)(const volatile void *from, size_t size), uint8_t *memory, int64_t bytes) {
    if (!set) return;
    set(memory, GUARD);
    set(memory + GUARD + bytes, GUARD);
}

static void *guarded(int64_t bytes) {
    uint8_t *memory = aligned_alloc(64, (size_t)km_round_up(bytes + 2 * GUARD + 64, 64));
    ck_assert_ptr_nonnull(memory);
    memset(memory, GUARD_BYTE, (size_t)(bytes + 2 * GUARD));
    memcpy(memory, &bytes, sizeof bytes);
    memset(memory + GUARD, 0, (size_t)bytes);
    guards(__asan_poison_memory_region, memory, bytes);
    return memory + GUARD;
}

static void guarded_free(void *inside) {
    uint8_t *memory = (uint8_t *)inside - GUARD;
    int64_t bytes;
    guards(__asan_unpoison_memory_region, memory, 0);
    memcpy(&bytes, memory, sizeof bytes);
    guards(__asan_unpoison_memory_region, memory, bytes);
    for (int64_t i = (int64_t)sizeof bytes; i < GUARD; i++) ck_assert_int_eq(memory[i], GUARD_BYTE);
    for (int64_t i = 0; i < GUARD; i++) ck_assert_int_eq(memory[GUARD + bytes + i], GUARD_BYTE);
    free(memory);
}

// Modules -----------------------------------------------------------------------------------------------------

#ifdef __aarch64__
static const char *const isas[] = {"cpu:generic", "cpu:neon"};
#else
static const char *const isas[] = {"cpu:generic", "cpu:avx2", "cpu:avx512"};
#endif
static const char *const compilers[] = {"/usr/bin/gcc", "/usr/bin/clang"};
enum { ISAS = sizeof isas / sizeof *isas };

// The compiler that instruments, or NULL.
static const char *sanitizing(void) {
    return getenv("KMGEN_TEST_COMPILER");
}

// Instrumented kernels take longer still: unless all are asked for, some shapes, on each instruction set. A suite that
// is instrumented itself says nothing of emitted kernels that are not.
static int is_sampled(int i) {
    if (!sanitizing()) return !is_sample();
    return is_whole() || i % 10 == 5 || i == 7;
}

// A module, its device and plan.
typedef struct module {
    km_plan plan;
    km_device *device;
    km_module *built;
    km_kernels *kernels; // of `built`
    km_cpu_kernels table;
    int64_t soa_points;
} module;

// 0 when this machine lacks the instruction set. `design` NULL: prebuilt.
static int module_open(module *m, const char *design, const char *isa, const char *compiler, km_type type,
                       int64_t d, const char *ks) {
    const char *cross = getenv("KMGEN_TEST_CROSS_CC"); // the machine's own compile for another one
    km_spec spec;
    km_plan_params params;
    km_source source;
    km_module_params build;
    err.text[0] = 0;
    must(km_backend_cpu.device_open(&m->device, KM_HOST, cross ? cross : compiler, NULL, &err));
    km_spec_init(&spec);
    spec.features = d;
    spec.type = type;
    must(km_spec_set_clusters(&spec, ks, &err));
    must(km_spec_set_target(&spec, isa ? isa : "cpu", &err));
    must(km_spec_fix(&spec, "design", design ? design : "prebuilt", &err));
    km_plan_params_init(&params);
    params.facts = &m->device->facts;
    km_plan_init(&m->plan);
    km_status status = km_plan_make(&m->plan, &spec, &params, &err);
    km_spec_clear(&spec);
    if (status == KM_ERROR_PLAN && strstr(err.text, "does not run on this device")) {
        km_backend_cpu.device_close(&m->device);
        return 0;
    }
    must(status);
    km_module_params_init(&build);
    build.cache_dir = kernel_cache(folder);
    km_source_init(&source);
    must(km_source_emit(&source, &m->plan, NULL, &err));
    must(km_module_build_on(&m->built, &source, m->device, &build, &err));
    km_source_clear(&source);
    m->kernels = m->built->kernels;
    m->table = *((cpu_module *)m->kernels)->pass;
    m->soa_points = m->table.soa_points;
    return 1;
}

static void module_close(module *m) {
    km_module_destroy(&m->built);
    km_backend_cpu.device_close(&m->device);
    km_plan_clear(&m->plan);
}

// Points in SoA groups --------------------------------------------------------------------------------------------

static void put(void *reals, km_type type, int64_t at, double value) {
    if (type == KM_FLOAT32)
        ((float *)reals)[at] = (float)value;
    else
        ((double *)reals)[at] = value;
}

static double get(const void *reals, km_type type, int64_t at) {
    return type == KM_FLOAT32 ? (double)((const float *)reals)[at] : ((const double *)reals)[at];
}

static int64_t real_bytes(km_type type) {
    return type == KM_FLOAT32 ? 4 : 8;
}

static void *soa_points_make(const ref_data *data, int64_t soa_points) {
    int64_t whole = km_round_up(data->n, soa_points);
    void *out = guarded(whole * data->d * real_bytes(data->type));
    for (int64_t i = 0; i < data->n; i++)
        for (int64_t f = 0; f < data->d; f++)
            put(out, data->type, i / soa_points * soa_points * data->d + f * soa_points + i % soa_points,
                data->x[i * data->d + f]);
    return out;
}

static int64_t label_at(const km_cpu_slot *slot, int64_t i) {
    return slot->labels_bytes == 1   ? ((const uint8_t *)slot->labels)[i]
           : slot->labels_bytes == 2 ? ((const uint16_t *)slot->labels)[i]
                                     : ((const int32_t *)slot->labels)[i];
}

// int16 scores of a pass --------------------------------------------------------------------------------------

// What a slot with int16 scores is handed beside its table.
typedef struct int16_tables {
    double norm_max;
    float *scales, *columns; // scales NULL: the module, the machine or the data have no int16 scores
    int32_t *int16_table;
} int16_tables;

static int16_tables int16_new(const module *m, const ref_data *data, int64_t k) {
    int16_tables out = {0, NULL, NULL, NULL};
    int64_t d = data->d;
    if (!m->table.int16_scores || !m->device->facts.has_integers) return out;
    double *largest = calloc((size_t)d, sizeof *largest);
    for (int64_t i = 0; i < data->n * d; i++) largest[i % d] = fmax(largest[i % d], fabs(data->x[i]));
    for (int64_t i = 0; i < data->n; i++) {
        double square = 0;
        for (int64_t f = 0; f < d; f++) square += data->x[i * d + f] * data->x[i * d + f];
        out.norm_max = fmax(out.norm_max, sqrt(square));
    }
    out.scales = guarded(d * (int64_t)sizeof *out.scales);
    ck_assert(km_cpu_int16_scales(out.scales, largest, d));
    out.int16_table = guarded(k * KM_CPU_INT16_ROW(d) * (int64_t)sizeof *out.int16_table);
    out.columns = guarded(KM_CPU_COLUMNS(k) * (d + 1) * (int64_t)sizeof *out.columns);
    free(largest);
    return out;
}

static void int16_free(int16_tables *it) {
    if (!it->scales) return;
    guarded_free(it->scales);
    guarded_free(it->int16_table);
    guarded_free(it->columns);
}

// Gives a slot int16 scores, where 16 bits are fine enough for its table.
static void int16_give(km_cpu_slot *slot, const int16_tables *it, int64_t d) {
    slot->int16_table = NULL;
    if (!it->scales) return;
    slot->margin = km_cpu_int16_table(it->int16_table, slot->table, slot->k, d, it->scales, it->norm_max);
    if (slot->margin < 0) return;
    km_cpu_table_columns(it->columns, slot->table, slot->k, d);
    slot->int16_table = it->int16_table;
    slot->columns = it->columns;
}

// The pass ----------------------------------------------------------------------------------------------------

// What the labels of a slot must sum to; exact where everything is a small integer.
static void check_slot(const km_cpu_slot *slot, const double *totals, const ref_data *data,
                       const double *centroids, int exact) {
    int64_t d = data->d, pitch = KM_CPU_PITCH(d), wrong = -1;
    int32_t *labels = malloc((size_t)data->n * sizeof *labels),
            *nearest = malloc((size_t)data->n * sizeof *labels);
    double *sums = calloc((size_t)(slot->k * (d + 2)), sizeof *sums);
    for (int64_t i = 0; i < data->n; i++) {
        labels[i] = (int32_t)label_at(slot, i);
        ck_assert_int_lt(labels[i], slot->k);
        double *row = sums + labels[i] * (d + 2);
        for (int64_t f = 0; f < d; f++) row[f] += ref_weight(data, i) * data->x[i * d + f];
        row[d] += ref_weight(data, i);
        row[d + 1] += ref_weight(data, i) > 0;
    }
    ck_assert_msg(ref_labels_wrong(&wrong, data, centroids, slot->k, labels) == 0, "label of point %lld",
                  (long long)wrong);
    if (exact) ref_assign(nearest, NULL, data, centroids, slot->k);
    for (int64_t i = 0; exact && i < data->n; i++) ck_assert_int_eq(labels[i], nearest[i]);
    for (int64_t j = 0; j < slot->k; j++)
        for (int64_t f = 0; f < d + 2; f++) {
            double got = totals[j * pitch + f], wanted = sums[j * (d + 2) + f];
            double slack = exact || f == d + 1 ? 0 : 1e-12 * (double)data->n * 16;
            ck_assert_msg(fabs(got - wanted) <= slack, "sum %lld of cluster %lld is %.17g instead of %.17g",
                          (long long)f, (long long)j, got, wanted);
        }
    free(labels);
    free(nearest);
    free(sums);
}

static void add_rows(double *totals, const double *sums, int64_t count) {
    for (int64_t i = 0; i < count; i++) totals[i] += sums[i];
}

// A first pass, then moves to other centroids, then a refresh, then a move. The second slot wants labels only, and has
// no int16 scores: labels of both are the same.
static void check_pass(const module *m, const ref_data *data, int64_t k, int exact) {
    int64_t d = data->d, count = k * KM_CPU_PITCH(d), whole = km_round_up(data->n, m->soa_points);
    int32_t bytes = k <= 256 ? 1 : 2;
    double *centroids = calloc((size_t)(k * d), sizeof *centroids);
    double *totals = calloc((size_t)count, sizeof *totals), *weights = NULL;
    void *points = soa_points_make(data, m->soa_points),
         *table = guarded(KM_CPU_TABLE_ROWS(k) * (d + 1) * real_bytes(data->type));
    if (data->w) memcpy(weights = guarded(data->n * 8), data->w, (size_t)data->n * 8);
    km_cpu_table_end(table, k, d, data->type);
    km_cpu_slot slots[2] = {
        {.k = k, .table = table, .labels = guarded(whole * bytes), .labels_bytes = bytes}};
    slots[1] = slots[0];
    slots[1].labels = guarded(whole * bytes);
    int16_tables int16 = int16_new(m, data, k);
    static const int32_t modes[] = {KM_CPU_FIRST, KM_CPU_MOVE, KM_CPU_MOVE, KM_CPU_REFRESH, KM_CPU_MOVE};
    for (int step = 0; step < 5; step++) {
        for (int64_t j = 0; j < k; j++)
            for (int64_t f = 0; f < d; f++)
                centroids[j * d + f] = data->x[(j * 7 + step / 2 * 3) % data->n * d + f];
        km_cpu_table(table, centroids, k, d, data->type);
        int16_give(&slots[0], &int16, d);
        slots[0].mode = slots[1].mode = modes[step];
        slots[0].sums = guarded(count * 8);
        slots[1].sums = NULL;
        km_cpu_chunk chunk = {points, weights, data->n, d, m->soa_points, slots, 2, int16.scales};
        int64_t *before = calloc((size_t)data->n, sizeof *before), changed = 0;
        for (int64_t i = 0; i < data->n; i++) before[i] = label_at(&slots[0], i);
        m->table.pass(&chunk);
        if (modes[step] != KM_CPU_MOVE) memset(totals, 0, (size_t)count * sizeof *totals);
        add_rows(totals, slots[0].sums, count);
        check_slot(&slots[0], totals, data, centroids, exact);
        for (int64_t i = 0; i < data->n; i++) {
            changed += modes[step] == KM_CPU_FIRST || before[i] != label_at(&slots[0], i);
            ck_assert_int_eq(label_at(&slots[0], i), label_at(&slots[1], i));
        }
        ck_assert_int_eq(slots[0].changed, changed);
        ck_assert_int_eq(slots[1].changed, changed);
        guarded_free(slots[0].sums);
        free(before);
    }
    guarded_free(slots[0].labels);
    guarded_free(slots[1].labels);
    int16_free(&int16);
    guarded_free(points);
    guarded_free(table);
    if (weights) guarded_free(weights);
    free(centroids);
    free(totals);
}

// Seeding -----------------------------------------------------------------------------------------------------

static void check_seed(const module *m, const ref_data *data) {
    int64_t d = data->d, whole = km_round_up(data->n, m->soa_points), real = real_bytes(data->type);
    double slack = data->type == KM_FLOAT32 ? 1e-5 : 1e-12, *potentials = guarded(3 * 8), *weights = NULL;
    void *points = soa_points_make(data, m->soa_points), *nearest = guarded(whole * real),
         *rows = guarded(4 * d * real);
    if (data->w) memcpy(weights = guarded(data->n * 8), data->w, (size_t)data->n * 8);
    for (int64_t i = 0; i < whole; i++) put(nearest, data->type, i, INFINITY);
    for (int64_t r = 0; r < 4; r++)
        for (int64_t f = 0; f < d; f++) put(rows, data->type, r * d + f, data->x[r * 5 % data->n * d + f]);
    km_cpu_chain chain = {nearest, (uint8_t *)rows + 3 * d * real, rows, 3, potentials};
    km_cpu_seeding work = {points, weights, data->n, d, m->soa_points, &chain, 1};
    m->table.seed(&work);
    double expected[3] = {0};
    for (int64_t i = 0; i < data->n; i++) {
        double least = ref_distance2(data->x + i * d, data->x + 15 % data->n * d, d);
        ck_assert_double_le(fabs(get(nearest, data->type, i) - least), slack * (1 + least));
        for (int64_t a = 0; a < 3; a++) {
            double to = ref_distance2(data->x + i * d, data->x + a * 5 % data->n * d, d);
            expected[a] += ref_weight(data, i) * (to < least ? to : least);
        }
    }
    for (int a = 0; a < 3; a++)
        ck_assert_double_le(fabs(potentials[a] - expected[a]), slack * (1 + expected[a]));
    guarded_free(points);
    guarded_free(nearest);
    guarded_free(rows);
    guarded_free(potentials);
    if (weights) guarded_free(weights);
}

// Finishing: labels and squares to the last bit ---------------------------------------------------------------

// Sums that only criteria use may be made of distances that are rounded to the plan's type.
static double soft_slack(const ref_data *data) {
    return data->type == KM_FLOAT32 ? (double)(data->d + 8) * 0x1p-24 : 1e-12;
}

static void check_finish_sums(const double *sums, const ref_finished *expected, const ref_data *data) {
    double soft = soft_slack(data);
    for (int64_t j = 0; j < expected->k; j++) {
        const double *sum = sums + j * KM_CPU_SUMS;
        ck_assert_double_eq(sum[KM_CPU_SUM_WEIGHT], expected->weights[j]);
        ck_assert_int_eq((int64_t)sum[KM_CPU_SUM_COUNT], expected->counts[j]);
        ck_assert_double_le(fabs(sum[KM_CPU_SUM_SSE] - expected->sse[j]), 1e-12 * expected->sse[j]);
        ck_assert_double_le(fabs(sum[KM_CPU_SUM_DISTANCE] - expected->distance[j]),
                            soft * expected->distance[j]);
        ck_assert_double_le(fabs(sum[KM_CPU_SUM_MARGIN] - expected->margin[j]),
                            soft * (1e-12 + expected->weights[j]));
    }
}

// Once for labels and squares, once for the sums: what is wanted decides how it is computed.
static void check_finish(const module *m, const ref_data *data, int64_t k) {
    int64_t d = data->d, row = km_round_up(d, m->table.finish_row_multiple);
    double *centroids = calloc((size_t)(k * d), sizeof *centroids), *weights = NULL;
    double *rows = guarded(k * row * 8), *columns = guarded(d * KM_CPU_FEW_CLUSTERS * 8);
    void *points = soa_points_make(data, m->soa_points),
         *table = guarded(k * (d + 1) * real_bytes(data->type));
    int32_t *labels = guarded(data->n * 4), *again = guarded(data->n * 4);
    double *squares = guarded(data->n * 8), *sums = guarded(k * KM_CPU_SUMS * 8);
    if (data->w) memcpy(weights = guarded(data->n * 8), data->w, (size_t)data->n * 8);
    for (int64_t j = 0; j < k; j++)
        for (int64_t f = 0; f < d; f++)
            rows[j * row + f] = centroids[j * d + f] =
                ref_round(data->x[j * 3 % data->n * d + f] * 0.9, data->type);
    for (int64_t j = 0; j < k && k <= KM_CPU_FEW_CLUSTERS; j++)
        for (int64_t f = 0; f < d; f++) columns[f * KM_CPU_FEW_CLUSTERS + j] = centroids[j * d + f];
    km_cpu_table(table, centroids, k, d, data->type);
    km_cpu_finish_model models[] = {
        {.k = k, .centroids = rows, .columns = columns, .table = table, .labels = labels, .squares = squares},
        {.k = k, .centroids = rows, .columns = columns, .table = table, .labels = again, .sums = sums}};
    km_cpu_finish work = {points, weights, data->n, d, m->soa_points, row, models, 2};
    m->table.finish(&work);
    ref_finished expected = ref_finish(data, centroids, k);
    for (int64_t i = 0; i < data->n; i++) {
        ck_assert_int_eq(labels[i], expected.labels[i]);
        ck_assert_int_eq(again[i], expected.labels[i]);
        double square = ref_distance2_fused(data->x + i * d, centroids + labels[i] * d, d);
        ck_assert_msg(squares[i] == square, "%.17g instead of %.17g", squares[i], square);
    }
    check_finish_sums(sums, &expected, data);
    ref_finished_free(&expected);
    void *guards[] = {rows, columns, points, table, labels, again, squares, sums};
    for (int i = 0; i < 8; i++) guarded_free(guards[i]);
    if (weights) guarded_free(weights);
    free(centroids);
}

enum { MANY_FEATURES = 64 };

// Every kernel of a module, every number of points.
static void check_module(const module *m, km_type type, int64_t d, const int64_t *ks, int ks_count) {
    int64_t lanes = km_plan_get(&m->plan, "lanes"),
            sizes[] = {
                1,   2,  lanes - 1, lanes, lanes + 1, m->soa_points - 1, m->soa_points, m->soa_points + 1,
                127, 523};
    for (int s = 0; s < 10; s++) {
        if (sizes[s] < 1) continue;
        ref_data blobs = ref_blobs(sizes[s], d, 5, 1.0, 3 + (uint64_t)s, type);
        ref_data grid = ref_grid(sizes[s], d, 4, 7 + (uint64_t)s, type);
        for (int weighted = 0; weighted < 2; weighted++) {
            // Many features take long: unless all are asked for, each number of points with or without weights.
            if (d >= MANY_FEATURES && !is_whole() && weighted != s % 2) continue;
            if (d >= MANY_FEATURES && is_sample() && sizes[s] > 200) continue;
            if (weighted) {
                ref_weigh(&blobs, 5);
                ref_weigh(&grid, 6);
            }
            for (int i = 0; i < ks_count; i++) {
                check_pass(m, &blobs, ks[i], 0);
                check_pass(m, &grid, ks[i], 1);
                check_finish(m, &blobs, ks[i]);
                check_finish(m, &grid, ks[i]);
            }
            check_seed(m, &blobs);
        }
        ref_data_free(&blobs);
        ref_data_free(&grid);
    }
}

// Shapes: features, list of K. Few and many features, K around the tile of centroids, labels of one and two bytes.
typedef struct shape {
    int64_t d;
    const char *list;
    int64_t ks[6];
    int ks_count;
} shape;

static const shape shapes[] = {
    {1, "1,2,5,256", {1, 2, 5, 256}, 4},
    {2, "1,2,3,4,12", {1, 2, 3, 4, 12}, 5},
    {8, "3,5,9", {3, 5, 9}, 3},
    {19, "2,7", {2, 7}, 2},
    {70, "4", {4}, 1},
    {3, "7,300", {7, 300}, 2},
};
// Of gemm: K below a tile, whole tiles and not, several panels; features in one tile and in several.
static const shape gemm_shapes[] = {
    {1, "1,2,7,256", {1, 2, 7, 256}, 4},
    {16, "5,12", {5, 12}, 2},
    {70, "4,300", {4, 300}, 2},
    {400, "3,90", {3, 90}, 2},
};
// Of prebuilt: every number of features that has kernels of its own, the limits of those for any.
static const shape prebuilt_shapes[] = {
    {1, "1,2,5,256", {1, 2, 5, 256}, 4},
    {2, "1,2,3,4,12", {1, 2, 3, 4, 12}, 5},
    {3, "7,300", {7, 300}, 2},
    {3, "7,18", {7, 18}, 2},
    {4, "6", {6}, 1},
    {5, "1,2,3,4,12,256", {1, 2, 3, 4, 12, 256}, 6},
    {8, "3,5,9", {3, 5, 9}, 3},
    {16, "5,8", {5, 8}, 2},
    {64, "2,7", {2, 7}, 2},
    {65, "1,2,3,4,17", {1, 2, 3, 4, 17}, 5},
    {400, "3,90", {3, 90}, 2},
};
enum {
    PREBUILT_SHAPES = sizeof prebuilt_shapes / sizeof *prebuilt_shapes,
    SHAPES = sizeof shapes / sizeof *shapes,
    GEMM_SHAPES = sizeof gemm_shapes / sizeof *gemm_shapes
};

// Emitted kernels take long to build: unless all are asked for, one type of a shape, by each instruction set in turn.
static void check_emitted(const char *design, const shape *of_design, int i) {
    int at = i / ISAS, isa = i % ISAS;
    const shape *it = &of_design[at];
    if (!is_whole() && !sanitizing() && isa != (at + ISAS - 1) % ISAS) return;
    for (int type = KM_FLOAT32; type <= KM_FLOAT64; type++) {
        const char *compiler = sanitizing() ? sanitizing() : compilers[(isa + type) % 2];
        module m;
        if (!is_whole() && (at + isa + type) % 2) continue;
        if (access(compiler, X_OK) != 0) compiler = NULL; // then whichever there is
        if (!module_open(&m, design, isas[isa], compiler, (km_type)type, it->d, it->list)) return;
        check_module(&m, (km_type)type, it->d, it->ks, it->ks_count);
        module_close(&m);
    }
}

START_TEST(lanes_against_double_loops) {
    if (!is_sampled(_i)) return;
    check_emitted("lanes", shapes, _i);
}
END_TEST

START_TEST(gemm_against_double_loops) {
    if (!is_sampled(_i)) return;
    check_emitted("gemm", gemm_shapes, _i);
}
END_TEST

// An instrumented kernel that is told of more points than there are is stopped: the child exits with SANITIZED_EXIT.
enum { SANITIZED_EXIT = 23 };
START_TEST(reads_past_the_end) {
    module m;
    const shape *it =
        _i ? &gemm_shapes[1] : &shapes[1]; // compiled already, where the best set of instructions is
    int isa = ISAS - 1;
    while (!module_open(&m, _i ? "gemm" : "lanes", isas[isa], sanitizing(), KM_FLOAT64, it->d, it->list))
        ck_assert_int_ge(--isa, 0);
    int64_t soa_points = m.soa_points, d = it->d, k = it->ks[1];
    km_cpu_slot slot = {.k = k,
                        .table = guarded(KM_CPU_TABLE_ROWS(k) * (d + 1) * 8),
                        .labels = guarded(soa_points),
                        .sums = guarded(k * KM_CPU_PITCH(d) * 8),
                        .mode = KM_CPU_FIRST,
                        .labels_bytes = 1};
    km_cpu_chunk chunk = {guarded(soa_points * d * 8), NULL, soa_points + 1, d, soa_points, &slot, 1, NULL};
    m.table.pass(&chunk);
}
END_TEST

START_TEST(prebuilt_against_double_loops) {
    const shape *it = &prebuilt_shapes[_i / ISAS];
    for (int type = KM_FLOAT32; type <= KM_FLOAT64; type++) {
        module m;
        if (is_sample() && (_i / ISAS + _i % ISAS + type) % 2) continue; // each shape and type, on some set
        if (!module_open(&m, NULL, isas[_i % ISAS], NULL, (km_type)type, it->d, it->list)) return;
        // A build may be without those of an instruction set: then others serve, which have their own turn.
        if (m.table.isa == m.plan.facts.target.arch)
            check_module(&m, (km_type)type, it->d, it->ks, it->ks_count);
        module_close(&m);
    }
}
END_TEST

// int16 scores --------------------------------------------------------------------------------------------

typedef enum points_kind { UNIFORM, BLOBS, GRID, FAR_AWAY, MIXED_SCALES, FAR_POINT, KINDS } points_kind;

// Points of a kind; all of floats.
static ref_data points_of(points_kind kind, int64_t n, int64_t d, uint64_t seed) {
    ref_data data =
        kind == GRID ? ref_grid(n, d, 5, seed, KM_FLOAT32) : ref_blobs(n, d, 9, 1.0, seed, KM_FLOAT32);
    for (int64_t i = 0; i < n * d; i++) {
        double *x = &data.x[i];
        if (kind == UNIFORM) *x = (double)(km_mix64(seed + (uint64_t)i) >> 11) * 0x1p-53 - 0.5;
        if (kind == FAR_AWAY) *x += 1000;
        if (kind == MIXED_SCALES) *x *= pow(10, (double)(i % d % 9) - 4);
        if (kind == FAR_POINT && i < d) *x = 1e6;
        *x = ref_round(*x, KM_FLOAT32);
    }
    return data;
}

// Labels by int16 scores are those by floats, and of spread points hardly any is scored again.
static void check_int16_scores(const module *m, points_kind kind, int64_t d, int64_t k) {
    ref_data data = points_of(kind, 5000, d, 11 + (uint64_t)(d * k));
    km_type type = KM_FLOAT32;
    int64_t whole = km_round_up(data.n, m->soa_points);
    double *centroids = calloc((size_t)(k * d), sizeof *centroids);
    void *points = soa_points_make(&data, m->soa_points),
         *table = guarded(KM_CPU_TABLE_ROWS(k) * (d + 1) * 4);
    int16_tables int16 = int16_new(m, &data, k);
    km_cpu_slot slots[2] = {{.k = k, .table = table, .labels = guarded(whole), .labels_bytes = 1}};
    slots[1] = slots[0];
    slots[1].labels = guarded(whole);
    for (int64_t j = 0; j < k; j++) // on a grid its points, so that many scores are equal
        for (int64_t f = 0; f < d; f++) {
            double one = data.x[j * 13 * d + f], other = data.x[(j * 17 + 1) * d + f];
            centroids[j * d + f] = kind == GRID ? one : ref_round((one + other) / 2, type);
        }
    km_cpu_table(table, centroids, k, d, type);
    km_cpu_table_end(table, k, d, type);
    int16_give(&slots[0], &int16, d);
    km_cpu_chunk chunk = {points, NULL, data.n, d, m->soa_points, slots, 2, int16.scales};
    m->table.pass(&chunk);
    for (int64_t i = 0; i < data.n; i++)
        ck_assert_msg(label_at(&slots[0], i) == label_at(&slots[1], i),
                      "kind %d, d = %lld, k = %lld, point %lld: %lld instead of %lld", (int)kind,
                      (long long)d, (long long)k, (long long)i, (long long)label_at(&slots[0], i),
                      (long long)label_at(&slots[1], i));
    ck_assert_int_eq(slots[1].resolved, 0);
    if (kind == UNIFORM) ck_assert_ptr_nonnull(slots[0].int16_table);
    if (kind == UNIFORM && k > 1) ck_assert_int_lt(slots[0].resolved, data.n / 20);
    if (kind == GRID && k > 4) ck_assert_int_gt(slots[0].resolved, 0);
    guarded_free(slots[0].labels);
    guarded_free(slots[1].labels);
    guarded_free(points);
    guarded_free(table);
    int16_free(&int16);
    free(centroids);
    ref_data_free(&data);
}

static const int64_t int16_features[] = {5, 19, 32, 64};
enum { INT16_FEATURES = sizeof int16_features / sizeof *int16_features };

// The short form has each number of features prebuilt and every other one by a compiler, the sanitizers prebuilt alone,
// with each kind of points for half of the K.
START_TEST(int16_scores_choose_as_floats) {
    static const int64_t ks[] = {1, 2, 5, 12, 17, 64, 250};
    const char *designs[] = {"lanes", "lanes", NULL};
    int64_t d = int16_features[_i / 3];
    module m;
    const char *compiler = _i % 3 < 2 && access(compilers[_i % 3], X_OK) == 0 ? compilers[_i % 3] : NULL;
    if (_i % 3 < 2 && (is_sample() || (!is_whole() && _i / 3 != 2 * (_i % 3)))) return;
    if (!module_open(&m, designs[_i % 3], "cpu:avx512", compiler, KM_FLOAT32, d, "1,2,5,12,17,64,250"))
        return;
    for (int kind = 0; kind < KINDS && m.table.int16_scores && m.device->facts.has_integers; kind++)
        for (int i = 0; i < 7; i++)
            if (!is_sample() || (i + kind) % 2 == 0) check_int16_scores(&m, (points_kind)kind, d, ks[i]);
    ck_assert_int_eq(m.table.int16_scores, km_plan_get(&m.plan, "int16_scores"));
    module_close(&m);
}
END_TEST

// Tables that 16 bits cannot hold are refused: all centroids at the origin, values beyond floats' squares.
START_TEST(int16_scores_refused) {
    double largest[] = {1, 0}, far[] = {1, 1e30};
    float scales[2], table[] = {0, 0, 0, 0, 0, 0}, lone[] = {0.5F, 0, -0.125F, 0.25F, 0, -0.03125F};
    int32_t int16_table[2 * KM_CPU_INT16_ROW(2)];
    ck_assert(!km_cpu_int16_scales(scales, far, 2));
    ck_assert(km_cpu_int16_scales(scales, largest, 2));
    ck_assert_int_lt(km_cpu_int16_table(int16_table, table, 2, 2, scales, 1), 0);
    int64_t margin = km_cpu_int16_table(int16_table, lone, 2, 2, scales, 1);
    ck_assert_int_ge(margin, 1);
    ck_assert_int_le(margin, 4);
    ck_assert_int_eq(int16_table[0], 32766); // the largest coordinate takes all 16 bits
}
END_TEST

// A module that was made for something else is refused before it runs.
START_TEST(foreign_modules) {
    module m;
    ck_assert(module_open(&m, "lanes", "cpu:generic", NULL, KM_FLOAT32, 2, "2..4"));
    char path[64], binary[64];
    snprintf(path, sizeof path, "%s/foreign.c", folder);
    snprintf(binary, sizeof binary, "%s/foreign.so", folder);
    km_source source;
    km_source_init(&source);
    must(km_source_emit(&source, &m.plan, NULL, &err));
    must(km_file_write(path, source.text, source.text_size, &err));
    must(km_backend_cpu.compile(m.device, &source, path, binary, NULL, NULL, &err));
    km_plan other = m.plan;
    other.spec.features = 3;
    km_kernels *kernels = NULL;
    char *bytes;
    int64_t size;
    must(km_file_read(&bytes, &size, binary, 0, &err));
    ck_assert_int_eq(
        km_backend_cpu.kernels_load(&kernels, m.device, &other, &(km_binary){bytes, size}, 1, &err),
        KM_ERROR_COMPILE);
    free(bytes);
    ck_assert_ptr_null(kernels);
    ck_assert_msg(strstr(err.text, "emit the source again") != NULL, "%s", err.text);
    unlink(path);
    unlink(binary);
    km_source_clear(&source);
    module_close(&m);
}
END_TEST

// The compiler's words reach the error.
START_TEST(compile_errors) {
    module m;
    ck_assert(module_open(&m, NULL, NULL, NULL, KM_FLOAT32, 2, "2"));
    char source_path[64], log[64];
    snprintf(source_path, sizeof source_path, "%s/bad.c", folder);
    snprintf(log, sizeof log, "%s/bad.log", folder);
    FILE *file = fopen(source_path, "w");
    fputs("int x = missing;\n", file);
    fclose(file);
    km_source source;
    km_source_init(&source);
    ck_assert_int_eq(km_backend_cpu.compile(m.device, &source, source_path, "/dev/null", log, NULL, &err),
                     KM_ERROR_COMPILE);
    ck_assert_msg(strstr(err.text, "missing") && strstr(err.text, log), "%s", err.text);
    unlink(source_path);
    unlink(log);
    module_close(&m);
}
END_TEST

// Refused before any memory is taken.
START_TEST(limits) {
    km_spec spec;
    km_spec_init(&spec);
    ck_assert_int_eq(km_spec_set_clusters(&spec, "65537", &err), KM_ERROR_SPEC);
    km_spec_clear(&spec);
    err.text[0] = 0;
    module m;
    ck_assert(module_open(&m, NULL, NULL, NULL, KM_FLOAT32, 1, "1"));
    float none = 0;
    double centre, factor;
    km_data *data = NULL;
    km_engine *engine = NULL;
    km_data_stats stats;
    km_load_params params = {.centre = &centre, .factor = &factor};
    must(km_data_stats_alloc(&stats, 1, &err));
    must(km_data_from_memory(&data, &none, 0, 1, KM_FLOAT32, 0, 0, NULL, &err));
    must(km_backend_cpu.engine_create(&engine, m.kernels, 1, NULL, &err));
    ck_assert_int_eq(km_backend_cpu.load(engine, &stats, data, &params, &err), KM_ERROR_DATA);
    ck_assert_msg(strstr(err.text, "no points") != NULL, "%s", err.text);
    km_backend_cpu.engine_destroy(&engine);
    km_data_destroy(&data);
    km_data_stats_free(&stats);
    module_close(&m);
    err.text[0] = 0;
    km_device *device = NULL;
    ck_assert_int_eq(km_backend_cpu.device_open(&device, KM_HOST, "/no/such/cc", NULL, &err),
                     KM_ERROR_COMPILE);
    ck_assert_ptr_null(device);
}
END_TEST

int main(void) {
    if (!mkdtemp(folder)) return 99;
    Suite *suite = suite_create("cpu kernels");
    TCase *tests = tcase_create("kernels");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, lanes_against_double_loops, 0, SHAPES * ISAS);
    tcase_add_loop_test(tests, gemm_against_double_loops, 0, GEMM_SHAPES * ISAS);
    if (sanitizing()) {
        tcase_add_loop_exit_test(tests, reads_past_the_end, SANITIZED_EXIT, 0, 2);
    } else {
        tcase_add_loop_test(tests, prebuilt_against_double_loops, 0, PREBUILT_SHAPES * ISAS);
        tcase_add_loop_test(tests, int16_scores_choose_as_floats, 0, 3 * INT16_FEATURES);
        tcase_add_test(tests, int16_scores_refused);
        tcase_add_test(tests, foreign_modules);
        tcase_add_test(tests, compile_errors);
        tcase_add_test(tests, limits);
    }
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    km_cache_clear(NULL, folder, &err);
    rmdir(folder);
    return failed != 0;
}

// SPDX-License-Identifier: MIT
// Memory: what a fit takes is what was planned, what does not fit is refused before it is read, and a limit changes no
// result. All allocations of the library are counted (tests/meson.build wraps them).
#include "../gen/memory.h"
#include "../runtime/file.h"
#include "../runtime/memory.h"
#include "reference.h"
#include "quiet_check.h"
#include <kmgen/fit.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static _Atomic int64_t held, most_held;

// Large pieces lie on pages of their own, of which the rest is never touched: they count as what was asked for.
enum { PIECES = 512 };
static struct {
    void *memory;
    int64_t bytes;
} pieces[PIECES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// The bytes of a large piece, which is forgotten or (`bytes` > 0) noted; 0: it is none.
static int64_t piece(void *memory, int64_t bytes) {
    int64_t found = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < PIECES; i++) {
        if (pieces[i].memory != (bytes ? NULL : memory)) continue;
        found = bytes ? bytes : pieces[i].bytes;
        pieces[i].memory = bytes ? memory : NULL;
        pieces[i].bytes = found;
        break;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static void *count(void *memory, int64_t bytes) {
    if (!memory) return NULL;
    int64_t now = atomic_fetch_add(&held, bytes) + bytes;
    for (int64_t most = most_held; now > most && !atomic_compare_exchange_weak(&most_held, &most, now);) {
    }
    return memory;
}

static int64_t usable(void *memory) {
    return memory ? (int64_t)malloc_usable_size(memory) : 0;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t unit, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count_, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_aligned_alloc(size_t unit, size_t size);
void __wrap_free(void *memory);

void *__wrap_malloc(size_t size) {
    void *memory = __real_malloc(size);
    return count(memory, usable(memory));
}

void *__wrap_calloc(size_t count_, size_t size) {
    void *memory = __real_calloc(count_, size);
    return count(memory, usable(memory));
}

void *__wrap_realloc(void *memory, size_t size) {
    int64_t before = usable(memory);
    void *moved = __real_realloc(memory, size);
    if (moved) atomic_fetch_sub(&held, before);
    return count(moved, usable(moved));
}

void *__wrap_aligned_alloc(size_t unit, size_t size) {
    void *memory = __real_aligned_alloc(unit, size);
    return count(memory, unit > 4096 && memory ? piece(memory, (int64_t)size) : usable(memory));
}

void __wrap_free(void *memory) {
    int64_t bytes = memory ? piece(memory, 0) : 0;
    atomic_fetch_sub(&held, bytes ? bytes : usable(memory));
    __real_free(memory);
}

// What a fit takes --------------------------------------------------------------------------------------------

typedef struct shape {
    int64_t n, d;
    const char *clusters;
    km_type type, values; // of the kernels, of the points in memory
    km_algorithm algorithm;
    const char *design;
    int weighted;
    km_labels_wanted labels;
    int64_t restarts, changes_min, threads;
    int64_t nonzeros; // of each row, where the points lie as CSR; 0: they are dense
} shape;

static const shape shapes[] = {
    {500000, 8, "3..8", KM_FLOAT32, KM_FLOAT32, KM_ALGORITHM_LLOYD, "prebuilt", 0, KM_LABELS_NONE, 4, 0, 2,
     0},
    {400000, 8, "3..8", KM_FLOAT64, KM_FLOAT32, KM_ALGORITHM_LLOYD, "prebuilt", 1, KM_LABELS_BEST, 10, 5, 1,
     0},
    {600000, 3, "2..12", KM_FLOAT32, KM_FLOAT32, KM_ALGORITHM_TILES, "prebuilt", 0, KM_LABELS_ALL, 2, 0, 2,
     0},
    {400000, 6, "5", KM_FLOAT32, KM_FLOAT64, KM_ALGORITHM_TILES, "prebuilt", 1, KM_LABELS_NONE, 2, 0, 2, 0},
    {200000, 16, "16,32", KM_FLOAT32, KM_FLOAT32, KM_ALGORITHM_HAMERLY, "prebuilt", 0, KM_LABELS_BEST, 2, 0,
     2, 0},
    {150000, 8, "4..8", KM_FLOAT64, KM_FLOAT64, KM_ALGORITHM_ELKAN, "prebuilt", 0, KM_LABELS_NONE, 2, 0, 2,
     0},
    {200000, 4, "260,300", KM_FLOAT32, KM_FLOAT32, KM_ALGORITHM_LLOYD, "prebuilt", 0, KM_LABELS_ALL, 1, 0, 2,
     0},
    {100000, 100, "2..5", KM_FLOAT32, KM_FLOAT64, KM_ALGORITHM_LLOYD, "prebuilt", 0, KM_LABELS_NONE, 3, 0, 2,
     0},
    {400000, 1000, "2..5", KM_FLOAT32, KM_FLOAT32, KM_ALGORITHM_LLOYD, "sparse_lanes", 0, KM_LABELS_BEST, 2,
     0, 2, 20},
    {50000, 30000, "3..6", KM_FLOAT64, KM_FLOAT32, KM_ALGORITHM_LLOYD, "sparse_lanes", 1, KM_LABELS_NONE, 1,
     0, 2, 60},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

// Uniform points of either type.
static void *values_of(const shape *s, uint64_t seed) {
    size_t size = s->values == KM_FLOAT64 ? 8 : 4;
    int64_t count = s->n * (s->nonzeros ? s->nonzeros : s->d);
    void *values = malloc((size_t)count * size);
    ck_assert_ptr_nonnull(values);
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        double value = (double)(seed >> 33) * 0x1p-31;
        if (s->values == KM_FLOAT64)
            ((double *)values)[i] = value;
        else
            ((float *)values)[i] = (float)value;
    }
    return values;
}

static void job_of(km_spec *spec, km_fit_params *params, const shape *s) {
    km_error err = {""};
    km_spec_init(spec);
    km_fit_params_init(params);
    ck_assert_int_eq(km_spec_set_clusters(spec, s->clusters, &err), KM_OK);
    ck_assert_int_eq(km_spec_set_target(spec, "cpu", &err), KM_OK);
    if (s->design) ck_assert_int_eq(km_spec_fix(spec, "design", s->design, &err), KM_OK);
    spec->type = s->type;
    spec->n_init = s->restarts;
    params->device = KM_HOST;
    params->algorithm = s->algorithm;
    params->labels = s->labels;
    params->changes_min = s->changes_min;
    params->threads = s->threads;
    params->max_iter = 2;
}

// Row starts and columns of a CSR table; they live as long as the data.
static km_status csr_of(km_data **out, const shape *s, const void *values, const double *weights,
                        km_error *err) {
    static int64_t *starts;
    static int32_t *columns;
    int64_t step = s->d / s->nonzeros;
    free(starts);
    free(columns);
    starts = malloc((size_t)(s->n + 1) * sizeof *starts);
    columns = malloc((size_t)(s->n * s->nonzeros) * sizeof *columns);
    for (int64_t i = 0; i <= s->n; i++) starts[i] = i * s->nonzeros;
    for (int64_t e = 0; e < s->n * s->nonzeros; e++)
        columns[e] = (int32_t)(e % s->nonzeros * step + e * 7919 % step);
    return km_data_from_csr(out, starts, columns, 4, values, s->values, s->n, s->d, weights, err);
}

static km_data *data_of(const shape *s, const void *values, double *weights) {
    km_error err = {""};
    km_data *data = NULL;
    for (int64_t i = 0; s->weighted && i < s->n; i++) weights[i] = 1 + (double)(i % 3);
    if (s->nonzeros)
        ck_assert_msg(csr_of(&data, s, values, s->weighted ? weights : NULL, &err) == KM_OK, "%s", err.text);
    if (s->nonzeros) return data;
    ck_assert_msg(km_data_from_memory(&data, values, s->n, s->d, s->values, 0, 0,
                                      s->weighted ? weights : NULL, &err) == KM_OK,
                  "%s", err.text);
    return data;
}

// Never more than was planned, and not much less.
START_TEST(fits_take_what_was_planned) {
    const shape *s = &shapes[_i];
    km_error err = {""};
    km_spec spec;
    km_fit_params params;
    km_result *result = NULL;
    void *values = values_of(s, 7);
    double *weights = malloc((size_t)s->n * sizeof *weights);
    km_memory_keep(0);
    job_of(&spec, &params, s);
    km_data *data = data_of(s, values, weights);
    int64_t before = held;
    most_held = before;
    ck_assert_msg(km_fit(&result, &spec, data, &params, &err) == KM_OK, "%s", err.text);
    int64_t taken = most_held - before, planned = result->plan.memory_bytes;
    // Stacks and small things have room of their own.
    ck_assert_msg(taken <= planned - (12 << 20), "shape %d took %.2f MiB, %.2f were planned", _i,
                  (double)taken / 0x1p20, (double)planned / 0x1p20);
    ck_assert_msg((double)planned <= 1.25 * (double)taken + 0x1p24,
                  "shape %d took %.2f MiB, %.2f were planned", _i, (double)taken / 0x1p20,
                  (double)planned / 0x1p20);
    if (s->nonzeros) ck_assert_int_lt(taken, s->n * s->d * 4 / 2); // never the dense table
    km_result_destroy(&result);
    ck_assert_int_le(held - before, 1 << 20);
    km_data_destroy(&data);
    km_spec_clear(&spec);
    free(values);
    free(weights);
}
END_TEST

// A limit -----------------------------------------------------------------------------------------------------

#ifndef __SANITIZE_ADDRESS__
typedef enum limit_of { NO_LIMIT, OF_ADDRESSES, OF_PARAMS, WITH_FILES } limit_of;

static const char *scratch = "/tmp";

// The same fit under a limit, of addresses or that of its parameters, in a process of its own: its labels and inertia
// go to `fd`, or the sentence that refused it.
static void fit_under(int fd, const shape *s, limit_of limit, int64_t bytes, const km_data *data) {
    km_error err = {""};
    km_spec spec;
    km_fit_params params;
    km_result *result = NULL;
    job_of(&spec, &params, s);
    const int64_t much = INT64_C(1) << 40;
    if (limit == WITH_FILES) params.scratch_dir = scratch;
    if (limit == OF_PARAMS || limit == WITH_FILES)
        params.memory_max = much - km_host_left_of(much) + bytes; // held now, and so many more
    if (limit == OF_ADDRESSES) {
        char text[64] = "";
        FILE *stream = fopen("/proc/self/statm", "re");
        if (!stream || !fgets(text, sizeof text, stream)) _exit(3);
        fclose(stream);
        rlim_t all = (rlim_t)(strtoll(text, NULL, 10) * sysconf(_SC_PAGESIZE) + bytes);
        if (setrlimit(RLIMIT_AS, &(struct rlimit){all, all}) != 0) _exit(3);
    }
    int64_t before = held;
    most_held = before;
    km_status status = km_fit(&result, &spec, data, &params, &err);
    if (status == KM_OK && limit != NO_LIMIT && most_held - before > result->plan.memory_bytes) _exit(4);
    int64_t head[3] = {status, 0, 0};
    if (status == KM_OK) {
        const km_model *best = &result->models[result->selection.best];
        head[1] = km_plan_get(&result->plan, "concurrent_restarts");
        head[2] = best->k;
        if (write(fd, head, sizeof head) != sizeof head) _exit(3);
        for (int64_t m = 0; m < result->models_count; m++)
            if (write(fd, &result->models[m].inertia, 8) != 8) _exit(3);
        if (write(fd, best->labels, (size_t)(result->n * 4)) != result->n * 4) _exit(3);
    } else if (write(fd, head, sizeof head) != sizeof head ||
               write(fd, err.text, sizeof err.text) != sizeof err.text) {
        _exit(3);
    }
    _exit(0);
}

// Forks, and reads all that the child wrote.
static char *outcome_of(int64_t *size, const shape *s, limit_of limit, int64_t bytes, const km_data *data) {
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    pid_t child = fork();
    if (child == 0) fit_under(fileno(file), s, limit, bytes, data);
    int code = 0;
    ck_assert_int_eq(waitpid(child, &code, 0), child);
    ck_assert_msg(WIFEXITED(code) && WEXITSTATUS(code) == 0, "the fit ended with %d", code);
    *size = lseek(fileno(file), 0, SEEK_END);
    char *text = malloc((size_t)*size);
    ck_assert_int_eq(pread(fileno(file), text, (size_t)*size, 0), *size);
    fclose(file);
    return text;
}

START_TEST(a_limit_changes_no_result) {
    static const shape s = {400000,     4, "2..9",         KM_FLOAT32, KM_FLOAT32, KM_ALGORITHM_AUTO,
                            "prebuilt", 0, KM_LABELS_BEST, 8,          0,          2,
                            0};
    km_error err = {""};
    km_spec spec;
    km_fit_params params;
    km_plan plan;
    void *values = values_of(&s, 3);
    km_data *data = data_of(&s, values, NULL);
    km_plan_init(&plan);
    job_of(&spec, &params, &s);
    ck_assert_int_eq(km_fit_plan(&plan, &spec, data, &params, &err), KM_OK);
    int64_t sizes[2], stacks = sysconf(_SC_NPROCESSORS_ONLN) * (8 << 20);
    char *free_one = outcome_of(&sizes[0], &s, NO_LIMIT, 0, data);
    ck_assert_int_eq(((int64_t *)(void *)free_one)[0], KM_OK);
    // Just too little for what was planned without a limit: the algorithm, or the restarts, give way.
    const limit_of limit = _i ? OF_PARAMS : OF_ADDRESSES;
    if (limit == OF_PARAMS) stacks = 0; // only what is used counts
    char *tight = outcome_of(&sizes[1], &s, limit, plan.memory_bytes * 9 / 10 + stacks, data);
    ck_assert_int_eq(((int64_t *)(void *)tight)[0], KM_OK);
    ck_assert_int_eq(sizes[0], sizes[1]);
    ck_assert_int_eq(((int64_t *)(void *)free_one)[2], ((int64_t *)(void *)tight)[2]);
    ck_assert_int_eq(memcmp(free_one + 24, tight + 24, (size_t)sizes[0] - 24), 0);
    free(tight);
    // Too little for anything: refused, and nobody was asked for the memory.
    tight = outcome_of(&sizes[1], &s, limit, (20 << 20) + stacks, data);
    ck_assert_int_eq(((int64_t *)(void *)tight)[0], KM_ERROR_MEMORY);
    ck_assert_msg(strstr(tight + 24, "400000 points of 4 features do not fit: a fit on cpu"), "%s",
                  tight + 24);
    ck_assert_int_eq(strstr(tight + 24, "(--memory-max is ") != NULL, limit == OF_PARAMS);
    free(tight);
    free(free_one);
    free(values);
    km_plan_clear(&plan);
    km_spec_clear(&spec);
    km_data_destroy(&data);
}
END_TEST
#endif

#ifndef __SANITIZE_ADDRESS__
// Points, labels, what seeding and the last pass keep of each point: all in files, with the bits of memory.
START_TEST(temporary_files_change_no_result) {
    static const shape both[] = {{1500007, 4, "2..9", KM_FLOAT32, KM_FLOAT32, KM_ALGORITHM_LLOYD, "prebuilt",
                                  0, KM_LABELS_ALL, 4, 0, 2, 0},
                                 {1100003, 3, "7", KM_FLOAT64, KM_FLOAT32, KM_ALGORITHM_LLOYD, "prebuilt", 1,
                                  KM_LABELS_BEST, 3, 0, 2, 0}};
    const shape *s = &both[_i];
    const int64_t limit = 48 << 20;
    int64_t sizes[2];
    double *weights = malloc((size_t)s->n * sizeof *weights);
    void *values = values_of(s, 3);
    km_data *data = data_of(s, values, weights);
    char *in_memory = outcome_of(&sizes[0], s, NO_LIMIT, 0, data);
    char *in_files = outcome_of(&sizes[1], s, WITH_FILES, limit, data);
    const int64_t status = ((int64_t *)(void *)in_files)[0];
    ck_assert_int_eq(((int64_t *)(void *)in_memory)[0], KM_OK);
    if (status != KM_OK && strstr(in_files + 24, "lies in memory")) exit(77); // /tmp here
    ck_assert_msg(status == KM_OK, "%s", in_files + 24);
    ck_assert_int_eq(sizes[0], sizes[1]);
    ck_assert_int_eq(memcmp(in_memory + 16, in_files + 16, (size_t)sizes[0] - 16), 0);
    free(in_files);
    // Without them there is no way.
    in_files = outcome_of(&sizes[1], s, OF_PARAMS, limit, data);
    ck_assert_int_eq(((int64_t *)(void *)in_files)[0], KM_ERROR_MEMORY);
    free(in_files);
    // A folder in memory, or none, is no place for them.
    scratch = "/dev/shm";
    in_files = outcome_of(&sizes[1], s, WITH_FILES, limit, data);
    ck_assert_int_eq(((int64_t *)(void *)in_files)[0], KM_ERROR_IO);
    free(in_files);
    scratch = "/nowhere";
    in_files = outcome_of(&sizes[1], s, WITH_FILES, limit, data);
    ck_assert_int_eq(((int64_t *)(void *)in_files)[0], KM_ERROR_IO);
    ck_assert_msg(strstr(in_files + 24, "/nowhere: No such file"), "%s", in_files + 24);
    free(in_files);
    free(in_memory);
    free(values);
    free(weights);
    km_data_destroy(&data);
}
END_TEST
#endif

// Refusals ----------------------------------------------------------------------------------------------------

// More points than any machine holds, in a file that has none of them: refused at once, with what would fit.
START_TEST(a_table_beyond_the_memory_is_refused_before_it_is_read) {
    char path[] = "/tmp/kmgen-test-XXXXXX";
    int fd = mkstemp(path);
    km_error err = {""};
    km_spec spec;
    km_result *result = NULL;
    km_data *data = NULL;
    km_data_params data_params;
    km_fit_params params;
    km_plan plan;
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, (off_t)1 << 42), 0); // 4 TiB
    close(fd);
    km_data_params_init(&data_params);
    data_params.format = "f32";
    data_params.features = 32;
    ck_assert_msg(km_data_open(&data, path, &data_params, &err) == KM_OK, "%s", err.text);
    job_of(&spec, &params,
           &(shape){.clusters = "2..3", .type = KM_FLOAT64, .restarts = 1, .labels = KM_LABELS_BEST});
    km_plan_init(&plan);
    ck_assert_int_eq(km_fit_plan(&plan, &spec, data, &params, &err), KM_ERROR_MEMORY);
    ck_assert_int_ne(plan.design, KM_DESIGN_NONE); // --dry-run shows it
    ck_assert(!km_plan_fits(&plan));
    km_error again = {""};
    ck_assert_int_eq(km_fit(&result, &spec, data, &params, &again), KM_ERROR_MEMORY);
    ck_assert_ptr_nonnull(strstr(again.text, "points fits"));
    km_plan_clear(&plan);
    km_spec_clear(&spec);
    km_data_destroy(&data);
    unlink(path);
}
END_TEST

// The advice -------------------------------------------------------------------------------------------------

static km_spec advised;
static km_plan_params surroundings;
static km_device_facts facts;

static void advice_setup(const char *target) {
    km_error err = {""};
    km_spec_init(&advised);
    advised.features = 32;
    ck_assert_int_eq(km_spec_set_clusters(&advised, "3..12", &err), KM_OK);
    ck_assert_int_eq(km_spec_set_target(&advised, target, &err), KM_OK);
    km_plan_params_init(&surroundings);
    km_device_facts_init(&facts, advised.target);
    surroundings.facts = &facts;
    surroundings.points = 40000000;
}

static void expect_advice(int64_t free_bytes, const km_device_facts *host, const char *part,
                          const char *missing) {
    km_error err = {""};
    km_plan plan;
    km_plan_init(&plan);
    facts.memory_free_bytes = free_bytes;
    ck_assert_msg(km_plan_make(&plan, &advised, &surroundings, &err) == KM_OK, "%s", err.text);
    ck_assert(!km_plan_fits(&plan));
    ck_assert_int_eq(km_memory_refuse(&plan, &advised, &surroundings, host, &err), KM_ERROR_MEMORY);
    ck_assert_msg(strstr(err.text, part) != NULL, "%s", err.text);
    if (missing) ck_assert_msg(!strstr(err.text, missing), "%s", err.text);
    km_plan_clear(&plan);
}

START_TEST(advice_is_what_helps) {
    km_error err = {""};
    const int64_t gib = 1 << 30;
    advice_setup("cuda:sm_90");
    expect_advice(4 * gib, NULL, "a sample of", "concurrent restarts"); // one at a time already
    km_device_facts host;
    km_device_facts_init(&host, (km_target){KM_TARGET_CPU, KM_ISA_AVX2});
    host.memory_free_bytes = 64 * gib;
    expect_advice(4 * gib, &host, "-t cpu needs", NULL);
    host.memory_free_bytes = 2 * gib;
    expect_advice(4 * gib, &host, "a sample of", "-t cpu");
    ck_assert_int_eq(km_spec_fix(&advised, "design", "tensor", &err), KM_OK);
    expect_advice(8 * gib, NULL, "another design (leave design= out) needs", NULL);
    advised.fixed_count = 0;
    advised.type = KM_FLOAT64;
    expect_advice(9 * gib, NULL, "--type f32 needs", NULL);
    km_spec_clear(&advised);
    advice_setup("cpu:avx2");
    surroundings.label_sets = 10;
    expect_advice(6 * gib, NULL, "--labels-of best needs", "--type f32");
    surroundings.label_sets = 0;
    surroundings.algorithm = KM_ALGORITHM_ELKAN;
    expect_advice(7 * gib, NULL, "--algorithm lloyd needs", NULL);
    advised.type = KM_FLOAT64;
    expect_advice(7 * gib, NULL, "--algorithm lloyd with --type f32 needs", NULL);
    km_spec_clear(&advised);
}
END_TEST

// What is free ------------------------------------------------------------------------------------------------

static char root[] = "/tmp/kmgen-test-XXXXXX";

static void put(const char *path, const char *text) {
    char whole[512];
    km_error err = {""};
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *slash = whole + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; *slash++ = '/') {
        *slash = 0;
        mkdir(whole, 0700);
    }
    ck_assert_msg(km_file_write(whole, text, (int64_t)strlen(text), &err) == KM_OK, "%s", err.text);
}

START_TEST(the_least_of_all_limits_counts) {
    const int64_t mib = 1 << 20;
    ck_assert_ptr_nonnull(mkdtemp(root));
    ck_assert_int_eq(km_host_free(root), 0); // nobody says
    put("/proc/meminfo", "MemTotal:       9999999 kB\nMemFree:  12 kB\nMemAvailable:    2048000 kB\n");
    ck_assert_int_eq(km_host_free(root), 2000 * mib);
    put("/proc/self/cgroup", "0::/jobs/one\n");
    put("/sys/fs/cgroup/jobs/one/memory.max", "max\n");
    put("/sys/fs/cgroup/jobs/one/memory.current", "1048576\n");
    ck_assert_int_eq(km_host_free(root), 2000 * mib);
    put("/sys/fs/cgroup/jobs/memory.max", "1073741824\n"); // of all jobs; pages of files go when they must
    put("/sys/fs/cgroup/jobs/memory.current", "734003200\n");
    put("/sys/fs/cgroup/jobs/memory.stat", "anon 1\nfile 2\ninactive_file 209715200\n");
    ck_assert_int_eq(km_host_free(root), (1024 - 700 + 200) * mib);
    put("/proc/self/cgroup",
        "4:memory:/gone/in/here\n1:cpu:/\n"); // a container sees its own group as the mount
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "314572800\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "104857600\n");
    ck_assert_int_eq(km_host_free(root), 200 * mib);
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    ck_assert_int_eq(km_host_free(root), 2000 * mib);
    ck_assert_int_gt(km_host_free(NULL), 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("memory");
    TCase *tests = tcase_create("memory");
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, fits_take_what_was_planned, 0, SHAPES);
#ifndef __SANITIZE_ADDRESS__
    tcase_add_loop_test(tests, a_limit_changes_no_result, 0, 2);
    tcase_add_loop_test(tests, temporary_files_change_no_result, 0, 2);
#endif
    tcase_add_test(tests, a_table_beyond_the_memory_is_refused_before_it_is_read);
    tcase_add_test(tests, advice_is_what_helps);
    tcase_add_test(tests, the_least_of_all_limits_counts);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}

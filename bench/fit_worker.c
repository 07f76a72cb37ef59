// SPDX-License-Identifier: MIT
// Times km_fit on a .npy file: one fit and one line of JSON for each line on standard input, so that a script can
// take turns between this program and others (bench/cpu_peers.py does). A line may set an option first: key=value.
//
//     fit_worker DATA CLUSTERS [type=f32|f64] [init=FILE.npy] [iterations=N] [tol=T] [restarts=R] [threads=T]
//                                  [target=cpu|cuda|...] [design=NAME] [algorithm=NAME] [cache=DIR]
//                                  [labels=none|best|all] [open=once|each] [layout=NAME] [refine=TEXT] [seed=N]
//
// DATA is a .npy file, or a .csr file: rows, columns and entries as int64_t, the rows' starts as int64_t, then the
// entries' columns as int32_t and their values as float (bench/sparse.py writes such files).
//
// The file is mapped and its pages are touched by a first fit that is not reported. "ms" is the whole of km_fit,
// labels of every K included, less "build_ms", which a program pays once; "wall_ms" leaves out nothing; "cpu_ms" are
// the processor's milliseconds, of all threads. With open=each
// the file is opened again for each fit ("open_ms", in none of the others). On a GPU the context is made once and
// kept ("context_ms", a line before "ready"); "copy_ms" is the points on their way there, "pin_ms" the pinning of
// memory before it.
#include <kmgen/kmgen.h>
#include <kmgen/fit.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct fit_job {
    km_spec spec;
    const char *path;
    km_data *data;
    km_fit_params params;
    km_log log;
    double *init;
    char *csr; // the file's bytes
    int open_each;
    double open_ms, copy_ms, pin_ms, context_ms;
} fit_job;

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static km_status init_read(fit_job *job, const char *path, km_error *err) {
    km_data *rows = NULL;
    km_status status = km_data_open(&rows, path, NULL, err);
    if (status != KM_OK) return status;
    int64_t count = km_data_points(rows), d = km_data_features(rows);
    job->init = calloc((size_t)(count * d), sizeof(double));
    if (job->init) {
        status = km_data_read(job->init, rows, 0, count, KM_FLOAT64, err);
        job->params.init = KM_INIT_GIVEN;
        job->params.init_rows = job->init;
        job->params.init_count = count;
    }
    km_data_destroy(&rows);
    return job->init ? status : KM_ERROR_MEMORY;
}

// The CUDA engine says how long the copy took.
static void on_log(void *user, km_log_level level, const char *line) {
    fit_job *job = user;
    (void)level;
    sscanf(line, "load: %*f MB copied in %lf ms, %*f GB/s; buffers pinned in %lf ms", &job->copy_ms,
           &job->pin_ms);
}

// Makes the first device's primary context and keeps it, as a program does that fits more than once.
static void keep_context(fit_job *job) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
    if (!driver) return;
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
    int (*retain)(void **, int) = (int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain");
    double begin = now_ms();
    if (init && retain && init(0) == 0 && retain(&context, 0) == 0) job->context_ms = now_ms() - begin;
}

// Which labels a fit returns. KM_ERROR_USAGE for another word.
static km_status labels_set(fit_job *job, const char *value, km_error *err) {
    static const char *const words[] = {"none", "best", "all"}; // in the order of km_labels_wanted
    for (int i = 0; i < 3; i++) {
        job->params.labels = (km_labels_wanted)i;
        if (!strcmp(value, words[i])) return KM_OK;
    }
    snprintf(err->text, sizeof err->text, "labels=%s: it must be none, best or all", value);
    return KM_ERROR_USAGE;
}

// One "key=value" of the command line. KM_ERROR_USAGE for a key that is not one.
static km_status option_set(fit_job *job, const char *key, const char *value, km_error *err) {
    if (!strcmp(key, "type"))
        job->spec.type = !strcmp(value, "f64") ? KM_FLOAT64 : KM_FLOAT32;
    else if (!strcmp(key, "init"))
        return init_read(job, value, err);
    else if (!strcmp(key, "iterations"))
        job->params.max_iter = atoll(value);
    else if (!strcmp(key, "tol"))
        job->params.tol = atof(value);
    else if (!strcmp(key, "restarts"))
        job->spec.n_init = atoll(value);
    else if (!strcmp(key, "threads"))
        job->params.threads = atoll(value);
    else if (!strcmp(key, "target"))
        return km_spec_set_target(&job->spec, value, err);
    else if (!strcmp(key, "design") || !strcmp(key, "algorithm"))
        return km_spec_fix(&job->spec, key, value, err);
    else if (!strcmp(key, "layout"))
        return km_spec_set_layout(&job->spec, value, err);
    else if (!strcmp(key, "refine")) {
        job->params.refine = KM_REFINE_AUTO;
        return km_spec_set_refine(&job->spec, value, err);
    } else if (!strcmp(key, "seed"))
        job->params.seed = strtoull(value, NULL, 10);
    else if (!strcmp(key, "cache"))
        job->params.cache_dir = value;
    else if (!strcmp(key, "labels"))
        return labels_set(job, value, err);
    else if (!strcmp(key, "open"))
        job->open_each = !strcmp(value, "each");
    else {
        snprintf(err->text, sizeof err->text, "no option \"%s\": see the head of bench/fit_worker.c", key);
        return KM_ERROR_USAGE;
    }
    return KM_OK;
}

// Opens the data: a .csr file is read, and stays in memory.
static km_status data_open(fit_job *job, km_error *err) {
    const char *end = strrchr(job->path, '.');
    if (!end || strcmp(end, ".csr") != 0) return km_data_open(&job->data, job->path, NULL, err);
    FILE *file = fopen(job->path, "rb");
    int64_t head[3] = {0}, bytes = 0;
    if (file && fread(head, sizeof *head, 3, file) == 3) bytes = (head[0] + 1) * 8 + head[2] * 8;
    job->csr = malloc((size_t)bytes + 1);
    int whole = file && job->csr && bytes > 0 && (int64_t)fread(job->csr, 1, (size_t)bytes, file) == bytes;
    if (file) fclose(file);
    if (!whole) {
        snprintf(err->text, sizeof err->text, "%s cannot be read", job->path);
        return KM_ERROR_IO;
    }
    const char *indices = job->csr + (head[0] + 1) * 8, *values = indices + head[2] * 4;
    return km_data_from_csr(&job->data, (const int64_t *)(const void *)job->csr, indices, 4, values,
                            KM_FLOAT32, head[0], head[1], NULL, err);
}

static km_status job_open(fit_job *job, int argc, char **argv, km_error *err) {
    km_spec_init(&job->spec);
    km_fit_params_init(&job->params);
    job->params.labels = KM_LABELS_ALL;
    job->params.refine = 0; // peers have restarts alone
    job->log = (km_log){on_log, job};
    job->params.log = &job->log;
    job->path = argv[1];
    km_status status = km_spec_set_clusters(&job->spec, argv[2], err);
    if (status == KM_OK) status = km_spec_set_target(&job->spec, "cpu", err);
    for (int a = 3; a < argc && status == KM_OK; a++) {
        char *equals = strchr(argv[a], '=');
        if (equals) *equals = 0;
        status = option_set(job, argv[a], equals ? equals + 1 : "", err);
    }
    if (status == KM_OK && job->spec.target.kind == KM_TARGET_CUDA) keep_context(job);
    return status == KM_OK ? data_open(job, err) : status;
}

static void job_close(fit_job *job) {
    km_data_destroy(&job->data);
    km_spec_clear(&job->spec);
    free(job->init);
    free(job->csr);
}

static double cpu_ms(void) {
    return (double)clock() * 1e3 / CLOCKS_PER_SEC;
}

static void report(const fit_job *job, const km_result *result, double wall_ms, double used_ms) {
    const km_timing *t = &result->timing;
    double build_ms = t->device_ms + t->build_ms, read_ms = t->send_ms + t->read_ms;
    int64_t iterations = 0;
    double inertia = 0;
    for (int64_t m = 0; m < result->models_count; m++) {
        iterations += result->models[m].n_iter;
        inertia += result->models[m].inertia;
    }
    printf("{\"ms\":%.4f,\"wall_ms\":%.4f,\"read_ms\":%.4f,\"build_ms\":%.4f,", wall_ms - build_ms, wall_ms,
           read_ms, build_ms);
    printf("\"cpu_ms\":%.4f,", used_ms);
    printf("\"open_ms\":%.4f,\"copy_ms\":%.4f,\"pin_ms\":%.4f,", job->open_ms, job->copy_ms, job->pin_ms);
    printf("\"seed_ms\":%.4f,\"sweep_ms\":%.4f,\"finish_ms\":%.4f,", t->seed_ms, t->sweep_ms, t->finish_ms);
    printf("\"iterations\":%lld,\"passes\":%lld,\"inertia\":%.9g,\"distances\":%lld,", (long long)iterations,
           (long long)result->passes, inertia, (long long)result->counters.distances);
    printf("\"design\":\"%s\",\"algorithm\":\"%s\",\"target\":\"%s\"}\n", km_design_name(result->plan.design),
           km_algorithm_name(result->counters.algorithm), result->target);
    fflush(stdout);
}

static km_status fit_once(fit_job *job, int reported, km_error *err) {
    km_result *result = NULL;
    double begin = now_ms(), used = cpu_ms();
    if (job->open_each) {
        km_data_destroy(&job->data);
        km_status opened = km_data_open(&job->data, job->path, NULL, err);
        if (opened != KM_OK) return opened;
        job->open_ms = now_ms() - begin;
        begin = now_ms();
    }
    km_status status = km_fit(&result, &job->spec, job->data, &job->params, err);
    if (status == KM_OK && reported) report(job, result, now_ms() - begin, cpu_ms() - used);
    km_result_destroy(&result);
    return status;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr,
                "usage: fit_worker DATA CLUSTERS [key=value ...]; see the head of bench/fit_worker.c\n");
        return 2;
    }
    fit_job job = {0};
    km_error err = {{0}};
    km_status status = job_open(&job, argc, argv, &err);
    if (status == KM_OK) status = fit_once(&job, 0, &err);
    if (status == KM_OK && job.context_ms > 0) printf("context_ms %.3f\n", job.context_ms);
    if (status == KM_OK) printf("ready\n");
    fflush(stdout);
    char line[64];
    while (status == KM_OK && fgets(line, sizeof line, stdin)) {
        char *equals = strchr(line, '=');
        line[strcspn(line, "\n")] = 0;
        if (equals) *equals = 0;
        if (equals) status = option_set(&job, line, equals + 1, &err);
        if (status == KM_OK) status = fit_once(&job, 1, &err);
    }
    if (status != KM_OK) fprintf(stderr, "fit_worker: %s: %s\n", km_status_name(status), err.text);
    job_close(&job);
    return status == KM_OK ? 0 : 1;
}

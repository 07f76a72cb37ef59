// SPDX-License-Identifier: MIT
// Fits of subsets of columns one after another, what kmgen explore is beside: the table in memory, kernels and threads
// warm. Asked by bench/explore.py.
//
//     explore_fits TABLE.npy K MAX_ITER random|k-means++ THREADS COLUMNS...     (each as "0,3,7", from 0)
//
// Prints the milliseconds of wall time and of the processor's own of all but the first fit, which warms the others.
#include <kmgen/fit.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// Names "0", "1", ... so that columns can be selected.
static km_status name_columns(km_data *data, km_error *err) {
    enum { D_MAX = 1000 };
    static char text[D_MAX][8];
    const char *names[D_MAX];
    for (int f = 0; f < D_MAX; f++) {
        snprintf(text[f], sizeof text[f], "%d", f);
        names[f] = text[f];
    }
    return km_data_set_names(data, names, err);
}

static km_status fit_columns(const km_data *data, char *columns, const km_spec *spec,
                             const km_fit_params *params, km_error *err) {
    const char *names[64];
    int64_t count = 0;
    km_data *view = NULL;
    km_result *result = NULL;
    char copy[256];
    snprintf(copy, sizeof copy, "%s", columns);
    for (char *word = strtok(copy, ","); word && count < 64; word = strtok(NULL, ",")) names[count++] = word;
    km_status status = km_data_select(&view, data, names, count, err);
    if (status == KM_OK) status = km_fit(&result, spec, view, params, err);
    km_result_destroy(&result);
    km_data_destroy(&view);
    return status;
}

int main(int argc, char **argv) {
    km_error err = {""};
    km_data *data = NULL;
    km_spec spec;
    km_fit_params params;
    if (argc < 7) {
        fputs("usage: explore_fits TABLE.npy K MAX_ITER random|k-means++ THREADS COLUMNS...\n", stderr);
        return 2;
    }
    km_spec_init(&spec);
    km_fit_params_init(&params);
    spec.n_init = 1;
    params.device = KM_HOST;
    params.scale = KM_SCALE_STANDARD;
    params.max_iter = strtoll(argv[3], NULL, 10);
    params.tol = 0;
    params.refine = 0;
    params.init = strcmp(argv[4], "random") == 0 ? KM_INIT_RANDOM : KM_INIT_PLUSPLUS;
    params.threads = strtoll(argv[5], NULL, 10);
    km_status status = km_spec_set_clusters(&spec, argv[2], &err);
    if (status == KM_OK) status = km_data_open(&data, argv[1], NULL, &err);
    if (status == KM_OK) status = name_columns(data, &err);
    double wall = 0, own = 0;
    for (int a = 6; a < argc && status == KM_OK; a++) {
        if (a == 7) wall = seconds(CLOCK_MONOTONIC), own = seconds(CLOCK_PROCESS_CPUTIME_ID);
        status = fit_columns(data, argv[a], &spec, &params, &err);
    }
    if (status == KM_OK)
        printf("%.3f %.3f\n", 1e3 * (seconds(CLOCK_MONOTONIC) - wall),
               1e3 * (seconds(CLOCK_PROCESS_CPUTIME_ID) - own));
    else
        fprintf(stderr, "explore_fits: %s\n", err.text);
    km_spec_clear(&spec);
    km_data_destroy(&data);
    return status == KM_OK ? 0 : 1;
}

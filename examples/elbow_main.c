// SPDX-License-Identifier: MIT
// Uses an emitted file without kmgen: clusters a table for the whole list of K at once, and prints how much each cluster
// more explains. The Makefile links it with elbow.cu, for a GPU, and with elbow.c, for a CPU.
// usage: elbow POINTS.f32 [FIRST.f32 [LABELS]]
// POINTS.f32: rows of four floats. FIRST.f32: first centroids, the rows of K = 2, then those of K = 3, ...; without them
// k-means++ draws some. LABELS: where the labels of each K go, as integers of 32 bits, the points of one K after another.
#include "elbow.h"
#include <stdio.h>
#include <stdlib.h>

static float *read_floats(const char *path, long *count) {
    FILE *file = fopen(path, "rb");
    float *values = NULL;
    if (file && !fseek(file, 0, SEEK_END)) {
        *count = ftell(file) / (long)sizeof *values;
        rewind(file);
        values = malloc((size_t)*count * sizeof *values + 1);
        if (values && fread(values, sizeof *values, (size_t)*count, file) != (size_t)*count) {
            free(values);
            values = NULL;
        }
    }
    if (file) fclose(file);
    if (!values) fprintf(stderr, "elbow: cannot read %s\n", path);
    return values;
}

// One K: prints a line, and appends its labels.
static int report(elbow_fit *fit, int index, double *before, int *labels, long n, FILE *out) {
    elbow_model model = {0};
    model.labels = out ? labels : NULL;
    if (elbow_result(fit, index, &model)) return 1;
    printf("%2d  %4lld  %.17g", model.k, model.n_iter, model.inertia);
    if (*before > 0) printf("  %5.1f%% less", 100 * (1 - model.inertia / *before));
    printf("\n");
    *before = model.inertia;
    return out && fwrite(labels, sizeof *labels, (size_t)n, out) != (size_t)n;
}

int main(int argc, char **argv) {
    if (argc < 2 || argc > 4) {
        fprintf(stderr, "usage: elbow POINTS.f32 [FIRST.f32 [LABELS]]\n");
        return 2;
    }
    long count = 0, first_count = 0, n;
    float *points = read_floats(argv[1], &count), *first = argc > 2 ? read_floats(argv[2], &first_count) : NULL;
    FILE *out = argc > 3 ? fopen(argv[3], "wb") : NULL;
    int *labels = malloc(sizeof *labels * (size_t)(count / ELBOW_FEATURES + 1)), failed = 0;
    elbow_fit *fit = NULL;
    double before = 0;
    if (!points || !labels || (argc > 2 && !first) || (argc > 3 && !out)) return 1;
    if (first && first_count != ELBOW_ROWS * ELBOW_FEATURES) {
        fprintf(stderr, "elbow: %s has %ld floats, %d are needed\n", argv[2], first_count, ELBOW_ROWS * ELBOW_FEATURES);
        return 1;
    }
    n = count / ELBOW_FEATURES;
    failed = elbow_create(&fit, points, NULL, n) || (first ? elbow_start(fit, first) : elbow_seed(fit, 0)) ||
             elbow_run(fit, 300, 1e-4, NULL);
    if (!failed) printf(" K  passes  inertia\n");
    for (int i = 0; i < ELBOW_KS && !failed; i++) failed = report(fit, i, &before, labels, n, out);
    if (failed) fprintf(stderr, "elbow: %s\n", elbow_error());
    elbow_destroy(&fit);
    if (out) fclose(out);
    free(points);
    free(first);
    free(labels);
    return failed != 0;
}

// SPDX-License-Identifier: MIT
// The main job from C: the best K of a table out of 2..10, and where the centroids are.
//
//     cc example.c $(pkg-config --cflags --libs kmgen) -o example && ./example iris.csv
#include <kmgen/fit.h>
#include <stdio.h>

int main(int argc, char **argv) {
    km_error err = {""};
    km_spec spec;
    km_data *data = NULL;
    km_result *result = NULL;
    if (argc != 2) {
        fprintf(stderr, "usage: example DATA\n");
        return 2;
    }
    km_spec_init(&spec);
    km_status status = km_spec_set_clusters(&spec, "2..10", &err);
    if (status == KM_OK) status = km_data_open(&data, argv[1], NULL, &err);
    if (status == KM_OK) status = km_fit(&result, &spec, data, NULL, &err);
    if (status != KM_OK) {
        fprintf(stderr, "example: %s\n", err.text);
    } else {
        const km_model *best = &result->models[result->selection.best];
        for (int64_t m = 0; m < result->models_count; m++)
            printf("K = %2d  inertia %10.4f\n", result->models[m].k, result->models[m].inertia);
        printf("best K: %d (%s)\n", best->k, result->selection.reason);
        for (int j = 0; j < best->k; j++) {
            printf("centroid %d:", j);
            for (int64_t f = 0; f < result->d; f++) printf(" %8.4f", best->centroids[j * result->d + f]);
            printf("  (%lld points)\n", (long long)best->counts[j]);
        }
    }
    km_result_destroy(&result);
    km_data_destroy(&data);
    km_spec_clear(&spec);
    return status == KM_OK ? 0 : 1;
}

// SPDX-License-Identifier: MIT
// A saved model in memory: what predict needs. docs/model.md describes the file.
#ifndef KM_RUNTIME_PREDICTOR_H
#define KM_RUNTIME_PREDICTOR_H
#include <kmgen/model.h>

struct km_predictor {
    int64_t d, k;
    km_type type;             // of the clustered space
    km_layout layout;         // DENSE or CSR: how points lay in the fit, which decides how labels are rounded
    km_scale scale;           // how centre and factor came to be
    double inertia;           // in the clustered space
    int clustered;            // 0: the fit said that the data look like no clusters
    double *centre, *factor;  // d each: clustered space = (x - centre) * factor
    double *centroids_fitted; // k x d, clustered space, values of `type`
    double *centroids;        // k x d, original units
    char **feature_names;     // d, or NULL
};

#endif

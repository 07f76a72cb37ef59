// SPDX-License-Identifier: MIT
// A saved model in memory: what predict needs. docs/model.md describes the file.
#ifndef KM_RUNTIME_PREDICTOR_H
#define KM_RUNTIME_PREDICTOR_H
#include <kmgen/model.h>

struct km_predictor {
    int64_t d, k;
    km_type type;            // of the clustered space
    km_layout layout;        // DENSE or CSR: how points lay in the fit, which decides how labels are rounded
    km_scale scale;          // how centre and factor came to be
    double inertia;          // in the clustered space
    int clustered;           // 0: the fit said that the data look like no clusters
    double *centre, *factor; // d each: clustered space = (x - centre) * factor
    int exponent;            // distances there are 2^exponent times those of the scale's units
    int has_exponent;        // 0: a file of before that was kept does not say it, and the scale does not tell
    double *centroids_fitted; // k x d, clustered space, values of `type`
    double *centroids;        // k x d, original units
    char **feature_names;     // d, or NULL
    km_feature *prepared;     // d, texts of its own, or NULL
};

// Labels of one table after another, by one device and one module. `params` and `err` must outlive it.
typedef struct km_predicting km_predicting;

km_status km_predicting_open(km_predicting **out, const km_predictor *predictor, const km_fit_params *params,
                             km_error *err);
void km_predicting_close(km_predicting **predicting);
// As km_predict. *selected: what was labelled in the place of the data, features by name or rows of length 1, which the
// caller destroys; NULL: the data as they are.
km_status km_predicting_labels(int32_t *out, km_data **selected, km_predicting *predicting,
                               const km_data *data);

#endif

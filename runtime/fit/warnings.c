// SPDX-License-Identifier: MIT
// What a fit warns of.
#include "../../base/log.h"
#include "../../base/wording.h"
#include "../../gen/design.h"
#include "../advice.h"
#include "../data_refuse.h"
#include "job.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Variances that differ more than this make the widest feature decide alone.
#define VARIANCE_RATIO_WARN 100.0

void km_fit_warn(km_fit_job *f, const char *sentence) {
    if (f->owner)
        km_result_warn(f->owner, f->params->log, "%s", sentence);
    else
        km_log_line(f->params->log, KM_LOG_WARNING, "%s", sentence);
}

void km_fit_warn_of_lines(km_fit_job *f, const char *lines) {
    for (const char *line = lines; *line; line += strcspn(line, "\n") + 1) {
        char sentence[1200];
        snprintf(sentence, sizeof sentence, "%.*s", (int)strcspn(line, "\n"), line);
        km_fit_warn(f, sentence);
    }
}

void km_fit_warn_of_features(km_fit_job *f) {
    char text[KM_COLUMN_TEXT_SIZE], other[KM_COLUMN_TEXT_SIZE];
    double low = INFINITY, high = 0;
    int64_t constant = 0, first = 0, low_at = 0, high_at = 0;
    for (int64_t i = f->engine->d - 1; i >= 0; i--) {
        double variance = f->stats.variance[i];
        if (!(f->stats.maximum[i] > f->stats.minimum[i])) {
            constant++;
            first = i;
            continue;
        }
        if (variance < low) low = variance, low_at = i;
        if (variance > high) high = variance, high_at = i;
    }
    if (constant)
        km_result_warn(f->owner, f->params->log,
                       "%lld of %lld features never change (the first is column %s); they "
                       "do not matter to the clusters",
                       (long long)constant, (long long)f->engine->d,
                       km_data_column_text(text, f->data, first));
    if (f->scale == KM_SCALE_NONE && high > VARIANCE_RATIO_WARN * low)
        km_result_warn(f->owner, f->params->log,
                       "the variances of columns %s and %s differ %.3g times, so the "
                       "wider ones decide alone; to weigh all features alike, scale them (%s)",
                       km_data_column_text(text, f->data, high_at),
                       km_data_column_text(other, f->data, low_at), high / low, KM_SAY(SCALE, "standard"));
}

// Whether labels come from scores in the kernels' type alone; other designs resolve ambiguous points in double.
static int labels_are_scores(const km_result *result) {
    if (result->plan.spec.target.kind == KM_TARGET_CUDA)
        return km_design_code_of(result->plan.design)->scores_decide;
    return result->counters.algorithm == KM_ALGORITHM_LLOYD;
}

// Inertia of clusters whose points lie so close together, for their distance from the centre, that float32 scores
// cannot tell them apart (docs/numerics.md has the contract of labels).
static double inertia_unresolved(const km_model *model, int64_t d) {
    double sum = 0;
    for (int64_t j = 0; j < model->k; j++) {
        const double *c = model->centroids_fitted + j * d;
        double square = 0;
        for (int64_t i = 0; i < d; i++) square += c[i] * c[i];
        if (model->counts[j] > 1 && model->sse[j] < 0x1p-20 * model->weights[j] * square)
            sum += model->sse[j];
    }
    return sum;
}

// Where most of a model's inertia is in such clusters, a larger K lowers it less than it could.
static void warn_of_resolution(km_fit_job *f, const km_model *models) {
    if (f->spec.type != KM_FLOAT32 || !labels_are_scores(&f->owner->result)) return;
    int has_scale = f->scale != KM_SCALE_NONE;
    for (int64_t q = f->spec.clusters_count - 1; q >= 0; q--) {
        if (!(inertia_unresolved(&models[q], f->engine->d) > .5 * models[q].inertia)) continue;
        km_result_warn(
            f->owner, f->params->log,
            "K=%d has clusters of points that lie too close together, for where they are, to be split "
            "in float32: use float64 (%s)%s%s%s",
            models[q].k, km_say(KM_SAY_FLOAT64), has_scale ? "" : ", or scale the features (",
            has_scale ? "" : KM_SAY(SCALE, "standard"), has_scale ? "" : ")");
        return;
    }
}

void km_fit_warn_of_models(km_fit_job *f, const km_model *models) {
    const km_result *result = &f->owner->result;
    int64_t ks = f->spec.clusters_count, unconverged = 0;
    const km_model *chosen = &models[result->selection.best];
    if (ks > 1 && !(chosen->inertia > 0))
        km_result_warn(f->owner, f->params->log,
                       "K=%d leaves no inertia: the data have only %d different point%s, and criteria say "
                       "nothing there",
                       chosen->k, chosen->effective_k, chosen->effective_k == 1 ? "" : "s");
    warn_of_resolution(f, models);
    for (int64_t q = 0; q < ks; q++) {
        // Where inertia is rounding alone, labels follow rounding, too, and more iterations give nothing.
        int is_rounding = models[q].scores[KM_CRITERION_wb] == 0;
        unconverged += !models[q].converged && models[q].n_iter >= f->params->max_iter && !is_rounding;
        if (models[q].effective_k < models[q].k)
            km_result_warn(
                f->owner, f->params->log,
                "K=%d has %d cluster%s with points: the data have no more different points to give",
                models[q].k, models[q].effective_k, models[q].effective_k == 1 ? "" : "s");
    }
    if (unconverged)
        km_result_warn(f->owner, f->params->log,
                       "%lld of %lld K stopped at %lld iterations before converging; allow more "
                       "iterations or a larger tol",
                       (long long)unconverged, (long long)ks, (long long)f->params->max_iter);
    km_advise(f->owner, f->data, f->scale, f->params->log);
}

// SPDX-License-Identifier: MIT
// Scores of labels as JSON (docs/score.schema.json is its contract) and as a table.
#include "../../base/error.h"
#include "../../base/text.h"
#include "../json.h"

#include <kmgen/score.h>

#include <math.h>

static int is_shown(const km_label_scores *scores, uint64_t criteria, int c) {
    return (int)((scores->criteria & criteria) >> c & 1);
}

static json_t *by_criterion(const km_label_scores *scores, const double *values, uint64_t criteria,
                            int defined) {
    json_t *object = json_object();
    int failed = 0;
    for (int c = 0; c < KM_CRITERION_COUNT; c++)
        if (is_shown(scores, criteria, c) && !(defined && isnan(values[c])))
            failed |=
                json_object_set_new(object, km_criterion_name((km_criterion)c), km_json_real(values[c]));
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

km_status km_label_scores_to_json(char **out, const km_label_scores *scores, uint64_t criteria,
                                  km_error *err) {
    json_t *root = json_object();
    int failed = 0;
    *out = NULL;
    failed |= json_object_set_new(root, "kmgen", json_string(km_version()));
    failed |= json_object_set_new(root, "n", json_integer(scores->n));
    failed |= json_object_set_new(root, "d", json_integer(scores->d));
    failed |= json_object_set_new(root, "rows", json_integer(scores->rows));
    failed |= json_object_set_new(root, "left_out", json_integer(scores->left_out));
    failed |= json_object_set_new(root, "dropped", json_integer(scores->dropped));
    failed |= json_object_set_new(root, "k", json_integer(scores->k));
    failed |= json_object_set_new(root, "scale", json_string(km_scale_name(scores->scale)));
    failed |= json_object_set_new(root, "inertia", km_json_real(scores->inertia));
    failed |= json_object_set_new(root, "labels", km_json_integers(scores->labels, scores->k));
    failed |= json_object_set_new(root, "sizes", km_json_integers(scores->counts, scores->k));
    failed |= json_object_set_new(root, "sse", km_json_reals(scores->sse, scores->k));
    failed |= json_object_set_new(root, "scores", by_criterion(scores, scores->scores, criteria, 0));
    failed |=
        json_object_set_new(root, "score_errors", by_criterion(scores, scores->score_errors, criteria, 1));
    km_status status = failed ? km_fail_memory(err, "the JSON of scores", 0) : km_json_text(out, root, err);
    json_decref(root);
    return status;
}

static void add_left_out(km_text *text, int64_t rows, const char *why) {
    if (rows) km_text_printf(text, "; %lld row%s %s", (long long)rows, rows == 1 ? "" : "s", why);
}

km_status km_label_scores_to_table(char **out, const km_label_scores *scores, uint64_t criteria,
                                   km_error *err) {
    km_text text = {0};
    km_text_printf(&text, "%lld point%s, %lld feature%s, %lld cluster%s", (long long)scores->n,
                   scores->n == 1 ? "" : "s", (long long)scores->d, scores->d == 1 ? "" : "s",
                   (long long)scores->k, scores->k == 1 ? "" : "s");
    add_left_out(&text, scores->dropped, "dropped");
    add_left_out(&text, scores->left_out - scores->dropped, "without a label");
    km_text_printf(&text, "\n\n  %-24s %.10g\n", "inertia", scores->inertia);
    for (int c = 0; c < KM_CRITERION_COUNT; c++) {
        if (!is_shown(scores, criteria, c)) continue;
        km_text_printf(&text, "  %-24s ", km_criterion_title((km_criterion)c));
        if (isnan(scores->scores[c]))
            km_text_puts(&text, "-");
        else
            km_text_printf(&text, "%.10g", scores->scores[c]);
        if (!isnan(scores->score_errors[c])) km_text_printf(&text, " +-%.2g", scores->score_errors[c]);
        km_text_puts(&text, "\n");
    }
    return km_text_take(out, &text, err);
}

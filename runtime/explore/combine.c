// SPDX-License-Identifier: MIT
// Combinations of codes. Counts of joint labels and classes say all, as they do of one code.
#include "combine.h"
#include "../../base/size.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Most numbers of a combination's tallies: one with more has few rows for each, and says little.
enum { NUMBERS_MAX = 1 << 20 };

static void tally_joint(double *tallies, const km_codes *codes, const km_combined *c, const km_tally *tally) {
    int64_t k = c->k, sums = km_tally_sums(tally);
    for (int64_t i = 0; i < codes->n; i++) {
        int64_t label = 0;
        if (tally->cells[i] == KM_CELL_NONE) continue;
        for (int64_t p = 0; p < c->size; p++)
            label = label * codes->k[c->places[p]] + codes->codes[c->places[p] * codes->n + i];
        double w = codes->weights ? codes->weights[i] : 1,
               *row = tallies + tally->cells[i] * sums * k + label;
        row[0] += w;
        if (!tally->values) continue;
        row[k] += w * tally->values[i];
        row[2 * k] += w * tally->values[i] * tally->values[i];
    }
}

// The figures of a combination; it is left out where it has too many labels.
static km_status try_one(km_explore_owner *out, km_combined c, const km_codes *codes, const km_tally *tally,
                         const km_outcome *outcome, km_error *err) {
    km_explore_result *result = &out->result;
    c.k = 1;
    for (int64_t p = 0; p < c.size; p++) c.k *= codes->k[c.places[p]];
    int64_t numbers = c.k * tally->cells_count * km_tally_sums(tally);
    if (numbers > NUMBERS_MAX) return KM_OK;
    double *tallies = calloc((size_t)numbers, sizeof *tallies);
    if (!tallies) return km_fail_memory(err, "a combination of codes", numbers * 8);
    tally_joint(tallies, codes, &c, tally);
    for (int r = 0; r < KM_RANK_COUNT; r++) c.figures[r] = NAN;
    km_outcome_figures(c.figures, tallies, outcome, c.k, result->holdout > 0);
    out->combined[result->combined_count++] = c;
    free(tallies);
    return KM_OK;
}

static km_rank rank_of(const km_explore_result *result) {
    if (km_rank_needs_of(result->rank) != KM_RANK_ANY) return result->rank;
    return result->classes ? KM_RANK_balanced_accuracy : KM_RANK_r2;
}

// Insertion, as there are few: the larger figure first, and of equal ones the fewer codes.
static void sort(km_combined *all, int64_t count, km_rank rank) {
    for (int64_t i = 1; i < count; i++)
        for (int64_t j = i; j > 0 && all[j].figures[rank] > all[j - 1].figures[rank]; j--) {
            km_combined other = all[j];
            all[j] = all[j - 1];
            all[j - 1] = other;
        }
}

km_status km_explore_combine(km_explore_owner *out, const km_codes *codes, const km_tally *tally,
                             const km_outcome *outcome, km_error *err) {
    km_explore_result *result = &out->result;
    int64_t m = codes->count, most = m * (m - 1) / 2 + m * (m - 1) * (m - 2) / 6;
    if (most < 1) return KM_OK;
    out->combined = km_result_alloc(out->owner, most, sizeof *out->combined, err);
    if (!out->combined) return KM_ERROR_MEMORY;
    result->combined = out->combined;
    for (int64_t a = 0; a < m; a++)
        for (int64_t b = a + 1; b < m; b++) {
            KM_TRY(try_one(out, (km_combined){.places = {a, b}, .size = 2}, codes, tally, outcome, err));
            for (int64_t c = b + 1; c < m; c++)
                KM_TRY(
                    try_one(out, (km_combined){.places = {a, b, c}, .size = 3}, codes, tally, outcome, err));
        }
    sort(out->combined, result->combined_count, rank_of(result));
    return KM_OK;
}

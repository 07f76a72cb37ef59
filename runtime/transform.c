// SPDX-License-Identifier: MIT
// From statistics of the data to the space that is clustered; the same on every backend.
#include "../base/error.h"
#include "../base/wording.h"
#include "backend.h"
#include "share.h"
#include "csr.h"
#include "data_refuse.h"
#include "data_source.h"
#include "quartiles.h"
#include "resident.h"
#include "unit.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Rows of the sample, evenly spread; fewer where rows are long.
enum { SAMPLE_ROWS_MAX = 128, SAMPLE_ROWS_MIN = 16, SAMPLE_VALUES_MAX = 1 << 20 };
// The square of a column's range, in the data's units, is at least this: squares below it lose digits in double.
#define SQUARE_MIN 0x1p-960

km_status km_data_stats_alloc(km_data_stats *stats, int64_t d, km_error *err) {
    double *arrays = calloc((size_t)(4 * d), sizeof *arrays);
    if (!arrays) return km_fail_memory(err, "the statistics of the data", 4 * d * (int64_t)sizeof *arrays);
    *stats = (km_data_stats){
        .mean = arrays, .variance = arrays + d, .minimum = arrays + 2 * d, .maximum = arrays + 3 * d};
    return KM_OK;
}

void km_data_stats_free(km_data_stats *stats) {
    free(stats->mean); // the one allocation that holds all four arrays
    free(stats->entries);
    *stats = (km_data_stats){0};
}

// The mean, rounded to a multiple of the largest power of two that is not above half the standard deviation. Values on
// a lattice (integers, quarters) mostly have a step that is a power of two and no larger: then x - centre is exact, on
// the same lattice, with no more digits than the data's range needs. The centre is within a quarter of a standard
// deviation of the mean, which loses the scores next to no digits.
static double centre_of(double mean, double variance, double minimum, double maximum) {
    if (minimum == maximum) return minimum; // a constant feature becomes exactly zero
    double deviation = sqrt(variance);
    if (!(deviation > 0) || !isfinite(deviation)) return mean;
    int exponent;
    frexp(deviation, &exponent); // 2^(exponent-1) <= deviation
    double step = ldexp(1.0, exponent - 2);
    double centre = rint(mean / step) * step;
    return isfinite(centre) ? centre : mean;
}

// `range`: between the quartiles, of the robust scale.
static double factor_of(double variance, double minimum, double maximum, double range, km_scale scale) {
    double spread = 1.0;
    if (scale == KM_SCALE_STANDARD) spread = sqrt(variance);
    if (scale == KM_SCALE_MINMAX) spread = maximum - minimum;
    if (scale == KM_SCALE_ROBUST) spread = range;
    double factor = 1.0 / spread;
    return minimum < maximum && spread > 0 && isfinite(factor) ? factor : 1.0;
}

// The largest |x - centre| of a feature.
static double farthest_of(const km_data_stats *stats, int64_t f, double centre) {
    return fmax(fabs(stats->minimum[f] - centre), fabs(stats->maximum[f] - centre));
}

// A sample of rows -------------------------------------------------------------------------------------------

typedef struct sample {
    double *rows;         // count x d, as they came; of sparse points NULL ...
    km_csr_rows nonzeros; // ... and their nonzeros
    double *column;       // count
    int64_t count, d;
    double rounding; // values no farther apart, as a share of the larger, may be one that was rounded; 0
} sample;

static void sample_free(sample *s) {
    free(s->rows);
    free(s->column);
    km_csr_rows_free(&s->nonzeros);
}

// The sample's value of feature f in row i.
static double sample_value(const sample *s, int64_t i, int64_t f) {
    if (s->rows) return s->rows[i * s->d + f];
    const km_csr_rows *rows = &s->nonzeros;
    int64_t low = rows->starts[i], high = rows->starts[i + 1];
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (rows->indices[mid] < f)
            low = mid + 1;
        else
            high = mid;
    }
    return low < rows->starts[i + 1] && rows->indices[low] == f ? rows->values[low] : 0;
}

static km_status sample_read_csr(sample *s, const km_data *data, km_error *err) {
    int64_t n = km_data_points_all(data), entries = 0;
    km_csr_rows one = {0}, *all = &s->nonzeros;
    km_status status = KM_OK;
    all->starts = malloc((size_t)(s->count + 1) * sizeof *all->starts);
    if (!all->starts) return km_fail_memory(err, "a sample of the points", s->count * 8);
    all->starts[0] = 0;
    for (int64_t i = 0; i < s->count; i++) {
        int64_t point = (int64_t)((double)i * (double)n / (double)s->count);
        KM_TRY_GOTO(km_data_read_csr(&one, data, point, 1, err));
        int64_t more = one.starts[1];
        uint32_t *indices = realloc(all->indices, (size_t)(entries + more + 1) * sizeof *indices);
        if (indices) all->indices = indices;
        double *values = realloc(all->values, (size_t)(entries + more + 1) * sizeof *values);
        if (values) all->values = values;
        if (!indices || !values) {
            status = km_fail_memory(err, "a sample of the points", (entries + more) * 12);
            goto done;
        }
        if (more) memcpy(indices + entries, one.indices, (size_t)more * sizeof *indices);
        if (more) memcpy(values + entries, one.values, (size_t)more * sizeof *values);
        all->starts[i + 1] = entries += more;
    }
done:
    km_csr_rows_free(&one);
    return status;
}

static km_status sample_take(sample *s, const km_data *data, int is_csr, km_error *err) {
    int64_t n = km_data_points_all(data), d = km_data_features(data), count = SAMPLE_VALUES_MAX / d;
    if (count > SAMPLE_ROWS_MAX || is_csr) count = SAMPLE_ROWS_MAX;
    if (count < SAMPLE_ROWS_MIN) count = SAMPLE_ROWS_MIN;
    if (count > n) count = n;
    *s = (sample){.rows = is_csr ? NULL : malloc((size_t)(count * d) * sizeof(double)),
                  .column = malloc((size_t)count * sizeof(double)),
                  .count = count,
                  .d = d,
                  .rounding = km_data_unit_rounding(data)};
    if ((!s->rows && !is_csr) || !s->column)
        return km_fail_memory(err, "a sample of the points", count * d * 8);
    if (is_csr) return sample_read_csr(s, data, err);
    int64_t points[SAMPLE_ROWS_MAX];
    for (int64_t i = 0; i < count; i++) points[i] = (int64_t)((double)i * (double)n / (double)count);
    return km_data_read_points(s->rows, data, points, count, err);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Feature f of the sample, ascending, in s->column.
static void sample_column(sample *s, int64_t f) {
    for (int64_t i = 0; i < s->count; i++) s->column[i] = sample_value(s, i, f);
    qsort(s->column, (size_t)s->count, sizeof *s->column, by_value);
}

// Whether value i of the column differs from the one before it by more than rounding.
static int is_step(const sample *s, int64_t i) {
    double low = s->column[i - 1], high = s->column[i];
    return high - low > s->rounding * fmax(fabs(low), fabs(high));
}

// Whether the type still tells most of the column's values apart once they are centred: of the steps between
// neighbouring different values, the one to the farthest value aside, more than half are left. A step is left when its
// square is a normal number of the type, the farthest value being scaled to 1.
static int tells_apart(const sample *s, double centre, double farthest, km_type type) {
    double resolution = type == KM_FLOAT32 ? 0x1p-63 : 0x1p-511;
    double low = s->column[0], high = s->column[s->count - 1];
    int lowest_is_farthest = fabs(low - centre) > fabs(high - centre);
    int64_t steps = 0, left = 0;
    int exponent;
    double last = 0;
    frexp(farthest, &exponent);
    for (int64_t i = 0; i < s->count; i++) {
        double value = ldexp(s->column[i] - centre, -exponent);
        if (type == KM_FLOAT32) value = (double)(float)value;
        if (s->column[i] == (lowest_is_farthest ? low : high)) continue;
        if (i > 0 && is_step(s, i) && !(lowest_is_farthest && s->column[i - 1] == low)) {
            steps++;
            if (value - last < resolution) continue;
            left++;
        }
        last = value;
    }
    return steps == 0 || 2 * left > steps;
}

// Whether few values far out have drawn the centre so far from the others that these lose digits: it lies many times
// the distance of the quartiles from the median.
static int is_drawn_away(const sample *s, double centre) {
    const double *x = s->column;
    double spread = x[3 * s->count / 4] - x[s->count / 4];
    return spread > 0 && fabs(centre - x[s->count / 2]) > 256 * spread;
}

// The centre of feature f: by its statistics, or the sample's median where few values far out decide those. False: with
// neither does the type tell the other values apart.
static int choose_centre(double *centre, const sample *s, const km_data_stats *stats, int64_t f,
                         km_type type) {
    double low = stats->minimum[f], high = stats->maximum[f], median = s->column[s->count / 2];
    *centre = centre_of(stats->mean[f], stats->variance[f], low, high);
    if (low == high) return 1;
    if (!is_drawn_away(s, *centre) && tells_apart(s, *centre, farthest_of(stats, f, *centre), type)) return 1;
    *centre = median;
    return tells_apart(s, median, farthest_of(stats, f, median), type);
}

// |x|^2 of row i of the sample in the clustered space. Sparse points are centred where every point has an entry only.
static double sample_square(const sample *s, int64_t i, const km_load_params *params) {
    const km_csr_rows *rows = &s->nonzeros;
    int64_t first = s->rows ? 0 : rows->starts[i], end = s->rows ? s->d : rows->starts[i + 1];
    double square = 0;
    for (int64_t e = first; e < end; e++) {
        int64_t f = s->rows ? e : rows->indices[e];
        double x = s->rows ? s->rows[i * s->d + f] : rows->values[e];
        x = (x - params->centre[f]) * params->factor[f];
        square += x * x;
    }
    return square;
}

// |x|^2 of a typical point in the clustered space: the sample's median, or the next above it that is not zero. Few
// points far out do not move it.
static double typical_square(sample *s, const km_load_params *params) {
    for (int64_t i = 0; i < s->count; i++) s->column[i] = sample_square(s, i, params);
    qsort(s->column, (size_t)s->count, sizeof *s->column, by_value);
    int64_t at = s->count / 2;
    while (at + 1 < s->count && !(s->column[at] > 0)) at++;
    return s->column[at];
}

// What cannot be clustered -----------------------------------------------------------------------------------

// Names the value of feature f that is farthest from `from`.
static km_status refuse_farthest(const km_data *data, const km_data_stats *stats, int64_t f, double from,
                                 const char *why, km_error *err) {
    double low = stats->minimum[f], high = stats->maximum[f];
    return km_data_refuse_extreme(data, f, fabs(low - from) > fabs(high - from) ? low : high, why, err);
}

// Refuses values whose squares a double cannot hold: no reported number could be right.
static km_status check_squares(const km_load_params *params, const km_data_stats *stats, const km_data *data,
                               km_error *err) {
    double total = 0, largest = 0;
    int64_t d = km_data_features(data), widest = 0;
    int bad = 0, all_too_small = 1;
    if (!isfinite(stats->total_weight))
        return km_fail(err, KM_ERROR_DATA,
                       "%s: the weights add up to more than a double holds; divide them by their largest",
                       km_data_name(data));
    for (int64_t f = 0; f < d && bad <= 0; f++) {
        double farthest = farthest_of(stats, f, 0), variance = stats->variance[f];
        double spread = stats->maximum[f] - stats->minimum[f];
        if (!(spread > 0)) continue;
        if (farthest > largest) largest = farthest, widest = f;
        all_too_small &= spread * spread < SQUARE_MIN;
        if (params->scale == KM_SCALE_NONE)
            total += variance * stats->total_weight;
        else if (spread * spread < SQUARE_MIN)
            bad = -1, widest = f;
        if (!isfinite(stats->mean[f]) || !isfinite(variance) || !isfinite(total)) bad = 1, widest = f;
    }
    if (!bad && params->scale == KM_SCALE_NONE && largest > 0 && all_too_small) bad = -1;
    if (!bad) return KM_OK;
    return refuse_farthest(data, stats, widest, 0,
                           bad > 0
                               ? "too large: sums of its squares do not fit a double; divide this column "
                                 "by a power of ten"
                               : "too small: the squares of such values do not fit a double; multiply this "
                                 "column by a power of ten",
                           err);
}

// Refuses a column that the type cannot tell apart, and says what would help: float64 where that can, else another
// table.
static km_status refuse_far(const sample *s, const km_data_stats *stats, const km_data *data, int64_t f,
                            km_type type, km_error *err) {
    double centre, median = s->column[s->count / 2];
    char why[320];
    if (type == KM_FLOAT32 && choose_centre(&centre, s, stats, f, KM_FLOAT64))
        snprintf(
            why, sizeof why,
            "so far from the rest of its column that float32 does not tell the others apart; use float64 "
            "(%s), or leave such rows out",
            km_say(KM_SAY_FLOAT64));
    else
        snprintf(
            why, sizeof why,
            "so far from the rest of its column that nothing tells the others apart; leave such rows out%s",
            km_say(KM_SAY_AS_MISSING));
    return refuse_farthest(data, stats, f, median, why, err);
}

// A model's transform is given: new points may lie anywhere.
static km_status check_given(const km_load_params *params, const km_data_stats *stats, const km_data *data,
                             km_type type, km_error *err) {
    double largest = type == KM_FLOAT32 ? (double)FLT_MAX : DBL_MAX;
    for (int64_t f = 0; f < km_data_features(data); f++) {
        if (farthest_of(stats, f, params->centre[f]) * fabs(params->factor[f]) <= largest) continue;
        return refuse_farthest(data, stats, f, params->centre[f],
                               "too far from the points that the model was fitted on for its type", err);
    }
    return KM_OK;
}

// ------------------------------------------------------------------------------------------------------------

// Powers of two by which the largest coordinate comes to lie between 1/2 and 1: exact, so that labels do not depend on
// the data's unit, and squares neither overflow nor vanish.
static void scale_by_power(km_load_params *params, const km_data_stats *stats, int64_t d) {
    double largest = 0;
    for (int64_t f = 0; f < d; f++)
        largest = fmax(largest, farthest_of(stats, f, params->centre[f]) * params->factor[f]);
    params->exponent = 0;
    if (!(largest > 0)) return;
    int exponent;
    frexp(largest, &exponent);
    params->exponent = -exponent;
    for (int64_t f = 0; f < d; f++) params->factor[f] = ldexp(params->factor[f], -exponent);
}

// Centre and factor of feature f, whose place for a factor holds the range between its quartiles where the scale is
// robust. A feature in which a sparse table has a value that it does not store keeps its zeros: the centre is 0, and
// what a dense table would lose beside values far out is not looked for.
static km_status choose_feature(km_load_params *params, sample *s, const km_data_stats *stats,
                                const km_data *data, int64_t f, km_type type, km_error *err) {
    params->factor[f] =
        factor_of(stats->variance[f], stats->minimum[f], stats->maximum[f], params->factor[f], params->scale);
    params->centre[f] = 0;
    if (stats->entries && stats->entries[f] < km_data_points_all(data)) return KM_OK;
    sample_column(s, f);
    return choose_centre(&params->centre[f], s, stats, f, type) ? KM_OK
                                                                : refuse_far(s, stats, data, f, type, err);
}

// Whether the type loses most values of a sparse sample beside the largest value: their squares are no normal numbers.
// *feature is that of one which is lost.
static int loses_most(const sample *s, const km_load_params *params, km_type type, int64_t *feature) {
    double resolution = type == KM_FLOAT32 ? 0x1p-63 : 0x1p-511;
    int64_t lost = 0, all = 0;
    for (int64_t e = 0; s->nonzeros.starts && e < s->nonzeros.starts[s->count]; e++) {
        int64_t f = s->nonzeros.indices[e];
        double x = fabs((s->nonzeros.values[e] - params->centre[f]) * params->factor[f]);
        all += x > 0;
        if (!(x > 0 && x < resolution)) continue;
        lost++;
        *feature = f;
    }
    return 2 * lost > all;
}

// The feature whose largest value is the largest of all, scaled.
static int64_t widest_feature(const km_load_params *params, const km_data_stats *stats, int64_t d) {
    int64_t widest = 0;
    double most = 0;
    for (int64_t f = 0; f < d; f++) {
        double farthest = farthest_of(stats, f, params->centre[f]) * params->factor[f];
        if (farthest > most) most = farthest, widest = f;
    }
    return widest;
}

// Refuses the value beside which most others are lost.
static km_status refuse_large(const km_load_params *params, const km_data_stats *stats, const km_data *data,
                              km_type type, km_error *err) {
    int64_t f = widest_feature(params, stats, km_data_features(data));
    char why[160] = "so large that most other values are lost beside it; leave such rows out";
    if (type == KM_FLOAT32)
        snprintf(why, sizeof why,
                 "so large that float32 loses most other values beside it; use float64 (%s), or leave such "
                 "rows out",
                 km_say(KM_SAY_FLOAT64));
    return refuse_farthest(data, stats, f, 0, why, err);
}

km_status km_transform_choose(km_load_params *params, km_data_stats *stats, const km_data *data, km_type type,
                              km_error *err) {
    km_status status;
    int64_t d = km_data_features(data), lost = 0;
    sample s = {0};
    KM_TRY(params->transform_given ? check_given(params, stats, data, type, err)
                                   : check_squares(params, stats, data, err));
    KM_TRY_GOTO(sample_take(&s, data, stats->entries != NULL, err));
    if (params->scale == KM_SCALE_ROBUST && !params->transform_given)
        KM_TRY_GOTO(km_quartile_ranges(params->factor, data, NULL, km_data_points_all(data), err));
    for (int64_t f = 0; f < d && !params->transform_given; f++)
        KM_TRY_GOTO(choose_feature(params, &s, stats, data, f, type, err));
    if (!params->transform_given) scale_by_power(params, stats, d);
    if (!params->transform_given && loses_most(&s, params, type, &lost))
        KM_TRY_GOTO(refuse_large(params, stats, data, type, err));
    stats->typical_square = typical_square(&s, params);
    status = KM_OK;
done:
    sample_free(&s);
    return status;
}

// SPDX-License-Identifier: MIT
#include "valley.h"
#include "../../base/error.h"
#include "../../base/order.h"
#include "../../base/size.h"
#include "../../gen/memory.h"
#include "../../templates/both.h"
#include "../asking.h"
#include "../resident.h"
#include "../sample.h"
#include "../share.h"
#include "../threads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LATTICE_POINTS = 1024, // of each feature, to find its lattice
    POINTS_ASKED = 256     // whole tiles: are labelled between two questions whether to stop
};
// Fewer are done before other threads have begun.
#define PRODUCTS_SHARED ((int64_t)1 << 21)
#define VALUES_SHARED ((int64_t)1 << 16)
// Of the draws: no restart has these numbers.
#define STREAM_ROWS UINT64_C(0x76616c6c65790000)
#define STREAM_NOISE UINT64_C(0x76616c6c65790001)
// Half the width of a window, and the share of own points in the cylinder.
#define WINDOW (1. / 6)
#define CYLINDER .75

// The sample ------------------------------------------------------------------------------------------------

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

// The step of a feature's lattice: a quarter of the gaps between its different values are no wider. Next to nothing
// where the values lie on none. `column` is overwritten.
static double lattice_step(double *column, int64_t count) {
    int64_t gaps = 0;
    qsort(column, (size_t)count, sizeof *column, km_by_value);
    for (int64_t i = 1; i < count; i++)
        if (column[i] > column[i - 1]) column[gaps++] = column[i] - column[i - 1];
    if (gaps == 0) return 0;
    qsort(column, (size_t)gaps, sizeof *column, km_by_value);
    return column[(gaps - 1) / 4];
}

// Noise of a step of its lattice for each feature; the features are shared out among the threads.
static km_status add_noise(km_valley_sample *sample, uint64_t seed, int64_t threads, km_error *err) {
    int64_t count = sample->count, d = sample->d, few = least(count, LATTICE_POINTS);
    int team = count * d < VALUES_SHARED ? 1 : (int)least(threads, d);
    double *columns = malloc((size_t)(team * few) * sizeof *columns);
    if (!columns) return km_fail_memory(err, "columns of the sample", team * few * (int64_t)sizeof *columns);
#pragma omp parallel for schedule(static) num_threads(team) if (team > 1)
    for (int64_t f = 0; f < d; f++) {
        const int64_t to = f * KM_SAMPLE_TILE;
        double *column = columns + omp_get_thread_num() * few;
        for (int64_t i = 0; i < few; i++) column[i] = sample->points[km_tile_at(i * count / few, d) + to];
        double step = lattice_step(column, few);
        for (int64_t i = 0; i < count; i++)
            sample->points[km_tile_at(i, d) + to] +=
                step * (km_draw(seed, STREAM_NOISE, (uint64_t)i, (uint64_t)f) - .5);
    }
    free(columns);
    return KM_OK;
}

// Rows, of which memory holds whole tiles, become tiles in place.
static km_status rows_to_tiles(double *points, int64_t count, int64_t d, km_error *err) {
    double *rows = calloc((size_t)(KM_SAMPLE_TILE * d), sizeof *rows);
    if (!rows) return km_fail_memory(err, "a tile of the sample", KM_SAMPLE_TILE * d * 8);
    for (int64_t first = 0; first < count; first += KM_SAMPLE_TILE) {
        double *tile = points + first * d;
        memcpy(rows, tile, (size_t)(least(KM_SAMPLE_TILE, count - first) * d) * sizeof *rows);
        for (int64_t f = 0; f < d; f++)
            for (int64_t i = 0; i < KM_SAMPLE_TILE; i++) tile[f * KM_SAMPLE_TILE + i] = rows[i * d + f];
    }
    free(rows);
    return KM_OK;
}

// One point of each of `count` equal parts of the rows.
static km_status draw_points(km_valley_sample *sample, const km_data *data, const double *centre,
                             const double *factor, uint64_t seed, int64_t threads, km_error *err) {
    int64_t n = km_data_points_all(data), d = sample->d;
    const double *weights = km_data_weights(data);
    int64_t *rows = malloc((size_t)sample->count * sizeof *rows);
    if (!rows) return km_fail_memory(err, "the sample of points", sample->count * (int64_t)sizeof *rows);
    for (int64_t i = 0; i < sample->count; i++)
        rows[i] = km_draw_of_part(seed, STREAM_ROWS, i, sample->count, n);
    km_status status = km_data_read_points(sample->points, data, rows, sample->count, err);
    for (int64_t i = 0; i < sample->count; i++) {
        double *x = sample->points + i * d;
        for (int64_t f = 0; f < d; f++) x[f] = (x[f] - centre[f]) * factor[f];
    }
    if (status == KM_OK && weights)
        status = km_data_weights_at(sample->weights, data, rows, sample->count, err);
    free(rows);
    KM_TRY(status);
    KM_TRY(rows_to_tiles(sample->points, sample->count, d, err));
    return add_noise(sample, seed, threads, err);
}

km_status km_valley_sample_make(km_valley_sample *out, const km_data *data, const double *centre,
                                const double *factor, const int32_t *clusters, int64_t clusters_count,
                                uint64_t seed, int64_t threads, km_error *err) {
    int64_t d = km_data_features(data);
    *out = (km_valley_sample){.d = d};
    out->count = km_valley_points(km_data_points_all(data), d, clusters, clusters_count);
    if (!out->count) return KM_OK;
    out->points = malloc((size_t)(km_round_up(out->count, KM_SAMPLE_TILE) * d) * sizeof(double));
    if (km_data_weights(data)) out->weights = malloc((size_t)out->count * sizeof(double));
    km_status status = KM_OK;
    if (!out->points || (km_data_weights(data) && !out->weights))
        status = km_fail_memory(err, "the sample of points", out->count * d * (int64_t)sizeof(double));
    else
        status = draw_points(out, data, centre, factor, seed, threads, err);
    if (status != KM_OK) km_valley_sample_free(out);
    return status;
}

void km_valley_sample_free(km_valley_sample *sample) {
    free(sample->points);
    free(sample->weights);
    *sample = (km_valley_sample){0};
}

// Pairs of clusters -----------------------------------------------------------------------------------------

// What all pairs of a model share.
typedef struct model {
    const km_valley_sample *sample;
    const double *centroids, *weights; // k x d, k
    int64_t k;
    int32_t *labels; // of the sample
    int32_t *parent; // k: along the tree; -1: its root, empty clusters
} model;

static double square_distance(const double *x, const double *y, int64_t d) {
    double sum = 0;
    for (int64_t f = 0; f < d; f++) sum += (x[f] - y[f]) * (x[f] - y[f]);
    return sum;
}

// The nearest centroid of a cluster with points, of each point of a tile.
static void label_tile(const model *m, int64_t first) {
    int64_t d = m->sample->d;
    int32_t label[KM_SAMPLE_TILE] = {0};
    double nearest[KM_SAMPLE_TILE], square[KM_SAMPLE_TILE];
    for (int i = 0; i < KM_SAMPLE_TILE; i++) nearest[i] = INFINITY;
    for (int32_t j = 0; j < m->k; j++) {
        if (!(m->weights[j] > 0)) continue;
        km_tile_squares(square, m->sample->points + first * d, m->centroids + j * d, d);
        for (int i = 0; i < KM_SAMPLE_TILE; i++) {
            label[i] = square[i] < nearest[i] ? j : label[i];
            nearest[i] = square[i] < nearest[i] ? square[i] : nearest[i];
        }
    }
    memcpy(m->labels + first, label, sizeof label);
}

// The shortest tree that joins all centroids of clusters with points (Prim): its edges are the neighbours, each
// cluster's nearest among them. `squares`: k, of the distance from the tree; NaN: in it, or empty.
static void join_neighbours(const model *m, double *squares) {
    int64_t d = m->sample->d, last = -1;
    for (int64_t j = 0; j < m->k; j++) {
        m->parent[j] = -1;
        squares[j] = m->weights[j] > 0 ? INFINITY : NAN;
        if (last < 0 && m->weights[j] > 0) last = j;
    }
    while (last >= 0) {
        int64_t next = -1;
        squares[last] = NAN;
        for (int64_t j = 0; j < m->k; j++) {
            if (isnan(squares[j])) continue;
            double square = square_distance(m->centroids + j * d, m->centroids + last * d, d);
            if (square < squares[j]) squares[j] = square, m->parent[j] = (int32_t)last;
            if (next < 0 || squares[j] < squares[next]) next = j;
        }
        last = next;
    }
}

// Where a point lies from centroid a to centroid b: `along` the line, 0 at a and 1 at b, and its squared distance from
// the line; of centroids without this point.
typedef struct place {
    double along, square;
} place;

// `line`: |b - a|^2; `inner`: (x - a) . (b - a); `away`: |x - a|^2.
static place place_of(const model *m, int64_t i, int64_t a, int64_t b, double line, double inner,
                      double away) {
    // Without the point, its own centroid lies at c - r (x - c), r = w / (W - w).
    int64_t own = m->labels[i];
    double r = 0;
    if (own == a || own == b) {
        double w = m->sample->weights ? m->sample->weights[i] : 1, rest = m->weights[own] - w;
        r = rest > 0 ? w / rest : 0;
    }
    if (own == a) {
        double y_u = inner + r * away; // (x - a) . (b - a'), a' the centroid without x
        line += 2 * r * inner + r * r * away;
        inner = (1 + r) * y_u;
        away *= (1 + r) * (1 + r);
    } else if (own == b) {
        double from_b = away - 2 * inner + line; // |x - b|^2
        double y_u = inner - r * (away - inner); // (x - a) . (b' - a)
        line += -2 * r * (inner - line) + r * r * from_b;
        inner = y_u;
    }
    double along = line > 0 ? inner / line : 0;
    return (place){along, fmax(away - along * along * line, 0)};
}

// The value that would stand at `at` if these were sorted (Hoare's selection).
static double select_value(double *values, int64_t count, int64_t at) {
    int64_t low = 0, high = count - 1;
    while (low < high) {
        double pivot = values[low + (high - low) / 2];
        int64_t i = low - 1, j = high + 1;
        for (;;) {
            do i++;
            while (values[i] < pivot);
            do j--;
            while (values[j] > pivot);
            if (i >= j) break;
            double swap = values[i];
            values[i] = values[j];
            values[j] = swap;
        }
        if (at <= j)
            high = j;
        else
            low = j + 1;
    }
    return values[at];
}

// The squared radius of the cylinder: of the own points of both clusters, in `squares`.
static double cylinder_of(const model *m, double *squares, const place *places, int64_t a, int64_t b) {
    int64_t own = 0;
    for (int64_t i = 0; i < m->sample->count; i++)
        if (m->labels[i] == a || m->labels[i] == b) squares[own++] = places[i].square;
    if (own == 0) return -1;
    return select_value(squares, own, (int64_t)(CYLINDER * (double)(own - 1)));
}

// Sums of weights and of their squares in the windows around a, the midpoint and b.
static double valley_of(const model *m, const place *places, double radius2) {
    double weight[3] = {0}, square[3] = {0};
    for (int64_t i = 0; i < m->sample->count; i++) {
        if (!(places[i].along >= -WINDOW && places[i].along <= 1 + WINDOW)) continue; // most are elsewhere
        if (!(places[i].square <= radius2)) continue;
        for (int window = 0; window < 3; window++) {
            if (!(fabs(places[i].along - .5 * window) <= WINDOW)) continue;
            double w = m->sample->weights ? m->sample->weights[i] : 1;
            weight[window] += w;
            square[window] += w * w;
        }
    }
    int lower = weight[2] < weight[0] ? 2 : 0;
    double variance = square[lower] + square[1];
    return variance > 0 ? (weight[lower] - weight[1]) / sqrt(variance) : 0;
}

static double pair_valley(const model *m, place *places, double *squares, int64_t a) {
    int64_t b = m->parent[a], d = m->sample->d;
    if (b < 0 || !(square_distance(m->centroids + a * d, m->centroids + b * d, d) > 0)) return NAN;
    const double *ca = m->centroids + a * d;
    double line = 0, *u = squares, inner[KM_SAMPLE_TILE], away[KM_SAMPLE_TILE];
    for (int64_t f = 0; f < d; f++) {
        u[f] = m->centroids[b * d + f] - ca[f];
        line += u[f] * u[f];
    }
    for (int64_t first = 0; first < m->sample->count; first += KM_SAMPLE_TILE) {
        const double *tile = m->sample->points + first * d;
        km_tile_products(inner, tile, ca, u, d);
        km_tile_squares(away, tile, ca, d);
        for (int64_t i = first; i < least(first + KM_SAMPLE_TILE, m->sample->count); i++)
            places[i] = place_of(m, i, a, b, line, inner[i - first], away[i - first]);
    }
    return valley_of(m, places, cylinder_of(m, squares, places, a, b));
}

static void label_all(const model *m, int threads) {
    (void)threads;
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t from = 0; from < m->sample->count; from += POINTS_ASKED) {
        if (km_asking_stops(m->sample->asking)) continue;
        int64_t to = least(from + POINTS_ASKED, m->sample->count);
        for (int64_t first = from; first < to; first += KM_SAMPLE_TILE) label_tile(m, first);
    }
}

int64_t km_valley_threads(const km_valley_sample *sample, int64_t clusters, int64_t threads) {
    return sample->count * sample->d * clusters < PRODUCTS_SHARED ? 1 : threads;
}

km_status km_valleys(double *valleys, const km_valley_sample *sample, const double *centroids,
                     const double *weights, int64_t k, int64_t threads, km_error *err) {
    model m = {sample, centroids, weights, k, NULL, NULL};
    int64_t count = sample->count, labels_count = km_round_up(count, KM_SAMPLE_TILE);
    // Of a thread: where the points lie; their squared distances, before them b - a.
    int64_t each = count * (int64_t)sizeof(place) + most(count, sample->d) * (int64_t)sizeof(double);
    int team = (int)most(1, least(km_valley_threads(sample, k, threads), k));
    for (int64_t j = 0; j < k; j++) valleys[j] = NAN;
    if (count == 0) return KM_OK;
    m.labels = malloc((size_t)(labels_count + k) * sizeof *m.labels);
    m.parent = m.labels ? m.labels + labels_count : NULL;
    int64_t bytes = most(team * each, k * (int64_t)sizeof(double));
    uint8_t *work = malloc((size_t)bytes);
    if (!m.labels || !work) {
        free(m.labels);
        free(work);
        return km_fail_memory(err, "the valleys between clusters", bytes);
    }
    label_all(&m, team);
    km_status status = km_asking_status(sample->asking, err);
    if (status != KM_OK) goto done;
    join_neighbours(&m, (double *)work);
#pragma omp parallel for schedule(dynamic, 1) num_threads(team) if (team > 1)
    for (int64_t a = 0; a < k; a++) {
        if (km_asking_stops(sample->asking)) continue;
        place *places = (place *)(work + omp_get_thread_num() * each);
        valleys[a] = pair_valley(&m, places, (double *)(places + count), a);
    }
    status = km_asking_status(sample->asking, err);
done:
    free(m.labels);
    free(work);
    return status;
}

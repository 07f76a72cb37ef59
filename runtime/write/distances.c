// SPDX-License-Identifier: MIT
#include "distances.h"
#include "../../base/error.h"
#include "../../base/size.h"
#include "../csr.h"
#include "../threads.h"

#include <math.h>
#include <stdlib.h>

enum { PIECE_VALUES = 1 << 15, PIECE_ROWS_MAX = 4096 };

typedef struct job {
    km_distances *out;
    const km_space *space;
    const km_data *data;
    int64_t first_row;
    double *origin; // k: squared distances of the point 0 to the centroids, where points are sparse
} job;

// What a thread works in.
typedef struct scratch {
    double *points;  // a piece of dense ones
    double *squares; // k
    km_csr_rows rows;
} scratch;

static void keep(const job *j, int64_t point, const double *squares) {
    const km_distances *out = j->out;
    int64_t row = km_data_row_of(j->data, point) - j->first_row, k = j->space->k, own = out->labels[row];
    double nearest = sqrt(squares[own]), second = INFINITY;
    for (int64_t c = 0; out->margin && c < k; c++)
        if (c != own && squares[c] < second) second = squares[c];
    second = sqrt(second);
    if (out->own) out->own[row] = nearest * j->space->unit;
    if (out->margin && k > 1) out->margin[row] = second > nearest ? (second - nearest) / second : 0;
    for (int64_t c = 0; out->all && c < k; c++) out->all[row * k + c] = sqrt(squares[c]) * j->space->unit;
}

static int wants_all(const job *j) {
    return j->out->margin || j->out->all;
}

static void square_dense(double *squares, const job *j, const double *x, int64_t only) {
    const km_space *s = j->space;
    for (int64_t c = only < 0 ? 0 : only; c < (only < 0 ? s->k : only + 1); c++) {
        double sum = 0;
        const double *centroid = s->centroids + c * s->d;
        for (int64_t f = 0; f < s->d; f++) sum = fma(x[f] - centroid[f], x[f] - centroid[f], sum);
        squares[c] = sum;
    }
}

static km_status piece_dense(const job *j, scratch *t, int64_t first, int64_t count, km_error *err) {
    const km_space *s = j->space;
    KM_TRY(km_data_read(t->points, j->data, first, count, KM_FLOAT64, err));
    for (int64_t i = 0; i < count; i++) {
        double *x = t->points + i * s->d;
        for (int64_t f = 0; f < s->d; f++) x[f] = (x[f] - s->centre[f]) * s->factor[f];
        int64_t row = km_data_row_of(j->data, first + i) - j->first_row;
        square_dense(t->squares, j, x, wants_all(j) ? -1 : j->out->labels[row]);
        keep(j, first + i, t->squares);
    }
    return KM_OK;
}

// From the origin's distance: a nonzero changes the part of its own feature alone.
static km_status piece_sparse(const job *j, scratch *t, int64_t first, int64_t count, km_error *err) {
    const km_space *s = j->space;
    KM_TRY(km_data_read_csr(&t->rows, j->data, first, count, err));
    for (int64_t i = 0; i < count; i++) {
        int64_t own = j->out->labels[km_data_row_of(j->data, first + i) - j->first_row];
        for (int64_t c = wants_all(j) ? 0 : own; c < (wants_all(j) ? s->k : own + 1); c++) {
            double sum = j->origin[c];
            for (int64_t e = t->rows.starts[i]; e < t->rows.starts[i + 1]; e++) {
                int64_t f = t->rows.indices[e];
                double zero = -s->centre[f] * s->factor[f], to_zero = zero - s->centroids[c * s->d + f];
                double x = (t->rows.values[e] - s->centre[f]) * s->factor[f];
                double to = x - s->centroids[c * s->d + f];
                sum += (to - to_zero) * (to + to_zero);
            }
            t->squares[c] = fmax(sum, 0);
        }
        keep(j, first + i, t->squares);
    }
    return KM_OK;
}

static km_status origin_make(job *j, km_error *err) {
    const km_space *s = j->space;
    double *zero = malloc((size_t)s->d * sizeof *zero);
    j->origin = malloc((size_t)s->k * sizeof *j->origin);
    if (!zero || !j->origin) {
        free(zero);
        return km_fail_memory(err, "distances", (s->d + s->k) * (int64_t)sizeof *zero);
    }
    for (int64_t f = 0; f < s->d; f++) zero[f] = -s->centre[f] * s->factor[f];
    square_dense(j->origin, j, zero, -1);
    free(zero);
    return KM_OK;
}

static void nothing_yet(const km_distances *out, int64_t count, int64_t k) {
    for (int64_t i = 0; out->own && i < count; i++) out->own[i] = NAN;
    for (int64_t i = 0; out->margin && i < count; i++) out->margin[i] = NAN;
    for (int64_t i = 0; out->all && i < count * k; i++) out->all[i] = NAN;
}

static km_status run_pieces(const job *j, int64_t first, int64_t count, int64_t threads, km_error *err) {
    int is_sparse = km_data_csr(j->data) != NULL;
    int64_t d = j->space->d, k = j->space->k;
    int64_t piece = km_min(PIECE_ROWS_MAX, is_sparse || d <= PIECE_VALUES ? PIECE_VALUES / km_min(d, 64) : 1);
    if (!is_sparse) piece = km_min(piece, d < PIECE_VALUES ? PIECE_VALUES / d : 1);
    int64_t pieces = (count + piece - 1) / piece;
    int team = (int)km_min(km_host_threads(threads), pieces > 0 ? pieces : 1);
    km_status status = KM_OK;
    (void)team;
#pragma omp parallel num_threads(team) if (team > 1)
    {
        scratch t = {0};
        t.points = malloc((size_t)(is_sparse ? 1 : piece * d) * sizeof(double));
        t.squares = calloc((size_t)k, sizeof(double));
#pragma omp for schedule(dynamic, 1)
        for (int64_t p = 0; p < pieces; p++) {
            km_error own = {{0}};
            int64_t at = p * piece, points = km_min(piece, count - at);
            km_status done;
            if (!t.points || !t.squares)
                done = km_fail_memory(&own, "distances", piece * d * (int64_t)sizeof(double));
            else
                done = (is_sparse ? piece_sparse : piece_dense)(j, &t, first + at, points, &own);
#pragma omp critical(km_distances)
            if (done != KM_OK && status == KM_OK) status = km_fail(err, done, "%s", own.text);
        }
        free(t.points);
        free(t.squares);
        km_csr_rows_free(&t.rows);
    }
    return status;
}

km_status km_distances_make(km_distances *out, const km_space *space, const km_data *data, int64_t first,
                            int64_t count, int64_t *point, int64_t threads, km_error *err) {
    job j = {.out = out, .space = space, .data = data, .first_row = first};
    int64_t n = km_data_points(data), from = *point;
    nothing_yet(out, count, space->k);
    while (*point < n && km_data_row_of(data, *point) < first + count) ++*point;
    km_status status = km_data_csr(data) ? origin_make(&j, err) : KM_OK;
    if (status == KM_OK) status = run_pieces(&j, from, *point - from, threads, err);
    free(j.origin);
    return status;
}

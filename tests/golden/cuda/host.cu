// Of the text of {features: 4, clusters: 3..5, target: cuda:sm_90}: The host part: what the header declares; Header
// "..." stands for what a template or an earlier part shows, or what comes again.

// ==== The host part: what the header declares ==============================================================
#if !defined(__CUDACC_RTC__) && !defined(KM_KERNELS_ONLY)
#include "host.h"
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ... 1 definition

const char *host_error(void) {
    return host_text;
}

// ... 1 definition

static const int host_ks[HOST_KS] = {
    3,
    // ... 2 more, other numbers: 2eb320ff
};
static const int host_offsets[HOST_KS] = {
    0,
    // ... 2 more, other numbers: a3a6fa94
};

// Statistics of the points, and how they are transformed: x becomes (x - centre[f]) * factor. The centre is the mean,
// rounded to a multiple of a power of two, so that integers stay integers. The factor is a power of two that brings the
// largest coordinate between 1/2 and 1. So x keeps its digits.
typedef struct host_data {
    double centre[HOST_FEATURES], mean[HOST_FEATURES], variance[HOST_FEATURES];
    double low[HOST_FEATURES], high[HOST_FEATURES];
    double factor, total_weight;
    double total_square; // sum of w |x|^2, after the transform
} host_data;

// ... 1 definition

// From sums of w (x - origin) and w (x - origin)^2, and from the smallest and largest values, d of each. Returns 0
// where the origin is so far from the mean that digits of the variance are lost.
static int host_take_statistics(host_data *data, const double *sums, const double *origin) {
    int is_exact = 1;
    for (int f = 0; f < HOST_FEATURES; f++) {
        double away = sums[f] / data->total_weight;
        data->mean[f] = origin[f] + away;
        data->variance[f] = sums[HOST_FEATURES + f] / data->total_weight - away * away;
        data->low[f] = sums[2 * HOST_FEATURES + f];
        data->high[f] = sums[3 * HOST_FEATURES + f];
        is_exact &= away * away <= 64 * data->variance[f];
    }
    return is_exact;
}

static int host_choose_move(host_data *data) {
    double largest = 0;
    int exponent;
    for (int f = 0; f < HOST_FEATURES; f++) {
        double centre = host_centre(data->mean[f], data->variance[f], data->low[f], data->high[f]);
        data->centre[f] = centre;
        largest = fmax(largest, fmax(fabs(data->low[f] - centre), fabs(data->high[f] - centre)));
    }
    if (!(data->total_weight > 0))
        return host_fail(HOST_DATA, "the weights add up to nothing: some point must weigh more than 0");
    if (!(largest * largest * data->total_weight <= DBL_MAX))
        return host_fail(HOST_DATA,
                         "squares of values like %g do not fit a double: divide the points by a power of ten",
                         largest);
    frexp(largest, &exponent);
    data->factor = largest > 0 ? ldexp(1.0, -exponent) : 1.0;
    return HOST_OK;
}

// A K stops when the squared shift of its centroids is at most this.
static double host_shift_max(const host_data *data, double tolerance) {
    double sum = 0;
    for (int f = 0; f < HOST_FEATURES; f++) sum += data->variance[f] * data->factor * data->factor;
    return tolerance * (sum / HOST_FEATURES);
}

// How far the mean of n equal points may lie from them by rounding, squared, for points of size 1.
static double host_rounding2(long long n) {
    const double relative = (double)(n < 16 ? n : 16) * 5.9604644775390625e-8;
    return relative * relative;
}

// ... 4 definitions

static int host_check(const host_fit *fit, const void *points, long long n) {
    if (!fit || !points) return host_fail(HOST_ARGUMENT, "%s is NULL", fit ? "points" : "fit");
    if (n < HOST_K_MAX)
        return host_fail(HOST_DATA,
                         "%lld points are fewer than the largest K, %d: give more, or emit a shorter list", n,
                         (int)HOST_K_MAX);
    return HOST_OK;
}

static int host_check_index(int index) {
    if (index >= 0 && index < HOST_KS) return HOST_OK;
    return host_fail(HOST_ARGUMENT, "entry %d of a list of %d K: the first is 0", index, (int)HOST_KS);
}

// Transforms a coordinate as the points are, and back.
static host_real host_there(const host_data *data, host_real x, int f) {
    return (host_real)(((double)x - data->centre[f]) * data->factor);
}

static host_real host_back(const host_data *data, double x, int f) {
    return (host_real)(x / data->factor + data->centre[f]);
}

// Refuses value i of the first centroids where it is far outside the points.
static int host_check_first(const host_data *data, double x, long long i) {
    const int f = (int)(i % HOST_FEATURES);
    if (fabs((x - data->centre[f]) * data->factor) <= 1048576.0) return HOST_OK;
    return host_fail(HOST_DATA,
                     "row %lld of the first centroids, feature %d: %g is no number among the points",
                     i / HOST_FEATURES, f, x);
}
#include <new>

// ... 8 definitions

// A kernel of the pass by the name that km_pass_launches gives it.
struct host_kernel {
    const char *name;
    const void *function;
};
static const host_kernel host_kernels[] = {
    {"km_registers_0", (const void *)km_registers_0},
    {"km_prepare_coefficients", (const void *)km_prepare_coefficients},
    {"km_sum_points", (const void *)km_sum_points},
    {"km_reduce", (const void *)km_reduce},
};
enum {
    HOST_KERNELS = sizeof host_kernels / sizeof host_kernels[0],
    HOST_LAUNCHES = sizeof km_pass_launches / sizeof km_pass_launches[0]
};

struct host_fit {
    long long n, subchunks, chunks;
    host_data data;
    host_memory points, weights, pass_weights, subchunk_weights, box;
    host_memory centroids, before, totals, slot_weights, part_sums, workspace, device_state, labels, changes;
    host_state state;
    km_pass_facts facts;
    km_pass_launch launches[HOST_LAUNCHES];
    const void *functions[HOST_LAUNCHES];
    void *constants = nullptr;
    int shared_max = 0; // bytes of shared memory that a block may have
    volatile unsigned long long *report =
        nullptr;                                 // in the host's memory, where km_update writes how far it is ...
    unsigned long long *device_report = nullptr; // ... by this address
    ~host_fit() {
        cudaFreeHost((void *)report);
    }
    bool started = false;
};

static int host_cuda(cudaError_t error, const char *what) {
    if (error == cudaSuccess) return HOST_OK;
    cudaGetLastError(); // the error is reported here, and not again
    if (error == cudaErrorMemoryAllocation)
        return host_fail(HOST_MEMORY, "the device has not enough memory (%s): give fewer points", what);
    return host_fail(HOST_DEVICE, "%s: %s: %s", what, cudaGetErrorName(error), cudaGetErrorString(error));
}

// ... 1 definition

static int host_reserve(host_memory *room, long long bytes) {
    room->bytes = (size_t)(bytes > 0 ? bytes : 1);
    HOST_CUDA(cudaMalloc(&room->at, room->bytes));
    return HOST_OK;
}

static int host_reserve_zero(host_memory *room, long long bytes) {
    HOST_TRY(host_reserve(room, bytes));
    HOST_CUDA(cudaMemset(room->at, 0, room->bytes));
    return HOST_OK;
}

// ... 2 definitions

// The arguments of the kernels of the pass (km_pass_args above says what they mean).
static km_pass_args host_pass_args(const host_fit *fit, int part) {
    // ... lines of a template
static int host_launch_stage(const host_fit *fit, int stage) {
    for (int i = 0; i < HOST_LAUNCHES; i++) {
        const km_pass_launch *launch = &fit->launches[i];
        if (launch->stage != stage) continue;
        km_pass_args args = host_pass_args(fit, launch->part);
        void *arguments[] = {&args};
        HOST_TRY(host_cuda(cudaLaunchKernel(fit->functions[i], dim3(launch->grid_x, launch->grid_y),
                                            dim3(launch->block), arguments, launch->shared_bytes, 0),
                           launch->kernel));
    }
    return HOST_OK;
}

static int host_launch_update(const host_fit *fit) {
    // ... lines of a template
    return HOST_OK;
}

// Waits for a report of km_update (passes done, and 2^32 where the loop stops) that differs from the last one. It polls
// host memory, as a pass may take no more than ten microseconds.
static int host_look(unsigned long long *seen, const host_fit *fit) {
    enum { LOOKS = 256 };
    const unsigned long long before = *seen;
    for (;;) {
        for (int i = 0; i < LOOKS; i++)
            if ((*seen = *fit->report) != before) return HOST_OK;
        const cudaError_t error = cudaStreamQuery(0);
        if (error == cudaErrorNotReady) continue;
        HOST_TRY(host_cuda(error, "a pass"));
        if ((*seen = *fit->report) == before)
            return host_fail(HOST_DEVICE, "passes ended without a report");
    }
}

// Runs passes until every K has stopped or has an empty cluster; at most so many. A few are queued ahead of the
// report, so that the device does not wait for the host. Those behind the one that stops do nothing.
static int host_passes(host_fit *fit, long long passes_max, long long *done) {
    // ... lines of a template
    return HOST_OK;
}

// ... 1 definition

static int host_take_weights(host_fit *, const double *weights, unsigned long long *) {
    if (!weights) return HOST_OK;
    return host_fail(
        HOST_ARGUMENT,
        "host.cu was emitted for points without weights: give NULL, or emit it with --weighted");
}

// ... 1 definition

static int host_add_subchunks(const host_fit *fit, host_loader *load, const double *subchunk_sums) {
    km_load_add<<<1, KM_THREADS>>>(subchunk_sums, fit->subchunks, load->results.as<double>() + 1);
    HOST_LAUNCHED(km_load_add);
    return HOST_OK;
}

static int host_get_results(host_loader *load) {
    unsigned long long bad;
    HOST_CUDA(cudaMemcpy(load->host, load->results.at, sizeof load->host, cudaMemcpyDeviceToHost));
    memcpy(&bad, load->host, sizeof bad);
    if (bad == ~0ull) return HOST_OK;
    return host_fail(HOST_DATA, "feature %llu of point %llu is no finite number: leave such points out",
                     bad % D, bad / D);
}

// Sums around `origin`: of w (x - origin), of w (x - origin)^2; the smallest and the largest values.
static int host_sums(const host_fit *fit, host_loader *load, const double *origin) {
    const km_real *raw = fit->points.as<km_real>();
    const double *weights = fit->weights.as<double>();
    HOST_CUDA(cudaMemcpy(load->origin.at, origin, D * sizeof *origin, cudaMemcpyHostToDevice));
    km_load_sums_f32<<<dim3((unsigned)fit->chunks, host_parts(D, KM_THREADS)), KM_THREADS>>>(
        raw, weights, fit->n, load->origin.as<double>(), load->partial.as<double>(), load->bad());
    HOST_LAUNCHED(sums of the points);
    km_load_reduce<<<4 * host_parts(D, KM_REDUCED_NUMBERS), KM_THREADS>>>(
        load->partial.as<double>(), fit->chunks, load->results.as<double>() + 2);
    HOST_LAUNCHED(km_load_reduce);
    return host_get_results(load);
}

static int host_statistics(host_fit *fit, host_loader *load) {
    // ... lines of a template
static int host_move(host_fit *fit, host_loader *load) {
    // ... lines of a template
    km_load_transform_f32<<<(unsigned)fit->subchunks, KM_THREADS>>>(
        points, fit->weights.as<double>(), fit->n, centre.as<double>(), factor.as<double>(), points,
        load->bad(), load->partial.as<double>());
    HOST_LAUNCHED(moving the points);
    HOST_TRY(host_add_subchunks(fit, load, load->partial.as<double>()));
    HOST_TRY(host_get_results(load));
    data->total_square = load->host[1];
    return HOST_OK;
}

static int host_take_points(host_fit *fit, const km_real *points, const double *weights) {
    host_loader *load = new (std::nothrow) host_loader();
    const long long row = D * (long long)sizeof(km_real), partial = fit->chunks * 4 * D;
    if (!load) return host_fail(HOST_MEMORY, "not enough memory for the statistics of the points");
    // ... lines of a template
static int host_find_kernels(host_fit *fit) {
    HOST_CUDA(cudaMemcpyFromSymbol(&fit->facts, km_pass, sizeof fit->facts));
    HOST_CUDA(cudaMemcpyFromSymbol(fit->launches, km_pass_launches, sizeof fit->launches));
    HOST_CUDA(cudaGetSymbolAddress(&fit->constants, km_constants));
    for (int i = 0; i < HOST_LAUNCHES; i++) {
        const km_pass_launch *launch = &fit->launches[i];
        for (int k = 0; k < HOST_KERNELS; k++)
            if (!strcmp(host_kernels[k].name, launch->kernel)) fit->functions[i] = host_kernels[k].function;
        if (!fit->functions[i])
            return host_fail(HOST_DEVICE, "km_pass_launches names %s, which is no kernel of this file",
                             launch->kernel);
        if (launch->shared_bytes <= 48 << 10) continue;
        HOST_TRY(
            host_cuda(cudaFuncSetAttribute(fit->functions[i], cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           (int)launch->shared_bytes),
                      launch->kernel));
    }
    return HOST_OK;
}

static int host_check_device(host_fit *fit) {
    int device, major, minor;
    const cudaError_t error = cudaGetDevice(&device);
    if (error != cudaSuccess) {
        cudaGetLastError();
        return host_fail(HOST_DEVICE, "no CUDA device: %s; host.c (kmgen --target cpu) runs without one",
                         cudaGetErrorString(error));
    }
    HOST_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    HOST_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
    HOST_CUDA(cudaDeviceGetAttribute(&fit->shared_max, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    if (10 * major + minor < 90)
        return host_fail(HOST_DEVICE,
                         "host.cu was emitted for sm_90, and this device is sm_%d: emit with --target "
                         "cuda:sm_%d",
                         10 * major + minor, 10 * major + minor);
    return HOST_OK;
}

static int host_equip(host_fit *fit) {
    const long long rows = RESTARTS * (long long)S;
    HOST_TRY(host_reserve_zero(&fit->centroids, rows * D * (long long)sizeof(km_real)));
    HOST_TRY(host_reserve_zero(&fit->before, rows * D * (long long)sizeof(km_real)));
    HOST_TRY(host_reserve_zero(&fit->totals, rows * (D + 1) * 8));
    HOST_TRY(host_reserve_zero(&fit->slot_weights, rows * 8));
    HOST_TRY(host_reserve_zero(&fit->part_sums, HOST_SLOTS * (long long)HOST_PARTS * 32));
    HOST_TRY(host_reserve_zero(&fit->device_state, sizeof fit->state));
    // ... lines of a template
    return HOST_OK;
}

static int host_fill(host_fit *fit, const km_real *points, const double *weights) {
    HOST_TRY(host_check(fit, points, fit->n));
    HOST_TRY(host_check_device(fit));
    HOST_TRY(host_find_kernels(fit));
    fit->subchunks = host_parts(fit->n, KM_SUBCHUNK_POINTS);
    fit->chunks = host_parts(fit->n, KM_CHUNK_POINTS);
    HOST_TRY(host_take_points(fit, points, weights));
    return host_equip(fit);
}

int host_create(host_fit **out, const host_real *points, const double *weights, long long n) {
    if (!out) return host_fail(HOST_ARGUMENT, "out is NULL");
    host_fit *fit = *out = new (std::nothrow) host_fit();
    if (!fit) return host_fail(HOST_MEMORY, "not enough memory for a fit");
    fit->n = n;
    const int failed = host_fill(fit, points, weights);
    if (failed) host_destroy(out);
    return failed;
}

void host_destroy(host_fit **fit) {
    if (!fit) return;
    delete *fit;
    *fit = nullptr;
}

// ... 1 definition

// A table of reals on the host becomes the first restart's centroids, and every K begins.
static int host_begin(host_fit *fit, const km_real *table) {
    HOST_CUDA(cudaMemcpy(fit->centroids.at, table, S * (size_t)D * sizeof *table, cudaMemcpyHostToDevice));
    fit->state = host_state();
    for (int q = 0; q < KS; q++) {
        fit->state.slots[q].state.phase = KM_SLOT_RUNNING;
        fit->state.active[q] = 1;
    }
    fit->started = true;
    return HOST_OK;
}

int host_start(host_fit *fit, const host_real *centroids) {
    HOST_TRY(host_check(fit, centroids, K_MAX));
    km_real *table = (km_real *)malloc(S * (size_t)D * sizeof *table);
    int failed = table ? HOST_OK : host_fail(HOST_MEMORY, "not enough memory for the centroids");
    for (long long i = 0; i < S * (long long)D && !failed; i++) {
        failed = host_check_first(&fit->data, (double)centroids[i], i);
        table[i] = host_there(&fit->data, centroids[i], (int)(i % D));
    }
    if (!failed) failed = host_begin(fit, table);
    free(table);
    return failed;
}

// Some points, centred and scaled.
static int host_get_rows(const host_fit *fit, double *rows, const long long *indices, long long count) {
    host_memory device_rows;
    HOST_TRY(host_reserve(&device_rows, count * D * 8));
    km_rows<<<host_parts(count * D, KM_THREADS), KM_THREADS>>>(fit->points.as<km_real>(), indices, count,
                                                               device_rows.as<double>());
    HOST_LAUNCHED(km_rows);
    HOST_CUDA(cudaMemcpy(rows, device_rows.at, (size_t)(count * D) * 8, cudaMemcpyDeviceToHost));
    return HOST_OK;
}

// One chain of k-means++: the first K picks seed K, so one chain serves the whole list.
static int host_draw_rows(const host_fit *fit, double *rows, unsigned long long seed) {
    // ... lines of a template
int host_seed(host_fit *fit, unsigned long long seed) {
    HOST_TRY(host_check(fit, fit, K_MAX));
    double *rows = (double *)malloc(K_MAX * (size_t)D * sizeof *rows);
    km_real *table = (km_real *)malloc(S * (size_t)D * sizeof *table);
    int failed = rows && table ? host_draw_rows(fit, rows, seed)
                               : host_fail(HOST_MEMORY, "not enough memory for the centroids");
    for (int q = 0; q < KS && !failed; q++)
        for (long long i = 0; i < host_ks[q] * (long long)D; i++)
            table[host_offsets[q] * (long long)D + i] = (km_real)rows[i];
    if (!failed) failed = host_begin(fit, table);
    free(rows);
    free(table);
    return failed;
}

// ... 1 definition

// Squared distances up to this are rounding of a typical point's centroid.
static int host_square_min(const host_fit *fit, double *square_min) {
    double squares[HOST_SAMPLE];
    km_real row[D];
    const int count = (int)(fit->n < HOST_SAMPLE ? fit->n : HOST_SAMPLE);
    for (int s = 0; s < count; s++) {
        const long long i = (long long)((double)s * (double)fit->n / (double)count);
        HOST_CUDA(cudaMemcpy(row, fit->points.as<km_real>() + i * D, sizeof row, cudaMemcpyDeviceToHost));
        squares[s] = 0.0;
        for (int f = 0; f < D; f++) squares[s] += (double)row[f] * (double)row[f];
    }
    *square_min = host_rounding2(fit->n) * host_typical(squares, count);
    return HOST_OK;
}

// ... 1 definition

// Rows of centroids on the device as doubles, widened in place from the end.
static int host_get_centroids(double *to, const km_real *table, long long count) {
    km_real *floats = (km_real *)to;
    HOST_CUDA(cudaMemcpy(floats, table, (size_t)(count * D) * sizeof *floats, cudaMemcpyDeviceToHost));
    for (long long i = count * D; i-- > 0;) {
        km_real value;
        memcpy(&value, floats + i, sizeof value);
        const double as_double = (double)value;
        memcpy(to + i, &as_double, sizeof as_double);
    }
    return HOST_OK;
}

// `table`: the centroids of K number q, or those that it had in the last pass.
static int host_model_init(host_model *model, const host_fit *fit, int q, const host_memory *table) {
    const long long k = host_ks[q], zero = 0;
    const km_real *rows = table->as<km_real>() + host_offsets[q] * (long long)D;
    model->host = (double *)malloc((size_t)(k * D) * sizeof *model->host);
    if (!model->host) return host_fail(HOST_MEMORY, "not enough memory for the centroids");
    // ... lines of a template
    return HOST_OK;
}

// ... 1 definition

// Finds the next farthest point: of cluster `to` from then on. *found is negative where there is none.
static int host_find_farthest(const host_fit *fit, host_relocation *r, double square_min, int to,
                              long long *found) {
    km_farthest_subchunk<<<(unsigned)fit->subchunks, KM_THREADS>>>(
        fit->points.as<km_real>(), fit->weights.as<double>(), fit->n, square_min, host_rounding2(fit->n),
        r->nearest.as<double>(), r->picks.as<long long>(), r->count, r->values.as<double>(),
        r->indices.as<long long>());
    HOST_LAUNCHED(km_farthest_subchunk);
    long long *pick = r->picks.as<long long>() + r->count;
    km_farthest_pick<<<1, KM_THREADS>>>(r->values.as<double>(), r->indices.as<long long>(), fit->subchunks,
                                        fit->n, r->picks.as<long long>(), r->count);
    HOST_LAUNCHED(km_farthest_pick);
    HOST_CUDA(cudaMemcpy(found, pick, sizeof *found, cudaMemcpyDeviceToHost));
    if (*found < 0) return HOST_OK;
    // ... lines of a template
static int host_relocate(host_fit *fit, int q) {
    // ... lines of a template
    if (!r.moved || !r.numbers) return host_fail(HOST_MEMORY, "not enough memory for the farthest points");
    // ... lines of a template
    return HOST_OK;
}

int host_run(host_fit *fit, long long passes_max, double tolerance, long long *passes) {
    long long done = 0, own_done;
    HOST_TRY(host_check(fit, fit, K_MAX));
    if (!passes) passes = &own_done;
    *passes = 0;
    if (!fit->started) return host_fail(HOST_ARGUMENT, "there are no first centroids yet: start or seed");
    if (!(tolerance >= 0))
        return host_fail(HOST_ARGUMENT, "tolerance is %g; it must be 0 or more", tolerance);
    double shift_max = host_shift_max(&fit->data, tolerance);
    // Sums are relative to a pivot that may change from pass to pass: a shift within rounding counts as none.
    shift_max = fmax(shift_max, host_rounding2(fit->n) * fit->data.total_square / fit->data.total_weight);
    // ... lines of a template
    return HOST_OK;
}

// ... 1 definition

enum {
    HOST_FINISH_POINTS = KM_SUBCHUNK_POINTS * KM_SUBCHUNKS_PER_CHUNK, // that a block adds up
    HOST_FINISH_SLICE = 1024                                          // chunks at a time
};

struct host_finish {
    host_model model;
    host_memory sums, partial, nearest, margin, labels;
    double *host = nullptr; // k x KM_FINISH_SUMS
    int bytes = 0;          // of shared memory, where km_finish_few_clusters is used
    ~host_finish() {
        free(host);
    }
};

// ... 1 definition

static int host_finish_slice(const host_fit *fit, host_finish *f, long long first, long long count,
                             long long k, int *labels) {
    const long long numbers = k * KM_FINISH_SUMS;
    const long long blocks = host_finish_parts(f, count, k);
    const double *weights = fit->weights.as<double>();
    double *partial = f->partial.as<double>();
    f->model.args.first = first;
    f->model.args.count = count;
    if (f->bytes > 0) {
        km_finish_few_clusters<<<(unsigned)blocks, KM_FINISH_THREADS, (size_t)f->bytes>>>(
            f->model.args, weights, partial, k);
        HOST_LAUNCHED(km_finish_few_clusters);
    // ... lines of a template
    return HOST_OK;
}

static int host_finish_shared(const host_fit *fit, host_finish *f, long long k) {
    const int bytes = (int)k * KM_FINISH_THREADS * (WEIGHTED ? KM_FINISH_WEIGHTED_BYTES : KM_FINISH_BYTES);
    if (k > KM_FINISH_FEW_MAX || bytes > fit->shared_max) return HOST_OK;
    f->bytes = bytes;
    if (bytes > 48 << 10)
        HOST_CUDA(
            cudaFuncSetAttribute(km_finish_few_clusters, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    return HOST_OK;
}

static int host_finish_all(const host_fit *fit, host_finish *f, int q, int *labels) {
    // ... lines of a template
    if (!f->host) return host_fail(HOST_MEMORY, "not enough memory for the sums");
    HOST_CUDA(cudaMemcpy(f->host, f->sums.at, (size_t)numbers * 8, cudaMemcpyDeviceToHost));
    return HOST_OK;
}

int host_result(host_fit *fit, int index, host_model *model) {
    host_finish f;
    HOST_TRY(host_check(fit, model, K_MAX));
    HOST_TRY(host_check_index(index));
    if (!fit->started) return host_fail(HOST_ARGUMENT, "there are no first centroids yet: start or seed");
    // ... lines of a template
    return HOST_OK;
}

#ifdef HOST_MAIN
#include <time.h>

// ... 2 definitions

static __global__ void host_host_read(const uint4 *pieces, long long count, unsigned *out) {
    unsigned sum = 0;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count;
         i += (long long)gridDim.x * blockDim.x) {
        const uint4 piece = pieces[i];
        sum += piece.x ^ piece.y ^ piece.z ^ piece.w;
    }
    if (sum == 12345) *out = sum; // or nothing would be read
}

// Milliseconds of a plain read of the points.
static double host_read_ms(host_fit *fit) {
    const long long pieces = fit->n * D * (long long)sizeof(km_real) / 16;
    cudaEvent_t begin, end;
    float ms, least = 1e30f;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    for (int turn = 0; turn < 6; turn++) {
        cudaEventRecord(begin);
        for (int i = 0; i < 10; i++)
            host_host_read<<<2112, 512>>>(fit->points.as<uint4>(), pieces, fit->totals.as<unsigned>());
        cudaEventRecord(end);
        cudaEventSynchronize(end);
        cudaEventElapsedTime(&ms, begin, end);
        least = ms / 10 < least ? ms / 10 : least;
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    return least;
}
// The program: reads points or makes some, runs, checks itself, measures.

typedef struct host_table {
    host_real *points;
    long long n;
} host_table;

// ... 1 definition

// Points of HOST_K_MAX blobs, which overlap so much that many passes are needed.
static int host_make_points(host_table *table, long long n) {
    enum { BLOBS = HOST_K_MAX < 64 ? HOST_K_MAX : 64 };
    uint64_t state = 1;
    double *centres = (double *)malloc(sizeof *centres * BLOBS * HOST_FEATURES);
    table->n = n;
    table->points = (host_real *)malloc(sizeof *table->points * (size_t)n * HOST_FEATURES);
    if (!table->points || !centres) {
        free(centres);
        return host_fail(HOST_MEMORY, "not enough memory for %lld points of %d features", n,
                         (int)HOST_FEATURES);
    }
    for (int i = 0; i < BLOBS * HOST_FEATURES; i++) centres[i] = 2 * host_random(&state);
    for (long long i = 0; i < n; i++) {
        const int blob = (int)(host_random(&state) * BLOBS);
        for (int f = 0; f < HOST_FEATURES; f++) {
            const double noise = host_random(&state) + host_random(&state) + host_random(&state) - 1.5;
            table->points[i * HOST_FEATURES + f] =
                (host_real)(centres[blob * HOST_FEATURES + f] + noise);
        }
    }
    free(centres);
    return HOST_OK;
}

// The numbers of an .npy file begin behind its header, which must say this type, C order and HOST_FEATURES columns.
static int host_skip_npy_header(long *at, FILE *file, const char *path) {
    unsigned char head[12];
    char text[4096] = "", columns[32];
    rewind(file);
    *at = 0;
    if (fread(head, 1, sizeof head, file) != sizeof head || memcmp(head, "\x93NUMPY", 6))
        return HOST_OK; // raw
    const size_t begin = head[6] == 1 ? 10 : 12;
    const size_t size =
        head[6] == 1 ? head[8] + 256u * head[9] : head[8] + 256u * head[9] + 65536u * head[10];
    fseek(file, (long)begin, SEEK_SET);
    if (size >= sizeof text || fread(text, 1, size, file) != size)
        return host_fail(HOST_DATA, "%s: its header is cut off", path);
    snprintf(columns, sizeof columns, ", %d)", (int)HOST_FEATURES);
    if (!strstr(text, sizeof(host_real) == 4 ? "'<f4'" : "'<f8'") ||
        !strstr(text, "'fortran_order': False") || !strstr(text, columns))
        return host_fail(HOST_DATA, "%s: expected float in C order, n rows of %d columns, got %.*s", path,
                         (int)HOST_FEATURES, (int)strcspn(text, "}") + 1, text);
    *at = (long)(begin + size);
    return HOST_OK;
}

static int host_read_points(host_table *table, const char *path) {
    const size_t row = sizeof(host_real) * HOST_FEATURES;
    long begin = 0, end = 0;
    FILE *file = fopen(path, "rb");
    if (!file)
        return host_fail(HOST_DATA,
                         "cannot open %s: give a raw file of float, or .npy, or a number of points", path);
    int failed = host_skip_npy_header(&begin, file, path);
    if (!failed && (fseek(file, 0, SEEK_END) || (end = ftell(file)) < begin || (size_t)(end - begin) % row))
        failed = host_fail(HOST_DATA, "%s: %ld bytes are no whole number of points of %d float", path,
                           end - begin, (int)HOST_FEATURES);
    table->n = failed ? 0 : (long long)((size_t)(end - begin) / row);
    table->points = (host_real *)malloc((size_t)table->n * row + 1);
    if (!failed && !table->points) failed = host_fail(HOST_MEMORY, "not enough memory for %s", path);
    if (!failed && (fseek(file, begin, SEEK_SET) ||
                    fread(table->points, row, (size_t)table->n, file) != (size_t)table->n))
        failed = host_fail(HOST_DATA, "cannot read %s", path);
    fclose(file);
    return failed;
}

static double host_square(const host_real *x, const host_real *c) {
    double square = 0;
    for (int f = 0; f < HOST_FEATURES; f++) {
        const double t = (double)x[f] - (double)c[f];
        square += t * t;
    }
    return square;
}

// ... 1 definition

static void host_plain_pass(host_plain *out, const host_table *table, const host_real *centroids, int k) {
    memset(out->sums, 0, sizeof *out->sums * (size_t)k * HOST_FEATURES);
    memset(out->counts, 0, sizeof *out->counts * (size_t)k);
    out->inertia = out->size = 0;
    out->ambiguous = 0;
    for (long long i = 0; i < table->n; i++) {
        const host_real *x = table->points + i * HOST_FEATURES;
        double nearest = 1e300, second = 1e300, size = 0;
        int label = 0;
        for (int j = 0; j < k; j++) {
            const double square = host_square(x, centroids + (long long)j * HOST_FEATURES);
            second = fmin(second, fmax(square, nearest));
            if (square < nearest) label = j;
            nearest = fmin(nearest, square);
        }
        for (int f = 0; f < HOST_FEATURES; f++) {
            out->sums[(long long)label * HOST_FEATURES + f] += (double)x[f];
            out->size = fmax(out->size, fabs((double)x[f]));
            size += (double)x[f] * (double)x[f];
        }
        out->counts[label]++;
        out->inertia += nearest;
        out->ambiguous += second - nearest <= size * (sizeof(host_real) == 4 ? 1e-5 : 1e-13);
    }
}

// How far centroids after one pass are from those of the plain loop, as a part of the largest coordinate. Returns how
// many coordinates are farther than rounding and ambiguous points allow.
static int host_check_means(const host_plain *plain, const host_real *moved, int k, double *worst) {
    const double rounding = sizeof(host_real) == 4 ? 4e-6 : 1e-12;
    int bad = 0;
    for (long long at = 0; at < (long long)k * HOST_FEATURES; at++) {
        const double count = (double)plain->counts[at / HOST_FEATURES];
        if (count == 0) continue; // an empty cluster is given another point
        const double mean = plain->sums[at] / count, away = fabs(mean - (double)moved[at]) / plain->size;
        *worst = fmax(*worst, away);
        bad += away > rounding + 4 * (double)plain->ambiguous / count;
    }
    return bad;
}

// ... 1 definition

// One pass of every K, and what is reported of the centroids that it left, against the plain loop. Returns how many
// numbers are wrong, or -1.
static int host_check_all(const host_table *table) {
    host_fit *fit = NULL;
    host_model model;
    host_plain plain;
    double worst = 0, worst_inertia = 0;
    int bad = 0, failed = 0;
    long long ambiguous = 0;
    const size_t rows = sizeof(host_real) * (size_t)HOST_FEATURES;
    host_real *first = (host_real *)malloc(rows * HOST_ROWS),
               *moved = (host_real *)malloc(rows * HOST_K_MAX);
    int *labels = (int *)malloc(sizeof *labels * (size_t)table->n);
    plain.sums = (double *)malloc(sizeof(double) * HOST_K_MAX * HOST_FEATURES);
    plain.counts = (long long *)malloc(sizeof(long long) * HOST_K_MAX);
    if (!first || !moved || !labels || !plain.sums || !plain.counts)
        failed = host_fail(HOST_MEMORY, "not enough memory for the check");
    for (int i = 0; i < HOST_KS && !failed; i++)
        for (int j = 0; j < host_ks[i]; j++)
            memcpy(first + ((long long)host_offsets[i] + j) * HOST_FEATURES,
                   table->points + table->n / host_ks[i] * j * HOST_FEATURES, rows);
    if (!failed) failed = host_create(&fit, table->points, NULL, table->n);
    if (!failed) failed = host_start(fit, first);
    if (!failed) failed = host_run(fit, 1, 0, NULL);
    for (int i = 0; i < HOST_KS && !failed; i++) {
        const host_real *own = first + (long long)host_offsets[i] * HOST_FEATURES;
        memset(&model, 0, sizeof model);
        model.centroids = moved;
        model.labels = labels;
        if ((failed = host_result(fit, i, &model))) break;
        host_plain_pass(&plain, table, own, host_ks[i]);
        bad += host_check_means(&plain, moved, host_ks[i], &worst);
        ambiguous += plain.ambiguous;
        host_plain_pass(&plain, table, moved, host_ks[i]);
        const double away = fabs(plain.inertia - model.inertia) / (plain.inertia > 0 ? plain.inertia : 1);
        worst_inertia = fmax(worst_inertia, away);
        bad += away > (sizeof(host_real) == 4 ? 1e-4 : 1e-9);
        for (long long p = 0; p < table->n; p++) {
            const host_real *x = table->points + p * HOST_FEATURES;
            const double square = host_square(x, moved + (long long)labels[p] * HOST_FEATURES);
            int nearer = 0; // by more than rounding
            for (int j = 0; j < host_ks[i]; j++)
                nearer |= host_square(x, moved + (long long)j * HOST_FEATURES) <
                          // ... lines of a template
    host_destroy(&fit);
    return failed ? -1 : bad;
}

// Milliseconds of a pass in which every K is active: as many passes are timed as the first K to stop takes.
static int host_time(double *ms, long long *passes, host_fit *fit) {
    long long least = 20;
    *ms = 1e30;
    for (int turn = 0; turn < 6; turn++) {
        int failed = host_seed(fit, 0);
        const double begin = host_now_ms();
        if (!failed) failed = host_run(fit, least, 0, passes);
        const double took = (host_now_ms() - begin) / (double)(*passes > 0 ? *passes : 1);
        if (failed) return failed;
        if (turn > 0) *ms = fmin(*ms, took);
        for (int i = 0; i < HOST_KS && turn == 0; i++) { // the first turn finds out
            host_model model;
            memset(&model, 0, sizeof model);
            if ((failed = host_result(fit, i, &model))) return failed;
            if (model.n_iter < least && model.n_iter > 0) least = model.n_iter;
        }
    }
    return HOST_OK;
}

static int host_report(host_fit *fit, const host_table *table) {
    double pass_ms, read_ms, begin;
    long long passes, timed;
    char device[128];
    int failed = host_time(&pass_ms, &timed, fit);
    if (!failed) failed = host_seed(fit, 0);
    begin = host_now_ms();
    if (!failed) failed = host_run(fit, 300, 1e-4, &passes);
    if (failed) return failed;
    const double run_ms = host_now_ms() - begin;
    host_device_name(device, sizeof device);
    read_ms = host_read_ms(fit);
    printf("device: %s\n%10s %10s %10s %18s\n", device, "K", "converged", "iterations", "inertia");
    for (int i = 0; i < HOST_KS; i++) {
        host_model model;
        memset(&model, 0, sizeof model);
        if ((failed = host_result(fit, i, &model))) return failed;
        printf("%10d %10s %10lld %18.10g\n", model.k, model.converged ? "yes" : "no", model.n_iter,
               model.inertia);
    }
    printf("run: %lld passes in %.2f ms\n", passes, run_ms);
    printf("pass: %.4f ms for all %d K (the best of 5 times %lld); a plain read of the %.1f MB of points: "
           "%.4f ms; "
           "%.2f reads\n",
           pass_ms, (int)HOST_KS, timed, (double)table->n * HOST_FEATURES * sizeof(host_real) * 1e-6,
           read_ms, pass_ms / read_ms);
    return HOST_OK;
}

int main(int argc, char **argv) {
    host_table table = {NULL, 0};
    host_fit *fit = NULL;
    char *end = NULL;
    const char *what = argc > 1 ? argv[1] : "1048576";
    const long long n = strtoll(what, &end, 10);
    if (argc > 2 || what[0] == '-' || (!*end && n < 1)) {
        fprintf(stderr, "usage: %s [POINTS.npy | RAW FILE of float | NUMBER of random points]\n", argv[0]);
        return 2;
    }
    int failed = *end ? host_read_points(&table, what) : host_make_points(&table, n), bad = 0;
    if (!failed) {
        printf("host: %d features, float, K of 3..5, %lld %s points\n", (int)HOST_FEATURES, table.n,
               *end ? "given" : "random");
        host_table part = table; // as many points as a plain loop does in seconds
        const long long most = 400000000 / (HOST_ROWS * (long long)HOST_FEATURES) + 1000 + HOST_K_MAX;
        if (part.n > most) part.n = most;
        bad = host_check_all(&part);
        failed = bad < 0;
    }
    if (!failed) failed = host_create(&fit, table.points, NULL, table.n);
    if (!failed) failed = host_report(fit, &table);
    if (failed) fprintf(stderr, "host: %s\n", host_error());
    host_destroy(&fit);
    free(table.points);
    return failed || bad ? 1 : 0;
}
#endif
#endif
// host.h, made by kmgen 0.1.0: k-means of points with 4 features for every K of 3..5 at once; each pass reads the
// points once for all of them. host.cu and host.c both implement it, the first on a CUDA device:
//
//     nvcc -arch=sm_90 -c host.cu                       then link with nvcc, or with -lcudart
//     cc -O3 -ffp-contract=off -fopenmp -c host.c       then link with -fopenmp -lm; OpenMP may be left out
//
//     host_fit *fit;
//     if (host_create(&fit, points, NULL, n) || host_seed(fit, 0) || host_run(fit, 300, 1e-4, NULL))
//         fprintf(stderr, "%s\n", host_error());
//     for (int i = 0; fit && i < HOST_KS; i++) {
//         host_model model = {0};
//         host_result(fit, i, &model); // model.k, model.inertia, ...
//     }
//     host_destroy(&fit);
//
// Coordinates are as they are given, in and out: no feature is scaled against another. Inside they are centred, and
// multiplied by one power of two. Results are those of `kmgen fit` with the same first centroids and one restart.
// One thread at a time may use a fit.
#ifndef HOST_H
#define HOST_H

// ... 1 definition

enum {
    HOST_FEATURES = 4, // numbers of a point
    HOST_KS = 3,       // entries of the list of K
    HOST_ROWS = 12,    // clusters of the whole list: rows of a table with the centroids of every K
    HOST_K_MAX = 5     // the largest K: fewer points are refused
};

typedef float host_real;

// What every function returns: 0, or which kind of thing went wrong. host_error() says it in a sentence.
enum { HOST_OK, HOST_ARGUMENT, HOST_DATA, HOST_MEMORY, HOST_DEVICE };

// Points on a device, and the state of each K.
typedef struct host_fit host_fit;

// One K. The arrays are the caller's; those that are not NULL are filled.
typedef struct host_model {
    int k;
    int converged;        // 0: its centroids still moved in the last pass that was allowed
    long long n_iter;     // updates of its centroids
    double inertia;       // sum of weight times squared distance to the nearest centroid
    host_real *centroids; // k x HOST_FEATURES
    long long *counts;    // k: points of each cluster
    int *labels;          // n, in the memory of the host: the nearest centroid, the lowest index among equals
} host_model;

// Copies n points, row by row. They, and the weights, may lie in the memory of the host or, for host.cu, of the
// current device, which is the one that is used. `weights`: one a point, finite and not negative; NULL: all are 1.
// HOST_DATA where there are fewer points than the largest K, or a number is not finite. *out is NULL on failure.
int host_create(host_fit **out, const host_real *points, const double *weights, long long n);

// First centroids: HOST_ROWS rows in the memory of the host, those of the smallest K first; or drawn by k-means++,
// for the same seed the same. Either makes every K start again.
int host_start(host_fit *fit, const host_real *centroids);
int host_seed(host_fit *fit, unsigned long long seed);

// Passes over the points until no K moves any more, passes_max of them at most: 1 is one pass. A K stops when the
// squared shift of its centroids is at most `tolerance` times the mean variance of the features (kmgen fit: 1e-4), and
// takes no part in later passes. A cluster that loses its last point gets the point farthest from its centroid.
// *passes, unless NULL: how many were made. May be called again to go on.
int host_run(host_fit *fit, long long passes_max, double tolerance, long long *passes);

// The K of entry `index` of the list as it stands, by one more read of the points.
int host_result(host_fit *fit, int index, host_model *model);

// Frees *fit and sets it to NULL. NULL is allowed.
void host_destroy(host_fit **fit);

// What the last call of this thread that failed says: one sentence.
const char *host_error(void);

// ... 1 definition

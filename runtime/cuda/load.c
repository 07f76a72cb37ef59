// SPDX-License-Identifier: MIT
// Load: points are copied to the device as they are; then statistics, centring and scaling.
#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/log.h"
#include "../../base/size.h"
#include "cuda.h"
#include "../data_refuse.h"
#include "../drawn.h"
#include "../module_state.h"
#include "../resident.h"
#include "../rounding.h"
#include "../share.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(KM_SUBCHUNK_POINTS *KM_SUBCHUNKS_PER_CHUNK == KM_CHUNK_POINTS, "subchunks make up the chunks");

// The original points on the device, and small tables.
typedef struct loader {
    km_cuda_engine *engine;
    const km_data *data;
    int64_t n, d;
    km_type raw_type;
    const void *base; // of the raw rows in host memory; NULL: they are read and converted to double
    km_cu_ptr lying;  // the caller's raw rows on this device; 0: none
    km_cu_ptr raw;    // on the device
    km_cu_ptr bad, origin, reduced, centre, factor, sum, partial; // inside `work`
    double *results; // on the host: the first bad value's index, a sum over subchunks, ...
    double *numbers; // ... and 4 x d
    double *first;   // the first point, d
} loader;

static km_status read_rows(void *out, const void *from, int64_t first, int64_t bytes, km_error *err) {
    const km_data *data = from;
    int64_t row_bytes = km_data_features(data) * (int64_t)sizeof(double);
    return km_data_read(out, data, first / row_bytes, bytes / row_bytes, KM_FLOAT64, err);
}

static int64_t raw_bytes_of(const loader *load) {
    return km_type_bytes(load->raw_type);
}

// The device memory for the original points: that of the points themselves if the type is the same, else scratch
// memory.
static const km_cuda_memory *raw_memory(const loader *load) {
    const km_cuda_engine *engine = load->engine;
    return raw_bytes_of(load) == engine->real_bytes ? &engine->points : &engine->scratch;
}

// Records the begin or the end of the copy of the points.
static km_status record_time(km_cuda_engine *engine, int end, km_error *err) {
    km_status status = KM_OK;
    const km_driver *driver = engine->driver;
    if (!engine->sent[end]) KM_CU(cuEventCreate(&engine->sent[end], 0));
    KM_CU(cuEventRecord(engine->sent[end], engine->stream));
done:
    return status;
}

// Draws the original points where they are to be loaded, which is where those of the plan's type lie. Their tables are
// in the scratch memory, which is free then.
static km_status draw_points(loader *load, const km_draws *draws, km_error *err) {
    km_cuda_engine *engine = load->engine;
    int64_t d = load->d, row = d * (int64_t)sizeof(double), axes = draws->axes ? d * row : 0, bytes;
    if (draws->type != engine->base.plan->spec.type || km_mul_overflows(&bytes, d, row))
        return km_fail(err, KM_ERROR_INTERNAL, "points are drawn in another type than the plan's");
    KM_TRY(km_cuda_reserve(engine, &engine->scratch, 2 * row + axes, "the box of drawn points", err));
    km_cu_ptr low = engine->scratch.address, width = low + (km_cu_ptr)row,
              turn = draws->axes ? width + (km_cu_ptr)row : 0;
    KM_TRY(km_cuda_put(engine, low, draws->low, row, err));
    KM_TRY(km_cuda_put(engine, width, draws->width, row, err));
    if (draws->axes) KM_TRY(km_cuda_put(engine, turn, draws->axes, axes, err));
    uint64_t seed = draws->seed, set = draws->set;
    void *arguments[] = {&engine->points.address, &load->n, &seed, &set, &low, &width, &turn};
    return km_cuda_launch(engine, engine->kernels->load_draw, km_divide_up(load->n * d, KM_THREADS), 1,
                          arguments, err);
}

// Of the table of points on the device, where the rest is on the host. Before there is a plan, all are there.
int64_t km_cuda_near_bytes(const km_cuda_engine *engine) {
    km_memory memory = {0};
    if (engine->base.plan) km_memory_of(&memory, engine->base.plan);
    return memory.points_near;
}

// Copies the original points to the device, if that was not done before the kernels were loaded.
static km_status fetch_points(loader *load, km_error *err) {
    km_cuda_engine *engine = load->engine;
    int64_t raw_bytes = raw_bytes_of(load), count, bytes;
    if (engine->fetched) return KM_OK;
    if (km_mul_overflows(&count, load->n + KM_PAD_ROWS + KM_GUEST_ROWS, load->d) ||
        km_mul_overflows(&bytes, count, 8))
        return km_fail(err, KM_ERROR_MEMORY, "%lld x %lld values are too many", (long long)load->n,
                       (long long)load->d);
    KM_TRY(km_cuda_reserve_far(engine, &engine->points, count * engine->real_bytes,
                               km_cuda_near_bytes(engine), "the table of points", err));
    const km_cuda_memory *raw = raw_memory(load);
    if (raw == &engine->scratch && !load->lying)
        KM_TRY(km_cuda_reserve_far(engine, &engine->scratch, load->n * load->d * raw_bytes, 0,
                                   "the points as they came", err));
    int64_t used = load->n * load->d * engine->real_bytes;
    KM_TRY(km_cuda_clear(engine, engine->points.address + (km_cu_ptr)used, 0,
                         KM_PAD_ROWS * load->d * engine->real_bytes, err));
    bytes = load->n * load->d * raw_bytes;
    if (km_data_draws(load->data)) {
        KM_TRY(record_time(engine, 0, err));
        KM_TRY(draw_points(load, km_data_draws(load->data), err));
        engine->fetched = load->data;
        return record_time(engine, 1, err);
    }
    if (load->lying) {
        engine->fetched = load->data;
        return KM_OK;
    }
    double begin_ms = km_now_ms();
    if (!load->base || bytes > KM_PLAIN_BYTES) KM_TRY(km_cuda_pin(engine, bytes, err));
    engine->pinned_ms = km_now_ms() - begin_ms;
    KM_TRY(record_time(engine, 0, err));
    if (load->base)
        KM_TRY(km_cuda_upload(engine, raw->address, load->base, bytes, 0, NULL, err));
    else
        KM_TRY(km_cuda_upload(engine, raw->address, load->data, bytes, load->d * raw_bytes, read_rows, err));
    engine->fetched = load->data;
    return record_time(engine, 1, err);
}

// Logs how long the copy of the points took, when it is done.
static km_status report_transfer(const loader *load, km_error *err) {
    km_status status = KM_OK;
    const km_cuda_engine *engine = load->engine;
    const km_driver *driver = engine->driver;
    double bytes = (double)(load->n * load->d * raw_bytes_of(load));
    float ms;
    if (load->lying) {
        km_log_line(engine->log, KM_LOG_INFO, "load: %.1f MB lie on the device already", bytes * 1e-6);
        return KM_OK;
    }
    KM_CU(cuEventElapsedTime(&ms, engine->sent[0], engine->sent[1]));
    km_log_line(engine->log, KM_LOG_INFO,
                "load: %.1f MB copied in %.2f ms, %.1f GB/s; buffers pinned in %.2f ms", bytes * 1e-6,
                (double)ms, bytes * 1e-6 / (double)ms, engine->pinned_ms);
done:
    return status;
}

static km_status ones(void *out, const void *from, int64_t first, int64_t bytes, km_error *err) {
    (void)from, (void)first, (void)err;
    for (int64_t i = 0; i < bytes / (int64_t)sizeof(double); i++) ((double *)out)[i] = 1.0;
    return KM_OK;
}

km_status km_cuda_load_weights(km_cuda_engine *engine, const km_data *data, km_error *err) {
    const double *weights = km_data_weights(data);
    long long n = engine->base.n;
    if (weights && !engine->base.plan->weighted)
        return km_fail(err, KM_ERROR_INTERNAL, "the points have weights, the plan has none");
    if (engine->base.plan->weighted) {
        KM_TRY(km_cuda_reserve_far(engine, &engine->weights, n * 8, 0, "the weights of points", err));
        KM_TRY(km_cuda_reserve_far(engine, &engine->pass_weights, (n + KM_PAD_ROWS) * engine->real_bytes, 0,
                                   "the weights of points", err));
        KM_TRY(km_cuda_clear(engine, engine->pass_weights.address + (km_cu_ptr)(n * engine->real_bytes), 0,
                             KM_PAD_ROWS * engine->real_bytes, err));
        KM_TRY(
            km_cuda_upload(engine, engine->weights.address, weights, n * 8, 8, weights ? NULL : ones, err));
    }
    KM_TRY(km_cuda_reserve(engine, &engine->subchunk_weights, engine->subchunks_count * 8,
                           "the weights of subchunks", err));
    void *arguments[] = {&engine->weights.address, &n, &engine->pass_weights.address,
                         &engine->subchunk_weights.address};
    int64_t blocks = engine->base.plan->weighted ? engine->subchunks_count
                                                 : km_divide_up(engine->subchunks_count, KM_THREADS);
    return km_cuda_launch(engine, engine->kernels->load_weights, blocks, 1, arguments, err);
}

// Of all ranks' chunks, or subchunks of chunks.
static int64_t parts_of_all(const loader *load, int64_t per_chunk) {
    return per_chunk == 1 ? km_chunks_of(load->engine->base.n_all)
                          : km_divide_up(load->engine->base.n_all, KM_CHUNK_POINTS / per_chunk);
}

// Adds one number of each subchunk of all ranks, to the second result.
static km_status add_subchunks(loader *load, km_cu_ptr subchunk_sums, km_error *err) {
    km_cuda_engine *engine = load->engine;
    km_share *share = engine->base.share;
    long long subchunks = parts_of_all(load, KM_SUBCHUNKS_PER_CHUNK);
    KM_TRY(km_cuda_gather(engine, load->partial, subchunk_sums, subchunks,
                          km_share_chunk(share) * KM_SUBCHUNKS_PER_CHUNK, engine->subchunks_count, 1, err));
    void *arguments[] = {share ? &load->partial : &subchunk_sums, &subchunks, &load->sum};
    return km_cuda_launch(engine, engine->kernels->load_add, 1, 1, arguments, err);
}

// Refuses the points if a value is not finite.
static km_status check_values(loader *load, km_error *err) {
    uint64_t bad; // i * d + f
    KM_TRY(km_cuda_get(load->engine, &bad, load->bad, sizeof bad, err));
    if (bad == UINT64_MAX) return KM_OK;
    return km_data_refuse_value(load->data, (int64_t)bad / load->d, (int64_t)bad % load->d, err);
}

// With other ranks all end here where one has such a value, before anything is joined.
static km_status agree(loader *load, km_error *err) {
    km_share *share = load->engine->base.share;
    return share ? km_share_agree(share, check_values(load, err), err) : KM_OK;
}

// Reads so many results, behind the index of the first bad value.
static km_status get_results(loader *load, int64_t count, km_error *err) {
    uint64_t bad;
    KM_TRY(km_cuda_get(load->engine, load->results, load->bad, count * 8, err));
    memcpy(&bad, load->results, sizeof bad);
    return bad == UINT64_MAX ? KM_OK : check_values(load, err);
}

static km_status reserve_tables(loader *load, km_error *err) {
    km_cuda_engine *engine = load->engine;
    int64_t d8 = km_divide_up(load->d * 8, KM_ALIGN_BYTES) * KM_ALIGN_BYTES,
            partial = parts_of_all(load, 1) * 4 * d8, results = 2 * 8 + 4 * d8;
    partial = km_max(partial, parts_of_all(load, KM_SUBCHUNKS_PER_CHUNK) * 8);
    // As large as any step of loading needs.
    int64_t bytes = 3 * d8 + KM_ALIGN_BYTES + results + partial, all;
    all = km_cuda_steps_of(engine->base.plan, load->n).work;
    KM_TRY(
        km_cuda_reserve(engine, &engine->work, bytes > all ? bytes : all, "the statistics of the data", err));
    load->origin = engine->work.address;
    load->centre = load->origin + (km_cu_ptr)d8;
    load->factor = load->centre + (km_cu_ptr)d8;
    load->bad = load->factor + (km_cu_ptr)d8; // results are adjacent: one copy reads them
    load->sum = load->bad + 8;
    load->reduced = load->sum + 8; // 4 x d
    load->partial = load->bad + (km_cu_ptr)(km_divide_up(results, KM_ALIGN_BYTES) * KM_ALIGN_BYTES);
    load->results = malloc((size_t)(2 + 5 * load->d) * sizeof(double));
    if (!load->results) return km_fail_memory(err, "the statistics of the data", (2 + 5 * load->d) * 8);
    load->numbers = load->results + 2;
    load->first = load->numbers + 4 * load->d;
    return KM_OK;
}

// numbers: sums of w (x - origin), of w (x - origin)^2; smallest and largest values; d each.
static km_status sums(loader *load, const double *origin, km_error *err) {
    km_cuda_engine *engine = load->engine;
    const km_cuda_kernels *kernels = engine->kernels;
    int64_t per_block = load->d < KM_THREADS ? load->d : KM_THREADS;
    void *sum_arguments[] = {&load->raw,    &engine->weights.address, &load->n,
                             &load->origin, &load->partial,           &load->bad};
    long long chunks = parts_of_all(load, 1);
    void *reduce_arguments[] = {&load->partial, &chunks, &load->reduced};
    KM_TRY(km_cuda_put(engine, load->origin, origin, load->d * 8, err));
    KM_TRY(km_cuda_launch(engine,
                          load->raw_type == KM_FLOAT32 ? kernels->load_sums_f32 : kernels->load_sums_f64,
                          engine->chunks_count, km_divide_up(load->d, per_block), sum_arguments, err));
    KM_TRY(agree(load, err));
    KM_TRY(km_cuda_gather(engine, load->partial, load->partial, chunks, km_share_chunk(engine->base.share),
                          engine->chunks_count, 4 * load->d, err));
    KM_TRY(km_cuda_launch(engine, kernels->load_reduce, 4 * km_divide_up(load->d, KM_REDUCED_NUMBERS), 1,
                          reduce_arguments, err));
    return get_results(load, 2 + 4 * load->d, err);
}

// Mean and variance from sums around `origin`. False where that is so far from the mean that the variance loses digits.
static int take_statistics(const loader *load, km_data_stats *stats, const double *origin) {
    const double ratio_max = 64; // variances: 6 of 53 bits
    int is_near = 1;
    for (int64_t f = 0, d = load->d; f < d; f++) {
        double away = load->numbers[f] / stats->total_weight;
        stats->mean[f] = origin[f] + away;
        stats->variance[f] = load->numbers[d + f] / stats->total_weight - away * away;
        stats->minimum[f] = load->numbers[2 * d + f];
        stats->maximum[f] = load->numbers[3 * d + f];
        is_near &= away * away <= ratio_max * stats->variance[f];
    }
    return is_near;
}

// One read of the points, with the first point as origin; and another, with the mean, where the first is far from it.
static km_status statistics(loader *load, km_data_stats *stats, km_error *err) {
    km_cuda_engine *engine = load->engine;
    KM_TRY(km_cuda_clear(engine, load->bad, 0xff, 8, err));
    KM_TRY(add_subchunks(load, engine->subchunk_weights.address, err));
    if (engine->base.share)
        KM_TRY(km_data_read_shared(load->first, load->data, &(int64_t){0}, 1, err));
    else
        KM_TRY(km_data_read(load->first, load->data, 0, 1, KM_FLOAT64, err));
    KM_TRY(sums(load, load->first, err));
    stats->total_weight = load->results[1];
    if (take_statistics(load, stats, load->first)) return KM_OK;
    for (int64_t f = 0; f < load->d; f++) load->first[f] = isfinite(stats->mean[f]) ? stats->mean[f] : 0;
    KM_TRY(sums(load, load->first, err));
    take_statistics(load, stats, load->first);
    return KM_OK;
}

// Centres and scales the points, in place if their type is the plan's.
static km_status transform(loader *load, double *total_square, const km_load_params *params, km_error *err) {
    km_cuda_engine *engine = load->engine;
    const km_cuda_kernels *kernels = engine->kernels;
    KM_TRY(km_cuda_put(engine, load->centre, params->centre, load->d * 8, err));
    KM_TRY(km_cuda_put(engine, load->factor, params->factor, load->d * 8, err));
    void *arguments[] = {&load->raw,    &engine->weights.address, &load->n,   &load->centre,
                         &load->factor, &engine->points.address,  &load->bad, &load->partial};
    KM_TRY(km_cuda_launch(
        engine, load->raw_type == KM_FLOAT32 ? kernels->load_transform_f32 : kernels->load_transform_f64,
        engine->subchunks_count, 1, arguments, err));
    KM_TRY(agree(load, err));
    KM_TRY(add_subchunks(load, load->partial, err));
    KM_TRY(get_results(load, 2, err));
    *total_square = load->results[1];
    return KM_OK;
}

static double round_to(km_type type, double value) {
    return type == KM_FLOAT32 ? (double)(float)value : value;
}

// Rounding keeps order, so the bounds of centred and scaled points follow from those of the original ones.
km_status km_cuda_load_box(km_cuda_engine *engine, const km_data_stats *stats, const km_load_params *params,
                           km_error *err) {
    int64_t d = engine->base.d;
    km_type type = engine->base.plan->spec.type;
    // With the cosine the update finds centre and factor behind it.
    int64_t numbers = engine->base.plan->spec.metric == KM_METRIC_COSINE ? 3 * d + 1 : 2 * d;
    double *box = malloc((size_t)numbers * sizeof *box);
    if (!box) return km_fail_memory(err, "the box of the points", numbers * 8);
    for (int64_t f = 0; f < d; f++) {
        double a = round_to(type, (stats->minimum[f] - params->centre[f]) * params->factor[f]);
        double b = round_to(type, (stats->maximum[f] - params->centre[f]) * params->factor[f]);
        box[f] = a < b ? a : b;
        box[d + f] = a < b ? b : a;
    }
    if (numbers > 2 * d) {
        memcpy(box + 2 * d, params->centre, (size_t)d * sizeof *box);
        box[3 * d] = params->factor[0]; // rows of length 1 are not scaled, so all are the fit's power of two
    }
    km_status status = km_cuda_reserve(engine, &engine->box, numbers * 8, "the box of the points", err);
    if (status == KM_OK) status = km_cuda_put(engine, engine->box.address, box, numbers * 8, err);
    free(box);
    return status;
}

km_status km_cuda_load_end(km_cuda_engine *engine, const km_data_stats *stats, km_error *err) {
    double rounding2 = km_mean_rounding2(engine->base.n_all, engine->base.plan->spec.type);
    engine->total_square = stats->total_square;
    engine->rounding_shift = rounding2 * stats->total_square / stats->total_weight;
    engine->square_min = rounding2 * stats->typical_square;
    engine->rounding2 = rounding2;
    km_cuda_relocate_forget(engine);
    km_cuda_release(engine, &engine->scratch); // the original points are not needed again
    engine->prepared = 0;
    return km_cuda_reserve_slots(engine, err);
}

static km_status loader_init(loader *load, km_cuda_engine *engine, const km_data *data, km_error *err) {
    *load = (loader){.engine = engine, .data = data, .n = km_data_points(data), .d = km_data_features(data)};
    if (load->n < 1) return km_fail(err, KM_ERROR_DATA, "%s has no points", km_data_name(data));
    load->base = km_data_base(data, KM_FLOAT32);
    load->raw_type = load->base ? KM_FLOAT32 : KM_FLOAT64;
    if (km_data_draws(data)) load->raw_type = km_data_draws(data)->type;
    if (!load->base) load->base = km_data_base(data, KM_FLOAT64);
    const km_resident *resident = km_data_resident(data);
    if (resident && resident->ordinal == engine->device->ordinal) {
        load->raw_type = resident->type;
        load->lying = (km_cu_ptr)(uintptr_t)resident->address +
                      (km_cu_ptr)(km_data_resident_first(data) * load->d * km_type_bytes(resident->type));
    }
    return KM_OK;
}

km_status km_cuda_fetch(km_cuda_engine *engine, const km_data *data, km_error *err) {
    loader load;
    KM_TRY(loader_init(&load, engine, data, err));
    return fetch_points(&load, err);
}

km_status km_cuda_load(km_cuda_engine *engine, km_data_stats *stats, const km_data *data,
                       km_load_params *params, km_error *err) {
    km_status status = KM_OK;
    const km_spec *spec = &engine->base.plan->spec;
    loader load;
    if (km_data_features(data) != engine->base.d)
        return km_fail(err, KM_ERROR_DATA, "%s has %lld features, the module is for %lld", km_data_name(data),
                       (long long)km_data_features(data), (long long)engine->base.d);
    if (engine->fetched ? engine->fetched != data : engine->points.address != 0)
        return km_fail(err, KM_ERROR_INTERNAL, "the engine has points already");
    KM_TRY(loader_init(&load, engine, data, err));
    engine->base.n = engine->base.n_all = load.n;
    if (engine->base.share) engine->base.n_all = engine->base.share->n_all;
    engine->subchunks_count = km_divide_up(load.n, KM_SUBCHUNK_POINTS);
    engine->chunks_count = km_divide_up(load.n, KM_CHUNK_POINTS);
    if (engine->is_csr) return km_cuda_load_sparse(engine, stats, data, params, err);
    KM_TRY_GOTO(reserve_tables(&load, err));
    KM_TRY_GOTO(fetch_points(&load, err));
    load.raw = load.lying ? load.lying : raw_memory(&load)->address;
    engine->fetched = NULL; // from here on the original points are overwritten
    KM_TRY_GOTO(km_cuda_load_weights(engine, data, err));
    KM_TRY_GOTO(statistics(&load, stats, err));
    KM_TRY_GOTO(report_transfer(&load, err));
    status = km_transform_choose(params, stats, data, spec->type, err);
    if (status == KM_ERROR_DATA) status = km_share_agree(engine->base.share, status, err); // all found it
    if (status != KM_OK) goto done;
    KM_TRY_GOTO(transform(&load, &stats->total_square, params, err));
    KM_TRY_GOTO(km_cuda_load_box(engine, stats, params, err));
    status = km_cuda_load_end(engine, stats, err);
done:
    if (status != KM_OK) { // the engine may try other points
        km_cuda_release(engine, &engine->points);
        engine->fetched = NULL;
    }
    free(load.results);
    return status;
}

// As many rows at once as the steps' memory holds, so that no more of it is needed once passes run.
km_status km_cuda_own_rows(km_cuda_engine *engine, double *out, const int64_t *indices, int64_t count,
                           km_error *err) {
    enum { BYTES_MIN = 1 << 20 };
    int64_t d = engine->base.d, row = (d + 1) * 8; // with its index
    for (int64_t i = 0; i < count; i++)
        if (indices[i] < 0 || indices[i] >= engine->base.n)
            return km_fail(err, KM_ERROR_INTERNAL, "row %lld of %lld", (long long)indices[i],
                           (long long)engine->base.n);
    int64_t least = km_min(count, km_max(1, BYTES_MIN / row));
    KM_TRY(km_cuda_reserve(engine, &engine->work, least * row + KM_ALIGN_BYTES, "rows of points", err));
    int64_t at_once = (engine->work.bytes - KM_ALIGN_BYTES) / row;
    for (int64_t first = 0; first < count; first += at_once) {
        int64_t piece = km_min(at_once, count - first);
        km_cu_ptr from = engine->work.address, to = from + (km_cu_ptr)km_round_up(piece * 8, KM_ALIGN_BYTES);
        KM_TRY(km_cuda_put(engine, from, indices + first, piece * 8, err));
        void *arguments[] = {&engine->points.address, &from, &piece, &to};
        KM_TRY(km_cuda_launch(engine, engine->kernels->rows, km_divide_up(piece * d, KM_THREADS), 1,
                              arguments, err));
        KM_TRY(km_cuda_get(engine, out + first * d, to, piece * d * 8, err));
    }
    return KM_OK;
}

km_status km_cuda_rows(km_cuda_engine *engine, double *out, const int64_t *indices, int64_t count,
                       km_error *err) {
    km_share *share = engine->base.share;
    if (!share) return km_cuda_own_rows(engine, out, indices, count, err);
    int64_t d = engine->base.d, own_count = 0;
    int64_t *own = malloc((size_t)(count + 1) * sizeof *own);
    double *rows = malloc((size_t)(count * d + 1) * sizeof *rows);
    km_status status = own && rows ? KM_OK : km_fail_memory(err, "rows of points", count * (d + 1) * 8);
    for (int64_t i = 0; i < count && status == KM_OK; i++)
        if (km_share_has(share, indices[i])) own[own_count++] = indices[i] - share->first;
    if (status == KM_OK && own_count > 0) status = km_cuda_own_rows(engine, rows, own, own_count, err);
    memset(out, 0, (size_t)(count * d) * sizeof *out);
    for (int64_t i = 0, at = 0; i < count && status == KM_OK; i++)
        if (km_share_has(share, indices[i])) memcpy(out + i * d, rows + at++ * d, (size_t)d * sizeof *out);
    free(own);
    free(rows);
    return status == KM_OK ? km_share_sum(share, out, count * d, err) : status;
}

// SPDX-License-Identifier: MIT
// A fit on several GPUs of this machine: ranks (share.h), each a thread with a GPU and its chunks of the points. The
// first is the caller's thread and asks its callback; the result is the first's, with the labels of all.
#include "../../base/error.h"
#include "../../base/log.h"
#include "../../base/size.h"
#include "../share.h"
#include "devices.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The sum of what all ranks come with. The next one begins when all have taken it.
typedef struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int64_t size, arrived, left;
    double *sums;
    int64_t room;
    int is_lost; // a rank has failed
} meeting;

typedef struct gpu_rank {
    meeting *at;
    km_communicator communicator;
    km_fit_params params;
    const km_spec *spec;
    km_data *part;
    km_result *result;
    km_status status;
    km_error err;
    pthread_t thread;
    int is_running;
} gpu_rank;

static void lose(meeting *m) {
    m->is_lost = 1;
    pthread_cond_broadcast(&m->moved);
}

static int add(meeting *m, const double *values, int64_t count) {
    if (m->arrived == 0 && m->room < count) {
        double *more = realloc(m->sums, (size_t)count * sizeof *more);
        if (!more) return 0;
        m->sums = more;
        m->room = count;
    }
    for (int64_t i = 0; i < count; i++) m->sums[i] = m->arrived == 0 ? values[i] : m->sums[i] + values[i];
    return 1;
}

static int sum(void *user, double *values, int64_t count) {
    meeting *m = ((gpu_rank *)user)->at;
    pthread_mutex_lock(&m->lock);
    while (m->left > 0 && !m->is_lost) pthread_cond_wait(&m->moved, &m->lock); // of the sum before
    if (!m->is_lost && !add(m, values, count)) lose(m);
    if (!m->is_lost && ++m->arrived == m->size) {
        m->left = m->size;
        m->arrived = 0;
        pthread_cond_broadcast(&m->moved);
    }
    while (m->left == 0 && !m->is_lost) pthread_cond_wait(&m->moved, &m->lock);
    if (m->left > 0) {
        memcpy(values, m->sums, (size_t)count * sizeof *values);
        if (--m->left == 0) pthread_cond_broadcast(&m->moved);
    }
    int is_lost = m->is_lost;
    pthread_mutex_unlock(&m->lock);
    return is_lost;
}

static void fail(void *user, const char *sentence) {
    meeting *m = ((gpu_rank *)user)->at;
    (void)sentence; // the rank's own error has it
    pthread_mutex_lock(&m->lock);
    lose(m);
    pthread_mutex_unlock(&m->lock);
}

static int is_lost(void *user) {
    meeting *m = ((gpu_rank *)user)->at;
    pthread_mutex_lock(&m->lock);
    int lost = m->is_lost;
    pthread_mutex_unlock(&m->lock);
    return lost;
}

static void *run(void *user) {
    gpu_rank *own = user;
    own->status = km_fit(&own->result, own->spec, own->part, &own->params, &own->err);
    return NULL;
}

// The labels of all parts, in the first one's result.
static km_status join_labels(gpu_rank *all, int64_t count, int64_t n, km_error *err) {
    km_result *first = all[0].result;
    km_model *models = (km_model *)first->models; // the result's own
    for (int64_t m = 0; m < first->models_count; m++) {
        if (!models[m].labels) continue;
        int32_t *labels = km_result_alloc_large((km_result_owner *)first, n, sizeof *labels, err);
        if (!labels) return KM_ERROR_MEMORY;
        for (int64_t r = 0; r < count; r++) {
            const km_result *of = all[r].result;
            memcpy(labels + of->first_row, of->models[m].labels, (size_t)of->rows * sizeof *labels);
        }
        models[m].labels = labels;
        models[m].labels_elsewhere = 0;
    }
    first->rows = first->rows_all;
    return KM_OK;
}

// The error of the rank that failed by itself; the others say that another one has ended.
static km_status first_error(const gpu_rank *all, int64_t count, km_error *err) {
    const gpu_rank *wrong = NULL;
    for (int64_t r = 0; r < count; r++) {
        const gpu_rank *own = &all[r];
        if (own->status == KM_OK) continue;
        int is_own = own->status != KM_ERROR_IO || !strstr(own->err.text, "another rank has ended");
        if (!wrong || (is_own && wrong->status == KM_ERROR_IO)) wrong = own;
        if (is_own) break;
    }
    return wrong ? km_fail(err, wrong->status, "%s", wrong->err.text) : KM_OK;
}

static km_status fit_on(km_result **out, const km_spec *spec, const km_data *data,
                        const km_fit_params *params, int64_t count, km_error *err) {
    meeting m = {.size = count};
    gpu_rank *all = calloc((size_t)count, sizeof *all);
    km_status status = KM_OK;
    if (!all) return km_fail_memory(err, "the ranks of GPUs", count * (int64_t)sizeof *all);
    pthread_mutex_init(&m.lock, NULL);
    pthread_cond_init(&m.moved, NULL);
    for (int64_t r = 0; r < count && status == KM_OK; r++) {
        int64_t first, points;
        gpu_rank *own = &all[r];
        *own = (gpu_rank){.at = &m, .spec = spec, .params = *params};
        own->communicator = (km_communicator){r, count, count, sum, fail, own, is_lost};
        own->params.communicator = &own->communicator;
        own->params.device = params->devices[r];
        own->params.devices_count = 0;
        if (r > 0) {
            own->params.log = NULL;
            own->params.progress = NULL;
        }
        km_share_of(&first, &points, km_data_points(data), r, count);
        status = km_data_range(&own->part, data, first, points, err);
    }
    for (int64_t r = 1; r < count && status == KM_OK; r++) {
        all[r].is_running = pthread_create(&all[r].thread, NULL, run, &all[r]) == 0;
        if (!all[r].is_running) {
            status = km_fail(err, KM_ERROR_MEMORY, "no thread for GPU %d", params->devices[r]);
            fail(&all[r], "");
        }
    }
    if (status == KM_OK) run(&all[0]);
    for (int64_t r = 1; r < count; r++)
        if (all[r].is_running) pthread_join(all[r].thread, NULL);
    if (status == KM_OK) status = first_error(all, count, err);
    if (status == KM_OK) status = join_labels(all, count, km_data_points(data), err);
    if (status == KM_OK) {
        *out = all[0].result;
        all[0].result = NULL;
    }
    for (int64_t r = 0; r < count; r++) {
        km_result_destroy(&all[r].result);
        km_data_destroy(&all[r].part);
    }
    free(m.sums);
    free(all);
    pthread_mutex_destroy(&m.lock);
    pthread_cond_destroy(&m.moved);
    return status;
}

// By the plan that so many would share, on one GPU: a pass over all points, and of a whole fit what several share, the
// copy of the points and all passes. Both 0: it has not the memory for them. KM_ERROR_PLAN, with the reason.
typedef struct estimate {
    double pass_ms, fit_ms;
} estimate;

static km_status estimate_of(estimate *out, int64_t ranks, const km_spec *spec, const km_data *data,
                             const km_fit_params *params, km_error *err) {
    km_fit_time time;
    km_plan plan;
    km_fit_params one = *params;
    one.device = params->devices[0];
    one.devices_count = 0;
    km_plan_init(&plan);
    km_status status = km_fit_plan_share(&plan, spec, data, &one, ranks, err);
    int has_room = status == KM_OK && !plan.streams; // else several hold what one does not
    *out = (estimate){0, 0};
    if (has_room) {
        km_plan_fit_time(&time, &plan, params->max_iter ? params->max_iter : plan.spec.max_iter);
        out->pass_ms = plan.estimates[plan.design].total_ns * (double)plan.points * 1e-6;
        out->fit_ms = time.transfer_ms + time.passes_ms;
    }
    km_plan_clear(&plan);
    return status == KM_ERROR_MEMORY ? KM_OK : status;
}

// How many of `most` make the whole fit shortest; the first is open.
static int64_t how_many_pay(int64_t most, const estimate *alone, const estimate *shared, double open_ms) {
    int64_t best = 1;
    double least_ms = alone->fit_ms;
    if (!(open_ms > 0)) return most;
    for (int64_t count = 2; count <= most; count++) {
        double ms = shared->fit_ms / (double)count + (double)(count - 1) * open_ms;
        if (ms < least_ms) best = count;
        least_ms = fmin(least_ms, ms);
    }
    return best;
}

// How many GPUs have enough to do: as many of which each takes 100 us for its part of a pass, beside a join of some 15
// us, if that is less than one takes by its best design, and if the fit saves what it takes to open them. `why`: where
// not all do.
static km_status choose(int64_t *count, char *why, size_t size, const km_spec *spec, const km_data *data,
                        const km_fit_params *params, km_error *err) {
    const double part_ms = 0.1, join_ms = 0.015;
    estimate alone, shared;
    km_error reason = {{0}};
    int64_t chunks = km_chunks_of(km_data_points(data));
    *count = km_min(params->devices_count, km_max(chunks, 1));
    km_status status = estimate_of(&shared, 2, spec, data, params, &reason);
    if (status == KM_ERROR_PLAN || status == KM_ERROR_SPEC) {
        *count = 1;
        snprintf(why, size, "%.*s", (int)size - 1, reason.text);
        return KM_OK;
    }
    if (status != KM_OK) return km_fail(err, status, "%s", reason.text);
    KM_TRY(estimate_of(&alone, 1, spec, data, params, err));
    if (shared.pass_ms == 0 || alone.pass_ms == 0) return KM_OK; // one has no room for all points
    *count = km_max(1, km_min(*count, (int64_t)(shared.pass_ms / part_ms)));
    if (shared.pass_ms / (double)*count + join_ms >= alone.pass_ms) *count = 1;
    snprintf(why, size, "a pass takes about %.2g ms on one, and more would cost more than they save",
             alone.pass_ms);
    int64_t pay = how_many_pay(*count, &alone, &shared, params->devices_open_ms);
    if (pay < *count)
        snprintf(why, size, "the fit takes about %.2g s on one, and each other GPU %.2g s until it is there",
                 alone.fit_ms * 1e-3, params->devices_open_ms * 1e-3);
    *count = pay;
    return KM_OK;
}

static km_status check(const km_spec *spec, const km_fit_params *params, km_error *err) {
    int known = km_device_count();
    if (params->communicator)
        return km_fail(err, KM_ERROR_USAGE,
                       "a rank has one GPU: leave either the communicator or devices out");
    if (spec->target.kind == KM_TARGET_CPU)
        return km_fail(err, KM_ERROR_USAGE, "devices are GPUs, and the target is the CPU");
    for (int64_t i = 0; i < params->devices_count && known > 0; i++) { // else the driver says why
        if (params->devices[i] < 0)
            return km_fail(err, KM_ERROR_USAGE, "device %d is no CUDA ordinal", params->devices[i]);
        if (params->devices[i] >= known)
            return km_fail(err, KM_ERROR_DEVICE, "device %d: the driver knows %d", params->devices[i], known);
        for (int64_t j = 0; j < i; j++)
            if (params->devices[i] == params->devices[j])
                return km_fail(err, KM_ERROR_USAGE, "device %d is named twice", params->devices[i]);
    }
    return KM_OK;
}

km_status km_fit_plan_on_devices(km_plan *plan, const km_spec *spec, const km_data *data,
                                 const km_fit_params *params, km_error *err) {
    int64_t count;
    char why[512] = "";
    km_error unasked = {{0}};
    km_fit_params one = *params;
    if (!err) err = &unasked;
    KM_TRY(check(spec, params, err));
    KM_TRY(choose(&count, why, sizeof why, spec, data, params, err));
    one.device = params->devices[0];
    one.devices_count = 0;
    return km_fit_plan_share(plan, spec, data, &one, count, err);
}

km_status km_fit_on_devices(km_result **out, const km_spec *spec, const km_data *data,
                            const km_fit_params *params, km_error *err) {
    int64_t count;
    char why[512] = "";
    km_error unasked = {{0}};
    km_device *held = NULL;
    if (!err) err = &unasked;
    *out = NULL;
    KM_TRY(check(spec, params, err));
    // Its context stays from the first plan on.
    KM_TRY(km_device_open(&held, params->devices[0], params->compiler, NULL, err));
    km_status status = choose(&count, why, sizeof why, spec, data, params, err);
    if (status == KM_OK && count > 1) {
        km_log_line(params->log, KM_LOG_INFO, "devices: %lld GPUs share the points", (long long)count);
        status = fit_on(out, spec, data, params, count, err);
    } else if (status == KM_OK) {
        km_fit_params one = *params;
        one.device = params->devices[0];
        one.devices_count = 0;
        status = km_fit(out, spec, data, &one, err);
        count = 1;
    }
    km_device_close(&held);
    if (status == KM_OK && count < params->devices_count)
        km_result_warn((km_result_owner *)*out, params->log, "%lld of %lld GPUs %s used: %s",
                       (long long)count, (long long)params->devices_count, count == 1 ? "is" : "are", why);
    return status;
}

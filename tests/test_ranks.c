// SPDX-License-Identifier: MIT
// Several ranks with a share of the points each find what one process finds, to the last bit. Here they are threads:
// the library knows a communicator, not what is behind it.
#include "quiet_check.h"
#include "reference.h"
#include "gen/memory.h"
#include "runtime/cuda/nccl.h"
#include "runtime/fit/devices.h"
#include "runtime/sweep.h"
#include "short_form.h"
#include <kmgen/data.h>
#include <kmgen/fit.h>
#include <kmgen/module.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS_MAX = 7 };

// Ranks as threads ------------------------------------------------------------------------------------------

// Ranks add in the order in which they come, which differs from time to time.
typedef struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int64_t size, arrived, left, count, calls;
    double *sums;
    int is_lost; // a rank has gone
    int is_odd;  // ranks came with different counts
    int64_t failures;
    char sentence[1024]; // of the first that failed alone
} meeting;

typedef struct rank {
    meeting *at;
    km_communicator communicator;
    const ref_data *points;
    const void *values;
    int64_t first, count;
    km_spec *spec;
    km_fit_params params;
    const double *weights;
    km_status status;
    km_error err;
    km_result *result;
    int64_t stop_at, asked; // the callback's question that this rank answers by a stop; 0: none
    int how;                // it stops
    int64_t call_passes;    // between two questions of the sweep, at most; 0: as they come
    int was_refined;        // it was asked in the refinement
    int64_t lose_at, sums;  // the sum that this rank does not come to
} rank;

static int sum(void *user, double *values, int64_t count) {
    rank *r = user;
    meeting *m = r->at;
    if (++r->sums == r->lose_at) m->is_lost = 1;
    pthread_mutex_lock(&m->lock);
    while (m->left > 0 && !m->is_lost) pthread_cond_wait(&m->moved, &m->lock); // the meeting before
    if (m->arrived == 0) {
        m->count = count;
        m->sums = realloc(m->sums, (size_t)count * sizeof *m->sums);
        memset(m->sums, 0, (size_t)count * sizeof *m->sums);
        m->calls++;
    }
    m->is_odd |= m->count != count;
    m->is_lost |= m->is_odd;
    for (int64_t i = 0; i < count && !m->is_lost; i++) m->sums[i] += values[i];
    if (++m->arrived == m->size) {
        m->left = m->size;
        m->arrived = 0;
    }
    pthread_cond_broadcast(&m->moved);
    while (m->left == 0 && !m->is_lost) pthread_cond_wait(&m->moved, &m->lock);
    if (!m->is_lost) {
        memcpy(values, m->sums, (size_t)count * sizeof *values);
        m->left--;
    }
    int is_lost = m->is_lost;
    pthread_cond_broadcast(&m->moved);
    pthread_mutex_unlock(&m->lock);
    return is_lost;
}

static void end_all(void *user, const char *sentence) {
    meeting *m = ((rank *)user)->at;
    pthread_mutex_lock(&m->lock);
    if (m->failures++ == 0) snprintf(m->sentence, sizeof m->sentence, "%s", sentence);
    m->is_lost = 1;
    pthread_cond_broadcast(&m->moved);
    pthread_mutex_unlock(&m->lock);
}

static int answer(void *user, const km_progress *progress) {
    rank *r = user;
    r->was_refined |= !strcmp(progress->phase, "refine");
    return r->stop_at && ++r->asked >= r->stop_at ? r->how : 0;
}

static void *run(void *user) {
    rank *r = user;
    km_data *data = NULL;
    const char *values = r->values;
    int64_t row = r->points->d * (r->points->type == KM_FLOAT64 ? 8 : 4);
    r->status = km_data_from_memory(&data, values + r->first * row, r->count, r->points->d, r->points->type,
                                    0, 0, r->weights ? r->weights + r->first : NULL, &r->err);
    if (r->call_passes) km_sweep_call_passes = r->call_passes;
    if (r->status == KM_OK) r->status = km_fit(&r->result, r->spec, data, &r->params, &r->err);
    km_data_destroy(&data);
    return NULL;
}

typedef struct job {
    ref_data points;
    void *values;
    km_spec spec;
    km_fit_params params;
} job;

static job job_open(ref_data points, const char *clusters, int64_t n_init) {
    job j = {.points = points, .values = ref_values(&points)};
    km_error err = {{0}};
    km_spec_init(&j.spec);
    ck_assert_int_eq(km_spec_set_clusters(&j.spec, clusters, &err), KM_OK);
    j.spec.type = points.type;
    j.spec.n_init = n_init;
    km_fit_params_init(&j.params);
    j.params.device = KM_HOST;
    j.params.seed = 3;
    j.params.max_iter = 8;
    j.params.labels = KM_LABELS_ALL;
    j.params.threads = 2;
    return j;
}

static void job_close(job *j) {
    km_spec_clear(&j->spec);
    free(j->values);
    ref_data_free(&j->points);
}

// `size` ranks that each have a thread, or two for every other one.
static void meet(rank *ranks, meeting *m, const job *j, int64_t size, km_spec *spec) {
    *m = (meeting){.size = size};
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->moved, NULL);
    for (int64_t r = 0; r < size; r++) {
        rank *own = &ranks[r];
        *own = (rank){.at = m,
                      .communicator = {r, size, 0, sum, end_all, own},
                      .points = &j->points,
                      .values = j->values,
                      .spec = spec,
                      .params = j->params,
                      .weights = j->points.w};
        km_share_of(&own->first, &own->count, j->points.n, r, size);
        own->params.threads = 1 + r % 2;
        own->params.communicator = &own->communicator;
        if (j->params.device != KM_HOST) own->params.device = (int)(r % km_device_count());
        own->params.progress = answer;
        own->params.progress_user = own;
    }
}

static void go(rank *ranks, meeting *m) {
    pthread_t threads[RANKS_MAX];
    for (int64_t r = 0; r < m->size; r++)
        ck_assert_int_eq(pthread_create(&threads[r], NULL, run, &ranks[r]), 0);
    for (int64_t r = 0; r < m->size; r++) pthread_join(threads[r], NULL);
    ck_assert_msg(!m->is_odd, "ranks came to a sum with different counts");
}

static void part(rank *ranks, meeting *m) {
    for (int64_t r = 0; r < m->size; r++) km_result_destroy(&ranks[r].result);
    free(m->sums);
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->moved);
}

// The same bits ---------------------------------------------------------------------------------------------

static km_result *fit_alone(const job *j) {
    km_error err = {{0}};
    km_result *result = NULL;
    km_fit_params params = j->params;
    km_data *data = NULL;
    km_spec spec;
    km_spec_init(&spec);
    ck_assert_int_eq(km_spec_copy(&spec, &j->spec, &err), KM_OK);
    if (params.device != KM_HOST) ck_assert_int_eq(km_spec_fix(&spec, "design", "tensor", &err), KM_OK);
    params.algorithm = KM_ALGORITHM_LLOYD;
    ck_assert_int_eq(km_data_from_memory(&data, j->values, j->points.n, j->points.d, j->points.type, 0, 0,
                                         j->points.w, &err),
                     KM_OK);
    km_status status = km_fit(&result, &spec, data, &params, &err);
    ck_assert_msg(status == KM_OK, "%s", err.text);
    km_data_destroy(&data);
    km_spec_clear(&spec);
    return result;
}

static void check_rank(const rank *r, const km_result *alone, int64_t size) {
    ck_assert_msg(r->status == KM_OK, "rank %d of %d: %s", (int)r->communicator.rank, (int)size, r->err.text);
    const km_result *own = r->result;
    ck_assert_int_eq(own->n, alone->n);
    ck_assert_int_eq(own->rows, r->count);
    ck_assert_int_eq(own->first_row, r->first);
    ck_assert_int_eq(own->rows_all, alone->n);
    for (int64_t m = 0; m < alone->models_count; m++) {
        const km_model *a = &alone->models[m], *b = &own->models[m];
        ck_assert_msg(memcmp(a->centroids, b->centroids, (size_t)(a->k * own->d) * sizeof(double)) == 0,
                      "other centroids of K=%d on rank %d of %d", a->k, (int)r->communicator.rank, (int)size);
        ck_assert_double_eq(a->inertia, b->inertia);
        if (r->params.labels == KM_LABELS_ALL && r->count)
            ck_assert(memcmp(a->labels + r->first, b->labels, (size_t)r->count * sizeof(int32_t)) == 0);
    }
    ck_assert_msg(km_result_digest(own) == km_result_digest(alone), "another digest on rank %d of %d",
                  (int)r->communicator.rank, (int)size);
}

// The short form takes seven ranks, of which some have no points, and another number in turn, sanitizers one of these;
// where each rank works on pairs of points, it takes two.
static int is_left_out(int64_t size, int kind, int has_pairs) {
    if (is_whole()) return 0;
    if (has_pairs) return size != 2;
    return is_sample() ? size != 2 + kind % 2 : size != 7 && size != 1 + kind % 3;
}

static void check_ranks(const job *j, int kind) {
    static const int64_t sizes[] = {1, 2, 3, 7};
    km_result *alone = fit_alone(j);
    for (int i = 0; i < 4; i++) {
        rank ranks[RANKS_MAX];
        meeting m;
        km_spec spec = j->spec;
        int has_pairs = j->params.criteria >> KM_CRITERION_silhouette_euclidean & 1;
        int is_out = j->params.device == KM_HOST
                         ? is_left_out(sizes[i], kind, has_pairs)
                         : sizes[i] * KM_SHARE_POINTS > j->points.n; // a GPU has points
        if (is_out) continue;
        meet(ranks, &m, j, sizes[i], &spec);
        go(ranks, &m);
        for (int64_t r = 0; r < m.size; r++) check_rank(&ranks[r], alone, m.size);
        ck_assert_int_eq(m.failures, 0);
        part(ranks, &m);
    }
    km_result_destroy(&alone);
}

// Clusters; equal points and ties; one point far out; weights; rows of one direction; quartiles; random starts; a point
// a cluster, so that some stay empty and are moved.
START_TEST(same_bits_on_any_number_of_ranks) {
    enum { BLOBS, GRID, FAR, WEIGHTS, COSINE, ROBUST, RANDOM, EMPTY };
    const km_type type = _i % 2 ? KM_FLOAT64 : KM_FLOAT32;
    const int kind = _i / 2;
    if (!is_whole() && kind % 2 != _i % 2) return;
    if (is_sample() && (kind == GRID || kind == FAR)) return; // other numbers, no other way
    // In the short form so many that three ranks have points; two where each works on pairs of points.
    int64_t n = is_whole() ? 480011 : kind == WEIGHTS ? 80003 : 140009;
    ref_data points = kind == GRID || kind == EMPTY ? ref_grid(n, 4, kind == GRID ? 4 : 2, 23, type)
                                                    : ref_blobs(n, 4, 6, 3.0, 23, type);
    if (kind == FAR) points.x[n / 3 * 4 + 1] = ref_round(3e7, type);
    if (kind == WEIGHTS) ref_weigh(&points, 5);
    job j = job_open(points, kind == EMPTY ? "12,18" : "2..5", 2);
    if (kind == COSINE) j.spec.metric = KM_METRIC_COSINE;
    if (kind == ROBUST) j.params.scale = KM_SCALE_ROBUST;
    if (kind == RANDOM) j.params.init = KM_INIT_RANDOM;
    if (kind == BLOBS) {
        j.params.criteria = (uint64_t)1 << KM_CRITERION_silhouette;
        // It fits many samples, here of few K, which no sanitizer need see once more.
        if (!is_sample()) j.params.criteria |= (uint64_t)1 << KM_CRITERION_stability;
        if (!is_whole()) j.spec.clusters_count = 2;
    }
    if (kind == WEIGHTS && !is_sample()) j.params.criteria = (uint64_t)1 << KM_CRITERION_silhouette_euclidean;
    if (kind == ROBUST) j.params.labels = KM_LABELS_BEST;
    check_ranks(&j, kind);
    job_close(&j);
}
END_TEST

static void remove_cache(const char *folder) {
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}

// Points that stay on the host but for those of some windows, as `bound` leaves room for: on ranks of GPUs the bits of
// one that has them all.
static void check_streaming(const job *j) {
    km_error err = {{0}};
    km_plan plan;
    km_data *data = NULL;
    job own = *j;
    km_result *alone = fit_alone(j);
    own.params.device_memory_max =
        1; // less than any plan takes: of the one that takes least, so much is given
    km_window_points = 16384;
    km_plan_init(&plan);
    ck_assert_int_eq(km_data_from_memory(&data, j->values, j->points.n, j->points.d, j->points.type, 0, 0,
                                         j->points.w, &err),
                     KM_OK);
    ck_assert_int_eq(km_fit_plan_share(&plan, &j->spec, data, &own.params, 2, &err), KM_ERROR_MEMORY);
    ck_assert(plan.streams);
    own.params.device_memory_max = plan.memory_bytes;
    km_plan_clear(&plan);
    km_data_destroy(&data);
    rank ranks[RANKS_MAX];
    meeting m;
    km_spec spec = j->spec;
    meet(ranks, &m, &own, 2, &spec);
    go(ranks, &m);
    for (int64_t r = 0; r < m.size; r++) {
        check_rank(&ranks[r], alone, m.size);
        ck_assert(ranks[r].result->plan.streams && ranks[r].result->plan.window_points == km_window_points);
        ck_assert_int_le(ranks[r].result->plan.memory_bytes, own.params.device_memory_max);
    }
    part(ranks, &m);
    km_result_destroy(&alone);
    km_window_points = 0;
}

// All GPUs that there are, in one call; so few points are for one alone.
static void check_devices(const job *j) {
    int devices[8], count = km_device_count();
    km_error err = {{0}};
    km_data *data = NULL;
    km_result *result = NULL, *alone = fit_alone(j);
    job own = *j;
    if (count > 8) count = 8;
    for (int i = 0; i < count; i++) devices[i] = i;
    own.params.devices = devices;
    own.params.devices_count = count;
    ck_assert_int_eq(km_data_from_memory(&data, j->values, j->points.n, j->points.d, j->points.type, 0, 0,
                                         j->points.w, &err),
                     KM_OK);
    km_spec_init(&own.spec);
    ck_assert_int_eq(km_spec_copy(&own.spec, &j->spec, &err), KM_OK);
    ck_assert_int_eq(km_spec_fix(&own.spec, "design", "tensor", &err), KM_OK);
    ck_assert_msg(km_fit(&result, &own.spec, data, &own.params, &err) == KM_OK, "%s", err.text);
    ck_assert(km_result_digest(result) == km_result_digest(alone));
    ck_assert(count < 2 || (result->warnings_count > 0 && strstr(result->warnings[result->warnings_count - 1],
                                                                 " GPUs is used: a pass takes about ")));
    km_spec_clear(&own.spec);
    km_data_destroy(&data);
    km_result_destroy(&result);
    km_result_destroy(&alone);
}

// The same of ranks with a GPU each, or with one for all.
START_TEST(same_bits_on_gpus) {
    if (km_device_count() == 0) return; // asked here: a driver does not outlive a fork
    enum { BLOBS, PAIRS, MANY, FAR, COSINE, ROBUST, RANDOM, EMPTY, CHANGES, RESTARTS };
    static const struct {
        int d;
        const char *ks;
    } shapes[] = {{8, "3..12"}, {2, "2..6"},   {24, "2..5"}, {4, "2..5"}, {4, "2..5"},
                  {12, "2..4"}, {4, "3,7,70"}, {4, "12,18"}, {4, "2..5"}, {3, "5"}};
    int d = shapes[_i].d;
    int64_t n = is_emulated() ? 140009 : 480011;
    if (is_few() && _i != PAIRS) return;
    ref_data points =
        _i == EMPTY ? ref_grid(n, d, 2, 23, KM_FLOAT32) : ref_blobs(n, d, 6, 3.0, 23, KM_FLOAT32);
    if (_i == FAR) points.x[n / 3 * d + 1] = ref_round(3e7, KM_FLOAT32);
    job j = job_open(points, shapes[_i].ks, _i == RESTARTS ? 20 : 2);
    j.params.device = 0;
    if (is_emulated()) j.params.max_iter = 3, j.params.refine = 0;
    char cache[] = "/tmp/kmgen-ranks-XXXXXX"; // one compilation for all
    ck_assert_ptr_nonnull(mkdtemp(cache));
    j.params.cache_dir = cache;
    if (_i == COSINE) j.spec.metric = KM_METRIC_COSINE;
    if (_i == ROBUST) j.params.scale = KM_SCALE_ROBUST;
    if (_i == RANDOM) j.params.init = KM_INIT_RANDOM;
    if (_i == CHANGES) j.params.changes_min = 2000;
    if (_i == BLOBS) j.params.criteria = (uint64_t)1 << KM_CRITERION_silhouette;
    const int64_t pass = km_cuda_nccl_pass;
    if (_i != PAIRS) km_cuda_nccl_pass = _i == BLOBS || _i == CHANGES ? 3 : 0; // where each rank has a GPU
    check_ranks(&j, _i);
    km_cuda_nccl_pass = pass;
    check_devices(&j);
    remove_cache(cache);
    job_close(&j);
}
END_TEST

// Points that stay on the host, of ranks with a GPU each, or one for all.
START_TEST(same_bits_where_gpus_stream) {
    if (km_device_count() == 0) return;
    enum { BLOBS, MANY, COSINE, EMPTY, CHANGES };
    static const struct {
        int d;
        const char *ks;
    } shapes[] = {{8, "3..12"}, {24, "2..5"}, {4, "2..5"}, {4, "12,18"}, {4, "2..5"}};
    int d = shapes[_i].d;
    int64_t n = is_emulated() ? 340011 : 1180011;
    ref_data points =
        _i == EMPTY ? ref_grid(n, d, 2, 23, KM_FLOAT32) : ref_blobs(n, d, 6, 3.0, 23, KM_FLOAT32);
    job j = job_open(points, shapes[_i].ks, 2);
    j.params.device = 0;
    if (is_emulated()) j.params.max_iter = 3, j.params.refine = 0;
    char cache[] = "/tmp/kmgen-ranks-XXXXXX"; // one compilation for all
    ck_assert_ptr_nonnull(mkdtemp(cache));
    j.params.cache_dir = cache;
    if (_i == COSINE) j.spec.metric = KM_METRIC_COSINE;
    if (_i == CHANGES) j.params.changes_min = 2000;
    if (_i == BLOBS) j.params.criteria = (uint64_t)1 << KM_CRITERION_silhouette;
    check_streaming(&j);
    remove_cache(cache);
    job_close(&j);
}
END_TEST

// A pass takes one sum, of as many numbers as the plan says.
START_TEST(a_pass_takes_one_sum) {
    job j = job_open(ref_blobs(140000, 3, 5, 3.0, 7, KM_FLOAT32), "6", 1);
    rank ranks[RANKS_MAX];
    meeting m;
    j.params.refine = 0;
    meet(ranks, &m, &j, 2, &j.spec);
    go(ranks, &m);
    for (int64_t r = 0; r < 2; r++) {
        ck_assert_msg(ranks[r].status == KM_OK, "%s", ranks[r].err.text);
        const km_result *result = ranks[r].result;
        ck_assert_int_gt(result->passes, 1);
        ck_assert_int_eq(result->counters.exchanges, result->passes);
        ck_assert_int_eq(result->counters.exchanged_bytes,
                         result->passes * km_plan_exchange_bytes(&result->plan));
    }
    part(ranks, &m);
    job_close(&j);
}
END_TEST

// What goes wrong -------------------------------------------------------------------------------------------

static void check_all_say(rank *ranks, const meeting *m, km_status status, const char *words) {
    for (int64_t r = 0; r < m->size; r++) {
        ck_assert_msg(ranks[r].status == status && strstr(ranks[r].err.text, words),
                      "rank %d: status %d, \"%s\" instead of \"%s\"", (int)r, (int)ranks[r].status,
                      ranks[r].err.text, words);
        ck_assert_ptr_null(ranks[r].result);
    }
}

START_TEST(all_say_what_one_finds) {
    job j = job_open(ref_blobs(200003, 4, 6, 3.0, 23, KM_FLOAT64), "2..4", 1);
    rank ranks[RANKS_MAX];
    meeting m;
    if (_i == 0) ((double *)j.values)[150005 * 4 + 1] = INFINITY;
    if (_i == 5) j.params.max_iter = -1;
    meet(ranks, &m, &j, 3, &j.spec);
    if (_i == 1) ranks[0].count -= 5;
    if (_i == 2) ranks[1].params.seed = 4;
    for (int r = 0; r < 3; r++) {
        if (_i == 3) ranks[r].params.algorithm = KM_ALGORITHM_TILES;
        if (_i == 4) ranks[r].params.criteria = (uint64_t)1 << KM_CRITERION_gap;
    }
    go(ranks, &m);
    static const struct {
        km_status status;
        const char *words;
    } wanted[] = {
        {KM_ERROR_DATA, "rank 1 of 3: "},
        {KM_ERROR_USAGE, "need a multiple of 65536"},
        {KM_ERROR_USAGE, "rank 1 has another plan or other parameters than rank 0"},
        {KM_ERROR_USAGE, "several ranks: their algorithm is lloyd"},
        {KM_ERROR_USAGE, "several ranks: gap"},
        {KM_ERROR_USAGE, "max_iter is -1"},
    };
    check_all_say(ranks, &m, wanted[_i].status, wanted[_i].words);
    if (_i == 0) ck_assert_msg(strstr(ranks[0].err.text, "infinite"), "%s", ranks[0].err.text);
    ck_assert_int_eq(m.failures, 0); // all know
    part(ranks, &m);
    job_close(&j);
}
END_TEST

// A value that no type tells apart from the rest is one rank's, and its row is named by all.
START_TEST(the_rank_that_has_it_names_the_row) {
    job j = job_open(ref_blobs(200003, 2, 6, 3.0, 23, KM_FLOAT64), "2..4", 1);
    rank ranks[RANKS_MAX];
    meeting m;
    ((double *)j.values)[150005 * 2 + 1] = 1e200;
    meet(ranks, &m, &j, 3, &j.spec);
    go(ranks, &m);
    check_all_say(ranks, &m, KM_ERROR_DATA, "1e+200");
    part(ranks, &m);
    job_close(&j);
}
END_TEST

// Stops ----------------------------------------------------------------------------------------------------

typedef struct stop {
    const char *phase;
    int64_t passes;
} stop;

static int stop_behind(void *user, const km_progress *progress) {
    const stop *s = user;
    return !strcmp(progress->phase, s->phase) && progress->passes >= s->passes ? KM_FIT_STOP_WITH_RESULT : 0;
}

// What one process finds that stops where these ranks did. Where they were in the refinement, or had ended it, their
// result does not say: both are tried.
static km_result *stop_alone(const job *j, const km_result *found, int was_refined) {
    stop behind = {was_refined ? "refine" : "sweep", was_refined ? found->refine_passes : found->passes};
    job own = *j;
    own.params.progress = stop_behind;
    own.params.progress_user = &behind;
    km_sweep_call_passes = 1;
    km_result *alone = fit_alone(&own);
    if (was_refined && km_result_digest(alone) != km_result_digest(found)) {
        km_result_destroy(&alone);
        behind = (stop){"finish", 0};
        alone = fit_alone(&own);
    }
    ck_assert(alone->interrupted);
    return alone;
}

// All ranks stop behind the same sum: all have the result of one process that stopped there, or none, and know it.
static int64_t check_stopped(rank *ranks, const meeting *m, const job *j, const km_result *whole) {
    const rank *first = &ranks[0];
    ck_assert_int_eq(m->failures, 0);
    if (first->status != KM_OK) {
        for (int64_t r = 0; r < m->size; r++) {
            ck_assert_msg(ranks[r].status == KM_ERROR_INTERRUPTED, "rank %d: %s", (int)r, ranks[r].err.text);
            ck_assert_ptr_null(ranks[r].result);
        }
        return 0;
    }
    int is_ended = first->result->interrupted;
    int was_refined = 0; // of the ranks that are asked
    for (int64_t r = 0; r < m->size; r++) was_refined |= ranks[r].was_refined;
    km_result *alone = is_ended ? stop_alone(j, first->result, was_refined) : NULL;
    for (int64_t r = 0; r < m->size; r++) {
        check_rank(&ranks[r], alone ? alone : whole, m->size);
        ck_assert_int_eq(ranks[r].result->interrupted, is_ended);
        ck_assert_int_eq(ranks[r].result->passes, first->result->passes);
    }
    km_result_destroy(&alone);
    return is_ended;
}

// The callback of any rank stops all, whatever it was asked in, and however many passes the calls of each have.
START_TEST(a_rank_stops_all) {
    enum { BLOBS, WEIGHTS, EMPTY };
    static const int64_t sizes[] = {1, 2, 3, 7};
    const int64_t n = is_sample() ? 70000 : 140009;
    ref_data points = _i == EMPTY ? ref_grid(n, 4, 2, 23, KM_FLOAT64)
                                  : ref_blobs(n, 4, 6, 3.0, 23, _i ? KM_FLOAT64 : KM_FLOAT32);
    if (_i == WEIGHTS) ref_weigh(&points, 5);
    job j = job_open(points, _i == EMPTY ? "12,18" : "2..5", 3);
    if (_i == WEIGHTS) j.params.criteria = (uint64_t)1 << KM_CRITERION_silhouette;
    km_result *whole = fit_alone(&j);
    uint64_t state = 77 + (uint64_t)_i;
    int64_t ended = 0;
    for (int round = 0; round < (is_whole() ? 60 : is_sample() ? 4 : 12); round++) {
        rank ranks[RANKS_MAX];
        meeting m;
        km_spec spec = j.spec;
        meet(ranks, &m, &j, sizes[round % 4], &spec);
        for (int64_t r = 0; r < m.size; r++)
            ranks[r].call_passes = 1 + (int64_t)((state = state * 0x5851f42d4c957f2dU + 1) >> 62);
        rank *stops = &ranks[(state >> 33) % (uint64_t)m.size];
        stops->stop_at = 1 + (int64_t)((state = state * 0x5851f42d4c957f2dU + 1) >> 33) % 60;
        stops->how = round % 5 == 4 ? 1 : KM_FIT_STOP_WITH_RESULT;
        if (m.size > 1 && round % 3 == 0) { // one is not asked at all
            rank *other = &ranks[stops == &ranks[0]];
            other->params.progress = NULL;
        }
        go(ranks, &m);
        ended += check_stopped(ranks, &m, &j, whole);
        part(ranks, &m);
    }
    ck_assert_int_gt(ended, 0);
    km_result_destroy(&whole);
    job_close(&j);
}
END_TEST

// A rank is lost at each of the sums in turn: the others end with a sentence.
START_TEST(a_lost_rank_ends_all) {
    job j = job_open(ref_blobs(140000, 4, 6, 3.0, 23, KM_FLOAT32), "2..4", 1);
    rank ranks[RANKS_MAX];
    meeting m;
    meet(ranks, &m, &j, 2, &j.spec);
    go(ranks, &m);
    int64_t sums = ranks[0].sums, step = is_whole() ? 1 : 1 + sums / (is_sample() ? 4 : 12);
    part(ranks, &m);
    ck_assert_int_gt(sums, 20);
    for (int64_t at = 1; at <= sums; at += step) {
        meet(ranks, &m, &j, 2, &j.spec);
        ranks[1].lose_at = at;
        go(ranks, &m);
        check_all_say(ranks, &m, KM_ERROR_IO, "another rank has ended");
        part(ranks, &m);
    }
    job_close(&j);
}
END_TEST

// A fit that was ended goes on ------------------------------------------------------------------------------

static int stop_in_sweep(void *user, const km_progress *progress) {
    return !strcmp(progress->phase, "sweep") && progress->done >= *(int64_t *)user;
}

static km_status fit_some(km_result **out, const job *j, const km_fit_params *params, km_error *err) {
    km_data *data = NULL;
    *err = (km_error){{0}};
    ck_assert_int_eq(km_data_from_memory(&data, j->values, j->points.n, j->points.d, j->points.type, 0, 0,
                                         j->points.w, err),
                     KM_OK);
    km_status status = km_fit(out, &j->spec, data, params, err);
    km_data_destroy(&data);
    return status;
}

static char kept[] = "/tmp/kmgen-kept-XXXXXX";

static void name_kept(void) {
    int file = mkstemp(kept);
    ck_assert_int_ge(file, 0);
    close(file);
}

// Ends a fit after so many runs, alone or by ranks, which leaves a checkpoint.
static void end_after(const job *j, int64_t runs, int64_t size) {
    km_error err;
    km_result *result = NULL;
    km_fit_params params = j->params;
    params.checkpoint = kept;
    params.checkpoint_s = 0;
    params.progress = stop_in_sweep;
    params.progress_user = &runs;
    if (size == 1) {
        params.algorithm = KM_ALGORITHM_LLOYD;
        ck_assert_int_eq(fit_some(&result, j, &params, &err), KM_ERROR_INTERRUPTED);
        return;
    }
    rank ranks[RANKS_MAX];
    meeting m;
    km_spec spec = j->spec;
    meet(ranks, &m, j, size, &spec);
    for (int64_t r = 0; r < size; r++) {
        ranks[r].params.checkpoint = kept;
        ranks[r].params.checkpoint_s = 0;
        ranks[r].params.progress = r ? NULL : stop_in_sweep;
        ranks[r].params.progress_user = &runs;
    }
    go(ranks, &m);
    for (int64_t r = 0; r < size; r++) ck_assert_int_ne(ranks[r].status, KM_OK);
    part(ranks, &m);
}

static void go_on(const job *j, const km_result *alone, int64_t size, int64_t threads) {
    km_error err;
    km_result *result = NULL;
    km_fit_params params = j->params;
    params.resume = kept;
    params.threads = threads;
    params.algorithm = KM_ALGORITHM_LLOYD;
    if (size == 1) {
        km_status status = fit_some(&result, j, &params, &err);
        ck_assert_msg(status == KM_OK, "%s", err.text);
        ck_assert_uint_eq(km_result_digest(result), km_result_digest(alone));
        ck_assert_int_lt(result->passes, alone->passes);
        km_result_destroy(&result);
        return;
    }
    rank ranks[RANKS_MAX];
    meeting m;
    km_spec spec = j->spec;
    meet(ranks, &m, j, size, &spec);
    for (int64_t r = 0; r < size; r++) ranks[r].params.resume = kept;
    go(ranks, &m);
    for (int64_t r = 0; r < size; r++) check_rank(&ranks[r], alone, size);
    part(ranks, &m);
}

START_TEST(an_ended_fit_goes_on) {
    if (is_sample() && _i % 3) return; // one by ranks, one alone
    const int64_t by = _i % 2 ? 3 : 1, runs = (int64_t[]){3, 9, 1 << 20}[_i / 2];
    const int64_t n = is_sample() ? 70000 : 140000;
    job j = job_open(ref_blobs(n, 4, 6, 3.0, 23, _i % 2 ? KM_FLOAT64 : KM_FLOAT32), "2..4", 5);
    km_error fixed = {{0}}; // so that runs end one after another
    ck_assert_int_eq(km_spec_fix(&j.spec, "concurrent_restarts", "1", &fixed), KM_OK);
    km_result *alone = fit_alone(&j);
    if (runs < 1 << 20) {
        end_after(&j, runs, by);
    } else { // all runs are in it
        km_error err;
        km_result *result = NULL;
        km_fit_params params = j.params;
        params.algorithm = KM_ALGORITHM_LLOYD;
        params.checkpoint = kept;
        ck_assert_int_eq(fit_some(&result, &j, &params, &err), KM_OK);
        ck_assert_uint_eq(km_result_digest(result), km_result_digest(alone));
        km_result_destroy(&result);
    }
    go_on(&j, alone, 1, 3);
    go_on(&j, alone, 2, 1);
    km_result_destroy(&alone);
    job_close(&j);
    remove(kept);
}
END_TEST

static void expect_refused(const job *j, const km_fit_params *params, const char *words) {
    km_error err;
    km_result *result = NULL;
    km_status status = fit_some(&result, j, params, &err);
    ck_assert_msg(status != KM_OK && strstr(err.text, words), "status %d: %s", (int)status, err.text);
}

START_TEST(another_fit_or_half_a_file_is_refused) {
    job j = job_open(ref_blobs(3000, 4, 6, 3.0, 23, KM_FLOAT32), "2..4", 3);
    km_error err;
    km_result *result = NULL;
    km_fit_params params = j.params;
    params.checkpoint = kept;
    ck_assert_int_eq(fit_some(&result, &j, &params, &err), KM_OK);
    km_result_destroy(&result);
    params.checkpoint = NULL;
    params.resume = kept;
    params.seed++;
    expect_refused(&j, &params, "the checkpoint of another fit");
    params.seed--;
    ((float *)j.values)[17] += 1; // other points
    expect_refused(&j, &params, "the checkpoint of another fit");
    ((float *)j.values)[17] -= 1;
    FILE *file = fopen(kept, "r+b");
    ck_assert_ptr_nonnull(file);
    char bytes[1 << 14];
    size_t size = fread(bytes, 1, sizeof bytes, file);
    ck_assert_uint_gt(size, 100);
    for (size_t at = 0; at < size; at += 37) { // a byte that changed
        bytes[at] ^= 1;
        rewind(file);
        ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
        fflush(file);
        expect_refused(&j, &params, "is no checkpoint, or not a whole one");
        bytes[at] ^= 1;
    }
    fclose(file);
    ck_assert_int_eq(truncate(kept, (off_t)size - 8), 0);
    expect_refused(&j, &params, "is no checkpoint, or not a whole one");
    ck_assert_int_eq(truncate(kept, 0), 0);
    expect_refused(&j, &params, "is no checkpoint, or not a whole one");
    remove(kept);
    expect_refused(&j, &params, kept);
    job_close(&j);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("ranks");
    TCase *same = tcase_create("same"), *gpus = tcase_create("gpus"), *wrong = tcase_create("wrong");
    tcase_set_timeout(gpus, 300);
    tcase_set_timeout(same, 120);
    tcase_set_timeout(wrong, 120);
    tcase_add_loop_test(same, same_bits_on_any_number_of_ranks, 0, 16);
    tcase_add_loop_test(gpus, same_bits_on_gpus, 0, 10);
    TCase *streams = tcase_create("streams");
    tcase_set_timeout(streams, 300);
    tcase_add_loop_test(streams, same_bits_where_gpus_stream, 0, 5);
    suite_add_tcase(suite, streams);
    tcase_add_test(same, a_pass_takes_one_sum);
    tcase_add_loop_test(wrong, all_say_what_one_finds, 0, 6);
    tcase_add_test(wrong, the_rank_that_has_it_names_the_row);
    tcase_add_loop_test(wrong, a_rank_stops_all, 0, 3);
    tcase_add_test(wrong, a_lost_rank_ends_all);
    TCase *ended = tcase_create("ended");
    tcase_set_timeout(ended, 120);
    tcase_add_unchecked_fixture(ended, name_kept, NULL);
    tcase_add_loop_test(ended, an_ended_fit_goes_on, 0, 6);
    tcase_add_test(ended, another_fit_or_half_a_file_is_refused);
    suite_add_tcase(suite, same);
    suite_add_tcase(suite, gpus);
    suite_add_tcase(suite, ended);
    suite_add_tcase(suite, wrong);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

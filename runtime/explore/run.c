// SPDX-License-Identifier: MIT
// Subsets run in blocks, each on a thread, or on a GPU.
#include "../../base/clock.h"
#include "../../base/error.h"
#include "../memory.h"
#include "../threads.h"
#include "exploring.h"
#include <stdlib.h>

enum {
    BLOCK_MAX = 32, // subsets that a thread has in work
    BLOCKS_A_THREAD = 8,
    TALLIES_BYTES = 1 << 30, // of the outcome's counts of the subsets that a GPU has in work
    LABELS_BYTES =
        64 << 20 // of labels, and of tallies, that a thread has in work, where it has several subsets
};

void km_explore_fits_free(explore_fits *f) {
    free(f->fits);
    free(f->reals);
    free(f->counts);
}

static int64_t tally_numbers(const explore *x, int64_t k) {
    return x->params->outcome && x->turn == x->turns ? x->tally.cells_count * km_tally_sums(&x->tally) * k
                                                     : 0;
}

km_status km_explore_fits_alloc(explore_fits *f, const explore *x, int64_t count, km_error *err) {
    int64_t ks = x->clusters_count, size = x->choice.size_max, numbers = 0;
    for (int64_t q = 0; q < ks; q++)
        numbers += x->clusters[q] * (size + 4) + tally_numbers(x, x->clusters[q]);
    f->fits = calloc((size_t)(count * ks), sizeof *f->fits);
    f->reals = calloc((size_t)(count * numbers), sizeof *f->reals);
    f->counts = calloc((size_t)(count * x->k_sum), sizeof *f->counts);
    if (!f->fits || !f->reals || !f->counts)
        return km_fail_memory(err, "what becomes of a block of subsets", count * numbers * 8);
    double *at = f->reals;
    int64_t *counts = f->counts;
    for (int64_t i = 0; i < count * ks; i++) {
        int64_t k = x->clusters[i % ks];
        f->fits[i] = (km_subset_fit){.k = k, .centroids = at, .counts = counts};
        f->fits[i].weights = at + k * size;
        f->fits[i].sse = f->fits[i].weights + k;
        f->fits[i].distance = f->fits[i].sse + k;
        f->fits[i].margin = f->fits[i].distance + k;
        if (x->params->outcome && x->turn == x->turns) f->fits[i].tallies = f->fits[i].margin + k;
        at += k * (size + 4) + tally_numbers(x, k);
        counts += k;
    }
    return KM_OK;
}

// The thread that called km_explore asks the caller; the others look at what it heard.
static int is_stopped(void *user) {
    explore *x = user;
    int stop;
#pragma omp atomic read
    stop = x->stop;
    if (stop || omp_get_thread_num() != 0) return stop;
    int64_t done;
#pragma omp atomic read
    done = x->done;
    int64_t wanted = x->out->result.wanted;
    km_progress progress = {"explore", x->turn * wanted + done, (x->turns + 1) * wanted, 0,
                            (km_now_ms() - x->begin_ms) / 1e3};
    if (!x->params->progress || !x->params->progress(x->params->progress_user, &progress)) return 0;
#pragma omp atomic write
    x->stop = 1;
    return 1;
}

static km_status run_block(explore *x, int64_t first, int64_t count, km_error *err) {
    explore_fits f = {0};
    km_status status = km_explore_fits_alloc(&f, x, count, err);
    if (status == KM_OK && x->cuda)
        status = km_cuda_subsets_run(x->cuda, &x->job, x->subsets + first, count, f.fits, err);
    else if (status == KM_OK)
        status = km_cpu_subsets_run(&x->job, x->subsets + first, count, f.fits, err);
    for (int64_t i = 0; i < count && status == KM_OK; i++) {
        if (x->turn < x->turns) {
            km_explore_add_permuted(x, first + i, f.fits + i * x->clusters_count);
            continue;
        }
        km_explore_keep_best(x, first + i, f.fits + i * x->clusters_count);
        x->is_done[first + i] = 1;
    }
    int64_t distances = 0;
    for (int64_t i = 0; i < count * x->clusters_count && status == KM_OK; i++)
        distances += x->engine->n * f.fits[i].k * f.fits[i].passes;
    km_explore_fits_free(&f);
    if (status != KM_OK) return status;
#pragma omp atomic update
    x->done += count;
#pragma omp atomic update
    x->out->result.distances += distances;
    return KM_OK;
}

void km_explore_make_job(explore *x) {
    const km_explore_params *p = x->params;
    x->job = (km_subsets_job){.table = x->engine,
                              .data = x->data,
                              .stats = &x->stats,
                              .centre = x->load.centre,
                              .factor = x->load.factor,
                              .squares = x->squares,
                              .clusters = x->clusters,
                              .clusters_count = x->clusters_count,
                              .restarts = p->n_init,
                              .init_random = p->init == KM_INIT_RANDOM,
                              .seed = p->seed,
                              .tol = p->tol,
                              .max_iter = p->max_iter,
                              .tally = p->outcome ? &x->tally : NULL,
                              .stopped = is_stopped,
                              .stopped_user = x};
    int64_t count = x->out->result.wanted;
    int64_t labels = x->engine->n * p->n_init * x->clusters_count;
    int64_t tallies = 0; // as numbers, and as counts while they are made
    for (int64_t q = 0; q < x->clusters_count; q++) tallies += 16 * tally_numbers(x, x->clusters[q]);
    x->block = km_min(count / (x->threads * BLOCKS_A_THREAD), km_min(BLOCK_MAX, LABELS_BYTES / labels));
    if (tallies) x->block = km_min(x->block, LABELS_BYTES / tallies);
    x->block = km_max(x->block, 1);
    if (x->ordinal == KM_HOST)
        x->out->result.subset_bytes = km_cpu_subsets_bytes(&x->job, x->choice.size_max) + tallies;
}

void km_explore_module_params(km_module_params *params, explore *x) {
    km_module_params_init(params);
    params->cache_dir = x->params->cache_dir;
    params->compiler = x->params->compiler;
    params->log = x->params->log;
    params->stop = is_stopped;
    params->stop_user = x;
}

// A GPU's kernels for the sizes that are explored. One thread starts them, with many subsets at a time.
km_status km_explore_make_cuda(explore *x) {
    int32_t sizes[KM_FEATURES_DENSE_MAX];
    int64_t count = 0;
    km_module_params module;
    if (x->ordinal == KM_HOST) return KM_OK;
    for (int64_t size = x->choice.size_min; size <= x->choice.size_max; size++)
        sizes[count++] = (int32_t)size;
    km_explore_module_params(&module, x);
    KM_TRY(km_cuda_subsets_create(&x->cuda, &x->job, sizes, count, &module, x->err));
    x->threads = 1;
    x->block = km_cuda_subsets_block(&x->job);
    if (x->params->outcome)
        x->block = km_max(km_min(x->block, TALLIES_BYTES / (8 * tally_numbers(x, x->k_sum))), 1);
    x->out->result.subset_bytes = km_cuda_subsets_bytes(&x->job, x->choice.size_max);
    return KM_OK;
}

km_status km_explore_run(explore *x) {
    int64_t count = x->out->result.wanted, blocks = km_divide_up(count, x->block);
    int threads = (int)km_min(x->threads, blocks);
    km_status first = KM_OK;
    if (!x->cuda) KM_TRY(km_host_check("the subsets in work", x->out->result.subset_bytes * threads, x->err));
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1)
    for (int64_t b = 0; b < blocks; b++) {
        km_error own = {""};
        if (is_stopped(x)) continue;
        int64_t from = b * x->block;
        km_status status = run_block(x, from, km_min(x->block, count - from), &own);
        if (status == KM_OK) continue;
#pragma omp critical(km_explore_failed)
        if (first == KM_OK || (first == KM_ERROR_INTERRUPTED && status != first)) {
            first = status;
            if (x->err) x->err->text[0] = 0;
            km_fail(x->err, status, "%s", own.text);
        }
#pragma omp atomic write
        x->stop = 1;
    }
    if (first == KM_ERROR_INTERRUPTED || (first == KM_OK && x->done < count)) {
        if (x->done == 0 || x->turn < x->turns)
            return km_fail(x->err, KM_ERROR_INTERRUPTED, "interrupted before a subset was done");
        if (x->err) x->err->text[0] = 0;
        km_result_warn(x->out->owner, x->params->log,
                       "interrupted after %lld of %lld subsets: the result is of these", (long long)x->done,
                       (long long)count);
        return KM_OK;
    }
    return first;
}

static km_status permute(explore *x, int undo, km_error *err) {
    if (x->cuda) return km_cuda_subsets_permute(x->cuda, x->params->seed, x->turn, undo, err);
    km_cpu_subsets_permute(x->engine, x->params->seed, x->turn, undo);
    return KM_OK;
}

// The same subsets of tables whose columns are permuted, one after another, before those of the table itself.
km_status km_explore_run_permuted(explore *x) {
    km_status status = KM_OK;
    int64_t count = x->out->result.wanted * x->clusters_count;
    if (x->params->rank != KM_RANK_permuted) return KM_OK;
    x->permuted = calloc((size_t)count, sizeof *x->permuted);
    if (!x->permuted) return km_fail_memory(x->err, "figures of permuted columns", count * 8);
    const km_tally *tally = x->job.tally;
    x->turns = x->params->permutations;
    x->job.tally = NULL;
    for (x->turn = 0; x->turn < x->turns && status == KM_OK; x->turn++) {
        status = permute(x, 0, x->err);
        if (status == KM_OK) status = km_explore_run(x);
        km_status undone = permute(x, 1, status == KM_OK ? x->err : NULL);
        if (status == KM_OK) status = undone;
        x->done = 0;
    }
    x->job.tally = tally;
    return status;
}

// SPDX-License-Identifier: MIT
// Labels, distances, sums of one K: the last read -----------------------------------------------------------------

enum {
    //@ if many_features
    HOST_FINISH_POINTS = KM_FINISH_PIECE_POINTS(D), // that a block adds up
    HOST_FINISH_SLICE = 64                          // chunks at a time
    //@ else
    HOST_FINISH_POINTS = KM_SUBCHUNK_POINTS * KM_SUBCHUNKS_PER_CHUNK, // that a block adds up
    HOST_FINISH_SLICE = 1024                                          // chunks at a time
    //@ end
};

struct host_finish {
    host_model model;
    host_memory sums, partial, nearest, margin, labels;
    double *host = nullptr; // k x KM_FINISH_SUMS
    //@ if many_features
    int bytes = 0, tile_rows = 0; // of shared memory, and rows there, where km_finish_tiles is used
    //@ else
    int bytes = 0; // of shared memory, where km_finish_few_clusters is used
    //@ end
    ~host_finish() {
        free(host);
    }
};

// Tables of partial sums of so many points.
static unsigned host_finish_parts(const host_finish *f, long long points, long long k) {
    return f->bytes > 0                ? host_parts(points, HOST_FINISH_POINTS)
           : k <= KM_FINISH_SHARED_MAX ? host_parts(points, KM_FINISH_SHARED_POINTS)
                                       : host_parts(points, KM_CHUNK_POINTS);
}

static int host_finish_slice(const $name_fit *fit, host_finish *f, long long first, long long count,
                             long long k, int *labels) {
    const long long numbers = k * KM_FINISH_SUMS;
    const long long blocks = host_finish_parts(f, count, k);
    const double *weights = fit->weights.as<double>();
    double *partial = f->partial.as<double>();
    f->model.args.first = first;
    f->model.args.count = count;
    if (f->bytes > 0) {
        //@ if many_features
        const int warps = host_parts(f->tile_rows, KM_TILE_WARP_ROWS);
        km_finish_tiles<<<(unsigned)blocks, (unsigned)host_parts(warps, 4) * 128, (size_t)f->bytes>>>(
            f->model.args, weights, partial, k, 0, 1, f->tile_rows);
        HOST_LAUNCHED(km_finish_tiles);
        //@ else
        km_finish_few_clusters<<<(unsigned)blocks, KM_FINISH_THREADS, (size_t)f->bytes>>>(
            f->model.args, weights, partial, k);
        HOST_LAUNCHED(km_finish_few_clusters);
        //@ end
    } else {
        const int in_shared = k <= KM_FINISH_SHARED_MAX;
        km_assign<<<host_parts(count, KM_SUBCHUNK_POINTS), KM_THREADS>>>(f->model.args);
        HOST_LAUNCHED(km_assign);
        km_finish_chunks<<<(unsigned)blocks, 32, in_shared ? (size_t)numbers * 8 : 0>>>(
            f->model.args, weights, partial, k,
            in_shared ? KM_FINISH_SHARED_POINTS : (long long)KM_CHUNK_POINTS, in_shared);
        HOST_LAUNCHED(km_finish_chunks);
    }
    km_finish_add<<<host_parts(numbers, KM_REDUCED_NUMBERS), KM_THREADS>>>(partial, blocks, numbers,
                                                                           f->sums.as<double>());
    HOST_LAUNCHED(km_finish_add);
    if (labels)
        HOST_CUDA(cudaMemcpy(labels + first, f->labels.at, (size_t)count * 4, cudaMemcpyDeviceToHost));
    return $upper_OK;
}

//@ if many_features
// Shared memory for all rows of K centroids; else for so many that it holds; else none.
static int host_finish_shared(const $name_fit *fit, host_finish *f, long long k) {
    enum { IN_TEXT = 512 };
    if (k > KM_FINISH_SHARED_MAX) return $upper_OK;
    for (int rows = k < KM_TILE_ROWS ? (int)host_parts(k, KM_TILE_WARP_ROWS) * KM_TILE_WARP_ROWS
                                     : int(KM_TILE_ROWS);
         rows > 0 && !f->bytes; rows -= KM_TILE_WARP_ROWS) {
        const int sums = k <= rows ? int(KM_TILE_SUMS) : 1;
        const long long bytes = KM_TILE_BYTES(D, sizeof(km_real), WEIGHTED, k, sums, rows, 1, 0);
        if (bytes > fit->shared_max - IN_TEXT) continue;
        f->tile_rows = rows;
        f->bytes = (int)bytes;
        HOST_CUDA(
            cudaFuncSetAttribute(km_finish_tiles, cudaFuncAttributeMaxDynamicSharedMemorySize, f->bytes));
    }
    return $upper_OK;
}

//@ else
static int host_finish_shared(const $name_fit *fit, host_finish *f, long long k) {
    const int bytes = (int)k * KM_FINISH_THREADS * (WEIGHTED ? KM_FINISH_WEIGHTED_BYTES : KM_FINISH_BYTES);
    if (k > KM_FINISH_FEW_MAX || bytes > fit->shared_max) return $upper_OK;
    f->bytes = bytes;
    if (bytes > 48 << 10)
        HOST_CUDA(
            cudaFuncSetAttribute(km_finish_few_clusters, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    return $upper_OK;
}

//@ end
static int host_finish_all(const $name_fit *fit, host_finish *f, int q, int *labels) {
    const long long k = host_ks[q], numbers = k * KM_FINISH_SUMS;
    HOST_TRY(host_finish_shared(fit, f, k));
    const long long slice = (f->bytes ? HOST_FINISH_SLICE : 64) * (long long)KM_CHUNK_POINTS;
    const long long here = fit->n < slice ? fit->n : slice; // points that memory is taken for
    HOST_TRY(host_model_init(&f->model, fit, q, &fit->centroids));
    HOST_TRY(host_reserve_zero(&f->sums, numbers * 8));
    HOST_TRY(host_reserve(&f->partial, host_finish_parts(f, here, k) * numbers * 8));
    if (!f->bytes || labels) HOST_TRY(host_reserve(&f->labels, here * 4));
    if (!f->bytes) {
        HOST_TRY(host_reserve(&f->nearest, here * 8));
        HOST_TRY(host_reserve(&f->margin, here * 8));
    }
    f->model.args.labels = f->labels.as<int>();
    f->model.args.nearest = f->nearest.as<double>();
    f->model.args.margin = f->margin.as<double>();
    for (long long first = 0; first < fit->n; first += slice)
        HOST_TRY(
            host_finish_slice(fit, f, first, fit->n - first < slice ? fit->n - first : slice, k, labels));
    f->host = (double *)malloc((size_t)numbers * 8);
    if (!f->host) return host_fail($upper_MEMORY, "not enough memory for the sums");
    HOST_CUDA(cudaMemcpy(f->host, f->sums.at, (size_t)numbers * 8, cudaMemcpyDeviceToHost));
    return $upper_OK;
}

int $name_result($name_fit *fit, int index, $name_model *model) {
    host_finish f;
    HOST_TRY(host_check(fit, model, K_MAX));
    HOST_TRY(host_check_index(index));
    if (!fit->started) return host_fail($upper_ARGUMENT, "there are no first centroids yet: start or seed");
    HOST_TRY(host_finish_all(fit, &f, index, model->labels));
    model->k = host_ks[index];
    model->converged = fit->state.slots[index].state.converged;
    model->n_iter = fit->state.slots[index].state.iterations;
    model->inertia = 0.0;
    for (int j = 0; j < model->k; j++) {
        model->inertia += f.host[j * KM_FINISH_SUMS + KM_FINISH_SSE] / fit->data.factor / fit->data.factor;
        if (model->counts) model->counts[j] = (long long)f.host[j * KM_FINISH_SUMS + KM_FINISH_COUNT];
        for (int i = 0; i < D && model->centroids; i++)
            model->centroids[j * (long long)D + i] =
                host_back(&fit->data, f.model.host[j * (long long)D + i], i);
    }
    return $upper_OK;
}

// SPDX-License-Identifier: MIT
// Labels, distances, sums of one K: the last read -----------------------------------------------------------------

struct host_finish {
    host_model model;
    host_memory sums, partial, nearest, margin, labels;
    double *host = nullptr;     // k x KM_FINISH_SUMS
    int few_clusters_bytes = 0; // of shared memory, where km_finish_few_clusters is used
    ~host_finish() {
        free(host);
    }
};

static int host_finish_slice(const $name_fit *fit, host_finish *f, long long first, long long count,
                             long long k, int *labels) {
    const long long blocks = host_parts(count, KM_CHUNK_POINTS), numbers = k * KM_FINISH_SUMS;
    const double *weights = fit->weights.as<double>();
    double *partial = f->partial.as<double>();
    f->model.args.first = first;
    f->model.args.count = count;
    if (f->few_clusters_bytes > 0) {
        km_finish_few_clusters<<<(unsigned)blocks, KM_FINISH_THREADS, (size_t)f->few_clusters_bytes>>>(
            f->model.args, weights, partial, k);
        HOST_LAUNCHED(km_finish_few_clusters);
    } else {
        const int in_shared = k <= KM_FINISH_SHARED_MAX;
        km_assign<<<host_parts(count, KM_SUBCHUNK_POINTS), KM_THREADS>>>(f->model.args);
        HOST_LAUNCHED(km_assign);
        km_finish_chunks<<<(unsigned)blocks, 32, in_shared ? (size_t)numbers * 8 : 0>>>(
            f->model.args, weights, partial, k, in_shared);
        HOST_LAUNCHED(km_finish_chunks);
    }
    km_finish_add<<<host_parts(numbers, KM_REDUCED_NUMBERS), KM_THREADS>>>(partial, blocks, numbers,
                                                                           f->sums.as<double>());
    HOST_LAUNCHED(km_finish_add);
    if (labels)
        HOST_CUDA(cudaMemcpy(labels + first, f->labels.at, (size_t)count * 4, cudaMemcpyDeviceToHost));
    return $upper_OK;
}

static int host_finish_all(const $name_fit *fit, host_finish *f, int q, int *labels) {
    const long long k = host_ks[q], numbers = k * KM_FINISH_SUMS;
    const int few_clusters_bytes =
        (int)k * KM_FINISH_THREADS * (WEIGHTED ? KM_FINISH_WEIGHTED_BYTES : KM_FINISH_BYTES);
    if (k <= KM_FINISH_FEW_MAX && few_clusters_bytes <= fit->shared_max)
        f->few_clusters_bytes = few_clusters_bytes;
    const long long slice =
        (f->few_clusters_bytes ? 1024 : 64) * (long long)KM_CHUNK_POINTS; // points that memory is taken for
    const long long here = fit->n < slice ? fit->n : slice;
    if (few_clusters_bytes > 48 << 10 && f->few_clusters_bytes)
        HOST_CUDA(cudaFuncSetAttribute(km_finish_few_clusters, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       few_clusters_bytes));
    HOST_TRY(host_model_init(&f->model, fit, q, &fit->centroids));
    HOST_TRY(host_reserve_zero(&f->sums, numbers * 8));
    HOST_TRY(host_reserve(&f->partial, host_parts(here, KM_CHUNK_POINTS) * numbers * 8));
    if (!f->few_clusters_bytes || labels) HOST_TRY(host_reserve(&f->labels, here * 4));
    if (!f->few_clusters_bytes) {
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

// SPDX-License-Identifier: MIT
// Labels, distances, sums of one K: the last read -----------------------------------------------------------------

typedef struct host_finisher {
    km_cpu_finish_model model;
    double *centroids, *columns;
    km_real *table;
    int64_t row;
} host_finisher;

static int host_finisher_init(host_finisher *f, const double *centroids, int k) {
    const int64_t multiple = km_kernels.finish_row_multiple;
    memset(f, 0, sizeof *f);
    f->row = (D + multiple - 1) / multiple * multiple;
    f->centroids = (double *)host_alloc(k * f->row, sizeof *f->centroids);
    f->columns = (double *)host_alloc((int64_t)D * KM_CPU_FEW_CLUSTERS, sizeof *f->columns);
    f->table = (km_real *)host_alloc(KM_CPU_TABLE_ROWS(k) * (D + 1), sizeof *f->table);
    if (!f->centroids || !f->columns || !f->table) return host_no_memory(k * (f->row + D) * 8);
    for (int64_t j = 0; j < k; j++)
        for (int i = 0; i < D; i++) {
            f->centroids[j * f->row + i] = (double)(km_real)centroids[j * D + i];
            if (k <= KM_CPU_FEW_CLUSTERS)
                f->columns[i * KM_CPU_FEW_CLUSTERS + j] = f->centroids[j * f->row + i];
        }
    host_put_table(f->table, centroids, k);
    f->model.k = k;
    f->model.centroids = f->centroids;
    f->model.columns = f->columns;
    f->model.table = f->table;
    return $upper_OK;
}

static void host_finisher_free(host_finisher *f) {
    free(f->centroids);
    free(f->columns);
    free(f->table);
}

// A chunk: labels, squared distances and sums, where they are wanted.
static void host_finish_chunk(const $name_fit *fit, const host_finisher *f, int64_t chunk, int *labels,
                              double *squares, double *sums) {
    const int64_t first = chunk * HOST_CHUNK;
    km_cpu_finish_model model = f->model;
    model.labels = labels ? labels + first : NULL;
    model.squares = squares ? squares + first : NULL;
    model.sums = sums;
    km_cpu_finish work = {fit->points + first * D,
                          host_weights_from(fit, first),
                          host_min(HOST_CHUNK, fit->n - first),
                          D,
                          SOA_POINTS,
                          f->row,
                          &model,
                          1};
    km_kernels.finish(&work);
}

int $name_result($name_fit *fit, int index, $name_model *model) {
    host_finisher f;
    int failed = host_check(fit, model, $upper_K_MAX);
    if (!failed) failed = host_check_index(index);
    if (!failed && !fit->started)
        failed = host_fail($upper_ARGUMENT, "there are no first centroids yet: start or seed");
    if (failed) return failed;
    const host_slot *slot = &fit->slots[index];
    const int64_t chunks = host_pieces(fit->n, HOST_CHUNK), numbers = slot->k * KM_CPU_SUMS;
    const int64_t partials_count = host_min(chunks, 64);
    double *sums = (double *)host_alloc((partials_count + 1) * numbers, sizeof *sums),
           *all = sums + partials_count * numbers;
    failed = host_finisher_init(&f, slot->centroids, slot->k);
    if (!failed && !sums) failed = host_no_memory((partials_count + 1) * numbers * 8);
    for (int64_t base = 0; base < chunks && !failed; base += partials_count) {
        const int64_t here = host_min(partials_count, chunks - base);
        memset(sums, 0, (size_t)(partials_count * numbers) * sizeof *sums);
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 1)
#endif
        for (int64_t b = 0; b < here; b++)
            host_finish_chunk(fit, &f, base + b, model->labels, NULL, sums + b * numbers);
        for (int64_t b = 0; b < here; b++)
            for (int64_t i = 0; i < numbers; i++) all[i] += sums[b * numbers + i];
    }
    model->k = slot->k;
    model->converged = slot->state.converged;
    model->n_iter = slot->state.iterations;
    model->inertia = 0;
    for (int64_t j = 0; j < slot->k && !failed; j++) {
        model->inertia += all[j * KM_CPU_SUMS + KM_CPU_SUM_SSE] / fit->data.factor / fit->data.factor;
        if (model->counts) model->counts[j] = (long long)all[j * KM_CPU_SUMS + KM_CPU_SUM_COUNT];
        for (int i = 0; i < D && model->centroids; i++)
            model->centroids[j * D + i] = host_back(&fit->data, slot->centroids[j * D + i], i);
    }
    free(sums);
    host_finisher_free(&f);
    return failed;
}

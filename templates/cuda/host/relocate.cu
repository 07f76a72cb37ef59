// SPDX-License-Identifier: MIT
// Empty clusters --------------------------------------------------------------------------------------------------

// Squared distances up to this are rounding of a typical point's centroid.
static int host_square_min(const $name_fit *fit, double *square_min) {
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
    return $upper_OK;
}

// What km_assign needs of one K: its centroids as doubles too.
struct host_model {
    host_memory numbers, centroids;
    double *host = nullptr; // k x D
    km_assign_args args = {};
    ~host_model() {
        free(host);
    }
};

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
    return $upper_OK;
}

// `table`: the centroids of K number q, or those that it had in the last pass.
static int host_model_init(host_model *model, const $name_fit *fit, int q, const host_memory *table) {
    const long long k = host_ks[q], zero = 0;
    const km_real *rows = table->as<km_real>() + host_offsets[q] * (long long)D;
    model->host = (double *)malloc((size_t)(k * D) * sizeof *model->host);
    if (!model->host) return host_fail($upper_MEMORY, "not enough memory for the centroids");
    HOST_TRY(host_reserve(&model->numbers, 2 * KM_ALIGN_BYTES));
    HOST_TRY(host_reserve(&model->centroids, k * D * 8));
    HOST_TRY(host_get_centroids(model->host, rows, k));
    char *numbers = model->numbers.as<char>();
    HOST_CUDA(cudaMemcpy(numbers, &zero, sizeof zero, cudaMemcpyHostToDevice));
    HOST_CUDA(cudaMemcpy(numbers + KM_ALIGN_BYTES, &host_ks[q], sizeof(int), cudaMemcpyHostToDevice));
    HOST_CUDA(cudaMemcpy(model->centroids.at, model->host, (size_t)(k * D) * 8, cudaMemcpyHostToDevice));
    model->args.points = fit->points.at;
    model->args.centroids = model->centroids.as<double>();
    model->args.table = rows;
    model->args.rows = (const long long *)numbers;
    model->args.ks = (const int *)(numbers + KM_ALIGN_BYTES);
    model->args.models = 1;
    return $upper_OK;
}

// Points that are to become centroids of a K.
struct host_relocation {
    host_memory nearest, labels, picks, values, indices;
    km_relocated_point *moved = nullptr; // k
    double *numbers = nullptr;           // k rows: of the points, of the centroids; then what clusters weigh
    long long count = 0;
    ~host_relocation() {
        free(moved);
        free(numbers);
    }
};

// Finds the next farthest point: of cluster `to` from then on. *found is negative where there is none.
static int host_find_farthest(const $name_fit *fit, host_relocation *r, double square_min, int to,
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
    if (*found < 0) return $upper_OK;
    km_relocated_point *moved = &r->moved[r->count];
    moved->point = *found;
    moved->to = to;
    moved->weight = 1;
    HOST_CUDA(cudaMemcpy(&moved->from, r->labels.as<int>() + *found, sizeof(int), cudaMemcpyDeviceToHost));
    if (fit->weights.at)
        HOST_CUDA(cudaMemcpy(&moved->weight, fit->weights.as<double>() + *found, sizeof(double),
                             cudaMemcpyDeviceToHost));
    return host_get_rows(fit, r->numbers + r->count++ * D, pick, 1);
}

// The empty clusters of a K, in order, get the points farthest from the centroids of the last pass; those that get none
// are given up.
static int host_relocate($name_fit *fit, int q) {
    host_model model;
    host_relocation r;
    const long long k = host_ks[q], row = host_offsets[q];
    km_real *table = fit->centroids.as<km_real>() + row * D, floats[D];
    double square_min;
    HOST_TRY(host_model_init(&model, fit, q, &fit->before));
    HOST_TRY(host_square_min(fit, &square_min));
    HOST_TRY(host_reserve(&r.nearest, fit->n * 8));
    HOST_TRY(host_reserve(&r.labels, fit->n * 4));
    HOST_TRY(host_reserve(&r.picks, k * 8));
    HOST_TRY(host_reserve(&r.values, fit->subchunks * 8));
    HOST_TRY(host_reserve(&r.indices, fit->subchunks * 8));
    r.moved = (km_relocated_point *)malloc((size_t)k * sizeof *r.moved);
    r.numbers = (double *)malloc((size_t)(k * (2 * D + 1)) * sizeof *r.numbers);
    if (!r.moved || !r.numbers) return host_fail($upper_MEMORY, "not enough memory for the farthest points");
    double *centroids = r.numbers + k * D, *weights = centroids + k * D;
    HOST_TRY(host_get_centroids(centroids, table, k));
    HOST_CUDA(cudaMemcpy(weights, fit->slot_weights.as<double>() + row, (size_t)k * sizeof *weights,
                         cudaMemcpyDeviceToHost));
    model.args.count = fit->n;
    model.args.nearest = r.nearest.as<double>();
    model.args.labels = r.labels.as<int>();
    km_assign<<<(unsigned)fit->subchunks, KM_THREADS>>>(model.args);
    HOST_LAUNCHED(km_assign);
    long long found = 0;
    for (int j = 0; j < k; j++) {
        if (weights[j] > 0.0 || fit->state.given_up[row + j]) continue;
        if (found >= 0) HOST_TRY(host_find_farthest(fit, &r, square_min, j, &found));
        fit->state.given_up[row + j] = found < 0;
    }
    km_slot_state *state = &fit->state.slots[q].state;
    km_relocate_points(centroids, weights, k, D, r.moved, r.numbers, r.count, state->is_updated);
    for (long long j = 0; j < k; j++) {
        for (int f = 0; f < D; f++) floats[f] = (km_real)centroids[j * D + f];
        HOST_CUDA(cudaMemcpy(table + j * D, floats, sizeof floats, cudaMemcpyHostToDevice));
    }
    state->phase = KM_SLOT_RUNNING;
    state->empty_count = 0;
    fit->state.active[q] = 1;
    return $upper_OK;
}

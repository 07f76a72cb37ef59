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

static int host_model_init(host_model *model, const $name_fit *fit, int q) {
    const long long k = host_ks[q], zero = 0;
    const km_real *table = fit->centroids.as<km_real>() + host_offsets[q] * (long long)D;
    model->host = (double *)malloc((size_t)(k * D) * sizeof *model->host);
    if (!model->host) return host_fail($upper_MEMORY, "not enough memory for the centroids");
    HOST_TRY(host_reserve(&model->numbers, 2 * KM_ALIGN_BYTES));
    HOST_TRY(host_reserve(&model->centroids, k * D * 8));
    km_real *floats = (km_real *)model->host; // widened in place, from the end
    HOST_CUDA(cudaMemcpy(floats, table, (size_t)(k * D) * sizeof *floats, cudaMemcpyDeviceToHost));
    for (long long i = k * D; i-- > 0;) {
        km_real value;
        memcpy(&value, floats + i, sizeof value);
        const double as_double = (double)value;
        memcpy(model->host + i, &as_double, sizeof as_double);
    }
    char *numbers = model->numbers.as<char>();
    HOST_CUDA(cudaMemcpy(numbers, &zero, sizeof zero, cudaMemcpyHostToDevice));
    HOST_CUDA(cudaMemcpy(numbers + KM_ALIGN_BYTES, &host_ks[q], sizeof(int), cudaMemcpyHostToDevice));
    HOST_CUDA(cudaMemcpy(model->centroids.at, model->host, (size_t)(k * D) * 8, cudaMemcpyHostToDevice));
    model->args.points = fit->points.at;
    model->args.centroids = model->centroids.as<double>();
    model->args.table = table;
    model->args.rows = (const long long *)numbers;
    model->args.ks = (const int *)(numbers + KM_ALIGN_BYTES);
    model->args.models = 1;
    return $upper_OK;
}

// The empty clusters of a K, in order, get the points farthest from their centroids; those that get none are given up.
static int host_relocate($name_fit *fit, int q) {
    host_model model;
    host_memory nearest, labels, picks, values, indices;
    const long long k = host_ks[q], row = host_offsets[q];
    double square_min, moved[D];
    const double rounding2 = host_rounding2(fit->n);
    HOST_TRY(host_model_init(&model, fit, q));
    HOST_TRY(host_square_min(fit, &square_min));
    HOST_TRY(host_reserve(&nearest, fit->n * 8));
    HOST_TRY(host_reserve(&labels, fit->n * 4));
    HOST_TRY(host_reserve(&picks, k * 8));
    HOST_TRY(host_reserve(&values, fit->subchunks * 8));
    HOST_TRY(host_reserve(&indices, fit->subchunks * 8));
    model.args.count = fit->n;
    model.args.nearest = nearest.as<double>();
    model.args.labels = labels.as<int>();
    km_assign<<<(unsigned)fit->subchunks, KM_THREADS>>>(model.args);
    HOST_LAUNCHED(km_assign);
    long long taken = 0, found = 0;
    for (long long j = 0; j < k; j++) {
        double weight;
        HOST_CUDA(cudaMemcpy(&weight, fit->slot_weights.as<double>() + row + j, sizeof weight,
                             cudaMemcpyDeviceToHost));
        if (weight > 0.0 || fit->state.given_up[row + j]) continue;
        if (found >= 0) {
            km_farthest_subchunk<<<(unsigned)fit->subchunks, KM_THREADS>>>(
                fit->points.as<km_real>(), fit->weights.as<double>(), fit->n, square_min, rounding2,
                nearest.as<double>(), picks.as<long long>(), taken, values.as<double>(),
                indices.as<long long>());
            HOST_LAUNCHED(km_farthest_subchunk);
            km_farthest_pick<<<1, KM_THREADS>>>(values.as<double>(), indices.as<long long>(), fit->subchunks,
                                                fit->n, picks.as<long long>(), taken);
            HOST_LAUNCHED(km_farthest_pick);
            HOST_CUDA(
                cudaMemcpy(&found, picks.as<long long>() + taken, sizeof found, cudaMemcpyDeviceToHost));
        }
        fit->state.given_up[row + j] = found < 0;
        if (found < 0) continue;
        HOST_TRY(host_get_rows(fit, moved, picks.as<long long>() + taken++, 1));
        km_real floats[D];
        for (int f = 0; f < D; f++) floats[f] = (km_real)moved[f];
        HOST_CUDA(cudaMemcpy(fit->centroids.as<km_real>() + (row + j) * D, floats, sizeof floats,
                             cudaMemcpyHostToDevice));
    }
    fit->state.slots[q].state.phase = KM_SLOT_RUNNING;
    fit->state.slots[q].state.empty_count = 0;
    fit->state.active[q] = 1;
    return $upper_OK;
}

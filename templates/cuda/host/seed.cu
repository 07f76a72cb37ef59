// SPDX-License-Identifier: MIT
// First centroids -------------------------------------------------------------------------------------------------

// A table of reals on the host becomes the first restart's centroids, and every K begins.
static int host_begin($name_fit *fit, const km_real *table) {
    HOST_CUDA(cudaMemcpy(fit->centroids.at, table, S * (size_t)D * sizeof *table, cudaMemcpyHostToDevice));
    fit->state = host_state();
    for (int q = 0; q < KS; q++) {
        fit->state.slots[q].state.phase = KM_SLOT_RUNNING;
        fit->state.active[q] = 1;
    }
    fit->started = true;
    return $upper_OK;
}

int $name_start($name_fit *fit, const $name_real *centroids) {
    HOST_TRY(host_check(fit, centroids, K_MAX));
    km_real *table = (km_real *)malloc(S * (size_t)D * sizeof *table);
    int failed = table ? $upper_OK : host_fail($upper_MEMORY, "not enough memory for the centroids");
    for (long long i = 0; i < S * (long long)D && !failed; i++) {
        failed = host_check_first(&fit->data, (double)centroids[i], i);
        table[i] = host_there(&fit->data, centroids[i], (int)(i % D));
    }
    if (!failed) failed = host_begin(fit, table);
    free(table);
    return failed;
}

// Some points, centred and scaled.
static int host_get_rows(const $name_fit *fit, double *rows, const long long *indices, long long count) {
    host_memory device_rows;
    HOST_TRY(host_reserve(&device_rows, count * D * 8));
    km_rows<<<host_parts(count * D, KM_THREADS), KM_THREADS>>>(fit->points.as<km_real>(), indices, count,
                                                               device_rows.as<double>());
    HOST_LAUNCHED(km_rows);
    HOST_CUDA(cudaMemcpy(rows, device_rows.at, (size_t)(count * D) * 8, cudaMemcpyDeviceToHost));
    return $upper_OK;
}

// One chain of k-means++: the first K picks seed K, so one chain serves the whole list.
static int host_draw_rows(const $name_fit *fit, double *rows, unsigned long long seed) {
    host_memory nearest, picks, candidates, subchunk_sums;
    km_seed_args args = {};
    HOST_TRY(host_reserve(&nearest, fit->n * (long long)sizeof(km_real)));
    HOST_TRY(host_reserve(&picks, K_MAX * 8ll));
    HOST_TRY(host_reserve(&candidates, 2 * KM_CANDIDATES_MAX * 8));
    HOST_TRY(host_reserve(&subchunk_sums, KM_CANDIDATES_MAX * fit->subchunks * 8));
    args.points = fit->points.at;
    args.weights = fit->weights.as<double>();
    args.n = fit->n;
    args.subchunks = fit->subchunks;
    args.subchunk_weights = fit->subchunk_weights.as<double>();
    args.nearest = nearest.at;
    args.picks = picks.as<long long>();
    args.picks_count = K_MAX;
    args.candidates = candidates.as<long long>();
    args.subchunk_sums = subchunk_sums.as<double>();
    args.chains = 1;
    args.seed = seed;
    for (long long pick = 0; pick <= K_MAX; pick++) { // the last round decides the last pick
        const int before = pick > 0 ? host_candidates(pick - 1) : 0,
                  now = pick < K_MAX ? host_candidates(pick) : 0;
        km_seed_draw<<<dim3(1, now > 0 ? (unsigned)now : 1), KM_THREADS>>>(args, pick, before, now, nullptr);
        HOST_LAUNCHED(km_seed_draw);
        if (pick == K_MAX) break;
        km_seed_pass<<<host_parts(fit->subchunks, 2), KM_THREADS>>>(args, pick, now);
        HOST_LAUNCHED(km_seed_pass);
    }
    return host_get_rows(fit, rows, args.picks, K_MAX);
}

int $name_seed($name_fit *fit, unsigned long long seed) {
    HOST_TRY(host_check(fit, fit, K_MAX));
    double *rows = (double *)malloc(K_MAX * (size_t)D * sizeof *rows);
    km_real *table = (km_real *)malloc(S * (size_t)D * sizeof *table);
    int failed = rows && table ? host_draw_rows(fit, rows, seed)
                               : host_fail($upper_MEMORY, "not enough memory for the centroids");
    for (int q = 0; q < KS && !failed; q++)
        for (long long i = 0; i < host_ks[q] * (long long)D; i++)
            table[host_offsets[q] * (long long)D + i] = (km_real)rows[i];
    if (!failed) failed = host_begin(fit, table);
    free(rows);
    free(table);
    return failed;
}

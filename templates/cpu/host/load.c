// SPDX-License-Identifier: MIT
// The load ------------------------------------------------------------------------------------------------

// One chunk: sums of w (x - origin) and w (x - origin)^2, smallest and largest values, as they are given.
static void host_chunk_sums(double *out, const km_real *points, const double *weights, int64_t count,
                            const double *origin) {
    for (int f = 0; f < D; f++) {
        out[f] = out[D + f] = 0;
        out[2 * D + f] = DBL_MAX;
        out[3 * D + f] = -DBL_MAX;
    }
    for (int64_t i = 0; i < count; i++)
        for (int f = 0; f < D; f++) {
            const double x = (double)points[i * D + f], away = x - origin[f], w = weights ? weights[i] : 1.0;
            out[f] += w * away;
            out[D + f] += w * away * away;
            out[2 * D + f] = x < out[2 * D + f] ? x : out[2 * D + f];
            out[3 * D + f] = x > out[3 * D + f] ? x : out[3 * D + f];
        }
}

static int host_statistics($name_fit *fit, const km_real *points) {
    const int64_t chunks = host_pieces(fit->n, HOST_CHUNK);
    double *sums = (double *)host_alloc((chunks + 1) * 4 * D, sizeof *sums), *all = sums + chunks * 4 * D;
    double *origin = (double *)host_alloc(D, sizeof *origin);
    int is_exact = 0, failed = !sums || !origin;
    for (int f = 0; f < D && !failed; f++) origin[f] = (double)points[f];
    for (int turn = 0; turn < 2 && !failed && !is_exact; turn++) {
#ifdef _OPENMP
#pragma omp parallel for
#endif
        for (int64_t b = 0; b < chunks; b++)
            host_chunk_sums(sums + b * 4 * D, points + b * HOST_CHUNK * D,
                            host_weights_from(fit, b * HOST_CHUNK),
                            host_min(HOST_CHUNK, fit->n - b * HOST_CHUNK), origin);
        memcpy(all, sums, 4 * D * sizeof *all);
        for (int64_t b = 1; b < chunks; b++)
            for (int f = 0; f < D; f++) {
                const double *own = sums + b * 4 * D;
                all[f] += own[f];
                all[D + f] += own[D + f];
                all[2 * D + f] = fmin(all[2 * D + f], own[2 * D + f]);
                all[3 * D + f] = fmax(all[3 * D + f], own[3 * D + f]);
            }
        is_exact = host_take_statistics(&fit->data, all, origin);
        for (int f = 0; f < D; f++) origin[f] = fit->data.mean[f];
    }
    free(sums);
    free(origin);
    return failed ? host_no_memory((chunks + 2) * 32 * D) : host_choose_move(&fit->data);
}

// What cannot be clustered: the first number that is not finite.
static int host_check_values($name_fit *fit, const km_real *points) {
    int64_t bad = INT64_MAX;
#ifdef _OPENMP
#pragma omp parallel for reduction(min : bad)
#endif
    for (int64_t i = 0; i < fit->n * D; i++)
        if (!(fabs((double)points[i]) <= DBL_MAX)) bad = host_min(bad, i);
    if (bad < INT64_MAX)
        return host_fail($upper_DATA, "feature %lld of point %lld is no finite number: leave such points out",
                         (long long)(bad % D), (long long)(bad / D));
    for (int64_t i = 0; i < fit->n; i++) {
        if (!(host_weight(fit, i) >= 0 && host_weight(fit, i) <= DBL_MAX))
            return host_fail($upper_DATA, "the weight of point %lld is negative or no finite number",
                             (long long)i);
        fit->data.total_weight += host_weight(fit, i);
    }
    return $upper_OK;
}

static void host_move($name_fit *fit, const km_real *points) {
    const host_data *data = &fit->data;
#ifdef _OPENMP
#pragma omp parallel for
#endif
    for (int64_t g = 0; g < host_groups(fit->n); g++)
        for (int64_t i = g * SOA_POINTS; i < host_min((g + 1) * SOA_POINTS, fit->n); i++)
            for (int f = 0; f < D; f++)
                fit->points[(g * D + f) * SOA_POINTS + i % SOA_POINTS] =
                    (km_real)(((double)points[i * D + f] - data->centre[f]) * data->factor);
}

static int host_reserve($name_fit *fit) {
    int64_t rows = 0, bytes = host_groups(fit->n) * SOA_POINTS * (D + 1) * (int64_t)sizeof(km_real);
    int threads = 1, failed = 0;
#ifdef _OPENMP
    threads = omp_get_max_threads();
#endif
    for (int i = 0; i < $upper_KS; i++) {
        host_slot *slot = &fit->slots[i];
        const int64_t k = slot->k = host_ks[i];
        slot->labels_bytes = k <= 256 ? 1 : k <= 65536 ? 2 : 4;
        slot->centroids = (double *)host_alloc(k * D, sizeof *slot->centroids);
        slot->before = (double *)host_alloc(k * D, sizeof *slot->before);
        slot->totals = (double *)host_alloc(k * PITCH, sizeof *slot->totals);
        slot->digits = (double *)host_alloc(KM_TOTAL_DIGITS * k * PITCH, sizeof *slot->digits);
        slot->table = (km_real *)host_alloc(KM_CPU_TABLE_ROWS(k) * (D + 1), sizeof *slot->table);
        slot->labels = host_alloc(host_groups(fit->n) * SOA_POINTS, slot->labels_bytes);
        slot->may_stay_empty = (unsigned char *)host_alloc(k, 1);
        failed |= !slot->centroids || !slot->before || !slot->totals || !slot->digits || !slot->table ||
                  !slot->labels || !slot->may_stay_empty;
        rows += k;
    }
    // As many buffers of partial sums as keep threads busy, in 256 MB.
    fit->sums_count = rows * PITCH;
    fit->partials_count = (int)host_min(host_min(4 * threads, host_pieces(fit->n, HOST_PASS_POINTS)),
                                        268435456 / (fit->sums_count * 8) + 1);
    fit->partials = (double *)host_alloc(fit->partials_count * fit->sums_count, sizeof *fit->partials);
    fit->lists = (km_cpu_slot *)host_alloc(fit->partials_count * $upper_KS, sizeof *fit->lists);
    fit->points = (km_real *)host_alloc(host_groups(fit->n) * SOA_POINTS * D, sizeof *fit->points);
    failed |= !fit->partials || !fit->lists || !fit->points;
    return failed ? host_no_memory(bytes + fit->partials_count * fit->sums_count * 8) : $upper_OK;
}

static int host_exponent(double value) {
    int exponent = 0;
    frexp(value, &exponent); // value < 2^exponent
    return exponent;
}

// Of a feature's sums, weights and counts. While labels change, points join before others leave: two bits more.
static void host_choose_units($name_fit *fit) {
    const host_data *data = &fit->data;
    for (int f = 0; f < PITCH; f++) {
        int exponent = 2 + host_exponent(f <= D ? data->total_weight : (double)fit->n);
        if (f < D) {
            const double low = (data->low[f] - data->centre[f]) * data->factor,
                         high = (data->high[f] - data->centre[f]) * data->factor;
            exponent +=
                host_exponent(fmax(fabs(low), fabs(high)) * (1 + 1.0 / 1048576)); // values are rounded
        }
        fit->units[f] = km_total_units_of(exponent);
    }
}

static int host_fill($name_fit *fit, const km_real *points, const double *weights) {
    int failed;
    if (weights) {
        fit->weights = (double *)host_alloc(host_groups(fit->n) * SOA_POINTS, sizeof *fit->weights);
        if (!fit->weights) return host_no_memory(fit->n * 8);
        memcpy(fit->weights, weights, (size_t)fit->n * sizeof *weights);
    }
    if ((failed = host_check_values(fit, points)) || (failed = host_statistics(fit, points)) ||
        (failed = host_reserve(fit)))
        return failed;
    host_choose_units(fit);
    host_move(fit, points);
    return $upper_OK;
}

static int host_check_machine(void) {
    //@ if avx512
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512dq"))
        return host_fail($upper_DEVICE,
                         "this machine has no AVX-512: emit with --target cpu:avx2 or cpu:generic");
    //@ end
    //@ if avx2
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return host_fail($upper_DEVICE, "this machine has no AVX2: emit with --target cpu:generic");
    //@ end
    return $upper_OK;
}

int $name_create($name_fit **out, const $name_real *points, const double *weights, long long n) {
    int failed;
    if (!out) return host_fail($upper_ARGUMENT, "out is NULL");
    $name_fit *fit = *out = ($name_fit *)calloc(1, sizeof *fit);
    if (!fit) return host_no_memory(sizeof *fit);
    fit->n = n;
    failed = host_check(fit, points, n);
    if (!failed) failed = host_check_machine();
    if (!failed) failed = host_fill(fit, points, weights);
    if (failed) $name_destroy(out);
    return failed;
}

void $name_destroy($name_fit **out) {
    $name_fit *fit = out ? *out : NULL;
    if (!fit) return;
    for (int i = 0; i < $upper_KS; i++) {
        free(fit->slots[i].centroids);
        free(fit->slots[i].before);
        free(fit->slots[i].totals);
        free(fit->slots[i].digits);
        free(fit->slots[i].table);
        free(fit->slots[i].labels);
        free(fit->slots[i].may_stay_empty);
    }
    free(fit->points);
    free(fit->weights);
    free(fit->partials);
    free(fit->lists);
    free(fit);
    *out = NULL;
}

// SPDX-License-Identifier: MIT
// Empty clusters --------------------------------------------------------------------------------------------------

static double host_square_min(const $name_fit *fit) {
    double squares[HOST_SAMPLE];
    const int count = (int)host_min(fit->n, HOST_SAMPLE);
    for (int s = 0; s < count; s++) {
        const km_real *x = host_point(fit, (int64_t)((double)s * (double)fit->n / (double)count));
        squares[s] = 0;
        for (int f = 0; f < D; f++)
            squares[s] += (double)x[(int64_t)f * SOA_POINTS] * (double)x[(int64_t)f * SOA_POINTS];
    }
    return host_rounding2(fit->n) * host_typical(squares, count);
}

// The point farthest from its centroid that weighs, and is farther than rounding; -1: there is none. It, and those with
// its coordinates, are out from then on.
static int64_t host_farthest(const $name_fit *fit, double *squares, double square_min) {
    int64_t best = -1;
    for (int64_t i = 0; i < fit->n; i++) {
        if (!(squares[i] > square_min) || (best >= 0 && !(squares[i] > squares[best]))) continue;
        const km_real *x = host_point(fit, i);
        double size = 0;
        for (int f = 0; f < D; f++)
            size += (double)x[(int64_t)f * SOA_POINTS] * (double)x[(int64_t)f * SOA_POINTS];
        if (squares[i] > host_rounding2(fit->n) * size && host_weight(fit, i) > 0) best = i;
    }
    for (int64_t i = 0; i < fit->n && best >= 0; i++) {
        const km_real *x = host_point(fit, i), *y = host_point(fit, best);
        int f = 0;
        while (f < D && x[(int64_t)f * SOA_POINTS] == y[(int64_t)f * SOA_POINTS]) f++;
        if (f == D) squares[i] = 0;
    }
    return best;
}

static int host_relocate($name_fit *fit, host_slot *slot) {
    host_finisher f;
    int64_t chunks = host_pieces(fit->n, HOST_CHUNK), found = 0, count = 0;
    double *squares = (double *)host_alloc(fit->n, sizeof *squares);
    int *labels = (int *)host_alloc(fit->n, sizeof *labels);
    double *rows = (double *)host_alloc(slot->k * (D + 1), sizeof *rows),
           *weights = rows + slot->k * (int64_t)D;
    km_relocated_point *moved = (km_relocated_point *)host_alloc(slot->k, sizeof *moved);
    int failed = host_finisher_init(&f, slot->before, slot->k);
    if (!failed && (!squares || !labels || !rows || !moved)) failed = host_no_memory(fit->n * 12);
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 1) if (!failed)
#endif
    for (int64_t b = 0; b < chunks; b++)
        if (!failed) host_finish_chunk(fit, &f, b, labels, squares, NULL);
    const double square_min = host_square_min(fit);
    for (int j = 0; j < slot->k && !failed; j++) {
        weights[j] = slot->totals[j * PITCH + D];
        if (!host_is_relocatable(slot, j)) continue;
        if (found >= 0) found = host_farthest(fit, squares, square_min);
        slot->may_stay_empty[j] = found < 0;
        if (found < 0) continue;
        for (int i = 0; i < D; i++)
            rows[count * D + i] = (double)host_point(fit, found)[(int64_t)i * SOA_POINTS];
        const km_relocated_point point = {found, labels[found], j, host_weight(fit, found)};
        moved[count++] = point;
    }
    if (!failed) {
        km_relocate_points(slot->centroids, weights, slot->k, D, moved, rows, count, slot->state.is_updated);
        for (int64_t i = 0; i < slot->k * (int64_t)D; i++)
            slot->centroids[i] = (double)(km_real)slot->centroids[i];
        host_put_table(slot->table, slot->centroids, slot->k);
    }
    slot->are_means = 0;
    slot->state.phase = KM_SLOT_RUNNING;
    free(squares);
    free(labels);
    free(rows);
    free(moved);
    host_finisher_free(&f);
    return failed;
}

// SPDX-License-Identifier: MIT
// Passes ----------------------------------------------------------------------------------------------------------

// One piece of a pass: labels of every active K, and its partial sums.
static void host_pass_piece($name_fit *fit, int64_t piece, km_cpu_slot *list, double *sums) {
    const int64_t first = piece * HOST_PASS_POINTS;
    int count = 0;
    for (int q = 0; q < $upper_KS; q++) {
        const host_slot *slot = &fit->slots[q];
        if (!km_slot_is_active(slot->state.phase)) continue;
        km_cpu_slot *one = &list[count++];
        memset(one, 0, sizeof *one);
        one->k = slot->k;
        one->k_index = q;
        one->table = slot->table;
        one->labels = (char *)slot->labels + first * slot->labels_bytes;
        one->sums = sums + host_offsets[q] * (int64_t)PITCH;
        one->mode = slot->mode;
        one->labels_bytes = slot->labels_bytes;
    }
    km_cpu_chunk work = {fit->points + first * D,
                         host_weights_from(fit, first),
                         host_min(HOST_PASS_POINTS, fit->n - first),
                         D,
                         SOA_POINTS,
                         list,
                         count,
                         NULL};
    km_kernels.pass(&work);
}

// Adds the partial sums of a piece to the totals' digits, and sets them to zero again.
static void host_collect($name_fit *fit, const km_cpu_slot *list) {
    for (int q = 0; q < $upper_KS; q++) {
        host_slot *slot = &fit->slots[q];
        if (!km_slot_is_active(slot->state.phase)) continue;
        slot->changed += list->changed;
        const int64_t count = slot->k * (int64_t)PITCH;
        double *high = slot->digits, *mid = high + count, *low = mid + count;
        for (int64_t i = 0; i < count; i++)
            km_total_add(high + i, mid + i, low + i, &fit->units[i % PITCH], list->sums[i]);
        memset(list->sums, 0, (size_t)(slot->k * (int64_t)PITCH) * sizeof *list->sums);
        list++;
    }
}

// Makes the totals of their digits.
static void host_read_totals(const $name_fit *fit, host_slot *slot) {
    const int64_t count = slot->k * (int64_t)PITCH;
    double *high = slot->digits, *mid = high + count, *low = mid + count;
    for (int64_t i = 0; i < count; i++) {
        // An empty cluster starts again from exact zeros: its count, an integer, says so.
        if (high[i / PITCH * PITCH + D + 1] == 0) high[i] = mid[i] = low[i] = 0;
        km_total_carry(high + i, mid + i, low + i, &fit->units[i % PITCH]);
        slot->totals[i] = km_total_value(high[i], mid[i], low[i]);
    }
}

static void host_pass($name_fit *fit) {
    const int64_t pieces = host_pieces(fit->n, HOST_PASS_POINTS);
    for (int q = 0; q < $upper_KS; q++) {
        host_slot *slot = &fit->slots[q];
        slot->changed = 0;
        if (km_slot_is_active(slot->state.phase) && slot->mode != KM_CPU_MOVE)
            memset(slot->digits, 0, (size_t)(KM_TOTAL_DIGITS * slot->k * PITCH) * sizeof *slot->digits);
    }
    for (int64_t base = 0; base < pieces; base += fit->partials_count) {
        const int64_t here = host_min(fit->partials_count, pieces - base);
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 1)
#endif
        for (int64_t b = 0; b < here; b++)
            host_pass_piece(fit, base + b, fit->lists + b * $upper_KS, fit->partials + b * fit->sums_count);
        for (int64_t b = 0; b < here; b++) host_collect(fit, fit->lists + b * $upper_KS);
    }
    for (int q = 0; q < $upper_KS; q++) {
        host_slot *slot = &fit->slots[q];
        if (!km_slot_is_active(slot->state.phase)) continue;
        slot->mode = KM_CPU_MOVE;
        host_read_totals(fit, slot);
    }
}

// Whether a cluster is empty, and relocation may give it a point.
static int host_is_relocatable(const host_slot *slot, int64_t j) {
    return slot->totals[j * PITCH + D + 1] == 0 && !slot->may_stay_empty[j];
}

// Centroids become the means of their points. Returns the squared shift.
static double host_update(const $name_fit *fit, host_slot *slot) {
    const int masked = slot->k <= km_kernels.masked_sums_k_max && !fit->weights;
    const int64_t moves_most = masked ? fit->n / 45 * slot->k : fit->n / 2;
    double shift = 0;
    if (slot->are_means && slot->changed == 0) return 0;
    slot->are_means = 1;
    for (int64_t j = 0; j < slot->k; j++) {
        double *c = slot->centroids + j * D;
        const double *sum = slot->totals + j * PITCH;
        for (int f = 0; f < D && sum[D] > 0; f++) {
            const double mean = (double)(km_real)(sum[f] / sum[D]), moved = mean - c[f];
            shift += moved * moved;
            c[f] = mean;
        }
    }
    if ((slot->state.iterations + 1) % HOST_REFRESH == 0 || slot->changed > moves_most)
        slot->mode = KM_CPU_REFRESH;
    host_put_table(slot->table, slot->centroids, slot->k);
    return shift;
}

static void host_step(const $name_fit *fit, host_slot *slot, double shift_max) {
    km_slot_found found;
    memset(&found, 0, sizeof found);
    for (int64_t j = 0; j < slot->k; j++) found.relocatable |= host_is_relocatable(slot, j);
    if (found.relocatable) memcpy(slot->before, slot->centroids, (size_t)slot->k * D * sizeof *slot->before);
    if (slot->state.phase == KM_SLOT_RUNNING) found.shift = host_update(fit, slot);
    km_slot_decide(&slot->state, &found, shift_max, INT64_MAX);
}

// SPDX-License-Identifier: MIT
// The design lanes: points across SIMD lanes. A group of points is read once into the first cache and serves every
// slot; each vector of points meets TILE centroids at a time.
//@ need name vectors_list starts tile_list masked wide doubles
//@ include cpu.h

// Labels of one group: the centroid with the largest x . c - |c|^2 / 2, ties to the lowest index.
KM_TARGET static void km_nearest(km_index *labels, const km_real *points, const km_real *table, int64_t k) {
    //@ for v in vectors_list
    km_vec best_$v;
    km_ints index_$v = KM_INTS(0);
    //@ end
    const km_real *row = table;
    km_ints j = KM_INTS(0);
    const km_ints one = KM_INTS(1);
    // What k leaves beside whole tiles goes first: centroid 0 starts as the best.
    switch ((k - 1) % TILE) {
    //@ for r in starts
    $r_case {
        //@ for c in r_members
        //@ for v in vectors_list
        km_vec s_$c_$v = KM_SPLAT(row[$c * (D + 1) + D]);
        //@ end
        //@ end
        for (int f = 0; f < D; f++) {
            //@ for v in vectors_list
            const km_vec x_$v = KM_LOAD(points + f * GROUP + $v * LANES);
            //@ end
            //@ for c in r_members
            const km_vec c_$c = KM_SPLAT(row[$c * (D + 1) + f]);
            //@ for v in vectors_list
            s_$c_$v = KM_FMA(x_$v, c_$c, s_$c_$v);
            //@ end
            //@ end
        }
        //@ for v in vectors_list
        best_$v = s_0_$v;
        //@ end
        //@ for c in r_others
        j = KM_INTS_ADD(j, one);
        //@ for v in vectors_list
        KM_KEEP(best_$v, index_$v, s_$c_$v, j);
        //@ end
        //@ end
        break;
    }
    //@ end
    }
    for (int64_t done = (k - 1) % TILE + 1; done < k; done += TILE) {
        row = table + done * (D + 1);
        //@ for c in tile_list
        //@ for v in vectors_list
        km_vec s_$c_$v = KM_SPLAT(row[$c * (D + 1) + D]);
        //@ end
        //@ end
        for (int f = 0; f < D; f++) {
            //@ for v in vectors_list
            const km_vec x_$v = KM_LOAD(points + f * GROUP + $v * LANES);
            //@ end
            //@ for c in tile_list
            const km_vec c_$c = KM_SPLAT(row[$c * (D + 1) + f]);
            //@ for v in vectors_list
            s_$c_$v = KM_FMA(x_$v, c_$c, s_$c_$v);
            //@ end
            //@ end
        }
        //@ for c in tile_list
        j = KM_INTS_ADD(j, one);
        //@ for v in vectors_list
        KM_KEEP(best_$v, index_$v, s_$c_$v, j);
        //@ end
        //@ end
    }
    km_int found[GROUP];
    //@ for v in vectors_list
    KM_PUT_INTS(found + $v * LANES, index_$v);
    //@ end
    for (int i = 0; i < GROUP; i++) labels[i] = (km_index)found[i];
}

// Adds factor * x to a row of sums, and `points` to its count.
KM_TARGET static void km_add(double *row, const km_real *point, double factor, double points) {
    for (int f = 0; f < D; f++) row[f] += factor * (double)point[f * GROUP];
    row[D] += factor;
    row[D + 1] += points;
}

//@ if wide
// Labels are kept in 1, 2 or 4 bytes, by the slot's k.
KM_TARGET static void km_labels_get(km_index *out, const km_cpu_slot *slot, int64_t first) {
    if (slot->labels_bytes == 1)
        for (int i = 0; i < GROUP; i++) out[i] = ((const uint8_t *)slot->labels)[first + i];
    else if (slot->labels_bytes == 2)
        for (int i = 0; i < GROUP; i++) out[i] = ((const uint16_t *)slot->labels)[first + i];
    else
        for (int i = 0; i < GROUP; i++) out[i] = ((const int32_t *)slot->labels)[first + i];
}

KM_TARGET static void km_labels_put(km_cpu_slot *slot, int64_t first, const km_index *labels) {
    if (slot->labels_bytes == 1)
        for (int i = 0; i < GROUP; i++) ((uint8_t *)slot->labels)[first + i] = (uint8_t)labels[i];
    else if (slot->labels_bytes == 2)
        for (int i = 0; i < GROUP; i++) ((uint16_t *)slot->labels)[first + i] = (uint16_t)labels[i];
    else
        for (int i = 0; i < GROUP; i++) ((int32_t *)slot->labels)[first + i] = (int32_t)labels[i];
}
//@ else
KM_TARGET static void km_labels_get(km_index *out, const km_cpu_slot *slot, int64_t first) {
    memcpy(out, (const km_index *)slot->labels + first, GROUP);
}

KM_TARGET static void km_labels_put(km_cpu_slot *slot, int64_t first, const km_index *labels) {
    memcpy((km_index *)slot->labels + first, labels, GROUP);
}
//@ end

// A bit for each of the first `count` points whose label differs.
KM_TARGET static uint64_t km_changes(const km_index *labels, const km_index *old, int64_t count) {
    if (!memcmp(labels, old, sizeof *labels * GROUP)) return 0;
    uint64_t changed = 0;
    for (int i = 0; i < GROUP; i++) changed |= (uint64_t)(labels[i] != old[i]) << i;
    return count < GROUP ? changed & (((uint64_t)1 << count) - 1) : changed;
}

// Labels of a span; points whose label changed move between the sums.
KM_TARGET static void km_span_move(km_cpu_slot *slot, const km_cpu_block *block, int64_t first, int64_t end) {
    const km_real *table = (const km_real *)slot->table;
    for (int64_t base = first; base < end; base += GROUP) {
        const km_real *points = (const km_real *)block->points + base * D;
        km_index labels[GROUP], old[GROUP];
        km_nearest(labels, points, table, slot->k);
        km_labels_get(old, slot, base);
        uint64_t changed = km_changes(labels, old, end - base);
        if (!changed) continue;
        km_labels_put(slot, base, labels);
        slot->changed += __builtin_popcountll(changed);
        for (; slot->sums && changed; changed &= changed - 1) {
            int i = __builtin_ctzll(changed);
            double weight = block->weights ? block->weights[base + i] : 1.0;
            if (weight == 0) continue;
            km_add(slot->sums + (int64_t)labels[i] * PITCH, points + i, weight, 1.0);
            km_add(slot->sums + (int64_t)old[i] * PITCH, points + i, -weight, -1.0);
        }
    }
}

//@ if masked
enum { MASKED_K_MAX = $masked_k_max }; // above, adding point by point is cheaper than a mask for each cluster

KM_TARGET static double km_lanes_sum(const km_real *lanes) {
    double sum = 0;
    for (int i = 0; i < LANES / 2; i++) sum += (double)lanes[i] + (double)lanes[i + LANES / 2];
    return sum;
}

// Sums of a span from its labels: for each cluster, its points by masks, in double once a span.
KM_TARGET static void km_span_sums(km_cpu_slot *slot, const km_cpu_block *block, int64_t first, int64_t end) {
    const uint8_t *labels = (const uint8_t *)slot->labels + first;
    int64_t groups = (end - first + GROUP - 1) / GROUP;
    for (int64_t j = 0; j < slot->k; j++) {
        const km_real *points = (const km_real *)block->points + first * D;
        double *row = slot->sums + j * PITCH;
        int64_t count = 0;
        //@ for b in feature_tiles
        {
            //@ for f in b_members
            km_vec sum_$f = KM_SPLAT(0);
            //@ end
            for (int64_t g = 0; g < groups; g++)
                for (int v = 0; v < VECTORS; v++) {
                    const km_real *x = points + g * GROUP * D + v * LANES;
                    const km_mask mine = KM_EQUAL(labels + g * GROUP + v * LANES, (char)j);
                    //@ for f in b_members
                    sum_$f = KM_ADD_WHERE(sum_$f, mine, KM_LOAD(x + $f * GROUP));
                    //@ end
                    //@ if b_counts
                    count += KM_COUNT(mine);
                    //@ end
                }
            km_real lanes[LANES];
            //@ for f in b_members
            KM_STORE(lanes, sum_$f);
            row[$f] += km_lanes_sum(lanes);
            //@ end
        }
        //@ end
        row[D] += (double)count;
        row[D + 1] += (double)count;
    }
    // The zeros after the last point have labels too, and were counted.
    for (int64_t i = end - first; i < groups * GROUP; i++) {
        slot->sums[labels[i] * PITCH + D] -= 1.0;
        slot->sums[labels[i] * PITCH + D + 1] -= 1.0;
    }
}
//@ end

// Labels of a span; the sums of all its points.
KM_TARGET static void km_span_all(km_cpu_slot *slot, const km_cpu_block *block, int64_t first, int64_t end) {
    for (int64_t base = first; base < end; base += GROUP) {
        const km_real *points = (const km_real *)block->points + base * D;
        int64_t here = end - base < GROUP ? end - base : (int64_t)GROUP;
        km_index labels[GROUP], old[GROUP];
        km_nearest(labels, points, (const km_real *)slot->table, slot->k);
        km_labels_get(old, slot, base);
        km_labels_put(slot, base, labels);
        slot->changed +=
            slot->mode == KM_CPU_FIRST ? here : __builtin_popcountll(km_changes(labels, old, here));
        //@ if masked
        if (slot->k <= MASKED_K_MAX && !block->weights) continue;
        //@ end
        for (int64_t i = 0; slot->sums && i < here; i++) {
            double weight = block->weights ? block->weights[base + i] : 1.0;
            if (weight != 0) km_add(slot->sums + (int64_t)labels[i] * PITCH, points + i, weight, 1.0);
        }
    }
    //@ if masked
    if (slot->sums && slot->k <= MASKED_K_MAX && !block->weights) km_span_sums(slot, block, first, end);
    //@ end
}

KM_TARGET static void km_pass(const km_cpu_block *block) {
    for (int64_t s = 0; s < block->slots_count; s++) block->slots[s].changed = 0;
    for (int64_t first = 0; first < block->points_count; first += SPAN * GROUP) {
        int64_t end = first + SPAN * GROUP;
        if (end > block->points_count) end = block->points_count;
        for (int64_t s = 0; s < block->slots_count; s++) {
            km_cpu_slot *slot = &block->slots[s];
            if (slot->mode == KM_CPU_MOVE)
                km_span_move(slot, block, first, end);
            else
                km_span_all(slot, block, first, end);
        }
    }
}

//@ if doubles
//@ include seed.c
//@ include finish.c
//@ end
// What the engine looks for.
#ifdef __cplusplus
extern "C"
#endif
const km_cpu_kernels $name_kernels = {KM_CPU_ABI, sizeof(km_real), $isa,    $k_max,         D,
                                      GROUP,      km_pass,         $seed_kernel, $finish_kernel};

// SPDX-License-Identifier: MIT
// The design gemm: tiled like a matrix product. TILE centroids meet VECTORS vectors of points in registers; a
// group of points meets a panel of centroids out of the nearest cache; a span of groups shares the panel.
//@ need symbol vectors_list tile_list panel split part wide
//@ include cpu/head.h

enum {
    PANEL = $panel, // centroids that a span of points meets before it goes on to the next ones; whole tiles
    //@ if split
    PART = $part // features whose values of a group stay in the first cache
    //@ end
};

// The largest score of each point of a group so far, x . c - |c|^2 / 2, and the centroid that it belongs to.
typedef struct km_found {
    km_real best[GROUP];
    km_int index[GROUP];
} km_found;

//@ if split
// Adds the products of `count` features to the scores of TILE centroids.
KM_TARGET static void km_products(km_real *scores, const km_real *points, const km_real *rows, int count) {
    //@ for c in tile_list
    //@ for v in vectors_list
    km_vec s_$c_$v = KM_SPLAT(0);
    //@ end
    //@ end
    for (int f = 0; f < count; f++) {
        //@ include cpu/gemm/products.c
    }
    //@ for c in tile_list
    //@ for v in vectors_list
    KM_STORE(scores + $c * GROUP + $v * LANES, KM_ADD(KM_LOAD(scores + $c * GROUP + $v * LANES), s_$c_$v));
    //@ end
    //@ end
}

// A group against the centroids first .. end - 1 of a panel: parts of the features one after the other, each of them
// summed from zero, which also keeps rounding small where there are thousands. What the table has behind its last
// centroid never wins.
KM_TARGET static void km_meet(km_found *found, const km_real *points, const km_real *table, int64_t first,
                              int64_t end) {
    km_real scores[PANEL * GROUP];
    end = first + (end - first + TILE - 1) / TILE * TILE;
    for (int64_t j = first; j < end; j++)
        for (int i = 0; i < GROUP; i++) scores[(j - first) * GROUP + i] = table[j * (D + 1) + D];
    for (int part = 0; part < D; part += PART)
        for (int64_t j = first; j < end; j += TILE)
            km_products(scores + (j - first) * GROUP, points + part * GROUP, table + j * (D + 1) + part,
                        D - part < PART ? D - part : PART);
    //@ for v in vectors_list
    km_vec best_$v = KM_LOAD(found->best + $v * LANES);
    km_ints index_$v = KM_LOAD_INTS(found->index + $v * LANES);
    //@ end
    for (int64_t j = first; j < end; j++) {
        const km_real *score = scores + (j - first) * GROUP;
        const km_ints mine = KM_INTS((km_int)j);
        //@ for v in vectors_list
        KM_KEEP(best_$v, index_$v, KM_LOAD(score + $v * LANES), mine);
        //@ end
    }
    //@ for v in vectors_list
    KM_STORE(found->best + $v * LANES, best_$v);
    KM_PUT_INTS(found->index + $v * LANES, index_$v);
    //@ end
}
//@ else
// A group against TILE centroids from `first` on: what the table has behind its last centroid never wins.
KM_TARGET static void km_meet(km_found *found, const km_real *points, const km_real *rows, int64_t first) {
    //@ for c in tile_list
    //@ for v in vectors_list
    km_vec s_$c_$v = KM_SPLAT(rows[$c * (D + 1) + D]);
    //@ end
    //@ end
    for (int f = 0; f < D; f++) {
        //@ include cpu/gemm/products.c
    }
    const km_ints one = KM_INTS(1);
    __asm__("" : "+r"(found)); // what is found stays in memory: the scores need all registers
    //@ for v in vectors_list
    {
        km_vec best = KM_LOAD(found->best + $v * LANES);
        km_ints index = KM_LOAD_INTS(found->index + $v * LANES), j = KM_INTS((km_int)first);
        KM_KEEP(best, index, s_0_$v, j);
        //@ for c in others
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best, index, s_$c_$v, j);
        //@ end
        KM_STORE(found->best + $v * LANES, best);
        KM_PUT_INTS(found->index + $v * LANES, index);
    }
    //@ end
}
//@ end

// The nearest centroids of up to SPAN groups; the lowest index among equals, as a score must be larger to win.
KM_TARGET static void km_nearest(km_found *found, const km_real *points, int64_t groups, const km_real *table,
                                 int64_t k) {
    for (int64_t g = 0; g < groups; g++)
        for (int i = 0; i < GROUP; i++) {
            found[g].best[i] = -HUGE_VAL;
            found[g].index[i] = 0;
        }
    for (int64_t first = 0; first < k; first += PANEL) {
        int64_t end = k - first < PANEL ? k : first + PANEL;
        for (int64_t g = 0; g < groups; g++)
            //@ if split
            km_meet(&found[g], points + g * GROUP * D, table, first, end);
        //@ else
        for (int64_t j = first; j < end; j += TILE)
            km_meet(&found[g], points + g * GROUP * D, table + j * (D + 1), j);
        //@ end
    }
}

//@ include cpu/labels.c

// A bit for each of the first `count` points whose label differs.
KM_TARGET static uint64_t km_changes(const km_index *labels, const km_index *old, int64_t count) {
    uint64_t changed = 0;
    //@ if wide
    for (int i = 0; i < GROUP; i++) changed |= (uint64_t)(labels[i] != old[i]) << i;
    //@ else
    const uint64_t low = 0x7f7f7f7f7f7f7f7f, ones = 0x0101010101010101;
    for (int i = 0; i < GROUP; i += 8) {
        uint64_t a, b;
        memcpy(&a, labels + i, 8);
        memcpy(&b, old + i, 8);
        if (a == b) continue;
        // The high bit of each byte that differs, then the eight of them side by side.
        a ^= b;
        a = (((a & low) + low) | a) >> 7 & ones;
        changed |= (a * 0x0102040810204080) >> 56 << i;
    }
    //@ end
    return count < GROUP ? changed & (((uint64_t)1 << count) - 1) : changed;
}

// One point's coordinates, side by side.
KM_TARGET static void km_fetch(double *out, const km_real *point) {
    for (int f = 0; f < D; f++) out[f] = (double)point[f * GROUP];
}

// Adds factor * x to a row of sums, and `points` to its count.
KM_TARGET static void km_add(double *row, const double *x, double factor, double points) {
    for (int f = 0; f < D; f++) row[f] += factor * x[f];
    row[D] += factor;
    row[D + 1] += points;
}

// Takes over the labels of a group's first `count` points; sums follow by the slot's mode.
KM_TARGET static void km_group(km_cpu_slot *slot, const km_cpu_chunk *block, const km_found *found,
                               int64_t base, int64_t count) {
    const km_real *points = (const km_real *)block->points + base * D;
    const uint64_t all = count < GROUP ? ((uint64_t)1 << count) - 1 : ~(uint64_t)0 >> (64 - GROUP);
    km_index labels[GROUP], old[GROUP];
    for (int i = 0; i < GROUP; i++) labels[i] = (km_index)found->index[i];
    km_labels_get(old, slot, base);
    uint64_t changed = slot->mode == KM_CPU_FIRST ? all : km_changes(labels, old, count);
    slot->changed += __builtin_popcountll(changed);
    if (changed) km_labels_put(slot, base, labels);
    if (!slot->sums) return;
    for (uint64_t left = slot->mode == KM_CPU_MOVE ? changed : all; left; left &= left - 1) {
        int i = __builtin_ctzll(left);
        double weight = block->weights ? block->weights[base + i] : 1.0, x[D];
        if (weight == 0) continue;
        km_fetch(x, points + i);
        km_add(slot->sums + (int64_t)labels[i] * PITCH, x, weight, 1.0);
        if (slot->mode == KM_CPU_MOVE) km_add(slot->sums + (int64_t)old[i] * PITCH, x, -weight, -1.0);
    }
}

KM_TARGET static void km_pass(const km_cpu_chunk *block) {
    km_found found[SPAN];
    for (int64_t s = 0; s < block->slots_count; s++) block->slots[s].changed = 0;
    for (int64_t base = 0; base < block->points_count; base += SPAN * GROUP) {
        int64_t left = block->points_count - base, groups = (left + GROUP - 1) / GROUP;
        if (groups > SPAN) groups = SPAN;
        for (int64_t s = 0; s < block->slots_count; s++) {
            km_cpu_slot *slot = &block->slots[s];
            km_nearest(found, (const km_real *)block->points + base * D, groups, (const km_real *)slot->table,
                       slot->k);
            for (int64_t g = 0; g < groups; g++)
                km_group(slot, block, &found[g], base + g * GROUP,
                         left - g * GROUP < GROUP ? left - g * GROUP : (int64_t)GROUP);
        }
    }
}

//@ include cpu/seed.c
//@ include cpu/finish.c
//@ include cpu/exports.c

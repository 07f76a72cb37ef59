// SPDX-License-Identifier: MIT
// The design lanes: points across SIMD lanes. A span of points is read into the first cache and serves every slot:
// first all labels of the span, then the sums of the points whose label changed.
//@ need symbol vectors_list label_sets starts tile_list tiled wide rows whole looped avx512 any_d row_most float64
//@ need integers labelled
//@ include cpu/head.h

// Labels of VECTORS x LANES points: the centroid with the largest x . c - |c|^2 / 2, ties to the lowest index.
KM_TARGET static inline void km_nearest(km_index *labels, const km_real *points, const km_real *table,
                                        int64_t k) {
    //@ for v in vectors_list
    km_vec best_$v;
    km_ints index_$v = KM_INTS(0);
    //@ end
    const km_real *row = table;
    km_ints j = KM_INTS(0);
    const km_ints one = KM_INTS(1);
    //@ if tiled
    // What k leaves beside whole tiles goes first: centroid 0 starts as the best.
    //@ if looped
    // One alone would wait for its own additions: it goes with a whole tile.
    const int64_t start = k > 1 && k % TILE == 1 ? TILE + 1 : (k - 1) % TILE + 1;
    //@ else
    const int64_t start = (k - 1) % TILE + 1;
    //@ end
    switch (start) {
        //@ for r in starts
        $r_case {
            //@ include cpu/lanes/tile.c with centroids = r_centroids, others = r_others, first = 1
            break;
        }
        //@ end
    }
    for (int64_t done = start; done < k; done += TILE) {
        row = table + done * (D + 1);
        //@ include cpu/lanes/tile.c with centroids = tile_list, others = tile_list, first = 0
    }
    //@ else
    //@ for v in vectors_list
    best_$v = KM_SPLAT(row[D]);
    //@ end
    for (int f = 0; f < D; f++) {
        const km_vec c = KM_SPLAT(row[f]);
        //@ for v in vectors_list
        best_$v = KM_FMA(KM_LOAD(points + f * GROUP + $v * LANES), c, best_$v);
        //@ end
    }
    for (int64_t done = 1; done < k; done++) {
        row += D + 1;
        //@ for v in vectors_list
        km_vec s_$v = KM_SPLAT(row[D]);
        //@ end
        for (int f = 0; f < D; f++) {
            const km_vec c = KM_SPLAT(row[f]);
            //@ for v in vectors_list
            s_$v = KM_FMA(KM_LOAD(points + f * GROUP + $v * LANES), c, s_$v);
            //@ end
        }
        j = KM_INTS_ADD(j, one);
        //@ for v in vectors_list
        KM_KEEP(best_$v, index_$v, s_$v, j);
        //@ end
    }
    //@ end
    //@ if wide
    km_int found[VECTORS * LANES];
    //@ for v in vectors_list
    KM_PUT_INTS(found + $v * LANES, index_$v);
    //@ end
    for (int i = 0; i < VECTORS * LANES; i++) labels[i] = (km_index)found[i];
    //@ else
    //@ for s in label_sets
    KM_PUT_LABELS_$s_count(labels + $s * LANES, $s_vectors);
    //@ end
    //@ end
}

//@ if integers
//@ include cpu/lanes/integers.c

//@ end
//@ include cpu/labels.c

// A bit for each point of a group whose label differs.
KM_TARGET static uint64_t km_changes(const km_index *labels, const km_index *old) {
    //@ if wide
    uint64_t changed = 0;
    for (int i = 0; i < GROUP; i++) changed |= (uint64_t)(labels[i] != old[i]) << i;
    return changed;
    //@ else
    return KM_DIFFER(labels, old);
    //@ end
}

// The places of the bits, `first` for the lowest, join a list. Four at a time: how often they turn is easy to foresee.
KM_TARGET static int64_t km_list(uint16_t *list, int64_t count, uint64_t bits, int64_t first) {
    const int64_t end = count + __builtin_popcountll(bits);
    for (; count < end; count += 4)
        for (int i = 0; i < 4; i++) {
            list[count + i] = (uint16_t)(first + __builtin_ctzll(bits | (uint64_t)1 << (GROUP - 1)));
            bits &= bits - 1;
        }
    return end;
}

enum { TOGETHER = 8 }; // slots that add up all points side by side

// What all slots share of a span.
typedef struct km_lanes_span {
    int64_t first, end;            // of the block's points
    const char *ahead, *ahead_end; // points of the next span that are not fetched yet
    int64_t ahead_step;            // bytes of them to fetch at a time
    //@ if integers
    int32_t pairs[SPAN * GROUP * $pairs_most] __attribute__((aligned(64))); // points as integers
    //@ end
    //@ if rows
    int has_rows;   // all points stand in rows; else listed ones do
    int64_t single; // points that became rows alone
    double rows[SPAN * GROUP * $row_most]
        __attribute__((aligned(64))); // what points add to sums: x, then ones
    //@ end
    //@ if whole
    //@ if not float64
    int has_doubles;
    double doubles[SPAN * GROUP * $d_most] __attribute__((aligned(64))); // the points
    //@ end
    //@ end
} km_lanes_span;

//@ if rows
// Points of a span up to a part of which those that move become rows one by one: eight at a time cost a quarter.
#define SINGLE_SHARE (ROW % 8 ? 1 : 4)

// What rows hold beside coordinates: as many of the two ones as there is room for.
KM_TARGET static void km_rows_clear(km_lanes_span *span) {
    for (int i = 0; i < SPAN * GROUP; i++)
        for (int f = D; f < ROW; f++) span->rows[i * ROW + f] = f < D + 2;
}

// A point's coordinates become a row.
KM_TARGET static inline void km_row(double *row, const km_real *point) {
    int f = 0;
    //@ if avx512
    for (; f + 8 <= D; f += 8, point += 8 * GROUP) KM_D_STORE(row + f, KM_D_GATHER(point));
    //@ end
    for (; f + 4 <= D; f += 4, point += 4 * GROUP)
        *(km_quad *)(row + f) = __builtin_convertvector(KM_FOUR(point), km_quad);
    for (; f < D; f++, point += GROUP) row[f] = (double)point[0];
}

// All points of a span become rows, once.
KM_TARGET static void km_rows_make(km_lanes_span *span, const km_cpu_chunk *block) {
    const km_real *points = (const km_real *)block->points + span->first * D;
    double *rows = span->rows;
    if (span->has_rows) return;
    span->has_rows = 1;
    for (int64_t base = span->first; base < span->end;
         base += GROUP, points += GROUP * D, rows += GROUP * ROW) {
        //@ if avx512
        if (ROW % 8 == 0) {
            for (int i = 0; i < GROUP; i += 8)
                for (int f = 0; f < ROW; f += 8) KM_D_TURN(rows + i * ROW + f, points + f * GROUP + i, D - f);
            continue;
        }
        //@ end
        for (int i = 0; i < GROUP; i++) km_row(rows + i * ROW, points + i);
    }
}

// The ones that a row has no room for.
KM_TARGET static inline void km_add_rest(double *sums, double one) {
    if (D + 2 - ROW > 0) *(km_two *)(sums + ROW) += (km_two){one, D + 2 - ROW > 1 ? one : 0};
}

// A point joins sums.
KM_TARGET static inline void km_add(double *sums, const double *row) {
    int f = 0;
    //@ if avx512
    for (; f + 8 <= ROW; f += 8) KM_D_STORE(sums + f, KM_D_ADD(KM_D_LOAD(sums + f), KM_D_LOAD(row + f)));
    //@ end
    for (; f < ROW; f += 4) *(km_quad *)(sums + f) += *(const km_quad *)(row + f);
    km_add_rest(sums, 1);
}

// A point leaves sums.
KM_TARGET static inline void km_take(double *sums, const double *row) {
    int f = 0;
    //@ if avx512
    for (; f + 8 <= ROW; f += 8) KM_D_STORE(sums + f, KM_D_SUB(KM_D_LOAD(sums + f), KM_D_LOAD(row + f)));
    //@ end
    for (; f < ROW; f += 4) *(km_quad *)(sums + f) -= *(const km_quad *)(row + f);
    km_add_rest(sums, -1);
}

// The same with weights: the factor is a weight, or less than 0 to leave.
KM_TARGET static inline void km_add_weighted(double *sums, const double *row, double factor, double points) {
    for (int f = 0; f < D; f++) sums[f] += factor * row[f];
    sums[D] += factor;
    sums[D + 1] += points;
}

// Listed points of a span leave the sums of their old label and join those of the new.
KM_TARGET static void km_move(double *sums, km_lanes_span *span, const km_cpu_chunk *block,
                              const uint16_t *list, int64_t count, const km_index *labels,
                              const km_index *old) {
    const km_real *points = (const km_real *)block->points + span->first * D;
    const double *weights = block->weights ? block->weights + span->first : NULL;
    span->single += count;
    if (span->single > SPAN * GROUP / SINGLE_SHARE) km_rows_make(span, block);
    for (int64_t i = 0; !span->has_rows && i < count; i++)
        km_row(span->rows + i * ROW, points + list[i] / GROUP * (GROUP * D) + list[i] % GROUP);
    for (int64_t i = 0; i < count; i++) {
        const double *row = span->rows + (span->has_rows ? list[i] : i) * ROW;
        double *to = sums + (int64_t)labels[list[i]] * PITCH, *from = sums + (int64_t)old[list[i]] * PITCH;
        if (!weights) {
            km_add(to, row);
            km_take(from, row);
        } else if (weights[list[i]] > 0) {
            km_add_weighted(to, row, weights[list[i]], 1.0);
            km_add_weighted(from, row, -weights[list[i]], -1.0);
        }
    }
}

// All points of a span join the sums of `count` slots: side by side, as additions to one row wait for each other.
KM_TARGET static void km_add_span(km_cpu_slot *const *slots, int count, const km_cpu_chunk *block,
                                  km_lanes_span *span) {
    const int64_t points_count = span->end - span->first;
    const double *weights = block->weights ? block->weights + span->first : NULL;
    km_index labels[TOGETHER][SPAN * GROUP];
    double *sums[TOGETHER];
    km_rows_make(span, block);
    for (int t = 0; t < count; t++) {
        sums[t] = slots[t]->sums;
        for (int64_t base = 0; base < points_count; base += GROUP)
            km_labels_get(labels[t] + base, slots[t], span->first + base);
    }
    if (!weights) {
        for (int64_t i = 0; i < points_count; i++)
            for (int t = 0; t < count; t++)
                km_add(sums[t] + (int64_t)labels[t][i] * PITCH, span->rows + i * ROW);
        return;
    }
    for (int64_t i = 0; i < points_count; i++)
        for (int t = 0; t < count && weights[i] > 0; t++)
            km_add_weighted(sums[t] + (int64_t)labels[t][i] * PITCH, span->rows + i * ROW, weights[i], 1.0);
}
//@ else
// Adds factor * x to a row of sums, and `points` to its count.
KM_TARGET static void km_add(double *row, const km_real *point, double factor, double points) {
    const km_quad factors = {factor, factor, factor, factor};
    int f = 0;
    for (; f + 4 <= D; f += 4, point += 4 * GROUP)
        *(km_quad *)(row + f) += factors * __builtin_convertvector(KM_FOUR(point), km_quad);
    for (; f < D; f++, point += GROUP) row[f] += factor * (double)point[0];
    row[D] += factor;
    row[D + 1] += points;
}

// Points of a span leave the sums of their old label and join those of the new.
KM_TARGET static void km_move(double *sums, const km_real *points, const double *weights,
                              const uint16_t *list, int64_t count, const km_index *labels,
                              const km_index *old) {
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = list[i];
        const km_real *point = points + at / GROUP * GROUP * D + at % GROUP;
        const double weight = weights ? weights[at] : 1.0;
        if (weight == 0) continue;
        km_add(sums + (int64_t)labels[at] * PITCH, point, weight, 1.0);
        km_add(sums + (int64_t)old[at] * PITCH, point, -weight, -1.0);
    }
}

// All points of a span join the sums of `count` slots.
KM_TARGET static void km_add_span(km_cpu_slot *const *slots, int count, const km_cpu_chunk *block,
                                  km_lanes_span *span) {
    for (int64_t at = span->first; at < span->end; at += GROUP)
        for (int t = 0; t < count; t++) {
            const km_real *points = (const km_real *)block->points + at * D;
            km_index labels[GROUP];
            km_labels_get(labels, slots[t], at);
            for (int64_t i = 0; i < GROUP && at + i < span->end; i++) {
                const double weight = block->weights ? block->weights[at + i] : 1.0;
                if (weight > 0) km_add(slots[t]->sums + (int64_t)labels[i] * PITCH, points + i, weight, 1.0);
            }
        }
}
//@ end

//@ if whole
//@ include cpu/lanes/whole_sums.c

// All points of a span join the sums of one slot of few clusters.
KM_TARGET static void km_add_whole(const km_cpu_slot *slot, const km_cpu_chunk *block, km_lanes_span *span) {
    const km_real *points = (const km_real *)block->points + span->first * D;
    const int64_t count = span->end - span->first;
    const km_index *labels = (const km_index *)slot->labels + span->first;
    //@ if float64
    km_whole_sums(slot->sums, points, labels, count, slot->k);
    //@ else
    if (!span->has_doubles) km_whole_points(span->doubles, points, (count + GROUP - 1) / GROUP);
    span->has_doubles = 1;
    km_whole_sums(slot->sums, span->doubles, labels, count, slot->k);
    //@ end
}

//@ end
// Fetches a share of the next span's points while this one is worked on: as many as memory delivers meanwhile.
static inline void km_fetch_ahead(km_lanes_span *span) {
    const char *end = span->ahead + span->ahead_step;
    if (end > span->ahead_end) end = span->ahead_end;
    for (; span->ahead < end; span->ahead += 64) __builtin_prefetch(span->ahead);
}

// What is to be fetched while all slots work on a span.
static void km_fetch_start(km_lanes_span *span, const km_cpu_chunk *block) {
    const int64_t next = span->first + SPAN * GROUP;
    //@ if tiled
    const int64_t turns = block->slots_count * (SPAN * GROUP / (VECTORS * LANES));
    //@ else
    const int64_t turns = block->slots_count * SPAN;
    //@ end
    const int64_t points = next + SPAN * GROUP <= block->points_count ? SPAN * GROUP : 0;
    const int64_t bytes = points * D * (int64_t)sizeof(km_real);
    span->ahead = (const char *)((const km_real *)block->points + next * D);
    span->ahead_end = span->ahead + bytes;
    span->ahead_step = (bytes / turns + 63) / 64 * 64;
}

// One slot's labels of a span; in KM_CPU_MOVE its sums, of the points whose label changed.
KM_TARGET static void km_slot_span(km_cpu_slot *slot, const km_cpu_chunk *block, km_lanes_span *span) {
    const km_real *points = (const km_real *)block->points + span->first * D;
    const int moves = slot->mode == KM_CPU_MOVE && slot->sums;
    const int64_t count = span->end - span->first;
    km_index labels[SPAN * GROUP], old[SPAN * GROUP];
    uint16_t list[SPAN * GROUP + 3];
    int64_t listed = 0;
    //@ if integers
    for (int64_t base = 0; slot->pairs && base < count; base += GROUP) {
        km_fetch_ahead(span);
        slot->decided += km_nearest_group(labels + base, span->pairs + base * PAIRS, points + base * D, slot);
    }
    const int64_t labelled = slot->pairs ? count : 0;
    //@ end
    //@ if tiled
    for (int64_t base = $labelled; base < count; base += GROUP)
        for (int i = 0; i < GROUP; i += VECTORS * LANES) {
            km_fetch_ahead(span);
            km_nearest(labels + base + i, points + base * D + i, (const km_real *)slot->table, slot->k);
        }
    //@ else
    for (int64_t base = $labelled; base < count; base += GROUP) {
        km_fetch_ahead(span);
        for (int i = 0; i < GROUP; i += VECTORS * LANES)
            km_nearest(labels + base + i, points + base * D + i, (const km_real *)slot->table, slot->k);
    }
    //@ end
    for (int64_t base = 0; base < count; base += GROUP) {
        uint64_t changed = ~(uint64_t)0 >> (count - base < GROUP ? GROUP - (count - base) : 0);
        if (slot->mode != KM_CPU_FIRST) {
            km_labels_get(old + base, slot, span->first + base);
            changed &= km_changes(labels + base, old + base);
        }
        if (!changed) continue;
        slot->changed += __builtin_popcountll(changed);
        km_labels_put(slot, span->first + base, labels + base);
        if (moves) listed = km_list(list, listed, changed, base);
    }
    //@ if rows
    if (listed) km_move(slot->sums, span, block, list, listed, labels, old);
    //@ else
    const double *weights = block->weights ? block->weights + span->first : NULL;
    if (listed) km_move(slot->sums, points, weights, list, listed, labels, old);
    //@ end
}

KM_TARGET static void km_pass(const km_cpu_chunk *block) {
    km_lanes_span span;
    km_cpu_slot *together[TOGETHER];
    //@ if any_d
    D = (int)block->d;
    //@ end
    //@ if rows
    km_rows_clear(&span);
    //@ end
    for (int64_t s = 0; s < block->slots_count; s++) block->slots[s].changed = block->slots[s].decided = 0;
    for (int64_t first = 0; first < block->points_count; first += SPAN * GROUP) {
        int count = 0;
        span.first = first;
        span.end = first + SPAN * GROUP < block->points_count ? first + SPAN * GROUP : block->points_count;
        //@ if rows
        span.has_rows = 0;
        span.single = 0;
        //@ end
        //@ if whole
        //@ if not float64
        span.has_doubles = 0;
        //@ end
        //@ end
        km_fetch_start(&span, block);
        //@ if integers
        if (block->scales)
            km_pairs_make(span.pairs, (const km_real *)block->points + first * D, block->scales,
                          (span.end - first + GROUP - 1) / GROUP);
        //@ end
        for (int64_t s = 0; s < block->slots_count; s++) {
            km_cpu_slot *slot = &block->slots[s];
            km_slot_span(slot, block, &span);
            if (slot->mode != KM_CPU_MOVE && slot->sums) {
                //@ if whole
                if (slot->k <= WHOLE_K && !block->weights)
                    km_add_whole(slot, block, &span);
                else
                    together[count++] = slot;
                //@ else
                together[count++] = slot;
                //@ end
            }
            if (count == TOGETHER || (count && s + 1 == block->slots_count)) {
                km_add_span(together, count, block, &span);
                count = 0;
            }
        }
    }
}

//@ include cpu/seed.c
//@ include cpu/finish.c
//@ include cpu/exports.c

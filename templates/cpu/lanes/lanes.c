// SPDX-License-Identifier: MIT
// The design lanes: points across SIMD lanes. A span of points is read into the first cache and serves every slot.
// A slot first labels the span, then moves the points whose label changed to the sums of their new cluster.
//@ need symbol vectors_list label_sets tile_starts tile_list centroid_tiles labels_32bit point_rows masked_sums
//@ need feature_loop avx512 any_d row_most float64
//@ need int16_scores labelled_count
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
    //@ if centroid_tiles
    // The centroids that k leaves beside whole tiles go first. Centroid 0 starts as the best.
    //@ if feature_loop
    // A single one would wait for its own additions, so it goes with a whole tile.
    const int64_t start = k > 1 && k % TILE == 1 ? TILE + 1 : (k - 1) % TILE + 1;
    //@ else
    const int64_t start = (k - 1) % TILE + 1;
    //@ end
    switch (start) {
        //@ for r in tile_starts
        $r_case {
            //@ include cpu/lanes/tile.c with centroids = r_centroids, later = r_later, is_first = 1
            break;
        }
        //@ end
    }
    for (int64_t done = start; done < k; done += TILE) {
        row = table + done * (D + 1);
        //@ include cpu/lanes/tile.c with centroids = tile_list, later = tile_list, is_first = 0
    }
    //@ else
    //@ for v in vectors_list
    best_$v = KM_SPLAT(row[D]);
    //@ end
    for (int f = 0; f < D; f++) {
        const km_vec c = KM_SPLAT(row[f]);
        //@ for v in vectors_list
        best_$v = KM_FMA(KM_LOAD(points + f * SOA_POINTS + $v * LANES), c, best_$v);
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
            s_$v = KM_FMA(KM_LOAD(points + f * SOA_POINTS + $v * LANES), c, s_$v);
            //@ end
        }
        j = KM_INTS_ADD(j, one);
        //@ for v in vectors_list
        KM_KEEP(best_$v, index_$v, s_$v, j);
        //@ end
    }
    //@ end
    //@ if labels_32bit
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

//@ if int16_scores
//@ include cpu/lanes/int16_scores.c

//@ end
//@ include cpu/labels.c

// A bit for each point of an SoA group whose label differs.
KM_TARGET static uint64_t km_changes(const km_index *labels, const km_index *old) {
    //@ if labels_32bit
    uint64_t changed = 0;
    for (int i = 0; i < SOA_POINTS; i++) changed |= (uint64_t)(labels[i] != old[i]) << i;
    return changed;
    //@ else
    return KM_DIFFER(labels, old);
    //@ end
}

// Appends the numbers of the set bits to a list, `first` for the lowest bit. Four at a time, because the processor
// foresees the end of such a loop more often.
KM_TARGET static int64_t km_list_bits(uint16_t *list, int64_t count, uint64_t bits, int64_t first) {
    const int64_t end = count + __builtin_popcountll(bits);
    for (; count < end; count += 4)
        for (int i = 0; i < 4; i++) {
            list[count + i] = (uint16_t)(first + __builtin_ctzll(bits | (uint64_t)1 << (SOA_POINTS - 1)));
            bits &= bits - 1;
        }
    return end;
}

enum { SLOTS_TOGETHER = 8 }; // slots that add all points of a span side by side

// A span, and what all slots share of it.
typedef struct km_lanes_span {
    int64_t first, end;            // of the chunk's points
    const char *ahead, *ahead_end; // points of the next span that are not prefetched yet
    int64_t ahead_step;            // bytes of them to prefetch at a time
    //@ if int16_scores
    int32_t int16_points[SPAN * SOA_POINTS * $feature_pairs_max]
        __attribute__((aligned(64))); // points as int16
    //@ end
    //@ if point_rows
    int has_rows;            // `rows` has all points; else listed ones
    int64_t rows_one_by_one; // listed points that became rows so far
    double rows[SPAN * SOA_POINTS * $row_most]
        __attribute__((aligned(64))); // what a point adds to sums: x, then ones
    //@ end
    //@ if masked_sums
    //@ if not float64
    int has_doubles;
    double doubles[SPAN * SOA_POINTS * $d_most] __attribute__((aligned(64))); // the points
    //@ end
    //@ end
} km_lanes_span;

//@ if point_rows
// Points that change their label become rows one by one, up to this part of a span. All at once is eight at a time, a
// quarter of the cost for each.
#define ONE_BY_ONE_SHARE (ROW % 8 ? 1 : 4)

// What rows hold behind coordinates: ones for weight and count, as far as they fit, then zeros.
KM_TARGET static void km_rows_clear(km_lanes_span *span) {
    for (int i = 0; i < SPAN * SOA_POINTS; i++)
        for (int f = D; f < ROW; f++) span->rows[i * ROW + f] = f < D + 2;
}

// Makes a row of a point's coordinates.
KM_TARGET static inline void km_row(double *row, const km_real *point) {
    int f = 0;
    //@ if avx512
    for (; f + 8 <= D; f += 8, point += 8 * SOA_POINTS) KM_D_STORE(row + f, KM_D_GATHER(point));
    //@ end
    for (; f + 4 <= D; f += 4, point += 4 * SOA_POINTS)
        *(km_quad *)(row + f) = __builtin_convertvector(KM_FOUR(point), km_quad);
    for (; f < D; f++, point += SOA_POINTS) row[f] = (double)point[0];
}

// Makes rows of all points of a span, once.
KM_TARGET static void km_rows_make(km_lanes_span *span, const km_cpu_chunk *chunk) {
    const km_real *points = (const km_real *)chunk->points + span->first * D;
    double *rows = span->rows;
    if (span->has_rows) return;
    span->has_rows = 1;
    for (int64_t base = span->first; base < span->end;
         base += SOA_POINTS, points += SOA_POINTS * D, rows += SOA_POINTS * ROW) {
        //@ if avx512
        if (ROW % 8 == 0) {
            for (int i = 0; i < SOA_POINTS; i += 8)
                for (int f = 0; f < ROW; f += 8)
                    KM_D_TRANSPOSE(rows + i * ROW + f, points + f * SOA_POINTS + i, D - f);
            continue;
        }
        //@ end
        for (int i = 0; i < SOA_POINTS; i++) km_row(rows + i * ROW, points + i);
    }
}

// Adds the ones that do not fit a row.
KM_TARGET static inline void km_add_rest(double *sums, double one) {
    if (D + 2 - ROW > 0) *(km_two *)(sums + ROW) += (km_two){one, D + 2 - ROW > 1 ? one : 0};
}

// Adds a point to sums.
KM_TARGET static inline void km_add(double *sums, const double *row) {
    int f = 0;
    //@ if avx512
    for (; f + 8 <= ROW; f += 8) KM_D_STORE(sums + f, KM_D_ADD(KM_D_LOAD(sums + f), KM_D_LOAD(row + f)));
    //@ end
    for (; f < ROW; f += 4) *(km_quad *)(sums + f) += *(const km_quad *)(row + f);
    km_add_rest(sums, 1);
}

// Subtracts a point from sums.
KM_TARGET static inline void km_subtract(double *sums, const double *row) {
    int f = 0;
    //@ if avx512
    for (; f + 8 <= ROW; f += 8) KM_D_STORE(sums + f, KM_D_SUB(KM_D_LOAD(sums + f), KM_D_LOAD(row + f)));
    //@ end
    for (; f < ROW; f += 4) *(km_quad *)(sums + f) -= *(const km_quad *)(row + f);
    km_add_rest(sums, -1);
}

// The same with weights. The factor is the weight, or minus it to subtract; `points` is 1 or -1.
KM_TARGET static inline void km_add_weighted(double *sums, const double *row, double factor, double points) {
    for (int f = 0; f < D; f++) sums[f] += factor * row[f];
    sums[D] += factor;
    sums[D + 1] += points;
}

// Moves listed points of a span from the sums of their old label to those of the new.
KM_TARGET static void km_move(double *sums, km_lanes_span *span, const km_cpu_chunk *chunk,
                              const uint16_t *list, int64_t count, const km_index *labels,
                              const km_index *old) {
    const km_real *points = (const km_real *)chunk->points + span->first * D;
    const double *weights = chunk->weights ? chunk->weights + span->first : NULL;
    span->rows_one_by_one += count;
    if (span->rows_one_by_one > SPAN * SOA_POINTS / ONE_BY_ONE_SHARE) km_rows_make(span, chunk);
    for (int64_t i = 0; !span->has_rows && i < count; i++)
        km_row(span->rows + i * ROW, points + list[i] / SOA_POINTS * (SOA_POINTS * D) + list[i] % SOA_POINTS);
    for (int64_t i = 0; i < count; i++) {
        const double *row = span->rows + (span->has_rows ? list[i] : i) * ROW;
        double *to = sums + (int64_t)labels[list[i]] * PITCH, *from = sums + (int64_t)old[list[i]] * PITCH;
        if (!weights) {
            km_add(to, row);
            km_subtract(from, row);
        } else if (weights[list[i]] > 0) {
            km_add_weighted(to, row, weights[list[i]], 1.0);
            km_add_weighted(from, row, -weights[list[i]], -1.0);
        }
    }
}

// Adds all points of a span to the sums of `count` slots. Side by side, because additions to one row wait for each
// other.
KM_TARGET static void km_add_span(km_cpu_slot *const *slots, int count, const km_cpu_chunk *chunk,
                                  km_lanes_span *span) {
    const int64_t points_count = span->end - span->first;
    const double *weights = chunk->weights ? chunk->weights + span->first : NULL;
    km_index labels[SLOTS_TOGETHER][SPAN * SOA_POINTS];
    double *sums[SLOTS_TOGETHER];
    km_rows_make(span, chunk);
    for (int t = 0; t < count; t++) {
        sums[t] = slots[t]->sums;
        for (int64_t base = 0; base < points_count; base += SOA_POINTS)
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
    for (; f + 4 <= D; f += 4, point += 4 * SOA_POINTS)
        *(km_quad *)(row + f) += factors * __builtin_convertvector(KM_FOUR(point), km_quad);
    for (; f < D; f++, point += SOA_POINTS) row[f] += factor * (double)point[0];
    row[D] += factor;
    row[D + 1] += points;
}

// Moves listed points of a span from the sums of their old label to those of the new.
KM_TARGET static void km_move(double *sums, const km_real *points, const double *weights,
                              const uint16_t *list, int64_t count, const km_index *labels,
                              const km_index *old) {
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = list[i];
        const km_real *point = points + at / SOA_POINTS * SOA_POINTS * D + at % SOA_POINTS;
        const double weight = weights ? weights[at] : 1.0;
        if (weight == 0) continue;
        km_add(sums + (int64_t)labels[at] * PITCH, point, weight, 1.0);
        km_add(sums + (int64_t)old[at] * PITCH, point, -weight, -1.0);
    }
}

// Adds all points of a span to the sums of `count` slots.
KM_TARGET static void km_add_span(km_cpu_slot *const *slots, int count, const km_cpu_chunk *chunk,
                                  km_lanes_span *span) {
    for (int64_t at = span->first; at < span->end; at += SOA_POINTS)
        for (int t = 0; t < count; t++) {
            const km_real *points = (const km_real *)chunk->points + at * D;
            km_index labels[SOA_POINTS];
            km_labels_get(labels, slots[t], at);
            for (int64_t i = 0; i < SOA_POINTS && at + i < span->end; i++) {
                const double weight = chunk->weights ? chunk->weights[at + i] : 1.0;
                if (weight > 0) km_add(slots[t]->sums + (int64_t)labels[i] * PITCH, points + i, weight, 1.0);
            }
        }
}
//@ end

//@ if masked_sums
//@ include cpu/lanes/masked_sums.c

// Adds all points of a span to the sums of one slot that has few clusters.
KM_TARGET static void km_add_masked(const km_cpu_slot *slot, const km_cpu_chunk *chunk, km_lanes_span *span) {
    const km_real *points = (const km_real *)chunk->points + span->first * D;
    const int64_t count = span->end - span->first;
    const km_index *labels = (const km_index *)slot->labels + span->first;
    //@ if float64
    km_masked_sums(slot->sums, points, labels, count, slot->k);
    //@ else
    if (!span->has_doubles) km_masked_points(span->doubles, points, (count + SOA_POINTS - 1) / SOA_POINTS);
    span->has_doubles = 1;
    km_masked_sums(slot->sums, span->doubles, labels, count, slot->k);
    //@ end
}

//@ end
// Prefetches a share of the next span's points, as many as memory delivers while this span is worked on.
static inline void km_fetch_ahead(km_lanes_span *span) {
    const char *end = span->ahead + span->ahead_step;
    if (end > span->ahead_end) end = span->ahead_end;
    for (; span->ahead < end; span->ahead += 64) __builtin_prefetch(span->ahead);
}

// Decides what to prefetch while all slots work on a span.
static void km_fetch_start(km_lanes_span *span, const km_cpu_chunk *chunk) {
    const int64_t next = span->first + SPAN * SOA_POINTS;
    //@ if centroid_tiles
    const int64_t turns = chunk->slots_count * (SPAN * SOA_POINTS / (VECTORS * LANES));
    //@ else
    const int64_t turns = chunk->slots_count * SPAN;
    //@ end
    const int64_t points = next + SPAN * SOA_POINTS <= chunk->points_count ? SPAN * SOA_POINTS : 0;
    const int64_t bytes = points * D * (int64_t)sizeof(km_real);
    span->ahead = (const char *)((const km_real *)chunk->points + next * D);
    span->ahead_end = span->ahead + bytes;
    span->ahead_step = (bytes / turns + 63) / 64 * 64;
}

// Labels a span for one slot. With KM_CPU_MOVE, also moves the points whose label changed from sums to sums.
KM_TARGET static void km_slot_span(km_cpu_slot *slot, const km_cpu_chunk *chunk, km_lanes_span *span) {
    const km_real *points = (const km_real *)chunk->points + span->first * D;
    const int moves = slot->mode == KM_CPU_MOVE && slot->sums;
    const int64_t count = span->end - span->first;
    km_index labels[SPAN * SOA_POINTS], old[SPAN * SOA_POINTS];
    uint16_t list[SPAN * SOA_POINTS + 3];
    int64_t listed = 0;
    //@ if int16_scores
    for (int64_t base = 0; slot->int16_table && base < count; base += SOA_POINTS) {
        km_fetch_ahead(span);
        slot->resolved += km_label_soa_group(labels + base, span->int16_points + base * FEATURE_PAIRS,
                                             points + base * D, slot);
    }
    const int64_t labelled_count = slot->int16_table ? count : 0;
    //@ end
    //@ if centroid_tiles
    for (int64_t base = $labelled_count; base < count; base += SOA_POINTS)
        for (int i = 0; i < SOA_POINTS; i += VECTORS * LANES) {
            km_fetch_ahead(span);
            km_nearest(labels + base + i, points + base * D + i, (const km_real *)slot->table, slot->k);
        }
    //@ else
    for (int64_t base = $labelled_count; base < count; base += SOA_POINTS) {
        km_fetch_ahead(span);
        for (int i = 0; i < SOA_POINTS; i += VECTORS * LANES)
            km_nearest(labels + base + i, points + base * D + i, (const km_real *)slot->table, slot->k);
    }
    //@ end
    for (int64_t base = 0; base < count; base += SOA_POINTS) {
        uint64_t changed = ~(uint64_t)0 >> (count - base < SOA_POINTS ? SOA_POINTS - (count - base) : 0);
        if (slot->mode != KM_CPU_FIRST) {
            km_labels_get(old + base, slot, span->first + base);
            changed &= km_changes(labels + base, old + base);
        }
        if (!changed) continue;
        slot->changed += __builtin_popcountll(changed);
        km_labels_put(slot, span->first + base, labels + base);
        if (moves) listed = km_list_bits(list, listed, changed, base);
    }
    //@ if point_rows
    if (listed) km_move(slot->sums, span, chunk, list, listed, labels, old);
    //@ else
    const double *weights = chunk->weights ? chunk->weights + span->first : NULL;
    if (listed) km_move(slot->sums, points, weights, list, listed, labels, old);
    //@ end
}

KM_TARGET static void km_pass(const km_cpu_chunk *chunk) {
    km_lanes_span span;
    km_cpu_slot *together[SLOTS_TOGETHER];
    //@ if any_d
    D = (int)chunk->d;
    //@ end
    //@ if point_rows
    km_rows_clear(&span);
    //@ end
    for (int64_t s = 0; s < chunk->slots_count; s++) chunk->slots[s].changed = chunk->slots[s].resolved = 0;
    for (int64_t first = 0; first < chunk->points_count; first += SPAN * SOA_POINTS) {
        int count = 0;
        span.first = first;
        span.end =
            first + SPAN * SOA_POINTS < chunk->points_count ? first + SPAN * SOA_POINTS : chunk->points_count;
        //@ if point_rows
        span.has_rows = 0;
        span.rows_one_by_one = 0;
        //@ end
        //@ if masked_sums
        //@ if not float64
        span.has_doubles = 0;
        //@ end
        //@ end
        km_fetch_start(&span, chunk);
        //@ if int16_scores
        if (chunk->int16_scales)
            km_int16_points_make(span.int16_points, (const km_real *)chunk->points + first * D,
                                 chunk->int16_scales, (span.end - first + SOA_POINTS - 1) / SOA_POINTS);
        //@ end
        for (int64_t s = 0; s < chunk->slots_count; s++) {
            km_cpu_slot *slot = &chunk->slots[s];
            km_slot_span(slot, chunk, &span);
            if (slot->mode != KM_CPU_MOVE && slot->sums) {
                //@ if masked_sums
                if (slot->k <= MASKED_SUMS_K_MAX && !chunk->weights)
                    km_add_masked(slot, chunk, &span);
                else
                    together[count++] = slot;
                //@ else
                together[count++] = slot;
                //@ end
            }
            if (count == SLOTS_TOGETHER || (count && s + 1 == chunk->slots_count)) {
                km_add_span(together, count, chunk, &span);
                count = 0;
            }
        }
    }
}

//@ include cpu/seed.c
//@ include cpu/finish.c
//@ include cpu/exports.c

// SPDX-License-Identifier: MIT
// The design sparse_lanes (runtime/cpu/sparse.h): rows of a sparse matrix, centroids of all runs across SIMD lanes.
//
// Scores of a panel of columns stay in registers over a row's nonzeros. Those of GROUP rows are then transposed, and
// each run's nearest centroid is searched with rows across lanes. A table of several panels is worked through panel by
// panel for a span of rows, so that the panel stays in a cache.
//@ need kinds counts widths group group_vectors double_vectors panel_vectors double_reals half_unit tiny
//@ include cpu/prebuilt.h
//@ include cpu/sparse_lanes/transpose_$vec.c
#include "runtime/cpu/sparse.h"

enum {
    GROUP = $group,                 // rows whose scores are searched together
    PANEL_VECTORS = $panel_vectors, // vectors of columns whose scores stay in registers, at most
    PANEL = PANEL_VECTORS * LANES,  // ... and columns
    DOUBLE_GROUP = 8,               // rows whose scores in double are searched together
    RESOLVED = 16,                  // columns of scores in double at a time
    SEED_LANES = 4,                 // candidates of a seeding side by side
    ADDED_RUNS = 4,                 // runs that all rows are added to side by side, at most ...
    ADDED_BYTES = 24 * 1024,        // ... while their sums are no more than this
    SUM_AHEAD = 4,                  // points between the one that is fetched and the one that joins a sum ...
    SUM_AHEAD_MOST = 256            // ... of which so many nonzeros are fetched
};

// Rows and the columns of a panel.
typedef struct panel {
    const void *indices, *values, *table, *constants;
    double *squares; // out, in double: |x|^2 of each row; NULL: not wanted
    int64_t stride;
    int32_t is_large;
} panel;

//@ for kind in kinds
typedef void (*km_scores_$kind)($kind_type *scores, int64_t pitch, const panel *p, const uint32_t *starts,
                                int64_t count);
//@ for width in widths
//@ for count in counts
//@ include cpu/sparse_lanes/scores.c
//@ end
//@ end
// By width of an index (1, 2 or 4 bytes), then number of vectors.
static const km_scores_$kind km_scores_of_$kind[3][PANEL_VECTORS] = {
    //@ for width in widths
    {
        //@ for count in counts
        km_scores_$kind_$count_$width,
        //@ end
    },
    //@ end
};

//@ end
//@ if double_reals
#define km_scores_of_real km_scores_of_double
//@ end
#define KM_WIDTH_OF(bytes) ((bytes) / 2) // 0, 1, 2 for 1, 2, 4 bytes

// Panels of about the same number of vectors.
KM_INLINE int64_t km_panel_vectors(int64_t vectors) {
    const int64_t panels = (vectors + PANEL_VECTORS - 1) / PANEL_VECTORS;
    return (vectors + panels - 1) / panels;
}

// Nearest centroids ---------------------------------------------------------------------------------------------

// What is known of a span's rows for one run.
typedef struct run_found {
    km_real *first, *second; // least scores so far, where the run's columns go on in another panel
    km_int *label;
    uint64_t ambiguous[SPARSE_SPAN / 64]; // a bit for each row
} run_found;

// Columns of a panel, and where they are of a run.
typedef struct run_part {
    int64_t begin, end; // of the panel's columns
    int64_t index;      // of the first: of its run
    int is_first, is_last;
} run_part;

// Takes the scores of a group for columns of one run. `slack`: of each row, what rounding may hide for a centroid of
// |c| = 1; `norm` and `least`: |c| at most, and what else rounding may hide.
KM_INLINE void km_search(run_found *found, int64_t at, const km_real *scores, const run_part *part,
                         const km_real *slack, km_real norm, km_real least) {
    uint64_t ambiguous = 0;
    //@ for v in group_vectors
    km_vec first_$v = KM_SPLAT(INFINITY), second_$v = first_$v;
    km_ints index_$v = KM_INTS(0);
    //@ end
    if (!part->is_first) {
        //@ for v in group_vectors
        first_$v = KM_LOAD(found->first + at + $v * LANES);
        second_$v = KM_LOAD(found->second + at + $v * LANES);
        memcpy(&index_$v, found->label + at + $v * LANES, sizeof index_$v);
        //@ end
    }
    const km_ints one = KM_INTS(1);
    km_ints j = KM_INTS((km_int)part->index);
    for (int64_t c = part->begin; c < part->end; c++) {
        //@ for v in group_vectors
        const km_vec score_$v = KM_LOAD(scores + c * GROUP + $v * LANES);
        //@ if float64
        KM_KEEP_NEAREST(first_$v, second_$v, index_$v, score_$v, j);
        //@ else
        KM_F_KEEP_NEAREST(first_$v, second_$v, index_$v, score_$v, j);
        //@ end
        //@ end
        j = KM_INTS_ADD(j, one);
    }
    //@ for v in group_vectors
    memcpy(found->label + at + $v * LANES, &index_$v, sizeof index_$v);
    //@ end
    if (!part->is_last) {
        //@ for v in group_vectors
        KM_STORE(found->first + at + $v * LANES, first_$v);
        KM_STORE(found->second + at + $v * LANES, second_$v);
        //@ end
        return;
    }
    const km_vec norms = KM_SPLAT(norm), leasts = KM_SPLAT(least);
    //@ for v in group_vectors
    const km_vec hidden_$v = KM_FMA(KM_LOAD(slack + $v * LANES), norms, leasts);
    ambiguous |= KM_NOT_BELOW(KM_ADD(first_$v, hidden_$v), second_$v) << ($v * LANES);
    //@ end
    found->ambiguous[at / 64] |= ambiguous << at % 64;
}

// What rounding may hide of the difference of two scores of a row, for centroids of |c| = 1: 2 gamma(m + 2) |x|, with
// gamma(m) = m u / (1 - m u), u half a unit of a real's last place; and a little more, as it is rounded itself.
KM_INLINE void km_slacks(km_real *slack, const uint32_t *starts, const float *norms, int64_t count) {
    for (int64_t r = 0; r < count; r++) {
        const double rounding = (double)(starts[r + 1] - starts[r] + 2) * $half_unit;
        const double gamma = rounding < 0.5 ? rounding / (1 - rounding) : (double)INFINITY;
        slack[r] = norms[r] > 0 ? (km_real)(2.001 * gamma * (double)norms[r]) : 0;
    }
    for (int64_t r = count; r < SPARSE_SPAN; r++) slack[r] = 0;
}

// Labels of a span, and which of them are ambiguous.
KM_TARGET static void km_nearest(run_found *found, const cpu_sparse_chunk *chunk, int64_t first,
                                 int64_t count) {
    km_real scores[GROUP * PANEL], by_column[PANEL * GROUP], slack[SPARSE_SPAN];
    const cpu_sparse_table *table = &chunk->table;
    const uint32_t *starts = chunk->rows.starts + first;
    const int64_t vectors = (table->columns + LANES - 1) / LANES, most = km_panel_vectors(vectors);
    int64_t slot_from = 0, slot_column = 0; // the first run of a panel, and its first column
    memset(scores, 0, sizeof scores);
    km_slacks(slack, starts, chunk->norms + first, count);
    for (int64_t from = 0; from < vectors; from += most) {
        const int64_t here = vectors - from < most ? vectors - from : most, column = from * LANES;
        const int64_t end = column + here * LANES < table->columns ? column + here * LANES : table->columns;
        const panel p = {chunk->rows.indices,
                         chunk->rows.values,
                         (const km_real *)table->rows + column,
                         (const km_real *)table->constants + column,
                         NULL,
                         table->stride,
                         table->is_large};
        while (slot_column + chunk->slots[slot_from].k <= column) slot_column += chunk->slots[slot_from++].k;
        for (int64_t g = 0; g < count; g += GROUP) {
            const int64_t rows = count - g < GROUP ? count - g : GROUP, pitch = here * LANES;
            km_scores_of_real[KM_WIDTH_OF(chunk->rows.index_bytes)][here - 1](scores, pitch, &p, starts + g,
                                                                              rows);
            for (int64_t v = 0; v < here; v++)
                for (int b = 0; b < GROUP; b += LANES)
                    KM_TRANSPOSE(by_column + v * LANES * GROUP + b, GROUP, scores + b * pitch + v * LANES,
                                 pitch);
            for (int64_t s = slot_from, at = slot_column; at < end; at += chunk->slots[s++].k) {
                const int64_t k = chunk->slots[s].k;
                const run_part part = {at < column ? 0 : at - column, (at + k < end ? at + k : end) - column,
                                       at < column ? column - at : 0, at >= column, at + k <= end};
                const double norm = chunk->norms_max[s];
                // Rounding of |c|^2 / 2 and of the last addition; products that are too small for a real.
                const double least = 2.001 * $half_unit * norm * norm + (double)(chunk->d + 4) * $tiny;
                km_search(&found[s], g, by_column, &part, slack + g, (km_real)norm, (km_real)least);
            }
        }
    }
}

// Where a point's nonzeros are.
KM_INLINE void km_sum_row(int64_t *at, int64_t *end, const cpu_sparse_sum *of, int64_t point) {
    const int64_t chunk = point / KM_CHUNK_POINTS;
    const uint32_t *starts = of->starts + chunk * (KM_CHUNK_POINTS + 1) + point % KM_CHUNK_POINTS;
    *at = of->chunk_first[chunk] + starts[0];
    *end = of->chunk_first[chunk] + starts[1];
}

// Ambiguous rows, and changes --------------------------------------------------------------------------------------

// A run whose sums get all rows of a span, and their labels.
typedef struct added_run {
    double *sums;
    const km_int *label;
} added_run;

// The nearest centroid in double, the lowest index among equals: as km_cpu_finish_models has it.
//@ for width in widths
KM_TARGET __attribute__((noinline)) static int64_t km_resolve_$width(const cpu_sparse_chunk *chunk,
                                                                     int64_t row, int64_t column, int64_t k) {
    const uint$width_t *indices = (const uint$width_t *)chunk->rows.indices;
    const km_real *values = (const km_real *)chunk->rows.values;
    const int64_t stride = chunk->table.stride;
    double least = (double)INFINITY;
    int64_t label = 0;
    for (int64_t from = 0; from < k; from += RESOLVED) {
        const int64_t here = k - from < RESOLVED ? k - from : RESOLVED;
        const km_real *table = (const km_real *)chunk->table.rows + column + from;
        double sums[RESOLVED] = {0};
        for (int64_t at = chunk->rows.starts[row]; at < chunk->rows.starts[row + 1]; at++) {
            const km_real *c = table + (int64_t)indices[at] * stride;
            const double x = (double)values[at];
            for (int64_t j = 0; j < here; j++) sums[j] = fma(x, (double)c[j], sums[j]);
        }
        for (int64_t j = 0; j < here; j++) {
            const double score = sums[j] + chunk->constants[column + from + j];
            if (!(score < least)) continue;
            least = score;
            label = from + j;
        }
    }
    return label;
}

// Moves the listed rows of a span, which starts at row `first`, from their old clusters to the new ones.
KM_TARGET static void km_move_$width(const cpu_sparse_chunk *chunk, const km_cpu_slot *slot, int64_t first,
                                     const uint16_t *list, const int32_t *old, int64_t count,
                                     const km_int *label) {
    const uint$width_t *indices = (const uint$width_t *)chunk->rows.indices;
    const km_real *values = (const km_real *)chunk->rows.values;
    const uint32_t *starts = chunk->rows.starts;
    const int64_t d = chunk->d, pitch = KM_CPU_PITCH(d);
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = first + list[i];
        const double weight = chunk->weights ? chunk->weights[row] : 1.0;
        if (weight == 0) continue;
        double *to = slot->sums + label[list[i]] * pitch, *from = slot->sums + old[i] * pitch;
        for (int64_t at = starts[row], end = starts[row + 1]; at < end; at++) {
            const int64_t f = indices[at];
            const double x = weight * (double)values[at];
            to[f] += x;
            from[f] -= x;
        }
        to[d] += weight;
        to[d + 1] += 1.0;
        from[d] -= weight;
        from[d + 1] -= 1.0;
    }
}

// Adds all rows of a span to the sums of `runs` runs that start from zero: of so few that their sums stay in a cache.
KM_INLINE void km_add_runs_$width(const cpu_sparse_chunk *chunk, const added_run *of, const int runs,
                                  int64_t first, int64_t count) {
    const uint$width_t *indices = (const uint$width_t *)chunk->rows.indices;
    const km_real *values = (const km_real *)chunk->rows.values;
    const uint32_t *starts = chunk->rows.starts + first;
    const int64_t d = chunk->d, pitch = KM_CPU_PITCH(d);
    double *sum[ADDED_RUNS];
    for (int64_t r = 0; r < count; r++) {
        const double weight = chunk->weights ? chunk->weights[first + r] : 1.0;
        if (weight == 0) continue;
        for (int i = 0; i < runs; i++) sum[i] = of[i].sums + of[i].label[r] * pitch;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const int64_t f = indices[at];
            const double x = weight * (double)values[at];
            for (int i = 0; i < runs; i++) sum[i][f] += x;
        }
        for (int i = 0; i < runs; i++) {
            sum[i][d] += weight;
            sum[i][d + 1] += 1.0;
        }
    }
}

KM_TARGET static void km_add_all_$width(const cpu_sparse_chunk *chunk, const added_run *of, int runs,
                                        int64_t first, int64_t count) {
    if (runs == 4) km_add_runs_$width(chunk, of, 4, first, count);
    if (runs == 3) km_add_runs_$width(chunk, of, 3, first, count);
    if (runs == 2) km_add_runs_$width(chunk, of, 2, first, count);
    if (runs == 1) km_add_runs_$width(chunk, of, 1, first, count);
}

// cpu_sparse_kernels.add
KM_TARGET static void km_sum_$width(const cpu_sparse_sum *of) {
    const uint$width_t *indices = (const uint$width_t *)of->indices;
    const km_real *values = (const km_real *)of->values;
    int64_t at, end;
    for (int64_t i = 0; i < of->count; i++) {
        if (i + SUM_AHEAD < of->count) { // rows of a cluster lie apart: nothing else fetches the next ones
            km_sum_row(&at, &end, of, of->marks[i + SUM_AHEAD] / 2);
            if (end > at + SUM_AHEAD_MOST) end = at + SUM_AHEAD_MOST;
            for (int64_t a = at; a < end; a += 64 / (int64_t)sizeof *indices)
                __builtin_prefetch(indices + a, 0, 0);
            for (int64_t a = at; a < end; a += 64 / (int64_t)sizeof *values)
                __builtin_prefetch(values + a, 0, 0);
        }
        const int64_t point = of->marks[i] / 2;
        km_sum_row(&at, &end, of, point);
        double weight = of->weights ? of->weights[point] : 1.0;
        if (weight == 0) continue;
        if (of->marks[i] % 2) weight = -weight;
        if (of->low > 0) { // the first nonzero that is not below `low`
            int64_t over = end;
            while (at < over) {
                const int64_t half = at + (over - at) / 2;
                if (indices[half] < of->low)
                    at = half + 1;
                else
                    over = half;
            }
        }
        if (of->high < of->d)
            for (; at < end && indices[at] < of->high; at++)
                of->row[indices[at]] += weight * (double)values[at];
        else {
            for (; at < end; at++) of->row[indices[at]] += weight * (double)values[at];
            of->row[of->d] += weight;
            of->row[of->d + 1] += weight < 0 ? -1.0 : 1.0;
        }
    }
}

//@ end
// Decides the ambiguous rows of a span for one run.
KM_TARGET static void km_resolve(cpu_sparse_chunk *chunk, run_found *found, int64_t s, int64_t column,
                                 int64_t first, int64_t count) {
    km_cpu_slot *slot = &chunk->slots[s];
    for (int64_t r = 0; r < count; r++) {
        if (!(found->ambiguous[r / 64] >> r % 64)) {
            r = r / 64 * 64 + 63;
            continue;
        }
        if (!(found->ambiguous[r / 64] >> r % 64 & 1)) continue;
        slot->resolved++;
        //@ for width in widths
        if (chunk->rows.index_bytes == $width / 8)
            found->label[r] = (km_int)km_resolve_$width(chunk, first + r, column, slot->k);
        //@ end
    }
}

// The bit of a word from which its first byte in memory that is not 0 is found; where item `at` of `bits` bits lies.
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define KM_FIRST_BIT(word) __builtin_ctzll(word)
#define KM_SHIFT(at, bits) ((at) * (bits))
#else
#define KM_FIRST_BIT(word) __builtin_clzll(word)
#define KM_SHIFT(at, bits) (64 - ((at) + 1) * (bits))
#endif

// Stores labels of a span, and lists the rows whose label changed. In the first pass all rows did. Labels are
// compared a word at a time; of the last word only those of the span are touched.
//@ for bytes in widths
KM_TARGET static int64_t km_changes_$bytes(uint$bytes_t *labels, const km_int *label, int64_t count,
                                           int32_t mode, uint16_t *list, int32_t *old) {
    enum { OF_WORD = 64 / $bytes };
    uint$bytes_t packed[SPARSE_SPAN];
    int64_t changed = 0;
    for (int r = 0; r < SPARSE_SPAN; r++) packed[r] = (uint$bytes_t)label[r]; // whole vectors
    for (int64_t from = 0; from < count; from += OF_WORD) {
        const size_t size = (size_t)(count - from < OF_WORD ? count - from : OF_WORD) * sizeof *labels;
        uint64_t before = 0, after = 0;
        if (size == sizeof before) {
            memcpy(&before, labels + from, sizeof before);
            memcpy(&after, packed + from, sizeof after);
            memcpy(labels + from, &after, sizeof after);
        } else {
            memcpy(&before, labels + from, size);
            memcpy(&after, packed + from, size);
            memcpy(labels + from, &after, size);
        }
        if (mode == KM_CPU_FIRST) continue;
        for (uint64_t differ = before ^ after; differ != 0;) {
            const int at = KM_FIRST_BIT(differ) / $bytes;
            list[changed] = (uint16_t)(from + at);
            old[changed++] = (int32_t)(uint$bytes_t)(before >> KM_SHIFT(at, $bytes));
            differ &= ~((uint64_t)(uint$bytes_t)-1 << KM_SHIFT(at, $bytes));
        }
    }
    return mode == KM_CPU_FIRST ? count : changed;
}

//@ end
static void km_list(cpu_sparse_changes *changes, int64_t first, const uint16_t *list, const int32_t *old,
                    int64_t count) {
    if (changes->count + count > changes->most) {
        changes->count = changes->most + 1;
        return;
    }
    for (int64_t i = 0; i < count; i++)
        changes->list[changes->count + i] = (cpu_sparse_change){(uint32_t)(first + list[i]), old[i]};
    changes->count += count;
}

// One run of a span whose labels are found.
KM_TARGET static void km_take(cpu_sparse_chunk *chunk, int64_t s, int64_t first, int64_t count,
                              const km_int *label) {
    uint16_t list[SPARSE_SPAN];
    int32_t old[SPARSE_SPAN];
    km_cpu_slot *slot = &chunk->slots[s];
    int64_t changed = 0;
    if (slot->labels_bytes == 1)
        changed = km_changes_8((uint8_t *)slot->labels + first, label, count, slot->mode, list, old);
    else if (slot->labels_bytes == 2)
        changed = km_changes_16((uint16_t *)slot->labels + first, label, count, slot->mode, list, old);
    else
        changed = km_changes_32((uint32_t *)slot->labels + first, label, count, slot->mode, list, old);
    slot->changed += changed;
    if (!slot->sums) {
        if (slot->mode == KM_CPU_MOVE && chunk->changes[s])
            km_list(chunk->changes[s], first, list, old, changed);
        return;
    }
    if (slot->mode != KM_CPU_MOVE) return;
    //@ for width in widths
    if (chunk->rows.index_bytes == $width / 8) km_move_$width(chunk, slot, first, list, old, changed, label);
    //@ end
}

// Adds all rows of a span to the sums of the runs that start from zero.
KM_TARGET static void km_add_all(const cpu_sparse_chunk *chunk, const run_found *found, int64_t first,
                                 int64_t count) {
    added_run of[ADDED_RUNS];
    int runs = 0;
    for (int64_t s = 0, bytes = 0; s <= chunk->slots_count; s++) {
        const km_cpu_slot *slot = s < chunk->slots_count ? &chunk->slots[s] : NULL;
        if (slot && (!slot->sums || slot->mode == KM_CPU_MOVE)) continue;
        const int64_t own = slot ? slot->k * KM_CPU_PITCH(chunk->d) * (int64_t)sizeof(double) : 0;
        if (runs == ADDED_RUNS || !slot || (runs && bytes + own > ADDED_BYTES)) {
            //@ for width in widths
            if (chunk->rows.index_bytes == $width / 8) km_add_all_$width(chunk, of, runs, first, count);
            //@ end
            runs = 0;
            bytes = 0;
        }
        if (slot) of[runs++] = (added_run){slot->sums, found[s].label};
        bytes += own;
    }
}

KM_TARGET static void km_pass(cpu_sparse_chunk *chunk) {
    run_found *found = (run_found *)(void *)chunk->scratch;
    char *at = (char *)chunk->scratch + chunk->slots_count * (int64_t)sizeof *found;
    for (int64_t s = 0; s < chunk->slots_count;
         s++, at += SPARSE_SPAN * (2 * sizeof(km_real) + sizeof(km_int))) {
        found[s].first = (km_real *)(void *)at;
        found[s].second = found[s].first + SPARSE_SPAN;
        found[s].label = (km_int *)(void *)(found[s].second + SPARSE_SPAN);
        chunk->slots[s].changed = chunk->slots[s].resolved = 0;
    }
    for (int64_t first = 0; first < chunk->rows.count; first += SPARSE_SPAN) {
        const int64_t count =
            chunk->rows.count - first < SPARSE_SPAN ? chunk->rows.count - first : SPARSE_SPAN;
        for (int64_t s = 0; s < chunk->slots_count; s++)
            memset(found[s].ambiguous, 0, sizeof found[s].ambiguous);
        km_nearest(found, chunk, first, count);
        for (int64_t s = 0, column = 0; s < chunk->slots_count; column += chunk->slots[s++].k) {
            km_resolve(chunk, &found[s], s, column, first, count);
            km_take(chunk, s, first, count, found[s].label);
        }
        km_add_all(chunk, found, first, count);
    }
}

// Scores in double --------------------------------------------------------------------------------------------------

KM_TARGET static void km_scores(double *scores, double *squares, const cpu_sparse_rows *rows,
                                const cpu_sparse_table *table) {
    const int64_t vectors = (table->columns + DOUBLES - 1) / DOUBLES, most = km_panel_vectors(vectors);
    for (int64_t from = 0; from < vectors; from += most) {
        const int64_t here = vectors - from < most ? vectors - from : most;
        const panel p = {rows->indices,
                         rows->values,
                         (const double *)table->rows + from * DOUBLES,
                         (const double *)table->constants + from * DOUBLES,
                         from ? NULL : squares,
                         table->stride,
                         table->is_large};
        km_scores_of_double[KM_WIDTH_OF(rows->index_bytes)][here - 1](scores + from * DOUBLES, table->stride,
                                                                      &p, rows->starts, rows->count);
    }
}

// The two least scores of SPARSE_AT_A_TIME rows, and whose the least is, the lowest index among equals; k >= 1. Up to 7
// numbers behind a row's k are read.
KM_TARGET static void km_nearest_double(int32_t *label, double *first, double *second, const double *scores,
                                        int64_t stride, int64_t k) {
    double by_column[DOUBLES * DOUBLE_GROUP];
    int64_t index[DOUBLES];
    for (int64_t r = 0; r < SPARSE_AT_A_TIME; r += DOUBLE_GROUP) {
        //@ for v in double_vectors
        km_doubles first_$v = KM_D_SPLAT(HUGE_VAL), second_$v = first_$v;
        km_longs index_$v = KM_LONGS(0);
        //@ end
        for (int64_t from = 0; from < k; from += DOUBLES) {
            const int64_t here = k - from < DOUBLES ? k - from : DOUBLES;
            //@ for v in double_vectors
            KM_TRANSPOSE_DOUBLES(by_column + $v * DOUBLES, DOUBLE_GROUP,
                                 scores + (r + $v * DOUBLES) * stride + from, stride);
            //@ end
            for (int64_t j = 0; j < here; j++) {
                const km_longs at = KM_LONGS(from + j);
                //@ for v in double_vectors
                const km_doubles score_$v = KM_D_LOAD(by_column + j * DOUBLE_GROUP + $v * DOUBLES);
                KM_KEEP_NEAREST(first_$v, second_$v, index_$v, score_$v, at);
                //@ end
            }
        }
        //@ for v in double_vectors
        KM_D_STORE(first + r + $v * DOUBLES, first_$v);
        KM_D_STORE(second + r + $v * DOUBLES, second_$v);
        KM_PUT_LONGS(index, index_$v);
        for (int i = 0; i < DOUBLES; i++) label[r + $v * DOUBLES + i] = (int32_t)index[i];
        //@ end
    }
}

// cpu_sparse_kernels.add
static void km_sum(const cpu_sparse_sum *sum) {
    //@ for width in widths
    if (sum->index_bytes == $width / 8) km_sum_$width(sum);
    //@ end
}

KM_TARGET static double km_square(const double *x, int64_t count) {
    double square = 0;
    for (int64_t i = 0; i < count; i++) square = fma(x[i], x[i], square);
    return square;
}

// d1 and (d2 - d1) / d2 (0 where d2 is 0), in reals, of squared distances; whole vectors.
KM_TARGET static void km_distances(double *distance, double *margin, const double *first,
                                   const double *second, int64_t count) {
    km_real near[LANES], next[LANES];
    for (int64_t from = 0; from < count; from += LANES) {
        for (int i = 0; i < LANES; i++) {
            near[i] = (km_real)first[from + i];
            next[i] = (km_real)second[from + i];
        }
        const km_vec d1 = KM_SQRT(KM_LOAD(near)), d2 = KM_SQRT(KM_LOAD(next)), zero = KM_SPLAT(0);
        const km_vec margins = KM_DIVIDE(KM_SUB(d2, d1), d2);
        KM_STORE(near, d1);
        KM_STORE(next, KM_WHERE(KM_LESS(zero, d2), margins, zero));
        for (int i = 0; i < LANES; i++) {
            distance[from + i] = (double)near[i];
            margin[from + i] = (double)next[i];
        }
    }
}

// Four doubles side by side, whatever the vectors of the instruction set are.
typedef double lanes_4 __attribute__((vector_size(4 * sizeof(double))));

// Squared distances from |x|^2 and scores.
KM_TARGET static void km_to_squares(double *scores, const double *squares) {
    for (int r = 0; r < SPARSE_AT_A_TIME; r++) {
        const double distance = squares[r] + 2 * scores[r];
        scores[r] = distance > 0 ? distance : 0;
    }
}

// Distances to the means of the rows' own clusters.
KM_TARGET static void km_mean_distances(double *distance, const cpu_sparse_model *of) {
    for (int r = 0; r < SPARSE_AT_A_TIME; r++) distance[r] = of->means[r * of->stride + of->label[r]];
    km_to_squares(distance, of->squares);
    for (int r = 0; r < SPARSE_AT_A_TIME; r += DOUBLES)
        KM_D_STORE(distance + r, KM_D_SQRT(KM_D_LOAD(distance + r)));
}

// cpu_sparse_kernels.finish
KM_TARGET static void km_finish(const cpu_sparse_model *of, int64_t count) {
    double second[SPARSE_AT_A_TIME], distance[SPARSE_AT_A_TIME], margin[SPARSE_AT_A_TIME];
    km_nearest_double(of->label, of->first, second, of->scores, of->stride, of->k);
    if (of->k == 1) memset(second, 0, sizeof second);
    km_to_squares(of->first, of->squares);
    if (of->k > 1) km_to_squares(second, of->squares);
    if (!of->sums) return;
    km_distances(distance, margin, of->first, second, SPARSE_AT_A_TIME);
    if (of->means) km_mean_distances(distance, of);
    _Static_assert(KM_CPU_SUM_SSE == KM_CPU_SUM_COUNT + 1 && KM_CPU_SUM_DISTANCE == KM_CPU_SUM_COUNT + 2 &&
                       KM_CPU_SUM_MARGIN == KM_CPU_SUM_COUNT + 3,
                   "four of a cluster's sums are one vector");
    for (int64_t r = 0; r < count; r++) {
        const double weight = of->weights ? of->weights[r] : 1.0;
        double *sum = of->sums + (int64_t)of->label[r] * KM_CPU_SUMS;
        const lanes_4 own = {1.0, weight * of->first[r], weight * distance[r], weight * margin[r]};
        lanes_4 four;
        memcpy(&four, sum + KM_CPU_SUM_COUNT, sizeof four);
        four += own;
        memcpy(sum + KM_CPU_SUM_COUNT, &four, sizeof four);
        sum[KM_CPU_SUM_WEIGHT] += weight;
    }
}

// |x - p|^2 from |x|^2, the score and |p|^2; 0 where that may be rounding.
KM_INLINE km_real km_seed_distance(double square, double score, double pick) {
    const double distance = square + 2 * score;
    return (km_real)(distance > SPARSE_SEED_ROUNDING * (square + pick) ? distance : 0);
}

// Candidates of a seeding side by side, whatever the vectors of the instruction set are.
typedef int64_t seed_longs __attribute__((vector_size(SEED_LANES * sizeof(int64_t))));
typedef km_real seed_reals __attribute__((vector_size(SEED_LANES * sizeof(km_real))));

// cpu_sparse_kernels.chain for candidates from `from` on.
KM_TARGET static void km_potentials(const cpu_sparse_chain *of, int64_t from, int64_t count) {
    const km_real *nearest = (const km_real *)of->nearest;
    const int64_t candidates = of->candidates - from < SEED_LANES ? of->candidates - from : SEED_LANES;
    double sums[SEED_LANES] = {0}, picks[SEED_LANES] = {0};
    for (int64_t a = 0; a < candidates; a++) {
        sums[a] = of->potentials[from + a];
        picks[a] = 2 * of->picks[from + a];
    }
    lanes_4 sum, pick;
    memcpy(&sum, sums, sizeof sum);
    memcpy(&pick, picks, sizeof pick);
    for (int64_t r = 0; r < count; r++) {
        const double square = of->squares[r], weight = of->weights ? of->weights[r] : 1.0;
        const lanes_4 least = (double)nearest[r] - (lanes_4){0};
        lanes_4 score;
        memcpy(&score, of->scores + r * of->stride + from, sizeof score);
        const lanes_4 distance = square + 2 * score;
        const seed_longs is_some = (seed_longs)(distance > SPARSE_SEED_ROUNDING * (square + pick));
        const seed_reals rounded =
            __builtin_convertvector((lanes_4)((seed_longs)distance & is_some), seed_reals);
        const lanes_4 found = __builtin_convertvector(rounded, lanes_4);
        const seed_longs is_less = (seed_longs)(found < least);
        sum += weight * (lanes_4)(((seed_longs)found & is_less) | ((seed_longs)least & ~is_less));
    }
    memcpy(sums, &sum, sizeof sum);
    memcpy(of->potentials + from, sums, (size_t)candidates * sizeof *sums);
}

KM_TARGET static void km_chain(const cpu_sparse_chain *of, int64_t count) {
    km_real *nearest = (km_real *)of->nearest;
    const int64_t last = of->candidates;
    for (int64_t r = 0; of->has_last && r < count; r++) {
        const km_real distance =
            km_seed_distance(of->squares[r], of->scores[r * of->stride + last], 2 * of->picks[last]);
        nearest[r] = distance < nearest[r] ? distance : nearest[r];
    }
    for (int64_t from = 0; from < last; from += SEED_LANES) km_potentials(of, from, count);
}

const cpu_sparse_kernels $name = {
    {$isa, sizeof(km_real)}, km_pass, km_scores, km_sum, km_chain, km_finish, km_square};

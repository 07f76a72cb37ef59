// Of the text of prebuilt subsets avx2_float32: All
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 23 definitions

#define KM_INLINE KM_TARGET static inline __attribute__((always_inline))
#include "runtime/cpu/subset_kernels.h"

// ... 1 definition

enum { LISTED = 8 }; // points that are listed at a time
enum {
    VECTORS = 4, // of points worked on at a time
    FEW = 16,    // clusters up to which there are several rows of sums for each
    COPIES = 4   // of them: additions to one row wait for each other
};

// ... 5 definitions

// The points of a tile that have a bit, in their order; some numbers behind them may be written, too. A loop over the
// bits themselves would end at a place that no processor foresees.
KM_TARGET static int64_t list_moved(uint32_t *points, const uint64_t *moved, int64_t count) {
    uint32_t *to = points;
    for (int64_t base = 0; base < count; base += SUBSET_GROUP) {
        uint64_t bits = moved[base / SUBSET_GROUP];
        uint32_t *end = to + __builtin_popcountll(bits);
        for (; to < end; to += LISTED)
            for (int i = 0; i < LISTED; i++, bits &= bits - 1)
                to[i] = (uint32_t)(base + __builtin_ctzll(bits | (uint64_t)1 << 63));
        to = end;
    }
    return to - points;
}

// ... 2 definitions

// ==== 1 columns
#define ADD_POINT_1(row, i) *(km_quad *)(row) += DOUBLES_OF(((km_reals){x_0[i], 1, 0, 0}))
#define MOVE_POINT_1(to, from, i)                                                                           \
    do {                                                                                                     \
        const km_quad km_point = DOUBLES_OF(((km_reals){x_0[i], 1, 0, 0}));                            \
        *(km_quad *)(to) += km_point;                                                                        \
        *(km_quad *)(from) -= km_point;                                                                      \
    } while (0)

// Labels of an SoA group: the centroid with the largest x . c - |c|^2 / 2, ties to the lowest index.
KM_INLINE void nearest_1(uint8_t *labels, const km_real *x_0, const km_real *table, int64_t k) {
    for (int i = 0; i < SUBSET_GROUP; i += VECTORS * LANES) {
        const km_real *row = table;
        km_ints j = KM_INTS(0);
        const km_ints one = KM_INTS(1);
        km_ints index_0 = j;
        km_vec best_0 = KM_SPLAT(row[1]);
        // ... 3 more of 2 lines, other numbers: 79ad376f
        {
            const km_vec c = KM_SPLAT(row[0]);
            best_0 = KM_FMA(KM_LOAD(x_0 + i + 0 * LANES), c, best_0);
            // ... 3 more, other numbers: e3016804
        }
        for (int64_t done = 1; done < k; done++) {
            row += 1 + 1;
            j = KM_INTS_ADD(j, one);
            km_vec s_0 = KM_SPLAT(row[1]);
            // ... 3 more, other numbers: c2da84cb
            {
                const km_vec c = KM_SPLAT(row[0]);
                s_0 = KM_FMA(KM_LOAD(x_0 + i + 0 * LANES), c, s_0);
                // ... 3 more, other numbers: 6286dd79
            }
            KM_KEEP(best_0, index_0, s_0, j);
            // ... 3 more, other numbers: fd1a142a
        }
        KM_PUT_LABELS_4(labels + i, index_0, index_1, index_2, index_3);
    }
}

// Adds all points to the sums of their clusters.
KM_TARGET static void add_all_1(const cpu_subset_tile *tile, cpu_subset_run *run) {
    double copies[COPIES * FEW * SUBSET_ROW];
    const int few = run->k <= FEW;
    double *own[COPIES];
    for (int c = 0; c < COPIES; c++) own[c] = few ? copies + c * FEW * SUBSET_ROW : run->sums;
    if (few) sums_clear(copies, COPIES * FEW);
    for (int64_t base = 0; base < tile->count; base += SUBSET_GROUP) {
        const int64_t at = base / SUBSET_GROUP * tile->step, left = tile->count - base;
        const int count = left < SUBSET_GROUP ? (int)left : SUBSET_GROUP;
        const uint8_t *labels = run->labels + base;
        const km_real *x_0 = (const km_real *)tile->columns[0] + at;
        int i = 0;
        for (; i + COPIES <= count; i += COPIES) {
            ADD_POINT_1(own[0] + labels[i + 0] * SUBSET_ROW, i + 0);
            // ... 3 more, other numbers: 7908b9f8
        }
        for (; i < count; i++) {
            ADD_POINT_1(own[0] + labels[i] * SUBSET_ROW, i);
        }
    }
    if (few) sums_fold(run->sums, copies, run->k, FEW);
}

// Moves the points of a tile that `moved` has a bit for, SoA group by SoA group, from `old` labels to the run's.
KM_TARGET static void move_1(const cpu_subset_tile *tile, cpu_subset_run *run, const uint8_t *old,
                              // ... lines of a template
    const km_real *x_0 = (const km_real *)tile->columns[0];
    for (; c + 2 <= count; c += 2) {
        const int64_t p = points[c], i = p + p / SUBSET_GROUP * between;
        const int64_t q = points[c + 1], next = q + q / SUBSET_GROUP * between;
        MOVE_POINT_1(to + labels[p] * SUBSET_ROW, from + old[p] * SUBSET_ROW, i);
        MOVE_POINT_1(next_to + labels[q] * SUBSET_ROW, next_from + old[q] * SUBSET_ROW, next);
    }
    if (c < count) {
        const int64_t p = points[c], i = p + p / SUBSET_GROUP * between;
        MOVE_POINT_1(to + labels[p] * SUBSET_ROW, from + old[p] * SUBSET_ROW, i);
    }
    if (few) sums_fold(run->sums, rows, run->k, run->k);
}

// What the labels of a tile, which the run has in `labels`, are to the sums of its clusters.
KM_TARGET static void take_1(const cpu_subset_tile *tile, cpu_subset_run *run, uint8_t *labels,
                              const uint64_t *moved) {
    uint8_t *old = run->labels;
    const int moves = run->mode == KM_CPU_MOVE;
    if (moves && run->changed == 0) return;
    run->labels = labels; // in the first cache, which the old ones may not be
    if (moves)
        move_1(tile, run, old, moved);
    else
        add_all_1(tile, run);
    run->labels = old;
    memcpy(old, labels, (size_t)((tile->count + SUBSET_GROUP - 1) / SUBSET_GROUP * SUBSET_GROUP));
}

KM_TARGET static void pass_1(const cpu_subset_tile *tile, cpu_subset_run *run) {
    uint8_t labels[SUBSET_TILE_POINTS];
    uint64_t moved[SUBSET_TILE_POINTS / SUBSET_GROUP];
    const uint64_t fresh = run->mode == KM_CPU_FIRST ? ~(uint64_t)0 : 0;
    run->changed = 0;
    for (int64_t base = 0; base < tile->count; base += SUBSET_GROUP) {
        const int64_t at = base / SUBSET_GROUP * tile->step;
        const km_real *x_0 = (const km_real *)tile->columns[0] + at;
        fetch_ahead(&run->ahead, base);
        nearest_1(labels + base, x_0, (const km_real *)run->table, run->k);
        const uint64_t bits =
            (KM_DIFFER(labels + base, run->labels + base) | fresh) & bits_of(tile->count, base);
        moved[base / SUBSET_GROUP] = bits;
        run->changed += __builtin_popcountll(bits);
    }
    take_1(tile, run, labels, moved);
}

// The label of one point as double arithmetic gives it, and how much nearer its centroid is than the second.
KM_TARGET static double exact_1(uint8_t *label, const cpu_subset_finish *finish, double x_0) {
    double first = HUGE_VAL, second = HUGE_VAL;
    for (int64_t o = 0; o < finish->run.k; o++) {
        const int64_t j = finish->order[o];
        const double *c = finish->centroids + j * 1;
        double square = 0;
        square = __builtin_fma(x_0 - c[0], x_0 - c[0], square);
        // ... lines of a template
KM_INLINE double finish_group_1(uint8_t *labels, const cpu_subset_finish *finish, int64_t count,
                                 const km_real *x_0) {
    const km_vec apart = KM_SPLAT(1 + (1 + 4) * UNSURE), lost = KM_SPLAT(LOST), one = KM_SPLAT(1);
    km_doubles sum = KM_D_SPLAT(0);
    double rest = 0;
    for (int i = 0; i < SUBSET_GROUP; i += VECTORS * LANES) {
        const km_real *row = (const km_real *)finish->run.table;
        km_ints j = KM_INTS(0);
        const km_ints step = KM_INTS(1);
        km_vec margins = KM_SPLAT(0);
        int is_unsure = count < i + VECTORS * LANES;
        km_ints index_0 = KM_INTS(0), index_1 = index_0;
        {
            km_vec first_0 = KM_SPLAT(INFINITY), first_1 = first_0, second_0 = first_0, second_1 = first_0;
            row = (const km_real *)finish->run.table;
            j = KM_INTS(0);
            for (int64_t c = 0; c < finish->run.k; c++, row += 1 + 1, j = KM_INTS_ADD(j, step)) {
                km_vec a = KM_SPLAT(0), b = a;
                {
                    const km_vec value = KM_SPLAT(row[0]);
                    const km_vec t = KM_SUB(KM_LOAD(x_0 + i + 0 * LANES), value);
                    const km_vec u = KM_SUB(KM_LOAD(x_0 + i + (0 + 1) * LANES), value);
                    a = KM_FMA(t, t, a);
                    b = KM_FMA(u, u, b);
                }
                KEEP_TWO(first_0, second_0, index_0, a, j);
                KEEP_TWO(first_1, second_1, index_1, b, j);
            }
            is_unsure |= !!KM_NOT_BELOW(KM_FMA(first_0, apart, lost), second_0);
            is_unsure |= !!KM_NOT_BELOW(KM_FMA(first_1, apart, lost), second_1);
            margins = KM_ADD(margins, KM_SUB(one, KM_SQRT(KM_DIVIDE(first_0, second_0))));
            margins = KM_ADD(margins, KM_SUB(one, KM_SQRT(KM_DIVIDE(first_1, second_1))));
        }
        // ... 1 more of 22 lines, other numbers: 70a14ac1
        KM_PUT_LABELS_4(labels + i, index_0, index_1, index_2, index_3);
        if (!is_unsure) {
            double doubles[LANES];
            KM_STORE_WIDE(doubles, margins);
            for (int l = 0; l < LANES; l += DOUBLES) sum = KM_D_ADD(sum, KM_D_LOAD(doubles + l));
            continue;
        }
        for (int p = i; p < i + VECTORS * LANES && p < count; p++)
            rest += exact_1(&labels[p], finish, (double)x_0[p]);
    }
    return KM_D_SUM(sum) + rest;
}

KM_TARGET static void finish_1(const cpu_subset_tile *tile, cpu_subset_finish *finish) {
    uint8_t labels[SUBSET_TILE_POINTS];
    uint64_t moved[SUBSET_TILE_POINTS / SUBSET_GROUP];
    cpu_subset_run *run = &finish->run;
    run->changed = 0;
    for (int64_t base = 0; base < tile->count; base += SUBSET_GROUP) {
        const int64_t at = base / SUBSET_GROUP * tile->step;
        const km_real *x_0 = (const km_real *)tile->columns[0] + at;
        fetch_ahead(&run->ahead, base);
        finish->margin += finish_group_1(labels + base, finish, tile->count - base, x_0);
        const uint64_t bits = KM_DIFFER(labels + base, run->labels + base) & bits_of(tile->count, base);
        moved[base / SUBSET_GROUP] = bits;
        run->changed += __builtin_popcountll(bits);
    }
    take_1(tile, run, labels, moved);
}

// Takes the last pick of an SoA group of a chain into `nearest`, and adds what it would become with each candidate.
KM_INLINE void seed_group_1(km_doubles *sums, km_real *nearest, const km_cpu_chain *chain, const km_real *x_0) {
    const km_real *chosen = (const km_real *)chain->chosen, *row = (const km_real *)chain->candidates;
    if (chosen)
        for (int i = 0; i < SUBSET_GROUP; i += LANES) {
            km_vec square = KM_SPLAT(0);
            const km_vec t_0 = KM_SUB(KM_LOAD(x_0 + i), KM_SPLAT(chosen[0]));
            square = KM_FMA(t_0, t_0, square);
            const km_vec before = KM_LOAD(nearest + i);
            KM_STORE(nearest + i, KM_MIN(before, square));
        }
    for (int64_t a = 0; a < chain->candidates_count; a++, row += 1) {
        km_doubles even = sums[2 * a], odd = sums[2 * a + 1];
        for (int i = 0; i < SUBSET_GROUP; i += 2 * LANES) {
            km_real least[2 * LANES];
            km_vec u = KM_SPLAT(0), v = u;
            const km_vec c_0 = KM_SPLAT(row[0]);
            const km_vec u_0 = KM_SUB(KM_LOAD(x_0 + i), c_0),
                         v_0 = KM_SUB(KM_LOAD(x_0 + i + LANES), c_0);
            u = KM_FMA(u_0, u_0, u);
            v = KM_FMA(v_0, v_0, v);
            // ... lines of a template
KM_TARGET static void seed_rest_1(km_cpu_chain *chain, const km_real *nearest, int64_t count, const km_real *x_0) {
    const km_real *row = (const km_real *)chain->candidates;
    for (int64_t a = 0; a < chain->candidates_count; a++, row += 1)
        for (int64_t i = 0; i < count; i++) {
            km_real square = 0;
            square = FMA_REAL(x_0[i] - row[0], x_0[i] - row[0], square);
            chain->potentials[a] += (double)(square < nearest[i] ? square : nearest[i]);
        }
}

KM_TARGET static void seed_1(const km_cpu_seeding *seeding) {
    for (int64_t c = 0; c < seeding->chains_count; c++) {
        km_cpu_chain *chain = &seeding->chains[c];
        km_cpu_chain last = *chain;
        km_doubles sums[2 * SUBSET_CANDIDATES_MAX];
        km_real *nearest = (km_real *)chain->nearest;
        const int64_t count = seeding->points_count, full = count / SUBSET_GROUP * SUBSET_GROUP;
        last.candidates_count = 0;
        for (int64_t a = 0; a < 2 * chain->candidates_count; a++) sums[a] = KM_D_SPLAT(0);
        for (int64_t base = 0; base < count; base += SUBSET_GROUP) {
            const km_real *points = (const km_real *)seeding->points + base * 1;
            const km_real *x_0 = points + 0 * SUBSET_GROUP;
            seed_group_1(sums, nearest + base, base < full ? chain : &last, x_0);
        }
        for (int64_t a = 0; a < chain->candidates_count; a++)
            chain->potentials[a] = KM_D_SUM(KM_D_ADD(sums[2 * a], sums[2 * a + 1]));
        if (full < count) {
            const km_real *points = (const km_real *)seeding->points + full * 1;
            const km_real *x_0 = points + 0 * SUBSET_GROUP;
            seed_rest_1(chain, nearest + full, count - full, x_0);
        }
    }
}

// ... 24 definitions

// ==== 4 columns
#define ADD_POINT_4(row, i)                                                                                 \
    *(km_quad *)(row) += DOUBLES_OF(((km_reals){x_0[i], x_1[i], x_2[i], x_3[i]}));                                    \
    (row)[4] += 1
#define MOVE_POINT_4(to, from, i)                                                                           \
    do {                                                                                                     \
        const km_quad km_point = DOUBLES_OF(((km_reals){x_0[i], x_1[i], x_2[i], x_3[i]}));                            \
        *(km_quad *)(to) += km_point;                                                                        \
        *(km_quad *)(from) -= km_point;                                                                      \
        (to)[4] += 1;                                                                                        \
        (from)[4] -= 1;                                                                                      \
    } while (0)

// ... 11 definitions

KM_TARGET static void pass(const cpu_subset_tile *tile, cpu_subset_run *run) {
    switch (tile->size) {
    case 1:
        pass_1(tile, run);
        break;
    // ... 3 more of 3 lines, other numbers: 3d0448f2
    }
}

KM_TARGET static void finish(const cpu_subset_tile *tile, cpu_subset_finish *work) {
    switch (tile->size) {
    case 1:
        finish_1(tile, work);
        break;
    // ... 3 more of 3 lines, other numbers: 6a3901d5
    }
}

// ... 1 definition

const cpu_subset_kernels km_subsets_avx2_float32 = {{2, sizeof(km_real)}, pass, finish, count_cells, {seed_1, seed_2, seed_3, seed_4}, NULL, NULL};

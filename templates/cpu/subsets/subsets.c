// SPDX-License-Identifier: MIT
// k-means on a few columns of a table, whose other columns lie between them (runtime/cpu/subset_kernels.h). Points lie
// across lanes. There is a text for each number of columns.
//@ need sizes float64 seeds

//@ include cpu/prebuilt.h
#include "runtime/cpu/subset_kernels.h"

typedef uint8_t km_index; // a label

//@ if avx512
enum { LISTED = 16 }; // points that are listed at a time
//@ else
enum { LISTED = 8 }; // points that are listed at a time
//@ end
enum {
    VECTORS = 4, // of points worked on at a time
    FEW = 16,    // clusters up to which there are several rows of sums for each
    COPIES = 4   // of them: additions to one row wait for each other
};

// Four doubles of a row of sums.
typedef double km_quad __attribute__((vector_size(32), aligned(8), may_alias));
typedef km_real km_reals
    __attribute__((vector_size(4 * sizeof(km_real)), aligned(sizeof(km_real)), may_alias));

//@ if float64
#define KEEP_TWO(first, second, index, square, j) KM_KEEP_NEAREST(first, second, index, square, j)
#define UNSURE (0x1p-50)
#define LOST (1e-290)
#define KM_SCALAR_SQRT sqrt
#define FMA_REAL(a, b, c) __builtin_fma(a, b, c)
//@ else
#define KEEP_TWO(first, second, index, square, j) KM_F_KEEP_NEAREST(first, second, index, square, j)
#define UNSURE (0x1p-22f)
#define LOST (1e-37f)
#define KM_SCALAR_SQRT sqrtf
#define FMA_REAL(a, b, c) __builtin_fmaf(a, b, c)
//@ end

static void sums_clear(double *sums, int64_t rows) {
    memset(sums, 0, (size_t)rows * SUBSET_ROW * sizeof *sums);
}

// Adds COPIES of k rows, which lie `step` rows apart.
KM_TARGET static void sums_fold(double *restrict sums, const double *restrict copies, int64_t k,
                                int64_t step) {
    step *= SUBSET_ROW;
    for (int64_t i = 0; i < k * SUBSET_ROW; i++)
        sums[i] += (copies[i] + copies[step + i]) + (copies[2 * step + i] + copies[3 * step + i]);
}

// Bits of an SoA group's points from `base` on that are there.
static inline uint64_t bits_of(int64_t count, int64_t base) {
    return ~(uint64_t)0 >> (count - base < SUBSET_GROUP ? SUBSET_GROUP - (count - base) : 0);
}

// The points of a tile that have a bit, in their order; some numbers behind them may be written, too. A loop over the
// bits themselves would end at a place that no processor foresees.
KM_TARGET static int64_t list_moved(uint32_t *points, const uint64_t *moved, int64_t count) {
    uint32_t *to = points;
    for (int64_t base = 0; base < count; base += SUBSET_GROUP) {
        uint64_t bits = moved[base / SUBSET_GROUP];
        //@ if avx512
        for (int i = 0; i < SUBSET_GROUP; i += LISTED, bits >>= LISTED) {
            KM_LIST(to, bits, base + i);
            to += __builtin_popcountll(bits & ((1 << LISTED) - 1));
        }
        //@ else
        uint32_t *end = to + __builtin_popcountll(bits);
        for (; to < end; to += LISTED)
            for (int i = 0; i < LISTED; i++, bits &= bits - 1)
                to[i] = (uint32_t)(base + __builtin_ctzll(bits | (uint64_t)1 << 63));
        to = end;
        //@ end
    }
    return to - points;
}

#ifdef KM_FOUR_DOUBLES
#define DOUBLES_OF(x) ((km_quad)KM_FOUR_DOUBLES(x))
#else
#define DOUBLES_OF(x) __builtin_convertvector(x, km_quad)
#endif

// Fetches an SoA group's part of what is needed after the tile. Always inlined: gcc takes a function that only
// prefetches for one without effects, and leaves its calls out.
KM_INLINE void fetch_ahead(const cpu_subset_ahead *ahead, int64_t base) {
    enum { GROUPS = SUBSET_TILE_POINTS / SUBSET_GROUP, LINE = 64 };
    const int64_t group = base / SUBSET_GROUP, part = (ahead->points_lines + GROUPS - 1) / GROUPS;
    const int64_t end = (group + 1) * part;
    if (group < ahead->labels_lines) __builtin_prefetch(ahead->labels + base, 1);
    for (int64_t l = group * part; l < end && l < ahead->points_lines; l++)
        __builtin_prefetch(ahead->points + l * LINE, 0, 2);
}

//@ for s in sizes
// ==== $s columns
//@ if s_is_four
#define ADD_POINT_$s(row, i)                                                                                 \
    *(km_quad *)(row) += DOUBLES_OF(((km_reals){$s_coordinates$s_rest}));                                    \
    (row)[4] += 1
#define MOVE_POINT_$s(to, from, i)                                                                           \
    do {                                                                                                     \
        const km_quad km_point = DOUBLES_OF(((km_reals){$s_coordinates$s_rest}));                            \
        *(km_quad *)(to) += km_point;                                                                        \
        *(km_quad *)(from) -= km_point;                                                                      \
        (to)[4] += 1;                                                                                        \
        (from)[4] -= 1;                                                                                      \
    } while (0)
//@ else
#define ADD_POINT_$s(row, i) *(km_quad *)(row) += DOUBLES_OF(((km_reals){$s_coordinates$s_rest}))
#define MOVE_POINT_$s(to, from, i)                                                                           \
    do {                                                                                                     \
        const km_quad km_point = DOUBLES_OF(((km_reals){$s_coordinates$s_rest}));                            \
        *(km_quad *)(to) += km_point;                                                                        \
        *(km_quad *)(from) -= km_point;                                                                      \
    } while (0)
//@ end

// Labels of an SoA group: the centroid with the largest x . c - |c|^2 / 2, ties to the lowest index.
KM_INLINE void nearest_$s(uint8_t *labels, $s_arguments, const km_real *table, int64_t k) {
    for (int i = 0; i < SUBSET_GROUP; i += VECTORS * LANES) {
        const km_real *row = table;
        km_ints j = KM_INTS(0);
        const km_ints one = KM_INTS(1);
        //@ for v in vectors_list
        km_ints index_$v = j;
        km_vec best_$v = KM_SPLAT(row[$s]);
        //@ end
        //@ for f in s_columns
        {
            const km_vec c = KM_SPLAT(row[$f]);
            //@ for v in vectors_list
            best_$v = KM_FMA(KM_LOAD(x_$f + i + $v * LANES), c, best_$v);
            //@ end
        }
        //@ end
        for (int64_t done = 1; done < k; done++) {
            row += $s + 1;
            j = KM_INTS_ADD(j, one);
            //@ for v in vectors_list
            km_vec s_$v = KM_SPLAT(row[$s]);
            //@ end
            //@ for f in s_columns
            {
                const km_vec c = KM_SPLAT(row[$f]);
                //@ for v in vectors_list
                s_$v = KM_FMA(KM_LOAD(x_$f + i + $v * LANES), c, s_$v);
                //@ end
            }
            //@ end
            //@ for v in vectors_list
            KM_KEEP(best_$v, index_$v, s_$v, j);
            //@ end
        }
        KM_PUT_LABELS_4(labels + i, index_0, index_1, index_2, index_3);
    }
}

// Adds all points to the sums of their clusters.
KM_TARGET static void add_all_$s(const cpu_subset_tile *tile, cpu_subset_run *run) {
    double copies[COPIES * FEW * SUBSET_ROW];
    const int few = run->k <= FEW;
    double *own[COPIES];
    for (int c = 0; c < COPIES; c++) own[c] = few ? copies + c * FEW * SUBSET_ROW : run->sums;
    if (few) sums_clear(copies, COPIES * FEW);
    for (int64_t base = 0; base < tile->count; base += SUBSET_GROUP) {
        const int64_t at = base / SUBSET_GROUP * tile->step, left = tile->count - base;
        const int count = left < SUBSET_GROUP ? (int)left : SUBSET_GROUP;
        const uint8_t *labels = run->labels + base;
        //@ for f in s_columns
        const km_real *x_$f = (const km_real *)tile->columns[$f] + at;
        //@ end
        int i = 0;
        for (; i + COPIES <= count; i += COPIES) {
            //@ for c in vectors_list
            ADD_POINT_$s(own[$c] + labels[i + $c] * SUBSET_ROW, i + $c);
            //@ end
        }
        for (; i < count; i++) {
            ADD_POINT_$s(own[0] + labels[i] * SUBSET_ROW, i);
        }
    }
    if (few) sums_fold(run->sums, copies, run->k, FEW);
}

//@ if avx512
// The same by masks of an SoA group, a cluster at a time, for few clusters: additions to a row do not wait for each
// other. `all`: bits of the group's points. sums: of each cluster and column a vector.
KM_INLINE void add_group_$s(double *sums, int64_t *counts, const uint8_t *labels, uint64_t all, int64_t k,
                            $s_arguments) {
    double doubles[$s * SUBSET_GROUP];
    for (int i = 0; i < SUBSET_GROUP; i += DOUBLES) {
        //@ for f in s_columns
        KM_D_STORE(doubles + $f * SUBSET_GROUP + i, KM_LOAD_DOUBLES(x_$f + i));
        //@ end
    }
    for (int64_t j = 0; j < k; j++) {
        const uint64_t own = KM_OWN(labels, j) & all;
        double *to = sums + j * $s * DOUBLES;
        counts[j] += __builtin_popcountll(own);
        //@ for f in s_columns
        km_doubles sum_$f = KM_D_LOAD(to + $f * DOUBLES);
        //@ end
        //@ for p in eighths
        //@ for f in s_columns
        KM_D_ADD_OWN(sum_$f, own >> $p, doubles + $f * SUBSET_GROUP + $p);
        //@ end
        //@ end
        //@ for f in s_columns
        KM_D_STORE(to + $f * DOUBLES, sum_$f);
        //@ end
    }
}

// Labels and sums of all points, SoA group by SoA group: coordinates are still in the first cache.
KM_TARGET static void pass_first_$s(const cpu_subset_tile *tile, cpu_subset_run *run) {
    double sums[FEW * $s * DOUBLES];
    int64_t counts[FEW] = {0};
    for (int64_t i = 0; i < run->k * $s; i++) KM_D_STORE(sums + i * DOUBLES, KM_D_SPLAT(0));
    for (int64_t base = 0; base < tile->count; base += SUBSET_GROUP) {
        const int64_t at = base / SUBSET_GROUP * tile->step;
        //@ for f in s_columns
        const km_real *x_$f = (const km_real *)tile->columns[$f] + at;
        //@ end
        fetch_ahead(&run->ahead, base);
        nearest_$s(run->labels + base, $s_names, (const km_real *)run->table, run->k);
        add_group_$s(sums, counts, run->labels + base, bits_of(tile->count, base), run->k, $s_names);
    }
    run->changed = tile->count;
    for (int64_t j = 0; j < run->k; j++) {
        for (int64_t f = 0; f < $s; f++)
            run->sums[j * SUBSET_ROW + f] += KM_D_SUM(KM_D_LOAD(sums + (j * $s + f) * DOUBLES));
        run->sums[j * SUBSET_ROW + $s] += (double)counts[j];
    }
}

//@ end
// Moves the points of a tile that `moved` has a bit for, SoA group by SoA group, from `old` labels to the run's.
KM_TARGET static void move_$s(const cpu_subset_tile *tile, cpu_subset_run *run, const uint8_t *old,
                              const uint64_t *moved) {
    double rows[COPIES * FEW * SUBSET_ROW];
    uint32_t points[SUBSET_TILE_POINTS + LISTED];
    const int few = run->k <= FEW;
    const int64_t count = list_moved(points, moved, tile->count), size = run->k * SUBSET_ROW;
    double *to = few ? rows : run->sums, *from = few ? to + size : to;
    double *next_to = few ? from + size : to, *next_from = few ? next_to + size : to;
    if (few) sums_clear(rows, COPIES * run->k);
    // Stores to sums might change what is not held here, as far as a compiler knows.
    const uint8_t *labels = run->labels;
    const int64_t between = tile->step - SUBSET_GROUP;
    int64_t c = 0;
    //@ for f in s_columns
    const km_real *x_$f = (const km_real *)tile->columns[$f];
    //@ end
    for (; c + 2 <= count; c += 2) {
        const int64_t p = points[c], i = p + p / SUBSET_GROUP * between;
        const int64_t q = points[c + 1], next = q + q / SUBSET_GROUP * between;
        MOVE_POINT_$s(to + labels[p] * SUBSET_ROW, from + old[p] * SUBSET_ROW, i);
        MOVE_POINT_$s(next_to + labels[q] * SUBSET_ROW, next_from + old[q] * SUBSET_ROW, next);
    }
    if (c < count) {
        const int64_t p = points[c], i = p + p / SUBSET_GROUP * between;
        MOVE_POINT_$s(to + labels[p] * SUBSET_ROW, from + old[p] * SUBSET_ROW, i);
    }
    if (few) sums_fold(run->sums, rows, run->k, run->k);
}

// What the labels of a tile, which the run has in `labels`, are to the sums of its clusters.
KM_TARGET static void take_$s(const cpu_subset_tile *tile, cpu_subset_run *run, uint8_t *labels,
                              const uint64_t *moved) {
    uint8_t *old = run->labels;
    const int moves = run->mode == KM_CPU_MOVE;
    if (moves && run->changed == 0) return;
    run->labels = labels; // in the first cache, which the old ones may not be
    if (moves)
        move_$s(tile, run, old, moved);
    else
        add_all_$s(tile, run);
    run->labels = old;
    memcpy(old, labels, (size_t)((tile->count + SUBSET_GROUP - 1) / SUBSET_GROUP * SUBSET_GROUP));
}

KM_TARGET static void pass_$s(const cpu_subset_tile *tile, cpu_subset_run *run) {
    //@ if avx512
    if (run->mode == KM_CPU_FIRST && run->k <= FEW) {
        pass_first_$s(tile, run);
        return;
    }
    //@ end
    uint8_t labels[SUBSET_TILE_POINTS];
    uint64_t moved[SUBSET_TILE_POINTS / SUBSET_GROUP];
    const uint64_t fresh = run->mode == KM_CPU_FIRST ? ~(uint64_t)0 : 0;
    run->changed = 0;
    for (int64_t base = 0; base < tile->count; base += SUBSET_GROUP) {
        const int64_t at = base / SUBSET_GROUP * tile->step;
        //@ for f in s_columns
        const km_real *x_$f = (const km_real *)tile->columns[$f] + at;
        //@ end
        fetch_ahead(&run->ahead, base);
        nearest_$s(labels + base, $s_names, (const km_real *)run->table, run->k);
        const uint64_t bits =
            (KM_DIFFER(labels + base, run->labels + base) | fresh) & bits_of(tile->count, base);
        moved[base / SUBSET_GROUP] = bits;
        run->changed += __builtin_popcountll(bits);
    }
    take_$s(tile, run, labels, moved);
}

// The label of one point as double arithmetic gives it, and how much nearer its centroid is than the second.
KM_TARGET static double exact_$s(uint8_t *label, const cpu_subset_finish *finish, $s_scalars) {
    double first = HUGE_VAL, second = HUGE_VAL;
    for (int64_t o = 0; o < finish->run.k; o++) {
        const int64_t j = finish->order[o];
        const double *c = finish->centroids + j * $s;
        double square = 0;
        //@ for f in s_columns
        square = __builtin_fma(x_$f - c[$f], x_$f - c[$f], square);
        //@ end
        if (square < first) {
            second = first;
            first = square;
            *label = (uint8_t)j;
        } else if (square < second) {
            second = square;
        }
    }
    const km_real near = (km_real)first, next = (km_real)second;
    return next > 0 ? (double)((KM_SCALAR_SQRT(next) - KM_SCALAR_SQRT(near)) / KM_SCALAR_SQRT(next)) : 0;
}

// Labels of an SoA group. Returns the sum of its first `count` margins.
KM_INLINE double finish_group_$s(uint8_t *labels, const cpu_subset_finish *finish, int64_t count,
                                 $s_arguments) {
    const km_vec apart = KM_SPLAT(1 + ($s + 4) * UNSURE), lost = KM_SPLAT(LOST), one = KM_SPLAT(1);
    km_doubles sum = KM_D_SPLAT(0);
    double rest = 0;
    for (int i = 0; i < SUBSET_GROUP; i += VECTORS * LANES) {
        const km_real *row = (const km_real *)finish->run.table;
        km_ints j = KM_INTS(0);
        const km_ints step = KM_INTS(1);
        km_vec margins = KM_SPLAT(0);
        int is_unsure = count < i + VECTORS * LANES;
        //@ for h in vector_pairs
        km_ints index_$h = KM_INTS(0), index_$h_next = index_$h;
        {
            km_vec first_0 = KM_SPLAT(INFINITY), first_1 = first_0, second_0 = first_0, second_1 = first_0;
            row = (const km_real *)finish->run.table;
            j = KM_INTS(0);
            for (int64_t c = 0; c < finish->run.k; c++, row += $s + 1, j = KM_INTS_ADD(j, step)) {
                km_vec a = KM_SPLAT(0), b = a;
                //@ for f in s_columns
                {
                    const km_vec value = KM_SPLAT(row[$f]);
                    const km_vec t = KM_SUB(KM_LOAD(x_$f + i + $h * LANES), value);
                    const km_vec u = KM_SUB(KM_LOAD(x_$f + i + ($h + 1) * LANES), value);
                    a = KM_FMA(t, t, a);
                    b = KM_FMA(u, u, b);
                }
                //@ end
                KEEP_TWO(first_0, second_0, index_$h, a, j);
                KEEP_TWO(first_1, second_1, index_$h_next, b, j);
            }
            is_unsure |= !!KM_NOT_BELOW(KM_FMA(first_0, apart, lost), second_0);
            is_unsure |= !!KM_NOT_BELOW(KM_FMA(first_1, apart, lost), second_1);
            margins = KM_ADD(margins, KM_SUB(one, KM_SQRT(KM_DIVIDE(first_0, second_0))));
            margins = KM_ADD(margins, KM_SUB(one, KM_SQRT(KM_DIVIDE(first_1, second_1))));
        }
        //@ end
        KM_PUT_LABELS_4(labels + i, index_0, index_1, index_2, index_3);
        if (!is_unsure) {
            double doubles[LANES];
            KM_STORE_WIDE(doubles, margins);
            for (int l = 0; l < LANES; l += DOUBLES) sum = KM_D_ADD(sum, KM_D_LOAD(doubles + l));
            continue;
        }
        for (int p = i; p < i + VECTORS * LANES && p < count; p++)
            rest += exact_$s(&labels[p], finish, $s_converted);
    }
    return KM_D_SUM(sum) + rest;
}

KM_TARGET static void finish_$s(const cpu_subset_tile *tile, cpu_subset_finish *finish) {
    uint8_t labels[SUBSET_TILE_POINTS];
    uint64_t moved[SUBSET_TILE_POINTS / SUBSET_GROUP];
    cpu_subset_run *run = &finish->run;
    run->changed = 0;
    for (int64_t base = 0; base < tile->count; base += SUBSET_GROUP) {
        const int64_t at = base / SUBSET_GROUP * tile->step;
        //@ for f in s_columns
        const km_real *x_$f = (const km_real *)tile->columns[$f] + at;
        //@ end
        fetch_ahead(&run->ahead, base);
        finish->margin += finish_group_$s(labels + base, finish, tile->count - base, $s_names);
        const uint64_t bits = KM_DIFFER(labels + base, run->labels + base) & bits_of(tile->count, base);
        moved[base / SUBSET_GROUP] = bits;
        run->changed += __builtin_popcountll(bits);
    }
    take_$s(tile, run, labels, moved);
}

// Takes the last pick of an SoA group of a chain into `nearest`, and adds what it would become with each candidate.
KM_INLINE void seed_group_$s(km_doubles *sums, km_real *nearest, const km_cpu_chain *chain, $s_arguments) {
    const km_real *chosen = (const km_real *)chain->chosen, *row = (const km_real *)chain->candidates;
    if (chosen)
        for (int i = 0; i < SUBSET_GROUP; i += LANES) {
            km_vec square = KM_SPLAT(0);
            //@ for f in s_columns
            const km_vec t_$f = KM_SUB(KM_LOAD(x_$f + i), KM_SPLAT(chosen[$f]));
            square = KM_FMA(t_$f, t_$f, square);
            //@ end
            const km_vec before = KM_LOAD(nearest + i);
            KM_STORE(nearest + i, KM_MIN(before, square));
        }
    for (int64_t a = 0; a < chain->candidates_count; a++, row += $s) {
        km_doubles even = sums[2 * a], odd = sums[2 * a + 1];
        for (int i = 0; i < SUBSET_GROUP; i += 2 * LANES) {
            km_real least[2 * LANES];
            km_vec u = KM_SPLAT(0), v = u;
            //@ for f in s_columns
            const km_vec c_$f = KM_SPLAT(row[$f]);
            const km_vec u_$f = KM_SUB(KM_LOAD(x_$f + i), c_$f),
                         v_$f = KM_SUB(KM_LOAD(x_$f + i + LANES), c_$f);
            u = KM_FMA(u_$f, u_$f, u);
            v = KM_FMA(v_$f, v_$f, v);
            //@ end
            const km_vec before = KM_LOAD(nearest + i), other = KM_LOAD(nearest + i + LANES);
            KM_STORE(least, KM_MIN(u, before));
            KM_STORE(least + LANES, KM_MIN(v, other));
            for (int l = 0; l < 2 * LANES; l += 2 * DOUBLES) {
                even = KM_D_ADD(KM_LOAD_DOUBLES(least + l), even);
                odd = KM_D_ADD(KM_LOAD_DOUBLES(least + l + DOUBLES), odd);
            }
        }
        sums[2 * a] = even;
        sums[2 * a + 1] = odd;
    }
}

// The last SoA group of a chunk, where it is not full; its last pick is taken.
KM_TARGET static void seed_rest_$s(km_cpu_chain *chain, const km_real *nearest, int64_t count, $s_arguments) {
    const km_real *row = (const km_real *)chain->candidates;
    for (int64_t a = 0; a < chain->candidates_count; a++, row += $s)
        for (int64_t i = 0; i < count; i++) {
            km_real square = 0;
            //@ for f in s_columns
            square = FMA_REAL(x_$f[i] - row[$f], x_$f[i] - row[$f], square);
            //@ end
            chain->potentials[a] += (double)(square < nearest[i] ? square : nearest[i]);
        }
}

KM_TARGET static void seed_$s(const km_cpu_seeding *seeding) {
    for (int64_t c = 0; c < seeding->chains_count; c++) {
        km_cpu_chain *chain = &seeding->chains[c];
        km_cpu_chain last = *chain;
        km_doubles sums[2 * SUBSET_CANDIDATES_MAX];
        km_real *nearest = (km_real *)chain->nearest;
        const int64_t count = seeding->points_count, full = count / SUBSET_GROUP * SUBSET_GROUP;
        last.candidates_count = 0;
        for (int64_t a = 0; a < 2 * chain->candidates_count; a++) sums[a] = KM_D_SPLAT(0);
        for (int64_t base = 0; base < count; base += SUBSET_GROUP) {
            const km_real *points = (const km_real *)seeding->points + base * $s;
            //@ for f in s_columns
            const km_real *x_$f = points + $f * SUBSET_GROUP;
            //@ end
            seed_group_$s(sums, nearest + base, base < full ? chain : &last, $s_names);
        }
        for (int64_t a = 0; a < chain->candidates_count; a++)
            chain->potentials[a] = KM_D_SUM(KM_D_ADD(sums[2 * a], sums[2 * a + 1]));
        if (full < count) {
            const km_real *points = (const km_real *)seeding->points + full * $s;
            //@ for f in s_columns
            const km_real *x_$f = points + $f * SUBSET_GROUP;
            //@ end
            seed_rest_$s(chain, nearest + full, count - full, $s_names);
        }
    }
}

//@ end
KM_TARGET static void pass(const cpu_subset_tile *tile, cpu_subset_run *run) {
    switch (tile->size) {
        //@ for s in sizes
    case $s:
        pass_$s(tile, run);
        break;
        //@ end
    }
}

KM_TARGET static void finish(const cpu_subset_tile *tile, cpu_subset_finish *work) {
    switch (tile->size) {
        //@ for s in sizes
    case $s:
        finish_$s(tile, work);
        break;
        //@ end
    }
}

// Counts a tile's points by cell and label.
KM_TARGET static void count_cells(int64_t *counts, const uint8_t *labels, int64_t points, int64_t k,
                                  const uint64_t *cells, int64_t cells_count) {
    for (int64_t j = 0; j < k; j++) {
        uint8_t own[SUBSET_GROUP];
        int64_t sums[SUBSET_CELLS_MAX] = {0};
        memset(own, (int)j, sizeof own);
        for (int64_t base = 0; base < points; base += SUBSET_GROUP) {
            const uint64_t bits = ~KM_DIFFER(labels + base, own);
            const uint64_t *in = cells + base / SUBSET_GROUP * SUBSET_CELLS_MAX;
            for (int64_t c = 0; c < cells_count; c++) sums[c] += __builtin_popcountll(bits & in[c]);
        }
        for (int64_t c = 0; c < cells_count; c++) counts[c * k + j] += sums[c];
    }
}

//@ if avx512_float
//@ include cpu/subsets/boxes.c
const cpu_subset_kernels $name = {
    {$isa, sizeof(km_real)}, pass, finish, count_cells, {$seeds}, box_fill, boxes_pass};
//@ else
const cpu_subset_kernels $name = {{$isa, sizeof(km_real)}, pass, finish, count_cells, {$seeds}, NULL, NULL};
//@ end

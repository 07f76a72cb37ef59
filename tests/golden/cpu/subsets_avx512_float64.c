// Of the text of prebuilt subsets avx512_float64: All
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 25 definitions

enum { LISTED = 16 }; // points that are listed at a time
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
        for (int i = 0; i < SUBSET_GROUP; i += LISTED, bits >>= LISTED) {
            KM_LIST(to, bits, base + i);
            to += __builtin_popcountll(bits & ((1 << LISTED) - 1));
        }
    }
    return to - points;
}

// ... 5 definitions

// The same by masks of an SoA group, a cluster at a time, for few clusters: additions to a row do not wait for each
// other. `all`: bits of the group's points. sums: of each cluster and column a vector.
KM_INLINE void add_group_1(double *sums, int64_t *counts, const uint8_t *labels, uint64_t all, int64_t k,
                            const km_real *x_0) {
    double doubles[1 * SUBSET_GROUP];
    for (int i = 0; i < SUBSET_GROUP; i += DOUBLES) {
        KM_D_STORE(doubles + 0 * SUBSET_GROUP + i, KM_LOAD_DOUBLES(x_0 + i));
    }
    for (int64_t j = 0; j < k; j++) {
        const uint64_t own = KM_OWN(labels, j) & all;
        double *to = sums + j * 1 * DOUBLES;
        counts[j] += __builtin_popcountll(own);
        km_doubles sum_0 = KM_D_LOAD(to + 0 * DOUBLES);
        KM_D_ADD_OWN(sum_0, own >> 0, doubles + 0 * SUBSET_GROUP + 0);
        // ... 7 more, other numbers: 53e31693
        KM_D_STORE(to + 0 * DOUBLES, sum_0);
    }
}

// Labels and sums of all points, SoA group by SoA group: coordinates are still in the first cache.
KM_TARGET static void pass_first_1(const cpu_subset_tile *tile, cpu_subset_run *run) {
    double sums[FEW * 1 * DOUBLES];
    int64_t counts[FEW] = {0};
    for (int64_t i = 0; i < run->k * 1; i++) KM_D_STORE(sums + i * DOUBLES, KM_D_SPLAT(0));
    for (int64_t base = 0; base < tile->count; base += SUBSET_GROUP) {
        const int64_t at = base / SUBSET_GROUP * tile->step;
        const km_real *x_0 = (const km_real *)tile->columns[0] + at;
        fetch_ahead(&run->ahead, base);
        nearest_1(run->labels + base, x_0, (const km_real *)run->table, run->k);
        add_group_1(sums, counts, run->labels + base, bits_of(tile->count, base), run->k, x_0);
    }
    run->changed = tile->count;
    for (int64_t j = 0; j < run->k; j++) {
        for (int64_t f = 0; f < 1; f++)
            run->sums[j * SUBSET_ROW + f] += KM_D_SUM(KM_D_LOAD(sums + (j * 1 + f) * DOUBLES));
        run->sums[j * SUBSET_ROW + 1] += (double)counts[j];
    }
}

// ... 2 definitions

KM_TARGET static void pass_1(const cpu_subset_tile *tile, cpu_subset_run *run) {
    if (run->mode == KM_CPU_FIRST && run->k <= FEW) {
        pass_first_1(tile, run);
        return;
    }
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

// ... 52 definitions

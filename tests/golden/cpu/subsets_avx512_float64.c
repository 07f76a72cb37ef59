// Of the text of prebuilt subsets avx512_float64: All
// "..." stands for what a template or an earlier part shows.

// ... 35 definitions

// The same by masks, an SoA group and a cluster at a time, for few clusters: additions to a row do not wait for each
// other.
KM_TARGET static void add_masked_1(const cpu_subset_tile *tile, cpu_subset_run *run) {
    double sums[FEW * 1 * DOUBLES];
    int64_t counts[FEW] = {0};
    for (int64_t i = 0; i < run->k * 1; i++) KM_D_STORE(sums + i * DOUBLES, KM_D_SPLAT(0));
    for (int64_t base = 0; base < tile->count; base += SUBSET_GROUP) {
        const int64_t at = base / SUBSET_GROUP * tile->step;
        const uint64_t all = bits_of(tile->count, base);
        double doubles[1 * SUBSET_GROUP];
        const km_real *x_0 = (const km_real *)tile->columns[0] + at;
        for (int i = 0; i < SUBSET_GROUP; i += DOUBLES)
            KM_D_STORE(doubles + 0 * SUBSET_GROUP + i, KM_LOAD_DOUBLES(x_0 + i));
        for (int64_t j = 0; j < run->k; j++) {
            const uint64_t own = KM_OWN(run->labels + base, j) & all;
            double *to = sums + j * 1 * DOUBLES;
            counts[j] += __builtin_popcountll(own);
            km_doubles sum_0 = KM_D_LOAD(to + 0 * DOUBLES);
            KM_D_ADD_OWN(sum_0, own >> 0, doubles + 0 * SUBSET_GROUP + 0);
            KM_D_ADD_OWN(sum_0, own >> 8, doubles + 0 * SUBSET_GROUP + 8);
            KM_D_ADD_OWN(sum_0, own >> 16, doubles + 0 * SUBSET_GROUP + 16);
            KM_D_ADD_OWN(sum_0, own >> 24, doubles + 0 * SUBSET_GROUP + 24);
            KM_D_ADD_OWN(sum_0, own >> 32, doubles + 0 * SUBSET_GROUP + 32);
            KM_D_ADD_OWN(sum_0, own >> 40, doubles + 0 * SUBSET_GROUP + 40);
            KM_D_ADD_OWN(sum_0, own >> 48, doubles + 0 * SUBSET_GROUP + 48);
            KM_D_ADD_OWN(sum_0, own >> 56, doubles + 0 * SUBSET_GROUP + 56);
            KM_D_STORE(to + 0 * DOUBLES, sum_0);
        }
    }
    for (int64_t j = 0; j < run->k; j++) {
        for (int64_t f = 0; f < 1; f++)
            run->sums[j * SUBSET_ROW + f] += KM_D_SUM(KM_D_LOAD(sums + (j * 1 + f) * DOUBLES));
        run->sums[j * SUBSET_ROW + 1] += (double)counts[j];
    }
}

// ... 1 definition

// What the labels of a tile, which the run has in `labels`, are to the sums of its clusters.
KM_TARGET static void take_1(const cpu_subset_tile *tile, cpu_subset_run *run, uint8_t *labels,
                              const uint64_t *moved) {
    uint8_t *old = run->labels;
    const int moves = run->mode == KM_CPU_MOVE;
    if (moves && run->changed == 0) return;
    run->labels = labels; // in the first cache, which the old ones may not be
    if (moves) move_1(tile, run, old, moved);
    else if (run->k <= FEW)
        add_masked_1(tile, run);
    else
        add_all_1(tile, run);
    run->labels = old;
    memcpy(old, labels, (size_t)((tile->count + SUBSET_GROUP - 1) / SUBSET_GROUP * SUBSET_GROUP));
}

// ... 50 definitions

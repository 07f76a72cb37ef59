// SPDX-License-Identifier: MIT
// How tiles are made: the codes that points are sorted by, and the copy into a tile. Loops are plain C that compilers
// vectorise. Sums have eight lanes on every machine, so that all get the same bits.

// Keys of a chunk's points, and how many of them have each highest digit.
KM_TARGET static void make_keys(const cpu_tiles_keys_work *work) {
    const int64_t soa_points = work->soa_points;
    for (int64_t base = 0; base < work->count; base += soa_points) {
        const km_real *points = (const km_real *)work->points + base * work->d;
        uint64_t *keys = work->keys + base;
        const int64_t here = work->count - base < soa_points ? work->count - base : soa_points;
        for (int64_t i = 0; i < here; i++) keys[i] = 0;
        for (int64_t rank = 0; rank < work->features_count; rank++) {
            const cpu_tiles_code *code = &work->codes[rank];
            const km_real *values = points + work->order[rank] * soa_points;
            const km_real low = (km_real)code->low, scale = (km_real)code->scale;
            for (int64_t from = 0; from < here; from += TILES_KEYS_STEP) {
                const int64_t step = here - from < TILES_KEYS_STEP ? here - from : (int64_t)TILES_KEYS_STEP;
                int32_t cells[TILES_KEYS_STEP];
                for (int64_t i = 0; i < step; i++) {
                    km_real cell = (values[from + i] - low) * scale;
                    cell = cell > 0 ? cell : 0;
                    cells[i] = (int32_t)(cell < TILES_CELLS - 1 ? cell : TILES_CELLS - 1);
                }
                for (int64_t i = 0; i < step; i++) keys[from + i] |= code->bits[cells[i]];
            }
        }
        for (int64_t i = 0; i < here; i++) work->counts[keys[i] >> work->digit_shift]++;
        for (int64_t i = 0; i < here; i++) keys[i] = keys[i] << 32 | (uint64_t)(work->first + base + i);
    }
}

// One feature of a tile's points in the clustered space, before it is rounded to km_real.
KM_INLINE void fetch(double *x, const cpu_tile_source *source, const int64_t *at, int64_t f) {
    if (source->rows32) {
        //@ if avx512_float
        for (int i = 0; i < TILE_POINTS; i += DOUBLES)
            KM_D_STORE(x + i, KM_GATHER_DOUBLES(source->rows32 + f, at + i));
        //@ else
        for (int i = 0; i < TILE_POINTS; i++) x[i] = (double)source->rows32[at[i] + f];
        //@ end
    } else if (source->rows64) {
        for (int i = 0; i < TILE_POINTS; i++) x[i] = source->rows64[at[i] + f];
    } else {
        const km_real *groups = (const km_real *)source->soa_groups + f * source->soa_points;
        for (int i = 0; i < TILE_POINTS; i++) x[i] = (double)groups[at[i]];
        return;
    }
    const double centre = source->centre[f], factor = source->factor[f];
    for (int i = 0; i < TILE_POINTS; i++) x[i] = (x[i] - centre) * factor;
}

// Least and greatest of a tile's values of one feature.
KM_INLINE void edges(double *low, double *high, const km_real *values) {
    enum { L = 16 };
    km_real least[L], most[L];
    for (int l = 0; l < L; l++) least[l] = most[l] = values[l];
    for (int i = L; i < TILE_POINTS; i += L)
        for (int l = 0; l < L; l++) {
            const km_real value = values[i + l];
            least[l] = value < least[l] ? value : least[l];
            most[l] = value > most[l] ? value : most[l];
        }
    for (int half = L / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) {
            least[l] = least[l + half] < least[l] ? least[l + half] : least[l];
            most[l] = most[l + half] > most[l] ? most[l + half] : most[l];
        }
    *low = (double)least[0];
    *high = (double)most[0];
}

KM_INLINE double weigh(const km_real *values, const double *weights) {
    enum { L = 8 };
    double lanes[L] = {0};
    for (int i = 0; i < TILE_POINTS; i += L)
        for (int l = 0; l < L; l++) lanes[l] += weights[i + l] * (double)values[i + l];
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

// Copies the points of one tile; their sums, and least and greatest values (d each).
KM_TARGET static void fill(cpu_tiles *tiles, const cpu_tile_source *source, const uint64_t *keys,
                           int64_t tile, double *low, double *high) {
    const int64_t d = tiles->d, first = tile * TILE_POINTS;
    const int64_t here = tiles->n - first < TILE_POINTS ? tiles->n - first : (int64_t)TILE_POINTS;
    double *sums = tiles->sums + tile * tiles->pitch, weights[TILE_POINTS], x[TILE_POINTS];
    int64_t at[TILE_POINTS];
    for (int64_t i = 0; i < TILE_POINTS; i++) {
        // Behind the last point, it is repeated without weight.
        int64_t point = (int64_t)(uint32_t)keys[first + (i < here ? i : here - 1)];
        weights[i] = i >= here ? 0.0 : source->weights ? source->weights[point] : 1.0;
        at[i] = source->soa_groups
                    ? point / source->soa_points * source->soa_points * d + point % source->soa_points
                    : point * d;
    }
    km_real *to = (km_real *)tiles->points + first * d;
    for (int64_t f = 0; f < d; f++, to += TILE_POINTS) {
        fetch(x, source, at, f);
        for (int i = 0; i < TILE_POINTS; i++) to[i] = (km_real)x[i];
        edges(&low[f], &high[f], to);
        sums[f] = weigh(to, weights);
        for (int64_t i = here; i < TILE_POINTS; i++) to[i] = 0;
    }
    double total = 0, points = 0; // a cluster of points without weight is empty
    for (int64_t i = 0; i < here; i++) {
        total += weights[i];
        points += weights[i] != 0;
    }
    sums[d] = total;
    sums[d + 1] = points;
    for (int64_t i = d + 2; i < tiles->pitch; i++) sums[i] = 0;
    for (int64_t i = 0; i < TILE_POINTS && tiles->weights; i++) tiles->weights[first + i] = weights[i];
}

// Of the text of prebuilt tiles avx512_float32: All
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 23 definitions

#define KM_INLINE KM_TARGET static inline __attribute__((always_inline))
#include "runtime/cpu/tiles.h"

// ... 1 definition

// Rows and margins (m T_z) of the centroids z of LANES boxes.
KM_INLINE void pick_rows(km_real *rows, km_real *margin, const cpu_tiles_work *work, const km_int *best,
                         const int64_t d) {
    const km_real *table = (const km_real *)work->table, *margins = (const km_real *)work->scratch->margins;
    if (work->k <= TILES_PICKED_MAX) {
        const km_real *columns = (const km_real *)work->scratch->columns;
        for (int64_t f = 0; f < d; f++)
            KM_STORE(rows + f * LANES, KM_PICK(columns + f * TILES_PICKED_MAX, KM_LOAD_INTS(best)));
        KM_STORE(margin, KM_PICK(columns + d * TILES_PICKED_MAX, KM_LOAD_INTS(best)));
        return;
    }
    for (int lane = 0; lane < LANES; lane++) {
        const int64_t j = best[lane];
        margin[lane] = margins[j];
        for (int64_t f = 0; f < d; f++) rows[f * LANES + lane] = table[j * (d + 1) + f];
    }
}

// ... 11 definitions

// Sums of some points of a tile.
KM_INLINE void sum_points(double *row, const km_real *points, const double *weights, uint64_t mine,
                          const int64_t d, const int64_t pitch) {
    if (!weights) {
        sum_lanes(row, points, mine, d, pitch);
        return;
    }
    // ... lines of a template
// ... 8 definitions

// One feature of a tile's points in the clustered space, before it is rounded to km_real.
KM_INLINE void fetch(double *x, const cpu_tile_source *source, const int64_t *at, int64_t f) {
    if (source->rows32) {
        for (int i = 0; i < TILE_POINTS; i += DOUBLES)
            KM_D_STORE(x + i, KM_GATHER_DOUBLES(source->rows32 + f, at + i));
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

// ... 3 definitions

const cpu_tiles_kernels km_tiles_avx512_float32 = {{3, sizeof(km_real)}, pass, make_keys, fill};

// SPDX-License-Identifier: MIT
// The tiles and supertiles: their memory, points, boxes and sums.
#include "tiles_fill.h"
#include "../../base/error.h"
#include "../../base/size.h"
#include "../../gen/memory.h"
#include "../threads.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// A real that is not below `value`, and covers the rounding of what is computed from it.
static double widen(double value, int64_t real_bytes) {
    return real_bytes == 4 ? value * (1 + 0x1p-22) + 0x1p-126 : value * (1 + 0x1p-51) + 0x1p-1022;
}

static void real_put(void *reals, int64_t at, double value, int64_t real_bytes) {
    if (real_bytes == 4)
        ((float *)reals)[at] = (float)value;
    else
        ((double *)reals)[at] = value;
}

static double real_get(const void *reals, int64_t at, int64_t real_bytes) {
    return real_bytes == 4 ? (double)((const float *)reals)[at] : ((const double *)reals)[at];
}

// Writes box `index` around low .. high.
static void box_put(void *boxes, int64_t index, const double *low, const double *high, int64_t d,
                    int64_t real_bytes) {
    int64_t at = index / BOXES * tiles_box_values(d) + index % BOXES;
    double square_max = 0;
    for (int64_t f = 0; f < d; f++) {
        double midpoint = 0.5 * low[f] + 0.5 * high[f];
        if (real_bytes == 4) midpoint = (double)(float)midpoint;
        double half = widen(fmax(high[f] - midpoint, midpoint - low[f]), real_bytes);
        real_put(boxes, at + f * BOXES, midpoint, real_bytes);
        real_put(boxes, at + (d + f) * BOXES, half, real_bytes);
        square_max += (fabs(midpoint) + half) * (fabs(midpoint) + half);
    }
    real_put(boxes, at + 2 * d * BOXES, widen(square_max * (1 + 0x1p-20), real_bytes), real_bytes);
}

// Box and sums of a supertile whose tiles are filled.
static void super_fill(cpu_tiles *tiles, int64_t super, int64_t real_bytes, double *low, double *high) {
    int64_t d = tiles->d, pitch = tiles->pitch, first = super * TILES_OF_SUPER;
    int64_t end = km_min(first + TILES_OF_SUPER, tiles->tiles_count), box = super * tiles_box_values(d);
    double *sums = tiles->super_sums + super * pitch;
    for (int64_t f = 0; f < d; f++)
        for (int64_t t = 0; t < end - first; t++) {
            double midpoint = real_get(tiles->boxes, box + f * BOXES + t, real_bytes);
            double half = real_get(tiles->boxes, box + (d + f) * BOXES + t, real_bytes);
            low[f] = t == 0 ? midpoint - half : fmin(low[f], midpoint - half);
            high[f] = t == 0 ? midpoint + half : fmax(high[f], midpoint + half);
        }
    // In the order in which a pass adds tiles one by one, so that both give the same bits.
    memcpy(sums, tiles->sums + first * pitch, (size_t)pitch * sizeof *sums);
    for (int64_t tile = first + 1; tile < end; tile++)
        for (int64_t i = 0; i < pitch; i++) sums[i] += tiles->sums[tile * pitch + i];
    box_put(tiles->super_boxes, super, low, high, d, real_bytes);
}

km_status km_cpu_tiles_alloc(cpu_tiles *tiles, const cpu_engine *engine, km_error *err) {
    int64_t n = engine->base.n, d = engine->base.d, real = engine->real_bytes;
    int64_t count = (n + TILE_POINTS - 1) / TILE_POINTS,
            supers = (count + TILES_OF_SUPER - 1) / TILES_OF_SUPER;
    int64_t groups = (supers + BOXES - 1) / BOXES, box = tiles_box_values(d) * real;
    *tiles =
        (cpu_tiles){.n = n, .d = d, .pitch = engine->pitch, .tiles_count = count, .supers_count = supers};
    tiles->points = km_pages_alloc(count * TILE_POINTS * d * real);
    tiles->boxes = calloc((size_t)supers, (size_t)box);
    tiles->super_boxes = calloc((size_t)groups, (size_t)box);
    tiles->sums = km_pages_alloc(count * tiles->pitch * (int64_t)sizeof *tiles->sums);
    tiles->super_sums = km_pages_alloc(supers * tiles->pitch * (int64_t)sizeof *tiles->sums);
    if (engine->weights)
        tiles->weights = km_pages_alloc(count * TILE_POINTS * (int64_t)sizeof *tiles->weights);
    if (tiles->points && tiles->boxes && tiles->super_boxes && tiles->sums && tiles->super_sums &&
        (tiles->weights || !engine->weights))
        return KM_OK;
    return km_fail_memory(err, "the sorted points of the algorithm tiles",
                          km_cpu_tiles_bytes(engine->base.plan, n));
}

void km_cpu_tiles_free(cpu_tiles *tiles) {
    km_pages_free(tiles->points);
    km_pages_free(tiles->weights);
    free(tiles->boxes);
    free(tiles->super_boxes);
    km_pages_free(tiles->sums);
    km_pages_free(tiles->super_sums);
    *tiles = (cpu_tiles){.n = 0};
}

km_status km_cpu_tiles_fill(cpu_tiles *tiles, const cpu_engine *engine, const cpu_tiles_kernels *kernels,
                            const cpu_tile_source *source, const uint64_t *keys, int64_t step, int rest,
                            km_error *err) {
    int64_t d = tiles->d, groups = (tiles->supers_count + BOXES - 1) / BOXES, real_bytes = engine->real_bytes;
    int threads = cpu_threads_for(engine, groups);
    double *rows = malloc((size_t)(threads * 2 * d) * sizeof *rows);
    if (!rows) return km_fail_memory(err, "edges of boxes", threads * 2 * d * 8);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1)
    for (int64_t soa_points = 0; soa_points < groups; soa_points++) {
        if ((soa_points % step == 0) == rest) continue;
        double *low = rows + omp_get_thread_num() * 2 * d, *high = low + d;
        int64_t supers = km_min((soa_points + 1) * BOXES, tiles->supers_count);
        for (int64_t super = soa_points * BOXES; super < supers; super++) {
            int64_t end = km_min((super + 1) * TILES_OF_SUPER, tiles->tiles_count);
            for (int64_t tile = super * TILES_OF_SUPER; tile < end; tile++) {
                kernels->fill(tiles, source, keys, tile, low, high);
                box_put(tiles->boxes, tile, low, high, d, real_bytes);
            }
            super_fill(tiles, super, real_bytes, low, high);
        }
    }
    free(rows);
    return KM_OK;
}

// SPDX-License-Identifier: MIT
// Kernels that are compiled into the library (gen/prebuilt.c). Those of the design prebuilt are lanes': they serve jobs
// too small to be worth a compiler, and machines without one. Those of the load, and of what passes skip, serve all.
#include "bounds.h"
#include "cpu.h"
#include "tiles.h"
#include "load.h"
#include "silhouette.h"
#include "sparse.h"
#include "subset_kernels.h"
#include "runtime/cpu/prebuilt_list.h"

#define DECLARE_LANES(name) extern const km_cpu_kernels km_lanes_##name;
#define LANES(name) &km_lanes_##name,

#define DECLARE(name)                                                                                        \
    extern const cpu_load_kernels km_load_##name;                                                            \
    extern const cpu_tiles_kernels km_tiles_##name;                                                          \
    extern const cpu_bounds_kernels km_bounds_##name;                                                        \
    extern const cpu_silhouette_kernels km_silhouette_##name;                                                \
    extern const cpu_subset_kernels km_subsets_##name;                                                       \
    extern const cpu_sparse_kernels km_sparse_lanes_##name;
#define LOAD(name) &km_load_##name.base,
#define TILES(name) &km_tiles_##name.base,
#define BOUNDS(name) &km_bounds_##name.base,
#define SILHOUETTE(name) &km_silhouette_##name.base,
#define SUBSETS(name) &km_subsets_##name.base,
#define SPARSE(name) &km_sparse_lanes_##name.base,

KM_LANES_LIST(DECLARE_LANES)
KM_PREBUILT_LIST(DECLARE)

// The best first; the last are for any machine.
static const km_cpu_kernels *const prebuilt[] = {KM_LANES_LIST(LANES)};
static const cpu_prebuilt *const load[] = {KM_PREBUILT_LIST(LOAD)};
static const cpu_prebuilt *const tiles[] = {KM_PREBUILT_LIST(TILES)};
static const cpu_prebuilt *const bounds[] = {KM_PREBUILT_LIST(BOUNDS)};
static const cpu_prebuilt *const silhouette[] = {KM_PREBUILT_LIST(SILHOUETTE)};
static const cpu_prebuilt *const subsets[] = {KM_PREBUILT_LIST(SUBSETS)};
static const cpu_prebuilt *const sparse[] = {KM_PREBUILT_LIST(SPARSE)};

int km_cpu_isa_runs(int32_t isa, int32_t have) {
    return isa == have || isa == KM_ISA_GENERIC || (isa == KM_ISA_AVX2 && have == KM_ISA_AVX512);
}

int km_cpu_kernels_suit(const km_cpu_kernels *kernels, const km_spec *spec) {
    return kernels->d_min <= spec->features && spec->features <= kernels->d_max &&
           kernels->real_bytes == (spec->type == KM_FLOAT32 ? 4 : 8) &&
           spec->clusters[spec->clusters_count - 1] <= kernels->k_max;
}

const km_cpu_kernels *km_cpu_prebuilt_lanes(const km_spec *spec, int32_t have) {
    // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
    for (size_t i = 0; i < sizeof prebuilt / sizeof *prebuilt; i++)
        if (km_cpu_kernels_suit(prebuilt[i], spec) && km_cpu_isa_runs(prebuilt[i]->isa, have) &&
            km_cpu_isa_runs(prebuilt[i]->isa, spec->target.arch))
            return prebuilt[i];
    return NULL;
}

static const cpu_prebuilt *find(const cpu_prebuilt *const *list, const km_plan *plan, int64_t real_bytes) {
    while ((*list)->real_bytes != real_bytes || !km_cpu_isa_runs((*list)->isa, plan->facts.target.arch))
        list++;
    return *list;
}

static int64_t real_bytes_of(const km_plan *plan) {
    return plan->spec.type == KM_FLOAT32 ? 4 : 8;
}

const cpu_load_kernels *km_cpu_load_kernels(const km_plan *plan, int64_t row_value_bytes) {
    return (const cpu_load_kernels *)find(load, plan, row_value_bytes);
}

const cpu_tiles_kernels *km_cpu_tiles_kernels(const km_plan *plan) {
    return (const cpu_tiles_kernels *)find(tiles, plan, real_bytes_of(plan));
}

const cpu_bounds_kernels *km_cpu_bounds_kernels(const km_plan *plan) {
    return (const cpu_bounds_kernels *)find(bounds, plan, real_bytes_of(plan));
}

const cpu_silhouette_kernels *km_cpu_silhouette_kernels(const km_plan *plan) {
    return (const cpu_silhouette_kernels *)find(silhouette, plan, real_bytes_of(plan));
}

const cpu_subset_kernels *km_cpu_subset_kernels(const km_plan *plan) {
    return (const cpu_subset_kernels *)find(subsets, plan, real_bytes_of(plan));
}

const cpu_sparse_kernels *km_cpu_sparse_kernels(const km_plan *plan) {
    return (const cpu_sparse_kernels *)find(sparse, plan, real_bytes_of(plan));
}

// SPDX-License-Identifier: MIT
// The design portable: kernels of lanes that are compiled into the library. They serve jobs too small to be worth a
// compiler, and machines without one.
#include "../../base/size.h"
#include "cpu.h"
#include "runtime/cpu/portable_list.h"

#define DECLARE(name) extern const km_cpu_kernels km_portable_##name##_kernels;
#define ADDRESS(name) &km_portable_##name##_kernels,

KM_PORTABLE_LIST(DECLARE)
static const km_cpu_kernels *const portable[] = {KM_PORTABLE_LIST(ADDRESS)};

int km_cpu_isa_runs(int32_t isa, int32_t have) {
    return isa == have || isa == KM_ISA_GENERIC || (isa == KM_ISA_AVX2 && have == KM_ISA_AVX512);
}

int km_cpu_kernels_suit(const km_cpu_kernels *kernels, const km_spec *spec) {
    return kernels->d_min <= spec->features && spec->features <= kernels->d_max &&
           kernels->real_bytes == km_type_bytes(spec->type) &&
           spec->clusters[spec->clusters_count - 1] <= kernels->k_max;
}

const km_cpu_kernels *km_cpu_portable(const km_spec *spec, int32_t have) {
    // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
    for (size_t i = 0; i < sizeof portable / sizeof *portable; i++)
        if (km_cpu_kernels_suit(portable[i], spec) && km_cpu_isa_runs(portable[i]->isa, have) &&
            km_cpu_isa_runs(portable[i]->isa, spec->target.arch))
            return portable[i];
    return NULL;
}

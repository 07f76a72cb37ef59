// SPDX-License-Identifier: MIT
// What this build has of the parts that one may leave out (meson_options.txt).
#include "threads.h"

#include "../base/log.h"

int km_built_with(km_part part) {
#define WITH(part, name, purpose, remedy) [KM_PART_##part] = KM_WITH_##part,
    static const int with[] = {KM_PARTS(WITH)};
#undef WITH
    return (size_t)part < sizeof with / sizeof *with && with[part];
}

int64_t km_threads(int64_t wanted, int64_t all, const km_log *log) {
    if (KM_WITH_OPENMP) return wanted > 0 ? wanted : all;
    if (wanted > 1)
        km_log_line(log, KM_LOG_WARNING,
                    "threads: one instead of %lld: this kmgen was built without OpenMP (meson's option "
                    "-Dopenmp=enabled)",
                    (long long)wanted);
    return 1;
}

int64_t km_host_threads(int64_t wanted) {
    return km_threads(wanted, omp_get_num_procs(), NULL);
}

// SPDX-License-Identifier: MIT
// What this build has of the parts that one may leave out (meson_options.txt).
#include "threads.h"

#include "../base/log.h"

int km_built_with(km_part part) {
    switch (part) {
    case KM_PART_CAIRO:
        return KM_WITH_CAIRO;
    case KM_PART_OPENMP:
        return KM_WITH_OPENMP;
    case KM_PART_ZLIB:
        return KM_WITH_ZLIB;
    case KM_PART_LIBARCHIVE:
        return KM_WITH_LIBARCHIVE;
    case KM_PART_HDF5:
        return KM_WITH_HDF5;
    }
    return 0;
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

// SPDX-License-Identifier: MIT
// What this build has of the parts that one may leave out (meson_options.txt).
#include "threads.h"

#include "../base/log.h"
#include "library.h"

int km_built_with(km_part part) {
#define WITH(part, name, purpose, remedy) [KM_PART_##part] = KM_WITH_##part,
    static const int with[] = {KM_PARTS(WITH)};
#undef WITH
    return (size_t)part < sizeof with / sizeof *with && with[part];
}

km_status km_part_check(km_part part, km_error *err) {
    static const struct {
        const char *name, *remedy;
    } parts[] = {
#define NAMED(part, name, purpose, remedy) {name, remedy},
        KM_PARTS(NAMED)
#undef NAMED
    };
    if ((size_t)part >= sizeof parts / sizeof *parts)
        return km_fail(err, KM_ERROR_USAGE, "there is no part %d", (int)part);
    if (!km_built_with(part))
        return km_fail(err, KM_ERROR_USAGE, "this kmgen was built without %s; build it with %s",
                       parts[part].name, parts[part].remedy);
    switch (part) {
#if KM_WITH_CAIRO
    case KM_PART_CAIRO:
        return km_cairo_open(KM_ERROR_USAGE, "", err);
#endif
#if KM_WITH_LIBARCHIVE
    case KM_PART_LIBARCHIVE:
        return km_archive_open(KM_ERROR_USAGE, "", err);
#endif
#if KM_WITH_HDF5
    case KM_PART_HDF5:
        return km_hdf5_open(KM_ERROR_USAGE, "", err);
#endif
    default:
        return KM_OK;
    }
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

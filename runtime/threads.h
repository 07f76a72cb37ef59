// SPDX-License-Identifier: MIT
// OpenMP, or one thread in its place where the library was built without it.
#ifndef KM_RUNTIME_THREADS_H
#define KM_RUNTIME_THREADS_H
#include <kmgen/kmgen.h>

#ifdef _OPENMP
#include <omp.h>
#define KM_WITH_OPENMP 1
#else
#define KM_WITH_OPENMP 0
static inline int omp_get_thread_num(void) {
    return 0;
}
static inline int omp_get_num_threads(void) {
    return 1;
}
static inline int omp_get_num_procs(void) {
    return 1;
}
#endif

// How many threads run where `wanted` are wanted, or by default `all`. Without OpenMP that is one, and `log` says so
// where more were wanted.
int64_t km_threads(int64_t wanted, int64_t all, const km_log *log);
// The same of the host's processors, all of them by default, without a word to a log.
int64_t km_host_threads(int64_t wanted);

#endif

// SPDX-License-Identifier: MIT
// Kernels that are compiled into the library for each instruction set and type: load, tiles, bounds, silhouette,
// sparse.
#ifndef KM_RUNTIME_CPU_PREBUILT_H
#define KM_RUNTIME_CPU_PREBUILT_H
#include <stdint.h>

// What each table of them begins with.
typedef struct cpu_prebuilt {
    int32_t isa;        // that it needs: a km_isa of kmgen/spec.h
    int32_t real_bytes; // of its type
} cpu_prebuilt;

#endif

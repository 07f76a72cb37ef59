// SPDX-License-Identifier: MIT
// What libraries in the place of NVIDIA's driver have in common (fake/cuda.c, emulate/cuda.c): its functions, by the
// names that the runtime looks for, and what an H100 says of itself.
#ifndef KM_TESTS_DRIVER_NAMES_H
#define KM_TESTS_DRIVER_NAMES_H
#include "../runtime/cuda/driver.h"
#include <stddef.h>

#pragma GCC visibility push(default)

km_cu_result cuInit(unsigned flags);
#define DECLARE(name, symbol, parameters) km_cu_result name parameters;
KM_DRIVER_CALLS(DECLARE)
#undef DECLARE

// Names with a version, as the driver has them.
#define VERSIONED(name, version) extern __typeof__(name) name##version __attribute__((alias(#name)))
VERSIONED(cuDeviceTotalMem, _v2);
VERSIONED(cuDevicePrimaryCtxRelease, _v2);
VERSIONED(cuCtxPushCurrent, _v2);
VERSIONED(cuCtxPopCurrent, _v2);
VERSIONED(cuModuleGetGlobal, _v2);
VERSIONED(cuMemGetInfo, _v2);
VERSIONED(cuMemAlloc, _v2);
VERSIONED(cuMemFree, _v2);
VERSIONED(cuMemHostRegister, _v2);
VERSIONED(cuMemHostGetDevicePointer, _v2);
VERSIONED(cuMemcpyHtoDAsync, _v2);
VERSIONED(cuMemcpyDtoHAsync, _v2);
VERSIONED(cuMemcpyDtoDAsync, _v2);
VERSIONED(cuStreamDestroy, _v2);
VERSIONED(cuEventDestroy, _v2);

#pragma GCC visibility pop

// Whether it has this attribute.
static inline int h100_attribute(int *value, int attribute) {
    static const struct {
        int attribute, value;
    } values[] = {{KM_CU_ATTR_CLOCK_KHZ, 1980000},
                  {KM_CU_ATTR_UNITS, 132},
                  {KM_CU_ATTR_MEMORY_CLOCK_KHZ, 3201000},
                  {KM_CU_ATTR_MEMORY_BUS_BITS, 6144},
                  {KM_CU_ATTR_L2_BYTES, 60 << 20},
                  {KM_CU_ATTR_MAJOR, 9},
                  {KM_CU_ATTR_MINOR, 0},
                  {KM_CU_ATTR_SHARED_PER_UNIT, 228 << 10},
                  {KM_CU_ATTR_REGISTERS_PER_UNIT, 65536},
                  {KM_CU_ATTR_SHARED_OPTIN, 227 << 10},
                  {KM_CU_ATTR_MAPS_HOST, 1}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (values[i].attribute == attribute) {
            *value = values[i].value;
            return 1;
        }
    return 0;
}

#endif

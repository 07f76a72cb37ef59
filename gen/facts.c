// SPDX-License-Identifier: MIT
// Nominal devices, for plans without a device.
#include <kmgen/plan.h>

#include <stdio.h>

#define KB 1024
#define MB (1024 * 1024)

// Vendor's figures of a common board of each architecture; bandwidth is the memory's nominal read rate.
static const struct {
    const char *name;
    int32_t arch;
    int64_t units, shared_kb_per_unit, shared_kb_per_block, cache_mb, memory_gb;
    double bandwidth_gbs, clock_ghz, fp32, fp64;
} cuda_devices[] = {
    {"T4", 75, 40, 64, 64, 4, 16, 320, 1.59, 64, 2},
    {"A100", 80, 108, 164, 163, 40, 40, 1555, 1.41, 64, 32},
    {"RTX 3090", 86, 82, 100, 99, 6, 24, 936, 1.70, 128, 2},
    {"RTX 4090", 89, 128, 100, 99, 72, 24, 1008, 2.52, 128, 2},
    {"H200", 90, 132, 228, 227, 60, 141, 4800, 1.98, 128, 64},
    {"B200", 100, 148, 228, 227, 126, 180, 8000, 1.97, 128, 64},
    {"RTX 5090", 120, 170, 100, 99, 96, 32, 1792, 2.41, 128, 2},
};

// FMA lanes: two units a core, each as wide as the vector; generic code multiplies and adds apart.
static const struct {
    const char *name;
    double fp32;
    int64_t cache_kb;
    double clock_ghz;
} cpu_cores[] = {
    [KM_ISA_GENERIC] = {"generic", 4, 512, 2.5},
    [KM_ISA_AVX2] = {"avx2", 16, 1024, 3.0},
    [KM_ISA_AVX512] = {"avx512", 32, 2048, 3.0},
    [KM_ISA_NEON] = {"neon", 8, 1024, 2.6},
};

static void cuda_init(km_device_facts *facts) {
    enum { COUNT = sizeof cuda_devices / sizeof *cuda_devices };
    if (!facts->target.arch) facts->target.arch = 90;
    int best = 0; // the newest that is not newer than asked
    for (int i = 1; i < COUNT; i++)
        if (cuda_devices[i].arch <= facts->target.arch) best = i;
    snprintf(facts->name, sizeof facts->name, "nominal %s", cuda_devices[best].name);
    facts->units = cuda_devices[best].units;
    facts->registers_per_unit = 65536;
    facts->registers_per_thread = 255;
    facts->shared_bytes_per_unit = cuda_devices[best].shared_kb_per_unit * KB;
    facts->shared_bytes_per_block = cuda_devices[best].shared_kb_per_block * KB;
    facts->cache_bytes = cuda_devices[best].cache_mb * MB;
    facts->memory_bytes = cuda_devices[best].memory_gb * 1000000000;
    facts->bandwidth_gbs = cuda_devices[best].bandwidth_gbs;
    facts->clock_ghz = cuda_devices[best].clock_ghz;
    facts->fp32_per_cycle = cuda_devices[best].fp32;
    facts->fp64_per_cycle = cuda_devices[best].fp64;
    facts->maps_host = 1;
}

static void cpu_init(km_device_facts *facts) {
    facts->target.kind = KM_TARGET_CPU;
    int32_t isa = facts->target.arch;
    if (isa < KM_ISA_GENERIC || isa > KM_ISA_NEON) isa = KM_ISA_AVX2;
    facts->target.arch = isa;
    snprintf(facts->name, sizeof facts->name, "two nominal %s cores", cpu_cores[isa].name);
    facts->units = 2;
    facts->cache_bytes = cpu_cores[isa].cache_kb * KB;
    facts->bandwidth_gbs = 20;
    facts->clock_ghz = cpu_cores[isa].clock_ghz;
    facts->fp32_per_cycle = cpu_cores[isa].fp32;
    facts->fp64_per_cycle = cpu_cores[isa].fp32 / 2;
    facts->has_integers =
        isa == KM_ISA_AVX512; // most processors with AVX-512 have AVX512_VNNI; engines ask the machine
}

void km_device_facts_init(km_device_facts *facts, km_target target) {
    *facts = (km_device_facts){.target = target, .has_compiler = 1};
    if (target.kind == KM_TARGET_CUDA)
        cuda_init(facts);
    else
        cpu_init(facts);
}

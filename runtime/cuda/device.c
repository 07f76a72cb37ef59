// SPDX-License-Identifier: MIT
// CUDA devices, and modules loaded on them.
#include "../../base/error.h"
#include "../../base/log.h"
#include "../../gen/algorithm.h"
#include "../../gen/design.h"
#include "cuda.h"
#include "../file.h"
#include "../module_state.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int km_cuda_device_count(void) {
    const km_driver *driver = km_driver_get(NULL);
    int count = 0;
    return driver && driver->cuDeviceGetCount(&count) == 0 && count > 0 ? count : 0;
}

// FP32 and FP64 FMA lanes of one multiprocessor: NVIDIA's CUDA C++ programming guide, table of arithmetic
// throughput. Architectures that are not listed are taken like the nearest listed one below.
static void lanes_of(double *fp32, double *fp64, int arch) {
    static const struct {
        int arch, fp32, fp64;
    } table[] = {{50, 128, 4}, {60, 64, 32},  {61, 128, 4},   {70, 64, 32},  {75, 64, 2},  {80, 64, 32},
                 {86, 128, 2}, {90, 128, 64}, {100, 128, 64}, {103, 128, 2}, {120, 128, 2}};
    *fp32 = 128;
    *fp64 = 4;
    for (size_t i = 0; i < sizeof table / sizeof table[0] && table[i].arch <= arch; i++) {
        *fp32 = table[i].fp32;
        *fp64 = table[i].fp64;
    }
}

static km_status read_facts(km_device_facts *facts, const km_driver *driver, km_cu_device handle,
                            km_error *err) {
    km_status status = KM_OK;
    int major, minor, clock_khz, memory_khz, bus_bits, units, l2, registers, shared_unit, shared_block;
    int maps_host = 0;
    size_t memory;
    const struct {
        int *value, attribute;
    } wanted[] = {{&major, KM_CU_ATTR_MAJOR},
                  {&minor, KM_CU_ATTR_MINOR},
                  {&clock_khz, KM_CU_ATTR_CLOCK_KHZ},
                  {&memory_khz, KM_CU_ATTR_MEMORY_CLOCK_KHZ},
                  {&bus_bits, KM_CU_ATTR_MEMORY_BUS_BITS},
                  {&units, KM_CU_ATTR_UNITS},
                  {&l2, KM_CU_ATTR_L2_BYTES},
                  {&registers, KM_CU_ATTR_REGISTERS_PER_UNIT},
                  {&shared_unit, KM_CU_ATTR_SHARED_PER_UNIT},
                  {&shared_block, KM_CU_ATTR_SHARED_OPTIN}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        KM_CU(cuDeviceGetAttribute(wanted[i].value, wanted[i].attribute, handle));
    *facts = (km_device_facts){.target = {KM_TARGET_CUDA, major * 10 + minor},
                               .units = units,
                               .registers_per_unit = registers,
                               .registers_per_thread = 255,
                               .shared_bytes_per_unit = shared_unit,
                               .shared_bytes_per_block = shared_block,
                               .cache_bytes = l2,
                               .bandwidth_gbs = 2.0 * memory_khz * 1e3 * bus_bits / 8 * 1e-9,
                               .clock_ghz = clock_khz * 1e-6};
    // Drivers before CUDA 12.2 do not know it.
    facts->maps_host =
        driver->cuDeviceGetAttribute(&maps_host, KM_CU_ATTR_MAPS_HOST, handle) == 0 && maps_host;
    lanes_of(&facts->fp32_per_cycle, &facts->fp64_per_cycle, major * 10 + minor);
    KM_CU(cuDeviceGetName(facts->name, sizeof facts->name, handle));
    KM_CU(cuDeviceTotalMem(&memory, handle));
    facts->memory_bytes = (int64_t)memory;
done:
    return status;
}

// The same, once a process: facts do not change, and the driver takes a millisecond for two of them.
static km_status recall_facts(km_device_facts *facts, const km_driver *driver, km_cu_device handle,
                              int ordinal, km_error *err) {
    enum { KNOWN_MAX = 64 };
    static km_device_facts known[KNOWN_MAX];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    km_status status = KM_OK;
    if (ordinal >= KNOWN_MAX) return read_facts(facts, driver, handle, err);
    pthread_mutex_lock(&lock);
    if (known[ordinal].target.kind != KM_TARGET_CUDA)
        status = read_facts(&known[ordinal], driver, handle, err);
    if (status == KM_OK)
        *facts = known[ordinal];
    else
        known[ordinal] = (km_device_facts){0};
    pthread_mutex_unlock(&lock);
    return status;
}

// How much memory is free now.
static km_status read_free(km_cuda_device *device, km_error *err) {
    km_status status = KM_OK;
    const km_driver *driver = device->driver;
    size_t left, all;
    KM_TRY(km_cuda_enter(device, err));
    KM_CU(cuMemGetInfo(&left, &all));
    device->base.facts.memory_free_bytes = (int64_t)left;
done:
    km_cuda_leave(device);
    return status;
}

// Finds the device and a compiler for it. No context: that takes a second where several processes ask for one.
static km_status find_device(km_cuda_device *device, int ordinal, const char *compiler, km_error *err) {
    const km_driver *driver = device->driver;
    km_status status = KM_OK;
    int count = 0;
    KM_CU(cuDeviceGetCount(&count));
    if (ordinal < 0 || ordinal >= count) {
        status =
            km_fail(err, KM_ERROR_DEVICE, "there is no CUDA device %d; this machine has %d", ordinal, count);
        goto done;
    }
    device->ordinal = ordinal;
    device->driver_major = driver->version / 1000;
    KM_CU(cuDeviceGet(&device->handle, ordinal));
    KM_TRY_GOTO(recall_facts(&device->base.facts, driver, device->handle, ordinal, err));
    km_error missing = {""};
    if (km_nvrtc_open(&device->nvrtc, compiler, device->driver_major, &missing) != KM_OK)
        snprintf(device->nvrtc_missing, sizeof device->nvrtc_missing, "%s", missing.text);
    device->base.facts.has_compiler = device->nvrtc.library != NULL;
done:
    return status;
}

// Contexts that stay when the last device of their GPU is closed (km_device_keep): they are retained once more.
enum { KEPT_MAX = 64 };
static struct {
    pthread_mutex_t lock;
    int keeps, is_kept[KEPT_MAX]; // by ordinal
    km_cu_device handles[KEPT_MAX];
} contexts = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void keep_context(const km_cuda_device *device) {
    km_cu_context same;
    if (device->ordinal >= KEPT_MAX) return;
    pthread_mutex_lock(&contexts.lock);
    int *is_kept = &contexts.is_kept[device->ordinal];
    contexts.handles[device->ordinal] = device->handle;
    if (contexts.keeps && !*is_kept)
        *is_kept = device->driver->cuDevicePrimaryCtxRetain(&same, device->handle) == 0;
    pthread_mutex_unlock(&contexts.lock);
}

void km_device_keep(int keeps) {
    pthread_mutex_lock(&contexts.lock);
    contexts.keeps = keeps;
    for (int i = 0; i < KEPT_MAX && !keeps; i++) {
        if (contexts.is_kept[i]) km_driver_get(NULL)->cuDevicePrimaryCtxRelease(contexts.handles[i]);
        contexts.is_kept[i] = 0;
    }
    pthread_mutex_unlock(&contexts.lock);
}

static km_status make_context(km_cuda_device *device, km_error *err) {
    const km_driver *driver = device->driver;
    km_status status = KM_OK;
    KM_CU(cuDevicePrimaryCtxRetain(&device->context, device->handle));
    keep_context(device);
    KM_TRY_GOTO(read_free(device, err));
done:
    return status;
}

km_status km_cuda_device_open(km_device **out, int ordinal, int compiles_only, const char *compiler,
                              const km_log *log, km_error *err) {
    const char *why = NULL;
    *out = NULL;
    if (compiles_only) km_nvrtc_begin(compiler);
    const km_driver *driver = km_driver_get(&why);
    if (!driver) return km_fail(err, KM_ERROR_DEVICE, "no CUDA device: %s; or use the CPU", why);
    km_cuda_device *device = calloc(1, sizeof *device);
    if (!device) return km_fail_memory(err, "a device", sizeof *device);
    device->driver = driver;
    *out = &device->base;
    km_status status = find_device(device, ordinal, compiler, err);
    if (status == KM_OK && !compiles_only) status = make_context(device, err);
    if (status != KM_OK) {
        km_cuda_device_close(out);
        return status;
    }
    km_log_line(log, KM_LOG_DEBUG, "device: %s, sm_%d, driver for CUDA %d.%d, %s%s", device->base.facts.name,
                device->base.facts.target.arch, driver->version / 1000, driver->version % 1000 / 10,
                device->nvrtc.library ? "NVRTC " : "no NVRTC", device->nvrtc.path);
    return KM_OK;
}

typedef struct memo {
    km_device_facts facts;
    int driver_version;
} memo;

km_status km_cuda_compiler_recall(km_device **out, int ordinal, const char *compiler, const void *bytes,
                                  int64_t size) {
    memo known;
    *out = NULL;
    if (size != (int64_t)sizeof known) return KM_ERROR_DEVICE;
    km_cuda_device *device = calloc(1, sizeof *device);
    if (!device) return KM_ERROR_MEMORY;
    memcpy(&known, bytes, sizeof known);
    device->base.facts = known.facts;
    device->ordinal = ordinal;
    device->driver_major = known.driver_version / 1000;
    *out = &device->base;
    km_status status = km_nvrtc_open(&device->nvrtc, compiler, device->driver_major, NULL);
    if (status != KM_OK) km_cuda_device_close(out);
    return status;
}

int64_t km_cuda_compiler_memo(void *bytes, const km_device *base) {
    memo known;
    memset(&known, 0, sizeof known);
    known.facts = base->facts;
    known.facts.memory_free_bytes = 0;
    known.driver_version = ((const km_cuda_device *)base)->driver->version;
    _Static_assert(sizeof known <= KM_MEMO_BYTES, "there is room for a memo");
    memcpy(bytes, &known, sizeof known);
    return (int64_t)sizeof known;
}

void km_cuda_device_close(km_device **base) {
    km_cuda_device *device = (km_cuda_device *)*base;
    if (!device) return;
    km_nvrtc_close(&device->nvrtc);
    if (device->context) device->driver->cuDevicePrimaryCtxRelease(device->handle);
    free(device);
    *base = NULL;
}

km_status km_cuda_enter(const km_cuda_device *device, km_error *err) {
    km_status status = KM_OK;
    const km_driver *driver = device->driver;
    KM_CU(cuCtxPushCurrent(device->context));
done:
    return status;
}

void km_cuda_leave(const km_cuda_device *device) {
    km_cu_context context;
    device->driver->cuCtxPopCurrent(&context);
}

// Compiling ---------------------------------------------------------------------------------------------------

static int arch_of(const km_cuda_device *device) {
    return device->base.facts.target.arch;
}

void km_cuda_compiler_name(char *text, int64_t size, km_device *base) {
    const km_cuda_device *device = (const km_cuda_device *)base;
    snprintf(text, (size_t)size, device->nvrtc.library ? "nvrtc %d.%d" : "no nvrtc", device->nvrtc.major,
             device->nvrtc.minor);
}

void km_cuda_compiler_id(char *text, int64_t size, km_device *base, const km_plan *plan) {
    const km_cuda_device *device = (const km_cuda_device *)base;
    (void)plan;
    if (device->nvrtc.library)
        km_nvrtc_id(text, size, &device->nvrtc, arch_of(device));
    else
        snprintf(text, (size_t)size, "no nvrtc");
}

km_status km_cuda_compile(km_device *base, const km_source *source, const char *source_path,
                          const char *binary_path, const char *log_path, struct km_asking *asking,
                          km_error *err) {
    const km_cuda_device *device = (const km_cuda_device *)base;
    (void)source;
    if (!device->nvrtc.library) return km_fail(err, KM_ERROR_DEVICE, "%s", device->nvrtc_missing);
    return km_nvrtc_compile(&device->nvrtc, arch_of(device), source_path, binary_path, log_path, asking, err);
}

// Loading -----------------------------------------------------------------------------------------------------

// A function, or a table, of that part which has it.
static km_status find_function(km_cu_function *function, const km_driver *driver,
                               const km_cuda_kernels *kernels, const char *name, km_error *err) {
    km_cu_result result = KM_CU_NOT_FOUND;
    for (int64_t i = 0; i < kernels->modules_count && result != 0; i++)
        result = driver->cuModuleGetFunction(function, kernels->modules[i], name);
    if (result == KM_CU_NOT_FOUND) return km_fail(err, KM_ERROR_COMPILE, "the source has no kernel %s", name);
    return result == 0 ? KM_OK : km_cuda_fail(err, driver, result, "cuModuleGetFunction");
}

static km_status find_global(km_cu_ptr *address, size_t *size, const km_driver *driver,
                             const km_cuda_kernels *kernels, const char *name, km_error *err) {
    km_cu_result result = KM_CU_NOT_FOUND;
    for (int64_t i = 0; i < kernels->modules_count && result != 0; i++)
        result = driver->cuModuleGetGlobal(address, size, kernels->modules[i], name);
    if (result == KM_CU_NOT_FOUND) return km_fail(err, KM_ERROR_COMPILE, "the source has no table %s", name);
    return result == 0 ? KM_OK : km_cuda_fail(err, driver, result, "cuModuleGetGlobal");
}

// Copies an exported table to the host.
static km_status read_symbol(void *out, int64_t bytes, const km_driver *driver,
                             const km_cuda_kernels *kernels, const char *name, km_error *err) {
    km_status status = KM_OK;
    km_cu_ptr address = 0;
    size_t size = 0;
    KM_TRY(find_global(&address, &size, driver, kernels, name, err));
    if ((int64_t)size < bytes) {
        status = km_fail(err, KM_ERROR_COMPILE, "the source's table %s has %zu bytes, %lld are needed", name,
                         size, (long long)bytes);
        goto done;
    }
    KM_CU(cuMemcpyDtoHAsync(out, address, (size_t)bytes, NULL));
    KM_CU(cuStreamSynchronize(NULL));
done:
    return status;
}

static km_status allow_shared(const km_driver *driver, km_cu_function function, int64_t bytes,
                              km_error *err) {
    km_status status = KM_OK;
    if (bytes > 48 * 1024) KM_CU(cuFuncSetAttribute(function, KM_CU_FUNC_MAX_DYNAMIC_SHARED, (int)bytes));
done:
    return status;
}

static km_status load_launches(km_cuda_kernels *kernels, const km_driver *driver, km_error *err) {
    km_status status = KM_OK;
    KM_TRY_GOTO(read_symbol(&kernels->facts, sizeof kernels->facts, driver, kernels, "km_pass", err));
    if (kernels->facts.version != KM_ABI_VERSION || kernels->facts.launches_count < 1) {
        status =
            km_fail(err, KM_ERROR_COMPILE, "the source was made for another version of kmgen: emit it again");
        goto done;
    }
    int64_t count = kernels->facts.launches_count;
    kernels->launches = calloc((size_t)count, sizeof *kernels->launches);
    // NOLINTNEXTLINE(bugprone-sizeof-expression): a function's handle is a pointer
    kernels->functions = calloc((size_t)count, sizeof *kernels->functions);
    if (!kernels->launches || !kernels->functions) {
        status = km_fail_memory(err, "the table of launches", count * (int64_t)sizeof *kernels->launches);
        goto done;
    }
    KM_TRY_GOTO(read_symbol(kernels->launches, count * (int64_t)sizeof *kernels->launches, driver, kernels,
                            "km_pass_launches", err));
    for (int64_t i = 0; i < count; i++) {
        KM_TRY_GOTO(find_function(&kernels->functions[i], driver, kernels, kernels->launches[i].kernel, err));
        KM_TRY_GOTO(allow_shared(driver, kernels->functions[i], kernels->launches[i].shared_bytes, err));
    }
done:
    return status;
}

static km_status allow_shared_of_tiles(km_cuda_kernels *kernels, const km_driver *driver, km_error *err) {
    int64_t bytes = km_cuda_tiles_shared(kernels->base.plan);
    KM_TRY(allow_shared(driver, kernels->tiles_super_boxes, bytes, err));
    KM_TRY(allow_shared(driver, kernels->tiles_boxes, bytes, err));
    return allow_shared(driver, kernels->tiles_points, bytes, err);
}

static km_status load_pairs(km_cuda_kernels *kernels, const km_driver *driver, km_error *err) {
    km_status status = KM_OK;
    km_subsets_launch *launches = NULL;
    int count = 0, most = (int)kernels->base.device->facts.shared_bytes_per_block;
    KM_TRY(read_symbol(&count, sizeof count, driver, kernels, "km_subsets_launches_count", err));
    launches = calloc((size_t)count + 1, sizeof *launches);
    kernels->pairs = calloc((size_t)count + 1, sizeof *kernels->pairs);
    kernels->pairs_count = count;
    if (!launches || !kernels->pairs) {
        status = km_fail_memory(err, "the table of launches", count * (int64_t)sizeof *launches);
        goto done;
    }
    KM_TRY_GOTO(read_symbol(launches, count * (int64_t)sizeof *launches, driver, kernels,
                            "km_subsets_launches", err));
    for (int i = 0; i < count; i++) {
        km_cuda_subset_pair *pair = &kernels->pairs[i];
        pair->launch = launches[i];
        KM_TRY_GOTO(find_function(&pair->pass, driver, kernels, launches[i].pass, err));
        KM_TRY_GOTO(find_function(&pair->finish, driver, kernels, launches[i].finish, err));
        KM_TRY_GOTO(allow_shared(driver, pair->pass, launches[i].pass_bytes, err));
        KM_TRY_GOTO(allow_shared(driver, pair->finish, most, err));
    }
done:
    free(launches);
    return status;
}

static int is_of_subsets(const km_cuda_kernels *kernels, const km_driver *driver) {
    km_cu_ptr address;
    size_t size;
    return driver->cuModuleGetGlobal(&address, &size, kernels->modules[0], "km_subsets_launches_count") == 0;
}

// The symbols km_constants: each part that reads it has its own.
static km_status find_constants(km_cuda_kernels *kernels, const km_driver *driver, km_error *err) {
    int64_t count = 0;
    for (int64_t i = 0; i < kernels->modules_count; i++) {
        km_cu_ptr address;
        size_t size;
        km_cu_result result = driver->cuModuleGetGlobal(&address, &size, kernels->modules[i], "km_constants");
        if (result == KM_CU_NOT_FOUND) continue;
        if (result != 0) return km_cuda_fail(err, driver, result, "cuModuleGetGlobal");
        if (count == KM_CONSTANTS_MAX)
            return km_fail(err, KM_ERROR_COMPILE, "the source has km_constants in more than %d parts",
                           KM_CONSTANTS_MAX);
        kernels->constants[count++] = address;
    }
    if (count == 0) return km_fail(err, KM_ERROR_COMPILE, "the source has no table km_constants");
    return KM_OK;
}

// The kernel of a step. `may_miss`: its part may not be there yet.
static km_status find_step(km_cu_function *function, const km_driver *driver, const km_cuda_kernels *kernels,
                           const char *name, int may_miss, km_error *err) {
    km_error missing = {{0}};
    if (*function) return KM_OK;
    km_status status = find_function(function, driver, kernels, name, &missing);
    if (status == KM_OK || (status == KM_ERROR_COMPILE && may_miss)) return KM_OK;
    return km_fail(err, status, "%s", missing.text);
}

static km_status find_steps(km_cuda_kernels *kernels, const km_driver *driver, int may_miss, km_error *err) {
    const km_plan *plan = kernels->base.plan;
    int is_csr = km_plan_is_csr(plan);
#define KM_STEP_LOOK_UP(name) KM_TRY(find_step(&kernels->name, driver, kernels, "km_" #name, may_miss, err));
    KM_STEP_KERNELS(KM_STEP_LOOK_UP)
    if (is_csr) {
        KM_SPARSE_KERNELS(KM_STEP_LOOK_UP)
    } else {
        KM_DENSE_KERNELS(KM_STEP_LOOK_UP)
    }
    if (!is_csr && KM_FINISH_HAS_TILES(plan->spec.features)) {
        KM_STEP_LOOK_UP(finish_tiles)
        KM_STEP_LOOK_UP(silhouette_tiles)
        KM_TRY(find_step(&kernels->seed_make_halves, driver, kernels, "km_seed_make_halves", 1, err));
        KM_TRY(find_step(&kernels->seed_pass_halves, driver, kernels, "km_seed_pass_halves", 1, err));
    } else {
        if (!is_csr) {
            KM_STEP_LOOK_UP(finish_few_clusters)
            KM_STEP_LOOK_UP(silhouette_labelled)
            KM_STEP_LOOK_UP(silhouette_searched)
        }
        KM_STEP_LOOK_UP(silhouette)
    }
    if (km_algorithm_has_bounds(plan->algorithm)) {
        KM_BOUNDS_KERNELS(KM_STEP_LOOK_UP)
    }
    if (plan->algorithm != KM_ALGORITHM_TILES) return KM_OK;
    KM_TILES_KERNELS(KM_STEP_LOOK_UP)
#undef KM_STEP_LOOK_UP
    return allow_shared_of_tiles(kernels, driver, err);
}

static km_status find_subsets(km_cuda_kernels *kernels, const km_driver *driver, km_error *err) {
#define KM_STEP_LOOK_UP(name) KM_TRY(find_function(&kernels->name, driver, kernels, "km_" #name, err));
    KM_SUBSET_KERNELS(KM_STEP_LOOK_UP)
#undef KM_STEP_LOOK_UP
    return load_pairs(kernels, driver, err);
}

static km_status find_pass(km_cuda_kernels *kernels, const km_driver *driver, km_error *err) {
    KM_TRY(load_launches(kernels, driver, err));
    return kernels->facts.has_constants ? find_constants(kernels, driver, err) : KM_OK;
}

// The kernels of the starting pass, from its own module: others have some of the same names.
static km_status find_starter(km_cuda_kernels *kernels, const km_driver *driver, km_error *err) {
    km_status status = KM_OK;
    const km_spec *spec = &kernels->base.plan->spec;
    const struct {
        km_cu_function *function;
        const char *name;
    } wanted[] = {{&kernels->starter_histogram, "km_tensor_histogram"},
                  {&kernels->starter_lattice, "km_tensor_lattice"},
                  {&kernels->starter_pass, "km_starter_pass"},
                  {&kernels->starter_totals, "km_starter_totals"},
                  {&kernels->starter_update, "km_update"}};
    size_t size;
    km_cu_module *last = &kernels->modules[kernels->modules_count - 1];
    KM_CU(cuModuleGetGlobal(&kernels->starter_list, &size, *last, "km_list"));
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        KM_CU(cuModuleGetFunction(wanted[i].function, *last, wanted[i].name));
    KM_TRY_GOTO(allow_shared(
        driver, kernels->starter_pass,
        KM_STARTER_BYTES(spec->features, spec->clusters_count, kernels->base.plan->clusters_sum), err));
    // No other look-up finds it.
    kernels->starter = *last;
    *last = NULL;
    kernels->modules_count--;
done:
    return status;
}

// A cubin contains its length.
static km_status add_modules(km_cuda_kernels *kernels, const km_driver *driver, const km_binary *binaries,
                             int64_t count, km_error *err) {
    km_status status = KM_OK;
    for (int64_t i = 0; i < count; i++) {
        KM_CU(
            cuModuleLoadDataEx(&kernels->modules[kernels->modules_count], binaries[i].bytes, 0, NULL, NULL));
        kernels->modules_count++;
    }
done:
    return status;
}

static km_status load_all(km_cuda_kernels *kernels, const km_driver *driver, const km_binary *binaries,
                          int64_t count, km_error *err) {
    KM_TRY(add_modules(kernels, driver, binaries, count, err));
    if (is_of_subsets(kernels, driver)) return find_subsets(kernels, driver, err);
    KM_TRY(find_steps(kernels, driver, 0, err));
    return find_pass(kernels, driver, err);
}

// The starting pass is the last of the binaries.
static km_status load_first(km_cuda_kernels *kernels, const km_driver *driver, const km_binary *binaries,
                            int64_t count, km_error *err) {
    KM_TRY(add_modules(kernels, driver, binaries, count, err));
    KM_TRY(find_starter(kernels, driver, err));
    return find_steps(kernels, driver, 1, err);
}

typedef km_status loader(km_cuda_kernels *kernels, const km_driver *driver, const km_binary *binaries,
                         int64_t count, km_error *err);

static km_status load_by(loader *load, km_kernels **out, km_device *base, const km_plan *plan,
                         const km_binary *binaries, int64_t count, km_error *err) {
    km_cuda_device *device = (km_cuda_device *)base;
    *out = NULL;
    if (count == 0)
        return km_fail(err, KM_ERROR_PLAN, "the design %s does not run on a CUDA device",
                       km_design_name(plan->design));
    km_status status = KM_OK;
    km_cuda_kernels *kernels = calloc(1, sizeof *kernels);
    if (!kernels) return km_fail_memory(err, "a module", sizeof *kernels);
    kernels->base.device = base;
    kernels->base.plan = plan;
    status = km_cuda_enter(device, err);
    if (status == KM_OK) {
        status = load(kernels, device->driver, binaries, count, err);
        km_cuda_leave(device);
    }
    *out = &kernels->base;
    if (status != KM_OK) km_cuda_kernels_unload(out);
    return status;
}

km_status km_cuda_kernels_load(km_kernels **out, km_device *base, const km_plan *plan,
                               const km_binary *binaries, int64_t count, km_error *err) {
    return load_by(load_all, out, base, plan, binaries, count, err);
}

km_status km_cuda_kernels_begin(km_kernels **out, km_device *base, const km_plan *plan,
                                const km_binary *binaries, int64_t count, km_error *err) {
    return load_by(load_first, out, base, plan, binaries, count, err);
}

// Whether the plan's own pass is among the parts.
static int has_pass(const km_cuda_kernels *kernels, const km_driver *driver) {
    km_cu_ptr address;
    size_t size;
    for (int64_t i = 0; i < kernels->modules_count; i++)
        if (driver->cuModuleGetGlobal(&address, &size, kernels->modules[i], "km_pass") == 0) return 1;
    return 0;
}

km_status km_cuda_kernels_complete(km_kernels *base, const km_binary *binaries, int64_t count,
                                   km_error *err) {
    km_cuda_kernels *kernels = (km_cuda_kernels *)base;
    km_cuda_device *device = (km_cuda_device *)base->device;
    KM_TRY(km_cuda_enter(device, err));
    km_status status = add_modules(kernels, device->driver, binaries, count, err);
    int is_whole = status == KM_OK && has_pass(kernels, device->driver);
    // Without the plan's own pass the update is the starting pass's.
    if (status == KM_OK) status = find_steps(kernels, device->driver, !is_whole, err);
    if (is_whole && status == KM_OK) status = find_pass(kernels, device->driver, err);
    km_cuda_leave(device);
    return status;
}

void km_cuda_kernels_unload(km_kernels **base) {
    km_cuda_kernels *kernels = (km_cuda_kernels *)*base;
    if (!kernels) return;
    const km_cuda_device *device = (const km_cuda_device *)kernels->base.device;
    if ((kernels->modules[0] || kernels->starter) && km_cuda_enter(device, NULL) == KM_OK) {
        for (int64_t i = 0; i < kernels->modules_count; i++)
            device->driver->cuModuleUnload(kernels->modules[i]);
        if (kernels->starter) device->driver->cuModuleUnload(kernels->starter);
        km_cuda_leave(device);
    }
    free(kernels->launches);
    free(kernels->functions);
    free(kernels->pairs);
    free(kernels);
    *base = NULL;
}

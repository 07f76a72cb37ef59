// SPDX-License-Identifier: MIT
// Memory that begins on the device and goes on in the machine's pinned memory, under one address: kernels and copies
// read all of it alike, what lies on the host over the bus.
#include "../../base/error.h"
#include "../../base/log.h"
#include "../../base/size.h"
#include "cuda.h"
#include <stdlib.h>

struct km_cuda_far {
    int64_t reserved, mapped;     // bytes of the address, from its beginning on
    uint64_t near_part, far_part; // the driver's handles; 0: none
};

static km_status map_part(uint64_t *part, struct km_cuda_far *far, const km_driver *driver, km_cu_ptr at,
                          int64_t bytes, km_cu_place place, km_error *err) {
    km_status status = KM_OK;
    const km_cu_memory_kind kind = {.type = KM_CU_MEMORY_PINNED, .place = place};
    if (bytes == 0) return KM_OK;
    KM_CU(cuMemCreate(part, (size_t)bytes, &kind, 0));
    KM_CU(cuMemMap(at, (size_t)bytes, 0, *part, 0));
    far->mapped += bytes;
done:
    return status;
}

static void unmap(const km_driver *driver, km_cu_ptr address, struct km_cuda_far *far) {
    if (far->mapped > 0) driver->cuMemUnmap(address, (size_t)far->mapped);
    if (far->near_part) driver->cuMemRelease(far->near_part);
    if (far->far_part) driver->cuMemRelease(far->far_part);
    if (address) driver->cuMemAddressFree(address, (size_t)far->reserved);
    free(far);
}

// Where the device's part of the machine's memory is.
static km_cu_place host_place(const km_cuda_engine *engine) {
    int node = 0;
    engine->driver->cuDeviceGetAttribute(&node, KM_CU_ATTR_HOST_NODE, engine->device->handle);
    return (km_cu_place){KM_CU_PLACE_HOST_NODE, node < 0 ? 0 : node};
}

static km_status map_all(km_cu_ptr *address, struct km_cuda_far *far, const km_cuda_engine *engine,
                         int64_t near_bytes, km_error *err) {
    km_status status = KM_OK;
    const km_driver *driver = engine->driver;
    const km_cu_place device = {KM_CU_PLACE_DEVICE, engine->device->handle};
    const km_cu_access access = {device, KM_CU_ACCESS_READ_WRITE};
    KM_CU(cuMemAddressReserve(address, (size_t)far->reserved, KM_FAR_PAGE, 0, 0));
    KM_TRY_GOTO(map_part(&far->near_part, far, driver, *address, near_bytes, device, err));
    KM_TRY_GOTO(map_part(&far->far_part, far, driver, *address + (km_cu_ptr)near_bytes,
                         far->reserved - near_bytes, host_place(engine), err));
    KM_CU(cuMemSetAccess(*address, (size_t)far->reserved, &access, 1));
done:
    return status;
}

km_status km_cuda_reserve_far(km_cuda_engine *engine, km_cuda_memory *memory, int64_t bytes,
                              int64_t near_bytes, const char *what, km_error *err) {
    if (!engine->base.plan || !engine->base.plan->streams)
        return km_cuda_reserve(engine, memory, bytes, what, err);
    if (memory->bytes >= bytes) return KM_OK;
    km_cuda_release(engine, memory);
    struct km_cuda_far *far = calloc(1, sizeof *far);
    km_cu_ptr address = 0;
    km_error why = {{0}};
    if (!far) return km_fail_memory(err, what, bytes);
    near_bytes = km_min(near_bytes, bytes) / KM_FAR_PAGE * KM_FAR_PAGE;
    far->reserved = km_round_up(bytes, KM_FAR_PAGE);
    km_status status = map_all(&address, far, engine, near_bytes, &why);
    if (status != KM_OK) {
        unmap(engine->driver, address, far);
        return km_fail(err, status == KM_ERROR_DEVICE ? KM_ERROR_MEMORY : status,
                       "no room for %s, %.2f GiB on the device and %.2f on the host: %s", what,
                       (double)near_bytes / 0x1p30, (double)(bytes - near_bytes) / 0x1p30, why.text);
    }
    *memory = (km_cuda_memory){.address = address, .bytes = bytes, .near_bytes = near_bytes, .far = far};
    engine->bytes_held += near_bytes;
    engine->bytes_most = km_max(engine->bytes_most, engine->bytes_held);
    km_log_line(engine->log, KM_LOG_INFO, "memory: %s: %.1f MiB on the device, %.1f on the host", what,
                (double)near_bytes / 0x1p20, (double)(bytes - near_bytes) / 0x1p20);
    return KM_OK;
}

// What km_cuda_release does with such memory, when nothing reads it any more.
void km_cuda_release_far(km_cuda_engine *engine, const km_cuda_memory *memory) {
    unmap(engine->driver, memory->address, memory->far);
    engine->bytes_held -= memory->near_bytes;
}

// SPDX-License-Identifier: MIT
// Points that lie on a device already, in memory of the caller.
#include "../../base/error.h"
#include "../../base/size.h"
#include "../resident.h"
#include "cuda.h"

#include <stdlib.h>
#include <string.h>

enum { PINNED_FROM = 8, PAGE = 4096 }; // so many pieces are copied through pinned memory, which queues them

typedef struct km_cuda_resident {
    km_resident base;
    const km_driver *driver;
    km_cu_device handle;
    km_cu_context context; // the primary one, which libraries share
    km_cu_stream stream;
} km_cuda_resident;

// Memory of another process, of the host, or of another device is refused before a kernel reads it.
static km_status check_address(const km_driver *driver, int ordinal, const void *address, km_error *err) {
    int owner = -1;
    unsigned kind = 0;
    km_cu_ptr at = (km_cu_ptr)(uintptr_t)address;
    km_cu_result known = driver->cuPointerGetAttribute(&kind, KM_CU_POINTER_KIND, at);
    if (known != 0 || kind != KM_CU_KIND_DEVICE)
        return km_fail(err, KM_ERROR_USAGE, "the points at %p are no memory of a CUDA device%s", address,
                       known == 0 ? ", but of the host: km_data_from_memory takes them" : "");
    if (driver->cuPointerGetAttribute(&owner, KM_CU_POINTER_ORDINAL, at) == 0 && owner == ordinal)
        return KM_OK;
    return km_fail(err, KM_ERROR_USAGE, "the points at %p lie on CUDA device %d, not on %d", address, owner,
                   ordinal);
}

static km_status resident_start(km_cuda_resident *r, int ordinal, const void *address, void *stream,
                                km_error *err) {
    km_status status = KM_OK;
    const km_driver *driver = r->driver;
    int entered = 0, count = 0, owner = 0;
    km_cu_ptr at = (km_cu_ptr)(uintptr_t)address;
    KM_CU(cuDeviceGetCount(&count));
    if (ordinal == KM_DEVICE_AUTO) // unknown memory: check_address refuses it
        ordinal = driver->cuPointerGetAttribute(&owner, KM_CU_POINTER_ORDINAL, at) == 0 ? owner : 0;
    r->base.ordinal = ordinal;
    if (ordinal < 0 || ordinal >= count)
        return km_fail(err, KM_ERROR_DEVICE, "there is no CUDA device %d; this machine has %d", ordinal,
                       count);
    KM_CU(cuDeviceGet(&r->handle, ordinal));
    KM_CU(cuDevicePrimaryCtxRetain(&r->context, r->handle));
    KM_CU(cuCtxPushCurrent(r->context));
    entered = 1;
    KM_TRY_GOTO(check_address(driver, ordinal, address, err));
    KM_CU(cuStreamSynchronize((km_cu_stream)stream));
    KM_CU(cuStreamCreate(&r->stream, KM_CU_STREAM_NON_BLOCKING));
done:
    if (entered) driver->cuCtxPopCurrent(&(km_cu_context){NULL});
    return status;
}

km_status km_cuda_resident_open(km_resident **out, int ordinal, const void *address, void *stream,
                                km_error *err) {
    const char *why = NULL;
    const km_driver *driver = km_driver_get(&why);
    *out = NULL;
    if (!driver) return km_fail(err, KM_ERROR_DEVICE, "no CUDA device: %s; give points of the host", why);
    km_cuda_resident *r = calloc(1, sizeof *r);
    if (!r) return km_fail_memory(err, "points of the device", (int64_t)sizeof *r);
    r->driver = driver;
    *out = &r->base;
    km_status status = resident_start(r, ordinal, address, stream, err);
    if (status != KM_OK) km_cuda_resident_close(out);
    return status;
}

void km_cuda_resident_close(km_resident **resident) {
    km_cuda_resident *r = (km_cuda_resident *)*resident;
    if (r->stream && r->driver->cuCtxPushCurrent(r->context) == 0) {
        r->driver->cuStreamDestroy(r->stream);
        r->driver->cuCtxPopCurrent(&(km_cu_context){NULL});
    }
    if (r->context) r->driver->cuDevicePrimaryCtxRelease(r->handle);
    free(r);
    *resident = NULL;
}

// Queues the copies of all pieces, one after another in `to`, and waits for them.
static km_status copy_pieces(const km_cuda_resident *r, char *to, const int64_t *rows, int64_t count,
                             int64_t row_bytes, int64_t piece_bytes, km_error *err) {
    km_status status = KM_OK;
    const km_driver *driver = r->driver;
    for (int64_t i = 0; i < count; i++)
        KM_CU(cuMemcpyDtoHAsync(to + i * piece_bytes,
                                (km_cu_ptr)(uintptr_t)r->base.address + (km_cu_ptr)(rows[i] * row_bytes),
                                (size_t)piece_bytes, r->stream));
    KM_CU(cuStreamSynchronize(r->stream));
done:
    if (status != KM_OK) driver->cuStreamSynchronize(r->stream);
    return status;
}

static km_status copy_pinned(const km_cuda_resident *r, void *out, const int64_t *rows, int64_t count,
                             int64_t row_bytes, int64_t piece_bytes, km_error *err) {
    km_status status = KM_OK;
    const km_driver *driver = r->driver;
    size_t bytes = (size_t)(km_divide_up(count * piece_bytes, PAGE) * PAGE);
    char *pinned = aligned_alloc(PAGE, bytes);
    int is_pinned = 0;
    if (!pinned) return km_fail_memory(err, "points of the device", (int64_t)bytes);
    KM_CU(cuMemHostRegister(pinned, bytes, 0));
    is_pinned = 1;
    KM_TRY_GOTO(copy_pieces(r, pinned, rows, count, row_bytes, piece_bytes, err));
    memcpy(out, pinned, (size_t)(count * piece_bytes));
done:
    if (is_pinned) driver->cuMemHostUnregister(pinned);
    free(pinned);
    return status;
}

km_status km_cuda_resident_read(void *out, const km_resident *resident, const int64_t *rows, int64_t count,
                                int64_t row_bytes, int64_t piece_bytes, km_error *err) {
    const km_cuda_resident *r = (const km_cuda_resident *)resident;
    const km_driver *driver = r->driver;
    km_status status = KM_OK;
    KM_CU(cuCtxPushCurrent(r->context));
    status = count < PINNED_FROM ? copy_pieces(r, out, rows, count, row_bytes, piece_bytes, err)
                                 : copy_pinned(r, out, rows, count, row_bytes, piece_bytes, err);
    driver->cuCtxPopCurrent(&(km_cu_context){NULL});
done:
    return status;
}

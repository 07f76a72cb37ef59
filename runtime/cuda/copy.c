// SPDX-License-Identifier: MIT
// Device memory, and copies between host and device. Memory of the user is pageable, which the device cannot read by
// itself. So large copies go through pinned buffers: several threads fill one while the device copies another.
#include "../../base/error.h"
#include "../../base/size.h"
#include "../../base/wording.h"
#include "cuda.h"
#include "../pages.h"
#include "../threads.h"
#include <stdlib.h>
#include <string.h>

enum {
    SLICE_BYTES = 256 << 10,   // what one thread copies at a time
    COPY_THREADS_MAX = 16,     // more are no faster
    PIECES_ENOUGH = 16,        // a copy has at least so many pieces: smaller buffers take less time to pin
    ROW_BYTES_MAX = 512 << 10, // a row fits a buffer: 65,536 features of 8 bytes
    SMALL_PAGE = 4 << 10,
    HUGE_PAGE = 2 << 20,
};
_Static_assert(ROW_BYTES_MAX == KM_FEATURES_DENSE_MAX * 8 && KM_STAGING_BYTES % ROW_BYTES_MAX == 0,
               "rows are not cut");

// The plan was for memory that was free, so another process must have taken it since.
static km_status refuse(const km_cuda_engine *engine, int64_t bytes, const char *what, km_error *err) {
    size_t left = 0, all = 0;
    engine->driver->cuMemGetInfo(&left, &all);
    return km_fail(
        err, KM_ERROR_MEMORY,
        "no room on the device for %s: %.2f GiB are needed, %.2f of %.2f GiB are free, this fit has "
        "%.2f: end what holds the rest, or take the CPU (%s)",
        what, (double)bytes / 0x1p30, (double)left / 0x1p30, (double)all / 0x1p30,
        (double)engine->bytes_held / 0x1p30, km_say(KM_SAY_CPU));
}

// Returns 0 when there is none.
static int take(km_cuda_engine *engine, km_cuda_memory *memory, int64_t bytes) {
    *memory = (km_cuda_memory){0};
    if (engine->driver->cuMemAlloc(&memory->address, (size_t)bytes) != 0) {
        memory->address = 0;
        return 0;
    }
    memory->bytes = bytes;
    engine->bytes_held += bytes;
    if (engine->bytes_held > engine->bytes_most) engine->bytes_most = engine->bytes_held;
    return 1;
}

km_status km_cuda_reserve(km_cuda_engine *engine, km_cuda_memory *memory, int64_t bytes, const char *what,
                          km_error *err) {
    if (memory->bytes >= bytes) return KM_OK;
    km_cuda_release(engine, memory);
    return take(engine, memory, bytes) ? KM_OK : refuse(engine, bytes, what, err);
}

km_status km_cuda_reserve_tables(km_cuda_engine *engine, km_cu_ptr *at, const int64_t *sizes, int count,
                                 const char *what, km_error *err) {
    int64_t bytes = 0;
    for (int i = 0; i < count; i++) {
        at[i] = (km_cu_ptr)bytes;
        bytes += km_round_up(sizes[i], KM_ALIGN_BYTES);
    }
    KM_TRY(km_cuda_reserve(engine, &engine->work, bytes, what, err));
    for (int i = 0; i < count; i++) at[i] += engine->work.address;
    return KM_OK;
}

void km_cuda_release(km_cuda_engine *engine, km_cuda_memory *memory) {
    if (memory->address) {
        engine->driver->cuStreamSynchronize(engine->stream);
        if (memory->far) {
            km_cuda_release_far(engine, memory);
        } else {
            engine->driver->cuMemFree(memory->address);
            engine->bytes_held -= memory->bytes;
        }
    }
    *memory = (km_cuda_memory){0};
}

int64_t km_cuda_scratch_bytes(const km_cuda_engine *engine) {
    int64_t scratch = engine->scratch.bytes, workspace = engine->workspace.bytes;
    if (engine->base.plan->streams) return scratch;
    return scratch > workspace ? scratch : workspace;
}

km_cu_ptr km_cuda_borrow(km_cuda_engine *engine, int64_t bytes) {
    // Of streamed points what a pass is prepared with takes reads from the host.
    if (engine->workspace.bytes < bytes || engine->base.plan->streams) return 0;
    engine->prepared = 0;
    return engine->workspace.address;
}

km_status km_cuda_scratch(km_cu_ptr *out, km_cuda_engine *engine, int64_t bytes, const char *what,
                          km_error *err) {
    km_cuda_memory more;
    int may_grow = !engine->base.plan->streams; // the rest of the memory is the points'
    if (engine->scratch.bytes < bytes && may_grow && take(engine, &more, bytes)) {
        km_cuda_release(engine, &engine->scratch);
        engine->scratch = more;
    }
    *out = engine->scratch.bytes >= bytes ? engine->scratch.address : km_cuda_borrow(engine, bytes);
    return *out ? KM_OK : refuse(engine, bytes, what, err);
}

km_status km_cuda_point_scratch(km_cu_ptr *out, km_cuda_engine *engine, int64_t bytes, const char *what,
                                km_error *err) {
    if (!engine->base.plan->streams) return km_cuda_scratch(out, engine, bytes, what, err);
    KM_TRY(km_cuda_reserve_far(engine, &engine->far_scratch, bytes, 0, what, err));
    *out = engine->far_scratch.address;
    return KM_OK;
}

km_status km_cuda_wait(km_cuda_engine *engine, km_error *err) {
    km_status status = KM_OK;
    const km_driver *driver = engine->driver;
    KM_CU(cuStreamSynchronize(engine->stream));
done:
    return status;
}

km_status km_cuda_launch(km_cuda_engine *engine, km_cu_function function, int64_t grid_x, int64_t grid_y,
                         void **arguments, km_error *err) {
    km_status status = KM_OK;
    const km_driver *driver = engine->driver;
    KM_CU(cuLaunchKernel(function, (unsigned)grid_x, (unsigned)grid_y, 1, KM_THREADS, 1, 1, 0, engine->stream,
                         arguments, NULL));
done:
    return status;
}

// The driver copies pageable memory before it returns. Pinned memory (the mirror) may be read later, but before
// anything that is queued behind it runs.
km_status km_cuda_put(km_cuda_engine *engine, km_cu_ptr to, const void *from, int64_t bytes, km_error *err) {
    km_status status = KM_OK;
    const km_driver *driver = engine->driver;
    KM_CU(cuMemcpyHtoDAsync(to, from, (size_t)bytes, engine->stream));
done:
    return status;
}

km_status km_cuda_get(const km_cuda_engine *engine, void *to, km_cu_ptr from, int64_t bytes, km_error *err) {
    km_status status = KM_OK;
    const km_driver *driver = engine->driver;
    KM_CU(cuMemcpyDtoHAsync(to, from, (size_t)bytes, engine->stream));
    KM_CU(cuStreamSynchronize(engine->stream));
done:
    return status;
}

km_status km_cuda_clear(km_cuda_engine *engine, km_cu_ptr to, int value, int64_t bytes, km_error *err) {
    km_status status = KM_OK;
    const km_driver *driver = engine->driver;
    if (bytes > 0) KM_CU(cuMemsetD8Async(to, (unsigned char)value, (size_t)bytes, engine->stream));
done:
    return status;
}

static int copiers_of(const km_cuda_engine *engine) {
    return (int)(engine->threads < COPY_THREADS_MAX ? engine->threads : COPY_THREADS_MAX);
}

// Large memory that is allocated first and pinned then is on huge pages. The driver's own allocations have small pages,
// which take fifteen times as long to pin, and five milliseconds to free.
km_status km_cuda_pinned_alloc(void **out, const km_cuda_engine *engine, int64_t bytes, km_error *err) {
    int64_t page = bytes < HUGE_PAGE ? SMALL_PAGE : HUGE_PAGE, pages = km_divide_up(bytes, page);
    // Whole pages: none may be pinned twice.
    int threads = copiers_of(engine);
    char *memory =
        page == HUGE_PAGE ? km_pages_alloc(pages * page) : aligned_alloc(SMALL_PAGE, (size_t)(pages * page));
    *out = NULL;
    if (!memory) return km_fail_memory(err, "buffers for copies", pages * page);
        // New pages are cleared by the system when they are first touched: by several threads.
#pragma omp parallel for schedule(static) num_threads(threads) if (page == HUGE_PAGE)
    for (int64_t i = 0; i < pages * page / SMALL_PAGE; i++) ((volatile char *)memory)[i * SMALL_PAGE] = 0;
    km_cu_result result =
        engine->driver->cuMemHostRegister(memory, (size_t)(pages * page), KM_CU_REGISTER_DEVICE_MAP);
    if (result != 0) {
        km_pages_free(memory);
        return km_cuda_fail(err, engine->driver, result, "cuMemHostRegister");
    }
    *out = memory;
    return KM_OK;
}

void km_cuda_pinned_free(const km_cuda_engine *engine, void *memory) {
    if (!memory) return;
    engine->driver->cuMemHostUnregister(memory);
    km_pages_free(memory);
}

// Pinned buffers, made at the first large copy and kept; small jobs get small ones, as pinning takes time.
km_status km_cuda_pin(km_cuda_engine *engine, int64_t bytes, km_error *err) {
    km_status status = KM_OK;
    const km_driver *driver = engine->driver;
    bytes = bytes / PIECES_ENOUGH / ROW_BYTES_MAX * ROW_BYTES_MAX;
    bytes = bytes < ROW_BYTES_MAX ? ROW_BYTES_MAX : bytes > KM_STAGING_BYTES ? KM_STAGING_BYTES : bytes;
    if (engine->staging_bytes >= bytes) return KM_OK;
    KM_CU(cuStreamSynchronize(engine->stream)); // copies from the buffers may still run
    km_cuda_pinned_free(engine, engine->staging[0]);
    memset(engine->staging, 0, sizeof engine->staging);
    engine->staging_bytes = 0;
    KM_TRY(km_cuda_pinned_alloc(&engine->staging[0], engine, KM_STAGING_COUNT * bytes, err));
    for (int i = 0; i < KM_STAGING_COUNT; i++) {
        engine->staging[i] = (char *)engine->staging[0] + i * bytes;
        if (!engine->staged[i]) KM_CU(cuEventCreate(&engine->staged[i], KM_CU_EVENT_NO_TIMING));
    }
    engine->staging_bytes = bytes;
done:
    return status;
}

// Fills one buffer by all threads. Pieces, which are whole rows, are never cut.
static km_status fill_buffer(const km_cuda_engine *engine, char *buffer, const void *from, int64_t first,
                             int64_t bytes, int64_t piece, km_cuda_fill fill, km_error *err) {
    int64_t slice = SLICE_BYTES / piece > 0 ? SLICE_BYTES / piece * piece : piece;
    int64_t count = km_divide_up(bytes, slice);
    int threads = copiers_of(engine);
    if (threads > count) threads = (int)count;
    km_status status = KM_OK;
    km_error first_err = {""};
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t s = 0; s < count; s++) {
        int64_t at = s * slice, here = bytes - at < slice ? bytes - at : slice;
        if (!fill) {
            memcpy(buffer + at, (const char *)from + first + at, (size_t)here);
            continue;
        }
        km_error slice_err = {""};
        km_status slice_status = fill(buffer + at, from, first + at, here, &slice_err);
        if (slice_status == KM_OK) continue;
#pragma omp critical(km_cuda_fill)
        if (status == KM_OK) {
            status = slice_status;
            first_err = slice_err;
        }
    }
    return status == KM_OK ? KM_OK : km_fail(err, status, "%s", first_err.text);
}

km_status km_cuda_upload(km_cuda_engine *engine, km_cu_ptr to, const void *from, int64_t bytes,
                         int64_t piece_bytes, km_cuda_fill fill, km_error *err) {
    km_status status = KM_OK;
    const km_driver *driver = engine->driver;
    int64_t piece = piece_bytes > 0 ? piece_bytes : 1;
    if (!fill && bytes <= KM_PLAIN_BYTES) {
        KM_CU(cuMemcpyHtoDAsync(to, from, (size_t)bytes, engine->stream));
        goto done;
    }
    KM_TRY(km_cuda_pin(engine, bytes > piece ? bytes : piece, err));
    int64_t each = engine->staging_bytes / piece * piece;
    if (each == 0)
        return km_fail(err, KM_ERROR_INTERNAL, "a row of %lld bytes is larger than a buffer",
                       (long long)piece);
    for (int64_t at = 0, turn = 0; at < bytes; at += each, turn++) {
        int64_t here = bytes - at < each ? bytes - at : each;
        int b = (int)(turn % KM_STAGING_COUNT);
        KM_CU(cuEventSynchronize(engine->staged[b])); // also of the upload before
        KM_TRY_GOTO(fill_buffer(engine, engine->staging[b], from, at, here, piece, fill, err));
        KM_CU(cuMemcpyHtoDAsync(to + (km_cu_ptr)at, engine->staging[b], (size_t)here, engine->stream));
        KM_CU(cuEventRecord(engine->staged[b], engine->stream));
    }
done:
    if (status != KM_OK) driver->cuStreamSynchronize(engine->stream); // nothing may read the buffers any more
    return status;
}

static void copy_out(const km_cuda_engine *engine, char *to, const char *buffer, int64_t bytes) {
    int64_t count = km_divide_up(bytes, SLICE_BYTES);
    int threads = copiers_of(engine);
    if (threads > count) threads = (int)count;
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t s = 0; s < count; s++) {
        int64_t at = s * SLICE_BYTES;
        memcpy(to + at, buffer + at, (size_t)(bytes - at < SLICE_BYTES ? bytes - at : SLICE_BYTES));
    }
}

km_status km_cuda_download(km_cuda_engine *engine, void *to, km_cu_ptr from, int64_t bytes, km_error *err) {
    km_status status = KM_OK;
    const km_driver *driver = engine->driver;
    if (bytes <= SLICE_BYTES) return km_cuda_get(engine, to, from, bytes, err);
    KM_TRY(km_cuda_pin(engine, bytes, err));
    int64_t each = engine->staging_bytes, transfers = km_divide_up(bytes, each);
    // A buffer is copied from the device while the one before it is emptied.
    for (int64_t turn = 0; turn <= transfers; turn++) {
        if (turn < transfers) {
            int64_t at = turn * each, here = bytes - at < each ? bytes - at : each;
            int b = (int)(turn % KM_STAGING_COUNT);
            KM_CU(cuMemcpyDtoHAsync(engine->staging[b], from + (km_cu_ptr)at, (size_t)here, engine->stream));
            KM_CU(cuEventRecord(engine->staged[b], engine->stream));
        }
        if (turn >= 1) {
            int64_t at = (turn - 1) * each, here = bytes - at < each ? bytes - at : each;
            int b = (int)((turn - 1) % KM_STAGING_COUNT);
            KM_CU(cuEventSynchronize(engine->staged[b]));
            copy_out(engine, (char *)to + at, engine->staging[b], here);
        }
    }
done:
    if (status != KM_OK) driver->cuStreamSynchronize(engine->stream);
    return status;
}

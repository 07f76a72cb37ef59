// SPDX-License-Identifier: MIT
//@ include host/common.c
#include <new>

//@ verbatim relocation.h

enum { HOST_SLOTS = RESTARTS * KS, HOST_PARTS = (int)KM_UPDATE_PARTS(K_MAX, D) };

// Device memory that is freed with its owner.
struct host_memory {
    void *at = nullptr;
    size_t bytes = 0;
    ~host_memory() {
        cudaFree(at);
    }
    template <typename T> T *as() const {
        return (T *)at;
    }
};

// What the host and km_update share: the loop's control, and where each slot is. A slot is an entry of the list of K;
// of those beside the first restart none is used here.
struct host_state {
    alignas(KM_ALIGN_BYTES) km_loop loop;
    alignas(KM_ALIGN_BYTES) km_slot_record slots[HOST_SLOTS];
    alignas(KM_ALIGN_BYTES) unsigned char active[HOST_SLOTS];
    alignas(KM_ALIGN_BYTES) unsigned char given_up[RESTARTS * S];
};

// A kernel of the pass by the name that km_pass_launches gives it.
struct host_kernel {
    const char *name;
    const void *function;
};
static const host_kernel host_kernels[] = {
    //@ for kernel in pass_kernels
    {"$kernel", (const void *)$kernel},
    //@ end
};
enum {
    HOST_KERNELS = sizeof host_kernels / sizeof host_kernels[0],
    HOST_LAUNCHES = sizeof km_pass_launches / sizeof km_pass_launches[0]
};

struct $name_fit {
    long long n, subchunks, chunks;
    host_data data;
    host_memory points, weights, pass_weights, subchunk_weights, box;
    host_memory centroids, before, totals, slot_weights, part_sums, workspace, device_state, labels, changes;
    host_state state;
    km_pass_facts facts;
    km_pass_launch launches[HOST_LAUNCHES];
    const void *functions[HOST_LAUNCHES];
    void *constants = nullptr;
    int shared_max = 0; // bytes of shared memory that a block may have
    volatile unsigned long long *report =
        nullptr; // in the host's memory, where km_update writes how far it is ...
    unsigned long long *device_report = nullptr; // ... by this address
    ~$name_fit() {
        cudaFreeHost((void *)report);
    }
    bool started = false;
};

static int host_cuda(cudaError_t error, const char *what) {
    if (error == cudaSuccess) return $upper_OK;
    cudaGetLastError(); // the error is reported here, and not again
    if (error == cudaErrorMemoryAllocation)
        return host_fail($upper_MEMORY, "the device has not enough memory (%s): give fewer points", what);
    return host_fail($upper_DEVICE, "%s: %s: %s", what, cudaGetErrorName(error), cudaGetErrorString(error));
}

#define HOST_TRY(call)                                                                                       \
    do {                                                                                                     \
        const int failed = call;                                                                             \
        if (failed) return failed;                                                                           \
    } while (0)
#define HOST_CUDA(call) HOST_TRY(host_cuda(call, #call))
#define HOST_LAUNCHED(kernel) HOST_TRY(host_cuda(cudaGetLastError(), #kernel))

static int host_reserve(host_memory *room, long long bytes) {
    room->bytes = (size_t)(bytes > 0 ? bytes : 1);
    HOST_CUDA(cudaMalloc(&room->at, room->bytes));
    return $upper_OK;
}

static int host_reserve_zero(host_memory *room, long long bytes) {
    HOST_TRY(host_reserve(room, bytes));
    HOST_CUDA(cudaMemset(room->at, 0, room->bytes));
    return $upper_OK;
}

static unsigned host_parts(long long count, long long size) {
    return (unsigned)((count + size - 1) / size);
}

//@ include cuda/host/pass.cu

//@ include cuda/host/load.cu

//@ include cuda/host/seed.cu

//@ include cuda/host/relocate.cu

int $name_run($name_fit *fit, long long passes_max, double tolerance, long long *passes) {
    long long done = 0, own_done;
    HOST_TRY(host_check(fit, fit, K_MAX));
    if (!passes) passes = &own_done;
    *passes = 0;
    if (!fit->started) return host_fail($upper_ARGUMENT, "there are no first centroids yet: start or seed");
    if (!(tolerance >= 0))
        return host_fail($upper_ARGUMENT, "tolerance is %g; it must be 0 or more", tolerance);
    double shift_max = host_shift_max(&fit->data, tolerance);
    //@ if rests
    // Sums are relative to a pivot that may change from pass to pass: a shift within rounding counts as none.
    shift_max = fmax(shift_max, host_rounding2(fit->n) * fit->data.total_square / fit->data.total_weight);
    //@ end
    while (done < passes_max) {
        int active = 0;
        for (int q = 0; q < KS; q++) {
            if (fit->state.slots[q].state.phase == KM_SLOT_EMPTY) HOST_TRY(host_relocate(fit, q));
            active += fit->state.active[q];
        }
        if (!active) break;
        km_loop *loop = &fit->state.loop;
        *loop = km_loop();
        loop->head.passes_max = (int)(passes_max - done < 1 << 30 ? passes_max - done : 1 << 30);
        loop->stopped_min = active;
        loop->shift_max = shift_max;
        loop->max_iter = 1ll << 62;
        loop->total_square = fit->data.total_square;
        HOST_TRY(host_passes(fit, loop->head.passes_max, &done));
        *passes = done;
    }
    return $upper_OK;
}

//@ include cuda/host/finish.cu

#ifdef $upper_MAIN
#include <time.h>

static double host_now_ms(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void host_device_name(char *text, size_t size) {
    int device = 0;
    cudaDeviceProp properties;
    snprintf(text, size, "unknown");
    if (cudaGetDevice(&device) == cudaSuccess && cudaGetDeviceProperties(&properties, device) == cudaSuccess)
        snprintf(text, size, "%s", properties.name);
}

static __global__ void $name_host_read(const uint4 *pieces, long long count, unsigned *out) {
    unsigned sum = 0;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count;
         i += (long long)gridDim.x * blockDim.x) {
        const uint4 piece = pieces[i];
        sum += piece.x ^ piece.y ^ piece.z ^ piece.w;
    }
    if (sum == 12345) *out = sum; // or nothing would be read
}

// Milliseconds of a plain read of the points.
static double host_read_ms($name_fit *fit) {
    const long long pieces = fit->n * D * (long long)sizeof(km_real) / 16;
    cudaEvent_t begin, end;
    float ms, least = 1e30f;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    for (int turn = 0; turn < 6; turn++) {
        cudaEventRecord(begin);
        for (int i = 0; i < 10; i++)
            $name_host_read<<<2112, 512>>>(fit->points.as<uint4>(), pieces, fit->totals.as<unsigned>());
        cudaEventRecord(end);
        cudaEventSynchronize(end);
        cudaEventElapsedTime(&ms, begin, end);
        least = ms / 10 < least ? ms / 10 : least;
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    return least;
}
//@ include host/main.c
#endif

// SPDX-License-Identifier: MIT
// Checks and times the pass of emitted CUDA sources on this machine's GPU; bench/gpu.py makes them and the list.
//
//     cuda_pass [--json] LIST      a line of LIST: NAME CUBIN FEATURES LOW..HIGH TYPE [POINTS [RUNS [WEIGHTED]]]
//     cuda_pass --launches LIST        what each launch of a pass takes
//     cuda_pass --silhouette LIST      the pass of the silhouette beside a plain one
//     cuda_pass --copy BYTES       what making a context, pinning memory and a copy from pinned memory take
//     cuda_pass --data FILE N D uniform|blobs      writes float32 points as .npy: in [-1, 1], or twelve clusters
//
// A pass is assignment, sums, reduction and the new centroids of every K from LOW to HIGH: the launches of the
// emitted source and its km_update, as the engine queues them. Nothing is timed that was not checked here: sums
// against a reference in double, centroids against the sums, and RUNS runs (default 20) that give the same bits.
#include <algorithm>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <cuda.h>
#include <cuda_runtime.h>

#include "../templates/both.h"
#include "../templates/cuda/abi.h"
#include "../templates/cuda/steps.h"

enum { PASSES = 21, RUNS_SAME = 20, POINTS = 33554432, SHARED_MAX = 200 << 10 };
static const double WRONG_BY_MAX = 2e-6; // sums may differ from the reference by so much a point

static void check(int code, const char *what, int line) {
    if (code == 0) return;
    fprintf(stderr, "cuda_pass.cu:%d: %s gave %d\n", line, what, code);
    exit(1);
}
#define CHECK(call) check((int)(call), #call, __LINE__)

// Data and reference ----------------------------------------------------------------------------------------

static __device__ double uniform(unsigned long long z) { // -1 to 1, splitmix64
    z += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    return (double)(z >> 11) / 4503599627370496.0 - 1;
}

template <typename Real> static __global__ void make_points(Real *x, long long count) {
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < count; i += gridDim.x * 256ll) x[i] = (Real)uniform(i);
}

// Of a point, where points have weights: numbers whose products with floats and doubles need some digits more.
static __host__ __device__ double weight_of(long long i) {
    return 0.5 + (double)(i % 7) / 8;
}

template <typename Real> static __global__ void make_weights(Real *weights, long long n) {
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < n; i += gridDim.x * 256ll) weights[i] = (Real)weight_of(i);
}

template <typename Real> static __device__ int nearest(const Real *x, int d, const Real *c, int k) {
    double best = HUGE_VAL;
    int label = 0;
    for (int j = 0; j < k; j++) {
        double square = 0;
        for (int f = 0; f < d; f++) {
            const double t = (double)x[f] - (double)c[j * d + f];
            square = fma(t, t, square);
        }
        label = square < best ? j : label;
        best = fmin(square, best);
    }
    return label;
}

// Of one feature, where many floats lie nearly as far from two centroids: how much weight a label within the contract
// (docs/numerics.md) may take from a cluster or bring to it.
template <typename Real>
static __global__ void find_open(double *open, const Real *x, long long n, const Real *c, int k, int weighted) {
    const double eps = sizeof(Real) == 4 ? 0x1p-20 : 0x1p-48;
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < n; i += gridDim.x * 256ll) {
        const int label = nearest(x + i, 1, c, k);
        const double value = x[i], best = (value - c[label]) * (value - c[label]);
        for (int j = 0; j < k; j++) {
            const double square = (value - c[j]) * (value - c[j]), other = c[j];
            if (j == label || square - best > eps * (value * value + other * other)) continue;
            atomicAdd(&open[j], weighted ? weight_of(i) : 1);
            atomicAdd(&open[label], weighted ? weight_of(i) : 1);
        }
    }
}

// Sums and weights of one K in the difference form, in double. Each lane labels a point; then the warp adds them
// up one by one, a lane for each feature. `tiled`: in shared memory first, where the sums fit there.
template <typename Real>
static __global__ void reference(double *totals, const Real *x, long long n, int d, const Real *c, int k, int shared,
                                 int weighted) {
    extern __shared__ double block_sums[];
    double *sums = shared ? block_sums : totals;
    const int lane = threadIdx.x % 32;
    for (int i = threadIdx.x; shared && i < k * (d + 1); i += blockDim.x) sums[i] = 0;
    __syncthreads();
    for (long long first = blockIdx.x * 256ll + threadIdx.x - lane; first < n; first += gridDim.x * 256ll) {
        const int label = first + lane < n ? nearest(x + (first + lane) * d, d, c, k) : 0;
        for (int p = 0; p < 32 && first + p < n; p++) {
            const int row = __shfl_sync(0xffffffff, label, p) * (d + 1);
            const double weight = weighted ? weight_of(first + p) : 1;
            for (int f = lane; f <= d; f += 32)
                atomicAdd(&sums[row + f], weight * (f < d ? (double)x[(first + p) * d + f] : 1.0));
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; shared && i < k * (d + 1); i += blockDim.x) atomicAdd(&totals[i], sums[i]);
}

static __global__ void plain_read(float *out, const float4 *x, long long count) {
    float sum = 0;
    const long long stride = gridDim.x * 256ll;
    long long i = blockIdx.x * 256ll + threadIdx.x;
    for (; i + 7 * stride < count; i += 8 * stride) {
        float4 v[8];
#pragma unroll
        for (int u = 0; u < 8; u++) v[u] = x[i + u * stride];
#pragma unroll
        for (int u = 0; u < 8; u++) sum += v[u].x + v[u].y + v[u].z + v[u].w;
    }
    for (; i < count; i += stride) sum += x[i].x + x[i].y + x[i].z + x[i].w;
    if (sum == 1.25e30f) *out = sum; // never: keeps the reads
}

// Timing ----------------------------------------------------------------------------------------------------

// Median of PASSES calls by events, after three to warm up.
template <typename Call> static double median_ms(Call call) {
    cudaEvent_t events[PASSES + 1];
    for (cudaEvent_t &event : events) CHECK(cudaEventCreate(&event));
    for (int i = 0; i < 3; i++) call();
    CHECK(cudaEventRecord(events[0]));
    for (int i = 0; i < PASSES; i++) {
        call();
        CHECK(cudaEventRecord(events[i + 1]));
    }
    CHECK(cudaDeviceSynchronize());
    std::vector<float> times(PASSES);
    for (int i = 0; i < PASSES; i++) CHECK(cudaEventElapsedTime(&times[i], events[i], events[i + 1]));
    for (cudaEvent_t &event : events) CHECK(cudaEventDestroy(event));
    std::sort(times.begin(), times.end());
    return times[PASSES / 2];
}

static double read_ms(const void *x, long long bytes) {
    float *out;
    double best = HUGE_VAL;
    CHECK(cudaMalloc(&out, sizeof *out));
    for (int blocks : {528, 1056, 2112})
        best = std::min(best, median_ms([&] { plain_read<<<blocks, 256>>>(out, (const float4 *)x, bytes / 16); }));
    CHECK(cudaFree(out));
    return best;
}

// Points and what depends on them alone -------------------------------------------------------------------

template <typename T> static T *device_zeros(size_t count) {
    T *memory;
    CHECK(cudaMalloc(&memory, count * sizeof(T)));
    CHECK(cudaMemset(memory, 0, count * sizeof(T)));
    return memory;
}

// The last points that were asked for; lines of the list that ask for the same ones follow each other.
template <typename Real> struct data {
    long long n = 0;
    int d = 0;
    Real *points = NULL, *weights = NULL;
    double *box = NULL;
    double read = 0;                              // ms of a plain read
    std::map<int, std::vector<double>> references; // sums and weights, by K; without weights by -K
    std::map<int, std::vector<double>> opens;      // of one feature: weights that are within the contract

    void want(long long wanted_n, int wanted_d) {
        if (n == wanted_n && d == wanted_d) return;
        forget();
        n = wanted_n, d = wanted_d;
        points = device_zeros<Real>((n + KM_PAD_ROWS) * d);
        box = device_zeros<double>(2 * d);
        weights = device_zeros<Real>(n + KM_PAD_ROWS);
        make_points<<<1024, 256>>>(points, n * d);
        make_weights<<<1024, 256>>>(weights, n);
        std::vector<double> corners(2 * d, 1);
        for (int f = 0; f < d; f++) corners[f] = -1;
        CHECK(cudaMemcpy(box, corners.data(), corners.size() * 8, cudaMemcpyHostToDevice));
        CHECK(cudaDeviceSynchronize());
        read = read_ms(points, n * d * (long long)sizeof(Real));
    }
    void forget() {
        CHECK(cudaFree(points));
        CHECK(cudaFree(weights));
        CHECK(cudaFree(box));
        points = weights = NULL;
        box = NULL;
        references.clear();
        opens.clear();
        n = d = 0;
    }
    // The first centroids of K: points here and there, the same ones in every list.
    void put_centroids(Real *to, int k) const {
        for (long long j = 0; j < k; j++)
            CHECK(cudaMemcpy(to + j * d, points + (k * 1000003ll + j * 2654435761ll + 12345) % n * d, d * sizeof(Real),
                             cudaMemcpyDeviceToDevice));
    }
    const std::vector<double> &expected(int k, int weighted) {
        std::vector<double> &sums = references[weighted ? k : -k];
        if (!sums.empty()) return sums;
        const size_t count = (size_t)k * (d + 1), bytes = count * 8;
        const int shared = bytes <= SHARED_MAX;
        Real *centroids = device_zeros<Real>((size_t)k * d);
        double *totals = device_zeros<double>(count);
        put_centroids(centroids, k);
        if (shared && bytes > 48 << 10)
            CHECK(cudaFuncSetAttribute(reference<Real>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
        reference<<<528, 256, shared ? bytes : 0>>>(totals, points, n, d, centroids, k, shared,
                                                             weighted);
        CHECK(cudaGetLastError());
        std::vector<double> &open = opens[weighted ? k : -k];
        open.resize(k);
        if (d == 1) {
            double *weights_open = device_zeros<double>(k);
            find_open<<<528, 256>>>(weights_open, points, n, centroids, k, weighted);
            CHECK(cudaMemcpy(open.data(), weights_open, k * sizeof(double), cudaMemcpyDeviceToHost));
            CHECK(cudaFree(weights_open));
        }
        sums.resize(count);
        CHECK(cudaMemcpy(sums.data(), totals, bytes, cudaMemcpyDeviceToHost));
        CHECK(cudaFree(centroids));
        CHECK(cudaFree(totals));
        return sums;
    }
};

// A shape ---------------------------------------------------------------------------------------------------

struct shape {
    char name[64], cubin[512], type[16];
    int d, k_low, k_high, runs, weighted;
    long long n;
};

struct outcome {
    double ms, read, issue, worst; // worst: largest difference from the reference, per point
    int same, centroids_right, stayed; // stayed: no slot stopped while it was timed
    unsigned long long bits;           // of the totals of the first pass, as one number
};

template <typename Symbol> static void read_symbol(Symbol *to, size_t count, CUmodule module, const char *name) {
    CUdeviceptr address;
    CHECK(cuModuleGetGlobal(&address, NULL, module, name));
    CHECK(cuMemcpyDtoH(to, address, count * sizeof *to));
}

// An emitted source on the device, with the memory that the engine would give it.
template <typename Real> struct pass {
    CUmodule module;
    CUfunction update;
    std::vector<km_pass_launch> launches;
    std::vector<CUfunction> kernels;
    std::vector<void *> memories;
    km_pass_args args = {};
    km_update_args update_args = {};
    int ks, s, update_parts;

    template <typename T> T *zeros(size_t count) {
        T *memory = device_zeros<T>(count);
        memories.push_back(memory);
        return memory;
    }
    void load(const char *cubin) {
        km_pass_facts facts;
        CHECK(cuModuleLoad(&module, cubin));
        CHECK(cuModuleGetFunction(&update, module, "km_update"));
        read_symbol(&facts, 1, module, "km_pass");
        launches.resize(facts.launches_count);
        read_symbol(launches.data(), launches.size(), module, "km_pass_launches");
        for (const km_pass_launch &launch : launches) {
            CUfunction kernel;
            CHECK(cuModuleGetFunction(&kernel, module, launch.kernel));
            if (launch.shared_bytes > 48 * 1024)
                CHECK(cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, launch.shared_bytes));
            kernels.push_back(kernel);
        }
        if (facts.has_constants) {
            CUdeviceptr address;
            CHECK(cuModuleGetGlobal(&address, NULL, module, "km_constants"));
            args.constants[0] = (void *)address;
        }
        args.workspace = zeros<char>(facts.workspace_bytes + facts.workspace_bytes_per_point * args.n + 256);
    }
    void open(const shape &sh, const data<Real> &from) {
        args.n = from.n;
        args.points = from.points;
        args.weights = sh.weighted ? from.weights : NULL;
        args.box = from.box;
        load(sh.cubin);
        ks = sh.k_high - sh.k_low + 1;
        s = (sh.k_low + sh.k_high) * ks / 2;
        update_parts = (int)KM_UPDATE_PARTS(sh.k_high, from.d);
        Real *centroids = zeros<Real>((size_t)s * from.d);
        for (int k = sh.k_low, row = 0; k <= sh.k_high; row += k++) from.put_centroids(centroids + row * from.d, k);
        km_loop loop = {};
        loop.head.passes_max = INT_MAX;
        loop.shift_max = -1; // only a slot that no longer moves at all would stop
        loop.max_iter = LLONG_MAX;
        update_args.loop = zeros<km_loop>(1);
        update_args.slots = zeros<km_slot_record>(ks);
        update_args.active = zeros<unsigned char>(ks);
        CHECK(cudaMemcpy(update_args.loop, &loop, sizeof loop, cudaMemcpyHostToDevice));
        std::vector<km_slot_record> records(ks);
        for (km_slot_record &record : records) record.state.phase = KM_SLOT_RUNNING;
        CHECK(cudaMemcpy(update_args.slots, records.data(), ks * sizeof records[0], cudaMemcpyHostToDevice));
        CHECK(cudaMemset(update_args.active, 1, ks));
        args.control = (const km_control *)update_args.loop;
        args.active = update_args.active;
        args.centroids = update_args.centroids = centroids;
        update_args.before = zeros<Real>((size_t)s * from.d);
        args.totals = zeros<double>((size_t)s * (from.d + 1));
        update_args.totals = args.totals;
        update_args.weights = zeros<double>(s);
        update_args.given_up = zeros<unsigned char>(s);
        update_args.workspace = args.workspace;
        update_args.constants[0] = args.constants[0];
        update_args.box = args.box;
        update_args.part_sums = zeros<double>((size_t)ks * update_parts * 4);
        CHECK(cudaMemset(args.totals, 0xff, (size_t)s * (from.d + 1) * 8)); // what is not written is NaN
    }
    void close() {
        for (void *memory : memories) CHECK(cudaFree(memory));
        CHECK(cuModuleUnload(module));
    }
    void launch(CUfunction kernel, unsigned x, unsigned y, unsigned block, unsigned shared, void *argument) {
        CHECK(cuLaunchKernel(kernel, x, y, 1, block, 1, 1, shared, NULL, &argument, NULL));
    }
    void run(int stage) {
        for (size_t i = 0; i < launches.size(); i++) {
            const km_pass_launch &l = launches[i];
            if (l.stage != stage) continue;
            args.part = l.part;
            launch(kernels[i], l.grid_x, l.grid_y, l.block, l.shared_bytes, &args);
        }
    }
    void run_update() {
        launch(update, ks, update_parts, KM_THREADS, 0, &update_args);
    }
    // Whether the loop still runs and every slot with it.
    int runs_on() {
        km_loop loop;
        std::vector<km_slot_record> records(ks);
        CHECK(cudaMemcpy(&loop, update_args.loop, sizeof loop, cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(records.data(), update_args.slots, ks * sizeof records[0], cudaMemcpyDeviceToHost));
        int on = !loop.head.stop;
        for (const km_slot_record &record : records) on &= record.state.phase == KM_SLOT_RUNNING;
        return on;
    }
};

// Sums near the reference and the same bits in every run; then the new centroids, which must be their quotients.
template <typename Real> static void check_pass(outcome &out, pass<Real> &p, data<Real> &from, const shape &sh) {
    const int d = from.d;
    const size_t count = (size_t)p.s * (d + 1);
    std::vector<double> first(count), again(count);
    std::vector<Real> moved((size_t)p.s * d);
    p.run(KM_STAGE_LOAD);
    p.run(KM_STAGE_BEGIN);
    p.run(KM_STAGE_PASS);
    CHECK(cudaMemcpy(first.data(), p.args.totals, count * 8, cudaMemcpyDeviceToHost));
    out.same = out.centroids_right = 1;
    for (double total : first) {
        unsigned long long word;
        memcpy(&word, &total, 8);
        out.bits = (out.bits ^ word) * 0x9e3779b97f4a7c15ull;
        out.bits ^= out.bits >> 32;
    }
    for (int i = 1; i < sh.runs; i++) {
        p.run(KM_STAGE_PASS);
        CHECK(cudaMemcpy(again.data(), p.args.totals, count * 8, cudaMemcpyDeviceToHost));
        out.same &= !memcmp(first.data(), again.data(), count * 8);
    }
    size_t at = 0;
    for (int k = sh.k_low; k <= sh.k_high; k++) {
        const std::vector<double> &expected = from.expected(k, sh.weighted),
                                  &open = from.opens[sh.weighted ? k : -k]; // coordinates are at most 1
        for (size_t i = 0; i < expected.size(); i++) {
            const double off = (fabs(first[at++] - expected[i]) - open[i / (d + 1)]) / (double)from.n;
            if (out.worst == out.worst && !(off <= out.worst)) out.worst = off; // a NaN stays
        }
    }
    p.run_update();
    CHECK(cudaMemcpy(moved.data(), p.args.centroids, moved.size() * sizeof(Real), cudaMemcpyDeviceToHost));
    for (int j = 0; j < p.s; j++)
        for (int f = 0; f < d; f++)
            out.centroids_right &= moved[j * d + f] == (Real)(first[j * (d + 1) + f] / first[j * (d + 1) + d]);
}

// The time of the issued arithmetic of relative scores, n (S'(2d + 3) + 8) instructions, S' the sum of K - 1.
static double issue_ms(const shape &sh, int is_double) {
    int units, clock_khz, arch, others = 0;
    CHECK(cudaDeviceGetAttribute(&units, cudaDevAttrMultiProcessorCount, 0));
    CHECK(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, 0));
    CHECK(cudaDeviceGetAttribute(&arch, cudaDevAttrComputeCapabilityMajor, 0));
    const int lanes = is_double ? (arch == 9 || arch == 10 ? 64 : arch == 8 ? 32 : 2) : arch >= 9 ? 128 : 64;
    for (int k = sh.k_low; k <= sh.k_high; k++) others += k - 1;
    return (double)sh.n * (others * (2.0 * sh.d + 3) + 8) / ((double)units * lanes * clock_khz);
}

template <typename Real> static outcome run_shape(const shape &sh, data<Real> &from) {
    outcome out = {};
    pass<Real> p;
    from.want(sh.n, sh.d);
    p.open(sh, from);
    check_pass(out, p, from, sh);
    out.read = from.read;
    out.issue = issue_ms(sh, sizeof(Real) == 8);
    out.ms = median_ms([&] {
        p.run(KM_STAGE_PASS);
        p.run_update();
    });
    out.stayed = p.runs_on();
    p.close();
    return out;
}

// Each launch of a pass by itself, after whole passes from the first centroids.
template <typename Real> static void run_launches(const shape &sh, data<Real> &from) {
    pass<Real> p;
    from.want(sh.n, sh.d);
    p.open(sh, from);
    p.run(KM_STAGE_LOAD);
    p.run(KM_STAGE_BEGIN);
    p.run(KM_STAGE_PASS);
    printf("%s: pass %.4f, read %.4f, issue %.4f;", sh.name, median_ms([&] { p.run(KM_STAGE_PASS); }), from.read,
           issue_ms(sh, sizeof(Real) == 8));
    for (size_t i = 0; i < p.launches.size(); i++) {
        const km_pass_launch &l = p.launches[i];
        if (l.stage != KM_STAGE_PASS) continue;
        cudaEvent_t begin, end;
        CHECK(cudaEventCreate(&begin));
        CHECK(cudaEventCreate(&end));
        std::vector<float> times(PASSES);
        for (float &ms : times) { // a launch may need what those before it left
            for (size_t j = 0; j < p.launches.size(); j++) {
                const km_pass_launch &other = p.launches[j];
                if (other.stage != KM_STAGE_PASS) continue;
                p.args.part = other.part;
                if (j == i) CHECK(cudaEventRecord(begin));
                p.launch(p.kernels[j], other.grid_x, other.grid_y, other.block, other.shared_bytes, &p.args);
                if (j == i) CHECK(cudaEventRecord(end));
            }
            CHECK(cudaDeviceSynchronize());
            CHECK(cudaEventElapsedTime(&ms, begin, end));
        }
        std::sort(times.begin(), times.end());
        printf(" %s %.4f", l.kernel, times[PASSES / 2]);
        CHECK(cudaEventDestroy(begin));
        CHECK(cudaEventDestroy(end));
    }
    printf("\n");
    fflush(stdout);
    p.close();
}

// Silhouettes -------------------------------------------------------------------------------------------------

// Adds to out[0] the silhouettes of the points, by terms[j] (v_j, n_j / (n_j - 1)) and squared distances to `means`;
// where `terms` is NULL, counts and squared distances to the own means to out[2 j] and out[2 j + 1].
template <typename Real>
static __global__ void silhouette_reference(double *out, const Real *x, long long n, int d, const Real *c,
                                            const Real *means, const double *terms, int k) {
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < n; i += gridDim.x * 256ll) {
        const int label = nearest(x + i * d, d, c, k);
        double own = 0, other = HUGE_VAL;
        for (int j = 0; j < k; j++) {
            double square = 0;
            for (int f = 0; f < d; f++) {
                const double t = (double)x[i * d + f] - (double)means[j * d + f];
                square = fma(t, t, square);
            }
            if (j == label)
                own = terms ? (square + terms[2 * j]) * terms[2 * j + 1] : square;
            else
                other = fmin(other, square + (terms ? terms[2 * j] : 0));
        }
        if (terms) {
            double value = (other - own) / fmax(own, other);
            for (int step = 16; step > 0; step >>= 1) value += __shfl_xor_sync(0xffffffffu, value, step);
            if (threadIdx.x % 32 == 0) atomicAdd(out, value);
        } else {
            atomicAdd(&out[2 * label], 1.0);
            atomicAdd(&out[2 * label + 1], own);
        }
    }
}

template <typename Real>
static __global__ void put_labels(unsigned char *labels, const Real *x, long long n, int d, const Real *c, int k) {
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < n; i += gridDim.x * 256ll)
        labels[i] = (unsigned char)nearest(x + i * d, d, c, k);
}

// The pass of the silhouette with all K of a shape. Centroids are points here and there; means are the centroids or,
// `elsewhere`, those of their clusters.
template <typename Real> struct silhouettes {
    CUfunction kernel, add, labelled = NULL; // few features: of labels that are found, and of those that are there
    km_silhouette_args args = {};
    std::vector<void *> memories;
    std::vector<double> expected;
    unsigned char *labels;       // [models][n]
    std::vector<int> model_rows; // centroids of each model, and means that are others
    double *partial, *totals;
    long long blocks, models;
    bool has_tiles;
    int features, all_rows = 0, as_products = 0;

    template <typename T> T *copy(const std::vector<T> &from) {
        T *memory = device_zeros<T>(from.size());
        CHECK(cudaMemcpy(memory, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
        memories.push_back(memory);
        return memory;
    }
    void open(CUmodule module, const shape &sh, data<Real> &from, bool elsewhere) {
        const int d = from.d;
        std::vector<Real> table, means, all_terms;
        std::vector<double> terms;
        std::vector<int> ks;
        std::vector<long long> rows, mean_rows;
        features = d;
        has_tiles = KM_FINISH_HAS_TILES(d);
        CHECK(cuModuleGetFunction(&kernel, module, has_tiles ? "km_silhouette_tiles" : "km_silhouette_searched"));
        CHECK(cuModuleGetFunction(&add, module, "km_finish_add"));
        if (!has_tiles) CHECK(cuModuleGetFunction(&labelled, module, "km_silhouette_labelled"));
        labels = device_zeros<unsigned char>(has_tiles ? 1 : (size_t)from.n * (size_t)(sh.k_high - sh.k_low + 1));
        memories.push_back(labels);
        std::vector<long long> labels_at;
        std::vector<Real> least;
        for (int k = sh.k_low; k <= sh.k_high; k++) {
            std::vector<Real> c((size_t)k * d), m;
            Real *centroids = device_zeros<Real>(c.size());
            from.put_centroids(centroids, k);
            CHECK(cudaMemcpy(c.data(), centroids, c.size() * sizeof(Real), cudaMemcpyDeviceToHost));
            m = c;
            for (int i = 0; elsewhere && i < k * d; i++)
                m[i] = (Real)(from.expected(k, 0)[i / d * (d + 1) + i % d] /
                              from.expected(k, 0)[i / d * (d + 1) + d]);
            Real *means_there = copy(m);
            double *sums = device_zeros<double>(2 * k + 1);
            silhouette_reference<Real><<<528, 256>>>(sums, from.points, from.n, d, centroids, means_there, NULL, k);
            std::vector<double> of_k(2 * k), one(1);
            CHECK(cudaMemcpy(of_k.data(), sums, 16 * k, cudaMemcpyDeviceToHost));
            for (int j = 0; j < k; j++) {
                const double count = of_k[2 * j];
                of_k[2 * j] = of_k[2 * j + 1] / count;
                of_k[2 * j + 1] = count / (count - 1);
            }
            double *terms_there = copy(of_k);
            silhouette_reference<Real>
                <<<528, 256>>>(sums + 2 * k, from.points, from.n, d, centroids, means_there, terms_there, k);
            CHECK(cudaMemcpy(one.data(), sums + 2 * k, 8, cudaMemcpyDeviceToHost));
            expected.push_back(one[0]);
            ks.push_back(k);
            if (!has_tiles) {
                labels_at.push_back((k - sh.k_low) * from.n);
                put_labels<Real><<<528, 256>>>(labels + labels_at.back(), from.points, from.n, d, centroids, k);
                least.push_back(least_of(m, of_k, d));
            }
            rows.push_back((long long)table.size() / d);
            table.insert(table.end(), c.begin(), c.end());
            means.insert(means.end(), m.begin(), m.end());
            terms.insert(terms.end(), of_k.begin(), of_k.end());
            CHECK(cudaFree(centroids));
            CHECK(cudaFree(sums));
        }
        mean_rows = rows;
        for (long long &row : mean_rows) row += elsewhere ? (long long)table.size() / d : 0;
        if (elsewhere) table.insert(table.end(), means.begin(), means.end());
        models = (long long)ks.size();
        for (int k : ks) model_rows.push_back(elsewhere ? 2 * k : k);
        const int block_points = has_tiles ? KM_FINISH_PIECE_POINTS(d) : (int)KM_SILHOUETTE_POINTS;
        blocks = (from.n + block_points - 1) / block_points;
        args.points = from.points;
        args.count = from.n;
        args.table = copy(table);
        args.centroids = copy(std::vector<double>(table.begin(), table.end()));
        args.terms = copy(std::vector<Real>(terms.begin(), terms.end()));
        args.exact_terms = copy(terms);
        args.ks = copy(ks);
        args.rows = copy(rows);
        args.mean_rows = copy(mean_rows);
        args.models = (int)models;
        args.labels = labels;
        if (!has_tiles) args.labels_at = copy(labels_at);
        if (!has_tiles) args.least = copy(least);
        for (int k : ks) all_rows += k;
        partial = copy(std::vector<double>(blocks * models));
        totals = copy(std::vector<double>(models));
    }
    void run_tiles() { // as many models at a time as fit with all their rows, or one
        const double *weights = NULL;
        for (int first = 0, count, rows; first < models; first += count) {
            for (count = rows = 0; first + count < models && count < KM_TILE_MODELS; count++) {
                if (count > 0 && rows + model_rows[first + count] > KM_TILE_ROWS) break;
                rows += model_rows[first + count];
            }
            int tile_rows = std::min(rows, (int)KM_TILE_ROWS);
            const int warps = std::max((tile_rows + KM_TILE_WARP_ROWS - 1) / KM_TILE_WARP_ROWS, count);
            const int bytes = KM_SILHOUETTE_TILE_BYTES(features, sizeof(Real), tile_rows, count);
            void *arguments[] = {&args, &weights, &partial, &first, &count, &tile_rows};
            CHECK(cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes));
            CHECK(cuLaunchKernel(kernel, (unsigned)blocks, 1, 1, (warps + 3) / 4 * 128, 1, 1, bytes, NULL, arguments,
                                 NULL));
        }
    }
    // As runtime/cuda/silhouette.c has it. terms: v_j, n_j / (n_j - 1).
    Real least_of(const std::vector<Real> &means, const std::vector<double> &terms, int d) {
        const double kept = KM_SILHOUETTE_KEPT(sizeof(Real));
        double largest = 0;
        std::vector<double> own, nearest(terms.size() / 2, HUGE_VAL);
        for (size_t i = 0; i < nearest.size(); i++) {
            double square = 0;
            for (int f = 0; f < d; f++) square += (double)means[i * d + f] * (double)means[i * d + f];
            own.push_back(square + terms[2 * i]);
            largest = fmax(largest, own[i]);
            for (size_t j = 0; j < nearest.size(); j++) {
                square = 0;
                for (int f = 0; f < d; f++) square += pow((double)means[i * d + f] - (double)means[j * d + f], 2);
                if (j != i) nearest[i] = fmin(nearest[i], terms[2 * j] + square / 4);
            }
        }
        for (size_t i = 0; i < own.size(); i++)
            if (!(nearest[i] >= (own[i] + largest) * kept)) return -1e-30f;
        as_products++;
        return (Real)(largest * kept + 1e-30);
    }
    void run_few(CUfunction few) {
        const double *weights = NULL;
        void *arguments[] = {&args, &weights, &partial, &all_rows};
        const int bytes = KM_SILHOUETTE_BYTES(features, sizeof(Real), all_rows, (int)models);
        CHECK(cuFuncSetAttribute(few, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes));
        CHECK(cuLaunchKernel(few, (unsigned)blocks, 1, 1, KM_THREADS, 1, 1, bytes, NULL, arguments, NULL));
    }
    void run(bool by_label = false) {
        void *add_arguments[] = {&partial, &blocks, &models, &totals};
        CHECK(cudaMemsetAsync(totals, 0, models * 8));
        if (has_tiles)
            run_tiles();
        else
            run_few(by_label ? labelled : kernel);
        CHECK(cuLaunchKernel(add, (unsigned)((models + KM_REDUCED_NUMBERS - 1) / KM_REDUCED_NUMBERS), 1, 1, KM_THREADS,
                             1, 1, 0, NULL, add_arguments, NULL));
    }
    double worst(long long n, bool by_label) { // largest difference of a mean from the reference
        std::vector<double> found(models);
        run(by_label);
        CHECK(cudaMemcpy(found.data(), totals, models * 8, cudaMemcpyDeviceToHost));
        double most = 0;
        for (long long m = 0; m < models; m++) {
            const double off = fabs(found[m] - expected[m]) / (double)n;
            if (!(off <= most)) most = off;
        }
        return most;
    }
    void close() {
        for (void *memory : memories) CHECK(cudaFree(memory));
    }
};

// Passes and silhouettes in turn.
template <typename Real> static int run_silhouettes(const shape &sh, data<Real> &from) {
    pass<Real> p;
    silhouettes<Real> fixed, elsewhere;
    const double bound = sizeof(Real) == 8 ? 1e-9 : 1e-7;
    from.want(sh.n, sh.d);
    p.open(sh, from);
    p.run(KM_STAGE_LOAD);
    p.run(KM_STAGE_BEGIN);
    fixed.open(p.module, sh, from, false);
    elsewhere.open(p.module, sh, from, true);
    double off[2][2] = {};
    int right = 1;
    const bool has_labels = !fixed.has_tiles;
    for (int by_label = 0; by_label <= has_labels; by_label++) {
        off[by_label][0] = fixed.worst(sh.n, by_label);
        off[by_label][1] = elsewhere.worst(sh.n, by_label);
        right = right && off[by_label][0] <= bound && off[by_label][1] <= bound;
    }
    for (int turn = 0; turn < 3; turn++) {
        const double pass_ms = median_ms([&] {
            p.run(KM_STAGE_PASS);
            p.run_update();
        });
        for (int by_label = 0; by_label <= has_labels; by_label++) {
            const double fixed_ms = median_ms([&] { fixed.run(by_label); });
            const double elsewhere_ms = median_ms([&] { elsewhere.run(by_label); });
            printf("%-20s %-6s %9.4f %9.4f %7.2f %9.4f %7.2f  off by %.2g, %.2g: %s", sh.name,
                   by_label ? "labels" : "search", pass_ms, fixed_ms, fixed_ms / pass_ms, elsewhere_ms,
                   elsewhere_ms / pass_ms, off[by_label][0], off[by_label][1], right ? "right" : "WRONG");
            if (by_label) printf(", %d of %lld models as products", fixed.as_products, fixed.models);
            printf("\n");
            fflush(stdout);
        }
    }
    fixed.close();
    elsewhere.close();
    p.close();
    return right;
}

static int is_right(const outcome &o) {
    return o.worst < WRONG_BY_MAX && o.same && o.centroids_right && o.stayed;
}

static void report(const shape &sh, const outcome &o, int json) {
    if (json)
        printf("{\"name\":\"%s\",\"n\":%lld,\"ms\":%.6f,\"read_ms\":%.6f,\"issue_ms\":%.6f,\"worst\":%.3g,"
               "\"same_bits\":%s,\"bits\":\"%016llx\",\"runs\":%d,\"centroids_right\":%s,\"right\":%s}\n",
               sh.name, sh.n, o.ms, o.read, o.issue, o.worst == o.worst ? o.worst : 1e300, o.same ? "true" : "false",
               o.bits, sh.runs, o.centroids_right ? "true" : "false", is_right(o) ? "true" : "false");
    else
        printf("%-20s %9.4f %9.4f %7.2f %9.3f %7.2f  %s, %s %016llx%s%s\n", sh.name, o.ms, o.read, o.ms / o.read, o.issue,
               o.ms / fmax(o.read, o.issue), o.worst < WRONG_BY_MAX ? "right" : "WRONG",
               o.same ? "same bits" : "NOT THE SAME", o.bits, o.centroids_right ? "" : ", WRONG CENTROIDS",
               o.stayed ? "" : ", A SLOT STOPPED: not a time of whole passes");
    fflush(stdout);
}

static int run_list(const char *path, int json, int is_silhouette, int by_launch) {
    FILE *list = fopen(path, "r");
    if (!list) {
        fprintf(stderr, "cuda_pass: cannot read %s\n", path);
        return 2;
    }
    if (is_silhouette)
        printf("%-20s %-6s %9s %9s %7s %9s %7s\n", "shape", "own", "pass ms", "ms", "/ pass", "elsewhere", "/ pass");
    else if (!json && !by_launch) {
        printf("ms per pass: median of %d\n", PASSES);
        printf("%-20s %9s %9s %7s %9s %7s  %s\n", "shape", "ms", "read ms", "/ read", "issue ms", "/ floor", "check");
    }
    data<float> floats;
    data<double> doubles;
    char line[1024];
    int wrong = 0;
    while (fgets(line, sizeof line, list)) {
        shape sh = {};
        sh.n = POINTS;
        sh.runs = RUNS_SAME;
        if (sscanf(line, "%63s %511s %d %d..%d %15s %lld %d %d", sh.name, sh.cubin, &sh.d, &sh.k_low, &sh.k_high,
                   sh.type, &sh.n, &sh.runs, &sh.weighted) < 6)
            continue;
        const int is_double = !strcmp(sh.type, "float64");
        if (is_double && floats.n) floats.forget();
        if (!is_double && doubles.n) doubles.forget();
        if (by_launch) {
            is_double ? run_launches(sh, doubles) : run_launches(sh, floats);
            continue;
        }
        if (is_silhouette) {
            wrong += !(is_double ? run_silhouettes(sh, doubles) : run_silhouettes(sh, floats));
            continue;
        }
        const outcome o = is_double ? run_shape(sh, doubles) : run_shape(sh, floats);
        report(sh, o, json);
        wrong += !is_right(o);
    }
    fclose(list);
    return wrong != 0;
}

// Copies ------------------------------------------------------------------------------------------------------

static double now_ms(void) {
    using namespace std::chrono;
    return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

static int copy_facts(long long bytes) {
    void *host, *device;
    const double begin = now_ms();
    CHECK(cudaFree(NULL));
    const double made = now_ms();
    CHECK(cudaMallocHost(&host, bytes));
    const double pinned = now_ms();
    memset(host, 1, bytes);
    CHECK(cudaMalloc(&device, bytes));
    const double ms = median_ms([&] { CHECK(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice)); });
    printf("{\"context_ms\":%.3f,\"pin_ms\":%.3f,\"bytes\":%lld,\"copy_ms\":%.4f,\"copy_gbs\":%.3f}\n", made - begin,
           pinned - made, bytes, ms, (double)bytes / ms * 1e-6);
    CHECK(cudaFreeHost(host));
    CHECK(cudaFree(device));
    return 0;
}

// Points for whole fits --------------------------------------------------------------------------------------

// Twelve gaussian clusters that touch: their centres are uniform in [-5, 5].
static __global__ void make_blobs(float *x, long long n, int d) {
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < n * d; i += gridDim.x * 256ll) {
        const int blob = (int)(6 * (uniform(i / d) + 1)), f = (int)(i % d);
        const double radius = sqrt(-2 * log((uniform(3 * n * d + i) + 1) / 2 + 1e-18));
        const double normal = radius * cospi(uniform(7 * n * d + i));
        x[i] = (float)(5 * uniform(1ll << 60 | blob * 4096 | f) + normal);
    }
}

static int write_data(const char *path, long long n, int d, int blobs) {
    char header[128], dict[118];
    snprintf(dict, sizeof dict, "{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %d), }", n, d);
    memcpy(header, "\x93NUMPY\x01\0\x76\0", 10);
    snprintf(header + 10, sizeof header - 10, "%-117s", dict);
    header[127] = '\n';
    std::vector<float> points((size_t)n * d);
    float *x = device_zeros<float>(points.size());
    if (blobs)
        make_blobs<<<1024, 256>>>(x, n, d);
    else
        make_points<<<1024, 256>>>(x, n * d);
    CHECK(cudaMemcpy(points.data(), x, points.size() * 4, cudaMemcpyDeviceToHost));
    FILE *file = fopen(path, "wb");
    int failed = !file || fwrite(header, sizeof header, 1, file) != 1 ||
                 fwrite(points.data(), points.size() * 4, 1, file) != 1;
    if (file && fclose(file)) failed = 1;
    if (failed) fprintf(stderr, "cuda_pass: cannot write %s\n", path);
    return failed;
}

int main(int argc, char **argv) {
    if (argc == 6 && !strcmp(argv[1], "--data"))
        return write_data(argv[2], atoll(argv[3]), atoi(argv[4]), !strcmp(argv[5], "blobs"));
    if (argc == 3 && !strcmp(argv[1], "--copy")) return copy_facts(atoll(argv[2]));
    const int json = argc == 3 && !strcmp(argv[1], "--json");
    const int is_silhouette = argc == 3 && !strcmp(argv[1], "--silhouette");
    const int by_launch = argc == 3 && !strcmp(argv[1], "--launches");
    if (argc != 2 + json + is_silhouette + by_launch) {
        fprintf(stderr, "usage: cuda_pass [--json|--launches|--silhouette] LIST, --copy BYTES, --data FILE N D uniform|blobs\n");
        return 2;
    }
    CHECK(cudaFree(NULL));
    return run_list(argv[1 + json + is_silhouette + by_launch], json, is_silhouette, by_launch);
}

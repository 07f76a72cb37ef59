// SPDX-License-Identifier: MIT
// Checks and times the pass of emitted CUDA sources; bench/cuda_pass.sh makes them and the list of shapes. A line of
// the list: name, cubin, features, clusters (LOW..HIGH), type, bar.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda.h>
#include <cuda_runtime.h>

#include "../templates/abi_cuda.h"

static const long long N = 33554432; // points
enum { PASSES = 21, RUNS_SAME = 20 };

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

// Sums and weights of one K in the difference form, in double.
template <typename Real>
static __global__ void reference(double *totals, const Real *x, long long n, int d, const Real *c, int k) {
    extern __shared__ double sums[];
    for (int i = threadIdx.x; i < k * (d + 1); i += blockDim.x) sums[i] = 0;
    __syncthreads();
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < n; i += gridDim.x * 256ll) {
        double best = HUGE_VAL;
        int label = 0;
        for (int j = 0; j < k; j++) {
            double square = 0;
            for (int f = 0; f < d; f++) {
                const double t = (double)x[i * d + f] - (double)c[j * d + f];
                square = fma(t, t, square);
            }
            label = square < best ? j : label;
            best = fmin(square, best);
        }
        for (int f = 0; f < d; f++) atomicAdd(&sums[label * (d + 1) + f], (double)x[i * d + f]);
        atomicAdd(&sums[label * (d + 1) + d], 1.0);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < k * (d + 1); i += blockDim.x) atomicAdd(&totals[i], sums[i]);
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

// A shape ---------------------------------------------------------------------------------------------------

template <typename T> static T *device_zeros(size_t count) {
    T *memory;
    CHECK(cudaMalloc(&memory, count * sizeof(T)));
    CHECK(cudaMemset(memory, 0, count * sizeof(T)));
    return memory;
}

struct pass {
    std::vector<km_pass_launch> launches;
    std::vector<CUfunction> kernels;
    km_pass_args args;

    void run(int stage) {
        for (size_t i = 0; i < launches.size(); i++) {
            const km_pass_launch &l = launches[i];
            if (l.stage != stage) continue;
            args.part = l.part;
            void *pointers[] = {&args};
            CHECK(cuLaunchKernel(kernels[i], l.grid_x, l.grid_y, 1, l.block, 1, 1, l.shared_bytes, NULL, pointers,
                                 NULL));
        }
    }
};

template <typename Symbol> static void read_symbol(Symbol *to, size_t count, CUmodule module, const char *name) {
    CUdeviceptr address;
    CHECK(cuModuleGetGlobal(&address, NULL, module, name));
    CHECK(cuMemcpyDtoH(to, address, count * sizeof *to));
}

template <typename Real>
static void run_shape(const char *name, const char *cubin, int d, int k_low, int k_high, double bar) {
    CUmodule module;
    km_pass_facts facts;
    pass p = {};
    CHECK(cuModuleLoad(&module, cubin));
    read_symbol(&facts, 1, module, "km_pass");
    p.launches.resize(facts.launches_count);
    read_symbol(p.launches.data(), p.launches.size(), module, "km_pass_launches");
    for (const km_pass_launch &launch : p.launches) {
        CUfunction kernel;
        CHECK(cuModuleGetFunction(&kernel, module, launch.kernel));
        if (launch.shared_bytes > 48 * 1024)
            CHECK(cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, launch.shared_bytes));
        p.kernels.push_back(kernel);
    }

    int s = 0, others = 0;
    for (int k = k_low; k <= k_high; k++) s += k, others += k - 1;
    const size_t totals_count = (size_t)s * (d + 1);
    Real *points = device_zeros<Real>((N + KM_PAD_ROWS) * d), *centroids = device_zeros<Real>((size_t)s * d);
    double *totals = device_zeros<double>(totals_count), *expected = device_zeros<double>(totals_count);
    double *box = device_zeros<double>(2 * d);
    unsigned char *active = device_zeros<unsigned char>(k_high - k_low + 1);
    void *workspace = device_zeros<char>(facts.workspace_bytes + facts.workspace_bytes_per_point * N + 256);
    make_points<<<1024, 256>>>(points, N * d);
    CHECK(cudaMemset(active, 1, k_high - k_low + 1));
    std::vector<double> corners(2 * d, 0.99999987);
    for (int f = 0; f < d; f++) corners[f] = -corners[f];
    CHECK(cudaMemcpy(box, corners.data(), corners.size() * 8, cudaMemcpyHostToDevice));
    for (long long j = 0; j < s; j++) // first centroids: points here and there
        CHECK(cudaMemcpy(centroids + j * d, points + (j * 2654435761ll + 12345) % N * d, d * sizeof(Real),
                         cudaMemcpyDeviceToDevice));
    p.args.control = device_zeros<km_control>(1);
    p.args.points = points;
    p.args.n = N;
    p.args.centroids = centroids;
    p.args.active = active;
    p.args.totals = totals;
    p.args.workspace = workspace;
    p.args.box = box;

    // Check: near the reference, and the same bits in every run.
    std::vector<double> first(totals_count), again(totals_count), wanted(totals_count);
    CHECK(cudaMemset(totals, 0xff, totals_count * 8));
    p.run(KM_STAGE_LOAD);
    p.run(KM_STAGE_PASS);
    CHECK(cudaMemcpy(first.data(), totals, totals_count * 8, cudaMemcpyDeviceToHost));
    int same = 1;
    for (int i = 1; i < RUNS_SAME; i++) {
        p.run(KM_STAGE_PASS);
        CHECK(cudaMemcpy(again.data(), totals, totals_count * 8, cudaMemcpyDeviceToHost));
        same &= !memcmp(first.data(), again.data(), totals_count * 8);
    }
    for (int k = k_low, row = 0; k <= k_high; row += k++)
        reference<<<264, 256, (size_t)k * (d + 1) * 8>>>(expected + (size_t)row * (d + 1), points, N, d,
                                                         centroids + (size_t)row * d, k);
    CHECK(cudaMemcpy(wanted.data(), expected, totals_count * 8, cudaMemcpyDeviceToHost));
    double worst = 0; // per point
    for (size_t i = 0; i < totals_count; i++) worst = fmax(worst, fabs(first[i] - wanted[i]) / (double)N);

    const double read = read_ms(points, N * d * (long long)sizeof(Real));
    const double ms = median_ms([&] { p.run(KM_STAGE_PASS); });
    const double rate = sizeof(Real) == 8 ? 16.7e9 : 33.45e9; // of an H200, instructions in a ms
    const double issue = (double)N * (others * (2.0 * d + 3) + 8) / rate;
    printf("%-20s %9.4f %9.4f %7.2f %9.3f %7.2f %6.2f  %s, %s\n", name, ms, read, ms / read, issue,
           ms / fmax(read, issue), bar, worst < 2e-6 ? "right" : "WRONG", same ? "same bits" : "NOT THE SAME");
    fflush(stdout);
    for (void *memory : {(void *)points, (void *)centroids, (void *)totals, (void *)expected, (void *)box,
                         (void *)active, workspace, (void *)p.args.control})
        CHECK(cudaFree(memory));
    CHECK(cuModuleUnload(module));
}

int main(int argc, char **argv) {
    FILE *list = argc == 2 ? fopen(argv[1], "r") : NULL;
    if (!list) {
        fprintf(stderr, "usage: cuda_pass LIST\n");
        return 2;
    }
    CHECK(cudaFree(NULL));
    printf("%lld points; ms per pass: median of %d\n", N, PASSES);
    printf("%-20s %9s %9s %7s %9s %7s %6s  %s\n", "shape", "ms", "read ms", "/ read", "issue ms", "/ floor", "bar",
           "check");
    char line[1024], name[64], cubin[512], type[16];
    int d, k_low, k_high;
    double bar;
    while (fgets(line, sizeof line, list)) {
        if (sscanf(line, "%63s %511s %d %d..%d %15s %lf", name, cubin, &d, &k_low, &k_high, type, &bar) != 7) continue;
        if (!strcmp(type, "float64"))
            run_shape<double>(name, cubin, d, k_low, k_high, bar);
        else
            run_shape<float>(name, cubin, d, k_low, k_high, bar);
    }
    fclose(list);
    return 0;
}

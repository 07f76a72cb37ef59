// SPDX-License-Identifier: MIT
// Checks and times the pass of emitted CUDA sources of the design sparse_warps on this machine's GPU.
//
//     cuda_sparse CUBIN ROWS FEATURES SHARE LOW..HIGH f32|f64 [PASSES [zipf]]
//
// The points are drawn: each value is there with the probability SHARE, or (zipf) SHARE values a row, in columns by
// Zipf's law; the cubin is that of `kmgen emit` with -DKM_KERNELS_ONLY. Passes follow each other as in a fit, with new
// centroids after each. After the first and the last pass labels are held against scores in double, and totals against
// sums of those labels in double. Beside the times stands that of a plain read of indices, values and starts.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include <cuda.h>
#include <cuda_runtime.h>

#include "../templates/cuda/abi.h"
#include "../templates/cuda/sparse/points.h"

static void check(int code, const char *what, int line) {
    if (code == 0) return;
    fprintf(stderr, "cuda_sparse.cu:%d: %s gave %d\n", line, what, code);
    exit(1);
}
#define CHECK(call) check((int)(call), #call, __LINE__)

static __host__ __device__ double uniform(unsigned long long z) { // 0 to 1, splitmix64
    z += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    return (double)(z >> 11) / 9007199254740992.0;
}

static __global__ void count_rows(unsigned *counts, long long n, int d, double share) {
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < n; i += gridDim.x * 256ll) {
        unsigned count = 0;
        for (int f = 0; f < d; f++) count += uniform((unsigned long long)i * d + f) < share;
        counts[i] = count;
    }
}

template <typename Real, typename Index>
static __global__ void fill_rows(Index *indices, Real *values, const long long *begins, long long n, int d, double share) {
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < n; i += gridDim.x * 256ll) {
        long long at = begins[i];
        for (int f = 0; f < d; f++) {
            const unsigned long long key = (unsigned long long)i * d + f;
            if (uniform(key) >= share) continue;
            indices[at] = (Index)f;
            values[at++] = (Real)(0.05 + 0.9 * uniform(~key));
        }
    }
}

template <typename Real> static __global__ void norms_of(float *norms, const Real *values, const long long *begins, long long n) {
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < n; i += gridDim.x * 256ll) {
        double square = 0;
        for (long long at = begins[i]; at < begins[i + 1]; at++) square = fma((double)values[at], (double)values[at], square);
        norms[i] = __double2float_ru(sqrt(square) * (1 + 1e-9));
    }
}

// Labels against scores in double: how many are not the lowest index of the best, and how many break the contract.
template <typename Real, typename Index, typename Label>
static __global__ void check_labels(unsigned long long *wrong, const Label *labels, const Index *indices, const Real *values,
                                    const long long *begins, long long n, int d, const Real *c, int k, double eps) {
    for (long long i = blockIdx.x * 8ll + threadIdx.x / 32; i < n; i += gridDim.x * 8ll) {
        double best = -1e300, own = 0, square = 0;
        int nearest = k;
        for (int j = threadIdx.x % 32; j < k; j += 32) {
            double dot = 0, half = 0;
            square = 0;
            for (long long at = begins[i]; at < begins[i + 1]; at++) {
                dot = fma((double)values[at], (double)c[(long long)j * d + indices[at]], dot);
                square = fma((double)values[at], (double)values[at], square);
            }
            for (int f = 0; f < d; f++) half = fma((double)c[(long long)j * d + f], (double)c[(long long)j * d + f], half);
            const double score = dot - half / 2;
            if (j == labels[i]) own = score;
            if (score > best) nearest = j, best = score;
        }
        for (int w = 16; w > 0; w /= 2) {
            const double other = __shfl_xor_sync(~0u, best, w);
            const int j = __shfl_xor_sync(~0u, nearest, w);
            own += __shfl_xor_sync(~0u, own, w);
            square = fmax(square, __shfl_xor_sync(~0u, square, w));
            if (other > best || (other == best && j < nearest)) nearest = j, best = other;
        }
        if (threadIdx.x % 32) continue;
        if (nearest != labels[i]) atomicAdd(wrong, 1ull);
        if (2 * (best - own) > eps * (square + 1e-30)) atomicAdd(wrong + 1, 1ull);
    }
}

template <typename Real, typename Index, typename Label>
static __global__ void add_sums(double *sums, const Label *labels, const Index *indices, const Real *values,
                                const long long *begins, long long n, int d) {
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < n; i += gridDim.x * 256ll) {
        double *row = sums + labels[i] * (d + 1ll);
        for (long long at = begins[i]; at < begins[i + 1]; at++) atomicAdd(row + indices[at], (double)values[at]);
        atomicAdd(row + d, 1.0);
    }
}

template <typename Real> static __global__ void update(Real *centroids, const double *totals, int rows, int d) {
    for (long long at = blockIdx.x * 256ll + threadIdx.x; at < (long long)rows * d; at += gridDim.x * 256ll) {
        const long long row = at / d, f = at % d;
        const double weight = totals[row * (d + 1ll) + d];
        if (weight > 0) centroids[at] = (Real)(totals[row * (d + 1ll) + f] / weight);
    }
}

static __global__ void read_all(const uint4 *a, long long a_count, const uint4 *b, long long b_count, const uint4 *c,
                                long long c_count, unsigned *out) {
    unsigned sum = 0;
    const long long begin = blockIdx.x * 512ll + threadIdx.x, step = gridDim.x * 512ll;
#pragma unroll 4
    for (long long at = begin; at < a_count; at += step) sum ^= a[at].x ^ a[at].y ^ a[at].z ^ a[at].w;
#pragma unroll 4
    for (long long at = begin; at < b_count; at += step) sum ^= b[at].x ^ b[at].y ^ b[at].z ^ b[at].w;
#pragma unroll 4
    for (long long at = begin; at < c_count; at += step) sum ^= c[at].x ^ c[at].y ^ c[at].z ^ c[at].w;
    if (sum == 0x12345) *out = sum;
}

template <typename T> static T *device(long long count) {
    void *memory = nullptr;
    CHECK(cudaMalloc(&memory, (size_t)count * sizeof(T) + 1024));
    return (T *)memory;
}

template <typename T> static T *upload(const std::vector<T> &from) {
    T *to = device<T>((long long)from.size());
    CHECK(cudaMemcpy(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
    return to;
}

struct job {
    const char *cubin;
    long long n;
    int d, low, high, passes, zipf;
    double share;
};

static float elapsed(cudaEvent_t begin, cudaEvent_t end) {
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    return ms;
}

template <typename Real, typename Index> static int run(const job &job) {
    const long long n = job.n;
    const int d = job.d, ks = job.high - job.low + 1;
    int rows = 0;
    for (int k = job.low; k <= job.high; k++) rows += k;
    // Points
    std::vector<long long> begins(n + 1);
    Index *indices;
    Real *values;
    if (job.zipf) {
        std::vector<Index> columns;
        std::vector<Real> numbers;
        std::vector<unsigned> row;
        for (long long i = 0; i < n; i++) {
            row.clear();
            const int count = (int)(job.share * (0.5 + uniform(i * 131ull + 7)));
            for (int t = 0; t < count; t++)
                row.push_back((unsigned)std::min((double)d - 1, std::exp(uniform(i * 1000003ull + t) * std::log((double)d)) - 1));
            std::sort(row.begin(), row.end());
            row.erase(std::unique(row.begin(), row.end()), row.end());
            for (unsigned f : row) columns.push_back((Index)f), numbers.push_back((Real)(0.05 + 0.9 * uniform(~(i * 77777ull + f))));
            begins[i + 1] = (long long)columns.size();
        }
        indices = upload(columns);
        values = upload(numbers);
    } else {
        unsigned *counts = device<unsigned>(n);
        count_rows<<<4096, 256>>>(counts, n, d, job.share);
        std::vector<unsigned> host(n);
        CHECK(cudaMemcpy(host.data(), counts, n * 4, cudaMemcpyDeviceToHost));
        CHECK(cudaFree(counts));
        for (long long i = 0; i < n; i++) begins[i + 1] = begins[i] + host[i];
        indices = device<Index>(begins[n]);
        values = device<Real>(begins[n]);
    }
    const long long nonzeros = begins[n], chunks = (n + KM_SPARSE_CHUNK - 1) / KM_SPARSE_CHUNK;
    long long *begins_device = upload(begins);
    if (!job.zipf) fill_rows<<<4096, 256>>>(indices, values, begins_device, n, d, job.share);
    float *norms = device<float>(n);
    norms_of<<<4096, 256>>>(norms, values, begins_device, n);
    std::vector<long long> chunk_first(chunks + 1), long_rows(1);
    std::vector<unsigned> starts(chunks * (KM_SPARSE_CHUNK + 1ll));
    long_rows.clear();
    for (long long c = 0; c < chunks; c++) {
        const long long first = c * KM_SPARSE_CHUNK, end = std::min(n, first + KM_SPARSE_CHUNK);
        chunk_first[c] = begins[first];
        for (long long i = first; i <= end; i++) starts[c * (KM_SPARSE_CHUNK + 1ll) + i - first] = (unsigned)(begins[i] - begins[first]);
    }
    for (long long i = 0; i < n; i++)
        if (begins[i + 1] - begins[i] > KM_SPARSE_LONG) long_rows.push_back(i);
    chunk_first[chunks] = nonzeros;
    const long long long_count = (long long)long_rows.size();
    long_rows.push_back(0);
    unsigned *starts_device = upload(starts);
    km_sparse_table table = {upload(chunk_first), starts_device, indices, values, norms, upload(long_rows), long_count};
    km_sparse_table *table_device = upload(std::vector<km_sparse_table>(1, table));
    // Module
    CUmodule module;
    CHECK(cuModuleLoad(&module, job.cubin));
    CUdeviceptr symbol;
    size_t size;
    km_pass_facts facts;
    CHECK(cuModuleGetGlobal(&symbol, &size, module, "km_pass"));
    CHECK(cuMemcpyDtoH(&facts, symbol, sizeof facts));
    std::vector<km_pass_launch> launches(facts.launches_count);
    CHECK(cuModuleGetGlobal(&symbol, &size, module, "km_pass_launches"));
    CHECK(cuMemcpyDtoH(launches.data(), symbol, sizeof(km_pass_launch) * launches.size()));
    std::vector<CUfunction> functions(launches.size());
    for (size_t i = 0; i < launches.size(); i++) {
        CHECK(cuModuleGetFunction(&functions[i], module, launches[i].kernel));
        if (launches[i].shared_bytes > 48 << 10)
            CHECK(cuFuncSetAttribute(functions[i], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)launches[i].shared_bytes));
    }
    // State
    const long long workspace_bytes =
        facts.workspace_bytes + facts.workspace_bytes_per_point * n + facts.workspace_bytes_per_nonzero * nonzeros;
    char *workspace = device<char>(workspace_bytes);
    CHECK(cudaMemset(workspace, 0xab, workspace_bytes));
    CHECK(cudaMemset(workspace, 0, facts.workspace_bytes_zero));
    std::vector<Real> start((long long)rows * d);
    std::vector<Index> first_indices(std::min(nonzeros, begins[std::min(n, 4000ll)]));
    std::vector<Real> first_values(first_indices.size());
    CHECK(cudaMemcpy(first_indices.data(), indices, first_indices.size() * sizeof(Index), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(first_values.data(), values, first_values.size() * sizeof(Real), cudaMemcpyDeviceToHost));
    for (int k = job.low, row = 0; k <= job.high; k++)
        for (int j = 0; j < k; j++, row++) { // some points
            const long long i = (j * 37 + 11) % std::min(n, 4000ll);
            for (long long at = begins[i]; at < begins[i + 1]; at++) start[(long long)row * d + first_indices[at]] = first_values[at];
        }
    Real *centroids = upload(start);
    Real *used = device<Real>((long long)start.size());
    std::vector<double> box(2ll * d, 0.0);
    for (int f = 0; f < d; f++) box[d + f] = 0.96;
    double *totals = device<double>((long long)rows * (d + 1ll));
    CHECK(cudaMemset(totals, 0xff, (size_t)rows * (d + 1ll) * 8));
    const km_control control = {0, 0, 1000000, 0};
    km_pass_args args = {};
    args.control = upload(std::vector<km_control>(1, control));
    args.points = table_device;
    args.n = n;
    args.centroids = centroids;
    args.active = upload(std::vector<unsigned char>(ks, 1));
    args.totals = totals;
    args.workspace = workspace;
    args.box = upload(box);
    const auto launch = [&](int stage, std::vector<cudaEvent_t> *events) {
        for (size_t i = 0; i < launches.size(); i++) {
            if (launches[i].stage != stage) continue;
            args.part = launches[i].part;
            void *arguments[] = {&args};
            if (events) CHECK(cudaEventRecord((*events)[i]));
            CHECK(cuLaunchKernel(functions[i], launches[i].grid_x, launches[i].grid_y, 1, launches[i].block, 1, 1, launches[i].shared_bytes, 0, arguments, nullptr));
        }
        if (events) CHECK(cudaEventRecord(events->back()));
    };
    std::vector<cudaEvent_t> events(launches.size() + 1);
    for (auto &event : events) CHECK(cudaEventCreate(&event));
    // The plain read
    const long long read_bytes = nonzeros * (long long)(sizeof(Index) + sizeof(Real)) + n * 4;
    unsigned *out = device<unsigned>(1);
    std::vector<float> reads;
    for (int i = 0; i < 9; i++) {
        CHECK(cudaEventRecord(events[0]));
        read_all<<<132 * 4, 512>>>((const uint4 *)values, nonzeros * (long long)sizeof(Real) / 16, (const uint4 *)indices,
                                   nonzeros * (long long)sizeof(Index) / 16, (const uint4 *)starts_device, n / 4, out);
        CHECK(cudaEventRecord(events[1]));
        CHECK(cudaDeviceSynchronize());
        reads.push_back(elapsed(events[0], events[1]));
    }
    std::sort(reads.begin(), reads.end());
    const double read_ms = reads[4];
    // Passes
    launch(KM_STAGE_LOAD, nullptr);
    CHECK(cudaDeviceSynchronize());
    const long long stride = (n + 255) / 256 * 256;
    const long long label_bytes = job.high <= 256 ? 1 : 2;
    // Behind all that does not grow with the points; the form expanded has more arrays that do, and their alignment.
    const bool is_expanded = facts.workspace_bytes_per_nonzero > 0;
    const char *labels =
        workspace + facts.workspace_bytes - 256 * facts.workspace_bytes_per_point - (is_expanded ? 8 * 256 : 0);
    std::vector<double> pass_ms;
    unsigned long long wrong[2] = {0, 0}, moved = 0;
    double worst = 0;
    std::string parts;
    unsigned long long digest = 0xcbf29ce484222325ull; // of the totals after the first and the last pass
    for (int pass = 0; pass < job.passes; pass++) {
        CHECK(cudaMemcpy(used, centroids, start.size() * sizeof(Real), cudaMemcpyDeviceToDevice));
        launch(KM_STAGE_PASS, &events);
        CHECK(cudaDeviceSynchronize());
        size_t first = 0;
        while (launches[first].stage != KM_STAGE_PASS) first++;
        pass_ms.push_back(elapsed(events[first], events.back()));
        char text[400] = "";
        if (pass == 0 || pass == 1 || pass == job.passes - 1)
            for (size_t i = first; i < launches.size(); i++) {
                snprintf(text, sizeof text, " %s %.3f", launches[i].kernel + 10, elapsed(events[i], events[i + 1]));
                parts += text;
            }
        if (pass == 0 || pass == 1 || pass == job.passes - 1) parts += " |";
        if (pass == 0 || pass == job.passes - 1) {
            unsigned long long *wrong_device = device<unsigned long long>(2);
            CHECK(cudaMemset(wrong_device, 0, 16));
            double *sums = device<double>((long long)rows * (d + 1ll));
            CHECK(cudaMemset(sums, 0, (size_t)rows * (d + 1ll) * 8));
            const double eps = sizeof(Real) == 4 ? 0x1p-20 : 0x1p-48;
            const long long checked = d > 4096 ? std::min(n, 2000ll) : std::min(n, 1000000ll);
            for (int k = job.low, row = 0; k <= job.high; row += k++) {
                const char *own = labels + (k - job.low) * stride * label_bytes;
                const Real *c = used + (long long)row * d;
                double *to = sums + row * (d + 1ll);
                if (label_bytes == 1) {
                    check_labels<<<4096, 256>>>(wrong_device, (const unsigned char *)own, indices, values, begins_device, checked, d, c, k, eps);
                    add_sums<<<4096, 256>>>(to, (const unsigned char *)own, indices, values, begins_device, n, d);
                } else {
                    check_labels<<<4096, 256>>>(wrong_device, (const unsigned short *)own, indices, values, begins_device, checked, d, c, k, eps);
                    add_sums<<<4096, 256>>>(to, (const unsigned short *)own, indices, values, begins_device, n, d);
                }
            }
            CHECK(cudaDeviceSynchronize());
            unsigned long long here[2];
            CHECK(cudaMemcpy(here, wrong_device, 16, cudaMemcpyDeviceToHost));
            wrong[0] += here[0], wrong[1] += here[1];
            std::vector<double> a((long long)rows * (d + 1ll)), b(a.size());
            CHECK(cudaMemcpy(a.data(), sums, a.size() * 8, cudaMemcpyDeviceToHost));
            CHECK(cudaMemcpy(b.data(), totals, b.size() * 8, cudaMemcpyDeviceToHost));
            for (double total : b) {
                unsigned long long bits;
                memcpy(&bits, &total, 8);
                digest = (digest ^ bits) * 0x100000001b3ull;
                digest ^= digest >> 29;
            }
            for (size_t i = 0; i < a.size(); i++) worst = std::max(worst, std::fabs(a[i] - b[i]) / (1 + std::fabs(a[i])));
            CHECK(cudaFree(wrong_device));
            CHECK(cudaFree(sums));
        }
        update<<<1024, 256>>>(centroids, totals, rows, d);
        CHECK(cudaDeviceSynchronize());
    }
    (void)moved;
    std::vector<double> later(pass_ms.begin() + 1, pass_ms.end());
    const double mean = later.empty() ? pass_ms[0] : std::accumulate(later.begin(), later.end(), 0.0) / (double)later.size();
    std::sort(later.begin(), later.end());
    const double median = later.empty() ? pass_ms[0] : later[later.size() / 2];
    printf("n=%lld d=%d nnz/row=%.2f K=%d..%d: read %.4f ms (%.0f GB/s); pass first %.3f mean %.3f median %.3f ms = %.1f, %.1f, %.1f reads; "
           "labels not the best %llu, beyond the contract %llu, sums off %.1e, digest %016llx%s\n   %s\n",
           n, d, (double)nonzeros / (double)n, job.low, job.high, read_ms, (double)read_bytes / read_ms * 1e-6, pass_ms[0], mean, median,
           pass_ms[0] / read_ms, mean / read_ms, median / read_ms, wrong[0], wrong[1], worst, digest,
           wrong[1] || worst > 1e-9 || wrong[0] > 100 ? " WRONG" : "", parts.c_str());
    return wrong[1] || worst > 1e-9;
}

int main(int argc, char **argv) {
    if (argc < 7) {
        fprintf(stderr, "usage: cuda_sparse CUBIN ROWS FEATURES SHARE LOW..HIGH f32|f64 [PASSES [zipf]]\n");
        return 2;
    }
    job job = {argv[1], atoll(argv[2]), atoi(argv[3]), 0, 0, argc > 7 ? atoi(argv[7]) : 10, argc > 8, atof(argv[4])};
    const char *dots = strstr(argv[5], "..");
    job.low = atoi(argv[5]);
    job.high = dots ? atoi(dots + 2) : job.low;
    CHECK(cudaFree(nullptr));
    const bool is_double = !strcmp(argv[6], "f64");
    if (job.d <= 256) return is_double ? run<double, unsigned char>(job) : run<float, unsigned char>(job);
    if (job.d <= 65536) return is_double ? run<double, unsigned short>(job) : run<float, unsigned short>(job);
    return is_double ? run<double, unsigned>(job) : run<float, unsigned>(job);
}

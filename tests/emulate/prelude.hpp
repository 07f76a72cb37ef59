// SPDX-License-Identifier: MIT
// What stands before a CUDA text that an emulated GPU runs: the words that CUDA C has built in, and the PTX
// instructions of the templates, as C++. nvrtc.c makes calls of namespace ptx from asm statements.
#include "machine.h"
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// Of the module; the driver sets it when it loads the module.
extern "C" {
const emulated_machine *emulated = (const emulated_machine *)1;
extern char __bss_start[], _end[];
// Static shared memory is all that a text leaves without a value: before each block it is garbage.
extern char *const emulated_static[2];
char *const emulated_static[2] = {__bss_start, _end};
}

#define __device__
#define __host__
#define __global__
#define __constant__
// Of memory that the host fills: kept apart from shared memory.
#define emulated_variable __attribute__((section("emulated_variables")))
#define __shared__ static
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define __CUDACC__ 1
#define __CUDACC_RTC__ 1
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0

// Vectors ----------------------------------------------------------------------------------------------------

#define EMULATED_VECTORS(T, name, align2, align4)                                                            \
    struct __align__(align2) name##2 {                                                                       \
        T x, y;                                                                                              \
    };                                                                                                       \
    struct name##3 {                                                                                         \
        T x, y, z;                                                                                           \
    };                                                                                                       \
    struct __align__(align4) name##4 {                                                                       \
        T x, y, z, w;                                                                                        \
    };                                                                                                       \
    static inline name##2 make_##name##2(T x, T y) {                                                         \
        return {x, y};                                                                                       \
    }                                                                                                        \
    static inline name##3 make_##name##3(T x, T y, T z) {                                                    \
        return {x, y, z};                                                                                    \
    }                                                                                                        \
    static inline name##4 make_##name##4(T x, T y, T z, T w) {                                               \
        return {x, y, z, w};                                                                                 \
    }
EMULATED_VECTORS(signed char, char, 2, 4)
EMULATED_VECTORS(unsigned char, uchar, 2, 4)
EMULATED_VECTORS(short, short, 4, 8)
EMULATED_VECTORS(unsigned short, ushort, 4, 8)
EMULATED_VECTORS(int, int, 8, 16)
EMULATED_VECTORS(unsigned, uint, 8, 16)
EMULATED_VECTORS(long long, longlong, 16, 16)
EMULATED_VECTORS(unsigned long long, ulonglong, 16, 16)
EMULATED_VECTORS(float, float, 8, 16)
EMULATED_VECTORS(double, double, 16, 16)

#define threadIdx (emulated->thread)
#define blockIdx (emulated->block)
#define blockDim (emulated->block_size)
#define gridDim (emulated->grid)
enum { warpSize = 32 };

// Numbers ----------------------------------------------------------------------------------------------------

template <class To, class From> static inline To emulated_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
static inline int __float_as_int(float x) {
    return emulated_bits<int>(x);
}
static inline unsigned __float_as_uint(float x) {
    return emulated_bits<unsigned>(x);
}
static inline float __int_as_float(int x) {
    return emulated_bits<float>(x);
}
static inline float __uint_as_float(unsigned x) {
    return emulated_bits<float>(x);
}
static inline long long __double_as_longlong(double x) {
    return emulated_bits<long long>(x);
}
static inline double __longlong_as_double(long long x) {
    return emulated_bits<double>(x);
}
static inline double __hiloint2double(int high, int low) {
    return __longlong_as_double((long long)high << 32 | (unsigned)low);
}
static inline int __double2hiint(double x) {
    return (int)(__double_as_longlong(x) >> 32);
}
static inline int __double2loint(double x) {
    return (int)__double_as_longlong(x);
}

// A computation by another rounding: 1 down, 2 up, 3 to zero. The operands pass after the mode has changed.
template <int MODE, class Result, class F, class... Operands>
static inline Result emulated_rounded(F compute, Operands... operands) {
    const unsigned before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr((before & ~0x6000u) | MODE << 13);
    int all[] = {([&] { asm volatile("" : "+x"(operands)); }(), 0)...};
    (void)all;
    Result result = compute(operands...);
    asm volatile("" : "+x"(result));
    __builtin_ia32_ldmxcsr(before);
    return result;
}
#define EMULATED_ROUNDED(suffix, mode)                                                                       \
    static inline float __fadd_##suffix(float a, float b) {                                                  \
        return emulated_rounded<mode, float>([](float x, float y) { return x + y; }, a, b);                  \
    }                                                                                                        \
    static inline float __fsub_##suffix(float a, float b) {                                                  \
        return emulated_rounded<mode, float>([](float x, float y) { return x - y; }, a, b);                  \
    }                                                                                                        \
    static inline float __fmul_##suffix(float a, float b) {                                                  \
        return emulated_rounded<mode, float>([](float x, float y) { return x * y; }, a, b);                  \
    }                                                                                                        \
    static inline float __fdiv_##suffix(float a, float b) {                                                  \
        return emulated_rounded<mode, float>([](float x, float y) { return x / y; }, a, b);                  \
    }                                                                                                        \
    static inline float __fsqrt_##suffix(float a) {                                                          \
        return emulated_rounded<mode, float>([](float x) { return __builtin_sqrtf(x); }, a);                 \
    }                                                                                                        \
    static inline float __fmaf_##suffix(float a, float b, float c) {                                         \
        return emulated_rounded<mode, float>([](float x, float y, float z) { return fmaf(x, y, z); }, a, b,  \
                                             c);                                                             \
    }                                                                                                        \
    static inline double __dadd_##suffix(double a, double b) {                                               \
        return emulated_rounded<mode, double>([](double x, double y) { return x + y; }, a, b);               \
    }                                                                                                        \
    static inline double __dmul_##suffix(double a, double b) {                                               \
        return emulated_rounded<mode, double>([](double x, double y) { return x * y; }, a, b);               \
    }                                                                                                        \
    static inline float __double2float_##suffix(double a) {                                                  \
        return emulated_rounded<mode, float>([](double x) { return (float)x; }, a);                          \
    }
EMULATED_ROUNDED(rd, 1)
EMULATED_ROUNDED(ru, 2)
EMULATED_ROUNDED(rz, 3)

static inline float __fadd_rn(float a, float b) {
    return a + b;
}
static inline float __fsub_rn(float a, float b) {
    return a - b;
}
static inline float __fmul_rn(float a, float b) {
    return a * b;
}
static inline float __fdiv_rn(float a, float b) {
    return a / b;
}
static inline float __fmaf_rn(float a, float b, float c) {
    return fmaf(a, b, c);
}
static inline float __fsqrt_rn(float a) {
    return __builtin_sqrtf(a);
}
static inline float __frcp_rn(float a) {
    return 1 / a;
}
static inline float __fdividef(float a, float b) {
    return a / b;
}
static inline double __dadd_rn(double a, double b) {
    return a + b;
}
static inline double __dsub_rn(double a, double b) {
    return a - b;
}
static inline double __dmul_rn(double a, double b) {
    return a * b;
}
static inline double __ddiv_rn(double a, double b) {
    return a / b;
}
static inline double __dsqrt_rn(double a) {
    return __builtin_sqrt(a);
}
static inline double __fma_rn(double a, double b, double c) {
    return fma(a, b, c);
}
static inline float rsqrtf(float a) {
    return (float)(1 / sqrt((double)a));
}
static inline double rsqrt(double a) {
    return 1 / sqrt(a);
}
static inline float __double2float_rn(double a) {
    return (float)a;
}

// Numbers that do not fit become the nearest that do, NaN 0 (64 bits: the lowest), as on GPUs.
static inline int emulated_int(double rounded) {
    return rounded != rounded         ? 0
           : rounded >= 2147483647.0  ? 2147483647
           : rounded <= -2147483648.0 ? -2147483647 - 1
                                      : (int)rounded;
}
static inline long long emulated_long(double rounded) {
    return rounded != rounded                  ? (long long)(1ull << 63)
           : rounded >= 9223372036854775808.0  ? 9223372036854775807
           : rounded <= -9223372036854775808.0 ? (long long)(1ull << 63)
                                               : (long long)rounded;
}
static inline int __float2int_rn(float x) {
    return emulated_int(rint(x));
}
static inline int __float2int_rd(float x) {
    return emulated_int(floor(x));
}
static inline int __float2int_rz(float x) {
    return emulated_int(trunc(x));
}
static inline int __double2int_rn(double x) {
    return emulated_int(rint(x));
}
static inline long long __double2ll_rn(double x) {
    return emulated_long(rint(x));
}
static inline long long __double2ll_rd(double x) {
    return emulated_long(floor(x));
}
static inline long long __double2ll_rz(double x) {
    return emulated_long(trunc(x));
}

static inline int min(int a, int b) {
    return b < a ? b : a;
}
static inline int max(int a, int b) {
    return b > a ? b : a;
}
#define EMULATED_LEAST(T)                                                                                    \
    static inline T min(T a, T b) {                                                                          \
        return b < a ? b : a;                                                                                \
    }                                                                                                        \
    static inline T max(T a, T b) {                                                                          \
        return b > a ? b : a;                                                                                \
    }
EMULATED_LEAST(unsigned)
EMULATED_LEAST(long)
EMULATED_LEAST(unsigned long)
EMULATED_LEAST(long long)
EMULATED_LEAST(unsigned long long)
static inline unsigned min(int a, unsigned b) {
    return min((unsigned)a, b);
}
static inline unsigned min(unsigned a, int b) {
    return min(a, (unsigned)b);
}
static inline unsigned max(int a, unsigned b) {
    return max((unsigned)a, b);
}
static inline unsigned max(unsigned a, int b) {
    return max(a, (unsigned)b);
}
static inline long long min(int a, long long b) {
    return min((long long)a, b);
}
static inline long long min(long long a, int b) {
    return min(a, (long long)b);
}
static inline long long max(int a, long long b) {
    return max((long long)a, b);
}
static inline long long max(long long a, int b) {
    return max(a, (long long)b);
}
static inline float min(float a, float b) {
    return fminf(a, b);
}
static inline float max(float a, float b) {
    return fmaxf(a, b);
}
static inline double min(double a, double b) {
    return fmin(a, b);
}
static inline double max(double a, double b) {
    return fmax(a, b);
}

static inline int __popc(unsigned x) {
    return __builtin_popcount(x);
}
static inline int __popcll(unsigned long long x) {
    return __builtin_popcountll(x);
}
static inline int __ffs(int x) {
    return __builtin_ffs(x);
}
static inline int __ffsll(long long x) {
    return __builtin_ffsll(x);
}
static inline int __clz(int x) {
    return x ? __builtin_clz((unsigned)x) : 32;
}
static inline int __clzll(long long x) {
    return x ? __builtin_clzll((unsigned long long)x) : 64;
}
static inline unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((unsigned long long)a * b >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline long long __mul64hi(long long a, long long b) {
    return (long long)((__int128)a * b >> 64);
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned which) {
    const unsigned long long bytes = (unsigned long long)b << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned select = which >> 4 * i & 15;
        unsigned byte = (unsigned)(bytes >> 8 * (select & 7)) & 255;
        if (select & 8) byte = byte & 128 ? 255 : 0;
        result |= byte << 8 * i;
    }
    return result;
}
static inline int __dp4a(int a, int b, int sum) {
    for (int i = 0; i < 4; i++) sum += (signed char)(a >> 8 * i) * (signed char)(b >> 8 * i);
    return sum;
}
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned sum) {
    for (int i = 0; i < 4; i++) sum += (a >> 8 * i & 255) * (b >> 8 * i & 255);
    return sum;
}

// Memory -----------------------------------------------------------------------------------------------------

template <class T> static inline T emulated_read(const T *at) {
    if ((uintptr_t)at % alignof(T)) emulated->fault("a read is not aligned");
    return *at;
}
template <class T> static inline T __ldg(const T *at) {
    return emulated_read(at);
}
template <class T> static inline T __ldcs(const T *at) {
    return emulated_read(at);
}
template <class T> static inline T __ldcg(const T *at) {
    return emulated_read(at);
}
template <class T> static inline T __ldca(const T *at) {
    return emulated_read(at);
}
template <class T> static inline void __stcs(T *at, T value) {
    *at = value;
}
template <class T> static inline void __stcg(T *at, T value) {
    *at = value;
}
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}

// The argument's type is the memory's.
template <class T> struct emulated_same { typedef T type; };
#define EMULATED_ATOMIC(name, result)                                                                        \
    template <class T> static inline T name(T *at, typename emulated_same<T>::type value) {                  \
        const T before = emulated_read(at);                                                                  \
        *at = result;                                                                                        \
        return before;                                                                                       \
    }
EMULATED_ATOMIC(atomicAdd, before + value)
EMULATED_ATOMIC(atomicSub, before - value)
EMULATED_ATOMIC(atomicMax, before < value ? value : before)
EMULATED_ATOMIC(atomicMin, value < before ? value : before)
EMULATED_ATOMIC(atomicOr, before | value)
EMULATED_ATOMIC(atomicAnd, before &value)
EMULATED_ATOMIC(atomicXor, before ^ value)
EMULATED_ATOMIC(atomicExch, value)
template <class T>
static inline T atomicCAS(T *at, typename emulated_same<T>::type expected,
                          typename emulated_same<T>::type value) {
    const T before = emulated_read(at);
    if (before == expected) *at = value;
    return before;
}

// 32-bit addresses of shared memory.
static inline size_t __cvta_generic_to_shared(const void *at) {
    const uintptr_t address = (uintptr_t)at, first = (uintptr_t)__bss_start;
    if (address >= EMULATED_SHARED && address - EMULATED_SHARED <= EMULATED_SHARED_MAX)
        return address - EMULATED_SHARED;
    if (address < first || address > (uintptr_t)_end) emulated->fault("an address is not of shared memory");
    return EMULATED_STATIC + (address - first);
}
static inline size_t __cvta_generic_to_global(const void *at) {
    return (size_t)at;
}
static inline char *emulated_shared_at(unsigned address, unsigned bytes) {
    const bool is_static = address >= EMULATED_STATIC;
    const size_t offset = is_static ? address - EMULATED_STATIC : address;
    const size_t size = is_static ? (size_t)(_end - __bss_start) : emulated->shared_bytes;
    if (offset + bytes > size) emulated->fault("shared memory is accessed behind its end");
    char *at = (is_static ? __bss_start : (char *)EMULATED_SHARED) + offset;
    if ((uintptr_t)at % bytes) emulated->fault("an access to shared memory is not aligned");
    return at;
}

// Threads that meet ------------------------------------------------------------------------------------------

static inline void __syncthreads() {
    emulated->barrier(0, 0, 0);
}
static inline int __syncthreads_or(int value) {
    return emulated->barrier(0, 0, value != 0);
}
static inline int __syncthreads_and(int value) {
    return !emulated->barrier(0, 0, value == 0);
}

#define EMULATED_LANES(lane, mask)                                                                           \
    for (int lane = 0; lane < 32; lane++)                                                                    \
        if ((mask) >> lane & 1)
static void emulated_only_meet(void **, unsigned) {}
static inline void __syncwarp(unsigned mask = ~0u) {
    emulated->meet(mask, (void *)0, emulated_only_meet);
}

struct emulated_word {
    unsigned long long value, result;
    int source; // a lane; -1: the lane's own
};
static void emulated_shuffle(void **records, unsigned mask) {
    EMULATED_LANES(lane, mask) {
        emulated_word *own = (emulated_word *)records[lane];
        if (own->source < 0)
            own->result = own->value;
        else if (mask >> own->source & 1)
            own->result = ((emulated_word *)records[own->source])->value;
        else
            own->result = 0xfff5a5a5fff5a5a5; // of a lane that is not there
    }
}
template <class T> static inline T emulated_shuffled(unsigned mask, T value, int source) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a shuffle takes 4 or 8 bytes");
    emulated_word word = {0, 0, source};
    memcpy(&word.value, &value, sizeof value);
    emulated->meet(mask, &word, emulated_shuffle);
    memcpy(&value, &word.result, sizeof value);
    return value;
}
// Each section of `width` lanes by itself.
#define EMULATED_SHUFFLES(T)                                                                                 \
    static inline T __shfl_sync(unsigned mask, T value, int source, int width = 32) {                        \
        return emulated_shuffled(mask, value,                                                                \
                                 (int)(emulated->lane & ~(width - 1)) | (source & (width - 1)));             \
    }                                                                                                        \
    static inline T __shfl_xor_sync(unsigned mask, T value, int by, int width = 32) {                        \
        const int source = (int)emulated->lane ^ by;                                                         \
        return emulated_shuffled(mask, value, source / width > (int)emulated->lane / width ? -1 : source);   \
    }                                                                                                        \
    static inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {                    \
        const int within = (int)emulated->lane % width;                                                      \
        return emulated_shuffled(mask, value, within < (int)by ? -1 : (int)(emulated->lane - by));           \
    }                                                                                                        \
    static inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {                  \
        const int within = (int)emulated->lane % width;                                                      \
        return emulated_shuffled(mask, value, within + (int)by >= width ? -1 : (int)(emulated->lane + by));  \
    }
EMULATED_SHUFFLES(int)
EMULATED_SHUFFLES(unsigned)
EMULATED_SHUFFLES(long)
EMULATED_SHUFFLES(unsigned long)
EMULATED_SHUFFLES(long long)
EMULATED_SHUFFLES(unsigned long long)
EMULATED_SHUFFLES(float)
EMULATED_SHUFFLES(double)

// What all lanes get is one number: `all` of it and each lane's value, from `first` on.
#define EMULATED_REDUCTION(name, T, first, all, put)                                                         \
    static void emulated_##name(void **records, unsigned mask) {                                             \
        T sum = first;                                                                                       \
        EMULATED_LANES(lane, mask) {                                                                         \
            const T value = (T)((emulated_word *)records[lane])->value;                                      \
            sum = all;                                                                                       \
        }                                                                                                    \
        EMULATED_LANES(lane, mask)((emulated_word *)records[lane])->result = put;                            \
    }                                                                                                        \
    static inline T emulated_do_##name(unsigned mask, unsigned long long value) {                            \
        emulated_word word = {value, 0, 0};                                                                  \
        emulated->meet(mask, &word, emulated_##name);                                                        \
        return (T)word.result;                                                                               \
    }
EMULATED_REDUCTION(ballot, unsigned, 0, sum | (unsigned)(value != 0) << lane, sum)
EMULATED_REDUCTION(reduce_or, unsigned, 0, sum | value, sum)
EMULATED_REDUCTION(reduce_and, unsigned, ~0u, sum &value, sum)
EMULATED_REDUCTION(reduce_xor, unsigned, 0, sum ^ value, sum)
EMULATED_REDUCTION(reduce_add, unsigned, 0, sum + value, sum)
EMULATED_REDUCTION(reduce_max, unsigned, 0, sum > value ? sum : value, sum)
EMULATED_REDUCTION(reduce_min, unsigned, ~0u, sum < value ? sum : value, sum)
static inline unsigned __ballot_sync(unsigned mask, int value) {
    return emulated_do_ballot(mask, value != 0);
}
static inline int __any_sync(unsigned mask, int value) {
    return emulated_do_ballot(mask, value != 0) != 0;
}
static inline int __all_sync(unsigned mask, int value) {
    return emulated_do_ballot(mask, value == 0) == 0;
}
static inline unsigned __reduce_or_sync(unsigned mask, unsigned x) {
    return emulated_do_reduce_or(mask, x);
}
static inline unsigned __reduce_and_sync(unsigned mask, unsigned x) {
    return emulated_do_reduce_and(mask, x);
}
static inline unsigned __reduce_xor_sync(unsigned mask, unsigned x) {
    return emulated_do_reduce_xor(mask, x);
}
static inline unsigned __reduce_add_sync(unsigned mask, unsigned x) {
    return emulated_do_reduce_add(mask, x);
}
static inline int __reduce_add_sync(unsigned mask, int x) {
    return (int)emulated_do_reduce_add(mask, (unsigned)x);
}
static inline unsigned __reduce_max_sync(unsigned mask, unsigned x) {
    return emulated_do_reduce_max(mask, x);
}
static inline unsigned __reduce_min_sync(unsigned mask, unsigned x) {
    return emulated_do_reduce_min(mask, x);
}
static inline unsigned __activemask() {
    emulated->fault("__activemask says nothing that a kernel may build on");
}

static void emulated_match(void **records, unsigned mask) {
    EMULATED_LANES(lane, mask) {
        emulated_word *own = (emulated_word *)records[lane];
        own->result = 0;
        EMULATED_LANES(other, mask)
        own->result |= (unsigned long long)(((emulated_word *)records[other])->value == own->value) << other;
    }
}
template <class T> static inline unsigned __match_any_sync(unsigned mask, T value) {
    emulated_word word = {0, 0, 0};
    memcpy(&word.value, &value, sizeof value);
    emulated->meet(mask, &word, emulated_match);
    return (unsigned)word.result;
}

// PTX --------------------------------------------------------------------------------------------------------

// A result to the variable that an asm statement names.
template <class T, class V> static inline void emulated_put(T &to, V from) {
    to = (T)from;
}

namespace ptx {
typedef unsigned long long u64;
typedef unsigned short b16;

static inline float of_half(unsigned half) {
    return emulated->halves[half & 0xffff];
}
static inline b16 to_half(double value) {
    return emulated->half_of(value, 0);
}

template <class T> static inline void mov_b32(T &to, T from) {
    to = from;
}
static inline void mov_b32(b16 &low, b16 &high, unsigned from) {
    low = (b16)from;
    high = (b16)(from >> 16);
}
static inline void mov_b64(u64 &to, u64 from) {
    to = from;
}
static inline void mov_b16(b16 &to, b16 from) {
    to = from;
}
static inline void prmt_b32(unsigned &to, unsigned a, unsigned b, unsigned which) {
    to = __byte_perm(a, b, which);
}
static inline void lop3_b32(unsigned &to, unsigned a, unsigned b, unsigned c, unsigned table) {
    to = 0;
    for (int i = 0; i < 32; i++)
        to |= (table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1) << i;
}

// The bits of a float.
static inline void lop3_b32(float &to, float a, unsigned b, unsigned c, unsigned table) {
    unsigned bits;
    lop3_b32(bits, __float_as_uint(a), b, c, table);
    to = __uint_as_float(bits);
}

static inline void setp_ne_s32(bool &to, int a, int b) {
    to = a != b;
}
static inline void setp_eq_s32(bool &to, int a, int b) {
    to = a == b;
}
static inline void setp_eq_and_s32(bool &to, int a, int b, bool c) {
    to = a == b && c;
}
static inline void setp_ne_and_s32(bool &to, int a, int b, bool c) {
    to = a != b && c;
}
static inline void selp_s32(unsigned &to, unsigned a, unsigned b, bool c) {
    to = c ? a : b;
}
static inline void add_s32(unsigned &to, unsigned a, unsigned b) {
    to = a + b;
}
static inline void add_f32(float &to, float a, float b) {
    to = a + b;
}
static inline void fma_rn_f32(float &to, float a, float b, float c) {
    to = fmaf(a, b, c);
}
static inline void sqrt_approx_f32(float &to, float a) {
    to = sqrtf(a);
}
static inline void sqrt_approx_ftz_f32(float &to, float a) {
    to = sqrtf(a);
}
static inline void rsqrt_approx_f32(float &to, float a) {
    to = rsqrtf(a);
}
static inline void rsqrt_approx_ftz_f32(float &to, float a) {
    to = rsqrtf(a);
}
static inline void rcp_approx_f32(float &to, float a) {
    to = 1 / a;
}
static inline void rcp_approx_ftz_f32(float &to, float a) {
    to = 1 / a;
}

static inline void cvt_f32_f16(float &to, b16 half) {
    to = of_half(half);
}
static inline void cvt_rn_f16_f32(b16 &to, float value) {
    to = to_half(value);
}
static inline void cvt_rz_f16_f32(b16 &to, float value) {
    to = emulated->half_of(value, 1);
}
static inline void cvt_rn_f16x2_f32(unsigned &to, float high, float low) {
    to = (unsigned)to_half(high) << 16 | to_half(low);
}
template <class F> static inline void pairs(unsigned &to, F each) {
    to = (unsigned)each(16) << 16 | (unsigned)each(0);
}
static inline void add_rn_f16x2(unsigned &to, unsigned a, unsigned b) {
    pairs(to, [=](int at) { return to_half((double)of_half(a >> at) + of_half(b >> at)); });
}
static inline void sub_rn_f16x2(unsigned &to, unsigned a, unsigned b) {
    pairs(to, [=](int at) { return to_half((double)of_half(a >> at) - of_half(b >> at)); });
}
static inline void fma_rn_f16x2(unsigned &to, unsigned a, unsigned b, unsigned c) {
    pairs(to,
          [=](int at) { return to_half((double)of_half(a >> at) * of_half(b >> at) + of_half(c >> at)); });
}
static inline void set_ge_f16x2_f16x2(unsigned &to, unsigned a, unsigned b) {
    pairs(to, [=](int at) { return of_half(a >> at) >= of_half(b >> at) ? 0x3c00 : 0; });
}
static inline void set_gt_f16x2_f16x2(unsigned &to, unsigned a, unsigned b) {
    pairs(to, [=](int at) { return of_half(a >> at) > of_half(b >> at) ? 0x3c00 : 0; });
}
static inline void max_f16x2(unsigned &to, unsigned a, unsigned b) {
    pairs(to, [=](int at) { return to_half(fmaxf(of_half(a >> at), of_half(b >> at))); });
}
static inline void min_u16x2(unsigned &to, unsigned a, unsigned b) {
    pairs(to, [=](int at) { return min(a >> at & 0xffff, b >> at & 0xffff); });
}
static inline void max_u16x2(unsigned &to, unsigned a, unsigned b) {
    pairs(to, [=](int at) { return max(a >> at & 0xffff, b >> at & 0xffff); });
}

static inline void multiply(emulated_product &own, emulated_meeting *all) {
    emulated->meet(~0u, &own, all);
}
#define EMULATED_PRODUCT(name, T, field, table)                                                              \
    static inline void name(T &s0, T &s1, T &s2, T &s3, unsigned a0, unsigned a1, unsigned a2, unsigned a3,  \
                            unsigned b0, unsigned b1, T c0, T c1, T c2, T c3) {                              \
        emulated_product own = {{a0, a1, a2, a3}, {b0, b1}, 0, 0, {}};                                       \
        own.sums.field[0] = c0, own.sums.field[1] = c1, own.sums.field[2] = c2, own.sums.field[3] = c3;      \
        multiply(own, emulated->table);                                                                      \
        s0 = own.sums.field[0], s1 = own.sums.field[1], s2 = own.sums.field[2], s3 = own.sums.field[3];      \
    }
EMULATED_PRODUCT(mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32, float, f, product_f16_f32)
EMULATED_PRODUCT(mma_sync_aligned_m16n8k32_row_col_s32_s8_s8_s32, unsigned, u, product_s8_s8)
EMULATED_PRODUCT(mma_sync_aligned_m16n8k32_row_col_s32_s8_u8_s32, unsigned, u, product_s8_u8)
static inline void mma_sync_aligned_m16n8k16_row_col_f16_f16_f16_f16(unsigned &s0, unsigned &s1, unsigned a0,
                                                                     unsigned a1, unsigned a2, unsigned a3,
                                                                     unsigned b0, unsigned b1, unsigned c0,
                                                                     unsigned c1) {
    emulated_product own = {{a0, a1, a2, a3}, {b0, b1}, 0, 0, {}};
    own.sums.u[0] = c0, own.sums.u[1] = c1;
    multiply(own, emulated->product_f16_f16);
    s0 = own.sums.u[0], s1 = own.sums.u[1];
}
static inline void mma_sync_aligned_m16n8k8_row_col_f64_f64_f64_f64(double &s0, double &s1, double &s2,
                                                                    double &s3, double a0, double a1,
                                                                    double a2, double a3, double b0,
                                                                    double b1, double c0, double c1,
                                                                    double c2, double c3) {
    const double a[] = {a0, a1, a2, a3}, b[] = {b0, b1};
    emulated_product own = {{}, {}, a, b, {}};
    own.sums.d[0] = c0, own.sums.d[1] = c1, own.sums.d[2] = c2, own.sums.d[3] = c3;
    multiply(own, emulated->product_f64);
    s0 = own.sums.d[0], s1 = own.sums.d[1], s2 = own.sums.d[2], s3 = own.sums.d[3];
}

// Matrices of halves: lane l gives row l % 8 of matrix l / 8, and gets two elements of row l / 4 (transposed: of the
// column) of each.
struct matrices {
    unsigned row, got[4];
};
template <int COUNT, bool TRANSPOSED> static void load_matrices(void **records, unsigned mask) {
    if (mask != ~0u) emulated->fault("matrices are read by a part of a warp");
    for (int m = 0; m < COUNT; m++) {
        unsigned short matrix[8][8];
        for (int r = 0; r < 8; r++)
            memcpy(matrix[r], emulated_shared_at(((matrices *)records[8 * m + r])->row, 16), 16);
        for (int lane = 0; lane < 32; lane++) {
            const int r = lane / 4, c = lane % 4 * 2;
            const unsigned low = TRANSPOSED ? matrix[c][r] : matrix[r][c];
            const unsigned high = TRANSPOSED ? matrix[c + 1][r] : matrix[r][c + 1];
            ((matrices *)records[lane])->got[m] = high << 16 | low;
        }
    }
}
static inline void ldmatrix_sync_aligned_m8n8_x4_shared_b16(unsigned &m0, unsigned &m1, unsigned &m2,
                                                            unsigned &m3, unsigned row) {
    matrices own = {row, {}};
    emulated->meet(~0u, &own, load_matrices<4, false>);
    m0 = own.got[0], m1 = own.got[1], m2 = own.got[2], m3 = own.got[3];
}
static inline void ldmatrix_sync_aligned_m8n8_x2_trans_shared_b16(unsigned &m0, unsigned &m1, unsigned row) {
    matrices own = {row, {}};
    emulated->meet(~0u, &own, load_matrices<2, true>);
    m0 = own.got[0], m1 = own.got[1];
}

static inline void ld_shared_u32(unsigned &to, unsigned address) {
    memcpy(&to, emulated_shared_at(address, 4), 4);
}
static inline void ld_shared_v2_u32(unsigned &x, unsigned &y, unsigned address) {
    const char *at = emulated_shared_at(address, 8);
    memcpy(&x, at, 4), memcpy(&y, at + 4, 4);
}
static inline void ld_shared_v4_u32(unsigned &x, unsigned &y, unsigned &z, unsigned &w, unsigned address) {
    const char *at = emulated_shared_at(address, 16);
    memcpy(&x, at, 4), memcpy(&y, at + 4, 4), memcpy(&z, at + 8, 4), memcpy(&w, at + 12, 4);
}
static inline void atom_shared_add_u32(unsigned &before, unsigned address, unsigned value) {
    before = atomicAdd((unsigned *)emulated_shared_at(address, 4), value);
}
static inline void red_shared_add_u32(unsigned address, unsigned value) {
    atomicAdd((unsigned *)emulated_shared_at(address, 4), value);
}
static inline void prefetch_global_L2(u64) {}
static inline void bar_sync(unsigned id, unsigned count) {
    emulated->barrier(id, count, 0);
}

static inline void copy_async(unsigned to, u64 from, unsigned bytes, unsigned bytes_read) {
    if (from % bytes && bytes_read)
        emulated->fault("an asynchronous copy reads from an address that is not aligned");
    emulated->copy(emulated_shared_at(to, bytes), (const void *)from, bytes, bytes_read);
}
static inline void cp_async_cg_shared_global(unsigned to, u64 from, unsigned bytes) {
    copy_async(to, from, bytes, bytes);
}
static inline void cp_async_cg_shared_global(unsigned to, u64 from, unsigned bytes, unsigned bytes_read) {
    copy_async(to, from, bytes, bytes_read);
}
static inline void cp_async_ca_shared_global(unsigned to, u64 from, unsigned bytes) {
    copy_async(to, from, bytes, bytes);
}
static inline void cp_async_ca_shared_global(unsigned to, u64 from, unsigned bytes, unsigned bytes_read) {
    copy_async(to, from, bytes, bytes_read);
}
static inline void cp_async_commit_group() {
    emulated->copy_commit();
}
static inline void cp_async_wait_group(unsigned left) {
    emulated->copy_wait(left);
}
static inline void cp_async_wait_all() {
    emulated->copy_commit(), emulated->copy_wait(0);
}
} // namespace ptx

// How the driver starts a kernel: each argument from its place.
template <int... I> struct emulated_places {};
template <int N, int... I> struct emulated_count : emulated_count<N - 1, N - 1, I...> {};
template <int... I> struct emulated_count<0, I...> { typedef emulated_places<I...> type; };
template <class... P, int... I>
static inline void emulated_call(void (*kernel)(P...), void **arguments, emulated_places<I...>) {
    kernel(*(P *)arguments[I]...);
}
template <class... P> static inline void emulated_start(void (*kernel)(P...), void **arguments) {
    emulated_call(kernel, arguments, typename emulated_count<sizeof...(P)>::type());
}
static constexpr int emulated_first(int first = 1024, int = 0) {
    return first;
}

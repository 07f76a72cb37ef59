// SPDX-License-Identifier: MIT
//@ need grid row_words
// Sums of integers, which any order of additions gives the same bits. A coordinate is rounded to a multiple of 2^-45
// (float64: 2^-61) of the least power of two above the largest one of its feature, and cut into digits of 16 bits, the
// last of them signed. A block adds the digits of some points to rows in shared memory by 32-bit atomics, which
// that many points cannot overflow; then these rows are added to those of 64 bits in global memory.

enum {
    CHUNKS = $grid, // blocks of a slot
    SUM_BLOCK = 1024,
    //@ if float64
    DIGITS = 4, // of a number
    //@ else
    DIGITS = 3,
    //@ end
    SUM_BITS = 16 * DIGITS - 3,
    WORDS = D * DIGITS + 1, // sums of a cluster; the last counts its points
    ROW_WORDS = $row_words, // from row to row in shared memory: an odd number, for its banks
    FLUSH_POINTS = 65536    // points after which a block adds its rows to those in global memory
};
constexpr long long SUMS_BYTES = 8ll * RESTARTS * S * WORDS;
constexpr long long SUMS_POINT_BYTES = 0;

// The power of two that makes the numbers of a feature integers.
static __device__ double km_sum_scale(const km_pass_args &args, int f) {
    int exponent = 0;
    frexp(fmax(fabs(args.box[f]), fabs(args.box[D + f])), &exponent);
    return ldexp(1.0, SUM_BITS - exponent);
}

extern "C" __global__ void __launch_bounds__(SUM_BLOCK)
    km_tiled_sums(const __grid_constant__ km_pass_args args) {
    extern __shared__ __align__(16) char km_shared[];
    __shared__ double scales[D];
    unsigned *sums = (unsigned *)km_shared;
    const int slot = blockIdx.y;
    if (args.control->stop || !args.active[slot]) return;
    const km_workspace workspace = km_workspace_of(args);
    const km_label *labels = workspace.labels + slot * workspace.stride;
    const int k = km_ks[slot % KS];
    unsigned long long *totals =
        (unsigned long long *)workspace.sums + ((long long)(slot / KS) * S + km_offsets[slot % KS]) * WORDS;
    long long length = (args.n + CHUNKS - 1) / CHUNKS;
    length = length < FLUSH_POINTS ? length : FLUSH_POINTS;
    for (int f = threadIdx.x; f < D; f += SUM_BLOCK) scales[f] = km_sum_scale(args, f);
    for (int at = threadIdx.x; at < k * ROW_WORDS; at += SUM_BLOCK) sums[at] = 0;
    for (long long first = blockIdx.x * length; first < args.n; first += CHUNKS * length) {
        const long long end = first + length < args.n ? first + length : args.n;
        __syncthreads();
#pragma unroll 1
        for (long long i = first + threadIdx.x; i < end; i += SUM_BLOCK) {
            constexpr int NUMBERS = PIECE_BYTES / sizeof(km_real);
            unsigned *row = sums + labels[i] * ROW_WORDS;
#pragma unroll(D <= 8 ? 2 : 1) // more at once need more registers than a thread has
            for (int f = 0; f < D; f += NUMBERS) {
                const km_piece piece = *(const km_piece *)((const km_real *)args.points + i * D + f);
                KM_UNROLL_FOR (int v = 0; v < NUMBERS; v++) {
                    const long long number = __double2ll_rn((double)piece.at[v] * scales[f + v]);
                    KM_UNROLL_FOR (int digit = 0; digit < DIGITS; digit++)
                        atomicAdd(row + (f + v) * DIGITS + digit,
                                  digit + 1 < DIGITS ? (unsigned)(number >> 16 * digit) & 0xffff
                                                     : (unsigned)(number >> 16 * digit));
                }
            }
            atomicAdd(row + D * DIGITS, 1u);
        }
        __syncthreads();
#pragma unroll 1
        for (int at = threadIdx.x; at < k * ROW_WORDS; at += SUM_BLOCK) {
            const int j = at / ROW_WORDS, word = at % ROW_WORDS;
            const unsigned sum = sums[at];
            if (sum == 0) continue;
            sums[at] = 0;
            const bool is_signed = word < D * DIGITS && word % DIGITS == DIGITS - 1;
            atomicAdd(totals + j * WORDS + word, is_signed ? (unsigned long long)(int)sum : sum);
        }
    }
}

// The totals as doubles, rounded once. Clears the sums and the bounds of the slots for the next pass.
extern "C" __global__ void __launch_bounds__(256) km_tiled_totals(const __grid_constant__ km_pass_args args) {
    if (args.control->stop) return;
    if (blockIdx.x == 0)
        for (int slot = threadIdx.x; slot < RESTARTS * KS; slot += 256)
            km_workspace_of(args).slots[slot] = {0, 0, 0, 0};
    const long long at = blockIdx.x * 256ll + threadIdx.x, row = at / (D + 1);
    const int f = (int)(at % (D + 1));
    if (row >= RESTARTS * S) return;
    unsigned long long *words = (unsigned long long *)km_workspace_of(args).sums + row * WORDS + f * DIGITS;
    if (f == D) {
        args.totals[at] = (double)words[0];
        words[0] = 0;
        return;
    }
    long long carry = 0, low = 0;
    KM_UNROLL_FOR (int i = 0; i + 1 < DIGITS; i++) {
        carry += (long long)words[i];
        low |= (carry & 0xffff) << 16 * i;
        carry >>= 16;
        words[i] = 0;
    }
    carry += (long long)words[DIGITS - 1];
    words[DIGITS - 1] = 0;
    const double sum = fma((double)carry, (double)(1ll << 16 * (DIGITS - 1)), (double)low);
    args.totals[at] = sum / km_sum_scale(args, f);
}

// SPDX-License-Identifier: MIT
// Reduces the tables of chunks, `numbers` in each, in index order: adds them (kind 0), or takes the smallest (1) or the
// largest (2). A block reduces up to KM_REDUCED_NUMBERS numbers, from `column` to before `end`, a thread each, which
// begins with `number`. It reads a part of many tables to shared memory at a time.
__device__ __forceinline__ double step_reduce_chunks(double number, const double *partial, long long chunks,
                                                     long long numbers, long long column, long long end,
                                                     int kind) {
    constexpr int TABLES = KM_THREADS; // at a time
    __shared__ double piece[KM_REDUCED_NUMBERS][TABLES + 1];
    for (long long first = 0; first < chunks; first += TABLES) {
        const int here = (int)(chunks - first < TABLES ? chunks - first : TABLES);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < KM_REDUCED_NUMBERS; i++) {
            const int at = i * KM_THREADS + threadIdx.x, table = at / KM_REDUCED_NUMBERS,
                      c = at % KM_REDUCED_NUMBERS;
            if (table < here && column + c < end)
                piece[c][table] = partial[(first + table) * numbers + column + c];
        }
        __syncthreads();
        if (threadIdx.x >= KM_REDUCED_NUMBERS) continue;
#pragma unroll 8
        for (int table = 0; table < here; table++) {
            const double other = piece[threadIdx.x][table];
            number = kind == 0   ? __dadd_rn(number, other)
                     : kind == 1 ? fmin(number, other)
                                 : fmax(number, other);
        }
    }
    return number;
}

// SPDX-License-Identifier: MIT
// A lane has a run: its columns and centroids, in registers where these hold them, and its sums in shared memory.
// Points come in tiles of whole rows, which all runs of a block read: lanes read a row at a time, each its own
// columns, which lie in different banks or are the same. So a value that is read from memory once serves every run
// of the block.
//
// A label is that of the largest score x . c - |c|^2 / 2, which is -|c|^2 / 2 first and then a multiply-add for
// each column, in their order: as in the CPU's kernels. Sums are of x - c, about the centroid of the label. These
// are short once centroids are near the means, so that a span of points in the points' own type loses no digits of
// a mean; points that all are the same add up to exactly 0. Sums of spans are added as doubles, in their order
// (runs.cu).

// Points and their weights in shared memory, twice: one tile is copied while the other one is read.
struct __align__(16) subset_tile {
    km_real x[SUBSET_TILE_POINTS * D];
    km_real w[WEIGHTED ? SUBSET_TILE_POINTS : 1];
};

// Bytes that one instruction copies: 16, or fewer where a tile is not a multiple of that.
constexpr int SUBSET_TILE_BYTES = SUBSET_TILE_POINTS * D * (int)sizeof(km_real);
constexpr int SUBSET_PIECE = SUBSET_TILE_BYTES % 16 == 0 ? 16 : SUBSET_TILE_BYTES % 8 == 0 ? 8 : 4;

// Copies that go on beside the arithmetic, where the device has them (sm_80 and newer); else at once.
template <int BYTES> struct __align__(BYTES) subset_piece {
    unsigned at[BYTES / 4];
};

template <int BYTES> __device__ __forceinline__ void subset_copy(void *to, const void *from) {
#if __CUDA_ARCH__ >= 800
    const unsigned address = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(BYTES)
                 : "memory");
#else
    *(subset_piece<BYTES> *)to = *(const subset_piece<BYTES> *)from;
#endif
}

__device__ __forceinline__ void subset_copies_commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

__device__ __forceinline__ void subset_copies_wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group 0;" ::: "memory");
#endif
}

// Begins to copy the tile from point `first` on, as a whole: rows behind the last point may be read (KM_PAD_ROWS).
__device__ __forceinline__ void subset_fetch(km_real *x, km_real *w, const km_subsets_args &args,
                                             long long first) {
    const char *from = (const char *)((const km_real *)args.points + first * D);
    for (int at = threadIdx.x * SUBSET_PIECE; at < SUBSET_TILE_BYTES; at += blockDim.x * SUBSET_PIECE)
        subset_copy<SUBSET_PIECE>((char *)x + at, from + at);
    if (WEIGHTED)
        for (int at = threadIdx.x; at < SUBSET_TILE_POINTS; at += blockDim.x)
            subset_copy<sizeof(km_real)>(w + at, (const km_real *)args.weights + first + at);
    subset_copies_commit();
}

// Rows of numbers of a run in shared memory, one for each of its clusters: vectors of 16 bytes, then what is left. A
// lane reads those of any cluster without a conflict. What depends on the lane alone is added to an address first, so
// that it is outside the loops over points.
template <int NUMBERS, int THREADS> struct subset_rows {
    static constexpr int WIDTH = 16 / (int)sizeof(km_real), VECTORS = (NUMBERS + 1) / WIDTH;
    static constexpr int LEFT = NUMBERS > VECTORS *WIDTH ? NUMBERS - VECTORS *WIDTH : 0;
    static constexpr int ROW_BYTES = (VECTORS * 16 + LEFT * (int)sizeof(km_real)) * THREADS;
    struct __align__(16) vector {
        km_real at[WIDTH];
    };
    // Row j of this lane: its vectors are THREADS apart, and so are the numbers that are left.
    static __device__ __forceinline__ vector *vectors(char *rows, int j) {
        return (vector *)(rows + threadIdx.x * sizeof(vector) + j * ROW_BYTES);
    }
    static __device__ __forceinline__ km_real *left(char *rows, int j) {
        return (km_real *)(rows + VECTORS * 16 * THREADS + threadIdx.x * sizeof(km_real) + j * ROW_BYTES);
    }
    static __device__ __forceinline__ void load(km_real *out, char *rows, int j) {
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            const vector read = vectors(rows, j)[v * THREADS];
#pragma unroll
            for (int i = 0; i < WIDTH; i++)
                if (v * WIDTH + i < NUMBERS) out[v * WIDTH + i] = read.at[i];
        }
#pragma unroll
        for (int i = 0; i < LEFT; i++) out[VECTORS * WIDTH + i] = left(rows, j)[i * THREADS];
    }
    static __device__ __forceinline__ void store(char *rows, int j, const km_real *in) {
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            vector written;
#pragma unroll
            for (int i = 0; i < WIDTH; i++)
                written.at[i] = v * WIDTH + i < NUMBERS ? in[v * WIDTH + i] : (km_real)0;
            vectors(rows, j)[v * THREADS] = written;
        }
#pragma unroll
        for (int i = 0; i < LEFT; i++) left(rows, j)[i * THREADS] = in[VECTORS * WIDTH + i];
    }
};

// The labels of some points at a time, so that a centroid that is read serves all of them.
template <int C, int K, int THREADS, int POINTS, int HELD>
__device__ __forceinline__ void subset_labels(int (&label)[POINTS], const km_real (&x)[POINTS][C],
                                              const km_real (&held)[HELD], char *own_rows) {
    typedef subset_rows<C + 1, THREADS> rows;
    km_real best[POINTS];
#pragma unroll(HELD > 1 ? K : 1)
    for (int j = 0; j < K; j++) {
        km_real row[C + 1];
        if (HELD == 1) rows::load(row, own_rows, j);
#pragma unroll
        for (int f = 0; f <= C; f++)
            if (HELD > 1) row[f] = held[HELD > 1 ? j * (C + 1) + f : 0];
#pragma unroll
        for (int p = 0; p < POINTS; p++) {
            km_real score = row[C];
#pragma unroll
            for (int f = 0; f < C; f++) score = fma(x[p][f], row[f], score);
            const bool better = j == 0 || score > best[p];
            best[p] = better ? score : best[p];
            label[p] = better ? j : label[p];
        }
    }
}

template <int C, int POINTS>
__device__ __forceinline__ void subset_read(km_real (&x)[POINTS][C], const km_real *tile,
                                            const int (&column)[C]) {
#pragma unroll
    for (int p = 0; p < POINTS; p++)
#pragma unroll
        for (int f = 0; f < C; f++) x[p][f] = tile[p * D + column[f]];
}

// Block (runs, span): partial[span][j * (C + 1) + f][position in `active`] = sums of w (x - c), then of w.
template <int C, int K, int THREADS>
__device__ __forceinline__ void subset_pass(const km_subsets_args &args) {
    typedef subset_rows<C + 1, THREADS> sums;
    typedef subset_rows<C + 1, THREADS> rows;
    constexpr bool IN_REGISTERS = K * (C + 1) * (int)sizeof(km_real) <= SUBSET_REGISTER_BYTES;
    constexpr int HELD = IN_REGISTERS ? K * (C + 1) : 1, POINTS = IN_REGISTERS ? 4 : 8;
    extern __shared__ __align__(16) char subset_memory[];
    subset_tile *tiles = (subset_tile *)subset_memory;
    char *own_sums = subset_memory + (2 * sizeof(subset_tile) + 15) / 16 * 16;
    char *own_rows = own_sums + K * sums::ROW_BYTES;
    const int at = blockIdx.x * THREADS + threadIdx.x, t = threadIdx.x;
    const int run = args.active[at < args.count ? at : 0];
    const bool is_busy = at - t % 32 < args.count; // some lane of the warp has a run
    const km_real *table = (const km_real *)args.table + run;
    int column[C];
#pragma unroll
    for (int f = 0; f < C; f++) column[f] = args.columns[f * args.stride + run];
    km_real held[HELD];
#pragma unroll(IN_REGISTERS ? K : 1)
    for (int j = 0; j < K; j++) {
        km_real row[C + 1];
#pragma unroll
        for (int f = 0; f <= C; f++) {
            row[f] = table[(j * (C + 1) + f) * args.stride];
            if (IN_REGISTERS) held[IN_REGISTERS ? j * (C + 1) + f : 0] = row[f];
        }
        rows::store(own_rows, j, row);
    }
    for (long long index = blockIdx.y; index < args.spans_count; index += gridDim.y) {
        const km_span span = args.spans[index];
#pragma unroll 1
        for (int j = 0; j < K; j++) {
            const km_real none[C + 1] = {};
            sums::store(own_sums, j, none);
        }
        subset_fetch(tiles[0].x, tiles[0].w, args, span.first);
        for (int begin = 0, which = 0; begin < span.count; begin += SUBSET_TILE_POINTS, which ^= 1) {
            subset_copies_wait();
            __syncthreads();
            if (begin + SUBSET_TILE_POINTS < span.count)
                subset_fetch(tiles[which ^ 1].x, tiles[which ^ 1].w, args,
                             span.first + begin + SUBSET_TILE_POINTS);
            const int left = span.count - begin;
            const int here = left < SUBSET_TILE_POINTS ? left : SUBSET_TILE_POINTS;
            const int count = is_busy ? here : 0;
            const km_real *tile = tiles[which].x;
            const auto add = [&](const km_real(&x)[C], int label, int point) {
                km_real sum[C + 1], row[C + 1];
                rows::load(row, own_rows, label);
                sums::load(sum, own_sums, label);
                const km_real w = WEIGHTED ? tiles[which].w[point] : (km_real)1;
#pragma unroll
                for (int f = 0; f < C; f++)
                    sum[f] = WEIGHTED ? fma(w, x[f] - row[f], sum[f]) : sum[f] + (x[f] - row[f]);
                sum[C] += w;
                sums::store(own_sums, label, sum);
            };
            int point = 0;
#pragma unroll 1
            for (; point + POINTS <= count; point += POINTS, tile += POINTS * D) {
                km_real x[POINTS][C];
                int label[POINTS];
                subset_read<C, POINTS>(x, tile, column);
                subset_labels<C, K, THREADS>(label, x, held, own_rows);
#pragma unroll
                for (int p = 0; p < POINTS; p++) add(x[p], label[p], point + p);
            }
#pragma unroll 1
            for (; point < count; point++, tile += D) {
                km_real x[1][C];
                int label[1];
                subset_read<C, 1>(x, tile, column);
                subset_labels<C, K, THREADS>(label, x, held, own_rows);
                add(x[0], label[0], point);
            }
        }
        __syncthreads(); // the next span overwrites the tiles
        if (at >= args.count) continue;
        km_real *out = (km_real *)args.partial + index * K * (C + 1) * args.count + at;
#pragma unroll 1
        for (int j = 0; j < K; j++) {
            km_real sum[C + 1];
            sums::load(sum, own_sums, j);
#pragma unroll
            for (int f = 0; f <= C; f++) out[(long long)(j * (C + 1) + f) * args.count] = sum[f];
        }
    }
}

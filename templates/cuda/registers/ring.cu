// SPDX-License-Identifier: MIT
//@ use shared_address copy_16_if copy_commit copy_wait copy_wait_all
//@ if weighted
//@ use copy_cached_if
//@ end
// Points come through shared memory: each warp has a ring of tiles there. The next tiles are copied while it works on
// one.

//@ if swizzled
// Lanes read rows of an even number of pieces, which would give bank conflicts. So the pieces of a row are permuted: a
// piece lies at its index XOR this number.
static __device__ __forceinline__ unsigned km_swizzle(unsigned row) {
    return row % 8 / (8 / SWIZZLE);
}

// Where a lane puts its piece, of the warp's 32 pieces from `first` on.
static __device__ __forceinline__ unsigned km_piece_index(unsigned first, unsigned lane) {
    //@ if whole_rows
    return first + (lane ^ km_swizzle(lane / PIECES) ^ km_swizzle(first / PIECES));
    //@ else
    const unsigned row = (first + lane) / PIECES;
    return row * PIECES + ((first + lane) % PIECES ^ km_swizzle(row));
    //@ end
}

//@ end
// Starts to copy a full tile: the points of $stage_text.
static __device__ __forceinline__ void km_copy_whole_tile(km_stage &stage, const km_pass_args &args,
                                                          int tile) {
    const unsigned lane = threadIdx.x % 32;
    const long long first = (long long)tile * TILE;
    const km_vector *from = (const km_vector *)((const km_real *)args.points + first * D) + lane;
    //@ if warp_groups
    constexpr int WARP_PIECES =
        (LOADS * PIECES + SPLIT - 1) / SPLIT; // that each of the warps with these points copies
    const unsigned begin = threadIdx.x / THREADS * WARP_PIECES * 32;
    //@ end
    KM_UNROLL_FOR (int i = 0; i < $warp_pieces; i++) {
        //@ if warp_groups
        const unsigned piece = begin + i * 32;
        if (LOADS * PIECES % SPLIT && piece >= 32 * LOADS * PIECES) continue;
        //@ else
        const unsigned piece = i * 32;
        //@ end
        //@ if swizzled
        km_copy_16_if(km_shared_address(&stage.pieces[km_piece_index(piece, lane)]), from + piece, true);
        //@ else
        km_copy_16_if(km_shared_address(&stage.pieces[piece + lane]), from + piece, true);
        //@ end
    }
    //@ if weighted
    const km_real *weights = (const km_real *)args.weights + first + $lane_point;
    KM_UNROLL_FOR (int load = $first_load; load < LOADS; load += $loads_step)
        km_copy_cached_if<$weights_bytes>(km_shared_address(&stage.weights[load][$lane_weight]),
                                          weights + load * LOAD_POINTS, true);
    //@ end
}

// The same for the last tile, where it is not full: zeros past the last point.
static __device__ __forceinline__ void km_copy_last_tile(km_stage &stage, const km_pass_args &args,
                                                         int tile) {
    const unsigned lane = threadIdx.x % 32;
    const long long first = (long long)tile * TILE;
    const km_vector *from = (const km_vector *)((const km_real *)args.points + first * D);
    KM_UNROLL_1_FOR (unsigned piece = $first_piece; piece < 32 * LOADS * PIECES; piece += $pieces_step) {
        const unsigned row = (piece + lane) / PIECES;
        const bool valid = first + $row_point < args.n;
        //@ if swizzled
        km_copy_16_if(km_shared_address(&stage.pieces[km_piece_index(piece, lane)]),
                      valid ? from + piece + lane : from, valid);
        //@ else
        km_copy_16_if(km_shared_address(&stage.pieces[piece + lane]), valid ? from + piece + lane : from,
                      valid);
        //@ end
    }
    //@ if weighted
    const km_real *weights = (const km_real *)args.weights;
    KM_UNROLL_1_FOR (int load = $first_load; load < LOADS; load += $loads_step) {
        const long long point = first + load * LOAD_POINTS + $lane_point;
        km_copy_cached_if<$weights_bytes>(km_shared_address(&stage.weights[load][$lane_weight]),
                                          weights + (point < args.n ? point : 0), point < args.n);
    }
    //@ end
}

// Starts to copy a tile. Past the last tile the group of copies is empty, so that km_wait_for_tile counts right.
static __device__ __forceinline__ void km_copy_tile(km_stage &stage, const km_pass_args &args, int tile,
                                                    int tiles) {
    if (tile < (int)(args.n / TILE))
        km_copy_whole_tile(stage, args, tile);
    else if (tile < tiles)
        km_copy_last_tile(stage, args, tile);
    km_copy_commit();
}

//@ if warp_groups
// Waits for the oldest tile that is being copied, and until the warps that share the ring are done with the one before.
static __device__ __forceinline__ void km_wait_for_tile() {
    km_copy_wait<STAGES - 2>();
    asm volatile("bar.sync %0, %1;" ::"r"(1 + threadIdx.x % THREADS / 32), "n"(32 * SPLIT) : "memory");
}
//@ else
// Waits for the oldest tile that is being copied, and until all lanes are done with the one before.
static __device__ __forceinline__ void km_wait_for_tile() {
    km_copy_wait<STAGES - 2>();
    __syncwarp();
}
//@ end

// Reads the thread's points of a tile. An address is the row's byte offset in `shared` and a constant: one register
// serves all loads.
static __device__ __forceinline__ void km_load_tile(km_points &points, const km_block &shared,
                                                    const km_stage &stage) {
    const unsigned lane = threadIdx.x % 32, begin = (const char *)&stage - (const char *)&shared;
    //@ if swizzled
    const unsigned row = begin + (lane * PIECES + km_swizzle(lane)) * 16;
    //@ else
    const unsigned row = begin + lane * PIECES * 16;
    //@ end
    KM_UNROLL_FOR (int load = 0; load < LOADS; load++) {
        KM_UNROLL_FOR (int v = 0; v < PIECES; v++) {
            //@ if swizzled
            const unsigned piece =
                (row ^ v % SWIZZLE * 16) + (load * 32 * PIECES + v / SWIZZLE * SWIZZLE) * 16;
            //@ else
            const unsigned piece = row + (load * 32 * PIECES + v) * 16;
            //@ end
            const km_vector numbers = *(const km_vector *)((const char *)&shared + piece);
            //@ if adjacent_points
            KM_UNROLL_FOR (int i = v * VECTOR; i < (v + 1) * VECTOR; i++)
                points.x[load * ADJACENT + i / D][i % D] = numbers.at[i % VECTOR];
            //@ else
            KM_UNROLL_FOR (int i = 0; i < VECTOR; i++) points.x[load][v * VECTOR + i] = numbers.at[i];
            //@ end
        }
        //@ if weighted
        //@ if adjacent_points
        KM_UNROLL_FOR (int i = 0; i < ADJACENT; i++)
            points.weight[load * ADJACENT + i] = stage.weights[load][lane * ADJACENT + i];
        //@ else
        points.weight[load] = stage.weights[load][lane];
        //@ end
        //@ end
    }
}

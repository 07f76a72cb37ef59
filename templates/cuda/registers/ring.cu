// SPDX-License-Identifier: MIT
//@ use shared_address copy_16_if copy_commit copy_wait copy_wait_all
//@ if weighted
//@ use copy_cached_if
//@ end
// Points come through shared memory: each warp has a ring of tiles there, which is filled while it works.

//@ if turned
// Lanes read rows of an even number of pieces. Each is turned about by so many of them, so that lanes that read at the
// same time meet in no bank.
static __device__ __forceinline__ unsigned km_turn(unsigned row) {
    return row % 8 / (8 / TURN);
}

// Where a warp puts 32 pieces from `first` on, a lane each.
static __device__ __forceinline__ unsigned km_place(unsigned first, unsigned lane) {
    //@ if whole_rows
    return first + (lane ^ km_turn(lane / PIECES) ^ km_turn(first / PIECES));
    //@ else
    const unsigned row = (first + lane) / PIECES;
    return row * PIECES + ((first + lane) % PIECES ^ km_turn(row));
    //@ end
}

//@ end
// Starts to copy a whole tile's points of $stage_text.
static __device__ __forceinline__ void km_fetch_whole(km_stage &stage, const km_pass_args &args, int tile) {
    const unsigned lane = threadIdx.x % 32;
    const long long first = km_first_of_warp(tile);
    const km_vector *from = (const km_vector *)((const km_real *)args.points + first * D) + lane;
    //@ if crew
    constexpr int SHARE = (LOADS * PIECES + SPLIT - 1) / SPLIT; // of each warp that has these points
    const unsigned begin = threadIdx.x / THREADS * SHARE * 32;
    //@ end
    KM_UNROLL_FOR (int i = 0; i < $loads_share; i++) {
        //@ if crew
        const unsigned piece = begin + i * 32;
        if (LOADS * PIECES % SPLIT && piece >= 32 * LOADS * PIECES) continue;
        //@ else
        const unsigned piece = i * 32;
        //@ end
        //@ if turned
        km_copy_16_if(km_shared_address(&stage.pieces[km_place(piece, lane)]), from + piece, true);
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

// The same for the last tile, where it is not a whole one: zeros past the last point.
static __device__ __forceinline__ void km_fetch_last(km_stage &stage, const km_pass_args &args, int tile) {
    const unsigned lane = threadIdx.x % 32;
    const long long first = km_first_of_warp(tile);
    const km_vector *from = (const km_vector *)((const km_real *)args.points + first * D);
    KM_UNROLL_1_FOR (unsigned piece = $first_piece; piece < 32 * LOADS * PIECES; piece += $pieces_step) {
        const unsigned row = (piece + lane) / PIECES;
        const bool valid = first + $row_point < args.n;
        //@ if turned
        km_copy_16_if(km_shared_address(&stage.pieces[km_place(piece, lane)]),
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

// Starts to copy a tile. Where there is none, its group of copies is empty, so that km_await counts right.
static __device__ __forceinline__ void km_fetch(km_stage &stage, const km_pass_args &args, int tile,
                                                int tiles) {
    if (tile < (int)(args.n / TILE))
        km_fetch_whole(stage, args, tile);
    else if (tile < tiles)
        km_fetch_last(stage, args, tile);
    km_copy_commit();
}

//@ if crew
// Waits for the oldest tile that is on its way, and for the warps that share the ring to be done with the one before.
static __device__ __forceinline__ void km_await() {
    km_copy_wait<STAGES - 2>();
    asm volatile("bar.sync %0, %1;" ::"r"(1 + threadIdx.x % THREADS / 32), "n"(32 * SPLIT) : "memory");
}
//@ else
// Waits for the oldest tile that is on its way, and for the lanes to be done with the one before.
static __device__ __forceinline__ void km_await() {
    km_copy_wait<STAGES - 2>();
    __syncwarp();
}
//@ end

// Reads the thread's points of a tile. Addresses are bytes from `tiled`: one register, and numbers that the compiler
// knows.
static __device__ __forceinline__ void km_load(km_points &points, const km_block &shared,
                                               const km_stage &stage) {
    const unsigned lane = threadIdx.x % 32, begin = (const char *)&stage - (const char *)&shared;
    //@ if turned
    const unsigned row = begin + (lane * PIECES + km_turn(lane)) * 16;
    //@ else
    const unsigned row = begin + lane * PIECES * 16;
    //@ end
    KM_UNROLL_FOR (int load = 0; load < LOADS; load++) {
        KM_UNROLL_FOR (int v = 0; v < PIECES; v++) {
            //@ if turned
            const unsigned piece = (row ^ v % TURN * 16) + (load * 32 * PIECES + v / TURN * TURN) * 16;
            //@ else
            const unsigned piece = row + (load * 32 * PIECES + v) * 16;
            //@ end
            const km_vector numbers = *(const km_vector *)((const char *)&shared + piece);
            //@ if side_by_side
            KM_UNROLL_FOR (int i = v * VECTOR; i < (v + 1) * VECTOR; i++)
                points.x[load * RUN + i / D][i % D] = numbers.at[i % VECTOR];
            //@ else
            KM_UNROLL_FOR (int i = 0; i < VECTOR; i++) points.x[load][v * VECTOR + i] = numbers.at[i];
            //@ end
        }
        //@ if weighted
        //@ if side_by_side
        KM_UNROLL_FOR (int i = 0; i < RUN; i++)
            points.weight[load * RUN + i] = stage.weights[load][lane * RUN + i];
        //@ else
        points.weight[load] = stage.weights[load][lane];
        //@ end
        //@ end
    }
}

// SPDX-License-Identifier: MIT
// Sums of clusters, as integers of 64 bits.

//@ if not form_expanded
//@ if sums_shared
// Those of a block are in shared memory, the lower and the upper halves apart: an addition to the lower half says by
// what was there whether it carries. Beside them lie the scales.
struct km_block_sums_of {
    unsigned low[SUMS], high[SUMS];
    double scales[D + 1];
};

// Adds a value to one sum, and takes it away from another where has_old.
__device__ __forceinline__ void km_add(km_block_sums_of &sums, long long to, long long from, bool has_old,
                                       long long value) {
    const unsigned long long added = (unsigned long long)value, taken = 0 - added;
    const unsigned before = atomicAdd(&sums.low[to], (unsigned)added);
    const unsigned other = has_old ? atomicAdd(&sums.low[from], (unsigned)taken) : 0;
    const unsigned high = (unsigned)(added >> 32) + (before + (unsigned)added < before);
    if (high) atomicAdd(&sums.high[to], high);
    const unsigned other_high = (unsigned)(taken >> 32) + (other + (unsigned)taken < other);
    if (has_old && other_high) atomicAdd(&sums.high[from], other_high);
}

//@ else
typedef unsigned long long km_block_sums_of;

// Adds a value to one sum, and takes it away from another where has_old.
__device__ __forceinline__ void km_add(km_block_sums_of &sums, long long to, long long from, bool has_old,
                                       long long value) {
    atomicAdd(&sums + to, (unsigned long long)value);
    if (has_old) atomicAdd(&sums + from, 0 - (unsigned long long)value);
}

//@ end
// Adds a value, which is a multiple of the feature's unit but for rounding, to the sum of a column, and takes it away
// from that of another.
__device__ __forceinline__ void km_move_value(km_block_sums_of &sums, long long to, long long from,
                                              bool has_old, long long f, double value) {
    const long long to_at = (to * (D + 1ll) + f) * INTEGERS, from_at = (from * (D + 1ll) + f) * INTEGERS;
    //@ if float64
    // The second integer has what the first one rounds away.
    const double first = rint(value), rest = (value - first) * 1073741824.0;
    km_add(sums, to_at, from_at, has_old, (long long)first);
    km_add(sums, to_at + 1, from_at + 1, has_old, __double2ll_rn(rest));
    //@ else
    km_add(sums, to_at, from_at, has_old, __double2ll_rn(value));
    //@ end
}

// Moves a point's nonzeros from `first` on, every step-th, from one column to another.
__device__ __forceinline__ void km_move_values(km_block_sums_of &sums, const km_sparse_table &points,
                                               const double *scales, const km_row &row, double weight,
                                               bool has_old, long long from, long long to, unsigned first,
                                               unsigned step) {
    const km_real *values = (const km_real *)points.values + row.begin;
    const km_index *indices = (const km_index *)points.indices + row.begin;
    for (unsigned i = first; i < row.count; i += step)
        km_move_value(sums, to, from, has_old, indices[i], (double)values[i] * weight * scales[indices[i]]);
    if (first == 0) km_move_value(sums, to, from, has_old, D, weight * scales[D]);
}

//@ if stages_tiles
// The same of nonzeros that are in shared memory.
__device__ __forceinline__ void km_move_staged(km_block_sums_of &sums, const double *scales,
                                               const km_nonzero *nonzeros, unsigned count, double weight,
                                               bool has_old, long long from, long long to, unsigned first,
                                               unsigned step) {
    for (unsigned i = first; i < count; i += step) {
        const unsigned f = km_index_of(nonzeros[i].feature);
        km_move_value(sums, to, from, has_old, f, (double)nonzeros[i].x * weight * scales[f]);
    }
    if (first == 0) km_move_value(sums, to, from, has_old, D, weight * scales[D]);
}

//@ end
//@ end
// Totals of active slots, a thread each; and what the next pass begins with.
extern "C" __global__ void __launch_bounds__(256)
    km_sparse_totals(const __grid_constant__ km_pass_args args) {
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    const long long at = blockIdx.x * 256ll + threadIdx.x;
    if (at >= COLUMNS * (D + 1ll)) return;
    const int column = (int)(at / (D + 1ll)), slot = km_slot_of(column);
    const long long f = at % (D + 1ll);
    if (at == 0) {
        workspace.progress->next_tile = 0;
        //@ if sums_anew
        workspace.progress->changes[0] = workspace.progress->changes[1];
        workspace.progress->changes[1] = 0;
        //@ end
    }
    if (f == 0 && column == km_first_column(slot)) {
        workspace.slots[slot].norm = 0;
        if (args.active[slot]) workspace.slots[slot].begun = 1;
    }
    if (!args.active[slot]) return;
    //@ if float64
    const double sum = (double)(long long)workspace.sums[2 * at] +
                       (double)(long long)workspace.sums[2 * at + 1] / 1073741824.0;
    //@ else
    const double sum = (double)(long long)workspace.sums[at];
    //@ end
    args.totals[at] = sum / workspace.scales[f];
}

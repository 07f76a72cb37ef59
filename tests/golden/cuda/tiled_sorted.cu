// Of the text of {features: 20, clusters: "1000, 4096", target: cuda:sm_90}: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 42 definitions

enum {
    ROW_PADDING = 8, // numbers between rows in shared memory, so that eight rows have no bank conflicts
    ROUND_AHEAD = 2  // pieces of points that a thread reads ahead before it rounds them
// ... lines of a template
};

// ... 18 definitions

// Writes the labels of the block's points for one slot.
__device__ __forceinline__ void km_write_slot_labels(km_block &block, const km_pass_args &args,
                                                     const km_slot_panels &panels, const km_best_two *state,
                                                     long long first) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    km_best_two rows[ROWS];
    KM_UNROLL_FOR (int r = 0; r < ROWS; r++) {
        const int column = km_column(__float_as_uint(state[r].best) & (COLUMNS - 1));
        const int j = (state[r].j - panels.begin) * TILE + warp / POINT_WARPS * WARP_CLUSTERS + column;
        rows[r] = {state[r].best, state[r].second, j};
    }
    km_reduce_lanes<ROWS, POINT_LANES / 2>(rows);
    const int local = warp % POINT_WARPS * WARP_POINTS + km_row(lane % POINT_LANES / (POINT_LANES / ROWS));
    bool mine = lane % (POINT_LANES / ROWS) == 0;
    const long long i = first + local;
    mine = mine && i < args.n;
    const km_norms point = km_norms_of(block.workspace, mine ? i : 0);
    km_write_label(
        block.workspace, args.n, panels.slot, i, mine, rows[0],
        km_margin(km_underflow(block.workspace), km_bounds_of(block, panels.slot), point, rows[0].best));
}

// Labels of all active slots, and lists of ambiguous points.
extern "C" __global__ void __launch_bounds__(BLOCK, 2)
    // ... lines of a template
            // ... lines of a template
            if (tile + 1 == panels.end) km_write_slot_labels(block, args, panels, state, first);
        });
    }
}

// ... 16 definitions
// ... lines of a template
        if (writes_weight) to[D] = (double)(position - current.first);
    };
    km_label_sums current = {};
    current.first = begin;
    current.label = labels[order[begin]];
    if (writes_weight)
        km_begin_clusters(sorting, begin > 0 ? labels[order[begin - 1]] + 1 : 0, current.label, begin);
    for (long long at = begin; at < end; at += SUM_AHEAD) {
        km_features x[SUM_AHEAD];
        int label[SUM_AHEAD];
        KM_UNROLL_FOR (int a = 0; a < SUM_AHEAD; a++) {
            const long long point = order[at + a < end ? at + a : at];
            label[a] = labels[point];
            x[a] = {};
            if (f < D) x[a] = *(const km_features *)((const km_real *)args.points + point * D + f);
        }
        KM_UNROLL_FOR (int a = 0; a < SUM_AHEAD; a++) {
            if (at + a >= end) break;
            if (label[a] != current.label) {
                write_sums(current, at + a);
                if (writes_weight) km_begin_clusters(sorting, current.label + 1, label[a], at + a);
                current = {};
                current.first = at + a;
                current.label = label[a];
            }
            KM_UNROLL_FOR (int i = 0; i < NUMBERS; i++) current.sums[i] += x[a].at[i];
        }
    }
    write_sums(current, end);
    if (writes_weight && end == args.n) km_begin_clusters(sorting, current.label + 1, km_ks[slot % KS], end);
}

// ... 2 definitions

// SPDX-License-Identifier: MIT
// Subsets of columns that a thread has in work (subsets.c), tiles of rows for them, and their last read.
#ifndef KM_RUNTIME_CPU_SUBSETS_H
#define KM_RUNTIME_CPU_SUBSETS_H
#include "../explore/best.h"
#include "../sweep.h"
#include "cpu.h"
#include "subset_kernels.h"

// A subset in work.
typedef struct cpu_subset_task {
    const km_subset *subset;
    km_subset_fit *fits; // of each K
    cpu_engine view;     // n points of `size` features that are not there, but while `gathered`
    km_stop stop;
    cpu_slot *slots;  // restarts x clusters_count
    double *inertias; // the same
    double *memory;   // of all slots, and their partial sums
    uint8_t *labels;  // of all slots, in the block's: a point costs additions only where its label changes
    int64_t *picks;   // restarts x K of the largest
    km_contest *contests;              // clusters_count
    double *best;                      // of each K: centroids, then weights
    int64_t running;                   // slots that are not done
    const cpu_subset_kernels *columns; // of columns where they lie; NULL: they are gathered
} cpu_subset_task;

typedef struct cpu_subset_block {
    const km_subsets_job *job;
    const cpu_engine *table;
    cpu_subset_task *tasks;
    int64_t count, k_max, k_sum, size_max;
    void *tile;                // reals: the columns of a subset in a tile of rows
    km_cpu_slot *list;         // slots of a subset
    uint8_t *points;           // reals: all points of one subset, once they were needed ...
    const km_subset *gathered; // ... and which; NULL: none yet
    uint8_t *labels;           // of all tasks, once they are needed
    double *weights;           // scratch
    double *sums;              // k_max rows of SUBSET_ROW, zeros between tiles
    uint64_t
        *cells; // of a tile, while the last pass counts by bits (km_cpu_subset_kernels.count_cells), or NULL
} cpu_subset_block;

static inline double *cpu_subset_partial(const cpu_subset_task *t, const cpu_slot *slot) {
    return slot->totals + slot->k * t->view.pitch;
}
// Whether slot s is read: in the last pass, whether it is the best run of its K.
static inline int cpu_subset_takes_part(const cpu_subset_task *t, int64_t s, int64_t ks, int is_last) {
    if (is_last) return t->fits[s % ks].restart == s / ks;
    return km_slot_is_active(t->slots[s].state.phase);
}

// subsets.c

// All points of the subset's columns, for steps that read points one by one, until the next ones are brought together.
km_status km_cpu_subset_gather_all(cpu_subset_task *t, cpu_subset_block *b, km_error *err);
// What becomes of the slots of a subset after a pass.
km_status km_cpu_subset_step(cpu_subset_task *t, cpu_subset_block *b, km_error *err);

// subsets_boxes.c

// Whether a subset's passes go over boxes of its points first. It depends on the subset's points and the job alone.
int km_cpu_subset_has_boxes(const cpu_subset_task *t, const cpu_subset_block *b);
// Passes of a seeded subset over boxes, until its runs are done or the boxes are found not to pay. The next pass
// over the table is a first one.
km_status km_cpu_subset_boxes_run(cpu_subset_task *t, cpu_subset_block *b, km_error *err);
// Bytes while that runs, beside the columns.
int64_t km_cpu_subset_boxes_bytes(int64_t n, int64_t size);

// subsets_tiles.c

// `count` points from `first` on, which starts an SoA group: whole SoA groups of the subset's columns alone.
void km_cpu_subset_gather(void *out, const cpu_engine *table, const km_subset *subset, int64_t first,
                          int64_t count);
// The same, of the subset's columns from `column` on; those before are there.
void km_cpu_subset_gather_from(uint8_t *to, const cpu_engine *table, const km_subset *subset, int64_t first,
                               int64_t count, int64_t column);
// The columns of a tile of rows, where they lie.
cpu_subset_tile km_cpu_subset_tile(const cpu_engine *table, const km_subset *subset, int64_t first,
                                   int64_t count);
// What a block needs after slot s of subset i in the tile from `first` on: the labels of slot s of the next subset, in
// the last pass of the best run of K number s, and with `with_points` a part of the next tile.
cpu_subset_ahead km_cpu_subset_ahead(const cpu_subset_block *b, int64_t i, int64_t s, int64_t first,
                                     int is_last, int with_points);
// Fetches that for all slots of subset i at once, where its columns are brought together.
void km_cpu_subset_fetch(const cpu_subset_block *b, int64_t i, int64_t first, int is_last);
// A pass over a tile of columns that are brought together, in b->tile: of all slots that run, or with is_last of the
// best run of each K, whose points move to their last labels.
void km_cpu_subset_pass(cpu_subset_task *t, cpu_subset_block *b, int64_t first, int64_t points, int is_last);
// Adds a tile's sums, without weights, to totals; the sums are zeros then.
void km_cpu_subset_add(double *totals, double *sums, int64_t k, const cpu_engine *view);
// Bytes of the labels of one run: whole SoA groups.
static inline int64_t cpu_subset_label_bytes(const cpu_engine *table) {
    return km_round_up(table->base.n, table->soa_points);
}
// Memory of the labels of all runs of a subset.
km_status km_cpu_subset_labels(cpu_subset_task *t, cpu_subset_block *b, km_error *err);
// subsets_finish.c: one read of the table for the best runs of all subsets. has_runs: the slots have their last labels
// and sums.
km_status km_cpu_subset_block_finish(cpu_subset_block *b, int has_runs, km_error *err);

#endif

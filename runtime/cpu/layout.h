// SPDX-License-Identifier: MIT
// What differs in the CPU engine by how points lie: a table of functions for each layout, in a file of its own.
//
// A third layout is one file with its functions, a row in engine.c, and its value of km_layout.
#ifndef KM_RUNTIME_CPU_LAYOUT_H
#define KM_RUNTIME_CPU_LAYOUT_H
#include "cpu.h"

enum { SEED_CANDIDATES_MAX = 16 }; // km_candidates is at most 13

// A k-means++ chain as a pass over the points has it.
typedef struct cpu_seed_chain {
    uint8_t *nearest; // reals, whole SoA groups: squared distance to the nearest pick
    int64_t candidates[SEED_CANDIDATES_MAX];
    int64_t candidates_count; // 0: the chain takes no part in the pass
    int64_t chosen;     // point of the last pick, which `nearest` does not know yet; -1 before the first
    double *potentials; // subchunks x SEED_CANDIDATES_MAX, out: as km_cpu_chain has them
} cpu_seed_chain;

typedef struct cpu_seed_pass {
    cpu_engine *engine;
    cpu_seed_chain *chains;
    int64_t chains_count;
    int64_t picks; // of a chain, at most
    void *own;     // the layout's
} cpu_seed_pass;

// Models to be finished. The layout puts its tables of centroids into `own`, and into each thread's models.
typedef struct cpu_finish_pass {
    cpu_engine *engine;
    int64_t count, rows, threads; // models; centroids of all models
    km_cpu_finish_model *models;  // threads x count: k and sums are set
    void *own;                    // the layout's
} cpu_finish_pass;

struct cpu_layout {
    // km_backend.load, the features and points being those that the engine expects.
    km_status (*load)(cpu_engine *engine, km_data_stats *stats, const km_data *data, km_load_params *params,
                      km_error *err);
    void (*destroy)(cpu_engine *engine);                               // what `load` has made
    void (*row)(double *out, const cpu_engine *engine, int64_t point); // d doubles of the clustered space
    int32_t has_slot_tables;                                           // cpu_slot.table

    // A pass goes over pieces, which the data alone decide.
    int64_t (*pieces)(const cpu_engine *engine);
    int64_t (*piece_first)(const cpu_engine *engine, int64_t piece); // its first point
    km_status (*pass_begin)(cpu_engine *engine, km_error *err);
    // Labels and sums of a piece for the listed slots, as km_cpu_kernels.pass has them.
    void (*piece)(cpu_engine *engine, int64_t piece, km_cpu_slot *list, int64_t count);
    // The totals of a slot whose sums are owned.
    km_status (*owned_sums)(cpu_engine *engine, int64_t slot, km_error *err);
    void (*pass_end)(cpu_engine *engine);

    // Seeding. The squared distance of two points is the one that passes have, to the last bit.
    km_status (*seed_create)(cpu_seed_pass *pass, km_error *err); // seed_destroy after an error, too
    void (*seed_destroy)(cpu_seed_pass *pass);
    void (*seed_begin)(cpu_seed_pass *pass); // candidates and last picks of all chains are drawn
    // Points first .. first + count - 1, which are subchunk `subchunk`.
    void (*seed_subchunk)(cpu_seed_pass *pass, int64_t subchunk, int64_t first, int64_t count);
    void (*seed_end)(cpu_seed_pass *pass);
    double (*square)(const cpu_engine *engine, int64_t point, int64_t pick);

    // Finishing and relocation.
    km_status (*finish_create)(cpu_finish_pass *pass, const km_finish_model *models, km_error *err);
    void (*finish_destroy)(cpu_finish_pass *pass);
    // `count` points from `first` on, which starts an SoA group, for one thread's models.
    void (*finish)(const cpu_finish_pass *pass, km_cpu_finish_model *models, int64_t first, int64_t count);

    km_status (*silhouette)(cpu_engine *engine, km_silhouette_model *models, int64_t count, km_error *err);
};

extern const cpu_layout km_cpu_dense, km_cpu_csr;

#endif

// SPDX-License-Identifier: MIT
// One kernel design of one backend, built and loaded with points: what tests/test_backend.c is run over.
// Failures end the test through Check.
#ifndef KM_TESTS_RIG_H
#define KM_TESTS_RIG_H
#include "reference.h"
#include "../runtime/backend.h"
#include "../runtime/module_state.h"

typedef struct rig_variant {
    const char *name; // "cpu-lanes"
    const km_backend *backend;
    int device;
    km_design design;
    const char *form; // that is fixed, or NULL: the planner's choice
} rig_variant;

// NULL when there is none of that name.
const rig_variant *rig_variant_find(const char *name);
const rig_variant *rig_variant_at(int index); // NULL after the last

typedef struct rig_params {
    km_type type;
    int64_t d;
    const char *clusters; // "2..5"
    int weighted;         // the plan's flag: points may carry weights
    int track_labels;
    int64_t concurrent;    // concurrent restarts; 0 leaves it to the planner
    int64_t points;        // tells the planner n; 0: unknown
    int one_block;         // of 128 threads, where the design is registers
    const char *cache_dir; // binaries are kept here between tests
} rig_params;

typedef struct rig {
    const rig_variant *variant;
    km_device *device;
    km_module *module;
    // After rig_load:
    km_engine *engine;
    km_data *data;
    km_data_stats stats;
    km_load_params load;
    ref_data loaded; // the points as the engine gives them back by `rows`: the reference's input
    void *values;
} rig;

// Whether the variant's spec has a plan, with or without a device: what a plan may fix changes.
km_status rig_can_plan(const rig_variant *variant, km_error *err);
// Plans, emits and builds. Returns 0 when the design cannot serve the shape (KM_ERROR_PLAN).
int rig_build(rig *r, const rig_variant *variant, const rig_params *params);
// Brings points into a new engine. threads 0: all.
void rig_load(rig *r, const ref_data *points, int64_t threads, km_scale scale);
// The same, but hands the status of `load` back; on failure nothing is loaded.
km_status rig_try_load(rig *r, const ref_data *points, int64_t threads, km_scale scale, km_error *err);
void rig_unload(rig *r);
void rig_close(rig *r);

int64_t rig_slot_clusters(const rig *r, int64_t slot);
// `run_passes` and `relocate` until every run is DONE; `states` has slots_count entries.
void rig_run_all(const rig *r, km_slot_state *states, const km_stop *stop);

// Fails the test with the error's text.
void rig_must(km_status status, const km_error *err, const char *file, int line);
#define RIG_MUST(call, err) rig_must((call), (err), __FILE__, __LINE__)

#endif

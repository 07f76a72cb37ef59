// SPDX-License-Identifier: MIT
// What the CPU designs share: what a machine does in a cycle, numbers, and names of templates/cpu.
#ifndef KM_GEN_CPU_COMMON_H
#define KM_GEN_CPU_COMMON_H
#include "../design.h"

enum {
    KM_CPU_LANES_GROUP = 64, // points of a group of lanes
    KM_CPU_TILE_MAX = 8      // centroids at a time: rows that a table has behind its last one, and one more
};

// What a pass meets, for every design alike.
typedef struct km_cpu_shape {
    double d, s, ks; // features; sum and count of the K list
    double n, restarts;
    double real_bytes;
    double lanes;         // reals of a vector
    double fma_per_cycle; // vectors multiplied and added in one cycle
    double threads, ghz;
} km_cpu_shape;

km_cpu_shape km_cpu_shape_of(const km_plan *plan);
int64_t km_cpu_vector_bytes(int32_t isa);
int64_t km_cpu_vectors(int32_t isa, int64_t lanes); // of points at a time, where centroids come in tiles

// Estimates: memory and issue from bytes and operations a point; then total and reason.
void km_cpu_lanes_operations(km_estimate *e, const km_plan *plan, const km_cpu_shape *it);
void km_cpu_bound_by(km_estimate *e, const km_cpu_shape *it, const char *what);
// Whether scores are made of integers first: what the user fixed, or what pays.
int km_cpu_uses_integers(const km_plan *plan);

km_status km_cpu_set_restarts(km_plan *plan, km_error *err);
km_status km_cpu_set_integers(km_plan *plan, km_error *err);
km_status km_cpu_set_group(km_plan *plan, int64_t group, const char *reason, km_error *err);
// lanes, vectors and tile_clusters.
km_status km_cpu_set_vectors(km_plan *plan, int64_t wanted, int64_t tile, const char *tile_reason,
                             km_error *err);

// Names of templates/cpu.
typedef struct km_cpu_text {
    int any_d;          // kernels serve any number of features up to the plan's, which each call brings
    int bytes;          // labels of a group are compared as bytes
    int rows;           // points become rows of doubles before they are added, whatever d is
    int64_t span_bytes; // of points that stay in a cache while every slot works on them
} km_cpu_text;
void km_cpu_names(km_env *env, const km_plan *plan, const km_cpu_text *text);

// Kernels of lanes that serve any number of features (gen/prebuilt.c).
km_status km_cpu_names_any_d(km_env *env, const char **root, const km_plan *plan, km_error *err);

#endif

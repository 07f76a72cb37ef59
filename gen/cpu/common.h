// SPDX-License-Identifier: MIT
// What the CPU designs share: what a machine does in a cycle, numbers, and names of templates/cpu.
#ifndef KM_GEN_CPU_COMMON_H
#define KM_GEN_CPU_COMMON_H
#include "../design.h"

enum {
    KM_CPU_LANES_SOA_POINTS = 64, // points of an SoA group of the design lanes
    KM_CPU_TILE_MAX = 8 // centroids at a time: a table has 7 rows behind its last one (KM_CPU_TABLE_ROWS)
};

// What a pass works on, and what the machine does: the same for every design.
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
// Vectors and centroids that lanes works on at a time where nothing is fixed: centroids one after another, or tiles.
void km_cpu_lanes_tiles(int64_t *vectors, int64_t *tile, const km_plan *plan);

// How scores are worked on: a tile is `centroids` of `vectors` vectors of points.
typedef struct km_cpu_tiles {
    double centroids, vectors;
    int pinned;         // points stay in registers for all centroids of a tile, whatever they displace
    int best_in_memory; // ... as do not the best scores so far, and their indices
} km_cpu_tiles;

// Vector operations of a tile of so many centroids (`tiles` has those of whole ones) and features.
double km_cpu_tile_operations(const km_plan *plan, const km_cpu_shape *it, km_cpu_tiles tiles,
                              double centroids, double features);

// Estimates: first bytes and operations of a point, and the time that memory takes; then issue, total and reason.
// `rest`: operations of a point that the designs of a layout share, so that they weigh layouts, and no designs.
void km_cpu_lanes_operations(km_estimate *e, const km_plan *plan, const km_cpu_shape *it);
void km_cpu_lanes_bytes(km_estimate *e, const km_plan *plan, const km_cpu_shape *it);
void km_cpu_bound_by(km_estimate *e, const km_cpu_shape *it, double rest, const char *what);
// Operations of so many values of a point that join a sum of each K: all do in a first pass, and those that move later.
double km_cpu_added_operations(const km_cpu_shape *it, double values);
// The same for dense points, whose values all join; where an SoA group's points exceed the first cache, they are read
// again for each tile.
void km_cpu_dense_bound_by(km_estimate *e, const km_plan *plan, const km_cpu_shape *it, const char *what);
// Whether the plan has int16 scores: what the user fixed, or what pays.
int km_cpu_uses_int16_scores(const km_plan *plan);

km_status km_cpu_set_restarts(km_plan *plan, km_error *err);
km_status km_cpu_set_int16_scores(km_plan *plan, km_error *err);
km_status km_cpu_set_soa_points(km_plan *plan, int64_t points, const char *reason, km_error *err);
// lanes, vectors and tile_clusters.
km_status km_cpu_set_vectors(km_plan *plan, int64_t wanted, int64_t tile, const char *tile_reason,
                             km_error *err);

// Names of templates/cpu.
typedef struct km_cpu_text {
    int any_d;          // kernels serve any number of features up to the plan's; each call says how many
    int byte_labels;    // labels of an SoA group are compared as bytes
    int point_rows;     // points become rows of doubles before they are added, whatever d is
    int64_t span_bytes; // of points that stay in a cache while every slot works on them
} km_cpu_text;
void km_cpu_names(km_env *env, const km_plan *plan, const km_cpu_text *text);

// The same for kernels of lanes that serve any number of features (gen/prebuilt.c).
void km_cpu_names_any_d(km_env *env, const char **root, const km_plan *plan);

#endif

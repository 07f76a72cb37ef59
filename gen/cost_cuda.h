// SPDX-License-Identifier: MIT
// What the CUDA planner and the CUDA emitter must agree on: how the K list is shared out.
#ifndef KM_GEN_COST_CUDA_H
#define KM_GEN_COST_CUDA_H
#include <kmgen/plan.h>

enum { KM_CUDA_SHARES_MAX = 64 }; // warp groups of all launches

// Shares the K list out over `shares` warp groups (all launches' together) so that the largest sum of K - 1 is
// small: the largest K first, each to the group with the least so far. share[i] is the group of clusters[i]. Returns
// the group with the least of all, which also keeps the sums over all points.
int64_t km_cuda_share(int32_t *share, const km_spec *spec, int64_t shares);

// Sums that a warp group of the registers design keeps for one K.
int64_t km_cuda_sums_of(const km_plan *plan, int64_t k);

// Points that lie side by side in a thread, so that it loads whole 16-byte pieces.
int64_t km_cuda_run(const km_spec *spec);

#endif

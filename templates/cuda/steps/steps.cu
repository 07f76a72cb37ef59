// SPDX-License-Identifier: MIT
// ==== The steps around the pass
// Steps around the pass, the same for every design. What is compiled apart knows neither the list of K nor the design.
#define KM_BOTH __device__ __forceinline__
//@ verbatim draws.h
//@ verbatim slot.h
//@ verbatim cuda/steps.h
//@ include cuda/steps/sums.cu
//@ include cuda/steps/points.cu
//@ if many_features
//@ include cuda/steps/tiles.cu
//@ end

//@ include cuda/steps/chunks.cu

// ==== Loading
// Compiled apart: load
//@ include cuda/steps/load.cu

// ==== Seeding
// Compiled apart: seed
//@ include cuda/steps/seed.cu
//@ if seed_halves

// ==== Seeding of many picks
// Compiled apart: seed_halves
//@ include cuda/steps/seed_halves.cu
//@ end

// ==== Finishing
// Compiled apart: finish
//@ include cuda/steps/finish.cu

// ==== Silhouettes
// Compiled apart: silhouette
//@ include cuda/steps/silhouette.cu

// ==== Relocation
// Compiled apart: relocate
//@ include cuda/steps/relocate.cu

// ==== The update
// Compiled apart: pass/rest
//@ include cuda/steps/update.cu

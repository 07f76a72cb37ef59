// SPDX-License-Identifier: MIT
// ==== Numbers and types
//@ need type int_type index_type d any_d group lanes vectors tile span wide float64 integers
//@ verbatim cpu/abi.h
#include <math.h>
#include <stddef.h>
#include <string.h>

typedef $type km_real;
typedef $int_type km_int;     // an integer as wide as a real
typedef $index_type km_index; // a label in hand

// Numbers of a point's row: whole vectors of sums.
#define KM_ROW(d) ((d) <= 2 ? 4 : ((d) + 7) / 8 * 8)

//@ if any_d
// Features of the work in hand, which every kernel takes from its arguments first.
static _Thread_local __attribute__((tls_model("initial-exec"))) int D;
#define PITCH ((int)KM_CPU_PITCH(D))
#define ROW KM_ROW(D)
//@ end
enum {
    //@ if any_d
    D_MAX = $d, // features at most
    ROW_MAX = KM_ROW(D_MAX),
    //@ else
    D = $d, // features
    //@ end
    LANES = $lanes,     // reals of a vector
    VECTORS = $vectors, // vectors of points worked on at a time
    GROUP = $group,     // points of a group
    TILE = $tile,       // centroids worked on at a time
    //@ if any_d
    SPAN = $span // groups that stay in the cache while every slot works on them
        //@ else
        SPAN = $span, // groups that stay in the cache while every slot works on them
    PITCH = KM_CPU_PITCH(D),
    ROW = KM_ROW(D)
    //@ end
};

//@ include cpu/vec/$vec.h

// Four numbers of a row of sums, and of a point's row.
typedef double km_quad __attribute__((vector_size(32), aligned(8), may_alias));
typedef km_real km_quad_row
    __attribute__((vector_size(4 * sizeof(km_real)), aligned(sizeof(km_real)), may_alias));

// Two of them.
typedef double km_two __attribute__((vector_size(16), aligned(8), may_alias));

// A point's coordinates lie GROUP apart: four of them side by side.
#define KM_FOUR(point) ((km_quad_row){(point)[0], (point)[GROUP], (point)[2 * GROUP], (point)[3 * GROUP]})

// ==== The pass

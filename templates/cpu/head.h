// SPDX-License-Identifier: MIT
// ==== Numbers and types
//@ need type int_type index_type d any_d soa_points lanes vectors tile span labels_32bit float64 int16_scores
//@ verbatim cpu/abi.h
#include <math.h>
#include <stddef.h>
#include <string.h>

typedef $type km_real;
typedef $int_type km_int;     // an integer of a real's size
typedef $index_type km_index; // a label while it is worked on

// Doubles of a point's row: what is added to a row of sums.
#define KM_ROW(d) ((d) <= 2 ? 4 : ((d) + 7) / 8 * 8)

//@ if any_d
// Features. Every kernel sets it first, from its arguments.
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
    LANES = $lanes,           // reals of a vector
    VECTORS = $vectors,       // vectors of points worked on at a time
    SOA_POINTS = $soa_points, // points of an SoA group
    TILE = $tile,             // centroids worked on at a time
    //@ if any_d
    SPAN = $span // SoA groups that stay in the cache while every slot works on them
        //@ else
        SPAN = $span, // SoA groups that stay in the cache while every slot works on them
    PITCH = KM_CPU_PITCH(D),
    ROW = KM_ROW(D)
    //@ end
};

//@ include cpu/vec/$vec.h

// Four doubles of a row of sums, and four reals of a point.
typedef double km_quad __attribute__((vector_size(32), aligned(8), may_alias));
typedef km_real km_quad_row
    __attribute__((vector_size(4 * sizeof(km_real)), aligned(sizeof(km_real)), may_alias));

// Two doubles of a row of sums.
typedef double km_two __attribute__((vector_size(16), aligned(8), may_alias));

// Four coordinates of a point, which lie SOA_POINTS apart.
#define KM_FOUR(point)                                                                                       \
    ((km_quad_row){(point)[0], (point)[SOA_POINTS], (point)[2 * SOA_POINTS], (point)[3 * SOA_POINTS]})

// ==== The pass

// SPDX-License-Identifier: MIT
// Sums of all points of a span for few clusters: each cluster takes the points that have its label, by masked
// additions. A point costs an addition for each cluster and feature, eight of them an instruction; point by point it
// costs fewer additions, but each waits for a row of sums in memory: worth it where rows are short.
//@ need whole_columns whole_k float64

enum { WHOLE_K = $whole_k }; // clusters up to which it pays

// x: whole groups; own: the masks of a cluster's points, group by group.
KM_TARGET static inline void km_whole_own(double *sums, const double *x, const uint64_t *own,
                                          int64_t groups) {
    //@ for c in whole_columns
    km_doubles sum_$c = KM_D_SPLAT(0);
    //@ end
    for (int64_t g = 0; g < groups; g++, x += GROUP * D) {
        uint64_t bits = own[g];
        for (int i = 0; i < GROUP; i += DOUBLES, bits >>= DOUBLES) {
            //@ for c in whole_columns
            KM_D_ADD_OWN(sum_$c, bits, x + $c * GROUP + i);
            //@ end
        }
    }
    //@ for c in whole_columns
    sums[$c] += KM_D_SUM(sum_$c);
    //@ end
}

//@ if not float64
// Points of a span as doubles, in their order.
KM_TARGET static void km_whole_points(double *wide, const km_real *points, int64_t groups) {
    for (int64_t i = 0; i < groups * GROUP * D; i += LANES) {
        KM_STORE_WIDE(wide + i, KM_LOAD(points + i));
    }
}

//@ end
// `count` points without weights, in whole groups, join the sums of k clusters.
KM_TARGET static void km_whole_sums(double *sums, const double *x, const km_index *labels, int64_t count,
                                    int64_t k) {
    const int64_t groups = (count + GROUP - 1) / GROUP, tail = groups * GROUP - count;
    for (int64_t j = 0; j < k; j++, sums += PITCH) {
        uint64_t own[SPAN];
        int64_t points = 0;
        for (int64_t g = 0; g < groups; g++) {
            own[g] = KM_OWN(labels + g * GROUP, j);
            if (g + 1 == groups) own[g] &= ~(uint64_t)0 >> tail;
            points += __builtin_popcountll(own[g]);
        }
        if (!points) continue;
        km_whole_own(sums, x, own, groups);
        sums[D] += (double)points;
        sums[D + 1] += (double)points;
    }
}

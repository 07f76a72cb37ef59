// SPDX-License-Identifier: MIT
// Sums of all points of a span for few clusters. Each cluster adds the points that have its label, by masked additions:
// a point costs one for each cluster and feature, and an instruction does eight. Point by point there would be fewer
// additions, but each would wait for a row of sums in memory. So this pays where rows are short.
//@ need masked_features masked_sums_k_max float64

enum { MASKED_SUMS_K_MAX = $masked_sums_k_max }; // clusters up to which it pays

// Adds the points of one cluster. x: whole SoA soa_groups; own: for each of them a mask of the cluster's points.
KM_TARGET static inline void km_masked_add(double *sums, const double *x, const uint64_t *own,
                                           int64_t soa_groups) {
    //@ for c in masked_features
    km_doubles sum_$c = KM_D_SPLAT(0);
    //@ end
    for (int64_t g = 0; g < soa_groups; g++, x += SOA_POINTS * D) {
        uint64_t bits = own[g];
        for (int i = 0; i < SOA_POINTS; i += DOUBLES, bits >>= DOUBLES) {
            //@ for c in masked_features
            KM_D_ADD_OWN(sum_$c, bits, x + $c * SOA_POINTS + i);
            //@ end
        }
    }
    //@ for c in masked_features
    sums[$c] += KM_D_SUM(sum_$c);
    //@ end
}

//@ if not float64
// Converts points of a span to doubles, in their order.
KM_TARGET static void km_masked_points(double *doubles, const km_real *points, int64_t soa_groups) {
    for (int64_t i = 0; i < soa_groups * SOA_POINTS * D; i += LANES) {
        KM_STORE_WIDE(doubles + i, KM_LOAD(points + i));
    }
}

//@ end
// Adds `count` points without weights, in whole SoA groups, to the sums of k clusters.
KM_TARGET static void km_masked_sums(double *sums, const double *x, const km_index *labels, int64_t count,
                                     int64_t k) {
    const int64_t soa_groups = (count + SOA_POINTS - 1) / SOA_POINTS, tail = soa_groups * SOA_POINTS - count;
    for (int64_t j = 0; j < k; j++, sums += PITCH) {
        uint64_t own[SPAN];
        int64_t points = 0;
        for (int64_t g = 0; g < soa_groups; g++) {
            own[g] = KM_OWN(labels + g * SOA_POINTS, j);
            if (g + 1 == soa_groups) own[g] &= ~(uint64_t)0 >> tail;
            points += __builtin_popcountll(own[g]);
        }
        if (!points) continue;
        km_masked_add(sums, x, own, soa_groups);
        sums[D] += (double)points;
        sums[D + 1] += (double)points;
    }
}

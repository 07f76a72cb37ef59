// SPDX-License-Identifier: MIT
//@ need centroids later is_first vectors_list feature_loop
//@ for c in centroids
//@ for v in vectors_list
km_vec s_$c_$v = KM_SPLAT(row[$c * (D + 1) + D]);
//@ end
//@ end
for (int f = 0; f < D; f++) {
    //@ for v in vectors_list
    km_vec x_$v = KM_LOAD(points + f * SOA_POINTS + $v * LANES);
    //@ if feature_loop
    KM_PIN(x_$v);
    //@ end
    //@ end
    //@ for c in centroids
    const km_vec c_$c = KM_SPLAT(row[$c * (D + 1) + f]);
    //@ for v in vectors_list
    s_$c_$v = KM_FMA(x_$v, c_$c, s_$c_$v);
    //@ end
    //@ end
}
//@ if is_first
//@ for v in vectors_list
best_$v = s_0_$v;
//@ end
//@ end
//@ for c in later
j = KM_INTS_ADD(j, one);
//@ for v in vectors_list
KM_KEEP(best_$v, index_$v, s_$c_$v, j);
//@ end
//@ end

// SPDX-License-Identifier: MIT
//@ need centroids later is_first int16_vectors
KM_LOAD_ANEW;
//@ for c in centroids
//@ for v in int16_vectors
km_ints s_$c_$v = KM_INTS(row[$c * (FEATURE_PAIRS + 1) + FEATURE_PAIRS]);
//@ end
//@ end
KM_UNROLL
for (int p = 0; p < FEATURE_PAIRS; p++) {
    //@ for v in int16_vectors
    km_ints x_$v = KM_LOAD_INTS(int16_points + p * SOA_POINTS + $v * LANES);
    KM_PIN(x_$v);
    //@ end
    //@ for c in centroids
    const km_ints c_$c = KM_INTS(row[$c * (FEATURE_PAIRS + 1) + p]);
    //@ for v in int16_vectors
    s_$c_$v = KM_INT16_DOT(s_$c_$v, x_$v, c_$c);
    //@ end
    //@ end
}
//@ if is_first
best_0 = KM_INT16_HIGH(s_0_0, s_0_1);
best_1 = KM_INT16_HIGH(s_0_2, s_0_3);
//@ end
//@ for c in later
j = KM_INT16_ADD(j, one);
KM_INT16_KEEP(best_0, second_0, index_0, KM_INT16_HIGH(s_$c_0, s_$c_1), j);
KM_INT16_KEEP(best_1, second_1, index_1, KM_INT16_HIGH(s_$c_2, s_$c_3), j);
//@ end

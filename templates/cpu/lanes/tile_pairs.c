// SPDX-License-Identifier: MIT
//@ need centroids others first pair_vectors
KM_LOAD_ANEW;
//@ for c in centroids
//@ for v in pair_vectors
km_ints s_$c_$v = KM_INTS(row[$c * (PAIRS + 1) + PAIRS]);
//@ end
//@ end
KM_UNROLL
for (int p = 0; p < PAIRS; p++) {
    //@ for v in pair_vectors
    km_ints x_$v = KM_LOAD_INTS(pairs + p * GROUP + $v * LANES);
    KM_PIN(x_$v);
    //@ end
    //@ for c in centroids
    const km_ints c_$c = KM_INTS(row[$c * (PAIRS + 1) + p]);
    //@ for v in pair_vectors
    s_$c_$v = KM_PAIRS_ADD(s_$c_$v, x_$v, c_$c);
    //@ end
    //@ end
}
//@ if first
best_0 = KM_HIGH_WORDS(s_0_0, s_0_1);
best_1 = KM_HIGH_WORDS(s_0_2, s_0_3);
//@ end
//@ for c in others
j = KM_WORDS_ADD(j, one);
KM_KEEP_WORDS(best_0, second_0, index_0, KM_HIGH_WORDS(s_$c_0, s_$c_1), j);
KM_KEEP_WORDS(best_1, second_1, index_1, KM_HIGH_WORDS(s_$c_2, s_$c_3), j);
//@ end

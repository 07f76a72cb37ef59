// SPDX-License-Identifier: MIT
// Scores of rows for $count vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_$kind_$count_$width($kind_type *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    //@ if kind_squares
    double *squares = p->squares;
    //@ end
    const uint$width_t *indices = (const uint$width_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const $kind_type *table = (const $kind_type *)p->table, *constants = (const $kind_type *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        //@ for v in count_vectors
        $kind_vec s_$v = $kind_pre_SPLAT(0);
        //@ end
        //@ if kind_squares
        double square = 0;
        //@ end
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const $kind_type *row = table + (int64_t)indices[at] * stride;
            //@ if kind_squares
            square = fma((double)values[at], (double)values[at], square);
            //@ end
            const $kind_vec x = $kind_pre_SPLAT(($kind_type)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                //@ for line in count_lines
                __builtin_prefetch(ahead + $line);
                //@ end
            }
            //@ for v in count_vectors
            s_$v = $kind_pre_FMA(x, $kind_pre_LOAD(row + $v * $kind_lanes), s_$v);
            //@ end
        }
        //@ if kind_squares
        if (squares) squares[r] = square;
        //@ end
        //@ for v in count_vectors
        $kind_pre_STORE(scores + $v * $kind_lanes,
                        $kind_pre_ADD(s_$v, $kind_pre_LOAD(constants + $v * $kind_lanes)));
        //@ end
    }
}

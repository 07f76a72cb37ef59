// SPDX-License-Identifier: MIT
// Exact squared distances to the nearest and the second-nearest centroid, in double, features in index order.
enum { FINISH_TILE = $finish_tile }; // centroids at a time, each with two vectors of doubles

// Two vectors of points against the centroids `from` .. `from` + FINISH_TILE - 1; fewer are left at the end.
KM_TARGET static void km_finish(const km_cpu_finish *finish) {
    const int64_t k = finish->k, whole = k / FINISH_TILE * FINISH_TILE;
    for (int64_t base = 0; base < finish->points_count; base += GROUP)
        for (int at = 0; at < GROUP; at += 2 * DOUBLES) {
            const km_real *points = (const km_real *)finish->points + base * D + at;
            km_doubles first_0 = KM_D_SPLAT(HUGE_VAL), first_1 = first_0, second_0 = first_0, second_1 = first_0;
            km_longs index_0 = KM_LONGS(0), index_1 = index_0;
            for (int64_t from = 0; from < whole; from += FINISH_TILE) {
                const double *rows = finish->centroids + from * D;
                //@ for c in finish_list
                km_doubles a_$c = KM_D_SPLAT(0), b_$c = KM_D_SPLAT(0);
                //@ end
                for (int f = 0; f < D; f++) {
                    const km_doubles x = KM_LOAD_DOUBLES(points + f * GROUP);
                    const km_doubles y = KM_LOAD_DOUBLES(points + f * GROUP + DOUBLES);
                    //@ for c in finish_list
                    const km_doubles c_$c = KM_D_SPLAT(rows[$c * D + f]);
                    const km_doubles t_$c = KM_D_SUB(x, c_$c), u_$c = KM_D_SUB(y, c_$c);
                    a_$c = KM_D_FMA(t_$c, t_$c, a_$c);
                    b_$c = KM_D_FMA(u_$c, u_$c, b_$c);
                    //@ end
                }
                //@ for c in finish_list
                const km_longs j_$c = KM_LONGS(from + $c);
                KM_NEAREST(first_0, second_0, index_0, a_$c, j_$c);
                KM_NEAREST(first_1, second_1, index_1, b_$c, j_$c);
                //@ end
            }
            for (int64_t from = whole; from < k; from++) {
                const double *row = finish->centroids + from * D;
                km_doubles a = KM_D_SPLAT(0), b = KM_D_SPLAT(0);
                for (int f = 0; f < D; f++) {
                    const km_doubles c = KM_D_SPLAT(row[f]);
                    const km_doubles t = KM_D_SUB(KM_LOAD_DOUBLES(points + f * GROUP), c);
                    const km_doubles u = KM_D_SUB(KM_LOAD_DOUBLES(points + f * GROUP + DOUBLES), c);
                    a = KM_D_FMA(t, t, a);
                    b = KM_D_FMA(u, u, b);
                }
                const km_longs j = KM_LONGS(from);
                KM_NEAREST(first_0, second_0, index_0, a, j);
                KM_NEAREST(first_1, second_1, index_1, b, j);
            }
            int64_t found[2 * DOUBLES];
            KM_PUT_LONGS(found, index_0);
            KM_PUT_LONGS(found + DOUBLES, index_1);
            for (int i = 0; i < 2 * DOUBLES; i++) finish->labels[base + at + i] = (int32_t)found[i];
            KM_D_STORE(finish->first + base + at, first_0);
            KM_D_STORE(finish->first + base + at + DOUBLES, first_1);
            KM_D_STORE(finish->second + base + at, second_0);
            KM_D_STORE(finish->second + base + at + DOUBLES, second_1);
        }
}

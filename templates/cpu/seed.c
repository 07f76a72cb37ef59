// SPDX-License-Identifier: MIT
// ==== Seeding
// k-means++ over points of a chunk. Distances are in the difference form, in reals. They are summed in double.

enum { SEED_SPAN = $seed_span }; // points that stay in the first cache for all chains

// Squared distances of an SoA group to one row.
KM_TARGET static void km_distances(km_real *out, const km_real *points, const km_real *row) {
    for (int i = 0; i < SOA_POINTS; i += VECTORS * LANES) {
        //@ for v in vectors_list
        km_vec sum_$v = KM_SPLAT(0);
        //@ end
        for (int f = 0; f < D; f++) {
            const km_vec c = KM_SPLAT(row[f]);
            //@ for v in vectors_list
            const km_vec t_$v = KM_SUB(KM_LOAD(points + f * SOA_POINTS + i + $v * LANES), c);
            sum_$v = KM_FMA(t_$v, t_$v, sum_$v);
            //@ end
        }
        //@ for v in vectors_list
        KM_STORE(out + i + $v * LANES, sum_$v);
        //@ end
    }
}

// Squared distances become the smaller of themselves and `least`.
KM_TARGET static void km_least(km_real *distances, const km_real *least) {
    for (int i = 0; i < SOA_POINTS; i += LANES) {
        const km_vec a = KM_LOAD(distances + i), b = KM_LOAD(least + i);
        KM_STORE(distances + i, KM_MIN(a, b));
    }
}

// What the sum becomes with each of two candidates, over whole SoA groups. Two at a time, as their additions need not
// wait for each other.
KM_TARGET static void km_potentials(double *sums, const km_real *points, const km_real *nearest,
                                    const double *weights, int64_t count, const km_real *row_0,
                                    const km_real *row_1) {
    km_real least_0[SOA_POINTS], least_1[SOA_POINTS];
    double lanes[DOUBLES];
    //@ for a in pair
    km_doubles even_$a = KM_D_SPLAT(0), odd_$a = even_$a;
    //@ end
    for (int64_t base = 0; base < count; base += SOA_POINTS, points += SOA_POINTS * D) {
        for (int i = 0; i < SOA_POINTS; i += VECTORS * LANES) {
            //@ for a in pair
            //@ for v in vectors_list
            km_vec sum_$a_$v = KM_SPLAT(0);
            //@ end
            //@ end
            for (int f = 0; f < D; f++) {
                //@ for a in pair
                const km_vec c_$a = KM_SPLAT(row_$a[f]);
                //@ end
                //@ for v in vectors_list
                const km_vec x_$v = KM_LOAD(points + f * SOA_POINTS + i + $v * LANES);
                //@ for a in pair
                const km_vec t_$a_$v = KM_SUB(x_$v, c_$a);
                sum_$a_$v = KM_FMA(t_$a_$v, t_$a_$v, sum_$a_$v);
                //@ end
                //@ end
            }
            //@ for v in vectors_list
            const km_vec nearest_$v = KM_LOAD(nearest + base + i + $v * LANES);
            //@ for a in pair
            KM_STORE(least_$a + i + $v * LANES, KM_MIN(sum_$a_$v, nearest_$v));
            //@ end
            //@ end
        }
        for (int i = 0; i < SOA_POINTS; i += 2 * DOUBLES) {
            if (weights) {
                const km_doubles v = KM_D_LOAD(weights + base + i),
                                 w = KM_D_LOAD(weights + base + i + DOUBLES);
                //@ for a in pair
                even_$a = KM_D_FMA(KM_LOAD_DOUBLES(least_$a + i), v, even_$a);
                odd_$a = KM_D_FMA(KM_LOAD_DOUBLES(least_$a + i + DOUBLES), w, odd_$a);
                //@ end
            } else {
                //@ for a in pair
                even_$a = KM_D_ADD(KM_LOAD_DOUBLES(least_$a + i), even_$a);
                odd_$a = KM_D_ADD(KM_LOAD_DOUBLES(least_$a + i + DOUBLES), odd_$a);
                //@ end
            }
        }
    }
    //@ for a in pair
    sums[$a] = 0;
    KM_D_STORE(lanes, KM_D_ADD(even_$a, odd_$a));
    for (int i = 0; i < DOUBLES; i++) sums[$a] += lanes[i];
    //@ end
}

// The last SoA group of a chunk, where it is not full.
KM_TARGET static void km_seed_rest(km_cpu_chain *chain, const km_real *points, const km_real *nearest,
                                   const double *weights, int64_t count) {
    km_real distances[SOA_POINTS];
    for (int64_t a = 0; a < chain->candidates_count; a++) {
        km_distances(distances, points, (const km_real *)chain->candidates + a * D);
        km_least(distances, nearest);
        for (int64_t i = 0; i < count; i++)
            chain->potentials[a] += (double)distances[i] * (weights ? weights[i] : 1.0);
    }
}

// Points that stay in the first cache, for one chain.
KM_TARGET static void km_seed_span(km_cpu_chain *chain, const km_cpu_seeding *seeding, int64_t first,
                                   int64_t count) {
    const km_real *points = (const km_real *)seeding->points + first * D;
    const double *weights = seeding->weights ? seeding->weights + first : NULL;
    km_real *nearest = (km_real *)chain->nearest + first, distances[SOA_POINTS];
    for (int64_t base = 0; chain->chosen && base < count; base += SOA_POINTS) {
        km_distances(distances, points + base * D, (const km_real *)chain->chosen);
        km_least(nearest + base, distances);
    }
    const int64_t full = count / SOA_POINTS * SOA_POINTS;
    for (int64_t a = 0; a < chain->candidates_count; a += 2) {
        const int64_t both = a + 1 < chain->candidates_count; // the last of an odd number is taken twice
        const km_real *row = (const km_real *)chain->candidates + a * D;
        double sums[2];
        km_potentials(sums, points, nearest, weights, full, row, row + both * D);
        for (int64_t b = 0; b <= both; b++) chain->potentials[a + b] += sums[b];
    }
    if (full < count)
        km_seed_rest(chain, points + full * D, nearest + full, weights ? weights + full : NULL, count - full);
}

KM_TARGET static void km_seed(const km_cpu_seeding *seeding) {
    //@ if any_d
    D = (int)seeding->d;
    //@ end
    for (int64_t c = 0; c < seeding->chains_count; c++)
        for (int64_t a = 0; a < seeding->chains[c].candidates_count; a++)
            seeding->chains[c].potentials[a] = 0;
    for (int64_t first = 0; first < seeding->points_count; first += SEED_SPAN) {
        int64_t count = seeding->points_count - first;
        if (count > SEED_SPAN) count = SEED_SPAN;
        for (int64_t c = 0; c < seeding->chains_count; c++)
            km_seed_span(&seeding->chains[c], seeding, first, count);
    }
}

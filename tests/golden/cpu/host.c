// Of the text of {features: 4, clusters: 3..5, target: cpu:avx2}: The host part: what the header declares; Header
// "..." stands for what a template or an earlier part shows.

// ... 19 definitions

// Refuses value i of the first centroids where it is far outside the points.
static int host_check_first(const host_data *data, double x, long long i) {
    const int f = (int)(i % HOST_FEATURES);
    if (fabs((x - data->centre[f]) * data->factor) <= 1048576.0) return HOST_OK;
    return host_fail(HOST_DATA,
                     "row %lld of the first centroids, feature %d: %g is no number among the points",
                     i / HOST_FEATURES, f, x);
}
#ifdef _OPENMP
#include <omp.h>
#endif

#define KM_BOTH static inline
// Counter-based random numbers, for host and device: each is a function of its four words alone.
#ifndef KM_DRAWS_H
#define KM_DRAWS_H

// ... 12 definitions

#endif
// Totals that do not depend on the order in which numbers are added: a wide fixed-point number in three doubles. Host
// and device compile this.
//
// A number x is cut into three digits, each a multiple of the digit's unit and at most half the unit above:
// x = high + middle + low, what is below the lowest unit rounded away. Digits are added apart. Each is a sum of
// multiples of one unit that a double holds exactly, so any order gives the same bits, on any thread or device; and two
// totals are joined by adding their digits, as MPI or NCCL add doubles.
#ifndef KM_TOTAL_H
#define KM_TOTAL_H

// ... 7 definitions

enum {
    HOST_CHUNK = 65536,                                    // points of a chunk: its statistics and last sums are added in index order
    HOST_PASS_POINTS = 16384,                              // points that a thread takes at a time in a pass
    HOST_SUBCHUNK = SOA_POINTS > 1024 ? SOA_POINTS : 1024, // points among which k-means++ draws one by one
    HOST_SUBCHUNKS = HOST_CHUNK / HOST_SUBCHUNK,           // of a chunk
    HOST_CANDIDATES = 13,                                  // of a pick, at most
    HOST_REFRESH = 32                                      // sums start again from zero after so many updates
};

// ... 1 definition

struct host_fit {
    long long n;
    host_data data;
    km_real *points; // in SoA groups: value f of point i of one lies at [f * SOA_POINTS + i]
    double *weights; // or NULL
    host_slot slots[HOST_KS];
    km_total_units units[PITCH]; // of the totals' columns
    int started, partials_count; // buffers of partial sums: pieces of a pass that are worked on together
    int64_t sums_count;
    double *partials;   // partials_count x sums_count
    km_cpu_slot *lists; // partials_count x the list of K
};

// ... 4 definitions

static int host_no_memory(int64_t bytes) {
    return host_fail(HOST_MEMORY, "not enough memory for %.1f MiB: give fewer points",
                     (double)bytes / 1048576);
}

// A point's first value; the next ones lie SOA_POINTS apart.
static const km_real *host_point(const host_fit *fit, int64_t i) {
    return fit->points + i / SOA_POINTS * SOA_POINTS * D + i % SOA_POINTS;
}

static double host_weight(const host_fit *fit, int64_t i) {
    return fit->weights ? fit->weights[i] : 1.0;
}

static const double *host_weights_from(const host_fit *fit, int64_t i) {
    return fit->weights ? fit->weights + i : NULL;
}

// ... 2 definitions

static int host_statistics(host_fit *fit, const km_real *points) {
    const int64_t chunks = host_pieces(fit->n, HOST_CHUNK);
    double *sums = (double *)host_alloc((chunks + 1) * 4 * D, sizeof *sums), *all = sums + chunks * 4 * D;
    double *origin = (double *)host_alloc(D, sizeof *origin);
    int is_exact = 0, failed = !sums || !origin;
    for (int f = 0; f < D && !failed; f++) origin[f] = (double)points[f];
    for (int turn = 0; turn < 2 && !failed && !is_exact; turn++) {
#ifdef _OPENMP
#pragma omp parallel for
#endif
        for (int64_t b = 0; b < chunks; b++)
            host_chunk_sums(sums + b * 4 * D, points + b * HOST_CHUNK * D,
                            host_weights_from(fit, b * HOST_CHUNK),
                            host_min(HOST_CHUNK, fit->n - b * HOST_CHUNK), origin);
        memcpy(all, sums, 4 * D * sizeof *all);
        for (int64_t b = 1; b < chunks; b++)
            for (int f = 0; f < D; f++) {
                const double *own = sums + b * 4 * D;
                all[f] += own[f];
                all[D + f] += own[D + f];
                all[2 * D + f] = fmin(all[2 * D + f], own[2 * D + f]);
                all[3 * D + f] = fmax(all[3 * D + f], own[3 * D + f]);
            }
        is_exact = host_take_statistics(&fit->data, all, origin);
        for (int f = 0; f < D; f++) origin[f] = fit->data.mean[f];
    }
    free(sums);
    free(origin);
    return failed ? host_no_memory((chunks + 2) * 32 * D) : host_choose_move(&fit->data);
}

// What cannot be clustered: the first number that is not finite.
static int host_check_values(host_fit *fit, const km_real *points) {
    int64_t bad = INT64_MAX;
#ifdef _OPENMP
#pragma omp parallel for reduction(min : bad)
#endif
    for (int64_t i = 0; i < fit->n * D; i++)
        if (!(fabs((double)points[i]) <= DBL_MAX)) bad = host_min(bad, i);
    if (bad < INT64_MAX)
        return host_fail(HOST_DATA, "feature %lld of point %lld is no finite number: leave such points out",
                         (long long)(bad % D), (long long)(bad / D));
    for (int64_t i = 0; i < fit->n; i++) {
        if (!(host_weight(fit, i) >= 0 && host_weight(fit, i) <= DBL_MAX))
            return host_fail(HOST_DATA, "the weight of point %lld is negative or no finite number",
                             (long long)i);
        fit->data.total_weight += host_weight(fit, i);
    }
    return HOST_OK;
}

static void host_move(host_fit *fit, const km_real *points) {
    const host_data *data = &fit->data;
#ifdef _OPENMP
#pragma omp parallel for
#endif
    for (int64_t g = 0; g < host_groups(fit->n); g++)
        for (int64_t i = g * SOA_POINTS; i < host_min((g + 1) * SOA_POINTS, fit->n); i++)
            for (int f = 0; f < D; f++)
                fit->points[(g * D + f) * SOA_POINTS + i % SOA_POINTS] =
                    (km_real)(((double)points[i * D + f] - data->centre[f]) * data->factor);
}

static int host_reserve(host_fit *fit) {
    int64_t rows = 0, bytes = host_groups(fit->n) * SOA_POINTS * (D + 1) * (int64_t)sizeof(km_real);
    int threads = 1, failed = 0;
#ifdef _OPENMP
    threads = omp_get_max_threads();
#endif
    for (int i = 0; i < HOST_KS; i++) {
        host_slot *slot = &fit->slots[i];
        const int64_t k = slot->k = host_ks[i];
        slot->labels_bytes = k <= 256 ? 1 : k <= 65536 ? 2 : 4;
        slot->centroids = (double *)host_alloc(k * D, sizeof *slot->centroids);
        slot->before = (double *)host_alloc(k * D, sizeof *slot->before);
        slot->totals = (double *)host_alloc(k * PITCH, sizeof *slot->totals);
        slot->digits = (double *)host_alloc(KM_TOTAL_DIGITS * k * PITCH, sizeof *slot->digits);
        slot->table = (km_real *)host_alloc(KM_CPU_TABLE_ROWS(k) * (D + 1), sizeof *slot->table);
        slot->labels = host_alloc(host_groups(fit->n) * SOA_POINTS, slot->labels_bytes);
        slot->may_stay_empty = (unsigned char *)host_alloc(k, 1);
        failed |= !slot->centroids || !slot->before || !slot->totals || !slot->digits || !slot->table ||
                  !slot->labels || !slot->may_stay_empty;
        rows += k;
    }
    // As many buffers of partial sums as keep threads busy, in 256 MB.
    fit->sums_count = rows * PITCH;
    fit->partials_count = (int)host_min(host_min(4 * threads, host_pieces(fit->n, HOST_PASS_POINTS)),
                                        268435456 / (fit->sums_count * 8) + 1);
    fit->partials = (double *)host_alloc(fit->partials_count * fit->sums_count, sizeof *fit->partials);
    fit->lists = (km_cpu_slot *)host_alloc(fit->partials_count * HOST_KS, sizeof *fit->lists);
    fit->points = (km_real *)host_alloc(host_groups(fit->n) * SOA_POINTS * D, sizeof *fit->points);
    failed |= !fit->partials || !fit->lists || !fit->points;
    return failed ? host_no_memory(bytes + fit->partials_count * fit->sums_count * 8) : HOST_OK;
}

// ... 1 definition

// Of a feature's sums, weights and counts. While labels change, points join before others leave: two bits more.
static void host_choose_units(host_fit *fit) {
    const host_data *data = &fit->data;
    for (int f = 0; f < PITCH; f++) {
        int exponent = 2 + host_exponent(f <= D ? data->total_weight : (double)fit->n);
        if (f < D) {
            const double low = (data->low[f] - data->centre[f]) * data->factor,
                         high = (data->high[f] - data->centre[f]) * data->factor;
            exponent +=
                host_exponent(fmax(fabs(low), fabs(high)) * (1 + 1.0 / 1048576)); // values are rounded
        }
        fit->units[f] = km_total_units_of(exponent);
    }
}

static int host_fill(host_fit *fit, const km_real *points, const double *weights) {
    int failed;
    if (weights) {
        fit->weights = (double *)host_alloc(host_groups(fit->n) * SOA_POINTS, sizeof *fit->weights);
        if (!fit->weights) return host_no_memory(fit->n * 8);
        memcpy(fit->weights, weights, (size_t)fit->n * sizeof *weights);
    }
    if ((failed = host_check_values(fit, points)) || (failed = host_statistics(fit, points)) ||
        (failed = host_reserve(fit)))
        return failed;
    host_choose_units(fit);
    host_move(fit, points);
    return HOST_OK;
}

static int host_check_machine(void) {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return host_fail(HOST_DEVICE, "this machine has no AVX2: emit with --target cpu:generic");
    return HOST_OK;
}

int host_create(host_fit **out, const host_real *points, const double *weights, long long n) {
    int failed;
    if (!out) return host_fail(HOST_ARGUMENT, "out is NULL");
    host_fit *fit = *out = (host_fit *)calloc(1, sizeof *fit);
    if (!fit) return host_no_memory(sizeof *fit);
    fit->n = n;
    failed = host_check(fit, points, n);
    if (!failed) failed = host_check_machine();
    if (!failed) failed = host_fill(fit, points, weights);
    if (failed) host_destroy(out);
    return failed;
}

void host_destroy(host_fit **out) {
    host_fit *fit = out ? *out : NULL;
    if (!fit) return;
    for (int i = 0; i < HOST_KS; i++) {
        free(fit->slots[i].centroids);
        free(fit->slots[i].before);
        free(fit->slots[i].totals);
        free(fit->slots[i].digits);
        free(fit->slots[i].table);
        free(fit->slots[i].labels);
        free(fit->slots[i].may_stay_empty);
    }
    free(fit->points);
    free(fit->weights);
    free(fit->partials);
    free(fit->lists);
    free(fit);
    *out = NULL;
}

// ... 3 definitions

int host_start(host_fit *fit, const host_real *centroids) {
    int failed = host_check(fit, centroids, HOST_K_MAX);
    if (failed) return failed;
    for (int64_t i = 0; i < HOST_ROWS * (int64_t)D; i++)
        if ((failed = host_check_first(&fit->data, (double)centroids[i], i))) return failed;
    for (int q = 0; q < HOST_KS; q++) {
        host_slot *slot = &fit->slots[q];
        for (int64_t i = 0; i < slot->k * (int64_t)D; i++)
            slot->centroids[i] =
                (double)host_there(&fit->data, centroids[host_offsets[q] * (int64_t)D + i], (int)(i % D));
        host_begin(slot);
    }
    fit->started = 1;
    return HOST_OK;
}

// ... 2 definitions

static void host_get_row(km_real *row, const host_fit *fit, int64_t i) {
    const km_real *x = host_point(fit, i);
    for (int f = 0; f < D; f++) row[f] = x[(int64_t)f * SOA_POINTS];
}

// ... 1 definition

// w times the squared distance to the nearest pick, of which `nearest` does not know the last.
static double host_share(const host_fit *fit, host_chain *chain, int64_t i) {
    const km_real *x = host_point(fit, i), *row = host_row(chain, HOST_CANDIDATES);
    km_real square = 0;
    if (!chain->has_pick) return host_weight(fit, i);
    for (int f = 0; f < D; f++) {
        const km_real t = x[(int64_t)f * SOA_POINTS] - row[f];
        square += t * t;
    }
    return host_weight(fit, i) * (double)(square < chain->nearest[i] ? square : chain->nearest[i]);
}

// ... 1 definition

static int64_t host_draw(const host_fit *fit, host_chain *chain, double target) {
    double running = 0;
    const int64_t chunk = host_draw_among(&running, chain->chunk_shares, 0, chain->chunks, target);
    const int64_t first_subchunk = chunk * HOST_SUBCHUNKS;
    const int64_t subchunk =
        host_draw_among(&running, chain->shares, first_subchunk,
                        host_min(HOST_SUBCHUNKS, chain->subchunks - first_subchunk), target);
    int64_t pick = subchunk * HOST_SUBCHUNK;
    for (int64_t i = subchunk * HOST_SUBCHUNK; i < host_min((subchunk + 1) * HOST_SUBCHUNK, fit->n); i++) {
        const double share = host_share(fit, chain, i);
        if (!(share > 0)) continue;
        pick = i;
        running += share;
        if (running > target) break;
    }
    return pick;
}

// One read of the points: what would be left with each candidate.
static void host_weigh(const host_fit *fit, host_chain *chain, int count) {
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 16)
#endif
    for (int64_t p = 0; p < chain->subchunks; p++) {
        const int64_t first = p * HOST_SUBCHUNK;
        km_cpu_chain one = {chain->nearest + first, chain->has_pick ? host_row(chain, HOST_CANDIDATES) : NULL,
                            chain->rows, count, chain->potentials + p * HOST_CANDIDATES};
        km_cpu_seeding work = {fit->points + first * D,
                               host_weights_from(fit, first),
                               host_min(HOST_SUBCHUNK, fit->n - first),
                               D,
                               SOA_POINTS,
                               &one,
                               1};
        km_kernels.seed(&work);
    }
}

// The candidate that leaves the least becomes the pick.
static int64_t host_choose(const host_fit *fit, host_chain *chain, int count) {
    int best = 0;
    double least = HUGE_VAL;
    for (int c = 0; c < count; c++) {
        double sum = 0;
        for (int64_t b = 0; b < chain->chunks; b++) {
            double chunk = 0;
            for (int64_t p = b * HOST_SUBCHUNKS; p < host_min((b + 1) * HOST_SUBCHUNKS, chain->subchunks);
                 p++)
                chunk += chain->potentials[p * HOST_CANDIDATES + c];
            sum += chunk;
        }
        if (sum < least) {
            least = sum;
            best = c;
        }
    }
    for (int64_t p = 0; p < chain->subchunks; p++)
        chain->shares[p] = chain->potentials[p * HOST_CANDIDATES + best];
    host_add_subchunks(chain);
    host_get_row(host_row(chain, HOST_CANDIDATES), fit, chain->candidates[best]);
    chain->has_pick = 1;
    return chain->candidates[best];
}

static int64_t host_pick(const host_fit *fit, host_chain *chain, unsigned long long seed, int pick) {
    const int count = host_candidates(pick);
    double total = 0;
    for (int64_t b = 0; b < chain->chunks; b++) total += chain->chunk_shares[b];
    if (!(total > 0)) // no more distinct points
        return host_min((int64_t)(km_draw(seed, 0, (unsigned long long)pick, 0) * (double)fit->n),
                        fit->n - 1);
    for (int c = 0; c < count; c++) {
        chain->candidates[c] =
            host_draw(fit, chain, km_draw(seed, 0, (unsigned long long)pick, (unsigned long long)c) * total);
        host_get_row(host_row(chain, c), fit, chain->candidates[c]);
    }
    host_weigh(fit, chain, count);
    return host_choose(fit, chain, count);
}

static int host_chain_init(host_chain *chain, const host_fit *fit) {
    memset(chain, 0, sizeof *chain);
    chain->subchunks = host_pieces(fit->n, HOST_SUBCHUNK);
    chain->chunks = host_pieces(fit->n, HOST_CHUNK);
    chain->shares = (double *)host_alloc(chain->subchunks, sizeof *chain->shares);
    chain->chunk_shares = (double *)host_alloc(chain->chunks, sizeof *chain->chunk_shares);
    chain->potentials = (double *)host_alloc(chain->subchunks * HOST_CANDIDATES, sizeof *chain->potentials);
    chain->nearest = (km_real *)host_alloc(host_groups(fit->n) * SOA_POINTS, sizeof *chain->nearest);
    chain->rows = (km_real *)host_alloc((HOST_CANDIDATES + 1) * (int64_t)D, sizeof *chain->rows);
    if (!chain->shares || !chain->chunk_shares || !chain->potentials || !chain->nearest || !chain->rows)
        return host_no_memory(fit->n * (int64_t)sizeof(km_real));
    for (int64_t i = 0; i < host_groups(fit->n) * SOA_POINTS; i++) chain->nearest[i] = (km_real)HUGE_VAL;
    for (int64_t p = 0; p < chain->subchunks; p++)
        for (int64_t i = p * HOST_SUBCHUNK; i < host_min((p + 1) * HOST_SUBCHUNK, fit->n); i++)
            chain->shares[p] += host_weight(fit, i);
    host_add_subchunks(chain);
    return HOST_OK;
}

// ... 1 definition

int host_seed(host_fit *fit, unsigned long long seed) {
    host_chain chain;
    int failed = host_check(fit, fit, HOST_K_MAX);
    if (failed) return failed;
    failed = host_chain_init(&chain, fit);
    for (int pick = 0; pick < HOST_K_MAX && !failed; pick++) {
        const km_real *x = host_point(fit, host_pick(fit, &chain, seed, pick));
        for (int q = 0; q < HOST_KS; q++)
            for (int f = 0; f < D && pick < host_ks[q]; f++)
                fit->slots[q].centroids[(int64_t)pick * D + f] = (double)x[(int64_t)f * SOA_POINTS];
    }
    host_chain_free(&chain);
    if (failed) return failed;
    for (int q = 0; q < HOST_KS; q++) host_begin(&fit->slots[q]);
    fit->started = 1;
    return HOST_OK;
}

// ... 1 definition

// One piece of a pass: labels of every active K, and its partial sums.
static void host_pass_piece(host_fit *fit, int64_t piece, km_cpu_slot *list, double *sums) {
    const int64_t first = piece * HOST_PASS_POINTS;
    int count = 0;
    for (int q = 0; q < HOST_KS; q++) {
        const host_slot *slot = &fit->slots[q];
        if (!km_slot_is_active(slot->state.phase)) continue;
        km_cpu_slot *one = &list[count++];
        memset(one, 0, sizeof *one);
        one->k = slot->k;
        one->k_index = q;
        one->table = slot->table;
        one->labels = (char *)slot->labels + first * slot->labels_bytes;
        one->sums = sums + host_offsets[q] * (int64_t)PITCH;
        one->mode = slot->mode;
        one->labels_bytes = slot->labels_bytes;
    }
    km_cpu_chunk work = {fit->points + first * D,
                         host_weights_from(fit, first),
                         host_min(HOST_PASS_POINTS, fit->n - first),
                         D,
                         SOA_POINTS,
                         list,
                         count,
                         NULL};
    km_kernels.pass(&work);
}

// Adds the partial sums of a piece to the totals' digits, and sets them to zero again.
static void host_collect(host_fit *fit, const km_cpu_slot *list) {
    for (int q = 0; q < HOST_KS; q++) {
        host_slot *slot = &fit->slots[q];
        if (!km_slot_is_active(slot->state.phase)) continue;
        slot->changed += list->changed;
        const int64_t count = slot->k * (int64_t)PITCH;
        double *high = slot->digits, *middle = high + count, *low = middle + count;
        for (int64_t i = 0; i < count; i++)
            km_total_add(high + i, middle + i, low + i, &fit->units[i % PITCH], list->sums[i]);
        memset(list->sums, 0, (size_t)(slot->k * (int64_t)PITCH) * sizeof *list->sums);
        list++;
    }
}

// Makes the totals of their digits.
static void host_read_totals(const host_fit *fit, host_slot *slot) {
    const int64_t count = slot->k * (int64_t)PITCH;
    double *high = slot->digits, *middle = high + count, *low = middle + count;
    for (int64_t i = 0; i < count; i++) {
        // An empty cluster starts again from exact zeros: its count, an integer, says so.
        if (high[i / PITCH * PITCH + D + 1] == 0) high[i] = middle[i] = low[i] = 0;
        km_total_carry(high + i, middle + i, low + i, &fit->units[i % PITCH]);
        slot->totals[i] = km_total_value(high[i], middle[i], low[i]);
    }
}

static void host_pass(host_fit *fit) {
    const int64_t pieces = host_pieces(fit->n, HOST_PASS_POINTS);
    for (int q = 0; q < HOST_KS; q++) {
        host_slot *slot = &fit->slots[q];
        slot->changed = 0;
        if (km_slot_is_active(slot->state.phase) && slot->mode != KM_CPU_MOVE)
            memset(slot->digits, 0, (size_t)(KM_TOTAL_DIGITS * slot->k * PITCH) * sizeof *slot->digits);
    }
    for (int64_t base = 0; base < pieces; base += fit->partials_count) {
        const int64_t here = host_min(fit->partials_count, pieces - base);
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 1)
#endif
        for (int64_t b = 0; b < here; b++)
            host_pass_piece(fit, base + b, fit->lists + b * HOST_KS, fit->partials + b * fit->sums_count);
        for (int64_t b = 0; b < here; b++) host_collect(fit, fit->lists + b * HOST_KS);
    }
    for (int q = 0; q < HOST_KS; q++) {
        host_slot *slot = &fit->slots[q];
        if (!km_slot_is_active(slot->state.phase)) continue;
        slot->mode = KM_CPU_MOVE;
        host_read_totals(fit, slot);
    }
}

// ... 1 definition

// Centroids become the means of their points. Returns the squared shift.
static double host_update(const host_fit *fit, host_slot *slot) {
    const int masked = slot->k <= km_kernels.masked_sums_k_max && !fit->weights;
    const int64_t moves_most = masked ? fit->n / 45 * slot->k : fit->n / 2;
    double shift = 0;
    if (slot->are_means && slot->changed == 0) return 0;
    slot->are_means = 1;
    for (int64_t j = 0; j < slot->k; j++) {
        double *c = slot->centroids + j * D;
        const double *sum = slot->totals + j * PITCH;
        for (int f = 0; f < D && sum[D] > 0; f++) {
            const double mean = (double)(km_real)(sum[f] / sum[D]), moved = mean - c[f];
            shift += moved * moved;
            c[f] = mean;
        }
    }
    if ((slot->state.iterations + 1) % HOST_REFRESH == 0 || slot->changed > moves_most)
        slot->mode = KM_CPU_REFRESH;
    host_put_table(slot->table, slot->centroids, slot->k);
    return shift;
}

static void host_step(const host_fit *fit, host_slot *slot, double shift_max) {
    km_slot_found found;
    memset(&found, 0, sizeof found);
    for (int64_t j = 0; j < slot->k; j++) found.relocatable |= host_is_relocatable(slot, j);
    if (found.relocatable) memcpy(slot->before, slot->centroids, (size_t)slot->k * D * sizeof *slot->before);
    if (slot->state.phase == KM_SLOT_RUNNING) found.shift = host_update(fit, slot);
    km_slot_decide(&slot->state, &found, shift_max, INT64_MAX);
}

// ... 2 definitions

static int host_finisher_init(host_finisher *f, const double *centroids, int k) {
    const int64_t multiple = km_kernels.finish_row_multiple;
    memset(f, 0, sizeof *f);
    f->row = (D + multiple - 1) / multiple * multiple;
    f->centroids = (double *)host_alloc(k * f->row, sizeof *f->centroids);
    f->columns = (double *)host_alloc((int64_t)D * KM_CPU_FEW_CLUSTERS, sizeof *f->columns);
    f->table = (km_real *)host_alloc(KM_CPU_TABLE_ROWS(k) * (D + 1), sizeof *f->table);
    if (!f->centroids || !f->columns || !f->table) return host_no_memory(k * (f->row + D) * 8);
    for (int64_t j = 0; j < k; j++)
        for (int i = 0; i < D; i++) {
            f->centroids[j * f->row + i] = (double)(km_real)centroids[j * D + i];
            if (k <= KM_CPU_FEW_CLUSTERS)
                f->columns[i * KM_CPU_FEW_CLUSTERS + j] = f->centroids[j * f->row + i];
        }
    host_put_table(f->table, centroids, k);
    f->model.k = k;
    f->model.centroids = f->centroids;
    f->model.columns = f->columns;
    f->model.table = f->table;
    return HOST_OK;
}

// ... 1 definition

// A chunk: labels, squared distances and sums, where they are wanted.
static void host_finish_chunk(const host_fit *fit, const host_finisher *f, int64_t chunk, int *labels,
                              double *squares, double *sums) {
    const int64_t first = chunk * HOST_CHUNK;
    km_cpu_finish_model model = f->model;
    model.labels = labels ? labels + first : NULL;
    model.squares = squares ? squares + first : NULL;
    model.sums = sums;
    km_cpu_finish work = {fit->points + first * D,
                          host_weights_from(fit, first),
                          host_min(HOST_CHUNK, fit->n - first),
                          D,
                          SOA_POINTS,
                          f->row,
                          &model,
                          1};
    km_kernels.finish(&work);
}

int host_result(host_fit *fit, int index, host_model *model) {
    host_finisher f;
    int failed = host_check(fit, model, HOST_K_MAX);
    if (!failed) failed = host_check_index(index);
    if (!failed && !fit->started)
        failed = host_fail(HOST_ARGUMENT, "there are no first centroids yet: start or seed");
    if (failed) return failed;
    const host_slot *slot = &fit->slots[index];
    const int64_t chunks = host_pieces(fit->n, HOST_CHUNK), numbers = slot->k * KM_CPU_SUMS;
    const int64_t partials_count = host_min(chunks, 64);
    double *sums = (double *)host_alloc((partials_count + 1) * numbers, sizeof *sums),
           *all = sums + partials_count * numbers;
    failed = host_finisher_init(&f, slot->centroids, slot->k);
    if (!failed && !sums) failed = host_no_memory((partials_count + 1) * numbers * 8);
    for (int64_t base = 0; base < chunks && !failed; base += partials_count) {
        const int64_t here = host_min(partials_count, chunks - base);
        memset(sums, 0, (size_t)(partials_count * numbers) * sizeof *sums);
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 1)
#endif
        for (int64_t b = 0; b < here; b++)
            host_finish_chunk(fit, &f, base + b, model->labels, NULL, sums + b * numbers);
        for (int64_t b = 0; b < here; b++)
            for (int64_t i = 0; i < numbers; i++) all[i] += sums[b * numbers + i];
    }
    model->k = slot->k;
    model->converged = slot->state.converged;
    model->n_iter = slot->state.iterations;
    model->inertia = 0;
    for (int64_t j = 0; j < slot->k && !failed; j++) {
        model->inertia += all[j * KM_CPU_SUMS + KM_CPU_SUM_SSE] / fit->data.factor / fit->data.factor;
        if (model->counts) model->counts[j] = (long long)all[j * KM_CPU_SUMS + KM_CPU_SUM_COUNT];
        for (int i = 0; i < D && model->centroids; i++)
            model->centroids[j * D + i] = host_back(&fit->data, slot->centroids[j * D + i], i);
    }
    free(sums);
    host_finisher_free(&f);
    return failed;
}

// ... 1 definition

static double host_square_min(const host_fit *fit) {
    double squares[HOST_SAMPLE];
    const int count = (int)host_min(fit->n, HOST_SAMPLE);
    for (int s = 0; s < count; s++) {
        const km_real *x = host_point(fit, (int64_t)((double)s * (double)fit->n / (double)count));
        squares[s] = 0;
        for (int f = 0; f < D; f++)
            squares[s] += (double)x[(int64_t)f * SOA_POINTS] * (double)x[(int64_t)f * SOA_POINTS];
    }
    return host_rounding2(fit->n) * host_typical(squares, count);
}

// The point farthest from its centroid that weighs, and is farther than rounding; -1: there is none. It, and those with
// its coordinates, are out from then on.
static int64_t host_farthest(const host_fit *fit, double *squares, double square_min) {
    int64_t best = -1;
    for (int64_t i = 0; i < fit->n; i++) {
        if (!(squares[i] > square_min) || (best >= 0 && !(squares[i] > squares[best]))) continue;
        const km_real *x = host_point(fit, i);
        double size = 0;
        for (int f = 0; f < D; f++)
            size += (double)x[(int64_t)f * SOA_POINTS] * (double)x[(int64_t)f * SOA_POINTS];
        if (squares[i] > host_rounding2(fit->n) * size && host_weight(fit, i) > 0) best = i;
    }
    for (int64_t i = 0; i < fit->n && best >= 0; i++) {
        const km_real *x = host_point(fit, i), *y = host_point(fit, best);
        int f = 0;
        while (f < D && x[(int64_t)f * SOA_POINTS] == y[(int64_t)f * SOA_POINTS]) f++;
        if (f == D) squares[i] = 0;
    }
    return best;
}

static int host_relocate(host_fit *fit, host_slot *slot) {
    host_finisher f;
    int64_t chunks = host_pieces(fit->n, HOST_CHUNK), found = 0, count = 0;
    double *squares = (double *)host_alloc(fit->n, sizeof *squares);
    int *labels = (int *)host_alloc(fit->n, sizeof *labels);
    double *rows = (double *)host_alloc(slot->k * (D + 1), sizeof *rows),
           *weights = rows + slot->k * (int64_t)D;
    km_relocated_point *moved = (km_relocated_point *)host_alloc(slot->k, sizeof *moved);
    int failed = host_finisher_init(&f, slot->before, slot->k);
    if (!failed && (!squares || !labels || !rows || !moved)) failed = host_no_memory(fit->n * 12);
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 1) if (!failed)
#endif
    for (int64_t b = 0; b < chunks; b++)
        if (!failed) host_finish_chunk(fit, &f, b, labels, squares, NULL);
    const double square_min = host_square_min(fit);
    for (int j = 0; j < slot->k && !failed; j++) {
        weights[j] = slot->totals[j * PITCH + D];
        if (!host_is_relocatable(slot, j)) continue;
        if (found >= 0) found = host_farthest(fit, squares, square_min);
        slot->may_stay_empty[j] = found < 0;
        if (found < 0) continue;
        for (int i = 0; i < D; i++)
            rows[count * D + i] = (double)host_point(fit, found)[(int64_t)i * SOA_POINTS];
        const km_relocated_point point = {found, labels[found], j, host_weight(fit, found)};
        moved[count++] = point;
    }
    if (!failed) {
        km_relocate_points(slot->centroids, weights, slot->k, D, moved, rows, count, slot->state.is_updated);
        for (int64_t i = 0; i < slot->k * (int64_t)D; i++)
            slot->centroids[i] = (double)(km_real)slot->centroids[i];
        host_put_table(slot->table, slot->centroids, slot->k);
    }
    slot->are_means = 0;
    slot->state.phase = KM_SLOT_RUNNING;
    free(squares);
    free(labels);
    free(rows);
    free(moved);
    host_finisher_free(&f);
    return failed;
}

int host_run(host_fit *fit, long long passes_max, double tolerance, long long *passes) {
    long long done = 0;
    int failed = host_check(fit, fit, HOST_K_MAX), active = 1;
    if (passes) *passes = 0;
    if (!failed && !fit->started)
        failed = host_fail(HOST_ARGUMENT, "there are no first centroids yet: start or seed");
    if (!failed && !(tolerance >= 0))
        failed = host_fail(HOST_ARGUMENT, "tolerance is %g; it must be 0 or more", tolerance);
    while (!failed && active && done < passes_max) {
        active = 0;
        for (int q = 0; q < HOST_KS; q++) {
            if (fit->slots[q].state.phase == KM_SLOT_EMPTY && !failed)
                failed = host_relocate(fit, &fit->slots[q]);
            active |= km_slot_is_active(fit->slots[q].state.phase);
        }
        if (failed || !active) break;
        host_pass(fit);
        done++;
        for (int q = 0; q < HOST_KS; q++)
            if (km_slot_is_active(fit->slots[q].state.phase))
                host_step(fit, &fit->slots[q], host_shift_max(&fit->data, tolerance));
    }
    if (passes) *passes = done;
    return failed;
}

// ... 3 definitions

// Milliseconds of a plain read of the points as they lie inside; a wrong sum would say that it was not read.
static double host_read_ms(host_fit *fit) {
    const int64_t count = host_groups(fit->n) * SOA_POINTS * D;
    double least = 1e30, total = 0;
    for (int turn = 0; turn < 5; turn++) {
        const double begin = host_now_ms();
        uint64_t sum = 0;
#ifdef _OPENMP
#pragma omp parallel for reduction(+ : sum)
#endif
        for (int64_t i = 0; i < count * (int64_t)sizeof(km_real) / 8; i++) {
            uint64_t word;
            memcpy(&word, (const char *)fit->points + i * 8, 8);
            sum += word;
        }
        total += (double)(sum & 1);
        least = fmin(least, host_now_ms() - begin);
    }
    return total < 0 ? total : least;
}
// The program: reads points or makes some, runs, checks itself, measures.

// ... 14 definitions

// ... 14 definitions

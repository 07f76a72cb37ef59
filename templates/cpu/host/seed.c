// SPDX-License-Identifier: MIT
// First centroids -------------------------------------------------------------------------------------------------

// Rows of the centroids, and behind each -|c|^2 / 2; then rows that never win.
static void host_put_table(km_real *table, const double *centroids, int k) {
    for (int j = 0; j < KM_CPU_TABLE_ROWS(k); j++) {
        double square = 0;
        for (int f = 0; f < D; f++) {
            const double c = j < k ? centroids[(int64_t)j * D + f] : 0.0;
            square += c * c;
            table[(int64_t)j * (D + 1) + f] = (km_real)c;
        }
        table[(int64_t)j * (D + 1) + D] = j < k ? (km_real)(-0.5 * square) : (km_real)-HUGE_VAL;
    }
}

static void host_begin(host_slot *slot) {
    memset(slot->may_stay_empty, 0, (size_t)slot->k);
    host_put_table(slot->table, slot->centroids, slot->k);
    memset(&slot->state, 0, sizeof slot->state);
    slot->state.phase = KM_SLOT_RUNNING;
    slot->mode = KM_CPU_FIRST;
    slot->changed = slot->are_means = 0;
}

int $name_start($name_fit *fit, const $name_real *centroids) {
    int failed = host_check(fit, centroids, $upper_K_MAX);
    if (failed) return failed;
    for (int64_t i = 0; i < $upper_ROWS * (int64_t)D; i++)
        if ((failed = host_check_first(&fit->data, (double)centroids[i], i))) return failed;
    for (int q = 0; q < $upper_KS; q++) {
        host_slot *slot = &fit->slots[q];
        for (int64_t i = 0; i < slot->k * (int64_t)D; i++)
            slot->centroids[i] =
                (double)host_there(&fit->data, centroids[host_offsets[q] * (int64_t)D + i], (int)(i % D));
        host_begin(slot);
    }
    fit->started = 1;
    return $upper_OK;
}

// k-means++: what is drawn from, by subchunks and by chunks, and what it would become with each candidate.
typedef struct host_chain {
    int64_t subchunks, chunks;
    double *shares,
        *chunk_shares;  // sums of w times squared distance to the nearest pick; of w before the first
    double *potentials; // subchunks x HOST_CANDIDATES
    km_real *nearest;
    km_real *rows; // candidates, and behind them the last pick
    int64_t candidates[HOST_CANDIDATES];
    int has_pick;
} host_chain;

static km_real *host_row(host_chain *chain, int c) {
    return chain->rows + c * (int64_t)D;
}

static void host_get_row(km_real *row, const $name_fit *fit, int64_t i) {
    const km_real *x = host_point(fit, i);
    for (int f = 0; f < D; f++) row[f] = x[(int64_t)f * SOA_POINTS];
}

static void host_add_subchunks(host_chain *chain) {
    for (int64_t b = 0; b < chain->chunks; b++) {
        chain->chunk_shares[b] = 0;
        for (int64_t p = b * HOST_SUBCHUNKS; p < host_min((b + 1) * HOST_SUBCHUNKS, chain->subchunks); p++)
            chain->chunk_shares[b] += chain->shares[p];
    }
}

// w times the squared distance to the nearest pick, of which `nearest` does not know the last.
static double host_share(const $name_fit *fit, host_chain *chain, int64_t i) {
    const km_real *x = host_point(fit, i), *row = host_row(chain, HOST_CANDIDATES);
    km_real square = 0;
    if (!chain->has_pick) return host_weight(fit, i);
    for (int f = 0; f < D; f++) {
        const km_real t = x[(int64_t)f * SOA_POINTS] - row[f];
        square += t * t;
    }
    return host_weight(fit, i) * (double)(square < chain->nearest[i] ? square : chain->nearest[i]);
}

// The first of `count` shares at which the running sum exceeds the target, or the last that is not 0. *running: the sum
// before it.
static int64_t host_draw_among(double *running, const double *shares, int64_t first, int64_t count,
                               double target) {
    int64_t taken = first;
    double sum = *running;
    for (int64_t i = first; i < first + count; i++) {
        if (!(shares[i] > 0)) continue;
        taken = i;
        *running = sum;
        sum += shares[i];
        if (sum > target) break;
    }
    return taken;
}

static int64_t host_draw(const $name_fit *fit, host_chain *chain, double target) {
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
static void host_weigh(const $name_fit *fit, host_chain *chain, int count) {
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
static int64_t host_choose(const $name_fit *fit, host_chain *chain, int count) {
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

static int64_t host_pick(const $name_fit *fit, host_chain *chain, unsigned long long seed, int pick) {
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

static int host_chain_init(host_chain *chain, const $name_fit *fit) {
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
    return $upper_OK;
}

static void host_chain_free(host_chain *chain) {
    free(chain->shares);
    free(chain->chunk_shares);
    free(chain->potentials);
    free(chain->nearest);
    free(chain->rows);
}

int $name_seed($name_fit *fit, unsigned long long seed) {
    host_chain chain;
    int failed = host_check(fit, fit, $upper_K_MAX);
    if (failed) return failed;
    failed = host_chain_init(&chain, fit);
    for (int pick = 0; pick < $upper_K_MAX && !failed; pick++) {
        const km_real *x = host_point(fit, host_pick(fit, &chain, seed, pick));
        for (int q = 0; q < $upper_KS; q++)
            for (int f = 0; f < D && pick < host_ks[q]; f++)
                fit->slots[q].centroids[(int64_t)pick * D + f] = (double)x[(int64_t)f * SOA_POINTS];
    }
    host_chain_free(&chain);
    if (failed) return failed;
    for (int q = 0; q < $upper_KS; q++) host_begin(&fit->slots[q]);
    fit->started = 1;
    return $upper_OK;
}

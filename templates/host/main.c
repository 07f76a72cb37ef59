// SPDX-License-Identifier: MIT
// The program: reads points or makes some, runs, checks itself, measures.

typedef struct host_table {
    $name_real *points;
    long long n;
} host_table;

static double host_random(uint64_t *state) { // uniform in [0, 1)
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * (1.0 / 9007199254740992.0);
}

// Points of $upper_K_MAX blobs, which overlap so much that many passes are needed.
static int host_make_points(host_table *table, long long n) {
    enum { BLOBS = $upper_K_MAX < 64 ? $upper_K_MAX : 64 };
    uint64_t state = 1;
    double *centres = (double *)malloc(sizeof *centres * BLOBS * $upper_FEATURES);
    table->n = n;
    table->points = ($name_real *)malloc(sizeof *table->points * (size_t)n * $upper_FEATURES);
    if (!table->points || !centres) {
        free(centres);
        return host_fail($upper_MEMORY, "not enough memory for %lld points of %d features", n,
                         (int)$upper_FEATURES);
    }
    for (int i = 0; i < BLOBS * $upper_FEATURES; i++) centres[i] = 2 * host_random(&state);
    for (long long i = 0; i < n; i++) {
        const int blob = (int)(host_random(&state) * BLOBS);
        for (int f = 0; f < $upper_FEATURES; f++) {
            const double noise = host_random(&state) + host_random(&state) + host_random(&state) - 1.5;
            table->points[i * $upper_FEATURES + f] =
                ($name_real)(centres[blob * $upper_FEATURES + f] + noise);
        }
    }
    free(centres);
    return $upper_OK;
}

// The numbers of an .npy file begin behind its header, which must say this type, C order and $upper_FEATURES columns.
static int host_skip_npy_header(long *at, FILE *file, const char *path) {
    unsigned char head[12];
    char text[4096] = "", columns[32];
    rewind(file);
    *at = 0;
    if (fread(head, 1, sizeof head, file) != sizeof head || memcmp(head, "\x93NUMPY", 6))
        return $upper_OK; // raw
    const size_t begin = head[6] == 1 ? 10 : 12;
    const size_t size =
        head[6] == 1 ? head[8] + 256u * head[9] : head[8] + 256u * head[9] + 65536u * head[10];
    fseek(file, (long)begin, SEEK_SET);
    if (size >= sizeof text || fread(text, 1, size, file) != size)
        return host_fail($upper_DATA, "%s: its header is cut off", path);
    snprintf(columns, sizeof columns, ", %d)", (int)$upper_FEATURES);
    if (!strstr(text, sizeof($name_real) == 4 ? "'<f4'" : "'<f8'") ||
        !strstr(text, "'fortran_order': False") || !strstr(text, columns))
        return host_fail($upper_DATA, "%s: expected $type in C order, n rows of %d columns, got %.*s", path,
                         (int)$upper_FEATURES, (int)strcspn(text, "}") + 1, text);
    *at = (long)(begin + size);
    return $upper_OK;
}

static int host_read_points(host_table *table, const char *path) {
    const size_t row = sizeof($name_real) * $upper_FEATURES;
    long begin = 0, end = 0;
    FILE *file = fopen(path, "rb");
    if (!file)
        return host_fail($upper_DATA,
                         "cannot open %s: give a raw file of $type, or .npy, or a number of points", path);
    int failed = host_skip_npy_header(&begin, file, path);
    if (!failed && (fseek(file, 0, SEEK_END) || (end = ftell(file)) < begin || (size_t)(end - begin) % row))
        failed = host_fail($upper_DATA, "%s: %ld bytes are no whole number of points of %d $type", path,
                           end - begin, (int)$upper_FEATURES);
    table->n = failed ? 0 : (long long)((size_t)(end - begin) / row);
    table->points = ($name_real *)malloc((size_t)table->n * row + 1);
    if (!failed && !table->points) failed = host_fail($upper_MEMORY, "not enough memory for %s", path);
    if (!failed && (fseek(file, begin, SEEK_SET) ||
                    fread(table->points, row, (size_t)table->n, file) != (size_t)table->n))
        failed = host_fail($upper_DATA, "cannot read %s", path);
    fclose(file);
    return failed;
}

static double host_square(const $name_real *x, const $name_real *c) {
    double square = 0;
    for (int f = 0; f < $upper_FEATURES; f++) {
        const double t = (double)x[f] - (double)c[f];
        square += t * t;
    }
    return square;
}

// A plain pass of one K, in double: sums and counts of each cluster, the inertia, and how many points are ambiguous.
// Those lie within rounding of two centroids, and may have the label of either.
typedef struct host_plain {
    double *sums, inertia, size; // size: the largest coordinate in magnitude
    long long *counts, ambiguous;
} host_plain;

static void host_plain_pass(host_plain *out, const host_table *table, const $name_real *centroids, int k) {
    memset(out->sums, 0, sizeof *out->sums * (size_t)k * $upper_FEATURES);
    memset(out->counts, 0, sizeof *out->counts * (size_t)k);
    out->inertia = out->size = 0;
    out->ambiguous = 0;
    for (long long i = 0; i < table->n; i++) {
        const $name_real *x = table->points + i * $upper_FEATURES;
        double nearest = 1e300, second = 1e300, size = 0;
        int label = 0;
        for (int j = 0; j < k; j++) {
            const double square = host_square(x, centroids + (long long)j * $upper_FEATURES);
            second = fmin(second, fmax(square, nearest));
            if (square < nearest) label = j;
            nearest = fmin(nearest, square);
        }
        for (int f = 0; f < $upper_FEATURES; f++) {
            out->sums[(long long)label * $upper_FEATURES + f] += (double)x[f];
            out->size = fmax(out->size, fabs((double)x[f]));
            size += (double)x[f] * (double)x[f];
        }
        out->counts[label]++;
        out->inertia += nearest;
        out->ambiguous += second - nearest <= size * (sizeof($name_real) == 4 ? 1e-5 : 1e-13);
    }
}

// How far centroids after one pass are from those of the plain loop, as a part of the largest coordinate. Returns how
// many coordinates are farther than rounding and ambiguous points allow.
static int host_check_means(const host_plain *plain, const $name_real *moved, int k, double *worst) {
    const double rounding = sizeof($name_real) == 4 ? 4e-6 : 1e-12;
    int bad = 0;
    for (long long at = 0; at < (long long)k * $upper_FEATURES; at++) {
        const double count = (double)plain->counts[at / $upper_FEATURES];
        if (count == 0) continue; // an empty cluster is given another point
        const double mean = plain->sums[at] / count, away = fabs(mean - (double)moved[at]) / plain->size;
        *worst = fmax(*worst, away);
        bad += away > rounding + 4 * (double)plain->ambiguous / count;
    }
    return bad;
}

static const char *host_verdict(int bad) {
    return bad ? "WRONG" : "right";
}

// One pass of every K, and what is reported of the centroids that it left, against the plain loop. Returns how many
// numbers are wrong, or -1.
static int host_check_all(const host_table *table) {
    $name_fit *fit = NULL;
    $name_model model;
    host_plain plain;
    double worst = 0, worst_inertia = 0;
    int bad = 0, failed = 0;
    long long ambiguous = 0;
    const size_t rows = sizeof($name_real) * (size_t)$upper_FEATURES;
    $name_real *first = ($name_real *)malloc(rows * $upper_ROWS),
               *moved = ($name_real *)malloc(rows * $upper_K_MAX);
    int *labels = (int *)malloc(sizeof *labels * (size_t)table->n);
    plain.sums = (double *)malloc(sizeof(double) * $upper_K_MAX * $upper_FEATURES);
    plain.counts = (long long *)malloc(sizeof(long long) * $upper_K_MAX);
    if (!first || !moved || !labels || !plain.sums || !plain.counts)
        failed = host_fail($upper_MEMORY, "not enough memory for the check");
    for (int i = 0; i < $upper_KS && !failed; i++)
        for (int j = 0; j < host_ks[i]; j++)
            memcpy(first + ((long long)host_offsets[i] + j) * $upper_FEATURES,
                   table->points + table->n / host_ks[i] * j * $upper_FEATURES, rows);
    if (!failed) failed = $name_create(&fit, table->points, NULL, table->n);
    if (!failed) failed = $name_start(fit, first);
    if (!failed) failed = $name_run(fit, 1, 0, NULL);
    for (int i = 0; i < $upper_KS && !failed; i++) {
        const $name_real *own = first + (long long)host_offsets[i] * $upper_FEATURES;
        memset(&model, 0, sizeof model);
        model.centroids = moved;
        model.labels = labels;
        if ((failed = $name_result(fit, i, &model))) break;
        host_plain_pass(&plain, table, own, host_ks[i]);
        bad += host_check_means(&plain, moved, host_ks[i], &worst);
        ambiguous += plain.ambiguous;
        host_plain_pass(&plain, table, moved, host_ks[i]);
        const double away = fabs(plain.inertia - model.inertia) / (plain.inertia > 0 ? plain.inertia : 1);
        worst_inertia = fmax(worst_inertia, away);
        bad += away > (sizeof($name_real) == 4 ? 1e-4 : 1e-9);
        for (long long p = 0; p < table->n; p++) {
            const $name_real *x = table->points + p * $upper_FEATURES;
            const double square = host_square(x, moved + (long long)labels[p] * $upper_FEATURES);
            int nearer = 0; // by more than rounding
            for (int j = 0; j < host_ks[i]; j++)
                nearer |= host_square(x, moved + (long long)j * $upper_FEATURES) <
                          square * (1 - 1e-4) - 1e-10 * plain.size * plain.size;
            bad += nearer;
        }
    }
    if (!failed)
        printf("check: %lld points against a plain loop in double: means within %.1e of the largest "
               "coordinate (%lld "
               "points\n"
               "    within rounding of two centroids), inertia within %.1e, every label the nearest: %s\n",
               table->n, worst, ambiguous, worst_inertia, host_verdict(bad));
    free(first);
    free(moved);
    free(labels);
    free(plain.sums);
    free(plain.counts);
    $name_destroy(&fit);
    return failed ? -1 : bad;
}

// Milliseconds of a pass in which every K is active: as many passes are timed as the first K to stop takes.
static int host_time(double *ms, long long *passes, $name_fit *fit) {
    long long least = 20;
    *ms = 1e30;
    for (int turn = 0; turn < 6; turn++) {
        int failed = $name_seed(fit, 0);
        const double begin = host_now_ms();
        if (!failed) failed = $name_run(fit, least, 0, passes);
        const double took = (host_now_ms() - begin) / (double)(*passes > 0 ? *passes : 1);
        if (failed) return failed;
        if (turn > 0) *ms = fmin(*ms, took);
        for (int i = 0; i < $upper_KS && turn == 0; i++) { // the first turn finds out
            $name_model model;
            memset(&model, 0, sizeof model);
            if ((failed = $name_result(fit, i, &model))) return failed;
            if (model.n_iter < least && model.n_iter > 0) least = model.n_iter;
        }
    }
    return $upper_OK;
}

static int host_report($name_fit *fit, const host_table *table) {
    double pass_ms, read_ms, begin;
    long long passes, timed;
    char device[128];
    int failed = host_time(&pass_ms, &timed, fit);
    if (!failed) failed = $name_seed(fit, 0);
    begin = host_now_ms();
    if (!failed) failed = $name_run(fit, 300, 1e-4, &passes);
    if (failed) return failed;
    const double run_ms = host_now_ms() - begin;
    host_device_name(device, sizeof device);
    read_ms = host_read_ms(fit);
    printf("device: %s\n%10s %10s %10s %18s\n", device, "K", "converged", "iterations", "inertia");
    for (int i = 0; i < $upper_KS; i++) {
        $name_model model;
        memset(&model, 0, sizeof model);
        if ((failed = $name_result(fit, i, &model))) return failed;
        printf("%10d %10s %10lld %18.10g\n", model.k, model.converged ? "yes" : "no", model.n_iter,
               model.inertia);
    }
    printf("run: %lld passes in %.2f ms\n", passes, run_ms);
    printf("pass: %.4f ms for all %d K (the best of 5 times %lld); a plain read of the %.1f MB of points: "
           "%.4f ms; "
           "%.2f reads\n",
           pass_ms, (int)$upper_KS, timed, (double)table->n * $upper_FEATURES * sizeof($name_real) * 1e-6,
           read_ms, pass_ms / read_ms);
    return $upper_OK;
}

int main(int argc, char **argv) {
    host_table table = {NULL, 0};
    $name_fit *fit = NULL;
    char *end = NULL;
    const char *what = argc > 1 ? argv[1] : "1048576";
    const long long n = strtoll(what, &end, 10);
    if (argc > 2 || what[0] == '-' || (!*end && n < 1)) {
        fprintf(stderr, "usage: %s [POINTS.npy | RAW FILE of $type | NUMBER of random points]\n", argv[0]);
        return 2;
    }
    int failed = *end ? host_read_points(&table, what) : host_make_points(&table, n), bad = 0;
    if (!failed) {
        printf("$name: %d features, $type, K of $list, %lld %s points\n", (int)$upper_FEATURES, table.n,
               *end ? "given" : "random");
        host_table part = table; // as many points as a plain loop does in seconds
        const long long most = 400000000 / ($upper_ROWS * (long long)$upper_FEATURES) + 1000 + $upper_K_MAX;
        if (part.n > most) part.n = most;
        bad = host_check_all(&part);
        failed = bad < 0;
    }
    if (!failed) failed = $name_create(&fit, table.points, NULL, table.n);
    if (!failed) failed = host_report(fit, &table);
    if (failed) fprintf(stderr, "$name: %s\n", $name_error());
    $name_destroy(&fit);
    free(table.points);
    return failed || bad ? 1 : 0;
}

// SPDX-License-Identifier: MIT
#include "memory.h"
#include "../base/error.h"
#include "../base/text.h"
#include "../base/wording.h"
#include "file.h"
#include "pages.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

// What is free ------------------------------------------------------------------------------------------------

enum { PATH_BYTES = 4096, STACK_BYTES = 8 << 20 };

static int64_t least_known(int64_t a, int64_t b) {
    return a <= 0 || (b > 0 && b < a) ? b : a;
}

// The first bytes of a small file; 0: it cannot be read.
static int read_text(char *out, int size, const char *root, const char *path) {
    char whole[PATH_BYTES];
    out[0] = 0;
    if (snprintf(whole, sizeof whole, "%s%s", root, path) >= (int)sizeof whole) return 0;
    FILE *stream = fopen(whole, "re");
    if (!stream) return 0;
    out[fread(out, 1, (size_t)size - 1, stream)] = 0;
    fclose(stream);
    return out[0] != 0;
}

// The number behind `key` at the start of a line; -1: there is none.
static int64_t number_of(const char *text, const char *key) {
    size_t size = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (!strncmp(line, key, size)) return strtoll(line + size, NULL, 10);
    return -1;
}

static int64_t of_machine(const char *root) {
    char text[4096];
    if (!read_text(text, sizeof text, root, "/proc/meminfo")) return 0;
    int64_t kib = number_of(text, "MemAvailable:");
    return kib > 0 ? kib * 1024 : 0;
}

// Bytes that a control group leaves: its limit less what it uses, where pages of files, which the system can drop, do
// not count as used.
static int64_t of_group(const char *root, const char *folder, const char *limit_name, const char *used_name,
                        const char *cache_key) {
    char path[PATH_BYTES], text[8192];
    if (snprintf(path, sizeof path, "%s/%s", folder, limit_name) >= (int)sizeof path) return 0;
    if (!read_text(text, sizeof text, root, path) || text[0] < '0' || text[0] > '9') return 0; // "max"
    int64_t limit = strtoll(text, NULL, 10);
    snprintf(path, sizeof path, "%s/%s", folder, used_name);
    if (limit >= INT64_MAX / 2 || !read_text(text, sizeof text, root, path)) return 0;
    int64_t used = strtoll(text, NULL, 10), cache = 0;
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    if (read_text(text, sizeof text, root, path)) cache = number_of(text, cache_key);
    int64_t left = limit - used + (cache > 0 ? cache : 0);
    return left > 0 ? left : 1;
}

// The least that a control group and all above it leave. `group`: its path below the mount, as the process sees it.
static int64_t of_groups(const char *root, const char *mount, char *group, int is_v2) {
    int64_t left = 0;
    char folder[PATH_BYTES];
    for (;;) {
        if (snprintf(folder, sizeof folder, "%s%s", mount, group) < (int)sizeof folder)
            left = least_known(
                left, is_v2 ? of_group(root, folder, "memory.max", "memory.current", "inactive_file ")
                            : of_group(root, folder, "memory.limit_in_bytes", "memory.usage_in_bytes",
                                       "total_inactive_file "));
        char *end = strrchr(group, '/');
        if (!end) return left;
        *end = 0; // last the mount itself: all that a container sees
    }
}

static int64_t of_control_groups(const char *root) {
    char text[4096], group[PATH_BYTES];
    int64_t left = 0;
    if (!read_text(text, sizeof text, root, "/proc/self/cgroup")) return 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path) continue;
        int is_v2 = path == controllers + 1;
        *path++ = 0;
        if (!is_v2 && strcmp(controllers + 1, "memory") != 0) continue;
        snprintf(group, sizeof group, "%s", strcmp(path, "/") ? path : "");
        left = least_known(left,
                           of_groups(root, is_v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory", group, is_v2));
    }
    return left;
}

// The limit of addresses counts memory that is reserved and not used, too: each thread's stack.
static int64_t of_addresses(const char *root) {
    struct rlimit limit;
    char text[256];
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 0;
    if (!read_text(text, sizeof text, root, "/proc/self/statm")) return 0;
    int64_t used = strtoll(text, NULL, 10) * sysconf(_SC_PAGESIZE);
    int64_t left = (int64_t)limit.rlim_cur - used - sysconf(_SC_NPROCESSORS_ONLN) * STACK_BYTES;
    return left > 0 ? left : 1;
}

int64_t km_host_free(const char *root) {
    if (!root) root = "";
    int64_t left = least_known(of_machine(root), of_control_groups(root));
    left = least_known(left, of_addresses(root));
    return left > 0 ? left + km_pages_kept() : 0;
}

int64_t km_host_left_of(int64_t most) {
    char text[8192];
    int64_t kib = read_text(text, sizeof text, "", "/proc/self/status") ? number_of(text, "RssAnon:") : 0;
    // Pages that are kept for the next fit are free; not all of them need be resident.
    int64_t others = (kib > 0 ? kib * 1024 : 0) - km_pages_kept();
    int64_t left = most - (others > 0 ? others : 0);
    return left > 0 ? left : 1;
}

const char *km_bytes_text(char text[KM_BYTES_SIZE], int64_t bytes) {
    if (bytes >= 1 << 28)
        snprintf(text, KM_BYTES_SIZE, "%.2f GiB", (double)bytes / 0x1p30);
    else
        snprintf(text, KM_BYTES_SIZE, "%.1f MiB", (double)bytes / 0x1p20);
    return text;
}

km_status km_host_check(const char *what, int64_t bytes, km_error *err) {
    if (bytes < KM_HOST_LOOK_BYTES) return KM_OK;
    int64_t left = km_host_free(NULL);
    if (left == 0 || bytes <= left) return KM_OK;
    char needed[KM_BYTES_SIZE], there[KM_BYTES_SIZE];
    return km_fail(err, KM_ERROR_MEMORY, "no memory for %s: %s are needed, %s are free", what,
                   km_bytes_text(needed, bytes), km_bytes_text(there, left));
}

// What to say -------------------------------------------------------------------------------------------------

// One change that may help: its words for the command line, and the spec and parameters with it.
typedef struct change {
    const char *words;
    char own[KM_SAY_SIZE]; // holds `words` that have a value
    km_spec spec;
    km_plan_params params;
} change;

static int is_fixed(const km_spec *spec, const char *name) {
    for (int64_t i = 0; i < spec->fixed_count; i++)
        if (!strcmp(spec->fixed[i].name, name)) return 1;
    return 0;
}

static void unfix(km_spec *spec, const char *name) {
    int64_t kept = 0;
    for (int64_t i = 0; i < spec->fixed_count; i++)
        if (strcmp(spec->fixed[i].name, name) != 0) spec->fixed[kept++] = spec->fixed[i];
    spec->fixed_count = kept;
}

// Each makes its change and returns 1, or there is nothing to change.
static int other_design(change *c, const km_plan *plan) {
    (void)plan;
    if (!is_fixed(&c->spec, "design")) return 0;
    c->words = "another design (leave design= out)";
    c->spec.fixed_count = 0;
    return 1;
}

static int fewer_restarts(change *c, const km_plan *plan) {
    if (!is_fixed(&c->spec, "concurrent_restarts") || km_plan_get(plan, "concurrent_restarts") <= 1) return 0;
    unfix(&c->spec, "concurrent_restarts");
    c->words = "fewer concurrent restarts (leave concurrent_restarts= out)";
    return 1;
}

static int lloyd(change *c, const km_plan *plan) {
    if (plan->algorithm == KM_ALGORITHM_LLOYD) return 0;
    km_say_with(c->own, KM_SAY_ALGORITHM, "lloyd");
    c->words = c->own;
    unfix(&c->spec, "algorithm");
    c->params.algorithm = KM_ALGORITHM_LLOYD;
    return 1;
}

static int no_changes(change *c, const km_plan *plan) {
    if (!plan->track_labels) return 0;
    c->words = "no --min-changes";
    c->params.track_labels = 0;
    return 1;
}

static int fewer_labels(change *c, const km_plan *plan) {
    if (plan->label_sets <= plan->spec.clusters_count / 2) return 0;
    km_say_with(c->own, KM_SAY_LABELS_OF, "best");
    c->words = c->own;
    c->params.label_sets /= plan->spec.clusters_count;
    return c->params.label_sets > 0;
}

static int float32(change *c, const km_plan *plan) {
    if (plan->spec.type == KM_FLOAT32) return 0;
    c->words = km_say(KM_SAY_FLOAT32);
    c->spec.type = KM_FLOAT32;
    return 1;
}

static int one_k(change *c, const km_plan *plan) {
    if (plan->spec.clusters_count < 2) return 0;
    c->words = "one K at a time";
    c->spec.clusters += c->spec.clusters_count - 1; // the largest
    c->spec.clusters_count = 1;
    c->params.label_sets = c->params.label_sets > 0;
    return 1;
}

static int (*const changes[])(change *c, const km_plan *plan) = {
    other_design, fewer_restarts, lloyd, no_changes, fewer_labels, float32, one_k};

static change change_of(const km_spec *spec, const km_plan_params *params) {
    return (change){.spec = *spec, .params = *params}; // the list of K stays the spec's
}

// Bytes of a fit with the change; 0 where it does not fit, or cannot be planned.
static int64_t bytes_with(const change *c) {
    km_plan plan;
    km_plan_init(&plan);
    int64_t bytes = 0;
    if (km_plan_make(&plan, &c->spec, &c->params, NULL) == KM_OK && km_plan_fits(&plan))
        bytes = plan.memory_bytes;
    km_plan_clear(&plan);
    return bytes;
}

static void advise(km_text *out, const char *words, int64_t bytes) {
    char needed[KM_BYTES_SIZE];
    km_text_printf(out, "%s%s needs %s", out->size ? ", " : "", words, km_bytes_text(needed, bytes));
}

static void advise_cpu(km_text *out, const km_spec *spec, const km_plan_params *params,
                       const km_device_facts *host) {
    change c = change_of(spec, params);
    if (!host) return;
    c.spec.target = (km_target){KM_TARGET_CPU, 0};
    c.spec.fixed_count = 0;
    c.params.facts = host;
    int64_t bytes = bytes_with(&c);
    if (bytes) advise(out, km_say(KM_SAY_CPU), bytes);
}

// Where no change alone is enough: as many of them together as it takes.
static void advise_together(km_text *out, const km_plan *plan, const km_spec *spec,
                            const km_plan_params *params) {
    change c = change_of(spec, params);
    km_text words = {0};
    int64_t bytes = 0;
    for (size_t i = 0; i < sizeof changes / sizeof *changes && !bytes; i++) {
        if (!changes[i](&c, plan)) continue;
        km_text_printf(&words, "%s%s", words.size ? " with " : "", c.words);
        bytes = bytes_with(&c);
    }
    if (bytes && !words.failed) advise(out, words.data, bytes);
    km_text_clear(&words);
}

// The most points that fit, rounded down to two digits; 0: there are none.
static int64_t points_that_fit(const km_spec *spec, const km_plan_params *params) {
    change c = change_of(spec, params);
    int64_t low = 0, high = params->points;
    while (high - low > high / 256 + 1) {
        c.params.points = low + (high - low) / 2;
        if (bytes_with(&c))
            low = c.params.points;
        else
            high = c.params.points;
    }
    int64_t unit = 1;
    while (low / unit >= 100) unit *= 10;
    return low / unit * unit;
}

km_status km_memory_refuse(const km_plan *plan, const km_spec *spec, const km_plan_params *params,
                           const km_device_facts *host, km_error *err) {
    km_text advice = {0};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        change c = change_of(spec, params);
        int64_t bytes = changes[i](&c, plan) ? bytes_with(&c) : 0;
        if (bytes) advise(&advice, c.words, bytes);
    }
    if (!advice.size) advise_together(&advice, plan, spec, params);
    if (plan->spec.target.kind == KM_TARGET_CUDA) advise_cpu(&advice, spec, params, host);
    int64_t points = advice.size ? 0 : points_that_fit(spec, params);
    if (points) km_text_printf(&advice, "a sample of %" PRId64 " points fits", points);
    char target[32], needed[KM_BYTES_SIZE], there[KM_BYTES_SIZE];
    km_target_text(target, sizeof target, plan->spec.target);
    km_status status = km_fail(
        err, KM_ERROR_MEMORY,
        "%" PRId64 " points of %" PRId64 " features do not fit: a%s fit on %s needs %s of memory, "
        "%s are free%s%s",
        plan->points, plan->spec.features, plan->ranks > 1 ? " rank's" : "", target,
        km_bytes_text(needed, plan->memory_bytes), km_bytes_text(there, plan->facts.memory_free_bytes),
        advice.size && !advice.failed ? ": " : "",
        advice.size && !advice.failed ? advice.data : "; more of it is needed");
    km_text_clear(&advice);
    return status;
}

// SPDX-License-Identifier: MIT
#include "explain.h"
#include "../base/error.h"
#include "../base/size.h"
#include "../base/text.h"
#include "algorithm.h"
#include "cpu/facts.h"
#include "design.h"
#include "memory.h"
#include "cuda/bounds.h"
#include "cuda/tiles.h"

#include <inttypes.h>
#include <stdio.h>

// Column of the values; a number's name is shorter.
enum { NAME_WIDTH = 24, VALUE_WIDTH = 11 };

static void line(km_text *out, const char *name, const char *value, const char *reason) {
    km_text_printf(out, "%-*s%*s%s%s\n", NAME_WIDTH, name, VALUE_WIDTH, value, reason[0] ? "  " : "", reason);
}

static const char *bytes_text(char text[32], double bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    for (; bytes >= 1024 && unit < 4; unit++) bytes /= 1024;
    snprintf(text, 32, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

static void add_device(km_text *out, const km_plan *plan) {
    const km_device_facts *facts = &plan->facts;
    char target[32], points[32] = "unknown, taken as many";
    km_target_text(target, sizeof target, plan->spec.target);
    int cuda = plan->spec.target.kind == KM_TARGET_CUDA;
    km_text_printf(out, "device: %s, %s: %" PRId64 " %s, %.0f GB/s, %.2f GHz\n", target, facts->name,
                   facts->units,
                   cuda                ? "multiprocessors"
                   : facts->units == 1 ? "thread"
                                       : "threads",
                   facts->bandwidth_gbs, facts->clock_ghz);
    if (plan->points) snprintf(points, sizeof points, "%" PRId64, plan->points);
    if (plan->nonzeros > 0)
        km_text_printf(out, "nonzeros: %.4g of %" PRId64 " values of a point\n", plan->nonzeros,
                       plan->spec.features);
    km_text_printf(out, "points: %s%s%s\n", points, plan->weighted ? ", weighted" : "",
                   plan->track_labels ? ", labels kept between passes" : "");
    if (plan->ranks > 1)
        km_text_printf(out,
                       "%" PRId64 " ranks share them, %" PRId64 " each at most, and add up %" PRId64
                       " bytes of sums in a pass\n",
                       plan->ranks, km_share_points(plan), km_plan_exchange_bytes(plan));
    km_text_printf(out, "clusters in one pass: %" PRId64 " for each restart (the sum of the K list)\n",
                   plan->clusters_sum);
}

static void add_budget(km_text *out, const km_plan *plan, const km_estimate *estimate) {
    if (plan->spec.target.kind != KM_TARGET_CUDA) return;
    char used[32], most[32];
    km_text_printf(out, "registers per thread: about %" PRId64 " of %" PRId64 "\n",
                   estimate->registers_per_thread, plan->facts.registers_per_thread);
    km_text_printf(out, "shared memory per block: %s of %s\n",
                   bytes_text(used, (double)estimate->shared_bytes_per_block),
                   bytes_text(most, (double)plan->facts.shared_bytes_per_block));
}

void km_explain_numbers(km_text *out, const km_plan *plan) {
    const km_estimate *estimate = &plan->estimates[plan->design];
    add_device(out, plan);
    km_text_puts(out, "\n");
    line(out, "design", km_design_name(plan->design), plan->design_reason);
    for (int64_t i = 0; i < plan->avoided_count; i++)
        line(out, "not taken", km_design_name(plan->avoided[i].design), plan->avoided[i].reason);
    for (int64_t i = 0; i < plan->numbers_count; i++) {
        line(out, plan->numbers[i].name, plan->numbers[i].text, plan->numbers[i].reason);
    }
    km_text_puts(out, "\n");
    km_text_printf(out, "per point and pass: %.6g bytes read, %.6g operations\n", estimate->bytes_per_point,
                   estimate->operations_per_point);
    add_budget(out, plan, estimate);
}

// Estimated milliseconds of a pass over n points, or over a million.
static double pass_ms(const km_plan *plan, double ns_per_point) {
    return ns_per_point * (plan->points ? (double)plan->points : 1e6) * 1e-6;
}

static const char *bound_of(const km_estimate *e) {
    if (e->tensor_ns > e->issue_ns && e->tensor_ns > e->memory_ns) return "tensor";
    return e->memory_ns >= e->issue_ns ? "memory" : "issue";
}

static void add_estimate(km_text *out, const km_plan *plan, const km_estimate *e) {
    km_text_printf(out, "%-12s", km_design_name(e->design));
    if (!e->feasible) {
        km_text_printf(out, "not possible: %s\n", e->reason);
        return;
    }
    km_text_printf(out, "%9.4g%12.5g%11.3g%11.3g%11.3g%11.3g  %-8s", e->bytes_per_point,
                   e->operations_per_point, pass_ms(plan, e->memory_ns), pass_ms(plan, e->issue_ns),
                   pass_ms(plan, e->tensor_ns), pass_ms(plan, e->total_ns), bound_of(e));
    int chosen = e->design == plan->design, reasoned = e->reason[0] != 0;
    km_text_printf(out, "%s%s%s\n", chosen ? "chosen" : "", chosen && reasoned ? ", " : "", e->reason);
}

// What the table says, for the plan's points and threads; of another shape, as it is.
static void add_measured(km_text *out, const km_plan *plan) {
    const km_plan_tuned *tuned = &plan->tuned;
    if (!tuned->table[0]) return;
    double scale = pass_ms(plan, 1e6) / (double)tuned->points;
    int64_t threads = plan->threads ? plan->threads : plan->facts.units;
    if (tuned->threads && threads) scale *= (double)tuned->threads / (double)threads;
    km_text_printf(out, "measured on %s%s%s: %.3g for one restart", tuned->device,
                   tuned->exact ? "" : " for ", tuned->exact ? "" : tuned->shape, scale * tuned->ms);
    if (tuned->default_ms > 0)
        km_text_printf(out, ", %.3g by the cost model's own numbers", scale * tuned->default_ms);
    if (tuned->read_ms > 0) km_text_printf(out, ", %.3g to read the points once", scale * tuned->read_ms);
    km_text_printf(out, " (%s)\n", tuned->table);
}

void km_explain_estimates(km_text *out, const km_plan *plan) {
    if (plan->points)
        km_text_printf(out, "estimates of one pass over %" PRId64 " points, in ms on the whole device:\n",
                       plan->points);
    else
        km_text_puts(out, "estimates of one pass over a million points, in ms on the whole device:\n");
    km_text_printf(out, "%-12s%9s%12s%11s%11s%11s%11s  %s\n", "design", "bytes", "operations", "memory",
                   "issue", "tensor", "total", "bound");
    for (int i = 0; i < KM_DESIGN_COUNT; i++)
        if (plan->estimates[i].design != KM_DESIGN_NONE) add_estimate(out, plan, &plan->estimates[i]);
    add_measured(out, plan);
}

static void add_memory(km_text *out, const km_plan *plan, const char *what, double bytes_per_point) {
    char bytes[32];
    if (plan->points)
        bytes_text(bytes, bytes_per_point * (double)plan->points);
    else
        snprintf(bytes, sizeof bytes, "%.0f B/point", bytes_per_point);
    km_text_printf(out, "%-*s%*s\n", NAME_WIDTH + 10, what, VALUE_WIDTH + 5, bytes);
}

// Bytes of one point's labels in one run of each K: on a CPU labels are as wide as their own K needs.
static double label_bytes(const km_spec *spec) {
    int64_t of_one_byte = 0, count = spec->clusters_count;
    for (int64_t i = 0; i < count; i++) of_one_byte += spec->clusters[i] <= 256;
    if (spec->target.kind == KM_TARGET_CUDA && of_one_byte < count) of_one_byte = 0;
    return (double)(2 * count - of_one_byte);
}

// Memory of an algorithm that skips distances.
static void add_skipping(km_text *out, const km_plan *plan, double value) {
    const km_spec *spec = &plan->spec;
    double d = (double)spec->features;
    if (plan->algorithm == KM_ALGORITHM_TILES && spec->target.kind == KM_TARGET_CUDA) {
        const int64_t many = 1 << 24;
        km_tiles_tables tables = km_cuda_tiles_tables(plan, many);
        add_memory(out, plan, "  sorted points, boxes, sums, lists", (double)tables.kept / (double)many);
        add_memory(out, plan, "  while they are sorted", (double)tables.sorting / (double)many);
    } else if (plan->algorithm ==
               KM_ALGORITHM_TILES) { // sums and boxes of tiles of 64 points, and of 16 tiles
        double tile = ((d + 4) * 8 + (2 * d + 1) * value) / 64;
        add_memory(out, plan, "  sorted points, boxes and sums",
                   d * value + (plan->weighted ? 8 : 0) + 1.0625 * tile);
        add_memory(out, plan, "  while they are sorted", 16);
    }
    if (spec->target.kind == KM_TARGET_CUDA) {
        if (km_algorithm_has_bounds(plan->algorithm)) {
            const int64_t many = 1 << 24;
            km_bounds_tables tables = km_cuda_bounds_tables(plan, many),
                             none = km_cuda_bounds_tables(plan, 0);
            add_memory(out, plan, "  bounds of distances, lists",
                       (double)(tables.kept - none.kept) / (double)many);
        }
        return;
    }
    int64_t bounds = km_cpu_bounds_point_bytes(plan), row = km_cpu_row_point_bytes(plan);
    if (bounds) add_memory(out, plan, "  bounds of distances", (double)bounds);
    if (row) add_memory(out, plan, "  points as rows", (double)row);
}

static void add_row(km_text *out, const char *what, int64_t bytes) {
    char text[32];
    if (bytes > 0)
        km_text_printf(out, "%-*s%*s\n", NAME_WIDTH + 10, what, VALUE_WIDTH + 5,
                       bytes_text(text, (double)bytes));
}

// What it is for. Points arrive, then runs are seeded, iterated and finished: of what only one of these needs, the most
// is in the whole.
static void add_purposes(km_text *out, const km_plan *plan) {
    km_memory memory;
    km_memory_of(&memory, plan);
    km_text_printf(out, "memory of a fit by purpose, on the %s:\n",
                   plan->spec.target.kind == KM_TARGET_CUDA ? "GPU" : "host");
    add_row(out, "  points", memory.points);
    add_row(out, "  while points arrive", memory.arriving);
    add_row(out, "  centroids, sums, labels of runs", memory.slots);
    add_row(out, "  kept between passes", memory.pass);
    add_row(out, "  seeds, or finishing and labels", memory.steps);
    add_row(out, "  kernels, stacks, models", memory.spare);
}

// What comes from the host, and how often.
static void add_streams(km_text *out, const km_plan *plan) {
    int64_t picks = plan->spec.clusters[plan->spec.clusters_count - 1];
    add_row(out, "  of these, points for every pass", plan->streamed_bytes);
    km_text_puts(out, "  points come from the host");
    if (plan->window_points) km_text_printf(out, ", %" PRId64 " at a time", plan->window_points);
    km_text_printf(out,
                   ": 3 to 5 reads to load them, %" PRId64 " to seed, one an iteration for all K and %" PRId64
                   " of %" PRId64 " restarts\n",
                   picks, km_max(km_plan_value(plan, KM_PARAM_concurrent_restarts), 1), plan->spec.n_init);
}

// The most memory that a fit takes at one time, and what is free where that is known.
static void add_whole(km_text *out, const km_plan *plan) {
    char bytes[32];
    if (!plan->memory_bytes) return;
    add_purposes(out, plan);
    km_text_printf(out, "%-*s%*s\n", NAME_WIDTH + 10,
                   plan->ranks > 1 ? "a rank's whole fit, at one time" : "a whole fit, at one time",
                   VALUE_WIDTH + 5, bytes_text(bytes, (double)plan->memory_bytes));
    add_row(out, "on the host beside that", plan->host_bytes);
    if (plan->streams) add_streams(out, plan);
    if (plan->facts.scratch_from) add_row(out, "in temporary files", km_memory_in_files(plan));
    if (!plan->facts.memory_free_bytes) return;
    km_text_printf(out, "%-*s%*s%s\n", NAME_WIDTH + 10, "free", VALUE_WIDTH + 5,
                   bytes_text(bytes, (double)plan->facts.memory_free_bytes),
                   km_plan_fits(plan) ? "" : "  does not fit");
}

void km_explain_memory(km_text *out, const km_plan *plan) {
    const km_spec *spec = &plan->spec;
    double value = (double)km_type_bytes(spec->type);
    int64_t restarts = km_plan_value(plan, KM_PARAM_concurrent_restarts);
    if (restarts < 1) restarts = 1;
    // On a CPU labels stay between passes, so that only points that move are added and taken away.
    int is_cuda = spec->target.kind == KM_TARGET_CUDA, keeps_labels = plan->track_labels || !is_cuda;
    km_text_puts(out, "memory that grows with the points:\n");
    if (km_plan_is_csr(plan))
        add_memory(out, plan, "  points, as nonzeros", km_csr_point_bytes(plan));
    else
        add_memory(out, plan, "  points", value * (double)spec->features);
    if (plan->weighted) add_memory(out, plan, "  weights", is_cuda ? 8 + value : 8);
    if (keeps_labels) add_memory(out, plan, "  labels between passes", label_bytes(spec) * (double)restarts);
    km_point_memory rows[KM_POINT_MEMORY_MAX];
    const km_design_code *code = km_design_code_of(plan->design);
    int count = code && code->point_memory ? code->point_memory(rows, plan) : 0;
    for (int i = 0; i < count; i++) {
        char what[64];
        snprintf(what, sizeof what, "  %s", rows[i].what);
        add_memory(out, plan, what, rows[i].bytes);
    }
    add_skipping(out, plan, value);
    add_memory(out, plan, "  seeding, for each restart", value);
    add_memory(out, plan, "  labels of one K, on request", 4);
    add_whole(out, plan);
}

km_status km_plan_explain(char **out, const km_plan *plan, km_error *err) {
    km_text text = {0};
    char *yaml = NULL;
    *out = NULL;
    KM_TRY(km_spec_to_yaml(&yaml, &plan->spec, err));
    km_text_printf(&text, "%s\n", yaml);
    km_text_free(yaml);
    km_explain_numbers(&text, plan);
    line(&text, "algorithm", km_algorithm_name(plan->algorithm), plan->algorithm_reason);
    km_text_puts(&text, "\n");
    km_explain_estimates(&text, plan);
    km_text_puts(&text, "\n");
    km_explain_memory(&text, plan);
    return km_text_take(out, &text, err);
}

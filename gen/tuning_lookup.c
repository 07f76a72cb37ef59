// SPDX-License-Identifier: MIT
#include "tuning_lookup.h"
#include "../base/text.h"
#include "algorithm.h"
#include "design.h"
#include "fit_time.h"
#include "numbers.h"
#include "old_names.h"
#include "spec_fields.h"
#include "words.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The nearest shape serves up to here: features and sums of K together differ by a factor of two at most.
#define DISTANCE_MAX 0.6931471805599454

// What is asked, and what was found so far.
typedef struct search {
    km_tuning_found *found;
    const km_plan *model;
    int is_nominal; // planned for no device that is there
    char hashes[KM_DESIGN_COUNT][17];
} search;

// Devices ----------------------------------------------------------------------------------------------------

// A nominal H200 is the one that its driver calls NVIDIA H200.
static const char *short_name(const char *device) {
    static const char *const prefixes[] = {"nominal ", "NVIDIA "};
    for (int i = 0; i < 2; i++)
        if (strncmp(device, prefixes[i], strlen(prefixes[i])) == 0) device += strlen(prefixes[i]);
    return device;
}

static int is_same_device(const km_tuning *table, const km_plan *plan) {
    return strcmp(short_name(table->device), short_name(plan->facts.name)) == 0;
}

static int is_same_target(km_target a, km_target b) {
    return a.kind == b.kind && a.arch == b.arch;
}

// Shapes -----------------------------------------------------------------------------------------------------

static const char *word_of(const km_fixed *numbers, int64_t count, const char *name) {
    for (int64_t i = 0; i < count; i++)
        if (!strcmp(numbers[i].name, name))
            return !strcmp(name, "design") ? km_design_name((km_design)numbers[i].value)
                                           : km_word_name(numbers[i].value);
    return NULL;
}

static km_design design_of(const km_tuning_entry *entry) {
    for (int64_t i = 0; i < entry->numbers_count; i++)
        if (!strcmp(entry->numbers[i].name, "design")) return (km_design)entry->numbers[i].value;
    return KM_DESIGN_NONE;
}

static int is_stale(search *s, const km_tuning_entry *entry) {
    km_design design = design_of(entry);
    if (!s->hashes[design][0]) km_templates_hash(s->hashes[design], design, s->model->spec.target);
    return strcmp(s->hashes[design], entry->templates) != 0;
}

// Logarithm of how many times as many threads one has as the other; a nominal CPU has as many as wanted.
static double threads_distance(const search *s, const km_tuning_entry *entry) {
    int64_t threads = s->model->threads ? s->model->threads : s->model->facts.units;
    if (s->model->spec.target.kind == KM_TARGET_CUDA || s->is_nominal || threads < 1) return 0;
    return fabs(log((double)entry->threads / (double)threads));
}

// Whether the entry may serve plans of this type and so many points and threads.
static int may_serve(const search *s, const km_tuning_entry *entry) {
    const km_plan *model = s->model;
    if (entry->type != model->spec.type || entry->weighted != model->weighted) return 0;
    if (model->track_labels) return 0; // labels take registers that the measured pass did not need
    if (model->points && model->points < entry->points_from) return 0;
    if (threads_distance(s, entry) > DISTANCE_MAX + 1e-9) return 0;
    return 1;
}

static int is_same_shape(const km_tuning_entry *entry, const km_spec *spec) {
    return entry->features == spec->features && entry->clusters_count == spec->clusters_count &&
           !memcmp(entry->clusters, spec->clusters, (size_t)spec->clusters_count * sizeof *spec->clusters);
}

static double shape_distance(const km_tuning_entry *entry, const km_plan *model) {
    double sum = 0;
    for (int64_t i = 0; i < entry->clusters_count; i++) sum += entry->clusters[i];
    return fabs(log((double)entry->features / (double)model->spec.features)) +
           fabs(log(sum / (double)model->clusters_sum));
}

// Whether the entry has the design and the words (form, sums) that the cost model takes.
static int is_of_model(const km_tuning_entry *entry, const km_plan *model) {
    if (design_of(entry) != model->design) return 0;
    for (int i = 0; i < KM_PARAM_COUNT; i++) {
        if (!km_param_has_words((km_param)i)) continue;
        const char *word = word_of(entry->numbers, entry->numbers_count, km_param_name((km_param)i));
        if (word && strcmp(word, km_word_name(km_plan_value(model, (km_param)i))) != 0) return 0;
    }
    return 1;
}

// Picks ------------------------------------------------------------------------------------------------------

static int is_before(const km_tuning_pick *a, const km_tuning_pick *b) {
    if (a->step != b->step) return a->step < b->step;
    return a->is_shipped != b->is_shipped ? a->is_shipped < b->is_shipped : a->distance < b->distance;
}

// Keeps the best ones in order; of equals the earlier one stays in front.
static void add_pick(km_tuning_found *found, const km_tuning_pick *pick) {
    int64_t place = found->picks_count;
    while (place > 0 && is_before(pick, &found->picks[place - 1])) place--;
    if (place == KM_TUNING_PICKS_MAX) return;
    if (found->picks_count < KM_TUNING_PICKS_MAX) found->picks_count++;
    memmove(&found->picks[place + 1], &found->picks[place],
            (size_t)(found->picks_count - place - 1) * sizeof *found->picks);
    found->picks[place] = *pick;
}

// Of entries of one shape: the nearest number of threads, then the one that was measured for the most points.
static double exact_distance(const search *s, const km_tuning_entry *entry) {
    return threads_distance(s, entry) - 1e-3 * log2((double)entry->points_from + 1);
}

// Whether a fit gains more by the entry's pass than the compiler takes, where the planner takes what the library holds:
// by what was measured for this shape.
static int pays_compiler(const km_plan *model, const km_tuning_entry *entry) {
    double passes = (double)(KM_UPDATES_TYPICAL * model->spec.n_init);
    double saved_ms =
        (entry->default_ms - entry->ms) / (double)entry->points * (double)model->points * passes;
    if (km_design_code_of(model->design)->names || !km_design_code_of(design_of(entry))->names) return 1;
    return model->facts.has_compiler && is_same_shape(entry, &model->spec) &&
           saved_ms > km_compile_ms(model, design_of(entry));
}

// The step at which the entry may serve; 0: at none.
static int step_of(km_tuning_pick *pick, const search *s, int is_own) {
    const km_tuning_entry *entry = pick->entry;
    // A default that nothing beat says nothing of other shapes and devices.
    int gained = entry->ms < entry->default_ms;
    if (!may_serve(s, entry) || !pays_compiler(s->model, entry)) return 0;
    if (is_same_shape(entry, &s->model->spec)) {
        pick->step = is_own ? KM_TUNING_EXACT : KM_TUNING_OTHER;
        pick->distance = exact_distance(s, entry);
        return is_own || gained;
    }
    pick->step = KM_TUNING_NEAREST;
    pick->distance = shape_distance(entry, s->model);
    return is_own && gained && pick->distance <= DISTANCE_MAX + 1e-9 && is_of_model(entry, s->model);
}

static km_status fail_stale(const search *s, const km_tuning_pick *pick, km_error *err) {
    return km_fail(err, KM_ERROR_SPEC,
                   "%.200s:%" PRId32
                   ": this entry was measured with other templates (%s, now %s); measure it again "
                   "with kmgen tune",
                   pick->name, pick->entry->line, pick->entry->templates, s->hashes[design_of(pick->entry)]);
}

// KM_ERROR_SPEC: the table is the user's, and what it has for this very shape is stale.
static km_status add_table(search *s, const km_tuning *table, const char *name, int is_own, int is_users,
                           km_error *err) {
    for (int64_t i = 0; i < table->entries_count; i++) {
        km_tuning_pick pick = {
            .table = table, .entry = &table->entries[i], .name = name, .is_shipped = !is_users};
        if (!step_of(&pick, s, is_own)) continue;
        if (!is_stale(s, pick.entry)) {
            add_pick(s->found, &pick);
            continue;
        }
        s->found->stale++;
        if (is_users && pick.step == KM_TUNING_EXACT) return fail_stale(s, &pick, err);
    }
    return KM_OK;
}

// Tables -----------------------------------------------------------------------------------------------------

static km_status fail_foreign(const km_tuning *table, const char *name, const km_plan *model, km_error *err) {
    char theirs[32], ours[32];
    km_target_text(theirs, sizeof theirs, table->target);
    km_target_text(ours, sizeof ours, model->spec.target);
    return km_fail(err, KM_ERROR_SPEC,
                   "%.200s:%" PRId32
                   ": this table was measured on %.100s (%s), and the plan is for %.100s (%s); leave "
                   "it out, or plan for its device",
                   name, table->device_line, table->device, theirs, model->facts.name, ours);
}

// The table that the user named: where no device is there, it says itself for which one it is.
static km_status ask_users(search *s, km_tuning *table, const km_plan_params *params, km_error *err) {
    const char *name = params->tuning_name ? params->tuning_name : "tuning table";
    KM_TRY(km_tuning_parse(table, params->tuning, (int64_t)strlen(params->tuning), name, err));
    int is_own = is_same_device(table, s->model) || s->is_nominal;
    int is_target = is_same_target(table->target, s->model->spec.target);
    if (is_own && !is_target && params->tuning_found) return KM_OK; // the user wants an older target for once
    if (!is_own || !is_target) return fail_foreign(table, name, s->model, err);
    km_warnings_add(s->found->warnings, table->warnings);
    return add_table(s, table, name, 1, 1, err);
}

// What is wrong with a table that nobody named is said, and the table left out.
static km_status ask_given(search *s, km_tuning *table, const km_plan_params *params, km_error *err) {
    km_error own = {{0}};
    km_status status = ask_users(s, table, params, &own);
    if (status == KM_ERROR_SPEC && params->tuning_found) {
        s->found->picks_count = 0; // it is the first table
        snprintf(s->found->warnings, sizeof s->found->warnings, "%.900s; the tuning table is not used\n",
                 own.text);
        return KM_OK;
    }
    return status == KM_OK ? KM_OK : km_fail(err, status, "%s", own.text);
}

// Whether a shipped table is of the plan's target; the text is kmgen's own, so its line is as km_tuning_to_yaml
// writes it.
static int is_of_target(const km_embedded *file, const km_plan *model) {
    char target[32], line[64];
    km_target_text(target, sizeof target, model->spec.target);
    snprintf(line, sizeof line, "\ntarget: %s\n", target);
    return strstr(file->text, line) != NULL;
}

static km_status ask_shipped(search *s, km_tuning *table, const km_embedded *file, km_error *err) {
    km_error own = {{0}};
    if (!is_of_target(file, s->model)) return KM_OK;
    km_status status = km_tuning_parse(table, file->text, file->size, file->name, &own);
    if (status == KM_ERROR_SPEC) status = KM_ERROR_INTERNAL;
    if (status != KM_OK) return km_fail(err, status, "%s", own.text);
    return add_table(s, table, file->name, is_same_device(table, s->model), 0, err);
}

km_status km_tuning_find(km_tuning_found *found, const km_plan *model, const km_plan_params *params,
                         const km_embedded *shipped, int64_t shipped_count, km_error *err) {
    search s = {.found = found, .model = model};
    s.is_nominal = !params->facts || strstr(model->facts.name, "nominal ") != NULL;
    *found = (km_tuning_found){.tables = NULL};
    size_t bytes = (size_t)(shipped_count + 1) * sizeof *found->tables;
    found->tables = malloc(bytes);
    if (!found->tables) return km_fail_memory(err, "tuning tables", (int64_t)bytes);
    found->tables_count = shipped_count + 1;
    for (int64_t i = 0; i < found->tables_count; i++) km_tuning_init(&found->tables[i]);
    if (params->tuning) KM_TRY(ask_given(&s, &found->tables[shipped_count], params, err));
    for (int64_t i = 0; i < shipped_count; i++) KM_TRY(ask_shipped(&s, &found->tables[i], &shipped[i], err));
    return KM_OK;
}

void km_tuning_found_clear(km_tuning_found *found) {
    for (int64_t i = 0; i < found->tables_count; i++) km_tuning_clear(&found->tables[i]);
    free(found->tables);
    *found = (km_tuning_found){.tables = NULL};
}

// Numbers ----------------------------------------------------------------------------------------------------

static int is_one_of(const char *name, const char *const *names) {
    while (*names && strcmp(*names, name) != 0) names++;
    return *names != NULL;
}

// Concurrent restarts that the entry was measured with.
static int64_t restarts_of(const km_tuning_entry *entry) {
    for (int64_t i = 0; i < entry->numbers_count; i++)
        if (!strcmp(entry->numbers[i].name, "concurrent_restarts")) return entry->numbers[i].value;
    return 1;
}

// Whether a number that was measured holds for the plan; what does not is left to the planner.
static int holds(const char *name, const km_tuning_pick *pick, const km_plan *model) {
    // They belong to a thread or a block, whatever the shape.
    static const char *const of_any_shape[] = {"design",  "form",          "sums",     "points_per_thread",
                                               "block",   "blocks_per_sm", "prefetch", "tile_points",
                                               "vectors", "int16_scores",  NULL};
    static const char *const of_points[] = {"concurrent_restarts", "segments", NULL};
    int64_t measured = restarts_of(pick->entry),
            restarts = km_plan_value(model, KM_PARAM_concurrent_restarts);
    int is_exact = pick->step == KM_TUNING_EXACT;
    int is_of_points = is_exact && model->points == pick->entry->points && measured <= model->spec.n_init;
    if (pick->step == KM_TUNING_NEAREST) return is_one_of(name, of_any_shape);
    if (is_one_of(name, of_points)) return is_of_points;
    // The blocks that fill this device are shared by the restarts of a pass.
    return strcmp(name, "grid") != 0 ||
           (is_exact && (restarts == measured || (is_of_points && measured > 1)));
}

static void shape_text(char *text, size_t size, const km_tuning_entry *entry) {
    km_text clusters = {0};
    km_spec spec; // borrows the list of K
    km_spec_init(&spec);
    spec.clusters = entry->clusters;
    spec.clusters_count = entry->clusters_count;
    km_spec_clusters_text(&clusters, &spec);
    snprintf(text, size, "%" PRId64 " features, K = %s", entry->features,
             clusters.failed ? "..." : clusters.data + strcspn(clusters.data, " ") + 1);
    km_text_clear(&clusters);
}

void km_tuning_take(km_plan *plan, const km_tuning_pick *pick, const km_plan *model) {
    const km_tuning_entry *entry = pick->entry;
    km_spec *spec = &plan->spec;
    for (int64_t i = 0; i < entry->numbers_count && spec->fixed_count < KM_FIXED_MAX; i++)
        if (holds(entry->numbers[i].name, pick, model)) spec->fixed[spec->fixed_count++] = entry->numbers[i];
    km_plan_tuned *tuned = &plan->tuned;
    snprintf(tuned->table, sizeof tuned->table, "%s", pick->name);
    snprintf(tuned->device, sizeof tuned->device, "%s", pick->table->device);
    shape_text(tuned->shape, sizeof tuned->shape, entry);
    tuned->exact = pick->step == KM_TUNING_EXACT;
    tuned->ms = entry->ms;
    tuned->default_ms = entry->default_ms;
    tuned->read_ms = entry->read_ms;
    tuned->points = entry->points;
    tuned->threads = entry->threads;
}

void km_tuning_leave(km_plan *plan) {
    km_spec *spec = &plan->spec;
    int64_t kept = 0;
    for (int64_t i = 0; i < spec->fixed_count; i++)
        if (!strcmp(spec->fixed[i].name, "algorithm")) spec->fixed[kept++] = spec->fixed[i];
    spec->fixed_count = kept;
}

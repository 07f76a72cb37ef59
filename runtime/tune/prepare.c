// SPDX-License-Identifier: MIT
// What a tuning needs before it searches: the device, how many points, the space of plans, journal and table.
#include "../../base/log.h"
#include "../../base/size.h"
#include "../../base/text.h"
#include "../../gen/numbers.h"
#include "../../gen/words.h"
#include "../../gen/yaml_reader.h"
#include "../build.h"
#include "../file.h"
#include "../module_state.h"
#include "../threads.h"
#include "running.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int64_t km_tuning_points(const km_tuning_state *t, const km_device_facts *facts, km_error *err) {
    enum {
        MOST = 1 << 25,
        LEAST = 1 << 18,
        LEAST_CUDA = 1 << 22,
        TRIAL = 1 << 20
    }; // from there on one restart fills a GPU
    const double pass_ms = 30;
    const km_spec *spec = &t->result->spec;
    int is_cuda = facts->target.kind == KM_TARGET_CUDA;
    int64_t row = spec->features * km_type_bytes(spec->type), least = is_cuda ? LEAST_CUDA : LEAST;
    int64_t points = (is_cuda ? 256 << 20 : 64 << 20) / row;
    km_plan plan;
    km_plan_params params;
    km_plan_init(&plan);
    km_plan_params_init(&params);
    params.facts = facts;
    params.points = TRIAL;
    params.untuned = 1;
    if (km_plan_make(&plan, spec, &params, err) == KM_OK) {
        double per_point_ms = 1e-6 * plan.estimates[plan.design].total_ns;
        points = km_min(points, (int64_t)(pass_ms / per_point_ms));
    }
    km_plan_clear(&plan);
    if (facts->memory_free_bytes) points = km_min(points, facts->memory_free_bytes / 16 / row);
    points = km_max(km_min(points, MOST), least);
    int64_t rounded = least;
    while (2 * rounded <= points) rounded *= 2;
    return rounded;
}

// The driver's major version, as the kernel says it; 0: unknown.
static int32_t driver_major(void) {
    char *text = NULL;
    int64_t size;
    int32_t major = 0;
    if (km_file_read(&text, &size, "/proc/driver/nvidia/version", 65536, NULL) == KM_OK)
        for (const char *at = text; (at = strpbrk(at, "0123456789")) && !major;) {
            char *end;
            long number = strtol(at, &end, 10);
            if (*end == '.' && number > 99) major = (int32_t)number;
            at = end;
        }
    free(text);
    return major;
}

km_status km_tuning_describe_device(km_tuning_state *t, int device) {
    km_tune_result *result = t->result;
    km_device *opened;
    KM_TRY(km_device_open(&opened, device, t->params->compiler, t->params->log, t->err));
    result->facts = opened->facts;
    opened->backend->compiler_name(result->compiler, sizeof result->compiler, opened);
    km_device_close(&opened);
    if (!result->spec.target.arch || result->spec.target.kind == KM_TARGET_AUTO)
        result->spec.target = result->facts.target;
    result->threads = result->facts.target.kind == KM_TARGET_CPU ? km_host_threads(t->params->threads) : 0;
    if (result->threads) result->facts.units = result->threads;
    if (result->facts.target.kind == KM_TARGET_CUDA) result->driver = driver_major();
    return KM_OK;
}

km_plan_params km_tuning_plan_params(const km_tuning_state *t) {
    km_plan_params params;
    km_plan_params_init(&params);
    params.facts = &t->result->facts;
    params.points = t->result->points;
    params.threads = t->result->threads;
    return params;
}

km_status km_tuning_make_space(km_tuning_state *t) {
    km_plan_params params = km_tuning_plan_params(t);
    return km_space_make(&t->space, &t->result->spec, &params, t->params->full, t->err);
}

// All that the times depend on, but the candidate's own numbers.
static km_status describe_measurement(char **about, const km_tuning_state *t) {
    const km_tune_result *result = t->result;
    km_text text = {0};
    char target[32], hash[17];
    km_target_text(target, sizeof target, result->spec.target);
    km_text_printf(&text, "%s %s driver %d %s kmgen %s d %lld %s n %lld threads %lld K", result->facts.name,
                   target, result->driver, result->compiler, KM_VERSION, (long long)result->spec.features,
                   km_type_name(result->spec.type), (long long)result->points, (long long)result->threads);
    for (int64_t i = 0; i < result->spec.clusters_count; i++)
        km_text_printf(&text, " %d", result->spec.clusters[i]);
    for (int design = KM_DESIGN_NONE + 1; design < KM_DESIGN_COUNT; design++) {
        if (km_design_target((km_design)design) != result->facts.target.kind) continue;
        km_templates_hash(hash, (km_design)design, result->spec.target);
        km_text_printf(&text, " %s", hash);
    }
    return km_text_take(about, &text, t->err);
}

static km_status read_table(km_tuning_state *t) {
    const km_tune_params *params = t->params;
    const km_target target = t->result->spec.target; // a processor and a GPU run older ones, too
    char name[KM_TUNING_NAME_MAX], *text = NULL;
    int64_t size;
    km_tuning_table_name(name, sizeof name, t->result->facts.name, target);
    if (params->table)
        snprintf(t->table_path, sizeof t->table_path, "%s", params->table);
    else
        snprintf(t->table_path, sizeof t->table_path, "%s/%s.yaml", params->tuning_dir, name);
    km_tuning_init(&t->table);
    snprintf(t->table.device, sizeof t->table.device, "%s", t->result->facts.name);
    t->table.target = target;
    if (access(t->table_path, F_OK) != 0 && errno == ENOENT) return KM_OK; // there is none yet
    KM_TRY(km_file_read(&text, &size, t->table_path, KM_YAML_BYTES_MAX, t->err));
    km_status status = km_tuning_parse(&t->table, text, size, t->table_path, t->err);
    free(text);
    if (status == KM_OK && memcmp(&t->table.target, &target, sizeof target) != 0) {
        char theirs[32];
        km_target_text(theirs, sizeof theirs, t->table.target);
        return km_fail(t->err, KM_ERROR_SPEC, "%.500s is for %s: name another file", t->table_path, theirs);
    }
    if (status == KM_OK && strcmp(t->table.device, t->result->facts.name) != 0)
        return km_fail(t->err, KM_ERROR_SPEC, "%.500s is of another device, %s: name another file",
                       t->table_path, t->table.device);
    return status;
}

// The journal. Where its folder cannot be written, as in a home that is read only, a table that is named elsewhere is
// enough.
static km_status open_journal(km_tuning_state *t, const char *name, const char *about) {
    km_error why = {""};
    km_status status = km_journal_open(&t->journal, t->params->tuning_dir, name, about, &why);
    if (status == KM_ERROR_IO && t->params->table) {
        km_log_line(t->params->log, KM_LOG_WARNING, "tune: nothing is kept for a later run: %s", why.text);
        return KM_OK;
    }
    if (status == KM_ERROR_IO)
        return km_fail(t->err, status, "%s; a table may be written elsewhere (--output)", why.text);
    return status == KM_OK ? KM_OK : km_fail(t->err, status, "%s", why.text);
}

km_status km_tuning_open_files(km_tuning_state *t) {
    char name[KM_TUNING_NAME_MAX], *about = NULL;
    if (!t->params->tuning_dir && !t->params->table) return KM_OK;
    km_tuning_name(name, sizeof name, t->result->facts.name); // one lock for all targets of a device
    if (!t->params->tuning_dir) return read_table(t);
    KM_TRY(describe_measurement(&about, t));
    km_status status = open_journal(t, name, about);
    km_text_free(about);
    // Behind its lock: what another tuning has just written to the table must not be lost.
    if (status == KM_OK) status = read_table(t);
    if (status == KM_OK && t->params->fresh && t->journal.file >= 0)
        status = km_journal_forget(&t->journal, t->err);
    return status;
}

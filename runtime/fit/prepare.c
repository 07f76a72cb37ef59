// SPDX-License-Identifier: MIT
// What comes before the points: the spec completed from the data, a device, a plan that fits into its memory, and the
// module, with the CPU in the place of a GPU where that may be.
#include "../../base/error.h"
#include "../../base/log.h"
#include "../../base/size.h"
#include "../../base/wording.h"
#include "../../gen/design.h"
#include "../../gen/fit_time.h"
#include "../../gen/memory.h"
#include "../../gen/source.h"
#include "../criteria/axes.h"
#include "../criteria/criteria.h"
#include "../csr.h"
#include "../data_state.h"
#include "../memory.h"
#include "../module_state.h"
#include "../pages.h"
#include "../resident.h"
#include "../threads.h"
#include "../unit.h"
#include "job.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>

// K that are tried when nobody says which.
#define CLUSTERS_DEFAULT_MAX 20

static km_status default_clusters(km_spec *spec, int64_t n, km_error *err) {
    char text[64];
    int64_t last = n - 1 < CLUSTERS_DEFAULT_MAX ? n - 1 : CLUSTERS_DEFAULT_MAX;
    if (last < 2) return km_spec_set_clusters(spec, "1", err);
    snprintf(text, sizeof text, "2..%lld", (long long)last);
    return km_spec_set_clusters(spec, text, err);
}

static km_status drop_clusters_above(km_fit_job *f, int64_t n) {
    km_spec *spec = &f->spec;
    int64_t kept = 0;
    while (kept < spec->clusters_count && spec->clusters[kept] <= n) kept++;
    if (kept == 0)
        return km_fail(f->err, KM_ERROR_DATA,
                       "%s has %lld points, fewer than the smallest K asked for (%d): ask for "
                       "K up to %lld",
                       km_data_name(f->data), (long long)n, spec->clusters[0], (long long)n);
    if (kept < spec->clusters_count && f->owner)
        km_result_warn(f->owner, f->params->log, "K above the number of points (%lld) left out: %lld of %lld",
                       (long long)n, (long long)(spec->clusters_count - kept),
                       (long long)spec->clusters_count);
    spec->clusters_count = kept;
    return KM_OK;
}

// The scale unit and the metric cosine are one thing, of which either may be given.
static km_status take_metric(km_fit_job *f) {
    f->scale = f->params->scale;
    if (f->scale == KM_SCALE_UNIT) f->spec.metric = KM_METRIC_COSINE;
    if (f->spec.metric != KM_METRIC_COSINE) return KM_OK;
    if (f->scale != KM_SCALE_NONE && f->scale != KM_SCALE_UNIT)
        return km_fail(
            f->err, KM_ERROR_USAGE,
            "the metric cosine divides each row by its length, which the scale %s does not go with; "
            "leave one of them out",
            km_scale_name(f->scale));
    if (km_criteria_wanted(f->params, KM_NEEDS_FITS))
        return km_fail(
            f->err, KM_ERROR_USAGE,
            "gap, gap_2001 and prediction_strength are not there with the metric cosine; leave them "
            "out, or divide the rows by their length yourself and take the metric euclidean");
    f->scale = KM_SCALE_UNIT;
    KM_TRY(km_data_unit(&f->unit, f->data, f->err));
    f->data = f->unit;
    return KM_OK;
}

// What one rank alone may find wrong.
static km_status complete_own(km_fit_job *f, const km_spec *spec) {
    km_fit_warn_of_lines(f, f->spec.warnings);
    KM_TRY(take_metric(f));
    int64_t n = km_data_points_all(f->data), d = km_data_features(f->data);
    if (f->spec.features && f->spec.features != d)
        return km_fail(f->err, KM_ERROR_DATA, "%s has %lld features but the spec %s says %lld",
                       km_data_name(f->data), (long long)d, spec->name, (long long)f->spec.features);
    if (f->params->gap_box == KM_GAP_PRINCIPAL && d > KM_PRINCIPAL_FEATURES_MAX &&
        km_criteria_wanted(f->params, KM_NEEDS_FITS))
        return km_principal_refuse(f->data, f->err);
    f->spec.features = d;
    // Points that lie on a device stay there: a table of nonzeros is made on the host.
    if (f->spec.layout == KM_LAYOUT_CSR || km_data_csr(f->data) ||
        (f->spec.layout == KM_LAYOUT_AUTO && !km_data_resident(f->data)))
        f->nonzeros = km_data_nonzeros(f->data);
    if (!f->spec.clusters_count) KM_TRY(default_clusters(&f->spec, n, f->err));
    if (f->params->init == KM_INIT_GIVEN) f->spec.n_init = 1;
    f->restarts = f->spec.n_init;
    return drop_clusters_above(f, n);
}

km_status km_fit_complete_spec(km_fit_job *f, const km_spec *spec, km_status own) {
    if (own == KM_OK) own = km_spec_copy(&f->spec, spec, f->err);
    KM_TRY(km_fit_begin_share(f, own));
    if (km_data_points_all(f->data) < 1)
        return km_fail(f->err, KM_ERROR_DATA, "%s has no points", km_data_name(f->data));
    return km_fit_agree(f, complete_own(f, spec));
}

// Points that lie on a device are fitted there where the caller left it open.
static int wanted_device(const km_fit_job *f) {
    const km_resident *resident = km_data_resident(f->data);
    if (resident && f->params->device == KM_DEVICE_AUTO && f->spec.target.kind != KM_TARGET_CPU)
        return resident->ordinal;
    return km_device_wanted(f->spec.target.kind, f->params->device);
}

// Whether the CPU may take a GPU's place: the caller asked for neither.
static int may_fall_back(const km_fit_job *f) {
    int is_there = f->device && f->device->backend == &km_backend_cpu;
    return f->spec.target.kind == KM_TARGET_AUTO && f->params->device == KM_DEVICE_AUTO && !is_there &&
           !f->params->tuning && !km_data_resident(f->data) && wanted_device(f) != KM_HOST;
}

// The table of the device that was opened, unless the user named one. What is in it the planner looks at.
void km_fit_read_table(km_fit_job *f) {
    const km_fit_params *p = f->params;
    km_error err = {{0}};
    km_text_free(f->table);
    f->table = NULL;
    km_target target = f->spec.target.arch ? f->spec.target : f->device->facts.target;
    if (p->tuning || p->untuned || !p->tuning_dir) return;
    km_status status = km_tuning_read(&f->table, f->table_path, sizeof f->table_path, p->tuning_dir,
                                      f->device->facts.name, target, &err);
    if (status == KM_OK) return;
    char sentence[1200];
    snprintf(sentence, sizeof sentence, "%s; the tuning table is not used", err.text);
    km_fit_warn(f, sentence);
}

// Sets of labels, four bytes a point: where rows were dropped, once more for the rows of the file.
static int64_t label_sets(const km_fit_job *f) {
    int64_t sets =
        f->params->labels == KM_LABELS_ALL ? f->spec.clusters_count : f->params->labels == KM_LABELS_BEST;
    return km_data_rows(f->data) == km_data_points(f->data) ? sets : 2 * sets;
}

static int lie_on_device(const km_fit_job *f) {
    const km_resident *resident = km_data_resident(f->data);
    return resident && f->device->backend == resident->backend && wanted_device(f) == resident->ordinal;
}

static km_plan_params plan_params(const km_fit_job *f) {
    km_plan_params params;
    km_plan_params_init(&params);
    params.facts = &f->device->facts;
    params.points = km_data_points_all(f->data);
    params.nonzeros = f->nonzeros;
    params.weighted = km_data_weights(f->data) != NULL;
    params.track_labels = f->params->changes_min > 0;
    params.tuning = f->table ? f->table : f->params->tuning;
    params.tuning_name = f->table ? f->table_path : f->params->tuning_name;
    params.tuning_found = f->table != NULL;
    params.untuned = f->params->untuned;
    params.algorithm = f->params->algorithm;
    if (params.algorithm == KM_ALGORITHM_AUTO && (f->device->facts.scratch_from || f->shared))
        params.algorithm = KM_ALGORITHM_LLOYD; // it goes through points in order, whoever has them
    params.value_bytes = km_data_base(f->data, KM_FLOAT32) ? 4 : 8;
    if (lie_on_device(f)) params.value_bytes = km_type_bytes(f->spec.type); // they are read where they lie
    params.label_sets = label_sets(f);
    params.may_stream = !lie_on_device(f);
    params.threads = f->shared ? f->share.threads : km_threads(f->params->threads, 0, NULL);
    // A rank that is alone plans like the others of a communicator: its result has their bits.
    params.ranks = f->shared ? f->share.ranks->size : f->ranks_planned;
    return params;
}

void km_fit_build_params(km_build_params *build, const km_fit_job *f) {
    const km_fit_params *p = f->params;
    *build = (km_build_params){.spec = &f->spec, .plan = plan_params(f), .source_text = p->source_text};
    km_module_params_init(&build->module);
    build->module.cache_dir = p->cache_dir;
    if (p->cache_bytes_max > 0) build->module.cache_bytes_max = p->cache_bytes_max;
    build->module.compiler = p->compiler;
    build->module.log = p->log;
    build->built = km_fit_built_ahead(f);
    if (!f->asked) return;
    build->module.stop = f->asking.stop;
    build->module.stop_user = f->asking.user;
}

// `recalls`: plans that spill, as the cache knows, are left out; their texts are emitted to ask it. A given
// text names its plan.
static km_status make_plan(km_plan *plan, const km_fit_job *f, int recalls, km_error *err) {
    km_build_params params;
    km_fit_build_params(&params, f);
    if (recalls || params.source_text) return km_build_plan(plan, f->device, &params, err);
    return km_plan_make(plan, &f->spec, &params.plan, err);
}

void km_fit_limit_memory(const km_fit_params *p, km_device_facts *facts) {
    int is_host = facts->target.kind == KM_TARGET_CPU;
    int64_t most = is_host ? p->memory_max : p->device_memory_max;
    if (most <= 0) return;
    int64_t left = is_host ? km_host_left_of(most) : most;
    if (!facts->memory_free_bytes || left < facts->memory_free_bytes) facts->memory_free_bytes = left;
}

static km_status open_device(km_device **out, const km_fit_job *f, int ordinal, const char *compiler,
                             km_error *err) {
    KM_TRY(km_device_open(out, ordinal, compiler, f->params->log, err));
    km_fit_limit_memory(f->params, &(*out)->facts);
    return KM_OK;
}

// Whether the fit decides between CPU and GPU: the caller left it open, and gave nothing that is for one of them.
static int may_choose(const km_fit_job *f) {
    const km_fit_params *p = f->params;
    return f->spec.target.kind == KM_TARGET_AUTO && p->device == KM_DEVICE_AUTO && !p->source_text &&
           !p->tuning && !p->compiler && !km_data_resident(f->data);
}

static km_status open_wanted(km_fit_job *f) {
    const km_fit_params *p = f->params;
    km_error first = {{0}};
    if (!may_choose(f)) km_fit_begin_ahead(f, wanted_device(f));
    km_status status = open_device(&f->device, f, wanted_device(f), p->compiler, &first);
    if (status != KM_OK && may_fall_back(f)) {
        if (f->owner) km_result_warn(f->owner, p->log, "the CPU is used: %s", first.text);
        KM_TRY(open_device(&f->device, f, KM_HOST, p->compiler, f->err));
    } else if (status != KM_OK) {
        return km_fail(f->err, status, "%s", first.text);
    }
    km_fit_read_table(f);
    return KM_OK;
}

// The time of the fit on the device that is open; 0: it has no plan for this.
static double fit_ms(const km_fit_job *f, km_fit_time *time) {
    km_plan plan;
    km_plan_init(&plan);
    *time = (km_fit_time){0};
    if (make_plan(&plan, f, 0, NULL) == KM_OK && km_plan_fits(&plan))
        km_plan_fit_time(time, &plan, f->params->max_iter);
    km_plan_clear(&plan);
    return time->total_ms;
}

// The CPU, where the fit takes no longer there. What a GPU takes before it has a point is known without its driver,
// whose start takes longer than a small fit.
static km_status open_faster(km_fit_job *f) {
    const km_log *log = f->params->log;
    km_fit_time cpu, cuda;
    KM_TRY(open_device(&f->device, f, KM_HOST, NULL, f->err));
    km_fit_read_table(f);
    if (fit_ms(f, &cpu) > 0 && cpu.total_ms <= KM_CONTEXT_MS + KM_NVRTC_MS) {
        km_log_line(log, KM_LOG_INFO,
                    "device: the CPU, about %.3g ms for this fit; a GPU takes %.3g to start", cpu.total_ms,
                    KM_CONTEXT_MS + KM_NVRTC_MS);
        return KM_OK;
    }
    if (km_device_count() == 0) return KM_OK;
    km_device *host = f->device;
    f->device = NULL;
    km_status status = open_wanted(f);
    if (status == KM_OK && f->device->backend != &km_backend_cpu && cpu.total_ms > 0 &&
        fit_ms(f, &cuda) > cpu.total_ms) {
        km_log_line(log, KM_LOG_INFO, "device: the CPU, about %.3g ms for this fit; the GPU %.3g",
                    cpu.total_ms, cuda.total_ms);
        km_device_close(&f->device);
        f->device = host;
        km_fit_read_table(f);
        return KM_OK;
    }
    km_device_close(&host);
    if (status == KM_OK && f->device->backend != &km_backend_cpu) km_fit_begin_ahead(f, wanted_device(f));
    return status;
}

km_status km_fit_open_device(km_fit_job *f) {
    KM_TRY(km_fit_agree(f, may_choose(f) ? open_faster(f) : open_wanted(f)));
    km_fit_note_device(f);
    return km_fit_share_facts(f);
}

static km_status refuse_plan(const km_fit_job *f, const km_plan *plan, km_error *err) {
    km_device_facts host;
    km_plan_params params = plan_params(f);
    int known = f->device->backend != &km_backend_cpu && km_device_query(&host, KM_HOST, NULL) == KM_OK;
    if (known) km_fit_limit_memory(f->params, &host);
    km_error own = {{0}};
    km_status status = km_memory_refuse(plan, &f->spec, &params, known ? &host : NULL, &own);
    int is_host = f->device->backend == &km_backend_cpu;
    int64_t most = is_host ? f->params->memory_max : f->params->device_memory_max;
    if (most <= 0) return km_fail(err, status, "%s", own.text);
    char bytes[KM_BYTES_SIZE];
    int may_scratch = is_host && !f->params->scratch_dir;
    return km_fail(err, status, "%s (%s is %s%s%s%s)", own.text,
                   km_say(is_host ? KM_SAY_MEMORY_MAX : KM_SAY_DEVICE_MEMORY_MAX), km_bytes_text(bytes, most),
                   may_scratch ? "; " : "", may_scratch ? km_say(KM_SAY_SCRATCH) : "",
                   may_scratch ? " takes what does not fit" : "");
}

// What a GPU's fit takes of the machine's memory.
static km_status check_host(const km_fit_job *f, const km_plan *plan, km_error *err) {
    int64_t most = f->params->memory_max, left = most > 0 ? km_host_left_of(most) : 0;
    // Ranks of GPUs of one process are one process's, too.
    int64_t here = f->shared ? f->share.ranks->local_size : f->ranks_planned;
    int64_t bytes = plan->host_bytes * km_max(here, 1);
    if (most <= 0 || bytes <= left)
        return km_host_check(plan->streams ? "points that the GPU has no room for" : "the labels", bytes,
                             err);
    char needed[KM_BYTES_SIZE], there[KM_BYTES_SIZE];
    return km_fail(
        err, KM_ERROR_MEMORY,
        "a fit on a GPU needs %s of the machine's memory beside the GPU's, %s leaves %s; raise it, or "
        "keep no labels%s",
        km_bytes_text(needed, bytes), km_say(KM_SAY_MEMORY_MAX), km_bytes_text(there, left),
        plan->streams ? ", or take the CPU (-t cpu) with a scratch folder" : "");
}

// The same fit on the CPU, if it fits there; `first` says why.
static km_status plan_on_cpu(km_plan *plan, km_fit_job *f, const km_error *first) {
    km_device *device = f->device, *host = NULL;
    KM_TRY(open_device(&host, f, KM_HOST, NULL, f->err));
    km_plan on_host;
    km_plan_init(&on_host);
    f->device = host;
    km_fit_read_table(f);
    km_status status = make_plan(&on_host, f, 0, NULL);
    int fits = status == KM_OK && km_plan_fits(&on_host);
    km_device_close(fits ? &device : &host);
    if (!fits) {
        f->device = device;
        km_plan_clear(&on_host);
        return km_fail(f->err, KM_ERROR_MEMORY, "%s", first->text);
    }
    km_plan_clear(plan);
    *plan = on_host;
    char sentence[sizeof first->text + 32];
    snprintf(sentence, sizeof sentence, "the CPU is used: %s", first->text);
    km_fit_warn(f, sentence);
    return KM_OK;
}

// A folder of a disk, with space for what the plan leaves there.
static km_status check_scratch(const char *folder, int64_t bytes, km_error *err) {
    struct statfs there;
    if (statfs(folder, &there) != 0)
        return km_fail(err, KM_ERROR_IO, "%s: %s; a folder for temporary files is needed", folder,
                       strerror(errno));
    if (there.f_type == TMPFS_MAGIC || there.f_type == RAMFS_MAGIC)
        return km_fail(err, KM_ERROR_IO, "%s lies in memory, not on a disk: name another folder", folder);
    double space = (double)there.f_bavail * (double)there.f_bsize;
    if (space >= (double)bytes) return KM_OK;
    return km_fail(err, KM_ERROR_IO, "%s has %.2f GiB of space, temporary files of %.2f GiB are needed",
                   folder, space / 0x1p30, (double)bytes / 0x1p30);
}

// The same plan with temporary files, if it fits so.
static km_status plan_with_files(km_plan *plan, km_fit_job *f, int recalls) {
    const char *folder = f->params->scratch_dir;
    if (!folder || f->device->backend != &km_backend_cpu || km_plan_fits(plan)) return KM_OK;
    km_plan with;
    km_plan_init(&with);
    f->device->facts.scratch_from = KM_SCRATCH_FROM;
    km_status status = make_plan(&with, f, recalls, f->err);
    if (status == KM_OK && km_plan_fits(&with) && km_plan_layout(&with) != KM_LAYOUT_CSR) {
        int64_t bytes = km_memory_in_files(&with);
        status = check_scratch(folder, bytes, f->err);
        char sentence[512];
        snprintf(
            sentence, sizeof sentence,
            "points, labels and what else does not fit into memory lie in temporary files in %.300s, %.2f "
            "GiB",
            folder, (double)bytes / 0x1p30);
        if (status == KM_OK) km_fit_warn(f, sentence);
        km_plan_clear(plan);
        *plan = with;
        return status;
    }
    km_plan_clear(&with);
    f->device->facts.scratch_from = 0;
    return status;
}

// A plan with which the whole fit has its place in the free memory; else the fit ends before it reads or sends
// points.
km_status km_fit_plan_within(km_plan *plan, km_fit_job *f, int recalls) {
    km_error first = {{0}};
    KM_TRY(make_plan(plan, f, recalls, f->err));
    KM_TRY(plan_with_files(plan, f, recalls));
    // What is said of the tuning table and of the given text comes after the spec's lines, which were said before.
    km_fit_warn_of_lines(f, plan->spec.warnings + strlen(f->spec.warnings));
    km_status status = km_plan_fits(plan) ? check_host(f, plan, &first) : refuse_plan(f, plan, &first);
    if (status == KM_OK) return KM_OK;
    int may_leave = !km_plan_fits(plan) || plan->streams;
    if (may_leave && may_fall_back(f) && !f->params->source_text) return plan_on_cpu(plan, f, &first);
    return km_fail(f->err, status, "%s", first.text);
}

km_status km_fit_plan_fit(km_fit_job *f) {
    KM_TRY(km_fit_agree(f, km_fit_plan_within(&f->owner->result.plan, f, 0)));
    const km_spec *planned = &f->owner->result.plan.spec;
    if (planned->target.kind == KM_TARGET_CUDA && planned->type == KM_FLOAT32)
        KM_TRY(km_fit_agree(f, km_data_check_float_weights(f->data, f->err)));
    int has_files = f->owner->result.plan.facts.scratch_from > 0;
    if (has_files || f->params->memory_max > 0) km_pages_bind(has_files ? f->params->scratch_dir : NULL);
    km_log_line(f->params->log, KM_LOG_INFO, "memory: a fit needs %.1f MiB, %.1f are free",
                (double)f->owner->result.plan.memory_bytes / 0x1p20,
                (double)f->device->facts.memory_free_bytes / 0x1p20);
    return KM_OK;
}

// The memory that was planned was not there: what is free now is planned with again.
int km_fit_stream_instead(km_fit_job *f, const km_error *first) {
    km_device_facts now;
    km_plan plan;
    km_error err = {{0}};
    int device = wanted_device(f), streams = 0;
    if (f->shared || f->device->backend == &km_backend_cpu || f->owner->result.plan.streams) return 0;
    km_plan_init(&plan);
    if (km_device_query(&now, device, NULL) == KM_OK) {
        km_fit_limit_memory(f->params, &now);
        f->device->facts.memory_free_bytes = now.memory_free_bytes;
        streams = make_plan(&plan, f, 0, &err) == KM_OK && plan.streams && km_plan_fits(&plan) &&
                  check_host(f, &plan, &err) == KM_OK;
    }
    if (!streams) {
        km_plan_clear(&plan);
        return 0;
    }
    char sentence[sizeof first->text + 64];
    snprintf(sentence, sizeof sentence, "points come from the host in every pass: %s", first->text);
    km_fit_warn(f, sentence);
    km_plan_clear(&f->owner->result.plan);
    f->owner->result.plan = plan;
    return 1;
}

int64_t km_fit_start_passes = -1;

// The plan's own kernels are ready when nobody compiles them any more.
static int is_ready(void *user, int64_t passes) {
    km_fit_job *f = user;
    return km_fit_start_passes < 0 ? !km_fit_is_ahead(f) : passes >= km_fit_start_passes;
}

static km_status complete(void *user, km_error *err) {
    km_fit_job *f = user;
    km_module *module = f->build.module;
    km_build_params params;
    module->kernels->whole = NULL;
    KM_TRY(km_fit_end_ahead(f, err));
    km_fit_build_params(&params, f);
    return km_module_complete(module, &f->build.source, &params.module, params.built, err);
}

// While the plan's own pass is being compiled a fit begins with a starting pass, where the plan has one.
static km_status build_on_device(km_fit_job *f, km_error *err) {
    km_build_params params;
    const km_plan *plan = &f->owner->result.plan;
    int begins = km_fit_is_ahead(f) && !f->shared && km_plan_starts(plan);
    if (!begins) KM_TRY(km_fit_end_ahead(f, err));
    km_fit_build_params(&params, f);
    params.begins = begins;
    KM_TRY(km_build_on(&f->build, f->device, &params, err));
    km_module *module = f->build.module;
    if (!module->is_begun) return km_fit_end_ahead(f, err);
    f->completion = (km_completion){is_ready, complete, f};
    module->kernels->whole = &f->completion;
    return KM_OK;
}

// Where a GPU has no compiler, or its compiler refuses all texts, the CPU is used instead, if the caller asked for
// neither and gave nothing that is for the GPU alone.
static km_status build_on_cpu(km_fit_job *f, const km_error *first) {
    const km_fit_params *p = f->params;
    km_result_warn(f->owner, p->log, "the CPU is used: %s", first->text);
    if (f->engine) f->engine->backend->engine_destroy(&f->engine);
    km_build_clear(&f->build);
    km_device_close(&f->device);
    KM_TRY(open_device(&f->device, f, KM_HOST, NULL, f->err)); // p->compiler was the GPU's
    km_fit_read_table(f);
    return build_on_device(f, f->err);
}

static km_status build_module(km_fit_job *f) {
    km_error first = {{0}};
    km_status status = build_on_device(f, &first);
    int is_compiler = status == KM_ERROR_COMPILE || status == KM_ERROR_DEVICE;
    if (is_compiler && may_fall_back(f) && !f->params->source_text && !km_build_fixes_numbers(&f->spec))
        KM_TRY(build_on_cpu(f, &first));
    else if (status != KM_OK)
        return km_fail(f->err, status, "%s", first.text);
    if (f->build.warning[0]) km_result_warn(f->owner, f->params->log, "%s", f->build.warning);
    km_plan_clear(&f->owner->result.plan);
    f->owner->result.plan = f->build.plan; // with its spec, which belongs to the result from now on
    km_plan_init(&f->build.plan);
    // Another plan than the one that was to be built may need more.
    return km_plan_fits(&f->owner->result.plan) ? KM_OK : refuse_plan(f, &f->owner->result.plan, f->err);
}

km_status km_fit_build_module(km_fit_job *f) {
    KM_TRY(km_fit_agree(f, build_module(f)));
    return km_fit_compare_plans(f);
}

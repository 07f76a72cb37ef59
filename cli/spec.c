// SPDX-License-Identifier: MIT
// What the command line may change in a spec, and how a table is read.
#include "cli.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cli_is_yaml(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

int cli_refuse_table(const cli_command *command, const char *path) {
    if (!km_data_format(path)) return 0;
    return cli_usage(command,
                     "'%s' is a table by its name, and '%s' takes a spec; 'kmgen fit %s --dry-run' shows the "
                     "plan of a fit",
                     path, command->name, path);
}

// Fixes what NAME=VALUE says.
static km_status fix(km_spec *spec, const char *text, km_error *err) {
    char name[64];
    const char *equals = strchr(text, '=');
    snprintf(name, sizeof name, "%.*s", (int)(equals - text), text);
    return km_spec_fix(spec, name, equals + 1, err);
}

// Whether two NAME=VALUE fix the same number, also where one of them has its name of the version before.
static int fix_the_same(const char *a, const char *b) {
    km_spec spec;
    km_spec_init(&spec);
    int are_numbers = fix(&spec, a, NULL) == KM_OK && fix(&spec, b, NULL) == KM_OK;
    int is_same = are_numbers ? spec.fixed_count == 1 : strncmp(a, b, strcspn(b, "=") + 1) == 0;
    km_spec_clear(&spec);
    return is_same;
}

int cli_take_set(void *field, cli_parser *parser, const cli_option *option) {
    cli_changes *changes = field;
    if (!strchr(parser->value, '='))
        return cli_usage(parser->command, "--%s needs NAME=VALUE, got '%s'", option->name, parser->value);
    if (changes->set_count == KM_FIXED_MAX)
        return cli_usage(parser->command, "--%s may be given %d times at most", option->name, KM_FIXED_MAX);
    for (int i = 0; i < changes->set_count; i++)
        if (fix_the_same(changes->set[i], parser->value))
            return cli_usage(parser->command, "--set %s and --set %s fix the same number; give it once",
                             changes->set[i], parser->value);
    changes->set[changes->set_count++] = parser->value;
    return 0;
}

// An option's value was refused, or there was no memory.
static int refuse_value(const char *option, km_status status, const km_error *err,
                        const cli_command *command) {
    if (status == KM_ERROR_MEMORY) return cli_error(status, err);
    return cli_usage(command, "%s: %s", option, err->text);
}

static int set_type(km_spec *spec, const char *text, const cli_command *command) {
    if (strcmp(text, "f32") == 0 || strcmp(text, "float32") == 0)
        spec->type = KM_FLOAT32;
    else if (strcmp(text, "f64") == 0 || strcmp(text, "float64") == 0)
        spec->type = KM_FLOAT64;
    else
        return cli_usage(command, "--type must be f32 or f64, got '%s'", text);
    return 0;
}

// "cuda:1" is the second device where something is run; "cuda:sm_90" an architecture.
static int set_target(km_spec *spec, int *device, const char *text, const cli_command *command) {
    km_error err = {""};
    if (device && strncmp(text, "cuda:", 5) == 0 && isdigit((unsigned char)text[5])) {
        char *end;
        long ordinal = strtol(text + 5, &end, 10);
        if (*end || ordinal > 1023)
            return cli_usage(command, "--target %s: expected cuda:N, N a device", text);
        *device = (int)ordinal;
        spec->target = (km_target){KM_TARGET_CUDA, 0};
        return 0;
    }
    km_status status = km_spec_set_target(spec, text, &err);
    if (status != KM_OK) return refuse_value("--target", status, &err, command);
    if (!device) return 0;
    *device = spec->target.kind == KM_TARGET_CPU    ? KM_HOST
              : spec->target.kind == KM_TARGET_CUDA ? 0
                                                    : KM_DEVICE_AUTO;
    return 0;
}

// What a fit takes longer with a GPU more before that saves any: of two H100, whole processes.
#define OPEN_MS 300.

// "cuda:all", of which as many are used as pay, and "cuda:0,1".
int cli_devices_take(cli_several *several, cli_changes *changes, const cli_command *command) {
    const char *text = changes->target;
    several->count = 0;
    several->open_ms = 0;
    if (!text || strncmp(text, "cuda:", 5) != 0) return 0;
    text += 5;
    if (strcmp(text, "all") == 0) {
        several->count = km_device_count();
        if (several->count > CLI_DEVICES_MAX) several->count = CLI_DEVICES_MAX;
        for (int i = 0; i < several->count; i++) several->devices[i] = i;
        several->open_ms = OPEN_MS;
        changes->target = "cuda";
        return 0;
    }
    if (!strchr(text, ',')) return 0;
    for (const char *at = text; several->count < CLI_DEVICES_MAX; at++) {
        char *end;
        long ordinal = isdigit((unsigned char)*at) ? strtol(at, &end, 10) : -1;
        if (ordinal < 0 || ordinal > 1023 || (*end && *end != ',')) break;
        several->devices[several->count++] = (int)ordinal;
        at = end;
        if (*at) continue;
        changes->target = "cuda";
        return 0;
    }
    return cli_usage(command, "--target %s: expected cuda:all or cuda:N,N, each a device", changes->target);
}

int cli_changes_apply(km_spec *spec, int *device, const cli_changes *changes, const cli_command *command) {
    km_error err = {""};
    km_status status = changes->clusters ? km_spec_set_clusters(spec, changes->clusters, &err) : KM_OK;
    if (status != KM_OK) return refuse_value("-k", status, &err, command);
    int wrong = changes->type ? set_type(spec, changes->type, command) : 0;
    if (!wrong && changes->target) wrong = set_target(spec, device, changes->target, command);
    if (wrong) return wrong;
    status = changes->layout ? km_spec_set_layout(spec, changes->layout, &err) : KM_OK;
    if (status != KM_OK) return refuse_value("--layout", status, &err, command);
    status = changes->metric ? km_spec_set_metric(spec, changes->metric, &err) : KM_OK;
    if (status != KM_OK) return refuse_value("--metric", status, &err, command);
    for (int i = 0; i < changes->set_count; i++) {
        status = fix(spec, changes->set[i], &err);
        if (status != KM_OK) return refuse_value("--set", status, &err, command);
    }
    return 0;
}

static void warn_of_lines(const char *lines) {
    for (size_t size; *lines; lines += size + (lines[size] == '\n')) {
        size = strcspn(lines, "\n");
        cli_warning("%.*s", (int)size, lines);
    }
}

void cli_names_warn(const km_spec *spec) {
    warn_of_lines(spec->warnings);
}

void cli_plan_warn(const km_plan *plan, const km_spec *spec) {
    warn_of_lines(plan->spec.warnings + strlen(spec->warnings));
}

void cli_clusters_text(char *text, size_t size, const km_spec *spec) {
    const int32_t *clusters = spec->clusters;
    int64_t count = spec->clusters_count;
    size_t used = 0;
    text[0] = 0;
    if (count > 1 && clusters[count - 1] - clusters[0] == count - 1) {
        snprintf(text, size, "%d..%d", clusters[0], clusters[count - 1]);
        return;
    }
    for (int64_t k = 0; k < count && used + 16 < size; k++)
        used += (size_t)snprintf(text + used, size - used, "%s%d", k ? ", " : "", clusters[k]);
    if (used + 16 >= size) snprintf(text + used, size - used, ", ... %d", clusters[count - 1]);
}

// Words of options, in the order of the enums that they are for.
const char *const cli_header_words[] = {"auto", "yes", "no", "skip", NULL};
const char *const cli_missing_words[] = {"refuse", "drop", "mean", "median", NULL};
const char *const cli_metric_words[] = {"euclidean", "cosine", NULL};

int cli_take_format(void *field, cli_parser *parser, const cli_option *option) {
    enum { FORMATS_MAX = 32 };
    const char *formats[FORMATS_MAX + 1] = {NULL};
    int choice = 0;
    for (int i = 0; i < FORMATS_MAX; i++) formats[i] = km_data_format_name(i);
    if (cli_choice(parser, option, &choice, formats)) return CLI_USAGE;
    *(const char **)field = formats[choice];
    return 0;
}

int cli_take_base(void *field, cli_parser *parser, const cli_option *option) {
    cli_option whole = *option;
    int64_t base = 0;
    whole.most = 1;
    int wrong = cli_take_int(&base, parser, &whole);
    *(int32_t *)field = (int32_t)base;
    return wrong;
}

int cli_take_decimal(void *field, cli_parser *parser, const cli_option *option) {
    static const char *const decimals[] = {".", ",", NULL};
    int choice = 0;
    if (cli_choice(parser, option, &choice, decimals)) return CLI_USAGE;
    *(char *)field = *decimals[choice];
    return 0;
}

static void data_line(void *user, km_log_level level, const char *text) {
    (void)user;
    if (level == KM_LOG_WARNING)
        cli_warning("%s", text);
    else if (level == KM_LOG_INFO || cli_verbose)
        cli_note("%s", text);
}

void cli_data_init(km_data_params *params) {
    km_data_params_init(params);
    params->log = cli_data_log();
    params->numbers_only = 1;
    params->progress = cli_progress;
}

const km_log *cli_data_log(void) {
    static const km_log log = {data_line, NULL};
    return &log;
}

static int is_one_of(const char *format, const char *const *formats) {
    while (format && *formats && strcmp(*formats, format) != 0) formats++;
    return format && *formats;
}

int cli_data_check(const km_data_params *params, const cli_parser *parser, const char *path) {
    static const char *const counted[] = {"f32", "f64", "svmlight", NULL}, *const texts[] = {"csv", "tsv",
                                                                                             NULL};
    const char *format = params->format           ? params->format
                         : strcmp(path, "-") == 0 ? NULL
                                                  : km_data_format(path);
    if (cli_given(parser, &params->features) && !is_one_of(format, counted))
        return cli_usage(
            parser->command,
            format ? "--features is for raw files and svmlight, and %s is %s, which says how many "
                     "columns it has"
                   : "--features is for raw files and svmlight; where the name of %s does not say so, "
                     "add --format f32, f64 or svmlight",
            path, format);
    if (cli_given(parser, &params->base) && (!format || strcmp(format, "svmlight") != 0))
        return cli_usage(
            parser->command,
            format ? "--base is for svmlight, and %s is %s"
                   : "--base is for svmlight; where the name of %s does not say so, add --format svmlight",
            path, format);
    const void *const of_text[] = {&params->header,    &params->exclude, &params->one_hot,
                                   &params->na_values, &params->decimal, &params->weights_column};
    for (size_t o = 0; o < sizeof of_text / sizeof *of_text; o++) {
        const cli_option *option = cli_given(parser, of_text[o]);
        if (option && format && !is_one_of(format, texts))
            return cli_usage(parser->command, "--%s is for text, csv and tsv, and %s is %s", option->name,
                             path, format);
    }
    if (params->weights_column && params->weights)
        return cli_usage(parser->command, "--weights and --weights-column say the same; give one of them");
    return 0;
}

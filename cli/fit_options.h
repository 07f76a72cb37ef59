// SPDX-License-Identifier: MIT
// The options of `kmgen fit`: the line as it was read (fit_options.c), from which fit.c runs.
#ifndef KM_CLI_FIT_OPTIONS_H
#define KM_CLI_FIT_OPTIONS_H
#include "cli.h"

#include <glob.h>

// In the order in which they are checked, written and indexed below.
enum {
    OUT_JSON,
    OUT_MODEL,
    OUT_LABELS,
    OUT_CENTROIDS,
    OUT_TABLE,
    OUT_REPORT,
    OUT_PLOT,
    PLOTS_MAX = 4,
    OUT_COUNT = OUT_PLOT + PLOTS_MAX
};

typedef struct fit_options {
    const char *spec_path, *data_path; // of several files of data the first
    const char *const *data_paths;
    int64_t data_count;
    glob_t found; // what a pattern for DATA has found
    const char *init, *source, *cache_dir, *algorithm;
    char *command; // the whole line, for a report
    cli_tuning tuning;
    int64_t n_init;     // 0: the spec's
    const char *refine; // NULL: the spec's
    int labels_of_all, dry_run;
    int rest; // CLI_REST_...
    cli_changes changes;
    cli_several several;
    cli_output outputs[OUT_COUNT];
    km_output_params output;
    km_data_params data;
    km_fit_params fit;
} fit_options;

extern const cli_option cli_fit_options[];

// Reads the line and refuses what is wrong whatever the files hold. Non-zero: fit is done, with the exit status
// parser->exit.
int cli_fit_parse(fit_options *options, cli_parser *parser, const cli_command *command, int argc,
                  char **argv);
// The same for what the spec says, after it was read: 0 or an exit status after a message.
int cli_fit_check_spec(const fit_options *options, const km_spec *spec, const cli_command *command);
// Reads it as a spec would, by names of the version before as well, of which it warns if `warn`. 0: there is none.
int cli_fit_algorithm_find(km_algorithm *out, const char *name, int warn);
// --init names a file with the first centroids.
int cli_fit_init_is_file(const fit_options *options);
// Whether a file with a row a point is written.
int cli_fit_writes_rows(const fit_options *options);

#endif

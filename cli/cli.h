// SPDX-License-Identifier: MIT
// What the subcommands share. The program calls the library as any user's program would, through
// include/kmgen only; what it adds is the command line, the terminal and the cache folder's place.
#ifndef KM_CLI_CLI_H
#define KM_CLI_CLI_H
#include <kmgen/kmgen.h>
#include <kmgen/spec.h>
#include <kmgen/data.h>
#include <kmgen/fit.h>
#include <kmgen/plan.h>
#include <kmgen/model.h>
#include <kmgen/module.h>
#include <kmgen/output.h>
#include <kmgen/select.h>
#include <kmgen/tune.h>

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

// Exit statuses of the program.
enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

// Ranks -----------------------------------------------------------------------------------------------------
// Of kmgen-mpi (mpi.c); kmgen is alone (alone.c).

// First of all in main, and last: the exit status of all ranks.
void cli_ranks_begin(int *argc, char ***argv);
int cli_ranks_end(int exit);
// The others; NULL: there are none.
const km_communicator *cli_ranks(void);
// The GPU of this rank, of those of its machine, where the target says no more than cuda. Without others `device`.
int cli_ranks_device(int device);
// The largest exit status of any rank, after the lowest that failed has said why. Without others `exit`.
int cli_ranks_agree(int exit);

// Options ---------------------------------------------------------------------------------------------------

typedef struct cli_command cli_command;
typedef struct cli_option cli_option;

enum { CLI_OPTIONS_MAX = 128, CLI_STOP = -1 };

typedef struct cli_parser {
    const cli_command *command;
    int argc;
    char **argv;
    void *options;                        // of the command, whose fields its table names; NULL: it has none
    const char *value;                    // argument of the option that is read
    int first;                            // index of the first positional argument
    int exit;                             // exit status, where cli_parse says that the command is done
    unsigned char given[CLI_OPTIONS_MAX]; // by its place in the table: whether an option was given
} cli_parser;

// Puts an option's value into its field: 0, CLI_USAGE after a message, or CLI_STOP: the command has done what it was
// asked.
typedef int cli_take(void *field, cli_parser *parser, const cli_option *option);

// An option, all of it: a row of its command's table. The macros below make the columns from `take` on.
struct cli_option {
    const char *name;     // long name without its dashes; NULL ends a table
    char letter;          // short name, or 0
    const char *argument; // how --help calls the argument; "VALUE...": may be given several times; NULL: none
    const char *help;
    cli_take *take;
    size_t field;             // its offset in the command's options
    int64_t least, most;      // of a whole number; what a flag puts is `least`
    const char *const *words; // what the value may be, NULL at the end; the field gets the index
};

// The offset of a field of that kind; another kind does not compile.
#define CLI_AT(kind, type, name) (offsetof(type, name) + 0 * sizeof *(1 ? (kind *)0 : &((type *)0)->name))
#define CLI_BY(take, kind, type, name) take, CLI_AT(kind, type, name), 0, 0, NULL
#define CLI_TEXT(type, name) CLI_BY(cli_take_text, const char *, type, name)
#define CLI_FLAG(type, name, value) cli_take_flag, CLI_AT(int, type, name), value, value, NULL
#define CLI_INT(type, name, least, most) cli_take_int, CLI_AT(int64_t, type, name), least, most, NULL
// `kind`: int, or an enum whose values are the indices of the words.
#define CLI_WORD(kind, type, name, words) cli_take_word, CLI_AT(kind, type, name), 0, 0, words

cli_take cli_take_text, cli_take_flag, cli_take_int, cli_take_word;
cli_take cli_take_seed;        // uint64_t
cli_take cli_take_share;       // double, above 0, up to 1
cli_take cli_take_nonnegative; // double
cli_take cli_take_seconds;     // double: "90", "90s", "10m", "2h"
cli_take cli_take_bytes;       // int64_t: "4G", "512M", "1.5G", "100000"; K, M, G, T are powers of 1024
cli_take cli_take_scale;       // km_scale
cli_take cli_take_criterion;   // km_criterion: a name, or what people call it: ch, db; "list" shows all
cli_take cli_take_criteria;    // uint64_t: names with commas between them or "all", as bits 1 << criterion
cli_take cli_take_set;         // cli_changes
cli_take cli_take_format, cli_take_base, cli_take_decimal; // of km_data_params
cli_take cli_take_quiet, cli_take_verbose, cli_take_help;
extern const char *const cli_header_words[], *const cli_missing_words[], *const cli_metric_words[];

#define CLI_COMMON_OPTIONS                                                                                   \
    {"quiet", 'q', NULL, "say nothing on standard error but errors", cli_take_quiet, 0, 0, 0, NULL},         \
        {"verbose", 'v', NULL, "say what happens; twice: in detail", cli_take_verbose, 0, 0, 0, NULL},       \
        {"help", 'h', NULL, "print this help", cli_take_help, 0, 0, 0, NULL}, {                              \
        NULL, 0, NULL, NULL, NULL, 0, 0, 0, NULL                                                             \
    }

// How the table in DATA is read, in the field `data` of a command's options.
#define CLI_DATA_OPTIONS(type)                                                                               \
    {"format", 0, "FORMAT",                                                                                  \
     "npy, npz, h5, mtx, svmlight, csv, tsv, f32 or f64; default: by the\nname, then the content",           \
     CLI_BY(cli_take_format, const char *, type, data.format)},                                              \
        {"features", 0, "D",                                                                                 \
         "columns of a raw .f32 or .f64 file; of svmlight where its largest\nindex does not say them",       \
         CLI_INT(type, data.features, 1, KM_FEATURES_MAX)},                                                  \
        {"base", 0, "0|1", "what the indices of svmlight count from; default: 0 where one is 0,\nelse 1",    \
         CLI_BY(cli_take_base, int32_t, type, data.base)},                                                   \
        {"header", 0, "HOW",                                                                                 \
         "first line of CSV and TSV holds names: auto (default), yes, no, or\nskip: it does, but columns "   \
         "count by position",                                                                                \
         CLI_WORD(km_header_mode, type, data.header, cli_header_words)},                                     \
        {"columns", 0, "LIST",                                                                               \
         "columns to use, by name or by number from 1: a,b,5..7,x..z,9..;\nyes/no become 1 and 0, dates "    \
         "days; default: all columns of numbers\nthat are no ids",                                           \
         CLI_TEXT(type, data.columns)},                                                                      \
        {"exclude", 0, "LIST", "columns to leave out", CLI_TEXT(type, data.exclude)},                        \
        {"one-hot", 0, "LIST",                                                                               \
         "columns of text of which each category (256 at most) becomes a\nfeature of 0 and 1",               \
         CLI_TEXT(type, data.one_hot)},                                                                      \
        {"strict", 0, NULL, "refuse a table in which some column holds no numbers",                          \
         CLI_FLAG(type, data.numbers_only, 0)},                                                              \
        {"missing", 0, "HOW",                                                                                \
         "cells that are empty, NA, N/A, #N/A, <NA>, NaN, NULL, None, ?\nor -: refuse (default), drop "      \
         "their rows, or "                                                                                   \
         "fill in the column's mean or median",                                                              \
         CLI_WORD(km_missing, type, data.missing, cli_missing_words)},                                       \
        {"nan", 0, "HOW", "the same as --missing",                                                           \
         CLI_WORD(km_missing, type, data.missing, cli_missing_words)},                                       \
        {"na-values", 0, "LIST", "what else means a missing value, e.g. unknown,-999",                       \
         CLI_TEXT(type, data.na_values)},                                                                    \
    {                                                                                                        \
        "decimal", 0, ".|,",                                                                                 \
            "what decimals of text have; default: a comma where semicolons\nor tabs separate and no number " \
            "has "                                                                                           \
            "a point, but as\nbetween thousands; else a point",                                              \
            CLI_BY(cli_take_decimal, char, type, data.decimal)                                               \
    }

// For commands that take weights.
#define CLI_WEIGHTS_OPTIONS(type)                                                                            \
    {"weights", 0, "FILE", "one weight a row", CLI_TEXT(type, data.weights)}, {                              \
        "weights-column", 0, "NAME", "column of DATA with one weight a row",                                 \
            CLI_TEXT(type, data.weights_column)                                                              \
    }

struct cli_command {
    const char *name;
    const char *arguments; // after the name in the usage line
    const char *summary;   // one line
    const char *details;   // paragraphs and examples under the options
    const cli_option *options;
    int (*run)(const cli_command *command, int argc, char **argv);
};

// The one table of subcommands (main.c); ends with NULL.
extern const cli_command *const cli_commands[];
extern const cli_command cli_command_emit, cli_command_explain, cli_command_fit, cli_command_predict,
    cli_command_explore, cli_command_score, cli_command_data, cli_command_info, cli_command_cache,
    cli_command_tune, cli_command_completion, cli_command_help, cli_command_version;

// Reads the command line into `options`, whose fields the command's table names. Non-zero: the command is done, with
// the exit status parser->exit. argv[0] is the subcommand's name.
int cli_parse(cli_parser *parser, void *options, const cli_command *command, int argc, char **argv);
// The option that was given for this field of the command's options; NULL: none was.
const cli_option *cli_given(const cli_parser *parser, const void *field);
// Checks the number of positional arguments; 0, or CLI_USAGE after a message.
int cli_positional(const cli_parser *parser, int least, int most, const char *what);
// Words behind what stands in the first columns of standard output already, in lines of 80 at most.
void cli_print_words(const char *text, int column, int indent);
void cli_help_print(const cli_command *command);

// Prints what this machine's CPU and its GPU (a nominal one where there is none) would run, side by side; `whole`: then
// each plan as a whole. `own`: the plan of one of them, as it will be run; NULL: both are planned here. `max_iter`:
// of the fit.
km_status cli_devices_print(const km_spec *spec, const km_plan_params *params, const km_plan *own,
                            int64_t max_iter, int whole, km_error *err);

// The candidate most like `word` (candidates end with NULL), or NULL when none is similar.
const char *cli_suggest(const char *word, const char *const *candidates);

// Prints "kmgen COMMAND: ..." and where the help is; returns CLI_USAGE.
int cli_usage(const cli_command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

// The index of the value among `choices`, which end with NULL: 0, or CLI_USAGE after a message. `option` NULL: the
// value is a positional argument, the action.
int cli_choice(const cli_parser *parser, const cli_option *option, int *out, const char *const *choices);
// Threads that --threads gave, else those of OMP_NUM_THREADS, else 0: all cores.
int64_t cli_threads(int64_t given);

// Spec and target -------------------------------------------------------------------------------------------

// What emit, explain and fit may change in a spec from the command line.
typedef struct cli_changes {
    const char *clusters, *target, *type, *layout, *metric;
    const char *set[KM_FIXED_MAX]; // NAME=VALUE of plan numbers
    int set_count;
} cli_changes;

// GPUs that share the points of a fit.
enum { CLI_DEVICES_MAX = 64 };
typedef struct cli_several {
    int devices[CLI_DEVICES_MAX];
    int count;      // 0: one, or none
    double open_ms; // km_fit_params.devices_open_ms
} cli_several;

// Takes several devices out of the target, "cuda:all" or "cuda:0,1", which is "cuda" then: 0, or CLI_USAGE after a
// message.
int cli_devices_take(cli_several *several, cli_changes *changes, const cli_command *command);

// Applies them: 0, or an exit status after a message. `device` (or NULL where none is used) gets KM_HOST, a CUDA
// ordinal or KM_DEVICE_AUTO.
int cli_changes_apply(km_spec *spec, int *device, const cli_changes *changes, const cli_command *command);
// Warns of names that are those of the version before.
void cli_names_warn(const km_spec *spec);
int cli_is_yaml(const char *path);
// The lines of a plan's spec that the spec which it was made of did not have.
void cli_plan_warn(const km_plan *plan, const km_spec *spec);
// Where a spec is expected: CLI_USAGE after a message if the path is that of a table, else 0.
int cli_refuse_table(const cli_command *command, const char *path);
// The list of K for people: "2..10" or "3, 5, 8".
void cli_clusters_text(char *text, size_t size, const km_spec *spec);

// Data ------------------------------------------------------------------------------------------------------

// Sets what the program reads tables by.
void cli_data_init(km_data_params *params);

// For km_data_params.log: what is assumed of a table, and with --verbose what is counted.
const km_log *cli_data_log(void);

// Refuses options that do not apply to a table at `path` ("-": standard input): 0, or CLI_USAGE after a message.
int cli_data_check(const km_data_params *params, const cli_parser *parser, const char *path);

// Terminal --------------------------------------------------------------------------------------------------

extern int cli_quiet, cli_verbose;

// Prints one line, fit for a terminal whatever names are in it. All that the program says goes through here.
void cli_line(FILE *stream, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cli_vline(FILE *stream, const char *before, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));
void cli_note(const char *format, ...) __attribute__((format(printf, 1, 2)));    // unless --quiet
void cli_warning(const char *format, ...) __attribute__((format(printf, 1, 2))); // unless --quiet
// Prints the error; returns the exit status that belongs to the library's status.
int cli_error(km_status status, const km_error *err);
int cli_colour(void);        // standard output takes colour
const km_log *cli_log(void); // warnings on standard error, and what --verbose adds
// For km_fit_params.progress: a line on a terminal; non-zero once the user asked to stop.
int cli_progress(void *user, const km_progress *progress);
int cli_tune_progress(void *user, const km_tune_progress *progress); // the same of a tuning
void cli_progress_clear(void);
// Columns of a terminal there, or those of $COLUMNS; 0: neither.
int cli_width(int fd);
// Prints lines, those of more than `width` columns (0: none) broken at spaces.
void cli_wrapped(FILE *stream, const char *text, int width);
// For km_result_to_table: what standard output shows.
int cli_table_looks(void);

// Times of a fit for --verbose: counted from cli_times_begin on, shown on standard error. `open_ms` and `write_ms`: of
// the data and the outputs.
void cli_times_begin(void);
double cli_now_ms(void);
void cli_times_show(const km_timing *timing, double open_ms, double write_ms);

// Ctrl-C and SIGTERM: caught, a flag is set and cli_progress returns non-zero; a second one ends the program. Ranks
// catch SIGUSR1 too, which launchers hand on where they end the ranks themselves at the others.
void cli_interrupts_catch(void);
void cli_interrupts_default(void);
int cli_interrupted(void);
// Where a signal came, ends the program by it, so that a shell script stops too; a rank, which has still to take leave
// of the others, has the exit status that a shell gives for it. Else `exit`.
int cli_interrupts_obey(int exit);
// Between these, signals are held back, so that files are written whole.
void cli_interrupts_hold(void);
void cli_interrupts_release(void);

// The program but for its begin and end: the exit status of a command line.
int cli_run(int argc, char **argv);

// The end -----------------------------------------------------------------------------------------------------

// Ends the program, with that status, when all that it printed has arrived. A GPU is left to the system then, which
// cli_end_keeps_device prepares before one is opened; cli_end_waits: threads of the library are waited for.
_Noreturn void cli_end(int status);
void cli_end_keeps_device(void);
void cli_end_waits(void);
// What becomes of kernels that are still being compiled when a fit is done, as words of an option.
enum { CLI_REST_BACKGROUND, CLI_REST_WAIT, CLI_REST_LEAVE };
extern const char *const cli_rest_words[];
// Starts a process of low priority that compiles what fits have left in this folder (kmgen cache finish).
void cli_compile_in_background(const char *cache_dir);

// Files -----------------------------------------------------------------------------------------------------

// The cache folder: `given`, else $KMGEN_CACHE_DIR, $XDG_CACHE_HOME/kmgen, ~/.cache/kmgen. NULL when there is
// none. The text stays valid.
const char *cli_cache_dir(const char *given);
// The folder of this user's tuning tables: $XDG_DATA_HOME/kmgen/tuning, ~/.local/share/kmgen/tuning. NULL when there is
// none. The text stays valid.
const char *cli_tuning_dir(void);
// --tuning of emit, explain and fit: a table's file, or "none"; NULL: not given. `text` is what was read of it.
typedef struct cli_tuning {
    const char *path;
    char *text;
} cli_tuning;
#define CLI_TUNING_OPTION(type, table)                                                                       \
    { "tuning", 0, "FILE|none", table, CLI_TEXT(type, tuning.path) }
int cli_tuning_is_none(const cli_tuning *tuning);
km_status cli_tuning_read(cli_tuning *tuning, km_error *err); // KM_ERROR_IO
void cli_tuning_apply(km_plan_params *params, const cli_tuning *tuning);
// Where none is named: the table of the device that params->facts are of and this target of it, from this user's
// folder, into `own`.
void cli_tuning_find(km_plan_params *params, cli_tuning *own, km_target target);
void cli_tuning_clear(cli_tuning *tuning);

// As cli_cache_dir for a fit, which writes there: where it cannot be written to, NULL and a warning, or an error if
// `given`.
int cli_cache_dir_usable(const char **out, const char *given);

// An output that will be written at the end: known to be writable before the work begins.
typedef struct cli_output {
    const char *option, *path; // path NULL: not wanted
    const char *formats; // NULL: its own; else which of npy, csv and tsv it writes, as the file's name says
} cli_output;

// Checks all outputs: 0, or an exit status after a message. At most one may be "-"; none may be an input
// (`inputs` ends with NULL) or another output.
int cli_outputs_check(const cli_command *command, const cli_output *outputs, int count,
                      const char *const *inputs);

// Whether the pictures of --plot, none if the first has no path, can be drawn by this build: as above.
int cli_plots_check(const cli_command *command, const cli_output *plots, int count);

// What a command writes: `write` the output of that number to a path, `show` what is printed where no output takes
// standard output.
typedef struct cli_writer {
    km_status (*write)(int output, const char *path, const void *user, km_error *err);
    km_status (*show)(const void *user, km_error *err);
    const void *user;
} cli_writer;

// Writes a text of the library's, if it was made, and frees it.
km_status cli_text_write(const char *path, char *text, km_status made, km_error *err);

// Writes every output that it can, files first: one that fails (a disk that filled up) loses no other. Ctrl-C waits
// until the files are there. 0, or an exit status after messages.
int cli_outputs_write(const cli_output *outputs, int count, const cli_writer *writer);

#endif

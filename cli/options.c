// SPDX-License-Identifier: MIT
// The command line: one option list a subcommand feeds getopt_long and --help.
#include "cli.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTIONS_MAX = 128, WORD_MAX = 64 };

// Edits (insert, delete, replace, swap of neighbours) that turn a into b; words longer than WORD_MAX are far.
static int edit_distance(const char *a, const char *b) {
    size_t a_size = strlen(a), b_size = strlen(b);
    if (a_size >= WORD_MAX || b_size >= WORD_MAX) return WORD_MAX;
    int cost[WORD_MAX + 1][WORD_MAX + 1];
    for (size_t i = 0; i <= a_size; i++) {
        for (size_t j = 0; j <= b_size; j++) {
            if (i == 0 || j == 0) {
                cost[i][j] = (int)(i + j);
                continue;
            }
            int best = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (cost[i - 1][j] + 1 < best) best = cost[i - 1][j] + 1;
            if (cost[i][j - 1] + 1 < best) best = cost[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                cost[i - 2][j - 2] + 1 < best)
                best = cost[i - 2][j - 2] + 1;
            cost[i][j] = best;
        }
    }
    return cost[a_size][b_size];
}

const char *cli_suggest(const char *word, const char *const *candidates) {
    const char *best = NULL;
    int best_distance = (int)strlen(word) / 3 + 2; // one typo in a short word, more in a long one
    for (; *candidates; candidates++) {
        int distance = edit_distance(word, *candidates);
        if (distance < best_distance) {
            best_distance = distance;
            best = *candidates;
        }
    }
    return best;
}

int cli_usage(const cli_command *command, const char *format, ...) {
    char before[64];
    va_list args;
    va_start(args, format);
    snprintf(before, sizeof before, "kmgen%s%s: ", command ? " " : "", command ? command->name : "");
    cli_vline(stderr, before, format, args);
    cli_line(stderr, "Try 'kmgen %s%s--help'.", command ? command->name : "", command ? " " : "");
    va_end(args);
    return CLI_USAGE;
}

void cli_parser_init(cli_parser *parser, const cli_command *command, int argc, char **argv) {
    *parser = (cli_parser){.command = command, .argc = argc, .argv = argv};
    optind = 0; // glibc: begin anew
    opterr = 0;
}

// The option that getopt refused, as it was written, without "=VALUE".
static int refuse_unknown(cli_parser *parser) {
    const cli_option *options = parser->command->options;
    const char *names[OPTIONS_MAX + 1];
    char word[WORD_MAX];
    int count = 0;
    if (optopt > 0 && optopt < CLI_HELP) {
        return cli_usage(parser->command, "unknown option -%c", optopt);
    }
    const char *text = parser->argv[optind - 1];
    snprintf(word, sizeof word, "%s", text + strspn(text, "-"));
    word[strcspn(word, "=")] = 0;
    if (optopt >= CLI_HELP) return cli_usage(parser->command, "--%s takes no value", word);
    char matches[256] = "";
    int matches_count = 0;
    for (; options[count].name; count++) {
        names[count] = options[count].name;
        if (strncmp(names[count], word, strlen(word)) != 0) continue;
        size_t used = strlen(matches);
        snprintf(matches + used, sizeof matches - used, "%s--%s", used ? ", " : "", names[count]);
        matches_count++;
    }
    names[count] = NULL;
    if (matches_count > 1) return cli_usage(parser->command, "--%s may mean %s", word, matches);
    for (const cli_option *of_fit = cli_command_fit.options; of_fit->name; of_fit++)
        if (!strcmp(of_fit->name, word))
            return cli_usage(parser->command, "unknown option --%s, which kmgen fit has", word);
    const char *similar = cli_suggest(word, names);
    if (similar) return cli_usage(parser->command, "unknown option --%s; did you mean --%s?", word, similar);
    return cli_usage(parser->command, "unknown option --%s", word);
}

int cli_given(const cli_parser *parser, cli_id id) {
    return parser->given[id - CLI_HELP] != 0;
}

static int may_repeat(const cli_option *option) {
    size_t size = strlen(option->argument);
    return size > 3 && strcmp(option->argument + size - 3, "...") == 0;
}

// Each option's value: not empty, and given once unless the table of options says that it may repeat.
static int check_value(cli_parser *parser, int id) {
    const cli_option *option = parser->command->options;
    while ((int)option->id != id) option++;
    int was_given = cli_given(parser, option->id);
    if (parser->given[id - CLI_HELP] < 255) parser->given[id - CLI_HELP]++;
    if (!option->argument) return 0;
    if (!*parser->value) return cli_usage(parser->command, "--%s needs a value, got ''", option->name);
    if (!was_given || may_repeat(option)) return 0;
    return cli_usage(parser->command, "--%s is given twice, now as '%s'; give it once", option->name,
                     parser->value);
}

int cli_next(cli_parser *parser) {
    const cli_option *options = parser->command->options;
    struct option longs[OPTIONS_MAX + 1] = {0};
    char letters[2 * OPTIONS_MAX + 2] = ":";
    int letters_size = 1;
    for (int o = 0; options[o].name && o < OPTIONS_MAX; o++) {
        longs[o] = (struct option){options[o].name, options[o].argument ? required_argument : no_argument,
                                   NULL, options[o].id};
        if (!options[o].letter) continue;
        letters[letters_size++] = options[o].letter;
        if (options[o].argument) letters[letters_size++] = ':';
    }
    for (;;) {
        int id = getopt_long(parser->argc, parser->argv, letters, longs, NULL);
        parser->value = optarg;
        parser->exit = CLI_USAGE;
        if (id == -1) {
            parser->first = optind;
            return CLI_END;
        }
        if (id == '?') {
            refuse_unknown(parser);
            return CLI_STOP;
        }
        for (int o = 0; id < CLI_HELP && options[o].name; o++)
            if (id == options[o].letter) id = options[o].id;
        if (id == ':') {
            cli_usage(parser->command, "option %s needs a value", parser->argv[optind - 1]);
            return CLI_STOP;
        }
        if (id == CLI_HELP) {
            cli_help_print(parser->command);
            parser->exit = CLI_DONE;
            return CLI_STOP;
        }
        if (check_value(parser, id)) return CLI_STOP;
        if (id != CLI_QUIET && id != CLI_VERBOSE) return id;
        if (id == CLI_QUIET) cli_quiet = 1;
        if (id == CLI_VERBOSE) cli_verbose++;
    }
}

int cli_positional(const cli_parser *parser, int least, int most, const char *what) {
    int count = parser->argc - parser->first;
    if (count < least) return cli_usage(parser->command, "%s is missing", what);
    if (count > most)
        return cli_usage(parser->command, "unexpected argument '%s'", parser->argv[parser->first + most]);
    return 0;
}

enum { HELP_WIDTH = 80, HELP_LEFT = 29, HELP_TEXT = 2 + HELP_LEFT + 1 };

void cli_print_words(const char *text, int column, int indent) {
    for (int is_first = 1;; is_first = 0) {
        text += strspn(text, " \n");
        int size = (int)strcspn(text, " \n");
        if (!size) break;
        if (!is_first && column + 1 + size > HELP_WIDTH) {
            printf("\n%*s", indent, "");
            column = indent;
            is_first = 1;
        }
        printf("%s%.*s", is_first ? "" : " ", size, text);
        column += size + !is_first;
        text += size;
    }
    putchar('\n');
}

static void print_option(const cli_option *o) {
    char left[HELP_WIDTH], letter[8] = "    ";
    if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
    int size = snprintf(left, sizeof left, "  %s--%s%s%s", letter, o->name, o->argument ? " " : "",
                        o->argument ? o->argument : "");
    if (size < HELP_TEXT)
        printf("%-*s", HELP_TEXT, left);
    else
        printf("%s\n%*s", left, HELP_TEXT, "");
    cli_print_words(o->help, HELP_TEXT, HELP_TEXT);
}

// Paragraphs; lines that begin with a space are examples, and stay as they are.
static void print_details(const char *text) {
    while (*text) {
        size_t line = strcspn(text, "\n");
        if (line == 0 || *text == ' ') {
            printf("%.*s\n", (int)line, text);
            text += line + (text[line] == '\n');
            continue;
        }
        char paragraph[4096];
        size_t size = 0;
        while (text[size] && text[size] != ' ' && text[size] != '\n') {
            size += strcspn(text + size, "\n");
            size += text[size] == '\n';
        }
        snprintf(paragraph, sizeof paragraph, "%.*s", (int)size, text);
        cli_print_words(paragraph, 0, 0);
        text += size;
    }
}

void cli_help_print(const cli_command *command) {
    printf("Usage: kmgen %s %s\n\n", command->name, command->arguments);
    char summary[256];
    snprintf(summary, sizeof summary, "%s.", command->summary);
    cli_print_words(summary, 0, 0);
    printf("\nOptions:\n");
    for (const cli_option *o = command->options; o->name; o++) print_option(o);
    if (!command->details) return;
    putchar('\n');
    print_details(command->details);
}

int cli_int(const cli_parser *parser, const char *option, int64_t *out, int64_t lowest, int64_t highest) {
    char *end;
    errno = 0;
    long long value = strtoll(parser->value, &end, 10);
    if (end == parser->value || *end || errno || value < lowest || value > highest)
        return cli_usage(parser->command, "%s must be a whole number %lld..%lld, got '%s'", option,
                         (long long)lowest, (long long)highest, parser->value);
    *out = value;
    return 0;
}

int cli_bytes(const cli_parser *parser, const char *option, int64_t *out) {
    static const char units[] = "KMGT";
    char *end;
    double value = strtod(parser->value, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (unit) value = ldexp(value, 10 * (int)(unit - units + 1));
    if (unit) end++;
    int is_number = end != parser->value && *end == 0 && parser->value[0] >= '0' && parser->value[0] <= '9';
    if (!is_number || !(value >= 1) || !(value < 0x1p62))
        return cli_usage(parser->command, "%s must be bytes, as 512M, 4G or 1.5G, got '%s'", option,
                         parser->value);
    *out = (int64_t)value;
    return 0;
}

int64_t cli_threads(int64_t given) {
    const char *wanted = getenv("OMP_NUM_THREADS"); // "4", or "4,2": of each level of nesting
    if (given || !wanted) return given;
    long long threads = strtoll(wanted, NULL, 10);
    return threads >= 1 && threads <= 4096 ? threads : 0;
}

int cli_seed(const cli_parser *parser, uint64_t *out) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(parser->value, &end, 0);
    if (end == parser->value || *end || errno || strchr(parser->value, '-'))
        return cli_usage(parser->command, "--seed must be a whole number 0..2^64-1, got '%s'", parser->value);
    *out = value;
    return 0;
}

int cli_share(const cli_parser *parser, const char *option, double *out) {
    char *end;
    double value = strtod(parser->value, &end);
    if (end == parser->value || *end || !(value > 0 && value <= 1))
        return cli_usage(parser->command, "%s must be a number above 0, up to 1, got '%s'", option,
                         parser->value);
    *out = value;
    return 0;
}

int cli_nonnegative(const cli_parser *parser, const char *option, double *out) {
    char *end;
    double value = strtod(parser->value, &end);
    if (end == parser->value || *end || !isfinite(value) || value < 0)
        return cli_usage(parser->command, "%s must be a number of at least 0, got '%s'", option,
                         parser->value);
    *out = value;
    return 0;
}

int cli_seconds(const cli_parser *parser, const char *option, double *out) {
    char *end;
    double value = strtod(parser->value, &end), unit = 1;
    if (*end == 'm') unit = 60;
    if (*end == 'h') unit = 3600;
    if (*end == 's' || *end == 'm' || *end == 'h') end++;
    if (end == parser->value || *end || !isfinite(value) || value <= 0)
        return cli_usage(parser->command, "%s must be a time such as 60s, 10m or 1h, got '%s'", option,
                         parser->value);
    *out = value * unit;
    return 0;
}

int cli_choice(const cli_parser *parser, const char *option, int *out, const char *const *choices) {
    char all[512] = "";
    for (int i = 0; choices[i]; i++) {
        if (strcmp(parser->value, choices[i]) == 0) {
            *out = i;
            return 0;
        }
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", used ? ", " : "", choices[i]);
    }
    const char *similar = cli_suggest(parser->value, choices);
    return cli_usage(parser->command, "%s must be one of %s, got '%s'%s%s%s", option, all, parser->value,
                     similar ? "; did you mean " : "", similar ? similar : "", similar ? "?" : "");
}

int cli_scale(const cli_parser *parser, km_scale *out) {
    const char *names[KM_SCALE_COUNT + 1] = {NULL};
    int choice = 0;
    for (int s = 0; s < KM_SCALE_COUNT; s++) names[s] = km_scale_name((km_scale)s);
    if (cli_choice(parser, "--scale", &choice, names)) return CLI_USAGE;
    *out = (km_scale)choice;
    return 0;
}

// A criterion's own name for what people and other programs call it. "-" stands for "_".
static void criterion_word(char out[WORD_MAX], const char *word, size_t size) {
    static const struct {
        const char *other, *own;
    } names[] = {{"ch", "calinski_harabasz"},
                 {"db", "davies_bouldin"},
                 {"xb", "xie_beni"},
                 {"kl", "krzanowski_lai"},
                 {"wb_index", "wb"},
                 {"calinski_harabasz_score", "calinski_harabasz"},
                 {"sil", "silhouette"},
                 {"silhouette_score", "silhouette_euclidean"},
                 {"davies_bouldin_score", "davies_bouldin"}};
    snprintf(out, WORD_MAX, "%.*s", size < WORD_MAX ? (int)size : WORD_MAX - 1, word);
    for (char *c = out; *c; c++)
        if (*c == '-') *c = '_';
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(out, names[i].other) == 0) snprintf(out, WORD_MAX, "%s", names[i].own);
}

int cli_criterion(const cli_parser *parser, km_criterion *out) {
    const char *names[KM_CRITERION_COUNT + 2] = {"auto"}; // KM_CRITERION_AUTO is one before the first
    for (int c = 0; c < KM_CRITERION_COUNT; c++) names[c + 1] = km_criterion_name((km_criterion)c);
    char word[WORD_MAX];
    int choice = 0;
    cli_parser item = *parser;
    criterion_word(word, parser->value, strlen(parser->value));
    item.value = word;
    if (cli_choice(&item, "--criterion", &choice, names)) return CLI_USAGE;
    *out = (km_criterion)(choice + KM_CRITERION_AUTO);
    return 0;
}

int cli_criteria(const cli_parser *parser, uint64_t *out) {
    const char *names[KM_CRITERION_COUNT + 2] = {[KM_CRITERION_COUNT] = "all"};
    for (int c = 0; c < KM_CRITERION_COUNT; c++) names[c] = km_criterion_name((km_criterion)c);
    *out = 0;
    for (const char *at = parser->value;;) {
        char word[WORD_MAX];
        size_t size = strcspn(at, ",");
        criterion_word(word, at, size);
        int choice = 0;
        cli_parser item = *parser;
        item.value = word;
        if (cli_choice(&item, "--criteria", &choice, names)) return CLI_USAGE;
        *out |= choice < KM_CRITERION_COUNT ? (uint64_t)1 << choice : ((uint64_t)1 << KM_CRITERION_COUNT) - 1;
        if (!at[size]) return 0;
        at += size + 1;
    }
}

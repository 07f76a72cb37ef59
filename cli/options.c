// SPDX-License-Identifier: MIT
// The command line: one option list a subcommand feeds getopt_long and --help.
#include "cli.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_MAX = 64 };
enum { FIRST_ID = 256 }; // of getopt_long: above any letter; then by place in the table

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

// The option that getopt refused, as it was written, without "=VALUE".
static int refuse_unknown(cli_parser *parser) {
    const cli_option *options = parser->command->options;
    const char *names[CLI_OPTIONS_MAX + 1];
    char word[WORD_MAX];
    int count = 0;
    if (optopt > 0 && optopt < FIRST_ID) {
        return cli_usage(parser->command, "unknown option -%c", optopt);
    }
    const char *text = parser->argv[optind - 1];
    snprintf(word, sizeof word, "%s", text + strspn(text, "-"));
    word[strcspn(word, "=")] = 0;
    if (optopt >= FIRST_ID) return cli_usage(parser->command, "--%s takes no value", word);
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

const cli_option *cli_given(const cli_parser *parser, const void *field) {
    const cli_option *options = parser->command->options;
    for (int o = 0; options[o].name; o++)
        if (parser->given[o] && (const char *)parser->options + options[o].field == (const char *)field)
            return &options[o];
    return NULL;
}

static int may_repeat(const cli_option *option) {
    size_t size = strlen(option->argument);
    return size > 3 && strcmp(option->argument + size - 3, "...") == 0;
}

// An option's value: not empty, and given once, by this name or another, unless the table says that it may repeat.
static int check_value(const cli_parser *parser, const cli_option *option) {
    const cli_option *options = parser->command->options;
    if (!option->argument) return 0;
    if (!*parser->value) return cli_usage(parser->command, "--%s needs a value, got ''", option->name);
    if (may_repeat(option)) return 0;
    for (const cli_option *o = options; o->name; o++) {
        if (!parser->given[o - options] || o->take != option->take || o->field != option->field) continue;
        if (o == option)
            return cli_usage(parser->command, "--%s is given twice, now as '%s'; give it once", option->name,
                             parser->value);
        return cli_usage(parser->command, "--%s and --%s say the same; give one of them", o->name,
                         option->name);
    }
    return 0;
}

// What getopt_long returned is one of these, or a letter.
static int place_of(const cli_option *options, int id) {
    int o = 0;
    if (id >= FIRST_ID) return id - FIRST_ID;
    while (options[o].letter != id) o++;
    return o;
}

static int take_next(cli_parser *parser, int id) {
    const cli_option *options = parser->command->options;
    parser->value = optarg;
    if (id == '?') return refuse_unknown(parser);
    if (id == ':') return cli_usage(parser->command, "option %s needs a value", parser->argv[optind - 1]);
    int place = place_of(options, id);
    if (check_value(parser, &options[place])) return CLI_USAGE;
    parser->given[place] = 1;
    void *field = parser->options ? (char *)parser->options + options[place].field : NULL;
    return options[place].take(field, parser, &options[place]);
}

int cli_parse(cli_parser *parser, void *options, const cli_command *command, int argc, char **argv) {
    const cli_option *table = command->options;
    struct option longs[CLI_OPTIONS_MAX + 1] = {0};
    char letters[2 * CLI_OPTIONS_MAX + 2] = ":";
    int size = 1, id;
    *parser = (cli_parser){.command = command, .argc = argc, .argv = argv, .options = options};
    for (int o = 0; table[o].name; o++) {
        assert(o < CLI_OPTIONS_MAX);
        longs[o] = (struct option){table[o].name, table[o].argument ? required_argument : no_argument, NULL,
                                   FIRST_ID + o};
        if (!table[o].letter) continue;
        letters[size++] = table[o].letter;
        if (table[o].argument) letters[size++] = ':';
    }
    optind = 0; // glibc: begin anew
    opterr = 0;
    while ((id = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
        int stop = take_next(parser, id);
        parser->exit = stop == CLI_STOP ? CLI_DONE : stop;
        if (stop) return 1;
    }
    parser->first = optind;
    return 0;
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

// Values ------------------------------------------------------------------------------------------------------

int cli_take_help(void *field, cli_parser *parser, const cli_option *option) {
    (void)field, (void)option;
    cli_help_print(parser->command);
    return CLI_STOP;
}

int cli_take_quiet(void *field, cli_parser *parser, const cli_option *option) {
    (void)field, (void)parser, (void)option;
    cli_quiet = 1;
    return 0;
}

int cli_take_verbose(void *field, cli_parser *parser, const cli_option *option) {
    (void)field, (void)parser, (void)option;
    cli_verbose++;
    return 0;
}

int cli_take_text(void *field, cli_parser *parser, const cli_option *option) {
    (void)option;
    *(const char **)field = parser->value;
    return 0;
}

int cli_take_flag(void *field, cli_parser *parser, const cli_option *option) {
    (void)parser;
    *(int *)field = (int)option->least;
    return 0;
}

int cli_take_int(void *field, cli_parser *parser, const cli_option *option) {
    char *end;
    errno = 0;
    long long value = strtoll(parser->value, &end, 10);
    if (end == parser->value || *end || errno || value < option->least || value > option->most)
        return cli_usage(parser->command, "--%s must be a whole number %lld..%lld, got '%s'", option->name,
                         (long long)option->least, (long long)option->most, parser->value);
    *(int64_t *)field = value;
    return 0;
}

int cli_take_bytes(void *field, cli_parser *parser, const cli_option *option) {
    static const char units[] = "KMGT";
    char *end;
    double value = strtod(parser->value, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (unit) value = ldexp(value, 10 * (int)(unit - units + 1));
    if (unit) end++;
    int is_number = end != parser->value && *end == 0 && parser->value[0] >= '0' && parser->value[0] <= '9';
    if (!is_number || !(value >= 1) || !(value < 0x1p62))
        return cli_usage(parser->command, "--%s must be bytes, as 512M, 4G or 1.5G, got '%s'", option->name,
                         parser->value);
    *(int64_t *)field = (int64_t)value;
    return 0;
}

int64_t cli_threads(int64_t given) {
    const char *wanted = getenv("OMP_NUM_THREADS"); // "4", or "4,2": of each level of nesting
    if (given || !wanted) return given;
    long long threads = strtoll(wanted, NULL, 10);
    return threads >= 1 && threads <= 4096 ? threads : 0;
}

int cli_take_seed(void *field, cli_parser *parser, const cli_option *option) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(parser->value, &end, 0);
    if (end == parser->value || *end || errno || strchr(parser->value, '-'))
        return cli_usage(parser->command, "--%s must be a whole number 0..2^64-1, got '%s'", option->name,
                         parser->value);
    *(uint64_t *)field = value;
    return 0;
}

int cli_take_share(void *field, cli_parser *parser, const cli_option *option) {
    char *end;
    double value = strtod(parser->value, &end);
    if (end == parser->value || *end || !(value > 0 && value <= 1))
        return cli_usage(parser->command, "--%s must be a number above 0, up to 1, got '%s'", option->name,
                         parser->value);
    *(double *)field = value;
    return 0;
}

int cli_take_nonnegative(void *field, cli_parser *parser, const cli_option *option) {
    char *end;
    double value = strtod(parser->value, &end);
    if (end == parser->value || *end || !isfinite(value) || value < 0)
        return cli_usage(parser->command, "--%s must be a number of at least 0, got '%s'", option->name,
                         parser->value);
    *(double *)field = value;
    return 0;
}

int cli_take_seconds(void *field, cli_parser *parser, const cli_option *option) {
    char *end;
    double value = strtod(parser->value, &end), unit = 1;
    if (*end == 'm') unit = 60;
    if (*end == 'h') unit = 3600;
    if (*end == 's' || *end == 'm' || *end == 'h') end++;
    if (end == parser->value || *end || !isfinite(value) || value <= 0)
        return cli_usage(parser->command, "--%s must be a time such as 60s, 10m or 1h, got '%s'",
                         option->name, parser->value);
    *(double *)field = value * unit;
    return 0;
}

int cli_choice(const cli_parser *parser, const cli_option *option, int *out, const char *const *choices) {
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
    return cli_usage(parser->command, "%s%s must be one of %s, got '%s'%s%s%s", option ? "--" : "",
                     option ? option->name : "the action", all, parser->value,
                     similar ? "; did you mean " : "", similar ? similar : "", similar ? "?" : "");
}

int cli_take_word(void *field, cli_parser *parser, const cli_option *option) {
    int choice = 0, wrong = cli_choice(parser, option, &choice, option->words);
    if (!wrong) memcpy(field, &choice, sizeof choice); // an enum is as long as an int
    return wrong;
}

int cli_take_scale(void *field, cli_parser *parser, const cli_option *option) {
    const char *names[KM_SCALE_COUNT + 1] = {NULL};
    int choice = 0;
    for (int s = 0; s < KM_SCALE_COUNT; s++) names[s] = km_scale_name((km_scale)s);
    if (cli_choice(parser, option, &choice, names)) return CLI_USAGE;
    *(km_scale *)field = (km_scale)choice;
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

int cli_take_criterion(void *field, cli_parser *parser, const cli_option *option) {
    const char *names[KM_CRITERION_COUNT + 2] = {"auto"}; // KM_CRITERION_AUTO is one before the first
    for (int c = 0; c < KM_CRITERION_COUNT; c++) names[c + 1] = km_criterion_name((km_criterion)c);
    char word[WORD_MAX];
    int choice = 0;
    cli_parser item = *parser;
    if (strcmp(parser->value, "list") == 0) {
        for (int c = 0; names[c]; c++) puts(names[c]);
        return CLI_STOP;
    }
    criterion_word(word, parser->value, strlen(parser->value));
    item.value = word;
    if (cli_choice(&item, option, &choice, names)) return CLI_USAGE;
    *(km_criterion *)field = (km_criterion)(choice + KM_CRITERION_AUTO);
    return 0;
}

int cli_take_criteria(void *field, cli_parser *parser, const cli_option *option) {
    const char *names[KM_CRITERION_COUNT + 2] = {[KM_CRITERION_COUNT] = "all"};
    for (int c = 0; c < KM_CRITERION_COUNT; c++) names[c] = km_criterion_name((km_criterion)c);
    uint64_t *bits = field;
    *bits = 0;
    for (const char *at = parser->value;;) {
        char word[WORD_MAX];
        size_t size = strcspn(at, ",");
        criterion_word(word, at, size);
        int choice = 0;
        cli_parser item = *parser;
        item.value = word;
        if (cli_choice(&item, option, &choice, names)) return CLI_USAGE;
        *bits |=
            choice < KM_CRITERION_COUNT ? (uint64_t)1 << choice : ((uint64_t)1 << KM_CRITERION_COUNT) - 1;
        if (!at[size]) return 0;
        at += size + 1;
    }
}

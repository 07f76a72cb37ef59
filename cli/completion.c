// SPDX-License-Identifier: MIT
// Completions of shells, made from the subcommands' own tables of options, as --help is.
#include "cli.h"

#include <stdio.h>
#include <string.h>

// What may stand behind an option: words of its argument ("auto|dense|csr"), criteria, or a file.
static int is_criterion(const cli_option *o) {
    return o->take == cli_take_criterion || o->take == cli_take_criteria;
}

static int has_words(const cli_option *o) {
    return strchr(o->argument, '|') && !strstr(o->argument, "FILE");
}

static void print_values(const cli_option *o) {
    if (is_criterion(o)) {
        printf(o->take == cli_take_criterion ? "auto list" : "all");
        for (int c = 0; c < KM_CRITERION_COUNT; c++) printf(" %s", km_criterion_name((km_criterion)c));
        return;
    }
    for (const char *word = o->argument; *word;) {
        int size = (int)strcspn(word, "|.");
        if (size > 1 || (*word >= '0' && *word <= '9'))
            printf("%.*s ", size, word); // N stands for any number
        word += size + (word[size] != 0);
    }
}

static int names_file(const cli_option *o) {
    return strstr(o->argument, "FILE") || strstr(o->argument, "DIR") || strcmp(o->argument, "HOW") == 0;
}

// bash --------------------------------------------------------------------------------------------------------

static void bash_command(const cli_command *command) {
    printf("    %s)\n        case $previous in\n", command->name);
    for (const cli_option *o = command->options; o->name; o++) {
        if (!o->argument) continue;
        printf("        --%s", o->name);
        if (o->letter) printf(" | -%c", o->letter);
        printf(") ");
        if (is_criterion(o) || has_words(o)) {
            printf("words='");
            print_values(o);
            printf("' ;;\n");
        } else {
            printf(names_file(o) ? "files=1 ;;\n" : "return ;;\n");
        }
    }
    printf("        *)\n            files=1\n            [[ $word == -* ]] && words='");
    for (const cli_option *o = command->options; o->name; o++) printf("--%s ", o->name);
    printf("' ;;\n        esac ;;\n");
}

static void print_bash(void) {
    printf(
        "# Completions of kmgen for bash, made by `kmgen completion bash`.\n"
        "_kmgen() {\n"
        "    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} words='' files=''\n"
        "    COMPREPLY=()\n"
        "    if [[ $COMP_CWORD == 1 ]]; then\n"
        "        words='");
    for (int c = 0; cli_commands[c]; c++) printf("%s ", cli_commands[c]->name);
    printf("--help --version'\n        files=1\n    else\n    case ${COMP_WORDS[1]} in\n");
    for (int c = 0; cli_commands[c]; c++) bash_command(cli_commands[c]);
    printf("    *) files=1 ;;\n    esac\n    fi\n"
           "    [[ $words ]] && mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
           "    if [[ $files && ${#COMPREPLY[@]} == 0 ]]; then\n"
           "        compopt -o filenames 2>/dev/null\n"
           "        mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
           "    fi\n}\ncomplete -F _kmgen kmgen\n");
}

// zsh and fish ------------------------------------------------------------------------------------------------

// A text in single quotes, its spaces single; `escaped`: characters that zsh's _arguments would read.
static void print_text(const char *text, const char *escaped) {
    for (int was_space = 1; *text; text++) {
        int is_space = *text == ' ' || *text == '\n';
        if (is_space && was_space) continue;
        was_space = is_space;
        if (*text == '\'')
            printf("'\\''");
        else
            printf("%s%c", strchr(escaped, *text) ? "\\" : "", is_space ? ' ' : *text);
    }
}

static void zsh_option(const cli_option *o) {
    for (int turn = o->letter ? 0 : 1; turn < 2; turn++) {
        int repeats = o->argument && strstr(o->argument, "...");
        printf("            '%s%s", repeats ? "*" : "", turn ? "--" : "-");
        if (turn)
            printf("%s", o->name);
        else
            putchar(o->letter);
        putchar('[');
        print_text(o->help, "[]:\\");
        putchar(']');
        if (o->argument) {
            printf(":%s:", o->name);
            if (is_criterion(o) || has_words(o)) {
                putchar('(');
                print_values(o);
                putchar(')');
            } else if (names_file(o)) {
                printf("_files");
            }
        }
        printf("' \\\n");
    }
}

static void print_zsh(void) {
    printf("#compdef kmgen\n# Completions of kmgen for zsh, made by `kmgen completion zsh`.\n"
           "local -a subcommands\nsubcommands=(\n");
    for (int c = 0; cli_commands[c]; c++) {
        printf("    '%s:", cli_commands[c]->name);
        print_text(cli_commands[c]->summary, ":\\");
        printf("'\n");
    }
    printf(")\nif (( CURRENT == 2 )); then\n    _describe subcommand subcommands\n    _files -g '*.yaml'\n"
           "else\n    local subcommand=${words[2]}\n    shift words\n    (( CURRENT-- ))\n    case "
           "$subcommand in\n");
    for (int c = 0; cli_commands[c]; c++) {
        printf("    %s)\n        _arguments \\\n", cli_commands[c]->name);
        for (const cli_option *o = cli_commands[c]->options; o->name; o++) zsh_option(o);
        printf("            '*:file:_files' ;;\n");
    }
    printf("    *) _files ;;\n    esac\nfi\n");
}

static void print_fish(void) {
    printf("# Completions of kmgen for fish, made by `kmgen completion fish`.\n");
    for (int c = 0; cli_commands[c]; c++) {
        printf("complete -c kmgen -n __fish_use_subcommand -a %s -d '", cli_commands[c]->name);
        print_text(cli_commands[c]->summary, "");
        printf("'\n");
        for (const cli_option *o = cli_commands[c]->options; o->name; o++) {
            printf("complete -c kmgen -n '__fish_seen_subcommand_from %s' -l %s", cli_commands[c]->name,
                   o->name);
            if (o->letter) printf(" -s %c", o->letter);
            if (o->argument) printf(names_file(o) ? " -r" : " -x");
            if (o->argument && (is_criterion(o) || has_words(o))) {
                printf(" -a '");
                print_values(o);
                printf("'");
            }
            printf(" -d '");
            print_text(o->help, "");
            printf("'\n");
        }
    }
}

// Command -----------------------------------------------------------------------------------------------------

static int run(const cli_command *command, int argc, char **argv) {
    static const struct {
        const char *name;
        void (*print)(void);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    cli_parser parser;
    if (cli_parse(&parser, NULL, command, argc, argv)) return parser.exit;
    if (cli_positional(&parser, 1, 1, "the shell")) return CLI_USAGE;
    for (int s = 0; s < 3; s++) {
        if (strcmp(argv[parser.first], shells[s].name) != 0) continue;
        shells[s].print();
        return CLI_DONE;
    }
    return cli_usage(command, "completions are for bash, zsh and fish, got '%s'", argv[parser.first]);
}

static const cli_option options[] = {CLI_COMMON_OPTIONS};

const cli_command cli_command_completion = {
    "completion",
    "bash|zsh|fish",
    "Prints a shell's completions of kmgen",
    "An installed kmgen has brought them along. Else, for this shell alone:\n"
    "  source <(kmgen completion bash)\n",
    options,
    run,
};

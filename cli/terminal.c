// SPDX-License-Identifier: MIT
// Messages, the progress line and signals. Results go to standard output elsewhere; all of this goes to
// standard error.
#include "cli.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cli_quiet, cli_verbose;

static volatile sig_atomic_t stopped_by; // the signal that came
static int progress_shown;

void cli_vline(FILE *stream, const char *before, const char *format, va_list args) {
    char line[8192];
    int size = snprintf(line, sizeof line, "%s", before);
    vsnprintf(line + size, sizeof line - (size_t)size, format, args);
    km_text_plain(line);
    cli_wrapped(stream, line, stream == stdout ? cli_width(STDOUT_FILENO) : 0); // a sentence stays a line
}

void cli_line(FILE *stream, const char *format, ...) {
    va_list args;
    va_start(args, format);
    cli_vline(stream, "", format, args);
    va_end(args);
}

void cli_note(const char *format, ...) {
    if (cli_quiet) return;
    va_list args;
    va_start(args, format);
    cli_progress_clear();
    cli_vline(stderr, "kmgen: ", format, args);
    va_end(args);
}

void cli_warning(const char *format, ...) {
    if (cli_quiet) return;
    va_list args;
    va_start(args, format);
    cli_progress_clear();
    cli_vline(stderr, "kmgen: warning: ", format, args);
    va_end(args);
}

int cli_error(km_status status, const km_error *err) {
    cli_progress_clear();
    if (err->text[0])
        cli_line(stderr, "kmgen: %s", err->text);
    else
        cli_line(stderr, "kmgen: failed (%s)", km_status_name(status));
    return status == KM_ERROR_USAGE ? CLI_USAGE : CLI_FAILED;
}

static int terminal_is_plain(void) {
    const char *term = getenv("TERM");
    return !term || !*term || strcmp(term, "dumb") == 0;
}

int cli_colour(void) {
    const char *no_color = getenv("NO_COLOR"); // the convention: any text that is not empty
    return isatty(STDOUT_FILENO) && !terminal_is_plain() && !(no_color && *no_color);
}

// The character set of the terminal's words, as the first of these that says something says it.
static int is_utf8(void) {
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *value = NULL;
    for (int i = 0; i < 3 && !(value && *value); i++) value = getenv(names[i]);
    return value && (strcasestr(value, "utf-8") || strcasestr(value, "utf8"));
}

int cli_table_looks(void) {
    return (cli_colour() ? KM_TABLE_COLOUR : 0) | (is_utf8() ? KM_TABLE_UTF8 : 0) |
           KM_TABLE_WIDTH(cli_width(STDOUT_FILENO));
}

static void log_line(void *user, km_log_level level, const char *text) {
    (void)user;
    if (level == KM_LOG_WARNING) {
        cli_warning("%s", text);
    } else if (cli_verbose >= (level == KM_LOG_INFO ? 1 : 2)) {
        char line[8192];
        snprintf(line, sizeof line, "%s", text);
        km_text_plain(line);
        cli_progress_clear();
        cli_wrapped(stderr, line, cli_width(STDERR_FILENO));
    }
}

const km_log *cli_log(void) {
    static const km_log log = {log_line, NULL};
    return cli_quiet ? NULL : &log;
}

// Whether a progress line is to be shown: on a terminal, ten times a second at most.
static int may_show(double elapsed_s) {
    static double shown_s = -1;
    if (cli_quiet || cli_verbose || !isatty(STDERR_FILENO) || terminal_is_plain()) return 0;
    if (shown_s >= 0 && elapsed_s >= shown_s && elapsed_s < shown_s + 0.1) return 0;
    shown_s = elapsed_s;
    return 1;
}

// Of a table of text: what was read of it, and how long the rest takes.
static void show_parse(const km_progress *progress) {
    char left[64] = "";
    double done = (double)progress->done, total = (double)progress->total;
    if (done > 0 && total > done)
        snprintf(left, sizeof left, " of %.0f MB, about %.0f s left", total / 1e6,
                 ceil(progress->elapsed_s * (total - done) / done));
    fprintf(stderr, "\r\033[Kread %lld rows, %.0f MB%s", (long long)progress->passes, done / 1e6, left);
    fflush(stderr);
    progress_shown = 1;
}

int cli_progress(void *user, const km_progress *progress) {
    (void)user;
    if (stopped_by) return KM_FIT_STOP_WITH_RESULT; // others take it as they take 1
    if (!may_show(progress->elapsed_s)) return 0;
    if (strcmp(progress->phase, "parse") == 0) {
        show_parse(progress);
        return 0;
    }
    char done[64] = "", passes[64] = "", left[64] = "";
    if (progress->total > 0)
        snprintf(done, sizeof done, " %lld of %lld,", (long long)progress->done, (long long)progress->total);
    // Subsets take the same time each; what other phases have left is not known.
    if (strcmp(progress->phase, "explore") == 0 && progress->done > 0 && progress->total > progress->done)
        snprintf(
            left, sizeof left, ", about %.0f s left",
            ceil(progress->elapsed_s * (double)(progress->total - progress->done) / (double)progress->done));
    if (progress->passes > 0) snprintf(passes, sizeof passes, " %lld passes,", (long long)progress->passes);
    fprintf(stderr, "\r\033[K%s%s%s %.1f s%s", progress->phase, done, passes, progress->elapsed_s, left);
    fflush(stderr);
    progress_shown = 1;
    return 0;
}

int cli_tune_progress(void *user, const km_tune_progress *progress) {
    (void)user;
    if (stopped_by) return 1;
    if (!may_show(progress->elapsed_s)) return 0;
    char done[64] = "", left[64] = "", best[96] = "";
    if (progress->total > 0)
        snprintf(done, sizeof done, " %lld of %lld", (long long)progress->done, (long long)progress->total);
    if (progress->left_s > 0) snprintf(left, sizeof left, ", about %.0f s left", ceil(progress->left_s));
    if (progress->best_ms > 0 && progress->standard_ms > 0)
        snprintf(best, sizeof best, ", best %.4g ms (default %.4g)", progress->best_ms,
                 progress->standard_ms);
    fprintf(stderr, "\r\033[K%s%s%s, %.0f s%s", progress->phase, done, best, progress->elapsed_s, left);
    fflush(stderr);
    progress_shown = 1;
    return 0;
}

void cli_progress_clear(void) {
    if (!progress_shown) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    progress_shown = 0;
}

// The disposition of this signal is the default again (SA_RESETHAND); after another one it ends the program at once.
static void on_signal(int signal_number) {
    if (stopped_by) raise(signal_number);
    stopped_by = signal_number;
}

static const int caught[] = {SIGINT, SIGTERM, SIGUSR1};
enum { CAUGHT_ALONE = 2, CAUGHT_BY_RANKS };

static int caught_count(void) {
    return cli_ranks() ? CAUGHT_BY_RANKS : CAUGHT_ALONE;
}

// Handles a signal unless it is ignored, as a shell does for jobs in the background.
static void set_handler(const struct sigaction *action) {
    for (int s = 0; s < caught_count(); s++) {
        struct sigaction old;
        if (sigaction(caught[s], NULL, &old) == 0 && old.sa_handler == SIG_IGN) continue;
        sigaction(caught[s], action, NULL);
    }
}

void cli_interrupts_catch(void) {
    // Once: the default comes back with the first signal, so that a second one ends the program at once.
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    set_handler(&action);
}

void cli_interrupts_default(void) {
    struct sigaction action = {.sa_handler = SIG_DFL};
    set_handler(&action);
}

int cli_interrupted(void) {
    return stopped_by != 0;
}

int cli_interrupts_obey(int exit) {
    enum { BY_SIGNAL = 128 };
    cli_progress_clear();
    int signal_number = stopped_by;
    if (!signal_number) return exit;
    if (cli_ranks()) return BY_SIGNAL + signal_number;
    fflush(stdout);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
    return exit;
}

static void set_held(int how) {
    sigset_t set;
    sigemptyset(&set);
    for (int s = 0; s < caught_count(); s++) sigaddset(&set, caught[s]);
    sigaddset(&set, SIGHUP);
    sigprocmask(how, &set, NULL);
}

void cli_interrupts_hold(void) {
    set_held(SIG_BLOCK);
}

void cli_interrupts_release(void) {
    set_held(SIG_UNBLOCK);
}

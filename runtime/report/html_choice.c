// SPDX-License-Identifier: MIT
// The top of the page: what was clustered, the chosen K, why, and what to look at before trusting it.
#include "html.h"

#include <stdio.h>
#include <string.h>

static void add_list_of_k(km_page *page) {
    const km_result *result = page->result;
    int64_t count = result->models_count;
    int32_t first = result->models[0].k, last = result->models[count - 1].k;
    if (count == 1)
        km_text_printf(page->out, "K = %d", first);
    else if (last - first + 1 == count)
        km_text_printf(page->out, "K = %d to %d", first, last);
    else
        km_text_printf(page->out, "%lld K from %d to %d", (long long)count, first, last);
}

// The last part of a path.
static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

km_status km_html_head(km_page *page, km_error *err) {
    const km_result *result = page->result;
    const char *name = page->params->title ? page->params->title : base_name(km_data_name(page->data));
    km_text *out = page->out;
    (void)err;
    km_text_puts(out, "<title>");
    km_html_text(out, name);
    if (result->selection.clustered)
        km_text_printf(out, ": %d cluster%s", page->best->k, page->best->k == 1 ? "" : "s");
    else
        km_text_puts(out, ": no clusters");
    km_text_puts(out,
                 "</title>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to the results</a>\n");
    km_text_puts(out, "<header>\n<p class=\"kicker\">k-means of</p>\n<h1><bdi>");
    km_html_text(out, name);
    km_text_puts(out, "</bdi></h1>\n<p class=\"facts\"><span>");
    km_html_count(out, result->n);
    km_text_printf(out, " point%s</span> <span>", result->n == 1 ? "" : "s");
    km_html_count(out, result->d);
    km_text_printf(out, " feature%s</span> <span>", result->d == 1 ? "" : "s");
    add_list_of_k(page);
    km_text_puts(out, "</span> <span>");
    km_html_count(out, result->n_init);
    km_text_printf(out, " restart%s of each</span></p>\n", result->n_init == 1 ? "" : "s");
    return KM_OK;
}

static int64_t votes_for(const km_result *result, int64_t k) {
    int64_t count = 0;
    for (int c = 0; c < KM_CRITERION_COUNT; c++) count += result->selection.votes[c] == k;
    return count;
}

// The K other than `not` that most criteria prefer, the smallest of several; -1: none.
static int64_t runner_up(const km_result *result, int64_t not ) {
    int64_t best = -1, most = 0;
    for (int64_t m = 0; m < result->models_count; m++) {
        int64_t k = result->models[m].k, votes = votes_for(result, k);
        if (k != not &&votes > most) best = k, most = votes;
    }
    return best;
}

static void add_voters(km_page *page, int64_t k) {
    const char *between = " (";
    for (int c = 0; c < KM_CRITERION_COUNT; c++) {
        if (page->result->selection.votes[c] != k) continue;
        km_text_puts(page->out, between);
        km_html_text(page->out, km_criterion_title((km_criterion)c));
        between = ", ";
    }
    km_text_puts(page->out, ")");
}

// The second sentence: what all criteria say.
static void add_votes(km_page *page) {
    const km_result *result = page->result;
    int64_t voters = KM_CRITERION_COUNT - votes_for(result, -1), k = page->best->k,
            votes = votes_for(result, k), other = runner_up(result, k);
    if (page->best->scores[KM_CRITERION_wb] == 0) return; // no inertia is left: the reason has said all
    if (!voters) {
        km_text_puts(page->out, "No criterion is defined here.");
        return;
    }
    km_text_printf(page->out, "Of the %lld criteria that are defined here, %lld prefer%s it",
                   (long long)voters, (long long)votes, votes == 1 ? "s" : "");
    if (votes) add_voters(page, k);
    if (other >= 0) {
        km_text_printf(page->out, "; K&nbsp;=&nbsp;%lld has %lld", (long long)other,
                       (long long)votes_for(result, other));
        add_voters(page, other);
    }
    km_text_puts(page->out, ".");
}

static void add_answer(km_page *page) {
    if (page->result->selection.clustered)
        km_text_printf(page->out,
                       "<p class=\"answer\"><span class=\"label\">K&nbsp;=</span> <strong>%d</strong></p>\n"
                       "<div class=\"why\">\n<p>",
                       page->best->k);
    else
        km_text_printf(
            page->out,
            "<p class=\"answer none\"><strong>No clusters</strong></p>\n<div class=\"why\">\n<p>No valley "
            "of lower density parts any two neighbouring clusters of any K. The best K of the list is %d: ",
            page->best->k);
}

km_status km_html_choice(km_page *page, km_error *err) {
    const km_selection *selection = &page->result->selection;
    size_t size = strlen(selection->reason);
    (void)err;
    add_answer(page);
    km_html_sentence(page->out, selection->reason);
    km_text_puts(page->out, size && selection->reason[size - 1] == '.' ? " " : ". ");
    add_votes(page);
    km_text_puts(page->out, "</p>\n</div>\n");
    return KM_OK;
}

km_status km_html_warnings(km_page *page, km_error *err) {
    const km_result *result = page->result;
    (void)err;
    if (!result->warnings_count) return KM_OK;
    km_text_printf(page->out, "<div class=\"warnings\" role=\"note\">\n<h2>%s</h2>\n<ul>\n",
                   result->warnings_count == 1 ? "Warning" : "Warnings");
    for (int64_t w = 0; w < result->warnings_count; w++) {
        km_text_puts(page->out, "<li>");
        km_html_sentence(page->out, result->warnings[w]);
        km_text_puts(page->out, "</li>\n");
    }
    km_text_puts(page->out, "</ul>\n</div>\n");
    return KM_OK;
}

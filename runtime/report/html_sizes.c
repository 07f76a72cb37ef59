// SPDX-License-Identifier: MIT
// How large the clusters of the chosen K are.
#include "html.h"

static void add_row(km_page *page, int64_t j) {
    const km_model *model = page->best;
    double most = (double)model->counts[page->largest[0]];
    km_text_printf(page->out, "<tr class=\"c%d\"><th scope=\"row\">",
                   page->sample.marks[page->result->selection.best][j] % KM_PAGE_COLOURS);
    km_html_mark(page, page->result->selection.best, j);
    km_text_printf(page->out, "%lld</th>", (long long)j);
    km_html_bar(page->out, (double)model->counts[j] / most);
    km_text_puts(page->out, "<td>");
    km_html_count(page->out, model->counts[j]);
    km_text_puts(page->out, "</td><td>");
    km_html_share(page->out, (double)model->counts[j], (double)page->result->n);
    km_text_puts(page->out, "</td><td>");
    if (page->result->plan.weighted) {
        km_html_number(page->out, model->weights[j]);
        km_text_puts(page->out, "</td><td>");
    }
    km_html_share(page->out, model->sse[j], model->inertia);
    km_text_puts(page->out, "</td></tr>\n");
}

km_status km_html_sizes(km_page *page, km_error *err) {
    static const char *const plain[] = {"Cluster", "", "Points", "Share", "Of inertia", NULL},
                             *const weighted[] = {"Cluster", "",           "Points", "Share",
                                                  "Weight",  "Of inertia", NULL};
    int64_t shown = km_min(page->best->k, KM_PAGE_CLUSTERS_MAX);
    (void)err;
    km_text_puts(page->out, "<figure>\n");
    km_html_table(page->out, "bars", "Sizes of the clusters of the chosen K",
                  page->result->plan.weighted ? weighted : plain);
    for (int64_t r = 0; r < shown; r++) add_row(page, page->largest[r]);
    km_html_end_table(page->out);
    if (shown < page->best->k)
        km_text_printf(page->out, "<figcaption>The %lld largest of %d clusters.</figcaption>\n",
                       (long long)shown, page->best->k);
    km_text_puts(page->out, "</figure>\n");
    return KM_OK;
}

// SPDX-License-Identifier: MIT
// Features by how well they separate the clusters.
#include "html.h"

static void add_row(km_page *page, int64_t f) {
    km_text_puts(page->out, "<tr><th scope=\"row\"><bdi>");
    km_html_text(page->out, page->names[f]);
    km_text_puts(page->out, "</bdi></th>");
    km_html_bar(page->out, page->separates[f]);
    km_text_puts(page->out, "<td>");
    if (page->result->variance[f] > 0)
        km_html_share(page->out, page->separates[f], 1);
    else
        km_text_puts(page->out, "constant");
    km_text_puts(page->out, "</td></tr>\n");
}

km_status km_html_features(km_page *page, km_error *err) {
    static const char *const heads[] = {"Feature", "", "Share", NULL};
    int64_t shown = km_min(page->result->d, KM_PAGE_FEATURES_MAX);
    (void)err;
    km_text_puts(page->out, "<figure>\n");
    km_html_table(page->out, "bars named", "Between the clusters, of a feature’s variance", heads);
    for (int64_t r = 0; r < shown; r++) add_row(page, page->ranked[r]);
    km_html_end_table(page->out);
    if (shown < page->result->d)
        km_text_printf(page->out, "<figcaption>The first %lld of %lld features.</figcaption>\n",
                       (long long)shown, (long long)page->result->d);
    km_text_puts(page->out, "</figure>\n");
    return KM_OK;
}

// SPDX-License-Identifier: MIT
// How clusters split from one K to the next: a column for each of a few K around the chosen one, its clusters as
// blocks as high as their rows, and ribbons for the rows that two clusters of neighbours share.
#include "html.h"

#include <stdio.h>
#include <stdlib.h>

#define WIDTH 640.0
#define TOP 30.0
#define HEIGHT 420.0
#define BAR 13.0
enum { COLUMNS_MAX = 7, SPLIT_MAX = 64 };

typedef struct column {
    int64_t m, k;
    double x, space; // between blocks
    double *top;     // k
    double *height;  // k
    double *leaves;  // k: where the next ribbon begins on the right
    double *comes;   // k: and ends on the left
    double *weight;  // k: where its rows lay in the column before
    int64_t *counts; // k
    int64_t *shared; // k x k of the next column; NULL in the last one
    int32_t *order;  // k, from the top
} column;

typedef struct splits {
    int64_t count;
    column columns[COLUMNS_MAX];
} splits;

static void splits_free(splits *s) {
    for (int64_t c = 0; c < s->count; c++) {
        free(s->columns[c].top);
        free(s->columns[c].counts);
        free(s->columns[c].shared);
        free(s->columns[c].order);
    }
}

// The models around the best one that a picture can show: first, and how many.
static int64_t window(const km_page *page, int64_t *count) {
    const km_result *result = page->result;
    int64_t first = result->selection.best, last = first;
    *count = 0;
    if (result->models[first].k > SPLIT_MAX) return first;
    while (last - first + 1 < COLUMNS_MAX) {
        int up = last + 1 < result->models_count && result->models[last + 1].k <= SPLIT_MAX;
        int down = first > 0;
        if (!up && !down) break;
        if (down && (!up || result->selection.best - first < last - result->selection.best))
            first--;
        else
            last++;
    }
    *count = last - first + 1;
    return first;
}

static km_status column_make(column *c, km_page *page, int64_t m, int is_last, km_error *err) {
    int64_t k = c->k = page->result->models[m].k;
    c->m = m;
    c->top = calloc((size_t)(5 * k), sizeof *c->top);
    c->counts = calloc((size_t)k, sizeof *c->counts);
    c->order = malloc((size_t)k * sizeof *c->order);
    if (!is_last) c->shared = km_html_sample_shared(&page->sample, page->result, m, m + 1);
    if (!c->top || !c->counts || !c->order || (!is_last && !c->shared))
        return km_fail_memory(err, "the report's splits", k * k * (int64_t)sizeof *c->shared);
    c->height = c->top + k, c->leaves = c->top + 2 * k, c->comes = c->top + 3 * k, c->weight = c->top + 4 * k;
    for (int64_t i = 0; i < page->sample.n; i++) c->counts[page->sample.labels[m][i]]++;
    for (int32_t j = 0; j < k; j++) c->order[j] = j;
    return KM_OK;
}

// Clusters from the top by falling weight's opposite: insertion keeps equal ones where they were.
static void sort_column(column *c) {
    for (int64_t i = 1; i < c->k; i++) {
        int32_t moved = c->order[i];
        int64_t at = i;
        for (; at > 0 && c->weight[c->order[at - 1]] > c->weight[moved]; at--)
            c->order[at] = c->order[at - 1];
        c->order[at] = moved;
    }
}

// Where the midpoint of each block is when blocks stand in their order.
static void set_midpoints(column *c) {
    double top = 0;
    for (int64_t i = 0; i < c->k; i++) {
        int32_t j = c->order[i];
        c->top[j] = top + (double)c->counts[j] / 2;
        top += (double)c->counts[j];
    }
}

// Blocks stand where the rows that they share with the column beside them stand.
static void pull(column *c, const column *beside, const int64_t *shared, int beside_is_left) {
    for (int64_t j = 0; j < c->k; j++) {
        double sum = 0, count = 0;
        for (int64_t i = 0; i < beside->k; i++) {
            double rows = (double)(beside_is_left ? shared[i * c->k + j] : shared[j * beside->k + i]);
            sum += rows * beside->top[i];
            count += rows;
        }
        c->weight[j] = count > 0 ? sum / count : 0;
    }
    sort_column(c);
    set_midpoints(c);
}

// Few crossings: from left to right, back, and to the right again.
static void arrange(splits *s) {
    set_midpoints(&s->columns[0]);
    for (int round = 0; round < 3; round++) {
        for (int64_t c = 1; c < s->count; c++)
            pull(&s->columns[c], &s->columns[c - 1], s->columns[c - 1].shared, 1);
        for (int64_t c = s->count - 2; round < 2 && c >= 0; c--)
            pull(&s->columns[c], &s->columns[c + 1], s->columns[c].shared, 0);
    }
}

static void lay_out(splits *s, int64_t rows) {
    for (int64_t i = 0; i < s->count; i++) {
        column *c = &s->columns[i];
        double space = c->k > 1 ? .22 * HEIGHT / (double)(c->k - 1) : 0, at = TOP;
        c->space = space < 14 ? space : 14;
        c->x = s->count > 1 ? 24 + (WIDTH - 48 - BAR) * (double)i / (double)(s->count - 1) : WIDTH / 2;
        at += (HEIGHT - HEIGHT * .78 - c->space * (double)(c->k - 1)) / 2;
        for (int64_t o = 0; o < c->k; o++) {
            int32_t j = c->order[o];
            c->top[j] = c->leaves[j] = c->comes[j] = at;
            c->height[j] = .78 * HEIGHT * (double)c->counts[j] / (double)rows;
            at += c->height[j] + c->space;
        }
    }
}

static int32_t colour_of(const km_page *page, int64_t m, int64_t j) {
    return page->sample.marks[m][j] % KM_PAGE_COLOURS;
}

static void add_ribbon(km_page *page, column *a, column *b, int64_t i, int64_t j) {
    int64_t count = a->shared[i * b->k + j];
    double height = a->height[i] * (double)count / (double)a->counts[i];
    double x0 = a->x + BAR, x1 = b->x, half = (x0 + x1) / 2, y0 = a->leaves[i], y1 = b->comes[j];
    km_text_printf(page->out,
                   "<path class=\"ribbon c%d\" d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1fv%.1fC%.1f %.1f "
                   "%.1f %.1f %.1f "
                   "%.1fz\"><title>cluster %lld of K = %lld to cluster %lld of K = %lld: ",
                   colour_of(page, a->m, i), x0, y0, half, y0, half, y1, x1, y1, height, half, y1 + height,
                   half, y0 + height, x0, y0 + height, (long long)i, (long long)a->k, (long long)j,
                   (long long)b->k);
    km_html_share(page->out, (double)count, (double)a->counts[i]);
    km_text_puts(page->out, "</title></path>\n");
    a->leaves[i] += height;
    b->comes[j] += height;
}

static void add_ribbons(km_page *page, splits *s) {
    for (int64_t c = 0; c + 1 < s->count; c++) {
        column *a = &s->columns[c], *b = &s->columns[c + 1];
        for (int64_t i = 0; i < a->k; i++)
            for (int64_t j = 0; j < b->k; j++)
                if (a->shared[(int64_t)a->order[i] * b->k + b->order[j]])
                    add_ribbon(page, a, b, a->order[i], b->order[j]);
    }
}

static void add_blocks(km_page *page, const splits *s) {
    for (int64_t i = 0; i < s->count; i++) {
        const column *c = &s->columns[i];
        km_text_printf(
            page->out,
            "<text class=\"%s\" x=\"%.1f\" y=\"4\" dy=\".8em\" text-anchor=\"middle\">K = %lld</text>\n",
            c->m == page->result->selection.best ? "strong" : "name", c->x + BAR / 2, (long long)c->k);
        for (int64_t j = 0; j < c->k; j++) {
            if (!c->counts[j]) continue;
            km_text_printf(page->out, "<path class=\"block c%d\" d=\"M%.1f %.1fh%.1fv%.1fh-%.1fz\"/>",
                           colour_of(page, c->m, j), c->x, c->top[j], BAR, c->height[j], BAR);
            if (c->height[j] + c->space >= 9)
                km_text_printf(page->out,
                               "<text class=\"number\" x=\"%.1f\" y=\"%.1f\" dy=\".35em\" "
                               "text-anchor=\"%s\">%lld</text>\n",
                               i ? c->x - 4 : c->x + BAR + 4, c->top[j] + c->height[j] / 2,
                               i ? "end" : "start", (long long)j);
        }
    }
}

static void add_picture(km_page *page, splits *s) {
    km_text_puts(page->out, "<figure>\n");
    km_html_svg(
        page->out, "splits-plot", WIDTH, TOP + HEIGHT + 6, "How clusters split as K grows",
        "A column for each K with a block for each cluster, as high as its share of the rows; ribbons lead "
        "from each cluster to those of the next K that have its rows. The table has the numbers.");
    add_ribbons(page, s);
    add_blocks(page, s);
    km_text_puts(page->out, "</svg>\n<figcaption>");
    km_text_puts(page->out, page->sample.n == page->result->n ? "All " : "A sample of ");
    km_html_count(page->out, page->sample.n);
    km_text_puts(page->out, " rows, labelled by the centroids of each K");
    if (s->count < page->result->models_count)
        km_text_printf(page->out, "; %lld K around the chosen one, of %lld", (long long)s->count,
                       (long long)page->result->models_count);
    km_text_puts(page->out, ".</figcaption>\n</figure>\n");
}

static void add_row(km_page *page, const column *a, const column *b, int64_t i) {
    const char *between = "";
    km_text_printf(page->out, "<tr><th scope=\"row\">%lld</th><th scope=\"row\">%lld</th><td>",
                   (long long)a->k, (long long)i);
    km_html_count(page->out, a->counts[i]);
    km_text_puts(page->out, "</td><td class=\"words\">");
    for (int64_t o = 0; o < b->k; o++) {
        int64_t j = b->order[o], count = a->shared[i * b->k + j];
        if (!count) continue;
        km_text_printf(page->out, "%s%lld (", between, (long long)j);
        km_html_share(page->out, (double)count, (double)a->counts[i]);
        km_text_puts(page->out, ")");
        between = ", ";
    }
    km_text_printf(page->out, "</td><th scope=\"row\">%lld</th></tr>\n", (long long)b->k);
}

static void add_table(km_page *page, const splits *s) {
    static const char *const heads[] = {"K", "Cluster", "Rows", "Go to clusters", "of K", NULL};
    km_html_details(page->out, "Splits as a table",
                    "Rows of the sample that go from a cluster to those of the next K", heads);
    for (int64_t c = 0; c + 1 < s->count; c++)
        for (int64_t i = 0; i < s->columns[c].k; i++)
            if (s->columns[c].counts[i]) add_row(page, &s->columns[c], &s->columns[c + 1], i);
    km_html_end_details(page->out);
}

km_status km_html_splits(km_page *page, km_error *err) {
    splits s = {0};
    int64_t count, first = window(page, &count);
    km_status status = KM_OK;
    if (count < 2) {
        km_text_puts(page->out, count ? "<p class=\"note\">One K was fitted: there is no next one.</p>\n"
                                      : "<p class=\"note\">There are too many clusters to draw.</p>\n");
        return KM_OK;
    }
    for (int64_t c = 0; c < count && status == KM_OK; c++) {
        s.count = c + 1;
        status = column_make(&s.columns[c], page, first + c, c + 1 == count, err);
    }
    if (status == KM_OK) {
        arrange(&s);
        lay_out(&s, page->sample.n);
        add_picture(page, &s);
        add_table(page, &s);
    }
    splits_free(&s);
    return status;
}

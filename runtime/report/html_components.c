// SPDX-License-Identifier: MIT
// The first two principal components of a sample, its rows as marks of their clusters; the script of the page redraws
// them for any K from the numbers that stand beside the picture.
#include "html.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 640.0
#define EDGE 22.0      // left and right
#define EDGE_NAME 38.0 // above and below, where the axes' names stand
#define HEIGHT_MIN 300.0
#define HEIGHT_MAX 520.0
// Multiplications that the search for components may take.
#define PRODUCTS_MAX ((int64_t)1 << 29)
enum { STEPS_MIN = 8, STEPS_MAX = 300, TAGS_MAX = 100, CROWD = 24 }; // more tags than CROWD are small

// Shapes around their own origin.
static const char *const shapes[KM_PAGE_SHAPES][2] = {
    {"-2.9 0", "a2.9 2.9 0 1 0 5.8 0a2.9 2.9 0 1 0-5.8 0z"},
    {"0 -3.4", "l3.3 5.8h-6.6z"},
    {"-2.6 -2.6", "h5.2v5.2h-5.2z"},
    {"0 -3.7", "l3.7 3.7-3.7 3.7-3.7-3.7z"},
    {"-1.1 -3.5", "h2.2v2.4h2.4v2.2h-2.4v2.4h-2.2v-2.4h-2.4v-2.2h2.4z"},
    {"0 3.4", "l3.3-5.8h-6.6z"},
    {"-3.8 -1.4", "h7.6v2.8h-7.6z"},
};

// Single ones are drawn by their names.
km_status km_html_shapes(km_page *page, km_error *err) {
    (void)err;
    km_text_puts(page->out, "<svg width=\"0\" height=\"0\" aria-hidden=\"true\" class=\"shapes\"><defs>");
    for (int s = 0; s < KM_PAGE_SHAPES; s++)
        km_text_printf(page->out, "<path id=\"s%d\" d=\"M0 0m%s%s\"/>", s, shapes[s][0], shapes[s][1]);
    km_text_puts(page->out, "</defs></svg>\n");
    return KM_OK;
}

// The first two principal components of the rows that are drawn.
typedef struct components {
    int64_t n, d;
    const km_html_sample *sample;
    double *mean; // d
    double *axes; // 2 x d, of length 1
    double *next; // 2 x d
    double *at;   // n x 2
    double total; // variance of all features
    double variance[2];
} components;

static const double *row(const components *c, int64_t i) {
    return c->sample->points + km_html_sample_shown(c->sample, i) * c->d;
}

static double project(const components *c, const double *x, const double *axis) {
    double sum = 0;
    for (int64_t f = 0; f < c->d; f++) sum += (x[f] - c->mean[f]) * axis[f];
    return sum;
}

static void centre(components *c) {
    for (int64_t i = 0; i < c->n; i++)
        for (int64_t f = 0; f < c->d; f++) c->mean[f] += row(c, i)[f] / (double)c->n;
    for (int64_t i = 0; i < c->n; i++)
        for (int64_t f = 0; f < c->d; f++)
            c->total += (row(c, i)[f] - c->mean[f]) * (row(c, i)[f] - c->mean[f]) / (double)c->n;
}

// Makes the second orthogonal to the first and both of length 1; their lengths before are variances.
static void orthonormalise(double *axes, double *variance, int64_t d) {
    for (int a = 0; a < 2; a++) {
        double *axis = axes + a * d, along = 0, square = 0;
        for (int64_t f = 0; a == 1 && f < d; f++) along += axis[f] * axes[f];
        for (int64_t f = 0; a == 1 && f < d; f++) axis[f] -= along * axes[f];
        for (int64_t f = 0; f < d; f++) square += axis[f] * axis[f];
        variance[a] = sqrt(square);
        for (int64_t f = 0; f < d; f++) axis[f] = square > 0 ? axis[f] / variance[a] : 0;
    }
}

// One step of orthogonal iteration: axes become those of the covariance times them. Returns how far they turned.
static double turn(components *c) {
    memset(c->next, 0, (size_t)(2 * c->d) * sizeof *c->next);
    for (int64_t i = 0; i < c->n; i++) {
        const double *x = row(c, i);
        double a = project(c, x, c->axes) / (double)c->n, b = project(c, x, c->axes + c->d) / (double)c->n;
        for (int64_t f = 0; f < c->d; f++) {
            c->next[f] += a * (x[f] - c->mean[f]);
            c->next[c->d + f] += b * (x[f] - c->mean[f]);
        }
    }
    orthonormalise(c->next, c->variance, c->d);
    double turned = 0;
    for (int64_t f = 0; f < 2 * c->d; f++) turned = fmax(turned, fabs(c->next[f] - c->axes[f]));
    double *swap = c->axes;
    c->axes = c->next, c->next = swap;
    return turned;
}

// A direction and its opposite are the same: the largest part of each points to the right, or up.
static void choose_signs(components *c) {
    for (int a = 0; a < 2; a++) {
        double *axis = c->axes + a * c->d, largest = 0;
        for (int64_t f = 0; f < c->d; f++)
            if (fabs(axis[f]) > fabs(largest) * (1 + 1e-9)) largest = axis[f];
        for (int64_t f = 0; largest < 0 && f < c->d; f++) axis[f] = -axis[f];
    }
}

// Rows of one feature lie on one line: each gets a height of its own there, in steps of the golden ratio, to be seen.
static void spread_rows(components *c) {
    double low = HUGE_VAL, high = -HUGE_VAL, whole;
    for (int64_t i = 0; i < c->n; i++) {
        low = fmin(low, c->at[2 * i]);
        high = fmax(high, c->at[2 * i]);
    }
    for (int64_t i = 0; i < c->n; i++)
        c->at[2 * i + 1] = (modf(.5 + .6180339887498949 * (double)i, &whole) - .5) * .25 * (high - low);
}

static km_status find_components(components *c, const km_html_sample *sample, km_error *err) {
    *c = (components){.n = sample->shown, .d = sample->d, .sample = sample};
    c->mean = calloc((size_t)c->d, sizeof *c->mean);
    c->axes = calloc((size_t)(2 * c->d), sizeof *c->axes);
    c->next = calloc((size_t)(2 * c->d), sizeof *c->next);
    c->at = malloc((size_t)(2 * c->n) * sizeof *c->at);
    if (!c->mean || !c->axes || !c->next || !c->at)
        return km_fail_memory(err, "the report's components", (5 * c->d + 2 * c->n) * (int64_t)sizeof *c->at);
    centre(c);
    for (int64_t f = 0; f < c->d; f++) { // two directions that no table has by chance
        c->axes[f] = 1 + .5 * sin((double)f);
        c->axes[c->d + f] = cos(2 + (double)f);
    }
    orthonormalise(c->axes, c->variance, c->d);
    int64_t steps = km_max(STEPS_MIN, km_min(STEPS_MAX, PRODUCTS_MAX / (4 * c->n * c->d)));
    for (int64_t step = 0; step < steps && turn(c) > 1e-7; step++) continue;
    choose_signs(c);
    for (int64_t i = 0; i < 2 * c->n; i++) c->at[i] = project(c, row(c, i / 2), c->axes + i % 2 * c->d);
    if (c->d == 1) spread_rows(c);
    return KM_OK;
}

static void components_free(components *c) {
    free(c->mean);
    free(c->axes);
    free(c->next);
    free(c->at);
}

// The picture --------------------------------------------------------------------------------------------------

// Both directions in one scale, so that distances are what they look like.
typedef struct frame {
    double scale, x, y, height;
} frame;

static frame frame_of(const components *c) {
    double low[2] = {0, 0}, high[2] = {0, 0};
    for (int64_t i = 0; i < 2 * c->n; i++) {
        low[i % 2] = i < 2 ? c->at[i] : fmin(low[i % 2], c->at[i]);
        high[i % 2] = i < 2 ? c->at[i] : fmax(high[i % 2], c->at[i]);
    }
    double wide = high[0] - low[0], tall = high[1] - low[1];
    frame at = {.height = HEIGHT_MAX, .scale = 1};
    if (wide > 0)
        at.height = fmin(fmax((WIDTH - 2 * EDGE) * tall / wide + 2 * EDGE_NAME, HEIGHT_MIN), HEIGHT_MAX);
    if (wide > 0 || tall > 0)
        at.scale = fmin(wide > 0 ? (WIDTH - 2 * EDGE) / wide : HUGE_VAL,
                        tall > 0 ? (at.height - 2 * EDGE_NAME) / tall : HUGE_VAL);
    at.x = WIDTH / 2 - at.scale * (low[0] + high[0]) / 2;
    at.y = at.height / 2 + at.scale * (low[1] + high[1]) / 2;
    return at;
}

// Of row i, or of a centroid.
static void place(double *x, double *y, const frame *at, const double *both) {
    *x = at->x + at->scale * both[0];
    *y = at->y - at->scale * both[1];
}

static void add_marks(km_page *page, const components *c, const frame *at) {
    int64_t best = page->result->selection.best;
    const int32_t *labels = page->sample.labels[best], *marks = page->sample.marks[best];
    km_text_puts(page->out, "<g id=\"rows\">\n");
    for (int32_t j = 0; j < page->best->k; j++) {
        int begun = 0;
        for (int64_t i = 0; i < c->n; i++) {
            double x, y;
            if (labels[km_html_sample_shown(&page->sample, i)] != j) continue;
            if (!begun++) km_text_printf(page->out, "<path class=\"c%d\" d=\"", marks[j] % KM_PAGE_COLOURS);
            const char *const *shape = shapes[marks[j] % KM_PAGE_SHAPES];
            place(&x, &y, at, c->at + 2 * i);
            km_text_printf(page->out, "M%.0f %.0fm%s%s", x, y, shape[0], shape[1]);
        }
        if (begun) km_text_puts(page->out, "\"/>\n");
    }
    km_text_puts(page->out, "</g>\n");
}

// Where the centroids of a model lie.
static void centroid_at(double *x, double *y, const components *c, const frame *at, const km_model *model,
                        int32_t j) {
    const double *centroid = model->centroids_fitted + (int64_t)j * c->d;
    double both[2] = {project(c, centroid, c->axes), project(c, centroid, c->axes + c->d)};
    place(x, y, at, both);
}

static void add_tags(km_page *page, const components *c, const frame *at) {
    km_text_printf(page->out, "<g id=\"tags\"%s>\n", page->best->k > CROWD ? " class=\"crowd\"" : "");
    for (int32_t j = 0; j < page->best->k && page->best->k <= TAGS_MAX; j++) {
        double x, y;
        if (!page->best->counts[j]) continue;
        centroid_at(&x, &y, c, at, page->best, j);
        km_text_printf(page->out,
                       "<g class=\"tag\" transform=\"translate(%.0f %.0f)\"><circle r=\"9.5\"/><text "
                       "dy=\".36em\">%d</text></g>\n",
                       x, y, j);
    }
    km_text_puts(page->out, "</g>\n");
}

static void add_axis_name(km_page *page, const components *c, int axis) {
    km_text_puts(page->out, axis ? "↑ second component, " : "first component, ");
    km_html_share(page->out, c->variance[axis], c->total);
    km_text_puts(page->out, axis ? " of the variance</text>\n" : " of the variance →</text>\n");
}

static void add_axis_names(km_page *page, const components *c, const frame *at) {
    km_text_printf(page->out, "<text class=\"name\" x=\"%.0f\" y=\"%.0f\" text-anchor=\"end\">", WIDTH - 6,
                   at->height - 6);
    add_axis_name(page, c, 0);
    if (c->d == 1) return;
    km_text_puts(page->out, "<text class=\"name\" x=\"6\" y=\"6\" dy=\".8em\">");
    add_axis_name(page, c, 1);
}

static void add_picture(km_page *page, const components *c, const frame *at) {
    char title[96];
    snprintf(title, sizeof title, "Rows by the first two principal components, K = %d", page->best->k);
    km_text_puts(
        page->out,
        "<figure id=\"scatter\">\n<form class=\"slider\" hidden><label for=\"k\">K</label> <input "
        "type=\"range\" id=\"k\" min=\"0\" step=\"1\"> <output id=\"k-shown\" for=\"k\"></output></form>\n");
    km_html_svg(
        page->out, "rows-plot", WIDTH, at->height, title,
        "A mark for each row of a sample, in the colour and shape of its cluster, and the number of each "
        "cluster where its centroid lies.");
    add_axis_names(page, c, at);
    add_marks(page, c, at);
    add_tags(page, c, at);
    km_text_printf(page->out, "</svg>\n<figcaption>%s",
                   page->sample.shown == page->result->n ? "All " : "A sample of ");
    km_html_count(page->out, page->sample.shown);
    km_text_puts(page->out, page->sample.shown == page->result->n ? " rows" : " of ");
    if (page->sample.shown != page->result->n) km_html_count(page->out, page->result->n);
    km_text_printf(page->out, "%s, %s%s.</figcaption>\n</figure>\n",
                   page->sample.shown == page->result->n ? "" : " rows",
                   page->result->scale == KM_SCALE_NONE       ? "features as they are"
                   : page->result->scale == KM_SCALE_STANDARD ? "features scaled to standard deviation 1"
                   : page->result->scale == KM_SCALE_UNIT     ? "rows divided by their length"
                   : page->result->scale == KM_SCALE_ROBUST
                       ? "features scaled to width 1 between their quartiles"
                       : "features scaled to width 1",
                   c->d == 1 ? "; their height has no meaning" : "");
}

// Numbers for the script ---------------------------------------------------------------------------------------

static void add_places(km_page *page, const components *c, const frame *at) {
    for (int axis = 0; axis < 2; axis++) {
        km_text_printf(page->out, "\"%c\":[", axis ? 'y' : 'x');
        for (int64_t i = 0; i < c->n; i++) {
            double both[2];
            place(&both[0], &both[1], at, c->at + 2 * i);
            km_text_printf(page->out, "%s%.0f", i ? "," : "", both[axis]);
        }
        km_text_puts(page->out, "],\n");
    }
}

static void add_model(km_page *page, const components *c, const frame *at, int64_t m) {
    const km_model *model = &page->result->models[m];
    km_text_printf(page->out, "{\"k\":%d,\"marks\":[", model->k);
    for (int32_t j = 0; j < model->k && model->k <= KM_HTML_PAIRED_MAX; j++)
        km_text_printf(page->out, "%s%d", j ? "," : "", page->sample.marks[m][j]);
    km_text_puts(page->out, "],\"tags\":[");
    for (int32_t j = 0, first = 1; j < model->k && model->k <= TAGS_MAX; j++) {
        double x, y;
        if (!model->counts[j]) continue;
        centroid_at(&x, &y, c, at, model, j);
        km_text_printf(page->out, "%s[%d,%.0f,%.0f]", first ? "" : ",", j, x, y);
        first = 0;
    }
    km_text_puts(page->out, "],\"labels\":[");
    for (int64_t i = 0; i < c->n; i++)
        km_text_printf(page->out, "%s%d", i ? "," : "",
                       page->sample.labels[m][km_html_sample_shown(&page->sample, i)]);
    km_text_puts(page->out, "]}");
}

static void add_numbers(km_page *page, const components *c, const frame *at) {
    const km_result *result = page->result;
    km_text_printf(page->out,
                   "<script type=\"application/json\" "
                   "id=\"numbers\">\n{\"best\":%lld,\"colours\":%d,\"crowd\":%d,\"shapes\":[",
                   (long long)result->selection.best, KM_PAGE_COLOURS, CROWD);
    for (int s = 0; s < KM_PAGE_SHAPES; s++)
        km_text_printf(page->out, "%s\"m%s%s\"", s ? "," : "", shapes[s][0], shapes[s][1]);
    km_text_puts(page->out, "],\n");
    add_places(page, c, at);
    km_text_puts(page->out, "\"models\":[\n");
    for (int64_t m = 0; m < result->models_count; m++) {
        add_model(page, c, at, m);
        km_text_puts(page->out, m + 1 < result->models_count ? ",\n" : "\n");
    }
    km_text_puts(page->out, "]}\n</script>\n");
}

// Tables -------------------------------------------------------------------------------------------------------

static void add_loadings(km_page *page, const components *c) {
    const char *const heads[] = {"Feature", "First", c->d > 1 ? "Second" : NULL, NULL};
    int64_t shown = km_min(c->d, KM_PAGE_FEATURES_MAX);
    km_html_details(page->out, "Components as a table", "What the components are made of", heads);
    for (int64_t r = 0; r < shown; r++) {
        int64_t f = page->ranked[r];
        km_text_puts(page->out, "<tr><th scope=\"row\"><bdi>");
        km_html_text(page->out, page->names[f]);
        km_text_puts(page->out, "</bdi></th>");
        for (int a = 0; a < 2 && a < c->d; a++) {
            double part = c->axes[a * c->d + f];
            km_text_printf(page->out, "<td>%s%.3f</td>", part < -.0005 ? "−" : "", fabs(part));
        }
        km_text_puts(page->out, "</tr>\n");
    }
    km_html_end_details(page->out);
}

static void add_centres(km_page *page, const components *c) {
    const char *const heads[] = {"Cluster", "First", c->d > 1 ? "Second" : NULL, NULL};
    int64_t shown = km_min(page->best->k, KM_PAGE_CLUSTERS_MAX);
    km_html_details(page->out, "Places of the centroids as a table",
                    "Where the centroids of the chosen K lie", heads);
    for (int64_t r = 0; r < shown; r++) {
        int64_t j = page->largest[r];
        km_text_puts(page->out, "<tr><th scope=\"row\">");
        km_html_mark(page, page->result->selection.best, j);
        km_text_printf(page->out, "%lld</th>", (long long)j);
        for (int a = 0; a < 2 && a < c->d; a++) {
            km_text_puts(page->out, "<td>");
            km_html_number(page->out,
                           project(c, page->best->centroids_fitted + j * c->d, c->axes + a * c->d));
            km_text_puts(page->out, "</td>");
        }
        km_text_puts(page->out, "</tr>\n");
    }
    km_html_end_details(page->out);
}

km_status km_html_components(km_page *page, km_error *err) {
    components c;
    km_status status = find_components(&c, &page->sample, err);
    if (status == KM_OK) {
        frame at = frame_of(&c);
        add_picture(page, &c, &at);
        add_numbers(page, &c, &at);
        add_loadings(page, &c);
        add_centres(page, &c);
    }
    components_free(&c);
    return status;
}

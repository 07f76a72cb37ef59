// SPDX-License-Identifier: MIT
// What sections of the page are written with: words, tables, drawing.
#include "html.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Words ---------------------------------------------------------------------------------------------------------

// Text without what HTML has no character for.
static void escape(km_text *out, const char *text) {
    for (const char *c = text; *c; c++) {
        const char *name = *c == '&'   ? "&amp;"
                           : *c == '<' ? "&lt;"
                           : *c == '>' ? "&gt;"
                           : *c == '"' ? "&quot;"
                                       : NULL;
        if (name)
            km_text_puts(out, name);
        else
            km_text_add(out, c, 1);
    }
}

void km_html_text(km_text *out, const char *text) {
    char *plain = strdup(text);
    if (!plain) {
        out->failed = 1;
        return;
    }
    km_text_plain(plain);
    escape(out, plain);
    free(plain);
}

static int is_option(const char *at) {
    return at[0] == '-' && (at[1] == '-' ? at[2] >= 'a' && at[2] <= 'z' : at[1] >= 'a' && at[1] <= 'z');
}

void km_html_sentence(km_text *out, const char *sentence) {
    char *plain = strdup(sentence);
    int in_option = 0;
    if (!plain) {
        out->failed = 1;
        return;
    }
    km_text_plain(plain);
    for (const char *at = plain; *at; at++) {
        char letter[2] = {*at, 0};
        int begins_word = at == plain || at[-1] == ' ' || at[-1] == '(';
        if (begins_word && is_option(at)) km_text_puts(out, "<code>"), in_option = 1;
        if (in_option && strchr(" ,;:)", *at)) km_text_puts(out, "</code>"), in_option = 0;
        int holds = *at == ' ' && (at[1] == '%' || at[1] == '=' || (at > plain && at[-1] == '='));
        if (holds)
            km_text_puts(out, "&nbsp;");
        else
            escape(out, letter);
    }
    if (in_option) km_text_puts(out, "</code>");
    free(plain);
}

void km_html_number(km_text *out, double value) {
    char text[64];
    if (!isfinite(value)) {
        km_text_puts(out, "–");
        return;
    }
    snprintf(text, sizeof text, value == 0 ? "0" : "%#.5g", fabs(value)); // columns of them end alike
    size_t size = strlen(text);
    if (text[size - 1] == '.') text[size - 1] = 0;
    if (value < 0) km_text_puts(out, "−");
    char *power = strchr(text, 'e');
    if (!power) {
        km_text_puts(out, text);
        return;
    }
    *power = 0;
    km_text_printf(out, "%s×10<sup>%d</sup>", text, (int)strtol(power + 1, NULL, 10));
}

void km_html_count(km_text *out, int64_t count) {
    char digits[24];
    int size = snprintf(digits, sizeof digits, "%lld", (long long)count);
    for (int i = 0; i < size; i++) {
        if (i && (size - i) % 3 == 0 && size > 4) km_text_puts(out, "\u202f");
        km_text_add(out, digits + i, 1);
    }
}

void km_html_share(km_text *out, double part, double whole) {
    double share = 100 * part / whole;
    if (whole > 0 && isfinite(share))
        km_text_printf(out, "%.*f\u202f%%", share < 9.95 ? 1 : 0, share);
    else
        km_text_puts(out, "–");
}

void km_html_mark(km_page *page, int64_t m, int64_t cluster) {
    int32_t mark = page->sample.marks[m][cluster];
    km_text_printf(
        page->out,
        "<svg class=\"mark c%d\" viewBox=\"-5 -5 10 10\" aria-hidden=\"true\"><use href=\"#s%d\"/></svg>",
        mark % KM_PAGE_COLOURS, mark % KM_PAGE_SHAPES);
}

void km_html_bar(km_text *out, double share) {
    km_text_printf(out, "<td class=\"bar\"><span style=\"width:%.1f%%\"></span></td>",
                   isfinite(share) ? 100 * fmin(fmax(share, 0), 1) : 0.);
}

// Tables --------------------------------------------------------------------------------------------------------

void km_html_heads(km_text *out, const char *const *heads) {
    km_text_puts(out, "<thead><tr>");
    for (; *heads; heads++)
        km_text_printf(out, **heads ? "<th scope=\"col\">%s</th>" : "<td>%s</td>", *heads);
    km_text_puts(out, "</tr></thead>\n<tbody>\n");
}

void km_html_table(km_text *out, const char *class, const char *caption, const char *const *heads) {
    km_text_printf(
        out,
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"%s\">\n<table class=\"%s\">\n"
        "<caption>%s</caption>\n",
        caption, class, caption);
    if (heads) km_html_heads(out, heads);
}

void km_html_end_table(km_text *out) {
    km_text_puts(out, "</tbody>\n</table>\n</div>\n");
}

void km_html_details(km_text *out, const char *summary, const char *caption, const char *const *heads) {
    km_text_printf(out, "<details>\n<summary>%s</summary>\n", summary);
    km_html_table(out, "numbers", caption, heads);
}

void km_html_end_details(km_text *out) {
    km_html_end_table(out);
    km_text_puts(out, "</details>\n");
}

// Drawing -------------------------------------------------------------------------------------------------------

void km_html_svg(km_text *out, const char *id, double width, double height, const char *title,
                 const char *words) {
    km_text_printf(out,
                   "<svg class=\"plot\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-labelledby=\"%s-t %s-d\">"
                   "<title id=\"%s-t\">",
                   width, height, id, id, id);
    km_html_text(out, title);
    km_text_printf(out, "</title><desc id=\"%s-d\">", id);
    km_html_text(out, words);
    km_text_puts(out, "</desc>\n");
}

static void add_y_axis(km_text *out, const km_axis *x, const km_axis *y, const char *name) {
    char label[64];
    for (int i = 0; i < km_axis_ticks(y); i++) {
        double at = km_axis_tick(label, sizeof label, y, i);
        km_text_printf(
            out,
            "<path class=\"rule\" d=\"M%.1f %.1fH%.1f\"/><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\" "
            "dy=\".35em\">%s%s</text>\n",
            x->begin, at, x->end, x->begin - 7, at, label[0] == '-' ? "−" : "", label + (label[0] == '-'));
    }
    if (!name && !y->exponent) return;
    km_text_printf(out, "<text class=\"name\" x=\"4\" y=\"4\" dy=\".8em\">%s", name ? name : "");
    if (y->exponent)
        km_text_printf(out, "%s10<tspan dy=\"-.4em\" class=\"power\">%d</tspan>", name ? ", in " : "×",
                       y->exponent);
    km_text_puts(out, "</text>\n");
}

void km_html_axes(km_text *out, const km_axis *x, const km_axis *y, const char *x_name, const char *y_name) {
    add_y_axis(out, x, y, y_name);
    double first = ceil(x->low / x->step);
    for (int64_t i = 0; (first + (double)i) * x->step <= x->high; i++) {
        double value = (first + (double)i) * x->step, at = km_axis_place(x, value);
        if (value < 1) continue;
        km_text_printf(out,
                       "<path class=\"tick\" d=\"M%.1f %.1fv5\"/><text x=\"%.1f\" y=\"%.1f\" dy=\"1.4em\" "
                       "text-anchor=\"middle\">%.0f</text>\n",
                       at, y->begin, at, y->begin, value);
    }
    km_text_printf(out, "<path class=\"axis\" d=\"M%.1f %.1fH%.1f\"/>", x->begin, y->begin, x->end);
    if (x_name)
        km_text_printf(
            out, "<text class=\"name\" x=\"%.1f\" y=\"%.1f\" dy=\"2.7em\" text-anchor=\"end\">%s</text>\n",
            x->end, y->begin, x_name);
}

void km_html_line(km_page *page, const double *values, const km_axis *x, const km_axis *y) {
    const km_result *result = page->result;
    int pen_down = 0;
    km_text_puts(page->out, "<path class=\"line\" d=\"");
    for (int64_t m = 0; m < result->models_count; m++) {
        if (isfinite(values[m]))
            km_text_printf(page->out, "%c%.1f %.1f", pen_down ? 'L' : 'M',
                           km_axis_place(x, result->models[m].k), km_axis_place(y, values[m]));
        pen_down = isfinite(values[m]) != 0;
    }
    km_text_puts(page->out, "\"/>\n");
}

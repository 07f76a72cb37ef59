// SPDX-License-Identifier: MIT
#include "picture.h"
#include "../../base/text.h"
#include "../file.h"
#include "library_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PNG_SCALE 2.0

km_cairo_calls km_cairo;

km_status km_cairo_open(km_status failed, const char *what, km_error *err) {
    static km_library library = KM_LIBRARY("cairo", KM_FILE_CAIRO, "libcairo2", KM_CAIRO_CALLS, &km_cairo);
    return km_library_open(&library, failed, what, err);
}

// Strokes ---------------------------------------------------------------------------------------------------

void km_use_colour(cairo_t *page, km_colour c) {
    cairo_set_source_rgb(page, c.red, c.green, c.blue);
}

void km_use_font(cairo_t *page, double size, cairo_font_weight_t weight) {
    cairo_select_font_face(page, "sans-serif", CAIRO_FONT_SLANT_NORMAL, weight);
    cairo_set_font_size(page, size);
}

void km_draw_line(cairo_t *page, double x0, double y0, double x1, double y1) {
    cairo_move_to(page, x0, y0);
    cairo_line_to(page, x1, y1);
    cairo_stroke(page);
}

void km_draw_text(cairo_t *page, const char *text, double x, double y, double align) {
    cairo_text_extents_t extents;
    cairo_text_extents(page, text, &extents);
    cairo_move_to(page, x - align * extents.x_advance, y);
    cairo_show_text(page, text);
}

void km_draw_fitted(cairo_t *page, const char *text, double x, double y, double width, double size) {
    cairo_text_extents_t extents;
    cairo_set_font_size(page, size);
    cairo_text_extents(page, text, &extents);
    if (extents.x_advance > width) cairo_set_font_size(page, size * width / extents.x_advance);
    km_draw_text(page, text, x, y, 0);
}

// Files -----------------------------------------------------------------------------------------------------

// Cairo draws into memory: where it fails, or ends the process, no file is left.
static cairo_status_t add_bytes(void *text, const unsigned char *bytes, unsigned size) {
    km_text_add(text, (const char *)bytes, size);
    return ((km_text *)text)->failed ? CAIRO_STATUS_NO_MEMORY : CAIRO_STATUS_SUCCESS;
}

static cairo_status_t draw(cairo_surface_t *surface, const km_picture *picture, double scale) {
    cairo_t *page = cairo_create(surface);
    cairo_scale(page, scale, scale);
    cairo_set_source_rgb(page, 1, 1, 1);
    cairo_paint(page);
    picture->draw(page, picture->what);
    cairo_status_t status = cairo_status(page);
    cairo_destroy(page);
    return status;
}

static cairo_status_t draw_svg(km_text *text, const km_picture *picture) {
    cairo_surface_t *surface =
        cairo_svg_surface_create_for_stream(add_bytes, text, picture->width, picture->height);
    cairo_status_t status = draw(surface, picture, 1);
    cairo_surface_finish(surface);
    if (status == CAIRO_STATUS_SUCCESS) status = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
    return status;
}

static cairo_status_t draw_pdf(km_text *text, const km_picture *picture) {
    cairo_surface_t *surface =
        cairo_pdf_surface_create_for_stream(add_bytes, text, picture->width, picture->height);
    if (picture->title) cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_TITLE, picture->title);
    cairo_status_t status = draw(surface, picture, 1);
    cairo_surface_finish(surface);
    if (status == CAIRO_STATUS_SUCCESS) status = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
    return status;
}

static cairo_status_t draw_png(km_text *text, const km_picture *picture) {
    cairo_surface_t *surface = cairo_image_surface_create(
        CAIRO_FORMAT_RGB24, (int)(picture->width * PNG_SCALE), (int)(picture->height * PNG_SCALE));
    cairo_status_t status = draw(surface, picture, PNG_SCALE);
    if (status == CAIRO_STATUS_SUCCESS) status = cairo_surface_write_to_png_stream(surface, add_bytes, text);
    cairo_surface_destroy(surface);
    return status;
}

static void add_element(km_text *out, const char *name, const char *content) {
    if (!content) return;
    km_text_printf(out, "\n<%s>", name);
    for (const char *c = content; *c; c++) {
        if (*c == '&')
            km_text_puts(out, "&amp;");
        else if (*c == '<')
            km_text_puts(out, "&lt;");
        else if (*c == '>')
            km_text_puts(out, "&gt;");
        else
            km_text_add(out, c, 1);
    }
    km_text_printf(out, "</%s>", name);
}

// Cairo draws text as outlines of letters, which nobody can search or hear: words go behind the first tag.
static void add_words(km_text *svg, const km_picture *picture) {
    const char *tag = svg->data ? strstr(svg->data, "<svg") : NULL, *end = tag ? strchr(tag, '>') : NULL;
    if (!end) return;
    km_text whole = {.failed = svg->failed};
    km_text_add(&whole, svg->data, end + 1 - svg->data);
    add_element(&whole, "title", picture->title);
    add_element(&whole, "desc", picture->description);
    km_text_puts(&whole, end + 1);
    km_text_clear(svg);
    *svg = whole;
}

typedef struct picture_format {
    const char *ending;
    cairo_status_t (*draw)(km_text *text, const km_picture *picture);
} picture_format;

static const picture_format formats[] = {{".svg", draw_svg}, {".png", draw_png}, {".pdf", draw_pdf}};

static int ends_in(const char *path, const char *ending) {
    size_t length = strlen(path), tail = strlen(ending);
    return length > tail && strcasecmp(path + length - tail, ending) == 0;
}

static const picture_format *format_of(const char *path) {
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        if (ends_in(path, formats[f].ending)) return &formats[f];
    return NULL;
}

km_status km_picture_write(const char *path, const km_picture *picture, km_error *err) {
    const picture_format *format = format_of(path);
    if (!format)
        return km_fail(err, KM_ERROR_USAGE, "cannot draw to %s: the name must end in .svg, .png or .pdf",
                       path);
    char what[160];
    snprintf(what, sizeof what, "cannot draw %.140s", path);
    KM_TRY(km_cairo_open(KM_ERROR_USAGE, what, err));
    km_text text = {0};
    cairo_status_t drawn = format->draw(&text, picture);
    if (format->draw == draw_svg) add_words(&text, picture);
    km_status status;
    if (drawn == CAIRO_STATUS_NO_MEMORY || text.failed)
        status = km_fail_memory(err, "the picture", text.size);
    else if (drawn != CAIRO_STATUS_SUCCESS)
        status = km_fail(err, KM_ERROR_INTERNAL, "cannot draw %s: %s", path, cairo_status_to_string(drawn));
    else
        status = km_file_write(path, text.data, text.size, err);
    km_text_clear(&text);
    return status;
}

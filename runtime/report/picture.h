// SPDX-License-Identifier: MIT
// Strokes that the pictures share, and the file that a picture becomes. Only where the library is built with cairo.
#ifndef KM_RUNTIME_REPORT_PICTURE_H
#define KM_RUNTIME_REPORT_PICTURE_H
#include "../../base/error.h"
#include "cairo_calls.h"

typedef struct km_colour {
    double red, green, blue;
} km_colour;

void km_use_colour(cairo_t *page, km_colour c);
void km_use_font(cairo_t *page, double size, cairo_font_weight_t weight);
void km_draw_line(cairo_t *page, double x0, double y0, double x1, double y1);
// `align` 0: the text begins at x, .5: is centred there, 1: ends there.
void km_draw_text(cairo_t *page, const char *text, double x, double y, double align);
// In this size, or as small as it takes to fit.
void km_draw_fitted(cairo_t *page, const char *text, double x, double y, double width, double size);

typedef struct km_picture {
    double width, height;                          // points; a PNG has two pixels for each
    void (*draw)(cairo_t *page, const void *what); // on white
    const void *what;
    // For who cannot see an SVG, without control characters, which XML does not have (of a PDF, the title); NULL: none.
    const char *title, *description;
} km_picture;

// An SVG, a PNG or a PDF, by the end of `path`. The file appears when it is whole. KM_ERROR_USAGE: another ending.
km_status km_picture_write(const char *path, const km_picture *picture, km_error *err);

#endif

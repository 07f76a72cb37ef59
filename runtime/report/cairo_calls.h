// SPDX-License-Identifier: MIT
// Cairo's functions that pictures use, by the names that cairo gives them; behind km_cairo_open.
#ifndef KM_RUNTIME_REPORT_CAIRO_CALLS_H
#define KM_RUNTIME_REPORT_CAIRO_CALLS_H
#include "../library.h"
#include <cairo-pdf.h>
#include <cairo-svg.h>
#include <cairo.h>

#define KM_CAIRO_CALLS(X)                                                                                    \
    X(cairo_arc)                                                                                             \
    X(cairo_clip)                                                                                            \
    X(cairo_close_path)                                                                                      \
    X(cairo_create)                                                                                          \
    X(cairo_destroy)                                                                                         \
    X(cairo_fill)                                                                                            \
    X(cairo_fill_preserve)                                                                                   \
    X(cairo_image_surface_create)                                                                            \
    X(cairo_line_to)                                                                                         \
    X(cairo_move_to)                                                                                         \
    X(cairo_paint)                                                                                           \
    X(cairo_pattern_add_color_stop_rgb)                                                                      \
    X(cairo_pattern_create_linear)                                                                           \
    X(cairo_pattern_destroy)                                                                                 \
    X(cairo_pdf_surface_create_for_stream)                                                                   \
    X(cairo_pdf_surface_set_metadata)                                                                        \
    X(cairo_rectangle)                                                                                       \
    X(cairo_restore)                                                                                         \
    X(cairo_rotate)                                                                                          \
    X(cairo_save)                                                                                            \
    X(cairo_scale)                                                                                           \
    X(cairo_select_font_face)                                                                                \
    X(cairo_set_dash)                                                                                        \
    X(cairo_set_font_size)                                                                                   \
    X(cairo_set_line_width)                                                                                  \
    X(cairo_set_source)                                                                                      \
    X(cairo_set_source_rgb)                                                                                  \
    X(cairo_show_text)                                                                                       \
    X(cairo_status)                                                                                          \
    X(cairo_status_to_string)                                                                                \
    X(cairo_stroke)                                                                                          \
    X(cairo_surface_destroy)                                                                                 \
    X(cairo_surface_finish)                                                                                  \
    X(cairo_surface_status)                                                                                  \
    X(cairo_surface_write_to_png_stream)                                                                     \
    X(cairo_svg_surface_create_for_stream)                                                                   \
    X(cairo_text_extents)                                                                                    \
    X(cairo_translate)

typedef struct km_cairo_calls {
    KM_CAIRO_CALLS(KM_LIBRARY_POINTER)
} km_cairo_calls;
extern km_cairo_calls km_cairo;

#define cairo_arc (*km_cairo.cairo_arc)
#define cairo_clip (*km_cairo.cairo_clip)
#define cairo_close_path (*km_cairo.cairo_close_path)
#define cairo_create (*km_cairo.cairo_create)
#define cairo_destroy (*km_cairo.cairo_destroy)
#define cairo_fill (*km_cairo.cairo_fill)
#define cairo_fill_preserve (*km_cairo.cairo_fill_preserve)
#define cairo_image_surface_create (*km_cairo.cairo_image_surface_create)
#define cairo_line_to (*km_cairo.cairo_line_to)
#define cairo_move_to (*km_cairo.cairo_move_to)
#define cairo_paint (*km_cairo.cairo_paint)
#define cairo_pattern_add_color_stop_rgb (*km_cairo.cairo_pattern_add_color_stop_rgb)
#define cairo_pattern_create_linear (*km_cairo.cairo_pattern_create_linear)
#define cairo_pattern_destroy (*km_cairo.cairo_pattern_destroy)
#define cairo_pdf_surface_create_for_stream (*km_cairo.cairo_pdf_surface_create_for_stream)
#define cairo_pdf_surface_set_metadata (*km_cairo.cairo_pdf_surface_set_metadata)
#define cairo_rectangle (*km_cairo.cairo_rectangle)
#define cairo_restore (*km_cairo.cairo_restore)
#define cairo_rotate (*km_cairo.cairo_rotate)
#define cairo_save (*km_cairo.cairo_save)
#define cairo_scale (*km_cairo.cairo_scale)
#define cairo_select_font_face (*km_cairo.cairo_select_font_face)
#define cairo_set_dash (*km_cairo.cairo_set_dash)
#define cairo_set_font_size (*km_cairo.cairo_set_font_size)
#define cairo_set_line_width (*km_cairo.cairo_set_line_width)
#define cairo_set_source (*km_cairo.cairo_set_source)
#define cairo_set_source_rgb (*km_cairo.cairo_set_source_rgb)
#define cairo_show_text (*km_cairo.cairo_show_text)
#define cairo_status (*km_cairo.cairo_status)
#define cairo_status_to_string (*km_cairo.cairo_status_to_string)
#define cairo_stroke (*km_cairo.cairo_stroke)
#define cairo_surface_destroy (*km_cairo.cairo_surface_destroy)
#define cairo_surface_finish (*km_cairo.cairo_surface_finish)
#define cairo_surface_status (*km_cairo.cairo_surface_status)
#define cairo_surface_write_to_png_stream (*km_cairo.cairo_surface_write_to_png_stream)
#define cairo_svg_surface_create_for_stream (*km_cairo.cairo_svg_surface_create_for_stream)
#define cairo_text_extents (*km_cairo.cairo_text_extents)
#define cairo_translate (*km_cairo.cairo_translate)

#endif

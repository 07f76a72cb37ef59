// SPDX-License-Identifier: MIT
// In the place of plot.c, tune_plot.c and explore_plot.c where the library is built without cairo.
#include "../../base/error.h"

#include <kmgen/explore.h>
#include <kmgen/result.h>
#include <kmgen/tune.h>

static km_status refuse(const char *path, km_error *err) {
    return km_fail(
        err, KM_ERROR_USAGE,
        "cannot draw %s: this kmgen was built without cairo; leave the picture out, or build it with "
        "meson's option -Dcairo=enabled",
        path);
}

km_status km_result_plot(const char *path, const km_result *result, km_error *err) {
    (void)result;
    return refuse(path, err);
}

km_status km_tune_plot(const char *path, const km_tune_result *result, km_error *err) {
    (void)result;
    return refuse(path, err);
}

km_status km_explore_plot(const char *path, const km_explore_result *result, km_error *err) {
    (void)result;
    return refuse(path, err);
}

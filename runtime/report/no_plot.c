// SPDX-License-Identifier: MIT
// In the place of plot.c where the library is built without cairo.
#include "../../base/error.h"

#include <kmgen/result.h>

km_status km_result_plot(const char *path, const km_result *result, km_error *err) {
    (void)result;
    return km_fail(
        err, KM_ERROR_USAGE,
        "cannot draw %s: this kmgen was built without cairo; leave the picture out, or build it with "
        "meson's option -Dcairo=enabled",
        path);
}

// SPDX-License-Identifier: MIT
#ifndef KM_TESTS_FUZZ_POINTS_H
#define KM_TESTS_FUZZ_POINTS_H
#include "fuzz.h"
#include <kmgen/data.h>

// Opens a table and reads it whole, row by row and as either type, where it is not refused.
void open_points(const char *path, const km_data_params *params);

#endif

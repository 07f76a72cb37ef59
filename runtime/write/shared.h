// SPDX-License-Identifier: MIT
// Files that several ranks write together.
#ifndef KM_RUNTIME_WRITE_SHARED_H
#define KM_RUNTIME_WRITE_SHARED_H
#include "../../base/error.h"
#include "../../base/size.h"
#include <kmgen/output.h>

// Labels of the rows of all ranks as .npy. Called by all; the file appears when all have written, and all return alike.
km_status km_shared_labels_write(const char *path, const km_result *result, const km_output_params *params,
                                 km_error *err);

#endif

// SPDX-License-Identifier: MIT
// What host and device both compile, as the host does. Device texts (templates/cuda/steps/steps.cu) hold the files
// themselves.
#ifndef KM_BOTH_H
#define KM_BOTH_H

#include <math.h>
#define KM_BOTH static inline
#include "draws.h"
#include "slot.h"
#include "total.h"

#endif

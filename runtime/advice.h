// SPDX-License-Identifier: MIT
// What a person should know before trusting the chosen K, each with what to do.
#ifndef KM_RUNTIME_ADVICE_H
#define KM_RUNTIME_ADVICE_H
#include "result_owner.h"
#include <kmgen/data.h>

// Adds the warnings about the selection to a result whose models, selection, centre, factor and mean are there.
void km_advise(km_result_owner *owner, const km_data *data, km_scale scale, const km_log *log);

#endif

// SPDX-License-Identifier: MIT
// A steady clock. gen/ must not use it: plans and texts do not depend on time.
#ifndef KM_BASE_CLOCK_H
#define KM_BASE_CLOCK_H

double km_now_ms(void); // Milliseconds since some moment; never goes back.

#endif

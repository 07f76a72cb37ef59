// SPDX-License-Identifier: MIT
// What the emitter and those who compile its texts must agree on.
#ifndef KM_GEN_SOURCE_H
#define KM_GEN_SOURCE_H

// The first line of a text that is no comment: what stands above it names the spec and says why the plan is what it is.
const char *km_source_code(const char *text);

#endif

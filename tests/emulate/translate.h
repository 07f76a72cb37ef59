// SPDX-License-Identifier: MIT
// CUDA C to C++ for prelude.hpp: asm statements, dynamic shared memory, and how each kernel is started.
#ifndef KM_TESTS_EMULATE_TRANSLATE_H
#define KM_TESTS_EMULATE_TRANSLATE_H

// The text, to be freed; lines stay where they were. NULL: there is no memory. What it cannot read stays as it is, and
// the compiler says where.
char *emulated_translate(const char *text);

#endif

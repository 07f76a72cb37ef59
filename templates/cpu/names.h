// SPDX-License-Identifier: MIT
#ifndef KM_KERNELS_ONLY
// The linker knows the kernels by this name, so that several emitted files go into one program.
#define km_kernels $name_kernels
#endif

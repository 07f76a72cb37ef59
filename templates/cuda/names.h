// SPDX-License-Identifier: MIT
#if !defined(__CUDACC_RTC__) && !defined(KM_KERNELS_ONLY)
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 10 * $arch_number
#error                                                                                                       \
    "$name.cu was emitted for $arch: nvcc -arch=$arch, or emit it for an older device: kmgen --target cuda:sm_80"
#endif
// The linker knows kernels by these names, so that several emitted files go into one program.
//@ for kernel in kernels
#define $kernel $name_$kernel
//@ end
#endif

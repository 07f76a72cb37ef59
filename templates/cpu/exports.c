// SPDX-License-Identifier: MIT
// ==== What a program takes
// What the engine looks for, whatever the spec is called and lists: one module serves them all.
#ifdef __cplusplus
extern "C"
#endif
    const km_cpu_kernels $symbol = {KM_CPU_ABI, sizeof(km_real), $isa,         $k_max,   $d_least,
                                    $d_most,    GROUP,           $finish_unit, $whole_k, $integers,
                                    km_pass,    km_seed,         km_finish};

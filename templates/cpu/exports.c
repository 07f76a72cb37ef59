// SPDX-License-Identifier: MIT
// ==== What a program takes
// The engine looks for this symbol, whatever the spec is called and lists.
#ifdef __cplusplus
extern "C"
#endif
    const km_cpu_kernels $symbol = {
        KM_CPU_ABI,           sizeof(km_real),    $isa,          $k_max,  $d_least, $d_most,  SOA_POINTS,
        $finish_row_multiple, $masked_sums_k_max, $int16_scores, km_pass, km_seed,  km_finish};

// SPDX-License-Identifier: MIT
// Every number of the CUDA cost model that was measured, and where it comes from. Counts of registers, which decide
// what fits, are calibrated against compilers and stand where they are counted. bench/model.py says how well the model
// ranks plans; docs/history/2026-11-23-cost-model.md how it was corrected last.
#ifndef KM_GEN_CUDA_MEASURED_H
#define KM_GEN_CUDA_MEASURED_H

// X(name, value, source): "H200" alone means passes timed on one while the design was written.
#define KM_CUDA_MEASURED(X)                                                                                  \
    /* All designs */                                                                                        \
    X(read_share, 0.9, "H100 and H200: a read of the points, 0.89 and 0.91 of the nominal rate")             \
    X(overlap, 8, "H200: two pipes together take a little more than the longer one")                         \
    /* registers: instructions, factors on the time of issuing them, bytes read */                           \
    X(tile_instructions, 30, "count of the text: a tile of a thread's points")                               \
    X(score_instructions, 2.5, "count of the text: comparison, count and choice of a score")                 \
    X(few_warps, 0.4, "H200: stalls of a scheduler with one warp, twice as many hide half")                  \
    X(few_points, 0.6, "H200: those of a thread with one point")                                             \
    X(double_stall, 1.2, "H200, float64, where more warps did not help")                                     \
    X(late_points, 1.2,                                                                                      \
      "H200, recorded space of d = 8, K = 3..12: no prefetch, 1.11 to 1.16 times the time")                  \
    X(late_points_elsewhere, 1.5, "H200, an earlier fit, kept where late_points was not measured")           \
    X(exchanges, 1.1, "H200: lanes that share a point wait for exchanges")                                   \
    X(shared_coefficients, 1.06, "H200, recorded spaces of d = 8: beside constant memory, 1.04 to 1.10")     \
    X(split, 0.08, "H200: of each more warp group, which meet at each tile")                                 \
    X(split_double, 0.02, "H200, float64")                                                                   \
    X(split_reads, 0.1, "H200: bytes of each more warp group")                                               \
    X(split_late_reads, 0.25, "H200: the same without prefetch")                                             \
    X(code_cached, 2000, "H200: instructions of a pass that the instruction cache holds")                    \
    X(code_cached_split, 1600, "H200: where warp groups run different parts")                                \
    X(code_missed, 0.4, "H200: of each time as many instructions more")                                      \
    X(code_missed_split, 1.4, "H200: where warp groups run different parts")                                 \
    X(registers_share, 0.95, "H200: all lists take 3 to 9% less than the two pipes say")                     \
    X(registers_launch_ns, 12000, "H200: a launch and the steps behind it")                                  \
    /* sparse_warps, form expanded: cycles of a multiprocessor for a point */                                \
    X(expanded_step, 0.46, "H200: K = 10 and 2..12, d = 100, 5, 10 and 20 nonzeros, as the next five")       \
    X(expanded_panel, 0.1, "of 16 features, each panel more")                                                \
    X(expanded_tile, 0.07, "of 16 features, 8 columns of products")                                          \
    X(expanded_slot, 0.48, "of a slot: best two of its scores")                                              \
    X(expanded_nonzero, 0.5, "of a nonzero: its place in a tile")                                            \
    X(expanded_move, 0.42, "H100: of a nonzero and slot: additions, where labels change")                    \
    X(expanded_added, 0.65, "H100: of an addition of a nonzero to a sum, as the next three")                 \
    X(anew_point, 12, "of sums made anew")                                                                   \
    X(anew_product, 0.09, "and of 32 points, 16 columns, 8 features and 8 bits")                             \
    X(anew_nonzero, 1.15, "and a nonzero")                                                                   \
    X(nonzeros_form, 1.2, "H200, bench/sparse_sets.py: of the form nonzeros, the rest is counted")           \
    /* tensor: cycles of a scheduler for 32 points */                                                        \
    X(tensor_overlap, 3, "H200: memory and products overlap less than in other designs")                     \
    X(level, 30, "H200: each time quads share a K")                                                          \
    X(tensor_launch_ns, 16000, "H200: each block prepares the fragments of its launch")                      \
    X(rows_launch_ns, 45000, "H200: and rows of sums")                                                       \
    X(hi_lo_step, 100, "H200, d = 2..32, 1 to 10 row tiles, as the next four")                               \
    X(hi_lo_tile, 40, "of a row tile")                                                                       \
    X(hi_lo_scores, 50, "and four features")                                                                 \
    X(hi_lo_sums, 4, "and their square")                                                                     \
    X(hi_lo_segments, 12, "where a quad has two K")                                                          \
    X(rounded_step, 60, "H200, d = 2..32, 1 to 10 row tiles, as the next four")                              \
    X(rounded_feature, 16, "of a feature")                                                                   \
    X(rounded_tile, 47, "of a row tile")                                                                     \
    X(rounded_scores, 44, "and eight features")                                                              \
    X(rounded_sums, 8, "and a column of sums")                                                               \
    X(distance_step, 150, "H200, d = 2..32, 1 to 10 row tiles, as the next two")                             \
    X(distance_tile, 46, "of a row tile")                                                                    \
    X(distance_sums, 7, "and a column of sums")                                                              \
    X(digits_step, 84, "H200, recorded spaces of d = 24, 32, 64, K 3..5 to 3..12, as all of digits")         \
    X(digits_tile, 97, "of a row tile and 16 points")                                                        \
    X(digits_slice, 104, "and 32 features")                                                                  \
    X(digits_waits, 946, "between the barriers of a tile, as the next two: beside other blocks' arithmetic") \
    X(digits_waits_warp, 68, "of each warp")                                                                 \
    X(digits_waits_columns, 13.2, "of a row tile, and each column of the slowest warp, for 16 points")       \
    X(rows_step, 380, "H200, d = 2..64, 4 to 16 row tiles, as the next three")                               \
    X(rows_tile, 20, "of a row tile")                                                                        \
    X(rows_products, 47, "and eight features")                                                               \
    X(rows_adding, 24, "of a K and a feature")                                                               \
    X(resolving, 4, "H200: ambiguous points, of each cluster above 20")                                      \
    X(digits_resolving, 25, "H200: the same of digits, above 16")                                            \
    X(rows_ambiguous, 0.0175, "H200: share of ambiguous points of rows")                                     \
    /* tensor: factors on these cycles */                                                                    \
    X(tensor_share, 0.9191, "H200, d = 2..32, as the next one")                                              \
    X(tensor_few_warps, 0.2525, "over warps of a scheduler")                                                 \
    X(tensor_single, 1.25, "H200, recorded spaces of d = 8, 12, 16: one warp of a scheduler, 1.17 to 1.39")  \
    X(tensor_blocks, 0.025, "H200, recorded spaces of d = 12, 16: of each more block, 0.02 to 0.05")         \
    X(distance_share, 0.7, "H200, d = 2..32, as the next two")                                               \
    X(distance_few_warps, 0.9, "over warps of a scheduler")                                                  \
    X(distance_blocks, 0.03, "of each more block")                                                           \
    X(contention, 1.08, "H200: above 12 features and 3 warps of a scheduler")                                \
    X(rows_share, 0.8, "H200, d = 2..64, as the next three")                                                 \
    X(rows_few_warps, 0.8, "over warps of a scheduler")                                                      \
    X(rows_single, 1.35, "one warp of a scheduler")                                                          \
    X(rows_blocks, 0.02, "of each block")                                                                    \
    /* tiled: instructions of a point, factors */                                                            \
    X(fp16_sm_80, 800, "measured on sm_80: multiplications of halves of a multiprocessor in a cycle")        \
    X(fp16_sm_90, 1100, "H200: the same")                                                                    \
    X(fp16_sm_100, 1000, "measured on sm_100: the same")                                                     \
    X(fp16_others, 256, "not measured: what other devices are taken to have")                                \
    X(warps_enough, 28, "H200: warps of a multiprocessor that keep tensor cores busy")                       \
    X(points_enough, 160, "H200: points of a tile for which a table is read")                                \
    X(cluster_warps, 0.18,                                                                                   \
      "H200, recorded space of d = 64, K = 256: of each more warp that has the same points")                 \
    X(one_product, 1.35, "H200, recorded space of d = 64, K = 256: slices of one product, 1.3 to 1.4")       \
    X(ends, 1300, "H200: loads of a tile of points")                                                         \
    X(ends_k, 400, "H200: the end of each K")                                                                \
    X(last_tile, 77, "H200: a tile in which a K ends, of a feature")                                         \
    X(best_two, 8, "count of the text: the best two scores")                                                 \
    X(ambiguous, 2.4, "H100: resolving at d = 2, as the next two; K = 257 and 1,000, uniform points")        \
    X(ambiguous_k, 1.3, "power of K: 3.3 ms of 33.6 million points, 19.7")                                   \
    X(ambiguous_features, 2.8, "power of 2 / d: at d = 4 0.24 ms of 16.8 million, 1.25")                     \
    X(plain_stall, 1.4, "H200: plain arithmetic, as the next one")                                           \
    X(plain_single, 0.6, "over blocks of a multiprocessor")                                                  \
    X(resident_read, 1.17, "H200: points are read again for each tile")                                      \
    X(resident_products, 1.4, "H200: products of a warp that waits")                                         \
    X(resident_scores, 20, "H200: comparisons of a score")                                                   \
    X(resident_scores_double, 40, "H200, float64")                                                           \
    X(resident_k, 60, "H200: the end of a K")                                                                \
    X(resident_waits, 0.6, "H200, recorded space of d = 32: share of the labels' time that is over warps")   \
    X(adding_products, 1.2, "H200, confirmed by the recorded space of d = 32 within 10%")                    \
    X(adding_sorted, 3000, "H200: points in the order of their labels, of a K")                              \
    X(adding_sorted_feature, 10, "H200: and a feature")                                                      \
    X(points_tile, 8, "H100: whole points, the best two scores of a tile, on the half-rate pipe")            \
    X(points_stall, 1.15, "H100, d = 1 to 16, K = 33 to 4,000, as the next four")                            \
    X(points_stall_few, 0.6, "over points of a thread")                                                      \
    X(points_end, 130, "of a K: margin and label")                                                           \
    X(points_again, 3, "of a centroid of the best tile, whose scores are made again")                        \
    X(points_again_load, 7, "and 16 bytes of it, which each lane reads elsewhere")                           \
    X(adding_integers, 40, "H100, d = 2 to 16, of a K, as the next one")                                     \
    X(adding_integers_feature, 14, "and a feature")                                                          \
    X(adding_chunks, 2000, "H200: rows in shared memory")                                                    \
    X(adding_chunks_k, 23, "H200: and a lane of a K")                                                        \
    X(adding_read, 1.08, "H200: the points' read beside products")

static const struct {
#define KM_MEASURED_FIELD(name, value, source) double name;
    KM_CUDA_MEASURED(KM_MEASURED_FIELD)
#undef KM_MEASURED_FIELD
} measured = {
#define KM_MEASURED_VALUE(name, value, source) .name = (value),
    KM_CUDA_MEASURED(KM_MEASURED_VALUE)
#undef KM_MEASURED_VALUE
};

#endif

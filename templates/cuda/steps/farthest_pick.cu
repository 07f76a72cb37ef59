// SPDX-License-Identifier: MIT
// One block: picks[taken] is the farthest point of all subchunks, or -1 where there is none.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_farthest_pick(const double *subchunk_values, const long long *subchunk_indices, long long subchunks,
                     long long n, long long *picks, long long taken) {
    double value = 0.0;
    long long index = n;
    for (long long subchunk = threadIdx.x; subchunk < subchunks; subchunk += KM_THREADS)
        farthest_of(&value, &index, subchunk_values[subchunk], subchunk_indices[subchunk]);
    farthest_of_block(&value, &index);
    if (threadIdx.x == 0) picks[taken] = value > 0.0 ? index : -1;
}

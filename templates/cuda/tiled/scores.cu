// SPDX-License-Identifier: MIT
// Takes one more score of a row, of column or centroid j.
__device__ __forceinline__ void pass_take_score(pass_best &row, km_real score, int j) {
    const bool better = score > row.best;
    //@ if float64
    const double loser = better ? row.best : score;
    row.second = loser > row.second ? loser : row.second;
    row.best = better ? score : row.best;
    //@ else
    row.second = fmaxf(row.second, fminf(row.best, score));
    row.best = fmaxf(row.best, score);
    //@ end
    row.j = better ? j : row.j;
}

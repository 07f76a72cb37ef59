// SPDX-License-Identifier: MIT
// The best two scores of a point so far.
struct km_best_two {
    km_real best, second;
    int j; // the centroid with the best score; in a loop over tiles its tile or column
};

//@ if takes_single_scores
// Compares one more score, of column or centroid j.
__device__ __forceinline__ void km_take_score(km_best_two &row, km_real score, int j) {
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

//@ end

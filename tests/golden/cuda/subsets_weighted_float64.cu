// Of the text of {features: 5, clusters: 3..4, type: float64, target: "cuda:sm_90"} weighted subsets=2: Head
// "..." stands for what a template or an earlier part shows.

// ... 44 definitions

// The last pass: a lane has the best run of a subset and K. Labels are those of the squared distances in double, as
// everywhere; squares are added as doubles.
__device__ __forceinline__ double subset_root(double value) {
    return sqrt(value);
}

// ... 20 definitions

// Of the text of {features: 5, clusters: 3..4, type: float64, target: "cuda:sm_90"} weighted subsets=2: Head
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 47 definitions

// The last pass: a lane has the best run of a subset and K. Labels are those of the squared distances in double, as
// everywhere. Scores x . c - |c|^2 / 2 find them, and the second-nearest centroid: the number of a centroid is in the
// lowest bits of its score, so that a maximum is both. Where the two best are not farther apart than what rounding and
// these bits may change, the point is ambiguous and resolved in double. Squared distances and sums are of x - c, the
// sums about the centroid of the label: they also say where the mean of the label is. Squares, and quotients of the two
// distances, are added in registers, over all clusters: the host makes margins of the quotients, and takes off those
// of clusters of one point, which is where the mean is.
typedef long long subset_bits;

// ... 27 definitions

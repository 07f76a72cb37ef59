// Of the text of prebuilt subsets avx512_float64: All
// "..." stands for what a template or an earlier part shows.

// ... 79 definitions

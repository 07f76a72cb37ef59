// Of the text of prebuilt subsets avx512_float64: All
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 94 definitions

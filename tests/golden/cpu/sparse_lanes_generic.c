// Of the text of prebuilt sparse_lanes generic_float32: All
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 77 definitions

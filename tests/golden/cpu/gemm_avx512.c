// Of the text of {features: 128, clusters: 1024, target: cpu:avx512}: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 14 definitions

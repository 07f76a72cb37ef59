// Of the text of {features: 4, clusters: 2..8, type: float64, target: cpu:neon}: Numbers and types
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 25 definitions

// Of the text of {features: 4, clusters: 2..8, type: float64, target: cuda:sm_75}: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 65 definitions

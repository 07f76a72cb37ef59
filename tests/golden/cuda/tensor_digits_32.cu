// Of the text of {features: 32, clusters: 2..12, target: cuda:sm_90}: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 102 definitions

// Of the text of {features: 8, clusters: 256, target: cuda:sm_90}: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 110 definitions

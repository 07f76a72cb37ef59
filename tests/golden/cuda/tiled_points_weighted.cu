// Of the text of {features: 3, clusters: 300, target: cuda:sm_90} weighted: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 37 definitions

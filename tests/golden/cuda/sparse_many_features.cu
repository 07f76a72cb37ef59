// Of the text of {features: 1000000, clusters: 2..12, layout: csr, target: cuda:sm_90} tracked: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 73 definitions

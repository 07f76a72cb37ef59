// Of the text of {features: 8, clusters: "2,300", target: cuda:sm_90} tracked: The steps around the pass
// "..." stands for what a template or an earlier part shows.

// ... 101 definitions

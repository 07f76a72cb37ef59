// Of the text of {features: 8, clusters: "2,300", target: cuda:sm_90} tracked: The steps around the pass; Loading; Seeding; Finishing; Silhouettes; Relocation; The update
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 30 definitions

// ... 5 more of 2 lines, other numbers: ac21a9bb
// ... 4 definitions

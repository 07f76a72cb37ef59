// Of the text of {features: 8, clusters: "2,300", target: cuda:sm_90} tracked: The steps around the pass; Loading; Seeding; Finishing; Silhouettes; Relocation; The update
// "..." stands for what a template or an earlier part shows.

// ... 29 definitions

// ... 18 definitions

// ... 22 definitions

// ... 25 definitions

// ... 9 definitions

// ... 5 definitions

// ... 4 definitions

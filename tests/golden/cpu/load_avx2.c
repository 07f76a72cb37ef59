// Of the text of prebuilt load avx2_float32: All
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 21 definitions

// For kernels of the library alone (tiles, bounds, silhouette). Comparisons give a bit for each lane.
#define KM_D_SQRT(x) _mm256_sqrt_pd(x)
typedef km_vec km_choice; // lanes that are chosen: KM_WHERE takes these from a, the others from b
// ... lines of a template
// ... lines of a template

// ... 8 definitions

// Of the text of {features: 4, clusters: 3..5, target: cuda:sm_90}: Head; Numbers and types; The list of K; What the kernels of a pass are given
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 2 definitions

#if !defined(__CUDACC_RTC__) && !defined(KM_KERNELS_ONLY)
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 10 * 90
#error                                                                                                       \
    "interface.cu was emitted for sm_90: nvcc -arch=sm_90, or emit it for an older device: kmgen --target cuda:sm_80"
#endif
// The linker knows kernels by these names, so that several emitted files go into one program.
#define km_registers_0 interface_km_registers_0
#define km_prepare_coefficients interface_km_prepare_coefficients
#define km_sum_points interface_km_sum_points
#define km_reduce interface_km_reduce
#define km_load_draw interface_km_load_draw
#define km_load_sums_f32 interface_km_load_sums_f32
#define km_load_sums_f64 interface_km_load_sums_f64
#define km_load_reduce interface_km_load_reduce
#define km_load_transform_f32 interface_km_load_transform_f32
#define km_load_transform_f64 interface_km_load_transform_f64
#define km_load_weights interface_km_load_weights
#define km_load_add interface_km_load_add
#define km_rows interface_km_rows
#define km_window_sums interface_km_window_sums
#define km_join_blocks interface_km_join_blocks
#define km_seed_draw interface_km_seed_draw
#define km_seed_sums interface_km_seed_sums
#define km_seed_pass interface_km_seed_pass
#define km_finish_few_clusters interface_km_finish_few_clusters
#define km_assign interface_km_assign
#define km_finish_chunks interface_km_finish_chunks
#define km_finish_add interface_km_finish_add
#define km_label_sums interface_km_label_sums
#define km_silhouette interface_km_silhouette
#define km_silhouette_labelled interface_km_silhouette_labelled
#define km_silhouette_searched interface_km_silhouette_searched
#define km_farthest_squares interface_km_farthest_squares
#define km_farthest_subchunk interface_km_farthest_subchunk
#define km_farthest_pick interface_km_farthest_pick
#define km_update interface_km_update
#endif

// ==== Numbers and types ====================================================================================
typedef float km_real;

enum {
    D = 4,       // features
    WEIGHTED = 0 // points carry weights
};

// ==== The list of K ========================================================================================
// Compiled apart: pass
typedef unsigned char km_label; // one label of one point, where labels are kept between passes

enum {
    S = 12,      // clusters of one restart: the sum of the K list
    KS = 3,      // entries of the K list
    K_MAX = 5,   // the largest of them
    RESTARTS = 1 // of each K, in one pass
};

// The K list, and the first row of each K's centroids in a restart.
__constant__ const int km_ks[KS] = {
    3,
    // ... 2 more, other numbers: 2eb320ff
};
__constant__ const int km_offsets[KS] = {
    0,
    // ... 2 more, other numbers: a3a6fa94
};

// ==== What the kernels of a pass are given =================================================================
// ... lines of a template
// ... 2 definitions

typedef struct km_pass_launch {
    char kernel[40]; // its name, declared extern "C"
    int stage;       // KM_STAGE_...
    unsigned grid_x, grid_y, block;
    unsigned shared_bytes; // dynamic shared memory; the host opts in above 48 KiB
    int part;              // passed on in km_pass_args: which part of the K list, where a kernel runs several times
} km_pass_launch;

// ... 2 definitions

typedef struct km_pass_args {
    const km_control *control;
    const void *points;  // n x d km_real, row by row, centred and scaled
    const void *weights; // n km_real; NULL where points have no weights
    long long n;
    const void *centroids;       // [restarts][S][d] km_real
    const unsigned char *active; // per slot: 1 takes part in this pass
    double *totals;              // [restarts][S][d + 1]
    void *labels;                // [slots][labels_stride] km_label; NULL unless labels are kept between passes
    long long labels_stride;
    unsigned long long
        *changes; // per slot: labels that changed (integer atomics); zeroed before each pass; or NULL
    void *workspace;
    // Addresses of the symbol km_constants: of each part of the source that is compiled apart. NULL behind the last,
    // and unless has_constants. All hold the same.
    void *constants[KM_CONSTANTS_MAX];
    const double *box; // 2 x d: the smallest value of each feature, then the largest, as `points` are
    int part;
} km_pass_args;

// ... 1 definition

// Of the text of {features: 32, clusters: 2..12, target: cuda:sm_90}: The host part: what the header declares
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 72 definitions

enum {
    HOST_FINISH_POINTS = KM_FINISH_PIECE_POINTS(D), // that a block adds up
    HOST_FINISH_SLICE = 64                          // chunks at a time
};

struct host_finish {
    host_model model;
    host_memory sums, partial, nearest, margin, labels;
    double *host = nullptr;       // k x KM_FINISH_SUMS
    int bytes = 0, tile_rows = 0; // of shared memory, and rows there, where km_finish_tiles is used
    ~host_finish() {
        free(host);
    }
};

// ... 1 definition

static int host_finish_slice(const host_finish_tiles_fit *fit, host_finish *f, long long first, long long count,
                             long long k, int *labels) {
    const long long numbers = k * KM_FINISH_SUMS;
    const long long blocks = host_finish_parts(f, count, k);
    const double *weights = fit->weights.as<double>();
    double *partial = f->partial.as<double>();
    f->model.args.first = first;
    f->model.args.count = count;
    if (f->bytes > 0) {
        const int warps = host_parts(f->tile_rows, KM_TILE_WARP_ROWS);
        km_finish_tiles<<<(unsigned)blocks, (unsigned)host_parts(warps, 4) * 128, (size_t)f->bytes>>>(
            f->model.args, weights, partial, k, 0, 1, f->tile_rows);
        HOST_LAUNCHED(km_finish_tiles);
    // ... lines of a template
    return HOST_FINISH_TILES_OK;
}

// Shared memory for all rows of K centroids; else for so many that it holds; else none.
static int host_finish_shared(const host_finish_tiles_fit *fit, host_finish *f, long long k) {
    enum { IN_TEXT = 512 };
    if (k > KM_FINISH_SHARED_MAX) return HOST_FINISH_TILES_OK;
    for (int rows = k < KM_TILE_ROWS ? (int)host_parts(k, KM_TILE_WARP_ROWS) * KM_TILE_WARP_ROWS
                                     : int(KM_TILE_ROWS);
         rows > 0 && !f->bytes; rows -= KM_TILE_WARP_ROWS) {
        const int sums = k <= rows ? int(KM_TILE_SUMS) : 1;
        const long long bytes = KM_TILE_BYTES(D, sizeof(km_real), WEIGHTED, k, sums, rows, 1, 0);
        if (bytes > fit->shared_max - IN_TEXT) continue;
        f->tile_rows = rows;
        f->bytes = (int)bytes;
        HOST_CUDA(
            cudaFuncSetAttribute(km_finish_tiles, cudaFuncAttributeMaxDynamicSharedMemorySize, f->bytes));
    }
    return HOST_FINISH_TILES_OK;
}

// ... 21 definitions

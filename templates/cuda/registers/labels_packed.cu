// SPDX-License-Identifier: MIT
//@ if pairs
// Labels are written four at a time: so many $label_givers exchange theirs that each gets four that lie side by side in
// memory.
enum { GATHER = $gather };

//@ else
// Labels are written four at a time, those of points that lie side by side.
//@ end
// The first point of those whose labels the thread has after the exchange, of its points p to p + 3.
static __device__ __forceinline__ long long km_gathered(int tile, int p) {
    //@ if pairs
    const int member = $team_of_thread % GATHER;
    return km_first(tile) + member * $label_step + km_step(p);
    //@ else
    return km_first(tile) + km_step(p);
    //@ end
}

// The labels of four points that lie side by side, a byte each.
static __device__ __forceinline__ unsigned km_gather(const int *labels) {
    //@ if pairs
    const int member = $team_of_thread % GATHER;
    //@ end
    unsigned word = __byte_perm(__byte_perm(labels[0], labels[1], 0x0040),
                                __byte_perm(labels[2], labels[3], 0x0040), 0x5410);
    //@ if neighbours
    word =
        __byte_perm(word, __shfl_xor_sync(0xffffffff, word, $lanes_per_point), member & 1 ? 0x3715 : 0x6240);
    //@ end
    //@ if pairs
    word = __byte_perm(word, __shfl_xor_sync(0xffffffff, word, $pairs_width),
                       member & $pairs_bit ? 0x3276 : 0x5410);
    //@ end
    return word;
}

// Reads the labels that the pass before left.
static __device__ __forceinline__ void km_read_labels(unsigned *before, const km_pass_args &args, int tile,
                                                      int slot) {
    const unsigned *labels = (const unsigned *)((const km_label *)args.labels + slot * args.labels_stride);
    KM_UNROLL_FOR (int p = 0; p < POINTS; p += 4) {
        const long long point = km_gathered(tile, p);
        before[p / 4] = point < args.n ? labels[point / 4] : 0;
    }
}

// Writes the labels of one slot where they changed and returns how many did.
static __device__ __forceinline__ int km_write_labels(const km_points &points, const unsigned *before,
                                                      const km_pass_args &args, int tile, int slot) {
    unsigned *labels = (unsigned *)((km_label *)args.labels + slot * args.labels_stride);
    int changes = 0;
    KM_UNROLL_FOR (int p = 0; p < POINTS; p += 4) {
        const long long point = km_gathered(tile, p), left = args.n - point;
        unsigned differ = km_gather(points.label + p) ^ before[p / 4];
        if (left < 4) differ = left <= 0 ? 0 : differ & ((1u << 8 * left) - 1);
        //@ if teamed
        if (threadIdx.x % TEAM) continue; // one lane of a team is enough
        //@ end
        if (differ) labels[point / 4] = before[p / 4] ^ differ;
        changes +=
            __popc((((differ & 0x7f7f7f7f) + 0x7f7f7f7f) | differ) & 0x80808080); // bytes that are not 0
    }
    return changes;
}

// SPDX-License-Identifier: MIT
//@ if exchanges_labels
// Labels are written four at a time: so many $label_lanes exchange labels that each gets those of four adjacent points.
enum { EXCHANGE = $exchange };

//@ else
// Labels are written four at a time, those of adjacent points.
//@ end
// The first of the four points whose labels the thread has after the exchange, of its own points p to p + 3.
static __device__ __forceinline__ long long km_packed_point(int tile, int p) {
    //@ if exchanges_labels
    const int index = $point_of_thread % EXCHANGE;
    return km_first_point(tile) + index * $label_step + km_point_offset(p);
    //@ else
    return km_first_point(tile) + km_point_offset(p);
    //@ end
}

// The labels of four adjacent points, a byte each.
static __device__ __forceinline__ unsigned km_pack_labels(const int *labels) {
    //@ if exchanges_labels
    const int index = $point_of_thread % EXCHANGE;
    //@ end
    unsigned word = __byte_perm(__byte_perm(labels[0], labels[1], 0x0040),
                                __byte_perm(labels[2], labels[3], 0x0040), 0x5410);
    //@ if exchanges_single_labels
    word =
        __byte_perm(word, __shfl_xor_sync(0xffffffff, word, $lanes_per_point), index & 1 ? 0x3715 : 0x6240);
    //@ end
    //@ if exchanges_labels
    word = __byte_perm(word, __shfl_xor_sync(0xffffffff, word, $exchange_width),
                       index & $exchange_bit ? 0x3276 : 0x5410);
    //@ end
    return word;
}

// Reads the labels of the pass before.
static __device__ __forceinline__ void km_read_labels(unsigned *before, const km_pass_args &args, int tile,
                                                      int slot) {
    const unsigned *labels = (const unsigned *)((const km_label *)args.labels + slot * args.labels_stride);
    KM_UNROLL_FOR (int p = 0; p < POINTS; p += 4) {
        const long long point = km_packed_point(tile, p);
        before[p / 4] = point < args.n ? labels[point / 4] : 0;
    }
}

// Writes the labels of one slot where they changed, and returns how many did.
static __device__ __forceinline__ int km_write_labels(const km_points &points, const unsigned *before,
                                                      const km_pass_args &args, int tile, int slot) {
    unsigned *labels = (unsigned *)((km_label *)args.labels + slot * args.labels_stride);
    int changes = 0;
    KM_UNROLL_FOR (int p = 0; p < POINTS; p += 4) {
        const long long point = km_packed_point(tile, p), left = args.n - point;
        unsigned differ = km_pack_labels(points.label + p) ^ before[p / 4];
        if (left < 4) differ = left <= 0 ? 0 : differ & ((1u << 8 * left) - 1);
        //@ if lanes_share_point
        if (threadIdx.x % LANES_PER_POINT) continue; // one lane of a point is enough
        //@ end
        if (differ) labels[point / 4] = before[p / 4] ^ differ;
        changes +=
            __popc((((differ & 0x7f7f7f7f) + 0x7f7f7f7f) | differ) & 0x80808080); // bytes that are not 0
    }
    return changes;
}

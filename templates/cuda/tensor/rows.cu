// SPDX-License-Identifier: MIT
// What all forms do with bytes of a lane and with the rows of a K.

// Four of the eight bytes of a and b, or their signs.
template <unsigned WHICH> static __device__ __forceinline__ unsigned km_pick(unsigned a, unsigned b) {
    unsigned bytes;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "n"(WHICH));
    return bytes;
}

// The same address, of which the compiler does not know how it came: it stays in a register.
static __device__ __forceinline__ unsigned km_keep(unsigned address) {
    unsigned kept;
    asm volatile("mov.b32 %0, %1;" : "=r"(kept) : "r"(address));
    return kept;
}

static __device__ __forceinline__ double km_max_lanes(double value) {
    for (int width = 16; width > 0; width /= 2) value = fmax(value, __shfl_xor_sync(ALL, value, width));
    return value;
}

// The centroid nearest to the origin.
static __device__ int km_find_middle(const float *c, int k) {
    double smallest = 1e308;
    int middle = 0;
    _Pragma("unroll 1") for (int j = threadIdx.x % 32; j < k; j += 32) {
        double square = 0;
        _Pragma("unroll 2") for (int f = 0; f < D; f++) {
            const double x = c[j * D + f];
            square = fma(x, x, square);
        }
        middle = square < smallest ? j : middle;
        smallest = fmin(square, smallest);
    }
    for (int width = 16; width > 0; width /= 2) {
        const double square = __shfl_xor_sync(ALL, smallest, width);
        const int j = __shfl_xor_sync(ALL, middle, width);
        const bool closer = square < smallest || (square == smallest && j < middle);
        middle = closer ? j : middle;
        smallest = closer ? square : smallest;
    }
    return middle;
}

// Of one K: finds the centroids that another beats everywhere inside the grid. A centroid far outside would cost the
// scores of the others their digits.
template <typename PART>
static __device__ void km_find_beaten(km_block<PART> &shared, const float *c, const km_place &place, int k) {
    const int middle = km_find_middle(c, k);
    _Pragma("unroll 1") for (int j = threadIdx.x % 32; j < k; j += 32) {
        double lead = 0, size = 0; // of j over the middle one, at most
        _Pragma("unroll 2") for (int f = 0; f < D; f++) {
            const double a = c[j * D + f], b = c[middle * D + f];
            lead += fabs(a - b) * shared.reach[f] - 0.5 * (a - b) * (a + b);
            size += fabs(a - b) * shared.reach[f] + fabs(a - b) * fabs(a + b);
        }
        shared.beaten[place.row + j] = j != middle && lead < -1e-12 * size;
    }
    __syncwarp();
}

// Goes through the rows of a K, by so many threads: `write_row` writes a quarter of a row, that of lanes with
// lane % 4 = t, centroid j or, -1, none that a point of the grid could be nearest to: the row stays empty (points
// outside are compared with the centroids themselves, which shared.row still names); `begin_group` is told once of each
// group of lanes, and of the K's segment in it.
template <typename PART, typename Row, typename Group>
static __device__ __forceinline__ void km_for_rows(km_block<PART> &shared, int k_index, int thread, int threads,
                                                   Row write_row, Group begin_group) {
    const km_place place = km_places[k_index];
    const bool linked = PART::LEVELS == 0 && place.slots > PART::FIRST;
    _Pragma("unroll 1") for (int at = thread; at < place.span * PART::SLOTS * 4; at += threads) {
        const int group = place.group + at / 4 / PART::SLOTS, slot = at / 4 % PART::SLOTS;
        const int j = (group - place.group) * place.slots + slot - place.slot, segment = place.slot >= PART::FIRST;
        const bool real = slot >= place.slot && slot < place.slot + place.slots && j < km_ks[k_index];
        if (!linked && (slot >= PART::FIRST) != segment) continue;
        shared.row[group][slot] = real ? place.row + j : -1;
        write_row(group, slot, at % 4, real && !shared.beaten[place.row + j] ? j : -1);
        if (slot != place.slot) continue;
        shared.member[segment][group] = k_index;
        shared.link[0][group] = linked ? ALL : 0;
        for (int level = 0; level < PART::LEVELS; level++)
            shared.link[1 + level][group] = place.span >> level > 1 ? ALL : 0;
        begin_group(group, segment, linked);
    }
}

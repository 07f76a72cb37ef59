// Of the text of {features: 32, clusters: 2..12, type: float64, target: cuda:sm_75} weighted: The steps around the pass; Seeding; Finishing; Silhouettes
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 39 definitions

// ... 1 more of 2 lines, other numbers: 14b20554
// ... lines of a template
            sums[c][p] = __dadd_rn(sums[c][p], __dmul_rn(km_weight(args.weights, point), left));
        }
    }
}

// ... 2 definitions

// ... 1 more of 2 lines, other numbers: f14f98b8
// ... lines of a template
        const finish_point decided = finish_of_squares(found.label, found.nearest, found.second, k);
        tile_write(job, is_point ? decided.label : int(TILE_NONE), decided.square, decided.distance,
                   decided.margin, m, point, weight);
    }
}

// ... 4 definitions

__device__ __forceinline__ void tile_write_own(const tile_own &own, const tile_job &job, double weight) {
#pragma unroll
    for (int i = 0; i < KM_TILE_PAIRS; i++) {
        if (i >= own.count) break;
        tile_value *value =
            tile_at<tile_value>(job.values_at) + tile_model(i) * TILE_VALUES + threadIdx.x % TILE_POINTS;
        if (own.means >> i & 1) value->distance = tile_weighted(weight, __dsqrt_rn(own.mean[i]));
    }
}

// ... 2 definitions
// ... lines of a template
        // ... lines of a template
                tile_add_own(own, job, slab);
                // ... lines of a template

// ... 8 definitions

// ... 15 definitions

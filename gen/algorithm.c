// SPDX-License-Identifier: MIT
// Which algorithm passes follow: the user's choice, or a rule's.
#include "../base/error.h"
#include "../base/size.h"
#include "algorithm.h"
#include "design.h"
#include "cpu/facts.h"
#include "cuda/bounds.h"
#include "cuda/tiles.h"
#include "memory.h"
#include "numbers.h"

#include <stdio.h>

enum {
    TILES_CLUSTERS_MAX = 4096,
    TILES_FEATURES_AUTO = 16, // tiles may pay up to so many features
    TILES_CLUSTERS_AUTO = 256,
    TILES_POINTS_MIN = 32768,
    CUDA_TILES_POINTS_MIN = 2097152,
    CUDA_TILES_FEATURES_SURE = 3, // up to so many tiles pay on a GPU whatever the data
    HAMERLY_FEATURES_AUTO = 8,    // hamerly pays from so many features ...
    HAMERLY_CLUSTERS_AUTO = 128,  // ... and clusters on, where a run takes many updates ...
    HAMERLY_CLUSTERS_MOST = 1024  // ... up to so many clusters
};

static int64_t clusters_max(const km_plan *plan) {
    return plan->spec.clusters[plan->spec.clusters_count - 1];
}

static int64_t clusters_min(const km_plan *plan) {
    return plan->spec.clusters[0];
}

// Hamerly where its bounds skip most distances once centroids move little; until then its passes are lloyd's.
static int hamerly_pays(const km_plan *plan) {
    int64_t most = clusters_max(plan), d = plan->spec.features;
    if (d < HAMERLY_FEATURES_AUTO || most > HAMERLY_CLUSTERS_MOST) return 0;
    int tiles_may = d <= TILES_FEATURES_AUTO && most <= TILES_CLUSTERS_AUTO;
    return (tiles_may ? clusters_min(plan) : most) >= HAMERLY_CLUSTERS_AUTO;
}

// Nanoseconds of one thread to sort a point: a constant, and so many for each feature.
static const double sort_ns = 12, sort_feature_ns = 6;

// What a pass of lloyd takes on CUDA, at least, where hamerly's launches do not count.
static const double cuda_hamerly_pass_ns = 2e5;

// What sorting may take of the time of lloyd's passes, and finding out that tiles do not pay.
static const double sort_share = 0.5, begin_share = 0.02;

// Passes of every restart, a point.
static double lloyd_ns(const km_plan *plan) {
    return plan->estimates[plan->design].total_ns * KM_UPDATES_TYPICAL * (double)plan->spec.n_init;
}

// Hamerly on CUDA, where tiles cannot serve: many clusters, and passes that take long beside its launches. The first
// pass with bounds counts what they leave, and may go back to lloyd; passes of `tiled` and `tensor` leave labels only
// where they are asked for.
static int hamerly_on_cuda(const km_plan *plan) {
    int64_t n = plan->points * km_max(km_plan_value(plan, KM_PARAM_concurrent_restarts), 1);
    if ((plan->design != KM_DESIGN_TILED && plan->design != KM_DESIGN_TENSOR) ||
        km_cuda_bounds_refused(plan) || km_cuda_bounds_unserved(plan))
        return 0;
    return clusters_min(plan) >= HAMERLY_CLUSTERS_AUTO &&
           plan->estimates[plan->design].total_ns * (double)n >= cuda_hamerly_pass_ns;
}

// On CUDA as on the CPU; the sample of the data decides for each K.
static void choose_on_cuda(km_plan *plan) {
    char *reason = plan->algorithm_reason;
    size_t size = sizeof plan->algorithm_reason;
    int64_t n = plan->points;
    const char *takes = km_cuda_tiles_refused(plan);
    if (!takes) takes = km_cuda_tiles_unserved(plan);
    if (takes && hamerly_on_cuda(plan)) {
        plan->algorithm = KM_ALGORITHM_HAMERLY;
        snprintf(reason, size,
                 "from K = %d on, where a pass takes %.1g ms; the first one says whether it pays",
                 HAMERLY_CLUSTERS_AUTO, cuda_hamerly_pass_ns / 1e6);
        return;
    }
    if (takes) {
        snprintf(reason, size, "tiles takes on CUDA %s", takes);
        return;
    }
    if (n < CUDA_TILES_POINTS_MIN) {
        snprintf(reason, size, "tiles pay on CUDA from %d points on%s", CUDA_TILES_POINTS_MIN,
                 n ? "" : "; how many there are is not known");
        return;
    }
    double begin = km_cuda_tiles_begin_ns(plan), sort = begin + km_cuda_tiles_sort_ns(plan),
           lloyd = lloyd_ns(plan);
    if (plan->spec.features > CUDA_TILES_FEATURES_SURE && begin > begin_share * lloyd) {
        snprintf(reason, size, "to see whether tiles pay takes about %.2g of its passes, and may take %.2g",
                 begin / lloyd, begin_share);
        return;
    }
    int pays = sort < sort_share * lloyd;
    if (pays) plan->algorithm = KM_ALGORITHM_TILES;
    snprintf(reason, size, "sorting takes about %.2g of lloyd's passes%s", sort / lloyd,
             pays ? "; a sample of the data says which K stay lloyd's" : ", more than tiles would save");
}

// Tiles where sorting takes less than half the time of lloyd's passes; at run time a probe of the data decides.
static void choose_by_rule(km_plan *plan) {
    int64_t d = plan->spec.features, n = plan->points;
    char *reason = plan->algorithm_reason;
    size_t size = sizeof plan->algorithm_reason;
    plan->algorithm = KM_ALGORITHM_LLOYD;
    if (plan->spec.target.kind == KM_TARGET_CUDA) {
        choose_on_cuda(plan);
        return;
    }
    if (km_plan_is_csr(plan)) {
        snprintf(reason, size, "the only one for points in the layout csr");
        return;
    }
    if (hamerly_pays(plan)) {
        plan->algorithm = KM_ALGORITHM_HAMERLY;
        snprintf(reason, size, "from K = %d and %d features on; a run's first passes are lloyd's",
                 HAMERLY_CLUSTERS_AUTO, HAMERLY_FEATURES_AUTO);
        return;
    }
    if (d > TILES_FEATURES_AUTO || clusters_max(plan) > TILES_CLUSTERS_AUTO) {
        snprintf(reason, size, "tiles pay up to %d features and K = %d", TILES_FEATURES_AUTO,
                 TILES_CLUSTERS_AUTO);
        return;
    }
    if (n < TILES_POINTS_MIN) {
        snprintf(reason, size,
                 n ? "tiles pay from %d points on"
                   : "tiles pay from %d points on; how many there are is not known",
                 TILES_POINTS_MIN);
        return;
    }
    double threads = (double)plan->facts.units, sort = (sort_ns + sort_feature_ns * (double)d) / threads;
    double lloyd = lloyd_ns(plan);
    int pays = sort < sort_share * lloyd;
    if (pays) plan->algorithm = KM_ALGORITHM_TILES;
    snprintf(reason, size, "sorting takes about %.3g ns a point, lloyd's passes %.3g%s", sort, lloyd,
             pays ? "; a probe of the data may go back to lloyd" : "");
}

// An algorithm that the rule chose is given up where what it keeps does not fit the memory; on CUDA also one that was
// asked for.
static void leave_room(km_plan *plan) {
    km_memory memory;
    km_algorithm chosen = plan->algorithm;
    if (plan->streams && chosen != KM_ALGORITHM_LLOYD) {
        plan->algorithm = KM_ALGORITHM_LLOYD;
        snprintf(plan->algorithm_reason, sizeof plan->algorithm_reason,
                 "what %s keeps of each point does not fit the device", km_algorithm_name(chosen));
        return;
    }
    km_memory_of(&memory, plan);
    if (chosen == KM_ALGORITHM_LLOYD || !plan->facts.memory_free_bytes ||
        memory.total <= plan->facts.memory_free_bytes)
        return;
    plan->algorithm = KM_ALGORITHM_LLOYD;
    snprintf(plan->algorithm_reason, sizeof plan->algorithm_reason,
             "with %s a fit needs %.2f GiB, %.2f GiB are free", km_algorithm_name(chosen),
             (double)memory.total / 0x1p30, (double)plan->facts.memory_free_bytes / 0x1p30);
}

// What the plan's algorithm takes on CUDA: of specs that are refused, and of points that lloyd serves.
static const char *cuda_refused(const km_plan *plan) {
    return plan->algorithm == KM_ALGORITHM_TILES ? km_cuda_tiles_refused(plan) : km_cuda_bounds_refused(plan);
}

static const char *cuda_unserved(const km_plan *plan) {
    return plan->algorithm == KM_ALGORITHM_TILES ? km_cuda_tiles_unserved(plan)
                                                 : km_cuda_bounds_unserved(plan);
}

static km_status check(const km_plan *plan, km_error *err) {
    if (plan->algorithm == KM_ALGORITHM_LLOYD) return KM_OK;
    if (plan->spec.target.kind == KM_TARGET_CUDA) {
        const char *takes = cuda_refused(plan);
        return takes ? km_fail(err, KM_ERROR_PLAN,
                               "the algorithm %s takes on CUDA %s; take lloyd or auto, or the target cpu",
                               km_algorithm_name(plan->algorithm), takes)
                     : KM_OK;
    }
    if (km_plan_is_csr(plan))
        return km_fail(
            err, KM_ERROR_PLAN,
            "the algorithm %s needs dense points, and the layout is csr; take lloyd or auto, or the "
            "layout dense",
            km_algorithm_name(plan->algorithm));
    if (plan->algorithm == KM_ALGORITHM_TILES) {
        if (plan->spec.features <= KM_CPU_TILES_FEATURES_MAX && clusters_max(plan) <= TILES_CLUSTERS_MAX)
            return KM_OK;
        return km_fail(err, KM_ERROR_PLAN,
                       "the algorithm tiles takes at most %d features and K up to %d; take lloyd or auto",
                       KM_CPU_TILES_FEATURES_MAX, TILES_CLUSTERS_MAX);
    }
    if (clusters_max(plan) <= TILES_CLUSTERS_MAX) return KM_OK;
    return km_fail(err, KM_ERROR_PLAN, "the algorithm %s takes K up to %d; take lloyd or auto",
                   km_algorithm_name(plan->algorithm), TILES_CLUSTERS_MAX);
}

// Points that an algorithm cannot serve on CUDA have lloyd's passes.
static void take_what_is_served(km_plan *plan) {
    const char *takes = NULL;
    if (plan->algorithm != KM_ALGORITHM_LLOYD && plan->spec.target.kind == KM_TARGET_CUDA)
        takes = cuda_unserved(plan);
    if (!takes) return;
    snprintf(plan->algorithm_reason, sizeof plan->algorithm_reason, "%s takes on CUDA %s",
             km_algorithm_name(plan->algorithm), takes);
    plan->algorithm = KM_ALGORITHM_LLOYD;
}

int km_algorithm_has_bounds(km_algorithm algorithm) {
    return algorithm == KM_ALGORITHM_HAMERLY || algorithm == KM_ALGORITHM_ELKAN;
}

int km_algorithm_keeps_labels(const km_plan *plan, km_algorithm asked) {
    km_algorithm algorithm = asked ? asked : km_plan_fixed_algorithm(plan);
    return plan->spec.target.kind == KM_TARGET_CUDA && km_algorithm_has_bounds(algorithm) &&
           !km_cuda_bounds_unserved(plan);
}

const char *km_algorithm_template(const km_plan *plan) {
    if (plan->spec.target.kind != KM_TARGET_CUDA || plan->algorithm == KM_ALGORITHM_LLOYD) return NULL;
    return km_algorithm_has_bounds(plan->algorithm) ? "cuda/bounds/bounds.cu" : "cuda/tiles/tiles.cu";
}

km_status km_plan_algorithm(km_plan *plan, km_algorithm asked, km_error *err) {
    plan->algorithm = asked ? asked : km_plan_fixed_algorithm(plan);
    plan->algorithm_fixed = plan->algorithm != KM_ALGORITHM_AUTO;
    snprintf(plan->algorithm_reason, sizeof plan->algorithm_reason, "%s",
             asked ? "asked for" : "fixed in the spec");
    if (!plan->algorithm_fixed) choose_by_rule(plan);
    KM_TRY(check(plan, err));
    take_what_is_served(plan);
    int keeps_labels = plan->track_labels;
    if (km_algorithm_has_bounds(plan->algorithm) && plan->spec.target.kind == KM_TARGET_CUDA)
        plan->track_labels = 1; // its memory has them
    if (!plan->algorithm_fixed || plan->spec.target.kind == KM_TARGET_CUDA) leave_room(plan);
    plan->track_labels = keeps_labels;
    return KM_OK;
}

// SPDX-License-Identifier: MIT
// Bounds -----------------------------------------------------------------------------------------------------

enum {
    ELKAN_ONE_BY_ONE = 8, // what one centroid costs beside its products, in vectors of products
    FETCHED_TOGETHER = 16 // elkan: listed points that are prefetched together
};
// What covers a few roundings of a float, relatively; lengths whose squares would underflow, or overflow.
static const float bounds_step = 0x1p-22f, bounds_least = 0x1p-60f, bounds_most = 0x1p60f;

static inline int32_t bounds_label(const cpu_bounds_work *work, int64_t i) {
    if (work->labels_bytes == 1) return ((const uint8_t *)work->labels)[i];
    if (work->labels_bytes == 2) return ((const uint16_t *)work->labels)[i];
    return ((const int32_t *)work->labels)[i];
}

// Takes over a point's label. `moved` points had changed theirs before; returns how many have now.
static inline int64_t bounds_label_put(cpu_bounds_work *work, int64_t i, int32_t label, int64_t moved) {
    int32_t old = bounds_label(work, i);
    if (work->mode != KM_CPU_FIRST && label == old) return moved;
    if (work->labels_bytes == 1)
        ((uint8_t *)work->labels)[i] = (uint8_t)label;
    else if (work->labels_bytes == 2)
        ((uint16_t *)work->labels)[i] = (uint16_t)label;
    else
        ((int32_t *)work->labels)[i] = label;
    work->scratch->moved[moved] = (int32_t)i;
    work->scratch->moved_old[moved] = old;
    return moved + 1;
}

// Keeps bounds as if no centroid had moved yet (runtime/cpu/bounds.h).
static inline void bounds_keep(const cpu_bounds_work *work, int64_t i, int32_t label, float upper,
                               float lower) {
    const cpu_bounds_tables *tables = work->tables;
    float path = tables->path_least[label], credit = tables->credit[label];
    lower = lower < bounds_most ? lower : bounds_most;
    float kept = upper - path + bounds_step * (upper + path);
    if (kept > work->radius[label]) work->radius[label] = kept;
    work->upper[i] = kept;
    work->slack[i] = lower - upper + credit - bounds_step * (lower + upper + credit);
}

// The bounds as they are now.
static inline float bounds_upper(const cpu_bounds_work *work, int64_t i, int32_t label) {
    float kept = work->upper[i], path = work->tables->path_most[label];
    return kept + path + 2 * bounds_step * (fabsf(kept) + path);
}

static inline float bounds_lower(const cpu_bounds_work *work, int64_t i, int32_t label) {
    const cpu_bounds_tables *tables = work->tables;
    float slack = work->slack[i], upper = work->upper[i];
    float margin = 8 * bounds_step * (fabsf(slack) + fabsf(upper) + tables->expiry[label]);
    return slack + upper - tables->others_path_most[label] - margin;
}

KM_INLINE km_floats bounds_of_labels(const float *table, const void *labels, const int labels_bytes) {
    if (labels_bytes == 1) return KM_F_GATHER_BYTES(table, labels);
    return labels_bytes == 2 ? KM_F_GATHER_SHORTS(table, labels)
                             : KM_F_GATHER(table, (const int32_t *)labels);
}

// A bit for each point of a vector whose bounds leave its label open.
KM_INLINE uint64_t bounds_open(const cpu_bounds_work *work, int64_t i, const void *labels,
                               const int labels_bytes) {
    const cpu_bounds_tables *tables = work->tables;
    uint64_t open =
        KM_F_NOT_BELOW(bounds_of_labels(tables->expiry, labels, labels_bytes), KM_F_LOAD(work->slack + i));
    return open ? open & KM_F_NOT_BELOW(KM_F_LOAD(work->upper + i),
                                        bounds_of_labels(tables->inner, labels, labels_bytes))
                : 0;
}

KM_INLINE int64_t bounds_list_by(const cpu_bounds_work *work, const int labels_bytes) {
    const uint8_t *labels = (const uint8_t *)work->labels;
    int32_t *list = work->scratch->list;
    int64_t listed = 0, i = 0, rest = work->count % FLOATS;
    for (; i + FLOATS <= work->count; i += FLOATS)
        for (uint64_t open = bounds_open(work, i, labels + i * labels_bytes, labels_bytes); open;
             open &= open - 1)
            list[listed++] = (int32_t)i + __builtin_ctzll(open);
    if (rest == 0) return listed;
    uint8_t last[4 * FLOATS] = {0}; // behind the last point labels hold nothing
    memcpy(last, labels + i * labels_bytes, (size_t)(rest * labels_bytes));
    for (uint64_t open = bounds_open(work, i, last, labels_bytes) & (((uint64_t)1 << rest) - 1); open;
         open &= open - 1)
        list[listed++] = (int32_t)i + __builtin_ctzll(open);
    return listed;
}

// The radius of each cluster from all points' bounds.
static void bounds_radius(const cpu_bounds_work *work) {
    for (int64_t i = 0; i < work->count; i++) {
        float *radius = work->radius + bounds_label(work, i);
        if (work->upper[i] > *radius) *radius = work->upper[i];
    }
}

// Lists the points whose bounds leave their label open.
KM_TARGET static int64_t bounds_list(const cpu_bounds_work *work) {
    if (work->is_new) {
        for (int64_t i = 0; i < work->count; i++) work->scratch->list[i] = (int32_t)i;
        return work->count;
    }
    if (work->asks_radius) bounds_radius(work);
    if (work->labels_bytes == 1) return bounds_list_by(work, 1);
    return work->labels_bytes == 2 ? bounds_list_by(work, 2) : bounds_list_by(work, 4);
}

// Elkan: the candidates of a centroid group, to which a point may be nearer than to its own centroid. Lower bounds are
// compared with `upper`, the bound of the nearest that is known; half distances between centroids with `own`, the bound
// of the point's own centroid.
KM_INLINE uint64_t bounds_candidates(const cpu_bounds_tables *tables, const float *lower,
                                     const float *half_distances, int64_t first, float upper, float own) {
    const km_floats limit = KM_F_SPLAT(upper + 2 * bounds_step * upper), limit_own = KM_F_SPLAT(own);
    uint64_t open = 0;
    for (int v = 0; v < BOUNDS_LANES; v += FLOATS) {
        const km_floats bound =
            KM_F_SUB(KM_F_LOAD(lower + first + v), KM_F_LOAD(tables->path_most + first + v));
        open |=
            (KM_F_NOT_BELOW(limit, bound) & KM_F_NOT_BELOW(limit_own, KM_F_LOAD(half_distances + first + v)))
            << v;
    }
    return tables->k - first < BOUNDS_LANES ? open & (((uint64_t)1 << (tables->k - first)) - 1) : open;
}

// Vectors that leave one lane out: those from [BOUNDS_LANES - i] on have infinity in lane i, those from
// [BOUNDS_LANES + 1] on in none.
static const float bounds_but[2 * BOUNDS_LANES + 1] = {[BOUNDS_LANES] = INFINITY};

// Elkan: keeps the least lower bound of a centroid group, without that of the point's own centroid. By the triangle
// inequality another centroid is at least as far as it is from the point's own, less the point's distance to that.
KM_INLINE void bounds_group_keep(const cpu_bounds_tables *tables, float *group_lower, const float *lower,
                                 int64_t first, int32_t label, float upper) {
    const float *half_distances = tables->half_distances + label * tables->k_row;
    const int is_own = label >= first && label < first + BOUNDS_LANES;
    const float *but = bounds_but + BOUNDS_LANES + (is_own ? first - label : 1);
    const km_floats away = KM_F_SPLAT(upper), two = KM_F_SPLAT(2.0f);
    km_floats least = KM_F_SPLAT(bounds_most);
    float last[BOUNDS_LANES] = {0}; // the next point's bounds follow, which may not be written yet
    lower += first;
    if (tables->k - first < BOUNDS_LANES)
        lower = memcpy(last, lower, (size_t)(tables->k - first) * sizeof *lower);
    for (int64_t v = 0; v < BOUNDS_LANES; v += FLOATS) { // path_most is minus infinity behind the last
        const km_floats bound = KM_F_SUB(KM_F_LOAD(lower + v), KM_F_LOAD(tables->path_most + first + v));
        const km_floats across =
            KM_F_SUB(KM_F_FMA(two, KM_F_LOAD(half_distances + first + v), KM_F_LOAD(but + v)), away);
        const km_floats other = KM_F_MAX(KM_F_ADD(KM_F_LOAD(but + v), bound), across);
        least = KM_F_MIN(other, least);
    }
    float length = least_of(least), path = tables->group_path_least[first / BOUNDS_LANES];
    group_lower[first / BOUNDS_LANES] = length + path - 2 * bounds_step * (fabsf(length) + path + upper);
}

// Elkan: lower bounds, as they are kept, from the distances to a centroid group.
KM_INLINE void bounds_group_lower(float *lower, const float *lengths, const float *path_least) {
    const km_floats shorten = KM_F_SPLAT(1 - 2 * bounds_step), keep = KM_F_SPLAT(1 - bounds_step),
                    none = KM_F_SPLAT(0.0f);
    const km_floats least = KM_F_SPLAT(-bounds_least), most = KM_F_SPLAT(bounds_most);
    for (int v = 0; v < BOUNDS_LANES; v += FLOATS) {
        const km_floats length =
            KM_F_MIN(KM_F_MAX(KM_F_FMA(KM_F_LOAD(lengths + v), shorten, least), none), most);
        KM_F_STORE(lower + v, KM_F_FMA(KM_F_ADD(length, KM_F_LOAD(path_least + v)), keep, none));
    }
}

// Elkan: the least of a point's lower bounds as they are now, without that of its own centroid.
KM_TARGET static float bounds_least_other(const cpu_bounds_tables *tables, const float *group_lower) {
    const int64_t whole = tables->groups_count / FLOATS * FLOATS, rest = tables->groups_count - whole;
    km_floats least = KM_F_SPLAT(bounds_most);
    for (int64_t b = 0; b < whole; b += FLOATS)
        least = KM_F_MIN(KM_F_SUB(KM_F_LOAD(group_lower + b), KM_F_LOAD(tables->group_path_most + b)), least);
    if (rest) { // as above; group_path_most is minus infinity behind the last
        float last[FLOATS] = {0};
        memcpy(last, group_lower + whole, (size_t)rest * sizeof *last);
        least = KM_F_MIN(KM_F_SUB(KM_F_LOAD(last), KM_F_LOAD(tables->group_path_most + whole)), least);
    }
    float result = least_of(least);
    result -= 2 * bounds_step * fabsf(result);
    return result > 0 ? result : 0;
}

// Elkan: a bit for each centroid group, of a vector of them, in which a centroid may be nearer than `upper`.
KM_INLINE uint64_t bounds_open_groups(const cpu_bounds_tables *tables, const float *group_lower, int64_t from,
                                      float upper) {
    const km_floats bound =
        KM_F_SUB(KM_F_LOAD(group_lower + from), KM_F_LOAD(tables->group_path_most + from));
    uint64_t open = KM_F_NOT_BELOW(KM_F_SPLAT(upper + 2 * bounds_step * upper), bound);
    return tables->groups_count - from < FLOATS ? open & (((uint64_t)1 << (tables->groups_count - from)) - 1)
                                                : open;
}

// SPDX-License-Identifier: MIT
// A slot between two passes: what is known of it, and what becomes of it. Host and device compile this.
#ifndef KM_SLOT_H
#define KM_SLOT_H

typedef enum km_slot_phase {
    KM_SLOT_IDLE,    // No run, or its run is done and was read. Costs nothing in a pass.
    KM_SLOT_RUNNING, // Iterating.
    KM_SLOT_LAST,    // Stopped moving; one more pass evaluates the final centroids.
    KM_SLOT_EMPTY,   // Paused: clusters without points, which must be given some.
    KM_SLOT_DONE     // Evaluated: inertia, weights and centroids belong together.
} km_slot_phase;

// A slot after a pass and its update. The inertia is that of the centroids that the last pass used. It is made of the
// sums, in double: total_square + sum_j (n_j |c_j|^2 - 2 c_j . S_j).
typedef struct km_slot_state {
    km_slot_phase phase;
    int converged;         // Stopped by shift or changes, not by max_iter.
    int at_limit;          // max_iter is reached: the next pass is the last.
    int is_updated;        // The last pass was followed by an update; not one that evaluated final centroids.
    long long iterations;  // Updates of this run so far.
    long long empty_count; // Clusters without weight in the last pass.
    double inertia;
    double shift; // Of the last update.
} km_slot_state;

// What a pass found of a slot, and its update did.
typedef struct km_slot_found {
    double inertia;        // by the sums: rounding may leave it below 0
    double shift;          // of the update; a slot that evaluates its final centroids has none
    long long empty_count; // clusters without weight ...
    int relocatable;       // ... some of which relocation may give a point
    int few_changes;       // fewer labels changed than the run goes on for
} km_slot_found;

KM_BOTH int km_slot_is_active(km_slot_phase phase) {
    return phase == KM_SLOT_RUNNING || phase == KM_SLOT_LAST;
}

// What becomes of an active slot after a pass.
KM_BOTH void km_slot_decide(km_slot_state *slot, const km_slot_found *found, double shift_max,
                            long long max_iter) {
    slot->inertia = found->inertia > 0.0 ? found->inertia : 0.0;
    slot->empty_count = found->empty_count;
    slot->is_updated = slot->phase != KM_SLOT_LAST;
    if (!slot->is_updated) {
        slot->phase = found->relocatable ? KM_SLOT_EMPTY : KM_SLOT_DONE;
        if (found->relocatable) slot->converged = 0; // it goes on
        return;
    }
    slot->shift = found->shift;
    slot->iterations += 1;
    slot->at_limit = slot->iterations >= max_iter;
    if (found->relocatable) {
        slot->phase = KM_SLOT_EMPTY;
    } else if (found->shift == 0.0) {
        slot->phase = KM_SLOT_DONE; // nothing moved: this pass has evaluated the final centroids
        slot->converged = 1;
    } else {
        if (found->shift <= shift_max || found->few_changes) slot->converged = 1;
        if (slot->converged || slot->at_limit) slot->phase = KM_SLOT_LAST;
    }
}

#endif

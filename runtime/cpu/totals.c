// SPDX-License-Identifier: MIT
// Totals of the runs in a pass. Partial sums of a piece of points, which the data alone decide, are added to wide
// fixed-point numbers (templates/total.h), so totals depend neither on the order of the pieces nor on who worked on
// them.
#include "../../base/error.h"
#include "../share.h"
#include "../threads.h"
#include "cpu.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

// Bits that a total may be above the sum of all magnitudes: while labels change, partial sums join before others leave.
enum { MOVE_BITS = 2 };

static int exponent_of(double value) {
    int exponent = 0;
    frexp(value, &exponent); // value < 2^exponent
    return exponent;
}

km_status km_cpu_units_create(cpu_engine *engine, const km_data_stats *stats, const km_load_params *params,
                              km_error *err) {
    int64_t d = engine->base.d, pitch = engine->pitch;
    engine->rounders = malloc((size_t)(KM_TOTAL_DIGITS * pitch) * sizeof *engine->rounders);
    if (!engine->rounders) return km_fail_memory(err, "units of totals", KM_TOTAL_DIGITS * pitch * 8);
    for (int64_t f = 0; f < pitch; f++) {
        int exponent = exponent_of(f <= d ? stats->total_weight : (double)engine->base.n_all) + MOVE_BITS;
        if (f < d) {
            double low = (stats->minimum[f] - params->centre[f]) * params->factor[f];
            double high = (stats->maximum[f] - params->centre[f]) * params->factor[f];
            exponent += exponent_of(fmax(fabs(low), fabs(high)) * (1 + 0x1p-20)); // values are rounded
        }
        km_total_units units = km_total_units_of(exponent);
        for (int64_t i = 0; i < KM_TOTAL_DIGITS; i++) engine->rounders[i * pitch + f] = units.rounder[i];
    }
    return KM_OK;
}

// Adds `count` numbers, in rows of `pitch`, to their digits.
static void numbers_add(double *restrict digits, const double *restrict numbers, int64_t count,
                        const double *restrict rounders, int64_t pitch) {
    for (int64_t first = 0; first < count; first += pitch) {
        double *restrict high = digits + first, *restrict mid = high + count, *restrict low = mid + count;
#pragma omp simd
        for (int64_t f = 0; f < pitch; f++) {
            km_total_units units = {{rounders[f], rounders[pitch + f], rounders[2 * pitch + f]}};
            km_total_add(&high[f], &mid[f], &low[f], &units, numbers[first + f]);
        }
    }
}

// What the digits of `count` totals are as doubles.
static void totals_read(double *restrict totals, double *restrict digits, int64_t count,
                        const double *restrict rounders, int64_t pitch) {
    for (int64_t first = 0; first < count; first += pitch) {
        double *restrict high = digits + first, *restrict mid = high + count, *restrict low = mid + count;
#pragma omp simd
        for (int64_t f = 0; f < pitch; f++) {
            km_total_units units = {{rounders[f], rounders[pitch + f], rounders[2 * pitch + f]}};
            km_total_carry(&high[f], &mid[f], &low[f], &units);
            totals[first + f] = km_total_value(high[f], mid[f], low[f]);
        }
    }
}

static int changes_sums(const cpu_slot *slot, int64_t changed) {
    return !slot->sums_by_owner && (slot->mode != KM_CPU_MOVE || changed > 0);
}

void km_cpu_totals_collect(cpu_engine *engine, cpu_accumulator *to, const km_cpu_slot *list) {
    while (atomic_flag_test_and_set_explicit(&to->is_taken, memory_order_acquire)) sched_yield();
    double *digits = to->digits;
    for (int64_t s = 0, at = 0; s < engine->base.slots_count; s++) {
        const cpu_slot *slot = &engine->slots[s];
        if (!km_slot_is_active(slot->state.phase)) continue;
        const km_cpu_slot *listed = &list[at++];
        to->counts[s].changed += listed->changed;
        to->counts[s].resolved += listed->resolved;
        int64_t count = slot->sums_by_owner ? 0 : slot->k * engine->pitch;
        if (changes_sums(slot, listed->changed)) {
            numbers_add(digits, listed->sums, count, engine->rounders, engine->pitch);
            memset(listed->sums, 0, (size_t)count * sizeof *listed->sums);
        }
        digits += KM_TOTAL_DIGITS * count;
    }
    atomic_flag_clear_explicit(&to->is_taken, memory_order_release);
}

// Digits of the active slots before this one in an accumulator.
static int64_t digits_before(const cpu_engine *engine, int64_t index) {
    int64_t count = 0;
    for (int64_t s = 0; s < index; s++) {
        const cpu_slot *slot = &engine->slots[s];
        if (km_slot_is_active(slot->state.phase) && !slot->sums_by_owner) count += slot->k * engine->pitch;
    }
    return KM_TOTAL_DIGITS * count;
}

// Digits of all active slots, then of each slot how many points changed and how many were resolved.
km_status km_cpu_totals_exchange(cpu_engine *engine, km_error *err) {
    int64_t slots = engine->base.slots_count, digits = digits_before(engine, slots);
    cpu_accumulator *first = &engine->accumulators[0];
    if (!engine->exchange) {
        int64_t most = KM_TOTAL_DIGITS * engine->sums_count + 2 * slots + 1;
        engine->exchange = malloc((size_t)most * sizeof *engine->exchange);
        if (!engine->exchange) return km_fail_memory(err, "the totals of ranks", most * 8);
    }
    double *values = engine->exchange, *counts = values + digits;
    memcpy(values, first->digits, (size_t)digits * sizeof *values);
    for (int64_t a = 1; a < engine->accumulators_count; a++) {
        cpu_accumulator *from = &engine->accumulators[a];
        for (int64_t i = 0; i < digits; i++) values[i] += from->digits[i];
        memset(from->digits, 0, (size_t)digits * sizeof *values);
    }
    int64_t count = 0;
    for (int64_t s = 0; s < slots; s++) {
        if (!km_slot_is_active(engine->slots[s].state.phase)) continue;
        double *own = counts + count;
        own[0] = own[1] = 0;
        for (int64_t a = 0; a < engine->accumulators_count; a++) {
            own[0] += (double)engine->accumulators[a].counts[s].changed;
            own[1] += (double)engine->accumulators[a].counts[s].resolved;
            engine->accumulators[a].counts[s] = (cpu_counts){0, 0};
        }
        count += 2;
    }
    KM_TRY(km_share_sum_in_room(engine->base.share, values, digits + count, err));
    engine->counters.exchanges++;
    engine->counters.exchanged_bytes += (digits + count) * (int64_t)sizeof *values;
    memcpy(first->digits, values, (size_t)digits * sizeof *values);
    for (int64_t s = 0; s < slots; s++) {
        if (!km_slot_is_active(engine->slots[s].state.phase)) continue;
        first->counts[s] = (cpu_counts){(int64_t)counts[0], (int64_t)counts[1]};
        counts += 2;
    }
    return KM_OK;
}

void km_cpu_totals_join(cpu_engine *engine, int64_t index) {
    cpu_slot *slot = &engine->slots[index];
    int64_t count = slot->k * engine->pitch, begin = digits_before(engine, index);
    if (slot->mode != KM_CPU_MOVE) {
        if (!slot->sums_by_owner) memset(slot->digits, 0, (size_t)(KM_TOTAL_DIGITS * count) * sizeof(double));
        memset(slot->totals, 0, (size_t)count * sizeof *slot->totals);
    }
    slot->changed = slot->resolved = 0;
    for (int64_t a = 0; a < engine->accumulators_count; a++) {
        cpu_accumulator *from = &engine->accumulators[a];
        double *digits = from->digits + begin;
        slot->changed += from->counts[index].changed;
        slot->resolved += from->counts[index].resolved;
        if (changes_sums(slot, from->counts[index].changed)) {
            for (int64_t i = 0; i < KM_TOTAL_DIGITS * count; i++) slot->digits[i] += digits[i];
            memset(digits, 0, (size_t)(KM_TOTAL_DIGITS * count) * sizeof *digits);
        }
        from->counts[index] = (cpu_counts){0, 0};
    }
    if (changes_sums(slot, slot->changed))
        totals_read(slot->totals, slot->digits, count, engine->rounders, engine->pitch);
}

// A cluster that lost its last point that weighs starts again from exact zeros.
void km_cpu_totals_tidy(const cpu_engine *engine, cpu_slot *slot) {
    int64_t pitch = engine->pitch, bytes = pitch * (int64_t)sizeof *slot->totals;
    for (int64_t j = 0; j < slot->k; j++) {
        if (slot->totals[j * pitch + engine->base.d + 1] != 0) continue;
        memset(slot->totals + j * pitch, 0, (size_t)bytes);
        for (int64_t i = 0; slot->digits && i < KM_TOTAL_DIGITS; i++)
            memset(slot->digits + (i * slot->k + j) * pitch, 0, (size_t)bytes);
    }
}

void km_cpu_accumulators_free(cpu_engine *engine) {
    for (int64_t a = 0; engine->accumulators && a < engine->accumulators_count; a++) {
        free(engine->accumulators[a].digits);
        free(engine->accumulators[a].counts);
    }
    free(engine->accumulators);
    free(engine->rounders);
    free(engine->exchange);
}

km_status km_cpu_accumulators_create(cpu_engine *engine, km_error *err) {
    int64_t count = engine->accumulators_count, digits = KM_TOTAL_DIGITS * engine->sums_count + 1;
    engine->accumulators = calloc((size_t)count, sizeof *engine->accumulators);
    if (!engine->accumulators) return km_fail_memory(err, "totals of threads", count * 64);
    for (int64_t a = 0; a < count; a++) {
        cpu_accumulator *accumulator = &engine->accumulators[a];
        atomic_flag_clear(&accumulator->is_taken);
        accumulator->digits = calloc((size_t)digits, sizeof *accumulator->digits);
        accumulator->counts = calloc((size_t)engine->base.slots_count, sizeof *accumulator->counts);
        if (!accumulator->digits || !accumulator->counts)
            return km_fail_memory(err, "totals of threads", count * digits * (int64_t)sizeof(double));
    }
    return KM_OK;
}

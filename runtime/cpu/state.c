// SPDX-License-Identifier: MIT
// What an engine keeps of its points and slots: rows, tables of centroids.
#include "cpu.h"
#include "layout.h"
#include <math.h>

void km_cpu_row(double *out, const cpu_engine *engine, int64_t point) {
    engine->layout->row(out, engine, point);
}

static void table_put(void *table, km_type type, int64_t at, double value) {
    if (type == KM_FLOAT32)
        ((float *)table)[at] = (float)value;
    else
        ((double *)table)[at] = value;
}

void km_cpu_table(void *table, const double *centroids, int64_t k, int64_t d, km_type type) {
    for (int64_t j = 0; j < k; j++) {
        double square = 0;
        for (int64_t f = 0; f < d; f++) {
            square += centroids[j * d + f] * centroids[j * d + f];
            table_put(table, type, j * (d + 1) + f, centroids[j * d + f]);
        }
        table_put(table, type, j * (d + 1) + d, -0.5 * square);
    }
}

void km_cpu_table_end(void *table, int64_t k, int64_t d, km_type type) {
    for (int64_t j = k; j < KM_CPU_TABLE_ROWS(k); j++)
        for (int64_t f = 0; f <= d; f++) table_put(table, type, j * (d + 1) + f, f < d ? 0 : -HUGE_VAL);
}

void km_cpu_slot_tables(const cpu_engine *engine, cpu_slot *slot) {
    int64_t d = engine->base.d;
    if (!slot->table) return; // points that lie as CSR: one table for all slots, before each pass
    km_cpu_table(slot->table, slot->centroids, slot->k, d, engine->base.plan->spec.type);
    if (!slot->int16_table) return;
    slot->margin = km_cpu_int16_table(slot->int16_table, (const float *)slot->table, slot->k, d,
                                      engine->int16_scales, engine->norm_max);
    km_cpu_table_columns(slot->columns, (const float *)slot->table, slot->k, d);
}

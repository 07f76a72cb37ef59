// SPDX-License-Identifier: MIT
// Labels of an SoA group, read from and written to where the slot keeps them.

//@ if labels_32bit
// Labels are kept in 1, 2 or 4 bytes, by the slot's k.
KM_TARGET static void km_labels_get(km_index *out, const km_cpu_slot *slot, int64_t first) {
    if (slot->labels_bytes == 1)
        for (int i = 0; i < SOA_POINTS; i++) out[i] = ((const uint8_t *)slot->labels)[first + i];
    else if (slot->labels_bytes == 2)
        for (int i = 0; i < SOA_POINTS; i++) out[i] = ((const uint16_t *)slot->labels)[first + i];
    else
        for (int i = 0; i < SOA_POINTS; i++) out[i] = ((const int32_t *)slot->labels)[first + i];
}

KM_TARGET static void km_labels_put(km_cpu_slot *slot, int64_t first, const km_index *labels) {
    if (slot->labels_bytes == 1)
        for (int i = 0; i < SOA_POINTS; i++) ((uint8_t *)slot->labels)[first + i] = (uint8_t)labels[i];
    else if (slot->labels_bytes == 2)
        for (int i = 0; i < SOA_POINTS; i++) ((uint16_t *)slot->labels)[first + i] = (uint16_t)labels[i];
    else
        for (int i = 0; i < SOA_POINTS; i++) ((int32_t *)slot->labels)[first + i] = (int32_t)labels[i];
}
//@ else
KM_TARGET static void km_labels_get(km_index *out, const km_cpu_slot *slot, int64_t first) {
    memcpy(out, (const km_index *)slot->labels + first, SOA_POINTS);
}

KM_TARGET static void km_labels_put(km_cpu_slot *slot, int64_t first, const km_index *labels) {
    memcpy((km_index *)slot->labels + first, labels, SOA_POINTS);
}
//@ end

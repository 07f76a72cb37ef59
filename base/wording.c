// SPDX-License-Identifier: MIT
#include "wording.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static atomic_int is_of_python;

void km_wording_of_python(int wanted) {
    atomic_store_explicit(&is_of_python, wanted, memory_order_relaxed);
}

const char *km_say(km_wording wording) {
    static const char *const words[KM_WORDING_COUNT][2] = {
#define KM_WORDING_ROW(name, program, python) {program, python},
        KM_WORDINGS(KM_WORDING_ROW)
#undef KM_WORDING_ROW
    };
    return words[wording][atomic_load_explicit(&is_of_python, memory_order_relaxed) != 0];
}

const char *km_say_with(char buffer[KM_SAY_SIZE], km_wording wording, const char *value) {
    const char *words = km_say(wording), *hole = strstr(words, "%s");
    int before = (int)(hole ? hole - words : (long)strlen(words));
    snprintf(buffer, KM_SAY_SIZE, "%.*s%s%s", before, words, hole ? value : "", hole ? hole + 2 : "");
    return buffer;
}

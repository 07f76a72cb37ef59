// SPDX-License-Identifier: MIT
// From bytes to a saved model: refused with a reason, or used to predict. Each input is read as it is, and with the
// checksum that docs/model.md gives it, so that what lies behind the checksum is reached too.
#include "fuzz.h"

#include <kmgen/model.h>

#include <endian.h>
#include <jansson.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

enum { POINTS = 3, FEATURES_MAX = 64 };

int64_t fuzz_accepted;

static void predict(const km_predictor *predictor) {
    static const double values[POINTS * FEATURES_MAX] = {1, -2, 3e30, 0.5, 7};
    int32_t labels[POINTS] = {-1, -1, -1};
    km_error err = {{0}};
    km_data *data = NULL;
    km_fit_params params;
    int64_t d = km_predictor_features(predictor), k = km_predictor_clusters(predictor);
    must(d >= 1 && k >= 1, "a model without a shape");
    if (d > FEATURES_MAX) return;
    km_fit_params_init(&params);
    params.device = KM_HOST;
    params.threads = 1;
    must(km_data_from_memory(&data, values, POINTS, d, KM_FLOAT64, 0, 0, NULL, &err) == KM_OK, "no points");
    km_status status = km_predict(labels, predictor, data, &params, &err);
    must(status == KM_OK || err.text[0], "prediction was refused without a reason");
    for (int i = 0; status == KM_OK && i < POINTS; i++)
        must(labels[i] >= 0 && labels[i] < k, "no such cluster");
    km_data_destroy(&data);
}

static int64_t read_model(const void *bytes, size_t size) {
    char path[64];
    km_error err = {{0}};
    km_predictor *predictor = NULL;
    int fd = memfd_create("model", 0);
    must(fd >= 0 && write(fd, bytes, size) == (ssize_t)size, "no file in memory");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    km_status status = km_predictor_read(&predictor, path, &err);
    must((status == KM_OK) == (predictor != NULL), "status and model disagree");
    must(status == KM_OK || err.text[0], "a file was refused without a reason");
    must(status != KM_ERROR_INTERNAL, "a file was refused by a bug");
    if (predictor) predict(predictor);
    km_predictor_destroy(&predictor);
    close(fd);
    return status == KM_OK;
}

// Numbers of an array, of its arrays, and so on.
static void hash_numbers(XXH3_state_t *state, const json_t *value) {
    double number = json_number_value(value);
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    bits = htole64(bits);
    if (json_is_number(value)) XXH3_64bits_update(state, &bits, sizeof bits);
    for (size_t i = 0; i < json_array_size(value); i++) hash_numbers(state, json_array_get(value, i));
}

static void hash_word(XXH3_state_t *state, int64_t value) {
    uint64_t word = htole64((uint64_t)value);
    XXH3_64bits_update(state, &word, sizeof word);
}

static int64_t index_of(const json_t *text, const char *const *words) {
    int64_t i = 0;
    while (words[i] && json_is_string(text) && strcmp(words[i], json_string_value(text)) != 0) i++;
    return i;
}

// The model with the right checksum, or NULL where the bytes are no JSON object.
static char *repair(const uint8_t *bytes, size_t size) {
    static const char *const types[] = {"float32", "float64", NULL};
    static const char *const scales[] = {"none", "standard", "minmax", "robust", "unit", NULL};
    static const char *const numbers[] = {"inertia", "centre", "factor", "centroids_fitted", "centroids"};
    char checksum[24];
    json_t *root = json_loadb((const char *)bytes, size, 0, NULL);
    XXH3_state_t *state = XXH3_createState();
    must(state != NULL, "no memory");
    XXH3_64bits_reset(state);
    hash_word(state, 1);
    hash_word(state, index_of(json_object_get(root, "type"), types));
    hash_word(state, index_of(json_object_get(root, "scale"), scales));
    hash_word(state, json_integer_value(json_object_get(root, "d")));
    hash_word(state, json_integer_value(json_object_get(root, "k")));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        hash_numbers(state, json_object_get(root, numbers[i]));
    const json_t *names = json_object_get(root, "feature_names");
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (name) XXH3_64bits_update(state, name, strlen(name) + 1);
    }
    snprintf(checksum, sizeof checksum, "xxh3:%016llx", (unsigned long long)XXH3_64bits_digest(state));
    XXH3_freeState(state);
    char *text = NULL;
    if (json_object_set_new(root, "checksum", json_string(checksum)) == 0)
        text = json_dumps(root, JSON_REAL_PRECISION(17));
    json_decref(root);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    read_model(bytes, size);
    char *text = repair(bytes, size);
    if (text) fuzz_accepted += read_model(text, strlen(text));
    free(text);
    return 0;
}

// SPDX-License-Identifier: MIT
// Saved models: a JSON file that is read back to the same bits, or refused.
#include "predictor.h"
#include "../base/error.h"
#include "file.h"
#include "json.h"

#include <endian.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define FORMAT_NAME "kmgen model"
// 2: features are made of columns by more than reading numbers (`preparation`), which version 1 does not know of.
#define FORMAT_VERSION 2
#define FILE_BYTES_MAX ((int64_t)1 << 32)

static const char *const scale_names[KM_SCALE_COUNT] = {"none", "standard", "minmax", "robust", "unit"};
static const char *const type_names[] = {"float32", "float64"};

// Memory ----------------------------------------------------------------------------------------------------

static km_status predictor_alloc(km_predictor **out, int64_t d, int64_t k, int has_names, km_error *err) {
    int64_t values = 2 * d + 2 * k * d; // at most 2^49: no overflow
    km_predictor *predictor = *out = calloc(1, sizeof *predictor);
    if (!predictor) return km_fail_memory(err, "the model", sizeof *predictor);
    predictor->d = d;
    predictor->k = k;
    predictor->centre = malloc((size_t)values * sizeof(double));
    if (!predictor->centre) return km_fail_memory(err, "the model", values * (int64_t)sizeof(double));
    predictor->factor = predictor->centre + d;
    predictor->centroids_fitted = predictor->factor + d;
    predictor->centroids = predictor->centroids_fitted + k * d;
    if (!has_names) return KM_OK;
    predictor->feature_names = calloc((size_t)d, sizeof *predictor->feature_names);
    if (!predictor->feature_names) return km_fail_memory(err, "the model", d * (int64_t)sizeof(char *));
    return KM_OK;
}

void km_predictor_destroy(km_predictor **predictor) {
    km_predictor *s = *predictor;
    if (!s) return;
    for (int64_t f = 0; s->feature_names && f < s->d; f++) free(s->feature_names[f]);
    for (int64_t f = 0; s->prepared && f < s->d; f++) {
        free((char *)s->prepared[f].column);
        free((char *)s->prepared[f].category);
    }
    free(s->prepared);
    free(s->feature_names);
    free(s->centre); // and all that lies behind it
    free(s);
    *predictor = NULL;
}

int64_t km_predictor_features(const km_predictor *predictor) {
    return predictor->d;
}

int64_t km_predictor_clusters(const km_predictor *predictor) {
    return predictor->k;
}

int32_t km_predictor_clustered(const km_predictor *predictor) {
    return predictor->clustered;
}

const char *const *km_predictor_feature_names(const km_predictor *predictor) {
    return (const char *const *)predictor->feature_names;
}

const km_feature *km_predictor_preparation(const km_predictor *predictor) {
    return predictor->prepared;
}

// The version that a predictor is written in.
static int version_of(const km_predictor *predictor) {
    return predictor->prepared ? 2 : 1;
}

// Checksum --------------------------------------------------------------------------------------------------

static void hash_integer(XXH3_state_t *state, uint64_t value) {
    uint64_t bytes = htole64(value);
    XXH3_64bits_update(state, &bytes, sizeof bytes);
}

static void hash_text(XXH3_state_t *state, const char *text) {
    XXH3_64bits_update(state, text ? text : "", strlen(text ? text : "") + 1);
}

static void hash_reals(XXH3_state_t *state, const double *values, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        hash_integer(state, bits);
    }
}

// XXH3 over the numbers in their order in the file as 64-bit little-endian words, then the names with a zero
// after each.
static km_status checksum_of(char text[24], const km_predictor *predictor, km_error *err) {
    XXH3_state_t *state = XXH3_createState();
    if (!state) return km_fail_memory(err, "a checksum", sizeof(void *));
    XXH3_64bits_reset(state);
    hash_integer(state, (uint64_t)version_of(predictor));
    hash_integer(state, predictor->type);
    hash_integer(state, predictor->scale);
    hash_integer(state, (uint64_t)predictor->d);
    hash_integer(state, (uint64_t)predictor->k);
    hash_reals(state, &predictor->inertia, 1);
    hash_reals(state, predictor->centre, predictor->d);
    hash_reals(state, predictor->factor, predictor->d);
    hash_reals(state, predictor->centroids_fitted, predictor->k * predictor->d);
    hash_reals(state, predictor->centroids, predictor->k * predictor->d);
    for (int64_t f = 0; predictor->feature_names && f < predictor->d; f++)
        XXH3_64bits_update(state, predictor->feature_names[f], strlen(predictor->feature_names[f]) + 1);
    if (predictor->layout == KM_LAYOUT_CSR) hash_integer(state, KM_LAYOUT_CSR);
    if (predictor->scale != KM_SCALE_NONE && predictor->has_exponent)
        hash_integer(state, (uint64_t)(int64_t)predictor->exponent);
    for (int64_t f = 0; predictor->prepared && f < predictor->d; f++) {
        const km_feature *feature = &predictor->prepared[f];
        hash_integer(state, feature->kind);
        hash_reals(state, &feature->fill, !isnan(feature->fill));
        hash_text(state, feature->column);
        hash_text(state, feature->category);
    }
    snprintf(text, 24, "xxh3:%016llx", (unsigned long long)XXH3_64bits_digest(state));
    XXH3_freeState(state);
    return KM_OK;
}

// Writing ---------------------------------------------------------------------------------------------------

static int all_finite(const double *values, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(values[i])) return 0;
    }
    return 1;
}

static int numbers_finite(const km_predictor *s) {
    return isfinite(s->inertia) && all_finite(s->centre, s->d) && all_finite(s->factor, s->d) &&
           all_finite(s->centroids_fitted, s->k * s->d) && all_finite(s->centroids, s->k * s->d);
}

static km_status copy_name(const char **out, const char *text, km_error *err) {
    char *copy = NULL;
    KM_TRY(km_json_name(&copy, text, err));
    *out = copy;
    return KM_OK;
}

// A feature with texts of its own, as they can stand in JSON.
static km_status copy_feature(km_feature *to, const km_feature *from, km_error *err) {
    *to = (km_feature){.kind = from->kind, .fill = from->fill};
    if (from->column) KM_TRY(copy_name(&to->column, from->column, err));
    return from->category ? copy_name(&to->category, from->category, err) : KM_OK;
}

static km_status copy_preparation(km_predictor *predictor, const km_feature *from, km_error *err) {
    int64_t d = predictor->d;
    if (!from) return KM_OK;
    predictor->prepared = calloc((size_t)d, sizeof *predictor->prepared);
    if (!predictor->prepared) return km_fail_memory(err, "the model", d * (int64_t)sizeof *from);
    for (int64_t f = 0; f < d; f++) KM_TRY(copy_feature(&predictor->prepared[f], &from[f], err));
    return KM_OK;
}

static km_status predictor_from_result(km_predictor **out, const km_result *result, const km_model *model,
                                       km_error *err) {
    int64_t d = result->d, k = model->k;
    KM_TRY(predictor_alloc(out, d, k, result->feature_names != NULL, err));
    km_predictor *predictor = *out;
    predictor->type = result->type;
    predictor->scale = result->scale;
    predictor->layout = km_plan_layout(&result->plan);
    predictor->inertia = model->inertia;
    predictor->clustered = result->selection.clustered != 0;
    predictor->exponent = result->exponent;
    predictor->has_exponent = 1;
    memcpy(predictor->centre, result->centre, (size_t)d * sizeof(double));
    // With the power of two that the kernels saw, so that new points are rounded as those of the fit were.
    for (int64_t f = 0; f < d; f++) predictor->factor[f] = ldexp(result->factor[f], result->exponent);
    for (int64_t i = 0; i < k * d; i++)
        predictor->centroids_fitted[i] = ldexp(model->centroids_fitted[i], result->exponent);
    memcpy(predictor->centroids, model->centroids, (size_t)(k * d) * sizeof(double));
    for (int64_t f = 0; predictor->feature_names && f < d; f++)
        KM_TRY(km_json_name(&predictor->feature_names[f],
                            result->feature_names[f] ? result->feature_names[f] : "", err));
    return copy_preparation(predictor, result->prepared, err);
}

// By their order in km_column_kind, those that features have.
static const char *const kind_names[] = {"number", "", "yes/no", "category", "date"};
enum { KINDS_COUNT = sizeof kind_names / sizeof *kind_names };

static json_t *preparation_to_json(const km_predictor *predictor) {
    json_t *array = json_array();
    for (int64_t f = 0; array && f < predictor->d; f++) {
        const km_feature *feature = &predictor->prepared[f];
        json_t *object = json_object();
        int failed = json_object_set_new(object, "kind", json_string(kind_names[feature->kind]));
        if (feature->column) failed |= json_object_set_new(object, "column", json_string(feature->column));
        if (feature->category)
            failed |= json_object_set_new(object, "category", json_string(feature->category));
        if (!isnan(feature->fill)) failed |= json_object_set_new(object, "fill", km_json_real(feature->fill));
        if (failed) json_decref(object);
        if (!failed && json_array_append_new(array, object) == 0) continue;
        json_decref(array);
        return NULL;
    }
    return array;
}

static json_t *names_to_json(const km_predictor *predictor) {
    if (!predictor->feature_names) return json_null();
    json_t *names = json_array();
    for (int64_t f = 0; names && f < predictor->d; f++) {
        if (json_array_append_new(names, json_string(predictor->feature_names[f])) == 0) continue;
        json_decref(names);
        return NULL;
    }
    return names;
}

static km_status predictor_to_text(char **out, const km_predictor *predictor, km_error *err) {
    char checksum[24];
    KM_TRY(checksum_of(checksum, predictor, err));
    json_t *root = json_object();
    int failed = 0;
    failed |= json_object_set_new(root, "format", json_string(FORMAT_NAME));
    failed |= json_object_set_new(root, "format_version", json_integer(version_of(predictor)));
    failed |= json_object_set_new(root, "kmgen", json_string(km_version()));
    failed |= json_object_set_new(root, "type", json_string(type_names[predictor->type]));
    failed |= json_object_set_new(root, "scale", json_string(scale_names[predictor->scale]));
    if (predictor->layout == KM_LAYOUT_CSR)
        failed |= json_object_set_new(root, "layout", json_string(km_layout_name(predictor->layout)));
    if (predictor->scale != KM_SCALE_NONE)
        failed |= json_object_set_new(root, "exponent", json_integer(predictor->exponent));
    failed |= json_object_set_new(root, "d", json_integer(predictor->d));
    failed |= json_object_set_new(root, "k", json_integer(predictor->k));
    failed |= json_object_set_new(root, "feature_names", names_to_json(predictor));
    if (predictor->prepared)
        failed |= json_object_set_new(root, "preparation", preparation_to_json(predictor));
    failed |= json_object_set_new(root, "inertia", json_real(predictor->inertia));
    failed |= json_object_set_new(root, "centre", km_json_reals(predictor->centre, predictor->d));
    failed |= json_object_set_new(root, "factor", km_json_reals(predictor->factor, predictor->d));
    failed |= json_object_set_new(root, "centroids_fitted",
                                  km_json_rows(predictor->centroids_fitted, predictor->k, predictor->d));
    failed |= json_object_set_new(root, "centroids",
                                  km_json_rows(predictor->centroids, predictor->k, predictor->d));
    failed |= json_object_set_new(root, "clustered", json_boolean(predictor->clustered));
    failed |= json_object_set_new(root, "checksum", json_string(checksum));
    km_status status = failed ? km_fail_memory(err, "the model's text", predictor->k * predictor->d * 64)
                              : km_json_text(out, root, err);
    json_decref(root);
    return status;
}

km_status km_predictor_create(km_predictor **out, const km_result *result, int64_t model_index,
                              km_error *err) {
    *out = NULL;
    if (model_index < 0 || model_index >= result->models_count)
        return km_fail(err, KM_ERROR_USAGE, "model %lld does not exist: the result has models 0..%lld",
                       (long long)model_index, (long long)result->models_count - 1);
    km_status status = predictor_from_result(out, result, &result->models[model_index], err);
    if (status == KM_OK && !numbers_finite(*out))
        status = km_fail(err, KM_ERROR_DATA,
                         "the model of K = %lld cannot be kept: a number of it is not finite; scale the data "
                         "down, or fit in float64",
                         (long long)(*out)->k);
    if (status != KM_OK) km_predictor_destroy(out);
    return status;
}

km_status km_predictor_to_json(char **out, const km_predictor *predictor, km_error *err) {
    *out = NULL;
    return predictor_to_text(out, predictor, err);
}

km_status km_predictor_write(const char *path, const km_result *result, int64_t model_index, km_error *err) {
    km_predictor *predictor = NULL;
    char *text = NULL;
    km_status status;
    KM_TRY_GOTO(km_predictor_create(&predictor, result, model_index, err));
    KM_TRY_GOTO(predictor_to_text(&text, predictor, err));
    status = km_file_write(path, text, (int64_t)strlen(text), err);
done:
    km_text_free(text);
    km_predictor_destroy(&predictor);
    return status;
}

// Reading ---------------------------------------------------------------------------------------------------

typedef struct reader {
    const char *path;
    json_t *root;
    km_error *err;
} reader;

static km_status damaged(const reader *r, const char *what) {
    return km_fail(
        r->err, KM_ERROR_DATA,
        "%s is a damaged kmgen model: %s; write it again with `kmgen fit --model`, or take a good copy",
        r->path, what);
}

static km_status damaged_key(const reader *r, const char *key) {
    char what[64];
    snprintf(what, sizeof what, "\"%s\" is missing or wrong", key);
    return damaged(r, what);
}

static km_status parse(reader *r, const char *text, int64_t size) {
    json_error_t error;
    r->root = json_loadb(text, (size_t)size, JSON_REJECT_DUPLICATES, &error);
    if (r->root) return KM_OK;
    // What begins as our file does and ends too early was cut short; all else is another kind of file.
    if (memmem(text, (size_t)size, "\"" FORMAT_NAME "\"", strlen("\"" FORMAT_NAME "\""))) {
        char what[sizeof error.text + 40];
        snprintf(what, sizeof what, "line %d: %s", error.line, error.text);
        return damaged(r, what);
    }
    return km_fail(r->err, KM_ERROR_DATA,
                   "%s is no kmgen model: %s; give a file that `kmgen fit --model` wrote", r->path,
                   size == 0 ? "it is empty" : "it is not JSON");
}

static km_status check_format(const reader *r) {
    const char *format = json_string_value(json_object_get(r->root, "format"));
    if (!format || strcmp(format, FORMAT_NAME) != 0)
        return km_fail(r->err, KM_ERROR_DATA,
                       "%s is no kmgen model: it has no \"format\": \"" FORMAT_NAME "\"; give a file that "
                       "`kmgen fit --model` wrote",
                       r->path);
    const json_t *version = json_object_get(r->root, "format_version");
    if (!json_is_integer(version) || json_integer_value(version) < 1) return damaged_key(r, "format_version");
    if (json_integer_value(version) <= FORMAT_VERSION) return KM_OK;
    const char *writer = json_string_value(json_object_get(r->root, "kmgen"));
    return km_fail(
        r->err, KM_ERROR_DATA,
        "%s has model format %lld (kmgen %.20s) but kmgen %s reads up to %d; update kmgen, or fit again "
        "with this one",
        r->path, (long long)json_integer_value(version), writer ? writer : "unknown", km_version(),
        FORMAT_VERSION);
}

static km_status get_size(int64_t *out, const reader *r, const char *key, int64_t max) {
    const json_t *value = json_object_get(r->root, key);
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= 1 && *out <= max ? KM_OK : damaged_key(r, key);
}

// The index of the key's text among `names`.
static km_status get_choice(int *out, const reader *r, const char *key, const char *const *names, int count) {
    const char *text = json_string_value(json_object_get(r->root, key));
    for (*out = 0; text && *out < count; ++*out) {
        if (strcmp(text, names[*out]) == 0) return KM_OK;
    }
    return damaged_key(r, key);
}

static int to_reals(double *out, const json_t *array, int64_t count) {
    if (!json_is_array(array) || (int64_t)json_array_size(array) != count) return 0;
    for (int64_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(array, (size_t)i);
        if (!json_is_number(value)) return 0;
        out[i] = json_number_value(value);
    }
    return 1;
}

static km_status get_reals(double *out, const reader *r, const char *key, int64_t count) {
    return to_reals(out, json_object_get(r->root, key), count) ? KM_OK : damaged_key(r, key);
}

static km_status get_rows(double *out, const reader *r, const char *key, int64_t rows, int64_t columns) {
    const json_t *table = json_object_get(r->root, key);
    if (!json_is_array(table) || (int64_t)json_array_size(table) != rows) return damaged_key(r, key);
    for (int64_t i = 0; i < rows; i++) {
        if (!to_reals(out + i * columns, json_array_get(table, (size_t)i), columns))
            return damaged_key(r, key);
    }
    return KM_OK;
}

static km_status get_names(km_predictor *predictor, const reader *r) {
    const json_t *names = json_object_get(r->root, "feature_names");
    for (int64_t f = 0; predictor->feature_names && f < predictor->d; f++) {
        const char *name = json_string_value(json_array_get(names, (size_t)f));
        if (!name) return damaged_key(r, "feature_names");
        KM_TRY(km_json_name(&predictor->feature_names[f], name, r->err));
    }
    return KM_OK;
}

static km_status get_feature(km_feature *out, const json_t *object, const reader *r) {
    km_feature feature = {json_string_value(json_object_get(object, "column")),
                          json_string_value(json_object_get(object, "category")), KM_COLUMN_NUMBER, NAN};
    const json_t *fill = json_object_get(object, "fill");
    const char *kind = json_string_value(json_object_get(object, "kind"));
    int found = 0;
    while (kind && found < KINDS_COUNT && strcmp(kind, kind_names[found]) != 0) found++;
    int is_category = found == KM_COLUMN_CATEGORY;
    if (!kind || !*kind || found == KINDS_COUNT || (fill && !json_is_number(fill)) ||
        is_category != (feature.category != NULL) || (found != KM_COLUMN_NUMBER && !feature.column))
        return damaged_key(r, "preparation");
    feature.kind = (km_column_kind)found;
    if (fill) feature.fill = json_number_value(fill);
    return copy_feature(out, &feature, r->err);
}

static km_status get_preparation(km_predictor *predictor, const reader *r) {
    const json_t *array = json_object_get(r->root, "preparation");
    int64_t d = predictor->d;
    if (!array) return KM_OK;
    if (!json_is_array(array) || (int64_t)json_array_size(array) != d) return damaged_key(r, "preparation");
    predictor->prepared = calloc((size_t)d, sizeof *predictor->prepared);
    if (!predictor->prepared) return km_fail_memory(r->err, "the model", d * (int64_t)sizeof(km_feature));
    for (int64_t f = 0; f < d; f++)
        KM_TRY(get_feature(&predictor->prepared[f], json_array_get(array, (size_t)f), r));
    return KM_OK;
}

static km_status get_sizes(km_predictor **out, const reader *r) {
    int64_t d, k;
    KM_TRY(get_size(&d, r, "d", KM_FEATURES_MAX));
    KM_TRY(get_size(&k, r, "k", KM_CLUSTERS_MAX));
    // Checked before memory is taken for what the file claims.
    const json_t *names = json_object_get(r->root, "feature_names");
    if (!json_is_null(names) && (int64_t)json_array_size(names) != d) return damaged_key(r, "feature_names");
    if ((int64_t)json_array_size(json_object_get(r->root, "centre")) != d) return damaged_key(r, "centre");
    if ((int64_t)json_array_size(json_object_get(r->root, "centroids")) != k)
        return damaged_key(r, "centroids");
    return predictor_alloc(out, d, k, !json_is_null(names), r->err);
}

// Without a scale the factor is the power of two itself; files of before that were written by one lack the key.
static km_status get_exponent(km_predictor *predictor, const reader *r) {
    enum { LARGEST = 2200 };
    const json_t *exponent = json_object_get(r->root, "exponent");
    predictor->has_exponent = exponent || predictor->scale == KM_SCALE_NONE;
    if (predictor->scale == KM_SCALE_NONE)
        predictor->exponent = predictor->factor[0] > 0 ? ilogb(predictor->factor[0]) : 0;
    if (!exponent) return KM_OK;
    if (!json_is_integer(exponent) || llabs(json_integer_value(exponent)) > LARGEST)
        return damaged_key(r, "exponent");
    predictor->exponent = (int)json_integer_value(exponent);
    return KM_OK;
}

static km_status get_numbers(km_predictor *predictor, const reader *r) {
    int type, scale;
    KM_TRY(get_choice(&type, r, "type", type_names, 2));
    KM_TRY(get_choice(&scale, r, "scale", scale_names, KM_SCALE_COUNT));
    predictor->type = (km_type)type;
    predictor->scale = (km_scale)scale;
    const char *layout = json_string_value(json_object_get(r->root, "layout"));
    predictor->layout = KM_LAYOUT_DENSE;
    if (layout && strcmp(layout, km_layout_name(KM_LAYOUT_CSR)) == 0)
        predictor->layout = KM_LAYOUT_CSR;
    else if (json_object_get(r->root, "layout"))
        return damaged_key(r, "layout");
    const json_t *inertia = json_object_get(r->root, "inertia");
    if (!json_is_number(inertia)) return damaged_key(r, "inertia");
    predictor->inertia = json_number_value(inertia);
    // Files written before there was this key lack it.
    const json_t *clustered = json_object_get(r->root, "clustered");
    if (clustered && !json_is_boolean(clustered)) return damaged_key(r, "clustered");
    predictor->clustered = !clustered || json_is_true(clustered);
    KM_TRY(get_reals(predictor->centre, r, "centre", predictor->d));
    KM_TRY(get_reals(predictor->factor, r, "factor", predictor->d));
    KM_TRY(get_exponent(predictor, r));
    KM_TRY(get_rows(predictor->centroids_fitted, r, "centroids_fitted", predictor->k, predictor->d));
    return get_rows(predictor->centroids, r, "centroids", predictor->k, predictor->d);
}

static km_status check_checksum(const km_predictor *predictor, const reader *r) {
    char expected[24];
    const char *stored = json_string_value(json_object_get(r->root, "checksum"));
    if (!stored) return damaged_key(r, "checksum");
    KM_TRY(checksum_of(expected, predictor, r->err));
    return strcmp(stored, expected) == 0 ? KM_OK : damaged(r, "its numbers do not match its checksum");
}

km_status km_predictor_parse(km_predictor **out, const char *text, int64_t size, const char *path,
                             km_error *err) {
    reader r = {.path = path, .err = err};
    km_predictor *predictor = *out = NULL;
    km_status status;
    if (size < 0)
        return km_fail(err, KM_ERROR_USAGE, "%s: a text cannot have %lld bytes", path, (long long)size);
    KM_TRY_GOTO(parse(&r, text, size));
    KM_TRY_GOTO(check_format(&r));
    KM_TRY_GOTO(get_sizes(&predictor, &r));
    KM_TRY_GOTO(get_numbers(predictor, &r));
    KM_TRY_GOTO(get_names(predictor, &r));
    KM_TRY_GOTO(get_preparation(predictor, &r));
    KM_TRY_GOTO(check_checksum(predictor, &r));
    *out = predictor;
    predictor = NULL;
done:
    km_predictor_destroy(&predictor);
    json_decref(r.root);
    return status;
}

km_status km_predictor_read(km_predictor **out, const char *path, km_error *err) {
    char *text;
    int64_t size;
    *out = NULL;
    KM_TRY(km_file_read(&text, &size, path, FILE_BYTES_MAX, err));
    km_status status = km_predictor_parse(out, text, size, path, err);
    km_text_free(text);
    return status;
}

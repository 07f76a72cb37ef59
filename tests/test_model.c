// SPDX-License-Identifier: MIT
// Saved models: read back to the same bits, and every kind of bad file refused with a way out.
#include "../runtime/file.h"
#include "../runtime/predictor.h"
#include "sample_result.h"

#include "quiet_check.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64], path[96];
static sample *s;
static char *text; // of a good file of K = 3
static int64_t text_size;

static void begin(void) {
    strcpy(folder, "/tmp/kmgen-test-model-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/model.json", folder);
    s = sample_make(2, 1, 3, 4);
    ck_assert_int_eq(km_predictor_write(path, &s->result, 1, NULL), KM_OK);
    ck_assert_int_eq(km_file_read(&text, &text_size, path, 0, NULL), KM_OK);
}

static void end(void) {
    km_text_free(text);
    sample_free(s);
    unlink(path);
    ck_assert_int_eq(rmdir(folder), 0); // nothing else was left behind
}

static void assert_same_bits(const double *a, const double *b, int64_t count) {
    ck_assert_int_eq(memcmp(a, b, (size_t)count * sizeof *a), 0);
}

START_TEST(round_trip) {
    km_predictor *predictor;
    km_error err = {""};
    const km_model *model = &s->models[1];
    s->result.type = _i & 1 ? KM_FLOAT64 : KM_FLOAT32;
    s->result.selection.clustered = _i != 2;
    s->result.scale = (km_scale)(_i % 3);
    s->result.feature_names = _i & 2 ? s->names : NULL;
    s->names[3] = _i == 3 ? "caf\xe9" : NULL; // Latin-1; no name
    ck_assert_int_eq(km_predictor_write(path, &s->result, 1, &err), KM_OK);
    ck_assert_msg(km_predictor_read(&predictor, path, &err) == KM_OK, "%s", err.text);
    ck_assert_int_eq(km_predictor_features(predictor), 4);
    ck_assert_int_eq(km_predictor_clusters(predictor), 3);
    ck_assert_int_eq(km_predictor_clustered(predictor), _i != 2);
    ck_assert_int_eq(predictor->type, s->result.type);
    ck_assert_int_eq(predictor->scale, s->result.scale);
    assert_same_bits(&predictor->inertia, &model->inertia, 1);
    assert_same_bits(predictor->centre, s->centre, 4);
    assert_same_bits(predictor->factor, s->factor, 4);
    assert_same_bits(predictor->centroids_fitted, model->centroids_fitted, 12);
    assert_same_bits(predictor->centroids, model->centroids, 12);
    if (_i & 2) {
        ck_assert_str_eq(predictor->feature_names[1], "größe");
        ck_assert_str_eq(predictor->feature_names[2], "a \"quoted\" name");
        ck_assert_str_eq(predictor->feature_names[3], _i == 3 ? "caf?" : "");
    } else {
        ck_assert_ptr_null(predictor->feature_names);
    }
    km_predictor_destroy(&predictor);
    ck_assert_ptr_null(predictor);
    km_predictor_destroy(&predictor);
}
END_TEST

// The same without a file: the predictor of a result, its text, and that of a buffer that nothing ends.
START_TEST(round_trip_in_memory) {
    km_predictor *predictor, *again;
    km_error err = {""};
    char *first, *second;
    ck_assert_int_eq(km_predictor_create(&predictor, &s->result, 1, &err), KM_OK);
    ck_assert_int_eq(km_predictor_to_json(&first, predictor, &err), KM_OK);
    size_t size = strlen(first);
    char *bytes = malloc(size);
    memcpy(bytes, first, size);
    ck_assert_msg(km_predictor_parse(&again, bytes, (int64_t)size, "text", &err) == KM_OK, "%s", err.text);
    ck_assert_int_eq(km_predictor_to_json(&second, again, &err), KM_OK);
    ck_assert_str_eq(first, second);
    assert_same_bits(again->centroids_fitted, predictor->centroids_fitted, 12);
    km_predictor_destroy(&again);
    ck_assert_int_eq(km_predictor_parse(&again, bytes, (int64_t)size - 9, "text", &err), KM_ERROR_DATA);
    ck_assert_ptr_nonnull(strstr(err.text, "text is a damaged kmgen model"));
    ck_assert_int_eq(km_predictor_parse(&again, bytes, -1, "text", NULL), KM_ERROR_USAGE);
    ck_assert_int_eq(km_predictor_create(&again, &s->result, 3, NULL), KM_ERROR_USAGE);
    ck_assert_ptr_null(again);
    km_predictor_destroy(&predictor);
    km_text_free(first);
    km_text_free(second);
    free(bytes);
}
END_TEST

// Doubles of every size, by their bits.
START_TEST(random_bits_round_trip) {
    uint64_t state = 88172645463325252u + (uint64_t)_i;
    km_predictor *predictor;
    for (int i = 0; i < 12; i++) {
        double value;
        do {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            memcpy(&value, &state, sizeof value);
        } while (!isfinite(value));
        s->centroids[s->first_row[1] * 4 + i] = value;
    }
    ck_assert_int_eq(km_predictor_write(path, &s->result, 1, NULL), KM_OK);
    ck_assert_int_eq(km_predictor_read(&predictor, path, NULL), KM_OK);
    assert_same_bits(predictor->centroids, s->models[1].centroids, 12);
    km_predictor_destroy(&predictor);
}
END_TEST

// Writes `content` and expects its refusal with these words.
static void expect_refused(const char *content, int64_t size, km_status status, const char *words) {
    km_predictor *predictor = (km_predictor *)1;
    km_error err = {""};
    ck_assert_int_eq(km_file_write(path, content, size, NULL), KM_OK);
    km_status got = km_predictor_read(&predictor, path, &err);
    ck_assert_msg(got == status, "%s instead of %s for \"%s\": %s", km_status_name(got),
                  km_status_name(status), words, err.text);
    ck_assert_ptr_null(predictor);
    ck_assert_msg(strstr(err.text, words) != NULL, "\"%s\" is not in: %s", words, err.text);
    ck_assert_msg(strstr(err.text, path) != NULL, "no path in: %s", err.text);
    ck_assert_msg(strstr(err.text, "kmgen fit --model") || strstr(err.text, "update kmgen"), "no way out: %s",
                  err.text);
}

// The good text with the first `from` replaced.
static void expect_refused_edit(const char *from, const char *to, const char *words) {
    char *at = strstr(text, from);
    ck_assert_msg(at != NULL, "%s is not in the file", from);
    char *edited = malloc((size_t)text_size + strlen(to) + 1);
    int size = sprintf(edited, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    expect_refused(edited, size, KM_ERROR_DATA, words);
    free(edited);
}

START_TEST(foreign_files) {
    expect_refused("", 0, KM_ERROR_DATA, "is no kmgen model: it is empty");
    expect_refused("sepal,petal\n1,2\n", 16, KM_ERROR_DATA, "is no kmgen model: it is not JSON");
    expect_refused("{\"n\": 3}", 8, KM_ERROR_DATA, "is no kmgen model: it has no \"format\"");
    expect_refused("[1, 2]", 6, KM_ERROR_DATA, "is no kmgen model");
    expect_refused("{\"format\": \"onnx\"}", 18, KM_ERROR_DATA, "is no kmgen model");
    expect_refused("\0\xff\x7f", 3, KM_ERROR_DATA, "is no kmgen model");
}
END_TEST

START_TEST(truncated_files) {
    // Every cut that still names the format says that the file is damaged; each cut is refused.
    for (int64_t size = 1; size < text_size - 2; size += 7)
        expect_refused(text, size, KM_ERROR_DATA, size > 40 ? "damaged" : "model");
}
END_TEST

START_TEST(edited_files) {
    expect_refused_edit("\"format_version\": 1", "\"format_version\": 3",
                        "has model format 3 (kmgen " KM_VERSION ")");
    expect_refused_edit("\"format_version\": 1", "\"format_version\": \"1\"",
                        "\"format_version\" is missing or wrong");
    expect_refused_edit("\"type\": \"float64\"", "\"type\": \"float16\"", "\"type\" is missing or wrong");
    expect_refused_edit("\"type\": \"float64\"", "\"type\": \"float32\"", "do not match its checksum");
    expect_refused_edit("\"scale\"", "\"scales\"", "\"scale\" is missing or wrong");
    expect_refused_edit("\"d\": 4", "\"d\": 5", "\"feature_names\" is missing or wrong");
    expect_refused_edit("\"d\": 4", "\"d\": 4000000000", "\"d\" is missing or wrong");
    expect_refused_edit("\"d\": 4", "\"d\": -4", "\"d\" is missing or wrong");
    expect_refused_edit("\"d\": 4", "\"d\": 4.0", "\"d\" is missing or wrong");
    expect_refused_edit("\"k\": 3", "\"k\": 65535", "\"centroids\" is missing or wrong");
    expect_refused_edit("\"k\": 3", "\"k\": 0", "\"k\" is missing or wrong");
    expect_refused_edit("\"k\": 3", "\"k\": 3, \"k\": 3", "damaged");
    expect_refused_edit("\"sepal_length\"", "\"sepal_width\"", "do not match its checksum");
    expect_refused_edit("\"sepal_length\"", "7", "\"feature_names\" is missing or wrong");
    expect_refused_edit("\"inertia\": ", "\"inertia\": 1", "do not match its checksum");
    expect_refused_edit("\"inertia\": ", "\"inertia\": \"a\", \"b\": ", "\"inertia\" is missing or wrong");
    expect_refused_edit("\"centre\": [0.3", "\"centre\": [0.4", "do not match its checksum");
    expect_refused_edit("\"factor\": [1.0, ", "\"factor\": [", "\"factor\" is missing or wrong");
    expect_refused_edit("[-0.0, ", "[0.0, ", "do not match its checksum");
    expect_refused_edit("[-0.0, ", "[null, ", "\"centroids_fitted\" is missing or wrong");
    expect_refused_edit("[-0.0, ", "[[], ", "\"centroids_fitted\" is missing or wrong");
    expect_refused_edit("\"checksum\": \"xxh3:", "\"checksum\": \"xxh3:0", "do not match its checksum");
    expect_refused_edit("\"checksum\"", "\"sum\"", "\"checksum\" is missing or wrong");
}
END_TEST

// One digit of any number changed: the file is refused, unless it still says the same double (a 17th digit).
START_TEST(every_digit_counts) {
    char *start = strstr(text, "\"centroids\""), *stop = strstr(text, "\"checksum\"");
    int refused = 0, tried = 0;
    for (char *c = start; c < stop; c += 3) {
        if (*c < '1' || *c > '8') continue;
        km_predictor *predictor = NULL;
        char kept = *c;
        *c = (char)(kept + 1);
        ck_assert_int_eq(km_file_write(path, text, text_size, NULL), KM_OK);
        km_status status = km_predictor_read(&predictor, path, NULL);
        refused += status == KM_ERROR_DATA;
        tried++;
        if (status == KM_OK) assert_same_bits(predictor->centroids, s->models[1].centroids, 12);
        km_predictor_destroy(&predictor);
        *c = kept;
    }
    ck_assert_int_gt(tried, 30);
    ck_assert_int_gt(refused, tried / 2);
}
END_TEST

START_TEST(unreadable_and_unwritable) {
    km_predictor *predictor;
    km_error err = {""};
    ck_assert_int_eq(km_predictor_read(&predictor, "/nowhere/model.json", &err), KM_ERROR_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "cannot read /nowhere/model.json"));
    err.text[0] = 0;
    ck_assert_int_eq(km_predictor_read(&predictor, folder, &err), KM_ERROR_IO);
    err.text[0] = 0;
    ck_assert_int_eq(km_predictor_write("/nowhere/model.json", &s->result, 0, &err), KM_ERROR_IO);
    err.text[0] = 0;
    ck_assert_int_eq(km_predictor_write(path, &s->result, 3, &err), KM_ERROR_USAGE);
    ck_assert_str_eq(err.text, "model 3 does not exist: the result has models 0..2");
    ck_assert_int_eq(km_predictor_write(path, &s->result, -1, NULL), KM_ERROR_USAGE);
}
END_TEST

// A model that predict could not use is not written, and the file before it stays.
START_TEST(not_finite) {
    km_error err = {""};
    char *after;
    int64_t size;
    s->centroids[s->first_row[1] * 4 + 5] = INFINITY;
    ck_assert_int_eq(km_predictor_write(path, &s->result, 1, &err), KM_ERROR_DATA);
    ck_assert_ptr_nonnull(strstr(err.text, "not finite"));
    ck_assert_int_eq(km_file_read(&after, &size, path, 0, NULL), KM_OK);
    ck_assert_str_eq(after, text);
    km_text_free(after);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("model");
    TCase *tcase = tcase_create("model");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_loop_test(tcase, round_trip, 0, 4);
    tcase_add_test(tcase, round_trip_in_memory);
    tcase_add_loop_test(tcase, random_bits_round_trip, 0, 20);
    tcase_add_test(tcase, foreign_files);
    tcase_add_test(tcase, truncated_files);
    tcase_add_test(tcase, edited_files);
    tcase_add_test(tcase, every_digit_counts);
    tcase_add_test(tcase, unreadable_and_unwritable);
    tcase_add_test(tcase, not_finite);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

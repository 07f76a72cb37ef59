// SPDX-License-Identifier: MIT
// Memory that is kept from one fit to the next: what is handed out again, what is not, and the limit.
#include "../runtime/pages.h"
#include <check.h>
#include <kmgen/kmgen.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MIB = 1 << 20, THREADS = 4, TURNS = 2000 };

static void keep_much(void) {
    km_memory_keep((int64_t)256 * MIB);
}

static void keep_default(void) {
    km_memory_keep(0);
    km_memory_keep(-1);
}

START_TEST(a_kept_piece_is_handed_out_again) {
    void *first = km_pages_alloc(10 * MIB), *other = km_pages_alloc(10 * MIB);
    ck_assert_ptr_ne(first, other);
    km_pages_free(first);
    ck_assert_ptr_eq(km_pages_alloc(9 * MIB), first);
    km_pages_free(other);
    km_pages_free(first);
}
END_TEST

START_TEST(a_piece_is_not_wasted_on_little) {
    void *large = km_pages_alloc(64 * MIB);
    km_pages_free(large);
    void *small = km_pages_alloc(8 * MIB);
    ck_assert_ptr_ne(small, large);
    ck_assert_ptr_eq(km_pages_alloc(64 * MIB), large);
    km_pages_free(small);
    km_pages_free(large);
}
END_TEST

START_TEST(the_smallest_that_is_large_enough) {
    void *a = km_pages_alloc(20 * MIB), *b = km_pages_alloc(18 * MIB);
    km_pages_free(a);
    km_pages_free(b);
    ck_assert_ptr_eq(km_pages_alloc(17 * MIB), b);
    km_pages_free(b);
}
END_TEST

// A piece that is new may lie where an old one lay, so the limit is seen from a piece that stays.
START_TEST(the_oldest_goes_beyond_the_limit) {
    km_memory_keep((int64_t)16 * MIB);
    void *a = km_pages_alloc(10 * MIB), *b = km_pages_alloc(10 * MIB), *c = km_pages_alloc(4 * MIB);
    km_pages_free(a);
    km_pages_free(b); // a goes
    km_pages_free(c); // fits beside b
    ck_assert_ptr_eq(km_pages_alloc(10 * MIB), b);
    ck_assert_ptr_eq(km_pages_alloc(4 * MIB), c);
    km_pages_free(b);
    km_pages_free(c);
}
END_TEST

START_TEST(small_pieces_are_aligned) {
    for (int64_t bytes = 0; bytes < 4 * MIB; bytes = bytes * 3 + 1) {
        uint8_t *memory = km_pages_alloc(bytes);
        ck_assert_ptr_nonnull(memory);
        ck_assert_uint_eq((uintptr_t)memory % 64, 0);
        memset(memory, 1, (size_t)bytes);
        km_pages_free(memory);
    }
    km_pages_free(NULL);
}
END_TEST

START_TEST(more_pieces_than_are_known) {
    enum { MANY = 80 }; // of 64
    uint8_t *all[MANY];
    for (int i = 0; i < MANY; i++) {
        all[i] = km_pages_alloc(2 * MIB);
        ck_assert_ptr_nonnull(all[i]);
        all[i][0] = (uint8_t)i;
    }
    for (int i = 0; i < MANY; i++) ck_assert_uint_eq(all[i][0], (uint8_t)i);
    for (int i = 0; i < MANY; i++) km_pages_free(all[i]);
}
END_TEST

static void *take_turns(void *mark) {
    for (int i = 0; i < TURNS; i++) {
        uint8_t *memory = km_pages_alloc((2 + i % 3) * MIB), own = *(uint8_t *)mark;
        if (!memory) return "no memory";
        memory[0] = memory[MIB] = own;
        if (memory[0] != own || memory[MIB] != own) return "a piece belongs to two threads";
        km_pages_free(memory);
    }
    return NULL;
}

START_TEST(threads_do_not_share_a_piece) {
    pthread_t threads[THREADS];
    uint8_t marks[THREADS];
    for (int t = 0; t < THREADS; t++) {
        marks[t] = (uint8_t)(t + 1);
        ck_assert_int_eq(pthread_create(&threads[t], NULL, take_turns, &marks[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        void *wrong;
        pthread_join(threads[t], &wrong);
        ck_assert_msg(!wrong, "%s", wrong ? (const char *)wrong : "");
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pages");
    TCase *tcase = tcase_create("pages");
    tcase_set_timeout(tcase, 60); // beside the other suites
    tcase_add_checked_fixture(tcase, keep_much, keep_default);
    tcase_add_test(tcase, a_kept_piece_is_handed_out_again);
    tcase_add_test(tcase, a_piece_is_not_wasted_on_little);
    tcase_add_test(tcase, the_smallest_that_is_large_enough);
    tcase_add_test(tcase, the_oldest_goes_beyond_the_limit);
    tcase_add_test(tcase, small_pieces_are_aligned);
    tcase_add_test(tcase, more_pieces_than_are_known);
    tcase_add_test(tcase, threads_do_not_share_a_piece);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

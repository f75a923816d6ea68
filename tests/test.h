/* test.h -- a test is a sentence; checks print both values and go on.
 *
 *     TEST(a_tensor_lives_from_its_writer_to_its_last_reader) { CHECK_EQ(1 + 1, 2); }
 *     TEST_MAIN()
 *
 * TESTs of one program run in the order they are written.  Exit: 0, 1, or 77 when
 * all was skipped.
 */
#ifndef TEST_H
#define TEST_H

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct test_entry {
    const char *name;
    void (*run)(void);
    struct test_entry *next;
} test_entry;

static test_entry *test_first, **test_last = &test_first;
static int test_failures, test_skips;

#define TEST(sentence)                                                    \
    static void sentence(void);                                           \
    __attribute__((constructor)) static void sentence##_register(void)    \
    {                                                                     \
        static test_entry entry = {#sentence, sentence, NULL};            \
        *test_last = &entry;                                              \
        test_last = &entry.next;                                          \
    }                                                                     \
    static void sentence(void)

#define TEST_FAIL(...)                                          \
    (printf("%s:%d: ", __FILE__, __LINE__), printf(__VA_ARGS__), \
     printf("\n"), (void)test_failures++)

#define CHECK(cond) ((cond) ? (void)0 : TEST_FAIL("not true: %s", #cond))

#define CHECK_EQ(got, want)                                                              \
    do {                                                                                 \
        const uint64_t got_ = (uint64_t)(got), want_ = (uint64_t)(want);                 \
        if (got_ != want_)                                                               \
            TEST_FAIL("%s is %" PRIu64 ", expected %" PRIu64, #got, got_, want_);        \
    } while (0)

#define CHECK_STR(got, want)                                                        \
    do {                                                                            \
        const char *got_ = (got), *want_ = (want);                                  \
        if (strcmp(got_, want_) != 0)                                               \
            TEST_FAIL("%s is\n  \"%s\", expected\n  \"%s\"", #got, got_, want_);    \
    } while (0)

/* The text contains the other. */
#define CHECK_HAS(got, part)                                                          \
    do {                                                                              \
        const char *got_ = (got), *part_ = (part);                                    \
        if (!strstr(got_, part_))                                                     \
            TEST_FAIL("%s is\n  \"%s\", expected it to contain\n  \"%s\"", #got, got_, part_); \
    } while (0)

#define SKIP(why)                                \
    do {                                         \
        printf("skipped: %s\n", why);            \
        test_skips++;                            \
        return;                                  \
    } while (0)

#define TEST_MAIN()                                                   \
    int main(void)                                                    \
    {                                                                 \
        int n = 0;                                                    \
        for (const test_entry *t = test_first; t; t = t->next, n++) { \
            const int before = test_failures;                         \
            t->run();                                                 \
            if (test_failures > before) printf("FAILED: %s\n", t->name); \
        }                                                             \
        printf("%d tests, %d checks failed, %d skipped\n", n, test_failures, test_skips); \
        if (test_failures) return 1;                                  \
        return n && test_skips == n ? 77 : 0;                         \
    }

#endif

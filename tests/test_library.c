/* Functions of libraries, found or named as lacking. */
#include "library.h"

#include <dlfcn.h>
#include <string.h>

#include "test.h"

typedef struct functions {
    size_t (*length)(const char *);
    int (*compare)(const char *, const char *);
} functions;

TEST(what_a_library_has_is_found)
{
    static const mr_call calls[] = {{"strlen", offsetof(functions, length)},
                                    {"strcmp", offsetof(functions, compare)}};
    functions found = {0};
    CHECK(!mr_library_find(dlopen(NULL, RTLD_NOW), calls, MR_COUNT(calls), &found));
    CHECK_EQ(found.length("four"), 4);
    CHECK_EQ(found.compare("a", "a"), 0);
}

TEST(the_first_that_it_lacks_is_named)
{
    static const mr_call calls[] = {{"strlen", offsetof(functions, length)},
                                    {"no_library_has_this", offsetof(functions, compare)}};
    functions found = {0};
    CHECK_STR(mr_library_find(dlopen(NULL, RTLD_NOW), calls, MR_COUNT(calls), &found),
              "no_library_has_this");
}

TEST_MAIN()

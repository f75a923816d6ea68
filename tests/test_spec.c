/* Specs: what is accepted, how it is spelled canonically, where the caret points. */
#include "scripted.h"

static const char *canonical(mr_ctx *ctx, const char *text)
{
    mr_spec spec;
    return mr_spec_parse(ctx, mr_strategies, text, &spec) ? ctx->failure.text : spec.text;
}

/* The words under the caret. */
static const char *underlined(mr_ctx *ctx, const char *text)
{
    mr_spec spec;
    if (!mr_spec_parse(ctx, mr_strategies, text, &spec)) return "";
    return mr_strndup(ctx, ctx->failure.where + ctx->failure.column, ctx->failure.width);
}

TEST(defaults_are_not_part_of_the_canonical_spelling)
{
    mr_ctx ctx = {0};
    CHECK_STR(canonical(&ctx, "native"), "native");
    CHECK_STR(canonical(&ctx, "pytorch"), "pytorch");
    CHECK_STR(canonical(&ctx, "pytorch:expandable_segments=0"), "pytorch");
    CHECK_STR(canonical(&ctx, "pytorch:version=2.4,expandable_segments=1"),
              "pytorch:expandable_segments=True,version=2.4");
    CHECK_STR(canonical(&ctx, "pytorch:true"), "pytorch:expandable_segments=True");
    mr_ctx_clear(&ctx);
}

TEST(brackets_keep_commas_and_colons_together)
{
    mr_ctx ctx = {0};
    CHECK_STR(canonical(&ctx, "pytorch:roundup_power2_divisions=[256:1,512:2,>:8],version=2.4"),
              "pytorch:roundup_power2_divisions=[256:1,512:2,>:8],version=2.4");
    CHECK_STR(
        canonical(&ctx,
                  "pytorch:conf=[max_split_size_mb:128,garbage_collection_threshold:0.8]"),
        "pytorch:conf=[max_split_size_mb:128,garbage_collection_threshold:0.8]");
    mr_ctx_clear(&ctx);
}

TEST(a_typo_names_the_nearest_word_and_where_it_stands)
{
    mr_ctx ctx = {0};
    CHECK_STR(canonical(&ctx, "pytorhc"),
              "unknown strategy 'pytorhc' (did you mean 'pytorch'?)");
    CHECK_STR(underlined(&ctx, "pytorhc"), "pytorhc");
    CHECK_STR(canonical(&ctx, "pytorch:expandible_segments=1"),
              "'pytorch' has no parameter 'expandible_segments' (did you mean "
              "'expandable_segments'?)");
    CHECK_STR(underlined(&ctx, "pytorch:expandible_segments=1"), "expandible_segments");
    CHECK_STR(underlined(&ctx, "pytorch:version=2.4,expandable_segments=maybe"), "maybe");
    CHECK_STR(canonical(&ctx, "pytorch:expandable_segments=maybe"),
              "'expandable_segments' takes True or False, not 'maybe'");
    CHECK_HAS(canonical(&ctx, "xyzzy"), "unknown strategy 'xyzzy'");
    mr_ctx_clear(&ctx);
}

TEST(a_spec_that_cannot_be_is_refused_with_the_reason)
{
    mr_ctx ctx = {0};
    CHECK_STR(canonical(&ctx, ""), "expected the name of a strategy");
    CHECK_STR(canonical(&ctx, "native:4"), "'native' has no parameters");
    CHECK_STR(canonical(&ctx, "native/pytorch"),
              "'native' is a placement: it stands alone at the end of a spec");
    CHECK_STR(canonical(&ctx, "native+pytorch"),
              "'native' is a placement: it stands alone at the end of a spec");
    CHECK_STR(canonical(&ctx, "pytorch/"),
              "'pytorch' is a placement: it stands alone at the end of a spec");
    CHECK_HAS(canonical(&ctx, "pytorch:version=3.1"), "version");
    CHECK_HAS(canonical(&ctx, "pytorch:version=2.99"), "known are 2.0 to 2.15");
    CHECK_HAS(canonical(&ctx, "pytorch:garbage_collection_threshold=1.5"), "from 0 to 1");
    mr_ctx_clear(&ctx);
}

TEST(sizes_are_read_with_their_units)
{
    uint64_t bytes = 0;
    CHECK(mr_parse_size("512", &bytes));
    CHECK_EQ(bytes, 512);
    CHECK(mr_parse_size("1.5GiB", &bytes));
    CHECK_EQ(bytes, 1610612736);
    CHECK(mr_parse_size("24GB", &bytes));
    CHECK_EQ(bytes, 24000000000);
    CHECK(mr_parse_size("18446744073709551615", &bytes));
    CHECK_EQ(bytes, UINT64_MAX);
    CHECK(mr_parse_size("12582912.5TiB", &bytes));
    CHECK_EQ(bytes, ((uint64_t)12582912 << 40) + ((uint64_t)1 << 39));
    const char *const wrong[] = {"",         "x",           "-1",  "1.2.3",
                                 "4 apples", "99999999TiB", "1e9", "0x10",
                                 "GiB",      " 1",          "inf", "18446744073709551616",
                                 "0.5",      "1.25B"};
    for (size_t i = 0; i < MR_COUNT(wrong); i++)
        if (mr_parse_size(wrong[i], &bytes)) TEST_FAIL("'%s' was taken for a size", wrong[i]);
}

TEST(sizes_in_sentences_are_rounded)
{
    mr_ctx ctx = {0};
    CHECK_STR(mr_say_size(&ctx, 0), "0 B");
    CHECK_STR(mr_say_size(&ctx, 1023), "1023 B");
    CHECK_STR(mr_say_size(&ctx, 1782198928), "1.66 GiB");
    CHECK_STR(mr_say_size(&ctx, (1 << 20) - 1), "1.00 MiB");
    mr_ctx_clear(&ctx);
}

TEST_MAIN()

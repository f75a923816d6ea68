/* The model of PyTorch's allocator, where scripts for the real one (tests/oracle) do not reach:
 * options and their refusals, rounding at its borders, what a release refuses to do. */
#include "c10_world.h"

static const c10_version oldest = {2, 0}, old = {2, 4}, middle = {2, 6}, newest = {2, 15};

/* ---- options ---------------------------------------------------------------------------- */

static const char *refusal(mr_ctx *ctx, c10_version version, const char *text)
{
    c10_options options;
    c10_options_init(&options, version);
    options.running = true;
    return c10_options_parse(ctx, version, text, &options) == MR_OK ? "" : ctx->failure.text;
}

TEST(a_refused_option_says_what_its_release_says_and_what_was_found)
{
    mr_ctx ctx = {0};
    CHECK_STR(refusal(&ctx, old, "max_split_size_mb:20"),
              "CachingAllocator option max_split_size_mb too small, must be > 20; found 20");
    CHECK_STR(refusal(&ctx, newest, "max_split_size_mb:19"),
              "CachingAllocator option max_split_size_mb too small, must be >= 20; found 19");
    CHECK_STR(refusal(&ctx, newest, "max_split_size_mb:20"), "");
    CHECK_STR(
        refusal(&ctx, oldest, "max_spilt_size_mb:128"),
        "Unrecognized CachingAllocator option: max_spilt_size_mb; this release knows "
        "max_split_size_mb, garbage_collection_threshold, roundup_power2_divisions, backend");
    CHECK_HAS(refusal(&ctx, old, "max_spilt_size_mb:128"), "backend, expandable_segments,");
    CHECK_HAS(
        refusal(&ctx, newest, "max_spilt_size_mb:128"),
        "Unrecognized key 'max_spilt_size_mb' in Accelerator allocator config; this release "
        "knows max_split_size_mb, ");
    CHECK_HAS(refusal(&ctx, old, "expandable_segments:true"), "True/False");
    CHECK_HAS(refusal(&ctx, old, "roundup_power2_divisions:[256:1,512:2"), "expected ,");
    CHECK_HAS(refusal(&ctx, (c10_version){2, 8}, "roundup_power2_divisions:[256:1,512:2"),
              "expected ,");
    CHECK_HAS(refusal(&ctx, newest, "roundup_power2_divisions:[256:1,512:2"), "end behind '2'");
    CHECK_HAS(refusal(&ctx, newest, "garbage_collection_threshold:1"), "set it in (0.0, 1.0)");
    CHECK_HAS(refusal(&ctx, newest, "backend:cudaMallocAsync"), "native");
    mr_ctx_clear(&ctx);
}

TEST(an_option_is_unknown_before_the_release_that_brought_it)
{
    mr_ctx ctx = {0};
    CHECK_HAS(refusal(&ctx, oldest, "expandable_segments:True"), "Unrecognized");
    CHECK_HAS(refusal(&ctx, old, "max_non_split_rounding_mb:30"), "Unrecognized");
    CHECK_STR(refusal(&ctx, middle, "max_non_split_rounding_mb:30"), "");
    CHECK_HAS(refusal(&ctx, (c10_version){2, 10}, "large_segment_size_mb:40"), "Unrecognized");
    CHECK_STR(refusal(&ctx, (c10_version){2, 11}, "large_segment_size_mb:40"), "");
    CHECK_HAS(refusal(&ctx, (c10_version){2, 11}, "throw_on_cudamalloc_oom:True"),
              "Unrecognized");
    CHECK_STR(refusal(&ctx, (c10_version){2, 12}, "throw_on_cudamalloc_oom:True"), "");
    mr_ctx_clear(&ctx);
}

TEST(blanks_in_options_are_ignored_and_numbers_end_at_the_first_letter)
{
    mr_ctx ctx = {0};
    c10_options options;
    c10_options_init(&options, newest);
    const char *text = " max_split_size_mb : 128MB , garbage_collection_threshold:0.8";
    CHECK_EQ(c10_options_parse(&ctx, newest, text, &options), MR_OK);
    CHECK_EQ(options.max_split_size, 128 * MR_MIB);
    CHECK(options.garbage_collection_threshold > 0.79
          && options.garbage_collection_threshold < 0.81);
    mr_ctx_clear(&ctx);
}

TEST(another_text_resets_some_options_and_keeps_others)
{
    mr_ctx ctx = {0};
    c10_options options;
    c10_options_init(&options, newest);
    c10_options_parse(&ctx, newest,
                      "max_split_size_mb:64,expandable_segments:True,"
                      "large_segment_size_mb:40,max_non_split_rounding_mb:60",
                      &options);
    CHECK_EQ(options.max_non_split_rounding, 60 * MR_MIB);
    CHECK_EQ(c10_options_parse(&ctx, newest, "", &options), MR_OK);
    CHECK_EQ(options.max_split_size, C10_UNLIMITED);
    CHECK(options.expandable_segments);
    CHECK_EQ(options.large_segment_size, 40 * MR_MIB);
    CHECK_EQ(options.max_non_split_rounding, 40 * MR_MIB);
    mr_ctx_clear(&ctx);
}

TEST(the_rest_of_a_division_list_overwrites_the_last_interval_before_2_9_only)
{
    mr_ctx ctx = {0};
    c10_options options;
    const char *text = "roundup_power2_divisions:[4:2,16:4,>:8]";
    c10_options_parse(&ctx, old, text, &options);
    CHECK_EQ(options.roundup_power2_divisions[0], 2);
    CHECK_EQ(options.roundup_power2_divisions[3], 0);
    CHECK_EQ(options.roundup_power2_divisions[4], 8);
    c10_options_init(&options, newest);
    c10_options_parse(&ctx, newest, text, &options);
    CHECK_EQ(options.roundup_power2_divisions[4], 4);
    CHECK_EQ(options.roundup_power2_divisions[5], 8);
    mr_ctx_clear(&ctx);
}

/* ---- sizes ------------------------------------------------------------------------------ */

static uint64_t taken(c10_version version, const char *conf, uint64_t bytes)
{
    world w;
    start(&w, version, conf);
    const uint64_t size = request(&w, bytes, 0).size;
    end(&w);
    return size;
}

TEST(sizes_are_rounded_up_to_512_or_to_divisions_of_a_power_of_two)
{
    static const struct {
        const char *conf;
        uint64_t bytes, size;
    } table[] = {
        {"", 1, 512},
        {"", 512, 512},
        {"", 513, 1024},
        {"", MR_MIB, MR_MIB},
        {"expandable_segments:True", MR_MIB + 1, MR_MIB + 512},
        {"roundup_power2_divisions:4", 2048, 2048}, /* 512 * 4 is not above the limit */
        {"roundup_power2_divisions:4", 2049, 2560},
        {"roundup_power2_divisions:4", 5000, 5120},
        {"roundup_power2_divisions:4", 4096, 4096},
        {"roundup_power2_divisions:4", 700000, 786432},
        {"roundup_power2_divisions:8", 700000, 720896},
        {"roundup_power2_divisions:1", 1500, 1536},
        {"roundup_power2_divisions:[1:2,2:8]", 600000,
         786432}, /* below 2 MiB the first entry */
        {"roundup_power2_divisions:2", 536870913, 805306368},
    };
    for (size_t i = 0; i < MR_COUNT(table); i++)
        CHECK_EQ(taken(newest, table[i].conf, table[i].bytes), table[i].size);
}

TEST(release_2_0_takes_one_division_as_no_rounding_at_all)
{
    world w;
    start(&w, oldest, "roundup_power2_divisions:1");
    const c10_lease a = request(&w, 1001, 0), b = request(&w, 5, 0), c = request(&w, 1000, 0);
    CHECK_EQ(b.address - a.address, 1001);
    CHECK_EQ(c.address - b.address, 512);
    c10_free(w.allocator, a.block);
    CHECK_EQ(request(&w, 1002, 0).address, c.address + 1000); /* one byte more does not fit */
    const c10_lease again = request(&w, 1001, 0);
    CHECK_EQ(again.address, a.address);
    c10_free(w.allocator, again.block);
    CHECK_EQ(request(&w, 600, 0).size, 1001); /* the rest would be smaller than any block */
    end(&w);
}

TEST(nothing_is_taken_for_nothing_and_two_tebibytes_are_too_much)
{
    world w;
    start(&w, newest, "");
    c10_lease lease;
    CHECK(c10_malloc(w.allocator, 0, 3, &lease));
    CHECK_EQ(lease.block, MR_NONE);
    c10_free(w.allocator, lease.block);
    c10_record_stream(w.allocator, lease.block, 4);
    w.device.capacity = 2 * C10_BLOCK_LIMIT;
    CHECK(!c10_malloc(w.allocator, C10_BLOCK_LIMIT, 0, &lease));
    CHECK(!c10_malloc(w.allocator, UINT64_MAX / 2, 0, &lease));
    CHECK_EQ(c10_statistics(w.allocator)->num_ooms, 2);
    end(&w);
}

TEST(a_memory_fraction_lies_between_zero_and_one)
{
    world w;
    start(&w, newest, "");
    CHECK_EQ(c10_set_memory_fraction(w.allocator, 1.5), MR_EINPUT);
    CHECK_STR(w.ctx.failure.text, "invalid fraction:1.5; expected 0 to 1");
    CHECK_EQ(c10_set_memory_fraction(w.allocator, 0.5), MR_OK);
    c10_lease lease;
    CHECK(!c10_malloc(w.allocator, 4 * MR_GIB + 1, 0, &lease));
    CHECK(c10_malloc(w.allocator, 4 * MR_GIB, 0, &lease));
    end(&w);
}

/* ---- what a release refuses to do ------------------------------------------------------- */

TEST(nothing_is_served_once_the_real_one_would_have_stopped)
{
    world w;
    start(&w, old, "");
    request(&w, 1000, 0);
    CHECK_EQ(c10_pool_begin(w.allocator, 1, MR_NONE), MR_OK);
    CHECK_EQ(c10_empty_cache(w.allocator), MR_EINPUT);
    CHECK_EQ(c10_sound(w.allocator), MR_EINPUT);
    CHECK_EQ(c10_pool_end(w.allocator, 1), MR_OK);
    c10_lease lease;
    CHECK(!c10_malloc(w.allocator, 1000, 0, &lease));
    end(&w);
}

TEST(what_cannot_be_done_in_a_release_is_said)
{
    world w;
    start(&w, old, "");
    CHECK_EQ(c10_pool_create(w.allocator, 1, (c10_pool_flags){false, false}), MR_EUNSUPPORTED);
    CHECK_EQ(c10_pool_empty(w.allocator, 1), MR_EUNSUPPORTED);
    CHECK_EQ(c10_set_reserve_class(w.allocator, 1, "small"), MR_EUNSUPPORTED);
    CHECK_EQ(c10_pool_end(w.allocator, 1), MR_EINPUT);
    CHECK_EQ(c10_sound(w.allocator), MR_OK);
    CHECK_EQ(c10_pool_release(w.allocator, 1), MR_EINPUT);
    CHECK_EQ(c10_sound(w.allocator), MR_EINPUT);
    end(&w);
}

TEST_MAIN()

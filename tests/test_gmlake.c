/* GMLake: free blocks are stitched together by mapping their pages anew. */
#include "scripted.h"

#define PAGES(n) ((unsigned long long)(n) * 2 * MR_MIB)

TEST(small_requests_share_segments_and_large_ones_are_pages)
{
    must_place("1+1 2+1048576 3+1048577 3- 4+600000", "gmlake", UINT64_MAX,
               "R0:2097152 1>0:0+512 2>0:512+1048576 R1:2097152 M1:0:2097152 "
               "3>1:0+2097152 3- 4>0:1049088+600064");
}

/* 6 and 4 of 4 pages become 10 in a row; the rest of the last one stays where it was. */
TEST(free_blocks_are_stitched_the_largest_first)
{
    must_place("1+12582912 2+2097152 3+8388608 1- 3- 4+16777216", "gmlake:fragLimit=0",
               PAGES(11),
               "R0:12582912 M0:0:12582912 1>0:0+12582912 R1:2097152 M1:0:2097152 "
               "2>1:0+2097152 R2:8388608 M2:0:8388608 3>2:0+8388608 1- 3- R3:16777216 "
               "U0:0:12582912 M3:0:12582912 U2:0:4194304 M3:12582912:4194304 "
               "4>3:0+16777216");
    must_place("1+12582912 2+2097152 3+8388608 1- 3- 4+16777216", "gmlake", PAGES(11),
               "R0:12582912 M0:0:12582912 1>0:0+12582912 R1:2097152 M1:0:2097152 "
               "2>1:0+2097152 R2:8388608 M2:0:8388608 3>2:0+8388608 1- 3- "
               "U2:0:8388608 X2 U0:0:12582912 X0 R3:16777216 M3:0:16777216 4>3:0+16777216");
}

TEST(a_stitched_range_comes_back_unless_it_is_too_large)
{
    const char *script = "1+4194304 2+4194304 1- 2- 3+8388608 3- 4+6291456";
    const char *begin = "R0:4194304 M0:0:4194304 1>0:0+4194304 R1:4194304 M1:0:4194304 "
                        "2>1:0+4194304 1- 2- R2:8388608 U1:0:4194304 M2:0:4194304 "
                        "U0:0:4194304 M2:4194304:4194304 3>2:0+8388608 3- ";
    mr_ctx ctx = {0};
    CHECK_STR(scripted_placed(&ctx, script, "gmlake:fragLimit=8MiB", UINT64_MAX),
              mr_printf(&ctx, "%s4>2:0+8388608", begin));
    CHECK_STR(scripted_placed(&ctx, script, "gmlake:fragLimit=8MiB,reuseLimit=1", UINT64_MAX),
              mr_printf(&ctx, "%sR3:6291456 M3:0:6291456 4>3:0+6291456", begin));
    mr_ctx_clear(&ctx);
}

/* Using one block of a stitched range takes all of the range out of use. */
TEST(a_stitched_range_is_free_while_all_its_blocks_are)
{
    must_place("1+4194304 2+4194304 1- 2- 3+8388608 3- 4+4194304 5+8388608",
               "gmlake:fragLimit=8MiB", UINT64_MAX,
               "R0:4194304 M0:0:4194304 1>0:0+4194304 R1:4194304 M1:0:4194304 2>1:0+4194304 "
               "1- 2- R2:8388608 U1:0:4194304 M2:0:4194304 U0:0:4194304 M2:4194304:4194304 "
               "3>2:0+8388608 3- U2:4194304:4194304 M0:0:4194304 4>0:0+4194304 "
               "R3:8388608 M3:0:8388608 5>3:0+8388608");
}

TEST(only_the_pages_that_are_missing_are_taken)
{
    must_place("1+4194304 1- 2+8388608", "gmlake:fragLimit=0,reAlloc=True", PAGES(4),
               "R0:4194304 M0:0:4194304 1>0:0+4194304 1- R1:4194304 M1:0:4194304 "
               "R2:8388608 U0:0:4194304 M2:0:4194304 U1:0:4194304 M2:4194304:4194304 "
               "2>2:0+8388608");
}

/* A report of its users: a request that is stitched of 256 chunks waits for about 20 ms, which
 * are 78 us a chunk.  Each has to be mapped, and nothing else. */
TEST(stitching_256_chunks_takes_about_20_ms)
{
    static const mr_device device = {
        .name = "test", .memory = 64 * MR_GIB, .granularity = 1, .map_ns_per_page = 78000};
    mr_ctx ctx = {0};
    const char *script = "";
    for (int i = 0; i < 512; i++) script = mr_printf(&ctx, "%s %d+2097152", script, i);
    for (int i = 0; i < 512; i += 2) script = mr_printf(&ctx, "%s %d-", script, i);
    mr_spec spec;
    CHECK_EQ(mr_spec_parse(&ctx, mr_strategies, "gmlake", &spec), MR_OK);
    uint64_t cost[2];
    for (int stitched = 0; stitched < 2; stitched++) {
        const mr_trace trace =
            scripted(&ctx, stitched ? mr_printf(&ctx, "%s 512+536870912", script) : script);
        const mr_question question = {.trace = &trace, .spec = &spec, .device = &device,
                                      .capacity = PAGES(512), .iterations = 1};
        mr_answer answer;
        CHECK_EQ(mr_evaluate(&ctx, &question, &answer), MR_OK);
        CHECK_EQ(answer.placement.refusals, 0);
        cost[stitched] = answer.metrics.device_time;
    }
    CHECK_EQ(cost[1] - cost[0], 256 * 78000);
    mr_ctx_clear(&ctx);
}

TEST_MAIN()

/* The allocators of other programs: their documented rules, and reports of their users, each by
 * the few events that show it.  tests/test_strategies.c holds all against the referees. */
#include "scripted.h"

static const char *placed_in(mr_ctx *ctx, const char *script, const char *spec,
                             uint64_t capacity)
{
    mr_trace *trace = MR_NEW(ctx, mr_trace);
    *trace = scripted(ctx, script);
    mr_answer *answer = MR_NEW(ctx, mr_answer);
    if (scripted_run(ctx, trace, spec, capacity, 1, answer)) return ctx->failure.text;
    return shown_cmds(ctx, &answer->placement);
}

static void must_place(const char *script, const char *spec, uint64_t capacity,
                       const char *cmds)
{
    mr_ctx ctx = {0};
    CHECK_STR(placed_in(&ctx, script, spec, capacity), cmds);
    mr_ctx_clear(&ctx);
}

/* ---- bfc --------------------------------------------------------------------------------- */

TEST(bfc_rounds_to_256_and_begins_with_2_mib)
{
    must_place("1+1 2+257", "bfc", UINT64_MAX, "R0:2097152 1>0:0+256 2>0:256+512");
}

TEST(bfc_regions_double_until_they_hold_the_request)
{
    must_place("1+2097152 2+2097152 3+20971520 4+12582912", "bfc", UINT64_MAX,
               "R0:2097152 1>0:0+2097152 R1:4194304 2>1:0+2097152 " /* not doubled: 8 next */
               "R2:33554432 3>2:0+33554432 R3:33554432 4>3:0+12582912");
}

TEST(bfc_hands_out_what_is_less_than_twice_the_request)
{
    must_place("1+1572864", "bfc", UINT64_MAX, "R0:2097152 1>0:0+2097152");
    must_place("1+1048576", "bfc", UINT64_MAX, "R0:2097152 1>0:0+1048576");
}

TEST(bfc_splits_off_128_mib_always)
{
    must_place("1+536870912 1- 2+402653184 3+134217728", "bfc", UINT64_MAX,
               "R0:536870912 1>0:0+536870912 1- 2>0:0+402653184 3>0:402653184+134217728");
    must_place("1+536870912 1- 2+402653440", "bfc", UINT64_MAX,
               "R0:536870912 1>0:0+536870912 1- 2>0:0+536870912");
    must_place("1+536870912 1- 2+402653440", "bfc:fragmentation_fraction=0.001", UINT64_MAX,
               "R0:536870912 1>0:0+536870912 1- 2>0:0+402653440");
}

TEST(bfc_merges_with_both_neighbours_and_knows_no_streams)
{
    must_place("1+1024 2+1024 3+1024 1- 3- 2- 4+2097152@2", "bfc", UINT64_MAX,
               "R0:2097152 1>0:0+1024 2>0:1024+1024 3>0:2048+1024 1- 3- 2- 4>0:0+2097152");
}

TEST(bfc_takes_the_smallest_then_the_lowest)
{
    must_place("1+2048 2+256 3+1024 4+256 5+1024 6+256 1- 3- 5- 7+1024", "bfc", UINT64_MAX,
               "R0:2097152 1>0:0+2048 2>0:2048+256 3>0:2304+1024 4>0:3328+256 5>0:3584+1024 "
               "6>0:4608+256 1- 3- 5- 7>0:2304+1024");
}

TEST(bfc_asks_for_nine_tenths_when_the_device_refuses)
{
    must_place("1+1000", "bfc:per_process_gpu_memory_fraction=1,allow_growth=False",
               60 * MR_GIB, "R0:61847527424 1>0:0+1024"); /* 64 GiB * 0.9f */
}

TEST(bfc_gives_free_regions_back_only_when_told_to)
{
    const char *script = "1+33554432 1- 2+50331648";
    must_place(script, "bfc", 64 * MR_MIB, "R0:33554432 1>0:0+33554432 1- 2?");
    must_place(script, "bfc:garbage_collection=True", 64 * MR_MIB,
               "R0:33554432 1>0:0+33554432 1- X0 R1:67108864 2>1:0+67108864");
}

TEST(jax_takes_three_quarters_first_and_never_more)
{
    must_place("1+1000 2+53687091200", "bfc:prealloc=0.75", UINT64_MAX,
               "R0:51539607552 1>0:0+1024 2?");
}

TEST(bfc_waits_for_memory_that_another_stream_may_use)
{
    must_place("1+2097152 1~ 2+1000 1!", "bfc", UINT64_MAX,
               "R0:2097152 1>0:0+2097152 1~ R1:4194304 2>1:0+1024 1-");
}

/* ---- ort --------------------------------------------------------------------------------- */

TEST(ort_regions_double_or_are_as_requested)
{
    must_place("1+1048576 2+1048576 3+1048576", "ort", UINT64_MAX,
               "R0:1048576 1>0:0+1048576 R1:2097152 2>1:0+1048576 3>1:1048576+1048576");
    must_place("1+1000 2+5000000", "ort:arena_extend_strategy=kSameAsRequested", UINT64_MAX,
               "R0:1024 1>0:0+1024 R1:5000192 2>1:0+5000192");
}

TEST(ort_shrinks_all_but_the_first_region_that_doubles)
{
    must_place("1+1048576 2+1048576 1- 2- flush 3+2097152", "ort", UINT64_MAX,
               "R0:1048576 1>0:0+1048576 R1:2097152 2>1:0+1048576 1- 2- X1 "
               "R2:2097152 3>2:0+2097152");
    must_place("1+1000 1- flush", "ort:arena_extend_strategy=kSameAsRequested", UINT64_MAX,
               "R0:1024 1>0:0+1024 1- X0");
}

TEST(ort_refuses_beyond_its_limit)
{
    must_place("1+1048576 2+1048576", "ort:gpu_mem_limit=2MiB", UINT64_MAX,
               "R0:1048576 1>0:0+1048576 R1:1048576 2>1:0+1048576");
    must_place("1+3000000", "ort:gpu_mem_limit=2MiB", UINT64_MAX, "1?");
}

/* ---- cupy -------------------------------------------------------------------------------- */

TEST(cupy_asks_for_exact_sizes_and_splits_whatever_remains)
{
    must_place("1+1 2+513 2- 3+1", "cupy", UINT64_MAX,
               "R0:512 1>0:0+512 R1:1024 2>1:0+1024 2- 3>1:0+512");
}

TEST(cupy_reuses_in_one_stream_only)
{
    must_place("1+1000@0 1- 2+1000@1 3+1000@0", "cupy", UINT64_MAX,
               "R0:1024 1>0:0+1024 1- R1:1024 2>1:0+1024 3>0:0+1024");
}

TEST(cupy_merges_with_both_neighbours)
{
    must_place("1+2048 1- 2+1024 3+1024 2- 3- 4+2048", "cupy", UINT64_MAX,
               "R0:2048 1>0:0+2048 1- 2>0:0+1024 3>0:1024+1024 2- 3- 4>0:0+2048");
    must_place("1+2048 1- 2+1024 3+1024 3- 2- 4+2048", "cupy", UINT64_MAX,
               "R0:2048 1>0:0+2048 1- 2>0:0+1024 3>0:1024+1024 3- 2- 4>0:0+2048");
}

TEST(cupy_gives_back_what_is_in_one_piece_before_it_refuses)
{
    must_place("1+1024 2+2048 1- 2- 3+512 4+4096", "cupy", 5120,
               "R0:1024 1>0:0+1024 R1:2048 2>1:0+2048 1- 2- 3>0:0+512 X1 R2:4096 4>2:0+4096");
    must_place("1+1024 1- 2+2048", "cupy:limit=2KiB", UINT64_MAX,
               "R0:1024 1>0:0+1024 1- X0 R1:2048 2>1:0+2048");
    must_place("1+1024 2+2048", "cupy:limit=2KiB", UINT64_MAX, "R0:1024 1>0:0+1024 2?");
}

TEST(a_cached_block_of_4_gib_is_handed_to_10_kib)
{
    const char *script = "1+4294967296 1- 2+10240 flush";
    must_place(script, "cupy", UINT64_MAX,
               "R0:4294967296 1>0:0+4294967296 1- 2>0:0+10240"); /* and stays, split */
    must_place(script, "pytorch", UINT64_MAX,
               "R0:4294967296 1>0:0+4294967296 1- R1:2097152 2>1:0+10240 X0");
}

/* ---- rmm --------------------------------------------------------------------------------- */

TEST(rmm_takes_half_of_the_device_first)
{
    must_place("1+1 2+257", "rmm_pool", UINT64_MAX,
               "R0:34359738368 1>0:0+256 2>0:256+512");
}

TEST(rmm_pools_of_256_bytes_that_may_have_1024_cannot_serve_1024)
{
    must_place("1+1024", "rmm_pool:initial_pool_size=256,maximum_pool_size=1024", UINT64_MAX,
               "R0:256 1?");
    must_place("1+768", "rmm_pool:initial_pool_size=256,maximum_pool_size=1024", UINT64_MAX,
               "R0:256 R1:768 1>1:0+768");
}

TEST(rmm_pools_double_or_go_half_of_the_way)
{
    must_place("1+1024 2+512 3+1024", "rmm_pool:initial_pool_size=1024", UINT64_MAX,
               "R0:1024 1>0:0+1024 R1:1024 2>1:0+512 R2:2048 3>2:0+1024");
    must_place("1+1024 2+512", "rmm_pool:initial_pool_size=1024,maximum_pool_size=5120",
               UINT64_MAX, "R0:1024 1>0:0+1024 R1:2048 2>1:0+512");
    must_place("1+1024 2+256", "rmm_pool:initial_pool_size=1024", 1600,
               "R0:1024 1>0:0+1024 R1:512 2>1:0+256");
}

TEST(rmm_streams_take_from_each_other_before_the_pool_grows)
{
    must_place("1+512@0 2+512@0 1- 3+256@1 4+256@0 3- 2- 5+512@1",
               "rmm_pool:initial_pool_size=1024", UINT64_MAX,
               "R0:1024 1>0:0+512 2>0:512+512 1- 3>0:0+256 4>0:256+256 3- 2- 5>0:512+512");
}

TEST(rmm_merges_the_lists_of_streams_before_the_pool_grows)
{
    must_place("1+512@0 2+512@1 1- 2- 3+1024@0", "rmm_pool:initial_pool_size=1024", UINT64_MAX,
               "R0:1024 1>0:0+512 2>0:512+512 1- 2- 3>0:0+1024");
}

TEST(rmm_merges_with_both_neighbours)
{
    must_place("1+512 2+512 2- 1- 3+1024", "rmm_pool:initial_pool_size=1024", UINT64_MAX,
               "R0:1024 1>0:0+512 2>0:512+512 2- 1- 3>0:0+1024");
    must_place("1+512 2+512 1- 2- 3+1024", "rmm_pool:initial_pool_size=1024", UINT64_MAX,
               "R0:1024 1>0:0+512 2>0:512+512 1- 2- 3>0:0+1024");
}

TEST(rmm_merges_nothing_of_two_upstream_allocations)
{
    must_place("1+512 2+512 1- 2- 3+1024", "rmm_pool:initial_pool_size=512", UINT64_MAX,
               "R0:512 1>0:0+512 R1:512 2>1:0+512 1- 2- R2:1024 3>2:0+1024");
}

/* ---- rmm's arena and bins ---------------------------------------------------------------- */

TEST(arenas_take_half_of_the_device_and_lend_superblocks_of_1_mib)
{
    must_place("1+1@0 2+1@1 3+1@0", "rmm_arena", UINT64_MAX,
               "R0:34359738368 1>0:0+256 2>0:1048576+256 3>0:256+256");
}

TEST(requests_above_1_mib_go_to_the_global_arena)
{
    must_place("1+1048576 2+1048577 3+1000", "rmm_arena:arena_size=16MiB", UINT64_MAX,
               "R0:16777216 1>0:0+1048576 2>0:1048576+1048832 3>0:2097408+1024");
}

TEST(empty_superblocks_of_the_global_arena_merge)
{
    must_place("1+2097152 2+3145728 3+11534336 1- 2- 4+5242880", "rmm_arena:arena_size=16MiB",
               UINT64_MAX,
               "R0:16777216 1>0:0+2097152 2>0:2097152+3145728 3>0:5242880+11534336 1- 2- "
               "4>0:0+5242880");
}

TEST(arenas_hand_superblocks_back_when_one_fails)
{
    must_place("1+1000@0 1- 2+4194304@1", "rmm_arena:arena_size=4MiB", UINT64_MAX,
               "R0:4194304 1>0:0+1024 1- 2>0:0+4194304");
    must_place("1+1@0 2+1@1 3+1@2 1- 2- 3- 4+4194304@1", "rmm_arena:arena_size=4MiB",
               UINT64_MAX,
               "R0:4194304 1>0:0+256 2>0:1048576+256 3>0:2097152+256 1- 2- 3- 4>0:0+4194304");
    must_place("1+1000@0 2+4194304@1", "rmm_arena:arena_size=4MiB", UINT64_MAX,
               "R0:4194304 1>0:0+1024 2?");
}

TEST(bins_serve_what_fits_and_the_pool_the_rest)
{
    const char *spec = "rmm_binning:min_size_exponent=10,max_size_exponent=11,upstream=cuda";
    must_place("1+1 2+1025 3+2049 3-", spec, UINT64_MAX,
               "R0:131072 R1:262144 1>0:0+1024 2>1:0+2048 R2:2064 3>2:0+2064 3- X2");
    must_place("1+1 2+1025 3+2049", "rmm_binning:min_size_exponent=10,max_size_exponent=11",
               UINT64_MAX,
               "R0:34359738368 1>0:0+1024 2>0:131072+2048 3>0:393216+2304");
}

TEST(bins_are_queues_and_streams_take_from_each_other)
{
    const char *spec = "rmm_binning:min_size_exponent=10,max_size_exponent=10,upstream=cuda";
    must_place("1+1@0 1- 2+1@0 3+1@1", spec, UINT64_MAX,
               "R0:131072 1>0:0+1024 1- 2>0:1024+1024 3>0:2048+1024");
}

/* ---- exactfit ---------------------------------------------------------------------------- */

TEST(what_was_cached_for_one_size_serves_no_other)
{
    must_place("1+1024 1- 2+1000 2- 3+512 4+1024@1", "exactfit", UINT64_MAX,
               "R0:1024 1>0:0+1024 1- 2>0:0+1024 2- R1:512 3>1:0+512 R2:1024 4>2:0+1024");
    must_place("1+1024 1- 2+2048", "exactfit", 2048,
               "R0:1024 1>0:0+1024 1- X0 R1:2048 2>1:0+2048");
}

/* ---- gmlake ------------------------------------------------------------------------------ */

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
    CHECK_STR(placed_in(&ctx, script, "gmlake:fragLimit=8MiB", UINT64_MAX),
              mr_printf(&ctx, "%s4>2:0+8388608", begin));
    CHECK_STR(placed_in(&ctx, script, "gmlake:fragLimit=8MiB,reuseLimit=1", UINT64_MAX),
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

/* ---- buddy, firstfit, bestfit, cudamallocasync ------------------------------------------- */

TEST(sizes_between_powers_of_two_take_the_next_one)
{
    must_place("1+4402341478 2+5368709120 3+8589934592", "buddy", UINT64_MAX,
               "R0:8589934592 1>0:0+8589934592 R1:8589934592 2>1:0+8589934592 "
               "R2:8589934592 3>2:0+8589934592"); /* 4.1, 5.0 and 8.0 GiB */
    must_place("1+4402341478 2+5368709120 3+8589934592",
               "pytorch:roundup_power2_divisions=2", UINT64_MAX,
               "R0:6442450944 1>0:0+6442450944 R1:6442450944 2>1:0+6442450944 "
               "R2:8589934592 3>2:0+8589934592");
}

TEST(buddies_join_only_what_they_were_cut_from)
{
    must_place("1+1024 2+1024 3+1024 4+1024 2- 3- 5+2048 1- 6+2048", "buddy:segment=4KiB",
               UINT64_MAX,
               "R0:4096 1>0:0+1024 2>0:1024+1024 3>0:2048+1024 4>0:3072+1024 2- 3- "
               "R1:4096 5>1:0+2048 1- 6>0:0+2048");
}

TEST(buddies_halve_the_smallest_block_that_will_do)
{
    must_place("1+512 2+2048 3+512 flush 1- 2- 3- flush", "buddy:segment=4KiB", UINT64_MAX,
               "R0:4096 1>0:0+512 2>0:2048+2048 3>0:512+512 1- 2- 3- X0");
}

TEST(first_fit_takes_the_lowest_place_and_best_fit_the_smallest)
{
    const char *script = "1+4096 2+512 3+1024 4+512 1- 3- 5+1024 6+3584";
    must_place(script, "firstfit", UINT64_MAX,
               "R0:4398046511104 M0:0:4096 1>0:0+4096 M0:4096:512 2>0:4096+512 M0:4608:1024 "
               "3>0:4608+1024 M0:5632:512 4>0:5632+512 1- 3- 5>0:0+1024 M0:6144:3584 "
               "6>0:6144+3584");
    must_place(script, "bestfit", UINT64_MAX,
               "R0:4398046511104 M0:0:4096 1>0:0+4096 M0:4096:512 2>0:4096+512 M0:4608:1024 "
               "3>0:4608+1024 M0:5632:512 4>0:5632+512 1- 3- 5>0:4608+1024 6>0:0+3584");
}

TEST(first_fit_and_best_fit_merge_with_both_neighbours)
{
    static const char *const specs[] = {"firstfit", "bestfit"};
    for (size_t i = 0; i < MR_COUNT(specs); i++) {
        must_place("1+512 2+512 1- 2- 3+1024", specs[i], UINT64_MAX,
                   "R0:4398046511104 M0:0:512 1>0:0+512 M0:512:512 2>0:512+512 1- 2- "
                   "3>0:0+1024");
        must_place("1+512 2+512 2- 1- 3+1024", specs[i], UINT64_MAX,
                   "R0:4398046511104 M0:0:512 1>0:0+512 M0:512:512 2>0:512+512 2- 1- "
                   "3>0:0+1024");
    }
}

TEST(a_free_end_of_the_range_grows)
{
    must_place("1+512 2+512 2- 3+2048", "firstfit", UINT64_MAX,
               "R0:4398046511104 M0:0:512 1>0:0+512 M0:512:512 2>0:512+512 2- M0:1024:1536 "
               "3>0:512+2048");
    must_place("1+512 2+512", "bestfit:alignment=256", 1000,
               "R0:4398046511104 M0:0:512 1>0:0+512 2?");
}

TEST(the_drivers_pool_gives_back_at_a_synchronisation_what_is_above_its_threshold)
{
    const char *script = "1+1000 1- flush";
    must_place(script, "cudamallocasync", UINT64_MAX,
               "R0:33554432 1>0:0+1024 1- X0");
    must_place(script, "cudamallocasync:release_threshold=32MiB", UINT64_MAX,
               "R0:33554432 1>0:0+1024 1-");
}

TEST(the_drivers_pool_lets_streams_wait_for_each_other_or_not)
{
    const char *script = "1+33554432@0 1- 2+1000@1";
    must_place(script, "cudamallocasync", UINT64_MAX,
               "R0:33554432 1>0:0+33554432 1- 2>0:0+1024");
    must_place(script, "cudamallocasync:reuse_allow_internal_dependencies=False", UINT64_MAX,
               "R0:33554432 1>0:0+33554432 1- R1:33554432 2>1:0+1024");
    must_place(script, "cudamallocasync:reuse_allow_internal_dependencies=False",
               40 * MR_MIB, "R0:33554432 1>0:0+33554432 1- R1:1024 2>1:0+1024");
}

/* ---- reports about PyTorch's ------------------------------------------------------------- */

TEST(requests_of_270_mib_land_in_cached_blocks_of_530)
{
    const char *script = "1+555745280 1- 2+283115520 3+283115520";
    must_place(script, "pytorch", UINT64_MAX,
               "R0:555745280 1>0:0+555745280 1- 2>0:0+283115520 R1:283115520 3>1:0+283115520");
    must_place(script, "pytorch:max_split_size_mb=256", UINT64_MAX,
               "R0:555745280 1>0:0+555745280 1- R1:283115520 2>1:0+283115520 R2:283115520 "
               "3>2:0+283115520");
}

TEST(a_small_survivor_keeps_a_large_segment)
{
    must_place("1+11643387904 1- 2+5000000 flush", "pytorch", UINT64_MAX,
               "R0:11643387904 1>0:0+11643387904 1- 2>0:0+5000192");
    must_place("1+11643387904 1- flush", "pytorch", UINT64_MAX,
               "R0:11643387904 1>0:0+11643387904 1- X0");
}

TEST(max_split_size_makes_expandable_memory_useless_once_merged)
{
    const char *script = "1+41943040 2+41943040 3+20971520 1- 2- 4+20971520";
    must_place(script, "pytorch:expandable_segments=True", UINT64_MAX,
               "R0:77321994240 M0:0:41943040 1>0:0+41943040 M0:41943040:41943040 "
               "2>0:41943040+41943040 M0:83886080:20971520 3>0:83886080+20971520 1- 2- "
               "4>0:0+20971520");
    must_place(script, "pytorch:expandable_segments=True,max_split_size_mb=64", UINT64_MAX,
               "R0:77321994240 M0:0:41943040 1>0:0+41943040 M0:41943040:41943040 "
               "2>0:41943040+41943040 M0:83886080:20971520 3>0:83886080+20971520 1- 2- "
               "M0:104857600:20971520 4>0:104857600+20971520");
}

/* ---- all of them ------------------------------------------------------------------------- */

static uint32_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* Two streams, some frees deferred, a flush now and then. */
static mr_trace random_lives(mr_ctx *ctx, uint64_t seed, uint32_t n)
{
    uint64_t state = seed;
    mr_trace trace;
    mr_trace_init(ctx, &trace, "random");
    MR_PUSH(ctx, &trace.streams, 7);
    MR_VEC(uint32_t) live = {0};
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t dice = draw(&state) % 100, shift = draw(&state) % 26;
        if (dice == 0) {
            MR_PUSH(ctx, &trace.events, (mr_event){MR_FLUSH, 0});
        } else if (dice < 52 || !live.n) {
            MR_PUSH(ctx, &trace.storages,
                    (mr_storage){.bytes = draw(&state) % ((uint32_t)2 << shift),
                                 .stream = draw(&state) % 2, .stack = MR_NONE});
            MR_PUSH(ctx, &live, trace.storages.n - 1);
            MR_PUSH(ctx, &trace.events, (mr_event){MR_ALLOC, trace.storages.n - 1});
        } else {
            const uint32_t k = draw(&state) % live.n, id = live.at[k];
            live.at[k] = live.at[--live.n];
            trace.storages.at[id].deferred = dice > 95;
            MR_PUSH(ctx, &trace.events, (mr_event){MR_FREE, id});
            if (dice > 95) MR_PUSH(ctx, &trace.events, (mr_event){MR_DONE, id});
        }
    }
    return trace;
}

TEST(the_referee_accepts_what_options_do_to_random_lives)
{
    static const char *const specs[] = {
        "bfc:allow_growth=False",
        "bfc:garbage_collection=True",
        "bfc:prealloc=0.75,fragmentation_fraction=0.000001",
        "ort:arena_extend_strategy=kSameAsRequested",
        "ort:gpu_mem_limit=100MiB,max_dead_bytes_per_chunk=1KiB",
        "rmm_pool:initial_pool_size=256",
        "rmm_pool:initial_pool_size=1MiB,maximum_pool_size=300MiB",
        "rmm_pool:percent_of_free_device_memory=0",
        "rmm_arena:arena_size=1MiB",
        "rmm_arena:arena_size=256MiB",
        "rmm_binning:min_size_exponent=8,max_size_exponent=16,upstream=cuda",
        "rmm_binning:percent_of_free_device_memory=1",
        "cupy:limit=200MiB",
        "gmlake:fragLimit=2MiB",
        "gmlake:fragLimit=4MiB,reuseLimit=1,defragLevel=1",
        "gmlake:fragLimit=0,defragLevel=2,reAlloc=True",
        "buddy:segment=1MiB,least=1",
        "firstfit:alignment=1",
        "bestfit:alignment=3",
        "exactfit:alignment=1",
        "stalloc",
        "stalloc:expandable_segments=True",
        "cudamallocasync:reuse_allow_internal_dependencies=False",
        "cudamallocasync:release_threshold=64MiB,step=512",
    };
    static const uint64_t capacities[] = {UINT64_MAX, 256 * MR_MIB, 20 * MR_MIB};
    for (size_t i = 0; i < MR_COUNT(specs) * 6; i++)
        for (size_t c = 0; c < MR_COUNT(capacities); c++) {
            mr_ctx ctx = {0};
            const mr_trace trace = random_lives(&ctx, i, 1500);
            const char *spec = specs[i % MR_COUNT(specs)];
            mr_answer answer;
            if (scripted_run(&ctx, &trace, spec, capacities[c], 2, &answer))
                TEST_FAIL("seed %d, %s: %s", (int)i, spec, ctx.failure.text);
            mr_ctx_clear(&ctx);
        }
}

TEST_MAIN()

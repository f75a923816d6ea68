/* The allocators of other programs: their documented rules, and reports of their users, each by
 * the few events that show it.  tests/test_strategies.c holds all against the referees. */
#include "scripted.h"

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

/* ---- exactfit ---------------------------------------------------------------------------- */

TEST(what_was_cached_for_one_size_serves_no_other)
{
    must_place("1+1024 1- 2+1000 2- 3+512 4+1024@1", "exactfit", UINT64_MAX,
               "R0:1024 1>0:0+1024 1- 2>0:0+1024 2- R1:512 3>1:0+512 R2:1024 4>2:0+1024");
    must_place("1+1024 1- 2+2048", "exactfit", 2048,
               "R0:1024 1>0:0+1024 1- X0 R1:2048 2>1:0+2048");
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

/* RMM's pool, arenas and bins, by the few events that show a rule. */
#include "scripted.h"

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

TEST_MAIN()

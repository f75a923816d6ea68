/* Buddies, first and best fit in one range, and the driver's pools. */
#include "scripted.h"

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

TEST_MAIN()

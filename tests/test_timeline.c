/* Clocks of host, streams and links, on steps short enough to be computed by hand. */
#include "timeline.h"
#include "test.h"

#include <stdlib.h>

enum { STORAGES = 8, LONGEST = 64 };

typedef struct world {
    mr_ctx ctx;
    mr_trace trace;
    mr_timeline timeline;
} world;

static void begin(world *w)
{
    memset(w, 0, sizeof *w);
    mr_trace_init(&w->ctx, &w->trace, "clocks");
    for (uint32_t s = 0; s < STORAGES; s++) {
        MR_PUSH(&w->ctx, &w->trace.storages, (mr_storage){.bytes = 1, .stack = MR_NONE});
        MR_PUSH(&w->ctx, &w->trace.tensors, (mr_tensor){.storage = s, .bytes = 1});
    }
    mr_timeline_begin(&w->ctx, &w->timeline);
}

/* One op that reads and writes a tensor each; MR_NONE for none. */
static void run(world *w, uint32_t stream, mr_engine engine, uint32_t in, uint32_t out,
                uint64_t host_ns, uint64_t device_ns)
{
    const mr_op op = {.stream = stream, .engine = (uint8_t)engine, .in = {&in, in != MR_NONE},
                      .out = {&out, out != MR_NONE}};
    mr_timeline_run(&w->timeline, &w->trace, &op, host_ns, device_ns);
}

static void kernel(world *w, uint32_t in, uint32_t out, uint64_t host_ns, uint64_t device_ns)
{
    run(w, 0, MR_ENGINE_compute, in, out, host_ns, device_ns);
}

/* now, starved, exposed */
static const char *told(world *w)
{
    const uint64_t now = mr_timeline_now(&w->timeline);
    return mr_printf(&w->ctx, "%" PRIu64 " %" PRIu64 " %" PRIu64, now, w->timeline.starved,
                     w->timeline.exposed);
}

static const char *ended(world *w)
{
    static char text[LONGEST];
    snprintf(text, sizeof text, "%s", told(w));
    mr_ctx_clear(&w->ctx);
    return text;
}

TEST(a_slow_device_hides_the_host)
{
    world w;
    begin(&w);
    for (uint32_t i = 0; i < 4; i++) kernel(&w, i, i + 1, 10, 100);
    CHECK_STR(ended(&w), "410 10 0"); /* only the first launch is waited for */
}

TEST(a_slow_host_leaves_the_device_without_work)
{
    world w;
    begin(&w);
    for (uint32_t i = 0; i < 4; i++) kernel(&w, i, i + 1, 100, 10);
    CHECK_STR(ended(&w), "410 370 0"); /* 100 before the first, 90 before each of the others */
}

/* The kernel reads nothing of what is copied; only its stream has been made to wait. */
TEST(a_wait_holds_up_its_stream_and_takes_no_time)
{
    world w;
    begin(&w);
    run(&w, 1, MR_ENGINE_to_host, 0, 1, 10, 500);
    run(&w, 0, MR_ENGINE_wait, 1, MR_NONE, 0, 0);
    kernel(&w, 2, 3, 0, 100);
    CHECK_STR(ended(&w), "610 10 500");
    begin(&w);
    run(&w, 1, MR_ENGINE_to_host, 0, 1, 10, 500);
    kernel(&w, 2, 3, 0, 100);
    CHECK_STR(ended(&w), "510 10 400"); /* the end of the copy comes last */
}

/* What is taken after a kernel cannot be filled before it. */
TEST(a_copy_comes_after_what_took_its_memory)
{
    world w;
    begin(&w);
    kernel(&w, 2, 3, 0, 100);
    run(&w, 0, MR_ENGINE_wait, MR_NONE, 4, 0, 0);
    run(&w, 1, MR_ENGINE_from_host, 1, 4, 0, 50);
    kernel(&w, 4, 5, 0, 10);
    CHECK_STR(ended(&w), "160 0 50");
}

TEST(a_view_takes_the_host_alone)
{
    world w;
    begin(&w);
    kernel(&w, 0, 1, 10, 100);
    kernel(&w, 1, 2, 20, 0);
    kernel(&w, 2, 3, 10, 100);
    CHECK_STR(ended(&w), "210 10 0");
}

TEST(a_free_waits_for_what_was_issued)
{
    world w;
    begin(&w);
    kernel(&w, 0, 1, 10, 100);
    mr_timeline_settle(&w.timeline); /* 110 */
    mr_timeline_host(&w.timeline, 30);
    kernel(&w, 1, 2, 10, 100); /* issued at 150 */
    CHECK_STR(ended(&w), "250 50 0");
}

TEST(an_allocation_does_not_wait)
{
    world w;
    begin(&w);
    kernel(&w, 0, 1, 10, 100);
    mr_timeline_host(&w.timeline, 30);
    kernel(&w, 1, 2, 10, 100);
    CHECK_STR(ended(&w), "210 10 0");
}

TEST(a_copy_runs_beside_kernels)
{
    world w;
    begin(&w);
    kernel(&w, 0, 1, 10, 100);
    run(&w, 1, MR_ENGINE_to_host, 1, 2, 10, 150); /* 110 to 260, when 1 is there */
    kernel(&w, 1, 3, 10, 100);
    kernel(&w, 3, 4, 10, 100); /* to 310 */
    CHECK_STR(ended(&w), "310 10 0");
}

TEST(a_kernel_waits_for_the_copy_that_it_reads)
{
    world w;
    begin(&w);
    kernel(&w, 0, 1, 10, 100);
    run(&w, 1, MR_ENGINE_from_host, MR_NONE, 2, 10, 300); /* 20 to 320 */
    kernel(&w, 2, 3, 10, 100);
    CHECK_STR(ended(&w), "420 10 210");
}

TEST(a_copy_at_the_end_is_waited_for)
{
    world w;
    begin(&w);
    kernel(&w, 0, 1, 10, 100);
    run(&w, 1, MR_ENGINE_all_reduce, 1, 1, 10, 70);
    CHECK_STR(ended(&w), "180 10 70");
}

TEST(copies_of_one_direction_share_the_link)
{
    world w;
    begin(&w);
    run(&w, 1, MR_ENGINE_to_host, 0, 1, 10, 100); /* 10 to 110 */
    run(&w, 2, MR_ENGINE_to_host, 2, 3, 10, 100); /* to 210, on another stream */
    run(&w, 3, MR_ENGINE_from_host, 4, 5, 10, 100); /* 30 to 130 */
    CHECK_STR(ended(&w), "210 30 180"); /* until 30 the host might have issued a kernel */
}

TEST(collectives_share_the_interconnect_whatever_they_are)
{
    world w;
    begin(&w);
    run(&w, 1, MR_ENGINE_all_reduce, 0, 0, 0, 100);
    run(&w, 2, MR_ENGINE_all_gather, 1, 1, 0, 100);
    CHECK_STR(ended(&w), "200 0 200");
}

TEST(what_is_still_read_is_not_overwritten)
{
    world w;
    begin(&w);
    run(&w, 1, MR_ENGINE_to_host, 0, 1, 10, 200); /* reads 0 until 210 */
    kernel(&w, 2, 0, 10, 50);                     /* issued at 20, writes it */
    CHECK_STR(ended(&w), "260 20 190");
}

TEST(a_join_waits_for_one_stream)
{
    world w;
    begin(&w);
    run(&w, 0, MR_ENGINE_compute, 0, 1, 10, 100); /* to 110 */
    run(&w, 1, MR_ENGINE_compute, 2, 3, 10, 300); /* to 320 */
    mr_timeline_join(&w.timeline, 0);
    CHECK_EQ(w.timeline.host, 110);
    mr_timeline_settle(&w.timeline);
    CHECK_EQ(w.timeline.host, 320);
    mr_ctx_clear(&w.ctx);
}

TEST(clocks_stop_at_the_end_of_time)
{
    world w;
    begin(&w);
    kernel(&w, 0, 1, UINT64_MAX, UINT64_MAX);
    kernel(&w, 1, 2, UINT64_MAX, UINT64_MAX);
    CHECK_EQ(mr_timeline_now(&w.timeline), UINT64_MAX);
    mr_ctx_clear(&w.ctx);
}

/* Of random steps: never less than the host's work, than any stream's, than any link's; never
 * more than all of it after one another; and what is idle is told once. */
TEST(no_step_is_shorter_than_its_parts_nor_longer_than_their_sum)
{
    srand(7);
    for (int step = 0; step < 2000; step++) {
        world w;
        begin(&w);
        uint64_t host = 0, kernels = 0, all = 0, streams[3] = {0}, links[MR_ENGINE_N] = {0};
        for (int i = 0; i < 30; i++) {
            const uint32_t stream = (uint32_t)rand() % 3;
            const mr_engine engine = (mr_engine)(rand() % 3); /* kernels, copies both ways */
            const uint64_t h = (uint64_t)rand() % 50, d = (uint64_t)rand() % 100;
            run(&w, stream, engine, (uint32_t)rand() % STORAGES, (uint32_t)rand() % STORAGES, h,
                d);
            host += h;
            all += h + d;
            streams[stream] += d;
            links[engine] += d;
            if (engine == MR_ENGINE_compute) kernels += d;
        }
        const uint64_t now = mr_timeline_now(&w.timeline);
        CHECK(now >= host && now <= all);
        for (int s = 0; s < 3; s++) CHECK(now >= streams[s]);
        CHECK(now >= links[MR_ENGINE_to_host] && now >= links[MR_ENGINE_from_host]);
        CHECK(w.timeline.starved + w.timeline.exposed <= now);
        CHECK(w.timeline.starved + w.timeline.exposed + kernels >= now);
        mr_ctx_clear(&w.ctx);
    }
}

TEST_MAIN()

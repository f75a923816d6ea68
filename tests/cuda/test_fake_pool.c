/* Pools of the stand-in: what is documented of them, and what they forbid. */
#include "fake_cuda.h"
#include "kernels.h"
#include "test.h"

#define STEP (32 * MR_MIB)

typedef struct machine {
    mr_ctx ctx;
    mr_cuda_driver d;
    mr_cuda_pool *pool;
    mr_cuda_stream *one, *two;
    mr_cuda_module *module;
    mr_cuda_function *kernel;
    mr_cuda_pointer report;
} machine;

static machine begin(int waits)
{
    machine m = {0};
    mr_cuda_context *context;
    const mr_cuda_pool_property property = {.type = MR_CUDA_PINNED,
                                            .location = {MR_CUDA_ON_DEVICE, 0}};
    uint64_t all = UINT64_MAX;
    fake_cuda_reset();
    CHECK(mr_cuda_driver_open(&m.ctx, &m.d) == MR_OK);
    CHECK(m.d.retain(&context, 0) == 0 && m.d.use(context) == 0);
    CHECK(m.d.pool(&m.pool, &property) == 0);
    CHECK(m.d.set_pool(m.pool, MR_CUDA_POOL_WAITS, &waits) == 0);
    CHECK(m.d.set_pool(m.pool, MR_CUDA_POOL_KEEPS, &all) == 0);
    CHECK(m.d.stream(&m.one, MR_CUDA_OF_ITS_OWN) == 0);
    CHECK(m.d.stream(&m.two, MR_CUDA_OF_ITS_OWN) == 0);
    CHECK(m.d.load(&m.module, "of a test") == 0);
    CHECK(m.d.function(&m.kernel, m.module, "mr_kernel_job") == 0);
    CHECK(m.d.take(&m.report, sizeof(mr_report)) == 0);
    return m;
}

static void end(machine *m, const char *violation)
{
    CHECK_HAS(fake_cuda_violation(), violation);
    if (!*violation) CHECK_STR(fake_cuda_violation(), "");
    mr_ctx_clear(&m->ctx);
    fake_cuda_reset();
}

static mr_cuda_pointer take(machine *m, uint64_t bytes, mr_cuda_stream *stream)
{
    mr_cuda_pointer at = 0;
    CHECK(m->d.take_pooled(&at, bytes, m->pool, stream) == 0);
    return at;
}

static void fill(machine *m, mr_cuda_stream *stream, mr_cuda_pointer at, uint64_t bytes)
{
    mr_job job = {.report = m->report, .n = 1};
    void *arguments[] = {&job};
    job.spans[0] = (mr_span){at, bytes, 1, MR_SPAN_WRITE, 1, 0};
    CHECK(m->d.launch(m->kernel, 1, 1, 1, MR_THREADS, 1, 1, 0, stream, arguments, NULL) == 0);
}

static uint64_t peak(machine *m)
{
    uint64_t bytes = 0;
    CHECK(m->d.ask_pool(m->pool, MR_CUDA_POOL_PEAK, &bytes) == 0);
    return bytes;
}

TEST(what_a_stream_has_freed_it_gets_again_before_anything_has_run)
{
    machine m = begin(1);
    const mr_cuda_pointer a = take(&m, MR_MIB, m.one);
    fill(&m, m.one, a, MR_MIB);
    CHECK(m.d.give_pooled(a, m.one) == 0);
    const mr_cuda_pointer b = take(&m, MR_MIB, m.one);
    CHECK_EQ(b, a);
    fill(&m, m.one, b, MR_MIB);
    CHECK(m.d.wait() == 0);
    CHECK_EQ(peak(&m), STEP);
    end(&m, "");
}

TEST(another_stream_gets_it_when_it_may_wait_and_then_does)
{
    machine m = begin(1);
    const mr_cuda_pointer a = take(&m, STEP, m.one);
    fill(&m, m.one, a, STEP);
    CHECK(m.d.give_pooled(a, m.one) == 0);
    const mr_cuda_pointer b = take(&m, STEP, m.two);
    CHECK_EQ(b, a);
    fill(&m, m.two, b, STEP);
    CHECK(m.d.wait() == 0);
    end(&m, "");
    m = begin(0);
    const mr_cuda_pointer c = take(&m, STEP, m.one);
    CHECK(m.d.give_pooled(c, m.one) == 0);
    CHECK(take(&m, STEP, m.two) != c);
    CHECK_EQ(peak(&m), 2 * STEP);
    end(&m, "");
}

TEST(memory_is_not_there_for_a_stream_that_does_not_wait_for_the_one_that_asked)
{
    machine m = begin(1);
    fill(&m, m.two, take(&m, MR_MIB, m.one), MR_MIB); /* the newest stream runs first */
    CHECK_EQ(m.d.wait(), FAKE_CUDA_ILLEGAL);
    end(&m, "may not be touched");
}

TEST(memory_is_gone_once_it_is_freed)
{
    machine m = begin(1);
    const mr_cuda_pointer a = take(&m, MR_MIB, m.one);
    CHECK(m.d.give_pooled(a, m.one) == 0);
    fill(&m, m.one, a, MR_MIB);
    CHECK_EQ(m.d.wait(), FAKE_CUDA_ILLEGAL);
    end(&m, "may not be touched");
}

TEST(no_more_than_was_asked_for_may_be_touched)
{
    machine m = begin(1);
    fill(&m, m.one, take(&m, 1000, m.one), 1001);
    CHECK_EQ(m.d.wait(), FAKE_CUDA_ILLEGAL);
    end(&m, "may not be touched");
}

TEST(freeing_twice_is_seen)
{
    machine m = begin(1);
    const mr_cuda_pointer a = take(&m, MR_MIB, m.one);
    CHECK(m.d.give_pooled(a, m.one) == 0);
    CHECK(m.d.give_pooled(a, m.one) != 0);
    end(&m, "which nobody has");
}

TEST(a_pool_does_not_end_with_memory_in_use_and_that_is_a_leak)
{
    machine m = begin(1);
    const uint32_t before = fake_cuda_leaks();
    take(&m, MR_MIB, m.one);
    CHECK_EQ(fake_cuda_leaks(), before + 1);
    CHECK(m.d.end_pool(m.pool) != 0);
    end(&m, "while its memory is in use");
}

TEST(memory_of_a_pool_is_not_given_back_as_if_it_were_of_the_simple_kind)
{
    machine m = begin(1);
    const mr_cuda_pointer a = take(&m, MR_MIB, m.one);
    CHECK(m.d.wait() == 0);
    CHECK(m.d.give(a) != 0);
    end(&m, "which nobody has");
}

TEST(trimming_gives_back_what_is_free_down_to_what_is_to_be_kept)
{
    machine m = begin(1);
    const uint64_t used = fake_used(0);
    const mr_cuda_pointer a = take(&m, STEP, m.one), b = take(&m, STEP, m.two);
    take(&m, MR_MIB, m.one);
    CHECK_EQ(fake_used(0) - used, 3 * STEP);
    CHECK(m.d.trim(m.pool, 0) == 0);
    CHECK_EQ(fake_used(0) - used, 3 * STEP);
    CHECK(m.d.give_pooled(a, m.one) == 0 && m.d.give_pooled(b, m.two) == 0);
    CHECK(m.d.trim(m.pool, 2 * STEP) == 0);
    CHECK_EQ(fake_used(0) - used, 2 * STEP);
    CHECK(m.d.trim(m.pool, 0) == 0);
    CHECK_EQ(fake_used(0) - used, STEP);
    CHECK_EQ(peak(&m), 3 * STEP);
    end(&m, "");
}

TEST(a_pool_has_no_more_than_its_device)
{
    machine m = begin(1);
    mr_cuda_pointer at;
    CHECK_EQ(m.d.take_pooled(&at, 200 * MR_GIB, m.pool, m.one), MR_CUDA_NO_MEMORY);
    end(&m, "");
}

TEST_MAIN()

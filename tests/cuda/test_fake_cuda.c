/* The stand-in for a driver finds what it is there to find. */
#include "fake_cuda.h"
#include "kernels.h"
#include "test.h"

#define PAGE (2 * MR_MIB)

static const mr_cuda_property on_device = {.type = MR_CUDA_PINNED,
                                           .location = {MR_CUDA_ON_DEVICE, 0}};
static const mr_cuda_access open_access = {{MR_CUDA_ON_DEVICE, 0}, MR_CUDA_READ_WRITE};

typedef struct machine {
    mr_ctx ctx;
    mr_cuda_driver d;
    mr_cuda_context *context;
} machine;

static machine begin(void)
{
    machine m = {0};
    fake_cuda_reset();
    CHECK(mr_cuda_driver_open(&m.ctx, &m.d) == MR_OK);
    CHECK(m.d.retain(&m.context, 0) == 0 && m.d.use(m.context) == 0);
    return m;
}

static void end(machine *m, const char *violation)
{
    CHECK_HAS(fake_cuda_violation(), violation);
    if (!*violation) CHECK_STR(fake_cuda_violation(), "");
    mr_ctx_clear(&m->ctx);
    fake_cuda_reset();
}

TEST(memory_is_charged_by_whole_pages_and_comes_back)
{
    machine m = begin();
    mr_cuda_pointer at;
    size_t before, during, after, total;
    CHECK(m.d.info(&before, &total) == 0);
    CHECK(m.d.take(&at, PAGE + 1) == 0);
    CHECK(m.d.info(&during, &total) == 0);
    CHECK_EQ(before - during, 2 * PAGE);
    CHECK(m.d.give(at) == 0);
    CHECK(m.d.info(&after, &total) == 0);
    CHECK_EQ(after, before);
    CHECK_EQ(fake_cuda_leaks(), 1); /* the context */
    CHECK(m.d.let_go(0) == 0);
    CHECK_EQ(fake_cuda_leaks(), 0);
    end(&m, "");
}

TEST(more_than_there_is_is_out_of_memory)
{
    machine m = begin();
    mr_cuda_pointer at;
    CHECK_EQ(m.d.take(&at, 200 * MR_GIB), MR_CUDA_NO_MEMORY);
    end(&m, "");
}

TEST(giving_back_twice_is_seen)
{
    machine m = begin();
    mr_cuda_pointer at;
    CHECK(m.d.take(&at, 100) == 0 && m.d.give(at) == 0);
    CHECK(m.d.give(at) != 0);
    end(&m, "which nobody has");
}

TEST(half_a_page_cannot_be_created)
{
    machine m = begin();
    mr_cuda_handle handle;
    CHECK(m.d.create(&handle, PAGE / 2, &on_device, 0) != 0);
    end(&m, "not whole pages");
}

static mr_cuda_pointer mapped(machine *m, mr_cuda_handle *handle)
{
    mr_cuda_pointer at = 0;
    CHECK(m->d.range(&at, 4 * PAGE, 0, 0, 0) == 0);
    CHECK(m->d.create(handle, 2 * PAGE, &on_device, 0) == 0);
    CHECK(m->d.map(at, 2 * PAGE, 0, *handle, 0) == 0);
    return at;
}

TEST(mapped_memory_may_be_touched_once_access_is_set)
{
    machine m = begin();
    mr_cuda_handle handle;
    const mr_cuda_pointer at = mapped(&m, &handle);
    CHECK(!fake_may_touch(0, at, 1));
    CHECK(m.d.access(at, 2 * PAGE, &open_access, 1) == 0);
    CHECK(fake_may_touch(0, at, 2 * PAGE) && !fake_may_touch(0, at, 2 * PAGE + 1));
    CHECK(m.d.unmap(at, 2 * PAGE) == 0);
    CHECK(!fake_may_touch(0, at, 1));
    end(&m, "");
}

TEST(a_part_of_a_mapping_cannot_be_unmapped)
{
    machine m = begin();
    mr_cuda_handle handle;
    const mr_cuda_pointer at = mapped(&m, &handle);
    CHECK(m.d.unmap(at, PAGE) != 0);
    end(&m, "whole mappings");
}

TEST(access_needs_something_mapped)
{
    machine m = begin();
    mr_cuda_handle handle;
    const mr_cuda_pointer at = mapped(&m, &handle);
    CHECK(m.d.access(at, 3 * PAGE, &open_access, 1) != 0);
    end(&m, "not all is mapped");
}

TEST(addresses_cannot_go_while_memory_is_mapped_there)
{
    machine m = begin();
    mr_cuda_handle handle;
    const mr_cuda_pointer at = mapped(&m, &handle);
    CHECK(m.d.end_range(at, 4 * PAGE) != 0);
    end(&m, "while memory is mapped");
}

TEST(memory_comes_back_when_neither_handle_nor_mapping_is_left)
{
    machine m = begin();
    mr_cuda_handle handle;
    const mr_cuda_pointer at = mapped(&m, &handle);
    const uint64_t used = fake_used(0);
    CHECK(m.d.end(handle) == 0);
    CHECK_EQ(fake_used(0), used);
    CHECK(m.d.unmap(at, 2 * PAGE) == 0);
    CHECK_EQ(fake_used(0), used - 2 * PAGE);
    end(&m, "");
}

/* ---- streams ----------------------------------------------------------------------------- */

static void fill(machine *m, mr_cuda_function *kernel, mr_cuda_stream *stream,
                 mr_cuda_pointer at, uint32_t value)
{
    mr_job job = {.report = at + PAGE / 2, .n = 1};
    void *arguments[] = {&job};
    job.spans[0] = (mr_span){at, MR_WORD, value, MR_SPAN_WRITE, 1, 0};
    CHECK(m->d.launch(kernel, 1, 1, 1, MR_THREADS, 1, 1, 0, stream, arguments, NULL) == 0);
}

/* Two streams write the same word; who is last depends on whether one waits. */
static uint32_t last_of_two(bool waits)
{
    machine m = begin();
    mr_cuda_module *module;
    mr_cuda_function *kernel;
    mr_cuda_stream *streams[2];
    mr_cuda_event *event;
    mr_cuda_pointer at;
    uint64_t word;
    CHECK(m.d.load(&module, "of a test") == 0);
    CHECK(m.d.function(&kernel, module, "mr_kernel_job") == 0);
    CHECK(m.d.event(&event, MR_CUDA_UNTIMED) == 0);
    CHECK(m.d.stream(&streams[0], MR_CUDA_OF_ITS_OWN) == 0);
    CHECK(m.d.stream(&streams[1], MR_CUDA_OF_ITS_OWN) == 0);
    CHECK(m.d.take(&at, PAGE) == 0);
    fill(&m, kernel, streams[0], at, 1);
    CHECK(m.d.record(event, streams[0]) == 0);
    if (waits) CHECK(m.d.stream_waits(streams[1], event, 0) == 0);
    fill(&m, kernel, streams[1], at, 2);
    CHECK(m.d.wait() == 0);
    CHECK(m.d.fetch(&word, at, sizeof word) == 0);
    CHECK(m.d.end_event(event) == 0 && m.d.unload(module) == 0);
    end(&m, "");
    return (uint32_t)word;
}

TEST(a_stream_that_does_not_wait_is_too_early)
{
    CHECK_EQ(last_of_two(true), 2);
    CHECK_EQ(last_of_two(false), 1);
}

TEST(work_on_memory_that_is_gone_is_illegal_and_stays_so)
{
    machine m = begin();
    mr_cuda_module *module;
    mr_cuda_function *kernel;
    mr_cuda_stream *stream;
    mr_cuda_pointer at;
    CHECK(m.d.load(&module, "of a test") == 0);
    CHECK(m.d.function(&kernel, module, "mr_kernel_job") == 0);
    CHECK(m.d.stream(&stream, MR_CUDA_OF_ITS_OWN) == 0);
    CHECK(m.d.take(&at, PAGE) == 0);
    CHECK(m.d.give(at) == 0);
    fill(&m, kernel, stream, at, 1);
    CHECK_EQ(m.d.wait(), FAKE_CUDA_ILLEGAL);
    CHECK_EQ(m.d.wait(), FAKE_CUDA_ILLEGAL);
    CHECK(m.d.unload(module) == 0);
    end(&m, "may not be touched");
}

TEST_MAIN()

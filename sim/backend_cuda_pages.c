/* pages -- memory behind the addresses of an expandable segment.
 *
 * Each page is a physical allocation of its own, as PyTorch makes them, so that any run of
 * pages can be unmapped.  The same memory may stand behind addresses of several segments
 * (GMLake stitches that way); it is given back when it stands nowhere any more.
 */
#include "backend_cuda.h"

static mr_cuda_memory *memory_of(mr_cuda *c, const mr_cuda_page *page)
{
    return &c->memories.at[page->memory];
}

/* ---- one page ---------------------------------------------------------------------------- */

static uint32_t new_memory(mr_cuda *c, mr_ctx *ctx, mr_cuda_handle handle)
{
    uint32_t index = c->memories.n;
    if (c->idle.n) index = c->idle.at[--c->idle.n];
    else MR_PUSH(ctx, &c->memories, (mr_cuda_memory){0});
    c->memories.at[index] = (mr_cuda_memory){.handle = handle};
    return index;
}

/* Known from now on: it is given back on every way out. */
static mr_cuda_page *insert(mr_cuda *c, mr_ctx *ctx, mr_cuda_segment *s, mr_cuda_page page)
{
    uint32_t i = s->pages.n;
    MR_PUSH(ctx, &s->pages, page);
    for (; i > 0 && s->pages.at[i - 1].offset > page.offset; i--)
        s->pages.at[i] = s->pages.at[i - 1];
    s->pages.at[i] = page;
    memory_of(c, &page)->places++;
    return &s->pages.at[i];
}

static mr_status map_page(mr_cuda *c, mr_ctx *ctx, mr_cuda_segment *s, mr_cuda_page page)
{
    mr_cuda_page *at = insert(c, ctx, s, page);
    const mr_cuda_handle handle = memory_of(c, at)->handle;
    const mr_cuda_result result = c->driver.map(s->at + page.offset, page.bytes, 0, handle, 0);
    at->mapped = !result;
    return mr_cuda_refused(ctx, c, result, "map", page.bytes);
}

static mr_status add_page(mr_cuda *c, mr_ctx *ctx, mr_cuda_segment *s, uint64_t offset,
                          uint64_t bytes)
{
    const mr_cuda_property property = {.type = MR_CUDA_PINNED,
                                       .location = {MR_CUDA_ON_DEVICE, c->gpu}};
    mr_cuda_handle handle;
    MR_TRY(
        mr_cuda_refused(ctx, c, c->driver.create(&handle, bytes, &property, 0), "give", bytes));
    c->held += bytes;
    return map_page(
        c, ctx, s,
        (mr_cuda_page){.offset = offset, .bytes = bytes, .memory = new_memory(c, ctx, handle)});
}

static mr_status drop_page(mr_cuda *c, mr_ctx *ctx, const mr_cuda_segment *s,
                           const mr_cuda_page *page)
{
    mr_status status = MR_OK;
    mr_cuda_memory *memory = memory_of(c, page);
    if (page->mapped)
        status = mr_cuda_first(
            ctx, status, c, c->driver.unmap(s->at + page->offset, page->bytes), "unmap memory");
    if (--memory->places) return status;
    c->held -= page->bytes;
    MR_PUSH(ctx, &c->idle, page->memory);
    return mr_cuda_first(ctx, status, c, c->driver.end(memory->handle), "take memory back");
}

mr_status mr_cuda_drop_pages(mr_cuda *c, mr_ctx *ctx, mr_cuda_segment *s, uint64_t offset,
                             uint64_t bytes)
{
    mr_status status = MR_OK;
    uint32_t left = 0;
    for (uint32_t i = 0; i < s->pages.n; i++) {
        const mr_cuda_page page = s->pages.at[i];
        if (page.offset < offset || page.offset + page.bytes > offset + bytes) {
            s->pages.at[left++] = page;
            continue;
        }
        const mr_status dropped = drop_page(c, ctx, s, &page);
        if (!status) status = dropped;
    }
    s->pages.n = left;
    return status;
}

/* ---- stretches --------------------------------------------------------------------------- */

static mr_status check_stretch(mr_ctx *ctx, const mr_cuda *c, const mr_segment *segment,
                               const mr_block *stretch)
{
    const uint64_t page = segment->page ? segment->page : stretch->bytes;
    if (page % c->granularity == 0 && stretch->offset % c->granularity == 0
        && stretch->bytes % page == 0)
        return MR_OK;
    return mr_fail(
        ctx, MR_EUNSUPPORTED,
        "the device maps whole pages of %llu bytes, the placement maps %llu at offset"
        " %llu in pages of %llu",
        (unsigned long long)c->granularity, (unsigned long long)stretch->bytes,
        (unsigned long long)stretch->offset, (unsigned long long)page);
}

/* A new mapping gives no access. */
static mr_status allow(mr_cuda *c, mr_ctx *ctx, const mr_block *stretch)
{
    const mr_cuda_access access = {{MR_CUDA_ON_DEVICE, c->gpu}, MR_CUDA_READ_WRITE};
    const mr_cuda_pointer at = c->segments.at[stretch->segment].at + stretch->offset;
    return mr_cuda_refused(ctx, c, c->driver.access(at, stretch->bytes, &access, 1), "open",
                           stretch->bytes);
}

static mr_status make_pages(mr_cuda *c, mr_ctx *ctx, const mr_segment *segment,
                            const mr_block *stretch)
{
    mr_cuda_segment *s = &c->segments.at[stretch->segment];
    const uint64_t page = segment->page ? segment->page : stretch->bytes;
    for (uint64_t done = 0; done < stretch->bytes; done += page)
        MR_TRY(add_page(c, ctx, s, stretch->offset + done, page));
    return allow(c, ctx, stretch);
}

/* ---- the same memory at other addresses -------------------------------------------------- */

/* The page that begins there, NULL when none does. */
static const mr_cuda_page *page_at(const mr_cuda_segment *s, uint64_t offset)
{
    uint32_t low = 0, high = s->pages.n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (s->pages.at[middle].offset < offset) low = middle + 1;
        else high = middle;
    }
    return low < s->pages.n && s->pages.at[low].offset == offset ? &s->pages.at[low] : NULL;
}

static mr_status not_there(mr_ctx *ctx, const mr_block *stretch, uint64_t offset)
{
    return mr_fail(ctx, MR_EINVARIANT,
                   "the placement moves pages to offset %llu of segment %u, where they are not"
                   " mapped (offset %llu)",
                   (unsigned long long)stretch->offset, stretch->segment,
                   (unsigned long long)offset);
}

/* The pages of `from` are mapped at `to` as well, or have been for long. */
static mr_status stitch(mr_cuda *c, mr_ctx *ctx, const mr_block *from, const mr_block *to)
{
    const bool standing = to->handle == MR_STANDING;
    for (uint64_t done = 0; done < from->bytes;) {
        const mr_cuda_page *page = page_at(&c->segments.at[from->segment], from->offset + done);
        mr_cuda_segment *s = &c->segments.at[to->segment];
        if (!page) return not_there(ctx, from, from->offset + done);
        const mr_cuda_page copy = {
            .offset = to->offset + done, .bytes = page->bytes, .memory = page->memory};
        const mr_cuda_page *there = page_at(s, copy.offset);
        if (standing && (!there || there->memory != copy.memory))
            return not_there(ctx, to, copy.offset);
        if (!standing) MR_TRY(map_page(c, ctx, s, copy));
        done += copy.bytes;
    }
    mr_cuda_follow(c, ctx, from, to);
    return standing ? MR_OK : allow(c, ctx, to);
}

/* ---- commands ---------------------------------------------------------------------------- */

mr_status mr_cuda_map(void *self, mr_ctx *ctx, const mr_segment *segment,
                      const mr_block *stretch)
{
    mr_cuda *c = self;
    const mr_block from = c->lifted;
    c->lifted.segment = MR_NONE;
    MR_TRY(check_stretch(ctx, c, segment, stretch));
    const uint64_t began = mr_cuda_clock();
    MR_TRY(from.segment == MR_NONE ? make_pages(c, ctx, segment, stretch)
                                   : stitch(c, ctx, &from, stretch));
    mr_cuda_count(c, began);
    return mr_cuda_hold(c, ctx, 0);
}

/* The driver does not wait here; what may still use the pages has to be waited for.  Pages that
 * stand elsewhere as well stay where they are: the next command says where they are used now.
 */
mr_status mr_cuda_unmap(void *self, mr_ctx *ctx, const mr_segment *segment,
                        const mr_block *stretch)
{
    (void)segment;
    mr_cuda *c = self;
    if (stretch->handle == MR_STANDING) {
        c->lifted = *stretch;
        return MR_OK;
    }
    MR_TRY(mr_cuda_check(ctx, &c->driver, c->driver.wait(), "finish its work"));
    const uint64_t began = mr_cuda_clock();
    const mr_status status = mr_cuda_drop_pages(c, ctx, &c->segments.at[stretch->segment],
                                                stretch->offset, stretch->bytes);
    mr_cuda_count(c, began);
    return status;
}

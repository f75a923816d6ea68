/* chunks -- splitting, joining, segments. */
#include "chunks.h"

chunks chunks_make(mr_ctx *ctx)
{
    return (chunks){.ctx = ctx, .spare = MR_NONE};
}

static uint32_t new_chunk(chunks *c)
{
    const uint32_t id = c->spare;
    if (id != MR_NONE) {
        c->spare = c->all.at[id].next;
        return id;
    }
    MR_PUSH(c->ctx, &c->all, (chunk){0});
    return c->all.n - 1;
}

static void drop_chunk(chunks *c, uint32_t id)
{
    c->all.at[id].next = c->spare;
    c->spare = id;
}

uint32_t chunks_over(chunks *c, const mr_placer *placer, uint32_t segment, uint64_t offset,
                     uint64_t bytes)
{
    const uint32_t id = new_chunk(c);
    chunk *new = &c->all.at[id];
    *new = (chunk){.address = placer->out->segments.at[segment].address + offset,
                   .offset = offset,
                   .bytes = bytes,
                   .segment = segment,
                   .prev = MR_NONE,
                   .next = MR_NONE};
    return id;
}

uint32_t chunks_reserve(chunks *c, mr_placer *placer, uint64_t bytes, uint32_t stream)
{
    const mr_segment want = {.bytes = bytes, .stream = stream};
    uint32_t segment;
    if (!mr_reserve(placer, &want, &segment)) return MR_NONE;
    const uint32_t id = chunks_over(c, placer, segment, 0, bytes);
    c->all.at[id].stream = stream;
    return id;
}

void chunks_release(chunks *c, mr_placer *placer, uint32_t whole)
{
    mr_release(placer, c->all.at[whole].segment);
    drop_chunk(c, whole);
}

uint32_t chunks_split(chunks *c, uint32_t id, uint64_t bytes)
{
    const uint32_t rest = new_chunk(c);
    chunk *low = &c->all.at[id], *high = &c->all.at[rest];
    *high = (chunk){.address = low->address + bytes,
                    .offset = low->offset + bytes,
                    .bytes = low->bytes - bytes,
                    .segment = low->segment,
                    .prev = id,
                    .next = low->next,
                    .stream = low->stream};
    if (high->next != MR_NONE) c->all.at[high->next].prev = rest;
    low->bytes = bytes;
    low->next = rest;
    return rest;
}

void chunks_join(chunks *c, uint32_t id)
{
    chunk *low = &c->all.at[id];
    const uint32_t gone = low->next;
    const chunk *high = &c->all.at[gone];
    low->bytes += high->bytes;
    low->next = high->next;
    if (low->next != MR_NONE) c->all.at[low->next].prev = id;
    drop_chunk(c, gone);
}

bool chunks_whole(const chunks *c, uint32_t id)
{
    return c->all.at[id].prev == MR_NONE && c->all.at[id].next == MR_NONE;
}

mr_block chunks_block(const chunks *c, uint32_t id)
{
    const chunk *at = &c->all.at[id];
    return (mr_block){at->segment, id, at->offset, at->bytes};
}

/* It may lie across two lines of the cache. */
static void fetch(const chunks *c, uint32_t id)
{
    if (id == MR_NONE) return;
    MR_FETCH(&c->all.at[id].address);
    MR_FETCH(&c->all.at[id].free);
}

void chunks_near(const chunks *c, const mr_block *block, bool closer)
{
    if (!block->bytes) return;
    if (!closer) {
        fetch(c, block->handle);
        return;
    }
    fetch(c, c->all.at[block->handle].next);
    fetch(c, c->all.at[block->handle].prev);
}

bool chunks_round(uint64_t bytes, uint64_t unit, uint64_t *rounded)
{
    if (bytes > UINT64_MAX / 4) return false;
    *rounded = (bytes + unit - 1) / unit * unit;
    return true;
}

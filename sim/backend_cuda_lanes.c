/* lanes -- streams of a device, and who waits for whom.
 *
 * As in timeline.h: an op begins when what it reads has been written and what it overwrites has
 * been read, on whatever lane.  Beyond that, memory changes hands: who gets a place waits for
 * those who used it before.  With one lane all of this is the order of its ops.
 */
#include <string.h>

#include "backend_cuda.h"

/* ---- beginning and end ------------------------------------------------------------------- */

uint32_t mr_cuda_lane_of(const mr_cuda *c, const mr_op *op)
{
    switch (op->engine) {
    case MR_ENGINE_compute: return op->stream;
    case MR_ENGINE_to_host: return c->lanes - 2;
    case MR_ENGINE_from_host: return c->lanes - 1;
    default: return c->lanes - 3;
    }
}

static bool needs_several(const mr_cuda *c)
{
    if (c->trace->streams.n > 1) return true;
    for (uint32_t o = 0; o < c->trace->ops.n; o++)
        if (mr_cuda_lane_of(c, &c->trace->ops.at[o])) return true;
    return false;
}

static mr_status open_lane(mr_cuda *c, mr_ctx *ctx, mr_cuda_lane *lane)
{
    const mr_cuda_driver *d = &c->driver;
    const mr_cuda_result result = d->stream(&lane->stream, MR_CUDA_OF_ITS_OWN);
    if (result) lane->stream = NULL;
    MR_TRY(mr_cuda_check(ctx, d, result, "make a stream"));
    lane->seen = MR_NEW_N(ctx, uint64_t, c->lanes);
    for (uint32_t i = 0; c->several && i < MR_CUDA_RING; i++) {
        const mr_cuda_result made = d->event(&lane->ends[i], MR_CUDA_UNTIMED);
        if (made) lane->ends[i] = NULL;
        MR_TRY(mr_cuda_check(ctx, d, made, "make an event"));
    }
    return MR_OK;
}

mr_status mr_cuda_lanes_open(mr_cuda *c, mr_ctx *ctx)
{
    const uint32_t storages = c->trace->storages.n;
    c->lanes = c->trace->streams.n + 3;
    c->several = needs_several(c);
    c->lane = MR_NEW_N(ctx, mr_cuda_lane, c->lanes);
    c->home = MR_NEW_N(ctx, mr_cuda_home, storages);
    for (uint32_t s = 0; s < storages; s++) c->home[s].block.segment = MR_NONE;
    for (uint32_t i = 0; i < (c->several ? c->lanes : 1); i++)
        MR_TRY(open_lane(c, ctx, &c->lane[i]));
    for (uint32_t s = 0; c->several && s < storages; s++)
        c->home[s].touched = MR_NEW_N(ctx, uint64_t, c->lanes);
    return MR_OK;
}

mr_status mr_cuda_lanes_close(mr_cuda *c, mr_ctx *ctx)
{
    mr_status status = MR_OK;
    for (uint32_t i = 0; c->lane && i < c->lanes; i++) {
        mr_cuda_lane *lane = &c->lane[i];
        for (uint32_t e = 0; e < MR_CUDA_RING; e++)
            if (lane->ends[e])
                status = mr_cuda_first(ctx, status, c, c->driver.end_event(lane->ends[e]),
                                       "end an event");
        if (lane->stream)
            status = mr_cuda_first(ctx, status, c, c->driver.end_stream(lane->stream),
                                   "end a stream");
        *lane = (mr_cuda_lane){0};
    }
    return status;
}

/* ---- waiting ----------------------------------------------------------------------------- */

/* An op whose event has been used again since is waited for by a later one. */
static mr_status wait_for(mr_cuda *c, mr_ctx *ctx, uint32_t lane, uint32_t other, uint64_t op)
{
    mr_cuda_lane *own = &c->lane[lane];
    const mr_cuda_lane *theirs = &c->lane[other];
    if (lane == other || own->seen[other] >= op) return MR_OK;
    if (theirs->issued - op >= MR_CUDA_RING) op = theirs->issued;
    own->seen[other] = op;
    return mr_cuda_check(
        ctx, &c->driver,
        c->driver.stream_waits(own->stream, theirs->ends[op % MR_CUDA_RING], 0),
        "let a stream wait");
}

mr_status mr_cuda_before_read(mr_cuda *c, mr_ctx *ctx, uint32_t lane, uint32_t storage)
{
    const mr_cuda_home *home = &c->home[storage];
    if (!c->several) return MR_OK;
    return wait_for(c, ctx, lane, home->writer, home->written);
}

mr_status mr_cuda_before_write(mr_cuda *c, mr_ctx *ctx, uint32_t lane, uint32_t storage)
{
    return mr_cuda_before_give(c, ctx, lane, c->home[storage].touched);
}

mr_status mr_cuda_before_give(mr_cuda *c, mr_ctx *ctx, uint32_t lane, const uint64_t *touched)
{
    for (uint32_t i = 0; c->several && i < c->lanes; i++)
        MR_TRY(wait_for(c, ctx, lane, i, touched[i]));
    return MR_OK;
}

void mr_cuda_reads(mr_cuda *c, uint32_t lane, uint32_t storage)
{
    if (c->several) c->home[storage].touched[lane] = c->lane[lane].issued + 1;
}

void mr_cuda_writes(mr_cuda *c, uint32_t lane, uint32_t storage)
{
    mr_cuda_reads(c, lane, storage);
    c->home[storage].writer = lane;
    c->home[storage].written = c->lane[lane].issued + 1;
}

mr_status mr_cuda_issued(mr_cuda *c, mr_ctx *ctx, uint32_t lane)
{
    mr_cuda_lane *own = &c->lane[lane];
    own->issued++;
    if (!c->several) return MR_OK;
    return mr_cuda_check(ctx, &c->driver,
                         c->driver.record(own->ends[own->issued % MR_CUDA_RING], own->stream),
                         "record an event");
}

/* ---- places ------------------------------------------------------------------------------ */

void mr_cuda_leave(mr_cuda *c, mr_ctx *ctx, uint32_t storage)
{
    mr_cuda_home *home = &c->home[storage];
    if (c->several && home->block.segment != MR_NONE) {
        if (!c->pool) MR_PUSH(ctx, &c->left, (mr_cuda_left){home->block, home->touched});
        home->touched = MR_NEW_N(ctx, uint64_t, c->lanes);
    }
    home->block.segment = MR_NONE;
    home->at = 0;
    home->value = 0;
    home->written = 0;
}

static bool overlap(const mr_block *a, const mr_block *b)
{
    return a->segment == b->segment && a->offset < b->offset + b->bytes
           && b->offset < a->offset + a->bytes;
}

static bool covers(const mr_block *a, const mr_block *b)
{
    return a->offset <= b->offset && a->offset + a->bytes >= b->offset + b->bytes;
}

/* Who comes inherits whom to wait for; what it covers is forgotten. */
void mr_cuda_enter(mr_cuda *c, mr_ctx *ctx, uint32_t storage, const mr_block *block)
{
    (void)ctx;
    mr_cuda_home *home = &c->home[storage];
    home->block = *block;
    uint32_t left = 0;
    for (uint32_t i = 0; i < c->left.n; i++) {
        const mr_cuda_left was = c->left.at[i];
        const bool met = overlap(block, &was.block);
        for (uint32_t l = 0; met && l < c->lanes; l++)
            if (was.touched[l] > home->touched[l]) home->touched[l] = was.touched[l];
        if (!met || !covers(block, &was.block)) c->left.at[left++] = was;
    }
    c->left.n = left;
}

/* What of a place lies within `from` goes along; what does not stays behind as well. */
void mr_cuda_follow(mr_cuda *c, mr_ctx *ctx, const mr_block *from, const mr_block *to)
{
    for (uint32_t i = 0, n = c->left.n; i < n; i++) {
        const mr_cuda_left was = c->left.at[i];
        if (!overlap(from, &was.block)) continue;
        const mr_block *b = &was.block;
        const uint64_t end = from->offset + from->bytes, until = b->offset + b->bytes;
        const uint64_t begin = b->offset > from->offset ? b->offset : from->offset;
        const mr_cuda_left now = {.touched = was.touched,
                                  .block = {.segment = to->segment,
                                            .offset = to->offset + (begin - from->offset),
                                            .bytes = (until < end ? until : end) - begin}};
        if (covers(from, b)) c->left.at[i] = now;
        else MR_PUSH(ctx, &c->left, now);
    }
}

/* gmlake_pages -- use, splitting, stitching, release. */
#include "gmlake_pages.h"

gmlake_stream *gmlake_of(gmlake_pages *p, uint32_t stream)
{
    mr_ctx *ctx = p->chunks.ctx;
    while (p->streams.n <= stream) {
        const gmlake_stream new = {chunks_bins_new(ctx), chunks_bins_new(ctx),
                                   chunks_bins_new(ctx)};
        MR_PUSH(ctx, &p->streams, new);
    }
    return &p->streams.at[stream];
}

void gmlake_mark(gmlake_pages *p, uint32_t id, gmlake_kind kind)
{
    while (p->parts.n <= id) MR_PUSH(p->chunks.ctx, &p->parts, (gmlake_part){0});
    p->parts.at[id] = (gmlake_part){.kind = kind, .at = id};
}

static chunk *chunk_of(gmlake_pages *p, uint32_t id)
{
    return &p->chunks.all.at[id];
}

/* ---- where pages are mapped -------------------------------------------------------------- */

/* Offset of a block in the stitched range, or in its own. */
static uint64_t place_in(gmlake_pages *p, uint32_t block, uint32_t range)
{
    if (range == block) return chunk_of(p, block)->offset;
    uint64_t offset = 0;
    const chunks_list *blocks = &p->parts.at[range].of;
    for (uint32_t i = 0; blocks->at[i] != block; i++)
        offset += chunk_of(p, blocks->at[i])->bytes;
    return offset;
}

static mr_block stretch_of(gmlake_pages *p, uint32_t block, uint32_t range)
{
    return (mr_block){.segment = chunk_of(p, range)->segment,
                      .offset = place_in(p, block, range),
                      .bytes = chunk_of(p, block)->bytes};
}

/* From now on the pages of the block are used through this range. */
static void move(gmlake_pages *p, mr_placer *placer, uint32_t block, uint32_t to, bool standing)
{
    const uint32_t at = p->parts.at[block].at;
    if (at == to) return;
    const mr_block from = stretch_of(p, block, at), then = stretch_of(p, block, to);
    mr_switch(placer, &from, &then, standing);
    p->parts.at[block].at = to;
}

/* ---- in use and free --------------------------------------------------------------------- */

static void take(gmlake_pages *p, uint32_t block)
{
    gmlake_stream *s = gmlake_of(p, chunk_of(p, block)->stream);
    chunks_bins_remove(&p->chunks, s->blocks, block);
    const chunks_list *in = &p->parts.at[block].of;
    for (uint32_t i = 0; i < in->n; i++)
        if (!p->parts.at[in->at[i]].busy++)
            chunks_bins_remove(&p->chunks, s->stitched, in->at[i]);
}

static void give(gmlake_pages *p, uint32_t block)
{
    gmlake_stream *s = gmlake_of(p, chunk_of(p, block)->stream);
    chunks_bins_add(&p->chunks, s->blocks, block);
    const chunks_list *in = &p->parts.at[block].of;
    for (uint32_t i = 0; i < in->n; i++)
        if (!--p->parts.at[in->at[i]].busy) chunks_bins_add(&p->chunks, s->stitched, in->at[i]);
}

void gmlake_free(gmlake_pages *p, uint32_t id)
{
    if (p->parts.at[id].kind == GMLAKE_BLOCK) {
        give(p, id);
        return;
    }
    const chunks_list *blocks = &p->parts.at[id].of;
    for (uint32_t i = 0; i < blocks->n; i++) give(p, blocks->at[i]);
}

/* ---- splitting --------------------------------------------------------------------------- */

static void insert_after(gmlake_pages *p, uint32_t range, uint32_t block, uint32_t rest)
{
    chunks_list *blocks = &p->parts.at[range].of;
    MR_PUSH(p->chunks.ctx, blocks, rest);
    uint32_t i = blocks->n - 1;
    for (; blocks->at[i - 1] != block; i--) blocks->at[i] = blocks->at[i - 1];
    blocks->at[i] = rest;
}

/* Of a free block; both parts are free, and in all ranges that the block was in. */
static void split(gmlake_pages *p, uint32_t block, uint64_t bytes)
{
    if (chunk_of(p, block)->bytes == bytes) return;
    chunks_bins *free = gmlake_of(p, chunk_of(p, block)->stream)->blocks;
    chunks_bins_remove(&p->chunks, free, block);
    const uint32_t rest = chunks_split(&p->chunks, block, bytes);
    gmlake_mark(p, rest, GMLAKE_BLOCK);
    const gmlake_part *whole = &p->parts.at[block];
    p->parts.at[rest].at = whole->at == block ? rest : whole->at;
    for (uint32_t i = 0; i < whole->of.n; i++) {
        MR_PUSH(p->chunks.ctx, &p->parts.at[rest].of, whole->of.at[i]);
        insert_after(p, whole->of.at[i], block, rest);
    }
    p->blocks.at[chunk_of(p, block)->segment]++;
    chunks_bins_add(&p->chunks, free, block);
    chunks_bins_add(&p->chunks, free, rest);
}

/* ---- requests ---------------------------------------------------------------------------- */

uint32_t gmlake_reuse_block(gmlake_pages *p, mr_placer *placer, uint64_t bytes, uint32_t stream)
{
    const uint32_t id = chunks_bins_find(gmlake_of(p, stream)->blocks, bytes);
    if (id == MR_NONE) return MR_NONE;
    split(p, id, bytes);
    take(p, id);
    move(p, placer, id, id, true);
    return id;
}

static void use_stitched(gmlake_pages *p, mr_placer *placer, uint32_t id, bool standing)
{
    const chunks_list *blocks = &p->parts.at[id].of;
    for (uint32_t i = 0; i < blocks->n; i++) take(p, blocks->at[i]);
    for (uint32_t i = 0; i < blocks->n; i++) move(p, placer, blocks->at[i], id, standing);
}

uint32_t gmlake_reuse_stitched(gmlake_pages *p, mr_placer *placer, uint64_t bytes,
                               uint64_t most, uint32_t stream)
{
    const uint32_t id = chunks_bins_find(gmlake_of(p, stream)->stitched, bytes);
    if (id == MR_NONE || chunk_of(p, id)->bytes > most) return MR_NONE;
    use_stitched(p, placer, id, true);
    return id;
}

static uint32_t new_range(gmlake_pages *p, mr_placer *placer, uint64_t bytes, uint32_t stream,
                          gmlake_kind kind)
{
    const mr_segment want = {.bytes = bytes,
                             .stream = stream,
                             .page = GMLAKE_PAGE,
                             .large = true,
                             .expandable = true};
    uint32_t segment;
    if (!mr_reserve(placer, &want, &segment)) return MR_NONE;
    const uint32_t id = chunks_over(&p->chunks, placer, segment, 0, bytes);
    chunk_of(p, id)->stream = stream;
    gmlake_mark(p, id, kind);
    while (p->blocks.n <= segment) MR_PUSH(p->chunks.ctx, &p->blocks, 0);
    return id;
}

uint32_t gmlake_new_block(gmlake_pages *p, mr_placer *placer, uint64_t bytes, uint32_t stream)
{
    if (bytes > mr_available(placer)) return MR_NONE;
    const uint32_t id = new_range(p, placer, bytes, stream, GMLAKE_BLOCK);
    if (id == MR_NONE) return MR_NONE;
    const uint32_t segment = chunk_of(p, id)->segment;
    if (!mr_map(placer, segment, 0, bytes)) {
        mr_release(placer, segment);
        return MR_NONE;
    }
    p->blocks.at[segment] = 1;
    return id;
}

/* The largest free blocks that have so many bytes together, the last one cut to fit; false when
 * all have less: then `bytes` is what they lack. */
static bool gather(gmlake_pages *p, uint32_t stream, uint64_t *bytes, chunks_list *out)
{
    chunks_list all = {0};
    chunks_bins_list(&p->chunks, gmlake_of(p, stream)->blocks, &all);
    for (uint32_t i = all.n; i-- > 0;) {
        const uint64_t has = chunk_of(p, all.at[i])->bytes;
        MR_PUSH(p->chunks.ctx, out, all.at[i]);
        if (has >= *bytes) {
            split(p, all.at[i], *bytes);
            return true;
        }
        *bytes -= has;
    }
    return false;
}

uint32_t gmlake_stitch(gmlake_pages *p, mr_placer *placer, uint64_t bytes, bool more,
                       uint32_t stream)
{
    chunks_list blocks = {0};
    uint64_t missing = bytes;
    if (!gather(p, stream, &missing, &blocks)) {
        if (!more || !blocks.n) return MR_NONE;
        const uint32_t new = gmlake_new_block(p, placer, missing, stream);
        if (new == MR_NONE) return MR_NONE;
        give(p, new);
        MR_PUSH(p->chunks.ctx, &blocks, new);
    }
    const uint32_t id = new_range(p, placer, bytes, stream, GMLAKE_STITCHED);
    if (id == MR_NONE) return MR_NONE;
    p->parts.at[id].of = blocks;
    for (uint32_t i = 0; i < blocks.n; i++)
        MR_PUSH(p->chunks.ctx, &p->parts.at[blocks.at[i]].of, id);
    chunks_bins_add(&p->chunks, gmlake_of(p, stream)->stitched, id);
    use_stitched(p, placer, id, false);
    return id;
}

/* ---- release ----------------------------------------------------------------------------- */

static void forget(chunks_list *list, uint32_t id)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < list->n; i++)
        if (list->at[i] != id) list->at[kept++] = list->at[i];
    list->n = kept;
}

static void end_stitched(gmlake_pages *p, mr_placer *placer, uint32_t id)
{
    const chunks_list *blocks = &p->parts.at[id].of;
    if (!p->parts.at[id].busy)
        chunks_bins_remove(&p->chunks, gmlake_of(p, chunk_of(p, id)->stream)->stitched, id);
    for (uint32_t i = 0; i < blocks->n; i++) {
        const uint32_t block = blocks->at[i];
        if (p->parts.at[block].at == id) move(p, placer, block, block, true);
        forget(&p->parts.at[block].of, id);
    }
    mr_release(placer, chunk_of(p, id)->segment);
}

bool gmlake_release(gmlake_pages *p, mr_placer *placer, uint32_t stream)
{
    chunks_bins *free = gmlake_of(p, stream)->blocks;
    chunks_list all = {0};
    chunks_bins_list(&p->chunks, free, &all);
    for (uint32_t i = 0; i < all.n; i++) {
        const chunks_list *in = &p->parts.at[all.at[i]].of;
        while (in->n) end_stitched(p, placer, in->at[in->n - 1]);
    }
    for (uint32_t i = 0; i < all.n; i++) {
        const uint32_t segment = chunk_of(p, all.at[i])->segment;
        chunks_bins_remove(&p->chunks, free, all.at[i]);
        mr_unmap(placer, segment, chunk_of(p, all.at[i])->offset,
                 chunk_of(p, all.at[i])->bytes);
        if (!--p->blocks.at[segment]) mr_release(placer, segment);
    }
    return all.n > 0;
}

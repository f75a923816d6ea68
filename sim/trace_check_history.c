/* trace_check_history -- could what a real allocator is said to have done have happened?
 *
 * Its commands are carried out on a device of our own that knows which segments are held and
 * which block every storage lives in.  Live blocks must not overlap even where only the size
 * that was asked for is known.
 */
#include "places.h"
#include "trace_check.h"

#include <inttypes.h>

typedef struct referee {
    mr_ctx *ctx;
    const mr_trace *trace;
    const mr_history *history;
    uint32_t cmd;    /* under judgement */
    bool *held;      /* by segment */
    uint32_t *users; /* by segment: number of storages that live there */
    uint32_t *at;    /* place by storage, MR_NONE while it lives nowhere; shared by all
                        histories, for a storage has one device */
    uint32_t bound;  /* storages that live somewhere on this device */
    mr_places places;
} referee;

static mr_status foul(const referee *r, const char *does, uint32_t id, const char *expected)
{
    return mr_fail(r->ctx, MR_EINPUT,
                   "command %u of the history of device %u %s %u, expected %s", r->cmd,
                   r->history->device, does, id, expected);
}

static mr_status check_segments(const referee *r)
{
    const mr_history *h = r->history;
    if (h->held > h->segments.n)
        return mr_fail(
            r->ctx, MR_EINPUT,
            "the history of device %u begins with %u segments, expected at most its %u",
            h->device, h->held, h->segments.n);
    for (uint32_t i = 0; i < h->segments.n; i++) {
        const mr_segment *s = &h->segments.at[i];
        if (s->stream >= r->trace->streams.n || s->pool >= r->trace->pools.n)
            return mr_fail(
                r->ctx, MR_EINPUT,
                "segment %u of device %u refers to a stream or pool that is not there", i,
                h->device);
        if (s->bytes > UINT64_MAX - s->address)
            return mr_fail(r->ctx, MR_EINPUT,
                           "segment %u of device %u ends behind the last address", i,
                           h->device);
    }
    return MR_OK;
}

static bool inside(const referee *r, uint32_t segment, uint64_t offset, uint64_t bytes)
{
    const uint64_t size = r->history->segments.at[segment].bytes;
    const uint64_t end = size ? size : UINT64_MAX; /* unknown where 0 */
    return offset <= end && bytes <= end - offset;
}

/* ---- pieces at the start and at the end -------------------------------------------------- */

static mr_status bad_piece(const referee *r, const char *when, uint32_t i, const char *expected)
{
    return mr_fail(r->ctx, MR_EINPUT, "piece %u at the %s of device %u is wrong, expected %s",
                   i, when, r->history->device, expected);
}

/* Pieces of a segment stand together and ascend, so that each lies apart from all others. */
static bool follows(const mr_pieces *pieces, uint32_t i, const uint64_t *sum)
{
    const mr_piece *p = &pieces->at[i];
    if (!i || p[-1].segment != p->segment) return !sum[p->segment];
    return p->offset >= p[-1].offset && p->offset - p[-1].offset >= p[-1].bytes;
}

/* Indices, and that pieces of a segment do not overlap; adds up their bytes by segment. */
static mr_status check_pieces(const referee *r, const mr_pieces *pieces, uint32_t segments,
                              const char *when, uint64_t *sum)
{
    for (uint32_t i = 0; i < pieces->n; i++) {
        const mr_piece *p = &pieces->at[i];
        if (p->segment >= segments)
            return bad_piece(r, when, i, "a segment that exists at that time");
        if (p->storage != MR_NONE && p->storage >= r->trace->storages.n)
            return bad_piece(r, when, i, "a storage of the trace");
        if (!p->bytes || !inside(r, p->segment, p->offset, p->bytes))
            return bad_piece(r, when, i, "some bytes inside its segment");
        if (!follows(pieces, i, sum))
            return bad_piece(r, when, i,
                             "no overlap with another piece, and those of a segment together"
                             " and ascending");
        sum[p->segment] += p->bytes;
    }
    return MR_OK;
}

static mr_status adopt(referee *r, const mr_piece *piece, uint32_t i)
{
    if (piece->storage == MR_NONE) return MR_OK;
    if (r->at[piece->storage] != MR_NONE)
        return bad_piece(r, "start", i, "a storage that has no other");
    if (piece->pending && !r->trace->storages.at[piece->storage].deferred)
        return bad_piece(r, "start", i, "a storage with a deferred free, for it is pending");
    const uint32_t place = mr_places_find(&r->places, piece->segment, piece->offset);
    mr_places_settle(&r->places, place, piece->bytes, piece->storage);
    r->at[piece->storage] = place;
    r->users[piece->segment]++;
    r->bound++;
    return MR_OK;
}

static mr_status check_start(referee *r)
{
    const mr_history *h = r->history;
    uint64_t *sum = MR_NEW_N(r->ctx, uint64_t, h->segments.n);
    MR_TRY(check_pieces(r, &h->start, h->held, "start", sum));
    for (uint32_t s = 0; s < h->held; s++) {
        const mr_segment *segment = &h->segments.at[s];
        if (!segment->expandable && sum[s] != segment->bytes)
            return mr_fail(r->ctx, MR_EINPUT,
                           "segment %u of device %u is tiled by pieces of %" PRIu64
                           " bytes at the start, expected %" PRIu64,
                           s, h->device, sum[s], segment->bytes);
        r->held[s] = true;
    }
    for (uint32_t i = 0; i < h->start.n; i++) MR_TRY(adopt(r, &h->start.at[i], i));
    return MR_OK;
}

/* The place of the storage on this device, NULL when it does not live here. */
static const mr_place *home(const referee *r, uint32_t storage)
{
    const uint32_t at = r->at[storage];
    if (at >= r->places.all.n || r->places.all.at[at].owner != storage) return NULL;
    return &r->places.all.at[at];
}

static mr_status check_last(referee *r)
{
    const mr_history *h = r->history;
    uint32_t found = 0;
    MR_TRY(check_pieces(r, &h->end, h->segments.n, "end",
                        MR_NEW_N(r->ctx, uint64_t, h->segments.n)));
    for (uint32_t i = 0; i < h->end.n; i++) {
        const mr_piece *p = &h->end.at[i];
        if (!r->held[p->segment] && !h->segments.at[p->segment].expandable)
            return bad_piece(r, "end", i, "a segment that is still held");
        if (p->storage == MR_NONE) continue;
        const mr_place *at = home(r, p->storage);
        if (!at || at->segment != p->segment || at->offset != p->offset)
            return bad_piece(r, "end", i, "a storage where the commands have put it");
        if (at->bytes > p->bytes)
            return bad_piece(r, "end", i, "as many bytes as were given to its storage");
        found++;
    }
    if (found != r->bound)
        return mr_fail(r->ctx, MR_EINPUT,
                       "%u storages live in the pieces at the end of device %u, expected the %u"
                       " that the commands leave",
                       found, h->device, r->bound);
    return MR_OK;
}

/* ---- commands ---------------------------------------------------------------------------- */

static mr_status hold(referee *r, const mr_cmd *cmd)
{
    const uint32_t segment = cmd->block.segment;
    if (r->history->segments.at[segment].expandable) return MR_OK; /* only addresses */
    const bool take = cmd->kind == MR_RESERVE;
    if (r->held[segment] == take)
        return foul(r, take ? "reserves segment" : "releases segment", segment,
                    take ? "one that is not held" : "one that is held");
    if (!take && r->users[segment])
        return foul(r, "releases segment", segment, "nobody to live there");
    r->held[segment] = take;
    return MR_OK;
}

static mr_status map(referee *r, const mr_cmd *cmd)
{
    const mr_block *b = &cmd->block;
    if (!r->history->segments.at[b->segment].expandable)
        return foul(r, "maps or unmaps memory of segment", b->segment, "an expandable one");
    if (!b->bytes || !inside(r, b->segment, b->offset, b->bytes))
        return foul(r, "maps or unmaps memory of segment", b->segment, "a stretch inside it");
    return MR_OK;
}

static mr_status bind(referee *r, const mr_cmd *cmd)
{
    const mr_block *b = &cmd->block;
    const uint64_t asked = r->trace->storages.at[cmd->id].bytes;
    const uint64_t least = asked ? asked : 1;
    const uint64_t bytes = b->bytes ? b->bytes : least; /* 0: not recorded */
    if (!r->held[b->segment] && !r->history->segments.at[b->segment].expandable)
        return foul(r, "binds into segment", b->segment, "one that is held");
    if (r->at[cmd->id] != MR_NONE)
        return foul(r, "binds storage", cmd->id, "one that lives nowhere yet");
    if (!inside(r, b->segment, b->offset, bytes))
        return foul(r, "binds storage", cmd->id, "a block inside its segment");
    const uint32_t place = mr_places_find(&r->places, b->segment, b->offset);
    const uint32_t other = mr_places_settle(&r->places, place, bytes, cmd->id);
    if (other != MR_NONE)
        return mr_fail(
            r->ctx, MR_EINPUT,
            "command %u of the history of device %u binds storage %u where storage %u"
            " lives, expected blocks not to overlap",
            r->cmd, r->history->device, cmd->id, other);
    r->at[cmd->id] = place;
    r->users[b->segment]++;
    r->bound++;
    return MR_OK;
}

static mr_status unbind(referee *r, const mr_cmd *cmd)
{
    const mr_place *at = home(r, cmd->id);
    if (!at || at->segment != cmd->block.segment || at->offset != cmd->block.offset)
        return foul(r, "frees the block of storage", cmd->id, "the block that it lives in");
    if (cmd->kind == MR_DEFER) return MR_OK;
    mr_places_leave(&r->places, r->at[cmd->id]);
    r->users[at->segment]--;
    r->bound--;
    r->at[cmd->id] = MR_NONE;
    return MR_OK;
}

static mr_status judge(referee *r, const mr_cmd *cmd)
{
    const bool placeless = cmd->kind == MR_EXEC || cmd->kind == MR_REFUSE;
    const bool segment_only = cmd->kind <= MR_UNMAP;
    if (cmd->kind > MR_REFUSE)
        return foul(r, "is of kind", cmd->kind, "one of the known kinds");
    if (!placeless && cmd->block.segment >= r->history->segments.n)
        return foul(r, "refers to segment", cmd->block.segment, "one of the history's");
    const uint32_t ids = cmd->kind == MR_EXEC ? r->trace->ops.n : r->trace->storages.n;
    if (cmd->id >= ids && !(segment_only && cmd->id == MR_NONE))
        return foul(r, "refers to storage or op", cmd->id, "one of the trace's");
    if (placeless) return MR_OK;
    if (cmd->kind == MR_BIND) return bind(r, cmd);
    if (!segment_only) return unbind(r, cmd);
    return cmd->kind <= MR_RELEASE ? hold(r, cmd) : map(r, cmd);
}

/* Where blocks begin, whether or not what says so makes sense. */
static void collect_places(referee *r)
{
    const mr_history *h = r->history;
    mr_places_init(r->ctx, &r->places, h->cmds.n / 2);
    for (uint32_t i = 0; i < h->start.n; i++)
        mr_places_add(r->ctx, &r->places, h->start.at[i].segment, h->start.at[i].offset);
    for (uint32_t i = 0; i < h->cmds.n; i++) {
        const mr_cmd *cmd = &h->cmds.at[i];
        if (cmd->kind == MR_BIND)
            mr_places_add(r->ctx, &r->places, cmd->block.segment, cmd->block.offset);
    }
    mr_places_number(r->ctx, &r->places);
}

static mr_status check_history(referee *r)
{
    const mr_history *h = r->history;
    MR_TRY(check_segments(r));
    collect_places(r);
    r->held = MR_NEW_N(r->ctx, bool, h->segments.n);
    r->users = MR_NEW_N(r->ctx, uint32_t, h->segments.n);
    MR_TRY(check_start(r));
    for (r->cmd = 0; r->cmd < h->cmds.n; r->cmd++) MR_TRY(judge(r, &h->cmds.at[r->cmd]));
    MR_TRY(check_last(r));
    if (h->capacity_low < h->capacity_high) return MR_OK;
    return mr_fail(r->ctx, MR_EINPUT,
                   "the capacity of device %u is at least %" PRIu64 " and below %" PRIu64
                   ", expected the first to be less",
                   h->device, h->capacity_low, h->capacity_high);
}

mr_status mr_trace_check_histories(mr_ctx *ctx, const mr_trace *trace)
{
    uint32_t *at = MR_NEW_N(ctx, uint32_t, trace->storages.n);
    uint64_t *seen = MR_NEW_N(ctx, uint64_t, UINT16_MAX / 64 + 1); /* a bit for each device */
    for (uint32_t s = 0; s < trace->storages.n; s++) at[s] = MR_NONE;
    for (uint32_t h = 0; h < trace->histories.n; h++) {
        const mr_history *history = &trace->histories.at[h];
        const uint32_t device = history->device;
        const uint64_t bit = UINT64_C(1) << device % 64;
        if (device > UINT16_MAX || seen[device / 64] & bit)
            return mr_fail(ctx, MR_EINPUT,
                           "device %u has a second history or a number above %d, expected one"
                           " for each device",
                           device, UINT16_MAX);
        seen[device / 64] |= bit;
        referee r = {.ctx = ctx, .trace = trace, .history = history, .at = at};
        MR_TRY(check_history(&r));
    }
    return MR_OK;
}

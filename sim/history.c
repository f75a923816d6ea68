/* history -- walks forward through what an allocator did.
 *
 * All places where a block ever begins are known before the walk, so they are numbered in the
 * order of addresses, and who lives is a set of numbers.  Six bits of a number choose a bit in
 * a word; a second layer says which words are not empty, and so on, so that the nearest
 * neighbour below and above a block is found in a few steps however many there are:
 *
 *     layer 1   0 1 1 0 ...                        one bit for each word below
 *     layer 0   00000000 01000100 00000001 ...     one bit for each place
 */
#include "history.h"

#include <inttypes.h>
#include <stdlib.h>

#define LAYERS 6 /* 64^6 is more than there are numbers */

typedef struct place {
    uint64_t offset, end; /* end of who lives there */
    uint32_t segment, storage;
    uint32_t next; /* in the list of places with the same hash, MR_NONE */
    uint32_t rank; /* in the order of addresses */
} place;

typedef struct judge {
    mr_ctx *ctx;
    const mr_trace *trace;
    const mr_history *history;
    uint32_t cmd; /* MR_NONE before and after all commands */
    MR_VEC(place) places;
    uint32_t *heads, mask; /* lists of places by hash */
    uint32_t *order;       /* place of a rank */
    uint64_t *layers[LAYERS];
    uint32_t *at; /* place of a storage, MR_NONE while it lives nowhere */
    uint32_t live;
} judge;

static mr_status foul(const judge *j, const char *found, uint32_t storage, const char *expected)
{
    const char *when = j->cmd == MR_NONE ? "" : mr_printf(j->ctx, "command %u of ", j->cmd);
    const char *whose = storage == MR_NONE ? "" : mr_printf(j->ctx, " (storage %u)", storage);
    return mr_fail(j->ctx, MR_EINPUT, "%sthe history of device %u %s%s, expected %s", when,
                   j->history->device, found, whose, expected);
}

/* ---- places ---------------------------------------------------------------------------- */

static uint32_t bucket(const judge *j, uint32_t segment, uint64_t offset)
{
    return (uint32_t)((offset + segment) * UINT64_C(0xd6e8feb86659fd93) >> 32) & j->mask;
}

static uint32_t find(const judge *j, uint32_t segment, uint64_t offset)
{
    uint32_t p = j->heads[bucket(j, segment, offset)];
    while (p != MR_NONE
           && (j->places.at[p].segment != segment || j->places.at[p].offset != offset))
        p = j->places.at[p].next;
    return p;
}

static void add_place(judge *j, uint32_t segment, uint64_t offset)
{
    if (find(j, segment, offset) != MR_NONE) return;
    uint32_t *head = &j->heads[bucket(j, segment, offset)];
    const place p = {.offset = offset, .segment = segment, .next = *head};
    *head = j->places.n;
    MR_PUSH(j->ctx, &j->places, p);
}

typedef struct key {
    uint64_t offset;
    uint32_t segment, place;
} key;

static int by_address(const void *left, const void *right)
{
    const key *a = left, *b = right;
    if (a->segment != b->segment) return a->segment < b->segment ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static void number_places(judge *j)
{
    const uint32_t n = j->places.n;
    key *keys = MR_NEW_N(j->ctx, key, n);
    for (uint32_t p = 0; p < n; p++)
        keys[p] = (key){j->places.at[p].offset, j->places.at[p].segment, p};
    if (n) qsort(keys, n, sizeof *keys, by_address);
    j->order = MR_NEW_N(j->ctx, uint32_t, n);
    for (uint32_t r = 0; r < n; r++) {
        j->order[r] = keys[r].place;
        j->places.at[keys[r].place].rank = r;
    }
    uint32_t words = n;
    for (int l = 0; l < LAYERS; l++) {
        words = words / 64 + 1;
        j->layers[l] = MR_NEW_N(j->ctx, uint64_t, words);
    }
}

static void collect_places(judge *j)
{
    const mr_history *h = j->history;
    uint32_t most = 64;
    while (most < h->cmds.n / 2 && most < UINT32_MAX / 2) most *= 2;
    j->heads = MR_NEW_N(j->ctx, uint32_t, most);
    j->mask = most - 1;
    for (uint32_t i = 0; i < most; i++) j->heads[i] = MR_NONE;
    for (uint32_t i = 0; i < h->start.n; i++)
        add_place(j, h->start.at[i].segment, h->start.at[i].offset);
    for (uint32_t i = 0; i < h->cmds.n; i++)
        if (h->cmds.at[i].kind == MR_BIND)
            add_place(j, h->cmds.at[i].block.segment, h->cmds.at[i].block.offset);
    number_places(j);
}

/* ---- who lives ------------------------------------------------------------------------- */

static unsigned lowest(uint64_t word)
{
    unsigned bit = 0;
    for (unsigned half = 32; half; half /= 2)
        if (!(word & ((UINT64_C(1) << half) - 1))) word >>= half, bit += half;
    return bit;
}

static unsigned highest(uint64_t word)
{
    unsigned bit = 0;
    for (unsigned half = 32; half; half /= 2)
        if (word >> half) word >>= half, bit += half;
    return bit;
}

static void put(judge *j, uint32_t rank)
{
    for (int l = 0; l < LAYERS; l++, rank /= 64) {
        uint64_t *word = &j->layers[l][rank / 64];
        const bool was_empty = !*word;
        *word |= UINT64_C(1) << rank % 64;
        if (!was_empty) return;
    }
}

static void take(judge *j, uint32_t rank)
{
    for (int l = 0; l < LAYERS; l++, rank /= 64) {
        uint64_t *word = &j->layers[l][rank / 64];
        *word &= ~(UINT64_C(1) << rank % 64);
        if (*word) return;
    }
}

/* The nearest live rank above or below, MR_NONE when there is none. */
static uint32_t nearest(const judge *j, uint32_t rank, bool above)
{
    for (int l = 0; l < LAYERS; l++, rank /= 64) {
        const unsigned bit = rank % 64;
        uint64_t word = j->layers[l][rank / 64];
        word &= above ? ~(((UINT64_C(1) << bit) - 1) | UINT64_C(1) << bit)
                      : (UINT64_C(1) << bit) - 1;
        if (!word) continue;
        rank = rank / 64 * 64 + (above ? lowest(word) : highest(word));
        while (l-- > 0) {
            word = j->layers[l][rank];
            rank = rank * 64 + (above ? lowest(word) : highest(word));
        }
        return rank;
    }
    return MR_NONE;
}

static mr_status settle(judge *j, uint32_t segment, uint64_t offset, uint64_t bytes,
                        uint32_t id)
{
    const uint32_t p = find(j, segment, offset);
    place *here = &j->places.at[p];
    if (j->at[id] != MR_NONE) return foul(j, "gives a second place", id, "one that has none");
    if (offset > UINT64_MAX - bytes)
        return foul(j, "has a block behind the last address", id, "one that fits");
    here->end = offset + bytes;
    here->storage = id;
    const uint32_t below = nearest(j, here->rank, false), above = nearest(j, here->rank, true);
    const place *under = below == MR_NONE ? NULL : &j->places.at[j->order[below]];
    const place *over = above == MR_NONE ? NULL : &j->places.at[j->order[above]];
    const bool taken = j->layers[0][here->rank / 64] >> here->rank % 64 & 1;
    if (taken || (under && under->segment == segment && under->end > offset)
        || (over && over->segment == segment && over->offset < here->end))
        return foul(j, "puts a block where another one lives", id, "free memory");
    put(j, here->rank);
    j->at[id] = p;
    j->live++;
    return MR_OK;
}

/* ---- the walk -------------------------------------------------------------------------- */

/* Pieces of one segment follow each other without a gap but where nothing is mapped. */
static mr_status check_tiles(const judge *j, const mr_pieces *pieces)
{
    const mr_history *h = j->history;
    uint64_t *sum = MR_NEW_N(j->ctx, uint64_t, h->segments.n);
    for (uint32_t i = 0; i < pieces->n; i++) {
        const mr_piece *p = &pieces->at[i];
        if (p->segment >= h->segments.n
            || (p->storage != MR_NONE && p->storage >= j->trace->storages.n))
            return foul(j, "has a piece of nothing", MR_NONE, "a segment and a storage");
        const mr_piece *before = i && p[-1].segment == p->segment ? p - 1 : NULL;
        const bool expandable = h->segments.at[p->segment].expandable;
        const uint64_t from = before ? before->offset + before->bytes : 0;
        if (p->offset < from || (p->offset > from && !expandable))
            return foul(j, "has pieces that leave a gap or overlap", p->storage, "none");
        sum[p->segment] += p->bytes;
    }
    for (uint32_t i = 0; i < pieces->n; i++) {
        const mr_segment *s = &h->segments.at[pieces->at[i].segment];
        if (!s->expandable && sum[pieces->at[i].segment] != s->bytes)
            return foul(j, "has a segment whose pieces are not as long as it", MR_NONE,
                        "tiles");
    }
    return MR_OK;
}

static mr_status begin(judge *j)
{
    const mr_pieces *start = &j->history->start;
    MR_TRY(check_tiles(j, start));
    for (uint32_t i = 0; i < start->n; i++) {
        const mr_piece *p = &start->at[i];
        if (p->storage == MR_NONE) continue;
        MR_TRY(settle(j, p->segment, p->offset, p->bytes, p->storage));
    }
    return MR_OK;
}

static mr_status step(judge *j, const mr_cmd *cmd)
{
    if (cmd->kind != MR_BIND && cmd->kind != MR_UNBIND && cmd->kind != MR_DEFER) return MR_OK;
    if (cmd->id >= j->trace->storages.n || cmd->block.segment >= j->history->segments.n)
        return foul(j, "refers to nothing", MR_NONE, "a storage and a segment");
    const uint64_t asked = j->trace->storages.at[cmd->id].bytes;
    if (cmd->kind == MR_BIND)
        return settle(j, cmd->block.segment, cmd->block.offset,
                      cmd->block.bytes ? cmd->block.bytes : asked, cmd->id);
    const uint32_t p = j->at[cmd->id];
    if (p == MR_NONE || j->places.at[p].segment != cmd->block.segment
        || j->places.at[p].offset != cmd->block.offset)
        return foul(j, "frees a block", cmd->id, "the one where the storage lives");
    if (cmd->kind == MR_DEFER) return MR_OK;
    take(j, j->places.at[p].rank);
    j->at[cmd->id] = MR_NONE;
    j->live--;
    return MR_OK;
}

static mr_status finish(const judge *j)
{
    const mr_pieces *end = &j->history->end;
    uint32_t found = 0;
    MR_TRY(check_tiles(j, end));
    for (uint32_t i = 0; i < end->n; i++) {
        const mr_piece *p = &end->at[i];
        if (p->storage == MR_NONE) continue;
        const uint32_t at = j->at[p->storage];
        const place *lives = at == MR_NONE ? NULL : &j->places.at[at];
        if (!lives || lives->segment != p->segment || lives->offset != p->offset)
            return foul(j, "ends with a block", p->storage, "it where the commands put it");
        if (lives->end - lives->offset > p->bytes)
            return foul(j, "ends with a block", p->storage,
                        "as many bytes as were given to it");
        found++;
    }
    if (found == j->live) return MR_OK;
    return mr_fail(j->ctx, MR_EINPUT,
                   "the history of device %u ends with %u live blocks, expected the %u that its"
                   " commands leave",
                   j->history->device, found, j->live);
}

mr_status mr_history_check(mr_ctx *ctx, const mr_trace *trace, const mr_history *history)
{
    judge j = {.ctx = ctx, .trace = trace, .history = history, .cmd = MR_NONE};
    j.at = MR_NEW_N(ctx, uint32_t, trace->storages.n);
    for (uint32_t s = 0; s < trace->storages.n; s++) j.at[s] = MR_NONE;
    collect_places(&j);
    MR_TRY(begin(&j));
    for (j.cmd = 0; j.cmd < history->cmds.n; j.cmd++)
        MR_TRY(step(&j, &history->cmds.at[j.cmd]));
    j.cmd = MR_NONE;
    return finish(&j);
}

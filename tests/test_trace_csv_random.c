/* Random traces, with all that a trace may hold, survive being written and read. */
#include "round_trip.h"

typedef struct dice {
    mr_ctx *ctx;
    uint64_t state;
} dice;

static uint64_t roll(dice *d, uint64_t below)
{
    d->state ^= d->state << 13;
    d->state ^= d->state >> 7;
    d->state ^= d->state << 17;
    return below ? d->state % below : d->state;
}

static const char *hostile(dice *d)
{
    static const char *const texts[] = {
        "",          "plain",          "a,b",      "say \"hi\"",  "\"",         ",",
        "line\nend", "cr\r\nlf",       "\n",       "caf\xc3\xa9", "=x",         "name=1",
        " spaces ",  "\ttab",          "#comment", "none",        "\xe2\x82\xac", "a\rb",
        "\r",        "ends in \"\"\"", "0",        "x,\"\n\",y",  "\xff\xfe",
    };
    return texts[roll(d, MR_COUNT(texts))];
}

static mr_ids some(dice *d, uint32_t n, uint32_t most)
{
    mr_ids ids = {MR_NEW_N(d->ctx, uint32_t, most), n ? (uint32_t)roll(d, most + 1) : 0};
    for (uint32_t i = 0; i < ids.n; i++) ids.at[i] = (uint32_t)roll(d, n);
    return ids;
}

static void random_head(dice *d, mr_trace *t)
{
    for (int f = 0; f < MR_ABOUT_N; f++)
        if (roll(d, 2)) t->about[f] = hostile(d);
    for (uint64_t n = roll(d, 3); n; n--) MR_PUSH(d->ctx, &t->notes, hostile(d));
    for (uint64_t n = roll(d, 4), id = 0; n; n--) {
        id += 1 + roll(d, 1 + roll(d, UINT64_MAX / 8));
        MR_PUSH(d->ctx, &t->streams, id);
        MR_PUSH(d->ctx, &t->pools, UINT64_MAX - id);
    }
    for (uint64_t n = roll(d, 5); n; n--)
        MR_PUSH(d->ctx, &t->frames,
                (mr_frame){hostile(d), hostile(d), (uint32_t)roll(d, UINT32_MAX)});
    for (uint64_t n = roll(d, 4); n; n--) {
        const mr_ids ids = some(d, t->frames.n, 4);
        MR_PUSH(d->ctx, &t->stacks, (mr_stack){ids.at, ids.n});
    }
    t->has = (unsigned)roll(d, 64);
}

static void random_storage(dice *d, mr_trace *t)
{
    const bool kept = roll(d, 2);
    MR_PUSH(d->ctx, &t->storages,
            (mr_storage){
                .bytes = roll(d, 2) ? roll(d, 1000) : roll(d, (uint64_t)1 << 40),
                .per_sample = roll(d, 2) ? 0 : roll(d, 0),
                .stream = (uint32_t)roll(d, t->streams.n),
                .pool = (uint32_t)roll(d, t->pools.n),
                .stack = t->stacks.n && roll(d, 2) ? (uint32_t)roll(d, t->stacks.n) : MR_NONE,
                .device = (uint16_t)roll(d, 3),
                .role = (uint8_t)roll(d, MR_ROLE_N),
                .before = kept,
                .after = true, /* until something frees it */
                .deferred = roll(d, 4) == 0,
            });
}

static void random_tensor(dice *d, mr_trace *t)
{
    const uint32_t storage = (uint32_t)roll(d, t->storages.n);
    const uint64_t bytes = t->storages.at[storage].bytes, offset = roll(d, bytes + 1);
    uint64_t *shape = MR_NEW_N(d->ctx, uint64_t, 4);
    for (int i = 0; i < 4; i++) shape[i] = roll(d, 3) ? roll(d, 100) : roll(d, 0);
    MR_PUSH(d->ctx, &t->tensors,
            (mr_tensor){
                .name = hostile(d),
                .dtype = hostile(d),
                .storage = storage,
                .rank = (uint32_t)roll(d, 5),
                .shape = shape,
                .offset = offset,
                .bytes = roll(d, 2) ? bytes - offset : roll(d, bytes - offset + 1),
                .role = roll(d, 2) ? t->storages.at[storage].role : (uint8_t)roll(d, MR_ROLE_N),
            });
}

static void random_op(dice *d, mr_trace *t, const bool *written)
{
    mr_ids in = some(d, t->tensors.n, 4), reads = {in.at, 0};
    for (uint32_t i = 0; i < in.n; i++)
        if (written[t->tensors.at[in.at[i]].storage]) reads.at[reads.n++] = in.at[i];
    mr_saved *saved = MR_NEW_N(d->ctx, mr_saved, 4);
    for (uint32_t i = 0; i < reads.n; i++)
        saved[i] = (mr_saved){reads.at[i], (mr_saved_as)roll(d, 3)};
    const uint32_t n = t->ops.n;
    MR_PUSH(d->ctx, &t->ops,
            (mr_op){
                .name = hostile(d),
                .module = hostile(d),
                .call = (uint32_t)roll(d, 3),
                .stream = (uint32_t)roll(d, t->streams.n),
                .phase = (mr_phase)roll(d, 4),
                .random = roll(d, 2),
                .again = n && roll(d, 3) == 0 ? (uint32_t)roll(d, n) : MR_NONE,
                .of = n && roll(d, 3) == 0 ? (uint32_t)roll(d, n) : MR_NONE,
                .engine = (uint8_t)roll(d, MR_ENGINE_N),
                .ranks = (uint32_t)roll(d, 9),
                .ns = roll(d, 1000),
                .flops = roll(d, (uint64_t)1 << 48),
                .flops_per_sample = roll(d, 2),
                .read = roll(d, (uint64_t)1 << 48),
                .written = roll(d, 2),
                .workspace = roll(d, 2) * roll(d, (uint64_t)1 << 47),
                .in = reads,
                .out = some(d, t->tensors.n, 2),
                .mutates = some(d, t->tensors.n, 2),
                .saved = {saved, reads.n},
            });
}

/* Events in any order that the referee allows, things used long before or after their turn. */
static void random_events(dice *d, mr_trace *t)
{
    uint8_t *state = MR_NEW_N(d->ctx, uint8_t, t->storages.n); /* 0 unborn, 1 live, 2 freed */
    bool *written = MR_NEW_N(d->ctx, bool, t->storages.n);
    bool *dropped = MR_NEW_N(d->ctx, bool, t->tensors.n);
    const bool operators = t->tensors.n && roll(d, 2); /* then nothing is freed */
    for (uint32_t s = 0; s < t->storages.n; s++) {
        written[s] = t->storages.at[s].before;
        state[s] = written[s];
    }
    for (uint64_t n = roll(d, 60); n; n--) {
        const uint32_t s = (uint32_t)roll(d, t->storages.n);
        mr_event event = {(mr_event_kind)roll(d, MR_CARRY), s};
        if (event.kind == MR_ALLOC && state[s]) continue;
        if ((event.kind == MR_FREE || event.kind == MR_DONE) && (state[s] != 1 || operators))
            continue;
        if (event.kind == MR_ALLOC) state[s] = 1;
        if (event.kind == MR_FREE || event.kind == MR_DONE) {
            event.kind = MR_FREE;
            MR_PUSH(d->ctx, &t->events, event);
            if (t->storages.at[s].deferred) event.kind = MR_DONE;
            t->storages.at[s].after = false;
            state[s] = 2;
            if (event.kind == MR_FREE) continue;
        }
        if (event.kind == MR_DROP) event.id = (uint32_t)roll(d, t->tensors.n);
        if (event.kind == MR_DROP && (!t->tensors.n || dropped[event.id])) continue;
        if (event.kind == MR_DROP) dropped[event.id] = true;
        if (event.kind == MR_RUN) {
            event.id = t->ops.n;
            if (!operators) continue;
            random_op(d, t, written);
            if (roll(d, 5) == 0) continue; /* never run, or later */
            if (roll(d, 5) == 0) event.id = (uint32_t)roll(d, t->ops.n);
            const mr_op *op = &t->ops.at[event.id];
            for (uint32_t i = 0; i < op->out.n; i++)
                written[t->tensors.at[op->out.at[i]].storage] = true;
            for (uint32_t i = 0; i < op->mutates.n; i++)
                written[t->tensors.at[op->mutates.at[i]].storage] = true;
        }
        if (event.kind == MR_MARK) {
            event.id = t->marks.n;
            MR_PUSH(d->ctx, &t->marks,
                    (mr_mark){(mr_mark_kind)roll(d, MR_NOTE + 1), hostile(d)});
        }
        MR_PUSH(d->ctx, &t->events, event);
    }
    for (uint32_t s = 0; s < t->storages.n; s++)
        if (!state[s]) t->storages.at[s].after = false;
    if (t->events.n && roll(d, 2))
        for (uint32_t e = 0; e < t->events.n; e++) MR_PUSH(d->ctx, &t->times, roll(d, 0));
}

static void random_history(dice *d, mr_trace *t, uint32_t device)
{
    mr_history h = {.device = device,
                    .capacity_low = roll(d, 1000),
                    .capacity_high = roll(d, 2) ? UINT64_MAX : 1000 + roll(d, 1000),
                    .wrapped = roll(d, 2)};
    for (uint32_t i = 0; i < 4; i++) {
        const bool expandable = i == 3;
        MR_PUSH(d->ctx, &h.segments,
                (mr_segment){.address = roll(d, UINT64_MAX / 2),
                             .bytes = expandable ? 0 : 4096,
                             .stream = (uint32_t)roll(d, t->streams.n),
                             .pool = (uint32_t)roll(d, t->pools.n),
                             .large = roll(d, 2),
                             .expandable = expandable});
    }
    h.held = 2;
    MR_PUSH(d->ctx, &h.start, (mr_piece){0, MR_NONE, 0, 4096, roll(d, 2)});
    MR_PUSH(d->ctx, &h.start, (mr_piece){1, MR_NONE, 0, 512, false});
    MR_PUSH(d->ctx, &h.start, (mr_piece){1, MR_NONE, 512, 3584, false});
    const uint32_t handle = (uint32_t)roll(d, 3);
    MR_PUSH(d->ctx, &h.cmds, (mr_cmd){MR_RESERVE, MR_NONE, {2, handle, 0, 4096}});
    MR_PUSH(d->ctx, &h.cmds, (mr_cmd){MR_MAP, MR_NONE, {3, handle, 4096, 4096}});
    for (uint32_t s = 0; s < t->storages.n && s < 8; s++)
        if (t->storages.at[s].device == device) {
            const bool known = t->storages.at[s].bytes > 512 || roll(d, 2);
            const mr_block block = {2, handle, s * 512, known ? 512 : 0};
            MR_PUSH(d->ctx, &h.cmds, (mr_cmd){MR_BIND, s, block});
            MR_PUSH(d->ctx, &h.cmds, (mr_cmd){MR_DEFER, s, block});
            MR_PUSH(d->ctx, &h.cmds,
                    (mr_cmd){MR_REFUSE, s, {.segment = roll(d, 2) ? MR_NONE : 1}});
            if (roll(d, 2)) MR_PUSH(d->ctx, &h.cmds, (mr_cmd){MR_UNBIND, s, block});
            else MR_PUSH(d->ctx, &h.end, (mr_piece){2, s, s * 512, 512, roll(d, 2)});
        }
    if (t->ops.n) MR_PUSH(d->ctx, &h.cmds, (mr_cmd){.kind = MR_EXEC});
    MR_PUSH(d->ctx, &h.cmds, (mr_cmd){MR_UNMAP, MR_NONE, {3, 0, 4096, 4096}});
    MR_PUSH(d->ctx, &h.cmds, (mr_cmd){MR_RELEASE, MR_NONE, {0, 0, 0, 4096}});
    MR_PUSH(d->ctx, &t->histories, h);
}

static void random_trace(dice *d, mr_trace *t)
{
    mr_trace_init(d->ctx, t, "random");
    random_head(d, t);
    for (uint64_t n = 1 + roll(d, 12); n; n--) random_storage(d, t);
    for (uint64_t n = roll(d, 12); n; n--) random_tensor(d, t);
    random_events(d, t);
    for (uint32_t device = 0; device < 3; device++)
        if (roll(d, 2)) random_history(d, t, device);
    if (t->ops.n) return;
    for (uint32_t s = 0; s < t->storages.n; s++) /* without ops, `after` says who is left */
        if (t->storages.at[s].before && !t->events.n) t->storages.at[s].after = true;
}

TEST(random_traces_survive_a_round_trip)
{
    for (uint64_t seed = 1; seed <= 1500; seed++) {
        mr_ctx ctx = {0};
        mr_trace trace;
        dice d = {&ctx, seed * 0x9e3779b97f4a7c15u};
        random_trace(&d, &trace);
        const char *name = mr_printf(&ctx, "seed %u", (unsigned)seed);
        if (mr_trace_check(&ctx, &trace)) TEST_FAIL("%s: %s", name, ctx.failure.text);
        else round_trip(&ctx, name, &trace);
        mr_ctx_clear(&ctx);
        if (test_failures) return;
    }
}

TEST(a_file_cannot_be_written_when_its_trace_is_impossible)
{
    mr_ctx ctx = {0};
    mr_trace t;
    mr_sink *sink;
    mr_trace_init(&ctx, &t, "bad");
    MR_PUSH(&ctx, &t.events, (mr_event){MR_FREE, 3});
    CHECK_EQ(mr_sink_open(&ctx, "test_trace_csv_bad.csv", &sink), MR_OK);
    CHECK_EQ(mr_trace_csv_write(&ctx, &t, sink), MR_EINPUT);
    mr_sink_abandon(sink);
    CHECK(access("test_trace_csv_bad.csv", F_OK) != 0);
    mr_ctx_clear(&ctx);
}

TEST_MAIN()

/* Our format: what is written is read again, field by field; what is wrong says where and why.
 */
#include "format.h"
#include "trace_csv.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "test.h"

/* ---- are two traces the same? ------------------------------------------------------------ */

#define SAME(a, b) \
    if ((a) != (b)) return #a
#define SAME_TEXT(a, b) \
    if (strcmp((a), (b)) != 0) return #a
#define SAME_LIST(a, b)                                                            \
    if ((a).n != (b).n || ((a).n && memcmp((a).at, (b).at, (a).n * sizeof *(a).at) != 0)) \
    return #a
#define EACH(vec) for (uint32_t i = 0; i < a->vec.n; i++)

static const char *storages_differ(const mr_trace *a, const mr_trace *b)
{
    SAME(a->storages.n, b->storages.n);
    EACH(storages)
    {
        const mr_storage *x = &a->storages.at[i], *y = &b->storages.at[i];
        SAME(x->bytes, y->bytes);
        SAME(x->per_sample, y->per_sample);
        SAME(x->stream, y->stream);
        SAME(x->pool, y->pool);
        SAME(x->stack, y->stack);
        SAME(x->device, y->device);
        SAME(x->role, y->role);
        SAME(x->before, y->before);
        SAME(x->after, y->after);
        SAME(x->deferred, y->deferred);
        SAME(x->refused, y->refused);
    }
    return NULL;
}

static const char *tensors_differ(const mr_trace *a, const mr_trace *b)
{
    SAME(a->tensors.n, b->tensors.n);
    EACH(tensors)
    {
        const mr_tensor *x = &a->tensors.at[i], *y = &b->tensors.at[i];
        SAME_TEXT(x->name, y->name);
        SAME_TEXT(x->dtype, y->dtype);
        SAME(x->storage, y->storage);
        SAME(x->rank, y->rank);
        if (x->rank && memcmp(x->shape, y->shape, x->rank * sizeof *x->shape) != 0)
            return "shape";
        SAME(x->offset, y->offset);
        SAME(x->bytes, y->bytes);
        SAME(x->role, y->role);
    }
    return NULL;
}

static const char *ops_differ(const mr_trace *a, const mr_trace *b)
{
    SAME(a->ops.n, b->ops.n);
    EACH(ops)
    {
        const mr_op *x = &a->ops.at[i], *y = &b->ops.at[i];
        SAME_TEXT(x->name, y->name);
        SAME_TEXT(x->module, y->module);
        SAME(x->call, y->call);
        SAME(x->stream, y->stream);
        SAME(x->phase, y->phase);
        SAME(x->random, y->random);
        SAME(x->again, y->again);
        SAME(x->of, y->of);
        SAME(x->engine, y->engine);
        SAME(x->ranks, y->ranks);
        SAME(x->ns, y->ns);
        SAME(x->flops, y->flops);
        SAME(x->flops_per_sample, y->flops_per_sample);
        SAME(x->read, y->read);
        SAME(x->written, y->written);
        SAME(x->workspace, y->workspace);
        SAME_LIST(x->in, y->in);
        SAME_LIST(x->out, y->out);
        SAME_LIST(x->mutates, y->mutates);
        SAME_LIST(x->saved, y->saved);
    }
    return NULL;
}

static const char *pieces_differ(const mr_pieces *a, const mr_pieces *b)
{
    SAME(a->n, b->n);
    for (uint32_t i = 0; i < a->n; i++) {
        SAME(a->at[i].segment, b->at[i].segment);
        SAME(a->at[i].storage, b->at[i].storage);
        SAME(a->at[i].offset, b->at[i].offset);
        SAME(a->at[i].bytes, b->at[i].bytes);
        SAME(a->at[i].pending, b->at[i].pending);
    }
    return NULL;
}

static const char *history_differs(const mr_history *a, const mr_history *b)
{
    SAME(a->device, b->device);
    SAME(a->held, b->held);
    SAME(a->capacity_low, b->capacity_low);
    SAME(a->capacity_high, b->capacity_high);
    SAME(a->wrapped, b->wrapped);
    SAME(a->segments.n, b->segments.n);
    EACH(segments)
    {
        SAME(a->segments.at[i].address, b->segments.at[i].address);
        SAME(a->segments.at[i].bytes, b->segments.at[i].bytes);
        SAME(a->segments.at[i].stream, b->segments.at[i].stream);
        SAME(a->segments.at[i].pool, b->segments.at[i].pool);
        SAME(a->segments.at[i].large, b->segments.at[i].large);
        SAME(a->segments.at[i].expandable, b->segments.at[i].expandable);
    }
    SAME(a->cmds.n, b->cmds.n);
    EACH(cmds)
    {
        SAME(a->cmds.at[i].kind, b->cmds.at[i].kind);
        SAME(a->cmds.at[i].id, b->cmds.at[i].id);
        SAME(a->cmds.at[i].block.segment, b->cmds.at[i].block.segment);
        SAME(a->cmds.at[i].block.handle, b->cmds.at[i].block.handle);
        SAME(a->cmds.at[i].block.offset, b->cmds.at[i].block.offset);
        SAME(a->cmds.at[i].block.bytes, b->cmds.at[i].block.bytes);
    }
    const char *start = pieces_differ(&a->start, &b->start);
    return start ? start : pieces_differ(&a->end, &b->end);
}

static const char *rest_differs(const mr_trace *a, const mr_trace *b)
{
    SAME(a->has, b->has);
    for (int f = 0; f < MR_ABOUT_N; f++) {
        SAME(!a->about[f], !b->about[f]);
        if (a->about[f]) SAME_TEXT(a->about[f], b->about[f]);
    }
    SAME(a->notes.n, b->notes.n);
    EACH(notes) SAME_TEXT(a->notes.at[i], b->notes.at[i]);
    SAME_LIST(a->streams, b->streams);
    SAME_LIST(a->pools, b->pools);
    SAME_LIST(a->events, b->events);
    SAME_LIST(a->times, b->times);
    SAME(a->marks.n, b->marks.n);
    EACH(marks)
    {
        SAME(a->marks.at[i].kind, b->marks.at[i].kind);
        SAME_TEXT(a->marks.at[i].name, b->marks.at[i].name);
    }
    SAME(a->frames.n, b->frames.n);
    EACH(frames)
    {
        SAME_TEXT(a->frames.at[i].file, b->frames.at[i].file);
        SAME_TEXT(a->frames.at[i].function, b->frames.at[i].function);
        SAME(a->frames.at[i].line, b->frames.at[i].line);
    }
    SAME(a->stacks.n, b->stacks.n);
    EACH(stacks) SAME_LIST(a->stacks.at[i], b->stacks.at[i]);
    SAME(a->histories.n, b->histories.n);
    EACH(histories)
    {
        const char *what = history_differs(&a->histories.at[i], &b->histories.at[i]);
        if (what) return what;
    }
    return NULL;
}

/* What differs first, NULL when nothing does. */
static const char *differ(const mr_trace *a, const mr_trace *b)
{
    const char *what = storages_differ(a, b);
    if (!what) what = tensors_differ(a, b);
    if (!what) what = ops_differ(a, b);
    return what ? what : rest_differs(a, b);
}

/* ---- round trips ------------------------------------------------------------------------- */

static mr_status read_text(mr_ctx *ctx, const char *text, mr_trace *out)
{
    mr_source *source;
    MR_TRY(mr_source_memory(ctx, "x.csv", text, strlen(text), &source));
    const mr_status status = mr_trace_csv_read(ctx, source, out);
    mr_source_close(source);
    return status ? status : mr_trace_check(ctx, out);
}

static const char *file_text(mr_ctx *ctx, const char *path)
{
    mr_source *source;
    if (mr_source_open(ctx, path, &source)) return "";
    char *text = MR_NEW_N(ctx, char, 64 * MR_MIB);
    size_t n = 0, have;
    for (const void *at; (at = mr_source_peek(source, 1, &have)) != NULL && have; n += have) {
        if (n + have >= 64 * MR_MIB) break;
        memcpy(text + n, at, have);
        mr_source_take(source, have);
    }
    mr_source_close(source);
    return text;
}

static const char *written(mr_ctx *ctx, const mr_trace *trace, const char *ending)
{
    const char *path = mr_printf(ctx, "test_trace_csv_%ld.csv%s", (long)getpid(), ending);
    mr_sink *sink;
    mr_status status = mr_sink_open(ctx, path, &sink);
    if (!status) status = mr_trace_csv_write(ctx, trace, sink);
    if (!status) status = mr_sink_commit(sink);
    if (status) TEST_FAIL("writing: %s", ctx->failure.text);
    const char *text = file_text(ctx, path);
    remove(path);
    return text;
}

static void round_trip(mr_ctx *ctx, const char *name, const mr_trace *trace)
{
    mr_trace again;
    const char *once = written(ctx, trace, "");
    if (read_text(ctx, once, &again)) {
        TEST_FAIL("%s: reading what was written: %s %s", name, ctx->failure.where,
                  ctx->failure.text);
        return;
    }
    const char *what = differ(trace, &again);
    if (what) TEST_FAIL("%s: %s differs after reading again", name, what);
    const char *twice = written(ctx, &again, "");
    if (strcmp(once, twice) != 0) TEST_FAIL("%s: written again it differs", name);
}

static void round_trips_of(const char *folder)
{
    DIR *dir = opendir(folder);
    if (!dir) SKIP("no recordings");
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] == '.') continue;
        mr_ctx ctx = {0};
        mr_trace trace;
        const mr_read_options options = {.ends_inclusive =
                                             strstr(entry->d_name, "iree") != NULL};
        const char *path = mr_printf(&ctx, "%s/%s", folder, entry->d_name);
        const bool good =
            !strstr(entry->d_name, "simrd-") && !strstr(entry->d_name, "not-recorded");
        const mr_status status = mr_recording_read(&ctx, path, &options, &trace);
        if (status && good) TEST_FAIL("%s: %s", ctx.failure.where, ctx.failure.text);
        if (!status) round_trip(&ctx, entry->d_name, &trace);
        mr_ctx_clear(&ctx);
    }
    closedir(dir);
}

TEST(traces_written_by_hand_survive_a_round_trip)
{
    round_trips_of(TRACES "/tiny");
}

TEST(simrd_logs_survive_a_round_trip)
{
    round_trips_of(SHARED "/recordings/dtr-logs");
}

TEST(lifetimes_survive_a_round_trip)
{
    round_trips_of(SHARED "/recordings/lifetimes");
}

TEST(snapshots_survive_a_round_trip)
{
    round_trips_of(SHARED "/recordings/pytorch-snapshots");
}

TEST(compressed_files_hold_the_same)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    CHECK_EQ(mr_recording_read(&ctx, TRACES "/tiny/mlp.csv", NULL, &trace), MR_OK);
    const char *plain = written(&ctx, &trace, "");
    CHECK_STR(written(&ctx, &trace, ".gz"), plain);
    CHECK_STR(written(&ctx, &trace, ".zst"), plain);
    mr_ctx_clear(&ctx);
}

/* ---- random traces ----------------------------------------------------------------------- */

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

/* ---- what a file may say ----------------------------------------------------------------- */

TEST(ids_are_any_numbers_and_comments_and_blank_lines_are_skipped)
{
    mr_ctx ctx = {0};
    mr_trace t;
    CHECK_EQ(
        read_text(&ctx,
                  "memreuse,1\r\n\r\n#,x,\"y\n\"\r\nalloc,900,5,after\r\nalloc,7,6\r\nfree,7",
                  &t),
        MR_OK);
    CHECK_EQ(t.storages.n, 2);
    CHECK_EQ(t.events.at[2].id, 1);
    CHECK_EQ(t.has, 0);
    mr_ctx_clear(&ctx);
}

TEST(what_is_left_out_has_its_usual_value)
{
    mr_ctx ctx = {0};
    mr_trace t;
    CHECK_EQ(read_text(&ctx,
                       "memreuse,1\nstorage,0,100,role=buffer,before\ntensor,0,0\n"
                       "tensor,1,0,offset=40\nop,0,f,backward,in=0 1,mutates=1\n",
                       &t),
             MR_OK);
    CHECK_EQ(t.tensors.at[0].bytes, 100);
    CHECK_EQ(t.tensors.at[1].bytes, 60);
    CHECK_EQ(t.tensors.at[1].role, MR_ROLE_buffer);
    CHECK_EQ(t.storages.at[0].stack, MR_NONE);
    CHECK_EQ(t.ops.at[0].again, MR_NONE);
    CHECK_EQ(t.has, MR_HAS_DATAFLOW | MR_HAS_PHASES);
    mr_ctx_clear(&ctx);
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

/* Text after the first row, and the beginning of where and of what is said about it. */
static const char *const wrong[][3] = {
    {"allok,1,5", "x.csv:2:1", "unknown kind of row 'allok'"},
    {"alloc", "x.csv:2:1", "the row has 1 fields, expected alloc,id"},
    {"alloc,1,5,colour=red", "x.csv:2:11",
     "'colour=red' is no column of alloc, expected one of bytes=, per"},
    {"alloc,1,5,6", "x.csv:2:11", "'6' is no column of alloc"},
    {"alloc,1,5,deferred=1", "x.csv:2:11", "'deferred=1' is no column"},
    {"alloc,1,5,t", "x.csv:2:11", "'t' is no column"},
    {"alloc,-1,5", "x.csv:2:7",
     "id is '-1', expected a whole number of at most 18446744073709551615"},
    {"alloc,1,5.0", "x.csv:2:9", "bytes is '5.0'"},
    {"alloc,1,0x10", "x.csv:2:9", "bytes is '0x10'"},
    {"alloc,,5", "x.csv:2:7", "id is ''"},
    {"alloc,1 ,5", "x.csv:2:7", "id is '1 '"},
    {"alloc,1,18446744073709551616", "x.csv:2:9", "bytes is '18446744073709551616'"},
    {"alloc,1,5,device=65536", "x.csv:2:11",
     "device is '65536', expected a whole number of at most 65535"},
    {"alloc,1,5,role=weight", "x.csv:2:11",
     "role is 'weight', expected unknown, parameter, buffer"},
    {"alloc,1,5,stream=7", "x.csv:2:11", "stream 7 is not known here, expected a row before"},
    {"alloc,1,5,t=1,t=2", "x.csv:2:15", "t is given twice"},
    {"alloc,1,5\nalloc,1,6", "x.csv:3:7", "storage 1 is there twice"},
    {"alloc,1", "x.csv:2:7", "storage 1 is not declared by an earlier row"},
    {"storage,1,5\nalloc,1,role=input", "x.csv:3:9", "role is given but not bytes"},
    {"alloc,1,5,t=1\nfree,1", "x.csv:3:1", "the event has no t="},
    {"alloc,1,5\nfree,1,t=1", "x.csv:3:8", "the event has a t="},
    {"free,1", "x.csv:2:6", "storage 1 is not known here"},
    {"stream,9\nstream,9", "x.csv:3:8", "stream 9 follows stream 9, expected a larger one"},
    {"pool,0", "x.csv:2:6", "pool 0 is there twice"},
    {"storage,0,8\ntensor,0,0,offset=9", "x.csv:3:12",
     "offset is 9, expected at most the 8 bytes"},
    {"storage,0,8\ntensor,0,none", "x.csv:3:10", "storage is none"},
    {"storage,0,8\ntensor,0,0,shape=3x", "x.csv:3:12",
     "shape is '3x', expected whole numbers with x"},
    {"op,0,f,sideways", "x.csv:2:8",
     "phase is 'sideways', expected other, forward, backward or update"},
    {"op,0,f,other,in=1 ", "x.csv:2:14", "tensor 1 is not known"},
    {"storage,0,8,before\ntensor,0,0\nop,0,f,other,in=0,saved=0:x", "x.csv:4:19",
     "saved is '0:x'"},
    {"storage,0,8,before\ntensor,0,0\nop,0,f,other,saved=0", "x.csv:4:14", "saved is '0'"},
    {"op,0,f,other,later,t=4", "x.csv:2:20", "an op that runs later has a t="},
    {"mark,step,x", "x.csv:2:6", "kind is 'step', expected step-begin, step-end"},
    {"about,colour,red", "x.csv:2:7", "unknown field 'colour'"},
    {"about,batch,1\nabout,batch,2", "x.csv:3:7", "about batch is there twice"},
    {"note,a,b", "x.csv:2:1", "note has 2 fields"},
    {"has,wings", "x.csv:2:5", "unknown word 'wings'"},
    {"segment,0,0,512", "x.csv:2:1", "segment stands outside of a history"},
    {"history,0\nsegment,0,0,512\nsegment,1,0,512,held", "x.csv:4:17",
     "a held segment follows"},
    {"note,\"a\"b", "x.csv:2:9", "a quote or what follows it is out of place"},
    {"note,a\"b", "x.csv:2:7", "a quote or what follows it is out of place"},
    {"note,\"abc\nd\n", "x.csv:2:6", "a quoted field begins here and does not end"},
    {"note,\"a\nb\",c\n", "x.csv:2:1", "note has 2 fields"},
    {"about,\"a\nb\",c\n", "x.csv:2:7", "unknown field 'a?b'"},
    {"frame,0,\"a\nb\",x,f", "x.csv:3:4", "line is 'x'"},
    {"frame,0,\"a,\"\"\nb\",\"x\ny\",f", "x.csv:3:4", "line is 'x?y'"},
    /* what only the referee sees */
    {"alloc,1,5\nfree,1\nfree,1", "",
     "event 2 frees storage 0, expected it to be freed only once"},
    {"alloc,1,5", "", "storage 0 is never freed"},
    {"alloc,1,5\nalloc,1", "", "event 1 allocates storage 0"},
};

TEST(what_is_wrong_is_said_with_its_place)
{
    for (size_t i = 0; i < MR_COUNT(wrong); i++) {
        mr_ctx ctx = {0};
        mr_trace t;
        const char *text = mr_printf(&ctx, "memreuse,1\n%s", wrong[i][0]);
        if (read_text(&ctx, text, &t) != MR_EINPUT) TEST_FAIL("accepted: %s", wrong[i][0]);
        CHECK_STR(ctx.failure.where, wrong[i][1]);
        CHECK_HAS(ctx.failure.text, wrong[i][2]);
        mr_ctx_clear(&ctx);
    }
}

TEST(the_first_row_says_which_version)
{
    static const char *const texts[][2] = {
        {"memreuse,2\n", "the format has version '2', expected 1"},
        {"memreuse,1,x\n", "the format has version '1', expected 1"},
        {"alloc,1,2\n", "the first row is not 'memreuse,1'"},
        {"\n\n", "the first row is not 'memreuse,1'"},
    };
    for (size_t i = 0; i < MR_COUNT(texts); i++) {
        mr_ctx ctx = {0};
        mr_trace t;
        CHECK_EQ(read_text(&ctx, texts[i][0], &t), MR_EINPUT);
        CHECK_HAS(ctx.failure.text, texts[i][1]);
        mr_ctx_clear(&ctx);
    }
}

static mr_status read_bytes(mr_ctx *ctx, const char *data, size_t n)
{
    mr_source *source;
    mr_trace t;
    MR_TRY(mr_source_memory(ctx, "x.csv", data, n, &source));
    const mr_status status = mr_trace_csv_read(ctx, source, &t);
    mr_source_close(source);
    return status;
}

TEST(fields_have_limits)
{
    mr_ctx ctx = {0};
    const size_t n = 3 * MR_MIB;
    char *data = MR_NEW_N(&ctx, char, n);
    memset(data, 'x', n);
    memcpy(data, "memreuse,1\nnote,", 16);
    CHECK_EQ(read_bytes(&ctx, data, n), MR_EINPUT);
    CHECK_STR(ctx.failure.where, "x.csv:2:1");
    CHECK_HAS(ctx.failure.text, "the line is longer than 1 MiB");
    memcpy(data, "memreuse,1\nnote,\"", 17);
    for (size_t i = 20; i < n; i += 1000) data[i] = '\n';
    CHECK_EQ(read_bytes(&ctx, data, n), MR_EINPUT);
    CHECK_STR(ctx.failure.where, "x.csv:2:6");
    CHECK_HAS(ctx.failure.text, "the field is longer than 1 MiB");
    CHECK_EQ(read_bytes(&ctx, "memreuse,1\nnote,a\0b\n", 20), MR_EINPUT);
    CHECK_STR(ctx.failure.where, "x.csv:2:7");
    CHECK_HAS(ctx.failure.text, "a NUL byte");
    memset(data, ',', 100);
    memcpy(data, "memreuse,1\nnote,", 16);
    CHECK_EQ(read_bytes(&ctx, data, 100), MR_EINPUT);
    CHECK_STR(ctx.failure.where, "x.csv:2:1");
    CHECK_HAS(ctx.failure.text, "the row has 86 fields, expected at most 64");
    mr_ctx_clear(&ctx);
}

TEST_MAIN()

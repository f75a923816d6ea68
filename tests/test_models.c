/* The recorded models: what memreuse rebuilds from each file is what PyTorch counted in the
 * run.  Twice: from the allocations and frees of the file, and without them, from what its ops
 * read, make and save and what the program drops.  Rewrites stand on the second.  And an op
 * that says which one it repeats is that one again. */
#include "csv_reader.h"
#include "format.h"
#include "schedule.h"

#include <stdlib.h>

#include "test.h"

#define FNV_BASIS 0xcbf29ce484222325u
#define FNV_PRIME 0x100000001b3u

typedef struct table {
    mr_csv_row head, row;
} table;

/* The field of a row below a column's name. */
static const char *field(const table *t, const char *name)
{
    for (uint32_t i = 0; i < t->head.n && i < t->row.n; i++)
        if (!strcmp(t->head.at[i], name)) return t->row.at[i];
    return "";
}

/* FNV-1a over eight bytes, lowest first. */
static uint64_t fnv(uint64_t hash, uint64_t value)
{
    for (int byte = 0; byte < 8; byte++, value >>= 8)
        hash = (hash ^ (value & 255)) * FNV_PRIME;
    return hash;
}

typedef MR_VEC(uint64_t) curve;

/* Live bytes after every op. */
static curve live_bytes(mr_ctx *ctx, const mr_schedule *schedule)
{
    const mr_storage *storages = schedule->trace->storages.at;
    uint64_t live = 0;
    curve out = {0};
    for (uint32_t s = 0; s < schedule->trace->storages.n; s++)
        if (storages[s].before) live += storages[s].bytes;
    for (uint32_t e = 0; e < schedule->events.n; e++) {
        const mr_event event = schedule->events.at[e];
        if (event.kind == MR_ALLOC) live += storages[event.id].bytes;
        if (event.kind == MR_FREE) live -= storages[event.id].bytes;
        if (event.kind == MR_RUN) MR_PUSH(ctx, &out, live);
    }
    return out;
}

static uint64_t checksum(const curve *c)
{
    uint64_t hash = FNV_BASIS;
    for (uint32_t i = 0; i < c->n; i++) hash = fnv(hash, c->at[i]);
    return hash;
}

/* The trace without what it says of lives. */
static mr_trace forgetful(mr_ctx *ctx, const mr_trace *trace)
{
    mr_trace copy;
    mr_trace_copy(ctx, trace, &copy);
    copy.events.n = 0;
    for (uint32_t e = 0; e < trace->events.n; e++)
        if (trace->events.at[e].kind > MR_DONE)
            MR_PUSH(ctx, &copy.events, trace->events.at[e]);
    return copy;
}

static uint64_t flops(const mr_trace *trace)
{
    uint64_t sum = 0;
    for (uint32_t o = 0; o < trace->ops.n; o++) sum += trace->ops.at[o].flops;
    return sum;
}

/* Does a recording of a backward pass say whose gradients its ops compute? */
static bool says_of(const mr_trace *trace)
{
    bool says = false, backward = false;
    for (uint32_t o = 0; o < trace->ops.n; o++) {
        backward |= trace->ops.at[o].phase == MR_BACKWARD;
        says |= trace->ops.at[o].of != MR_NONE;
    }
    return says || !backward;
}

/* Lifetimes that follow from the ops give the same curve: its widest distance from the recorded
 * one is 0, and so is the area between them, in bytes times ops. */
static void check_derived(mr_ctx *ctx, const mr_trace *trace, const curve *recorded)
{
    mr_schedule schedule;
    uint64_t widest = 0, area = 0;
    const mr_trace derived = forgetful(ctx, trace);
    if (mr_schedule_make(ctx, &derived, 0, &schedule)) {
        TEST_FAIL("%s", ctx->failure.text);
        return;
    }
    const curve found = live_bytes(ctx, &schedule);
    CHECK_EQ(found.n, recorded->n);
    for (uint32_t i = 0; i < found.n && i < recorded->n; i++) {
        const uint64_t a = found.at[i], b = recorded->at[i], apart = a < b ? b - a : a - b;
        if (apart > widest) widest = apart;
        area += apart;
    }
    CHECK_EQ(widest, 0);
    CHECK_EQ(area, 0);
}

static void check_lives(mr_ctx *ctx, const mr_trace *trace, const table *t)
{
    mr_schedule schedule;
    uint32_t at;
    if (mr_schedule_make(ctx, trace, 0, &schedule)) {
        TEST_FAIL("%s", ctx->failure.text);
        return;
    }
    const curve live = live_bytes(ctx, &schedule);
    CHECK_EQ(mr_schedule_peak(&schedule, &at), strtoull(field(t, "peak"), NULL, 10));
    CHECK_EQ(checksum(&live), strtoull(field(t, "curve"), NULL, 16));
    CHECK_EQ(checksum(&live), strtoull(field(t, "counted_curve"), NULL, 16));
    if (says_of(trace)) check_derived(ctx, trace, &live);
    else
        printf("    %s: made before ops said whose gradients they compute\n", field(t, "file"));
}

/* ---- ops that run again ------------------------------------------------------------------ */

typedef struct repeats {
    const mr_trace *trace;
    bool nested;         /* calls of checkpoint within calls: ops run again more than once */
    bool *once;          /* by op: some op repeats it */
    uint32_t *stands;    /* by storage of the first run: where its repetition has its like */
    uint32_t *maker;     /* by storage: the first op that made it, MR_NONE before that */
    uint32_t last;       /* what the op before repeats, MR_NONE if nothing */
} repeats;

static uint32_t storage_of(const repeats *r, uint32_t tensor)
{
    return r->trace->tensors.at[tensor].storage;
}

/* Was it made in the backward pass by an op that repeats none?  It has come back from the host,
 * or is a cast that autocast made once in the forward pass. */
static bool made_anew(const repeats *r, uint32_t storage)
{
    const uint32_t maker = r->maker[storage];
    return maker != MR_NONE && r->trace->ops.at[maker].again == MR_NONE
           && r->trace->ops.at[maker].phase == MR_BACKWARD;
}

static bool alike(const repeats *r, const mr_ids *a, const mr_ids *b)
{
    bool same = a->n == b->n;
    for (uint32_t i = 0; same && i < a->n; i++) {
        const mr_tensor *x = &r->trace->tensors.at[a->at[i]];
        const mr_tensor *y = &r->trace->tensors.at[b->at[i]];
        same = !strcmp(x->dtype, y->dtype) && x->rank == y->rank
               && (!x->rank || !memcmp(x->shape, y->shape, x->rank * sizeof *x->shape));
    }
    return same;
}

/* Reads it what the first run read, or what stands for that? */
static bool reads_the_same(const repeats *r, const mr_op *op, const mr_op *first)
{
    for (uint32_t i = 0; i < op->in.n; i++) {
        const uint32_t x = storage_of(r, op->in.at[i]), y = storage_of(r, first->in.at[i]);
        if (x != y && r->stands[y] != x && (r->stands[y] != MR_NONE || !made_anew(r, x)))
            return false;
    }
    return true;
}

static const char *judge_repeat(const repeats *r, const mr_op *op)
{
    const mr_op *first = &r->trace->ops.at[op->again];
    if (first->again != MR_NONE || first->phase != MR_FORWARD) return "no op of forward";
    if (r->once[op->again] && !r->nested) return "one that another op repeats";
    if (r->last != MR_NONE && r->last >= op->again)
        return "one before what the last op repeats";
    if (strcmp(op->name, first->name)) return "one of another name";
    if (strcmp(op->module, first->module) || op->call != first->call)
        return "one of another call of a module";
    if (!alike(r, &op->in, &first->in) || !alike(r, &op->out, &first->out)
        || !alike(r, &op->mutates, &first->mutates))
        return "one of other shapes";
    return reads_the_same(r, op, first) ? NULL : "one that reads something else";
}

static void note_repeat(repeats *r, const mr_op *op)
{
    const mr_op *first = &r->trace->ops.at[op->again];
    r->once[op->again] = true;
    for (uint32_t i = 0; i < op->out.n; i++)
        r->stands[storage_of(r, first->out.at[i])] = storage_of(r, op->out.at[i]);
}

static void check_repeats(mr_ctx *ctx, const mr_trace *trace, bool nested)
{
    repeats r = {.trace = trace, .nested = nested, .last = MR_NONE};
    r.once = MR_NEW_N(ctx, bool, trace->ops.n);
    r.stands = MR_NEW_N(ctx, uint32_t, trace->storages.n);
    r.maker = MR_NEW_N(ctx, uint32_t, trace->storages.n);
    for (uint32_t s = 0; s < trace->storages.n; s++) r.stands[s] = r.maker[s] = MR_NONE;
    for (uint32_t o = 0; o < trace->ops.n; o++) {
        const mr_op *op = &trace->ops.at[o];
        const char *wrong = op->again == MR_NONE ? NULL : judge_repeat(&r, op);
        for (uint32_t i = 0; i < op->out.n; i++)
            if (r.maker[storage_of(&r, op->out.at[i])] == MR_NONE)
                r.maker[storage_of(&r, op->out.at[i])] = o;
        if (wrong) {
            TEST_FAIL("op %u (%s of %s) repeats op %u, %s", o, op->name, op->module, op->again,
                      wrong);
            return;
        }
        if (op->again != MR_NONE) note_repeat(&r, op);
        r.last = op->again;
    }
}

static bool is_nested(const char *file)
{
    static const char *const plans[] = {"-recursive.", "-revolve-", "-rotor-35."};
    for (size_t i = 0; i < MR_COUNT(plans); i++)
        if (strstr(file, plans[i])) return true;
    return false;
}

static void check_row(const char *folder, const table *t)
{
    mr_ctx ctx = {0};
    const mr_read_options options = {0};
    mr_trace trace;
    const int failures = test_failures;
    const char *path = mr_printf(&ctx, "%s/%s", folder, field(t, "file"));
    if (mr_recording_read(&ctx, path, &options, &trace)) {
        TEST_FAIL("%s", ctx.failure.text);
    } else {
        CHECK_EQ(trace.ops.n, strtoull(field(t, "ops"), NULL, 10));
        CHECK_EQ(flops(&trace), strtoull(field(t, "flop_counter"), NULL, 10));
        check_lives(&ctx, &trace, t);
        check_repeats(&ctx, &trace, is_nested(field(t, "file")));
    }
    if (test_failures > failures) printf("    in %s\n", field(t, "file"));
    mr_ctx_clear(&ctx);
}

static mr_csv_row kept(mr_ctx *ctx, const mr_csv_row *row)
{
    mr_csv_row copy = *row;
    for (uint32_t i = 0; i < row->n; i++)
        copy.at[i] = mr_strndup(ctx, row->at[i], row->length[i]);
    return copy;
}

static void check_folder(const char *folder)
{
    mr_ctx ctx = {0};
    mr_source *source;
    const mr_csv_row *row;
    table t = {0};
    uint32_t files = 0;
    mr_status status;
    if (mr_source_open(&ctx, mr_printf(&ctx, "%s/truth.csv", folder), &source)) {
        TEST_FAIL("%s", ctx.failure.text);
        return;
    }
    mr_csv *csv = mr_csv_open(&ctx, source);
    CHECK_EQ(mr_csv_next(csv, &row), MR_OK);
    t.head = kept(&ctx, row);
    for (; !(status = mr_csv_next(csv, &row)) && row->n; files++) {
        t.row = *row;
        check_row(folder, &t);
    }
    CHECK_EQ(status, MR_OK);
    CHECK(files > 0);
    mr_csv_close(csv);
    mr_source_close(source);
    mr_ctx_clear(&ctx);
}

TEST(live_bytes_after_every_op_are_what_pytorch_counted)
{
    check_folder(TRACES "/models");
}

TEST(so_they_are_with_a_technique_switched_on)
{
    check_folder(TRACES "/models/twins");
}

TEST_MAIN()

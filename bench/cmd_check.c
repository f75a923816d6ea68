/* check -- holds a predicted placement against what the recorded allocator really did.
 *
 * Truth and prediction are both lists of commands, so the check is a comparison in step; then
 * the blocks that are left must be the same.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "report.h"

typedef struct check {
    mr_ctx *ctx;
    const mr_trace *trace;
    const mr_history *history;
    const mr_placement *placement;
    mr_sink *sink; /* NULL: nothing is said */
} check;

/* A command, free of the numbering of segments that either side has. */
typedef struct deed {
    mr_cmd_kind kind;
    uint32_t id;
    uint64_t address, bytes; /* of an allocation not recorded: 0 */
} deed;

/* ---- reading either side ----------------------------------------------------------------- */

/* Taking or leaving a range of addresses is no memory operation, and running an op is none. */
static bool is_deed(const mr_cmd *cmd, const mr_segment *segments)
{
    if (cmd->kind == MR_EXEC) return false;
    if (cmd->kind != MR_RESERVE && cmd->kind != MR_RELEASE) return true;
    return !segments[cmd->block.segment].expandable;
}

static bool next_deed(const mr_cmd *cmds, uint32_t n, const mr_segment *segments, uint32_t *at,
                      deed *out)
{
    while (*at < n && !is_deed(&cmds[*at], segments)) ++*at;
    if (*at == n) return false;
    const mr_cmd *cmd = &cmds[*at];
    const bool nowhere =
        cmd->block.segment == MR_NONE; /* a request of zero bytes, or refused */
    *out = (deed){cmd->kind, cmd->id, 0, nowhere ? 0 : cmd->block.bytes};
    if (!nowhere) out->address = segments[cmd->block.segment].address + cmd->block.offset;
    return true;
}

static bool same(const deed *recorded, const deed *predicted)
{
    if (recorded->kind != predicted->kind) return false;
    if (recorded->kind >= MR_BIND && recorded->id != predicted->id) return false;
    if (recorded->kind == MR_REFUSE) return true;
    if (recorded->address != predicted->address) return false;
    return !recorded->bytes || recorded->bytes == predicted->bytes;
}

/* ---- saying what differs ----------------------------------------------------------------- */

static const char *kind_name(mr_cmd_kind kind)
{
    static const char *const names[] = {[MR_RESERVE] = "segment_alloc",
                                        [MR_RELEASE] = "segment_free",
                                        [MR_MAP] = "segment_map",
                                        [MR_UNMAP] = "segment_unmap",
                                        [MR_BIND] = "alloc",
                                        [MR_DEFER] = "free_requested",
                                        [MR_UNBIND] = "free_completed",
                                        [MR_EXEC] = "op",
                                        [MR_REFUSE] = "oom"};
    return names[kind];
}

static void put_deed(const check *c, const char *who, const deed *d, mr_makers *makers)
{
    if (!d) {
        mr_sink_print(c->sink, "  %-10s nothing more\n", who);
        return;
    }
    mr_sink_print(c->sink, "  %-10s %-15s 0x%" PRIx64, who, kind_name(d->kind), d->address);
    if (d->bytes) mr_sink_print(c->sink, "  %" PRIu64 " bytes", d->bytes);
    if (d->kind >= MR_BIND && d->id != MR_NONE)
        mr_sink_print(c->sink, "  (%" PRIu64 " asked for by %s)",
                      c->trace->storages.at[d->id].bytes, mr_show_maker(c->ctx, makers, d->id));
    mr_sink_print(c->sink, "\n");
}

static mr_event_kind event_of(mr_cmd_kind kind, const mr_storage *storage)
{
    if (kind == MR_BIND || kind == MR_REFUSE) return MR_ALLOC;
    return kind == MR_UNBIND && storage->deferred ? MR_DONE : MR_FREE;
}

/* The event of the recording that the commands from `at` on belong to: what a request makes the
 * allocator do stands before its allocation. */
static uint32_t event_number(const check *c, uint32_t at)
{
    const mr_cmds *cmds = &c->history->cmds;
    while (at < cmds->n && (cmds->at[at].kind < MR_BIND || cmds->at[at].id == MR_NONE)) at++;
    if (at == cmds->n) return c->trace->events.n;
    const uint32_t id = cmds->at[at].id;
    const mr_event_kind kind = event_of(cmds->at[at].kind, &c->trace->storages.at[id]);
    for (uint32_t i = 0; i < c->trace->events.n; i++)
        if (c->trace->events.at[i].kind == kind && c->trace->events.at[i].id == id) return i;
    return c->trace->events.n;
}

static void put_difference(const check *c, uint32_t at, uint32_t agreed, const deed *recorded,
                           const deed *predicted)
{
    if (!c->sink) return;
    mr_makers *makers = mr_makers_new(c->ctx, c->trace);
    mr_sink_print(c->sink,
                  "device %" PRIu32 ": different at event %" PRIu32 " of %" PRIu32
                  ", after %" PRIu32 " steps that agree\n",
                  c->history->device, event_number(c, at), c->trace->events.n, agreed);
    put_deed(c, "recorded", recorded, makers);
    put_deed(c, "predicted", predicted, makers);
}

/* ---- commands ---------------------------------------------------------------------------- */

static bool compare_commands(const check *c)
{
    const mr_history *h = c->history;
    const mr_placement *p = c->placement;
    uint32_t r = 0, q = p->start;
    for (uint32_t agreed = 0;; agreed++, r++, q++) {
        deed recorded, predicted;
        const bool more = next_deed(h->cmds.at, h->cmds.n, h->segments.at, &r, &recorded);
        const bool also = next_deed(p->cmds.at, p->cmds.n, p->segments.at, &q, &predicted);
        if (!more && !also) return true;
        if (more && also && same(&recorded, &predicted)) continue;
        put_difference(c, r, agreed, more ? &recorded : NULL, also ? &predicted : NULL);
        return false;
    }
}

/* ---- blocks at the end ------------------------------------------------------------------- */

typedef struct place {
    uint64_t address, bytes;
    uint32_t storage;
} place;

typedef MR_VEC(place) places;

static int by_address(const void *a, const void *b)
{
    const place *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

static places places_of(mr_ctx *ctx, const mr_pieces *pieces, const mr_segment *segments)
{
    places out = {0};
    for (uint32_t i = 0; i < pieces->n; i++) {
        const mr_piece *p = &pieces->at[i];
        MR_PUSH(ctx, &out,
                (place){segments[p->segment].address + p->offset, p->bytes, p->storage});
    }
    if (out.n) qsort(out.at, out.n, sizeof *out.at, by_address);
    return out;
}

static void put_place(const check *c, const char *who, const place *p)
{
    if (!p) {
        mr_sink_print(c->sink, "  %-10s no further block\n", who);
        return;
    }
    mr_sink_print(c->sink, "  %-10s 0x%" PRIx64 "  %" PRIu64 " bytes, %s\n", who, p->address,
                  p->bytes, p->storage == MR_NONE ? "free" : "in use");
}

static bool compare_blocks(const check *c)
{
    mr_pieces left;
    mr_pieces_after(c->ctx, c->placement, c->placement->cmds.n, &left);
    const places recorded = places_of(c->ctx, &c->history->end, c->history->segments.at);
    const places predicted = places_of(c->ctx, &left, c->placement->segments.at);
    for (uint32_t i = 0; i < recorded.n || i < predicted.n; i++) {
        const place *r = i < recorded.n ? &recorded.at[i] : NULL;
        const place *p = i < predicted.n ? &predicted.at[i] : NULL;
        if (r && p && r->address == p->address && r->bytes == p->bytes
            && r->storage == p->storage)
            continue;
        if (!c->sink) return false;
        mr_sink_print(c->sink,
                      "device %" PRIu32 ": every step agrees, but the blocks that are left "
                      "do not\n",
                      c->history->device);
        put_place(c, "recorded", r);
        put_place(c, "predicted", p);
        return false;
    }
    return true;
}

/* ---- one device -------------------------------------------------------------------------- */

static uint32_t count(const mr_history *h, mr_cmd_kind first, mr_cmd_kind last)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < h->cmds.n; i++) {
        const mr_cmd *cmd = &h->cmds.at[i];
        n += is_deed(cmd, h->segments.at) && cmd->kind >= first && cmd->kind <= last;
    }
    return n;
}

static void put_exact(const check *c)
{
    const mr_history *h = c->history;
    mr_sink_print(
        c->sink, "device %" PRIu32 ": exact: %s, %s, %s\n", h->device,
        mr_show_count(c->ctx, count(h, MR_BIND, MR_BIND), "allocation", "allocations"),
        mr_show_count(c->ctx, count(h, MR_UNBIND, MR_UNBIND), "free", "frees"),
        mr_show_count(c->ctx, count(h, MR_RESERVE, MR_UNMAP), "segment operation",
                      "segment operations"));
}

/* What succeeded and what failed leave a range for the capacity; its lower end is taken. */
static uint64_t choose_capacity(const mr_args *args, const mr_history *h)
{
    if (args->capacity) return args->capacity;
    return h->capacity_high == UINT64_MAX ? UINT64_MAX : h->capacity_low;
}

static void put_capacity(mr_ctx *ctx, const mr_args *args, const mr_history *h, mr_sink *sink)
{
    if (args->capacity) return;
    mr_sink_print(sink, "device %" PRIu32 ": ", h->device);
    if (h->capacity_high == UINT64_MAX)
        mr_sink_print(sink, "capacity not limited, as no request for memory failed\n");
    else
        mr_sink_print(sink,
                      "capacity %" PRIu64 " bytes (%s), inferred: what was recorded takes at "
                      "least that and less than %" PRIu64 "\n",
                      h->capacity_low, mr_show_bytes(ctx, h->capacity_low), h->capacity_high);
}

static bool is_in_range(const mr_history *h, uint64_t capacity)
{
    return capacity == UINT64_MAX
           || (capacity >= h->capacity_low && capacity < h->capacity_high);
}

static void put_out_of_range(const mr_history *h, uint64_t capacity, mr_sink *sink)
{
    mr_sink_print(sink,
                  "device %" PRIu32 ": different: with %" PRIu64 " bytes it cannot have gone "
                  "as recorded, which takes at least %" PRIu64,
                  h->device, capacity, h->capacity_low);
    if (h->capacity_high != UINT64_MAX)
        mr_sink_print(sink, " and less than %" PRIu64, h->capacity_high);
    mr_sink_print(sink, "\n");
}

static mr_status check_device(mr_ctx *ctx, const mr_args *args, const mr_scene *scene,
                              const mr_spec *spec, uint32_t device, mr_sink *sink, bool *exact)
{
    const mr_history *history = mr_trace_history(&scene->trace, device);
    if (!history)
        return mr_fail(ctx, MR_EUNSUPPORTED,
                       "'%s' does not say what the allocator of device %" PRIu32 " did",
                       scene->trace.name, device);
    mr_question question = mr_scene_question(scene, spec, device);
    question.as_recorded = question.go_on = true;
    question.capacity = choose_capacity(args, history);
    if (sink) put_capacity(ctx, args, history, sink);
    *exact = is_in_range(history, question.capacity);
    if (!*exact && sink) put_out_of_range(history, question.capacity, sink);
    if (!*exact) return MR_OK;
    mr_answer answer;
    MR_TRY(mr_scene_evaluate(ctx, &question, &answer));
    const check c = {ctx, &scene->trace, history, &answer.placement, sink};
    *exact = compare_commands(&c) && compare_blocks(&c);
    if (*exact && sink) put_exact(&c);
    return MR_OK;
}

/* ---- the release ------------------------------------------------------------------------- */

/* All devices, without a word and without leaving anything behind. */
static bool agrees(const mr_args *args, const mr_scene *scene, const mr_spec *spec)
{
    bool exact = true;
    for (uint32_t i = 0; i < scene->cuda_device_count && exact; i++) {
        mr_ctx ctx = {0};
        const mr_status status =
            check_device(&ctx, args, scene, spec, scene->cuda_devices[i], NULL, &exact);
        exact &= status == MR_OK;
        mr_ctx_clear(&ctx);
    }
    return exact;
}

/* A snapshot does not say which release made it, only between which it lies: the newest of
 * those that agree is taken, or the newest of all when none does. */
static mr_status find_release(mr_ctx *ctx, const mr_args *args, const mr_scene *scene,
                              mr_spec *out)
{
    unsigned oldest, newest;
    const char *conf = mr_scene_conf_spec(ctx, &scene->trace);
    if (!mr_scene_releases(&scene->trace, &oldest, &newest))
        return mr_scene_spec(ctx, conf, out);
    for (unsigned minor = newest; oldest < newest && minor + 1 > oldest; minor--) {
        MR_TRY(mr_scene_spec(ctx, mr_scene_with_release(ctx, conf, minor), out));
        if (agrees(args, scene, out)) return MR_OK;
    }
    return mr_scene_spec(ctx, mr_scene_with_release(ctx, conf, newest), out);
}

/* ---- the command ------------------------------------------------------------------------- */

static mr_status needs_history(mr_ctx *ctx, const mr_trace *trace)
{
    if (trace->histories.n) return MR_OK;
    return mr_fail(ctx, MR_EUNSUPPORTED,
                   "'%s' does not say what the allocator did, so there is nothing to check "
                   "against; PyTorch records it: torch.cuda.memory._record_memory_history() "
                   "before the steps, torch.cuda.memory._dump_snapshot(\"step.pickle\") after "
                   "them",
                   trace->name);
}

static mr_status choose_spec(mr_ctx *ctx, const mr_args *args, const mr_scene *scene,
                             mr_spec *out)
{
    if (args->words.n < 2) return find_release(ctx, args, scene, out);
    MR_TRY(mr_scene_spec(ctx, args->words.at[1], out));
    if (!out->rewrites.n) return MR_OK;
    return mr_fail(ctx, MR_EUSAGE,
                   "'%s' changes the step, which cannot agree with what was recorded: check "
                   "takes a placement alone",
                   out->text);
}

static void put_title(const mr_args *args, const mr_scene *scene, const mr_spec *spec,
                      mr_sink *sink)
{
    const char *version = scene->trace.about[MR_ABOUT_framework_version];
    mr_sink_print(sink, "%s against %s", spec->text, scene->trace.name);
    if (args->words.n < 2 && version) mr_sink_print(sink, ", made by PyTorch %s", version);
    mr_sink_print(sink, "\n");
}

static mr_status run(mr_ctx *ctx, const mr_args *args, int *answer)
{
    mr_scene scene;
    mr_spec spec;
    mr_sink *sink;
    MR_TRY(mr_scene_read(ctx, args, &scene));
    MR_TRY(needs_history(ctx, &scene.trace));
    MR_TRY(choose_spec(ctx, args, &scene, &spec));
    MR_TRY(mr_sink_open(ctx, "-", &sink));
    put_title(args, &scene, &spec, sink);
    for (uint32_t i = 0; i < scene.cuda_device_count; i++) {
        bool exact = false;
        const mr_status status =
            check_device(ctx, args, &scene, &spec, scene.cuda_devices[i], sink, &exact);
        if (!exact) *answer = 1;
        if (status == MR_OK) continue;
        MR_TRY(mr_sink_commit(sink)); /* what was found so far stands before the sentence */
        return status;
    }
    return mr_sink_commit(sink);
}

static const mr_option options[] = {
    MR_OPTION_CAPACITY,
    MR_OPTION_CUDA_DEVICE,
    MR_OPTIONS_READING,
    {0},
};

const mr_command mr_command_check = {
    .name = "check",
    .usage = "FILE [SPEC]",
    .summary = "holds the prediction against what the recorded allocator really did",
    .more =
        "Says for each device `exact` or the first difference: every allocation with its "
        "address,\n"
        "every free, every segment taken or given back with its size, in order, and the "
        "blocks\n"
        "that are left at the end.  SPEC is pytorch with the recorded settings unless given.\n"
        "Without --capacity the device's is inferred from which requests were served.\n"
        "Exit: 0 exact, 1 different.",
    .options = options,
    .words_min = 1,
    .words_max = 2,
    .run = run,
};

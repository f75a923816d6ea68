/* check -- holds a predicted placement against what the recorded allocator really did.
 *
 * Truth and prediction are both lists of commands, so the check is a comparison in step; then
 * the blocks that are left must be the same.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agree.h"
#include "commands.h"
#include "report.h"

typedef struct check {
    mr_ctx *ctx;
    const mr_trace *trace;
    const mr_history *history;
    const mr_placement *placement;
    mr_sink *sink; /* NULL: nothing is said */
    /* How often the recording was read in another way (agree.h). */
    uint32_t put_off, flushes, no_flushes, pools;
    uint32_t asked;        /* times that the program is taken to have given memory back */
    bool flushes_open;     /* the capacity leaves it open who gave memory back */
} check;

/* ---- saying what differs ----------------------------------------------------------------- */

static const char *kind_name(mr_cmd_kind kind)
{
    static const char *const names[] = {[MR_RESERVE] = "segment_alloc",
                                        [MR_RELEASE] = "segment_free",
                                        [MR_MAP] = "segment_map",
                                        [MR_UNMAP] = "segment_unmap",
                                        [MR_BIND] = "alloc",
                                        [MR_UNBIND] = "free_completed",
                                        [MR_EXEC] = "op",
                                        [MR_REFUSE] = "oom"};
    return names[kind];
}

static void put_deed(const check *c, const char *who, const mr_deed *d, mr_makers *makers)
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

static void put_parting(const check *c, const mr_parting *parting)
{
    mr_makers *makers = mr_makers_new(c->ctx, c->trace);
    mr_sink_print(c->sink,
                  "device %" PRIu32 ": different at event %" PRIu32 " of %" PRIu32
                  ", after %" PRIu32 " steps that agree\n",
                  c->history->device, parting->event, c->trace->events.n, parting->agreed);
    put_deed(c, "recorded", parting->recorded, makers);
    put_deed(c, "predicted", parting->predicted, makers);
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

static const char *count(const check *c, mr_cmd_kind first, mr_cmd_kind last, const char *one,
                         const char *many)
{
    return mr_show_count(c->ctx, mr_count_deeds(c->history, first, last), one, many);
}

/* What the recording leaves open, and how it was taken. */
static void put_reading(const check *c, uint32_t n, const char *one, const char *many)
{
    if (n)
        mr_sink_print(c->sink,
                      "device %" PRIu32 ": taken so, as the recording does not say: %s\n",
                      c->history->device, mr_show_count(c->ctx, n, one, many));
}

static void put_readings(const check *c)
{
    put_reading(c, c->put_off, "free completed while the allocator waited for the device",
                "frees completed while the allocator waited for the device");
    put_reading(c, c->flushes, "time the program gave memory back (empty_cache)",
                "times the program gave memory back (empty_cache)");
    put_reading(c, c->no_flushes, "time the allocator gave memory back to serve a request",
                "times the allocator gave memory back to serve a request");
    put_reading(c, c->pools, "request was for a private pool that is gone at the end",
                "requests were for private pools that are gone at the end");
}

/* A collection gives segments back, as empty_cache does: only one that the prediction makes as
 * well is known to be one. */
static void put_collections(const check *c)
{
    const char *settings = c->trace->about[MR_ABOUT_allocator];
    if (!c->asked || !settings || !strstr(settings, "garbage_collection_threshold")) return;
    mr_sink_print(c->sink,
                  "device %" PRIu32 ": garbage_collection_threshold is set, so a collection "
                  "would look the same as what is taken for empty_cache, %s\n",
                  c->history->device, mr_show_count(c->ctx, c->asked, "time", "times"));
}

static void put_exact(const check *c)
{
    const mr_history *h = c->history;
    mr_sink_print(c->sink, "device %" PRIu32 ": exact: %s, %s, %s\n", h->device,
                  count(c, MR_BIND, MR_BIND, "allocation", "allocations"),
                  count(c, MR_UNBIND, MR_UNBIND, "free", "frees"),
                  count(c, MR_RESERVE, MR_UNMAP, "segment operation", "segment operations"));
    put_readings(c);
    put_collections(c);
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

static uint64_t largest_page(const mr_history *h)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < h->segments.n; i++)
        if (h->segments.at[i].page > most) most = h->segments.at[i].page;
    return most;
}

/* A limit of the allocator's own, such as a memory fraction, works like a smaller device; but
 * the last page that is mapped may reach past it. */
static bool is_limit_in_range(const mr_history *h, uint64_t limit)
{
    return limit && h->capacity_low <= limit + largest_page(h) && limit < h->capacity_high;
}

static void put_out_of_range(const mr_history *h, mr_sink *sink)
{
    mr_sink_print(sink,
                  "device %" PRIu32 ": as recorded it takes a capacity of at least %" PRIu64,
                  h->device, h->capacity_low);
    if (h->capacity_high != UINT64_MAX)
        mr_sink_print(sink, " and less than %" PRIu64, h->capacity_high);
    mr_sink_print(sink, " bytes\n");
}

/* Predicts, and finds where the prediction parts from the recording. */
static mr_status predict(mr_ctx *ctx, const mr_question *question, const mr_history *history,
                         mr_answer *answer, mr_parting *parting)
{
    MR_TRY(mr_scene_evaluate(ctx, question, answer));
    mr_agree(ctx, history, &answer->placement, parting);
    return MR_OK;
}

/* Reads the recording in another way where the two part, the first that lets the prediction go
 * further.  *better stays false when none does. */
static mr_status read_again(check *c, mr_question *question, mr_parting *parting, bool *better)
{
    const mr_parting before = *parting;
    mr_trace *other = MR_NEW(c->ctx, mr_trace);
    mr_reading reading;
    for (uint32_t k = 0;; k++) {
        mr_ctx scratch = {0};
        mr_answer answer;
        if (!mr_reread(c->ctx, question->trace, before.event, k, other, &reading)) break;
        if ((reading.flush || reading.no_flush) && !c->flushes_open) continue;
        mr_question again = *question;
        again.trace = other;
        const mr_status status = predict(&scratch, &again, c->history, &answer, parting);
        mr_ctx_clear(&scratch);
        if (status) return mr_fail(c->ctx, status, "%s", scratch.failure.text);
        if (parting->parted && parting->agreed <= before.agreed) continue;
        question->trace = other;
        c->put_off += reading.put_off;
        c->flushes += reading.flush;
        c->no_flushes += reading.no_flush;
        c->pools += reading.pool;
        *better = true;
        return MR_OK;
    }
    *parting = before;
    return MR_OK;
}

static uint32_t count_flushes(const mr_trace *trace, uint32_t device)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < trace->events.n; i++)
        n += trace->events.at[i].kind == MR_FLUSH && trace->events.at[i].id == device;
    return n;
}

static mr_status check_placement(check *c, mr_question *question, bool *exact)
{
    mr_answer answer;
    mr_parting parting;
    MR_TRY(predict(c->ctx, question, c->history, &answer, &parting));
    c->flushes_open = is_in_range(c->history, question->capacity)
                      || is_limit_in_range(c->history, answer.placement.limit);
    for (bool better = parting.parted; better && parting.parted;) {
        better = false;
        MR_TRY(read_again(c, question, &parting, &better));
        if (better) MR_TRY(predict(c->ctx, question, c->history, &answer, &parting));
    }
    c->placement = &answer.placement;
    c->asked = count_flushes(question->trace, c->history->device);
    if (parting.parted && c->sink) put_parting(c, &parting);
    *exact = !parting.parted && compare_blocks(c);
    if (*exact && c->sink) put_exact(c);
    return MR_OK;
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
    mr_device device_then = scene->device;
    const uint64_t memory = mr_recorded_memory(ctx, history);
    if (memory && scene->device_assumed && !args->capacity) device_then.memory = memory;
    question.device = &device_then;
    question.as_recorded = question.go_on = true;
    question.capacity = choose_capacity(args, history);
    if (sink) put_capacity(ctx, args, history, sink);
    check c = {.ctx = ctx,
               .trace = &scene->trace,
               .history = history,
               .sink = sink};
    MR_TRY(check_placement(&c, &question, exact));
    if (!*exact && sink && !c.flushes_open) put_out_of_range(history, sink);
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

static void put_title(mr_ctx *ctx, const mr_args *args, const mr_scene *scene,
                      const mr_spec *spec, mr_sink *sink)
{
    const char *version = scene->trace.about[MR_ABOUT_framework_version];
    mr_sink_print(sink, "%s against %s", spec->text,
                  mr_show_name(ctx, scene->trace.name));
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
    put_title(ctx, args, &scene, &spec, sink);
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

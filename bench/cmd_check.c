/* check -- holds a predicted placement against what the recorded allocator really did.
 *
 * Truth and prediction are both lists of commands, so the check is a comparison in step; then
 * the blocks that are left must be the same.
 */
#include <inttypes.h>

#include "check.h"

/* ---- one device -------------------------------------------------------------------------- */
/* What succeeded and what failed leave a range for the capacity; its lower end is taken. */
static uint64_t choose_capacity(const mr_args *args, const mr_history *h)
{
    if (args->capacity) return args->capacity;
    return h->capacity_high == UINT64_MAX ? UINT64_MAX : h->capacity_low;
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
static mr_status read_again(mr_check *c, mr_question *question, mr_parting *parting,
                            bool *better)
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

/* How often memory went back, whatever the number of segments: because the program asked for
 * it, because a request could not be served, or else in a collection. */
static void count_returns(mr_check *c, const mr_trace *trace)
{
    uint64_t n = 0;
    bool returning = false;
    for (uint32_t i = 0; i < c->history->cmds.n; i++) {
        const mr_cmd_kind kind = c->history->cmds.at[i].kind;
        n += !returning && (kind == MR_RELEASE || kind == MR_UNMAP);
        returning = kind == MR_RELEASE || kind == MR_UNMAP;
    }
    c->asked = count_flushes(trace, c->history->device);
    const uint64_t others = c->asked + c->placement->retries;
    c->collected = n > others ? (uint32_t)(n - others) : 0;
}

static mr_status check_placement(mr_check *c, mr_question *question, bool *exact)
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
    count_returns(c, question->trace);
    if (parting.parted) mr_report_parting(c, &parting);
    *exact = !parting.parted && mr_blocks_agree(c);
    if (*exact) mr_report_exact(c);
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
    mr_check c = {
        .ctx = ctx, .trace = &scene->trace, .spec = spec, .history = history, .sink = sink};
    mr_report_capacity(&c, args);
    MR_TRY(check_placement(&c, &question, exact));
    if (!*exact && !c.flushes_open) mr_report_out_of_range(&c);
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
    MR_TRY(mr_scene_spec_asked(ctx, args->words.at[1], out));
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
    mr_sink_print(sink, "%s against %s", spec->text, mr_show_name(ctx, scene->trace.name));
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
    MR_TRY(mr_report_open(ctx, "-", &sink));
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

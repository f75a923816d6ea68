/* advise -- which settings to switch on. */
#include <string.h>

#include "advise.h"

static mr_status advise(mr_ctx *ctx, const mr_args *args, const mr_scene *scene,
                        uint32_t cuda_device, mr_sink *sink, int *answer)
{
    mr_advice advice = {.scene = scene, .args = args, .cuda_device = cuda_device};
    MR_TRY(mr_advise(ctx, &advice));
    mr_largest_batches(ctx, &advice);
    mr_report_advice(ctx, &advice, args->format, sink);
    if (!advice.n) *answer = 1;
    return MR_OK;
}

static mr_status run(mr_ctx *ctx, const mr_args *args, int *answer)
{
    mr_scene scene;
    mr_sink *sink;
    MR_TRY(mr_output_check(ctx, args->words.at[0], args->output));
    MR_TRY(mr_scene_read(ctx, args, &scene));
    mr_scene_repeat(args, &scene);
    if (strcmp(args->format, "table") != 0 && scene.cuda_device_count > 1)
        return mr_fail(ctx, MR_EUSAGE,
                       "'%s' has %s, expected --cuda-device with --format %s: a table each",
                       scene.trace.name,
                       mr_show_count(ctx, scene.cuda_device_count, "device", "devices"),
                       args->format);
    MR_TRY(mr_sink_open(ctx, args->output ? args->output : "-", &sink));
    if (strcmp(args->format, "table") == 0) mr_sink_for_people(sink);
    for (uint32_t i = 0; i < scene.cuda_device_count; i++) {
        if (i) mr_sink_print(sink, "\n");
        MR_TRY(advise(ctx, args, &scene, scene.cuda_devices[i], sink, answer));
    }
    return mr_sink_commit(sink);
}

static const mr_option options[] = {
    MR_OPTION("without", 0, TEXTS, without, 0, 0, "SETTING",
              "do not try this, such as amp, or accumulate:8; may be repeated"),
    MR_OPTION("with", 0, TEXTS, with, 0, 0, "SETTING",
              "try this as well, such as half or optimizer:adam8bit; may be repeated"),
    MR_OPTIONS_REPLAY,
    MR_OPTION_TF32,
    MR_OPTION("format", 'f', CHOICE, format, 0, 0, "table|csv|json", "how to print (table)"),
    MR_OPTION_OUTPUT,
    MR_OPTION_JOBS,
    MR_OPTIONS_READING,
    {0},
};

const mr_command mr_command_advise = {
    .name = "advise",
    .usage = "FILE",
    .summary = "says what to switch on: tries settings in all combinations",
    .more =
        "Fused attention, mixed precision, accumulation, in-place activations, checkpointing,\n"
        "offloading, gradients let go early: each is tried alone, and those that change "
        "something\n"
        "of this recording in all combinations, with options of PyTorch's allocator.  Shown "
        "are\n"
        "those that none beats in both memory and time; with --device or --capacity only what "
        "fits,\n"
        "and how large a batch fits then.  Exits with 1 when nothing does.",
    .options = options,
    .words_min = 1,
    .words_max = 1,
    .run = run,
};

/* calibrate -- measures a GPU of this machine and prints its row for devices.csv. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "report.h"

/* "NVIDIA H100 80GB HBM3" becomes "nvidia-h100-80gb-hbm3". */
static const char *short_name(mr_ctx *ctx, const char *text)
{
    char *out = mr_strdup(ctx, text);
    for (char *c = out; *c; c++) {
        if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
        else if (!((*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9'))) *c = '-';
    }
    return out;
}

static void print_field(mr_sink *sink, uint64_t value)
{
    if (value) mr_sink_print(sink, ",%" PRIu64, value);
    else mr_sink_print(sink, ",");
}

static void print_row(mr_ctx *ctx, const mr_device *d, mr_sink *sink)
{
    mr_sink_print(sink, "name,description");
#define X(field) mr_sink_print(sink, "," #field);
    MR_DEVICE_FIELDS(X)
#undef X
    mr_sink_print(sink, ",source\n");
    mr_write_csv_field(sink, short_name(ctx, d->description));
    mr_sink_print(sink, ",");
    mr_write_csv_field(sink, d->description);
#define X(field) print_field(sink, d->field);
    MR_DEVICE_FIELDS(X)
#undef X
    mr_sink_print(sink, ",measured by memreuse calibrate\n");
}

/* What this program cannot measure is taken from the row named by --device. */
static mr_status run(mr_ctx *ctx, const mr_args *args, int *answer)
{
    (void)answer;
    mr_device device = {0};
    mr_sink *sink;
    const mr_manner manner = {.compute = MR_COMPUTE_TOUCH, .gpu = (uint32_t)args->gpu};
    if (args->device) MR_TRY(mr_device_find(ctx, args->device, &device));
    mr_signals_hold();
    const mr_status status = mr_cuda_calibrate(ctx, &manner, &device);
    mr_signals_let();
    MR_TRY(status);
    MR_TRY(mr_sink_open(ctx, args->output ? args->output : "-", &sink));
    print_row(ctx, &device, sink);
    return mr_sink_commit(sink);
}

static const mr_option options[] = {
    MR_OPTION("gpu", 0, NUMBER, gpu, 0, 1023, "N", "which GPU of this machine (default 0)"),
    MR_OPTION("device", 'd', TEXT, device, 0, 0, "NAME",
              "row of devices.csv to take the rest from, such as peak rates"),
    MR_OPTION("output", 'o', TEXT, output, 0, 0, "FILE", "write there instead of printing"),
    {0},
};

const mr_command mr_command_calibrate = {
    .name = "calibrate",
    .usage = "",
    .summary = "measures a GPU of this machine and prints its row for devices.csv",
    .more = "Nothing else should run on it: the context is what is taken before anything is\n"
            "asked for.  Rates of matrix products need a cuBLAS; one that the row has stays, and\n"
            "how much of it is reached is measured.",
    .options = options,
    .words_min = 0,
    .words_max = 0,
    .run = run,
};

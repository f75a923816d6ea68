/* metrics -- the list of what is measured, and the four sums. */
#include "metrics.h"

#include <string.h>

const mr_metric mr_metric_list[] = {
#define METRIC(name, unit, better, help) {#name, help, MR_##unit, offsetof(mr_metrics, name)},
#include "metrics.def"
#undef METRIC
};

const uint32_t mr_metric_count = MR_COUNT(mr_metric_list);

uint64_t mr_metric_value(const mr_metrics *metrics, const mr_metric *metric)
{
    uint64_t value;
    memcpy(&value, (const char *)metrics + metric->offset, sizeof value);
    return value;
}

static uint64_t physical(uint64_t bytes, uint64_t granularity)
{
    return (bytes + granularity - 1) / granularity * granularity;
}

void mr_levels_step(mr_levels *levels, const mr_placement *placement, const mr_cmd *cmd,
                    uint64_t granularity)
{
    const mr_trace *trace = placement->schedule->trace;
    const uint64_t bytes = cmd->block.bytes;
    switch (cmd->kind) {
    case MR_RESERVE:
    case MR_RELEASE:
        if (placement->segments.at[cmd->block.segment].expandable) break;
        if (cmd->kind == MR_RESERVE) {
            levels->reserved += bytes;
            levels->device += physical(bytes, granularity);
        } else {
            levels->reserved -= bytes;
            levels->device -= physical(bytes, granularity);
        }
        break;
    case MR_MAP:
        levels->reserved += bytes;
        levels->device += bytes;
        break;
    case MR_UNMAP:
        levels->reserved -= bytes;
        levels->device -= bytes;
        break;
    case MR_BIND:
        levels->allocated += bytes;
        levels->requested += trace->storages.at[cmd->id].bytes;
        break;
    case MR_DEFER: levels->allocated -= bytes; break;
    case MR_UNBIND:
        levels->requested -= trace->storages.at[cmd->id].bytes;
        if (!trace->storages.at[cmd->id].deferred) levels->allocated -= bytes;
        break;
    case MR_EXEC:
    case MR_REFUSE: break;
    }
}

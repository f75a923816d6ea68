/* metrics.h -- what is measured when a placement is carried out. */
#ifndef MR_METRICS_H
#define MR_METRICS_H

#include "backend.h"

typedef enum mr_unit {
    MR_BYTES,
    MR_COUNTS,
    MR_NS,
    MR_PER_S, /* in a second; kept in thousandths */
} mr_unit;

typedef struct mr_metrics {
#define METRIC(name, unit, better, help) uint64_t name;
#include "metrics.def"
#undef METRIC
    uint32_t peak_at; /* command at which reserved memory first reaches its peak */
    uint64_t spread;  /* of measured times: the median distance from their median, ns */
    uint64_t acts[MR_ACT_N]; /* mr_times.acts of all iterations */
    mr_disturbance disturbance; /* of what was measured */
} mr_metrics;

typedef struct mr_metric { /* one line of metrics.def */
    const char *name, *help;
    mr_unit unit;
    size_t offset; /* into mr_metrics */
} mr_metric;

extern const mr_metric mr_metric_list[];
extern const uint32_t mr_metric_count;

uint64_t mr_metric_value(const mr_metrics *metrics, const mr_metric *metric);

/* The four sums after some commands; what they mean stands in metrics.def. */
typedef struct mr_levels {
    uint64_t requested, allocated, reserved;
    uint64_t device; /* reserved, each segment rounded up to whole physical pages */
} mr_levels;

/* Applies one command to the sums. */
void mr_levels_step(mr_levels *levels, const mr_placement *placement, const mr_cmd *cmd,
                    uint64_t granularity);

/* Carries the commands out on a backend, one after the other, and measures.  What was there
 * before the first event counts as memory, not as calls or time.  MR_EDEVICE when the device
 * refuses what the placement thought possible.  `manner` may be NULL. */
mr_status mr_replay(mr_ctx *ctx, const mr_placement *placement, const mr_device *device,
                    const mr_backend *backend, const mr_manner *manner, mr_metrics *out);

#endif

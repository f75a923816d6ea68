/* metrics.h -- what was measured of a placement. */
#ifndef MR_METRICS_H
#define MR_METRICS_H

#include "placement.h"

typedef enum mr_unit { MR_BYTES, MR_COUNTS, MR_NS } mr_unit;

typedef struct mr_metrics {
#define METRIC(name, unit, better, help) uint64_t name;
#include "metrics.def"
#undef METRIC
    uint32_t peak_at; /* command at which reserved memory first reaches its peak */
} mr_metrics;

typedef struct mr_metric { /* one line of metrics.def */
    const char *name, *help;
    mr_unit unit;
    size_t offset; /* into mr_metrics */
} mr_metric;

extern const mr_metric mr_metric_list[];
extern const uint32_t mr_metric_count;

uint64_t mr_metric_value(const mr_metrics *metrics, const mr_metric *metric);

void mr_metrics_measure(const mr_placement *placement, const mr_device *device,
                        mr_metrics *out);

#endif

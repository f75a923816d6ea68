/* suite_names -- what a suite has by a name, or a spec by its text. */
#include <string.h>

#include "sweep.h"

uint32_t mr_suite_trace_named(const mr_suite *suite, const char *name)
{
    for (uint32_t i = 0; i < suite->traces.n; i++)
        if (strcmp(suite->traces.at[i].name, name) == 0) return i;
    return MR_NONE;
}

uint32_t mr_suite_spec_with(const mr_suite *suite, const char *text)
{
    for (uint32_t i = 0; i < suite->specs.n; i++)
        if (strcmp(suite->specs.at[i].spec.text, text) == 0) return i;
    return MR_NONE;
}

uint32_t mr_suite_spec_named(mr_ctx *ctx, const mr_suite *suite, const char *name)
{
    mr_spec spec;
    for (uint32_t i = 0; i < suite->specs.n; i++)
        if (suite->specs.at[i].name && strcmp(suite->specs.at[i].name, name) == 0) return i;
    return mr_scene_spec(ctx, name, &spec) == MR_OK ? mr_suite_spec_with(suite, spec.text)
                                                    : MR_NONE;
}

const mr_group *mr_suite_group_named(const mr_suite *suite, const char *name)
{
    for (uint32_t i = 0; i < suite->groups.n; i++)
        if (strcmp(suite->groups.at[i].name, name) == 0) return &suite->groups.at[i];
    return NULL;
}

uint32_t mr_suite_device_named(const mr_suite *suite, const char *name)
{
    for (uint32_t i = 0; i < suite->devices.n; i++)
        if (strcmp(suite->devices.at[i].device.name, name) == 0) return i;
    return MR_NONE;
}

/* trace -- names of what a trace is made of; making, copying and asking one. */
#include "trace.h"

#include <string.h>

#define NAME_OF(name, text) #name,
#define TEXT_OF(name, text) text,

const char *mr_about_name(mr_about field)
{
    static const char *const names[] = {MR_ABOUT_LIST(NAME_OF)};
    return names[field];
}

const char *mr_about_meaning(mr_about field)
{
    static const char *const texts[] = {MR_ABOUT_LIST(TEXT_OF)};
    return texts[field];
}

const char *mr_role_name(mr_role role)
{
    static const char *const names[] = {MR_ROLE_LIST(NAME_OF)};
    return names[role];
}

const char *mr_role_plural(mr_role role)
{
    static const char *const texts[] = {MR_ROLE_LIST(TEXT_OF)};
    return texts[role];
}

const char *mr_phase_name(mr_phase phase)
{
    static const char *const names[] = {"other", "forward", "backward", "update"};
    return names[phase];
}

const char *mr_saved_name(mr_saved_as as)
{
    static const char *const names[] = {"input", "output", "mask"};
    return names[as];
}

const char *mr_engine_name(mr_engine engine)
{
    static const char *const names[] = {
#define X(name) #name,
        MR_ENGINE_LIST(X)
#undef X
    };
    return names[engine];
}

const char *mr_mark_kind_name(mr_mark_kind kind)
{
    static const char *const names[] = {"step-begin", "step-end",     "phase-begin",
                                        "phase-end",  "region-begin", "region-end",
                                        "note"};
    return names[kind];
}

void mr_trace_init(mr_ctx *ctx, mr_trace *trace, const char *name)
{
    *trace = (mr_trace){.name = mr_strdup(ctx, name)};
    MR_PUSH(ctx, &trace->streams, 0);
    MR_PUSH(ctx, &trace->pools, 0);
}

static void *copied(mr_ctx *ctx, const void *at, uint32_t n, size_t size)
{
    if (!n) return NULL;
    return memcpy(mr_alloc_n(ctx, n, size), at, n * size);
}

#define COPY(vec)                                                                     \
    (out->vec.at = copied(ctx, in->vec.at, in->vec.n, sizeof *in->vec.at),            \
     out->vec.cap = out->vec.n = in->vec.n)

void mr_trace_copy(mr_ctx *ctx, const mr_trace *in, mr_trace *out)
{
    *out = *in;
    COPY(notes);
    COPY(streams);
    COPY(storages);
    COPY(tensors);
    COPY(ops);
    COPY(events);
    COPY(times);
    COPY(marks);
    COPY(frames);
    COPY(stacks);
    COPY(pools);
    COPY(histories);
    COPY(stand_ins);
    COPY(shared);
    COPY(copies);
    COPY(remarks);
}

uint64_t mr_tensor_numbers(const mr_tensor *tensor)
{
    uint64_t n = 1;
    for (uint32_t d = 0; d < tensor->rank; d++) n *= tensor->shape[d];
    return n;
}

uint64_t mr_dtype_bytes(const char *dtype)
{
    static const struct {
        const char *begins;
        uint64_t bytes;
    } list[] = {{"complex128", 16}, {"float64", 8}, {"int64", 8},    {"uint64", 8},
                {"complex64", 8},   {"float32", 4}, {"int32", 4},    {"uint32", 4},
                {"float16", 2},     {"int16", 2},   {"bfloat16", 2}, {"uint16", 2},
                {"bool", 1},        {"int8", 1},    {"uint8", 1},    {"float8", 1}};
    for (size_t i = 0; i < MR_COUNT(list); i++)
        if (!strncmp(dtype, list[i].begins, strlen(list[i].begins))) return list[i].bytes;
    return 0;
}

uint64_t mr_tensor_touched(const mr_tensor *tensor)
{
    const uint64_t width = mr_dtype_bytes(tensor->dtype);
    const uint64_t numbers = mr_tensor_numbers(tensor);
    return width && numbers * width < tensor->bytes ? numbers * width : tensor->bytes;
}

const mr_history *mr_trace_history(const mr_trace *trace, uint32_t device)
{
    for (uint32_t h = 0; h < trace->histories.n; h++)
        if (trace->histories.at[h].device == device) return &trace->histories.at[h];
    return NULL;
}

bool mr_trace_knows_lives(const mr_trace *trace)
{
    for (uint32_t e = 0; e < trace->events.n; e++)
        if (trace->events.at[e].kind <= MR_DONE) return true;
    return trace->ops.n == 0;
}

bool mr_is_host(uint32_t device)
{
    return device == MR_PINNED || device == MR_PAGEABLE;
}

const uint32_t *mr_trace_devices(mr_ctx *ctx, const mr_trace *trace, uint32_t *n)
{
    bool *seen = MR_NEW_N(ctx, bool, UINT16_MAX + 1);
    for (uint32_t s = 0; s < trace->storages.n; s++) seen[trace->storages.at[s].device] = true;
    uint32_t count = 0;
    seen[MR_PINNED] = seen[MR_PAGEABLE] = false;
    for (uint32_t d = 0; d <= UINT16_MAX; d++) count += seen[d];
    uint32_t *devices = MR_NEW_N(ctx, uint32_t, count);
    *n = 0;
    for (uint32_t d = 0; d <= UINT16_MAX; d++)
        if (seen[d]) devices[(*n)++] = d;
    return devices;
}

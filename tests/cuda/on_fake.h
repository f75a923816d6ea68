/* on_fake.h -- recordings carried out on the driver that holds host memory,
 * beside the model. */
#ifndef ON_FAKE_H
#define ON_FAKE_H

#include "evaluate.h"
#include "fake_cuda.h"
#include "format.h"
#include "strategies.h"
#include "test.h"

#define CONTEXT (400 * MR_MIB)

static const mr_device device = {.name = "fake",
                                 .memory = 80 * MR_GIB,
                                 .context = CONTEXT,
                                 .granularity = 2 * MR_MIB,
                                 .bandwidth = 1000000000000,
                                 .fp32 = 10000000000000,
                                 .link = 10000000000};

/* What the driver is given in place of machine code; it knows the kernels by name. */
static const char kernels[] = "of the stand-in";

static const mr_manner checked = {
    .compute = MR_COMPUTE_TOUCH, .verify = true, .kernels = kernels};

typedef struct outcome {
    mr_status status;
    char text[512];
    mr_metrics metrics;
    uint64_t calls;
    uint32_t leaks;
    char violation[512];
} outcome;

/* A placement, and what the model says of it. */
typedef struct prediction {
    mr_ctx ctx;
    mr_trace trace;
    mr_spec spec;
    mr_answer answer;
} prediction;

/* On the recording's n-th device.  False when there is none, or the recording lacks what the
 * spec needs, or the spec a parameter. */
static inline bool predict_on(prediction *p, const char *path, uint32_t n, const char *spec,
                              uint32_t iterations)
{
    const mr_read_options options = {0};
    uint32_t devices;
    memset(p, 0, sizeof *p);
    if (mr_recording_read(&p->ctx, path, &options, &p->trace)
        || mr_spec_parse(&p->ctx, mr_strategies, spec, &p->spec))
        return false;
    const uint32_t *list = mr_trace_devices(&p->ctx, &p->trace, &devices);
    if (n >= devices) return false;
    const mr_question question = {
        .trace = &p->trace,
        .spec = &p->spec,
        .device = &device,
        .backend = &mr_backend_model,
        .capacity = UINT64_MAX,
        .cuda_device = list[n],
        .iterations = iterations};
    return mr_evaluate(&p->ctx, &question, &p->answer) == MR_OK;
}

static inline bool predict(prediction *p, const char *path, const char *spec,
                           uint32_t iterations)
{
    return predict_on(p, path, 0, spec, iterations);
}

static inline outcome carried_out(const prediction *p, const mr_manner *manner)
{
    mr_ctx ctx = {0};
    outcome out = {0};
    out.status = mr_replay(&ctx, &p->answer.placement, &device, &mr_backend_cuda, manner,
                           &out.metrics);
    snprintf(out.text, sizeof out.text, "%s", ctx.failure.text);
    out.calls = fake_cuda_calls();
    out.leaks = fake_cuda_leaks();
    snprintf(out.violation, sizeof out.violation, "%s", fake_cuda_violation());
    fake_cuda_settings()->fail = 0;
    mr_ctx_clear(&ctx);
    return out;
}

static inline outcome on_fake(const char *path, const char *spec, uint32_t iterations,
                              const mr_manner *manner, uint64_t fail)
{
    prediction p;
    outcome out = {0};
    if (predict(&p, path, spec, iterations)) {
        fake_cuda_reset();
        fake_cuda_settings()->fail = fail;
        out = carried_out(&p, manner);
    } else {
        TEST_FAIL("%s under %s: %s", path, spec, p.ctx.failure.text);
    }
    mr_ctx_clear(&p.ctx);
    return out;
}

static inline bool is_clean(const outcome *out, const char *path, const char *spec)
{
    if (!out->leaks && !*out->violation) return true;
    TEST_FAIL("%s under %s: %u not given back, '%s' (%s)", path, spec, out->leaks,
              out->violation, out->text);
    return false;
}

/* The same peak as the model's, to the byte, and every byte where it belongs. */
static inline bool agrees_on(const char *path, uint32_t n, const char *spec,
                             uint32_t iterations, const mr_manner *manner)
{
    prediction p;
    const bool asked = predict_on(&p, path, n, spec, iterations);
    if (asked) {
        fake_cuda_reset();
        const outcome out = carried_out(&p, manner);
        is_clean(&out, path, spec);
        if (out.status) TEST_FAIL("%s under %s: %s", path, spec, out.text);
        else if (out.metrics.peak_device != p.answer.metrics.peak_device)
            TEST_FAIL("%s under %s: the peak is %llu, expected %llu", path, spec,
                      (unsigned long long)out.metrics.peak_device,
                      (unsigned long long)p.answer.metrics.peak_device);
    }
    mr_ctx_clear(&p.ctx);
    return asked;
}

static inline bool agrees(const char *path, const char *spec, uint32_t iterations,
                          const mr_manner *manner)
{
    return agrees_on(path, 0, spec, iterations, manner);
}

/* ---- steps written by hand --------------------------------------------------------------- */

static inline mr_ids ids(mr_ctx *ctx, uint32_t n, uint32_t a, uint32_t b)
{
    uint32_t *at = MR_NEW_N(ctx, uint32_t, 2);
    at[0] = a;
    at[1] = b;
    return (mr_ids){at, n};
}

static inline mr_op op(const char *name, mr_engine engine, mr_ids in, mr_ids out)
{
    return (mr_op){.name = name,
                   .module = "",
                   .engine = (uint8_t)engine,
                   .again = MR_NONE,
                   .of = MR_NONE,
                   .in = in,
                   .out = out};
}

static inline void add_storage(mr_ctx *ctx, mr_trace *t, uint64_t bytes, bool on_host)
{
    uint64_t *shape = MR_NEW(ctx, uint64_t);
    *shape = bytes;
    MR_PUSH(ctx, &t->storages,
            (mr_storage){.bytes = bytes, .stack = MR_NONE, .device = on_host});
    MR_PUSH(ctx, &t->tensors,
            (mr_tensor){.name = "", .dtype = "int8", .storage = t->storages.n - 1, .rank = 1,
                        .shape = shape, .bytes = bytes});
}

#endif

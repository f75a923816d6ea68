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

static inline mr_status evaluate(mr_ctx *ctx, const char *path, const char *spec,
                                 uint32_t iterations, const mr_backend *backend,
                                 const mr_manner *manner, mr_metrics *out)
{
    const mr_read_options options = {0};
    mr_trace trace;
    mr_spec parsed;
    MR_TRY(mr_recording_read(ctx, path, &options, &trace));
    MR_TRY(mr_spec_parse(ctx, mr_strategies, spec, &parsed));
    const mr_question question = {.trace = &trace,
                                  .spec = &parsed,
                                  .device = &device,
                                  .backend = backend,
                                  .manner = manner,
                                  .capacity = UINT64_MAX,
                                  .cuda_device = *mr_trace_devices(ctx, &trace, &(uint32_t){0}),
                                  .iterations = iterations};
    mr_answer *answer = MR_NEW(ctx, mr_answer);
    MR_TRY(mr_evaluate(ctx, &question, answer));
    *out = answer->metrics;
    return MR_OK;
}

static inline outcome on_fake(const char *path, const char *spec, uint32_t iterations,
                       const mr_manner *manner, uint64_t fail)
{
    mr_ctx ctx = {0};
    outcome out = {0};
    fake_cuda_reset();
    fake_cuda_settings()->fail = fail;
    out.status =
        evaluate(&ctx, path, spec, iterations, &mr_backend_cuda, manner, &out.metrics);
    snprintf(out.text, sizeof out.text, "%s", ctx.failure.text);
    out.calls = fake_cuda_calls();
    out.leaks = fake_cuda_leaks();
    snprintf(out.violation, sizeof out.violation, "%s", fake_cuda_violation());
    fake_cuda_settings()->fail = 0;
    mr_ctx_clear(&ctx);
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
static inline bool agrees(const char *path, const char *spec, uint32_t iterations,
                   const mr_manner *manner)
{
    mr_ctx ctx = {0};
    mr_metrics model;
    const mr_status status =
        evaluate(&ctx, path, spec, iterations, &mr_backend_model, NULL, &model);
    const bool asked = status == MR_OK;
    mr_ctx_clear(&ctx);
    if (!asked) return false; /* the recording lacks what the spec needs */
    const outcome out = on_fake(path, spec, iterations, manner, 0);
    is_clean(&out, path, spec);
    if (out.status) TEST_FAIL("%s under %s: %s", path, spec, out.text);
    else if (out.metrics.peak_device != model.peak_device)
        TEST_FAIL("%s under %s: the peak is %llu, expected %llu", path, spec,
                  (unsigned long long)out.metrics.peak_device,
                  (unsigned long long)model.peak_device);
    return true;
}

#endif

/* kernels -- what sim/kernels.cu does, on the host. */
#include <string.h>

#include "fake_cuda.h"
#include "kernels.h"

static struct {
    mr_cuda_pointer written; /* the last span that a job wrote */
} last;

/* Word i of a span, whose last may be shorter, as the kernels write it. */
static void pattern(const mr_span *span, uint64_t i, unsigned char out[MR_WORD])
{
    const uint64_t low = mr_pattern_low(span->value, i), high = mr_pattern_high(low);
    memcpy(out, &low, sizeof low);
    memcpy(out + sizeof low, &high, sizeof high);
}

static void tell(mr_report *report, const mr_span *span, uint64_t i, const void *found,
                 uint64_t n)
{
    if (report->site) return;
    *report = (mr_report){.site = span->site, .offset = i * MR_WORD};
    memcpy(&report->low, found, n < 8 ? n : 8);
    if (n == MR_WORD) memcpy(&report->high, (const char *)found + 8, 8);
}

static void do_span(const mr_span *span, mr_report *report)
{
    const uint64_t words = (span->bytes + MR_WORD - 1) / MR_WORD;
    const uint64_t whole = span->bytes / MR_WORD;
    for (uint64_t i = 0; i < words;) {
        unsigned char want[MR_WORD];
        const uint64_t n = i < whole ? MR_WORD : span->bytes % MR_WORD;
        char *at = (char *)span->at + i * MR_WORD;
        pattern(span, i, want);
        if (span->mode == MR_SPAN_WRITE) memcpy(at, want, n);
        else if (span->mode == MR_SPAN_VERIFY && memcmp(at, want, n) != 0)
            tell(report, span, i, at, n);
        if (i < whole && i + span->stride >= whole) i = whole;
        else i += span->stride;
    }
    if (span->mode == MR_SPAN_WRITE && span->bytes) last.written = span->at;
}

static bool run_job(int device, const void *arguments)
{
    const mr_job *job = arguments;
    if (!fake_may_touch(device, job->report, sizeof(mr_report))) return false;
    for (uint32_t i = 0; i < job->n; i++)
        if (!job->spans[i].stride
            || !fake_may_touch(device, job->spans[i].at, job->spans[i].bytes))
            return false;
    if (fake_cuda_settings()->idle) return true;
    for (uint32_t i = job->n; i-- > 0;) /* in an order nobody may rely on */
        do_span(&job->spans[i], (mr_report *)job->report);
    return true;
}

static bool run_spin(int device, const void *arguments)
{
    (void)device, (void)arguments;
    return true;
}

static bool run_copy(int device, const void *arguments)
{
    uint64_t given[3]; /* to, from, words */
    memcpy(given, arguments, sizeof given);
    const uint64_t bytes = given[2] * MR_WORD;
    if (!fake_may_touch(device, given[0], bytes) || !fake_may_touch(device, given[1], bytes))
        return false;
    memcpy((void *)given[0], (const void *)given[1], bytes);
    return true;
}

/* A clock of 1 GHz. */
static bool run_clock(int device, const void *arguments)
{
    uint64_t given[2]; /* to, cycles */
    memcpy(given, arguments, sizeof given);
    if (!fake_may_touch(device, given[0], sizeof given[1])) return false;
    *(uint64_t *)given[0] = given[1];
    return true;
}

void fake_corrupt(mr_cuda_pointer at)
{
    if (!at) at = last.written;
    if (at) *(unsigned char *)at ^= 1;
}

const fake_kernel_entry *fake_kernel_find(const char *name)
{
    static const fake_kernel_entry kernels[] = {
        {"mr_kernel_job", run_job, sizeof(mr_job), {sizeof(mr_job)}},
        {"mr_kernel_spin", run_spin, 8, {8}},
        {"mr_kernel_copy", run_copy, 24, {8, 8, 8}},
        {"mr_kernel_clock", run_clock, 16, {8, 8}},
    };
    for (size_t i = 0; i < MR_COUNT(kernels); i++)
        if (strcmp(kernels[i].name, name) == 0) return &kernels[i];
    return NULL;
}

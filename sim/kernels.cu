/* kernels -- what runs on a device in place of the ops of a recording.
 *
 * All of them move 16 bytes at a time where memory is aligned to that, which allocators see
 * to.  A block's second number says which span it works on, the first which part of it.
 */
#include "kernels.h"

#define NEVER 0x5a5a5a5a5a5a5a5aull /* a sum that is hardly ever seen: else no load would be left */

static __device__ void tell(mr_report *report, uint32_t site, uint64_t offset, uint64_t low,
                            uint64_t high)
{
    if (atomicCAS(&report->site, 0u, site) != 0u) return;
    report->offset = offset;
    report->low = low;
    report->high = high;
}

/* The pattern byte by byte: behind the last whole word, and in memory that is not aligned. */
static __device__ void bytewise(const mr_span &span, uint64_t from, uint64_t first,
                                uint64_t step, mr_report *report)
{
    uint64_t sum = 0;
    for (uint64_t i = from + first; i < span.bytes; i += step) {
        const uint64_t low = mr_pattern_low(span.value, i / MR_WORD);
        const uint64_t half = i % MR_WORD < 8 ? low : mr_pattern_high(low);
        const unsigned char want = (unsigned char)(half >> i % 8 * 8);
        unsigned char *byte = (unsigned char *)(span.at + i);
        if (span.mode == MR_SPAN_WRITE) *byte = want;
        else if (span.mode == MR_SPAN_READ) sum += *byte;
        else if (*byte != want) tell(report, span.site, i, *byte, 0);
    }
    if (sum == NEVER) report->sink = sum;
}

static __device__ void write_words(const mr_span &span, uint64_t first, uint64_t step)
{
    ulonglong2 *words = (ulonglong2 *)span.at;
    const uint64_t n = span.bytes / MR_WORD;
    for (uint64_t i = first * span.stride; i < n; i += step * span.stride) {
        const uint64_t low = mr_pattern_low(span.value, i);
        words[i] = make_ulonglong2(low, mr_pattern_high(low));
    }
}

static __device__ void verify_words(const mr_span &span, uint64_t first, uint64_t step,
                                    mr_report *report)
{
    const ulonglong2 *words = (const ulonglong2 *)span.at;
    const uint64_t n = span.bytes / MR_WORD;
    for (uint64_t i = first * span.stride; i < n; i += step * span.stride) {
        const ulonglong2 found = words[i];
        const uint64_t low = mr_pattern_low(span.value, i);
        if (found.x != low || found.y != mr_pattern_high(low))
            tell(report, span.site, i * MR_WORD, found.x, found.y);
    }
}

/* Four loads are on their way at once. */
static __device__ void read_words(const mr_span &span, uint64_t first, uint64_t step,
                                  mr_report *report)
{
    const ulonglong2 *words = (const ulonglong2 *)span.at;
    const uint64_t n = span.bytes / MR_WORD;
    unsigned long long sum = 0;
#pragma unroll 4
    for (uint64_t i = first; i < n; i += step) {
        const ulonglong2 found = words[i];
        sum ^= found.x ^ found.y;
    }
    if (sum == NEVER) report->sink = sum;
}

extern "C" __global__ void __launch_bounds__(MR_THREADS)
    mr_kernel_job(const __grid_constant__ mr_job job)
{
    const mr_span &span = job.spans[blockIdx.y];
    mr_report *report = (mr_report *)job.report;
    const uint64_t first = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    if (span.at % MR_WORD) {
        bytewise(span, 0, first, step, report);
        return;
    }
    if (span.mode == MR_SPAN_WRITE) write_words(span, first, step);
    else if (span.mode == MR_SPAN_VERIFY) verify_words(span, first, step, report);
    else read_words(span, first, step, report);
    bytewise(span, span.bytes / MR_WORD * MR_WORD, first, step, report);
}

/* One thread that lets time go by; the others of the device are free for other streams. */
extern "C" __global__ void mr_kernel_spin(uint64_t cycles)
{
    const long long begin = clock64();
    while ((uint64_t)(clock64() - begin) < cycles) continue;
}

/* Four words are read before the first of them is written. */
extern "C" __global__ void __launch_bounds__(MR_THREADS)
    mr_kernel_copy(uint64_t to, uint64_t from, uint64_t words)
{
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    const ulonglong2 *in = (const ulonglong2 *)from;
    ulonglong2 *out = (ulonglong2 *)to;
    uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i + 3 * step < words; i += 4 * step) {
        const ulonglong2 a = in[i], b = in[i + step];
        const ulonglong2 c = in[i + 2 * step], d = in[i + 3 * step];
        out[i] = a;
        out[i + step] = b;
        out[i + 2 * step] = c;
        out[i + 3 * step] = d;
    }
    for (; i < words; i += step) out[i] = in[i];
}

/* How many nanoseconds a spin takes: told by the clock that all processors share. */
extern "C" __global__ void mr_kernel_clock(uint64_t to, uint64_t cycles)
{
    uint64_t from, until;
    const long long begin = clock64();
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(from));
    while ((uint64_t)(clock64() - begin) < cycles) continue;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(until));
    *(uint64_t *)to = until - from;
}

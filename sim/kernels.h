/* kernels.h -- what the host asks of the kernels in kernels.cu, and the pattern they write.
 *
 * Read by nvcc, by the program and by the tests, whose stand-in for a device runs the same
 * work on the host.  A *value* is what an op has made; its pattern fills memory with words of
 * 16 bytes that say whose they are and which they are:
 *
 *      low   value in the lower half, number of the word in the upper
 *      high  the same, stirred, so that no other word passes for it
 */
#ifndef MR_KERNELS_H
#define MR_KERNELS_H

#include <stdint.h>

#ifdef __CUDACC__
#define MR_ON_BOTH __host__ __device__ static inline
#else
#define MR_ON_BOTH static inline
#endif

#define MR_WORD 16u /* bytes of a word of a pattern, and of an access to memory */

MR_ON_BOTH uint64_t mr_pattern_low(uint32_t value, uint64_t word)
{
    return word << 32 | value;
}

MR_ON_BOTH uint64_t mr_pattern_high(uint64_t low)
{
    const uint64_t stirred = (low + 1) * 0x9e3779b97f4a7c15u; /* 2^64 over the golden ratio */
    return stirred ^ stirred >> 29;
}

enum { MR_SPAN_READ, MR_SPAN_WRITE, MR_SPAN_VERIFY };

/* Memory that an op reads or writes.  Of each `stride` words the first is looked at, and what
 * is left behind the last whole word. */
typedef struct mr_span {
    uint64_t at, bytes;
    uint32_t value; /* to be written, or to be found */
    uint32_t mode, stride;
    uint32_t site; /* who asks, from 1: told when something else is found */
} mr_span;

#define MR_SPANS 64 /* so that a job is no longer than an argument of a kernel may be */

typedef struct mr_job {
    uint64_t report; /* an mr_report on the device */
    uint32_t n, unused;
    mr_span spans[MR_SPANS];
} mr_job;

/* The first word that was not as expected. */
typedef struct mr_report {
    uint32_t site; /* 0: all were as expected */
    uint32_t unused;
    uint64_t offset, low, high; /* bytes into the span; what was found there */
    uint64_t sink;              /* what is read goes here, as far as a compiler knows */
} mr_report;

#define MR_THREADS 256u /* in a block, of all kernels but those of one thread */

#endif

/* fake_cuda.h -- a CUDA driver that holds host memory: what its parts share, and
 * what tests ask.
 *
 * It is built as libcuda.so.1 and keeps books as a driver does.  Work given to a stream waits
 * until somebody waits for it, and streams are then run one after the other: what lacks an
 * event between streams finds wrong bytes.  Wrong use is written down as a violation and
 * answered with an error.
 *
 * From the environment, or by the functions below:
 *     FAKE_CUDA_MEMORY    bytes of the device, 80 GiB
 *     FAKE_CUDA_CONTEXT   bytes that a context takes, 400 MiB
 *     FAKE_CUDA_DEVICES   how many there are, 1
 *     FAKE_CUDA_VERSION   of the driver, 13000
 *     FAKE_CUDA_FAIL      the number of the call that fails, counted from 1; 0: none
 *     FAKE_CUDA_ERROR     the error that it gives, 2
 *     FAKE_CUDA_START     the error that cuInit gives, 0
 *     FAKE_CUDA_ORDER     0: the newest stream runs first; 1: the oldest
 *     FAKE_CUDA_IDLE      1: kernels look only whether they may touch their memory, so that
 *                         large models need no memory of the host
 *     FAKE_CUDA_CORRUPT   the number of the launch after which a byte is changed; 0: none
 * At the end of the program, what was not given back and every violation is told and the exit
 * code is 86.
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include "cuda_driver.h"

enum { FAKE_CUDA_WRONG = 86, FAKE_CUDA_ILLEGAL = 700, FAKE_CUDA_NOT_FOUND = 500 };

typedef struct fake_settings {
    uint64_t memory, context, devices, version, fail, error, start, order, corrupt, idle;
} fake_settings;

/* ---- for tests --------------------------------------------------------------------------- */

fake_settings *fake_cuda_settings(void);
uint64_t fake_cuda_calls(void); /* since the last reset */
uint64_t fake_cuda_peak(void);  /* bytes held, the context included */
/* Of resources not given back, how many there are; what is wrong, "" for nothing. */
uint32_t fake_cuda_leaks(void);
const char *fake_cuda_violation(void);
void fake_cuda_reset(void); /* forgets calls, peak, violation and leaks */

/* ---- among its parts --------------------------------------------------------------------- */

/* Counts the call; an error when this one is to fail.  Giving back does its work all the same:
 * a driver reports there what went wrong before. */
mr_cuda_result fake_begin(const char *name);
mr_cuda_result fake_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
void fake_hold(int n); /* one resource more, or fewer */

/* Is all of it memory that a device may touch now? */
bool fake_may_touch(mr_cuda_pointer at, uint64_t bytes);
uint64_t fake_used(void);
bool fake_charge(uint64_t bytes);
void fake_discharge(uint64_t bytes);
void fake_memory_forget(void);
/* Changes a byte of the memory that was last written by a kernel. */
void fake_corrupt(mr_cuda_pointer at);

/* A kernel: runs with the arguments as they were at the launch. */
typedef bool fake_kernel(const void *arguments);
typedef struct fake_kernel_entry {
    const char *name;
    fake_kernel *run;
    size_t bytes; /* of its arguments, one after the other, each aligned to 8 */
    size_t sizes[4];
} fake_kernel_entry;
const fake_kernel_entry *fake_kernel_find(const char *name);

void fake_finish_all(void); /* everything that waits on any stream */
void fake_streams_forget(void);

#endif

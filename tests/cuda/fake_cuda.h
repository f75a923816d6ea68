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
 *     FAKE_CUDA_DEVICES   how many there are, 1; each has so much memory
 *     FAKE_CUDA_POOLS     0: devices have no pools of memory
 *     FAKE_CUDA_MAPPING   0: they cannot map memory
 *     FAKE_CUDA_MODE      of computing, 0: for everybody; 2: for nobody
 *     FAKE_CUDA_ARCH      what code they run, 90
 *     FAKE_CUDA_VERSION   of the driver, 13000
 *     FAKE_CUDA_FAIL      the number of the call that fails, counted from 1; 0: none
 *     FAKE_CUDA_ONLY      counts only the calls of this name, such as cuMemMap
 *     FAKE_CUDA_ON        counts only calls in the context of this device
 *     FAKE_CUDA_ERROR     the error that it gives, 2
 *     FAKE_CUDA_START     the error that cuInit gives, 0
 *     FAKE_CUDA_ORDER     0: the newest stream runs first; 1: the oldest
 *     FAKE_CUDA_IDLE      1: kernels look only whether they may touch their memory, so that
 *                         large models need no memory of the host
 *     FAKE_CUDA_STRIDE    copies move one word of 16 bytes in so many, and the last; 1
 *     FAKE_CUDA_CORRUPT   the number of the launch after which a byte is changed; 0: none
 * At the end of the program, what was not given back and every violation is told and the exit
 * code is 86.
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include "cuda_driver.h"

enum {
    FAKE_CUDA_WRONG = 86,
    FAKE_CUDA_ILLEGAL = 700,
    FAKE_CUDA_NOT_FOUND = 500,
    FAKE_CUDA_NOT_YET = 600,
    FAKE_CUDA_DEVICES = 8, /* at the most */
};

typedef struct fake_settings {
    uint64_t memory, context, devices, version, fail, on, error, start, order, corrupt, idle,
        pools, mapping, mode, arch, stride;
    const char *only;
} fake_settings;

/* ---- for tests --------------------------------------------------------------------------- */

fake_settings *fake_cuda_settings(void);
uint64_t fake_cuda_calls(void); /* since the last reset */
uint64_t fake_cuda_calls_of(const char *name);
const char *fake_cuda_name(uint32_t i); /* of the calls made; NULL: no more */
/* Of resources not given back, how many there are; what is wrong, "" for nothing. */
uint32_t fake_cuda_leaks(void);
const char *fake_cuda_violation(void);
void fake_cuda_reset(void); /* forgets calls, peak, violation and leaks */

/* ---- among its parts --------------------------------------------------------------------- */

/* Counts the call; an error when this one is to fail.  Giving back does its work all the same:
 * a driver reports there what went wrong before.  Threads may call at the same time and are
 * served one after the other: the call ends where what FAKE_CALL declares does. */
mr_cuda_result fake_begin(const char *name);
void fake_end(const mr_cuda_result *failed);
#define FAKE_CALL __attribute__((cleanup(fake_end))) const mr_cuda_result
mr_cuda_result fake_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
void fake_hold(int n); /* one resource more, or fewer */
bool fake_is_device(int device);
int fake_device(void); /* whose context is current in this thread; -1: none */

/* Is all of it memory that the device may touch now? */
bool fake_may_touch(int device, mr_cuda_pointer at, uint64_t bytes);
uint64_t fake_used(int device);
bool fake_charge(int device, uint64_t bytes);
void fake_discharge(int device, uint64_t bytes);
/* Memory of a pool that may be touched from now on, until it is closed. */
void fake_open(int device, mr_cuda_pointer at, uint64_t bytes);
void fake_close(mr_cuda_pointer at);
void fake_memory_forget(void);
void fake_pools_forget(void);
/* Changes a byte of the memory that was last written by a kernel. */
void fake_corrupt(mr_cuda_pointer at);

/* A kernel: runs with the arguments as they were at the launch.  False: it did wrong. */
typedef bool fake_kernel(int device, const void *arguments);
typedef struct fake_kernel_entry {
    const char *name;
    fake_kernel *run;
    size_t bytes; /* of its arguments, one after the other, each aligned to 8 */
    size_t sizes[4];
} fake_kernel_entry;
const fake_kernel_entry *fake_kernel_find(const char *name);

/* Other work of a stream, in its order. */
mr_cuda_result fake_issue(mr_cuda_stream *stream, fake_kernel *work, const void *arguments,
                          size_t bytes);
mr_cuda_result fake_launch(mr_cuda_stream *stream, fake_kernel *kernel, void *arguments);
mr_cuda_result fake_copy(mr_cuda_stream *stream, void *to, const void *from, uint64_t bytes,
                         bool out);
mr_cuda_result fake_sticky(void); /* what went wrong on the device stays with its context */
void fake_heal(int device);       /* which has ended */
mr_cuda_result fake_reads(const void *image); /* can it run one of what is in there? */
uint64_t fake_issued(const mr_cuda_stream *stream); /* how much of it there was */
uint32_t fake_number(const mr_cuda_stream *stream); /* of streams, as they were made */
/* The stream waits until the other one has done so much. */
mr_cuda_result fake_wait_for(mr_cuda_stream *stream, mr_cuda_stream *other, uint64_t until);
bool fake_is_pinned(const void *at, uint64_t bytes);

void fake_finish_all(void); /* everything that waits on any stream */
void fake_streams_forget(void);
void fake_modules_forget(void);
void fake_host_forget(void);

#endif

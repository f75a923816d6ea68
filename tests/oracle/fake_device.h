/* fake_device.h -- the pretended GPU of fakecuda_core.c, for the model of the allocator.
 *
 * Memory is a counter; addresses come from two number ranges, one for cudaMalloc and one for
 * reservations, as there.  Both run the same scripts, so the two must agree address by address.
 */
#ifndef FAKE_DEVICE_H
#define FAKE_DEVICE_H

#include "c10.h"

typedef enum fake_policy { FAKE_FIRST_FIT, FAKE_BUMP, FAKE_TOP_DOWN } fake_policy;

typedef struct fake_range {
    uint64_t address, size;
} fake_range;

typedef MR_VEC(fake_range) fake_ranges; /* ascending, disjoint */

typedef struct fake_stream {
    uint64_t submitted, completed;
} fake_stream;

typedef struct fake_event {
    c10_action action;
    uint64_t address, size;
    uint32_t stream;
} fake_event;

typedef struct fake_device {
    mr_ctx *ctx;
    uint64_t total, used, external;
    fake_policy policy;
    bool manual;     /* events wait until they are advanced */
    bool free_syncs; /* cudaFree waits for the device */
    uint32_t fail_next; /* calls of cudaMalloc that fail */
    uint64_t bump;
    fake_ranges allocs, reserved;
    MR_VEC(uint64_t) next_addresses; /* for the next calls of cudaMalloc, from `queue_head` */
    uint32_t queue_head;
    MR_VEC(fake_stream) streams;
    MR_VEC(fake_event) trace;
} fake_device;

/* Settings come from the FAKECUDA_* variables of the environment. */
void fake_device_init(fake_device *fake, mr_ctx *ctx);
c10_device fake_device_calls(fake_device *fake);

void fake_device_external(fake_device *fake, uint64_t bytes); /* memory taken by others */
void fake_device_advance(fake_device *fake, uint32_t stream, uint64_t items); /* 0: all */
void fake_device_sync(fake_device *fake);

#endif

/* capacity -- how much the process could have had, from what succeeded and what failed.
 *
 *     taken S successfully, then holding H        capacity >= H
 *     asked for S while holding H and failed      capacity <  H + S
 *
 * A failure shows as an `oom`, or as a burst of releases directly before memory is taken: the
 * allocator gave back its cache and tried again.  A burst is empty_cache() instead if no
 * taking follows, if its frames say so, or if the bound it would give contradicts what
 * succeeded.
 */
#include "rebuild.h"

#include <string.h>

typedef struct judging {
    mr_device_events *device;
    const uint64_t *held; /* before each mr_act */
    uint64_t low, high;
    uint8_t *asks; /* of a stack: 0 not looked at, 1 no, 2 it is in empty_cache */
} judging;

static bool releases(uint32_t action)
{
    return action == MR_RAW_segment_free || action == MR_RAW_segment_unmap;
}

static bool takes(uint32_t action)
{
    return action == MR_RAW_segment_alloc || action == MR_RAW_segment_map;
}

static uint64_t up(uint64_t bytes, uint64_t step)
{
    return (bytes + step - 1) / step * step;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Does the program ask for it?  PyTorch calls it empty_cache in Python, emptyCache in C++. */
static bool asked(judging *j, uint32_t stack)
{
    if (stack == MR_NONE) return false;
    const mr_trace *trace = j->device->raw->trace;
    if (!j->asks[stack]) {
        j->asks[stack] = 1;
        const mr_stack s = trace->stacks.at[stack];
        for (uint32_t i = 0; i < s.n; i++) {
            const char *function = trace->frames.at[s.at[i]].function;
            if (strstr(function, "empty_cache") || strstr(function, "emptyCache"))
                j->asks[stack] = 2;
        }
    }
    return j->asks[stack] == 2;
}

/* What the request takes that act `a` belongs to: one segment, or mappings up to its alloc. */
static uint64_t taken(const mr_device_events *device, uint32_t a)
{
    const mr_raw_event *e = &device->at[device->acts.at[a].event];
    if (e->action == MR_RAW_segment_alloc) return up(e->size, MR_SMALL_SEGMENT);
    uint64_t sum = 0;
    for (uint32_t event = device->acts.at[a].event; a < device->acts.n; a++, event++) {
        if (device->acts.at[a].event != event) break;
        if (device->at[event].action != MR_RAW_segment_map) break;
        sum = plus(sum, device->at[event].size);
    }
    return sum;
}

/* Older versions do not tell their settings, but show what they hold. */
static bool expands(const mr_device_events *device)
{
    if (device->options->expandable || device->classes.n) return true;
    for (uint32_t a = 0; a < device->acts.n; a++)
        if (device->at[device->acts.at[a].event].action == MR_RAW_segment_map) return true;
    return false;
}

/* What an oom could not get, at most. */
static uint64_t wanted(const mr_device_events *device, const mr_raw_event *e)
{
    const mr_allocator_options *options = device->options;
    const uint64_t rounded = mr_rounded_request(options, e->size);
    if (!expands(device)) return mr_segment_request(options, rounded);
    return up(rounded, rounded <= MR_SMALL_MAX ? MR_SMALL_SEGMENT : options->large_segment);
}

/* The first event from `event` on that is no pending free completing. */
static uint32_t next_event(const mr_device_events *device, uint32_t event)
{
    while (event < device->n && device->at[event].action == MR_RAW_free_completed) event++;
    return event;
}

/* A collection takes segments of the large pool alone, and only from the threshold on of a
 * limit that is not below what succeeded. */
static bool may_be_collection(const judging *j, uint32_t a, uint32_t end)
{
    const mr_device_events *device = j->device;
    if (!((double)j->held[a] > device->options->collects * (double)j->low)) return false;
    for (uint32_t i = a; i < end; i++) {
        const mr_raw_event *e = &device->at[device->acts.at[i].event];
        if (e->action == MR_RAW_segment_unmap || e->size == MR_SMALL_SEGMENT) return false;
    }
    return device->options->collects > 0;
}

/* The burst [a, end) of acts: was it asked for?  If not it bounds the capacity. */
static bool judge_burst(judging *j, uint32_t a, uint32_t end)
{
    const mr_device_events *device = j->device;
    const mr_raw_event *first = &device->at[device->acts.at[a].event];
    const uint32_t next = next_event(device, device->acts.at[end - 1].event + 1);
    const uint32_t action = next < device->n ? device->at[next].action : MR_RAW_snapshot;
    if (asked(j, first->stack)) return true;
    if (releases(action) || action == MR_RAW_oom)
        return false; /* goes on; the oom tells more */
    if (!takes(action)) return true;
    if (may_be_collection(j, a, end)) return false; /* which nothing failed */
    while (device->acts.at[end].event != next) end++;
    const uint64_t bound = plus(j->held[a], taken(device, end));
    if (bound <= j->low) return true;
    if (bound < j->high) j->high = bound;
    return false;
}

static void judge_oom(judging *j, uint32_t a)
{
    const mr_raw_event *e = &j->device->at[j->device->acts.at[a].event];
    const uint64_t bound = plus(j->held[a], wanted(j->device, e));
    if (bound > j->low && bound < j->high) j->high = bound;
}

/* What the device said was free at an oom; others may use the device too. */
static void take_hint(judging *j, uint32_t a)
{
    const mr_raw_event *e = &j->device->at[j->device->acts.at[a].event];
    const uint64_t free = j->device->raw->addresses.all.at[e->slot];
    const uint64_t sum = plus(j->held[a], free);
    if (sum > j->low && sum < j->high) j->low = sum;
}

static uint64_t *sum_up(mr_device_events *device, uint64_t *most)
{
    uint64_t *held = MR_NEW_N(device->raw->ctx, uint64_t, device->acts.n + 1);
    uint64_t sum = 0;
    for (uint32_t r = 0; r < device->held.order.n; r++)
        sum = plus(sum, up(mr_stretches_at(&device->held, r)->bytes, MR_SMALL_SEGMENT));
    *most = sum;
    for (uint32_t a = 0; a < device->acts.n; a++) {
        held[a] = sum;
        const mr_raw_event *e = &device->at[device->acts.at[a].event];
        const uint64_t bytes = up(e->size, MR_SMALL_SEGMENT);
        if (takes(e->action)) sum = plus(sum, bytes);
        if (releases(e->action)) sum -= bytes < sum ? bytes : sum;
        if (sum > *most) *most = sum;
    }
    return held;
}

void mr_judge_capacity(mr_device_events *device)
{
    judging j = {.device = device, .high = UINT64_MAX};
    j.held = sum_up(device, &j.low);
    j.asks = MR_NEW_N(device->raw->ctx, uint8_t, device->raw->trace->stacks.n);
    mr_act *acts = device->acts.at;
    for (uint32_t a = 0, end; a < device->acts.n; a = end) {
        end = a + 1;
        const uint32_t action = device->at[acts[a].event].action;
        if (action == MR_RAW_oom) judge_oom(&j, a);
        if (!releases(action)) continue;
        while (end < device->acts.n && acts[end].event == acts[end - 1].event + 1
               && releases(device->at[acts[end].event].action))
            end++;
        acts[a].flush = judge_burst(&j, a, end);
    }
    for (uint32_t a = 0; a < device->acts.n; a++)
        if (device->at[acts[a].event].action == MR_RAW_oom) take_hint(&j, a);
    device->history.capacity_low = j.low;
    device->history.capacity_high = j.high;
}

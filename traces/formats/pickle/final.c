/* final -- segments and blocks as the snapshot found them: one device's, in order, checked. */
#include "rebuild.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

mr_status mr_device_fail(const mr_device_events *device, uint32_t event, const char *format,
                         ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const mr_raw_snapshot *raw = device->raw;
    const char *where =
        event == MR_NONE ? mr_printf(raw->ctx, "%s: device %" PRIu32, raw->file, device->number)
                         : mr_printf(raw->ctx, "%s: device %" PRIu32 ", event %" PRIu32,
                                     raw->file, device->number, event);
    return mr_fail_at(raw->ctx, MR_EINPUT, where, "%s", text);
}

uint64_t mr_rounded_request(const mr_allocator_options *options, uint64_t bytes)
{
    if (bytes < 512) return 512;
    unsigned log = 63;
    while (!(bytes >> log)) log--;
    const unsigned interval = log < 20 ? 0 : log - 20 < 15 ? log - 20 : 15;
    const uint64_t divisions = options->divisions[interval];
    if (divisions < 2 || bytes / divisions < 512 || bytes == 512 * divisions)
        return (bytes + 511) / 512 * 512;
    const uint64_t floor = UINT64_C(1) << log;
    if (bytes == floor) return bytes;
    const uint64_t step = floor / divisions ? floor / divisions : floor;
    return (bytes + step - 1) / step * step;
}

uint64_t mr_segment_request(const mr_allocator_options *options, uint64_t rounded)
{
    if (rounded <= MR_SMALL_MAX) return MR_SMALL_SEGMENT;
    if (rounded < MR_OWN_SEGMENT) return options->large_segment;
    return (rounded + MR_SMALL_SEGMENT - 1) / MR_SMALL_SEGMENT * MR_SMALL_SEGMENT;
}

static int by_address(const void *left, const void *right)
{
    const mr_raw_segment *a = ((const mr_final_segment *)left)->raw;
    const mr_raw_segment *b = ((const mr_final_segment *)right)->raw;
    return (a->address > b->address) - (a->address < b->address);
}

static mr_status check_segment(mr_device_events *device, const mr_raw_segment *s,
                               uint64_t behind)
{
    mr_raw_snapshot *raw = device->raw;
    if (s->fault != MR_NONE)
        return mr_raw_fault_fail(raw, &raw->faults.at[s->fault], "a segment");
    if (!s->bytes || s->address > UINT64_MAX - s->bytes)
        return mr_raw_fail(raw, s->offset,
                           "the segment at 0x%" PRIx64 " has %" PRIu64 " bytes,"
                           " expected a range of addresses",
                           s->address, s->bytes);
    if (s->address < behind)
        return mr_raw_fail(raw, s->offset,
                           "the segment at 0x%" PRIx64 " begins inside another one,"
                           " which ends at 0x%" PRIx64,
                           s->address, behind);
    return MR_OK;
}

static mr_status add_block(mr_device_events *device, const mr_raw_segment *s,
                           const mr_raw_block *b, uint64_t *expected)
{
    mr_raw_snapshot *raw = device->raw;
    if (b->fault != MR_NONE)
        return mr_raw_fault_fail(raw, &raw->faults.at[b->fault], "a block");
    const uint64_t address = b->address == UINT64_MAX ? *expected : b->address;
    if (address != *expected)
        return mr_raw_fail(raw, s->offset,
                           "a block begins at 0x%" PRIx64 ", expected 0x%" PRIx64
                           " where the one before it ends",
                           address, *expected);
    if (!b->bytes || b->bytes > s->address + s->bytes - address)
        return mr_raw_fail(raw, s->offset,
                           "the block at 0x%" PRIx64 " has %" PRIu64 " bytes,"
                           " expected 1 to the end of its segment at 0x%" PRIx64,
                           address, b->bytes, s->address + s->bytes);
    *expected = address + b->bytes;
    const bool active = b->state != MR_RAW_inactive;
    const mr_final_block block = {
        .address = address,
        .bytes = b->bytes,
        .requested = b->requested && b->requested <= b->bytes ? b->requested : b->bytes,
        .slot = active ? mr_numbers_index(raw->ctx, &raw->addresses, address) : MR_NONE,
        .stack = b->stack,
        .pending = active && b->state != MR_RAW_active_allocated,
    };
    MR_PUSH(raw->ctx, &device->blocks, block);
    return MR_OK;
}

static mr_status add_blocks(mr_device_events *device, mr_final_segment *final)
{
    mr_raw_snapshot *raw = device->raw;
    const mr_raw_segment *s = final->raw;
    mr_raw_list list;
    MR_TRY(mr_raw_list_of(raw, s->blocks, MR_RAW_V_BLOCK, "the list of blocks", &list));
    uint64_t expected = s->address;
    final->first = device->blocks.n;
    for (uint32_t r = 0; r < list.n; r++) {
        const mr_raw_run run = raw->runs.at[list.first + r];
        for (uint32_t i = 0; i < run.n; i++)
            MR_TRY(add_block(device, s, &raw->blocks.at[run.first + i], &expected));
    }
    final->n = device->blocks.n - final->first;
    if (expected == s->address + s->bytes) return MR_OK;
    return mr_raw_fail(raw, s->offset,
                       "the blocks of the segment at 0x%" PRIx64 " end at 0x%" PRIx64
                       ", expected 0x%" PRIx64 " where the segment ends",
                       s->address, expected, s->address + s->bytes);
}

mr_status mr_read_finals(mr_device_events *device, const mr_raw_segment *segments, uint32_t n)
{
    mr_ctx *ctx = device->raw->ctx;
    for (uint32_t i = 0; i < n; i++)
        if (segments[i].device == device->number)
            MR_PUSH(ctx, &device->finals, (mr_final_segment){.raw = &segments[i]});
    if (device->finals.n)
        qsort(device->finals.at, device->finals.n, sizeof *device->finals.at, by_address);
    uint64_t behind = 0;
    for (uint32_t i = 0; i < device->finals.n; i++) {
        mr_final_segment *final = &device->finals.at[i];
        MR_TRY(check_segment(device, final->raw, behind));
        behind = final->raw->address + final->raw->bytes;
        MR_TRY(add_blocks(device, final));
        const mr_stretch range = {final->raw->address, final->raw->bytes, i, MR_NONE,
                                  final->raw->expandable};
        mr_stretches_add(ctx, &device->held, range);
    }
    return MR_OK;
}

/* memory -- allocations, addresses, physical memory and what is mapped where.
 *
 * Physical memory is a file without a name, so that the same bytes can be seen at two
 * addresses; an allocation of the simple kind is a mapping of the host.  Everything is charged
 * by whole pages of 2 MiB.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake_cuda.h"

#define PAGE (2 * MR_MIB)

typedef struct piece { /* simple allocation, part of a pool, or a mapping */
    uint64_t at, bytes;
    mr_cuda_handle handle; /* of a mapping, else 0 */
    bool open;             /* may be touched */
    bool pooled;
    int device;
} piece;

typedef struct physical {
    uint64_t bytes, offset; /* into the file */
    uint32_t mappings;
    bool held; /* its handle was not released */
    int device;
} physical;

typedef struct range {
    uint64_t at, bytes;
} range;

enum { MOST = 1 << 20 };

static struct {
    uint64_t used[FAKE_CUDA_DEVICES], end; /* of the file */
    int file;                              /* descriptor and one */
    uint32_t pieces, handles, ranges;
    piece piece[MOST]; /* in the order of addresses */
    physical physical[MOST];
    range range[MOST];
} memory;

uint64_t fake_used(int device)
{
    return memory.used[device];
}

static uint64_t whole(uint64_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

bool fake_charge(int device, uint64_t bytes)
{
    if (whole(bytes) > fake_cuda_settings()->memory - memory.used[device]) return false;
    memory.used[device] += whole(bytes);
    return true;
}

void fake_discharge(int device, uint64_t bytes)
{
    memory.used[device] -= whole(bytes);
}

void fake_memory_forget(void)
{
    for (uint32_t i = 0; i < memory.pieces; i++)
        if (!memory.piece[i].pooled)
            munmap((void *)memory.piece[i].at, whole(memory.piece[i].bytes));
    memory.pieces = memory.handles = memory.ranges = 0;
    memset(memory.used, 0, sizeof memory.used);
}

/* ---- pieces ------------------------------------------------------------------------------ */

/* Number of pieces that begin at or below the address. */
static uint32_t below(uint64_t at)
{
    uint32_t low = 0, high = memory.pieces;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (memory.piece[middle].at <= at) low = middle + 1;
        else high = middle;
    }
    return low;
}

static bool add_piece(const piece *p)
{
    const uint32_t i = below(p->at);
    if (memory.pieces == MOST) return false;
    memmove(&memory.piece[i + 1], &memory.piece[i], (memory.pieces - i) * sizeof *p);
    memory.piece[i] = *p;
    memory.pieces++;
    return true;
}

static void remove_piece(uint32_t i)
{
    memory.pieces--;
    memmove(&memory.piece[i], &memory.piece[i + 1], (memory.pieces - i) * sizeof(piece));
}

bool fake_may_touch(int device, mr_cuda_pointer at, uint64_t bytes)
{
    const uint64_t end = at + bytes;
    while (at < end) {
        const uint32_t i = below(at);
        if (!i || !memory.piece[i - 1].open) return false;
        const piece *p = &memory.piece[i - 1];
        if (at >= p->at + p->bytes || p->device != device) return false;
        if (!p->handle)
            return end <= p->at + p->bytes; /* what lies behind is somebody else's */
        at = p->at + p->bytes;
    }
    return true;
}

/* ---- the simple kind --------------------------------------------------------------------- */

mr_cuda_result cuMemAlloc_v2(mr_cuda_pointer *at, size_t bytes);
mr_cuda_result cuMemAlloc_v2(mr_cuda_pointer *at, size_t bytes)
{
    FAKE_CALL failed = fake_begin("cuMemAlloc");
    if (failed) return failed;
    const int device = fake_device();
    if (!bytes) return fake_wrong("cuMemAlloc of nothing");
    if (!fake_charge(device, bytes)) return MR_CUDA_NO_MEMORY;
    void *host = mmap(NULL, whole(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    *at = (mr_cuda_pointer)host;
    if (host == MAP_FAILED || !add_piece(&(piece){*at, bytes, 0, true, false, device}))
        return fake_wrong("the host has no memory for the fake");
    fake_hold(1);
    return 0;
}

/* Waits for the device, as a driver does. */
mr_cuda_result cuMemFree_v2(mr_cuda_pointer at);
mr_cuda_result cuMemFree_v2(mr_cuda_pointer at)
{
    FAKE_CALL failed = fake_begin("cuMemFree");
    if (!at) return failed;
    fake_finish_all();
    const uint32_t i = below(at);
    if (!i || memory.piece[i - 1].at != at || memory.piece[i - 1].handle
        || memory.piece[i - 1].pooled)
        return fake_wrong("cuMemFree of %#llx, which nobody has", (unsigned long long)at);
    const uint64_t bytes = memory.piece[i - 1].bytes;
    const int device = memory.piece[i - 1].device;
    munmap((void *)at, whole(bytes));
    remove_piece(i - 1);
    fake_discharge(device, bytes);
    fake_hold(-1);
    return failed;
}

/* ---- parts of pools ---------------------------------------------------------------------- */

void fake_open(int device, mr_cuda_pointer at, uint64_t bytes)
{
    if (!add_piece(&(piece){at, bytes, 0, true, true, device}))
        fake_wrong("the host has no memory for the fake");
}

void fake_close(mr_cuda_pointer at)
{
    const uint32_t i = below(at);
    if (i && memory.piece[i - 1].at == at && memory.piece[i - 1].pooled) remove_piece(i - 1);
    else fake_wrong("memory of a pool is freed before it is there");
}

/* ---- addresses and physical memory ------------------------------------------------------- */

static bool is_device_memory(const mr_cuda_property *p)
{
    for (size_t i = 0; i < sizeof p->flags; i++)
        if (p->flags[i]) return false;
    return p->type == MR_CUDA_PINNED && p->location.type == MR_CUDA_ON_DEVICE && !p->handles
           && !p->unused && fake_is_device(p->location.id);
}

mr_cuda_result cuMemGetAllocationGranularity(size_t *bytes, const mr_cuda_property *property,
                                             int recommended);
mr_cuda_result cuMemGetAllocationGranularity(size_t *bytes, const mr_cuda_property *property,
                                             int recommended)
{
    FAKE_CALL failed = fake_begin(__func__);
    if (failed) return failed;
    if (!is_device_memory(property) || recommended < 0 || recommended > 1)
        return fake_wrong("a granularity of something else than memory of a device");
    *bytes = PAGE;
    return 0;
}

mr_cuda_result cuMemAddressReserve(mr_cuda_pointer *at, size_t bytes, size_t align,
                                   mr_cuda_pointer near, unsigned long long flags);
mr_cuda_result cuMemAddressReserve(mr_cuda_pointer *at, size_t bytes, size_t align,
                                   mr_cuda_pointer near, unsigned long long flags)
{
    (void)near;
    FAKE_CALL failed = fake_begin(__func__);
    if (failed) return failed;
    if (!bytes || bytes % PAGE || flags || align % PAGE)
        return fake_wrong("%zu bytes of addresses are not whole pages", bytes);
    char *host =
        mmap(NULL, bytes + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (host == MAP_FAILED || memory.ranges == MOST) return MR_CUDA_NO_MEMORY;
    const uint64_t skip = (PAGE - (uint64_t)host % PAGE) % PAGE;
    if (skip) munmap(host, skip);
    if (skip < PAGE) munmap(host + skip + bytes, PAGE - skip);
    *at = (mr_cuda_pointer)(host + skip);
    memory.range[memory.ranges++] = (range){*at, bytes};
    fake_hold(1);
    return 0;
}

static uint32_t range_around(uint64_t at, uint64_t bytes)
{
    for (uint32_t i = 0; i < memory.ranges; i++) {
        const range *r = &memory.range[i];
        if (at >= r->at && at + bytes <= r->at + r->bytes) return i;
    }
    return MR_NONE;
}

mr_cuda_result cuMemAddressFree(mr_cuda_pointer at, size_t bytes);
mr_cuda_result cuMemAddressFree(mr_cuda_pointer at, size_t bytes)
{
    FAKE_CALL failed = fake_begin(__func__);
    const uint32_t i = range_around(at, bytes);
    if (i == MR_NONE || memory.range[i].at != at || memory.range[i].bytes != bytes)
        return fake_wrong("addresses given back that were not reserved so");
    const uint32_t next = below(at + bytes - 1);
    if (next && memory.piece[next - 1].at >= at)
        return fake_wrong("addresses given back while memory is mapped there");
    munmap((void *)at, bytes);
    memory.range[i] = memory.range[--memory.ranges];
    fake_hold(-1);
    return failed;
}

mr_cuda_result cuMemCreate(mr_cuda_handle *handle, size_t bytes,
                           const mr_cuda_property *property, unsigned long long flags);
mr_cuda_result cuMemCreate(mr_cuda_handle *handle, size_t bytes,
                           const mr_cuda_property *property, unsigned long long flags)
{
    FAKE_CALL failed = fake_begin(__func__);
    if (failed) return failed;
    if (!bytes || bytes % PAGE || flags || !is_device_memory(property))
        return fake_wrong("cuMemCreate of %zu bytes, not whole pages of a device", bytes);
    if (!memory.file) memory.file = memfd_create("device", 0) + 1;
    const int device = property->location.id;
    if (memory.handles == MOST || !fake_charge(device, bytes)) return MR_CUDA_NO_MEMORY;
    if (ftruncate(memory.file - 1, (off_t)(memory.end + bytes)) != 0)
        return fake_wrong("the host has no room for the fake");
    memory.physical[memory.handles] = (physical){bytes, memory.end, 0, true, device};
    memory.end += bytes;
    *handle = ++memory.handles;
    fake_hold(1);
    return 0;
}

static physical *find(mr_cuda_handle handle)
{
    return handle && handle <= memory.handles ? &memory.physical[handle - 1] : NULL;
}

/* Memory comes back when neither a handle nor a mapping is left. */
static void reap(physical *p)
{
    if (p->held || p->mappings) return;
    fake_discharge(p->device, p->bytes);
    fallocate(memory.file - 1, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)p->offset,
              (off_t)p->bytes);
}

mr_cuda_result cuMemRelease(mr_cuda_handle handle);
mr_cuda_result cuMemRelease(mr_cuda_handle handle)
{
    FAKE_CALL failed = fake_begin(__func__);
    physical *p = find(handle);
    if (!p || !p->held) return fake_wrong("a handle was released that nobody has");
    p->held = false;
    fake_hold(-1);
    reap(p);
    return failed;
}

static bool is_free(uint64_t at, uint64_t bytes)
{
    const uint32_t i = below(at + bytes - 1);
    return !i || memory.piece[i - 1].at + memory.piece[i - 1].bytes <= at;
}

mr_cuda_result cuMemMap(mr_cuda_pointer at, size_t bytes, size_t offset, mr_cuda_handle handle,
                        unsigned long long flags);
mr_cuda_result cuMemMap(mr_cuda_pointer at, size_t bytes, size_t offset, mr_cuda_handle handle,
                        unsigned long long flags)
{
    FAKE_CALL failed = fake_begin(__func__);
    if (failed) return failed;
    physical *p = find(handle);
    if (!p || !p->held) return fake_wrong("cuMemMap of a handle that nobody has");
    if (offset || flags || bytes != p->bytes || at % PAGE)
        return fake_wrong("cuMemMap of a part of memory, or not at a page");
    if (range_around(at, bytes) == MR_NONE) return fake_wrong("cuMemMap outside of a range");
    if (!is_free(at, bytes)) return fake_wrong("cuMemMap where memory is mapped already");
    if (!add_piece(&(piece){at, bytes, handle, false, false, p->device}))
        return MR_CUDA_NO_MEMORY;
    p->mappings++;
    fake_hold(1);
    return 0;
}

mr_cuda_result cuMemSetAccess(mr_cuda_pointer at, size_t bytes, const mr_cuda_access *access,
                              size_t n);
mr_cuda_result cuMemSetAccess(mr_cuda_pointer at, size_t bytes, const mr_cuda_access *access,
                              size_t n)
{
    FAKE_CALL failed = fake_begin(__func__);
    if (failed) return failed;
    if (n != 1 || access->flags != MR_CUDA_READ_WRITE
        || access->location.type != MR_CUDA_ON_DEVICE || !bytes)
        return fake_wrong("cuMemSetAccess to something else than reading and writing");
    for (const uint64_t end = at + bytes; at < end;) {
        const uint32_t i = below(at);
        piece *p = i ? &memory.piece[i - 1] : NULL;
        if (!p || p->at != at || !p->handle || at + p->bytes > end)
            return fake_wrong("cuMemSetAccess where not all is mapped");
        if (p->device != access->location.id)
            return fake_wrong("cuMemSetAccess for a device that has other memory");
        const off_t offset = (off_t)find(p->handle)->offset;
        if (mmap((void *)at, p->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                 memory.file - 1, offset)
            == MAP_FAILED)
            return fake_wrong("the host has no room for the fake");
        p->open = true;
        at += p->bytes;
    }
    return 0;
}

mr_cuda_result cuMemUnmap(mr_cuda_pointer at, size_t bytes);
mr_cuda_result cuMemUnmap(mr_cuda_pointer at, size_t bytes)
{
    FAKE_CALL failed = fake_begin(__func__);
    for (const uint64_t end = at + bytes; at < end;) {
        const uint32_t i = below(at);
        if (!i || memory.piece[i - 1].at != at || !memory.piece[i - 1].handle
            || at + memory.piece[i - 1].bytes > end)
            return fake_wrong("cuMemUnmap of something else than whole mappings");
        const piece p = memory.piece[i - 1];
        mmap((void *)at, p.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        remove_piece(i - 1);
        find(p.handle)->mappings--;
        fake_hold(-1);
        reap(find(p.handle));
        at += p.bytes;
    }
    return failed;
}

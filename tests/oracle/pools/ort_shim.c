/* ort_shim -- the memory that ONNX Runtime's arena gets; loaded before the C library.
 *
 * While it is armed, aligned memory comes from a reservation of its own: addresses go upwards,
 * nobody has one twice, and segments are numbered and printed as pool_script.py says.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST = 4096, PAGE = 2 << 20 };
static struct {
    char *at;
    size_t bytes;
} segments[MOST];
static int armed, n;
static char *base, *next;
static size_t room;

void shim_begin(size_t capacity)
{
    room = capacity;
    base = next = mmap(NULL, (size_t)1 << 44, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

void shim_arm(int on)
{
    armed = on;
}

/* "SEGMENT OFFSET" of an address. */
void shim_place(const char *address, char *text, size_t size)
{
    for (int i = 0; i < n; i++)
        if (address >= segments[i].at && address < segments[i].at + segments[i].bytes)
            snprintf(text, size, "%d %zu", i, (size_t)(address - segments[i].at));
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    static void *(*real)(size_t, size_t);
    if (!real) real = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "aligned_alloc");
    if (!armed || bytes < 256) return real(alignment, bytes);
    if (bytes > room || n == MOST) return NULL;
    room -= bytes;
    segments[n].at = next;
    segments[n].bytes = bytes;
    dprintf(STDOUT_FILENO, "R %d %zu\n", n++, bytes);
    char *at = next;
    next += (bytes + PAGE - 1) / PAGE * PAGE;
    return at;
}

void free(void *address)
{
    static void (*real)(void *);
    if (!real) real = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    const char *at = address;
    if (!base || at < base || at >= next) {
        real(address);
        return;
    }
    for (int i = 0; i < n; i++) {
        if (segments[i].at != at) continue;
        madvise(address, segments[i].bytes, MADV_DONTNEED);
        room += segments[i].bytes;
        dprintf(STDOUT_FILENO, "X %d\n", i);
    }
}

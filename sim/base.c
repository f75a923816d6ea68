/* base -- the arena, growing arrays, failures.
 *
 * The first chunk is small, later ones are huge pages where the system has them: a page that
 * is touched for the first time costs as much as reading a few hundred values, and a huge one
 * stands for 512 of them.
 */
#define _DEFAULT_SOURCE /* madvise */
#include "base.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE ((size_t)1 << 21)
#define CHUNK (HUGE / 8) /* what the first small allocations are carved from */
#define LARGE (HUGE / 2) /* from here on an allocation has a chunk of its own */
#define ALIGN _Alignof(max_align_t)

struct mr_chunk {
    mr_chunk *older, *newer;
    size_t used, size; /* of data, in bytes */
    _Alignas(max_align_t) unsigned char data[];
};

int mr_status_exit(mr_status status)
{
    static const int exits[] = {
#define X(name, exit_code, text) exit_code,
        MR_STATUS_LIST(X)
#undef X
    };
    return exits[status];
}

/* The one place below bench/ that speaks, and ends the program: the host itself has no memory
 * left, so nothing is built and nobody is called who might need some. */
static void *or_end(void *memory)
{
    static const char sentence[] = "memreuse: this machine has no memory left for the work, or "
                                   "the process may not have it\n";
    if (memory) return memory;
    const ssize_t said = write(STDERR_FILENO, sentence, sizeof sentence - 1);
    (void)said; /* there is nobody else to tell */
    _exit(EXIT_FAILURE);
}

static mr_chunk *link_chunk(mr_ctx *ctx, mr_chunk *chunk, size_t size)
{
    *chunk = (mr_chunk){.older = ctx->chunk, .size = size};
    if (ctx->chunk) ctx->chunk->newer = chunk;
    ctx->chunk = chunk;
    return chunk;
}

/* As good without, where the system has no huge pages. */
static void *in_huge_pages(void *memory, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    const uintptr_t at = (uintptr_t)memory, from = (at + HUGE - 1) / HUGE * HUGE;
    const uintptr_t to = (at + bytes) / HUGE * HUGE;
    if (from < to) madvise((unsigned char *)memory + (from - at), to - from, MADV_HUGEPAGE);
#else
    (void)bytes;
#endif
    return memory;
}

static mr_chunk *new_chunk(mr_ctx *ctx, size_t size, bool zeroed)
{
    if (size > SIZE_MAX - sizeof(mr_chunk)) or_end(NULL);
    const size_t bytes = sizeof(mr_chunk) + size;
    void *memory = or_end(zeroed ? calloc(1, bytes) : malloc(bytes));
    return link_chunk(ctx, in_huge_pages(memory, bytes), size);
}

static mr_chunk *new_huge(mr_ctx *ctx)
{
    void *memory = NULL;
    if (posix_memalign(&memory, HUGE, HUGE)) or_end(NULL);
    return link_chunk(ctx, in_huge_pages(memory, HUGE), HUGE - sizeof(mr_chunk));
}

/* A chunk for one large array goes behind the newest, which still has room for small ones. */
static mr_chunk *new_large(mr_ctx *ctx, size_t size, bool zeroed)
{
    mr_chunk *open = ctx->chunk;
    mr_chunk *large = new_chunk(ctx, size, zeroed);
    large->used = size;
    if (!open || open->used == open->size) return large;
    ctx->chunk = open;
    large->older = open->older;
    if (large->older) large->older->newer = large;
    large->newer = open;
    open->older = large;
    open->newer = NULL;
    return large;
}

static void *take(mr_ctx *ctx, size_t bytes, bool zeroed)
{
    if (bytes > SIZE_MAX - ALIGN) or_end(NULL);
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (bytes >= LARGE) return new_large(ctx, bytes, zeroed)->data;
    mr_chunk *chunk = ctx->chunk;
    if (!chunk && bytes <= CHUNK) chunk = new_chunk(ctx, CHUNK, false);
    if (!chunk || chunk->size - chunk->used < bytes) chunk = new_huge(ctx);
    void *memory = chunk->data + chunk->used;
    chunk->used += bytes;
    return zeroed ? memset(memory, 0, bytes) : memory;
}

void *mr_alloc(mr_ctx *ctx, size_t bytes)
{
    return take(ctx, bytes, true);
}

void *mr_alloc_n(mr_ctx *ctx, size_t n, size_t size)
{
    if (size && n > SIZE_MAX / size) or_end(NULL);
    return mr_alloc(ctx, n * size);
}

static void *grow_large(mr_ctx *ctx, void *at, size_t bytes)
{
    mr_chunk *chunk = (mr_chunk *)(void *)((unsigned char *)at - offsetof(mr_chunk, data));
    chunk = or_end(realloc(chunk, sizeof(mr_chunk) + bytes));
    in_huge_pages(chunk, sizeof(mr_chunk) + bytes);
    chunk->used = chunk->size = bytes;
    if (chunk->older) chunk->older->newer = chunk;
    if (chunk->newer) chunk->newer->older = chunk;
    else ctx->chunk = chunk;
    return chunk->data;
}

void *mr_grow(mr_ctx *ctx, void *at, uint32_t *cap, uint32_t want, size_t size)
{
    uint32_t room = *cap < 8 ? 8 : *cap;
    while (room < want) room = room > UINT32_MAX / 2 ? UINT32_MAX : room * 2;
    if (room == *cap || room > SIZE_MAX / 2 / size) or_end(NULL);
    const size_t old = (*cap * size + ALIGN - 1) / ALIGN * ALIGN;
    const size_t bytes = (room * size + ALIGN - 1) / ALIGN * ALIGN;
    *cap = room;
    if (at && old >= LARGE) return grow_large(ctx, at, bytes);
    void *copy = take(ctx, bytes, false);
    if (at) memcpy(copy, at, old);
    return copy;
}

void mr_ctx_clear(mr_ctx *ctx)
{
    for (mr_chunk *chunk = ctx->chunk, *older; chunk; chunk = older) {
        older = chunk->older;
        free(chunk);
    }
    ctx->chunk = NULL;
}

char *mr_strndup(mr_ctx *ctx, const char *text, size_t n)
{
    char *copy = mr_alloc(ctx, n + 1);
    memcpy(copy, text, n);
    return copy;
}

uint32_t *mr_none_of(mr_ctx *ctx, uint32_t n)
{
    uint32_t *at = MR_NEW_N(ctx, uint32_t, n);
    memset(at, 0xff, n * sizeof *at);
    return at;
}

char *mr_strdup(mr_ctx *ctx, const char *text)
{
    return mr_strndup(ctx, text, strlen(text));
}

char *mr_printf(mr_ctx *ctx, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0) or_end(NULL);
    char *text = mr_alloc(ctx, (size_t)n + 1);
    vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    return text;
}

const char *mr_show_count(mr_ctx *ctx, uint64_t n, const char *one, const char *many)
{
    return mr_printf(ctx, "%" PRIu64 " %s", n, n == 1 ? one : many);
}

size_t mr_utf8_length(const char *text)
{
    static const struct {
        unsigned char mask, begin, low, high; /* of the first byte; limits of the second */
        size_t n;
    } kinds[] = {{0x80, 0x00, 0x00, 0xff, 1}, {0xe0, 0xc0, 0x80, 0xbf, 2},
                 {0xff, 0xe0, 0xa0, 0xbf, 3}, {0xff, 0xed, 0x80, 0x9f, 3},
                 {0xf0, 0xe0, 0x80, 0xbf, 3}, {0xff, 0xf0, 0x90, 0xbf, 4},
                 {0xff, 0xf4, 0x80, 0x8f, 4}, {0xfc, 0xf0, 0x80, 0xbf, 4}};
    const unsigned char *c = (const unsigned char *)text;
    size_t k = 0, n = 1;
    while (k < MR_COUNT(kinds) && (c[0] & kinds[k].mask) != kinds[k].begin) k++;
    if (k == MR_COUNT(kinds) || c[0] == 0xc0 || c[0] == 0xc1) return 0;
    if (kinds[k].n > 1 && (c[1] < kinds[k].low || c[1] > kinds[k].high)) return 0;
    while (n < kinds[k].n && (c[n] & 0xc0) == 0x80) n++;
    return n == kinds[k].n ? n : 0;
}

/* Those that terminals obey; U+0080 to U+009F are such too. */
static bool is_control(const unsigned char *c)
{
    return c[0] < ' ' || c[0] == 127 || (c[0] == 0xc2 && c[1] < 0xa0);
}

void mr_tame(char *text, const char *kept)
{
    while (*text) {
        const size_t n = mr_utf8_length(text);
        const bool good = n && !is_control((const unsigned char *)text);
        if (good || strchr(kept, *text)) text += n;
        else *text++ = '?';
    }
}

static void record(mr_ctx *ctx, mr_status status, const char *where, const char *format,
                   va_list args)
{
    mr_failure *failure = &ctx->failure;
    char text[sizeof failure->text];
    vsnprintf(text, sizeof text, format, args); /* args may point into the old failure */
    char place[sizeof failure->where];
    snprintf(place, sizeof place, "%s", where);
    mr_tame(text, "");
    mr_tame(place, "");
    *failure = (mr_failure){.status = status};
    memcpy(failure->text, text, sizeof text);
    memcpy(failure->where, place, sizeof place);
}

mr_status mr_fail(mr_ctx *ctx, mr_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    record(ctx, status, "", format, args);
    va_end(args);
    return status;
}

mr_status mr_fail_at(mr_ctx *ctx, mr_status status, const char *where, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    record(ctx, status, where, format, args);
    va_end(args);
    return status;
}

void mr_progress(mr_ctx *ctx, const char *what, double part)
{
    if (ctx->progress) ctx->progress(ctx->watcher, what, part);
}

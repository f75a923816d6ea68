/* source -- a window onto the bytes of a file, decompressed on the way.
 *
 *     file ─► input ─► zlib or zstd ─► [ taken | at ....have.... | room ] ─► the reader
 *     raw file ───────────────────────►
 *
 * The window is twice as long as anybody may ask for, so what is left of it is moved to its
 * beginning only after at least as much was taken: the cost per byte is constant.  Readers who
 * ask for little only ever touch the beginning of it.
 */
#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#define HEAD ((size_t)1 << 12)   /* enough to tell the packing */
#define INPUT ((size_t)1 << 18)  /* compressed bytes held at a time */
#define STEP ((size_t)1 << 16)   /* as much as stays in a cache while it is read */
#define RATIO_FREE (64 * MR_MIB) /* nobody is harmed by this much, whatever the ratio */

typedef enum packing { RAW, GZIP, ZSTD } packing;

struct mr_source {
    mr_ctx *ctx;
    const char *name;

    const unsigned char *at; /* in the window, or in the caller's memory */
    size_t have;             /* bytes from there on */
    bool ended;              /* no more will come behind them */
    unsigned char *window;
    uint32_t size; /* of the window */
    uint64_t offset; /* bytes taken */
    uint64_t made;   /* bytes that ever came into the window */

    int fd; /* -1 for memory */
    packing packing;
    const unsigned char *in; /* compressed bytes not yet decoded */
    size_t in_have;
    bool in_ended;
    unsigned char *input;
    uint64_t in_read; /* bytes that ever came from the file, */
    uint64_t in_size; /* of so many; 0 when unknown */
    bool between;     /* two members of a gzip file, or at its start */
    z_stream gzip;
    ZSTD_DStream *zstd;

    mr_status status;
    mr_failure failure;
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static uint64_t in_offset(const mr_source *source)
{
    return source->in_read - source->in_have;
}

/* Remembers what went wrong for mr_source_status; the bytes before stay readable. */
static void broken(mr_source *source, mr_status status, const char *text)
{
    source->status = status;
    source->ended = true;
    snprintf(source->failure.text, sizeof source->failure.text, "%s", text);
    snprintf(source->failure.where, sizeof source->failure.where, "%s: byte %" PRIu64,
             source->name, in_offset(source));
}

/* ---- input: the file as it is on disk ---------------------------------------------------- */

/* Reads up to n bytes; 0 at the end and after an error. */
static size_t read_some(mr_source *source, unsigned char *to, size_t n)
{
    ssize_t got;
    do got = read(source->fd, to, n);
    while (got < 0 && errno == EINTR);
    if (got < 0) {
        broken(source, MR_EIO, strerror(errno));
        return 0;
    }
    source->in_read += (uint64_t)got;
    return (size_t)got;
}

/* Makes sure of at least `want` bytes of the file unless it ends; holds no more than `most`. */
static void refill(mr_source *source, size_t want, size_t most)
{
    while (source->in_have < want && !source->in_ended) {
        memmove(source->input, source->in, source->in_have);
        source->in = source->input;
        const size_t got =
            read_some(source, source->input + source->in_have, most - source->in_have);
        source->in_have += got;
        source->in_ended = !got;
    }
}

static packing told_by(const unsigned char *head, size_t n)
{
    if (n >= 3 && head[0] == 0x1f && head[1] == 0x8b && head[2] == 8) return GZIP;
    if (n < 4) return RAW;
    const bool frame = !memcmp(head, "\x28\xb5\x2f\xfd", 4);
    const bool skippable = (head[0] & 0xf0) == 0x50 && !memcmp(head + 1, "\x2a\x4d\x18", 3);
    return frame || skippable ? ZSTD : RAW;
}

/* ---- the window -------------------------------------------------------------------------- */

static voidpf gzip_alloc(voidpf ctx, uInt n, uInt size)
{
    return mr_alloc_n(ctx, n, size);
}

static void gzip_free(voidpf ctx, voidpf memory)
{
    (void)ctx, (void)memory; /* the arena's */
}

/* Decodes into [to, to + room); returns how much.  0 is the end or a failure. */
static size_t gunzip(mr_source *source, unsigned char *to, size_t room)
{
    z_stream *z = &source->gzip;
    z->next_out = to;
    z->avail_out = (uInt)room;
    while (z->avail_out == room && !source->ended) {
        refill(source, source->between ? 3 : 1, INPUT);
        if (source->status) break;
        if (source->between) {
            if (!source->in_have) source->ended = true;
            else if (told_by(source->in, source->in_have) != GZIP && z->total_in)
                broken(source, MR_EINPUT,
                       "bytes follow the gzip data that are not gzip, expected the end");
            else if (inflateReset(z) == Z_OK) source->between = false;
            continue;
        }
        z->next_in = (z_const Bytef *)(uintptr_t)source->in;
        z->avail_in = (uInt)source->in_have;
        const int result = inflate(z, Z_NO_FLUSH);
        source->in = z->next_in;
        source->in_have = z->avail_in;
        if (result == Z_STREAM_END) source->between = true;
        else if (result == Z_BUF_ERROR && !source->in_have && source->in_ended)
            broken(source, MR_EINPUT, "the gzip data ends too early: the file is cut off");
        else if (result != Z_OK && result != Z_BUF_ERROR)
            broken(source, MR_EINPUT, "the gzip data is damaged");
    }
    return room - z->avail_out;
}

static size_t unzstd(mr_source *source, unsigned char *to, size_t room)
{
    ZSTD_outBuffer out = {to, room, 0};
    while (!out.pos && !source->ended) {
        refill(source, 1, INPUT);
        if (source->status) break;
        if (!source->in_have && source->between) {
            source->ended = true;
            break;
        }
        ZSTD_inBuffer in = {source->in, source->in_have, 0};
        const size_t result = ZSTD_decompressStream(source->zstd, &out, &in);
        const bool stuck = !in.pos && !out.pos;
        source->in += in.pos;
        source->in_have -= in.pos;
        if (ZSTD_isError(result))
            broken(source, MR_EINPUT,
                   mr_printf(source->ctx, "the zstd data is damaged (%s)",
                             ZSTD_getErrorName(result)));
        else if (stuck && source->in_ended)
            broken(source, MR_EINPUT, "the zstd data ends too early: the file is cut off");
        else source->between = !result;
    }
    return out.pos;
}

static size_t unpack(mr_source *source, unsigned char *to, size_t room)
{
    if (source->packing == GZIP) return gunzip(source, to, room);
    if (source->packing == ZSTD) return unzstd(source, to, room);
    const size_t got = read_some(source, to, room);
    if (!got) source->ended = true;
    return got;
}

static void fill(mr_source *source, size_t want)
{
    while (source->have < want && !source->ended) {
        size_t begin = (size_t)(source->at - source->window);
        const bool cheap = begin >= STEP && source->have <= begin;
        if (begin + want > source->size || cheap) {
            memmove(source->window, source->at, source->have);
            source->at = source->window;
            begin = 0;
        }
        const size_t used = begin + source->have;
        const size_t room = source->size - used;
        const bool little = want <= STEP && room > STEP;
        const size_t got = unpack(source, source->window + used, little ? STEP : room);
        source->have += got;
        source->made += got;
        if (source->packing != RAW && source->made > RATIO_FREE
            && source->made / MR_SOURCE_RATIO_MAX > in_offset(source))
            broken(source, MR_EINPUT,
                   mr_printf(source->ctx,
                             "more than %d bytes come out of each compressed one,"
                             " expected a recording",
                             MR_SOURCE_RATIO_MAX));
    }
}

/* ---- the interface ----------------------------------------------------------------------- */

static mr_source *new_source(mr_ctx *ctx, const char *name)
{
    mr_source *source = MR_NEW(ctx, mr_source);
    *source = (mr_source){.ctx = ctx, .name = mr_strdup(ctx, name), .fd = -1, .between = true};
    return source;
}

static mr_status start_decoder(mr_source *source)
{
    mr_ctx *ctx = source->ctx;
    if (source->packing == GZIP) {
        source->gzip = (z_stream){.zalloc = gzip_alloc, .zfree = gzip_free, .opaque = ctx};
        const int header_and_largest_window = 16 + MAX_WBITS;
        if (inflateInit2(&source->gzip, header_and_largest_window) != Z_OK)
            return mr_fail_at(ctx, MR_EIO, source->name, "zlib could not be started");
    }
    if (source->packing == ZSTD && !(source->zstd = ZSTD_createDStream()))
        return mr_fail_at(ctx, MR_EIO, source->name, "zstd could not be started");
    return MR_OK;
}

/* Text from some editors begins with a mark that says how it is encoded. */
static mr_status pass_mark(mr_source *source)
{
    size_t have;
    const unsigned char *head = mr_source_peek(source, 3, &have);
    if (have >= 2 && (!memcmp(head, "\xff\xfe", 2) || !memcmp(head, "\xfe\xff", 2)))
        return mr_fail_at(source->ctx, MR_EINPUT, source->name,
                          "the file is text in UTF-16, expected UTF-8");
    if (have >= 3 && !memcmp(head, "\xef\xbb\xbf", 3)) mr_source_take(source, 3);
    return MR_OK;
}

/* Tells the packing, with the first bytes in `in`, and makes the window. */
static mr_status begin(mr_source *source)
{
    source->packing = told_by(source->in, source->in_have);
    if (source->packing == RAW && source->fd < 0) {
        source->at = source->in;
        source->have = source->in_have;
        source->in_have = 0;
        source->ended = true;
    } else {
        source->window = mr_grow(source->ctx, NULL, &source->size, 2 * MR_SOURCE_WINDOW, 1);
        source->at = source->window;
        if (source->packing == RAW) {
            memcpy(source->window, source->in, source->in_have);
            source->have = source->in_have;
            source->in_have = 0;
        }
        MR_TRY(start_decoder(source));
    }
    size_t have;
    MR_TRY(pass_mark(source));
    mr_source_peek(source, 1, &have);
    MR_TRY(mr_source_status(source));
    if (!have)
        return mr_fail_at(source->ctx, MR_EIO, source->name,
                          "the file is empty, expected a recording");
    return MR_OK;
}

static mr_status opened(mr_source *source, const char *path)
{
    mr_ctx *ctx = source->ctx;
    struct stat about;
    if (source->fd < 0 || fstat(source->fd, &about) < 0)
        return mr_fail_at(ctx, MR_EIO, path, "cannot be opened: %s", strerror(errno));
    if (S_ISDIR(about.st_mode))
        return mr_fail_at(ctx, MR_EIO, path, "is a folder, expected a file");
    if (S_ISREG(about.st_mode)) source->in_size = (uint64_t)about.st_size;
    uint32_t room = 0;
    source->input = mr_grow(ctx, NULL, &room, INPUT, 1); /* not touched where not needed */
    source->in = source->input;
    refill(source, 4, HEAD);
    return begin(source);
}

mr_status mr_source_open(mr_ctx *ctx, const char *path, mr_source **out)
{
    const bool standard = !strcmp(path, "-");
    mr_source *source = new_source(ctx, standard ? "standard input" : base_name(path));
    source->fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    const mr_status status = opened(source, path);
    if (status) mr_source_close(source);
    else *out = source;
    return status;
}

mr_status mr_source_memory(mr_ctx *ctx, const char *name, const void *data, size_t n,
                           mr_source **out)
{
    mr_source *source = new_source(ctx, name);
    source->in = data;
    source->in_have = n;
    source->in_read = source->in_size = n;
    source->in_ended = true;
    const mr_status status = begin(source);
    if (status) mr_source_close(source);
    else *out = source;
    return status;
}

void mr_source_close(mr_source *source)
{
    ZSTD_freeDStream(source->zstd);
    source->zstd = NULL;
    if (source->fd > STDIN_FILENO) close(source->fd);
    source->fd = -1;
    source->have = 0;
    source->ended = true;
}

mr_status mr_source_blame(mr_ctx *ctx, const char *path, mr_status status)
{
    const char *name = base_name(path);
    const size_t n = strlen(name);
    const mr_failure *failure = &ctx->failure;
    const bool named = status && !failure->width && strncmp(failure->where, name, n) == 0
                       && (failure->where[n] == ':' || !failure->where[n]);
    if (!named || name == path) return status;
    const char *where = mr_printf(ctx, "%s%s", path, failure->where + n);
    return mr_fail_at(ctx, failure->status, where, "%s", failure->text);
}

const char *mr_source_name(const mr_source *source)
{
    return source->name;
}

const unsigned char *mr_source_peek(mr_source *source, size_t want, size_t *have)
{
    if (source->have < want) fill(source, want);
    *have = source->have;
    return source->at;
}

void mr_source_take(mr_source *source, size_t n)
{
    source->at += n;
    source->have -= n;
    source->offset += n;
}

uint64_t mr_source_offset(const mr_source *source)
{
    return source->offset;
}

double mr_source_part(const mr_source *source)
{
    if (!source->in_size) return 0;
    const uint64_t waiting = source->packing == RAW ? source->have : source->in_have;
    const double part = (double)(source->in_read - waiting) / (double)source->in_size;
    return part < 1 ? part : 1; /* the file may have grown since it was opened */
}

mr_status mr_source_status(mr_source *source)
{
    if (!source->status) return MR_OK;
    return mr_fail_at(source->ctx, source->status, source->failure.where, "%s",
                      source->failure.text);
}

/* sink -- bytes on their way to a file: gathered, compressed, written aside, then renamed.
 *
 * Where the system has files without a name, what is written aside gets one only when it is
 * whole: a program that is ended meanwhile, by whatever signal, leaves nothing behind.
 */
#define _GNU_SOURCE /* O_TMPFILE */
#include "sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#define BUFFER ((size_t)1 << 18)
#define TRIES 100 /* names tried for the file written aside */

typedef enum packing { RAW, GZIP, ZSTD } packing;

struct mr_sink {
    mr_ctx *ctx;
    const char *path;  /* as the user wrote it */
    const char *aside; /* renamed to path at the end; NULL when it is written directly */
    int fd;
    bool nameless; /* `aside` is the name it gets at the end */
    bool for_people;
    int problem; /* errno of the first write that failed */
    packing packing;
    unsigned char *gathered; /* not yet compressed or written */
    size_t n;
    unsigned char *packed;
    z_stream gzip;
    ZSTD_CStream *zstd;
};

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

static voidpf gzip_alloc(voidpf ctx, uInt n, uInt size)
{
    return mr_alloc_n(ctx, n, size);
}

static void gzip_free(voidpf ctx, voidpf memory)
{
    (void)ctx, (void)memory; /* the arena's */
}

static bool start_packing(mr_sink *sink)
{
    if (ends_with(sink->path, ".gz")) sink->packing = GZIP;
    if (ends_with(sink->path, ".zst")) sink->packing = ZSTD;
    if (sink->packing != RAW) sink->packed = MR_NEW_N(sink->ctx, unsigned char, BUFFER);
    if (sink->packing == ZSTD) return (sink->zstd = ZSTD_createCStream()) != NULL;
    if (sink->packing == RAW) return true;
    sink->gzip = (z_stream){.zalloc = gzip_alloc, .zfree = gzip_free, .opaque = sink->ctx};
    const int with_gzip_header = 16 + MAX_WBITS, usual_memory = 8;
    return deflateInit2(&sink->gzip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, with_gzip_header,
                        usual_memory, Z_DEFAULT_STRATEGY) == Z_OK;
}

static const char *name_aside(mr_sink *sink, int i)
{
    return mr_printf(sink->ctx, "%s.%ld-%d.part", sink->path, (long)getpid(), i);
}

static const char *name_open(mr_sink *sink)
{
    return mr_printf(sink->ctx, "/proc/self/fd/%d", sink->fd);
}

/* -1 where there are no such files, or no way to give them a name later. */
static int open_nameless(mr_sink *sink)
{
#ifdef O_TMPFILE
    const char *slash = strrchr(sink->path, '/');
    const size_t n = slash ? (size_t)(slash - sink->path) + 1 : 0;
    const char *folder = n ? mr_strndup(sink->ctx, sink->path, n) : ".";
    sink->fd = open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
    if (sink->fd >= 0 && !access(name_open(sink), F_OK)) return sink->fd;
    if (sink->fd >= 0) close(sink->fd);
#endif
    return -1;
}

/* What is no plain file, such as /dev/null or a pipe, cannot be replaced by renaming. */
static int open_aside(mr_sink *sink)
{
    struct stat about;
    if (!stat(sink->path, &about) && !S_ISREG(about.st_mode))
        return open(sink->path, O_WRONLY | O_CLOEXEC);
    const int nameless = open_nameless(sink);
    sink->nameless = nameless >= 0;
    if (sink->nameless) return nameless;
    for (int i = 0; i < TRIES; i++) {
        sink->aside = name_aside(sink, i);
        const int fd = open(sink->aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

mr_status mr_sink_open(mr_ctx *ctx, const char *path, mr_sink **out)
{
    mr_sink *sink = MR_NEW(ctx, mr_sink);
    *sink = (mr_sink){.ctx = ctx, .path = mr_strdup(ctx, path)};
    sink->gathered = MR_NEW_N(ctx, unsigned char, BUFFER);
    sink->fd = !strcmp(path, "-") ? STDOUT_FILENO : open_aside(sink);
    if (sink->fd < 0)
        return mr_fail_at(ctx, MR_EIO, path, "cannot be written: %s", strerror(errno));
    if (!start_packing(sink)) {
        mr_sink_abandon(sink);
        return mr_fail_at(ctx, MR_EIO, path, "compression could not be started");
    }
    *out = sink;
    return MR_OK;
}

static void put(mr_sink *sink, const unsigned char *data, size_t n)
{
    while (n && !sink->problem) {
        const ssize_t done = write(sink->fd, data, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) sink->problem = errno;
        else data += done, n -= (size_t)done;
    }
}

static void pack_gzip(mr_sink *sink, bool last)
{
    z_stream *z = &sink->gzip;
    z->next_in = sink->gathered;
    z->avail_in = (uInt)sink->n;
    do {
        z->next_out = sink->packed;
        z->avail_out = (uInt)BUFFER;
        deflate(z, last ? Z_FINISH : Z_NO_FLUSH);
        put(sink, sink->packed, BUFFER - z->avail_out);
    } while (!z->avail_out);
}

static void pack_zstd(mr_sink *sink, bool last)
{
    ZSTD_inBuffer in = {sink->gathered, sink->n, 0};
    size_t left;
    do {
        ZSTD_outBuffer out = {sink->packed, BUFFER, 0};
        left = ZSTD_compressStream2(sink->zstd, &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
        if (ZSTD_isError(left)) {
            sink->problem = EIO;
            return;
        }
        put(sink, sink->packed, out.pos);
    } while (last ? left != 0 : in.pos < in.size);
}

static void pass_on(mr_sink *sink, bool last)
{
    if (sink->packing == GZIP) pack_gzip(sink, last);
    else if (sink->packing == ZSTD) pack_zstd(sink, last);
    else put(sink, sink->gathered, sink->n);
    sink->n = 0;
}

void mr_sink_for_people(mr_sink *sink)
{
    sink->for_people = true;
}

static const void *tamed(mr_sink *sink, const char *text, size_t n)
{
    size_t plain = 0;
    while (plain < n && text[plain] < 127 && (text[plain] >= ' ' || text[plain] == '\n')) plain++;
    if (plain == n) return text;
    char *copy = mr_strndup(sink->ctx, text, n);
    mr_tame(copy, "\n");
    return copy;
}

void mr_sink_write(mr_sink *sink, const void *data, size_t n)
{
    const unsigned char *from = sink->for_people ? tamed(sink, data, n) : data;
    while (n) {
        const size_t room = BUFFER - sink->n, part = n < room ? n : room;
        memcpy(sink->gathered + sink->n, from, part);
        sink->n += part;
        from += part;
        n -= part;
        if (sink->n == BUFFER) pass_on(sink, false);
    }
}

void mr_sink_print(mr_sink *sink, const char *format, ...)
{
    char small[512], *text = small;
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int n = vsnprintf(small, sizeof small, format, args);
    va_end(args);
    if (n >= (int)sizeof small) {
        text = mr_alloc(sink->ctx, (size_t)n + 1);
        vsnprintf(text, (size_t)n + 1, format, again);
    }
    va_end(again);
    if (n > 0) mr_sink_write(sink, text, (size_t)n);
}

static void close_sink(mr_sink *sink)
{
    ZSTD_freeCStream(sink->zstd);
    sink->zstd = NULL;
    if (sink->fd > STDERR_FILENO && close(sink->fd) < 0 && !sink->problem)
        sink->problem = errno;
    sink->fd = -1;
}

/* Only a moment before it is renamed: a name cannot be given in place of another file's. */
static void give_name(mr_sink *sink)
{
    int failed = -1;
    for (int i = 0; i < TRIES && failed; i++) {
        const char *name = name_aside(sink, i);
        failed = linkat(AT_FDCWD, name_open(sink), AT_FDCWD, name, AT_SYMLINK_FOLLOW);
        if (!failed) sink->aside = name;
        else if (errno != EEXIST) break;
    }
    if (failed) sink->problem = errno;
}

mr_status mr_sink_commit(mr_sink *sink)
{
    pass_on(sink, true);
    if (sink->nameless && !sink->problem) give_name(sink);
    close_sink(sink);
    if (!sink->problem && sink->aside && rename(sink->aside, sink->path) < 0)
        sink->problem = errno;
    if (!sink->problem) return MR_OK;
    if (sink->aside) unlink(sink->aside);
    const char *where = strcmp(sink->path, "-") ? sink->path : "standard output";
    return mr_fail_at(sink->ctx, MR_EIO, where, "cannot be written: %s",
                      strerror(sink->problem));
}

void mr_sink_abandon(mr_sink *sink)
{
    close_sink(sink);
    if (sink->aside) unlink(sink->aside);
}

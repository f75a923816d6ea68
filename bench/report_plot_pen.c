/* pen -- gnuplot, and the files of plots/ that are built into this program. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plot.h"

/* bench/embed.cmake makes each of plots/<name>.gp an array. */
#define SCRIPTS(X)                                                                             \
    X(style, "style")                                                                          \
    X(timeline, "timeline") X(address_space, "address-space") X(peaks, "peaks")               \
    X(trade_off, "trade-off") X(bars, "bars") X(map, "map")                                    \
    X(overhead, "overhead")

#define X(symbol, name)                                                                        \
    extern const unsigned char mr_gp_##symbol[];                                               \
    extern const unsigned long mr_gp_##symbol##_size;
SCRIPTS(X)
#undef X

extern char **environ;

struct mr_pen {
    mr_ctx *ctx;
    const char *folder;   /* the scripts are unpacked there */
    const char *messages; /* what gnuplot says goes into this file */
};

static mr_status unpack(mr_pen *pen, const char *name, const unsigned char *bytes,
                        unsigned long n)
{
    mr_sink *sink;
    MR_TRY(mr_sink_open(pen->ctx, mr_printf(pen->ctx, "%s/%s.gp", pen->folder, name), &sink));
    mr_sink_write(sink, bytes, n);
    return mr_sink_commit(sink);
}

mr_status mr_pen_new(mr_ctx *ctx, mr_pen **out)
{
    const char *place = getenv("TMPDIR");
    char *folder = mr_printf(ctx, "%s/memreuse-XXXXXX", place && *place ? place : "/tmp");
    if (!mkdtemp(folder))
        return mr_fail(ctx, MR_EIO, "the folder '%s' could not be made: %s", folder,
                       strerror(errno));
    mr_pen *pen = *out = MR_NEW(ctx, mr_pen);
    *pen = (mr_pen){ctx, folder, mr_printf(ctx, "%s/messages", folder)};
#define X(symbol, name) MR_TRY(unpack(pen, name, mr_gp_##symbol, mr_gp_##symbol##_size));
    SCRIPTS(X)
#undef X
    return MR_OK;
}

void mr_pen_drop(mr_pen *pen)
{
#define X(symbol, name) unlink(mr_printf(pen->ctx, "%s/%s.gp", pen->folder, name));
    SCRIPTS(X)
#undef X
    unlink(pen->messages);
    rmdir(pen->folder);
}

/* ---- gnuplot ---------------------------------------------------------------------------- */

static mr_status missing(mr_ctx *ctx, const char *data)
{
    return mr_fail(
        ctx, MR_EIO,
        "gnuplot is needed to draw and is not installed (Debian, Ubuntu: apt install "
        "gnuplot-nox; Fedora: dnf install gnuplot; macOS: brew install gnuplot); what "
        "it would draw is in '%s'",
        data);
}

static const char *first_message(const mr_pen *pen)
{
    char text[256] = "";
    const int fd = open(pen->messages, O_RDONLY);
    const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *line = text + strspn(text, "\n ");
    return *line ? mr_strndup(pen->ctx, line, strcspn(line, "\n")) : "it says nothing";
}

/* Ctrl-C, which this program lets wait, ends gnuplot at once. */
static int open_to_signals(posix_spawnattr_t *attributes)
{
    sigset_t none;
    sigemptyset(&none);
    const int failed = posix_spawnattr_setsigmask(attributes, &none);
    return failed ? failed : posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK);
}

/* Not a shell: names of files are passed on as they are. */
static int start(const mr_pen *pen, char *const argv[], pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    if (posix_spawnattr_init(&attributes)) return ENOMEM;
    if (posix_spawn_file_actions_init(&files)) {
        posix_spawnattr_destroy(&attributes);
        return ENOMEM;
    }
    int failed = open_to_signals(&attributes);
    if (!failed)
        failed = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    if (!failed)
        failed = posix_spawn_file_actions_addopen(&files, 2, pen->messages,
                                                  O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (!failed) failed = posix_spawn_file_actions_adddup2(&files, 2, 1);
    if (!failed) failed = posix_spawnp(pid, argv[0], &files, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    return failed;
}

static mr_status finish(const mr_pen *pen, pid_t pid, const char *data, const char *out)
{
    enum { NOT_FOUND = 127 }; /* what the child says where the parent cannot know */
    int state;
    while (waitpid(pid, &state, 0) < 0)
        if (errno != EINTR)
            return mr_fail(pen->ctx, MR_EIO, "gnuplot got lost: %s", strerror(errno));
    if (WIFEXITED(state) && WEXITSTATUS(state) == 0) return MR_OK;
    if (WIFEXITED(state) && WEXITSTATUS(state) == NOT_FOUND) return missing(pen->ctx, data);
    return mr_fail(pen->ctx, MR_EIO, "gnuplot could not draw '%s': %s", out,
                   first_message(pen));
}

static mr_status draw(mr_pen *pen, const char *name, const char *data, const char *out)
{
    char *const argv[] = {"gnuplot",
                          "-c",
                          mr_printf(pen->ctx, "%s/%s.gp", pen->folder, name),
                          mr_strdup(pen->ctx, data),
                          mr_strdup(pen->ctx, out),
                          NULL};
    pid_t pid;
    const int failed = start(pen, argv, &pid);
    if (failed == ENOENT) return missing(pen->ctx, data);
    if (failed) return mr_fail(pen->ctx, MR_EIO, "gnuplot did not start: %s", strerror(failed));
    return finish(pen, pid, data, out);
}

mr_status mr_pen_draw(mr_pen *pen, const char *name, const char *data, const char *out)
{
    const char *dot = strrchr(out, '.');
    const char *aside =
        mr_printf(pen->ctx, "%.*s.%ld.part%s", (int)(dot - out), out, (long)getpid(), dot);
    const mr_status status = draw(pen, name, data, aside);
    if (status != MR_OK) {
        unlink(aside);
        return status;
    }
    if (rename(aside, out) == 0) return MR_OK;
    return mr_fail(pen->ctx, MR_EIO, "'%s' could not be written: %s", out, strerror(errno));
}

/* read_speed -- how long recordings take to be read, for bench/read.sh.
 *
 *     memreuse_read_speed FILE TIMES     reads FILE so often; a line for each time
 *
 * A line holds two CPU times in microseconds: of the reader alone, and of the reader and the
 * referee of traces, as every command of memreuse reads a file.
 */
#include "format.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void stop_if(mr_status status, const mr_ctx *ctx)
{
    if (!status) return;
    fprintf(stderr, "%s: %s\n", ctx->failure.where, ctx->failure.text);
    exit(mr_status_exit(status));
}

static double read_only(const char *path)
{
    extern const mr_format mr_format_snapshot;
    static const mr_read_options none = {0};
    mr_ctx ctx = {0};
    mr_trace trace;
    mr_source *source;
    const double begin = now();
    stop_if(mr_source_open(&ctx, path, &source), &ctx);
    stop_if(mr_format_snapshot.read(&ctx, source, &none, &trace), &ctx);
    mr_source_close(source);
    mr_ctx_clear(&ctx);
    return now() - begin;
}

static double read_and_judge(const char *path)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    const double begin = now();
    stop_if(mr_recording_read(&ctx, path, NULL, &trace), &ctx);
    mr_ctx_clear(&ctx);
    return now() - begin;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: memreuse_read_speed FILE TIMES\n");
        return 2;
    }
    for (int i = atoi(argv[2]); i > 0; i--) {
        const double alone = read_only(argv[1]);
        printf("%.0f %.0f\n", alone, read_and_judge(argv[1]));
    }
    return 0;
}

/* output -- what a result may be written over: not what is read, and nothing of somebody else.
 */
#include <string.h>
#include <sys/stat.h>

#include "commands.h"
#include "source.h"

bool mr_file_begins(mr_ctx *ctx, const char *path, const char *text)
{
    mr_source *source;
    const size_t n = strlen(text);
    const mr_failure before = ctx->failure;
    size_t have;
    if (strcmp(path, "-") == 0 || mr_source_open(ctx, path, &source) != MR_OK)
        return ctx->failure = before, false;
    const unsigned char *bytes = mr_source_peek(source, n, &have);
    const bool told = have >= n && memcmp(bytes, text, n) == 0;
    mr_source_close(source);
    return told;
}

mr_status mr_output_check(mr_ctx *ctx, const char *input, const char *output)
{
    struct stat in, out;
    if (!output || stat(input, &in) < 0 || stat(output, &out) < 0) return MR_OK;
    if (in.st_dev != out.st_dev || in.st_ino != out.st_ino) return MR_OK;
    return mr_fail(ctx, MR_EUSAGE,
                   "--output is '%s', which is the file that is read, expected another",
                   output);
}

mr_status mr_output_replaces(mr_ctx *ctx, const char *output, const mr_heads *heads)
{
    struct stat there;
    if (!output || stat(output, &there) < 0) return MR_OK;
    if (!S_ISREG(there.st_mode) || !there.st_size) return MR_OK;
    for (uint32_t i = 0; i < heads->n; i++)
        if (mr_file_begins(ctx, output, heads->begin[i])) return MR_OK;
    return mr_fail(ctx, MR_EUSAGE,
                   "--output is '%s', which is there already and not %s, expected another name",
                   output, heads->what);
}

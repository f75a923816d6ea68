/* formats -- the list of readers, and how a file finds its own. */
#include "format.h"

#include <ctype.h>
#include <string.h>

#define FORMAT(name) extern const mr_format mr_format_##name;
#include "formats.def"
#undef FORMAT

const mr_format *const mr_formats[] = {
#define FORMAT(name) &mr_format_##name,
#include "formats.def"
#undef FORMAT
    NULL,
};

bool mr_head_holds(const unsigned char *head, size_t n, const char *word)
{
    const size_t length = strlen(word);
    for (size_t i = 0; i + length <= n; i++)
        if (!memcmp(head + i, word, length)) return true;
    return false;
}

bool mr_begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

const char *mr_optimizer_of(mr_ctx *ctx, const char *annotation)
{
    static const char before[] = "Optimizer.step#";
    if (!mr_begins(annotation, before)) return NULL;
    annotation += sizeof before - 1;
    char *name = mr_strndup(ctx, annotation, strcspn(annotation, "."));
    for (char *c = name; *c; c++) *c = (char)tolower((unsigned char)*c);
    return name;
}

static bool begins(const unsigned char *head, size_t n, const char *with, size_t length)
{
    return n >= length && !memcmp(head, with, length);
}

static bool is_text(const unsigned char *head, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (head[i] < ' ' && !isspace(head[i])) return false;
    return true;
}

/* What a file of no known format looks like, so that the user sees which file they took. */
static const char *looks_like(const unsigned char *head, size_t n)
{
    static const struct {
        const char *begin, *what;
        size_t length;
    } kinds[] = {
#define BEGINS(text, what) {text, what, sizeof text - 1}
        BEGINS("PK\3\4", "a zip archive, such as a model saved by torch.save or a trace.zip"),
        BEGINS("\x80", "a pickle without a memory snapshot"),
        BEGINS("BZh", "bzip2 data"),
        BEGINS("\xfd" "7zXZ", "xz data"),
        BEGINS("\x7f" "ELF", "a program"),
        BEGINS("\x89PNG", "a picture"),
        BEGINS("%PDF", "a PDF document"),
        BEGINS("SQLite format 3", "a database, such as a report of nsys"),
        BEGINS("trace,file,spec,device,", "cells of a sweep, which memreuse plot draws"),
        BEGINS("<", "a web page or XML"),
        BEGINS("{", "JSON"),
        BEGINS("[", "JSON"),
#undef BEGINS
    };
    for (size_t i = 0; i < MR_COUNT(kinds); i++)
        if (begins(head, n, kinds[i].begin, kinds[i].length)) return kinds[i].what;
    return is_text(head, n) ? "text" : "binary data";
}

static mr_status tell(mr_ctx *ctx, mr_source *source, const mr_format **out)
{
    size_t have;
    const unsigned char *head = mr_source_peek(source, MR_FORMAT_HEAD, &have);
    if (have > MR_FORMAT_HEAD) have = MR_FORMAT_HEAD;
    for (size_t i = 0; mr_formats[i]; i++)
        if (mr_formats[i]->detect(head, have)) {
            *out = mr_formats[i];
            return MR_OK;
        }
    MR_TRY(mr_source_status(source));
    return mr_fail_at(
        ctx, MR_EINPUT, mr_source_name(source),
        "the file looks like %s, expected a PyTorch memory snapshot, profiler trace or"
        " execution trace, a trace of our own format, an operator log of simrd or a table of lifetimes",
        looks_like(head, have));
}

static mr_status named(mr_ctx *ctx, const char *name, const mr_format **out)
{
    const char *all = "";
    for (size_t i = 0; mr_formats[i]; i++) {
        if (!strcmp(mr_formats[i]->name, name)) {
            *out = mr_formats[i];
            return MR_OK;
        }
        all = mr_printf(ctx, "%s%s%s", all, i ? ", " : "", mr_formats[i]->name);
    }
    return mr_fail_at(ctx, MR_EUSAGE, name, "unknown format, expected one of %s", all);
}

static mr_status read_source(mr_ctx *ctx, mr_source *source, const mr_read_options *options,
                             mr_trace *out)
{
    const mr_format *format = NULL;
    if (options->format) MR_TRY(named(ctx, options->format, &format));
    else MR_TRY(tell(ctx, source, &format));
    if (options->ends && !format->has_ends)
        return mr_fail(ctx, MR_EUSAGE,
                       "--ends is for tables of lifetimes, '%s' is none (format %s): leave it out",
                       mr_source_name(source), format->name);
    if (options->times && !format->has_times)
        return mr_fail(ctx, MR_EUSAGE,
                       "--times is for execution traces, '%s' is none (format %s): leave it out",
                       mr_source_name(source), format->name);
    MR_TRY(format->read(ctx, source, options, out));
    return mr_source_status(source);
}

static mr_status read_file(mr_ctx *ctx, const char *path, const mr_read_options *options,
                           mr_trace *out)
{
    static const mr_read_options none = {0};
    mr_source *source;
    MR_TRY(mr_source_open(ctx, path, &source));
    const mr_status status = read_source(ctx, source, options ? options : &none, out);
    mr_source_close(source);
    if (status) return status;
    if (!out->events.n)
        return mr_fail_at(ctx, MR_EINPUT, out->name,
                          "the recording holds no events, expected allocations or ops");
    if (!mr_trace_check(ctx, out)) return MR_OK;
    return mr_fail_at(ctx, ctx->failure.status, out->name, "%s", ctx->failure.text);
}

mr_status mr_recording_read(mr_ctx *ctx, const char *path, const mr_read_options *options,
                            mr_trace *out)
{
    return mr_source_blame(ctx, path, read_file(ctx, path, options, out));
}

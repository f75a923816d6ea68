/* storage -- who asked for a piece of memory, in one line or frame by frame. */
#include <inttypes.h>
#include <string.h>

#include "report.h"

/* ---- frames ------------------------------------------------------------------------------ */

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static bool is_python(const mr_frame *frame)
{
    return ends_with(frame->file, ".py") || ends_with(frame->file, ".ipynb")
           || strncmp(frame->file, "<ipython", 8) == 0;
}

/* Code of packages is rarely what a person looks for in their own program. */
static bool is_package(const mr_frame *frame)
{
    return strstr(frame->file, "site-packages") || strstr(frame->file, "dist-packages")
           || strstr(frame->file, "/torch/") || strstr(frame->file, "\\torch\\")
           || frame->file[0] == '<' || strstr(frame->file, "/lib/python");
}

static const char *file_name(const char *path)
{
    const char *name = path;
    for (; *path; path++)
        if ((*path == '/' || *path == '\\') && path[1]) name = path + 1;
    return name;
}

/* The allocator's own functions, those that take the stack and ops that only make room say
 * nothing about who asked. */
static bool is_plumbing(const mr_frame *frame)
{
    static const char *const words[] = {"unwind", "CapturedTraceback", "gather_with_cpp",
                                        "CachingAllocator", "at::detail::", "aten::empty",
                                        "aten::resize_"};
    for (size_t i = 0; i < MR_COUNT(words); i++)
        if (strstr(frame->function, words[i])) return true;
    return false;
}

/* The innermost frame of the user's own program; else of any Python program; else of whatever
 * called the allocator. */
static const mr_frame *telling_frame(const mr_trace *trace, const mr_stack *stack)
{
    const mr_frame *python = NULL, *caller = NULL;
    for (uint32_t i = 0; i < stack->n; i++) {
        const mr_frame *frame = &trace->frames.at[stack->at[i]];
        if (!caller && !is_plumbing(frame)) caller = frame;
        if (!is_python(frame)) continue;
        if (!is_package(frame)) return frame;
        if (!python) python = frame;
    }
    if (python) return python;
    return caller || !stack->n ? caller : &trace->frames.at[stack->at[0]];
}

/* Of a C++ function without its arguments. */
static const char *short_name(mr_ctx *ctx, const char *function)
{
    static const char anonymous[] = "(anonymous namespace)";
    size_t n = strcspn(function, "(");
    if (strncmp(function + n, anonymous, sizeof anonymous - 1) == 0) {
        n += sizeof anonymous - 1;
        n += strcspn(function + n, "(");
    }
    return n ? mr_strndup(ctx, function, n) : function;
}

static const char *show_frame(mr_ctx *ctx, const mr_frame *frame)
{
    const char *file = file_name(frame->file);
    if (!is_python(frame)) return short_name(ctx, frame->function);
    if (!frame->line) return mr_printf(ctx, "%s %s", file, frame->function);
    return mr_printf(ctx, "%s:%" PRIu32 " %s", file, frame->line, frame->function);
}

/* ---- ops --------------------------------------------------------------------------------- */

struct mr_makers {
    const mr_trace *trace;
    uint32_t *tensor, *op; /* by storage: its first tensor, the first op that wrote it */
};

mr_makers *mr_makers_new(mr_ctx *ctx, const mr_trace *trace)
{
    mr_makers *m = MR_NEW(ctx, mr_makers);
    m->trace = trace;
    m->tensor = MR_NEW_N(ctx, uint32_t, trace->storages.n);
    m->op = MR_NEW_N(ctx, uint32_t, trace->storages.n);
    for (uint32_t s = 0; s < trace->storages.n; s++) {
        m->tensor[s] = MR_NONE;
        m->op[s] = trace->storages.at[s].workspace ? trace->storages.at[s].op : MR_NONE;
    }
    for (uint32_t t = trace->tensors.n; t-- > 0;) m->tensor[trace->tensors.at[t].storage] = t;
    for (uint32_t o = trace->ops.n; o-- > 0;) {
        const mr_ids out = trace->ops.at[o].out;
        for (uint32_t i = 0; i < out.n; i++) m->op[trace->tensors.at[out.at[i]].storage] = o;
    }
    return m;
}

static const char *show_op(mr_ctx *ctx, const mr_op *op)
{
    if (!*op->module) return op->name;
    return mr_printf(ctx, "%s in %s", op->name, op->module);
}

/* ---- both -------------------------------------------------------------------------------- */

const char *mr_show_maker(mr_ctx *ctx, const mr_makers *makers, uint32_t storage)
{
    const mr_trace *trace = makers->trace;
    const mr_storage *s = &trace->storages.at[storage];
    if (s->stack != MR_NONE) {
        const mr_frame *frame = telling_frame(trace, &trace->stacks.at[s->stack]);
        if (frame) return show_frame(ctx, frame);
    }
    const uint32_t tensor = makers->tensor[storage], op = makers->op[storage];
    if (s->workspace)
        return mr_printf(ctx, "workspace of %s", show_op(ctx, &trace->ops.at[op]));
    if (op != MR_NONE && !s->before) return show_op(ctx, &trace->ops.at[op]);
    if (tensor != MR_NONE && *trace->tensors.at[tensor].name)
        return trace->tensors.at[tensor].name;
    return s->before ? "there before the recording" : "not recorded";
}

const char *mr_without_numbers(mr_ctx *ctx, const char *text)
{
    char *copy = mr_strdup(ctx, text), *to = copy;
    for (const char *from = copy; *from;) {
        const size_t n = strcspn(from, ". ");
        const bool in_path = from[n] == '.' || (from > copy && from[-1] == '.');
        const bool number = in_path && n && strspn(from, "0123456789") == n;
        if (number) *to++ = '*';
        else memmove(to, from, n), to += n;
        from += n;
        if (*from) *to++ = *from++;
    }
    *to = '\0';
    return copy;
}

static bool has_python(const mr_trace *trace, const mr_stack *stack)
{
    for (uint32_t i = 0; i < stack->n; i++)
        if (is_python(&trace->frames.at[stack->at[i]])) return true;
    return false;
}

static void put_frame(const mr_frame *frame, const char *indent, mr_sink *sink)
{
    enum { WIDTH = 60 }; /* names of C++ functions can fill pages */
    const char *file = frame->file[0] ? frame->file : "??";
    const bool cut = strlen(frame->function) > WIDTH;
    mr_sink_print(sink, "%s%s", indent, file);
    if (frame->line) mr_sink_print(sink, ":%" PRIu32, frame->line);
    mr_sink_print(sink, " %.*s%s\n", WIDTH, frame->function, cut ? "..." : "");
}

/* Where Python is among them, the frames of the interpreter and of libraries below it are
 * noise. */
void mr_write_frames(const mr_trace *trace, uint32_t storage, uint32_t most, const char *indent,
                     mr_sink *sink)
{
    const uint32_t index = trace->storages.at[storage].stack;
    if (index == MR_NONE) return;
    const mr_stack *stack = &trace->stacks.at[index];
    const bool python = has_python(trace, stack);
    uint32_t shown = 0, left = 0;
    for (uint32_t i = 0; i < stack->n; i++) {
        const mr_frame *frame = &trace->frames.at[stack->at[i]];
        if (python && !is_python(frame)) continue;
        if (shown == most) left++;
        else shown++, put_frame(frame, indent, sink);
    }
    if (left) mr_sink_print(sink, "%sand %" PRIu32 " more, outside of these\n", indent, left);
}

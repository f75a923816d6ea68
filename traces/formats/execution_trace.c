/* execution_trace -- what PyTorch's ExecutionTraceObserver writes (Chakra's input), schemas 1.0
 * and 1.1: a tree of the ops that called each other, with their tensors.
 *
 *     {"schema": "1.0.1", "nodes": [
 *       {"id": 14, "name": "aten::addmm", "parent": 9, "seq_id": 661, "op_schema": "aten::addmm(...",
 *        "inputs": [[7, 8, 0, 1024, 4, "cuda:0"], ...], "input_types": ["Tensor(float)", ...],
 *        "outputs": [[18, 19, 0, 524288, 4, "cuda:0"]], ...}, ...]}
 *
 * It says nothing about frees, saved tensors and roles; they are inferred, which the trace notes.
 */
#include "et_file.h"

#include <string.h>

static mr_status read_nodes(et_file *f)
{
    for (;;) {
        MR_TRY(json_items_next(&f->items));
        if (!f->items.item) return MR_OK;
        MR_TRY(et_node_read(f));
        if (f->items.number % 8192 == 0)
            mr_progress(f->ctx, "reading", mr_source_part(f->items.source));
    }
}

static void tell_about(et_file *f)
{
    static const char *const notes[] = {
        "frees are not recorded: a tensor is let go after its last use, which may be too early"
        " for what the program's own variables hold",
        "what ops saved follows from what the backward pass reads; roles from what the update"
        " reads and changes; FLOPs from shapes",
        "what ops take inside is not recorded"};
    const char *schema = json_string_value(json_object_get(f->items.about, "schema"));
    for (size_t i = 0; i < MR_COUNT(notes); i++) MR_PUSH(f->ctx, &f->trace->notes, notes[i]);
    f->trace->about[MR_ABOUT_framework] = "pytorch";
    f->trace->about[MR_ABOUT_recorder] = "execution trace";
    if (schema) f->trace->about[MR_ABOUT_recorder_version] = mr_strdup(f->ctx, schema);
    f->trace->has = MR_HAS_DATAFLOW | MR_HAS_PHASES | MR_HAS_SAVED | MR_HAS_DROPS;
}

static mr_status read_trace(et_file *f, const char *times)
{
    MR_TRY(read_nodes(f));
    MR_TRY(et_tree(f));
    MR_TRY(et_ops(f));
    et_infer(f);
    tell_about(f);
    return times ? et_times(f, times) : MR_OK;
}

static mr_status read_execution_trace(mr_ctx *ctx, mr_source *source,
                                      const mr_read_options *options, mr_trace *out)
{
    mr_trace_init(ctx, out, mr_source_name(source));
    et_file *f = MR_NEW(ctx, et_file);
    f->ctx = ctx;
    f->trace = out;
    f->items = (json_items){.ctx = ctx, .source = source, .key = "nodes"};
    const mr_status status = read_trace(f, options->times);
    json_items_close(&f->items);
    return status;
}

static bool detect(const unsigned char *head, size_t n)
{
    return n && mr_head_holds(head, n, "\"schema\"") && mr_head_holds(head, n, "\"nodes\"");
}

const mr_format mr_format_execution_trace = {
    .name = "execution_trace",
    .summary = "execution trace of PyTorch (torch.profiler.ExecutionTraceObserver)",
    .has_times = true,
    .detect = detect,
    .read = read_execution_trace,
};

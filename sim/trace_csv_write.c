/* trace_csv_write -- a trace becomes rows in execution order.
 *
 * Before an event, what it refers to is declared, with everything of the same sort that has a
 * smaller index: so a reader numbers things as they are numbered here, and what is read
 * again is the same trace.
 */
#include "trace_csv.h"
#include "trace_row_writer.h"

typedef struct writer {
    mr_row_writer out;
    const mr_trace *trace;
    const mr_history *history;
    uint32_t next[MR_THING_N]; /* first of each sort that is not declared yet */
} writer;

#define SET(column, value) (w->out.cells[MR_COL_##column].number = (value))

/* ---- things ------------------------------------------------------------------------------ */

static void need_frames(writer *w, uint32_t end)
{
    for (uint32_t *i = &w->next[MR_THING_frame]; *i < end; ++*i) {
        const mr_frame *frame = &w->trace->frames.at[*i];
        SET(id, *i);
        SET(line, frame->line);
        w->out.cells[MR_COL_file].text = frame->file;
        w->out.cells[MR_COL_function].text = frame->function;
        mr_row_write(&w->out, MR_ROW_frame, MR_COLUMN_N);
    }
}

static void need_stacks(writer *w, uint32_t end)
{
    for (uint32_t *i = &w->next[MR_THING_stack]; *i < end; ++*i) {
        const mr_stack *stack = &w->trace->stacks.at[*i];
        for (uint32_t f = 0; f < stack->n; f++) need_frames(w, stack->at[f] + 1);
        SET(id, *i);
        w->out.cells[MR_COL_frames].ids = (mr_ids){stack->at, stack->n};
        mr_row_write(&w->out, MR_ROW_stack, MR_COLUMN_N);
    }
}

static void set_storage(writer *w, uint32_t index)
{
    const mr_storage *s = &w->trace->storages.at[index];
    if (s->stack != MR_NONE) need_stacks(w, s->stack + 1);
    SET(id, index);
    SET(bytes, s->bytes);
    SET(per_sample, s->per_sample);
    SET(stream, s->stream);
    SET(pool, s->pool);
    SET(stack, s->stack);
    SET(device, s->device);
    SET(role, s->role);
    SET(before, s->before);
    SET(after, s->after);
    SET(deferred, s->deferred);
    SET(refused, s->refused);
}

static void need_storages(writer *w, uint32_t end)
{
    for (uint32_t *i = &w->next[MR_THING_storage]; *i < end; ++*i) {
        set_storage(w, *i);
        mr_row_write(&w->out, MR_ROW_storage, MR_COLUMN_N);
    }
}

static void need_tensors(writer *w, uint32_t end)
{
    for (uint32_t *i = &w->next[MR_THING_tensor]; *i < end; ++*i) {
        const mr_tensor *t = &w->trace->tensors.at[*i];
        need_storages(w, t->storage + 1);
        const mr_storage *storage = &w->trace->storages.at[t->storage];
        SET(id, *i);
        SET(storage, t->storage);
        SET(offset, t->offset);
        SET(bytes, t->bytes);
        SET(role, t->role);
        w->out.cells[MR_COL_name].text = t->name;
        w->out.cells[MR_COL_dtype].text = t->dtype;
        w->out.cells[MR_COL_shape].shape.at = t->shape;
        w->out.cells[MR_COL_shape].shape.n = t->rank;
        w->out.cells[MR_COL_bytes].given = true;
        w->out.cells[MR_COL_role].given = t->role != storage->role;
        const bool to_the_end = t->bytes == storage->bytes - t->offset;
        if (t->role == storage->role) SET(role, MR_ROLE_unknown);
        mr_row_write(&w->out, MR_ROW_tensor, to_the_end ? MR_COL_bytes : MR_COLUMN_N);
        w->out.cells[MR_COL_bytes].given = w->out.cells[MR_COL_role].given = false;
    }
}

static void need_tensors_of(writer *w, const mr_op *op)
{
    const mr_ids lists[] = {op->in, op->out, op->mutates};
    for (size_t list = 0; list < MR_COUNT(lists); list++)
        for (uint32_t i = 0; i < lists[list].n; i++) need_tensors(w, lists[list].at[i] + 1);
    for (uint32_t i = 0; i < op->saved.n; i++) need_tensors(w, op->saved.at[i].tensor + 1);
}

/* One op; it runs here unless `later`. */
static void write_op(writer *w, uint32_t index, bool later)
{
    const mr_op *op = &w->trace->ops.at[index];
    need_tensors_of(w, op);
    SET(id, index);
    SET(phase, op->phase);
    SET(call, op->call);
    SET(stream, op->stream);
    SET(random, op->random);
    SET(again, op->again);
    SET(of, op->of);
    SET(engine, op->engine);
    SET(ranks, op->ranks);
    SET(ns, op->ns);
    SET(flops, op->flops);
    SET(flops_per_sample, op->flops_per_sample);
    SET(read, op->read);
    SET(written, op->written);
    SET(workspace, op->workspace);
    SET(later, later);
    w->out.cells[MR_COL_name].text = op->name;
    w->out.cells[MR_COL_module].text = op->module;
    w->out.cells[MR_COL_in].ids = op->in;
    w->out.cells[MR_COL_out].ids = op->out;
    w->out.cells[MR_COL_mutates].ids = op->mutates;
    w->out.cells[MR_COL_saved].saved.at = op->saved.at;
    w->out.cells[MR_COL_saved].saved.n = op->saved.n;
    mr_row_write(&w->out, MR_ROW_op, later ? MR_COL_t : MR_COLUMN_N);
    w->next[MR_THING_op] = index + 1;
}

static void need_ops(writer *w, uint32_t end)
{
    while (w->next[MR_THING_op] < end) write_op(w, w->next[MR_THING_op], true);
}

/* ---- events ------------------------------------------------------------------------------ */

static void write_alloc(writer *w, uint32_t storage)
{
    need_storages(w, storage);
    SET(id, storage);
    if (w->next[MR_THING_storage] > storage) {
        const mr_row_info *info = &mr_rows[MR_ROW_alloc]; /* all of it is said already */
        for (uint32_t c = info->fixed; c < info->n; c++)
            if (info->columns[c] != MR_COL_t)
                w->out.cells[info->columns[c]].number = mr_columns[info->columns[c]].missing;
        mr_row_write(&w->out, MR_ROW_alloc, MR_COL_bytes);
        return;
    }
    set_storage(w, storage);
    w->out.cells[MR_COL_bytes].given = true;
    mr_row_write(&w->out, MR_ROW_alloc, MR_COLUMN_N);
    w->out.cells[MR_COL_bytes].given = false;
    w->next[MR_THING_storage]++;
}

static void write_run(writer *w, uint32_t op)
{
    need_ops(w, op);
    if (w->next[MR_THING_op] == op) {
        write_op(w, op, false);
        return;
    }
    SET(op, op);
    mr_row_write(&w->out, MR_ROW_run, MR_COLUMN_N);
}

static void write_event(writer *w, const mr_event *event)
{
    switch (event->kind) {
    case MR_ALLOC: write_alloc(w, event->id); break;
    case MR_RUN: write_run(w, event->id); break;
    case MR_FREE:
    case MR_DONE:
        need_storages(w, event->id + 1);
        SET(storage, event->id);
        mr_row_write(&w->out, event->kind == MR_FREE ? MR_ROW_free : MR_ROW_done, MR_COLUMN_N);
        break;
    case MR_DROP:
        need_tensors(w, event->id + 1);
        SET(tensor, event->id);
        mr_row_write(&w->out, MR_ROW_drop, MR_COLUMN_N);
        break;
    case MR_FLUSH:
        SET(device, event->id);
        mr_row_write(&w->out, MR_ROW_flush, MR_COLUMN_N);
        break;
    case MR_MARK:
        SET(kind, w->trace->marks.at[event->id].kind);
        w->out.cells[MR_COL_name].text = w->trace->marks.at[event->id].name;
        mr_row_write(&w->out, MR_ROW_mark, MR_COLUMN_N);
        break;
    case MR_CARRY: break; /* only schedules have it; the referee has looked */
    }
}

static void write_events(writer *w)
{
    const mr_trace *trace = w->trace;
    mr_cell *t = &w->out.cells[MR_COL_t];
    for (uint32_t e = 0; e < trace->events.n; e++) {
        t->given = trace->times.n != 0;
        t->number = t->given ? trace->times.at[e] : 0;
        write_event(w, &trace->events.at[e]);
        if (e % 65536 == 0) mr_progress(w->out.ctx, "writing", (double)e / trace->events.n);
    }
    t->given = false;
    t->number = 0;
    need_frames(w, trace->frames.n);
    need_stacks(w, trace->stacks.n);
    need_storages(w, trace->storages.n);
    need_tensors(w, trace->tensors.n);
    need_ops(w, trace->ops.n);
}

/* ---- histories --------------------------------------------------------------------------- */

static void need_segments(writer *w, uint32_t end)
{
    const mr_history *h = w->history;
    if (end > h->segments.n) return; /* MR_NONE + 1 is 0, and does nothing either */
    for (uint32_t *i = &w->next[MR_THING_segment]; *i < end; ++*i) {
        const mr_segment *s = &h->segments.at[*i];
        SET(id, *i);
        SET(address, s->address);
        SET(bytes, s->bytes);
        SET(stream, s->stream);
        SET(pool, s->pool);
        SET(large, s->large);
        SET(expandable, s->expandable);
        SET(held, *i < h->held);
        mr_row_write(&w->out, MR_ROW_segment, MR_COLUMN_N);
    }
}

static void write_pieces(writer *w, const mr_pieces *pieces, mr_row_kind kind)
{
    for (uint32_t i = 0; i < pieces->n; i++) {
        const mr_piece *piece = &pieces->at[i];
        SET(segment, piece->segment);
        SET(offset, piece->offset);
        SET(bytes, piece->bytes);
        SET(storage, piece->storage);
        SET(pending, piece->pending);
        mr_row_write(&w->out, kind, MR_COLUMN_N);
    }
}

static void write_cmd(writer *w, const mr_cmd *cmd)
{
    need_segments(w, cmd->block.segment + 1);
    SET(segment, cmd->block.segment);
    SET(handle, cmd->block.handle);
    SET(offset, cmd->block.offset);
    SET(bytes, cmd->block.bytes);
    SET(storage, cmd->id);
    SET(op, cmd->id);
    mr_row_write(&w->out, mr_row_of_cmd(cmd->kind), MR_COLUMN_N);
}

static void write_history(writer *w, const mr_history *h)
{
    w->history = h;
    w->next[MR_THING_segment] = 0;
    SET(device, h->device);
    SET(low, h->capacity_low);
    SET(high, h->capacity_high);
    SET(wrapped, h->wrapped);
    mr_row_write(&w->out, MR_ROW_history, MR_COLUMN_N);
    need_segments(w, h->held);
    write_pieces(w, &h->start, MR_ROW_start);
    for (uint32_t c = 0; c < h->cmds.n; c++) write_cmd(w, &h->cmds.at[c]);
    need_segments(w, h->segments.n);
    write_pieces(w, &h->end, MR_ROW_end);
}

/* ---- all --------------------------------------------------------------------------------- */

/* Announced by the first row and written as the last: a file without it is cut off. */
static const char closed[] = "closed";

static void write_head(writer *w)
{
    const mr_trace *trace = w->trace;
    mr_row_text(&w->out, "memreuse");
    mr_row_text(&w->out, mr_printf(w->out.ctx, "%d", MR_TRACE_VERSION));
    mr_row_text(&w->out, closed);
    mr_row_end(&w->out);
    for (int f = 0; f < MR_ABOUT_N; f++) {
        if (!trace->about[f]) continue;
        mr_row_text(&w->out, "about");
        mr_row_text(&w->out, mr_about_name((mr_about)f));
        mr_row_text(&w->out, trace->about[f]);
        mr_row_end(&w->out);
    }
    for (uint32_t i = 0; i < trace->notes.n; i++) {
        mr_row_text(&w->out, "note");
        mr_row_text(&w->out, trace->notes.at[i]);
        mr_row_end(&w->out);
    }
    mr_row_text(&w->out, "has");
    for (uint32_t bit = 0; mr_has_word(bit); bit++)
        if (trace->has & 1u << bit) mr_row_text(&w->out, mr_has_word(bit));
    mr_row_end(&w->out);
    for (uint32_t i = 1; i < trace->streams.n; i++) {
        SET(id, trace->streams.at[i]);
        mr_row_write(&w->out, MR_ROW_stream, MR_COLUMN_N);
    }
    for (uint32_t i = 1; i < trace->pools.n; i++) {
        SET(id, trace->pools.at[i]);
        mr_row_write(&w->out, MR_ROW_pool, MR_COLUMN_N);
    }
}

/* The format refers to nothing that comes later. */
static mr_status check_order(mr_ctx *ctx, const mr_trace *trace)
{
    for (uint32_t o = 0; o < trace->ops.n; o++) {
        const mr_op *op = &trace->ops.at[o];
        if (op->again != MR_NONE && op->again > o)
            return mr_fail(ctx, MR_EINVARIANT,
                           "op %u recomputes op %u, expected one before it", o, op->again);
        if (op->of != MR_NONE && op->of > o)
            return mr_fail(ctx, MR_EINVARIANT,
                           "op %u computes a gradient of op %u, expected one before it", o,
                           op->of);
    }
    return MR_OK;
}

mr_status mr_trace_csv_write(mr_ctx *ctx, const mr_trace *trace, mr_sink *sink)
{
    MR_TRY(mr_trace_check(ctx, trace)); /* so that every index can be followed */
    MR_TRY(check_order(ctx, trace));
    writer *w = MR_NEW(ctx, writer);
    w->out.ctx = ctx;
    w->out.sink = sink;
    w->out.trace = w->trace = trace;
    write_head(w);
    write_events(w);
    for (uint32_t h = 0; h < trace->histories.n; h++) write_history(w, &trace->histories.at[h]);
    mr_row_text(&w->out, closed);
    mr_row_end(&w->out);
    return MR_OK;
}

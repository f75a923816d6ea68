/* trace_csv_read -- rows of our trace format become a trace.
 *
 * trace_cells.c turns the fields of a row into cells by the tables of trace_rows.h; here each
 * kind of row has one function that makes something of its cells.
 */
#include "trace_cells.h"
#include "trace_csv.h"
#include "trace_csv_words.h"

#include <inttypes.h>
#include <string.h>

typedef struct reader {
    mr_cells cells; /* of the row at hand, and the ids known so far */
    mr_trace *trace;
    bool has_row;
    mr_csv_end end;
} reader;

#define CELL(column) (r->cells.at[MR_COL_##column])
#define NUMBER(column) (CELL(column).number)
#define INDEX(column) ((uint32_t)NUMBER(column))
#define FLAG(column) (NUMBER(column) != 0)

static mr_history *history(const reader *r)
{
    return &r->trace->histories.at[r->trace->histories.n - 1];
}

static mr_status declare(reader *r, mr_thing thing)
{
    if (mr_ids_add(r->cells.ctx, &r->cells.books[thing], NUMBER(id))) return MR_OK;
    return mr_cells_fail(&r->cells, MR_COL_id,
                         "%s %" PRIu64 " is there twice, expected another id",
                         mr_thing_name(thing), NUMBER(id));
}

static mr_status happen(reader *r, mr_event_kind kind, uint32_t id)
{
    mr_trace *trace = r->trace;
    const bool timed = CELL(t).given;
    if (trace->events.n && timed != (trace->times.n != 0))
        return mr_cells_fail(&r->cells, MR_COL_t,
                             "the event has %s t=, expected a time for each event or for none",
                             timed ? "a" : "no");
    MR_PUSH(r->cells.ctx, &trace->events, (mr_event){kind, id});
    if (timed) MR_PUSH(r->cells.ctx, &trace->times, NUMBER(t));
    return MR_OK;
}

/* ---- declarations ------------------------------------------------------------------------ */

static mr_status read_stream(reader *r)
{
    const uint64_t last = r->trace->streams.at[r->trace->streams.n - 1];
    if (NUMBER(id) <= last)
        return mr_cells_fail(&r->cells, MR_COL_id,
                             "stream %" PRIu64 " follows stream %" PRIu64
                             ", expected a larger one",
                             NUMBER(id), last);
    MR_PUSH(r->cells.ctx, &r->trace->streams, NUMBER(id));
    return declare(r, MR_THING_stream);
}

static mr_status read_pool(reader *r)
{
    MR_PUSH(r->cells.ctx, &r->trace->pools, NUMBER(id));
    return declare(r, MR_THING_pool);
}

static mr_status read_frame(reader *r)
{
    MR_PUSH(r->cells.ctx, &r->trace->frames,
            (mr_frame){CELL(file).text, CELL(function).text, INDEX(line)});
    return declare(r, MR_THING_frame);
}

static mr_status read_stack(reader *r)
{
    MR_PUSH(r->cells.ctx, &r->trace->stacks,
            (mr_stack){CELL(frames).ids.at, CELL(frames).ids.n});
    return declare(r, MR_THING_stack);
}

static mr_status read_storage(reader *r)
{
    MR_PUSH(r->cells.ctx, &r->trace->storages,
            (mr_storage){
                .bytes = NUMBER(bytes),
                .per_sample = NUMBER(per_sample),
                .stream = INDEX(stream),
                .pool = INDEX(pool),
                .stack = INDEX(stack),
                .device = (uint16_t)NUMBER(device),
                .role = (uint8_t)NUMBER(role),
                .before = FLAG(before),
                .after = FLAG(after),
                .deferred = FLAG(deferred),
                .refused = FLAG(refused),
            });
    return declare(r, MR_THING_storage);
}

/* Left out, bytes reach to the end of the storage, and the role is the storage's. */
static mr_status read_tensor(reader *r)
{
    if (INDEX(storage) == MR_NONE)
        return mr_cells_fail(&r->cells, MR_COL_storage, "storage is none, expected one");
    const mr_storage *storage = &r->trace->storages.at[INDEX(storage)];
    const uint64_t offset = NUMBER(offset);
    if (offset > storage->bytes)
        return mr_cells_fail(&r->cells, MR_COL_offset,
                             "offset is %" PRIu64 ", expected at most the %" PRIu64
                             " bytes of the storage",
                             offset, storage->bytes);
    MR_PUSH(r->cells.ctx, &r->trace->tensors,
            (mr_tensor){
                .name = CELL(name).text,
                .dtype = CELL(dtype).text,
                .storage = INDEX(storage),
                .rank = CELL(shape).shape.n,
                .shape = CELL(shape).shape.at,
                .offset = offset,
                .bytes = CELL(bytes).given ? NUMBER(bytes) : storage->bytes - offset,
                .role = CELL(role).given ? (uint8_t)NUMBER(role) : storage->role,
            });
    return declare(r, MR_THING_tensor);
}

static mr_status read_op(reader *r)
{
    MR_PUSH(r->cells.ctx, &r->trace->ops,
            (mr_op){
                .name = CELL(name).text,
                .module = CELL(module).text,
                .call = INDEX(call),
                .stream = INDEX(stream),
                .phase = (mr_phase)NUMBER(phase),
                .random = FLAG(random),
                .again = INDEX(again),
                .of = INDEX(of),
                .engine = (uint8_t)NUMBER(engine),
                .ranks = (uint32_t)NUMBER(ranks),
                .ns = NUMBER(ns),
                .flops = NUMBER(flops),
                .flops_per_sample = NUMBER(flops_per_sample),
                .read = NUMBER(read),
                .written = NUMBER(written),
                .workspace = NUMBER(workspace),
                .in = CELL(in).ids,
                .out = CELL(out).ids,
                .mutates = CELL(mutates).ids,
                .saved = {CELL(saved).saved.at, CELL(saved).saved.n},
            });
    MR_TRY(declare(r, MR_THING_op));
    if (!FLAG(later)) return happen(r, MR_RUN, r->trace->ops.n - 1);
    if (!CELL(t).given) return MR_OK;
    return mr_cells_fail(&r->cells, MR_COL_t, "an op that runs later has a t=, expected the run"
                                              " row to have it");
}

/* ---- events ------------------------------------------------------------------------------ */

/* With bytes the row declares the storage too; without, an earlier row has. */
static mr_status read_alloc(reader *r)
{
    if (CELL(bytes).given) {
        MR_TRY(read_storage(r));
        return happen(r, MR_ALLOC, r->trace->storages.n - 1);
    }
    const mr_row_info *info = &mr_rows[MR_ROW_alloc];
    for (uint32_t c = info->fixed + info->bare; c < info->n; c++)
        if (info->columns[c] != MR_COL_t && r->cells.at[info->columns[c]].given)
            return mr_cells_fail(&r->cells, info->columns[c],
                                 "%s is given but not bytes, expected both or neither",
                                 mr_columns[info->columns[c]].name);
    const uint32_t storage = mr_ids_find(&r->cells.books[MR_THING_storage], NUMBER(id));
    if (storage == MR_NONE)
        return mr_cells_fail(&r->cells, MR_COL_id,
                             "storage %" PRIu64
                             " is not declared by an earlier row, expected its"
                             " bytes here",
                             NUMBER(id));
    return happen(r, MR_ALLOC, storage);
}

static mr_status read_free(reader *r)
{
    return happen(r, MR_FREE, INDEX(storage));
}

static mr_status read_done(reader *r)
{
    return happen(r, MR_DONE, INDEX(storage));
}

static mr_status read_run(reader *r)
{
    return happen(r, MR_RUN, INDEX(op));
}

static mr_status read_drop(reader *r)
{
    return happen(r, MR_DROP, INDEX(tensor));
}

static mr_status read_flush(reader *r)
{
    return happen(r, MR_FLUSH, INDEX(device));
}

static mr_status read_mark(reader *r)
{
    const mr_mark mark = {(mr_mark_kind)NUMBER(kind), CELL(name).text};
    const uint32_t index = r->trace->marks.n;
    if (mark.kind == MR_STEP_BEGIN) r->end.open_step = index;
    if (mark.kind == MR_STEP_END) r->end.open_step = MR_NONE;
    MR_PUSH(r->cells.ctx, &r->trace->marks, mark);
    return happen(r, MR_MARK, index);
}

/* ---- histories --------------------------------------------------------------------------- */

static mr_status read_history(reader *r)
{
    MR_PUSH(r->cells.ctx, &r->trace->histories,
            (mr_history){
                .device = INDEX(device),
                .capacity_low = NUMBER(low),
                .capacity_high = NUMBER(high),
                .wrapped = FLAG(wrapped),
            });
    r->cells.books[MR_THING_segment] = (mr_id_book){0};
    return MR_OK;
}

static mr_status read_segment(reader *r)
{
    mr_history *h = history(r);
    if (FLAG(held) && h->held++ != h->segments.n)
        return mr_cells_fail(&r->cells, MR_COL_held, "a held segment follows one that is not,"
                                                     " expected the held ones first");
    MR_PUSH(r->cells.ctx, &h->segments,
            (mr_segment){
                .address = NUMBER(address),
                .bytes = NUMBER(bytes),
                .stream = INDEX(stream),
                .pool = INDEX(pool),
                .large = FLAG(large),
                .expandable = FLAG(expandable),
            });
    return declare(r, MR_THING_segment);
}

static mr_status read_piece(reader *r, mr_pieces *pieces)
{
    MR_PUSH(r->cells.ctx, pieces,
            (mr_piece){
                .segment = INDEX(segment),
                .storage = INDEX(storage),
                .offset = NUMBER(offset),
                .bytes = NUMBER(bytes),
                .pending = FLAG(pending),
            });
    return MR_OK;
}

static mr_status read_start(reader *r)
{
    return read_piece(r, &history(r)->start);
}

static mr_status read_end(reader *r)
{
    return read_piece(r, &history(r)->end);
}

static mr_status read_cmd(reader *r, mr_cmd_kind kind)
{
    MR_PUSH(r->cells.ctx, &history(r)->cmds,
            (mr_cmd){
                .kind = kind,
                .id = kind == MR_EXEC ? INDEX(op) : INDEX(storage),
                .block = {.segment = INDEX(segment),
                          .handle = INDEX(handle),
                          .offset = NUMBER(offset),
                          .bytes = NUMBER(bytes)},
            });
    return MR_OK;
}

#define CMD_ROW(row, kind)                    \
    static mr_status read_##row(reader *r)    \
    {                                         \
        return read_cmd(r, kind);             \
    }
CMD_ROW(reserve, MR_RESERVE)
CMD_ROW(release, MR_RELEASE)
CMD_ROW(map, MR_MAP)
CMD_ROW(unmap, MR_UNMAP)
CMD_ROW(bind, MR_BIND)
CMD_ROW(defer, MR_DEFER)
CMD_ROW(unbind, MR_UNBIND)
CMD_ROW(exec, MR_EXEC)
CMD_ROW(refuse, MR_REFUSE)

/* ---- all rows ---------------------------------------------------------------------------- */

static mr_status read_cells(reader *r, const mr_csv_row *row)
{
    mr_status (*const read[])(reader *) = {
#define X(name, ...) read_##name,
        MR_ROW_LIST(X)
#undef X
    };
    mr_row_kind kind;
    MR_TRY(mr_cells_read(&r->cells, row, &kind));
    if (kind >= MR_ROW_segment && !r->trace->histories.n)
        return mr_csv_fail(r->cells.csv, 0, "%s stands outside of a history, expected a history"
                                            " row before it",
                           row->at[0]);
    return read[kind](r);
}

static mr_status read_row(reader *r, const mr_csv_row *row)
{
    const char *word = row->at[0];
    if (*word == '#') return MR_OK; /* a comment */
    if (r->end.closed || !strcmp(word, "closed"))
        return mr_csv_closed(&r->cells, row, &r->end);
    if (!strcmp(word, "about")) return mr_csv_about(&r->cells, row, r->trace);
    if (!strcmp(word, "note")) return mr_csv_note(&r->cells, row, r->trace);
    if (!strcmp(word, "has")) return mr_csv_has(&r->cells, row, &r->has_row, r->trace);
    return read_cells(r, row);
}

static mr_status read_rows(reader *r, mr_source *source)
{
    MR_TRY(mr_csv_first(&r->cells, &r->end));
    for (uint32_t n = 1;; n++) {
        const mr_csv_row *row;
        MR_TRY(mr_csv_next(r->cells.csv, &row));
        if (!row->n) break;
        MR_TRY(mr_csv_check_whole(r->cells.csv));
        MR_TRY(read_row(r, row));
        if (n % 65536 == 0) mr_progress(r->cells.ctx, "reading", mr_source_part(source));
    }
    MR_TRY(mr_csv_ended(&r->cells, &r->end, r->trace));
    if (!r->has_row) r->trace->has = mr_trace_shows(r->trace);
    return MR_OK;
}

bool mr_trace_csv_detect(const unsigned char *head, size_t n)
{
    static const char first[] = "memreuse,";
    return n >= sizeof first - 1 && !memcmp(head, first, sizeof first - 1);
}

mr_status mr_trace_csv_read(mr_ctx *ctx, mr_source *source, mr_trace *out)
{
    mr_trace_init(ctx, out, mr_source_name(source));
    reader *r = MR_NEW(ctx, reader);
    r->trace = out;
    r->end.open_step = MR_NONE;
    mr_csv *csv = mr_csv_open(ctx, source);
    mr_cells_begin(&r->cells, ctx, csv);
    const mr_status status = read_rows(r, source);
    mr_csv_close(csv);
    return status;
}

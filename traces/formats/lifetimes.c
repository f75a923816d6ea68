/* lifetimes -- tables of buffers with a beginning, an end and a size: allocation problems.
 *
 *     id,lower,upper,size[,offset]
 *     b1,0,3,4                      in use at 0, 1 and 2 (and 3, where ends are inclusive)
 *
 * Each row becomes a storage with a tensor of the row's name, allocated and freed in order of
 * time; at equal times what ends makes room before anything begins.  Offsets, where given, are
 * what an allocator did: one segment, in which every buffer was bound.
 */
#include "csv_reader.h"
#include "format.h"
#include "names.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define COLUMN_LIST(X) X(id) X(lower) X(upper) X(size) X(offset)

typedef enum column {
#define X(name) COL_##name,
    COLUMN_LIST(X)
#undef X
        COL_N
} column;

static const char *const column_names[COL_N] = {
#define X(name) #name,
    COLUMN_LIST(X)
#undef X
};

/* At equal times ends sort first. */
typedef struct moment {
    uint64_t time;
    uint32_t begins; /* 1, or 0 where the storage ends */
    uint32_t storage;
} moment;

typedef struct reader {
    mr_ctx *ctx;
    mr_csv *csv;
    mr_trace *trace;
    bool inclusive;
    uint32_t field[COL_N]; /* where a column stands, MR_NONE where it does not */
    uint32_t fields;
    mr_names ids;
    MR_VEC(moment) moments;
    MR_VEC(uint64_t) offsets; /* by storage */
    uint64_t total, height;
    bool open; /* the last line has no line break */
} reader;

/* ---- rows -------------------------------------------------------------------------------- */

static mr_status read_header(reader *r)
{
    const mr_csv_row *row;
    MR_TRY(mr_csv_next(r->csv, &row));
    for (int c = 0; c < COL_N; c++) r->field[c] = MR_NONE;
    for (uint32_t f = 0; f < row->n; f++) {
        int c = 0;
        while (c < COL_N && strcmp(column_names[c], row->at[f]) != 0) c++;
        if (c == COL_N)
            return mr_csv_fail(
                r->csv, f,
                "'%.60s' is no column of a table of lifetimes, expected the header"
                " id,lower,upper,size or id,lower,upper,size,offset",
                row->at[f]);
        if (r->field[c] != MR_NONE)
            return mr_csv_fail(r->csv, f, "column %s is there twice, expected it once",
                               column_names[c]);
        r->field[c] = f;
    }
    for (int c = 0; c < COL_offset; c++)
        if (r->field[c] == MR_NONE)
            return mr_csv_fail(r->csv, 0,
                               "the header has no column %s, expected id,lower,upper,size",
                               column_names[c]);
    r->fields = row->n;
    return MR_OK;
}

static mr_status get_number(const reader *r, const mr_csv_row *row, column c, uint64_t *out)
{
    const char *text = row->at[r->field[c]];
    bool good = *text != '\0';
    *out = 0;
    for (const char *at = text; good && *at; at++) {
        const unsigned digit = (unsigned)(unsigned char)*at - '0';
        good = digit <= 9 && *out <= (UINT64_MAX - digit) / 10;
        if (good) *out = *out * 10 + digit;
    }
    if (good) return MR_OK;
    return mr_csv_fail(r->csv, r->field[c],
                       "%s is '%.60s', expected a whole number from 0 to %" PRIu64,
                       column_names[c], text, UINT64_MAX);
}

static mr_status read_times(reader *r, const mr_csv_row *row, uint64_t *lower, uint64_t *upper)
{
    MR_TRY(get_number(r, row, COL_lower, lower));
    MR_TRY(get_number(r, row, COL_upper, upper));
    if (r->inclusive && *upper >= *lower && *upper < UINT64_MAX) ++*upper;
    if (*upper > *lower) return MR_OK;
    return mr_csv_fail(r->csv, r->field[COL_upper],
                       "upper is %s, with lower %s, expected it to be larger",
                       row->at[r->field[COL_upper]], row->at[r->field[COL_lower]]);
}

static mr_status read_size(reader *r, const mr_csv_row *row, uint64_t *size)
{
    const uint64_t limit = (uint64_t)1 << 62;
    MR_TRY(get_number(r, row, COL_size, size));
    if (!*size)
        return mr_csv_fail(r->csv, r->field[COL_size], "size is 0, expected some bytes");
    if (*size > limit - r->total)
        return mr_csv_fail(r->csv, r->field[COL_size],
                           "size is %" PRIu64 ", with which all together exceed %" PRIu64
                           " bytes, expected less",
                           *size, limit);
    r->total += *size;
    return MR_OK;
}

static mr_status read_offset(reader *r, const mr_csv_row *row, uint64_t size)
{
    uint64_t offset;
    if (r->field[COL_offset] == MR_NONE) return MR_OK;
    MR_TRY(get_number(r, row, COL_offset, &offset));
    if (offset > UINT64_MAX - size)
        return mr_csv_fail(r->csv, r->field[COL_offset],
                           "offset is %" PRIu64 ", expected the buffer to end below %" PRIu64,
                           offset, UINT64_MAX);
    MR_PUSH(r->ctx, &r->offsets, offset);
    if (offset + size > r->height) r->height = offset + size;
    return MR_OK;
}

static mr_status read_id(reader *r, const mr_csv_row *row, const char **name)
{
    const uint32_t field = r->field[COL_id], storage = r->trace->storages.n;
    if (!row->length[field]) return mr_csv_fail(r->csv, field, "id is blank, expected a name");
    const uint32_t id = mr_names_add(r->ctx, &r->ids, row->at[field], row->length[field]);
    if (id != storage)
        return mr_csv_fail(r->csv, field, "id '%.60s' is there twice, expected each once",
                           row->at[field]);
    *name = r->ids.all.at[id].text;
    return MR_OK;
}

static mr_status read_row(reader *r, const mr_csv_row *row)
{
    const char *name = NULL;
    uint64_t lower, upper, size;
    const uint32_t storage = r->trace->storages.n;
    if (row->n != r->fields)
        return mr_csv_fail(r->csv, 0, "the row has %s, expected %u as in the header",
                           mr_show_count(r->ctx, row->n, "field", "fields"), r->fields);
    MR_TRY(read_id(r, row, &name));
    MR_TRY(read_times(r, row, &lower, &upper));
    MR_TRY(read_size(r, row, &size));
    MR_TRY(read_offset(r, row, size));
    MR_PUSH(r->ctx, &r->trace->storages, (mr_storage){.bytes = size, .stack = MR_NONE});
    MR_PUSH(r->ctx, &r->trace->tensors,
            (mr_tensor){.name = name, .dtype = "", .storage = storage, .bytes = size});
    MR_PUSH(r->ctx, &r->moments, (moment){lower, 1, storage});
    MR_PUSH(r->ctx, &r->moments, (moment){upper, 0, storage});
    return MR_OK;
}

/* ---- the trace --------------------------------------------------------------------------- */

static int in_order(const void *left, const void *right)
{
    const moment *a = left, *b = right;
    if (a->time != b->time) return a->time < b->time ? -1 : 1;
    if (a->begins != b->begins) return a->begins < b->begins ? -1 : 1;
    return (a->storage > b->storage) - (a->storage < b->storage);
}

static void add_cmd(reader *r, mr_history *history, const moment *at)
{
    const mr_block block = {.offset = r->offsets.at[at->storage],
                            .bytes = r->trace->storages.at[at->storage].bytes};
    MR_PUSH(r->ctx, &history->cmds,
            (mr_cmd){at->begins ? MR_BIND : MR_UNBIND, at->storage, block});
}

static void make_history(reader *r)
{
    mr_history history = {.capacity_low = r->height, .capacity_high = UINT64_MAX};
    MR_PUSH(r->ctx, &history.segments, (mr_segment){.bytes = r->height});
    MR_PUSH(r->ctx, &history.cmds, (mr_cmd){MR_RESERVE, MR_NONE, {.bytes = r->height}});
    for (uint32_t m = 0; m < r->moments.n; m++) add_cmd(r, &history, &r->moments.at[m]);
    MR_PUSH(r->ctx, &history.end, (mr_piece){.storage = MR_NONE, .bytes = r->height});
    MR_PUSH(r->ctx, &r->trace->histories, history);
    r->trace->has |= MR_HAS_HISTORY;
}

static mr_status finish(reader *r)
{
    mr_trace *trace = r->trace;
    if (!trace->storages.n)
        return mr_csv_fail(r->csv, 0, "the table has no rows, expected some after the header");
    qsort(r->moments.at, r->moments.n, sizeof *r->moments.at, in_order);
    MR_RESERVE_N(r->ctx, &trace->events, r->moments.n);
    MR_RESERVE_N(r->ctx, &trace->times, r->moments.n);
    for (uint32_t m = 0; m < r->moments.n; m++) {
        const moment *at = &r->moments.at[m];
        MR_PUSH(r->ctx, &trace->events,
                (mr_event){at->begins ? MR_ALLOC : MR_FREE, at->storage});
        MR_PUSH(r->ctx, &trace->times, at->time);
    }
    if (r->offsets.n) make_history(r);
    MR_PUSH(r->ctx, &trace->notes, "times are the positions of the table, not nanoseconds");
    if (r->open)
        MR_PUSH(r->ctx, &trace->notes,
                "the last line has no line break: if the table was cut off, its last number may "
                "have been too");
    return MR_OK;
}

static mr_status read_rows(reader *r, mr_source *source)
{
    MR_TRY(read_header(r));
    for (uint32_t n = 1;; n++) {
        const mr_csv_row *row;
        MR_TRY(mr_csv_next(r->csv, &row));
        if (!row->n) return finish(r);
        r->open = mr_csv_is_cut(r->csv);
        MR_TRY(read_row(r, row));
        if (n % 65536 == 0) mr_progress(r->ctx, "reading", mr_source_part(source));
    }
}

static mr_status read_table(mr_ctx *ctx, mr_source *source, const mr_read_options *options,
                            mr_trace *out)
{
    mr_trace_init(ctx, out, mr_source_name(source));
    reader *r = MR_NEW(ctx, reader);
    r->ctx = ctx;
    r->csv = mr_csv_open(ctx, source);
    r->trace = out;
    r->inclusive = options->ends_inclusive;
    const mr_status status = read_rows(r, source);
    mr_csv_close(r->csv);
    return status;
}

/* ---- detection --------------------------------------------------------------------------- */

/* A name and three or four numbers: such a table without the header, which
 * the reader misses. */
static bool is_row(const unsigned char *line, size_t n)
{
    uint32_t commas = 0;
    for (size_t i = 0; i < n; i++) {
        const bool digit = line[i] >= '0' && line[i] <= '9';
        if (line[i] == ',') commas++;
        else if (commas && !digit && line[i] != '\r') return false;
    }
    return commas == 3 || commas == 4;
}

static bool detect(const unsigned char *head, size_t n)
{
    const unsigned char *end = memchr(head, '\n', n);
    const size_t line = end ? (size_t)(end - head) : n;
    return (mr_head_holds(head, line, "lower") && mr_head_holds(head, line, "upper")
            && mr_head_holds(head, line, "size"))
           || is_row(head, line);
}

const mr_format mr_format_lifetimes = {
    .name = "lifetimes",
    .summary = "table of lifetimes, CSV with id,lower,upper,size and perhaps offset",
    .has_ends = true,
    .detect = detect,
    .read = read_table,
};

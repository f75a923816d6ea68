/* results -- reads the cells of a sweep: set-ups, specs, and for each pair a peak and a time.
 */
#include <stdlib.h>
#include <string.h>

#include "csv_reader.h"
#include "results.h"
#include "strategies.h"

bool mr_results_told(mr_ctx *ctx, const char *path)
{
    return mr_file_begins(ctx, path, MR_RESULTS_BEGIN);
}

/* ---- columns and rows -------------------------------------------------------------------- */

typedef struct reader {
    mr_ctx *ctx;
    mr_results *out;
    mr_csv *csv;
    const char *device;                  /* the only one asked for; NULL: all */
    mr_words devices;                    /* that the file has */
    uint32_t result, peak, time, fields; /* columns; how many a row has */
    MR_VEC(mr_result) cells;
    MR_VEC(uint32_t) setup_of;
    MR_VEC(uint32_t) spec_of;
} reader;

enum { TRACE = 0, SPEC = 2, DEVICE = 3 }; /* as mr_results_told says */

static mr_status read_heading(reader *r)
{
    const mr_csv_row *row;
    MR_TRY(mr_csv_next(r->csv, &row));
    r->fields = row->n;
    r->result = r->peak = r->time = MR_NONE;
    for (uint32_t i = 0; i < row->n; i++) {
        if (strcmp(row->at[i], "result") == 0) r->result = i;
        if (strcmp(row->at[i], "peak_reserved") == 0) r->peak = i;
        if (strcmp(row->at[i], "time") == 0) r->time = i;
    }
    if (r->result != MR_NONE && r->peak != MR_NONE && r->time != MR_NONE) return MR_OK;
    return mr_csv_fail(r->csv, 0, "expected the columns result, peak_reserved and time");
}

static uint32_t setup_named(reader *r, const char *trace, const char *device)
{
    mr_results *out = r->out;
    for (uint32_t i = out->setups.n; i-- > 0;)
        if (strcmp(out->setups.at[i].trace, trace) == 0
            && strcmp(out->setups.at[i].device, device) == 0)
            return i;
    MR_PUSH(r->ctx, &out->setups,
            (mr_setup){.trace = mr_strdup(r->ctx, trace), .device = mr_strdup(r->ctx, device)});
    return out->setups.n - 1;
}

static uint32_t spec_named(reader *r, const char *spec)
{
    for (uint32_t i = 0; i < r->out->specs.n; i++)
        if (strcmp(r->out->specs.at[i], spec) == 0) return i;
    MR_PUSH(r->ctx, &r->out->specs, mr_strdup(r->ctx, spec));
    return r->out->specs.n - 1;
}

static mr_status take_number(reader *r, const mr_csv_row *row, uint32_t field, uint64_t *out)
{
    const char *text = row->at[field];
    char *end;
    *out = strtoull(text, &end, 10);
    if (!*end && (!*text || (*text >= '0' && *text <= '9'))) return MR_OK;
    return mr_csv_fail(r->csv, field, "found '%.40s', expected a whole number or nothing",
                       text);
}

static bool is_wanted(reader *r, const char *device)
{
    bool known = false;
    for (uint32_t i = 0; i < r->devices.n; i++) known |= strcmp(r->devices.at[i], device) == 0;
    if (!known) MR_PUSH(r->ctx, &r->devices, mr_strdup(r->ctx, device));
    return !r->device || strcmp(r->device, device) == 0;
}

static mr_status read_row(reader *r, const mr_csv_row *row)
{
    mr_result cell = {.there = true};
    if (row->n != r->fields)
        return mr_csv_fail(r->csv, row->n - 1,
                           "the row ends here, expected as many fields as "
                           "in the heading");
    if (!is_wanted(r, row->at[DEVICE])) return MR_OK;
    MR_TRY(take_number(r, row, r->peak, &cell.peak));
    MR_TRY(take_number(r, row, r->time, &cell.ns));
    cell.fits = strcmp(row->at[r->result], "fits") == 0;
    cell.oom = strcmp(row->at[r->result], "OOM") == 0;
    MR_PUSH(r->ctx, &r->setup_of, setup_named(r, row->at[TRACE], row->at[DEVICE]));
    MR_PUSH(r->ctx, &r->spec_of, spec_named(r, row->at[SPEC]));
    MR_PUSH(r->ctx, &r->cells, cell);
    return MR_OK;
}

static mr_status no_cells(reader *r)
{
    const char *there = "";
    if (!r->devices.n) return mr_csv_fail(r->csv, 0, "the file has no cells, expected some");
    for (uint32_t i = 0; i < r->devices.n; i++)
        there = mr_printf(r->ctx, "%s%s%s", there, i ? ", " : "", r->devices.at[i]);
    return mr_fail(r->ctx, MR_EUSAGE, "'%s' has no cells of the device '%s', but of: %s",
                   r->out->name, r->device, there);
}

static mr_status read_rows(reader *r)
{
    const mr_csv_row *row;
    MR_TRY(read_heading(r));
    for (;;) {
        MR_TRY(mr_csv_next(r->csv, &row));
        if (!row->n) break;
        MR_TRY(mr_csv_check_whole(r->csv));
        MR_TRY(read_row(r, row));
    }
    return r->cells.n ? MR_OK : no_cells(r);
}

/* ---- what follows ------------------------------------------------------------------------ */

const mr_result *mr_result_at(const mr_results *results, uint32_t setup, uint32_t spec)
{
    return &results->at[(size_t)setup * results->specs.n + spec];
}

static bool better(const mr_result *a, const mr_result *b)
{
    return a->peak <= b->peak && a->ns <= b->ns && (a->peak < b->peak || a->ns < b->ns);
}

/* The first of several that are equal stands for them. */
static void find_front(mr_results *results, uint32_t setup)
{
    mr_result *cells = results->at + (size_t)setup * results->specs.n;
    for (uint32_t i = 0; i < results->specs.n; i++) {
        cells[i].front = cells[i].fits && cells[i].ns;
        for (uint32_t j = 0; cells[i].front && j < results->specs.n; j++) {
            if (!cells[j].fits || !cells[j].ns) continue;
            const bool same = cells[j].peak == cells[i].peak && cells[j].ns == cells[i].ns;
            if (better(&cells[j], &cells[i]) || (same && j < i)) cells[i].front = false;
        }
    }
}

/* The last part of a spec, behind the slash that stands outside of brackets. */
static const char *placement_of(const char *spec)
{
    const char *at = spec;
    int depth = 0;
    for (const char *c = spec; *c; c++) {
        depth += (*c == '[') - (*c == ']');
        if (*c == '/' && depth == 0) at = c + 1;
    }
    return at;
}

static uint32_t find_first(const mr_results *results, uint32_t setup)
{
    uint32_t fits = MR_NONE, plain = MR_NONE;
    for (uint32_t s = results->specs.n; s-- > 0;) {
        const mr_result *cell = mr_result_at(results, setup, s);
        const char *spec = results->specs.at[s];
        if (!cell->fits || !cell->peak) continue;
        fits = s;
        if (placement_of(spec) == spec) plain = s;
    }
    return plain == MR_NONE ? fits : plain;
}

/* What all set-ups have in common is not said in their names. */
static void settle_setups(mr_ctx *ctx, mr_results *results)
{
    bool traces = false, devices = false;
    for (uint32_t i = 0; i < results->setups.n; i++) {
        traces |= strcmp(results->setups.at[i].trace, results->setups.at[0].trace) != 0;
        devices |= strcmp(results->setups.at[i].device, results->setups.at[0].device) != 0;
    }
    for (uint32_t i = 0; i < results->setups.n; i++) {
        mr_setup *setup = &results->setups.at[i];
        setup->name =
            !devices  ? setup->trace
            : !traces ? setup->device
                      : mr_printf(ctx, "%s, %s", mr_cut(ctx, setup->trace, 24), setup->device);
        setup->first = find_first(results, i);
        find_front(results, i);
    }
}

/* ---- labels ------------------------------------------------------------------------------ */

static const char *first_param(const char *name, size_t n)
{
    for (size_t i = 0; mr_strategies[i]; i++) {
        const mr_strategy *s = mr_strategies[i];
        if (strlen(s->name) == n && strncmp(s->name, name, n) == 0)
            return s->params && s->params[0].type != MR_PARAM_TYPE_BOOL ? s->params[0].name
                                                                        : NULL;
    }
    return NULL;
}

/* "chen:cut=sqrt" -> "chen:sqrt": a value without a name sets the first parameter.  A bare
 * True would say nothing. */
static const char *without_first_names(mr_ctx *ctx, const char *spec)
{
    char *out = mr_strdup(ctx, spec), *to = out;
    const char *word = spec;
    int depth = 0;
    for (const char *c = spec; *c;) {
        depth += (*c == '[') - (*c == ']');
        if (depth == 0 && (*c == '+' || *c == '/')) word = c + 1;
        const bool args = depth == 0 && *c == ':';
        const char *param = args ? first_param(word, (size_t)(c - word)) : NULL;
        *to++ = *c++;
        const size_t n = param ? strlen(param) : 0;
        if (n && strncmp(c, param, n) == 0 && c[n] == '=') c += n + 1;
    }
    *to = '\0';
    return out;
}

static void settle_labels(mr_ctx *ctx, mr_results *results)
{
    const char *placement = placement_of(results->specs.at[0]);
    bool same = true;
    for (uint32_t s = 0; s < results->specs.n; s++)
        same &= strcmp(placement_of(results->specs.at[s]), placement) == 0;
    results->placement = same ? placement : NULL;
    for (uint32_t s = 0; s < results->specs.n; s++) {
        const char *spec = results->specs.at[s];
        const size_t n = results->placement ? (size_t)(placement_of(spec) - spec) : 0;
        const char *kept = n ? mr_strndup(ctx, spec, n - 1) : spec;
        MR_PUSH(ctx, &results->labels,
                results->placement && !n ? "as recorded" : without_first_names(ctx, kept));
    }
}

mr_status mr_results_read(mr_ctx *ctx, const char *path, const char *device, mr_results *out)
{
    mr_source *source;
    reader r = {.ctx = ctx, .out = out, .device = device};
    MR_TRY(mr_source_open(ctx, path, &source));
    *out = (mr_results){.name = mr_source_name(source)};
    r.csv = mr_csv_open(ctx, source);
    const mr_status status = read_rows(&r);
    mr_csv_close(r.csv);
    mr_source_close(source);
    MR_TRY(mr_source_blame(ctx, path, status));
    out->at = MR_NEW_N(ctx, mr_result, (size_t)out->setups.n * out->specs.n);
    for (uint32_t i = 0; i < r.cells.n; i++)
        out->at[(size_t)r.setup_of.at[i] * out->specs.n + r.spec_of.at[i]] = r.cells.at[i];
    settle_labels(ctx, out);
    settle_setups(ctx, out);
    return MR_OK;
}

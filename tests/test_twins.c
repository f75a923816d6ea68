/* Twins: what a strategy predicts from a plain recording, against a recording of PyTorch with
 * the technique switched on.
 *
 * bench/twin_specs.csv says by which spec a twin is predicted; bench/results/twins.csv is what
 * comes out, and no error in it may grow.  UPDATE=1 writes it anew.
 */
#include "evaluate.h"
#include "format.h"
#include "strategies.h"

#include <stdlib.h>

#include "tables.h"
#include "test.h"

#define BENCH TRACES "/../bench"
#define FOLDER TRACES "/models"

/* ---- what is compared -------------------------------------------------------------------- */

typedef struct measured {
    uint64_t peak, flops;
    MR_VEC(uint64_t) live;  /* bytes after each op */
    MR_VEC(uint64_t) moved; /* bytes that ops up to this one have read and written */
    MR_VEC(uint64_t) sizes; /* of the storages that are allocated, ascending */
    uint64_t sent[MR_ENGINE_N], sendings[MR_ENGINE_N]; /* between devices: bytes, and how often */
} measured;

static int ascending(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void measure_collective(const mr_op *op, measured *out)
{
    if (op->ranks <= 1) return;
    out->sent[op->engine] += op->read > op->written ? op->read : op->written;
    out->sendings[op->engine]++;
}

static mr_status measure(mr_ctx *ctx, const mr_trace *trace, measured *out)
{
    mr_schedule schedule;
    uint32_t at;
    memset(out, 0, sizeof *out);
    MR_TRY(mr_schedule_make(ctx, trace, 0, &schedule));
    out->peak = mr_schedule_peak(&schedule, &at);
    uint64_t live = 0, moved = 0;
    for (uint32_t s = 0; s < trace->storages.n; s++)
        if (trace->storages.at[s].before) live += trace->storages.at[s].bytes;
    for (uint32_t e = 0; e < schedule.events.n; e++) {
        const mr_event event = schedule.events.at[e];
        if (event.kind == MR_ALLOC) {
            live += trace->storages.at[event.id].bytes;
            MR_PUSH(ctx, &out->sizes, trace->storages.at[event.id].bytes);
        }
        if (event.kind == MR_FREE) live -= trace->storages.at[event.id].bytes;
        if (event.kind != MR_RUN) continue;
        out->flops += trace->ops.at[event.id].flops;
        MR_PUSH(ctx, &out->live, live);
        measure_collective(&trace->ops.at[event.id], out);
        moved += trace->ops.at[event.id].read + trace->ops.at[event.id].written;
        MR_PUSH(ctx, &out->moved, moved);
    }
    qsort(out->sizes.at, out->sizes.n, sizeof *out->sizes.at, ascending);
    return MR_OK;
}

/* Where in its step an op ends, between 0 and 1; bytes moved stand for time. */
static double end_of(const measured *m, uint32_t op)
{
    return (double)m->moved.at[op] / (double)m->moved.at[m->moved.n - 1];
}

/* Area between both curves over the area below the second, each drawn over its whole step. */
static double area_error(const measured *x, const measured *y)
{
    double between = 0, below = 0, position = 0;
    uint32_t i = 0, j = 0;
    while (i < x->live.n && j < y->live.n) {
        const double x_end = end_of(x, i), y_end = end_of(y, j);
        const double end = x_end < y_end ? x_end : y_end;
        const double a = (double)x->live.at[i], b = (double)y->live.at[j];
        between += (a < b ? b - a : a - b) * (end - position);
        below += b * (end - position);
        position = end;
        i += x_end <= y_end;
        j += y_end <= x_end;
    }
    return below > 0 ? between / below : 0;
}

/* Storages that only one of them has, by size. */
static uint32_t different_storages(const measured *x, const measured *y)
{
    uint32_t i = 0, j = 0, n = 0;
    while (i < x->sizes.n || j < y->sizes.n) {
        const bool left = i < x->sizes.n, right = j < y->sizes.n;
        const int side = !right ? -1 : !left ? 1 : ascending(&x->sizes.at[i], &y->sizes.at[j]);
        n += side != 0;
        i += side <= 0;
        j += side >= 0;
    }
    return n;
}

/* ---- one twin ---------------------------------------------------------------------------- */

typedef struct result {
    const char *file, *technique, *spec, *plain;
    measured predicted, real;
    double peak_error, area; /* in percent */
    int64_t flops;           /* predicted less real */
    uint32_t storages;
} result;

/* Rewritten, and judged by the referee, as in every evaluation. */
static mr_status predict(mr_ctx *ctx, const mr_trace *plain, const char *text, measured *out)
{
    static const mr_device device = {.name = "test", .memory = 1024 * MR_GIB, .granularity = 1};
    mr_spec *spec = MR_NEW(ctx, mr_spec);
    mr_answer *answer = MR_NEW(ctx, mr_answer);
    MR_TRY(mr_spec_parse(ctx, mr_strategies, mr_printf(ctx, "%s/bound", text), spec));
    const mr_question question = {.trace = plain,
                                  .spec = spec,
                                  .device = &device,
                                  .capacity = UINT64_MAX,
                                  .iterations = 1};
    MR_TRY(mr_evaluate(ctx, &question, answer));
    return measure(ctx, &answer->trace, out);
}

static mr_status read_recording(mr_ctx *ctx, const char *path, mr_trace *out)
{
    const mr_read_options options = {0};
    return mr_recording_read(ctx, path, &options, out);
}

/* The plain recording of a twin, which may be a twin itself. */
static mr_status read_plain(mr_ctx *ctx, const char *name, mr_trace *out)
{
    if (!read_recording(ctx, mr_printf(ctx, "%s/%s.csv.gz", FOLDER, name), out)) return MR_OK;
    return read_recording(ctx, mr_printf(ctx, "%s/twins/%s.csv.gz", FOLDER, name), out);
}

static mr_status compare(mr_ctx *ctx, result *r)
{
    mr_trace *plain = MR_NEW(ctx, mr_trace), *twin = MR_NEW(ctx, mr_trace);
    MR_TRY(read_plain(ctx, r->plain, plain));
    MR_TRY(read_recording(ctx, mr_printf(ctx, "%s/twins/%s", FOLDER, r->file), twin));
    MR_TRY(predict(ctx, plain, r->spec, &r->predicted));
    MR_TRY(measure(ctx, twin, &r->real));
    r->peak_error =
        100 * ((double)r->predicted.peak - (double)r->real.peak) / (double)r->real.peak;
    r->area = 100 * area_error(&r->predicted, &r->real);
    r->flops = (int64_t)(r->predicted.flops - r->real.flops);
    r->storages = different_storages(&r->predicted, &r->real);
    return MR_OK;
}

static const char head[] =
    "file,technique,spec,predicted_peak,peak,peak_error_percent,"
    "area_error_percent,flops_difference,different_storages,ops_difference";

static void write_row(FILE *file, const result *r)
{
    fprintf(file, "%s,%s,\"%s\",%" PRIu64 ",%" PRIu64 ",%.4f,%.4f,%" PRId64 ",%u,%" PRId64 "\n",
            r->file, r->technique, r->spec, r->predicted.peak, r->real.peak, r->peak_error,
            r->area, r->flops, r->storages,
            (int64_t)r->predicted.live.n - (int64_t)r->real.live.n);
}

static double size(double x)
{
    return x < 0 ? -x : x;
}

/* No error may be larger than the stored one, but for the last digit that is printed. */
static void hold_against(const rows *stored, const result *r)
{
    const double digit = 0.0001;
    const char *was = field(stored, r->file, "peak_error_percent");
    if (!*was) {
        TEST_FAIL("%s is not in bench/results/twins.csv (UPDATE=1 writes it)", r->file);
        return;
    }
    if (size(r->peak_error) > size(strtod(was, NULL)) + digit)
        TEST_FAIL("%s: the peak is %.4f %% off, expected %s %%", r->file, r->peak_error, was);
    was = field(stored, r->file, "area_error_percent");
    if (r->area > strtod(was, NULL) + digit)
        TEST_FAIL("%s: the curve is %.4f %% off, expected %s %%", r->file, r->area, was);
    was = field(stored, r->file, "flops_difference");
    if (size((double)r->flops) > size(strtod(was, NULL)))
        TEST_FAIL("%s: flops differ by %" PRId64 ", expected %s", r->file, r->flops, was);
    was = field(stored, r->file, "different_storages");
    if (r->storages > strtoul(was, NULL, 10))
        TEST_FAIL("%s: %u storages differ, expected %s", r->file, r->storages, was);
}

/* Buffers of a model, which the first device tells the others, are not predicted. */
static void hold_collectives(const result *r)
{
    for (int e = 0; e < MR_ENGINE_N; e++) {
        const uint64_t found = r->predicted.sent[e], n = r->predicted.sendings[e];
        if (e == MR_ENGINE_broadcast) continue;
        if (found != r->real.sent[e] || n != r->real.sendings[e])
            TEST_FAIL("%s: %" PRIu64 " collectives send %" PRIu64 " bytes, expected %" PRIu64
                      " and %" PRIu64, r->file, n, found, r->real.sendings[e], r->real.sent[e]);
    }
}

TEST(no_prediction_is_worse_than_what_is_published)
{
    mr_ctx ctx = {0};
    const rows specs = read_table(&ctx, BENCH "/twin_specs.csv");
    const rows manifest = read_table(&ctx, FOLDER "/twins/MANIFEST.csv");
    const rows stored = read_table(&ctx, BENCH "/results/twins.csv");
    const char *update = getenv("UPDATE");
    FILE *out = update && *update ? fopen(BENCH "/results/twins.csv", "w") : NULL;
    if (out) fprintf(out, "%s\n", head);
    CHECK(specs.n > 1 && manifest.n > 1);
    for (uint32_t i = 1; i < specs.n; i++) {
        mr_ctx one = {0};
        result r = {.file = specs.at[i].at[0], .spec = specs.at[i].at[1]};
        r.technique = field(&manifest, r.file, "technique");
        r.plain = field(&manifest, r.file, "plain");
        if (compare(&one, &r)) TEST_FAIL("%s, %s: %s", r.file, r.spec, one.failure.text);
        else if (out) write_row(out, &r);
        else hold_against(&stored, &r);
        hold_collectives(&r);
        mr_ctx_clear(&one);
    }
    if (out) fclose(out);
    mr_ctx_clear(&ctx);
}

/* Twins that no spec predicts, and why. */
static const char *const unpredicted[][2] = {
    {"vgg16-checkpoint-reentrant.csv.gz",
     "its first region has no input that needs a gradient, so PyTorch did not train what is in"
     " regions: checkpoint leaves that region alone"},
};

static bool is_told(const rows *specs, const char *file)
{
    for (size_t i = 0; i < MR_COUNT(unpredicted); i++)
        if (!strcmp(unpredicted[i][0], file)) return true;
    return *field(specs, file, "spec") != 0;
}

/* Those without a technique are what other twins are predicted from. */
TEST(every_twin_is_predicted_or_it_is_said_why_not)
{
    mr_ctx ctx = {0};
    const rows specs = read_table(&ctx, BENCH "/twin_specs.csv");
    const rows manifest = read_table(&ctx, FOLDER "/twins/MANIFEST.csv");
    for (uint32_t i = 1; i < manifest.n; i++) {
        const char *file = manifest.at[i].at[0], *technique = field(&manifest, file, "technique");
        if (!*technique || is_told(&specs, file)) continue;
        TEST_FAIL("%s: no row in bench/twin_specs.csv, expected one for %s", file, technique);
    }
    mr_ctx_clear(&ctx);
}

TEST_MAIN()

/* The recorded models: what memreuse rebuilds from each file is what PyTorch counted in the run. */
#include "csv_reader.h"
#include "format.h"
#include "schedule.h"

#include <stdlib.h>

#include "test.h"

#define FNV_BASIS 0xcbf29ce484222325u
#define FNV_PRIME 0x100000001b3u

typedef struct table {
    mr_csv_row head, row;
} table;

/* The field of a row below a column's name. */
static const char *field(const table *t, const char *name)
{
    for (uint32_t i = 0; i < t->head.n && i < t->row.n; i++)
        if (!strcmp(t->head.at[i], name)) return t->row.at[i];
    return "";
}

/* FNV-1a over eight bytes, lowest first. */
static uint64_t fnv(uint64_t hash, uint64_t value)
{
    for (int byte = 0; byte < 8; byte++, value >>= 8)
        hash = (hash ^ (value & 255)) * FNV_PRIME;
    return hash;
}

/* A checksum of the live bytes after every op. */
static uint64_t curve(const mr_schedule *schedule)
{
    const mr_storage *storages = schedule->trace->storages.at;
    uint64_t live = 0, hash = FNV_BASIS;
    for (uint32_t s = 0; s < schedule->trace->storages.n; s++)
        if (storages[s].before) live += storages[s].bytes;
    for (uint32_t e = 0; e < schedule->events.n; e++) {
        const mr_event event = schedule->events.at[e];
        if (event.kind == MR_ALLOC) live += storages[event.id].bytes;
        if (event.kind == MR_FREE) live -= storages[event.id].bytes;
        if (event.kind == MR_RUN) hash = fnv(hash, live);
    }
    return hash;
}

static uint64_t flops(const mr_trace *trace)
{
    uint64_t sum = 0;
    for (uint32_t o = 0; o < trace->ops.n; o++) sum += trace->ops.at[o].flops;
    return sum;
}

static void check_row(const char *folder, const table *t)
{
    mr_ctx ctx = {0};
    const mr_read_options options = {0};
    mr_trace trace;
    mr_schedule schedule;
    uint32_t at;
    const int failures = test_failures;
    const char *path = mr_printf(&ctx, "%s/%s", folder, field(t, "file"));
    if (mr_recording_read(&ctx, path, &options, &trace)
        || mr_schedule_make(&ctx, &trace, 0, &schedule)) {
        TEST_FAIL("%s", ctx.failure.text);
    } else {
        CHECK_EQ(trace.ops.n, strtoull(field(t, "ops"), NULL, 10));
        CHECK_EQ(mr_schedule_peak(&schedule, &at), strtoull(field(t, "peak"), NULL, 10));
        CHECK_EQ(curve(&schedule), strtoull(field(t, "curve"), NULL, 16));
        CHECK_EQ(curve(&schedule), strtoull(field(t, "counted_curve"), NULL, 16));
        CHECK_EQ(flops(&trace), strtoull(field(t, "flop_counter"), NULL, 10));
    }
    if (test_failures > failures) printf("    in %s\n", field(t, "file"));
    mr_ctx_clear(&ctx);
}

static mr_csv_row kept(mr_ctx *ctx, const mr_csv_row *row)
{
    mr_csv_row copy = *row;
    for (uint32_t i = 0; i < row->n; i++)
        copy.at[i] = mr_strndup(ctx, row->at[i], row->length[i]);
    return copy;
}

static void check_folder(const char *folder)
{
    mr_ctx ctx = {0};
    mr_source *source;
    const mr_csv_row *row;
    table t = {0};
    uint32_t files = 0;
    mr_status status;
    if (mr_source_open(&ctx, mr_printf(&ctx, "%s/truth.csv", folder), &source)) {
        TEST_FAIL("%s", ctx.failure.text);
        return;
    }
    mr_csv *csv = mr_csv_open(&ctx, source);
    CHECK_EQ(mr_csv_next(csv, &row), MR_OK);
    t.head = kept(&ctx, row);
    for (; !(status = mr_csv_next(csv, &row)) && row->n; files++) {
        t.row = *row;
        check_row(folder, &t);
    }
    CHECK_EQ(status, MR_OK);
    CHECK(files > 0);
    mr_csv_close(csv);
    mr_source_close(source);
    mr_ctx_clear(&ctx);
}

TEST(live_bytes_after_every_op_are_what_pytorch_counted)
{
    check_folder(TRACES "/models");
}

TEST(so_they_are_with_a_technique_switched_on)
{
    check_folder(TRACES "/models/twins");
}

TEST_MAIN()

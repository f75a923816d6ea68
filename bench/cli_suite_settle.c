/* settle -- what follows from the lines of a suite: settings, recordings, cells, expectations.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "format.h"
#include "suite_reader.h"

static bool is_text(const unsigned char *head, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (head[i] < ' ' && !isspace(head[i])) return false;
    return true;
}

/* A suite and a recording are easily taken for each other. */
static mr_status check_kind(mr_suite_reader *r, mr_source *source)
{
    size_t have;
    const unsigned char *head = mr_source_peek(source, MR_FORMAT_HEAD, &have);
    if (have > MR_FORMAT_HEAD) have = MR_FORMAT_HEAD;
    for (size_t i = 0; mr_formats[i]; i++)
        if (mr_formats[i]->detect(head, have))
            return mr_fail_at(r->ctx, MR_EINPUT, r->suite.path,
                              "the file is a recording (%s), expected a suite that names it; "
                              "info and compare take recordings",
                              mr_formats[i]->name);
    if (is_text(head, have)) return MR_OK;
    return mr_fail_at(r->ctx, MR_EINPUT, r->suite.path,
                      "the file is binary data, expected a suite, which is a text "
                      "(bench/suites/README.md)");
}

mr_status mr_suite_open(mr_suite_reader *r)
{
    struct stat found;
    if (stat(r->suite.path, &found) == 0 && S_ISREG(found.st_mode) && !found.st_size)
        return mr_fail_at(r->ctx, MR_EINPUT, r->suite.path,
                          "the suite is empty, expected at least a trace and a spec");
    MR_TRY(mr_source_open(r->ctx, r->suite.path, &r->lines.source));
    const mr_status status = check_kind(r, r->lines.source);
    if (status != MR_OK) mr_source_close(r->lines.source);
    return status;
}

/* ---- settings ---------------------------------------------------------------------------- */

mr_status mr_suite_device_line(mr_suite_reader *r)
{
    mr_place place;
    const uint32_t before = r->suite.devices.n;
    for (const char *word; *(word = mr_suite_word(r, &place));) {
        mr_suite_device found = {0};
        if (mr_device_find(r->ctx, word, &found.device) != MR_OK)
            return mr_suite_fail(r, place, "%s", mr_strdup(r->ctx, r->ctx->failure.text));
        if (mr_suite_device_named(&r->suite, found.device.name) != MR_NONE)
            return mr_suite_fail(r, place, "'%s' was named before", word);
        MR_PUSH(r->ctx, &r->suite.devices, found);
    }
    if (r->suite.devices.n == before)
        return mr_suite_fail(r, place, "expected devices (memreuse list devices)");
    return MR_OK;
}

mr_status mr_suite_capacity_line(mr_suite_reader *r)
{
    mr_place place;
    const char *word = mr_suite_word(r, &place);
    r->limited = true;
    r->capacity = UINT64_MAX;
    if (strcmp(word, "unlimited") == 0) return MR_OK;
    if (mr_parse_size(word, &r->capacity) && r->capacity) return MR_OK;
    return mr_suite_fail(r, place, "found '%s', expected 'unlimited' or a size such as 22GiB",
                         word);
}

static mr_status take_number(mr_suite_reader *r, uint64_t low, uint64_t high, uint64_t *out)
{
    mr_place place;
    const char *word = mr_suite_word(r, &place);
    *out = 0;
    for (const char *c = word; *c; c++) {
        if (*c < '0' || *c > '9' || *out > high)
            return mr_suite_fail(r, place, "found '%s', expected a whole number", word);
        *out = *out * 10 + (uint64_t)(*c - '0');
    }
    if (*word && *out >= low && *out <= high) return MR_OK;
    return mr_suite_fail(r, place, "found '%s', expected a number from %" PRIu64 " to %" PRIu64,
                         word, low, high);
}

mr_status mr_suite_iterations_line(mr_suite_reader *r)
{
    uint64_t n;
    MR_TRY(take_number(r, 1, 1000000, &n));
    r->suite.iterations = (uint32_t)n;
    return MR_OK;
}

mr_status mr_suite_seed_line(mr_suite_reader *r)
{
    return take_number(r, 0, UINT32_MAX, &r->suite.seed);
}

mr_status mr_suite_tf32_line(mr_suite_reader *r)
{
    mr_place place;
    const char *word = mr_suite_word(r, &place);
    if (strcmp(word, "conv") != 0 && strcmp(word, "all") != 0 && strcmp(word, "off") != 0)
        return mr_suite_fail(r, place, "found '%s', expected conv, all or off", word);
    r->suite.tf32 = word;
    return MR_OK;
}

/* As for compare: of a device that nobody named, only context and costs count, and a capacity
 * is all of its memory. */
static mr_status settle_devices(mr_suite_reader *r)
{
    mr_suite *suite = &r->suite;
    suite->device_assumed = !suite->devices.n;
    if (suite->device_assumed) {
        mr_suite_device assumed = {.capacity = UINT64_MAX};
        MR_TRY(mr_device_find(r->ctx, MR_ASSUMED_DEVICE, &assumed.device));
        MR_PUSH(r->ctx, &suite->devices, assumed);
    }
    for (uint32_t i = 0; i < suite->devices.n; i++) {
        mr_suite_device *d = &suite->devices.at[i];
        d->device.use_tf32 = mr_tf32_named(suite->tf32);
        if (!suite->device_assumed) d->capacity = mr_device_capacity(&d->device);
        if (r->limited) d->capacity = r->capacity;
        if (r->limited && suite->device_assumed && r->capacity != UINT64_MAX)
            d->device.memory = r->capacity;
    }
    return MR_OK;
}

/* ---- recordings -------------------------------------------------------------------------- */

#define FNV_START 14695981039346656037u /* FNV-1a, 64 bits */
#define FNV_PRIME 1099511628211u

static uint64_t hash_file(uint64_t hash, const char *path)
{
    unsigned char bytes[4096];
    FILE *file = fopen(path, "rb");
    if (!file) return hash;
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, file)) > 0;)
        for (size_t i = 0; i < n; i++) hash = (hash ^ bytes[i]) * FNV_PRIME;
    fclose(file);
    return hash;
}

/* The one device of the recording on which something happens. */
static mr_status choose_cuda_device(mr_suite_reader *r, mr_suite_trace *t)
{
    uint32_t n, busy = 0;
    const uint32_t *devices = mr_trace_devices(r->ctx, &t->trace, &n);
    for (uint32_t i = 0; i < n; i++) {
        if (n > 1 && mr_scene_is_idle(&t->trace, devices[i])) continue;
        t->cuda_device = devices[i];
        busy++;
    }
    if (busy == 1) return MR_OK;
    return mr_suite_fail(r, t->place, "'%s' records %" PRIu32 " devices, expected one",
                         t->trace.name, busy);
}

static mr_status read_recordings(mr_suite_reader *r)
{
    const mr_read_options options = {0};
    mr_suite *suite = &r->suite;
    if (!suite->traces.n)
        return mr_suite_fail(r, mr_suite_here(r), "the suite names no trace, expected one");
    suite->hash = hash_file(hash_file(FNV_START, suite->path), "/proc/self/exe");
    for (uint32_t i = 0; i < suite->traces.n; i++) {
        mr_suite_trace *t = &suite->traces.at[i];
        MR_TRY(mr_recording_read(r->ctx, t->path, &options, &t->trace));
        MR_TRY(choose_cuda_device(r, t));
        t->iterations = suite->iterations ? suite->iterations : mr_usual_iterations(&t->trace);
        suite->hash = hash_file(suite->hash, t->path);
    }
    return MR_OK;
}

const char *mr_suite_iterations(mr_ctx *ctx, const mr_suite *suite)
{
    uint32_t low = UINT32_MAX, high = 0;
    for (uint32_t i = 0; i < suite->traces.n; i++) {
        const uint32_t n = suite->traces.at[i].iterations;
        low = n < low ? n : low;
        high = n > high ? n : high;
    }
    if (high < 2) return "1 iteration";
    const char *text = mr_printf(ctx,
                                 "%" PRIu32 " iterations, of which time and throughput are "
                                 "those of the last, all else of all",
                                 high);
    return low < high ? mr_printf(ctx, "%" PRIu32 " or %s", low, text) : text;
}

/* ---- cells ------------------------------------------------------------------------------- */

static uint32_t *slot(const mr_suite *suite, uint32_t trace, uint32_t device, uint32_t spec)
{
    return &suite->cell_of[(trace * suite->devices.n + device) * suite->specs.n + spec];
}

const mr_suite_cell *mr_suite_cell_at(const mr_suite *suite, uint32_t trace, uint32_t device,
                                      uint32_t spec)
{
    const uint32_t cell = *slot(suite, trace, device, spec);
    return cell == MR_NONE ? NULL : &suite->cells.at[cell];
}

static mr_ids all_of(mr_ctx *ctx, uint32_t n)
{
    mr_ids ids = {MR_NEW_N(ctx, uint32_t, n), n};
    for (uint32_t i = 0; i < n; i++) ids.at[i] = i;
    return ids;
}

static bool *wanted_cells(mr_suite_reader *r)
{
    mr_suite *suite = &r->suite;
    bool *wanted = MR_NEW_N(r->ctx, bool, (size_t)suite->traces.n * suite->specs.n);
    if (!r->wanted.n)
        MR_PUSH(r->ctx, &r->wanted,
                (mr_wanted){all_of(r->ctx, suite->traces.n), all_of(r->ctx, suite->specs.n)});
    for (uint32_t w = 0; w < r->wanted.n; w++) {
        const mr_wanted *line = &r->wanted.at[w];
        for (uint32_t i = 0; i < line->traces.n; i++)
            for (uint32_t j = 0; j < line->specs.n; j++)
                wanted[line->traces.at[i] * suite->specs.n + line->specs.at[j]] = true;
    }
    return wanted;
}

#define CELLS_MOST 10000000

static mr_status make_cells(mr_suite_reader *r)
{
    mr_suite *suite = &r->suite;
    if (!suite->specs.n)
        return mr_suite_fail(r, mr_suite_here(r), "the suite names no spec, expected one");
    const size_t slots = (size_t)suite->traces.n * suite->devices.n * suite->specs.n;
    if (slots > CELLS_MOST)
        return mr_suite_fail(r, mr_suite_here(r),
                             "the suite has %zu cells, expected at most %d", slots, CELLS_MOST);
    const bool *wanted = wanted_cells(r);
    suite->cell_of = MR_NEW_N(r->ctx, uint32_t, slots);
    for (uint32_t t = 0; t < suite->traces.n; t++)
        for (uint32_t d = 0; d < suite->devices.n; d++)
            for (uint32_t s = 0; s < suite->specs.n; s++) {
                const bool want = wanted[t * suite->specs.n + s];
                *slot(suite, t, d, s) = want ? suite->cells.n : MR_NONE;
                if (want)
                    MR_PUSH(r->ctx, &suite->cells,
                            (mr_suite_cell){.trace = t, .device = d, .spec = s});
            }
    return MR_OK;
}

/* ---- claims ------------------------------------------------------------------------------ */

static mr_status parse_expectations(mr_suite_reader *r)
{
    mr_suite *suite = &r->suite;
    for (uint32_t c = 0; c < suite->claims.n; c++)
        if (!suite->claims.at[c].traces.n)
            suite->claims.at[c].traces = all_of(r->ctx, suite->traces.n);
    for (uint32_t i = 0; i < r->expected.n; i++) {
        const mr_expected *line = &r->expected.at[i];
        mr_claim *claim = &suite->claims.at[line->claim];
        mr_expect expect;
        MR_TRY(
            mr_expect_parse(r->ctx, &r->lines, suite, claim, line->text, line->place, &expect));
        MR_PUSH(r->ctx, &claim->expects, expect);
    }
    return MR_OK;
}

mr_status mr_suite_settle(mr_suite_reader *r)
{
    MR_TRY(settle_devices(r));
    MR_TRY(read_recordings(r));
    MR_TRY(make_cells(r));
    return parse_expectations(r);
}

/* ops_run -- feeds a script of operations to the model of PyTorch's caching allocator.
 *
 *     ops_run [--version V] [--adopt N] SCRIPT        "-" reads standard input
 *
 * The language and the output are those of ptdriver.cpp, which drives the real allocator, less
 * the lines about the device; so the two can be compared with diff.  The device is
 * fake_device.c. With --adopt N a second allocator takes over what the first holds before line
 * N, or as soon as no free is pending, and continues; only sums, peaks and numbers of calls may
 * show it.  Scripts that use pools or collect garbage are beyond that: holders and ages are not
 * part of a snapshot.
 */
#include "fake_device.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct named { /* a live block by name, in a hash table with open addresses */
    const char *name;
    uint64_t address;
    uint32_t block;
    bool live;
} named;

typedef struct runner {
    mr_ctx ctx;
    c10_version version;
    fake_device device;
    c10_allocator *allocator;
    named *names;
    uint32_t names_n, names_cap;
    uint32_t traced; /* events of the trace that were printed */
    bool quiet, over;
    unsigned adopt_at; /* line, 0 for never */
    double fraction;   /* memory fraction set last, negative for none */
    char word[4][256]; /* of the line at hand: operation and arguments */
    char result[600];
} runner;

/* ---- blocks by name --------------------------------------------------------------------- */

static named *slot_for(named *names, uint32_t cap, const char *name)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (const char *c = name; *c; c++) hash = (hash ^ (unsigned char)*c) * 1099511628211;
    uint32_t i = (uint32_t)(hash ^ (hash >> 32)) & (cap - 1);
    while (names[i].name && strcmp(names[i].name, name)) i = (i + 1) & (cap - 1);
    return &names[i];
}

static void grow_names(runner *r)
{
    const uint32_t cap = r->names_cap ? r->names_cap * 2 : 1024;
    named *names = MR_NEW_N(&r->ctx, named, cap);
    for (uint32_t i = 0; i < r->names_cap; i++)
        if (r->names[i].name) *slot_for(names, cap, r->names[i].name) = r->names[i];
    r->names = names;
    r->names_cap = cap;
}

static named *named_block(runner *r, const char *name)
{
    if (2 * r->names_n >= r->names_cap) grow_names(r);
    named *slot = slot_for(r->names, r->names_cap, name);
    if (!slot->name) {
        slot->name = mr_strdup(&r->ctx, name);
        r->names_n++;
    }
    return slot;
}

static const char *hex(mr_ctx *ctx, uint64_t n)
{
    return n ? mr_printf(ctx, "0x%" PRIx64, n) : "0";
}

/* ---- reports ---------------------------------------------------------------------------- */

static void print_totals(runner *r)
{
    const c10_stats *s = c10_statistics(r->allocator);
    printf(" | A=%" PRIu64 " C=%" PRIu64 " Q=%" PRIu64 " R=%" PRIu64 " I=%" PRIu64 " S=%" PRIu64
           " M=%" PRIu64 " F=%" PRIu64 "\n",
           s->allocated_bytes[0].current, s->active_bytes[0].current,
           s->requested_bytes[0].current, s->reserved_bytes[0].current,
           s->inactive_split_bytes[0].current, s->segment[0].current, s->num_device_alloc,
           s->num_device_free);
}

static void print_stat(const char *name, const char *kind, c10_stat s)
{
    printf("stat %s%s current=%" PRId64 " peak=%" PRId64 " allocated=%" PRId64 " freed=%" PRId64
           "\n",
           name, kind, (int64_t)s.current, (int64_t)s.peak, (int64_t)s.allocated,
           (int64_t)s.freed);
}

static void print_kinds(const char *name, const c10_stat *stat)
{
    print_stat(name, ".all", stat[C10_ALL]);
    print_stat(name, ".small_pool", stat[C10_SMALL_POOL]);
    print_stat(name, ".large_pool", stat[C10_LARGE_POOL]);
}

static void do_stats(runner *r)
{
    const c10_stats *s = c10_statistics(r->allocator);
#define X(name) print_kinds(#name, s->name);
    C10_STATS(X)
#undef X
    print_stat("oversize_allocations", "", s->oversize_allocations);
    print_stat("oversize_segments", "", s->oversize_segments);
    printf("stat num_alloc_retries=%" PRIu64 " num_ooms=%" PRIu64 " max_split_size=%" PRId64
           " num_sync_all_streams=%" PRIu64 " num_device_alloc=%" PRIu64
           " num_device_free=%" PRIu64,
           s->num_alloc_retries, s->num_ooms, (int64_t)s->max_split_size,
           s->num_sync_all_streams, s->num_device_alloc, s->num_device_free);
    if (r->version.minor >= 12)
        printf(" num_oom_rejections=%" PRIu64 "\n", s->num_oom_rejections);
    else printf(" num_oom_rejections=-1\n"); /* it does not exist there */
    r->result[0] = 0;
}

static void do_snapshot(runner *r)
{
    static const char *const states[] = {"inactive", "active_pending_free", "active_allocated"};
    mr_ctx ctx = {0};
    c10_segments segments;
    c10_snapshot(r->allocator, &ctx, &segments);
    for (uint32_t i = 0; i < segments.n; i++) {
        const c10_segment *s = &segments.at[i];
        printf("segment %s total=%" PRIu64 " allocated=%" PRIu64 " active=%" PRIu64
               " requested=%" PRIu64 " stream=%" PRIu32 " %s%s pool=0,%" PRIu64 "\n",
               hex(&ctx, s->address), s->total, s->allocated, s->active, s->requested,
               s->stream, s->large ? "large" : "small", s->expandable ? " expandable" : "",
               s->pool);
        for (uint32_t k = 0; k < s->pieces.n; k++)
            printf("  block %s size=%" PRIu64 " requested=%" PRIu64 " %s\n",
                   hex(&ctx, s->pieces.at[k].address), s->pieces.at[k].size,
                   s->pieces.at[k].requested, states[s->pieces.at[k].state]);
    }
    mr_ctx_clear(&ctx);
    r->result[0] = 0;
}

/* The snapshot that the real trace is read with is itself recorded behind it. */
static void do_trace(runner *r)
{
    static const char *const names[] = {
        "alloc",       "free_requested", "free_completed", "segment_alloc", "segment_free",
        "segment_map", "segment_unmap",  "snapshot",       "oom",           "annotate"};
    mr_ctx ctx = {0};
    c10_segments segments;
    for (; r->traced < r->device.trace.n; r->traced++) {
        const fake_event *e = &r->device.trace.at[r->traced];
        printf("trace %s %s %" PRIu64 " stream=%" PRIu32 "\n", names[e->action],
               hex(&ctx, e->address), e->size, e->stream);
    }
    c10_snapshot(r->allocator, &ctx, &segments);
    mr_ctx_clear(&ctx);
    r->result[0] = 0;
}

/* ---- operations ------------------------------------------------------------------------- */

static uint64_t number(const char *word)
{
    return strtoull(word, NULL, 0);
}

static uint32_t stream(const char *word)
{
    return (uint32_t)strtoul(word, NULL, 10);
}

/* The first clause of a refusal is the release's own, what follows is ours. */
static void refuse(runner *r)
{
    const char *text = r->ctx.failure.text, *end = strstr(text, "; ");
    const int n = end ? (int)(end - text) : (int)strlen(text);
    snprintf(r->result, sizeof r->result, "error: %.*s", n, text);
}

/* A refused option is passed over, any other refusal ends the run. */
static void unless(runner *r, mr_status status)
{
    if (status == MR_OK) return;
    refuse(r);
    r->over = true;
}

static void do_start(runner *r)
{
    (void)r; /* done before the allocator was made */
}

static void do_conf(runner *r)
{
    c10_options options = *c10_configured(r->allocator);
    if (c10_options_parse(&r->ctx, r->version, r->word[1], &options) != MR_OK) refuse(r);
    c10_configure(r->allocator, &options);
}

static void do_fraction(runner *r)
{
    r->fraction = strtod(r->word[1], NULL);
    unless(r, c10_set_memory_fraction(r->allocator, r->fraction));
}

static void do_alloc(runner *r)
{
    c10_lease lease;
    if (!c10_malloc(r->allocator, number(r->word[2]), stream(r->word[3]), &lease)) {
        snprintf(r->result, sizeof r->result, "oom");
        unless(r, c10_sound(r->allocator));
        return;
    }
    named *block = named_block(r, r->word[1]);
    block->address = lease.address;
    block->block = lease.block;
    block->live = true;
    snprintf(r->result, sizeof r->result, "%s", hex(&r->ctx, lease.address));
}

static named *live_block(runner *r)
{
    named *block = named_block(r, r->word[1]);
    if (block->live) return block;
    snprintf(r->result, sizeof r->result, "unknown");
    return NULL;
}

static void do_free(runner *r)
{
    named *block = live_block(r);
    if (!block) return;
    c10_free(r->allocator, block->block);
    block->live = false;
}

static void do_record(runner *r)
{
    const named *block = live_block(r);
    if (block) c10_record_stream(r->allocator, block->block, stream(r->word[2]));
}

static void do_advance(runner *r)
{
    if (!strcmp(r->word[1], "all")) fake_device_sync(&r->device);
    else fake_device_advance(&r->device, stream(r->word[1]), number(r->word[2]));
}

static void do_events(runner *r)
{
    r->device.manual = !strcmp(r->word[1], "manual");
}

static void do_sync(runner *r)
{
    fake_device_advance(&r->device, stream(r->word[1]), 0);
}

static void do_empty(runner *r)
{
    if (r->word[1][0]) unless(r, c10_pool_empty(r->allocator, number(r->word[1])));
    else unless(r, c10_empty_cache(r->allocator));
}

static void do_annotate(runner *r)
{
    const named *block = live_block(r);
    if (block) unless(r, c10_annotate(r->allocator, block->block));
}

static void do_capture_begin(runner *r)
{
    c10_capture_begin(r->allocator);
}

static void do_capture_end(runner *r)
{
    c10_capture_end(r->allocator);
}

static void do_reserve_class(runner *r)
{
    unless(r, c10_set_reserve_class(r->allocator, stream(r->word[1]), r->word[2]));
}

static void do_addr(runner *r)
{
    MR_PUSH(&r->ctx, &r->device.next_addresses, strtoull(r->word[1], NULL, 16));
}

static void do_external(runner *r)
{
    fake_device_external(&r->device, number(r->word[1]));
}

static void do_fail(runner *r)
{
    r->device.fail_next = (uint32_t)number(r->word[1]);
}

static bool flagged(const runner *r, const char *flag)
{
    return !strcmp(r->word[2], flag) || !strcmp(r->word[3], flag);
}

static void do_pool_create(runner *r)
{
    const c10_pool_flags flags = {flagged(r, "use_on_oom"), flagged(r, "no_split")};
    unless(r, c10_pool_create(r->allocator, number(r->word[1]), flags));
}

static void do_pool_begin(runner *r)
{
    const bool any = !r->word[2][0] || !strcmp(r->word[2], "any");
    unless(r, c10_pool_begin(r->allocator, number(r->word[1]),
                             any ? MR_NONE : stream(r->word[2])));
}

static void do_pool_end(runner *r)
{
    unless(r, c10_pool_end(r->allocator, number(r->word[1])));
}

static void do_pool_release(runner *r)
{
    unless(r, c10_pool_release(r->allocator, number(r->word[1])));
}

static void do_reset_peak(runner *r)
{
    c10_reset_peaks(r->allocator);
}

static void do_reset_acc(runner *r)
{
    c10_reset_accumulated(r->allocator);
}

static void do_quiet(runner *r)
{
    r->quiet = strcmp(r->word[1], "off") != 0;
    r->result[0] = 0;
}

static const struct operation {
    const char *name;
    void (*run)(runner *r);
} operations[] = {
    {"start", do_start},
    {"conf", do_conf},
    {"fraction", do_fraction},
    {"alloc", do_alloc},
    {"free", do_free},
    {"record", do_record},
    {"advance", do_advance},
    {"events", do_events},
    {"sync", do_sync},
    {"empty", do_empty},
    {"addr", do_addr},
    {"external", do_external},
    {"fail", do_fail},
    {"pool_create", do_pool_create},
    {"pool_begin", do_pool_begin},
    {"pool_end", do_pool_end},
    {"pool_release", do_pool_release},
    {"capture_begin", do_capture_begin},
    {"capture_end", do_capture_end},
    {"reserve_class", do_reserve_class},
    {"annotate", do_annotate},
    {"reset_peak", do_reset_peak},
    {"reset_acc", do_reset_acc},
    {"stats", do_stats},
    {"snapshot", do_snapshot},
    {"trace", do_trace},
    {"quiet", do_quiet},
};

/* ---- the script ------------------------------------------------------------------------- */

static const struct operation *operation_named(const char *name)
{
    for (size_t i = 0; i < MR_COUNT(operations); i++)
        if (!strcmp(operations[i].name, name)) return &operations[i];
    return NULL;
}

static void run_line(runner *r, unsigned line_no, const char *line)
{
    memset(r->word, 0, sizeof r->word);
    sscanf(line, "%255s %255s %255s %255s", r->word[0], r->word[1], r->word[2], r->word[3]);
    if (!r->word[0][0] || r->word[0][0] == '#') return;
    const struct operation *operation = operation_named(r->word[0]);
    if (!operation) {
        fprintf(stderr, "line %u: unknown operation %s\n", line_no, r->word[0]);
        exit(2);
    }
    snprintf(r->result, sizeof r->result, "ok");
    operation->run(r);
    if (!r->result[0] || r->quiet) return;
    printf("%u %s -> %s", line_no, line, r->result);
    print_totals(r);
}

/* "start OPTIONS" holds before anything else, wherever it stands. */
static mr_status start(runner *r, FILE *script)
{
    static char line[1 << 16];
    char text[sizeof r->word[0]];
    c10_options options;
    c10_options_init(&options, r->version);
    mr_status status = MR_OK;
    for (bool found = false; !found && fgets(line, sizeof line, script);)
        if (sscanf(line, "start %255s", text) == 1) {
            status = c10_options_parse(&r->ctx, r->version, text, &options);
            found = true;
        }
    rewind(script);
    fake_device_init(&r->device, &r->ctx);
    const c10_device calls = fake_device_calls(&r->device);
    r->allocator = c10_new(&r->ctx, &calls, r->version, &options);
    return status;
}

/* ---- taking over ------------------------------------------------------------------------ */

static bool pending(const c10_segments *segments)
{
    for (uint32_t i = 0; i < segments->n; i++)
        for (uint32_t k = 0; k < segments->at[i].pieces.n; k++)
            if (segments->at[i].pieces.at[k].state == C10_PENDING_FREE) return true;
    return false;
}

static void rename_blocks(runner *r, const c10_segments *segments)
{
    for (uint32_t n = 0; n < r->names_cap; n++) {
        named *name = &r->names[n];
        for (uint32_t i = 0; name->live && i < segments->n; i++) {
            const c10_segment *s = &segments->at[i];
            if (name->address < s->address || name->address - s->address >= s->total) continue;
            for (uint32_t k = 0; k < s->pieces.n; k++)
                if (s->pieces.at[k].address == name->address)
                    name->block = s->pieces.at[k].block;
        }
    }
}

static void adopt(runner *r)
{
    c10_segments segments;
    c10_snapshot(r->allocator, &r->ctx, &segments);
    r->device.trace.n--; /* of that snapshot, which no script asked for */
    if (pending(&segments)) {
        r->adopt_at++;
        return;
    }
    const c10_device calls = fake_device_calls(&r->device);
    c10_allocator *next = c10_new(&r->ctx, &calls, r->version, c10_configured(r->allocator));
    if (r->fraction >= 0) c10_set_memory_fraction(next, r->fraction);
    if (c10_adopt(next, &segments) != MR_OK) {
        printf("%s\n", r->ctx.failure.text);
        r->over = true;
        return;
    }
    rename_blocks(r, &segments);
    r->allocator = next;
}

static void run_script(runner *r, FILE *script)
{
    static char line[1 << 16];
    for (unsigned n = 1; !r->over && fgets(line, sizeof line, script); n++) {
        line[strcspn(line, "\n")] = 0;
        if (n == r->adopt_at) adopt(r);
        run_line(r, n, line);
    }
}

/* Standard input may be a pipe, which cannot be read twice. */
static FILE *open_script(const char *path)
{
    if (strcmp(path, "-")) return fopen(path, "r");
    static char text[1 << 16];
    FILE *copy = tmpfile();
    size_t n;
    while (copy && (n = fread(text, 1, sizeof text, stdin)) > 0) fwrite(text, 1, n, copy);
    if (copy) rewind(copy);
    return copy;
}

static int usage(void)
{
    fprintf(stderr, "usage: ops_run [--version V] [--adopt N] SCRIPT\n");
    return 2;
}

int main(int argc, char **argv)
{
    static runner r;
    r.version = C10_NEWEST;
    r.fraction = -1;
    const char *path = NULL;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--version") && i + 1 < argc) {
            if (sscanf(argv[++i], "%u.%u", &r.version.major, &r.version.minor) != 2)
                return usage();
        } else if (!strcmp(argv[i], "--adopt") && i + 1 < argc) {
            r.adopt_at = (unsigned)atoi(argv[++i]);
        } else if (path) {
            return usage();
        } else {
            path = argv[i];
        }
    }
    if (!path) return usage();
    FILE *script = open_script(path);
    if (!script) {
        perror(path);
        return 2;
    }
    if (start(&r, script) == MR_OK) {
        run_script(&r, script);
    } else {
        refuse(&r);
        printf("start -> %s\n", r.result);
    }
    fclose(script);
    mr_ctx_clear(&r.ctx);
    return 0;
}

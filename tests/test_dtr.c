/* Running under a budget: what simrd computed for real logs, to the integer, and its
 * rules one by one.  tests/oracle/dtr_random.py compares random logs with rules followed
 * to the letter. */
#include "dtr.h"
#include "rewritten.h"
#include "schedule.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

/* ---- what simrd computed ----------------------------------------------------------------- */

typedef struct cell {
    char log[100], heuristic[100], result[20];
    double ratio;
    uint64_t budget, clock, remat, peak, evaluations;
} cell;

static bool read_cell(FILE *file, cell *c)
{
    char line[512];
    return fgets(line, sizeof line, file)
           && sscanf(line,
                     "%99[^,],%99[^,],%lf,%" SCNu64 ",%19[^,],%" SCNu64 ",%" SCNu64 ",%" SCNu64
                     ",%" SCNu64,
                     c->log, c->heuristic, &c->ratio, &c->budget, c->result, &c->clock,
                     &c->remat, &c->peak, &c->evaluations)
                  == 9;
}

typedef struct log_file {
    mr_ctx ctx;
    char name[100];
    mr_trace trace;
    dtr_program program;
    bool there;
} log_file;

static void open_log(log_file *log, const char *name)
{
    if (!strcmp(log->name, name)) return;
    mr_ctx_clear(&log->ctx);
    *log = (log_file){0};
    strcpy(log->name, name);
    const char *path = mr_printf(&log->ctx, SHARED "/recordings/dtr-logs/%s.log.gz", name);
    FILE *file = fopen(path, "rb");
    log->there = file != NULL;
    if (!file) {
        mr_ctx_clear(&log->ctx);
        return;
    }
    fclose(file);
    if (mr_recording_read(&log->ctx, path, NULL, &log->trace)
        || dtr_program_make(&log->ctx, &log->trace, DTR_COPIES, &log->program)) {
        TEST_FAIL("%s: %s", log->ctx.failure.where, log->ctx.failure.text);
        log->there = false;
    }
}

static bool agrees(const log_file *log, const cell *c)
{
    static const char *const results[] = {"pass", "oom", "thrash"};
    const dtr_name *name = dtr_find_name(c->heuristic);
    mr_ctx ctx = {0};
    dtr_report r;
    if (!name) return false;
    const dtr_options options = {.budget = c->budget,
                                 .limit = dtr_compute_ns(&log->program),
                                 .heuristic = name->heuristic,
                                 .dealloc = DTR_EAGER};
    dtr_run_program(&ctx, &log->program, &options, false, &r);
    mr_ctx_clear(&ctx);
    return (uint64_t)(c->ratio * (double)dtr_live_peak(&log->program)) == c->budget
           && !strcmp(results[r.result], c->result) && r.clock == c->clock
           && r.remat == c->remat && r.peak == c->peak && r.evaluations == c->evaluations;
}

TEST(every_cell_of_simrd_is_reached_to_the_integer)
{
    FILE *file = fopen(SHARED "/recordings/dtr-logs/simrd-overheads.csv", "r");
    if (!file) SKIP("no recordings");
    cell c;
    log_file log = {0};
    int cells = 0;
    char header[512];
    CHECK(fgets(header, sizeof header, file) != NULL);
    while (read_cell(file, &c)) {
        open_log(&log, c.log);
        if (!log.there) continue;
        if (!agrees(&log, &c)) TEST_FAIL("%s, %s, %g differs", c.log, c.heuristic, c.ratio);
        cells++;
    }
    CHECK(feof(file));
    fclose(file);
    mr_ctx_clear(&log.ctx);
    printf("%d cells\n", cells);
}

/* What simrd computed with its other two ways to deallocate, heuristic DTR: time in parts of
 * the step, at ratios 1.0, 0.9 and so on, rounded to four digits. */
static void check_policy(const char *name, dtr_dealloc dealloc, const char *want)
{
    log_file log = {0};
    mr_ctx ctx = {0};
    open_log(&log, name);
    if (!log.there) return;
    const char *got = "";
    dtr_report r = {0};
    for (int tenths = 10; tenths > 0 && !r.result; tenths--) {
        const uint64_t peak = dtr_live_peak(&log.program), ns = dtr_compute_ns(&log.program);
        const dtr_options o = {.budget = (uint64_t)(tenths / 10.0 * (double)peak),
                               .limit = ns,
                               .heuristic = dtr_find_name("dtr")->heuristic,
                               .dealloc = dealloc};
        dtr_run_program(&ctx, &log.program, &o, false, &r);
        const char *text = mr_printf(&ctx, "%.4f", (double)(r.clock - 1) / (double)ns);
        got = mr_printf(&ctx, "%s %s", got,
                        r.result == DTR_OOM ? "O" : r.result == DTR_THRASH ? "T" : text);
    }
    CHECK_STR(got, want);
    mr_ctx_clear(&log.ctx);
    mr_ctx_clear(&ctx);
}

TEST(banishing_and_ignoring_are_those_of_simrd)
{
    check_policy("resnet32-56", DTR_BANISH,
                 " 1.0000 1.0131 1.0248 1.0460 1.0766 1.1060 1.1408 1.1782 1.2299 O");
    check_policy("resnet32-56", DTR_IGNORE,
                 " 1.1339 1.1698 1.1958 1.2456 1.3320 1.3856 1.5610 1.8446 T");
    check_policy("unet-6", DTR_BANISH, " 1.0000 1.0119 O");
    check_policy("unet-6", DTR_IGNORE, " 1.1573 1.3326 1.2228 1.1989 1.7250 1.7591 O");
}

/* ---- quotients --------------------------------------------------------------------------- */

TEST(small_quotients_are_those_of_doubles)
{
    CHECK(dtr_quotient(0, 7, 9) == 0.0);
    CHECK(dtr_quotient(1, 3, 1) == 1.0 / 3.0);
    CHECK(dtr_quotient(-22, 7, 1) == -22.0 / 7.0);
    CHECK(dtr_quotient(10, 5, 2) == 1.0);
}

/* Is `q` the double nearest to n / d, for n and d that are products of small numbers?  Checked
 * with whole numbers: q = m * 2^e. */
static bool is_nearest(uint64_t n, uint64_t d, double q)
{
    int e;
    const uint64_t m = (uint64_t)ldexp(frexp(q, &e), 53); /* 2^52 <= m < 2^53, q = m 2^(e-53) */
    /* |n 2^(53-e) - m d| <= d / 2, in remainders modulo 2^64: both are small here. */
    const int shift = 53 - e;
    uint64_t rest = 0, high = n;
    for (int i = 0; i < shift; i++) { /* n 2^shift mod d, and its quotient */
        rest = i ? rest << 1 : n % d << 1;
        high = i ? high << 1 : n / d << 1;
        if (rest >= d) rest -= d, high++;
    }
    if (high == m) return 2 * rest < d || (2 * rest == d && !(m & 1));
    return high + 1 == m && (2 * rest > d || (2 * rest == d && !(m & 1)));
}

TEST(large_quotients_are_correctly_rounded)
{
    uint64_t state = 1;
    for (int i = 0; i < 100000; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const uint64_t a = (state >> 33 & 0x3fffffff) + 1;
        state = state * 6364136223846793005u + 1442695040888963407u;
        const uint64_t b = (state >> 33 & 0x7fffffff) + 0x40000000;
        const uint64_t n = (state >> 20 & 0xfffffff) + 1;
        if (n >= a * b) continue;
        if (!is_nearest(n, a * b, dtr_quotient((int64_t)n, a, b)))
            TEST_FAIL("%" PRIu64 " / (%" PRIu64 " * %" PRIu64 ")", n, a, b);
    }
    /* beyond 64 bits, powers of two show what must come out */
    CHECK(dtr_quotient(1, (uint64_t)1 << 62, (uint64_t)1 << 62) == ldexp(1, -124));
    CHECK(dtr_quotient(INT64_MAX, 1, 1) == 0x1p63);
    CHECK(dtr_quotient(INT64_MAX, INT64_MAX, 3) == 1.0 / 3.0);
    CHECK(dtr_quotient(-5, (uint64_t)1 << 60, 5) == -ldexp(1, -60));
}

/* ---- rules ------------------------------------------------------------------------------- */

#define START "{\"INSTRUCTION\":\"ANNOTATE\",\"ANNOTATION\":\"START\"}\n"
#define MEMORY(name, bytes) \
    "{\"INSTRUCTION\":\"MEMORY\",\"NAME\":\"" name "\",\"MEMORY\":\"" bytes "\"}\n"
#define CONSTANT(name, bytes) \
    "{\"INSTRUCTION\":\"CONSTANT\",\"NAME\":\"" name "\"}\n" MEMORY(name, bytes)
#define CALL(args, name, bytes, alias, ns)                                                   \
    "{\"INSTRUCTION\":\"CALL\",\"NAME\":\"f\",\"ARGS\":[" args "],\"RESULT\":[\"" name       \
    "\"],\"TIME\":\"" ns "\"}\n" MEMORY(name, bytes)                                         \
    "{\"INSTRUCTION\":\"ALIAS\",\"NAME\":\"" name "\",\"ALIAS\":\"" alias "\"}\n"
#define MUTATE(arg, ns)                                                                        \
    "{\"INSTRUCTION\":\"MUTATE\",\"NAME\":\"g_\",\"ARGS\":[" arg                               \
    "],\"MUTATE\":[0],\"TIME\":\"" ns "\"}\n"
#define COPY(to, from) \
    "{\"INSTRUCTION\":\"COPY\",\"DST\":\"" to "\",\"SRC\":\"" from "\"}\n"
#define RELEASE(name) "{\"INSTRUCTION\":\"RELEASE\",\"NAME\":\"" name "\"}\n"

static dtr_report run_text(mr_ctx *ctx, const char *text, uint64_t budget, const char *name)
{
    static const mr_read_options options = {.format = "simrd"};
    mr_trace *trace = MR_NEW(ctx, mr_trace);
    dtr_program *program = MR_NEW(ctx, dtr_program);
    dtr_report report = {0};
    FILE *file = fopen("test_dtr.log", "w");
    CHECK(file && fputs(text, file) >= 0 && !fclose(file));
    if (mr_recording_read(ctx, "test_dtr.log", &options, trace)
        || mr_trace_check(ctx, trace) || dtr_program_make(ctx, trace, DTR_COPIES, program)) {
        TEST_FAIL("%s: %s", ctx->failure.where, ctx->failure.text);
        return report;
    }
    remove("test_dtr.log");
    const dtr_options o = {.budget = budget,
                           .limit = UINT64_MAX,
                           .heuristic = dtr_find_name(name)->heuristic,
                           .dealloc = DTR_EAGER};
    dtr_run_program(ctx, program, &o, true, &report);
    return report;
}

TEST(what_is_missing_is_computed_again_with_all_that_it_needs)
{
    mr_ctx ctx = {0};
    const dtr_report r = run_text(&ctx,
                                  START CONSTANT("w", "10") CALL("\"w\"", "a", "10", "-1", "5")
                                      CALL("\"a\"", "b", "10", "-1", "7")
                                          CALL("\"b\"", "c", "10", "-1", "11")
                                              CALL("\"a\"", "d", "10", "-1", "13")
                                                  RELEASE("a") RELEASE("b") RELEASE("c")
                                                      RELEASE("d"),
                                  30, "lru");
    CHECK_EQ(r.result, DTR_PASS);
    CHECK_EQ(r.remat, 5);
    CHECK_EQ(r.clock, 1 + 36 + 5);
    CHECK_EQ(r.peak, 30);
    mr_ctx_clear(&ctx);
}

TEST(what_is_kept_is_there_at_the_end)
{
    mr_ctx ctx = {0};
    const dtr_report r = run_text(&ctx,
                                  START CALL("", "a", "10", "-1", "5")
                                      CALL("\"a\"", "b", "10", "-1", "7")
                                          CALL("\"b\"", "c", "10", "-1", "11") RELEASE("b")
                                              RELEASE("c"),
                                  20, "size");
    CHECK_EQ(r.result, DTR_PASS);
    CHECK_EQ(r.remat, 5); /* a had to go for c */
    mr_ctx_clear(&ctx);
}

TEST(a_change_makes_a_copy_and_other_names_keep_the_old_one)
{
    mr_ctx ctx = {0};
    const char *text = START CALL("", "a", "10", "-1", "5") COPY("b", "a") MUTATE("\"b\"", "3")
        CALL("\"a\"", "c", "10", "-1", "7");
    dtr_report r = run_text(&ctx, text, 100, "dtr");
    CHECK_EQ(r.peak, 30); /* both versions, and c */
    CHECK_EQ(r.evictions, 0);
    r = run_text(&ctx, START CALL("", "a", "10", "-1", "5") MUTATE("\"a\"", "3")
                 CALL("\"a\"", "c", "10", "-1", "7"), 100, "dtr");
    CHECK_EQ(r.peak, 20); /* the old version goes at once */
    CHECK_EQ(r.evictions, 0);
    mr_ctx_clear(&ctx);
}

TEST(nothing_left_to_evict_is_out_of_memory)
{
    mr_ctx ctx = {0};
    const dtr_report r = run_text(&ctx, START CONSTANT("w", "10")
                                  CALL("\"w\"", "a", "10", "-1", "5"), 19, "dtr");
    CHECK_EQ(r.result, DTR_OOM);
    CHECK_EQ(r.clock, 1);
    mr_ctx_clear(&ctx);
}

/* ---- the step as it runs under the budget ------------------------------------------------ */

static uint64_t duration(const mr_trace *t)
{
    uint64_t ns = 0;
    for (uint32_t o = 0; o < t->ops.n; o++) ns += t->ops.at[o].ns;
    return ns;
}

/* The run's trace is the same computation, in no more memory and in the time that
 * the run took. */
static void check_written(const char *path, double ratio, const char *heuristic)
{
    mr_ctx ctx = {0};
    mr_trace in, out;
    mr_schedule schedule;
    dtr_program program;
    dtr_report r;
    uint32_t at;
    if (mr_recording_read(&ctx, path, NULL, &in)) {
        TEST_FAIL("%s: %s", path, ctx.failure.text);
        return;
    }
    CHECK_EQ(dtr_program_make(&ctx, &in, DTR_IN_PLACE, &program), MR_OK);
    const dtr_options o = {.budget = (uint64_t)(ratio * (double)dtr_live_peak(&program)),
                           .limit = UINT64_MAX,
                           .heuristic = dtr_find_name(heuristic)->heuristic,
                           .dealloc = DTR_EAGER};
    dtr_run_program(&ctx, &program, &o, true, &r);
    CHECK_EQ(r.result, DTR_PASS);
    CHECK(r.peak <= o.budget);
    if (!r.result
        && (dtr_write(&ctx, &program, &r, false, &out) || mr_trace_check(&ctx, &out)
            || mr_rewrite_check(&ctx, &in, &out) || mr_schedule_make(&ctx, &out, 0, &schedule)))
        TEST_FAIL("%s at %g, %s: %s", path, ratio, heuristic, ctx.failure.text);
    else if (!r.result) {
        if (mr_schedule_peak(&schedule, &at) > o.budget)
            TEST_FAIL("%s at %g, %s: peak above the budget", path, ratio, heuristic);
        if (in.has & MR_HAS_TIMES) CHECK_EQ(duration(&out), r.clock - 1);
    }
    mr_ctx_clear(&ctx);
}

TEST(a_run_is_written_as_the_same_computation_within_the_budget)
{
    static const char *const models[] = {"resnet50-b64-i224", "unet-b8-i256",
                                         "vit-b16-b64-i224", "bert-base-mlm-b32-s128",
                                         "lstm-650-b20-s35"};
    char path[300];
    for (size_t i = 0; i < MR_COUNT(models); i++) {
        snprintf(path, sizeof path, TRACES "/models/%s.csv.gz", models[i]);
        check_written(path, 0.9, "msps");
        check_written(path, i < 4 ? 0.6 : 0.85, "dtr");
    }
}

TEST(so_are_runs_of_real_logs)
{
    static const char *const logs[] = {"unet-6", "resnet32-56", "transformer-10", "treelstm-6"};
    for (size_t i = 0; i < MR_COUNT(logs); i++) {
        char path[300];
        snprintf(path, sizeof path, SHARED "/recordings/dtr-logs/%s.log.gz", logs[i]);
        FILE *file = fopen(path, "rb");
        if (!file) SKIP("no recordings");
        fclose(file);
        check_written(path, 0.8, "dtr-eq");
        check_written(path, 0.5, "dtr");
    }
}

/* Per cent of the step that are computed again under a budget; above 1000: it does not pass. */
static double share(const dtr_program *program, double bytes, const char *heuristic,
                    uint64_t seed)
{
    mr_ctx ctx = {0};
    dtr_report r;
    const uint64_t compute = dtr_compute_ns(program);
    const dtr_options o = {.budget = (uint64_t)bytes,
                           .limit = 10 * compute,
                           .heuristic = dtr_find_name(heuristic)->heuristic,
                           .dealloc = DTR_EAGER,
                           .seed = seed,
                           .sample = seed > 0};
    dtr_run_program(&ctx, program, &o, false, &r);
    mr_ctx_clear(&ctx);
    return r.result ? INFINITY : 100 * (double)r.remat / (double)compute;
}

/* Parts of the step that the DTR prototype computed again on a GPU, at budgets of so many
 * bytes: the share here lies within 2 points. */
TEST(as_much_is_computed_again_as_on_a_gpu)
{
    static const struct measured {
        const char *log;
        double bytes, percent;
    } list[] = {
        {"transformer-10", 8e9, 2.30}, {"transformer-10", 6e9, 5.33},
        {"transformer-10", 4e9, 9.58}, {"unet-6", 8e9, 1.22},
        {"unet-6", 7e9, 4.39},         {"unet-6", 6e9, 8.54},
        {"unet-6", 4e9, 19.9},
    };
    log_file log = {0};
    int seen = 0;
    for (size_t i = 0; i < MR_COUNT(list); i++) {
        open_log(&log, list[i].log);
        if (!log.there) continue;
        const double got = share(&log.program, list[i].bytes, "dtr", 0);
        printf("%s in %g GB: %.2f %%, on the GPU %.2f %%\n", list[i].log, list[i].bytes / 1e9,
               got, list[i].percent);
        if (fabs(got - list[i].percent) > 2)
            TEST_FAIL("%s in %g GB is further away", list[i].log, list[i].bytes / 1e9);
        seen++;
    }
    mr_ctx_clear(&log.ctx);
    if (!seen) SKIP("no recordings");
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Without draws the Transformer in 2 GB computes 34.4 % again with heuristic DTR, 54.5 % with
 * DTR-eq, on the GPU 50.5.  It stands at the edge of a cliff: which candidates the prototype
 * happens to draw decides between a quarter of the step and all of it, and it drew once.  Where
 * there is no cliff draws differ little.  All of the GPU's numbers are among ours. */
TEST(the_transformer_in_2_gb_depends_on_what_is_drawn)
{
    enum { DRAWS = 25 };
    static const double budgets[] = {2e9, 4e9, 6e9, 8e9}, gpu[] = {50.5, 9.58, 5.33, 2.30};
    log_file log = {0};
    open_log(&log, "transformer-10");
    if (!log.there) SKIP("no recordings");
    for (size_t b = 0; b < MR_COUNT(budgets); b++) {
        double all[DRAWS];
        for (uint64_t seed = 1; seed <= DRAWS; seed++)
            all[seed - 1] = share(&log.program, budgets[b], "dtr", seed);
        qsort(all, DRAWS, sizeof *all, by_size);
        printf("in %g GB, drawn %d times: %.2f to %.2f %%, median %.2f, on the GPU %.2f\n",
               budgets[b] / 1e9, DRAWS, all[0], all[DRAWS - 1], all[DRAWS / 2], gpu[b]);
        CHECK(all[0] < gpu[b] && gpu[b] < all[DRAWS - 1]);
        CHECK(fabs(all[DRAWS / 2] - gpu[b]) < (b ? 1 : 5));
    }
    mr_ctx_clear(&log.ctx);
}

/* ---- addresses --------------------------------------------------------------------------- */

/* What firstfit takes that maps byte by byte; the referee looks on. */
static mr_status place(mr_ctx *ctx, const mr_trace *trace, uint64_t *bytes)
{
    static const mr_device device = {.name = "test", .memory = 1024 * MR_GIB, .granularity = 1};
    mr_spec *spec = MR_NEW(ctx, mr_spec);
    mr_answer *answer = MR_NEW(ctx, mr_answer);
    MR_TRY(mr_spec_parse(ctx, mr_strategies, "firstfit", spec));
    const mr_question question = {.trace = trace, .spec = spec, .device = &device,
                                  .capacity = UINT64_MAX, .iterations = 1};
    MR_TRY(mr_evaluate(ctx, &question, answer));
    *bytes = answer->metrics.peak_reserved;
    return MR_OK;
}

/* Storages of the run, as a plain allocator puts them that is asked by the written trace: it
 * takes as many bytes of addresses as the run did, and the referee finds no overlap. */
static void check_addresses(const mr_trace *in, double ratio, const char *heuristic,
                            dtr_memory memory, int *passed)
{
    mr_ctx ctx = {0};
    mr_trace out;
    dtr_program program;
    dtr_report r;
    uint64_t taken;
    CHECK_EQ(dtr_program_make(&ctx, in, DTR_IN_PLACE, &program), MR_OK);
    const dtr_options o = {.budget = (uint64_t)(ratio * (double)dtr_live_peak(&program)),
                           .limit = 10 * dtr_compute_ns(&program),
                           .heuristic = dtr_find_name(heuristic)->heuristic,
                           .dealloc = DTR_EAGER,
                           .seed = 1,
                           .memory = memory};
    dtr_run_program(&ctx, &program, &o, true, &r);
    CHECK(r.peak <= o.budget && r.top <= o.budget);
    if (!r.result
        && (dtr_write(&ctx, &program, &r, true, &out) || mr_trace_check(&ctx, &out)
            || mr_rewrite_check(&ctx, in, &out)
            || place(&ctx, &out, &taken)))
        TEST_FAIL("%s at %g, %s: %s", in->name, ratio, heuristic, ctx.failure.text);
    else if (!r.result) {
        *passed += 1;
        if (taken != r.top)
            TEST_FAIL("%s at %g, %s: firstfit takes %" PRIu64 ", the run took %" PRIu64,
                      in->name, ratio, heuristic, taken, r.top);
    }
    mr_ctx_clear(&ctx);
}

TEST(addresses_are_those_of_the_allocator_and_within_the_budget)
{
    static const char *const models[] = {"resnet50-b64-i224", "unet-b8-i256",
                                         "bert-base-mlm-b32-s128", "lstm-650-b20-s35"};
    int passed = 0;
    for (size_t i = 0; i < MR_COUNT(models); i++) {
        mr_ctx ctx = {0};
        mr_trace in;
        CHECK_EQ(recording(&ctx, mr_printf(&ctx, "models/%s.csv.gz", models[i]), &in), MR_OK);
        for (int m = DTR_HOLE; m <= DTR_WINDOW; m++) {
            check_addresses(&in, 0.9, "dtr", (dtr_memory)m, &passed);
            check_addresses(&in, 0.75, "dtr-stale", (dtr_memory)m, &passed);
            check_addresses(&in, 0.75, "lru", (dtr_memory)m, &passed);
        }
        mr_ctx_clear(&ctx);
    }
    printf("%d runs passed\n", passed);
    CHECK(passed >= 12);
}

static uint32_t draw(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % n);
}

/* Up to three of n. */
static mr_ids some(mr_ctx *ctx, uint64_t *state, const uint32_t *from, uint32_t n)
{
    mr_ids ids = {MR_NEW_N(ctx, uint32_t, 3), 0};
    for (uint32_t i = draw(state, 4); n && i-- > 0;) {
        const uint32_t id = from[draw(state, n)];
        bool twice = false;
        for (uint32_t j = 0; j < ids.n; j++) twice |= ids.at[j] == id;
        if (!twice) ids.at[ids.n++] = id;
    }
    return ids;
}

/* Ops with one to three results of odd sizes that read some of what lives; some change what
 * they read in place, and what lives is dropped by and by. */
static void make_random(mr_ctx *ctx, uint64_t seed, uint32_t n, mr_trace *t)
{
    uint64_t state = seed;
    MR_VEC(uint32_t) live = {0};
    mr_trace_init(ctx, t, "random");
    t->has = MR_HAS_DATAFLOW | MR_HAS_TIMES | MR_HAS_DROPS;
    for (uint32_t i = 0; i < n; i++) {
        mr_op op = {.name = "f", .module = "", .again = MR_NONE, .of = MR_NONE};
        op.ns = 1 + draw(&state, 100);
        op.in = some(ctx, &state, live.at, live.n);
        if (op.in.n && !draw(&state, 6)) op.mutates = mr_ids_of(ctx, 1, op.in.at);
        op.out = (mr_ids){MR_NEW_N(ctx, uint32_t, 3), 0};
        for (uint32_t k = draw(&state, 3) + 1; k-- > 0;) {
            const uint64_t bytes = 1 + draw(&state, 40000);
            const uint64_t shape[] = {bytes};
            uint64_t *kept = MR_NEW(ctx, uint64_t);
            *kept = *shape;
            op.out.at[op.out.n++] = t->tensors.n;
            MR_PUSH(ctx, &live, t->tensors.n);
            MR_PUSH(ctx, &t->tensors,
                    (mr_tensor){.name = "", .dtype = "uint8", .storage = t->storages.n,
                                .bytes = bytes, .rank = 1, .shape = kept});
            MR_PUSH(ctx, &t->storages, (mr_storage){.bytes = bytes, .stack = MR_NONE});
        }
        MR_PUSH(ctx, &t->ops, op);
        MR_PUSH(ctx, &t->events, (mr_event){MR_RUN, i});
        while (live.n > 12 || (live.n && i + 1 == n)) {
            const uint32_t k = draw(&state, live.n);
            MR_PUSH(ctx, &t->events, (mr_event){MR_DROP, live.at[k]});
            live.at[k] = live.at[--live.n];
        }
    }
}

TEST(so_are_those_of_random_steps)
{
    static const char *const heuristics[] = {"dtr", "dtr-eq", "dtr-stale", "lru", "random"};
    int passed = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        mr_ctx ctx = {0};
        mr_trace t;
        make_random(&ctx, seed, 20 + (uint32_t)seed, &t);
        CHECK_EQ(mr_trace_check(&ctx, &t), MR_OK);
        for (size_t h = 0; h < MR_COUNT(heuristics); h++)
            for (int m = DTR_HOLE; m <= DTR_WINDOW; m++) {
                check_addresses(&t, 0.95, heuristics[h], (dtr_memory)m, &passed);
                check_addresses(&t, 0.8, heuristics[h], (dtr_memory)m, &passed);
            }
        mr_ctx_clear(&ctx);
    }
    printf("%d runs passed\n", passed);
    CHECK(passed >= 300);
}

/* Four of 512 bytes in 2048, then one of 1024.  The first and the third are the cheapest, but
 * not neighbours: one by one, three go.  The cheapest window are the first two. */
TEST(a_window_takes_neighbours)
{
    mr_ctx ctx = {0};
    mr_trace t;
    dtr_program program;
    dtr_report r[3];
    static const uint64_t ns[] = {10, 12, 10, 40, 10};
    mr_trace_init(&ctx, &t, "window");
    t.has = MR_HAS_DATAFLOW | MR_HAS_TIMES | MR_HAS_DROPS;
    for (uint32_t i = 0; i < 5; i++) {
        const uint64_t bytes = i == 4 ? 1024 : 512;
        const mr_op op = {.name = "f", .module = "", .ns = ns[i], .again = MR_NONE,
                          .of = MR_NONE, .out = mr_ids_of(&ctx, 1, &i)};
        MR_PUSH(&ctx, &t.storages, (mr_storage){.bytes = bytes, .stack = MR_NONE});
        MR_PUSH(&ctx, &t.tensors,
                (mr_tensor){.name = "", .dtype = "", .storage = i, .bytes = bytes});
        MR_PUSH(&ctx, &t.ops, op);
        MR_PUSH(&ctx, &t.events, (mr_event){MR_RUN, i});
    }
    for (uint32_t i = 0; i < 5; i++) MR_PUSH(&ctx, &t.events, (mr_event){MR_DROP, i});
    CHECK_EQ(dtr_program_make(&ctx, &t, DTR_IN_PLACE, &program), MR_OK);
    for (int m = 0; m < 3; m++) {
        const dtr_options o = {.budget = 2048, .limit = UINT64_MAX,
                               .heuristic = dtr_find_name("local-cost")->heuristic,
                               .dealloc = DTR_EAGER, .memory = (dtr_memory)m};
        dtr_run_program(&ctx, &program, &o, false, &r[m]);
        CHECK_EQ(r[m].result, DTR_PASS);
    }
    CHECK_EQ(r[DTR_SUM].evictions, 2);
    CHECK_EQ(r[DTR_HOLE].evictions, 3);
    CHECK_EQ(r[DTR_WINDOW].evictions, 2);
    CHECK_EQ(r[DTR_WINDOW].top, 2048);
    mr_ctx_clear(&ctx);
}

/* ---- copies on the host ------------------------------------------------------------------ */

/* Swapped, computed again or both: the same computation within the budget, in the time of its
 * ops and of what they wait.  Returns how many storages went to the host; -1: did not pass. */
static int check_swap(const mr_trace *in, double ratio, const char *heuristic, dtr_way way)
{
    mr_ctx ctx = {0};
    mr_trace out;
    mr_schedule schedule;
    dtr_program program;
    dtr_report r;
    uint32_t at;
    CHECK_EQ(dtr_program_make(&ctx, in, DTR_IN_PLACE, &program), MR_OK);
    const dtr_options o = {.budget = (uint64_t)(ratio * (double)dtr_live_peak(&program)),
                           .limit = 10 * dtr_compute_ns(&program),
                           .heuristic = dtr_find_name(heuristic)->heuristic,
                           .dealloc = DTR_EAGER,
                           .way = way,
                           .link = 25000000000,
                           .doubt = 1};
    dtr_run_program(&ctx, &program, &o, true, &r);
    const int sent = r.result ? -1 : (int)r.sendings.n;
    CHECK(r.peak <= o.budget);
    CHECK_EQ(r.clock, 1 + r.compute + r.remat + r.stall);
    if (!r.result
        && (dtr_write(&ctx, &program, &r, false, &out) || mr_trace_check(&ctx, &out)
            || mr_rewrite_check(&ctx, in, &out) || mr_schedule_make(&ctx, &out, 0, &schedule)))
        TEST_FAIL("%s at %g, %s: %s", in->name, ratio, heuristic, ctx.failure.text);
    else if (!r.result && mr_schedule_peak(&schedule, &at) > o.budget)
        TEST_FAIL("%s at %g, %s: peak above the budget", in->name, ratio, heuristic);
    mr_ctx_clear(&ctx);
    return sent;
}

TEST(what_goes_to_the_host_comes_back_within_the_budget)
{
    static const char *const models[] = {"resnet50-b64-i224", "unet-b8-i256",
                                         "bert-base-mlm-b32-s128", "lstm-650-b20-s35"};
    static const char *const heuristics[] = {"dtr", "dtr-eq", "msps", "lru", "size"};
    int sent = 0;
    for (size_t i = 0; i < MR_COUNT(models); i++) {
        mr_ctx ctx = {0};
        mr_trace in;
        CHECK_EQ(recording(&ctx, mr_printf(&ctx, "models/%s.csv.gz", models[i]), &in), MR_OK);
        for (size_t h = 0; h < MR_COUNT(heuristics); h++)
            for (int way = DTR_SWAP; way <= DTR_BOTH; way++) {
                sent += check_swap(&in, 0.9, heuristics[h], (dtr_way)way);
                sent += check_swap(&in, 0.7, heuristics[h], (dtr_way)way);
            }
        mr_ctx_clear(&ctx);
    }
    printf("%d storages were sent\n", sent);
    CHECK(sent > 500);
}

TEST(so_do_those_of_random_steps)
{
    static const char *const heuristics[] = {"dtr", "dtr-eq", "msps", "lru"};
    int passed = 0, sent = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        mr_ctx ctx = {0};
        mr_trace t;
        make_random(&ctx, seed, 20 + (uint32_t)seed, &t);
        for (uint32_t o = 0; o < t.ops.n; o++) t.ops.at[o].ns *= 1000;
        for (size_t h = 0; h < MR_COUNT(heuristics); h++)
            for (int way = DTR_SWAP; way <= DTR_BOTH; way++) {
                const int n = check_swap(&t, seed % 2 ? 0.8 : 0.6, heuristics[h], (dtr_way)way);
                passed += n >= 0;
                sent += n > 0 ? n : 0;
            }
        mr_ctx_clear(&ctx);
    }
    printf("%d runs passed, %d storages were sent\n", passed, sent);
    CHECK(passed > 400 && sent > 1000);
}

/* Two of 1 MB are made, wait while ops run that need the memory, and are read at the end: 42 us
 * over the link, which is free, and has time.  One takes 5 us to compute, the other 900. */
TEST(the_cheaper_way_is_chosen_for_each)
{
    mr_ctx ctx = {0};
    mr_trace t;
    dtr_program program;
    dtr_report r;
    const uint64_t mb = 1000000;
    mr_trace_init(&ctx, &t, "choice");
    t.has = MR_HAS_DATAFLOW | MR_HAS_TIMES | MR_HAS_DROPS;
    enum { N = 12 };
    for (uint32_t i = 0; i < N; i++) {
        const uint32_t last = i - 1, both[] = {last, 0, 1};
        const uint64_t ns = i == 0 ? 5000 : i == 1 ? 900000 : 400000;
        mr_op op = {.name = "f", .module = "", .ns = ns, .again = MR_NONE, .of = MR_NONE,
                    .out = mr_ids_of(&ctx, 1, &i)};
        if (i > 2) op.in = mr_ids_of(&ctx, i == N - 1 ? 3 : 1, both);
        MR_PUSH(&ctx, &t.storages,
                (mr_storage){.bytes = i == 6 ? 3 * mb : mb, .stack = MR_NONE});
        MR_PUSH(&ctx, &t.tensors,
                (mr_tensor){.name = "", .dtype = "uint8", .storage = i,
                            .bytes = t.storages.at[i].bytes});
        MR_PUSH(&ctx, &t.ops, op);
        MR_PUSH(&ctx, &t.events, (mr_event){MR_RUN, i});
        if (i > 2) MR_PUSH(&ctx, &t.events, (mr_event){MR_DROP, last});
    }
    for (uint32_t i = 0; i < 2; i++) MR_PUSH(&ctx, &t.events, (mr_event){MR_DROP, i});
    MR_PUSH(&ctx, &t.events, (mr_event){MR_DROP, N - 1});
    CHECK_EQ(mr_trace_check(&ctx, &t), MR_OK);
    CHECK_EQ(dtr_program_make(&ctx, &t, DTR_IN_PLACE, &program), MR_OK);
    const dtr_options o = {.budget = 4 * mb, .limit = UINT64_MAX,
                           .heuristic = dtr_find_name("local-size")->heuristic,
                           .dealloc = DTR_EAGER, .way = DTR_BOTH, .link = 25000000000,
                           .doubt = 1};
    dtr_options only = o;
    dtr_run_program(&ctx, &program, &o, true, &r);
    CHECK_EQ(r.result, DTR_PASS);
    CHECK_EQ(r.remat, 5000);
    CHECK_EQ(r.stall, 0);
    CHECK_EQ(r.sendings.n, 1);
    if (r.sendings.n) CHECK_EQ(r.sendings.at[0].storage, 1);
    only.way = DTR_RECOMPUTE;
    dtr_run_program(&ctx, &program, &only, true, &r);
    CHECK_EQ(r.remat, 905000);
    only.way = DTR_SWAP;
    dtr_run_program(&ctx, &program, &only, true, &r);
    CHECK_EQ(r.remat, 0);
    CHECK_EQ(r.fetches, 2);
    mr_ctx_clear(&ctx);
}

/* ---- looking ahead ----------------------------------------------------------------------- */

/* Nobody is below the bound, and the best is no worse than any heuristic. */
static void check_best(const dtr_program *program, double ratio)
{
    mr_ctx ctx = {0};
    dtr_report best, again;
    dtr_bound bound;
    dtr_options o = {.budget = (uint64_t)(ratio * (double)dtr_live_peak(program)),
                     .limit = dtr_compute_ns(program),
                     .dealloc = DTR_EAGER,
                     .seed = 1};
    CHECK(dtr_search(&ctx, program, &o, 40, &best));
    dtr_search(&ctx, program, &o, 40, &again);
    CHECK_EQ(best.remat, again.remat);
    CHECK(best.peak <= o.budget);
    dtr_find_bound(&ctx, program, o.budget, &bound);
    CHECK(bound.bytes <= o.budget);
    CHECK(bound.remat <= best.remat);
    for (uint32_t i = 0; i < dtr_names_n; i++) {
        dtr_report r;
        o.heuristic = dtr_names[i].heuristic;
        dtr_run_program(&ctx, program, &o, false, &r);
        if (r.result) continue;
        CHECK(bound.remat <= r.remat);
        if (o.heuristic.rule != DTR_DRAWN) CHECK(best.remat <= r.remat);
    }
    mr_ctx_clear(&ctx);
}

TEST(the_best_is_between_the_bound_and_every_heuristic)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    for (int change = 0; change < 2; change++) {
        dtr_program program;
        CHECK_EQ(
            mr_recording_read(&ctx, TRACES "/models/resnet50-b64-i224.csv.gz", NULL, &trace),
            MR_OK);
        CHECK_EQ(dtr_program_make(&ctx, &trace, (dtr_change)change, &program), MR_OK);
        check_best(&program, 0.9);
        check_best(&program, 0.6);
    }
    log_file log = {0};
    open_log(&log, "unet-6");
    if (log.there) {
        check_best(&log.program, 0.8);
        check_best(&log.program, 0.4);
    }
    mr_ctx_clear(&log.ctx);
    mr_ctx_clear(&ctx);
}

/* A recurrent net makes what waits as deep as the step is long: x1 = f(x0), x2 = f(x1) ..., and
 * the last op reads what went long ago. */
static void make_deep(mr_ctx *ctx, uint32_t n, mr_trace *t)
{
    mr_trace_init(ctx, t, "deep");
    t->has = MR_HAS_DATAFLOW | MR_HAS_TIMES | MR_HAS_DROPS;
    for (uint32_t i = 0; i <= n; i++) {
        mr_op op = {.name = "f", .module = "", .ns = 1, .again = MR_NONE, .of = MR_NONE};
        op.out = (mr_ids){MR_NEW(ctx, uint32_t), 1};
        *op.out.at = i;
        if (i) op.in = (mr_ids){MR_NEW(ctx, uint32_t), 1};
        if (i) *op.in.at = i < n ? i - 1 : n - 10;
        MR_PUSH(ctx, &t->storages, (mr_storage){.bytes = 1, .stack = MR_NONE});
        MR_PUSH(ctx, &t->tensors,
                (mr_tensor){.name = "", .dtype = "", .storage = i, .bytes = 1});
        MR_PUSH(ctx, &t->ops, op);
        MR_PUSH(ctx, &t->events, (mr_event){MR_RUN, i});
    }
    for (uint32_t i = 0; i <= n; i++) MR_PUSH(ctx, &t->events, (mr_event){MR_DROP, i});
}

TEST(a_million_tensors_may_wait_for_one_another)
{
    enum { N = 1000000 };
    mr_ctx ctx = {0};
    mr_trace t;
    dtr_program program;
    dtr_report report;
    make_deep(&ctx, N, &t);
    CHECK_EQ(mr_trace_check(&ctx, &t), MR_OK);
    CHECK_EQ(dtr_program_make(&ctx, &t, DTR_COPIES, &program), MR_OK);
    const dtr_options o = {.budget = 3,
                           .limit = N,
                           .heuristic = dtr_find_name("lru")->heuristic,
                           .dealloc = DTR_EAGER};
    dtr_run_program(&ctx, &program, &o, false, &report);
    CHECK_EQ(report.result, DTR_PASS);
    CHECK_EQ(report.remat, N - 9);
    CHECK_EQ(report.peak, 3);
    mr_ctx_clear(&ctx);
}

TEST_MAIN()

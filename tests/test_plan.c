/* Layouts: what is a problem, what the referee sees, what the rules of others do by hand. */
#include "plan.h"
#include "test.h"

#include <stdlib.h>

/* "a:0-3:4 b:1-5:2" -- name, lower and upper, bytes; then /8 aligned, @16 fixed, and gaps: ~1-2
 * dead, ~1-2[0,4) less of it. */
static void add_scripted(mr_ctx *ctx, plan_problem *problem, const char *token)
{
    char *at;
    plan_buffer b = {.align = 1, .fixed = PLAN_ANYWHERE};
    b.name = mr_strndup(ctx, token, strcspn(token, ":"));
    b.lower = strtoull(strchr(token, ':') + 1, &at, 10);
    b.upper = strtoull(at + 1, &at, 10);
    b.bytes = strtoull(at + 1, &at, 10);
    if (*at == '/') b.align = strtoull(at + 1, &at, 10);
    if (*at == '@') b.fixed = strtoull(at + 1, &at, 10);
    plan_add(ctx, problem, &b);
    while (*at == '~') {
        plan_gap gap = {0};
        gap.lower = strtoull(at + 1, &at, 10);
        gap.upper = strtoull(at + 1, &at, 10);
        if (*at == '[') {
            gap.low = strtoull(at + 1, &at, 10);
            gap.high = strtoull(at + 1, &at, 10);
            at++;
        }
        plan_add_gap(ctx, problem, &gap);
    }
}

static mr_status scripted_problem(mr_ctx *ctx, const char *script, plan_problem *out)
{
    *out = (plan_problem){0};
    while (*script) {
        const size_t n = strcspn(script, " ");
        add_scripted(ctx, out, mr_strndup(ctx, script, n));
        script += n + strspn(script + n, " ");
    }
    return plan_prepare(ctx, out);
}

static const plan_rule *rule_called(const char *name)
{
    const plan_rule *rule = plan_rules;
    while (rule->name && strcmp(rule->name, name) != 0) rule++;
    return rule;
}

/* "0 4 0 |6": an offset for each buffer in order, then the height. */
static const char *shown(mr_ctx *ctx, const plan_problem *problem, const plan_layout *layout)
{
    const char *text = "";
    for (uint32_t i = 0; i < problem->buffers.n; i++)
        text = mr_printf(ctx, "%s%llu ", text, (unsigned long long)layout->offset[i]);
    return mr_printf(ctx, "%s|%llu", text, (unsigned long long)layout->height);
}

static const char *ruled(mr_ctx *ctx, const char *name, const char *script)
{
    plan_problem problem;
    plan_layout layout;
    if (scripted_problem(ctx, script, &problem)) return ctx->failure.text;
    rule_called(name)->run(ctx, &problem, &layout);
    if (plan_check(ctx, &problem, &layout)) return ctx->failure.text;
    return shown(ctx, &problem, &layout);
}

/* ---- problems ------------------------------------------------------------------------ */

static uint64_t load_of(mr_ctx *ctx, const char *script, uint64_t round)
{
    plan_problem problem;
    CHECK_EQ(scripted_problem(ctx, script, &problem), MR_OK);
    return plan_load(ctx, &problem, round);
}

TEST(the_load_is_the_largest_sum_in_use_at_once)
{
    mr_ctx ctx = {0};
    CHECK_EQ(load_of(&ctx, "a:0-3:4 b:3-9:4", 1), 4);
    CHECK_EQ(load_of(&ctx, "a:0-4:4 b:3-9:4", 1), 8);
    CHECK_EQ(load_of(&ctx, "a:0-4:5 b:3-9:3", 4), 12);
    CHECK_EQ(load_of(&ctx, "a:0-4:5 b:3-9:3", 0), 12);
    CHECK_EQ(load_of(&ctx, "a:0-9:4~2-5 b:2-5:4", 1), 4);
    CHECK_EQ(load_of(&ctx, "a:0-9:4~2-5[1,3) b:2-5:3", 1), 5);
    mr_ctx_clear(&ctx);
}

static const char *refusal(mr_ctx *ctx, const char *script)
{
    plan_problem problem;
    return scripted_problem(ctx, script, &problem) ? ctx->failure.text : "accepted";
}

TEST(a_problem_without_sense_is_refused_by_name)
{
    mr_ctx ctx = {0};
    CHECK_HAS(refusal(&ctx, ""), "no buffers");
    CHECK_HAS(refusal(&ctx, "a:0-3:4 bad:3-3:4"), "'bad' lives from 3 to 3");
    CHECK_HAS(refusal(&ctx, "bad:0-3:0"), "'bad' lives from 0 to 3 with 0 bytes");
    CHECK_HAS(refusal(&ctx, "bad:0-3:4/8@4"), "'bad' is fixed at 4");
    CHECK_HAS(refusal(&ctx, "bad:0-9:4~2-5~4-6"), "'bad' has a gap from 4 to 6");
    CHECK_HAS(refusal(&ctx, "bad:0-9:4~2-12"), "'bad' has a gap from 2 to 12");
    CHECK_HAS(refusal(&ctx, "bad:0-9:4~2-5[1,6)"), "'bad' keeps bytes 1 to 6");
    CHECK_HAS(refusal(&ctx, "a:0-9:4611686018427387904 b:0-1:1"), "'b' all together exceed");
    mr_ctx_clear(&ctx);
}

/* ---- the referee --------------------------------------------------------------------- */

static const char *judged(mr_ctx *ctx, const char *script, const uint64_t *offset,
                          uint64_t height)
{
    plan_problem problem;
    uint64_t copy[8];
    CHECK_EQ(scripted_problem(ctx, script, &problem), MR_OK);
    memcpy(copy, offset, problem.buffers.n * sizeof *copy);
    const plan_layout layout = {copy, height};
    return plan_check(ctx, &problem, &layout) ? ctx->failure.text : "fine";
}

#define AT(...) ((const uint64_t[]){__VA_ARGS__})

TEST(the_referee_sees_what_is_wrong)
{
    mr_ctx ctx = {0};
    const char *two = "a:0-4:4 b:3-9:4";
    CHECK_STR(judged(&ctx, two, AT(0, 4), 8), "fine");
    CHECK_STR(judged(&ctx, two, AT(4, 0), 8), "fine");
    CHECK_HAS(judged(&ctx, two, AT(0, 3), 7), "'b' over 'a' at time 3, offset 3");
    CHECK_HAS(judged(&ctx, two, AT(0, 4), 9), "says it is 9 high, but ends at 8");
    CHECK_HAS(judged(&ctx, two, AT(0, 4), 7), "4 bytes of 'b' at 4, above its height of 7");
    CHECK_HAS(judged(&ctx, two, AT(0, UINT64_MAX), 8), "above its height");
    CHECK_HAS(judged(&ctx, "a:0-4:4/4 b:3-9:4/4", AT(0, 6), 10), "expected a multiple of 4");
    CHECK_HAS(judged(&ctx, "a:0-4:4@8 b:3-9:4", AT(4, 0), 8), "but it is fixed at 8");
    CHECK_STR(judged(&ctx, "a:0-3:4 b:3-9:4", AT(0, 0), 4), "fine");
    mr_ctx_clear(&ctx);
}

TEST(the_referee_knows_gaps)
{
    mr_ctx ctx = {0};
    CHECK_STR(judged(&ctx, "a:0-9:4~2-5 b:2-5:4", AT(0, 0), 4), "fine");
    CHECK_HAS(judged(&ctx, "a:0-9:4~2-5 b:2-6:4", AT(0, 0), 4), "'a' over 'b' at time 5");
    CHECK_HAS(judged(&ctx, "a:0-9:4~2-5 b:1-5:4", AT(0, 0), 4), "'b' over 'a' at time 1");
    CHECK_STR(judged(&ctx, "a:0-9:4~2-5[0,2) b:2-5:4", AT(0, 2), 6), "fine");
    CHECK_HAS(judged(&ctx, "a:0-9:4~2-5[0,2) b:2-5:4", AT(0, 1), 5), "'b' over 'a' at time 2");
    mr_ctx_clear(&ctx);
}

/* ---- rules by hand ------------------------------------------------------------------- */

TEST(best_fit_takes_the_smallest_hole_and_first_fit_the_lowest)
{
    /* 30 bytes in three layers, of which the outer ones end; then a hole of 10 and one of 8. */
    const char *script = "low:0-2:10 a:0-9:6 high:0-2:8 b:0-9:5 late:3-4:7";
    mr_ctx ctx = {0};
    CHECK_STR(ruled(&ctx, "first_fit", script), "0 18 10 24 0 |29");
    CHECK_STR(ruled(&ctx, "ort", script), "0 10 16 24 16 |29");
    mr_ctx_clear(&ctx);
}

TEST(tvm_never_looks_for_a_hole)
{
    /* c is small enough to lie beside a, below b, but goes above b. */
    const char *script = "a:0-2:6 b:1-4:8 c:3-5:5";
    mr_ctx ctx = {0};
    CHECK_STR(ruled(&ctx, "tvm_size", script), "8 0 8 |14");
    CHECK_STR(ruled(&ctx, "tvm_conflicts", script), "8 0 8 |14");
    CHECK_STR(ruled(&ctx, "tvm_size", "a:0-2:9 b:1-4:8 c:3-5:5"), "0 9 17 |22");
    CHECK_STR(ruled(&ctx, "xla_spatial", "a:0-2:9 b:1-4:8 c:3-5:5"), "0 9 0 |17");
    mr_ctx_clear(&ctx);
}

TEST(xla_sorts_by_bytes_or_by_life)
{
    const char *script = "short:0-1:9 long:0-8:4 other:5-6:6";
    mr_ctx ctx = {0};
    CHECK_STR(ruled(&ctx, "xla_spatial", script), "0 9 0 |13");
    CHECK_STR(ruled(&ctx, "xla_temporal", script), "4 0 4 |13");
    mr_ctx_clear(&ctx);
}

TEST(tflite_puts_first_what_lives_always)
{
    mr_ctx ctx = {0};
    CHECK_STR(ruled(&ctx, "tflite", "a:0-1:9 always:0-8:4 b:2-8:6"), "4 0 4 |13");
    mr_ctx_clear(&ctx);
}

/* Holes from 3 and from 16, of 8 bytes each once aligned.  The first is remembered as one of
 * the 9 that it has as a whole, so the second seems to be smaller; XLA stays with the first. */
TEST(tflite_compares_aligned_holes_with_whole_ones)
{
    mr_ctx ctx = {0};
    const char *script = "a:0-9:3@0 b:0-9:4@12 c:0-9:4@24 late:1-2:8/4";
    CHECK_STR(ruled(&ctx, "tflite", script), "0 12 24 16 |28");
    CHECK_STR(ruled(&ctx, "xla_spatial", script), "0 12 24 4 |28");
    mr_ctx_clear(&ctx);
}

TEST(breadth_shares_objects_that_may_grow)
{
    /* Moment 0 (9 + 4) comes first; at 2 the object of 9 is large enough, that of 4 grows to 5.
     */
    mr_ctx ctx = {0};
    CHECK_STR(ruled(&ctx, "breadth", "a:0-1:9 b:0-1:4 c:2-3:7 d:2-3:5"), "0 9 0 9 |14");
    mr_ctx_clear(&ctx);
}

TEST(nnvm_shares_entries_of_about_the_same_size)
{
    /* With a factor of 2 at least, c takes the entry of 9 and d lets that of 4 grow; with one
     * of 16 the entry of 10 grows to 100, which is better than a new one. */
    mr_ctx ctx = {0};
    CHECK_STR(ruled(&ctx, "nnvm", "a:0-1:9 b:0-1:4 c:2-3:7 d:2-3:5"), "0 9 0 9 |14");
    CHECK_STR(ruled(&ctx, "nnvm", "a:0-1:10 b:2-3:100 c:2-3:9"), "0 0 100 |109");
    CHECK_STR(ruled(&ctx, "nnvm", "a:0-1:100 b:2-3:6"), "0 100 |106");
    CHECK_STR(ruled(&ctx, "nnvm", "a:0-2:5 b:0-1:7 c:1-4:6 d:2-3:5"), "0 5 5 0 |12");
    mr_ctx_clear(&ctx);
}

TEST(inductor_splits_slots_in_space_and_time)
{
    /* c moves into a's slot, whose rest takes d; e meets both, so it goes behind everything. */
    mr_ctx ctx = {0};
    CHECK_STR(ruled(&ctx, "inductor", "a:0-2:10 c:2-4:7 d:2-4:3 e:1-3:2"), "0 0 7 10 |12");
    mr_ctx_clear(&ctx);
}

/* ---- all rules ----------------------------------------------------------------------- */

static uint32_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

typedef enum extras { PLAIN, ALIGNED, FIXED_AND_GAPS } extras;

static plan_problem random_problem(mr_ctx *ctx, uint64_t seed, uint32_t n, extras extra)
{
    uint64_t state = seed * 2 + 1;
    plan_problem problem = {0};
    const uint32_t span = 4 + draw(&state) % 40, most = 1 + draw(&state) % 60;
    for (uint32_t i = 0; i < n; i++) {
        plan_buffer b = {.name = mr_printf(ctx, "%u", i), .align = 1, .fixed = PLAN_ANYWHERE};
        b.lower = draw(&state) % span;
        b.upper = b.lower + 1 + draw(&state) % (span / 2);
        b.bytes = 1 + draw(&state) % most;
        if (extra == ALIGNED) b.align = 16;
        if (extra == FIXED_AND_GAPS) b.align = (uint64_t)1 << draw(&state) % 4;
        /* Far apart, so that no two fixed ones can meet. */
        if (extra == FIXED_AND_GAPS && i % 7 == 0) b.fixed = 64 * i;
        plan_add(ctx, &problem, &b);
        const uint64_t life = b.upper - b.lower;
        if (extra == FIXED_AND_GAPS && life > 2 && draw(&state) % 2) {
            const uint64_t from = b.lower + 1 + draw(&state) % (life - 2);
            const uint64_t high = draw(&state) % (b.bytes + 1);
            plan_add_gap(ctx, &problem, &(plan_gap){from, b.upper - 1, high / 2, high});
        }
    }
    if (plan_prepare(ctx, &problem)) TEST_FAIL("%s", ctx->failure.text);
    return problem;
}

TEST(every_rule_makes_layouts_that_the_referee_accepts)
{
    for (uint64_t seed = 0; seed < 150; seed++) {
        mr_ctx ctx = {0};
        const plan_problem problem =
            random_problem(&ctx, seed, 2 + (uint32_t)(seed * 7 % 400), (extras)(seed % 3));
        for (const plan_rule *rule = plan_rules; rule->name; rule++) {
            plan_layout layout;
            if (!plan_rule_knows(rule, &problem)) continue;
            rule->run(&ctx, &problem, &layout);
            if (plan_check(&ctx, &problem, &layout))
                TEST_FAIL("%s, seed %d: %s", rule->name, (int)seed, ctx.failure.text);
            CHECK(layout.height >= problem.load);
        }
        mr_ctx_clear(&ctx);
    }
}

TEST(every_rule_describes_itself)
{
    for (const plan_rule *rule = plan_rules; rule->name; rule++)
        CHECK(rule->summary && *rule->summary);
    CHECK(!rule_called("nobody")->name);
}

TEST_MAIN()

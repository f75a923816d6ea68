/* The search: against trying everything, with any number of threads, and what it may not do. */
#include "plan_internal.h"
#include "test.h"

static uint32_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

typedef struct shape {
    uint32_t n, span, life, bytes;
    uint64_t align;
} shape;

static plan_problem random_problem(mr_ctx *ctx, uint64_t seed, const shape *like)
{
    uint64_t state = seed * 2 + 1;
    plan_problem problem = {0};
    for (uint32_t i = 0; i < like->n; i++) {
        plan_buffer b = {
            .name = mr_printf(ctx, "%u", i), .align = like->align, .fixed = PLAN_ANYWHERE};
        b.lower = draw(&state) % like->span;
        b.upper = b.lower + 1 + draw(&state) % like->life;
        b.bytes = 1 + draw(&state) % like->bytes;
        plan_add(ctx, &problem, &b);
    }
    if (plan_prepare(ctx, &problem)) TEST_FAIL("%s", ctx->failure.text);
    return problem;
}

static plan_answer solved(mr_ctx *ctx, const plan_problem *problem, const plan_effort *effort)
{
    plan_answer answer;
    plan_solve(ctx, problem, effort, &answer);
    if (plan_check(ctx, problem, &answer.layout)) TEST_FAIL("%s", ctx->failure.text);
    CHECK(answer.layout.height >= answer.bound);
    CHECK(answer.bound >= problem->load);
    return answer;
}

/* ---- against trying everything ------------------------------------------------------- */

/* `load` bytes are in use at every moment: what ends makes room for others of other sizes, so
 * that now and then no layout is as low as the load. */
static plan_problem full_problem(mr_ctx *ctx, uint64_t seed, uint64_t load, uint32_t moments)
{
    uint64_t state = seed * 2 + 1, room = load;
    plan_problem problem = {0};
    for (uint32_t t = 0; t < moments; t++) {
        for (uint32_t i = 0; i < problem.buffers.n; i++) {
            plan_buffer *b = &problem.buffers.at[i];
            if (b->upper != moments || draw(&state) % 2) continue;
            b->upper = t;
            room += b->bytes;
        }
        while (room) {
            const uint64_t bytes = 1 + draw(&state) % 6;
            const plan_buffer b = {.name = "",
                                   .lower = t,
                                   .upper = moments,
                                   .bytes = bytes < room ? bytes : room,
                                   .align = 1,
                                   .fixed = PLAN_ANYWHERE};
            plan_add(ctx, &problem, &b);
            room -= b.bytes;
        }
    }
    if (plan_prepare(ctx, &problem)) TEST_FAIL("%s", ctx->failure.text);
    CHECK_EQ(problem.load, load);
    return problem;
}

typedef struct brute {
    const plan_problem *problem;
    uint64_t offset[64], best;
} brute;

static bool is_clear(const brute *b, uint32_t i, uint64_t at)
{
    const plan_buffer *x = &b->problem->buffers.at[i];
    for (uint32_t j = 0; j < i; j++) {
        const plan_buffer *y = &b->problem->buffers.at[j];
        const bool together = x->lower < y->upper && y->lower < x->upper;
        if (together && at < b->offset[j] + y->bytes && b->offset[j] < at + x->bytes)
            return false;
    }
    return true;
}

/* Every offset of every buffer below the best height so far. */
static void try_all(brute *b, uint32_t i, uint64_t height)
{
    if (i == b->problem->buffers.n) {
        b->best = height;
        return;
    }
    const plan_buffer *x = &b->problem->buffers.at[i];
    for (uint64_t at = 0; at + x->bytes < b->best; at += x->align) {
        if (!is_clear(b, i, at)) continue;
        b->offset[i] = at;
        try_all(b, i + 1, at + x->bytes > height ? at + x->bytes : height);
        if (b->best <= height || b->best == b->problem->load) return;
    }
}

static uint64_t least_height(const plan_problem *problem)
{
    brute b = {.problem = problem,
               .best = 2 * problem->load + 64 * problem->buffers.at[0].align};
    try_all(&b, 0, 0);
    return b.best;
}

TEST(the_least_height_is_found_and_proven)
{
    uint32_t above = 0;
    for (uint64_t seed = 0; seed < 400; seed++) {
        mr_ctx ctx = {0};
        const plan_problem problem = full_problem(&ctx, seed, 10, 4 + (uint32_t)seed % 4);
        const plan_effort effort = {.threads = 1, .minimize = true};
        const plan_answer answer = solved(&ctx, &problem, &effort);
        CHECK_EQ(answer.layout.height, least_height(&problem));
        CHECK_EQ(answer.layout.height, answer.bound);
        CHECK_STR(answer.bound_by, answer.bound > problem.load ? "search" : "load");
        above += answer.bound > problem.load;
        mr_ctx_clear(&ctx);
    }
    CHECK(above > 0); /* else no proof was needed */
}

/* The search pads the highest buffer too, so it may stop short by less than the alignment. */
TEST(aligned_heights_are_least_but_for_the_last_padding)
{
    for (uint64_t seed = 0; seed < 200; seed++) {
        mr_ctx ctx = {0};
        const shape like = {4 + (uint32_t)seed % 4, 6, 4, 6, 2 + seed % 3};
        const plan_problem problem = random_problem(&ctx, seed, &like);
        const plan_effort effort = {.threads = 1, .minimize = true};
        const plan_answer answer = solved(&ctx, &problem, &effort);
        const uint64_t least = least_height(&problem);
        CHECK(answer.bound <= least && least <= answer.layout.height);
        CHECK(answer.layout.height - answer.bound < like.align);
        mr_ctx_clear(&ctx);
    }
}

/* ---- one capacity -------------------------------------------------------------------- */

/* Every way must come to the same verdict. */
TEST(all_ways_agree_what_is_possible)
{
    static const unsigned ways[] = {0,
                                    PLAN_LOWEST,
                                    PLAN_LOOK_AHEAD,
                                    PLAN_LOWEST | PLAN_LOOK_AHEAD,
                                    PLAN_SNUG,
                                    PLAN_SNUG | PLAN_LOOK_AHEAD};
    uint32_t none = 0;
    for (uint64_t seed = 0; seed < 600; seed++) {
        mr_ctx ctx = {0};
        const plan_problem problem = full_problem(&ctx, seed, 10, 6 + (uint32_t)seed % 3);
        plan_field field;
        uint32_t rank[64];
        plan_verdict first = PLAN_OPEN;
        plan_field_make(&ctx, &problem, &field);
        for (uint32_t w = 0; w < MR_COUNT(ways) * 2; w++) {
            plan_dive_key(&ctx, &field, w % PLAN_KEYS, rank);
            plan_seeker *seeker = plan_seeker_new(&ctx, &field, rank, field.load, ways[w / 2]);
            const plan_verdict verdict = plan_seek(seeker, UINT64_MAX);
            if (!w) first = verdict;
            CHECK_EQ(verdict, first);
        }
        none += first == PLAN_NONE;
        mr_ctx_clear(&ctx);
    }
    CHECK(none > 0);
}

TEST(a_search_in_pieces_is_the_same_search)
{
    mr_ctx ctx = {0};
    const shape like = {60, 40, 15, 40, 1};
    const plan_problem problem = random_problem(&ctx, 3, &like);
    plan_field field;
    uint32_t rank[60];
    plan_field_make(&ctx, &problem, &field);
    plan_dive_key(&ctx, &field, 0, rank);
    plan_seeker *whole = plan_seeker_new(&ctx, &field, rank, field.load + 4, 0);
    plan_seeker *parts = plan_seeker_new(&ctx, &field, rank, field.load + 4, 0);
    plan_seek(whole, 5000);
    for (uint32_t i = 0; i < 500; i++) plan_seek(parts, 10);
    CHECK_EQ(plan_seeker_steps(whole), plan_seeker_steps(parts));
    for (uint32_t i = 0; i < 60; i++)
        CHECK_EQ(plan_seeker_bases(whole)[i], plan_seeker_bases(parts)[i]);
    mr_ctx_clear(&ctx);
}

TEST(a_capacity_below_the_load_is_refused_at_once)
{
    mr_ctx ctx = {0};
    const shape like = {60, 40, 15, 40, 1};
    const plan_problem problem = random_problem(&ctx, 3, &like);
    const plan_effort effort = {.threads = 1, .capacity = problem.load - 1};
    const plan_answer answer = solved(&ctx, &problem, &effort);
    CHECK(answer.bound > effort.capacity);
    mr_ctx_clear(&ctx);
}

/* ---- whatever the machine ------------------------------------------------------------ */

TEST(the_answer_does_not_depend_on_the_number_of_threads)
{
    for (uint64_t seed = 0; seed < 12; seed++) {
        mr_ctx ctx = {0};
        const shape like = {40 + 5 * (uint32_t)seed, 30, 12, 50, 1};
        const plan_problem problem = random_problem(&ctx, seed, &like);
        const plan_effort one = {.threads = 1}, four = {.threads = 4};
        const plan_answer a = solved(&ctx, &problem, &one), b = solved(&ctx, &problem, &four);
        CHECK_EQ(a.layout.height, b.layout.height);
        CHECK_EQ(a.bound, b.bound);
        for (uint32_t i = 0; i < problem.buffers.n; i++)
            CHECK_EQ(a.layout.offset[i], b.layout.offset[i]);
        mr_ctx_clear(&ctx);
    }
}

/* Of the sizes it is given, and with the time up before it begins. */
TEST(there_is_always_a_layout)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        mr_ctx ctx = {0};
        const shape like = {1 + (uint32_t)(seed * seed * 3), 1 + (uint32_t)seed * 20, 50,
                            1u << (1 + seed), 1 + seed % 2 * 255};
        const plan_problem problem = random_problem(&ctx, seed, &like);
        const plan_effort effort = {.threads = 2, .seconds = 1e-9, .minimize = true};
        solved(&ctx, &problem, &effort);
        mr_ctx_clear(&ctx);
    }
}

TEST(fixed_offsets_and_gaps_are_planned_too)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        mr_ctx ctx = {0};
        uint64_t state = seed;
        plan_problem problem = {0};
        for (uint32_t i = 0; i < 60; i++) {
            plan_buffer b = {.name = mr_printf(&ctx, "%u", i), .fixed = PLAN_ANYWHERE};
            b.align = (uint64_t)1 << draw(&state) % 5;
            b.lower = draw(&state) % 30;
            b.upper = b.lower + 4 + draw(&state) % 10;
            b.bytes = 1 + draw(&state) % 100;
            if (i % 20 == 7) b.fixed = 128 * i; /* too far apart to meet */
            plan_add(&ctx, &problem, &b);
            if (i % 3) continue;
            const plan_gap gap = {b.lower + 1, b.lower + 3, b.bytes / 4, b.bytes / 2};
            plan_add_gap(&ctx, &problem, &gap);
        }
        if (plan_prepare(&ctx, &problem)) TEST_FAIL("%s", ctx.failure.text);
        const plan_effort effort = {.threads = 2};
        solved(&ctx, &problem, &effort);
        mr_ctx_clear(&ctx);
    }
}

/* ---- what others found hard ------------------------------------------------------------- */

/* A table of lifetimes that the project may not ship; false when it is absent. */
static bool read_shared(mr_ctx *ctx, const char *name, uint64_t inclusive, plan_problem *out)
{
    FILE *file = fopen(mr_printf(ctx, SHARED "/recordings/lifetimes/%s.csv", name), "r");
    char line[200];
    unsigned long long from, to, bytes;
    if (!file) return false;
    *out = (plan_problem){0};
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%*[^,],%llu,%llu,%llu", &from, &to, &bytes) != 3) continue;
        const plan_buffer b = {.name = "",
                               .lower = from,
                               .upper = to + inclusive,
                               .bytes = bytes,
                               .align = 1,
                               .fixed = PLAN_ANYWHERE};
        plan_add(ctx, out, &b);
    }
    fclose(file);
    CHECK_EQ(plan_prepare(ctx, out), MR_OK);
    return true;
}

TEST(all_eleven_of_minimallocs_hard_problems_fit_into_a_mebibyte)
{
    uint64_t steps = 0;
    for (char letter = 'A'; letter <= 'K'; letter++) {
        mr_ctx ctx = {0};
        plan_problem problem;
        const plan_effort effort = {.threads = 2, .capacity = MR_MIB};
        const bool there =
            read_shared(&ctx, mr_printf(&ctx, "%c.1048576", letter), 0, &problem);
        if (there) {
            const plan_answer answer = solved(&ctx, &problem, &effort);
            CHECK(answer.layout.height <= MR_MIB);
            steps += answer.nodes;
        }
        mr_ctx_clear(&ctx);
        if (!there) SKIP("no recordings of lifetimes");
    }
    printf("%llu steps\n", (unsigned long long)steps);
    CHECK(steps < 1500000);
}

TEST(what_is_reached_is_proven)
{
    static const struct {
        const char *name;
        uint64_t inclusive, height;
    } known[] = {{"C.1048576", 0, 1039360}, {"iree-mobilebert", 1, 2164224}};
    for (size_t i = 0; i < MR_COUNT(known); i++) {
        mr_ctx ctx = {0};
        plan_problem problem;
        const plan_effort effort = {.threads = 2};
        const bool there = read_shared(&ctx, known[i].name, known[i].inclusive, &problem);
        if (there) {
            const plan_answer answer = solved(&ctx, &problem, &effort);
            CHECK_EQ(answer.layout.height, known[i].height);
            CHECK_EQ(answer.bound, known[i].height);
        }
        mr_ctx_clear(&ctx);
        if (!there) SKIP("no recordings of lifetimes");
    }
}

/* A dive and its squeezing never beat the bound, and no turn loses what was found. */
TEST(squeezing_never_makes_it_worse)
{
    mr_ctx ctx = {0};
    const shape like = {150, 60, 30, 1000, 1};
    const plan_problem problem = random_problem(&ctx, 1, &like);
    plan_field field;
    plan_field_make(&ctx, &problem, &field);
    plan_squeezer *squeezer = plan_squeezer_new(&ctx, &problem, &field, 0);
    uint64_t height = UINT64_MAX;
    for (uint32_t i = 0; i < 500; i++) {
        plan_squeeze(squeezer);
        CHECK(plan_squeezer_height(squeezer) <= height);
        height = plan_squeezer_height(squeezer);
        CHECK(height >= field.load);
    }
    plan_layout layout;
    plan_field_layout(&ctx, &problem, &field, plan_squeezer_bases(squeezer), &layout);
    CHECK_EQ(plan_check(&ctx, &problem, &layout), MR_OK);
    CHECK_EQ(layout.height, height * field.unit);
    mr_ctx_clear(&ctx);
}

TEST_MAIN()

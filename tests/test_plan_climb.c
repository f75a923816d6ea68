/* TVM's hill climb against a second one, written from its description with lists of neighbours
 * as they are, and with the C library's own rand_r. */
#include "plan.h"
#include "test.h"

#include <stdlib.h>

enum { ATTEMPTS = 500 };

typedef struct naive {
    const plan_problem *problem;
    uint32_t n, order[64];
    uint64_t now[64], before[64], result[64];
    unsigned seed;
} naive;

static const plan_buffer *buffer(const naive *c, uint32_t i)
{
    return &c->problem->buffers.at[i];
}

static bool conflict(const naive *c, uint32_t a, uint32_t b)
{
    return a != b && buffer(c, a)->lower < buffer(c, b)->upper
           && buffer(c, b)->lower < buffer(c, a)->upper;
}

static uint32_t conflicts(const naive *c, uint32_t a)
{
    uint32_t sum = 0;
    for (uint32_t b = 0; b < c->n; b++) sum += conflict(c, a, b);
    return sum;
}

static bool goes_first(const naive *c, uint32_t a, uint32_t b)
{
    if (buffer(c, a)->bytes != buffer(c, b)->bytes)
        return buffer(c, a)->bytes > buffer(c, b)->bytes;
    if (conflicts(c, a) != conflicts(c, b)) return conflicts(c, a) > conflicts(c, b);
    return a < b;
}

static uint32_t place_of(const naive *c, uint32_t a)
{
    uint32_t p = 0;
    while (c->order[p] != a) p++;
    return p;
}

static bool is_free(const naive *c, uint32_t p, uint64_t at)
{
    const uint32_t mine = c->order[p];
    for (uint32_t q = 0; q < p; q++) {
        const uint32_t other = c->order[q];
        if (conflict(c, mine, other) && c->now[other] < at + buffer(c, mine)->bytes
            && at < c->now[other] + buffer(c, other)->bytes)
            return false;
    }
    return true;
}

/* Lowest place first, byte by byte. */
static uint64_t lay(naive *c)
{
    uint64_t height = 0;
    for (uint32_t p = 0; p < c->n; p++) {
        uint64_t at = 0;
        while (!is_free(c, p, at)) at++;
        c->now[c->order[p]] = at;
        if (at + buffer(c, c->order[p])->bytes > height)
            height = at + buffer(c, c->order[p])->bytes;
    }
    return height;
}

static uint64_t height_of(const naive *c)
{
    uint64_t height = 0;
    for (uint32_t i = 0; i < c->n; i++)
        if (c->now[i] + buffer(c, i)->bytes > height) height = c->now[i] + buffer(c, i)->bytes;
    return height;
}

static void swap(naive *c, uint32_t i, uint32_t j)
{
    const uint32_t a = c->order[i];
    c->order[i] = c->order[j];
    c->order[j] = a;
}

/* Places of neighbours before the buffer; of neighbours of each, before that one. */
static uint32_t list(const naive *c, uint32_t node, bool second, uint32_t *out)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < c->n; p++)
        for (uint32_t q = 0; q < c->n; q++) {
            const uint32_t two = c->order[p], one = c->order[q];
            if (!second && q) break;
            if (!second && conflict(c, node, two) && p < place_of(c, node)) out[n++] = p;
            if (second && conflict(c, node, one) && conflict(c, one, two) && p < q)
                out[n++] = p;
        }
    return n;
}

static void move_on(naive *c, uint32_t *i, uint32_t *j)
{
    uint32_t tops[64], first[64], second[4096], n = 0;
    const uint64_t height = height_of(c);
    for (uint32_t p = 0; p < c->n; p++)
        if (c->now[c->order[p]] + buffer(c, c->order[p])->bytes == height)
            tops[n++] = c->order[p];
    const uint32_t node = tops[(uint32_t)rand_r(&c->seed) % n];
    const uint32_t firsts = list(c, node, false, first);
    const uint32_t seconds = list(c, node, true, second);
    if (!firsts) return;
    const uint32_t a = first[(uint32_t)rand_r(&c->seed) % firsts];
    uint32_t b = a;
    while (b == a) {
        if (seconds && rand_r(&c->seed) % 100 > 25)
            b = second[(uint32_t)rand_r(&c->seed) % seconds];
        else
            b = first[(uint32_t)rand_r(&c->seed) % firsts];
        if (seconds < 2 && firsts < 2) break;
    }
    if (a == b) return;
    *i = a;
    *j = b;
    swap(c, a, b);
}

static uint64_t climb(naive *c)
{
    uint32_t i = 0, j = 0;
    uint64_t kept = 0;
    for (uint32_t attempt = 0; attempt < ATTEMPTS; attempt++) {
        memcpy(c->before, c->now, sizeof c->now);
        const uint64_t height = lay(c);
        if (!kept || height < kept
            || (uint64_t)(rand_r(&c->seed) % 100) < 50 * (height - kept) / height / attempt) {
            memcpy(c->result, c->now, sizeof c->now);
            kept = height;
            if (height <= c->problem->load) break;
        } else {
            swap(c, i, j);
            memcpy(c->now, c->before, sizeof c->now);
        }
        move_on(c, &i, &j);
    }
    return kept;
}

static const plan_rule *the_rule(void)
{
    const plan_rule *rule = plan_rules;
    while (strcmp(rule->name, "tvm_hill_climb") != 0) rule++;
    return rule;
}

static plan_problem random_problem(mr_ctx *ctx, uint64_t seed)
{
    uint64_t state = seed * 2 + 1;
    plan_problem problem = {0};
    const uint32_t n = 3 + (uint32_t)seed % 22;
    for (uint32_t i = 0; i < n; i++) {
        plan_buffer b = {.name = "", .align = 1, .fixed = PLAN_ANYWHERE};
        state = state * 6364136223846793005u + 1442695040888963407u;
        b.lower = (state >> 33) % 12;
        b.upper = b.lower + 1 + (state >> 40) % 6;
        b.bytes = 1 + (state >> 50) % 9;
        plan_add(ctx, &problem, &b);
    }
    if (plan_prepare(ctx, &problem)) TEST_FAIL("%s", ctx->failure.text);
    return problem;
}

static naive begin(const plan_problem *problem)
{
    naive c = {.problem = problem, .n = problem->buffers.n};
    for (uint32_t i = 0; i < c.n; i++) {
        uint32_t p = i;
        for (; p && goes_first(&c, i, c.order[p - 1]); p--) c.order[p] = c.order[p - 1];
        c.order[p] = i;
    }
    return c;
}

TEST(it_climbs_as_the_description_says)
{
    for (uint64_t seed = 0; seed < 120; seed++) {
        mr_ctx ctx = {0};
        const plan_problem problem = random_problem(&ctx, seed);
        plan_layout layout;
        the_rule()->run(&ctx, &problem, &layout);
        naive c = begin(&problem);
        CHECK_EQ(layout.height, climb(&c));
        for (uint32_t i = 0; i < c.n; i++) CHECK_EQ(layout.offset[i], c.result[i]);
        mr_ctx_clear(&ctx);
    }
}

TEST_MAIN()

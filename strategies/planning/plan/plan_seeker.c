/* plan_seeker -- the state of a search, done and undone. */
#include "plan_seeker.h"

/* ---- doing and undoing --------------------------------------------------------------- */

void plan_seeker_place(plan_seeker *k, uint32_t box)
{
    const plan_box *b = &k->field->boxes[box];
    const uint64_t height = k->top[b->from], top = height + b->size;
    MR_PUSH(k->ctx, &k->trail, (seeker_change){height, b->from, b->to, box});
    k->base[box] = height;
    k->placed[box] = true;
    k->right[k->left[box]] = k->right[box];
    k->left[k->right[box]] = k->left[box];
    for (uint32_t s = b->from; s < b->to; s++) {
        k->top[s] = top;
        k->rest[s] -= b->size;
        k->bridges[s]--;
    }
    k->bridges[b->from]++; /* it does not cover the border to the section before its first */
}

void plan_seeker_lose(plan_seeker *k, uint32_t from, uint32_t to, uint64_t height)
{
    MR_PUSH(k->ctx, &k->trail, (seeker_change){k->top[from], from, to, MR_NONE});
    for (uint32_t s = from; s < to; s++) k->top[s] = height;
}

static void lift(plan_seeker *k, uint32_t box)
{
    const plan_box *b = &k->field->boxes[box];
    k->placed[box] = false;
    k->right[k->left[box]] = box;
    k->left[k->right[box]] = box;
    for (uint32_t s = b->from; s < b->to; s++) {
        k->rest[s] += b->size;
        k->bridges[s]++;
    }
    k->bridges[b->from]--;
}

void plan_seeker_undo(plan_seeker *k, uint32_t trail)
{
    while (k->trail.n > trail) {
        const seeker_change *c = &k->trail.at[--k->trail.n];
        for (uint32_t s = c->from; s < c->to; s++) k->top[s] = c->height;
        if (c->box != MR_NONE) lift(k, c->box);
    }
}

/* ---- parts --------------------------------------------------------------------------- */

uint32_t plan_seeker_split(plan_seeker *k, uint32_t lo, uint32_t hi, uint32_t next)
{
    const uint32_t owner = k->frames.n - 1; /* MR_NONE when there is no frame */
    uint32_t end = hi;
    for (uint32_t s = hi; s-- > lo;) {
        if (!k->rest[s]) {
            end = s;
            continue;
        }
        if (s > lo && k->bridges[s]) continue;
        MR_PUSH(k->ctx, &k->parts, (seeker_part){s, end, next, owner});
        next = k->parts.n - 1;
        end = s;
    }
    return next;
}

/* ---- valleys ------------------------------------------------------------------------- */

static void find_valleys(plan_seeker *k)
{
    const uint32_t hi = k->now.hi;
    uint64_t before = UINT64_MAX;
    for (uint32_t s = k->now.lo, end; s < hi; s = end) {
        const uint64_t ground = k->top[s];
        for (end = s + 1; end < hi && k->top[end] == ground; end++) continue;
        const uint64_t after = end < hi ? k->top[end] : UINT64_MAX;
        const bool valley = before > ground && after > ground;
        k->shore[end - 1] = before < after ? before : after;
        k->grain[end - 1] = UINT64_MAX;
        for (uint32_t x = s; x < end; x++) {
            k->run_end[x] = valley ? end : 0;
            k->fits[x] = 0;
        }
        before = ground;
    }
    k->fits[hi] = 0;
}

static bool can_stand(const plan_seeker *k, const plan_box *b)
{
    return k->run_end[b->from] >= b->to;
}

/* Of twins only the first is a choice. */
static bool is_choice(const plan_seeker *k, uint32_t box)
{
    return k->twin[box] == MR_NONE || k->placed[k->twin[box]];
}

uint32_t plan_seeker_first(const plan_seeker *k)
{
    uint32_t i = k->field->first[k->now.lo];
    while (i < k->field->n && k->placed[i]) i++;
    return i;
}

void plan_seeker_look(plan_seeker *k)
{
    const uint32_t end = k->field->first[k->now.hi];
    find_valleys(k);
    for (uint32_t i = plan_seeker_first(k); i < end; i = k->right[i]) {
        const plan_box *b = &k->field->boxes[i];
        if (!can_stand(k, b)) continue;
        uint64_t *grain = &k->grain[k->run_end[b->from] - 1];
        if (b->size < *grain) *grain = b->size;
        if (!is_choice(k, i)) continue;
        k->fits[b->from]++;
        k->fits[b->to]--; /* wraps around, and back when it is added */
    }
}

uint64_t plan_seeker_after_loss(const plan_seeker *k, uint32_t section)
{
    const uint32_t last = k->run_end[section] - 1;
    const uint64_t grain = k->grain[last];
    const uint64_t end = grain == UINT64_MAX ? grain : k->top[section] + grain;
    return k->shore[last] < end ? k->shore[last] : end;
}

bool plan_seeker_may_lose(const plan_seeker *k, uint32_t section)
{
    const uint64_t height = plan_seeker_after_loss(k, section);
    return height <= k->capacity && k->rest[section] <= k->capacity - height;
}

void plan_seeker_lose_all(plan_seeker *k)
{
    uint32_t fits = 0, end;
    for (uint32_t s = k->now.lo; s < k->now.hi; s = end) {
        fits += k->fits[s];
        end = s + 1;
        if (!k->run_end[s] || fits) continue;
        while (end < k->run_end[s] && !k->fits[end]) end++;
        plan_seeker_lose(k, s, end, plan_seeker_after_loss(k, s));
    }
}

/* Boxes that leave no corner of the valley go first. */
static uint64_t turn_of(const plan_seeker *k, uint32_t box, uint32_t valley)
{
    const plan_box *b = &k->field->boxes[box];
    uint64_t edges = 0;
    if (!(k->ways & PLAN_SNUG)) return k->rank[box];
    edges += b->from != valley;
    edges += b->to != k->run_end[valley];
    return edges * k->field->n + k->rank[box];
}

void plan_seeker_choices(plan_seeker *k, uint32_t section, uint32_t at)
{
    const uint32_t end = k->field->first[section + 1];
    uint32_t valley = section;
    while (valley > k->now.lo && k->run_end[valley - 1] == k->run_end[section]) valley--;
    k->choices.n = at;
    for (uint32_t i = plan_seeker_first(k); i < end; i = k->right[i]) {
        const plan_box *b = &k->field->boxes[i];
        if (b->to <= section || !can_stand(k, b) || !is_choice(k, i)) continue;
        MR_PUSH(k->ctx, &k->choices, i);
        uint32_t j = k->choices.n - 1;
        for (; j > at && turn_of(k, k->choices.at[j - 1], valley) > turn_of(k, i, valley); j--)
            k->choices.at[j] = k->choices.at[j - 1];
        k->choices.at[j] = i;
    }
}

bool plan_seeker_is_hopeless(plan_seeker *k)
{
    const uint32_t end = k->field->first[k->now.hi];
    for (uint32_t s = k->now.lo; s < k->now.hi; s++) k->floor[s] = UINT64_MAX;
    for (uint32_t i = plan_seeker_first(k); i < end; i = k->right[i]) {
        const plan_box *b = &k->field->boxes[i];
        uint64_t base = 0;
        for (uint32_t s = b->from; s < b->to; s++)
            if (k->top[s] > base) base = k->top[s];
        if (base + b->size > k->capacity) return true;
        for (uint32_t s = b->from; s < b->to; s++)
            if (base < k->floor[s]) k->floor[s] = base;
    }
    for (uint32_t s = k->now.lo; s < k->now.hi; s++)
        if (k->floor[s] + k->rest[s] > k->capacity) return true;
    return false;
}

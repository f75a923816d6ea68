/* ranges -- the treap. */
#include "ranges.h"

typedef struct mr_range_node {
    mr_range range;
    uint32_t left, right; /* index + 1, 0 for none */
    uint32_t priority;
} node;

static bool before(const mr_range *range, uint32_t segment, uint64_t offset)
{
    return range->segment < segment || (range->segment == segment && range->offset < offset);
}

static node *get(mr_ranges *r, uint32_t link)
{
    return &r->nodes[link - 1];
}

mr_range *mr_ranges_at(mr_ranges *r, uint32_t segment, uint64_t offset)
{
    mr_range *best = NULL;
    for (uint32_t link = r->root; link;) {
        node *n = get(r, link);
        const bool ahead = n->range.segment > segment
                           || (n->range.segment == segment && n->range.offset > offset);
        if (!ahead) best = &n->range;
        link = ahead ? n->left : n->right;
    }
    return best && best->segment == segment ? best : NULL;
}

mr_range *mr_ranges_after(mr_ranges *r, uint32_t segment, uint64_t offset)
{
    mr_range *best = NULL;
    for (uint32_t link = r->root; link;) {
        node *n = get(r, link);
        const bool ahead = n->range.segment > segment
                           || (n->range.segment == segment && n->range.offset > offset);
        if (ahead) best = &n->range;
        link = ahead ? n->left : n->right;
    }
    return best && best->segment == segment ? best : NULL;
}

const mr_range *mr_ranges_overlap(mr_ranges *r, uint32_t segment, uint64_t offset,
                                  uint64_t bytes)
{
    const mr_range *at = mr_ranges_at(r, segment, offset);
    if (at && offset - at->offset < at->bytes) return at;
    const mr_range *next = mr_ranges_after(r, segment, offset);
    return next && next->offset - offset < bytes ? next : NULL;
}

static uint32_t draw(mr_ranges *r) /* xorshift64*, Vigna 2016 */
{
    uint64_t x = r->random ? r->random : 0x9e3779b97f4a7c15u;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    r->random = x;
    return (uint32_t)((x * 0x2545f4914f6cdd1du) >> 32);
}

static uint32_t new_node(mr_ctx *ctx, mr_ranges *r, mr_range range)
{
    uint32_t link = r->spare;
    if (link) {
        r->spare = get(r, link)->left;
    } else {
        if (r->n == r->cap) r->nodes = mr_grow(ctx, r->nodes, &r->cap, r->n + 1, sizeof(node));
        link = ++r->n;
    }
    *get(r, link) = (node){.range = range, .priority = draw(r)};
    return link;
}

/* Parts the tree below `link` at the key: what is before it, and what is not. */
static void split(mr_ranges *r, uint32_t link, const mr_range *key, uint32_t *low,
                  uint32_t *high)
{
    while (link) {
        node *n = get(r, link);
        if (before(&n->range, key->segment, key->offset)) {
            *low = link;
            low = &n->right;
            link = n->right;
        } else {
            *high = link;
            high = &n->left;
            link = n->left;
        }
    }
    *low = *high = 0;
}

void mr_ranges_add(mr_ctx *ctx, mr_ranges *r, mr_range range)
{
    const uint32_t added = new_node(ctx, r, range);
    node *new = get(r, added);
    uint32_t *link = &r->root;
    while (*link && get(r, *link)->priority >= new->priority) {
        node *n = get(r, *link);
        link = before(&n->range, range.segment, range.offset) ? &n->right : &n->left;
    }
    split(r, *link, &range, &new->left, &new->right);
    *link = added;
}

static uint32_t merge(mr_ranges *r, uint32_t low, uint32_t high)
{
    uint32_t root, *link = &root;
    while (low && high) {
        node *l = get(r, low), *h = get(r, high);
        if (l->priority >= h->priority) {
            *link = low;
            link = &l->right;
            low = l->right;
        } else {
            *link = high;
            link = &h->left;
            high = h->left;
        }
    }
    *link = low ? low : high;
    return root;
}

bool mr_ranges_remove(mr_ranges *r, uint32_t segment, uint64_t offset)
{
    uint32_t *link = &r->root;
    while (*link) {
        node *n = get(r, *link);
        if (n->range.segment == segment && n->range.offset == offset) break;
        link = before(&n->range, segment, offset) ? &n->right : &n->left;
    }
    const uint32_t found = *link;
    if (!found) return false;
    node *n = get(r, found);
    *link = merge(r, n->left, n->right);
    *n = (node){.left = r->spare};
    r->spare = found;
    return true;
}

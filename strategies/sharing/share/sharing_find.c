/* sharing_find -- from patterns of module names to pairs of parameters. */
#include "sharing.h"

#include <string.h>

typedef struct member { /* a module that takes part: its path is a prefix of names */
    const char *path;
    size_t n;
} member;

typedef MR_VEC(member) members;

/* ---- names
 * ----------------------------------------------------------------------------------- */

static bool is_number(const char *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (from[i] < '0' || from[i] > '9') return false;
    return n > 0;
}

static size_t part_length(const char *path)
{
    const char *end = strchr(path, '.');
    return end ? (size_t)(end - path) : strlen(path);
}

/* How long the beginning of a name is that a pattern matches, part by part; 0 when it does not.
 */
static size_t match(const char *pattern, size_t n, const char *name)
{
    const char *at = name, *end = pattern + n;
    while (pattern < end) {
        size_t want = part_length(pattern);
        const size_t has = part_length(at);
        if (pattern + want > end) want = (size_t)(end - pattern);
        const bool any = want == 1 && *pattern == '*';
        if (!any && (want != has || strncmp(pattern, at, want) != 0)) return 0;
        pattern += want;
        at += has;
        if (pattern >= end) return *at == '.' ? (size_t)(at - name) : 0;
        if (*at != '.') return 0;
        pattern++;
        at++;
    }
    return 0;
}

/* The items of "a" or "[a,b]": the next one, NULL after the last. */
static const char *next_item(const char **text, size_t *n)
{
    while (**text && strchr("[], ", **text)) ++*text;
    const char *item = *text;
    *n = strcspn(item, "[], ");
    *text += *n;
    return *n ? item : NULL;
}

static void list_names(sharing *s)
{
    for (uint32_t t = 0; t < s->in->tensors.n; t++) {
        const mr_tensor *tensor = &s->in->tensors.at[t];
        const mr_storage *home = &s->in->storages.at[tensor->storage];
        const bool lasts = home->role == MR_ROLE_parameter || home->role == MR_ROLE_buffer;
        if (!*tensor->name || !home->before || !lasts) continue;
        const uint32_t n = mr_names_add(s->ctx, &s->names, tensor->name, strlen(tensor->name));
        if (n == s->named.n) MR_PUSH(s->ctx, &s->named, tensor->storage);
    }
}

/* ---- pairs
 * ----------------------------------------------------------------------------------- */

static mr_status lend(sharing *s, uint32_t from, uint32_t to, const char *name)
{
    const mr_storage *x = &s->in->storages.at[from], *y = &s->in->storages.at[to];
    if (x->bytes != y->bytes || x->role != y->role || x->device != y->device)
        return mr_fail(
            s->ctx, MR_EUNSUPPORTED,
            "'%s' cannot share %s: it is not as large as what it would be replaced by",
            s->in->name, name);
    if (s->lender[to] != to || s->lender[from] != from)
        return mr_fail(s->ctx, MR_EUNSUPPORTED, "'%s' would share %s twice", s->in->name, name);
    if (from == to) return MR_OK;
    s->lender[to] = from;
    s->shared[from]++;
    return MR_OK;
}

/* All parameters of a module become those of the first one of its group. */
static mr_status lend_module(sharing *s, const member *first, const member *other)
{
    for (uint32_t i = 0; i < s->names.all.n; i++) {
        const char *name = s->names.all.at[i].text;
        if (strncmp(name, other->path, other->n) != 0 || name[other->n] != '.') continue;
        const char *twin =
            mr_printf(s->ctx, "%.*s%s", (int)first->n, first->path, name + other->n);
        const uint32_t k = mr_names_find(&s->names, twin, strlen(twin));
        if (k == MR_NONE)
            return mr_fail(s->ctx, MR_EUNSUPPORTED, "'%s' cannot share %s: there is no %s",
                           s->in->name, name, twin);
        MR_TRY(lend(s, s->named.at[k], s->named.at[i], name));
    }
    return MR_OK;
}

static void note_member(sharing *s, members *all, mr_names *known, const char *name, size_t n)
{
    const member one = {name, n};
    if (mr_names_add(s->ctx, known, name, n) == all->n) MR_PUSH(s->ctx, all, one);
}

static mr_status share_groups(sharing *s, const char *groups, uint64_t span)
{
    members all = {0};
    mr_names known = {0};
    for (uint32_t i = 0; i < s->names.all.n; i++) {
        const char *text = groups, *name = s->names.all.at[i].text, *item;
        size_t n;
        while ((item = next_item(&text, &n)) != NULL) {
            const size_t length = match(item, n, name);
            if (length) note_member(s, &all, &known, name, length);
        }
    }
    if (all.n < 2)
        return mr_fail(s->ctx, MR_EUNSUPPORTED,
                       "'%s' has %s with parameters like %s, expected two at least",
                       s->in->name, mr_show_count(s->ctx, all.n, "module", "modules"), groups);
    for (uint32_t i = 0; i < all.n; i++) {
        const uint32_t first = span ? i - (uint32_t)(i % span) : 0;
        if (first != i) MR_TRY(lend_module(s, &all.at[first], &all.at[i]));
    }
    return MR_OK;
}

/* The pattern of the stack with most parameters: what stands before the first number. */
static const char *largest_stack(sharing *s)
{
    mr_names stacks = {0};
    MR_VEC(uint64_t) bytes = {0};
    uint32_t best = MR_NONE;
    for (uint32_t i = 0; i < s->names.all.n; i++) {
        const char *name = s->names.all.at[i].text, *at = name;
        while (*at && !is_number(at, part_length(at)))
            at += part_length(at) + (at[part_length(at)] == '.');
        if (!*at || at[part_length(at)] != '.') continue;
        const uint32_t k = mr_names_add(s->ctx, &stacks, name, (size_t)(at - name));
        if (k == bytes.n) MR_PUSH(s->ctx, &bytes, 0);
        bytes.at[k] += s->in->storages.at[s->named.at[i]].bytes;
        if (best == MR_NONE || bytes.at[k] > bytes.at[best]) best = k;
    }
    return best == MR_NONE ? "" : mr_printf(s->ctx, "%s*", stacks.all.at[best].text);
}

/* ---- ties
 * ------------------------------------------------------------------------------------ */

static mr_status tie(sharing *s, const char *list)
{
    const char *text = list, *item;
    uint32_t first = MR_NONE;
    size_t n;
    while ((item = next_item(&text, &n)) != NULL) {
        const char *name = mr_strndup(s->ctx, item, n);
        const uint32_t k = mr_names_find(&s->names, item, n);
        if (k == MR_NONE)
            return mr_fail(s->ctx, MR_EUNSUPPORTED, "'%s' has no parameter %s", s->in->name,
                           name);
        if (first == MR_NONE) first = s->named.at[k];
        else MR_TRY(lend(s, first, s->named.at[k], name));
    }
    return MR_OK;
}

/* The table of an embedding, and a matrix of its size that is multiplied with. */
static mr_status tie_embeddings(sharing *s)
{
    uint32_t table = MR_NONE, other = MR_NONE;
    for (uint32_t o = 0; o < s->in->ops.n; o++) {
        const mr_op *op = &s->in->ops.at[o];
        for (uint32_t i = 0; i < op->in.n && op->phase == MR_FORWARD; i++) {
            const uint32_t at = s->in->tensors.at[op->in.at[i]].storage;
            const mr_storage *home = &s->in->storages.at[at];
            if (home->role != MR_ROLE_parameter || !home->before) continue;
            if (!strcmp(op->name, "aten::embedding")
                && (table == MR_NONE || home->bytes > s->in->storages.at[table].bytes))
                table = at;
            if (table != MR_NONE && at != table && strcmp(op->name, "aten::embedding") != 0
                && home->bytes == s->in->storages.at[table].bytes)
                other = at;
        }
    }
    if (other == MR_NONE)
        return mr_fail(s->ctx, MR_EUNSUPPORTED,
                       "'%s' has no matrix as large as an embedding's that could be tied to it",
                       s->in->name);
    return lend(s, table, other, "the last matrix");
}

mr_status sharing_find(sharing *s, const sharing_choice *choice)
{
    const uint32_t n = s->in->storages.n;
    s->lender = MR_NEW_N(s->ctx, uint32_t, n);
    s->shared = MR_NEW_N(s->ctx, uint32_t, n);
    for (uint32_t i = 0; i < n; i++) s->lender[i] = i;
    list_names(s);
    if (!strcmp(choice->tie, "embeddings")) MR_TRY(tie_embeddings(s));
    else if (*choice->tie) MR_TRY(tie(s, choice->tie));
    if (*choice->tie && !*choice->groups) return MR_OK;
    const char *groups = *choice->groups ? choice->groups : largest_stack(s);
    if (*groups) return share_groups(s, groups, choice->span);
    return mr_fail(s->ctx, MR_EUNSUPPORTED,
                   "'%s' has no parameters with names such as layers.0.weight, expected a stack"
                   " of modules that could share them",
                   s->in->name);
}

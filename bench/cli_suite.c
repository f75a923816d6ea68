/* suite -- the text of a suite: what its lines say, and which cells follow from them. */
#include <string.h>

#include "strategies.h"
#include "suite_reader.h"

/* ---- words ------------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static void skip_blanks(mr_suite_reader *r)
{
    while (is_blank(*r->at)) r->at++;
}

mr_place mr_suite_here(const mr_suite_reader *r)
{
    return (mr_place){r->lines.number, (uint64_t)(r->at - r->text) + 1};
}

const char *mr_suite_word(mr_suite_reader *r, mr_place *place)
{
    skip_blanks(r);
    *place = mr_suite_here(r);
    const char *begin = r->at;
    while (*r->at && !is_blank(*r->at)) r->at++;
    return mr_strndup(r->ctx, begin, (size_t)(r->at - begin));
}

const char *mr_suite_rest(mr_suite_reader *r, mr_place *place)
{
    skip_blanks(r);
    *place = mr_suite_here(r);
    const char *begin = r->at;
    r->at += strlen(r->at);
    return begin;
}

/* The line without its end, its comment and the blanks before them, in memory that stays. */
static const char *plain_line(mr_ctx *ctx, const mr_lines *lines)
{
    size_t n = 0;
    while (n < lines->n && lines->at[n] != '\n'
           && !(lines->at[n] == '#' && (!n || is_blank(lines->at[n - 1]))))
        n++;
    while (n && is_blank(lines->at[n - 1])) n--;
    return mr_strndup(ctx, lines->at, n);
}

/* ---- names ------------------------------------------------------------------------------- */

/* Letters that neither a spec nor an expression gives a meaning to. */
static mr_status take_new_name(mr_suite_reader *r, const char **out)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    mr_place place;
    mr_ctx *ctx = r->ctx;
    mr_spec spec;
    const char *name = mr_suite_word(r, &place);
    if (!*name) return mr_suite_fail(r, place, "expected a name");
    const size_t good = strspn(name, letters);
    if (name[good])
        return mr_suite_fail(r, place, "'%s' is no name: expected letters, digits, -, _ or .",
                             name);
    if (mr_suite_trace_named(&r->suite, name) != MR_NONE
        || mr_suite_spec_named(ctx, &r->suite, name) != MR_NONE
        || mr_suite_group_named(&r->suite, name))
        return mr_suite_fail(r, place, "'%s' is a trace, spec or group already", name);
    if (mr_scene_spec(ctx, name, &spec) == MR_OK)
        return mr_suite_fail(r, place, "'%s' is a spec of its own, expected another name",
                             name);
    *out = name;
    return MR_OK;
}

/* ---- specs ------------------------------------------------------------------------------- */

/* A mistake in a spec stands where the spec stands in the suite. */
static mr_status parse_spec(mr_suite_reader *r, mr_place place, const char *text, mr_spec *out)
{
    if (mr_scene_spec(r->ctx, text, out) == MR_OK) return MR_OK;
    place.column += r->ctx->failure.column;
    return mr_suite_fail(r, place, "%s", mr_strdup(r->ctx, r->ctx->failure.text));
}

static uint32_t add_spec(mr_suite_reader *r, const char *name, const mr_spec *spec)
{
    const uint32_t known = mr_suite_spec_with(&r->suite, spec->text);
    if (known != MR_NONE && (!name || !r->suite.specs.at[known].name)) {
        if (name) r->suite.specs.at[known].name = name;
        return known;
    }
    MR_PUSH(r->ctx, &r->suite.specs, (mr_suite_spec){name, *spec});
    return r->suite.specs.n - 1;
}

static mr_status take_spec(mr_suite_reader *r)
{
    const char *name;
    mr_place place;
    mr_spec spec;
    MR_TRY(take_new_name(r, &name));
    const char *text = mr_suite_word(r, &place);
    MR_TRY(parse_spec(r, place, text, &spec));
    add_spec(r, name, &spec);
    return MR_OK;
}

#define LATTICE_MOST 12 /* techniques of a lattice */

/* The words of a lattice: rewrites, each alone a spec with the placement, which is last. */
static mr_status take_techniques(mr_suite_reader *r, mr_words *rewrites, const char **placement)
{
    mr_place place, places[LATTICE_MOST + 1];
    mr_spec spec;
    *placement = NULL;
    for (const char *word; *(word = mr_suite_word(r, &place));) {
        if (*placement)
            return mr_suite_fail(r, place, "'%s' stands behind the placement, expected nothing",
                                 word);
        if (*word == '/') {
            *placement = word;
            place.column++;
            MR_TRY(parse_spec(r, place, word + 1, &spec));
            continue;
        }
        if (rewrites->n == LATTICE_MOST)
            return mr_suite_fail(r, place,
                                 "more than %d rewrites, of which there would be too "
                                 "many combinations",
                                 LATTICE_MOST);
        places[rewrites->n] = place;
        MR_PUSH(r->ctx, rewrites, word);
    }
    if (!*placement || !rewrites->n)
        return mr_suite_fail(r, place,
                             "expected rewrites and, last, a placement such as /bound");
    for (uint32_t i = 0; i < rewrites->n; i++)
        MR_TRY(parse_spec(r, places[i], mr_printf(r->ctx, "%s%s", rewrites->at[i], *placement),
                          &spec));
    return MR_OK;
}

static mr_ids ids_of(mr_ctx *ctx, const mr_numbers *numbers)
{
    mr_ids ids = {MR_NEW_N(ctx, uint32_t, numbers->n), numbers->n};
    for (uint32_t i = 0; i < numbers->n; i++) ids.at[i] = numbers->at[i];
    return ids;
}

/* All combinations in the order of their words; the empty one is the placement alone. */
static mr_status take_lattice(mr_suite_reader *r)
{
    mr_words rewrites = {0};
    const char *name, *placement;
    mr_numbers members = {0};
    MR_TRY(take_new_name(r, &name));
    MR_TRY(take_techniques(r, &rewrites, &placement));
    for (uint32_t set = 0; set < (uint32_t)1 << rewrites.n; set++) {
        const char *text = "";
        mr_spec spec;
        for (uint32_t i = 0; i < rewrites.n; i++)
            if (set >> i & 1)
                text = mr_printf(r->ctx, "%s%s%s", text, *text ? "+" : "", rewrites.at[i]);
        text = mr_printf(r->ctx, "%s%s", text, *text ? placement : placement + 1);
        MR_TRY(parse_spec(r, mr_suite_here(r), text, &spec));
        MR_PUSH(r->ctx, &members, add_spec(r, NULL, &spec));
    }
    MR_PUSH(r->ctx, &r->suite.groups, (mr_group){name, false, ids_of(r->ctx, &members)});
    return MR_OK;
}

/* ---- traces and groups ------------------------------------------------------------------- */

static mr_status take_trace(mr_suite_reader *r)
{
    const char *name;
    mr_place place;
    MR_TRY(take_new_name(r, &name));
    const char *path = mr_suite_rest(r, &place);
    if (!*path) return mr_suite_fail(r, place, "expected the path of a recording");
    const char *slash = strrchr(r->suite.path, '/');
    if (*path != '/' && slash)
        path =
            mr_printf(r->ctx, "%.*s%s", (int)(slash - r->suite.path) + 1, r->suite.path, path);
    MR_PUSH(r->ctx, &r->suite.traces,
            (mr_suite_trace){.name = name, .path = path, .place = place});
    return MR_OK;
}

/* Adds what one word of a list means: a trace, a spec, or all of a group of them. */
static mr_status take_member(mr_suite_reader *r, bool of_traces, const char *word,
                             mr_place place, mr_numbers *out)
{
    const char *what = of_traces ? "trace" : "spec";
    const mr_group *group = mr_suite_group_named(&r->suite, word);
    if (group && group->of_traces != of_traces)
        return mr_suite_fail(r, place, "'%s' is a group of %s, expected a %s", word,
                             group->of_traces ? "traces" : "specs", what);
    for (uint32_t i = 0; group && i < group->members.n; i++)
        MR_PUSH(r->ctx, out, group->members.at[i]);
    if (group) return MR_OK;
    uint32_t found = of_traces ? mr_suite_trace_named(&r->suite, word)
                               : mr_suite_spec_named(r->ctx, &r->suite, word);
    mr_spec spec;
    if (found == MR_NONE && !of_traces && mr_scene_spec(r->ctx, word, &spec) == MR_OK)
        found = add_spec(r, NULL, &spec);
    if (found == MR_NONE)
        return mr_suite_fail(r, place, "'%s' is no %s and no group of %ss of this suite", word,
                             what, what);
    MR_PUSH(r->ctx, out, found);
    return MR_OK;
}

static mr_status take_list(mr_suite_reader *r, bool of_traces, const char *end, mr_numbers *out)
{
    mr_place place;
    for (const char *word; *(word = mr_suite_word(r, &place));) {
        if (end && strcmp(word, end) == 0) break;
        MR_TRY(take_member(r, of_traces, word, place, out));
    }
    if (!out->n) return mr_suite_fail(r, place, "expected %s", of_traces ? "traces" : "specs");
    return MR_OK;
}

static mr_status take_group(mr_suite_reader *r)
{
    const char *name;
    mr_place place;
    mr_numbers members = {0};
    MR_TRY(take_new_name(r, &name));
    const char *word = mr_suite_word(r, &place);
    const mr_group *first = mr_suite_group_named(&r->suite, word);
    const bool of_traces =
        first ? first->of_traces : mr_suite_trace_named(&r->suite, word) != MR_NONE;
    if (!*word) return mr_suite_fail(r, place, "expected traces or specs");
    MR_TRY(take_member(r, of_traces, word, place, &members));
    skip_blanks(r);
    if (*r->at) MR_TRY(take_list(r, of_traces, NULL, &members));
    MR_PUSH(r->ctx, &r->suite.groups, (mr_group){name, of_traces, ids_of(r->ctx, &members)});
    return MR_OK;
}

/* `cells TRACE... : SPEC...` */
static mr_status take_cells(mr_suite_reader *r)
{
    mr_numbers traces = {0}, specs = {0};
    MR_TRY(take_list(r, true, ":", &traces));
    MR_TRY(take_list(r, false, NULL, &specs));
    MR_PUSH(r->ctx, &r->wanted, (mr_wanted){ids_of(r->ctx, &traces), ids_of(r->ctx, &specs)});
    return MR_OK;
}

/* ---- claims ------------------------------------------------------------------------------ */

static mr_status take_claim(mr_suite_reader *r)
{
    mr_place place;
    const char *text = mr_suite_rest(r, &place);
    if (!*text) return mr_suite_fail(r, place, "expected what is claimed, in words");
    MR_PUSH(r->ctx, &r->suite.claims, (mr_claim){.text = text});
    return MR_OK;
}

static mr_status take_for(mr_suite_reader *r)
{
    mr_numbers traces = {0};
    if (!r->suite.claims.n) return mr_suite_fail(r, mr_suite_here(r), "no claim stands before");
    MR_TRY(take_list(r, true, NULL, &traces));
    r->suite.claims.at[r->suite.claims.n - 1].traces = ids_of(r->ctx, &traces);
    return MR_OK;
}

/* Read when all cells are known. */
static mr_status take_expect(mr_suite_reader *r)
{
    mr_place place;
    if (!r->suite.claims.n) return mr_suite_fail(r, mr_suite_here(r), "no claim stands before");
    const char *text = mr_suite_rest(r, &place);
    MR_PUSH(r->ctx, &r->expected, (mr_expected){r->suite.claims.n - 1, text, place});
    return MR_OK;
}

/* ---- lines ------------------------------------------------------------------------------- */

static mr_status take_title(mr_suite_reader *r)
{
    mr_place place;
    r->suite.title = mr_suite_rest(r, &place);
    return MR_OK;
}

static mr_status take_note(mr_suite_reader *r)
{
    mr_place place;
    MR_PUSH(r->ctx, &r->suite.notes, mr_suite_rest(r, &place));
    return MR_OK;
}

typedef struct keyword {
    const char *name;
    mr_status (*take)(mr_suite_reader *r);
} keyword;

static const keyword keywords[] = {
    {"title", take_title},
    {"note", take_note},
    {"trace", take_trace},
    {"spec", take_spec},
    {"lattice", take_lattice},
    {"group", take_group},
    {"cells", take_cells},
    {"claim", take_claim},
    {"for", take_for},
    {"expect", take_expect},
    {"device", mr_suite_device_line},
    {"capacity", mr_suite_capacity_line},
    {"iterations", mr_suite_iterations_line},
    {"seed", mr_suite_seed_line},
    {"tf32", mr_suite_tf32_line},
};

static mr_status take_line(mr_suite_reader *r)
{
    mr_place place;
    const char *names[MR_COUNT(keywords)];
    const char *word = mr_suite_word(r, &place);
    if (!*word) return MR_OK;
    for (size_t i = 0; i < MR_COUNT(keywords); i++) {
        names[i] = keywords[i].name;
        if (strcmp(word, names[i]) != 0) continue;
        MR_TRY(keywords[i].take(r));
        const char *more = mr_suite_word(r, &place);
        if (!*more) return MR_OK;
        return mr_suite_fail(r, place, "'%s' is too much on this line", more);
    }
    const char *near = mr_nearest(word, names, MR_COUNT(names));
    return mr_suite_fail(r, place, "unknown word '%s'%s%s%s", word,
                         near ? " (did you mean '" : ", expected trace, spec, cells, claim...",
                         near ? near : "", near ? "'?)" : "");
}

static mr_status take_lines(mr_suite_reader *r)
{
    for (;;) {
        MR_TRY(mr_lines_next(&r->lines));
        if (!r->lines.n) return MR_OK;
        r->text = r->at = plain_line(r->ctx, &r->lines);
        MR_TRY(take_line(r));
    }
}

mr_status mr_suite_read(mr_ctx *ctx, const char *path, mr_suite *out)
{
    mr_suite_reader r = {.ctx = ctx, .suite = {.path = path, .tf32 = "conv"}};
    r.lines.ctx = ctx;
    MR_TRY(mr_suite_open(&r));
    mr_status status = take_lines(&r);
    if (status == MR_OK) status = mr_suite_settle(&r);
    mr_source_close(r.lines.source);
    *out = r.suite;
    return mr_source_blame(ctx, path, status);
}

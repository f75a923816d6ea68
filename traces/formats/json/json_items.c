/* json_items -- finds where an element ends; what is inside of it is left to jansson. */
#include "json_items.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- sentences --------------------------------------------------------------------------- */

static mr_status fail_at(const json_items *items, uint64_t line, uint64_t column,
                         const char *text)
{
    const char *where = mr_printf(items->ctx, "%s:%" PRIu64 ":%" PRIu64,
                                  mr_source_name(items->source), line, column);
    return mr_fail_at(items->ctx, MR_EINPUT, where, "%s", text);
}

mr_status json_items_fail(const json_items *items, const char *format, ...)
{
    char text[sizeof items->ctx->failure.text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return fail_at(items, items->line, items->column, text);
}

/* ---- characters -------------------------------------------------------------------------- */

/* The next character without taking it, -1 at the end of the file. */
static int look(json_items *items)
{
    if (items->used == items->have) {
        mr_source_take(items->source, items->used);
        items->window = mr_source_peek(items->source, 1, &items->have);
        items->used = 0;
        if (!items->have) return -1;
    }
    return items->window[items->used];
}

static void take(json_items *items, int c)
{
    items->used++;
    items->at_column++;
    if (c != '\n') return;
    items->at_line++;
    items->at_column = 1;
}

static int look_past_blanks(json_items *items)
{
    int c;
    while ((c = look(items)) >= 0 && isspace(c)) take(items, c);
    return c;
}

static mr_status wrong(json_items *items, int c, const char *expected)
{
    if (c < 0) {
        MR_TRY(mr_source_status(items->source));
        return fail_at(items, items->at_line, items->at_column,
                       mr_printf(items->ctx, "the file ends here, expected %s; it may have been"
                                             " cut off",
                                 expected));
    }
    const char *found = c > ' ' && c < 127 ? mr_printf(items->ctx, "'%c'", c)
                                           : mr_printf(items->ctx, "byte 0x%02x", (unsigned)c);
    return fail_at(items, items->at_line, items->at_column,
                   mr_printf(items->ctx, "%s is no JSON here, expected %s", found, expected));
}

static mr_status keep(json_items *items, int c)
{
    if (items->n == items->cap) {
        if (items->cap >= JSON_ITEM_LONGEST)
            return json_items_fail(items, "a value is longer than 64 MiB, expected shorter ones");
        const size_t cap = items->cap ? 2 * items->cap : 4096;
        char *text = mr_alloc(items->ctx, cap);
        if (items->n) memcpy(text, items->text, items->n);
        items->text = text;
        items->cap = cap;
    }
    items->text[items->n++] = (char)c;
    take(items, c);
    return MR_OK;
}

/* ---- values ------------------------------------------------------------------------------ */

static mr_status scan_string(json_items *items)
{
    MR_TRY(keep(items, '"'));
    for (bool escaped = false;;) {
        const int c = look(items);
        if (c < 0) return wrong(items, c, "the end of a text");
        MR_TRY(keep(items, c));
        if (c == '"' && !escaped) return MR_OK;
        escaped = c == '\\' && !escaped;
    }
}

/* Up to the end of the value: brackets are counted, not matched. */
static mr_status scan_value(json_items *items)
{
    items->n = 0;
    items->line = items->at_line;
    items->column = items->at_column;
    for (unsigned depth = 0;;) {
        const int c = look(items);
        if (c < 0) return wrong(items, c, "the end of a value");
        const bool closes = c == '}' || c == ']';
        if (!depth && (closes || c == ',' || c == ':' || isspace(c))) return MR_OK;
        if (c == '"') MR_TRY(scan_string(items));
        else MR_TRY(keep(items, c));
        if (c == '{' || c == '[') depth++;
        if (closes) depth--;
        if (!depth && (closes || c == '"')) return MR_OK;
    }
}

static mr_status parse(json_items *items, json_t **out)
{
    json_error_t error;
    *out = json_loadb(items->text, items->n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (*out) return MR_OK;
    const uint64_t line = error.line > 1 ? (uint64_t)error.line - 1 : 0;
    const uint64_t column = error.column > 0 ? (uint64_t)error.column : 1;
    return fail_at(items, items->line + line, line ? column : items->column + column - 1,
                   mr_printf(items->ctx, "this is no JSON (%s), expected a value", error.text));
}

static mr_status read_value(json_items *items, json_t **out)
{
    const int c = look_past_blanks(items);
    if (c < 0 || strchr(",:]}", c)) return wrong(items, c, "a value");
    MR_TRY(scan_value(items));
    return parse(items, out);
}

/* ---- the outermost object ---------------------------------------------------------------- */

static mr_status begin(json_items *items)
{
    const int c = look_past_blanks(items);
    items->begun = true;
    items->about = json_object();
    if (c != '{' && c != '[') return wrong(items, c, "{ or [");
    items->bare = items->inside = items->found = c == '[';
    take(items, c);
    return MR_OK;
}

/* To the next element or member: true when the list or object at hand ends with `close`. */
static mr_status step(json_items *items, int close, bool *end)
{
    int c = look_past_blanks(items);
    *end = c == close;
    if (*end) {
        take(items, c);
        items->after = true;
        return MR_OK;
    }
    if (!items->after) return MR_OK;
    if (c != ',') return wrong(items, c, close == ']' ? "a comma or ]" : "a comma or }");
    take(items, c);
    return MR_OK;
}

static mr_status read_key(json_items *items, char **key)
{
    json_t *text;
    int c = look_past_blanks(items);
    if (c != '"') return wrong(items, c, "a name in quotes");
    MR_TRY(scan_value(items));
    MR_TRY(parse(items, &text));
    *key = mr_strdup(items->ctx, json_string_value(text));
    json_decref(text);
    c = look_past_blanks(items);
    if (c != ':') return wrong(items, c, "a colon");
    take(items, c);
    return MR_OK;
}

/* One member of the outermost object; the list is only entered. */
static mr_status read_member(json_items *items)
{
    char *key = NULL;
    json_t *value;
    MR_TRY(read_key(items, &key));
    if (!strcmp(key, items->key)) {
        if (items->found)
            return json_items_fail(items, "'%s' is there twice, expected it once", items->key);
        const int c = look_past_blanks(items);
        if (c != '[') return wrong(items, c, "a list");
        take(items, c);
        items->inside = items->found = true;
        items->after = false;
        return MR_OK;
    }
    MR_TRY(read_value(items, &value));
    items->after = true;
    json_object_set_new_nocheck(items->about, key, value);
    return MR_OK;
}

static mr_status finish(json_items *items)
{
    items->ended = true;
    const int c = look_past_blanks(items);
    if (c >= 0) return wrong(items, c, "the end of the file");
    MR_TRY(mr_source_status(items->source));
    if (items->found) return MR_OK;
    items->line = items->column = 1;
    return json_items_fail(items, "the document has no list '%s', expected one", items->key);
}

mr_status json_items_next(json_items *items)
{
    bool end = false;
    json_decref(items->item);
    items->item = NULL;
    if (items->ended) return MR_OK;
    if (!items->begun) {
        items->at_line = items->at_column = 1;
        MR_TRY(begin(items));
    }
    while (!items->ended) {
        MR_TRY(step(items, items->inside ? ']' : '}', &end));
        if (!items->inside) {
            if (end) return finish(items);
            MR_TRY(read_member(items));
        } else if (!end) {
            MR_TRY(read_value(items, &items->item));
            items->after = true;
            items->number++;
            return MR_OK;
        } else if (items->bare) return finish(items);
        else items->inside = false;
    }
    return MR_OK;
}

void json_items_close(json_items *items)
{
    json_decref(items->item);
    json_decref(items->about);
    items->item = items->about = NULL;
}

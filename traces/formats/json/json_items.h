/* json_items.h -- the elements of one list of a JSON document, one at a time.
 *
 *     {"schema": "1.1.0", "nodes": [ {...}, {...} ], "more": ...}     or just  [ {...}, {...} ]
 *
 * Documents of profilers have gigabytes, so only one element is in memory.  What stands beside
 * the list is kept; it is complete when the list has ended.
 */
#ifndef JSON_ITEMS_H
#define JSON_ITEMS_H

#include "source.h"

#include <jansson.h>

#define JSON_ITEM_LONGEST ((size_t)64 << 20) /* bytes of an element */

typedef struct json_items {
    mr_ctx *ctx;
    mr_source *source;
    const char *key;       /* of the list, in the outermost object */
    json_t *about;         /* the other members of the outermost object */
    json_t *item;          /* the element at hand; NULL after the last */
    uint64_t line, column; /* where it begins, counted from 1 */
    uint64_t number;       /* of the elements so far */
    /* The scanner. */
    uint64_t at_line, at_column;
    const unsigned char *window;
    size_t used, have;
    char *text;
    size_t n, cap;
    bool bare;   /* the document is the list */
    bool inside; /* of the list */
    bool found;  /* the list has been met */
    bool after;  /* something stands before, so that a comma must follow */
    bool begun, ended;
} json_items;

/* Begin with {.ctx, .source, .key}.  A document that is broken, ends early, has no such list or
 * has it twice is MR_EINPUT at file:line:column. */
mr_status json_items_next(json_items *items);

/* MR_EINPUT at the element at hand. */
mr_status json_items_fail(const json_items *items, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void json_items_close(json_items *items); /* what jansson holds */

#endif

/* simrd_fields -- the fields of a line. */
#include "simrd_log.h"

#include <inttypes.h>

mr_status simrd_fail(const simrd_log *r, const char *sentence)
{
    return mr_lines_fail(&r->lines, r->lines.number, 1, "%s", sentence);
}

mr_status simrd_text(const simrd_log *r, const char *key, const char **out)
{
    *out = json_string_value(json_object_get(r->line, key));
    if (*out) return MR_OK;
    return simrd_fail(
        r, mr_printf(r->ctx, "%s is missing or no text, expected \"%s\":\"...\"", key, key));
}

/* Numbers are written as texts; plain ones are taken too. */
mr_status simrd_number(const simrd_log *r, const char *key, uint64_t *out)
{
    const json_t *value = json_object_get(r->line, key);
    const char *text = json_string_value(value);
    *out = 0;
    if (json_is_integer(value) && json_integer_value(value) >= 0) {
        *out = (uint64_t)json_integer_value(value);
        return MR_OK;
    }
    bool good = text && *text;
    for (; good && *text; text++) {
        const unsigned digit = (unsigned)(unsigned char)*text - '0';
        good = digit <= 9 && *out <= (UINT64_MAX - digit) / 10;
        if (good) *out = *out * 10 + digit;
    }
    if (good) return MR_OK;
    return simrd_fail(r, mr_printf(r->ctx,
                                   "%s is missing or no number, expected a whole number from 0"
                                   " to %" PRIu64,
                                   key, UINT64_MAX));
}

mr_status simrd_list(const simrd_log *r, const char *key, const json_t **out)
{
    *out = json_object_get(r->line, key);
    if (json_is_array(*out)) return MR_OK;
    return simrd_fail(
        r, mr_printf(r->ctx, "%s is missing or no list, expected \"%s\":[...]", key, key));
}

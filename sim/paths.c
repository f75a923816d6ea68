/* paths -- part by part, with the last star to go back to. */
#include "paths.h"

#include <string.h>

/* Does the pattern [p, p_end) match all of [s, s_end)? */
static bool matches(const char *p, const char *p_end, const char *s, const char *s_end)
{
    const char *star = NULL, *mark = NULL; /* the last star, and where it may stop next */
    while (s < s_end) {
        if (p < p_end && *p == '*') {
            star = p++;
            mark = s;
        } else if (p < p_end && *p == *s) {
            p++;
            s++;
        } else if (star && *mark != '.') {
            p = star + 1;
            s = ++mark;
        } else {
            return false;
        }
    }
    while (p < p_end && *p == '*') p++;
    return p == p_end;
}

static size_t match_one(const char *p, const char *p_end, const char *path)
{
    for (const char *end = path; *end;) {
        end += strcspn(end, ".");
        if (matches(p, p_end, path, end)) return (size_t)(end - path);
        if (*end) end++;
    }
    return 0;
}

size_t mr_path_match(const char *pattern, const char *path)
{
    size_t best = 0;
    if (*pattern == '[') pattern++;
    while (*pattern && *pattern != ']') {
        const size_t n = strcspn(pattern, ",]");
        const size_t length = match_one(pattern, pattern + n, path);
        if (length && (!best || length < best)) best = length;
        pattern += n + (pattern[n] == ',');
    }
    return best;
}

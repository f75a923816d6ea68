/* checked -- what is known of the error of modelled times: bench/results/time.csv, built in. */
#include <stdlib.h>
#include <string.h>

#include "compare.h"

extern const unsigned char mr_time_csv[]; /* made by embed.cmake */
extern const unsigned long mr_time_csv_size;

/* Columns of the file; bench/time.sh writes no quotes before the last of them. */
enum { KIND, WHAT, DEVICE, PART, N, USED, MEASURED, PREDICTED, ERROR, COLUMNS };

static bool is_check(const char *const *fields, const char *device)
{
    return strcmp(fields[KIND], "steps") == 0 && strcmp(fields[USED], "check") == 0
           && strcmp(fields[DEVICE], device) == 0;
}

static void take(const char *const *fields, mr_checked *out)
{
    const double error = strtod(fields[ERROR], NULL);
    if (!out->n || error < out->low) out->low = error;
    if (!out->n || error > out->high) out->high = error;
    out->n++;
}

mr_checked mr_times_checked(mr_ctx *ctx, const char *device)
{
    mr_checked out = {0};
    char *at = mr_strndup(ctx, (const char *)mr_time_csv, mr_time_csv_size);
    while (*at) {
        const char *fields[COLUMNS];
        char *end = at + strcspn(at, "\n");
        char *next = *end ? end + 1 : end;
        uint32_t n = 0;
        *end = '\0';
        while (n < COLUMNS && at < end) {
            fields[n++] = at;
            at += strcspn(at, ",");
            *at++ = '\0';
        }
        if (n == COLUMNS && is_check(fields, device)) take(fields, &out);
        at = next;
    }
    return out;
}

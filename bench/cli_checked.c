/* checked -- what is known of the error of modelled times: bench/results/time.csv, built in. */
#include <math.h>
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

typedef MR_VEC(double) errors;

static int by_size(const void *a, const void *b)
{
    const double x = fabs(*(const double *)a), y = fabs(*(const double *)b);
    return (x > y) - (x < y);
}

static mr_checked sum_up(errors *e)
{
    if (!e->n) return (mr_checked){0};
    qsort(e->at, e->n, sizeof *e->at, by_size);
    const double low = e->at[(e->n - 1) / 2], high = e->at[e->n / 2];
    return (mr_checked){e->n, (fabs(low) + fabs(high)) / 2, e->at[e->n - 1]};
}

mr_checked mr_times_checked(mr_ctx *ctx, const char *device)
{
    errors found = {0};
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
        if (n == COLUMNS && is_check(fields, device))
            MR_PUSH(ctx, &found, strtod(fields[ERROR], NULL));
        at = next;
    }
    return sum_up(&found);
}

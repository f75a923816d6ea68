/* devices -- GPUs as numbers: the rows of devices.csv, which is built into the program. */
#include <csv.h>
#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "commands.h"

extern const unsigned char mr_devices_csv[]; /* made by embed.cmake */
extern const unsigned long mr_devices_csv_size;

/* Columns of the file: what they are called and where in mr_device they go. */
typedef struct column {
    const char *name;
    size_t offset;
    bool number;
} column;

static const column columns[] = {{"name", offsetof(mr_device, name), false},
                                 {"description", offsetof(mr_device, description), false},
                                 {"source", offsetof(mr_device, source), false},
#define X(field) {#field, offsetof(mr_device, field), true},
                                 MR_DEVICE_FIELDS(X)
#undef X
};

typedef struct table {
    mr_ctx *ctx;
    MR_VEC(const column *) header; /* column of each field in a row */
    MR_VEC(mr_device) rows;
    mr_device row;
    uint32_t line, field;
    mr_status status;
} table;

static mr_status fail(table *t, const char *text, const char *expected)
{
    const char *where =
        mr_printf(t->ctx, "devices.csv:%" PRIu32 ", field %" PRIu32, t->line, t->field + 1);
    return mr_fail_at(t->ctx, MR_EINPUT, where, "found '%s', expected %s", text, expected);
}

static mr_status take_heading(table *t, const char *text)
{
    for (size_t i = 0; i < MR_COUNT(columns); i++) {
        if (strcmp(columns[i].name, text) != 0) continue;
        MR_PUSH(t->ctx, &t->header, &columns[i]);
        return MR_OK;
    }
    return fail(t, text, "the name of a column");
}

/* An empty field is unknown, which is 0. */
static mr_status take_number(table *t, const char *text, uint64_t *out)
{
    for (const char *c = text; *c; c++) {
        if (*c < '0' || *c > '9' || *out > (UINT64_MAX - 9) / 10)
            return fail(t, text, "a whole number");
        *out = *out * 10 + (uint64_t)(*c - '0');
    }
    return MR_OK;
}

static mr_status take_field(table *t, const char *text)
{
    if (t->line == 1) return take_heading(t, text);
    if (t->field >= t->header.n) return fail(t, text, "no more fields");
    const column *c = t->header.at[t->field];
    void *place = (char *)&t->row + c->offset;
    if (c->number) return take_number(t, text, place);
    *(const char **)place = text;
    return MR_OK;
}

static void on_field(void *data, size_t n, void *self)
{
    table *t = self;
    if (t->status == MR_OK) t->status = take_field(t, data ? mr_strndup(t->ctx, data, n) : "");
    t->field++;
}

static void on_row(int end, void *self)
{
    table *t = self;
    (void)end;
    if (t->line > 1) MR_PUSH(t->ctx, &t->rows, t->row);
    t->row = (mr_device){.name = "", .description = "", .source = ""};
    t->line++;
    t->field = 0;
}

mr_status mr_devices(mr_ctx *ctx, const mr_device **out, uint32_t *n)
{
    table t = {.ctx = ctx, .line = 1};
    struct csv_parser parser;
    if (csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI) != 0)
        return mr_fail(ctx, MR_EIO, "the CSV parser could not be started");
    const size_t taken =
        csv_parse(&parser, mr_devices_csv, mr_devices_csv_size, on_field, on_row, &t);
    csv_fini(&parser, on_field, on_row, &t);
    csv_free(&parser);
    if (t.status == MR_OK && taken != mr_devices_csv_size) t.status = fail(&t, "", "CSV");
    *out = t.rows.at;
    *n = t.rows.n;
    return t.status;
}

/* ---- by name ----------------------------------------------------------------------------- */

/* Letters and digits alone, small: how PyTorch, nvidia-smi and people write a name differs in
 * the rest. */
static const char *plain(mr_ctx *ctx, const char *text)
{
    char *out = mr_strdup(ctx, text), *to = out;
    for (; *text; text++)
        if (isalnum((unsigned char)*text)) *to++ = (char)tolower((unsigned char)*text);
    *to = '\0';
    return out;
}

/* Is it a part of that other device, as MIG makes them? */
static bool is_part_of(const mr_device *part, const mr_device *whole)
{
    const size_t n = strlen(whole->name);
    return part != whole && strncmp(part->name, whole->name, n) == 0 && part->name[n] == '-';
}

typedef MR_VEC(const mr_device *) found_devices;

/* Those whose name or description has the word; parts of one that has it are left out. */
static found_devices find_similar(mr_ctx *ctx, const mr_device *devices, uint32_t n,
                                  const char *name)
{
    enum { TELLING = 3 }; /* letters that may say which device is meant */
    found_devices all = {0}, out = {0};
    const char *word = plain(ctx, name);
    for (uint32_t i = 0; i < n && strlen(word) >= TELLING; i++)
        if (strstr(plain(ctx, devices[i].name), word)
            || strstr(plain(ctx, devices[i].description), word))
            MR_PUSH(ctx, &all, &devices[i]);
    for (uint32_t i = 0; i < all.n; i++) {
        bool part = false;
        for (uint32_t k = 0; k < all.n; k++) part |= is_part_of(all.at[i], all.at[k]);
        if (!part) MR_PUSH(ctx, &out, all.at[i]);
    }
    return out;
}

static mr_status unknown(mr_ctx *ctx, const char *name, const found_devices *similar,
                         const char *near)
{
    enum { SHOWN = 4 };
    const char *all = "";
    if (!similar->n && near) all = mr_printf(ctx, "'%s'", near);
    for (uint32_t i = 0; i < similar->n && i < SHOWN; i++)
        all = mr_printf(ctx, "%s%s'%s'", all, i ? " or " : "", similar->at[i]->name);
    if (!*all || similar->n > SHOWN)
        return mr_fail(ctx, MR_EUSAGE, "unknown device '%s' (see memreuse list devices)", name);
    return mr_fail(ctx, MR_EUSAGE, "unknown device '%s' (did you mean %s?)", name, all);
}

mr_status mr_device_find(mr_ctx *ctx, const char *name, mr_device *out)
{
    const mr_device *devices;
    uint32_t n;
    mr_words names = {0};
    MR_TRY(mr_devices(ctx, &devices, &n));
    for (uint32_t i = 0; i < n; i++) {
        MR_PUSH(ctx, &names, devices[i].name);
        if (strcasecmp(devices[i].name, name) != 0) continue;
        *out = devices[i];
        return MR_OK;
    }
    const found_devices similar = find_similar(ctx, devices, n, name);
    if (similar.n != 1)
        return unknown(ctx, name, &similar, mr_nearest(name, names.at, names.n));
    *out = *similar.at[0];
    return MR_OK;
}

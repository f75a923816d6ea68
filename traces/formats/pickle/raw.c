/* raw -- tells dicts apart, makes records of them. */
#include "raw.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define STACK_FRAMES_MAX 65536 /* frames of one stack; a longer list is something else */
#define LISTS_MAX 65536        /* lists of events in a list: one per device */

static const char *const words[RAW_all] = {
#define X(word) [RAW_##word] = #word,
    RAW_KEYS(X)
    RAW_WORDS(X)
#undef X
    [RAW_division] = "1", "2", "4", "8", "16", "32", "64", "128", "256", "512", "1024", "2048",
    "4096", "8192", "16384", "32768",
};

_Static_assert(RAW_keys <= 64, "a set of keys is 64 bits");

const char *raw_word(uint32_t word)
{
    return words[word];
}

const char *raw_text(const raw_snapshot *raw, uint32_t text)
{
    return raw->pickle.texts.all.at[text].at;
}

mr_value raw_find(const mr_field *fields, uint32_t n, uint32_t key)
{
    for (uint32_t i = 0; i < n; i++)
        if (fields[i].key == key) return fields[i].value;
    return MR_V_UNSET;
}

mr_status raw_fail(raw_snapshot *raw, uint64_t offset, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *where = mr_printf(raw->ctx, "%s: byte %" PRIu64, raw->file, offset);
    return mr_fail_at(raw->ctx, MR_EINPUT, where, "%s", text);
}

mr_status raw_fault_fail(raw_snapshot *raw, uint32_t fault, const char *what)
{
    const raw_fault *f = &raw->faults.at[fault];
    if (f->value == MR_V_UNSET)
        return raw_fail(raw, f->offset, "%s has no '%s'", what, words[f->key]);
    const char *found = mr_v_show(&raw->pickle, f->value);
    const char *expected = f->key == RAW_action ? "an action of the caching allocator"
                           : f->key == RAW_state ? "a state of a block"
                           : f->key == RAW_stage ? "START or END"
                           : f->key == RAW_segment_type ? "small or large"
                           : f->key == RAW_name || f->key == RAW_filename ? "a text"
                           : f->key == RAW_frames ? "a list of frames"
                           : f->key == RAW_segment_pool_id ? "a pair of numbers"
                           : f->key == RAW_is_expandable ? "True or False"
                           : f->key == RAW_blocks ? "a list of blocks"
                           : "a whole number that is not negative";
    return raw_fail(raw, f->offset, "%s has '%s' = %s, expected %s", what, words[f->key], found,
                    expected);
}

/* ---- fields ----------------------------------------------------------------------------------- */

/* A dict while it becomes a record: the first fault wins. */
typedef struct reading {
    raw_snapshot *raw;
    uint64_t offset;
    uint32_t fault;
} reading;

static void wrong(reading *r, uint64_t key, mr_value value)
{
    if (r->fault != MR_NONE) return;
    r->fault = r->raw->faults.n;
    MR_PUSH(r->raw->ctx, &r->raw->faults, (raw_fault){r->offset, (uint32_t)key, value});
}

static uint64_t number(reading *r, mr_field field)
{
    /* Small and not negative, as nearly all are. */
    if (mr_v_kind(field.value) == MR_V_INT && !(field.value >> 63)) return field.value >> 8;
    bool negative;
    uint64_t size;
    if (mr_v_number(&r->raw->pickle, field.value, &negative, &size) && !negative) return size;
    wrong(r, field.key, field.value);
    return 0;
}

static uint32_t text(reading *r, mr_field field)
{
    if (mr_v_kind(field.value) == MR_V_TEXT) return (uint32_t)mr_v_index(field.value);
    wrong(r, field.key, field.value);
    return 0;
}

static bool truth(reading *r, mr_field field)
{
    const unsigned kind = mr_v_kind(field.value);
    if (kind != MR_V_TRUE && kind != MR_V_FALSE) wrong(r, field.key, field.value);
    return kind == MR_V_TRUE;
}

/* One of the words from `first` to `last`. */
static uint32_t word(reading *r, mr_field field, uint32_t first, uint32_t last)
{
    const uint64_t index = mr_v_index(field.value);
    if (mr_v_kind(field.value) == MR_V_TEXT && index >= first && index <= last)
        return (uint32_t)index;
    wrong(r, field.key, field.value);
    return first;
}

static uint32_t stack(reading *r, mr_field field)
{
    if (mr_v_kind(field.value) == RAW_V_STACK) return (uint32_t)mr_v_index(field.value);
    const unsigned kind = mr_v_kind(field.value);
    if (kind != MR_V_EMPTY && kind != MR_V_NULL) wrong(r, field.key, field.value);
    return MR_NONE;
}

static uint32_t pool(reading *r, mr_field field)
{
    const unsigned kind = mr_v_kind(field.value);
    if (kind == MR_V_PAIR)
        return mr_numbers_index(r->raw->ctx, &r->raw->pools, mr_v_index(field.value));
    if (kind != MR_V_EMPTY && kind != MR_V_NULL) wrong(r, field.key, field.value);
    return 0;
}

static void require(reading *r, uint64_t seen, uint32_t key)
{
    if (!(seen >> key & 1)) wrong(r, key, MR_V_UNSET);
}

/* ---- records ------------------------------------------------------------------------------------ */

static void note_metadata(raw_snapshot *raw, mr_value value)
{
    if (mr_v_kind(value) != MR_V_TEXT) return;
    const uint32_t text_index = (uint32_t)mr_v_index(value);
    const bool empty = !raw->pickle.texts.all.at[text_index].bytes;
    if (raw->notes.n ? raw->notes.at[raw->notes.n - 1].text == text_index : empty) return;
    MR_PUSH(raw->ctx, &raw->notes, (raw_note){raw->events.n, text_index});
}

static mr_value event(reading *r, const mr_field *fields, uint32_t n, uint64_t seen)
{
    raw_snapshot *raw = r->raw;
    raw_event e = {.time = RAW_NO_TIME, .stack = MR_NONE};
    uint64_t address = 0, stream = 0;
    for (uint32_t i = 0; i < n; i++) {
        const mr_field field = fields[i];
        switch (field.key) {
        case RAW_action: e.action = word(r, field, RAW_alloc, RAW_oom); break;
        case RAW_addr:
        case RAW_device_free: address = number(r, field); break;
        case RAW_size: e.size = number(r, field); break;
        case RAW_stream: stream = number(r, field); break;
        case RAW_time_us: e.time = number(r, field); break;
        case RAW_frames: e.stack = stack(r, field); break;
        case RAW_user_metadata: note_metadata(raw, field.value); break;
        default: break;
        }
    }
    require(r, seen, RAW_size);
    require(r, seen, e.action == RAW_oom ? RAW_device_free : RAW_addr);
    raw->keys_seen |= seen;
    e.slot = mr_numbers_index(raw->ctx, &raw->addresses, address);
    e.stream = mr_numbers_index(raw->ctx, &raw->streams, stream);
    if (r->fault != MR_NONE) e.action = RAW_all, e.stack = r->fault;
    MR_PUSH(raw->ctx, &raw->events, e);
    return mr_v(RAW_V_EVENT, raw->events.n - 1);
}

static mr_value frame(reading *r, const mr_field *fields, uint32_t n)
{
    raw_snapshot *raw = r->raw;
    uint32_t file = MR_NONE, function = MR_NONE;
    uint64_t line = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (fields[i].key == RAW_filename) file = text(r, fields[i]);
        if (fields[i].key == RAW_name) function = text(r, fields[i]);
        if (fields[i].key == RAW_line) line = number(r, fields[i]);
    }
    if (r->fault != MR_NONE || line > UINT32_MAX) return mr_v(MR_V_OTHER, MR_OTHER_DICT);
    const mr_frame f = {
        file == MR_NONE ? "" : raw_text(raw, file),
        function == MR_NONE ? "" : raw_text(raw, function),
        (uint32_t)line,
    };
    const uint32_t hash = mr_hash(mr_hash((uint64_t)file << 32 | function) ^ line << 32);
    uint32_t probe = mr_table_start(&raw->frame_table, hash), i;
    while ((i = mr_table_next(&raw->frame_table, hash, &probe)) != MR_NONE) {
        const mr_frame *known = &raw->trace->frames.at[i];
        if (known->file == f.file && known->function == f.function && known->line == f.line)
            return mr_v(RAW_V_FRAME, i);
    }
    mr_table_add(raw->ctx, &raw->frame_table, hash, raw->trace->frames.n);
    MR_PUSH(raw->ctx, &raw->trace->frames, f);
    return mr_v(RAW_V_FRAME, raw->trace->frames.n - 1);
}

/* 2.0 has `history`, newest first, in place of address and frames. */
static void block_history(reading *r, raw_block *b, mr_field field)
{
    if (mr_v_kind(field.value) == MR_V_EMPTY) return;
    const bool is_list = mr_v_kind(field.value) == RAW_V_LIST;
    const raw_list list = is_list ? r->raw->lists.at[mr_v_index(field.value)] : (raw_list){0};
    if (list.kind != RAW_V_HISTORY || list.odd < list.items) {
        wrong(r, field.key, field.value);
        return;
    }
    const raw_history newest = r->raw->histories.at[r->raw->runs.at[list.first].first];
    b->requested = newest.bytes;
    b->stack = newest.stack;
}

static mr_value block(reading *r, const mr_field *fields, uint32_t n, uint64_t seen)
{
    raw_snapshot *raw = r->raw;
    raw_block b = {.address = UINT64_MAX, .stack = MR_NONE};
    for (uint32_t i = 0; i < n; i++) {
        const mr_field field = fields[i];
        switch (field.key) {
        case RAW_address: b.address = number(r, field); break;
        case RAW_size: b.bytes = number(r, field); break;
        case RAW_requested_size: b.requested = number(r, field); break;
        case RAW_state: b.state = word(r, field, RAW_active_allocated, RAW_inactive); break;
        case RAW_frames: b.stack = stack(r, field); break;
        case RAW_history: block_history(r, &b, field); break;
        default: break;
        }
    }
    require(r, seen, RAW_size);
    raw->keys_seen |= seen;
    b.fault = r->fault;
    MR_PUSH(raw->ctx, &raw->blocks, b);
    return mr_v(RAW_V_BLOCK, raw->blocks.n - 1);
}

static mr_value segment(reading *r, const mr_field *fields, uint32_t n, uint64_t seen)
{
    raw_snapshot *raw = r->raw;
    raw_segment s = {.offset = r->offset, .large = true};
    uint64_t stream = 0, device = 0;
    for (uint32_t i = 0; i < n; i++) {
        const mr_field field = fields[i];
        switch (field.key) {
        case RAW_address: s.address = number(r, field); break;
        case RAW_total_size: s.bytes = number(r, field); break;
        case RAW_device: device = number(r, field); break;
        case RAW_stream: stream = number(r, field); break;
        case RAW_segment_type: s.large = word(r, field, RAW_small, RAW_large) == RAW_large; break;
        case RAW_segment_pool_id: s.pool = pool(r, field); break;
        case RAW_is_expandable: s.expandable = truth(r, field); break;
        case RAW_blocks: s.blocks = field.value; break;
        default: break;
        }
    }
    require(r, seen, RAW_address);
    require(r, seen, RAW_total_size);
    if (device >= LISTS_MAX) wrong(r, RAW_device, raw_find(fields, n, RAW_device));
    s.device = (uint32_t)device;
    s.stream = mr_numbers_index(raw->ctx, &raw->streams, stream);
    s.fault = r->fault;
    MR_PUSH(raw->ctx, &raw->segments, s);
    return mr_v(RAW_V_SEGMENT, raw->segments.n - 1);
}

static mr_value annotation(reading *r, const mr_field *fields, uint32_t n, uint64_t seen)
{
    raw_snapshot *raw = r->raw;
    raw_annotation a = {.time = RAW_NO_TIME, .offset = r->offset};
    for (uint32_t i = 0; i < n; i++) {
        const mr_field field = fields[i];
        if (field.key == RAW_name) a.name = text(r, field);
        if (field.key == RAW_time_us) a.time = number(r, field);
        if (field.key == RAW_stage) a.end = word(r, field, RAW_START, RAW_END) == RAW_END;
    }
    require(r, seen, RAW_name);
    a.fault = r->fault;
    MR_PUSH(raw->ctx, &raw->annotations, a);
    return mr_v(RAW_V_ANNOTATION, raw->annotations.n - 1);
}

static mr_value history(reading *r, const mr_field *fields, uint32_t n)
{
    raw_snapshot *raw = r->raw;
    raw_history h = {.stack = MR_NONE};
    for (uint32_t i = 0; i < n; i++) {
        if (fields[i].key == RAW_real_size) h.bytes = number(r, fields[i]);
        if (fields[i].key == RAW_frames) h.stack = stack(r, fields[i]);
    }
    if (r->fault != MR_NONE) return mr_v(MR_V_OTHER, MR_OTHER_DICT);
    MR_PUSH(raw->ctx, &raw->histories, h);
    return mr_v(RAW_V_HISTORY, raw->histories.n - 1);
}

static mr_value settings(raw_snapshot *raw, const mr_field *fields, uint32_t n)
{
    const uint32_t first = raw->kept.n;
    for (uint32_t i = 0; i < n; i++) MR_PUSH(raw->ctx, &raw->kept, fields[i]);
    return mr_v(RAW_V_SETTINGS, (uint64_t)first << 8 | n); /* n <= 64 */
}

/* Below keys of the outermost dict that nobody reads, nothing is kept. */
static bool ignored(const raw_snapshot *raw)
{
    const uint32_t key = mr_pickle_root_key(&raw->pickle);
    return key != MR_NONE && key > RAW_external_annotations;
}

#define BIT(key) ((uint64_t)1 << RAW_##key)

static mr_value dict(void *self, const mr_field *fields, uint32_t n, uint64_t seen,
                     uint64_t offset)
{
    raw_snapshot *raw = self;
    reading r = {raw, offset, MR_NONE};
    const uint64_t settings_keys = ~(uint64_t)0 << RAW_PYTORCH_CUDA_ALLOC_CONF;
    if (seen & BIT(filename)) return frame(&r, fields, n);
    if (ignored(raw)) return mr_v(MR_V_OTHER, MR_OTHER_IGNORED);
    if (seen & BIT(action)) return event(&r, fields, n, seen);
    if (seen & BIT(blocks)) return segment(&r, fields, n, seen);
    if (seen & BIT(state)) return block(&r, fields, n, seen);
    if (seen & BIT(stage)) return annotation(&r, fields, n, seen);
    if (seen & BIT(real_size)) return history(&r, fields, n);
    if (seen & settings_keys) return settings(raw, fields, n);
    return mr_v(MR_V_OTHER, MR_OTHER_DICT);
}

/* ---- lists -------------------------------------------------------------------------------------- */

static bool of_records(unsigned kind)
{
    return kind >= RAW_V_EVENT && kind <= RAW_V_HISTORY;
}

/* Adds a record to the runs that are kept in the list's words as first << 32 | n. */
static void add_record(raw_snapshot *raw, mr_list *list, uint32_t index)
{
    if (list->n) {
        uint64_t *last = &raw->pickle.content.at[list->first + list->n - 1];
        if ((*last >> 32) + (*last & UINT32_MAX) == index) {
            ++*last;
            return;
        }
    }
    mr_pickle_keep(&raw->pickle, list, (uint64_t)index << 32 | 1);
}

static bool add(raw_snapshot *raw, mr_list *list, mr_value item)
{
    unsigned kind = mr_v_kind(item);
    if (kind == RAW_V_LIST || kind == MR_V_EMPTY) kind = RAW_V_LIST;
    if (!list->items) list->kind = (uint16_t)kind;
    if (kind != list->kind) return false;
    if (of_records(kind)) return add_record(raw, list, (uint32_t)mr_v_index(item)), true;
    if (kind == RAW_V_FRAME && list->n == STACK_FRAMES_MAX) return false;
    if (kind == RAW_V_LIST && list->n == LISTS_MAX) return false;
    if (kind == MR_V_INT && list->n == 2) return false;
    if (kind != RAW_V_FRAME && kind != RAW_V_LIST && kind != MR_V_INT) return false;
    mr_pickle_keep(&raw->pickle, list, item);
    return true;
}

static void items(void *self, mr_list *list, const mr_value *at, uint32_t n)
{
    raw_snapshot *raw = self;
    for (uint32_t i = 0; i < n; i++, list->items++) {
        if (list->odd < list->items) {
            list->items += n - i;
            return;
        }
        if (add(raw, list, at[i])) list->odd++;
    }
}

static uint32_t hash_words(const uint64_t *at, uint32_t n)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t lane[4] = {n, 1, 2, 3}; /* four at once: a product takes several cycles */
    for (; n >= 4; n -= 4, at += 4)
        for (int i = 0; i < 4; i++) lane[i] = ((lane[i] ^ at[i]) * odd) ^ lane[i] >> 31;
    for (uint32_t i = 0; i < n; i++) lane[i] = (lane[i] ^ at[i]) * odd;
    return mr_hash(lane[0] ^ lane[1] >> 7 ^ lane[2] >> 15 ^ lane[3] >> 23);
}

static bool same_stack(mr_stack known, const uint64_t *at, uint32_t n)
{
    if (known.n != n) return false;
    for (uint32_t i = 0; i < n; i++)
        if (known.at[i] != at[i] >> 8) return false;
    return true;
}

static mr_value stack_of(raw_snapshot *raw, const mr_list *list)
{
    const uint64_t *at = raw->pickle.content.at + list->first;
    const uint32_t hash = hash_words(at, list->n);
    uint32_t probe = mr_table_start(&raw->stack_table, hash), i;
    while ((i = mr_table_next(&raw->stack_table, hash, &probe)) != MR_NONE)
        if (same_stack(raw->trace->stacks.at[i], at, list->n)) return mr_v(RAW_V_STACK, i);
    const mr_stack s = {MR_NEW_N(raw->ctx, uint32_t, list->n), list->n};
    for (uint32_t k = 0; k < s.n; k++) s.at[k] = (uint32_t)(at[k] >> 8);
    mr_table_add(raw->ctx, &raw->stack_table, hash, raw->trace->stacks.n);
    MR_PUSH(raw->ctx, &raw->trace->stacks, s);
    return mr_v(RAW_V_STACK, raw->trace->stacks.n - 1);
}

static mr_value pair_of(const raw_snapshot *raw, const mr_list *list)
{
    const mr_value *at = raw->pickle.content.at + list->first;
    const uint64_t limit = UINT64_C(1) << 28;
    if (list->n != 2 || mr_v_index(at[0]) >= limit || mr_v_index(at[1]) >= limit)
        return mr_v(MR_V_OTHER, list->tuple ? MR_OTHER_TUPLE : MR_OTHER_LIST);
    return mr_v(MR_V_PAIR, mr_v_index(at[0]) << 28 | mr_v_index(at[1]));
}

static mr_value records_of(raw_snapshot *raw, const mr_list *list)
{
    const bool nested = list->kind == RAW_V_LIST;
    raw_list l = {
        .odd = list->odd,
        .items = list->items,
        .offset = list->offset,
        .first = nested ? raw->inner.n : raw->runs.n,
        .n = list->n,
        .kind = list->kind,
    };
    for (uint32_t i = 0; i < list->n; i++) {
        const uint64_t kept = raw->pickle.content.at[list->first + i];
        if (nested) MR_PUSH(raw->ctx, &raw->inner, kept);
        else
            MR_PUSH(raw->ctx, &raw->runs,
                    (raw_run){(uint32_t)(kept >> 32), (uint32_t)(kept & UINT32_MAX)});
    }
    MR_PUSH(raw->ctx, &raw->lists, l);
    return mr_v(RAW_V_LIST, raw->lists.n - 1);
}

static mr_value list(void *self, const mr_list *list)
{
    raw_snapshot *raw = self;
    const mr_value other = mr_v(MR_V_OTHER, list->tuple ? MR_OTHER_TUPLE : MR_OTHER_LIST);
    if (!list->items) return mr_v(MR_V_EMPTY, 0);
    if (list->kind == RAW_V_LIST || of_records(list->kind))
        return ignored(raw) ? mr_v(MR_V_OTHER, MR_OTHER_IGNORED) : records_of(raw, list);
    if (list->odd < list->items) return other;
    if (list->kind == RAW_V_FRAME) return stack_of(raw, list);
    if (list->kind == MR_V_INT) return pair_of(raw, list);
    return other;
}

mr_status raw_list_of(raw_snapshot *raw, mr_value value, unsigned kind, const char *what,
                      raw_list *out)
{
    *out = (raw_list){.kind = (uint16_t)kind};
    if (mr_v_kind(value) == MR_V_EMPTY) return MR_OK;
    if (mr_v_kind(value) == RAW_V_LIST) *out = raw->lists.at[mr_v_index(value)];
    if (mr_v_kind(value) != RAW_V_LIST || out->kind != kind)
        return raw_fail(raw, out->offset, "%s is %s, expected a list", what,
                        mr_v_show(&raw->pickle, value));
    if (out->odd < out->items)
        return raw_fail(raw, out->offset, "item %" PRIu64 " of %s is of another kind than those"
                        " before it", out->odd, what);
    return MR_OK;
}

mr_status raw_read(mr_ctx *ctx, mr_source *source, raw_snapshot *raw, const mr_field **root,
                   uint32_t *n)
{
    static const mr_builder builder = {
        .words = words,
        .keys = RAW_keys,
        .n_words = RAW_all,
        .dict = dict,
        .items = items,
        .list = list,
    };
    raw->ctx = ctx;
    raw->file = mr_source_name(source);
    mr_pickle_init(ctx, &raw->pickle, source, &builder, raw);
    mr_numbers_index(ctx, &raw->pools, 0);
    mr_numbers_index(ctx, &raw->streams, 0);
    mr_value value;
    MR_TRY(mr_pickle_run(&raw->pickle, &value));
    const mr_open *open = mr_v_kind(value) == MR_V_OPEN ? mr_pickle_open(&raw->pickle, value)
                                                        : NULL;
    if (open && !open->dict && (open->list.kind == RAW_V_SEGMENT || !open->list.items))
        return raw_fail(raw, 0, "the file is a bare list of segments as PyTorch 1.x wrote, which"
                        " has no history; expected a snapshot of PyTorch 2.0 or newer");
    if (!open || !open->dict)
        return raw_fail(raw, 0, "the pickle holds %s, expected the dict that"
                        " torch.cuda.memory._dump_snapshot() writes",
                        open ? "a list" : mr_v_show(&raw->pickle, value));
    *root = mr_pickle_fields(&raw->pickle, open, n);
    raw->keys_seen |= open->seen;
    return MR_OK;
}

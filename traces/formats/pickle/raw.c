/* raw -- tells dicts apart, makes records of them. */
#include "raw.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const words[MR_RAW_all] = {
#define X(word) [MR_RAW_##word] = #word,
    MR_RAW_KEYS(X) MR_RAW_WORDS(X)
#undef X
        [MR_RAW_division] = "1",
    "2",
    "4",
    "8",
    "16",
    "32",
    "64",
    "128",
    "256",
    "512",
    "1024",
    "2048",
    "4096",
    "8192",
    "16384",
    "32768",
};

_Static_assert(MR_RAW_keys <= 64, "a set of keys is 64 bits");

const char *mr_raw_word(uint32_t word)
{
    return words[word];
}

const char *mr_raw_text(const mr_raw_snapshot *raw, uint32_t text)
{
    return raw->pickle.texts.all.at[text].at;
}

mr_value mr_raw_find(const mr_field *fields, uint32_t n, uint32_t key)
{
    for (uint32_t i = 0; i < n; i++)
        if (fields[i].key == key) return fields[i].value;
    return MR_V_UNSET;
}

mr_status mr_raw_fail(mr_raw_snapshot *raw, uint64_t offset, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *where = mr_printf(raw->ctx, "%s: byte %" PRIu64, raw->file, offset);
    return mr_fail_at(raw->ctx, MR_EINPUT, where, "%s", text);
}

mr_status mr_raw_fault_fail(mr_raw_snapshot *raw, const mr_raw_fault *f, const char *what)
{
    if (f->value == MR_V_UNSET)
        return mr_raw_fail(raw, f->offset, "%s has no '%s'", what, words[f->key]);
    const char *found = mr_v_show(&raw->pickle, f->value);
    const char *expected = f->key == MR_RAW_action  ? "an action of the caching allocator"
                           : f->key == MR_RAW_state ? "a state of a block"
                           : f->key == MR_RAW_stage ? "START or END"
                           : f->key == MR_RAW_segment_type ? "small or large"
                           : f->key == MR_RAW_name || f->key == MR_RAW_filename ? "a text"
                           : f->key == MR_RAW_frames          ? "a list of frames"
                           : f->key == MR_RAW_segment_pool_id ? "a pair of numbers"
                           : f->key == MR_RAW_is_expandable   ? "True or False"
                           : f->key == MR_RAW_blocks          ? "a list of blocks"
                                                     : "a whole number that is not negative";
    return mr_raw_fail(raw, f->offset, "%s has '%s' = %s, expected %s", what, words[f->key],
                       found, expected);
}

/* ---- fields ---------------------------------------------------------------------------- */

/* A dict while it becomes a record: the first fault wins. */
typedef struct reading {
    mr_raw_snapshot *raw;
    mr_raw_fault fault;
    bool failed;
} reading;

static void wrong(reading *r, uint64_t key, mr_value value)
{
    if (r->failed) return;
    r->failed = true;
    r->fault.key = (uint32_t)key;
    r->fault.value = value;
}

/* For the record: index of the fault, MR_NONE when it has none. */
static uint32_t keep_fault(const reading *r)
{
    if (!r->failed) return MR_NONE;
    MR_PUSH(r->raw->ctx, &r->raw->faults, r->fault);
    return r->raw->faults.n - 1;
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
    if (mr_v_kind(field.value) == MR_RAW_V_STACK) return (uint32_t)mr_v_index(field.value);
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

/* ---- records --------------------------------------------------------------------------- */

static void note_metadata(mr_raw_snapshot *raw, mr_value value)
{
    if (mr_v_kind(value) != MR_V_TEXT) return;
    const uint32_t text_index = (uint32_t)mr_v_index(value);
    const bool empty = !raw->pickle.texts.all.at[text_index].bytes;
    if (raw->notes.n ? raw->notes.at[raw->notes.n - 1].text == text_index : empty) return;
    MR_PUSH(raw->ctx, &raw->notes, (mr_raw_note){raw->events.n, text_index});
}

static mr_value event(reading *r, const mr_field *fields, uint32_t n, uint64_t seen)
{
    mr_raw_snapshot *raw = r->raw;
    mr_raw_event e = {.time = MR_RAW_NO_TIME, .stack = MR_NONE};
    uint64_t address = 0, stream = 0;
    for (uint32_t i = 0; i < n; i++) {
        const mr_field field = fields[i];
        switch (field.key) {
        case MR_RAW_action: e.action = word(r, field, MR_RAW_alloc, MR_RAW_oom); break;
        case MR_RAW_addr:
        case MR_RAW_device_free: address = number(r, field); break;
        case MR_RAW_size: e.size = number(r, field); break;
        case MR_RAW_stream: stream = number(r, field); break;
        case MR_RAW_time_us: e.time = number(r, field); break;
        case MR_RAW_frames: e.stack = stack(r, field); break;
        case MR_RAW_user_metadata: note_metadata(raw, field.value); break;
        default: break;
        }
    }
    require(r, seen, MR_RAW_size);
    require(r, seen, e.action == MR_RAW_oom ? MR_RAW_device_free : MR_RAW_addr);
    raw->keys_seen |= seen;
    e.slot = mr_numbers_index(raw->ctx, &raw->addresses, address);
    e.stream = mr_numbers_index(raw->ctx, &raw->streams, stream);
    if (r->failed)
        e = (mr_raw_event){.size = r->fault.value,
                           .time = r->fault.offset,
                           .stack = r->fault.key,
                           .action = MR_RAW_all};
    MR_PUSH(raw->ctx, &raw->events, e);
    return mr_v(MR_RAW_V_EVENT, raw->events.n - 1);
}

static mr_value frame(reading *r, const mr_field *fields, uint32_t n)
{
    mr_raw_snapshot *raw = r->raw;
    uint32_t file = MR_NONE, function = MR_NONE;
    uint64_t line = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (fields[i].key == MR_RAW_filename) file = text(r, fields[i]);
        if (fields[i].key == MR_RAW_name) function = text(r, fields[i]);
        if (fields[i].key == MR_RAW_line) line = number(r, fields[i]);
    }
    if (r->failed || line > UINT32_MAX) return mr_v(MR_V_OTHER, MR_OTHER_DICT);
    const mr_frame f = {
        file == MR_NONE ? "" : mr_raw_text(raw, file),
        function == MR_NONE ? "" : mr_raw_text(raw, function),
        (uint32_t)line,
    };
    const uint32_t hash = mr_hash(mr_hash((uint64_t)file << 32 | function) ^ line << 32);
    uint32_t probe = mr_table_start(&raw->frame_table, hash), i;
    while ((i = mr_table_next(&raw->frame_table, hash, &probe)) != MR_NONE) {
        const mr_frame *known = &raw->trace->frames.at[i];
        if (known->file == f.file && known->function == f.function && known->line == f.line)
            return mr_v(MR_RAW_V_FRAME, i);
    }
    mr_table_add(raw->ctx, &raw->frame_table, hash, raw->trace->frames.n);
    MR_PUSH(raw->ctx, &raw->trace->frames, f);
    return mr_v(MR_RAW_V_FRAME, raw->trace->frames.n - 1);
}

/* 2.0 has `history`, newest first, in place of address and frames. */
static void block_history(reading *r, mr_raw_block *b, mr_field field)
{
    if (mr_v_kind(field.value) == MR_V_EMPTY) return;
    const bool is_list = mr_v_kind(field.value) == MR_RAW_V_LIST;
    const mr_raw_list list =
        is_list ? r->raw->lists.at[mr_v_index(field.value)] : (mr_raw_list){0};
    if (list.kind != MR_RAW_V_HISTORY || list.odd < list.items) {
        wrong(r, field.key, field.value);
        return;
    }
    const mr_raw_history newest = r->raw->histories.at[r->raw->runs.at[list.first].first];
    b->requested = newest.bytes;
    b->stack = newest.stack;
}

static mr_value block(reading *r, const mr_field *fields, uint32_t n, uint64_t seen)
{
    mr_raw_snapshot *raw = r->raw;
    mr_raw_block b = {.address = UINT64_MAX, .stack = MR_NONE};
    for (uint32_t i = 0; i < n; i++) {
        const mr_field field = fields[i];
        switch (field.key) {
        case MR_RAW_address: b.address = number(r, field); break;
        case MR_RAW_size: b.bytes = number(r, field); break;
        case MR_RAW_requested_size: b.requested = number(r, field); break;
        case MR_RAW_state:
            b.state = word(r, field, MR_RAW_active_allocated, MR_RAW_inactive);
            break;
        case MR_RAW_frames: b.stack = stack(r, field); break;
        case MR_RAW_history: block_history(r, &b, field); break;
        default: break;
        }
    }
    require(r, seen, MR_RAW_size);
    raw->keys_seen |= seen;
    b.fault = keep_fault(r);
    MR_PUSH(raw->ctx, &raw->blocks, b);
    return mr_v(MR_RAW_V_BLOCK, raw->blocks.n - 1);
}

static mr_value segment(reading *r, const mr_field *fields, uint32_t n, uint64_t seen)
{
    mr_raw_snapshot *raw = r->raw;
    mr_raw_segment s = {.offset = r->fault.offset, .large = true};
    uint64_t stream = 0, device = 0;
    for (uint32_t i = 0; i < n; i++) {
        const mr_field field = fields[i];
        switch (field.key) {
        case MR_RAW_address: s.address = number(r, field); break;
        case MR_RAW_total_size: s.bytes = number(r, field); break;
        case MR_RAW_device: device = number(r, field); break;
        case MR_RAW_stream: stream = number(r, field); break;
        case MR_RAW_segment_type:
            s.large = word(r, field, MR_RAW_small, MR_RAW_large) == MR_RAW_large;
            break;
        case MR_RAW_segment_pool_id: s.pool = pool(r, field); break;
        case MR_RAW_is_expandable: s.expandable = truth(r, field); break;
        case MR_RAW_blocks: s.blocks = field.value; break;
        default: break;
        }
    }
    require(r, seen, MR_RAW_address);
    require(r, seen, MR_RAW_total_size);
    if (device >= MR_RAW_LISTS_MAX)
        wrong(r, MR_RAW_device, mr_raw_find(fields, n, MR_RAW_device));
    s.device = (uint32_t)device;
    s.stream = mr_numbers_index(raw->ctx, &raw->streams, stream);
    s.fault = keep_fault(r);
    MR_PUSH(raw->ctx, &raw->segments, s);
    return mr_v(MR_RAW_V_SEGMENT, raw->segments.n - 1);
}

static mr_value annotation(reading *r, const mr_field *fields, uint32_t n, uint64_t seen)
{
    mr_raw_snapshot *raw = r->raw;
    mr_raw_annotation a = {.time = MR_RAW_NO_TIME, .offset = r->fault.offset};
    for (uint32_t i = 0; i < n; i++) {
        const mr_field field = fields[i];
        if (field.key == MR_RAW_name) a.name = text(r, field);
        if (field.key == MR_RAW_time_us) a.time = number(r, field);
        if (field.key == MR_RAW_stage)
            a.end = word(r, field, MR_RAW_START, MR_RAW_END) == MR_RAW_END;
    }
    require(r, seen, MR_RAW_name);
    a.fault = keep_fault(r);
    MR_PUSH(raw->ctx, &raw->annotations, a);
    return mr_v(MR_RAW_V_ANNOTATION, raw->annotations.n - 1);
}

static mr_value history(reading *r, const mr_field *fields, uint32_t n)
{
    mr_raw_snapshot *raw = r->raw;
    mr_raw_history h = {.stack = MR_NONE};
    for (uint32_t i = 0; i < n; i++) {
        if (fields[i].key == MR_RAW_real_size) h.bytes = number(r, fields[i]);
        if (fields[i].key == MR_RAW_frames) h.stack = stack(r, fields[i]);
    }
    if (r->failed) return mr_v(MR_V_OTHER, MR_OTHER_DICT);
    MR_PUSH(raw->ctx, &raw->histories, h);
    return mr_v(MR_RAW_V_HISTORY, raw->histories.n - 1);
}

static mr_value settings(mr_raw_snapshot *raw, const mr_field *fields, uint32_t n)
{
    const uint32_t first = raw->kept.n;
    for (uint32_t i = 0; i < n; i++) MR_PUSH(raw->ctx, &raw->kept, fields[i]);
    return mr_v(MR_RAW_V_SETTINGS, (uint64_t)first << 8 | n); /* n <= 64 */
}

#define BIT(key) ((uint64_t)1 << MR_RAW_##key)

static mr_value dict(void *self, const mr_field *fields, uint32_t n, uint64_t seen,
                     uint64_t offset)
{
    mr_raw_snapshot *raw = self;
    reading r = {.raw = raw, .fault = {.offset = offset}};
    const uint64_t settings_keys = ~(uint64_t)0 << MR_RAW_PYTORCH_CUDA_ALLOC_CONF;
    if (seen & BIT(filename)) return frame(&r, fields, n);
    if (mr_raw_ignored(raw)) return mr_v(MR_V_OTHER, MR_OTHER_IGNORED);
    if (seen & BIT(action)) return event(&r, fields, n, seen);
    if (seen & BIT(blocks)) return segment(&r, fields, n, seen);
    if (seen & BIT(state)) return block(&r, fields, n, seen);
    if (seen & BIT(stage)) return annotation(&r, fields, n, seen);
    if (seen & BIT(real_size)) return history(&r, fields, n);
    if (seen & settings_keys) return settings(raw, fields, n);
    return mr_v(MR_V_OTHER, MR_OTHER_DICT);
}

/* ---- the file -------------------------------------------------------------------------- */

mr_status mr_raw_read(mr_ctx *ctx, mr_source *source, mr_raw_snapshot *raw,
                      const mr_field **root, uint32_t *n)
{
    static const mr_builder builder = {
        .words = words,
        .keys = MR_RAW_keys,
        .n_words = MR_RAW_all,
        .dict = dict,
        .items = mr_raw_items,
        .list = mr_raw_list_done,
        .again = mr_raw_again,
    };
    raw->ctx = ctx;
    raw->file = mr_source_name(source);
    mr_pickle_init(ctx, &raw->pickle, source, &builder, raw);
    MR_RESERVE_N(ctx, &raw->events, 4096);
    mr_numbers_index(ctx, &raw->pools, 0);
    mr_numbers_index(ctx, &raw->streams, 0);
    mr_value value;
    MR_TRY(mr_pickle_run(&raw->pickle, &value));
    const mr_open *open =
        mr_v_kind(value) == MR_V_OPEN ? mr_pickle_open(&raw->pickle, value) : NULL;
    if (open && !open->dict && (open->list.kind == MR_RAW_V_SEGMENT || !open->list.items))
        return mr_raw_fail(raw, 0,
                           "the file is a bare list of segments as PyTorch 1.x wrote, which"
                           " has no history; expected a snapshot of PyTorch 2.0 or newer");
    if (!open || !open->dict)
        return mr_raw_fail(raw, 0,
                           "the pickle holds %s, expected the dict that"
                           " torch.cuda.memory._dump_snapshot() writes",
                           open ? "a list" : mr_v_show(&raw->pickle, value));
    *root = mr_pickle_fields(&raw->pickle, open, n);
    raw->keys_seen |= open->seen;
    return MR_OK;
}

/* pickle.h -- a restricted unpickler: data only, in one pass, keeping little.
 *
 * A pickle is a program for a stack machine.  This one knows the opcodes of protocols 0 to 5
 * that make plain data and refuses all others, so that reading a file cannot run anything.  It
 * builds no objects.  A list or dict is *open* while the machine may still put things into it,
 * and is completed when something takes it in or refers to it; the builder then sees what is in
 * it, once, and gives back a value of 8 bytes that stands for it from then on:
 *
 *     bytes -> machine -> builder.dict(fields)     -> value
 *                         builder.items(list, ...) -> builder.list(list) -> value
 *
 * What the builder does not keep is gone.  Items of a list are shown in batches while it is
 * still open, so a list may be longer than memory.
 */
#ifndef MR_PICKLE_H
#define MR_PICKLE_H

#include "runs.h"
#include "source.h"
#include "table.h"

/* A value: its kind in the lowest byte, in the others what that kind needs. */
typedef uint64_t mr_value;

typedef enum mr_value_kind {
    MR_V_UNSET, /* a place of the memo that was never filled */
    MR_V_OPEN,  /* a list or dict that is not complete */
    MR_V_NULL,  /* None */
    MR_V_FALSE,
    MR_V_TRUE,
    MR_V_INT,   /* from -2^55 to 2^55 - 1, in place */
    MR_V_WIDE,  /* other whole numbers of 64 bits: index into pickle->wide */
    MR_V_FLOAT, /* a double without its lowest 8 bits */
    MR_V_TEXT,  /* index into pickle->texts */
    MR_V_PAIR,  /* tuple or list of two numbers below 2^28 */
    MR_V_EMPTY, /* list or tuple of nothing */
    MR_V_OTHER, /* data that nobody keeps; the payload says what it was (mr_other) */
    MR_V_OWN,   /* this and higher kinds mean what the builder wants */
} mr_value_kind;

typedef enum mr_other {
    MR_OTHER_LIST,
    MR_OTHER_DICT,
    MR_OTHER_TUPLE,
    MR_OTHER_BYTES,
    MR_OTHER_LONG_TEXT, /* longer than MR_TEXT_MAX */
    MR_OTHER_IGNORED,   /* something below a key that is not read */
} mr_other;

#define MR_TEXT_MAX 65536u
#define MR_MARKS_MAX 1000 /* marks within marks; a snapshot has six */
/* Places of the memo that cost nothing; each further one needs a few bytes of the file. */
#define MR_MEMO_FREE ((uint64_t)1 << 20)

static inline mr_value mr_v(unsigned kind, uint64_t payload)
{
    return payload << 8 | kind;
}

static inline unsigned mr_v_kind(mr_value value)
{
    return (unsigned)(value & 0xff);
}

static inline uint64_t mr_v_index(mr_value value)
{
    return value >> 8;
}

/* Little-endian; spelled out so that a compiler sees one load. */
static inline uint32_t mr_little4(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t mr_little8(const unsigned char *p)
{
    return mr_little4(p) | (uint64_t)mr_little4(p + 4) << 32;
}

/* A two's complement number of up to 7 bytes, as many as a value has room for; higher ones of
 * `bits` do not matter. */
static inline mr_value mr_v_signed(uint64_t bits, unsigned bytes)
{
    const unsigned above = 64 - 8 * bytes;
    const uint64_t number = bits << above;
    const uint64_t sign = number >> 63 ? ~(UINT64_MAX >> above) : 0;
    return mr_v(MR_V_INT, number >> above | sign);
}

/* One entry of a dict whose key the builder knows. */
typedef struct mr_field {
    uint64_t key; /* index into builder.words */
    mr_value value;
} mr_field;

/* A list or tuple while it grows.  The words at pickle->content.at[first] are the builder's, to
 * remember what it needs; it may add to them with mr_pickle_keep. */
typedef struct mr_list {
    uint64_t items;  /* how many so far */
    uint64_t offset; /* byte of the file where it begins */
    uint64_t odd;    /* first item that does not fit the builder; equal to items if none */
    uint32_t first, n;
    uint16_t kind;   /* what the builder wants, at first 0 */
    bool tuple;
} mr_list;

typedef struct mr_open {
    mr_list list;
    uint64_t seen; /* for a dict: bit k for key k */
    uint32_t memo;  /* where the memo refers to it, MR_NONE when it does not */
    uint32_t place; /* on the stack */
    uint32_t run;   /* all that was put into it: index into pickle->runs, plus 1; 0 for none */
    bool dict;
} mr_open;

/* The keys of a dict that was read; see pickle_shape.c. */
#define MR_SHAPES 16
#define MR_SHAPE_KEYS 24

typedef struct mr_shape_key {
    uint64_t opcode, mask; /* its bytes */
    uint32_t key, bytes;   /* MR_NONE: not kept */
} mr_shape_key;

typedef struct mr_shape {
    uint64_t seen;
    uint32_t n; /* 0: not known */
    mr_shape_key keys[MR_SHAPE_KEYS];
} mr_shape;

typedef struct mr_pickle mr_pickle;

typedef struct mr_builder {
    /* Texts with fixed indexes: keys that are kept, at most 64, then other words. */
    const char *const *words;
    uint32_t keys, n_words;
    /* A dict is complete: `n` entries with distinct keys, bit k of `seen` for key k. */
    mr_value (*dict)(void *self, const mr_field *fields, uint32_t n, uint64_t seen,
                     uint64_t offset);
    void (*items)(void *self, mr_list *list, const mr_value *items, uint32_t n);
    mr_value (*list)(void *self, const mr_list *list);
    /* The list is still empty and is to hold what another one held that became `value`.  False
     * when the builder does not know that any more; NULL when it never does. */
    bool (*again)(void *self, mr_list *list, mr_value value);
} mr_builder;

struct mr_pickle {
    mr_ctx *ctx;
    mr_source *source;
    const mr_builder *builder;
    void *self; /* the builder's */

    const unsigned char *p, *end; /* bytes not yet read */
    const unsigned char *window;  /* where the bytes at mr_source_offset are */
    MR_VEC(mr_value) stack;
    MR_VEC(uint32_t) marks; /* heights of the stack */
    MR_VEC(mr_value) memo;
    MR_VEC(mr_open) open;
    MR_VEC(uint64_t) content; /* of what is open */
    mr_texts texts;
    mr_numbers wide;
    MR_VEC(char) scratch;
    mr_runs runs; /* of references, as items of a list */
    mr_shape shapes[MR_SHAPES];
    uint64_t filled;  /* places of the memo */
    uint64_t base;    /* offset of `window` */
    uint64_t at;      /* offset of the opcode that is being run */
    bool stopped;
};

/* Prepares `pickle`; the builder may then be told where it is. */
void mr_pickle_init(mr_ctx *ctx, mr_pickle *pickle, mr_source *source,
                    const mr_builder *builder, void *self);

/* Runs to STOP.  *out is the value left: open when it is a list or dict, which then can be
 * looked at with mr_pickle_open. */
mr_status mr_pickle_run(mr_pickle *pickle, mr_value *out);

/* The outermost value while it is open: what is in it so far. */
const mr_open *mr_pickle_open(const mr_pickle *pickle, mr_value value);
/* Fields of an open dict. */
const mr_field *mr_pickle_fields(const mr_pickle *pickle, const mr_open *open, uint32_t *n);

/* The text of the outermost dict's key below which the machine now is, MR_NONE when unknown. */
uint32_t mr_pickle_root_key(const mr_pickle *pickle);

/* Adds to what is remembered of an open list. */
void mr_pickle_keep(mr_pickle *pickle, mr_list *list, const uint64_t *words, uint32_t n);

/* A whole number as sign and size; false when the value is none. */
bool mr_v_number(const mr_pickle *pickle, mr_value value, bool *negative, uint64_t *size);
double mr_v_float(mr_value value);
/* What the value is, for a message: "the text 'abc'", "a dict", "-5". */
const char *mr_v_show(mr_pickle *pickle, mr_value value);

/* ---- between the parts of the machine -------------------------------------------------- */

typedef struct mr_opcode {
    const char *name; /* NULL: no opcode at all */
    /* NULL: refused.  `arg` is the number behind the opcode, `from` the place on the stack of
     * the first value that it takes. */
    mr_status (*run)(mr_pickle *pickle, uint64_t arg, uint32_t from);
    uint8_t width, takes;
} mr_opcode;

#define MR_TAKES_MARK 255 /* all values behind the last mark, and the mark */

extern const mr_opcode mr_opcodes[256];

mr_status mr_pickle_fail(mr_pickle *pickle, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The file ended where `expected` should be, or could not be read. */
mr_status mr_pickle_cut(mr_pickle *pickle, const char *expected);
/* Makes sure of `want` bytes at p unless the file ends. */
mr_status mr_pickle_refill(mr_pickle *pickle, size_t want);
#define MR_ROOM 16 /* no opcode has more bytes, but for its text */
/* Runs what is frequent while there are MR_ROOM bytes; may as well do nothing. */
mr_status mr_pickle_quick(mr_pickle *pickle);
/* Reads dicts of shapes that were there before, as many as follow. */
void mr_pickle_shaped(mr_pickle *pickle);
/* The lowest place of the stack that may be taken: the last mark. */
static inline uint32_t mr_pickle_floor(const mr_pickle *pickle)
{
    return pickle->marks.n ? pickle->marks.at[pickle->marks.n - 1] : 0;
}

mr_status mr_pickle_push(mr_pickle *pickle, mr_value value);
mr_status mr_pickle_text(mr_pickle *pickle, const void *text, uint32_t bytes);
mr_value mr_pickle_int(mr_pickle *pickle, bool negative, uint64_t size);
mr_value mr_pickle_double(double number);

/* Arguments that stand as text up to the end of the line (protocol 0). */
mr_status mr_pickle_line(mr_pickle *pickle, const char **line, uint32_t *bytes);
mr_status mr_line_int(mr_pickle *pickle, uint64_t arg, uint32_t from);
mr_status mr_line_long(mr_pickle *pickle, uint64_t arg, uint32_t from);
mr_status mr_line_float(mr_pickle *pickle, uint64_t arg, uint32_t from);
mr_status mr_line_string(mr_pickle *pickle, uint64_t arg, uint32_t from);
mr_status mr_line_unicode(mr_pickle *pickle, uint64_t arg, uint32_t from);
mr_status mr_line_index(mr_pickle *pickle, uint64_t *index);

/* Containers (pickle_open.c). */
mr_status mr_pickle_begin(mr_pickle *pickle, bool dict);
mr_status mr_pickle_append(mr_pickle *pickle, uint32_t from);   /* to the list below `from` */
mr_status mr_pickle_set(mr_pickle *pickle, uint32_t from);      /* in the dict below `from` */
mr_status mr_pickle_collect(mr_pickle *pickle, uint32_t from, bool dict); /* LIST and DICT */
mr_status mr_pickle_tuple(mr_pickle *pickle, uint32_t from);
bool mr_pickle_again(mr_pickle *pickle, mr_list *list, const mr_run *run);
mr_value mr_pickle_complete(mr_pickle *pickle, uint32_t open); /* wherever it stands */
void mr_pickle_settle(mr_pickle *pickle, uint32_t from);       /* all from there to the top */

#endif

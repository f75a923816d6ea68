/* base.h -- status codes, the context of one evaluation, its arena, growing arrays.
 *
 * One mr_ctx belongs to one evaluation and one thread.  Whoever makes it (`= {0}`) clears it;
 * nothing in between frees anything, so no error path can leak and no pointer has an owner to
 * look up.  The arena is a list of chunks; an allocation that is large has a chunk of its own,
 * and growing such an array moves no second copy along:
 *
 *     ctx->chunk ─► [ small | small | ...      ] ─► [ one large array ] ─► [ small ... ]
 */
#ifndef MR_BASE_H
#define MR_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* name, exit code of the program, what it means */
#define MR_STATUS_LIST(X)                                                    \
    X(OK, 0, "success")                                                      \
    X(EINPUT, 1, "a file is malformed")                                      \
    X(EUNSUPPORTED, 1, "the trace lacks what was asked of it")               \
    X(EINVARIANT, 1, "a strategy produced an impossible trace or placement") \
    X(EDEVICE, 1, "the device refused")                                      \
    X(EIO, 1, "a file could not be read or written")                         \
    X(EUSAGE, 2, "the command line or a spec is wrong")

typedef enum mr_status {
#define X(name, exit_code, text) MR_##name,
    MR_STATUS_LIST(X)
#undef X
} mr_status;

int mr_status_exit(mr_status status); /* exit code of the program for this status */

#define MR_TRY(call)                          \
    do {                                      \
        mr_status mr_try_ = (call);           \
        if (mr_try_ != MR_OK) return mr_try_; \
    } while (0)

#define MR_NONE UINT32_MAX /* an index that refers to nothing */

#define MR_KIB ((uint64_t)1 << 10)
#define MR_MIB ((uint64_t)1 << 20)
#define MR_GIB ((uint64_t)1 << 30)

/* Has the processor bring what lies there into its cache while it goes on with other work.
 * Nothing but speed depends on it. */
#ifdef __GNUC__
#define MR_FETCH(at) __builtin_prefetch(at)
#else
#define MR_FETCH(at) ((void)(at))
#endif

#define MR_COUNT(array) (sizeof(array) / sizeof *(array))

typedef struct mr_chunk mr_chunk;

typedef struct mr_failure {
    mr_status status;
    char text[512];   /* one sentence: what was found, what was expected */
    char where[256];  /* "file:line:column" for data, the text to underline for a spec; or "" */
    unsigned column;  /* first character of `where` to underline, counted from 0 */
    unsigned width;   /* number of characters to underline, 0 for none */
} mr_failure;

typedef struct mr_ctx {
    mr_chunk *chunk;    /* arena, newest chunk first */
    uint64_t seed;      /* of all randomness in this evaluation */
    mr_failure failure; /* the last call of mr_fail */
    /* Told how far a long piece of work is, 0 to 1; NULL when nobody watches. */
    void (*progress)(void *watcher, const char *what, double part);
    void *watcher;
} mr_ctx;

void mr_ctx_clear(mr_ctx *ctx); /* frees everything ever allocated from it */

/* Zeroed memory aligned for any type, valid until mr_ctx_clear.  Never NULL: running out of
 * the host's own memory, or asking for more than SIZE_MAX, ends the program with a sentence. */
void *mr_alloc(mr_ctx *ctx, size_t bytes);
void *mr_alloc_n(mr_ctx *ctx, size_t n, size_t size);
#define MR_NEW(ctx, type) ((type *)mr_alloc(ctx, sizeof(type)))
#define MR_NEW_N(ctx, type, n) ((type *)mr_alloc_n(ctx, n, sizeof(type)))

uint32_t *mr_none_of(mr_ctx *ctx, uint32_t n); /* n times MR_NONE */

char *mr_strdup(mr_ctx *ctx, const char *text);
char *mr_strndup(mr_ctx *ctx, const char *text, size_t n);
char *mr_printf(mr_ctx *ctx, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "1 tensor", "3 tensors" */
const char *mr_show_count(mr_ctx *ctx, uint64_t n, const char *one, const char *many);

/* Bytes of the UTF-8 character at the head of a text; 0 when it is none. */
size_t mr_utf8_length(const char *text);
/* A sentence may quote what a file holds, which must not begin a line or move the cursor of a
 * terminal: puts ? for each byte of control characters, but those kept, and of what is not UTF-8. */
void mr_tame(char *text, const char *kept);

/* Records the sentence and returns `status`, so that failing is one statement. */
mr_status mr_fail(mr_ctx *ctx, mr_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with a place: "file:line:column", or "file: byte 123" for binary files. */
mr_status mr_fail_at(mr_ctx *ctx, mr_status status, const char *where, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

void mr_progress(mr_ctx *ctx, const char *what, double part);

/* Growing arrays: MR_VEC(mr_op) ops;  MR_PUSH(ctx, &trace->ops, op);  trace->ops.at[i] */
#define MR_VEC(type)  \
    struct {          \
        type *at;     \
        uint32_t n;   \
        uint32_t cap; \
    }
#define MR_PUSH(ctx, vec, ...)                                                             \
    do {                                                                                   \
        if ((vec)->n == (vec)->cap)                                                        \
            (vec)->at = mr_grow(ctx, (vec)->at, &(vec)->cap, (vec)->n + 1, sizeof *(vec)->at); \
        (vec)->at[(vec)->n] = __VA_ARGS__;                                                 \
        (vec)->n++;                                                                        \
    } while (0)
/* Makes room for `want` elements without changing n. */
#define MR_RESERVE_N(ctx, vec, want) \
    ((void)((vec)->cap < (want)      \
            && ((vec)->at = mr_grow(ctx, (vec)->at, &(vec)->cap, want, sizeof *(vec)->at))))

/* Returns a copy of the array with room for at least `want` elements of `size` bytes.  What is
 * beyond the old ones is not zeroed: a large array would be touched twice. */
void *mr_grow(mr_ctx *ctx, void *at, uint32_t *cap, uint32_t want, size_t size);

#endif

/* memory.h -- what device memory looks like: segments, blocks inside them, commands.
 *
 *     segment   one range held from the device: a cudaMalloc, or an address reservation of
 *               which stretches are mapped and unmapped (expandable)
 *     block     a piece of a segment, given to one storage
 *     command   one step of a placement; what a real allocator did and what a strategy decided
 *               are both lists of commands, so comparing them is a diff
 */
#ifndef MR_MEMORY_H
#define MR_MEMORY_H

#include "base.h"

typedef struct mr_segment {
    uint64_t address; /* on the device */
    uint64_t bytes;   /* of the whole range; 0 when an expandable range's length is unknown */
    uint32_t stream;  /* index of the stream it serves */
    uint32_t pool;    /* private pool it belongs to, 0 for the default */
    uint64_t page;    /* expandable: bytes of each physical allocation behind it; else 0 */
    bool large;       /* belongs to the pool of large blocks, where the allocator has two */
    bool expandable;  /* only an address range: memory comes and goes with MAP and UNMAP */
} mr_segment;

typedef struct mr_block {
    uint32_t segment;
    uint32_t handle; /* the allocator's own name for it; nobody else looks at it */
    uint64_t offset, bytes; /* what was really given, at least what was asked for; in a
                             * recording 0 bytes mean that the size was not recorded */
} mr_block;

/* Handle of a MAP or UNMAP that asks nothing of the driver: the same pages stand behind several
 * addresses, and it says which of these counts from now on. */
#define MR_STANDING UINT32_MAX

typedef enum mr_cmd_kind {
    MR_RESERVE, /* take a segment from the device (for an expandable one: addresses only) */
    MR_RELEASE, /* give it back */
    MR_MAP,     /* put memory behind [offset, offset + bytes) of an expandable segment */
    MR_UNMAP,
    MR_BIND,   /* the storage `id` lives in this block from now on */
    MR_DEFER,  /* freed by the program, but another stream may still use it: not reusable yet */
    MR_UNBIND, /* the block is free to be used again */
    MR_EXEC,   /* run op `id` */
    MR_REFUSE, /* the request for storage `id` was not served: out of memory */
} mr_cmd_kind;

typedef struct mr_cmd {
    mr_cmd_kind kind;
    uint32_t id;    /* storage, or op for EXEC; MR_NONE where there is none */
    mr_block block; /* segment, and for RESERVE and RELEASE its bytes */
} mr_cmd;

typedef MR_VEC(mr_cmd) mr_cmds;

/* A block at one moment, in use or free: pieces of a segment tile it. */
typedef struct mr_piece {
    uint32_t segment;
    uint32_t storage; /* who lives in it, MR_NONE for free memory */
    uint64_t offset, bytes;
    bool pending; /* freed, but not yet reusable */
} mr_piece;

typedef MR_VEC(mr_piece) mr_pieces;

#endif

/* bfc_heap -- best fit with coalescing over regions that double: TensorFlow's allocator, and
 * what ONNX Runtime made of it. */
#ifndef BFC_HEAP_H
#define BFC_HEAP_H

#include "chunks.h"

typedef struct bfc_rules {
    uint64_t limit;        /* bytes of all regions */
    uint64_t region;       /* of the first one */
    uint64_t most_rest;    /* a larger rest is always split off */
    bool as_requested;     /* a region is as large as the request that wants it */
    bool collect;          /* free regions go back before a request is refused */
    bool backpedal_once;   /* TensorFlow asks for less than a region only the first time */
    uint64_t least;        /* ONNX Runtime asks for no less than this then */
    uint64_t after_shrink; /* size of the next region after flush; 0 when flush does nothing */
} bfc_rules;

mr_status bfc_place(mr_ctx *ctx, const bfc_rules *rules, const mr_schedule *in, mr_placer *out);

#endif

/* et_file.h -- an execution trace while it is read (execution_trace.c).
 *
 *     et_node      an element of "nodes" to a record
 *     et_tree      which nodes become ops, in which phase
 *     et_ops       storages, tensors and ops
 *     et_infer     what the file does not say: roles, what was saved, when tensors are dropped
 *     et_times     durations, which another file has
 */
#ifndef ET_FILE_H
#define ET_FILE_H

#include "format.h"
#include "json_items.h"
#include "names.h"
#include "table.h"

/* A tensor as an argument or a result: [id, storage, offset, numbers, bytes each, device]. */
typedef struct et_ref {
    uint64_t id, storage; /* addresses in disguise: used again after a free */
    uint64_t offset, numbers, each; /* in numbers; bytes of one */
    const uint64_t *shape;
    uint32_t rank;
    uint32_t device; /* MR_PAGEABLE for the host */
    uint32_t place;  /* which argument it is, or belongs to */
    const char *dtype;
    bool below; /* a result that an op called by this one made */
} et_ref;

typedef struct et_refs {
    et_ref *at;
    uint32_t n;
} et_refs;

typedef struct et_node {
    uint64_t id, parent, sequence; /* sequence: of autograd; UINT64_MAX none */
    uint32_t name, schema;         /* names */
    et_refs in, out;
    uint32_t up;       /* index of the parent, MR_NONE at the top */
    mr_phase phase;
    bool works; /* has ops below that compute */
    bool whole; /* the innermost op that autograd numbered, or one that made a result itself */
    bool runs;  /* becomes an op */
    bool fresh; /* an op that only makes room */
    bool looks; /* an op that makes no more than views */
    bool step;  /* a step of the profiler */
} et_node;

typedef struct et_file {
    mr_ctx *ctx;
    json_items items;
    mr_trace *trace;
    mr_names names;
    MR_VEC(et_node) nodes;
    uint32_t *node_of; /* by op: its node */
} et_file;

mr_status et_node_read(et_file *f);

/* Sorts nodes by their ids, in which they began, and judges them. */
mr_status et_tree(et_file *f);

mr_status et_ops(et_file *f);

/* FLOPs of an op by the shapes it has, as torch.utils.flop_counter counts; 0 for the rest. */
uint64_t et_flops(const char *name, const et_node *node);

void et_infer(et_file *f);

/* Durations from the profiler trace in file `path`. */
mr_status et_times(et_file *f, const char *path);

/* Of "name(Tensor(a!) self, Tensor[] others, *, int n=1) -> ...": is argument `place` changed? */
bool et_changes(const char *schema, uint32_t place);

/* Does a result lie on the storage of an argument, or of a result before it? */
bool et_lies_on_known(const et_node *node, uint32_t result);

const char *et_name(const et_file *f, const et_node *node);

#endif

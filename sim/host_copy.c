/* host_copy -- what a copy over the host link is: an op of its own engine, which reads device
 * memory or writes it.  What happens at its other end is no traffic of the device. */
#include "host_copy.h"
#include "param.h"

#include "schedule.h"

#include <string.h>

/* ---- tensors ----------------------------------------------------------------------------- */

uint64_t mr_host_copy_bytes(const mr_tensor *tensor)
{
    const uint64_t width = mr_dtype_bytes(tensor->dtype);
    return width ? width * mr_tensor_numbers(tensor) : tensor->bytes;
}

uint32_t mr_host_copy_new(mr_rewrite *r, uint32_t like, uint32_t device)
{
    const mr_tensor model = r->out->tensors.at[like];
    const mr_storage home = r->out->storages.at[model.storage];
    const uint64_t bytes = mr_host_copy_bytes(&model);
    const uint32_t s = mr_rewrite_new_storage(r, model.storage, bytes);
    const uint32_t t = mr_rewrite_new_tensor(r, like, s);
    mr_storage *storage = &r->out->storages.at[s];
    storage->device = (uint16_t)device;
    storage->role = MR_ROLE_temporary;
    storage->per_sample = home.bytes ? home.per_sample * bytes / home.bytes : 0;
    r->out->tensors.at[t].name = "";
    r->out->tensors.at[t].role = MR_ROLE_temporary;
    return t;
}

/* ---- ops --------------------------------------------------------------------------------- */

static mr_op copy_of(mr_rewrite *r, uint32_t from, uint32_t stream, const mr_op *as)
{
    return (mr_op){
        .name = "aten::_to_copy",
        .module = as->module,
        .call = as->call,
        .stream = stream,
        .phase = as->phase,
        .again = MR_NONE,
        .of = as->of,
        .in = mr_ids_of(r->ctx, 1, &from),
        .moves = true,
    };
}

uint32_t mr_host_copy_out(mr_rewrite *r, uint32_t from, uint32_t to, uint32_t stream,
                          const mr_op *as)
{
    mr_op op = copy_of(r, from, stream, as);
    op.engine = MR_ENGINE_to_host;
    op.out = mr_ids_of(r->ctx, 1, &to);
    op.read = r->out->tensors.at[to].bytes;
    return mr_rewrite_new_op(r, &op);
}

uint32_t mr_host_copy_back(mr_rewrite *r, uint32_t from, uint32_t to, uint32_t stream,
                           bool fills, const mr_op *as)
{
    mr_op op = copy_of(r, from, stream, as);
    if (fills) op.name = "aten::copy_";
    op.engine = MR_ENGINE_from_host;
    *(fills ? &op.mutates : &op.out) = mr_ids_of(r->ctx, 1, &to);
    op.written = r->out->tensors.at[to].bytes;
    return mr_rewrite_new_op(r, &op);
}

/* ---- what it takes on the host ----------------------------------------------------------- */

void mr_host_copy_remark(mr_rewrite *r, uint32_t device)
{
    mr_schedule schedule;
    uint32_t at;
    uint64_t copied = 0, n = 0;
    for (uint32_t o = 0; o < r->out->ops.n; o++) {
        const mr_op *op = &r->out->ops.at[o];
        if (op->engine != MR_ENGINE_to_host) continue;
        copied += op->read;
        n++;
    }
    if (mr_schedule_make(r->ctx, r->out, device, &schedule)) return;
    mr_rewrite_remark(r,
                      "%s of %s memory on the host are needed at once, for %s of %s",
                      mr_say_size(r->ctx, mr_schedule_peak(&schedule, &at)),
                      device == MR_PINNED ? "pinned" : "pageable",
                      mr_show_count(r->ctx, n, "copy", "copies"), mr_say_size(r->ctx, copied));
}

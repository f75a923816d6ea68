/* Which ops are matrix products, and of what shape: the FLOPs are those of the recording. */
#include <glob.h>

#include "format.h"
#include "product.h"
#include "test.h"

static bool is_named_product(const mr_op *op)
{
    static const char *const names[] = {"aten::mm", "aten::addmm", "aten::bmm",
                                        "aten::baddbmm"};
    for (size_t i = 0; i < MR_COUNT(names); i++)
        if (strcmp(op->name, names[i]) == 0) return true;
    return false;
}

/* A convolution's last piece may be filled up: by less than a row for each piece. */
static void check_shape(const mr_trace *trace, const mr_op *op, const mr_product *p)
{
    const uint64_t each = 2 * p->columns * p->terms;
    const uint64_t flops = p->count * p->rows * each;
    CHECK(p->out == MR_NONE ? flops >= op->flops && flops - op->flops < p->count * each
                            : flops == op->flops);
    if (p->out == MR_NONE) return;
    const uint64_t bytes = mr_number_bytes(p->number);
    const mr_tensor *tensors = trace->tensors.at;
    const uint64_t n = p->count;
    CHECK_EQ(tensors[p->a].bytes / bytes, ((n * p->rows - 1) * p->lead_a) + p->terms);
    CHECK_EQ(tensors[p->b].bytes / bytes, ((n * p->terms - 1) * p->lead_b) + p->columns);
    CHECK_EQ(tensors[p->out].bytes / bytes, ((n * p->rows - 1) * p->lead_out) + p->columns);
}

TEST(every_product_of_the_recorded_models_has_a_shape)
{
    glob_t models;
    uint32_t products = 0, convolutions = 0;
    CHECK(glob(TRACES "/models/*.csv.gz", 0, NULL, &models) == 0);
    for (size_t i = 0; i < models.gl_pathc; i++) {
        mr_ctx ctx = {0};
        const mr_read_options options = {0};
        mr_trace trace;
        CHECK(mr_recording_read(&ctx, models.gl_pathv[i], &options, &trace) == MR_OK);
        for (uint32_t o = 0; o < trace.ops.n; o++) {
            mr_product p;
            const mr_op *op = &trace.ops.at[o];
            const mr_work work = mr_work_of(&trace, op);
            const bool found = mr_product_of(&trace, op, &work, &p);
            if (is_named_product(op) && op->flops && !found)
                TEST_FAIL("%s: op %u, %s, is no product", models.gl_pathv[i], o, op->name);
            if (!found) continue;
            check_shape(&trace, op, &p);
            if (p.out == MR_NONE) convolutions++;
            else products++;
        }
        mr_ctx_clear(&ctx);
    }
    globfree(&models);
    CHECK(products > 1000 && convolutions > 100);
}

TEST_MAIN()

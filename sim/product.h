/* product.h -- the matrix products that ops are, or are as much work as.
 *
 * An aten::mm, addmm, bmm or baddbmm is a product of two tensors.  A convolution is as much work
 * as a product with its filters, an OUT x IN*H*W matrix, of as many rows as it has pixels; what
 * is not a whole product of known shape is none.
 */
#ifndef MR_PRODUCT_H
#define MR_PRODUCT_H

#include "cost.h"

typedef enum mr_number { MR_FLOAT32, MR_FLOAT64, MR_FLOAT16, MR_BFLOAT16 } mr_number;

typedef struct mr_product {
    uint64_t count;                /* so many products at once, each of */
    uint64_t rows, columns, terms; /* rows x terms with terms x columns; none is 0 */
    mr_number number;              /* of all three matrices */
    uint32_t a, b, out;            /* tensors; MR_NONE for a convolution */
    uint64_t lead_a, lead_b, lead_out; /* numbers from one row of them to the next */
} mr_product;

uint64_t mr_number_bytes(mr_number number);

/* False for an op that is no product.  All of it lies in the bytes of the tensors found. */
bool mr_product_of(const mr_trace *trace, const mr_op *op, const mr_work *work,
                   mr_product *out);

#endif

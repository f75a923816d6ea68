/* et_flops -- products and convolutions, as torch.utils.flop_counter counts: two for each
 * multiplication. */
#include "et_file.h"

#include <string.h>

static uint64_t product(const uint64_t *at, uint32_t from, uint32_t to)
{
    double all = 1;
    for (uint32_t i = from; i < to; i++) all *= (double)at[i];
    return all < 1e18 ? (uint64_t)all : 0;
}

static uint64_t capped(double flops)
{
    return flops < 1e18 ? (uint64_t)flops : 0;
}

/* [..., m, k] x [..., k, n], the last two arguments that are matrices. */
static uint64_t of_product(const et_refs *in)
{
    const et_ref *a = NULL, *b = NULL;
    for (uint32_t i = 0; i < in->n; i++)
        if (in->at[i].rank >= 2) a = b, b = &in->at[i];
    if (!a || a->rank != b->rank) return 0;
    return capped(2 * (double)product(a->shape, 0, a->rank)
                  * (double)b->shape[b->rank - 1]);
}

/* Each number of the result is a sum over the filter; a transposed one over the input's. */
static uint64_t of_convolution(const et_ref *at, const et_ref *filter)
{
    if (at->rank < 3 || filter->rank != at->rank) return 0;
    return capped(2 * (double)product(filter->shape, 0, filter->rank) * (double)at->shape[0]
                  * (double)product(at->shape, 2, at->rank));
}

/* Gradients of the input and of the filter, as far as they are asked for. */
static uint64_t of_convolution_backward(const et_node *node)
{
    uint64_t flops = 0;
    if (node->in.n < 3) return 0;
    for (uint32_t i = 0; i < node->out.n; i++)
        if (node->out.at[i].rank >= 3)
            flops += of_convolution(&node->in.at[0], &node->in.at[2]);
    return flops;
}

/* Query times key, and that times value; the backward pass has five such products. */
static uint64_t of_attention(const et_refs *in, uint32_t first, double products)
{
    if (in->n < first + 2) return 0;
    const et_ref *query = &in->at[first], *key = &in->at[first + 1];
    if (query->rank != 4 || key->rank != 4) return 0;
    return capped(2 * products * (double)product(query->shape, 0, 4) * (double)key->shape[2]);
}

uint64_t et_flops(const char *name, const et_node *node)
{
    static const char *const products[] = {"aten::mm", "aten::addmm", "aten::bmm",
                                           "aten::baddbmm", "aten::_addmm_activation"};
    for (size_t i = 0; i < MR_COUNT(products); i++)
        if (!strcmp(name, products[i])) return of_product(&node->in);
    const bool backward = strstr(name, "backward") != NULL;
    if (strstr(name, "dot_product") && strstr(name, "attention"))
        return backward ? of_attention(&node->in, 1, 5) : of_attention(&node->in, 0, 2);
    if (!strstr(name, "conv")) return 0;
    if (backward) return of_convolution_backward(node);
    if (node->in.n < 2 || !node->out.n) return 0;
    return of_convolution(&node->out.at[0], &node->in.at[1]);
}

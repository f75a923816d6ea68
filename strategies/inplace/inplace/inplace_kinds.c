/* inplace_kinds -- as PyTorch 2.15 differentiates them (tools/autograd/derivatives.yaml, and
 * what recordings of the in-place modules save). */
#include "inplace_kinds.h"

#include <string.h>

static const inplace_kind kinds[] = {
    {"aten::relu", "aten::relu_", INPLACE_RESULT, false},
    {"aten::sigmoid", "aten::sigmoid_", INPLACE_RESULT, false},
    {"aten::tanh", "aten::tanh_", INPLACE_RESULT, false},
    {"aten::exp", "aten::exp_", INPLACE_RESULT, false},
    {"aten::sqrt", "aten::sqrt_", INPLACE_RESULT, false},
    {"aten::leaky_relu", "aten::leaky_relu_", INPLACE_SWITCHES, false},
    {"aten::elu", "aten::elu_", INPLACE_SWITCHES, false},
    {"aten::silu", "aten::silu_", INPLACE_COPY, false},
    {"aten::mish", "aten::mish_", INPLACE_COPY, false},
    {"aten::hardswish", "aten::hardswish_", INPLACE_COPY, false},
    {"aten::hardsigmoid", "aten::hardsigmoid_", INPLACE_COPY, false},
    {"aten::hardtanh", "aten::hardtanh_", INPLACE_COPY, false},
    {"aten::threshold", "aten::threshold_", INPLACE_COPY, false},
    {"aten::add", "aten::add_", INPLACE_NOTHING, true},
};

const inplace_kind *inplace_kind_of(const char *name)
{
    for (size_t i = 0; i < MR_COUNT(kinds); i++)
        if (!strcmp(kinds[i].name, name)) return &kinds[i];
    return NULL;
}

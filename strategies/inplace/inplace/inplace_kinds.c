/* inplace_kinds -- as PyTorch 2.15 differentiates them (tools/autograd/derivatives.yaml, and
 * what recordings of the in-place modules save). */
#include "inplace_kinds.h"

#include <string.h>

static const inplace_kind kinds[] = {
    {"aten::relu", "aten::relu_", INPLACE_RESULT, INPLACE_ACTIVATION},
    {"aten::sigmoid", "aten::sigmoid_", INPLACE_RESULT, INPLACE_ACTIVATION},
    {"aten::tanh", "aten::tanh_", INPLACE_RESULT, INPLACE_ACTIVATION},
    {"aten::exp", "aten::exp_", INPLACE_RESULT, INPLACE_ACTIVATION},
    {"aten::sqrt", "aten::sqrt_", INPLACE_RESULT, INPLACE_ACTIVATION},
    {"aten::leaky_relu", "aten::leaky_relu_", INPLACE_SWITCHES, INPLACE_ACTIVATION},
    {"aten::elu", "aten::elu_", INPLACE_SWITCHES, INPLACE_ACTIVATION},
    {"aten::silu", "aten::silu_", INPLACE_COPY, INPLACE_ACTIVATION},
    {"aten::mish", "aten::mish_", INPLACE_COPY, INPLACE_ACTIVATION},
    {"aten::hardswish", "aten::hardswish_", INPLACE_COPY, INPLACE_ACTIVATION},
    {"aten::hardsigmoid", "aten::hardsigmoid_", INPLACE_COPY, INPLACE_ACTIVATION},
    {"aten::hardtanh", "aten::hardtanh_", INPLACE_COPY, INPLACE_ACTIVATION},
    {"aten::threshold", "aten::threshold_", INPLACE_COPY, INPLACE_ACTIVATION},
    {"aten::add", "aten::add_", INPLACE_NOTHING, INPLACE_SUM},
    {"aten::native_dropout", "aten::mul_", INPLACE_NOISE, INPLACE_DROPOUT},
};

const inplace_kind *inplace_kind_of(const char *name)
{
    for (size_t i = 0; i < MR_COUNT(kinds); i++)
        if (!strcmp(kinds[i].name, name)) return &kinds[i];
    return NULL;
}

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
    {"aten::mul", "aten::mul_", INPLACE_NOTHING, INPLACE_ELEMENTWISE},
    {"aten::sub", "aten::sub_", INPLACE_NOTHING, INPLACE_ELEMENTWISE},
    {"aten::div", "aten::div_", INPLACE_NOTHING, INPLACE_ELEMENTWISE},
    {"aten::neg", "aten::neg_", INPLACE_NOTHING, INPLACE_ELEMENTWISE},
    {"aten::pow", "aten::pow_", INPLACE_NOTHING, INPLACE_ELEMENTWISE},
    {"aten::masked_fill", "aten::masked_fill_", INPLACE_NOTHING, INPLACE_ELEMENTWISE},
    {"aten::gelu", "aten::gelu_", INPLACE_NOTHING, INPLACE_ELEMENTWISE},
    {"aten::_softmax", "aten::_softmax.out", INPLACE_NOTHING, INPLACE_ELEMENTWISE},
    {"aten::_log_softmax", "aten::_log_softmax.out", INPLACE_NOTHING, INPLACE_ELEMENTWISE},
    {"aten::threshold_backward", "aten::threshold_backward.grad_input", INPLACE_NOTHING,
     INPLACE_ELEMENTWISE},
    {"aten::gelu_backward", "aten::gelu_backward.grad_input", INPLACE_NOTHING,
     INPLACE_ELEMENTWISE},
    {"aten::sigmoid_backward", "aten::sigmoid_backward.grad_input", INPLACE_NOTHING,
     INPLACE_ELEMENTWISE},
    {"aten::tanh_backward", "aten::tanh_backward.grad_input", INPLACE_NOTHING,
     INPLACE_ELEMENTWISE},
    {"aten::silu_backward", "aten::silu_backward.grad_input", INPLACE_NOTHING,
     INPLACE_ELEMENTWISE},
    {"aten::leaky_relu_backward", "aten::leaky_relu_backward.grad_input", INPLACE_NOTHING,
     INPLACE_ELEMENTWISE},
    {"aten::elu_backward", "aten::elu_backward.grad_input", INPLACE_NOTHING,
     INPLACE_ELEMENTWISE},
    {"aten::native_dropout_backward", "aten::native_dropout_backward.out", INPLACE_NOTHING,
     INPLACE_ELEMENTWISE},
    {"aten::_softmax_backward_data", "aten::_softmax_backward_data.out", INPLACE_NOTHING,
     INPLACE_ELEMENTWISE},
};

const inplace_kind *inplace_kind_of(const char *name)
{
    for (size_t i = 0; i < MR_COUNT(kinds); i++)
        if (!strcmp(kinds[i].name, name)) return &kinds[i];
    return NULL;
}

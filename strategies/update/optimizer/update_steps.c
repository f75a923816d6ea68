/* update_steps -- the tables, as recordings of PyTorch 2.15 show them;
 * adam8bit is bitsandbytes'. */
#include "update_steps.h"

enum { SGD, MOMENTUM, ADAM, ADAMW, RMSPROP, ADAFACTOR, ADAM8BIT, NAMES };

/* ---- many at once ------------------------------------------------------------------------ */

static const update_step sgd_foreach[] = {{"aten::_foreach_add_", "pg", 0, "p", "", ""}};

static const update_step momentum_foreach[] = {
    {"aten::_foreach_mul_", "B", 0, "B", "", ""},
    {"aten::_foreach_add_", "Bg", 0, "B", "", ""},
    {"aten::_foreach_add_", "pB", 0, "p", "", ""},
};

static const update_step adamw_foreach[] = {
    {"aten::_foreach_mul_", "p", 0, "p", "", ""}, /* weight decay; Adam begins behind it */
    {"aten::_foreach_lerp_", "Mg", 0, "M", "", ""},
    {"aten::_foreach_mul_", "V", 0, "V", "", ""},
    {"aten::_foreach_addcmul_", "Vg", 0, "V", "", ""},
    {"aten::_foreach_sqrt", "V", 'd', "", "d", ""},
    {"aten::_foreach_div_", "d", 0, "d", "", ""},
    {"aten::_foreach_add_", "d", 0, "d", "", ""},
    {"aten::_foreach_addcdiv_", "pMd", 0, "p", "", ""},
};

static const update_step rmsprop_foreach[] = {
    {"aten::_foreach_mul_", "V", 0, "V", "", ""},
    {"aten::_foreach_addcmul_", "Vg", 0, "V", "", ""},
    {"aten::_foreach_sqrt", "V", 'd', "", "d", ""},
    {"aten::_foreach_add_", "d", 0, "d", "", ""},
    {"aten::_foreach_addcdiv_", "pgd", 0, "p", "", ""},
};

/* ---- one by one -------------------------------------------------------------------------- */

static const update_step sgd_loop[] = {{"aten::add_", "pg", 0, "p", "", ""}};

static const update_step momentum_loop[] = {
    {"aten::mul_", "B", 0, "B", "", ""},
    {"aten::add_", "Bg", 0, "B", "", ""},
    {"aten::add_", "pB", 0, "p", "", ""},
};

static const update_step adamw_loop[] = {
    {"aten::mul_", "p", 0, "p", "", ""},
    {"aten::lerp_", "Mg", 0, "M", "", ""},
    {"aten::mul_", "V", 0, "V", "", ""},
    {"aten::addcmul_", "Vg", 0, "V", "", ""},
    {"aten::sqrt", "V", 's', "", "", ""},
    {"aten::div", "s", 'd', "", "", "s"},
    {"aten::add_", "d", 0, "d", "d", ""},
    {"aten::addcdiv_", "pMd", 0, "p", "", ""},
};

static const update_step rmsprop_loop[] = {
    {"aten::mul_", "V", 0, "V", "", ""},
    {"aten::addcmul_", "Vg", 0, "V", "", ""},
    {"aten::sqrt", "V", 'd', "", "d", ""},
    {"aten::add_", "d", 0, "d", "", ""},
    {"aten::addcdiv_", "pgd", 0, "p", "", ""},
};

static const update_step adafactor_matrix[] = {
    {"aten::linalg_vector_norm", "p", 'n', "", "", "n"},
    {"aten::linalg_vector_norm", "g", 'r', "", "", ""},
    {"aten::pow_", "r", 0, "r", "", ""},
    {"aten::div_", "r", 0, "r", "r", ""},
    {"aten::lerp_", "Rr", 0, "R", "", ""},
    {"aten::linalg_vector_norm", "g", 'c', "", "", ""},
    {"aten::pow_", "c", 0, "c", "", ""},
    {"aten::div_", "c", 0, "c", "c", ""},
    {"aten::lerp_", "Cc", 0, "C", "", ""},
    {"aten::mm", "RC", 'u', "", "", ""},
    {"aten::mean", "R", 'o', "", "", ""},
    {"aten::clamp_", "o", 0, "o", "", ""},
    {"aten::div_", "uo", 0, "u", "", "o"},
    {"aten::clamp_", "u", 0, "u", "", ""},
    {"aten::rsqrt_", "u", 0, "u", "u", ""},
    {"aten::mul_", "ug", 0, "u", "", ""},
    {"aten::linalg_vector_norm", "u", 'n', "", "", "n"},
    {"aten::add_", "pu", 0, "p", "", ""},
};

static const update_step adafactor_vector[] = {
    {"aten::linalg_vector_norm", "p", 'n', "", "", "n"},
    {"aten::mul", "g", 'q', "", "q", ""},
    {"aten::lerp_", "Vq", 0, "V", "", ""},
    {"aten::clone", "V", 'u', "", "", ""},
    {"aten::clamp_", "u", 0, "u", "", ""},
    {"aten::rsqrt_", "u", 0, "u", "u", ""},
    {"aten::mul_", "ug", 0, "u", "", ""},
    {"aten::linalg_vector_norm", "u", 'n', "", "", "n"},
    {"aten::add_", "pu", 0, "p", "", ""},
};

/* ---- fused ------------------------------------------------------------------------------- */

static const update_step sgd_fused[] = {{"aten::_fused_sgd_", "pg", 0, "pg", "", ""}};
static const update_step momentum_fused[] = {{"aten::_fused_sgd_", "pgB", 0, "pgB", "", ""}};

static const update_step adam_fused[] = {
    {"aten::_foreach_add_", "K", 0, "K", "", ""},
    {"aten::_fused_adam_", "pgMVK", 0, "pgMV", "", ""},
};

static const update_step adamw_fused[] = {
    {"aten::_foreach_add_", "K", 0, "K", "", ""},
    {"aten::_fused_adamw_", "pgMVK", 0, "pgMV", "", ""},
};

static const update_step adam8bit[] = {
    {"bitsandbytes::optimizer_update_8bit_blockwise", "pgEFXY", 0, "pEFXY", "", ""},
};

/* ---- which ------------------------------------------------------------------------------- */

#define STEPS(states, table, together) {states, table, MR_COUNT(table), together}
#define NO_DECAY(table, together) {"MV", table + 1, MR_COUNT(table) - 1, together}

static const update_steps foreach_of[NAMES] = {
    [SGD] = STEPS("", sgd_foreach, true),
    [MOMENTUM] = STEPS("B", momentum_foreach, true),
    [ADAM] = NO_DECAY(adamw_foreach, true),
    [ADAMW] = STEPS("MV", adamw_foreach, true),
    [RMSPROP] = STEPS("V", rmsprop_foreach, true),
};

static const update_steps loop_of[NAMES] = {
    [SGD] = STEPS("", sgd_loop, false),
    [MOMENTUM] = STEPS("B", momentum_loop, false),
    [ADAM] = NO_DECAY(adamw_loop, false),
    [ADAMW] = STEPS("MV", adamw_loop, false),
    [RMSPROP] = STEPS("V", rmsprop_loop, false),
    [ADAFACTOR] = STEPS("RC", adafactor_matrix, false),
};

static const update_steps fused_of[NAMES] = {
    [SGD] = STEPS("", sgd_fused, true),
    [MOMENTUM] = STEPS("B", momentum_fused, true),
    [ADAM] = STEPS("MVK", adam_fused, true),
    [ADAMW] = STEPS("MVK", adamw_fused, true),
    [ADAM8BIT] = STEPS("EFXY", adam8bit, false),
};

static const update_steps vector_loop = STEPS("V", adafactor_vector, false);

/* Where nothing is said PyTorch takes foreach on a GPU, but for Adafactor. */
static update_form usual(uint64_t name)
{
    return name == ADAFACTOR ? UPDATE_LOOP : name == ADAM8BIT ? UPDATE_FUSED : UPDATE_FOREACH;
}

const update_steps *update_steps_of(uint64_t name, update_form form, bool matrix)
{
    if (form == UPDATE_DEFAULT) form = usual(name);
    if (name == ADAFACTOR && form == UPDATE_LOOP && !matrix) return &vector_loop;
    const update_steps *of = form == UPDATE_FOREACH ? foreach_of
                             : form == UPDATE_LOOP  ? loop_of
                                                    : fused_of;
    return of[name].n ? &of[name] : NULL;
}

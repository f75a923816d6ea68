/* et_node -- nodes in the layouts of schemas 1.0.x and 1.1.x. */
#include "et_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *text_of(const json_t *value)
{
    const char *text = json_string_value(value);
    return text ? text : "";
}

const char *et_name(const et_file *f, const et_node *node)
{
    return f->names.all.at[node->name].text;
}

static mr_status get_id(const et_file *f, const json_t *value, const char *key, uint64_t *out)
{
    *out = (uint64_t)json_integer_value(value);
    if (json_is_integer(value) && json_integer_value(value) >= 0) return MR_OK;
    return json_items_fail(&f->items, "the node has no '%s', expected a whole number", key);
}

/* ---- tensors ----------------------------------------------------------------------------- */

/* How the framework's C++ names types, and its Python. */
static const char *dtype_of(mr_ctx *ctx, const char *type)
{
    static const char *const kinds[][2] = {
        {"float", "float32"},      {"double", "float64"},         {"c10::Half", "float16"},
        {"long", "int64"},         {"c10::BFloat16", "bfloat16"}, {"int", "int32"},
        {"long int", "int64"},     {"unsigned char", "uint8"},    {"signed char", "int8"},
        {"short", "int16"},        {"short int", "int16"},        {"bool", "bool"},
        {"c10::complex<float>", "complex64"},
        {"c10::complex<double>", "complex128"},
    };
    static const char before[] = "Tensor(";
    if (!mr_begins(type, before)) return "";
    type += sizeof before - 1;
    const size_t n = strcspn(type, ")");
    for (size_t i = 0; i < MR_COUNT(kinds); i++)
        if (strlen(kinds[i][0]) == n && !strncmp(type, kinds[i][0], n)) return kinds[i][1];
    return mr_strndup(ctx, type, n);
}

static bool is_tensor(const json_t *value)
{
    if (json_array_size(value) < 6) return false;
    for (size_t i = 0; i < 5; i++)
        if (!json_is_integer(json_array_get(value, i))) return false;
    return json_is_string(json_array_get(value, 5));
}

static uint32_t device_of(const char *text)
{
    const char *colon = strchr(text, ':');
    if (mr_begins(text, "cpu") || !*text) return MR_PAGEABLE;
    const unsigned long number = colon ? strtoul(colon + 1, NULL, 10) : 0;
    return number < MR_PINNED ? (uint32_t)number : 0;
}

static void read_shape(mr_ctx *ctx, const json_t *shape, et_ref *ref)
{
    const uint32_t n = (uint32_t)json_array_size(shape);
    uint64_t *at = MR_NEW_N(ctx, uint64_t, n);
    for (uint32_t i = 0; i < n; i++) {
        const json_int_t extent = json_integer_value(json_array_get(shape, i));
        at[i] = extent > 0 ? (uint64_t)extent : 0;
    }
    ref->shape = at;
    ref->rank = n;
}

static mr_status read_tensor(et_file *f, const json_t *value, const json_t *shape,
                             const char *type, et_ref *ref)
{
    uint64_t *const numbers[] = {&ref->id, &ref->storage, &ref->offset, &ref->numbers,
                                 &ref->each};
    for (size_t i = 0; i < MR_COUNT(numbers); i++)
        MR_TRY(get_id(f, json_array_get(value, i), "value", numbers[i]));
    const uint64_t limit = (uint64_t)1 << 62, each = ref->each ? ref->each : 1;
    if (ref->offset > limit / each / 2 || ref->numbers > limit / each / 2)
        return json_items_fail(&f->items,
                               "a tensor of %" PRIu64 " numbers of %" PRIu64 " bytes behind"
                               " %" PRIu64 " others, expected less than 2^62 bytes",
                               ref->numbers, ref->each, ref->offset);
    ref->device = device_of(text_of(json_array_get(value, 5)));
    ref->dtype = dtype_of(f->ctx, type);
    read_shape(f->ctx, shape, ref);
    return MR_OK;
}

static size_t count_tensors(const json_t *value, unsigned depth)
{
    size_t n = 0;
    if (is_tensor(value)) return 1;
    if (depth < 4)
        for (size_t i = 0; i < json_array_size(value); i++)
            n += count_tensors(json_array_get(value, i), depth + 1);
    return n;
}

/* "GenericList[Tensor(float),Tensor(int)]": the text of element i, up to its end and beyond. */
static const char *type_of_element(const char *types, size_t i)
{
    const char *at = strchr(types, '[');
    if (!at || mr_begins(types, "Tensor(")) return "";
    unsigned depth = 0;
    for (at++; i && *at && *at != ']'; at++) {
        if (*at == '(' || *at == '<') depth++;
        if ((*at == ')' || *at == '>') && depth) depth--;
        if (*at == ',' && !depth) i--;
    }
    return i ? "" : at;
}

static mr_status add_tensors(et_file *f, const json_t *value, const json_t *shape,
                             const char *type, unsigned depth, uint32_t place, et_refs *refs)
{
    if (is_tensor(value)) {
        et_ref *ref = &refs->at[refs->n++];
        ref->place = place;
        return read_tensor(f, value, shape, type, ref);
    }
    if (depth < 4)
        for (size_t i = 0; i < json_array_size(value); i++)
            MR_TRY(add_tensors(f, json_array_get(value, i), json_array_get(shape, i),
                               type_of_element(type, i), depth + 1, place, refs));
    return MR_OK;
}

static mr_status read_tensors(et_file *f, const json_t *values, const json_t *shapes,
                              const json_t *types, et_refs *refs)
{
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(values); i++)
        n += count_tensors(json_array_get(values, i), 0);
    *refs = (et_refs){MR_NEW_N(f->ctx, et_ref, n), 0};
    for (size_t i = 0; i < json_array_size(values); i++)
        MR_TRY(add_tensors(f, json_array_get(values, i), json_array_get(shapes, i),
                           text_of(json_array_get(types, i)), 0, (uint32_t)i, refs));
    return MR_OK;
}

/* ---- nodes ------------------------------------------------------------------------------- */

/* Of schema 1.0 a field; later an element of "attrs". */
static const json_t *attribute(const json_t *node, const char *key)
{
    const json_t *attrs = json_object_get(node, "attrs");
    for (size_t i = 0; i < json_array_size(attrs); i++) {
        const json_t *attr = json_array_get(attrs, i);
        if (!strcmp(text_of(json_object_get(attr, "name")), key))
            return json_object_get(attr, "value");
    }
    return json_object_get(node, key);
}

static mr_status read_side(et_file *f, const char *side, const char *shapes, const char *types,
                           et_refs *refs)
{
    const json_t *node = f->items.item, *at = json_object_get(node, side);
    if (json_is_object(at))
        return read_tensors(f, json_object_get(at, "values"), json_object_get(at, "shapes"),
                            json_object_get(at, "types"), refs);
    return read_tensors(f, at, json_object_get(node, shapes), json_object_get(node, types),
                        refs);
}

static uint32_t name_of(et_file *f, const json_t *text)
{
    return mr_names_add(f->ctx, &f->names, text_of(text), strlen(text_of(text)));
}

mr_status et_node_read(et_file *f)
{
    const json_t *node = f->items.item, *parent = json_object_get(node, "parent");
    et_node n = {.up = MR_NONE, .sequence = UINT64_MAX};
    if (!json_is_object(node))
        return json_items_fail(&f->items, "a node is no object, expected one");
    MR_TRY(get_id(f, json_object_get(node, "id"), "id", &n.id));
    MR_TRY(get_id(f, parent ? parent : json_object_get(node, "ctrl_deps"),
                  parent ? "parent" : "ctrl_deps", &n.parent));
    const json_int_t sequence = json_integer_value(attribute(node, "seq_id"));
    if (json_is_integer(attribute(node, "seq_id")) && sequence >= 0)
        n.sequence = (uint64_t)sequence;
    n.name = name_of(f, json_object_get(node, "name"));
    n.schema = name_of(f, attribute(node, "op_schema"));
    MR_TRY(read_side(f, "inputs", "input_shapes", "input_types", &n.in));
    MR_TRY(read_side(f, "outputs", "output_shapes", "output_types", &n.out));
    MR_PUSH(f->ctx, &f->nodes, n);
    return MR_OK;
}

/* ---- questions to nodes ------------------------------------------------------------------ */

bool et_changes(const char *schema, uint32_t place)
{
    const char *at = strchr(schema, '(');
    unsigned depth = 0;
    bool changed = false;
    if (!at) return false;
    for (at++; *at; at++) {
        const bool ends = (*at == ',' || *at == ')') && !depth;
        if (*at == '*' && !depth && at[1] == ',') at++;
        else if (ends && !place) return changed;
        else if (*at == ')' && !depth) return false;
        else if (ends) place--, changed = false;
        else if (*at == '(' || *at == '[') depth++;
        else if (*at == ')' || *at == ']') depth--;
        else if (*at == '!') changed = true;
    }
    return false;
}

static bool share(const et_ref *a, const et_ref *b)
{
    return a->storage == b->storage && a->device == b->device;
}

bool et_lies_on_known(const et_node *node, uint32_t result)
{
    const et_ref *ref = &node->out.at[result];
    for (uint32_t i = 0; i < node->in.n; i++)
        if (share(&node->in.at[i], ref)) return true;
    for (uint32_t i = 0; i < result; i++)
        if (share(&node->out.at[i], ref)) return true;
    return false;
}

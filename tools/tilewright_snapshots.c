/* tilewright_snapshots.c: watches a compilation and keeps the graph after each pass that changed
 * it.
 *
 * An operation is known by its address, which never serves another one within a context. Its state
 * is a JSON object:
 *   {"i": number, "o": "conv", "n": value, "l": node of the model, "t": [types], "a": attributes,
 *    "in": [[number, result] or "text of a constant" …], "m": [{"o", "l", "t"} … of what is
 * inside]}
 */
#include "snapshots.h"

#include "base/arena.h"
#include "dialect/core/core.h"
#include "dialect/graph/graph.h"

#include <cjson/cJSON.h>
#include <string.h>

enum { MAX_ATTR = 300, MAX_MEMBERS = 64, MAX_TYPES = 16 };

/* ---- Texts ---- */

static const char *node_of(tw_loc loc)
{
    return loc && loc->node ? loc->node : "";
}

static const char *short_name(const tw_op *op)
{
    return tw_graph_kind_of(op) != TW_GRAPH_COUNT || tw_is_core(op, TW_CORE_RETURN)
               ? strchr(op->def->name, '.') + 1
               : op->def->name;
}

/* "1x64x56x56xf32" */
static const char *type_text(const tw_value *value)
{
    tw_context *ctx = value->op ? tw_op_context(value->op) : tw_op_context(value->region->parent);
    const char *text = tw_print_type(ctx, value->type);
    const char *open = strchr(text, '<');
    size_t len = strlen(text);
    return open && text[len - 1] == '>'
               ? tw_arena_printf(tw_context_arena(ctx), "%.*s",
                                 (int)(len - (size_t)(open - text)) - 2, open + 1)
               : text;
}

static const char *attrs_text(const tw_op *op)
{
    tw_context *ctx = tw_op_context(op);
    const char *text = "";
    for (unsigned i = 0; i < op->n_attrs; i++) {
        tw_attr attr = op->attrs[i].value;
        const char *name = op->attrs[i].name;
        const char *value = attr->kind == TW_ATTR_DENSE ? "dense" : tw_print_attr(ctx, attr);
        if (strcmp(name, "sym_name") != 0)
            text = tw_arena_printf(tw_context_arena(ctx), "%s%s%s = %.*s", text, *text ? ", " : "",
                                   name, MAX_ATTR, value);
    }
    return text;
}

/* ---- States ---- */

static size_t number_of(tw_snapshots *s, const void *thing)
{
    size_t id = (size_t)(uintptr_t)tw_map_get_ptr(&s->ids, thing);
    if (!id) {
        id = s->ids.len + 1;
        tw_map_put_ptr(&s->ids, thing, (void *)id);
    }
    return id - 1;
}

static cJSON *input_of(tw_snapshots *s, const tw_value *value)
{
    tw_context *ctx = s->ctx;
    if (tw_graph_constant_value(value))
        return cJSON_CreateString(tw_arena_printf(tw_context_arena(ctx), "constant %s %s",
                                                  value->name ? value->name : "",
                                                  type_text(value)));
    double ends[] = {(double)number_of(s, value->op ? (const void *)value->op : value),
                     value->op ? value->index : 0};
    return cJSON_CreateDoubleArray(ends, 2);
}

static void add_types(cJSON *to, const tw_op *op)
{
    cJSON *types = cJSON_AddArrayToObject(to, "t");
    for (unsigned i = 0; i < op->n_results && i < MAX_TYPES; i++)
        cJSON_AddItemToArray(types, cJSON_CreateString(type_text(&op->results[i])));
}

/* What is inside a group, a branch or a loop. */
static bool add_member(tw_op *op, void *data)
{
    cJSON *members = data;
    if (op->n_regions || tw_is_graph(op, TW_GRAPH_CONSTANT) ||
        op->def->traits & TW_TRAIT_TERMINATOR || cJSON_GetArraySize(members) >= MAX_MEMBERS)
        return true;
    cJSON *member = cJSON_CreateObject();
    cJSON_AddStringToObject(member, "o", short_name(op));
    cJSON_AddStringToObject(member, "l", node_of(op->loc));
    add_types(member, op);
    cJSON_AddItemToArray(members, member);
    return true;
}

static cJSON *state_of(tw_snapshots *s, tw_op *op)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "i", (double)number_of(s, op));
    cJSON_AddStringToObject(o, "o", short_name(op));
    cJSON_AddStringToObject(o, "n",
                            op->n_results && op->results[0].name ? op->results[0].name : "");
    cJSON_AddStringToObject(o, "l", node_of(op->loc));
    cJSON_AddStringToObject(o, "a", attrs_text(op));
    cJSON_AddStringToObject(o, "k", tw_op_string(op, "sym_name", ""));
    add_types(o, op);
    cJSON *inputs = cJSON_AddArrayToObject(o, "in");
    for (unsigned i = 0; i < op->n_operands; i++)
        cJSON_AddItemToArray(inputs, input_of(s, tw_operand(op, i)));
    if (op->n_regions)
        tw_walk(op, add_member, cJSON_AddArrayToObject(o, "m"));
    return o;
}

static cJSON *state_of_argument(tw_snapshots *s, const tw_value *arg)
{
    cJSON *o = cJSON_CreateObject();
    const char *type = type_text(arg);
    cJSON_AddNumberToObject(o, "i", (double)number_of(s, arg));
    cJSON_AddStringToObject(o, "o", "input");
    cJSON_AddStringToObject(o, "n", arg->name ? arg->name : "");
    cJSON_AddItemToObject(o, "t", cJSON_CreateStringArray(&type, 1));
    cJSON_AddArrayToObject(o, "in");
    return o;
}

/* The number of the state, which is a new one when it is unlike the thing's latest. */
static size_t keep_state(tw_snapshots *s, const void *thing, cJSON *state)
{
    size_t latest = (size_t)(uintptr_t)tw_map_get_ptr(&s->latest, thing);
    char *text = cJSON_PrintUnformatted(state);
    cJSON_Delete(state);
    if (!latest || strcmp(s->states.data[latest - 1], text) != 0) {
        tw_vec_push(tw_context_arena(s->ctx), &s->states,
                    tw_arena_printf(tw_context_arena(s->ctx), "%s", text));
        latest = s->states.len;
        tw_map_put_ptr(&s->latest, thing, (void *)latest);
    }
    cJSON_free(text);
    return latest - 1;
}

/* ---- Stages ---- */

static bool is_like(const tw_snapshot *a, const tw_snapshot *b)
{
    return a->states.len == b->states.len &&
           (!a->states.len ||
            !memcmp(a->states.data, b->states.data, a->states.len * sizeof *a->states.data));
}

static void keep_graph(tw_snapshots *s, const char *pass, tw_op *func)
{
    tw_arena *arena = tw_context_arena(s->ctx);
    const tw_region *body = tw_core_body(func);
    tw_snapshot stage = {.pass = pass};
    for (unsigned i = 0; i < body->n_args; i++)
        tw_vec_push(arena, &stage.states,
                    keep_state(s, body->args[i], state_of_argument(s, body->args[i])));
    for (tw_op *op = body->first; op; op = op->next)
        if (!tw_is_graph(op, TW_GRAPH_CONSTANT))
            tw_vec_push(arena, &stage.states, keep_state(s, op, state_of(s, op)));
    if (!s->stages.len || !is_like(&s->stages.data[s->stages.len - 1], &stage))
        tw_vec_push(arena, &s->stages, stage);
}

static bool keep_call(tw_op *op, void *data)
{
    enum { MOST = 1000 };
    tw_snapshots *s = data;
    tw_arena *arena = tw_context_arena(s->ctx);
    const char *types = "";
    if (!tw_is_core(op, TW_CORE_CALL))
        return true;
    for (unsigned i = 0; i < op->n_operands && strlen(types) < MOST; i++)
        types =
            tw_arena_printf(arena, "%s%s%s", types, i ? ", " : "", type_text(tw_operand(op, i)));
    tw_vec_push(arena, &s->calls,
                ((tw_snapshot_call){types, tw_arena_printf(arena, "%s", node_of(op->loc))}));
    return true;
}

/* @main, when the operation is it or holds it. */
static tw_op *main_of(tw_op *root)
{
    if (tw_is_core(root, TW_CORE_FUNC))
        return strcmp(tw_op_string(root, "sym_name", ""), "main") ? NULL : root;
    return tw_is_core(root, TW_CORE_MODULE) ? tw_core_lookup(root, "main") : NULL;
}

void tw_snapshots_observe(void *data, const tw_pass *pass, tw_op *root, bool after)
{
    tw_snapshots *s = data;
    tw_op *main = main_of(root);
    if (!s->ids.arena) {
        s->ids = tw_map_make(tw_context_arena(s->ctx));
        s->latest = tw_map_make(tw_context_arena(s->ctx));
    }
    if (!strcmp(pass->name, "lower-to-loops"))
        s->lowered = true;
    if (main && !s->lowered && (after || !s->stages.len))
        keep_graph(s, after ? pass->name : NULL, main);
    if (main && after && !strcmp(pass->name, "plan-memory")) {
        s->calls.len = 0;
        tw_walk(main, keep_call, s);
    }
}

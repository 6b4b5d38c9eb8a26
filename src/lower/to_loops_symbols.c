/* to_loops_symbols.c: the symbols that sizes are made of. */
#include "lower/to_loops_impl.h"

#include "base/vec.h"

typedef struct symbols {
    tw_arena *arena;
    tw_map seen;
    TW_VEC(tw_attr) names;
} symbols;

static void add_symbol(tw_context *ctx, symbols *s, const char *name)
{
    if (!tw_map_put_str(&s->seen, name, s))
        tw_vec_push(s->arena, &s->names, tw_attr_string(ctx, name));
}

/* The depth of expressions is bounded by construction. */
static void add_symbols_of(tw_context *ctx, symbols *s, tw_expr e)
{
    if (e->kind == TW_EXPR_SYM)
        add_symbol(ctx, s, e->symbol);
    if (!e->lhs)
        return;
    add_symbols_of(ctx, s, e->lhs);
    add_symbols_of(ctx, s, e->rhs);
}

void tw_to_loops_list_symbols(tw_context *ctx, tw_op *module)
{
    tw_arena *arena = tw_context_arena(ctx);
    symbols s = {.arena = arena, .seen = tw_map_make(arena)};
    tw_attr listed = tw_op_attr(module, "symbols");
    const tw_op *main = tw_core_lookup(module, "main");
    for (unsigned i = 0; main && i < main->regions[0].n_args; i++) {
        tw_type type = main->regions[0].args[i]->type;
        for (unsigned d = 0; d < type->rank; d++)
            add_symbols_of(ctx, &s, type->dims[d]);
    }
    if (tw_op_attr(module, "input_symbols"))
        tw_op_set_attr(module, "input_symbols", tw_attr_int(ctx, (int64_t)s.names.len));
    for (size_t i = 0; listed && i < listed->u.array.n; i++)
        add_symbol(ctx, &s, listed->u.array.items[i]->u.string.text);
    if (s.names.len)
        tw_op_set_attr(module, "symbols", tw_attr_array(ctx, s.names.data, s.names.len));
}

/* plugin.c: dialects and passes from shared objects. */
#include "ir/context_impl.h"

#include <dlfcn.h>
#include <string.h>

/* A name without a slash is a file here, not one to look for in the system's library path. */
static const char *file_path(tw_context *ctx, const char *path)
{
    return strchr(path, '/') ? path : tw_arena_printf(ctx->arena, "./%s", path);
}

bool tw_plugin_load(tw_context *ctx, const char *path)
{
    void *library = dlopen(file_path(ctx, path), RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return tw_error(ctx, NULL, "plugin '%s' cannot be loaded: %s", path, dlerror());
    void *symbol = dlsym(library, TW_PLUGIN_SYMBOL);
    if (!symbol) {
        dlclose(library);
        return tw_error(ctx, NULL, "'%s' is no plugin: it does not export '%s'", path,
                        TW_PLUGIN_SYMBOL);
    }
    tw_plugin_entry entry;
    memcpy(&entry, &symbol, sizeof entry); /* ISO C has no cast from object to function pointer */
    size_t errors = tw_error_count(ctx);
    if (entry(ctx, TW_PLUGIN_API))
        return true;
    if (tw_error_count(ctx) == errors)
        tw_error(ctx, NULL, "plugin '%s' refused to register with plugin interface %d", path,
                 TW_PLUGIN_API);
    return false;
}

/* routine_library.c: routines in libraries of their own, which are loaded when a model first calls
 * one: tw_rt_WORD_REST is looked for in libtilewright-WORD.so, a library that exports its routines
 * under their names. It is found as every library is, and beside this one. */
#include "runtime/routines.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

bool tw_routine_library(const char *name, char *library, size_t size)
{
    const char *word = name + strlen(TW_ROUTINE_PREFIX);
    size_t len = strcspn(word, "_");
    if (!len || !word[len] || strchr(word, '/'))
        return false;
    return (size_t)snprintf(library, size, "libtilewright-%.*s.so", (int)len, word) < size;
}

tw_abi_routine tw_routine_load(const char *name)
{
    char library[64];
    tw_abi_routine routine = NULL;
    if (!tw_routine_library(name, library, sizeof library))
        return NULL;
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    void *symbol = handle ? dlsym(handle, name) : NULL;
    memcpy(&routine, &symbol, sizeof routine);
    if (handle && !routine)
        dlclose(handle); /* otherwise it stays */
    return routine;
}

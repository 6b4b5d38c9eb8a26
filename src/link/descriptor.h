/* descriptor.h: the object that makes a compiled model of the code: its descriptor and the glue to
 * its host. */
#ifndef TW_LINK_DESCRIPTOR_H
#define TW_LINK_DESCRIPTOR_H

#include "base/map.h"
#include "link/artifact.h"

/* What the descriptor's object is to define. */
typedef struct tw_descriptor_spec {
    const tw_artifact *artifact;
    uint64_t id;
    /* Shared object: functions that the objects call and the host provides, in the order of
     * TW_IMPORTS. The object defines each as a jump through a slot. */
    const char *const *imports;
    size_t n_imports;
    /* Embedded object: NULL for the other form. The object defines PREFIX_model, PREFIX_run and
     * PREFIX_run_on, and refers to PREFIX_constants if there are constants. */
    const char *prefix;
} tw_descriptor_spec;

/* Emits it for artifact->model.target. False with a diagnostic. `object` is in the context's
 * memory. */
bool tw_descriptor_emit(tw_context *ctx, const tw_descriptor_spec *spec, tw_bytes *object);

/* Those of the names in the map that are in TW_IMPORTS, in its order; in the context's memory. */
const char *const *tw_import_names(tw_context *ctx, const tw_map *undefined, size_t *n);

#endif

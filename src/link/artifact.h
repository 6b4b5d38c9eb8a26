/* artifact.h: from objects and constants to the files that the compiler delivers. */
#ifndef TW_LINK_ARTIFACT_H
#define TW_LINK_ARTIFACT_H

#include "artifact/abi.h"
#include "link/link.h"

/* Takes the bytes of the constants section in order. */
typedef struct tw_sink tw_sink;

/* Appends bytes; zeros up to an offset from the section's start. False after a failure (full disk),
 * whose diagnostic is there: the caller just stops. */
bool tw_sink_write(tw_sink *sink, const void *bytes, uint64_t size);
bool tw_sink_pad(tw_sink *sink, uint64_t offset);
/* Bytes so far. */
uint64_t tw_sink_offset(const tw_sink *sink);

/* Symbols of the objects, per variant. */
typedef struct tw_artifact_code {
    const char *entry; /* a tw_abi_entry */
    const char *plan;  /* a tw_abi_plan; NULL when the model has no symbols */
} tw_artifact_code;

/* All of a compiled model. Nothing is kept after the call that gets it. */
typedef struct tw_artifact {
    /* As the runtime is to see it, save what the writer fills in: magic, version, size, id,
     * producer, imports, constants, and each variant's entry and plan. */
    tw_abi_model model;
    const tw_artifact_code *code; /* model.n_variants */
    const tw_bytes *objects;      /* ELF relocatable objects, position-independent */
    size_t n_objects;
    /* Writes model.constants_size bytes. Returns false when the sink does. May be NULL when there
     * are no constants. */
    bool (*constants)(void *data, tw_sink *sink);
    void *constants_data;
} tw_artifact;

/* Writes the compiled model (format: artifact/trailer.h) to `path`, which is replaced in one step,
 * or not touched on failure; or to an empty open file. Constants pass through in pieces; memory
 * used is that of the code. The same artifact gives the same bytes. False with a diagnostic. */
bool tw_artifact_write(tw_context *ctx, const tw_artifact *artifact, const char *path);
bool tw_artifact_write_fd(tw_context *ctx, const tw_artifact *artifact, int fd);

/* A nameless file to write a model to that is only to be run: in memory, or in TMPDIR when its
 * constants are large. -1 with a diagnostic. Load it with tw_model_load_fd. */
int tw_artifact_temporary(tw_context *ctx, uint64_t constants_size);

/* The embeddable form: one relocatable object whose global symbols are PREFIX_model,
 * PREFIX_run and PREFIX_run_on, and its C header. It holds the constants, and leaves C library
 * functions undefined. `prefix` must be a C identifier; one variant only. */
bool tw_artifact_write_object(tw_context *ctx, const tw_artifact *artifact, const char *prefix,
                              const char *path);
bool tw_artifact_write_header(tw_context *ctx, const tw_artifact *artifact, const char *prefix,
                              const char *path);
/* A C identifier from a file's name: "out/net-7b.o" gives "net_7b". */
const char *tw_artifact_prefix(tw_context *ctx, const char *name);

#endif

/* link_impl.h: what artifact.c and embed.c share. */
#ifndef TW_LINK_LINK_IMPL_H
#define TW_LINK_LINK_IMPL_H

#include "link/artifact.h"

#include <sys/types.h>

/* Writes a file by way of a temporary one beside it, which takes its place when all went well. */
bool tw_artifact_replace_file(tw_context *ctx, const char *path, mode_t mode,
                              bool (*write)(tw_context *ctx, void *data, int fd), void *data);

/* Passes the constants on; false with a diagnostic when they are not of the size announced. */
bool tw_artifact_stream_constants(const tw_artifact *artifact, tw_sink *sink);

/* All objects and the descriptor as one relocatable object, in the context's memory, which may be
 * changed. */
bool tw_artifact_link_object(tw_context *ctx, const tw_artifact *artifact, const char *prefix,
                             tw_bytes *object);

#endif

/* layout.c: where the axes of a tensor with channels are: the words behind a tensor type.
 *
 *   tensor<1x56x56x64xf32, NHWC>         tensor<1x4x56x56x16xf32, NCHW16c> */
#include "ir/context_impl.h"

#include <stdio.h>
#include <string.h>

tw_attr tw_layout_nhwc(tw_context *ctx)
{
    return tw_attr_string(ctx, "NHWC");
}

tw_attr tw_layout_nchwc(tw_context *ctx, int64_t block)
{
    char text[32];
    snprintf(text, sizeof text, "NCHW%lldc", (long long)block);
    return tw_attr_string(ctx, text);
}

/* The number of `NCHW16c`, without leading zeros; 0 for other words. */
static int64_t read_block(const char *text, size_t len)
{
    int64_t block = 0;
    if (len < 6 || len > 14 || memcmp(text, "NCHW", 4) != 0 || text[len - 1] != 'c' ||
        text[4] == '0')
        return 0;
    for (size_t i = 4; i + 1 < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return 0;
        block = block * 10 + (text[i] - '0');
    }
    return block;
}

tw_layout_kind tw_layout_read(tw_attr layout, int64_t *block)
{
    *block = 1;
    if (!layout)
        return TW_LAYOUT_PLAIN;
    if (layout->kind != TW_ATTR_STRING)
        return TW_LAYOUT_UNKNOWN;
    const char *text = layout->u.string.text;
    size_t len = layout->u.string.len;
    if (len == 4 && !memcmp(text, "NHWC", 4))
        return TW_LAYOUT_NHWC;
    int64_t n = read_block(text, len);
    *block = n ? n : 1;
    return n ? TW_LAYOUT_NCHWC : TW_LAYOUT_UNKNOWN;
}

tw_type tw_type_with_layout(tw_context *ctx, tw_type type, tw_attr layout)
{
    return tw_type_tensor(ctx, type->elem, type->rank, type->dims, layout);
}

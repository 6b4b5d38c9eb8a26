/* prim_storage_align.c: storage_align: rows of a buffer start at other places.
 *
 *     %S = loop.alloc : buffer<32x32xf32, "shared">
 * aligned along axis 0 by a factor of 32 with offset 1:
 *     %S = loop.alloc {storage_align = [0, 32, 1]} : buffer<32x32xf32, "shared">
 *
 * The wish stays on the allocation until compact-buffers has found the buffer's size; it then makes
 * axis 1 longer, here 33, so that the stride of axis 0 is as wished. Nothing touches the rest. */
#include "schedule/schedule_impl.h"

enum { MAX_FACTOR = 4096 };

bool tw_do_storage_align(const tw_step *step)
{
    tw_block_info b;
    if (!tw_step_block(step, step->operands[0], &b))
        return false;
    int64_t axis = tw_op_int(step->op, "axis", 0), factor = tw_op_int(step->op, "factor", 1),
            offset = tw_op_int(step->op, "offset", 0);
    tw_value *buffer = tw_step_own_written(step, &b);
    if (!buffer)
        return false;
    if (axis < 0 || axis + 1 >= (int64_t)buffer->type->rank)
        return tw_step_refuse(step, "%%%s of rank %u has no axis %lld with one behind it",
                              tw_buffer_name(buffer), buffer->type->rank, (long long)axis);
    if (factor < 1 || factor > MAX_FACTOR || offset < 0 || offset >= factor)
        return tw_step_refuse(
            step, "the factor is from 1 to %d, the offset from 0 to below the factor", MAX_FACTOR);
    tw_op_set_attr(buffer->op, "storage_align",
                   tw_attr_ints(step->ctx, (int64_t[]){axis, factor, offset}, 3));
    return true;
}

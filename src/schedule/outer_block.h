/* outer_block.h: a block in the place of a loop nest, for what moves as one piece from then on. */
#ifndef TW_SCHEDULE_OUTER_BLOCK_H
#define TW_SCHEDULE_OUTER_BLOCK_H

#include "schedule/schedule_impl.h"

/* A block with one iteration variable for each loop around it that it uses. */
typedef struct tw_outer_block {
    tw_op *block;
    tw_value *vars[TW_MAX_NEST]; /* its variables, by level of the loops; NULL: not used */
    tw_value *args[TW_MAX_ITERS];
    unsigned n;
} tw_outer_block;

/* Whether such a block can stand in the place of `loop`, whose nest is given, for the levels that
 * are `used`; else refuses. */
bool tw_outer_block_fits(const tw_step *step, const tw_op *loop, const tw_nest *nest,
                         const bool *used);
/* Makes it in front of the loop. `reduce`: levels of loops of a reduction. Its name is still to be
 * given. */
tw_outer_block tw_outer_block_make(const tw_step *step, tw_op *loop, const tw_nest *nest,
                                   const bool *used, const bool *reduce);

#endif

/* decode.h: state of decoding one kernel or function; private to src/interp. */
#ifndef TW_INTERP_DECODE_H
#define TW_INTERP_DECODE_H

#include "interp/machine.h"

typedef TW_VEC(tw_instr) tw_instr_vec;

typedef struct tw_decoder {
    tw_machine *m;
    tw_arena *arena;
    tw_map places;    /* tw_value -> tw_place */
    tw_map buffers;   /* tw_value -> tw_membuf */
    tw_map constants; /* tw_slot -> slot number + 1 */
    tw_map computed;  /* region and index operation -> tw_place */
    TW_VEC(tw_slot) slots;
    uint64_t region, regions; /* number of the region being decoded, and of the last one */
    unsigned depth;
    tw_program *program;
} tw_decoder;

/* Appends the instructions of one operation. */
void tw_decode_op(tw_decoder *d, tw_instr_vec *out, const tw_op *op);
tw_code tw_decode_region(tw_decoder *d, const tw_region *region);

/* Appends an instruction with fresh slots for its result; valid until the next one. */
tw_instr *tw_decode_emit(tw_decoder *d, tw_instr_vec *out, tw_exec run, const tw_op *op,
                         uint32_t lanes);
/* Instructions for a map over the operands from `first` on: one place per expression. */
const tw_place *tw_decode_map(tw_decoder *d, tw_instr_vec *out, const tw_op *op, tw_attr map,
                              unsigned first, unsigned *n);
tw_place tw_decode_const(tw_decoder *d, tw_slot value);
/* Where a value lies; defining one that lies in given or in fresh slots. */
tw_place tw_decode_place(tw_decoder *d, const tw_op *user, const tw_value *value);
void tw_decode_define(tw_decoder *d, const tw_value *value, uint32_t slot);
uint32_t tw_decode_variable(tw_decoder *d, const tw_value *value);

/* Calls a routine when it is decoded, which is when its turn comes (routine.c). */
void tw_decode_routine(tw_decoder *d, const tw_op *op);

tw_membuf *tw_decode_buffer(tw_decoder *d, const tw_op *user, const tw_value *value);
/* A descriptor without memory. */
tw_membuf *tw_decode_new_buffer(tw_decoder *d, const tw_op *op, const tw_value *value);

#endif

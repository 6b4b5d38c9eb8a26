/* schedule.h: what the compiler registers for schedules; the steps are tilewright/schedule.h. */
#ifndef TW_SCHEDULE_SCHEDULE_H
#define TW_SCHEDULE_SCHEDULE_H

#include "tilewright/schedule.h"

/* Registers the sched dialect and the passes apply-schedule and compact-buffers. */
bool tw_schedule_register(tw_context *ctx);

extern const tw_pass tw_pass_apply_schedule;
extern const tw_pass tw_pass_compact_buffers;

#endif

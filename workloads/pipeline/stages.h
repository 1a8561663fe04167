/* The work of each stage on one item; `transform` is the heavy one. */
#ifndef STAGES_H
#define STAGES_H
unsigned long stage_read(unsigned long item);
unsigned long stage_transform(unsigned long item);
unsigned long stage_check(unsigned long item);
unsigned long stage_store(unsigned long item);
#endif

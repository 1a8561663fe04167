/* Functions that call back, for unwinding and jumping out of a foreign frame. */
#ifndef CALLBACKS_H
#define CALLBACKS_H
#ifdef __cplusplus
extern "C" {
#endif
int call_back(int (*function)(int), int argument);
int call_back_deep(int (*function)(int), int argument, int depth);
int call_back_other(int (*function)(int), int argument); /* in a second library, which calls the first */
int plain(int x);
#ifdef __cplusplus
}
#endif
#endif

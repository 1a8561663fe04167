/* Loaded and unloaded many times; constructor and destructor cross the boundary. */
#include "callbacks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
extern int plugin_events;
static char *memory;
__attribute__((constructor)) static void start(void) {
    memory = strdup("plugin");
    plugin_events += plain(0);
}
__attribute__((destructor)) static void stop(void) {
    plugin_events += 100 * plain(0);
    free(memory);
}
int plugin_work(int x) { return call_back(plain, x) + (int)strlen(memory); }

/* As Go names its functions: they look for the return address of their caller. */
void *caller_of(void) __asm__("pl.Caller");
__attribute__((noinline)) void *caller_of(void) { return __builtin_return_address(0); }

/* Constructors and destructors with priorities, atexit handlers of a library. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void say(const char *text) {
    char line[100];
    int n = snprintf(line, sizeof line, "%s\n", text);
    if (write(1, line, (size_t)n) < 0) abort();
}
__attribute__((constructor(101))) static void early(void) { say("library constructor 101"); }
__attribute__((constructor(202))) static void later(void) { say("library constructor 202"); }
__attribute__((destructor(101))) static void last(void) { say("library destructor 101"); }
__attribute__((destructor(202))) static void first(void) { say("library destructor 202"); }
static void at_end(void) { say("library atexit"); }
__attribute__((constructor)) static void plainly(void) { say("library constructor"); atexit(at_end); }
int library_value(int x) { return (int)strlen("library") + x; }

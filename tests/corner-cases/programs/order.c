/* Order of constructors, destructors, atexit, on_exit, pre-initialisers and buffered output. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int library_value(int x);
static void say(const char *text) {
    char line[100];
    int n = snprintf(line, sizeof line, "%s %d\n", text, library_value(1));
    if (write(1, line, (size_t)n) < 0) abort();
}
static void before_all(void) { if (write(1, "preinit\n", 8) < 0) abort(); }
__attribute__((section(".preinit_array"), used)) static void (*preinit)(void) = before_all;
__attribute__((constructor(150))) static void early(void) { say("constructor 150"); }
__attribute__((constructor)) static void normal(int argc, char **argv, char **envp) {
    char text[60];
    snprintf(text, sizeof text, "constructor, %d arguments, environment %d", argc, argv[0] && envp[0] != 0);
    say(text);
}
__attribute__((destructor)) static void leave(void) { say("destructor"); }
static void third(void) { say("atexit third"); }
static void second(void) { say("atexit second"); atexit(third); }
static void with_status(int status, void *argument) {
    char text[60];
    snprintf(text, sizeof text, "on_exit %d %s", status, (char *)argument);
    say(text);
}
int main(int argc, char **argv) {
    atexit(second);
    on_exit(with_status, "argument");
    say("main");
    printf("buffered until exit");
    if (argc > 1) {
        if (!strcmp(argv[1], "_exit")) _exit(9);
        if (!strcmp(argv[1], "quick")) quick_exit(8);
        if (!strcmp(argv[1], "abort")) abort();
    }
    exit(7);
}

/* backtrace(3) and _Unwind_Backtrace from inside a callee: the same functions as without the profiler. */
#define _GNU_SOURCE
#include "../libraries/callbacks.h"
#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>
static int mine;
static _Unwind_Reason_Code each(struct _Unwind_Context *context, void *argument) {
    char *names = argument;
    Dl_info info;
    void *pc = (void *)_Unwind_GetIP(context);
    /* Names of the frames that belong to the program and its own libraries; frames of others are not compared. */
    if (dladdr(pc, &info) && info.dli_sname && strlen(names) < 3000) strcat(names, info.dli_sname), strcat(names, " ");
    mine++;
    return _URC_NO_REASON;
}
int leaf(int x) {
    static char names[4096];
    names[0] = 0;
    _Unwind_Backtrace(each, names);
    for (char *name = strtok(names, " "); name; name = strtok(0, " "))
        if (strstr(name, "call_back") || strstr(name, "leaf") || strstr(name, "middle") || strstr(name, "main")) printf("%s ", name);
    printf("\n");
    void *frames[64];
    int n = backtrace(frames, 64);
    printf("deep enough %d\n", n >= 5);
    return x;
}
int middle(int x) { return call_back_other(leaf, x) + 1; }
int main(void) {
    for (int i = 0; i < 3; i++) printf("%d\n", call_back_other(middle, i));
    return 0;
}

/* dlopen and dlclose in loops, with constructors that call APIs; also from two threads at once. */
#define _GNU_SOURCE
#include "../libraries/callbacks.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int plugin_events;
static char path[4096];
static void *loader(void *argument) {
    long *good = argument;
    for (int i = 0; i < 100; i++) {
        void *handle = dlopen("libm.so.6", RTLD_LAZY);
        double (*cosine)(double) = (double (*)(double))dlsym(handle, "cos");
        *good += cosine(0) == 1;
        void *missing = dlopen("libnothing.so.77", RTLD_NOW);
        *good += missing == 0 && dlerror() != 0;
        dlclose(handle);
    }
    return 0;
}
int main(int argc, char **argv) {
    (void)argc;
    strcpy(path, argv[0]);
    strcpy(strrchr(path, '/') + 1, "libplugin.so");
    long sum = 0;
    for (int i = 0; i < 500; i++) {
        void *handle = dlopen(path, i % 2 ? RTLD_NOW : RTLD_LAZY | RTLD_GLOBAL);
        if (!handle) { puts(dlerror()); return 1; }
        int (*work)(int) = (int (*)(int))dlsym(handle, "plugin_work");
        for (int k = 0; k < 10; k++) sum += work(k);
        if (dlsym(handle, "no_such_name")) puts("found nothing?");
        if (i % 3 == 0) {
            void *second = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
            if (second != handle) puts("second handle differs");
            dlclose(second);
        }
        dlclose(handle);
    }
    printf("%ld %d\n", sum, plugin_events);
    void *again = dlopen(path, RTLD_NOW);
    void *(*caller)(void) = (void *(*)(void))dlsym(again, "pl.Caller");
    Dl_info caller_info;
    printf("called by the program: %d\n", dladdr(caller(), &caller_info) && strstr(caller_info.dli_fname, "dynamic-loading") != 0);
    pthread_t threads[2];
    long good[2] = {0, 0};
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, loader, &good[i]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    printf("%ld %ld\n", good[0], good[1]);
    void *space = dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
    printf("new namespace without the program's symbols: %s\n", space ? "loaded" : "refused");
    return 0;
}

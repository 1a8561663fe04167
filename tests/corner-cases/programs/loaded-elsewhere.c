/* A library that holds a function's address is unloaded and loaded again at another place, for something unreadable is
   where it was; then functions are asked for by name. */
#define _GNU_SOURCE
#include "../libraries/callbacks.h"
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
int plugin_events;
int main(int argc, char **argv) {
    (void)argc;
    static char path[4096];
    strcpy(path, argv[0]);
    strcpy(strrchr(path, '/') + 1, "libplugin.so");
    int moved = 0, sum = 0;
    size_t before = 0;
    for (int i = 0; i < 20; i++) {
        void *handle = dlopen(path, RTLD_NOW);
        if (!handle) { puts(dlerror()); return 1; }
        int (*work)(int) = (int (*)(int))dlsym(handle, "plugin_work");
        void *libm = dlopen("libm.so.6", RTLD_NOW);
        double (*cosine)(double) = (double (*)(double))dlsym(libm, "cos");
        sum += work(i) + (int)cosine(0);
        struct link_map *map = (struct link_map *)handle;
        size_t at = map->l_addr;
        moved += at != before;
        before = at;
        dlclose(libm);
        dlclose(handle);
        mmap((void *)at, 1 << 14, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    }
    printf("%d, loaded at %d places\n", sum, moved);
    return 0;
}

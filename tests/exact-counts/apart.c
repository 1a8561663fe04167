// Loads a library into a namespace of its own (dlmopen), and calls it; "closed" also closes it, and loads it once more.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
    int (*called)(int);
    for (int i = 0; i < 2; i++) {
        void *library = dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW);
        if (!library) return fprintf(stderr, "%s\n", dlerror()), 1;
        *(void **)&called = dlsym(library, "sums");
        printf("%d\n", called(1000));
        if (argc > 2 && !strcmp(argv[2], "closed")) dlclose(library);
        else return 0;
    }
    return 0;
}

/* Calls and pointers of each symbol kind. Built as PIE, non-PIE, -fno-plt, -z now and -z lazy. */
#define _GNU_SOURCE
#include "../libraries/symbols.h"
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef UNRESOLVABLE
int nobody_defines_this(int x); /* linked with --unresolved-symbols=ignore-all and never called */
#endif
__asm__(".symver old_versioned, versioned@V1");
int old_versioned(int x);
int weak_definition(int x) { return x + 400; }
int interposed(int x) { return ((Operation)dlsym(RTLD_NEXT, "interposed"))(x) + 1; }

static const Operation static_table[] = {plain_symbol, chosen, present_weak, abs};
static volatile Operation stored;
int main(int argc, char **argv) {
    (void)argc, (void)argv;
    for (int round = 0; round < 3; round++) {
        printf("%d %d %d %d\n", chosen(5), versioned(5), old_versioned(5), present_weak(5));
        printf("%d %d %d %d\n", weak_definition(5), call_weak_definition(5), protected_function(5), plain_symbol(5));
        printf("%d %d\n", interposed(5), call_interposed(5));
        printf("absent: %d\n", absent ? absent(1) : -1);
#ifdef UNRESOLVABLE
        if (argc > 50) printf("%d\n", nobody_defines_this(1));
#endif
        stored = plain_symbol;
        printf("same pointers: %d %d %d %d\n", pointer_to_plain_symbol() == plain_symbol, stored == table_of_operations[0],
               static_table[0] == plain_symbol, chosen == static_table[1]);
        printf("dlsym: %d %d %d %d\n", dlsym(RTLD_DEFAULT, "plain_symbol") == (void *)plain_symbol,
               dlsym(RTLD_DEFAULT, "plain_symbol") == (void *)pointer_to_plain_symbol(),
               dlsym(RTLD_DEFAULT, "malloc") == (void *)malloc, dlsym(RTLD_NEXT, "strlen") == (void *)strlen);
        void *handle = dlopen(0, RTLD_LAZY);
        printf("handle of the program: %d %d\n", dlsym(handle, "plain_symbol") == (void *)plain_symbol, dlsym(handle, "nothing") == 0);
        dlclose(handle);
        handle = dlopen("libsymbols.so", RTLD_NOW | RTLD_NOLOAD);
        void *by_handle = handle ? dlsym(handle, "plain_symbol") : 0;
        printf("handle of the library: %d, twice %d, called %d\n", by_handle == (void *)pointer_to_plain_symbol(),
               handle && by_handle == dlsym(handle, "plain_symbol"), by_handle ? ((Operation)by_handle)(1) : -1);
        if (handle) {
            Operation first = (Operation)dlvsym(handle, "versioned", "V1"), second = (Operation)dlvsym(handle, "versioned", "V2");
            printf("dlvsym: %d %d %d\n", first ? first(5) : -1, second ? second(5) : -1, dlvsym(handle, "versioned", "V3") == 0);
            int *data = dlsym(handle, "shared_data");
            printf("data: %d %d\n", data ? *data : -1, data == &shared_data);
            Dl_info info;
            if (dladdr(by_handle, &info)) printf("dladdr: %s\n", info.dli_sname);
            dlclose(handle);
        }
        printf("through: %d %d %d %d\n", call_through(plain_symbol, 1), call_through(stored, 1), call_through(chosen, 1),
               call_through(abs, -9));
        double (*sine)(double) = sin;
        printf("libm: %g %d\n", sine(0.5), sine == (double (*)(double))dlsym(RTLD_DEFAULT, "sin"));
        shared_data += 1;
        printf("%d %d\n", shared_data, static_table[3](-4));
    }
    return 0;
}

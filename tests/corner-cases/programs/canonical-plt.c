/* Non-PIE: the address of a library function is this program's own PLT entry, everywhere in the process. */
#include "../libraries/symbols.h"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(void) {
    Operation mine = plain_symbol;
    printf("%d %d %d\n", mine == pointer_to_plain_symbol(), mine == table_of_operations[0], mine(4));
    printf("%d\n", call_through(mine, 4) + call_through(plain_symbol, 4) + plain_symbol(4));
    size_t (*length)(const char *) = strlen;
    printf("%zu %d\n", length("four"), (void *)length == dlsym(RTLD_DEFAULT, "strlen"));
    void (*sorter)(void *, size_t, size_t, int (*)(const void *, const void *)) = qsort;
    int v[] = {4, 2, 3, 1};
    sorter(v, 4, sizeof(int), compare);
    printf("%d%d%d%d\n", v[0], v[1], v[2], v[3]);
    return 0;
}

/* The loader's caller-sensitive functions, and dl_iterate_phdr, see the program's objects. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <gnu/lib-names.h>
static int count(struct dl_phdr_info *info, size_t size, void *argument) {
    (void)size;
    const char *name = strrchr(info->dlpi_name, '/');
    name = name ? name + 1 : info->dlpi_name;
    if (strstr(name, "transect")) return 0;
    ++*(int *)argument;
    return 0;
}
int main(void) {
    int n = 0;
    dl_iterate_phdr(count, &n);
    printf("objects %d\n", n);
    printf("%d\n", dlopen(LIBM_SO, RTLD_NOW) != 0);
    dl_iterate_phdr(count, &n);
    printf("objects %d\n", n);
    Dl_info info;
    int found = dladdr((void *)main, &info);
    printf("%d %s\n", found != 0, strrchr(info.dli_fname, '/'));
    struct link_map *map;
    void *self = dlopen(0, RTLD_NOW);
    printf("%d\n", dlinfo(self, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] == 0);
    return 0;
}

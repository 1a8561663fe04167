/* Statically linked: there is no boundary to see; recording it is refused with a clear message. */
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
    printf("static %d\n", strlen(argv[argc - 1]) > 0);
    return 21;
}

// A computed goto with a label that is several times in its table: says which labels were reached.
#include <stdio.h>

__attribute__((annotate("feature_variable:option"))) static int option;

__attribute__((noinline)) static void choose(void) {
    static void *const table[] = {&&fast, &&slow, &&slow};
    goto *table[option];
fast:
    printf("fast ");
    goto done;
slow:
    printf("slow ");
done:
    printf("done\n");
}

int main(void) {
    for (option = 0; option < 3; option++)
        choose();
    return 0;
}

// Uses library.c.
#include "truth.h"
#include <stdlib.h>

extern int library_fast;
void library_work(int times);
static int loud;

int main(int argc, char **argv) {
    library_fast = argc > 1 && atoi(argv[1]);
    loud = argc > 2 && atoi(argv[2]);
    library_work(40);
    if (loud) { // region 2 {loud}
        ENTERED(2);
        usleep(0);
    }
    say_truth();
    return 0;
}

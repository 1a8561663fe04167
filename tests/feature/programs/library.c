// Built as a shared object: its regions are its own.
#include "truth.h"
#include <stdlib.h>

long entered[16];
int library_fast;

void library_work(int times) {
    for (int i = 0; i < times; i++) {
        if (library_fast) { // region 1 {library_fast}
            ENTERED(1);
            usleep(0);
        }
    }
}

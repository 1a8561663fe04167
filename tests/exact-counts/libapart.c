// What is called in another namespace calls its own libc.
#include <stdlib.h>
int sums(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) sum += abs(atoi("3") - i) % 7;
    return sum;
}

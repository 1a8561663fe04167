/* Calls into a library whose code lies in two segments. */
#include <stdio.h>
int near_by(int x);
int far_away(int x);
extern int changes;
int main(void) {
    long sum = 0;
    for (int i = 0; i < 1000; i++) sum += near_by(i) + far_away(i);
    printf("%ld %d\n", sum, changes);
    return 0;
}

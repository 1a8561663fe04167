// Two readers hold the read lock of the settings nearly always, in turns, so that main hardly ever gets to write.
#include "hclock.h"
#include <pthread.h>
static pthread_rwlock_t settings_lock = PTHREAD_RWLOCK_INITIALIZER;
static volatile int done; static uint64_t settings[64], sums[2]; static long updates = 60;
static void pause_us(long us) { struct timespec t = {0, us * 1000}; nanosleep(&t, NULL); }
__attribute__((noinline)) static void scan_settings(int who) {
    pthread_rwlock_rdlock(&settings_lock); // HERE
    for (int r = 0; r < 60000; r++)
        sums[who] = mixed(sums[who] + settings[r & 63]); // HERE
    pause_us(3000); // waits for a device with the lock held // HERE
    pthread_rwlock_unlock(&settings_lock); // HERE
}
static void *reader(void *p) { while (!done) { scan_settings((int)(intptr_t)p); pause_us(200 + 150 * (intptr_t)p); } return NULL; }
__attribute__((noinline)) static void change_settings(long i) {
    IN;
    pthread_rwlock_wrlock(&settings_lock); // HERE
    settings[i & 63] += i;
    pthread_rwlock_unlock(&settings_lock);
    OUT;
}
int main(int argc, char **argv) {
    CLOCK_INIT;
    if (argc > 1) updates = atol(argv[1]);
    pthread_t t[2];
    for (intptr_t i = 0; i < 2; i++) pthread_create(&t[i], NULL, reader, (void *)i);
    uint64_t x = 1;
    for (long i = 0; i < updates; i++) { for (int k = 0; k < 300000; k++) x = mixed(x); change_settings(i); }
    done = 1;
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    printf("%d\n", (int)((sums[0] + x) & 7)); CLOCK_SAY;
}

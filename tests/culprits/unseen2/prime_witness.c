// Tests for primes with products of 128 bits, whose remainder a slow function of the compiler's library works out.
#include "../own_clock.h"
#include <pthread.h>

static pthread_mutex_t count_lock = PTHREAD_MUTEX_INITIALIZER;
static long counted;

__attribute__((noinline)) static uint64_t product(uint64_t a, uint64_t b, uint64_t of) {
    return (uint64_t)((unsigned __int128)a * b % of); // culprit
}

__attribute__((noinline)) static int may_be_prime(uint64_t number) {
    uint64_t power = number - 1, result = 1, base = 2;
    for (; power; power >>= 1) {
        if (power & 1)
            result = product(result, base, number); // culprit
        base = product(base, base, number); // culprit
    }
    return result == 1;
}

__attribute__((noinline)) static int small_factor(uint64_t number) {
    return number % 3 == 0 || number % 5 == 0 || number % 7 == 0;
}

// The lock is taken often, but nobody else ever wants it.
__attribute__((noinline)) static void count_number(void) {
    pthread_mutex_lock(&count_lock);
    counted++;
    pthread_mutex_unlock(&count_lock);
}

int main(int argc, char **argv) {
    long numbers = amount(argc, argv, 4000000);
    double begin = seconds(), testing = 0, sum = 0;
    for (long i = 0; i < numbers; i++) {
        uint64_t number = scrambled((uint64_t)i) | 1;
        count_number();
        if (small_factor(number))
            continue;
        double start = seconds();
        sum += may_be_prime(number);
        testing += seconds() - start;
    }
    return tell(testing, begin, sum);
}

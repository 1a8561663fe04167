// Looks up the owner's name of each file, for which the C library reads the file of users each time.
#include "../own_clock.h"
#include <pwd.h>

__attribute__((noinline)) static size_t owner_of(uid_t user) {
    struct passwd *entry = getpwuid(user); // culprit
    return entry ? strlen(entry->pw_name) : 0;
}

__attribute__((noinline)) static uint64_t size_of(uint64_t file) {
    for (int i = 0; i < 100; i++)
        file = scrambled(file);
    return file % 4096;
}

int main(int argc, char **argv) {
    long files = amount(argc, argv, 400000);
    double begin = seconds(), looking = 0, sum = 0;
    for (long i = 0; i < files; i++) {
        sum += (double)size_of((uint64_t)i);
        double start = seconds();
        sum += (double)owner_of(0);
        looking += seconds() - start;
    }
    return tell(looking, begin, sum);
}

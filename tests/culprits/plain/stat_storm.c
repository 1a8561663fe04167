// Looks for headers in many folders that do not have them, one stat each.
#include "../own_clock.h"
#include <sys/stat.h>

enum { FOLDERS = 150 };
static char folders[FOLDERS][64];
static double looking;

static void make_search_path(void) {
    for (int i = 0; i < FOLDERS - 1; i++)
        snprintf(folders[i], sizeof folders[i], "/usr/include/absent-%d/include", i);
    snprintf(folders[FOLDERS - 1], sizeof folders[0], "/etc");
}

static int in_folder(const char *folder, const char *name) {
    char path[256];
    size_t length = strlen(folder);
    struct stat status;
    memcpy(path, folder, length);
    path[length] = '/';
    strcpy(path + length + 1, name);
    return stat(path, &status) == 0; // culprit
}

__attribute__((noinline)) static int find_header(const char *name) {
    for (int i = 0; i < FOLDERS; i++)
        if (in_folder(folders[i], name)) // culprit
            return i;
    return -1;
}

static uint64_t scan_header(const char *name, int folder) {
    uint64_t state = (uint64_t)folder + (unsigned char)name[0];
    for (int i = 0; i < 10000; i++)
        state = scrambled(state + 1);
    return state;
}

int main(int argc, char **argv) {
    static const char *names[] = {"passwd", "hostname", "missing.h", "group"};
    long headers = amount(argc, argv, 10000);
    double begin = seconds(), sum = 0;
    make_search_path();
    for (long i = 0; i < headers; i++) {
        double start = seconds();
        int folder = find_header(names[i % 4]);
        looking += seconds() - start;
        sum += (double)(scan_header(names[i % 4], folder) % 1000);
    }
    return tell(looking, begin, sum);
}

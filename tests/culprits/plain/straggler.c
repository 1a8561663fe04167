// Packs files by one thread each. One of them is a film and takes much longer; all others are joined at once.
#include "../own_clock.h"
#include <pthread.h>

struct file {
    const char *name;
    long blocks;
    uint64_t packed;
    pthread_t thread;
};
static struct file files[] = {{"letter", 2, 0, 0}, {"notes", 3, 0, 0}, {"film", 0, 0, 0}, {"table", 2, 0, 0}};
enum { FILES = sizeof files / sizeof files[0] };
static double in_film;

__attribute__((noinline)) static uint64_t pack_text(long blocks) {
    uint64_t state = 1;
    for (long i = 0; i < blocks * 1000000; i++)
        state = scrambled(state + 1);
    return state;
}

__attribute__((noinline)) static uint64_t pack_film(long blocks) {
    uint64_t state = 2;
    for (long i = 0; i < blocks * 1000000; i++)
        state = scrambled(state ^ (uint64_t)i); // culprit
    return state;
}

static void *packer(void *argument) {
    struct file *file = argument;
    if (strcmp(file->name, "film") == 0) {
        double start = seconds();
        file->packed = pack_film(file->blocks);
        in_film = seconds() - start;
    } else {
        file->packed = pack_text(file->blocks);
    }
    return NULL;
}

int main(int argc, char **argv) {
    files[2].blocks = amount(argc, argv, 550);
    double begin = seconds(), sum = 0;
    for (int i = 0; i < FILES; i++)
        pthread_create(&files[i].thread, NULL, packer, &files[i]);
    for (int i = 0; i < FILES; i++) {
        pthread_join(files[i].thread, NULL);
        sum += (double)(files[i].packed % 100);
    }
    return tell(in_film, begin, sum);
}

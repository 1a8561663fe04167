// Two threads publish files by rename; a third lists the directory, of many thousand files, again and again to see what
// is new, and the kernel holds the directory's lock meanwhile. Fix: it lists fifty times less often.
// The directory is made before, by a run of its own: --prepare FOLDER, then --spool FOLDER.
#include "truth.h"
#include "work.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { PUBLISHERS = 2, FILES = 100, OLD_FILES = 20000 };
static const char *spool;
static atomic_int left = PUBLISHERS;

__attribute__((noinline)) static long list_spool(char *buffer, size_t size) {
    int directory = open(spool, O_RDONLY | O_DIRECTORY);
    long all = 0, got;
    while ((got = syscall(SYS_getdents64, directory, buffer, size)) > 0)
        all += got;
    close(directory);
    return all;
}

static void *watch(void *fixed) {
    truth_name("watcher");
    size_t size = 8 << 20;
    char *buffer = malloc(size);
    for (int i = 0; atomic_load(&left) > 0; i++) {
        if (!*(int *)fixed || i % 50 == 0)
            list_spool(buffer, size);
        usleep(500);
    }
    free(buffer);
    truth_note();
    return NULL;
}

__attribute__((noinline)) static void publish(const char *draft, const char *final) {
    if (rename(draft, final))
        perror("rename"), exit(1);
}

static void *produce(void *argument) {
    int number = (int)(intptr_t)argument;
    char name[16], draft[256], final[256];
    snprintf(name, sizeof name, "publisher-%d", number);
    truth_name(name);
    snprintf(draft, sizeof draft, "%s/draft-%d", spool, number);
    close(open(draft, O_CREAT | O_WRONLY, 0600));
    for (int i = 0; i < FILES; i++) {
        mixed(i, MILLISECOND);
        snprintf(final, sizeof final, "%s/final-%d-%d", spool, number, i);
        publish(draft, final);
        strcpy(draft, final);
    }
    unlink(draft);
    atomic_fetch_sub(&left, 1);
    truth_note();
    return NULL;
}

int main(int argc, char **argv) {
    const char *prepare = truth_option(argc, argv, "--prepare", NULL);
    spool = truth_option(argc, argv, "--spool", prepare);
    if (!spool)
        return fprintf(stderr, "--prepare FOLDER, then --spool FOLDER\n"), 1;
    if (prepare) {
        mkdir(spool, 0700);
        for (int i = 0; i < OLD_FILES; i++) {
            char path[256];
            snprintf(path, sizeof path, "%s/published-before-%d", spool, i);
            close(open(path, O_CREAT | O_WRONLY, 0600));
        }
        return 0;
    }
    int fixed = truth_begin(argc, argv);
    pthread_t watcher, publishers[PUBLISHERS];
    pthread_create(&watcher, NULL, watch, &fixed);
    for (int i = 0; i < PUBLISHERS; i++)
        pthread_create(&publishers[i], NULL, produce, (void *)(intptr_t)i);
    for (int i = 0; i < PUBLISHERS; i++)
        pthread_join(publishers[i], NULL);
    pthread_join(watcher, NULL);
    truth_print("kernel-lock", "list_spool", "", "watcher", -1);
}

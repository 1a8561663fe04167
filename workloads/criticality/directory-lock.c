// Six threads publish files by rename into one directory, whose changes go to the disk at once (dirsync): the kernel
// holds the directory's lock meanwhile. Fix: a directory for each, changes written when convenient.
#include "truth.h"
#include "work.h"
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

enum { THREADS = 6, FILES = 1200 };
static char folder[200];
static int fixed;

__attribute__((noinline)) static void publish(const char *draft, const char *final) {
    if (rename(draft, final))
        perror("rename"), exit(1);
}

static void *produce(void *argument) {
    int number = (int)(intptr_t)argument;
    char name[16], where[220], draft[256], final[256];
    snprintf(name, sizeof name, "publisher-%d", number);
    truth_name(name);
    snprintf(where, sizeof where, fixed ? "%s/%d" : "%s", folder, number);
    mkdir(where, 0700);
    snprintf(draft, sizeof draft, "%s/draft-%d", where, number);
    close(open(draft, O_CREAT | O_WRONLY, 0600));
    for (int i = 0; i < FILES; i++) {
        mixed(i, 20 * MICROSECOND);
        snprintf(final, sizeof final, "%s/final-%d-%d", where, number, i);
        publish(draft, final);
        strcpy(draft, final);
    }
    unlink(draft);
    if (fixed)
        rmdir(where);
    truth_note();
    return NULL;
}

int main(int argc, char **argv) {
    fixed = truth_begin(argc, argv);
    snprintf(folder, sizeof folder, "%s/publish-%d", truth_option(argc, argv, "--folder", "/var/tmp"), getpid());
    mkdir(folder, 0700);
    if (!fixed) {
        int directory = open(folder, O_RDONLY | O_DIRECTORY), flags = 0;
        if (ioctl(directory, FS_IOC_GETFLAGS, &flags) || (flags |= FS_DIRSYNC_FL, ioctl(directory, FS_IOC_SETFLAGS, &flags)))
            return perror("NOT RUN: dirsync"), 77;
        close(directory);
    }
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, produce, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    rmdir(folder);
    truth_print("kernel-lock", "publish", "", "publisher", 0);
}

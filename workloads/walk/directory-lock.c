// Eight threads make and remove files in one spool directory, whose lock the kernel holds for each until the change is on
// the disk (chattr +D, as mail servers have it). Fix: a directory a thread.
#include "truth.h"
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

enum { THREADS = 8 };
static char root[256];
static atomic_ulong made, in_make, in_remove, all;

__attribute__((noinline)) static void make_file(const char *path) {
    int file = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (file < 0)
        perror(path), exit(1);
    close(file);
}

__attribute__((noinline)) static void remove_file(const char *path) { unlink(path); }

// File systems that don't know of it go on without.
static void make_spool(const char *path) {
    int flags, folder;
    if (mkdir(path, 0700) || (folder = open(path, O_RDONLY | O_DIRECTORY)) < 0)
        perror(path), exit(1);
    if (ioctl(folder, FS_IOC_GETFLAGS, &flags) == 0) {
        flags |= FS_DIRSYNC_FL;
        (void)ioctl(folder, FS_IOC_SETFLAGS, &flags);
    }
    close(folder);
}

static void *spooler(void *argument) {
    char name[16], folder[300], path[340];
    int number = (int)(intptr_t)argument;
    snprintf(name, sizeof name, "spooler-%d", number);
    truth_name(name);
    snprintf(folder, sizeof folder, truth.fixed ? "%s/%d" : "%s", root, number);
    if (truth.fixed)
        make_spool(folder);
    uint64_t start = truth_now(), making = 0, removing = 0, count = 0;
    for (; truth_running(); count++) {
        snprintf(path, sizeof path, "%s/spool-%d-%d", folder, number, (int)(count % 100));
        uint64_t a = truth_now();
        make_file(path);
        uint64_t b = truth_now();
        remove_file(path);
        making += b - a, removing += truth_now() - b;
    }
    if (truth.fixed)
        rmdir(folder);
    atomic_fetch_add(&made, count);
    atomic_fetch_add(&in_make, making);
    atomic_fetch_add(&in_remove, removing);
    atomic_fetch_add(&all, truth_now() - start);
    return NULL;
}

int main(int argc, char **argv) {
    truth_begin(argc, argv);
    snprintf(root, sizeof root, "%s/directory-lock-%d", truth.folder, (int)getpid());
    make_spool(root);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, spooler, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    rmdir(root);
    // Shares of the threads' own time.
    printf("{\"truth\": true, \"pid\": %d, \"group\": \"spooler\", \"cpu_ns\": %llu, \"operations\": %lu, \"shares\": {\"make_file\": %.5f, \"remove_file\": %.5f}}\n",
           (int)getpid(), (unsigned long long)truth_processor_time(), made, (double)in_make / (double)all, (double)in_remove / (double)all);
}

// Three sessions commit each change of theirs to the disk, one at a time. Fix: one fdatasync for a group of commits.
#include "truth.h"
#include "work.h"
#include <fcntl.h>
#include <stdlib.h>

enum { SESSIONS = 3, COMMITS = 1500 };
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static int log_file, group;
static char path[256];

__attribute__((noinline)) static void commit(const char *text, size_t size) {
    static int pending;
    pthread_mutex_lock(&log_lock);
    if (write(log_file, text, size) != (ssize_t)size)
        abort();
    if (++pending >= group) {
        fdatasync(log_file);
        pending = 0;
    }
    pthread_mutex_unlock(&log_lock);
}

static void *session(void *argument) {
    char name[16], text[512] = {0};
    snprintf(name, sizeof name, "session-%d", (int)(intptr_t)argument);
    truth_name(name);
    for (int i = 0; i < COMMITS; i++) {
        snprintf(text, sizeof text, "%s change %d %llu\n", name, i, (unsigned long long)mixed(i, 10 * MICROSECOND));
        commit(text, sizeof text);
    }
    truth_note();
    return NULL;
}

int main(int argc, char **argv) {
    group = truth_begin(argc, argv) ? 100 : 1;
    snprintf(path, sizeof path, "%s/commit-%d.log", truth_option(argc, argv, "--folder", "/var/tmp"), getpid());
    log_file = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_APPEND, 0600);
    if (log_file < 0)
        return perror(path), 1;
    pthread_t threads[SESSIONS];
    for (int i = 0; i < SESSIONS; i++)
        pthread_create(&threads[i], NULL, session, (void *)(intptr_t)i);
    for (int i = 0; i < SESSIONS; i++)
        pthread_join(threads[i], NULL);
    unlink(path);
    truth_print("file-sync", "commit", strrchr(path, '/') + 1, "session", -1);
}

// A log whose every record is brought to the disk before the next. Fix: one fsync for a group of records.
#include "truth.h"
#include <fcntl.h>

static int t_commit, log_file;

__attribute__((noinline)) static void flush_log(void) { fsync(log_file); }

__attribute__((noinline)) static void append_record(const char *text, size_t size) {
    static unsigned pending;
    if (write(log_file, text, size) != (ssize_t)size)
        perror("write"), exit(1);
    if (++pending >= (truth.fixed ? 200 : 1)) {
        TRUTH_TIMED(t_commit, flush_log());
        pending = 0;
    }
}

__attribute__((noinline)) static void make_record(char *text, size_t size) {
    uint64_t x = truth_mixed(truth.operations, 20000);
    for (size_t i = 0; i < size; i++)
        text[i] = (char)('a' + (x >> (i % 48)) % 26);
}

int main(int argc, char **argv) {
    truth_begin(argc, argv);
    t_commit = truth_function("flush_log");
    char path[300], text[512];
    snprintf(path, sizeof path, "%s/fsync-log-%d", truth.folder, (int)getpid());
    log_file = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_APPEND, 0600);
    if (log_file < 0)
        return perror(path), 1;
    for (; truth_running(); truth.operations++) {
        make_record(text, sizeof text);
        append_record(text, sizeof text);
    }
    unlink(path);
    truth_print();
}

// A caching proxy. Each object that it fetches goes to a file of its own, which is created, filled, and when the cache
// is full truncated and unlinked: the file system holds the time. `--fixed=1`: files are kept and written over.
// Then it waits in poll for its helper, which looks up addresses a batch at a time, but is handed one request at a time.
// `--fixed=2`: a longer queue, so that a batch is more than one.
#include "truth.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { OBJECT = 1 << 20, PAGE = 4096, SLOT = 256, CACHED = 48, SHORT_QUEUE = 1, LONG_QUEUE = 256, LOOKUP_US = 100 };
static char folder[256], slot[SLOT];
static int helper_in, helper_out;
static struct {
    unsigned waiting, limit;
} queue;
static int t_release, t_store, t_wait;

// -- The helper: a process of its own ----------------------------------------------------------------------------------

__attribute__((noinline)) static void look_up(void) { usleep(LOOKUP_US); }

__attribute__((noinline)) static void answer(int out, const char *text, size_t size) {
    if (write(out, text, size) != (ssize_t)size)
        _exit(0);
}

static void helper(int in, int out) {
    truth_name("url-helper");
    char requests[4096];
    ssize_t got;
    while ((got = read(in, requests, sizeof requests)) > 0) {
        look_up();
        answer(out, requests, (size_t)got);
    }
    _exit(0);
}

// -- The server -----------------------------------------------------------------------------------------------------------

static void cache_path(char *path, size_t size, unsigned number) { snprintf(path, size, "%s/object-%u", folder, number % CACHED); }

__attribute__((noinline)) static void release_entry(const char *path) {
    if (truncate(path, 0) == 0)
        unlink(path);
}

__attribute__((noinline)) static void swap_out(const char *path, size_t size) {
    int file = open(path, O_CREAT | O_WRONLY, 0600);
    if (file < 0)
        perror(path), exit(1);
    // A slot in each page of the object; of one that is there already only what changed: the header.
    for (size_t at = 0; at < (truth.fixed ? PAGE : size); at += PAGE)
        if (pwrite(file, slot, SLOT, (off_t)at) != SLOT)
            perror(path), exit(1);
    close(file);
}

__attribute__((noinline)) static void wait_for_helper(void) {
    struct pollfd ready = {.fd = helper_out, .events = POLLIN};
    char answers[4096];
    if (poll(&ready, 1, 1000) <= 0)
        return;
    ssize_t got = read(helper_out, answers, sizeof answers);
    if (got > 0)
        queue.waiting -= (unsigned)got;
}

__attribute__((noinline)) static void redirect(unsigned number) {
    char request = (char)number;
    while (queue.waiting >= queue.limit)
        TRUTH_TIMED(t_wait, wait_for_helper());
    if (write(helper_in, &request, 1) == 1)
        queue.waiting++;
}

__attribute__((noinline)) static void parse_request(unsigned number) {
    uint64_t parsed = truth_mixed(number, 4000);
    __asm__ volatile("" : : "r"(parsed));
}

static void serve_request(unsigned number) {
    char path[300];
    parse_request(number);
    redirect(number);
    cache_path(path, sizeof path, number);
    if (!truth.fixed)
        TRUTH_TIMED(t_release, release_entry(path));
    TRUTH_TIMED(t_store, swap_out(path, OBJECT));
}

__attribute__((noinline)) static void main_loop(void) {
    for (unsigned number = 0; truth_running(); number++) {
        serve_request(number);
        truth.operations++;
    }
}

int main(int argc, char **argv) {
    truth_begin(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    t_release = truth_function("release_entry");
    t_store = truth_function("swap_out");
    t_wait = truth_function("wait_for_helper");
    queue.limit = truth.fixed == 2 ? LONG_QUEUE : SHORT_QUEUE;
    snprintf(folder, sizeof folder, "%s/proxy-cache-%d", truth.folder, (int)getpid());
    if (mkdir(folder, 0700))
        return perror(folder), 1;
    int in[2], out[2];
    if (pipe(in) || pipe(out))
        return perror("pipe"), 1;
    pid_t child = fork();
    if (child == 0) {
        close(in[1]), close(out[0]);
        helper(in[0], out[1]);
    }
    close(in[0]), close(out[1]);
    helper_in = in[1], helper_out = out[0];
    main_loop();
    close(helper_in);
    waitpid(child, NULL, 0);
    truth_print();
    for (unsigned number = 0; number < CACHED; number++) {
        char path[300];
        cache_path(path, sizeof path, number);
        unlink(path);
    }
    rmdir(folder);
}

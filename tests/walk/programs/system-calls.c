// One system call again and again, each in a function of its own that times its calls: system-calls SECONDS MODE.
#define _GNU_SOURCE
#include "../../../workloads/walk/truth.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define OWN static __attribute__((noinline)) void
enum { MEGA = 1 << 20 };
static char buffer[4 * MEGA], path[4096];
static int the_file, t_call;

static void fail(const char *what) { perror(what), exit(1); }

static int new_file(const char *folder, size_t size) {
    snprintf(path, sizeof path, "%s/walk-%d", folder, (int)getpid());
    int file = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
    if (file < 0)
        fail(path);
    for (size_t done = 0; done < size; done += sizeof buffer)
        if (write(file, buffer, sizeof buffer) < 0)
            fail(path);
    return file;
}

// -- Files ------------------------------------------------------------------------------------------------------------

OWN read_cached(unsigned i) {
    if (pread(the_file, buffer, MEGA, (off_t)(i % 16) * MEGA) != MEGA)
        fail("pread");
}
OWN stat_files(unsigned i) {
    struct stat found;
    stat(path, &found);
    (void)i;
}
OWN list_directory(unsigned i) {
    (void)i;
    lseek(the_file, 0, SEEK_SET);
    while (syscall(SYS_getdents64, the_file, buffer, sizeof buffer) > 0) {
    }
}
OWN write_memory_file(unsigned i) {
    if (pwrite(the_file, buffer, MEGA, (off_t)(i % 4) * MEGA) != MEGA)
        fail("pwrite");
}
OWN read_direct(unsigned i) {
    void *aligned = (void *)(((uintptr_t)buffer + 4095) & ~(uintptr_t)4095);
    if (pread(the_file, aligned, 4096, (off_t)(i % 4096) * 4096) != 4096)
        fail("pread");
}
OWN read_maps(unsigned i) {
    (void)i;
    lseek(the_file, 0, SEEK_SET);
    while (read(the_file, buffer, 4096) > 0) {
    }
}
OWN send_whole_file(unsigned i) {
    static int out;
    if (!out && (out = memfd_create("sent", 0)) < 0)
        fail("memfd");
    (void)i;
    off_t at = 0;
    lseek(out, 0, SEEK_SET);
    if (sendfile(out, the_file, &at, MEGA) <= 0)
        fail("sendfile");
}
static int channel[2];
OWN splice_in(unsigned i) {
    loff_t at = (loff_t)(i % 64) * 65536;
    if (splice(the_file, &at, channel[1], NULL, 65536, 0) <= 0)
        fail("splice");
    static int out;
    if (!out)
        out = open("/dev/null", O_WRONLY);
    while (splice(channel[0], NULL, out, NULL, 65536, SPLICE_F_NONBLOCK) > 0) {
    }
}
OWN random_bytes(unsigned i) {
    (void)i;
    if (getrandom(buffer, 65536, 0) < 0)
        fail("getrandom");
}
OWN touch_new_files(unsigned i) {
    char name[4200];
    snprintf(name, sizeof name, "%s-%u", path, i % 8);
    close(open(name, O_CREAT | O_WRONLY, 0600));
    unlink(name);
}

// -- Memory -----------------------------------------------------------------------------------------------------------

OWN map_and_unmap(unsigned i) {
    void *there = mmap(NULL, MEGA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(there, MEGA);
    (void)i;
}
static char *region;
OWN fill_new_memory(unsigned i) {
    memset(region, (int)i, 16 * MEGA);
    madvise(region, 16 * MEGA, MADV_DONTNEED);
}
OWN change_protection_again(unsigned i) { mprotect(region, 16 * MEGA, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE); }
OWN grow_heap(unsigned i) {
    (void)i;
    char *old = sbrk(4 * MEGA);
    for (size_t at = 0; at < 4 * MEGA; at += 4096)
        old[at] = 1;
    sbrk(-4 * MEGA);
}
OWN throw_away(unsigned i) {
    for (size_t at = 0; at < 4 * MEGA; at += 4096)
        region[at] = (char)i;
    madvise(region, 4 * MEGA, MADV_DONTNEED);
}

// -- Processes, threads, signals --------------------------------------------------------------------------------------

OWN fork_child(unsigned i) {
    (void)i;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
}
OWN run_program(unsigned i) {
    (void)i;
    pid_t child = vfork();
    if (child == 0) {
        execl("/bin/true", "true", NULL);
        _exit(127);
    }
    waitpid(child, NULL, 0);
}
static void *nothing(void *argument) { return argument; }
OWN start_thread_and_join(unsigned i) {
    (void)i;
    pthread_t thread;
    if (pthread_create(&thread, NULL, nothing, NULL))
        fail("pthread_create");
    pthread_join(thread, NULL);
}
__attribute__((noinline)) static void handle(int number) {
    uint64_t x = truth_mixed((uint64_t)number, 20000);
    __asm__ volatile("" : : "r"(x));
}
OWN ask_often(unsigned i) {
    for (unsigned at = 0; at < 1000; at++)
        i += (unsigned)getppid();
}
OWN raise_signal(unsigned i) {
    (void)i;
    raise(SIGUSR1);
}
OWN wait_for_child(unsigned i) {
    (void)i;
    pid_t child = fork();
    if (child == 0) {
        truth_name("worker-child");
        for (uint64_t then = truth_now(); truth_now() < then + 300000000;)
            handle(0);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

// -- Waiting ----------------------------------------------------------------------------------------------------------

static struct pollfd many[900];
OWN poll_many(unsigned i) {
    (void)i;
    poll(many, sizeof many / sizeof *many, 0);
}
OWN select_many(unsigned i) {
    (void)i;
    fd_set wanted;
    FD_ZERO(&wanted);
    for (size_t n = 0; n < sizeof many / sizeof *many; n++)
        FD_SET(many[n].fd, &wanted);
    struct timeval now = {0, 0};
    select(1000, &wanted, NULL, NULL, &now);
}
OWN await_events(unsigned i) {
    (void)i;
    struct epoll_event event;
    epoll_wait(the_file, &event, 1, 200);
}
OWN sleep_a_little(unsigned i) {
    (void)i;
    struct timespec time = {0, 2000000};
    nanosleep(&time, NULL);
}
OWN poll_nothing(unsigned i) {
    (void)i;
    poll(NULL, 0, 100);
}
OWN lock_file(unsigned i) {
    (void)i;
    if (flock(the_file, LOCK_EX))
        fail("flock");
    flock(the_file, LOCK_UN);
    // A lock that is asked for again at once is not handed over.
    usleep(100);
}

struct mode {
    const char *name, *function;
    void (*call)(unsigned);
};
static const struct mode modes[] = {
    {"pread", "read_cached", read_cached},
    {"stat", "stat_files", stat_files},
    {"getdents", "list_directory", list_directory},
    {"tmpfs-write", "write_memory_file", write_memory_file},
    {"direct-read", "read_direct", read_direct},
    {"proc-maps", "read_maps", read_maps},
    {"sendfile", "send_whole_file", send_whole_file},
    {"splice", "splice_in", splice_in},
    {"getrandom", "random_bytes", random_bytes},
    {"touch", "touch_new_files", touch_new_files},
    {"mmap", "map_and_unmap", map_and_unmap},
    {"memset", "fill_new_memory", fill_new_memory},
    {"mprotect", "change_protection_again", change_protection_again},
    {"brk", "grow_heap", grow_heap},
    {"madvise", "throw_away", throw_away},
    {"fork", "fork_child", fork_child},
    {"exec", "run_program", run_program},
    {"thread", "start_thread_and_join", start_thread_and_join},
    {"getppid", "ask_often", ask_often},
    {"signal", "raise_signal", raise_signal},
    {"child", "wait_for_child", wait_for_child},
    {"poll", "poll_many", poll_many},
    {"select", "select_many", select_many},
    {"epoll", "await_events", await_events},
    {"sleep", "sleep_a_little", sleep_a_little},
    {"idle", "poll_nothing", poll_nothing},
    {"flock", "lock_file", lock_file},
};

static void *mapped(size_t size) {
    void *there = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(there, size, MADV_NOHUGEPAGE);
    return there;
}

static void holder(void) {
    // Another process that holds the file lock most of the time.
    truth_name("lock-holder");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int file = open(path, O_RDWR);
    for (;;) {
        flock(file, LOCK_EX);
        usleep(5000);
        flock(file, LOCK_UN);
        usleep(50);
    }
}

static void prepare(const char *mode) {
    if (!strcmp(mode, "pread") || !strcmp(mode, "direct-read"))
        the_file = new_file(truth.folder, 16 * MEGA);
    if (!strcmp(mode, "direct-read")) {
        fsync(the_file);
        the_file = open(path, O_RDONLY | O_DIRECT);
        if (the_file < 0)
            fail("O_DIRECT");
    }
    if (!strcmp(mode, "tmpfs-write"))
        the_file = new_file("/dev/shm", 4 * MEGA);
    if (!strcmp(mode, "sendfile") || !strcmp(mode, "splice"))
        the_file = new_file(truth.folder, 4 * MEGA);
    if (!strcmp(mode, "splice") && (pipe(channel) || fcntl(channel[1], F_SETPIPE_SZ, MEGA) < 0))
        fail("pipe");
    if (!strcmp(mode, "proc-maps"))
        the_file = open("/proc/self/maps", O_RDONLY);
    if (!strcmp(mode, "touch"))
        snprintf(path, sizeof path, "%s/touched-%d", truth.folder, (int)getpid());
    if (!strcmp(mode, "stat")) {
        snprintf(path, sizeof path, "%s/walk-%d", truth.folder, (int)getpid());
        mkdir(path, 0700);
        for (int i = 0; i < 120; i++)
            strcat(path, "/.././walk-"), sprintf(path + strlen(path), "%d", (int)getpid());
    }
    if (!strcmp(mode, "getdents")) {
        snprintf(path, sizeof path, "%s/walk-%d", truth.folder, (int)getpid());
        mkdir(path, 0700);
        the_file = open(path, O_RDONLY | O_DIRECTORY);
        close(openat(the_file, "file", O_CREAT | O_WRONLY, 0600));
        for (int i = 0; i < 4000; i++) {
            char name[32];
            snprintf(name, sizeof name, "file-number-%d", i);
            if (linkat(the_file, "file", the_file, name, 0))
                fail("link");
        }
        unlinkat(the_file, "file", 0);
    }
    if (!strcmp(mode, "memset") || !strcmp(mode, "mprotect") || !strcmp(mode, "madvise"))
        region = mapped(16 * MEGA);
    if (!strcmp(mode, "mprotect"))
        memset(region, 1, 16 * MEGA);
    if (!strcmp(mode, "fork"))
        memset(mapped(256 * MEGA), 1, 256 * MEGA);
    if (!strcmp(mode, "signal"))
        signal(SIGUSR1, handle);
    if (!strcmp(mode, "poll") || !strcmp(mode, "select")) {
        pipe(channel);
        for (size_t i = 0; i < sizeof many / sizeof *many; i++)
            many[i] = (struct pollfd){.fd = dup(channel[0]), .events = POLLIN};
        if (many[899].fd < 0)
            fail("too few files allowed");
    }
    if (!strcmp(mode, "epoll")) {
        pipe(channel);
        the_file = epoll_create1(0);
        struct epoll_event event = {.events = EPOLLIN};
        epoll_ctl(the_file, EPOLL_CTL_ADD, channel[0], &event);
    }
    if (!strcmp(mode, "flock")) {
        the_file = new_file(truth.folder, 0);
        if (fork() == 0)
            holder();
    }
}

static void clean_up(const char *mode) {
    if (!strcmp(mode, "getdents"))
        for (int i = 0; i < 4000; i++) {
            char name[32];
            snprintf(name, sizeof name, "file-number-%d", i);
            unlinkat(the_file, name, 0);
        }
    if (!strcmp(mode, "stat"))
        *strstr(path, "/.././") = 0;
    if (!strcmp(mode, "getdents") || !strcmp(mode, "stat"))
        rmdir(path);
    else if (path[0])
        unlink(path);
}

int main(int argc, char **argv) {
    truth_begin(argc, argv);
    for (const struct mode *mode = modes; mode < modes + sizeof modes / sizeof *modes; mode++)
        if (argc > 2 && !strcmp(argv[2], mode->name)) {
            prepare(mode->name);
            truth_start(truth.end - truth.start);
            t_call = truth_function(mode->function);
            for (unsigned i = 0; truth_running(); i++, truth.operations++)
                TRUTH_TIMED(t_call, mode->call(i));
            truth_print();
            clean_up(mode->name);
            return 0;
        }
    return fprintf(stderr, "system-calls SECONDS MODE\n"), 2;
}

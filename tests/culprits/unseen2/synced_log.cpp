// Four workers write each result to a log that is on the disk before the next may write.
#include <fcntl.h>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>

static std::mutex log_mutex;
static int log_file;

static void log_line(const std::string &line) {
    std::lock_guard<std::mutex> guard(log_mutex);
    if (write(log_file, line.data(), line.size()) < 0) _exit(1);
    fdatasync(log_file);
}

static double simulate(int step) {
    double sum = 1;
    for (int i = 0; i < 200000; i++) sum = sum * 1.0000001 + step;
    return sum;
}

static void worker(int id, int steps) {
    for (int i = 0; i < steps; i++) log_line(std::to_string(id) + " " + std::to_string(simulate(i)) + "\n");
}

int main(int argc, char **argv) {
    int steps = argc > 1 ? std::stoi(argv[1]) : 300;
    log_file = open("synced_log.txt", O_CREAT | O_TRUNC | O_WRONLY | O_APPEND, 0644);
    std::thread a(worker, 1, steps), b(worker, 2, steps), c(worker, 3, steps), d(worker, 4, steps);
    a.join();
    b.join();
    c.join();
    d.join();
}

// A server thread naps in each request; its queue and promises are the standard library's, all of it inlined.
#include <condition_variable>
#include <future>
#include <mutex>
#include <queue>
#include <string>
#include <thread>
#include <unistd.h>

static std::mutex queue_mutex;
static std::condition_variable arrived;
static std::queue<std::promise<int> *> requests;
static bool stop;

static int handle() {
    usleep(5000);
    return 1;
}

static void serve() {
    for (;;) {
        std::unique_lock<std::mutex> lock(queue_mutex);
        arrived.wait(lock, [] { return stop || !requests.empty(); });
        if (requests.empty()) return;
        std::promise<int> *request = requests.front();
        requests.pop();
        lock.unlock();
        request->set_value(handle());
    }
}

static int ask() {
    std::promise<int> promise;
    std::future<int> answer = promise.get_future();
    {
        std::lock_guard<std::mutex> lock(queue_mutex);
        requests.push(&promise);
    }
    arrived.notify_one();
    return answer.get();
}

int main(int argc, char **argv) {
    std::thread server(serve);
    for (int i = argc > 1 ? std::stoi(argv[1]) : 300; i > 0; i--) ask();
    {
        std::lock_guard<std::mutex> lock(queue_mutex);
        stop = true;
    }
    arrived.notify_one();
    server.join();
}

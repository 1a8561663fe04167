// Six clients share a pool with one connection, and each query keeps it until the server has answered.
#include "../own_clock.h"
#include <semaphore>
#include <thread>
#include <vector>

static std::counting_semaphore<8> connections(1);
static double waited[6], lived[6];
static long queries;

__attribute__((noinline)) static void await_answer() { usleep(4000); }

__attribute__((noinline)) static void borrow_connection() {
    connections.acquire(); // culprit
}

__attribute__((noinline)) static uint64_t run_query(int client, uint64_t query) {
    double start = seconds();
    borrow_connection(); // culprit
    waited[client] += seconds() - start;
    await_answer();
    connections.release();
    return scrambled(query);
}

static void client(int number, uint64_t *sum) {
    double start = seconds();
    for (long i = 0; i < queries; i++) {
        uint64_t answer = run_query(number, (uint64_t)i);
        for (int k = 0; k < 50000; k++)
            answer = scrambled(answer);
        *sum += answer;
    }
    lived[number] = seconds() - start;
}

int main(int argc, char **argv) {
    queries = amount(argc, argv, 60);
    double begin = seconds();
    uint64_t sums[6] = {};
    std::vector<std::thread> clients;
    for (int i = 0; i < 6; i++)
        clients.emplace_back(client, i, &sums[i]);
    for (std::thread &thread : clients)
        thread.join();
    // With a connection for each, all would be done in what one client needs besides waiting.
    double busy = 0;
    for (int i = 0; i < 6; i++)
        busy += lived[i] - waited[i];
    return tell(seconds() - begin - busy / 6, begin, (double)(sums[0] % 1000));
}

// Threads with names, each group with work of its own: threads SECONDS groups|mutex|condition|spin|barrier.
#include "../../../workloads/walk/truth.h"
#include <pthread.h>
#include <stdatomic.h>

#define OWN __attribute__((noinline))
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static atomic_int flag;

OWN static void burn(unsigned rounds) {
    uint64_t x = truth_mixed(rounds, rounds);
    __asm__ volatile("" : : "r"(x));
}
OWN static void parse_text(void) { burn(20000); }
OWN static void write_out(void) { usleep(1000); }
OWN static void hold_lock(void) { usleep(2000); }
OWN static void take_lock(void) {
    pthread_mutex_lock(&lock);
    hold_lock();
    pthread_mutex_unlock(&lock);
}
OWN static void spin_on_flag(void) {
    while (atomic_load(&flag) && truth_running())
        for (int i = 0; i < 100; i++)
            __builtin_ia32_pause();
}
OWN static void slow_part(void) { usleep(20000); }
OWN static void meet(void) { pthread_barrier_wait(&barrier); }

static void name(const char *what, void *number) {
    char text[16];
    snprintf(text, sizeof text, "%s-%d", what, (int)(intptr_t)number);
    truth_name(text);
}
static void *parser(void *number) {
    name("parser", number);
    while (truth_running())
        parse_text();
    return NULL;
}
static void *writer(void *number) {
    name("writer", number);
    while (truth_running())
        write_out();
    return NULL;
}
static void *contender(void *number) {
    name("contender", number);
    while (truth_running())
        take_lock();
    return NULL;
}
static int item;
static void *consumer(void *number) {
    name("consumer", number);
    pthread_mutex_lock(&lock);
    while (truth_running()) {
        while (!item && truth_running())
            pthread_cond_wait(&changed, &lock);
        item = 0;
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}
OWN static void produce_item(void) {
    usleep(10000);
    pthread_mutex_lock(&lock);
    item = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}
static void *producer(void *number) {
    name("producer", number);
    while (truth_running())
        produce_item();
    produce_item();
    return NULL;
}
static void *spinner(void *number) {
    name("spinner", number);
    while (truth_running())
        spin_on_flag();
    return NULL;
}
static void *slow(void *number) {
    name("slow", number);
    for (int i = 0; i < 50; i++)
        slow_part(), meet();
    return NULL;
}
static void *fast(void *number) {
    name("fast", number);
    for (int i = 0; i < 50; i++)
        meet();
    return NULL;
}

int main(int argc, char **argv) {
    truth_begin(argc, argv);
    const char *mode = argc > 2 ? argv[2] : "groups";
    pthread_t threads[8];
    int used = 0;
#define START(routine) pthread_create(&threads[used], NULL, routine, (void *)(intptr_t)used), used++
    if (!strcmp(mode, "groups"))
        START(parser), START(parser), START(writer);
    else if (!strcmp(mode, "mutex"))
        for (int i = 0; i < 6; i++)
            START(contender);
    else if (!strcmp(mode, "condition"))
        START(consumer), START(producer);
    else if (!strcmp(mode, "spin"))
        atomic_store(&flag, 1), START(spinner);
    else if (!strcmp(mode, "barrier"))
        pthread_barrier_init(&barrier, NULL, 3), START(slow), START(fast), START(fast);
    for (int i = 0; i < used; i++)
        pthread_join(threads[i], NULL);
    truth_print();
}

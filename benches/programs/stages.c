// A pipeline as in PARSEC's dedup: fragments are read, hashed by two threads, compressed by two and written, over short
// queues. Usage: stages FRAGMENTS
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROOM = 32, END = -1 };
struct queue {
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied;
    long item[ROOM];
    int begin, count;
} queues[3];
static uint64_t sum[8];

static void put(struct queue *q, long item) {
    pthread_mutex_lock(&q->lock);
    while (q->count == ROOM)
        pthread_cond_wait(&q->emptied, &q->lock);
    q->item[(q->begin + q->count++) % ROOM] = item;
    pthread_cond_signal(&q->filled);
    pthread_mutex_unlock(&q->lock);
}

static long take(struct queue *q) {
    pthread_mutex_lock(&q->lock);
    while (q->count == 0)
        pthread_cond_wait(&q->filled, &q->lock);
    long item = q->item[q->begin];
    q->begin = (q->begin + 1) % ROOM, q->count--;
    pthread_cond_signal(&q->emptied);
    pthread_mutex_unlock(&q->lock);
    return item;
}

static uint64_t work(uint64_t x, int rounds) {
    for (int i = 0; i < rounds; i++)
        x = (x ^ (x >> 29)) * 6364136223846793005ULL + 1442695040888963407ULL;
    return x;
}

struct stage {
    struct queue *from, *to;
    int rounds, number;
};

static void *run(void *argument) {
    struct stage *s = argument;
    for (long item; (item = take(s->from)) != END;) {
        sum[s->number] ^= work(item, s->rounds);
        if (s->to)
            put(s->to, item);
    }
    return NULL;
}

int main(int argc, char **argv) {
    long fragments = argc > 1 ? atol(argv[1]) : 100000;
    for (int i = 0; i < 3; i++)
        pthread_mutex_init(&queues[i].lock, NULL), pthread_cond_init(&queues[i].filled, NULL), pthread_cond_init(&queues[i].emptied, NULL);
    struct stage stage[5] = {{&queues[0], &queues[1], 6000, 0}, {&queues[0], &queues[1], 6000, 1}, {&queues[1], &queues[2], 12000, 2}, {&queues[1], &queues[2], 12000, 3}, {&queues[2], NULL, 1500, 4}};
    pthread_t thread[5];
    for (int i = 0; i < 5; i++)
        pthread_create(&thread[i], NULL, run, &stage[i]);
    for (long i = 0; i < fragments; i++)
        put(&queues[0], (long)(work(i, 1000) >> 1));
    for (int i = 0; i < 5; i++) {
        if (i % 2 == 0)
            for (int k = 0; k < (i < 4 ? 2 : 1); k++)
                put(&queues[i / 2], END);
        pthread_join(thread[i], NULL);
        if (i < 4)
            pthread_join(thread[++i], NULL);
    }
    printf("%llx\n", (unsigned long long)(sum[0] ^ sum[1] ^ sum[2] ^ sum[3] ^ sum[4]));
}

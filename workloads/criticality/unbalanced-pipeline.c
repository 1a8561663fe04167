// Blocks pass through a reader, a parser, a compressor and a writer with short queues between; the compressor needs
// most of the time. Fix: a cheaper level of compression, in half the time.
#include "truth.h"
#include "work.h"
#include <stdlib.h>

enum { BLOCKS = 200, ROOM = 4 };
struct queue {
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied;
    uint64_t block[ROOM];
    int begin, count;
};
static struct queue parsed, packed, raw;
static int fixed;

static void put(struct queue *q, uint64_t block) {
    pthread_mutex_lock(&q->lock);
    while (q->count == ROOM)
        pthread_cond_wait(&q->emptied, &q->lock);
    q->block[(q->begin + q->count++) % ROOM] = block;
    pthread_cond_signal(&q->filled);
    pthread_mutex_unlock(&q->lock);
}

static uint64_t take(struct queue *q) {
    pthread_mutex_lock(&q->lock);
    while (q->count == 0)
        pthread_cond_wait(&q->filled, &q->lock);
    uint64_t block = q->block[q->begin];
    q->begin = (q->begin + 1) % ROOM, q->count--;
    pthread_cond_signal(&q->emptied);
    pthread_mutex_unlock(&q->lock);
    return block;
}

__attribute__((noinline)) static uint64_t read_block(uint64_t x) { return mixed(x, MILLISECOND / 4); }
__attribute__((noinline)) static uint64_t parse_block(uint64_t x) { return mixed(x, MILLISECOND / 2); }
__attribute__((noinline)) static uint64_t compress_block(uint64_t x) { return mixed(x, (fixed ? 3 : 6) * MILLISECOND); }
__attribute__((noinline)) static uint64_t write_block(uint64_t x) { return mixed(x, MILLISECOND / 4); }

static void *reader(void *unused) {
    truth_name("reader");
    for (int i = 0; i < BLOCKS; i++)
        put(&raw, read_block(i));
    truth_note();
    return unused;
}
static void *parser(void *unused) {
    truth_name("parser");
    for (int i = 0; i < BLOCKS; i++)
        put(&parsed, parse_block(take(&raw)));
    truth_note();
    return unused;
}
static void *compressor(void *unused) {
    truth_name("compressor");
    for (int i = 0; i < BLOCKS; i++)
        put(&packed, compress_block(take(&parsed)));
    truth_note();
    return unused;
}
static void *writer(void *unused) {
    truth_name("writer");
    for (int i = 0; i < BLOCKS; i++)
        write_block(take(&packed));
    truth_note();
    return unused;
}

int main(int argc, char **argv) {
    fixed = truth_begin(argc, argv);
    void *(*stages[])(void *) = {reader, parser, compressor, writer};
    pthread_t threads[4];
    for (int i = 0; i < 3; i++) {
        struct queue *q = (struct queue *[]){&raw, &parsed, &packed}[i];
        pthread_mutex_init(&q->lock, NULL), pthread_cond_init(&q->filled, NULL), pthread_cond_init(&q->emptied, NULL);
    }
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, stages[i], NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    truth_print("condition", "compress_block", "", "compressor", 2);
}

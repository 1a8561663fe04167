// Mutexes of every sort, each held for most of the time by a keeper of its own while two others want it. Who holds which
// is in the names: lock_recursive is kept by `keep-recursive`, wanted by `want-recursive`. On a busy machine one that wants it
// may hold it for long, too: prints for each sort how often one that wanted it found it locked, and how often by the keeper.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

pthread_mutex_t lock_normal, lock_recursive, lock_checked, lock_adaptive, lock_inherit, lock_robust, lock_shared;
static struct sort {
    const char *name;
    pthread_mutex_t *lock;
    int type, protocol, robust, shared, ended, kept, found, found_kept;
} sorts[] = {
    {"normal", &lock_normal, PTHREAD_MUTEX_NORMAL, 0, 0, 0, 0, 0, 0, 0},
    {"recursive", &lock_recursive, PTHREAD_MUTEX_RECURSIVE, 0, 0, 0, 0, 0, 0, 0},
    {"checked", &lock_checked, PTHREAD_MUTEX_ERRORCHECK, 0, 0, 0, 0, 0, 0, 0},
    {"adaptive", &lock_adaptive, PTHREAD_MUTEX_ADAPTIVE_NP, 0, 0, 0, 0, 0, 0, 0},
    {"inherit", &lock_inherit, PTHREAD_MUTEX_NORMAL, 1, 0, 0, 0, 0, 0, 0},
    {"robust", &lock_robust, PTHREAD_MUTEX_NORMAL, 0, 1, 0, 0, 0, 0, 0},
    {"shared", &lock_shared, PTHREAD_MUTEX_NORMAL, 0, 0, 1, 0, 0, 0, 0},
};
enum { SORTS = sizeof sorts / sizeof *sorts, TIMES = 80 };

static void name(const char *what, const char *of) {
    char text[24];
    snprintf(text, sizeof text, "%s-%s", what, of);
    pthread_setname_np(pthread_self(), text);
}

static void *keep(void *argument) {
    struct sort *s = argument;
    name("keep", s->name);
    for (int i = 0; i < TIMES; i++) {
        pthread_mutex_lock(s->lock);
        __atomic_store_n(&s->kept, 1, __ATOMIC_SEQ_CST);
        usleep(4000);
        __atomic_store_n(&s->kept, 0, __ATOMIC_SEQ_CST);
        pthread_mutex_unlock(s->lock);
        usleep(300);
    }
    __atomic_store_n(&s->ended, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static void *want(void *argument) {
    struct sort *s = argument;
    name("want", s->name);
    while (!__atomic_load_n(&s->ended, __ATOMIC_SEQ_CST)) {
        if (pthread_mutex_trylock(s->lock)) {
            int kept = __atomic_load_n(&s->kept, __ATOMIC_SEQ_CST);
            pthread_mutex_lock(s->lock);
            __atomic_add_fetch(&s->found, 1, __ATOMIC_SEQ_CST);
            __atomic_add_fetch(&s->found_kept, kept, __ATOMIC_SEQ_CST);
        }
        pthread_mutex_unlock(s->lock);
        usleep(500);
    }
    return NULL;
}

int main(void) {
    pthread_t thread[3 * SORTS];
    for (int i = 0; i < SORTS; i++) {
        pthread_mutexattr_t a;
        pthread_mutexattr_init(&a);
        pthread_mutexattr_settype(&a, sorts[i].type);
        if (sorts[i].protocol)
            pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT);
        if (sorts[i].robust)
            pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
        if (sorts[i].shared)
            pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
        if (pthread_mutex_init(sorts[i].lock, &a))
            return 1;
        pthread_create(&thread[3 * i], NULL, keep, &sorts[i]);
        pthread_create(&thread[3 * i + 1], NULL, want, &sorts[i]);
        pthread_create(&thread[3 * i + 2], NULL, want, &sorts[i]);
    }
    for (int i = 0; i < 3 * SORTS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < SORTS; i++)
        printf("%s %d %d\n", sorts[i].name, sorts[i].found, sorts[i].found_kept);
}

// A program of which each way that a feature takes to a region is known; comments say what runs must find (confirm.py): after
// `pair` and the feature `when` and a letter of the options (or `always`) with which its label is seen, `never` if it never is
// though the decision runs, `none` if nothing can be said. Options: letters of the first argument.
#include "options.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int verbose;
static int stored, never, split;
static int f7, f8, f9;

static volatile int sink;

__attribute__((noinline)) static void work(int amount) {
    for (int i = 0; i < amount; ++i)
        sink += i;
}

__attribute__((noinline)) static void not_called(void) {
    if (never)  // pair NEVER none
        work(1);
}

// One of two elements is the feature's; which one is read only a run knows, and it is the other one.
__attribute__((noinline)) static void elements(int which) {
    static int both[2];
    both[0] = split;
    both[1] = which;
    if (both[which & 1])  // pair SPLIT never
        work(2);
}

// Only a constant tells of the feature: its label is seen where the branch is taken.
__attribute__((noinline)) static void chosen(void) {
    int mode = 0;
    if (stored)  // pair STORED when always
        mode = 3;
    work(mode);
    if (mode)  // pair STORED when s else none
        work(4);
}

static void *thread(void *argument) {
    struct options *options = argument;
    return (void *)worker(options);
}

int main(int argc, char **argv) {
    struct options options = {0, 0};
    const char *letters = argc > 1 ? argv[1] : "";
    for (const char *letter = letters; *letter; ++letter)
        switch (*letter) {
        case 'v': verbose = 1; break;
        case 'c': options.checksum = 1; break;
        case 'l': options.level = 2; break;
        case 's': stored = 1; break;
        case '7': f7 = 1; break;
        case '8': f8 = 1; break;
        case '9': f9 = 1; break;
        case 'x': split = 1; never = 1; break;
        }
    if (verbose)  // pair VERBOSE when always
        puts("verbose");
    chosen();
    elements(argc | 1);
    tables(options.level);
    pthread_t id;
    if (pthread_create(&id, NULL, thread, &options) == 0)
        pthread_join(id, NULL);
    if (f7)  // pair F7 when always
        work(5);
    if (f8 && f9) {  // pair F8 when always; pair F9 when 8 else none
        work(6);
    }
    if (strchr(letters, 'k'))
        abort();
    if (strchr(letters, 'n'))
        not_called();
    return 0;
}

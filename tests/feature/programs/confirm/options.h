// What main.c and worker.c share.
#pragma once

struct options {
    int checksum, level;
};

struct settings {
    int chain, lazy;
};

extern int verbose;

long worker(struct options *options);
long tables(int level);

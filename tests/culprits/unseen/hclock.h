#ifndef HCLOCK_H
#define HCLOCK_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static double spent_, begun_;
static int timing_;
static inline double now_(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec; }
#define CLOCK_INIT do { timing_ = getenv("OWN_CLOCK") != NULL; begun_ = now_(); } while (0)
#define IN double t_ = timing_ ? now_() : 0
#define OUT do { if (timing_) spent_ += now_() - t_; } while (0)
#define CLOCK_SAY do { if (timing_) fprintf(stderr, "own clock: %.3f of %.3f s = %.0f %%\n", spent_, now_() - begun_, 100 * spent_ / (now_() - begun_)); } while (0)
static inline uint64_t mixed(uint64_t x) { x ^= x >> 30; x *= 0xbf58476d1ce4e5b9ULL; x ^= x >> 27; x *= 0x94d049bb133111ebULL; return x ^ (x >> 31); }
#endif

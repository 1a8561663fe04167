// A bytecode interpreter: switch, computed goto, recursion, function pointers, longjmp; work by options.
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((annotate("feature_variable:A"))) int feature_A;
__attribute__((annotate("feature_variable:B"))) int feature_B;

static uint64_t state = 88172645463325252u;
static uint64_t next(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

static volatile uint64_t sink;
__attribute__((noinline)) static void spin(int n) {
  uint64_t x = state;
  for (int i = 0; i < n; ++i) x = x * 6364136223846793005u + 1442695040888963407u;
  sink = x;
}

enum { ADD, MUL, CALL, CHECK, TRACE, THROW, SKIP, HALT, OPS };
static unsigned char code[4096];
static jmp_buf escape;
static int level;

typedef uint64_t (*helper)(uint64_t);
static uint64_t plain(uint64_t v) {
  spin(30);
  return v + 1;
}
static uint64_t checked(uint64_t v) {
  if (feature_A) {
    spin(60);
    if (v % 7 == 0 && feature_B) spin(90);
  }
  return v ^ 5;
}
static helper helpers[] = {plain, checked};

static uint64_t run(unsigned at, uint64_t value) {
  for (;; ++at) {
    at %= sizeof code;
    switch (code[at]) {
      case ADD:
        value += at;
        break;
      case MUL:
        value *= 31;
        if (feature_B) spin(40);
        break;
      case CALL:
        if (level < 5) {
          ++level;
          if (feature_A)
            value = run(at + 7, value);
          else
            value = run(at + 3, value);
          --level;
        }
        break;
      case CHECK:
        value = helpers[value & 1](value);
        break;
      case TRACE:
        if (feature_A || feature_B) {
          for (int i = 0; i < (int)(value & 15); ++i) spin(5);
          if (feature_B) {
            spin(25);
            if (value & 64) break;
            spin(25);
          }
          spin(10);
        }
        break;
      case THROW:
        if (feature_B && (value & 1023) == 0) {
          spin(50);
          longjmp(escape, 1);
        }
        break;
      case SKIP:
        at += value & 3;
        break;
      case HALT:
        return value;
    }
  }
}

static uint64_t threaded(const unsigned char *p, const unsigned char *end, uint64_t value) {
  static void *const targets[] = {&&add, &&mul, &&call, &&check, &&trace, &&trace, &&skip, &&skip};
#define NEXT                    \
  if (p >= end) return value;   \
  goto *targets[*p++ & 7]
  NEXT;
add:
  value += 3;
  NEXT;
mul:
  if (feature_A) spin(35);
  value *= 17;
  NEXT;
call:
  value = helpers[*p & 1](value);
  NEXT;
check:
  if (feature_B) {
    if (value & 2) NEXT;
    spin(45);
  }
  NEXT;
trace:
  spin(8);
  NEXT;
skip:
  ++p;
  NEXT;
}

int main(int argc, char **argv) {
  feature_A = argc > 1 && atoi(argv[1]);
  feature_B = argc > 2 && atoi(argv[2]);
  int rounds = argc > 3 ? atoi(argv[3]) : 20000;
  for (unsigned i = 0; i < sizeof code; ++i) code[i] = next() % OPS;
  volatile uint64_t value = 1;
  for (volatile int i = 0; i < rounds; ++i) {
    level = 0;
    if (setjmp(escape) == 0)
      value = run(next() % sizeof code, value);
    else
      value = value + 12345;
    value = threaded(code, code + 200, value);
  }
  printf("%llu\n", (unsigned long long)value);
  return 0;
}

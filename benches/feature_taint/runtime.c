// Labels that reached each decision in this run: DataFlowSanitizer has eight, so a run follows eight features, from the
// TRUTH_FIRST-th on. At the end `decision executions labels` goes to the file TRUTH_OUTPUT.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef uint8_t dfsan_label;
enum { MOST = 1 << 20 };
static uint64_t executed[MOST];
static uint8_t reached[MOST];

static int first(void) {
  static int known = -1;
  if (known < 0) {
    const char *text = getenv("TRUTH_FIRST");
    known = text ? atoi(text) : 0;
  }
  return known;
}

uint64_t __dfsw_transect_truth_label(uint64_t value, uint32_t feature, dfsan_label had, dfsan_label none,
                                     dfsan_label *result) {
  int bit = (int)feature - first();
  *result = had | (bit >= 0 && bit < 8 ? 1 << bit : 0);
  return value;
}

void __dfsw_transect_truth_decision(uint32_t decision, uint64_t condition, dfsan_label none, dfsan_label labels) {
  if (decision < MOST) {
    ++executed[decision];
    reached[decision] |= labels;
  }
}

__attribute__((destructor)) static void finish(void) {
  const char *path = getenv("TRUTH_OUTPUT");
  FILE *file = path ? fopen(path, "a") : NULL;
  if (!file)
    return;
  for (unsigned i = 0; i < MOST; ++i)
    if (executed[i])
      fprintf(file, "%u %llu %u\n", i, (unsigned long long)executed[i], reached[i]);
  fclose(file);
}

// Sites by hand around exceptions. Places name points whose open regions the test asks for.
extern "C" void thrower(int);
__asm__(".include \"sites.inc\"\nunit\n.text");

#define SITE(text) __asm__ volatile(text)
#define NOINLINE __attribute__((noinline))

extern "C" NOINLINE int caught_in_region(int n) {
  int sum = 0;
  SITE("begin r1");
  try {
    SITE("begin r2, 1");
    thrower(n);
    SITE("place in_try");
    SITE("end r2, 1");
    thrower(n + 1);
  } catch (int x) {
    SITE("restore r1, 1");
    SITE("place handler");
    sum = x;
  }
  SITE("end r1");
  SITE("place behind");
  return sum;
}

// Its handler restores "outside of regions", but the function is inlined into one.
static inline __attribute__((always_inline)) int guarded(int n) {
  try {
    SITE("begin r2, 0");
    thrower(n);
    SITE("end r2, 0");
  } catch (int x) {
    SITE("restore");
    SITE("place inlined_handler");
    return x;
  }
  return 0;
}

extern "C" NOINLINE int inlined_in_region(int n) {
  int sum = 0;
  for (int i = 0; i < n; ++i) {
    if (i & 1) {
      SITE("begin r1");
      sum += guarded(i);
      SITE("place after_inlined");
      SITE("end r1");
    }
    thrower(sum);
  }
  return sum;
}

int input;

// Nothing behind this handler tells what is open in it: control leaves it by another exception.
static inline __attribute__((always_inline)) void passed_on(int n) {
  try {
    thrower(n);
  } catch (long x) {
    SITE("restore");
    SITE("place handler_passing_on");
    thrower(n + 1);
    throw 1;
  }
}

// Its name is the one that the regions' records give.
NOINLINE void work() {
  SITE("begin r1");
  try {
    SITE("begin r2, 1");
    passed_on(input);
    SITE("end r2, 1");
  } catch (int x) {
    SITE("restore r1, 1");
    SITE("place last_handler");
    input = x;
  }
  SITE("end r1");
}

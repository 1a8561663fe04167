/* A library whose functions caller.c refers to in one way each. */
int only_called(int x) { return x + 1; }
int tail_called(int x) { return x + 2; }
int only_loaded(int x) { return x + 3; }
int called_and_loaded(int x) { return x + 4; }
int called_in_loop(int x) { return x + 5; }
int compared(int x) { return x + 6; }
int returned(int x) { return x + 7; }
int take(int (*function)(int)) { return function(1); }

static int chosen(int x) { return x + 8; }
static int (*choose(void))(int) { return chosen; }
int indirect(int x) __attribute__((ifunc("choose")));

int old_version(int x) { return x + 9; }
int new_version(int x) { return x + 10; }
__asm__(".symver old_version, versioned@SHAPES_1");
__asm__(".symver new_version, versioned@@SHAPES_2");

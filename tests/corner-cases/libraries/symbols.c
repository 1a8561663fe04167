#include "symbols.h"
static int doubled(int x) { return 2 * x; }
static Operation choose(void) { return doubled; }
int chosen(int x) __attribute__((ifunc("choose")));

int versioned_1(int x) { return x + 1; }
int versioned_2(int x) { return x + 2; }
__asm__(".symver versioned_1, versioned@V1");
__asm__(".symver versioned_2, versioned@@V2");

int present_weak(int x) { return x + 30; }
__attribute__((weak)) int weak_definition(int x) { return x + 40; }
int call_weak_definition(int x) { return weak_definition(x); }
__attribute__((visibility("protected"))) int protected_function(int x) { return x + 50; }
Operation protected_pointer(void) { return protected_function; }
int plain_symbol(int x) { return x + 60; }
Operation pointer_to_plain_symbol(void) { return plain_symbol; }
int call_through(Operation operation, int x) { return operation(x); }
int shared_data = 70;
const Operation table_of_operations[3] = {plain_symbol, chosen, protected_function};
int interposed(int x) { return x + 80; }
int call_interposed(int x) { return interposed(x) * 2; }

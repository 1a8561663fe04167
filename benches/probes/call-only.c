/* Ticks of a call of a small function, as it is when this program runs under a tool. */
#include "ticks.h"

extern const function many[];

int main(void) { result("call", call_cost(many[0], 100000)); }

// A variable that holds a feature's value; model comments name variables where there is no annotation.
#pragma once
#include <stdlib.h>
#include <string.h>

#define FEATURE(X) __attribute__((annotate("feature_variable:" #X)))

#ifdef __cplusplus
extern "C"
#endif
void work(int units);

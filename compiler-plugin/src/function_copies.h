// Copies of functions for each of their calls, where what callers pass would otherwise meet in one place.
#pragma once

#include "llvm/IR/Module.h"

#include <cstdint>

namespace transect {

/// Gives calls of variadic functions, and of functions that are passed their `va_list`, copies of their own, as long as
/// these have at most `budget` instructions together. Each call's arguments are then memory of their own.
void copyVariadicFunctions(llvm::Module &module, uint64_t budget);

}  // namespace transect

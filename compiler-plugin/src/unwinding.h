// Where control can come back into a function without returning: exceptions, longjmp.
#pragma once

#include "region.h"

#include <vector>

namespace transect {

/// Calls of setjmp end their block, so that a site can stand right behind them.
void splitAfterSetjmp(llvm::Module &module);

/// Functions during whose calls regions can be open: they, and callers of them; only there regions need restoring.
std::vector<llvm::Function *> functionsThatMayUnwindRegions(llvm::Module &module, const std::vector<Region> &regions);

}  // namespace transect

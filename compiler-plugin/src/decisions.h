// Decisions of a function as the source has them: `A && B` is one, though the front end makes it two branches.
#pragma once

#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/Function.h"

#include <vector>

namespace transect {

/// Branches that are one condition's, in the order of evaluation; mostly one.
struct Decision {
  std::vector<llvm::BasicBlock *> blocks;  ///< Their terminators decide; the first one is where it begins.
};

/// Decisions of conditional branches and switches.
std::vector<Decision> decisionsOf(llvm::Function &function);

}  // namespace transect

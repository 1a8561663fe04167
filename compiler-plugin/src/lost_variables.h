// Tells the user which variables of the model were not found, where that is likely a mistake.
#pragma once

#include "region.h"

#include "llvm/Support/raw_ostream.h"

namespace transect {

/// One line for each lost variable whose source file belongs to the program; a model is often of more programs than
/// one, and configure compiles programs that the model says nothing of.
void warnOfLostVariables(const llvm::Module &module, const RegionSet &regions, llvm::raw_ostream &out);

}  // namespace transect

// DataFlowSanitizer on a program whose reads of features' variables have labels.
#pragma once

#include "llvm/IR/PassManager.h"

#include <string>

namespace transect {

/// Before anything is optimised: instruments the module if confirmDecisions has put labels into it.
/// TRANSECT_CONFIRM_FUNCTIONS names the sanitizer's own list of the C library's functions.
struct CarryLabelsPass : llvm::PassInfoMixin<CarryLabelsPass> {
  llvm::PreservedAnalyses run(llvm::Module &module, llvm::ModuleAnalysisManager &analyses);
  static bool isRequired() { return true; }
};

/// What the program calls that hands values on without their labels: `c++` for the C++ library, else empty.
std::string libraryWithoutLabels(const llvm::Module &module);

}  // namespace transect

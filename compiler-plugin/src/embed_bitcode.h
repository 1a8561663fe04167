// Objects that are code and raw bitcode in one.
#pragma once

#include "llvm/IR/PassManager.h"

namespace transect {

/// Puts the module as it is into its own section `.llvm.lto`: the object is still an ordinary one for every tool, and lld
/// (`--fat-lto-objects`) links what the section holds.
struct EmbedBitcodePass : llvm::PassInfoMixin<EmbedBitcodePass> {
  llvm::PreservedAnalyses run(llvm::Module &module, llvm::ModuleAnalysisManager &);
  static bool isRequired() { return true; }
};

}  // namespace transect

// Immediate post-dominators that ignore paths on which the function does not return: noreturn calls, unwinding.
#pragma once

#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/BasicBlock.h"
#include "llvm/IR/Function.h"

#include <vector>

namespace transect {

/// Successors of a block without the ways taken by unwinding.
std::vector<llvm::BasicBlock *> normalSuccessors(const llvm::BasicBlock *block);

class PostDominators {
public:
  explicit PostDominators(const llvm::Function &function);

  /// Null: the function's end. In blocks that never reach a return, the end of noreturn paths counts as the end.
  llvm::BasicBlock *immediate(const llvm::BasicBlock *block) const;
  /// Blocks whose conditional terminator decides whether `block` runs (direct control dependence).
  const std::vector<llvm::BasicBlock *> &controllers(const llvm::BasicBlock *block) const;

private:
  llvm::DenseMap<const llvm::BasicBlock *, unsigned> numbers;
  std::vector<llvm::BasicBlock *> blocks;
  std::vector<unsigned> parent;
  std::vector<std::vector<llvm::BasicBlock *>> controlledBy;
};

}  // namespace transect

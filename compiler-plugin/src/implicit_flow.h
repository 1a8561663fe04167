// Which decisions a value depends on without being computed from them: constants stored or merged under a branch.
#pragma once

#include "region.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>

namespace transect {

/// For instructions that choose among constants: the conditions (of branches and switches) that choose.
class ImplicitDependences {
public:
  using Conditions = llvm::SmallVector<const llvm::Value *, 2>;

  /// `readOnly`: constants of the source.
  ImplicitDependences(const llvm::Module &module, ImplicitFlow implicit,
                      const llvm::DenseSet<const llvm::Value *> &readOnly);

  /// Conditions that decide on what a phi, a store or a return hands on.
  const Conditions &of(const llvm::Instruction *instruction) const;
  /// Of what a phi or a store hands on, the bits that its conditions choose; 0: they choose all of it.
  uint64_t bitsOf(const llvm::Instruction *instruction) const;
  /// Instructions that depend on a condition.
  const llvm::SmallVector<const llvm::Instruction *, 2> &on(const llvm::Value *condition) const;

private:
  void add(const llvm::Instruction *instruction, const llvm::Value *condition);
  void addFunction(const llvm::Function &function, ImplicitFlow implicit);

  const llvm::DenseSet<const llvm::Value *> &readOnly;
  llvm::DenseMap<const llvm::Instruction *, Conditions> conditions;
  llvm::DenseMap<const llvm::Value *, llvm::SmallVector<const llvm::Instruction *, 2>> dependents;
};

/// What a conditional terminator decides by; null: it is none.
const llvm::Value *conditionOf(const llvm::Instruction *terminator);

/// `x && y` as a value: a phi of truth values, which depends on its conditions like on operands.
bool isLogicalValue(const llvm::Instruction *instruction);

/// Whether two addresses in a function are computed alike.
bool isSameAddress(const llvm::Value *a, const llvm::Value *b);

}  // namespace transect

// Calls of the confirming runtime (confirm/runtime.c) at places in the code.
#pragma once

#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"

#include <optional>

namespace transect {

class LabelWriter {
public:
  explicit LabelWriter(llvm::Module &module);

  /// A value is a feature's variable: all its uses get the label.
  void markValue(llvm::Value &value, unsigned label);
  /// What is stored is kept in a feature's variable.
  void markStore(llvm::StoreInst &store, unsigned label);
  /// What is loaded carries the labels of its address, too: always, or if that lies in a table.
  void markLoad(llvm::LoadInst &load, bool always);
  /// The same of memory that is copied from a table.
  void markCopy(llvm::MemTransferInst &copy);
  /// What a phi, a store or a return hands on carries the labels of a condition. One that is not known there counts for
  /// nothing.
  void markChoice(llvm::Instruction &instruction, llvm::Value &condition);
  /// A decision is counted, with the labels of its condition.
  void count(llvm::Instruction &decision, unsigned number);

private:
  bool fits(const llvm::Type *type) const;
  llvm::Value *toWord(llvm::IRBuilder<> &build, llvm::Value *value);
  llvm::Value *fromWord(llvm::IRBuilder<> &build, llvm::Value *value, llvm::Type *type);
  /// Puts `value`, passed through `function` with `more` arguments, in place of it everywhere.
  using Arguments = llvm::function_ref<llvm::SmallVector<llvm::Value *, 2>(llvm::IRBuilder<> &)>;
  void wrap(llvm::Value &value, llvm::FunctionCallee function, Arguments more);

  llvm::Module &module;
  llvm::Type *number, *word, *pointer;
  llvm::FunctionCallee label, load, copy, choice, decide;
  /// What stands in place of a value by now.
  llvm::Value *latest(llvm::Value &value) const;
  const llvm::DominatorTree &dominatorsOf(llvm::Function &function);

  std::optional<llvm::DominatorTree> dominators;  ///< Of `dominated`: no blocks are added.
  const llvm::Function *dominated = nullptr;
  llvm::DenseMap<llvm::Value *, llvm::Value *> current;
};

}  // namespace transect

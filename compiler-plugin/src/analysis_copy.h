// The copy of the program on which data flow is followed: variables are values where they can be, small functions are
// part of their callers (so that their memory is told apart by call site), feature variables are marked.
#pragma once

#include "variables.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/IR/Module.h"

#include <memory>
#include <optional>
#include <vector>

namespace transect {

struct AnalysisCopy {
  std::unique_ptr<llvm::Module> module;
  /// Conditional terminators and indirect calls of the program, by number; the copy may hold several of one number.
  std::vector<llvm::Instruction *> decisions;
  /// Global variables in the copy that are features' own.
  std::vector<std::pair<llvm::GlobalVariable *, unsigned>> globals;
  std::vector<MemberSeed> members;
  /// Constants of the source: no store changes them, whatever a pointer might point to.
  llvm::DenseSet<const llvm::Value *> readOnly;
};

AnalysisCopy copyForAnalysis(llvm::Module &program, const FeatureVariables &variables);

/// The decision that an instruction of the copy stands for.
std::optional<unsigned> decisionOf(const llvm::Instruction &instruction);

/// If `instruction` marks memory as a feature's: the feature; its first argument is the address.
std::optional<unsigned> markedMemory(const llvm::Instruction &instruction);
/// How much of that memory, in bytes; 0: all of the object, as far as the address is that of an object.
uint64_t markedBytes(const llvm::Instruction &instruction);
/// What is given on as this feature's value carries nothing: a way of data ends there.
constexpr unsigned kIgnored = 0xffffff;
/// Whether what a function returns and writes carries nothing.
bool isIgnored(const llvm::Function &function);
/// If `instruction` gives its first argument on as the value of a feature's variable: the feature.
std::optional<unsigned> markedValue(const llvm::Instruction &instruction);

}  // namespace transect

// Where features spread: the places through which the ways of most features to most decisions lead, and what the model can say
// to cut them there (TRANSECT_FEATURE_CUTS=1).
#pragma once

#include "explanation.h"

#include "llvm/ADT/MapVector.h"

namespace transect {

/// Writes and results on the strongest ways from features to decisions, but for plain copies of an option.
class Cuts {
public:
  Cuts(llvm::Module &module, const Explanation &explanation) : module(module), explanation(explanation) {}

  /// A decision that depends on a feature.
  void add(const llvm::Instruction &decision, const llvm::Value *condition, unsigned feature);
  /// The ten places that free most pairs of decision and feature, each counted without those of the ones before.
  void print(const std::vector<std::string> &features, llvm::raw_ostream &out) const;

private:
  struct Way {
    const llvm::Instruction *decision;
    const llvm::Value *condition;
    unsigned feature;
    std::vector<unsigned> places;
  };

  void printPlace(const llvm::Instruction *place, const Way &example, const std::vector<std::string> &features,
                  llvm::raw_ostream &out) const;
  std::string entry(const llvm::Instruction &place) const;

  llvm::Module &module;
  const Explanation &explanation;
  llvm::MapVector<const llvm::Instruction *, unsigned> places;
  std::vector<Way> ways;
};

}  // namespace transect

// Builds that confirm regions by running (TRANSECT_SITES=confirm): reads of features' variables are given labels, and
// each decision shows its condition to the runtime (confirm/runtime.c). DataFlowSanitizer carries the labels
// (carry_labels.h).
#pragma once

#include "variables.h"

#include "llvm/IR/Instructions.h"

#include <vector>

namespace transect {

/// A decision to be counted: a conditional terminator or an indirect call.
struct CountedDecision {
  llvm::Instruction *instruction;
  unsigned region;                     ///< Number of the region that it decides on.
  std::vector<unsigned> features;      ///< Features that the analysis has for it.
  std::vector<unsigned> dataFeatures;  ///< Those among them that reach it otherwise than by a stored constant.
};

/// Decisions that the regions of a program begin with.
std::vector<CountedDecision> regionDecisions(const RegionSet &regions);

/// All decisions of a program, by number, each with all features: to measure the analysis by
/// (benches/feature_taint.py).
std::vector<CountedDecision> allDecisions(const RegionSet &regions);

/// Puts labels and counts into the module, and the section `transect_decisions` (sections.h).
void confirmDecisions(llvm::Module &module, const RegionSet &regions, const std::vector<CountedDecision> &decisions,
                      const FeatureVariables &variables);

}  // namespace transect

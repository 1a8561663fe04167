// What the analysis found, for people (TRANSECT_FEATURE_REPORT=1).
#pragma once

#include "region.h"

#include "llvm/Support/raw_ostream.h"

namespace transect {

/// `{A,B}`.
std::string featureSet(const RegionSet &set, llvm::ArrayRef<unsigned> features);

/// Features of every decision, whatever regions come of it (TRANSECT_FEATURE_REPORT=decisions).
void reportDecisions(const RegionSet &set, const std::vector<llvm::Instruction *> &decisions,
                     const std::vector<std::vector<unsigned>> &features, llvm::raw_ostream &out);

void reportRegions(const RegionSet &set, llvm::raw_ostream &out);

}  // namespace transect

// What the analysis found, for people (TRANSECT_FEATURE_REPORT=1).
#pragma once

#include "region.h"

#include "llvm/Support/raw_ostream.h"

namespace transect {

/// `A,B` of the features that count by default.
std::string featureNames(const RegionSet &set, const FeatureUses &features);

/// Features of every decision and how it depends on them, whatever regions come of it (TRANSECT_FEATURE_REPORT=decisions).
void reportDecisions(const RegionSet &set, const std::vector<llvm::Instruction *> &decisions,
                     const std::vector<FeatureUses> &features, llvm::raw_ostream &out);

void reportRegions(const RegionSet &set, llvm::raw_ostream &out);

}  // namespace transect

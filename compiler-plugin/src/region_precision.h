// How much the regions of a program say: a region that depends on most options says little.
#pragma once

#include "region.h"

#include "llvm/Support/raw_ostream.h"

namespace transect {

/// Regions by the features that count by default.
struct RegionPrecision {
  size_t regions = 0;                ///< With any such feature.
  size_t features = 0;               ///< That any region has.
  size_t broad = 0;                  ///< Regions with more than half of these features.
  size_t ofLargestSet = 0;           ///< Regions that share the commonest set of several features.
  FeatureUses largestSet;            ///< That set.
  std::vector<size_t> ofFeature;     ///< Regions of each feature of the program.

  explicit RegionPrecision(const RegionSet &set);

  /// Too many regions depend on most options.
  bool isPoor() const;
};

/// One line where the regions are poor, with what helps.
void warnOfBroadRegions(const RegionSet &set, llvm::raw_ostream &out);

}  // namespace transect

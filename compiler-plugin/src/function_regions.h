// Regions of one function: the code that each tainted decision decides on, cut so that regions nest.
#pragma once

#include "region.h"

#include <functional>
#include <vector>

namespace transect {

/// Appends the function's regions, outer ones first. `featuresOf` a conditional terminator or indirect call.
void addFunctionRegions(llvm::Function &function,
                        const std::function<const FeatureUses &(const llvm::Instruction *)> &featuresOf,
                        std::vector<Region> &regions);

/// Adds the restores of a function whose regions are `regions[first..]`: where control comes back by unwinding.
void addRestores(llvm::Function &function, size_t first, RegionSet &set);

}  // namespace transect

// The section `transect_regions` of a module (sections.h).
#pragma once

#include "region.h"

#include "llvm/IR/Constants.h"

namespace transect {

/// Writes the table; the result holds the address of each region's record. `depths` are the numbers of enclosing
/// regions with sites.
std::vector<llvm::Constant *> writeRegionTable(llvm::Module &module, const RegionSet &regions,
                                               const std::vector<unsigned> &depths, SiteMode mode);

}  // namespace transect

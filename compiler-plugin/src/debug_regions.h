// Regions as inlined subroutines `FR(A,B)` in the debug information: no instruction at all.
#pragma once

#include "region.h"

namespace transect {

/// Describes all regions, or only those left to sampling for being hot. The subroutine's name is `FR(` features `)`,
/// its linkage name `transect.region.N` with the region's number.
void describeInDebugInfo(llvm::Module &module, const RegionSet &regions, bool all);

}  // namespace transect

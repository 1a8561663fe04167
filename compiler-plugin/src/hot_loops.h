// Regions that are too small and too hot for sites.
#pragma once

#include "region.h"

namespace transect {

/// Marks regions whose sites would stand in an inner loop that the optimiser could otherwise vectorise or turn into
/// straight code. They have no sites; sampling sees them through the debug information.
void leaveHotLoopsToSampling(llvm::Module &module, RegionSet &regions);

/// Starts the reason of such regions.
inline constexpr const char *kHotLoop = "hot loop: sampling only";

}  // namespace transect

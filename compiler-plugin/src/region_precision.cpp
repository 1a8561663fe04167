#include "region_precision.h"

#include "report.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

using namespace llvm;

namespace transect {

namespace {

/// Of fewer features half are too few to tell, of fewer regions a share.
constexpr size_t kFewFeatures = 4, kFewRegions = 20;
/// Share of regions with more than half of the features, and with one same set of several, from which on there is a warning.
constexpr double kBroad = 0.05, kSameSet = 0.5;

}  // namespace

RegionPrecision::RegionPrecision(const RegionSet &set) : ofFeature(set.features.size()) {
  std::vector<FeatureUses> counted;
  for (const Region &region : set.regions) {
    FeatureUses uses;
    for (FeatureUse use : region.features)
      if (use.dependence <= kDefaultDependence) {
        uses.push_back(use);
        ++ofFeature[use.feature];
      }
    if (!uses.empty())
      counted.push_back(std::move(uses));
  }
  regions = counted.size();
  features = count_if(ofFeature, [](size_t count) { return count > 0; });
  std::map<std::string, size_t> sets;
  for (const FeatureUses &uses : counted) {
    broad += 2 * uses.size() > features;
    if (uses.size() < 2)
      continue;
    if (size_t count = ++sets[featureNames(set, uses)]; count > ofLargestSet) {
      ofLargestSet = count;
      largestSet = uses;
    }
  }
}

bool RegionPrecision::isPoor() const {
  return features >= kFewFeatures && regions >= kFewRegions &&
         (broad > kBroad * regions || ofLargestSet > kSameSet * regions);
}

void warnOfBroadRegions(const RegionSet &set, raw_ostream &out) {
  const RegionPrecision precision(set);
  if (!precision.isPoor())
    return;
  out << "transect: warning: " << precision.broad << " of " << precision.regions
      << " regions depend on more than half of the " << precision.features << " options";
  if (!precision.largestSet.empty())
    out << ", " << precision.ofLargestSet << " on the same set {" << featureNames(set, precision.largestSet) << "}";
  out << ": TRANSECT_FEATURE_CUTS=1 shows through which places they spread, ignore = [...] in the model cuts there, and "
         "transect feature confirm tells which pairs occur\n";
}

}  // namespace transect

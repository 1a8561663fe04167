#include "report.h"

#include "region_precision.h"

#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/Instruction.h"

using namespace llvm;
using namespace transect;

std::string transect::featureNames(const RegionSet &set, const FeatureUses &features) {
  std::string text;
  for (FeatureUse use : features)
    if (use.dependence <= kDefaultDependence)
      text += (text.empty() ? "" : ",") + set.features[use.feature];
  return text;
}

static std::string withDependences(const RegionSet &set, const FeatureUses &features) {
  std::string text;
  for (FeatureUse use : features)
    text += (text.empty() ? "" : ",") + set.features[use.feature] + "=" + dependenceName(use.dependence);
  return text;
}

static const char *kindName(RegionKind kind) {
  switch (kind) {
  case RegionKind::Branch:
    return "branch";
  case RegionKind::Switch:
    return "switch";
  case RegionKind::Loop:
    return "loop";
  case RegionKind::Call:
    return "call";
  }
  return "";
}

void transect::reportDecisions(const RegionSet &set, const std::vector<Instruction *> &decisions,
                               const std::vector<FeatureUses> &features, raw_ostream &out) {
  for (size_t i = 0; i < decisions.size(); ++i) {
    const DILocation *where = decisions[i]->getDebugLoc().get();
    out << "transect: decision " << i << " " << "{" << withDependences(set, features[i]) << "} "
        << (where ? where->getFilename() : "?") << ":" << (where ? where->getLine() : 0) << " in "
        << demangle(decisions[i]->getFunction()->getName().str()) << "\n";
  }
}

void transect::reportRegions(const RegionSet &set, raw_ostream &out) {
  size_t lost = 0, irregular = 0, content = 0;
  for (const VariableOutcome &variable : set.variables) {
    out << "transect: variable " << variable.variable << " of " << set.features[variable.feature]
        << (variable.lost.empty() ? ": found" : ": lost: ") << variable.lost << "\n";
    lost += !variable.lost.empty();
  }
  const RegionPrecision precision(set);
  for (const Region &region : set.regions) {
    const DILocation *where = region.where.get();
    out << "transect: region " << std::string(2 * region.depth, ' ') << "{" << featureNames(set, region.features) << "} "
        << (where ? where->getFilename() : "?") << ":" << (where ? where->getLine() : 0) << "-" << region.endLine << " "
        << kindName(region.kind) << " in " << demangle(region.function->getName().str());
    if (!region.irregular.empty())
      out << ": irregular: " << region.irregular;
    out << "; " << withDependences(set, region.features) << "\n";
    irregular += !region.irregular.empty();
    content += featureNames(set, region.features).empty();
  }
  for (size_t i = 0; i < precision.ofFeature.size(); ++i)
    out << "transect: feature " << set.features[i] << ": " << precision.ofFeature[i]
        << (precision.ofFeature[i] == 1 ? " region\n" : " regions\n");
  out << "transect: " << precision.broad << " of " << precision.regions << " regions depend on more than half of "
      << precision.features << " features, " << precision.ofLargestSet << " on the same set of several\n";
  out << "transect: " << set.variables.size() - lost << " variables found, " << lost << " lost; " << set.regions.size()
      << " regions, " << irregular << " irregular, " << content << " by content only; implicit flow " << set.implicit << "\n";
}

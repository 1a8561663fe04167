#include "report.h"

#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/Instruction.h"

using namespace llvm;
using namespace transect;

std::string transect::featureSet(const RegionSet &set, ArrayRef<unsigned> features) {
  std::string text = "{";
  for (unsigned feature : features) {
    if (text.size() > 1)
      text += ",";
    text += set.features[feature];
  }
  return text + "}";
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
                               const std::vector<std::vector<unsigned>> &features, raw_ostream &out) {
  for (size_t i = 0; i < decisions.size(); ++i) {
    const DILocation *where = decisions[i]->getDebugLoc().get();
    out << "transect: decision " << i << " " << featureSet(set, features[i]) << " "
        << (where ? where->getFilename() : "?") << ":" << (where ? where->getLine() : 0) << " in "
        << demangle(decisions[i]->getFunction()->getName().str()) << "\n";
  }
}

void transect::reportRegions(const RegionSet &set, raw_ostream &out) {
  size_t lost = 0, irregular = 0;
  for (const VariableOutcome &variable : set.variables) {
    out << "transect: variable " << variable.variable << " of " << set.features[variable.feature]
        << (variable.lost.empty() ? ": found" : ": lost: ") << variable.lost << "\n";
    lost += !variable.lost.empty();
  }
  std::vector<size_t> count(set.features.size());
  for (const Region &region : set.regions) {
    const DILocation *where = region.where.get();
    out << "transect: region " << std::string(2 * region.depth, ' ') << featureSet(set, region.features) << " "
        << (where ? where->getFilename() : "?") << ":" << (where ? where->getLine() : 0) << "-" << region.endLine << " "
        << kindName(region.kind) << " in " << demangle(region.function->getName().str());
    if (!region.irregular.empty())
      out << ": irregular: " << region.irregular;
    out << "\n";
    irregular += !region.irregular.empty();
    for (unsigned feature : region.features)
      ++count[feature];
  }
  for (size_t i = 0; i < count.size(); ++i)
    out << "transect: feature " << set.features[i] << ": " << count[i] << (count[i] == 1 ? " region\n" : " regions\n");
  out << "transect: " << set.variables.size() - lost << " variables found, " << lost << " lost; " << set.regions.size()
      << " regions, " << irregular << " irregular; implicit flow " << set.implicit << "\n";
}

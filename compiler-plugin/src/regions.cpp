// The analysis from end to end: variables, data flow, decisions, regions.
#include "analysis_copy.h"
#include "function_regions.h"
#include "points_to.h"
#include "report.h"
#include "taint.h"
#include "unwinding.h"
#include "variables.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

#include <cstdlib>

using namespace llvm;
using namespace transect;

namespace {

StringRef setting(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

/// A call that is a region of its own gets a block of its own.
void isolate(CallBase &call) {
  if (call.isMustTailCall())
    return;
  SplitBlock(call.getParent(), &call);
  if (!call.isTerminator())
    SplitBlock(call.getParent(), call.getNextNode());
}

}  // namespace

RegionSet transect::findRegions(Module &module, const FeatureModel &model, ImplicitFlow implicit) {
  RegionSet result;
  result.modelHash = model.hash;
  result.implicit = implicit == ImplicitFlow::None ? "none" : implicit == ImplicitFlow::Constant ? "constant" : "all";
  FeatureVariables variables = findVariables(module, model, result);
  if (!result.errors.empty() || (variables.memory.empty() && variables.values.empty() && variables.addresses.empty() &&
                                 variables.members.empty()))
    return result;

  DenseMap<const Instruction *, FeatureUses> tainted;
  {
    AnalysisCopy copy = copyForAnalysis(module, variables);
    PointsTo pointsTo(*copy.module, copy.readOnly);
    const StringRef cuts = setting("TRANSECT_FEATURE_CUTS");
    std::vector<FeatureUses> features =
        decisionFeatures(copy, pointsTo, implicit,
                         TaintQuestion::read(setting("TRANSECT_FEATURE_EXPLAIN"), !cuts.empty() && cuts != "0",
                                             result.features, errs()));
    if (setting("TRANSECT_FEATURE_REPORT") == "decisions")
      reportDecisions(result, copy.decisions, features, errs());
    for (size_t i = 0; i < features.size(); ++i)
      if (!features[i].empty())
        tainted[copy.decisions[i]] = std::move(features[i]);
    result.decisions = copy.decisions;
  }

  for (Function &function : module) {
    std::vector<CallBase *> calls;
    for (Instruction &instruction : instructions(function))
      if (auto *call = dyn_cast<CallBase>(&instruction); call && tainted.count(call))
        calls.push_back(call);
    for (CallBase *call : calls)
      isolate(*call);
  }
  static const FeatureUses none;
  auto featuresOf = [&](const Instruction *instruction) -> const FeatureUses & {
    auto known = tainted.find(instruction);
    return known == tainted.end() ? none : known->second;
  };
  if (!tainted.empty())
    splitAfterSetjmp(module);
  DenseMap<const Function *, size_t> firstRegion;
  for (Function &function : module) {
    if (function.isDeclaration() ||
        none_of(instructions(function), [&](Instruction &instruction) { return tainted.count(&instruction) != 0; }))
      continue;
    firstRegion[&function] = result.regions.size();
    addFunctionRegions(function, featuresOf, result.regions);
  }
  for (Function *function : functionsThatMayUnwindRegions(module, result.regions)) {
    auto first = firstRegion.find(function);
    addRestores(*function, first == firstRegion.end() ? result.regions.size() : first->second, result);
  }
  StringRef report = setting("TRANSECT_FEATURE_REPORT");
  if (!report.empty() && report != "0")
    reportRegions(result, errs());
  return result;
}

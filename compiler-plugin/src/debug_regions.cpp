#include "debug_regions.h"
#include "hot_loops.h"
#include "report.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/DIBuilder.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;

namespace transect {

namespace {

class RegionScopes {
public:
  RegionScopes(Module &module, const RegionSet &set) : module(module), set(set) {}

  /// The place where a region is "called", and the subroutine that it is.
  void enter(BasicBlock &block, unsigned region) {
    DISubprogram *function = block.getParent()->getSubprogram();
    DISubprogram *scope = subprogram(region, *function);
    for (Instruction &instruction : block) {
      DILocation *location = instruction.getDebugLoc().get();
      if (!location || isa<DbgInfoIntrinsic>(instruction))
        continue;  // variables stay in their own scope
      instruction.setDebugLoc(DILocation::get(module.getContext(), location->getLine(), location->getColumn(), scope,
                                              callOf(region, location, *function)));
    }
  }

private:
  /// One call for each region and surrounding scope, so that the region is one inlined subroutine.
  DILocation *callOf(unsigned region, DILocation *location, DISubprogram &function) {
    DILocation *outer = location->getInlinedAt();
    DIScope *scope = outer ? cast<DIScope>(location->getScope()) : cast<DIScope>(&function);
    DILocation *&call = calls[{region, outer}];
    if (!call) {
      const DebugLoc &where = set.regions[region].where;
      call = DILocation::getDistinct(module.getContext(), where ? where.getLine() : function.getLine(),
                                     where ? where.getCol() : 0, scope, outer);
    }
    return call;
  }

  DISubprogram *subprogram(unsigned number, DISubprogram &function) {
    DISubprogram *&program = programs[number];
    if (program)
      return program;
    const Region &region = set.regions[number];
    const std::string name = "FR(" + featureNames(set, region.features) + ")";
    DIBuilder builder(module, /*AllowUnresolved=*/false, function.getUnit());
    const unsigned line = region.where ? region.where.getLine() : function.getLine();
    program = builder.createFunction(
        function.getFile(), name, "transect.region." + std::to_string(region.number), function.getFile(), line,
        builder.createSubroutineType(builder.getOrCreateTypeArray({})), line, DINode::FlagArtificial,
        DISubprogram::SPFlagDefinition | DISubprogram::SPFlagLocalToUnit);
    builder.finalizeSubprogram(program);
    return program;
  }

  Module &module;
  const RegionSet &set;
  DenseMap<unsigned, DISubprogram *> programs;
  DenseMap<std::pair<unsigned, DILocation *>, DILocation *> calls;
};

}  // namespace

void describeInDebugInfo(Module &module, const RegionSet &set, bool all) {
  RegionScopes scopes(module, set);
  std::vector<unsigned> order;
  for (size_t i = 0; i < set.regions.size(); ++i)
    if (!featureNames(set, set.regions[i].features).empty() &&
        (all || StringRef(set.regions[i].irregular).starts_with(kHotLoop)))
      order.push_back(i);
  // Outer regions first: inner ones are inlined into them.
  llvm::stable_sort(order, [&](unsigned a, unsigned b) { return set.regions[a].depth < set.regions[b].depth; });
  for (unsigned i : order)
    for (BasicBlock *block : set.regions[i].blocks)
      if (block->getParent()->getSubprogram())
        scopes.enter(*block, i);
}

}  // namespace transect

#include "hot_loops.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Analysis/BlockFrequencyInfo.h"
#include "llvm/Analysis/BranchProbabilityInfo.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/IntrinsicInst.h"

#include <cstdlib>

using namespace llvm;

namespace transect {

namespace {

/// Work of one pass through a loop's body, in instructions as the optimiser will leave them, from which on two no-ops
/// no longer matter.
constexpr double kLoopWork = 120;
/// Work of a region itself from which on it is worth two sites wherever it stands.
constexpr double kRegionWork = 48;
/// More than any limit.
constexpr double kMuch = 1000;

/// How often blocks run against each other, as far as the shape of the code tells.
class Frequencies {
public:
  explicit Frequencies(Function &function)
      : dominators(function), loops(dominators), probabilities(function, loops),
        blocks(function, probabilities, loops) {}

  double of(const BasicBlock &block) const { return double(blocks.getBlockFreq(&block).getFrequency()); }

  double of(const Place &place) const {
    double whole = of(*place.from);
    return place.to ? whole * probability(place) : whole;
  }

  Loop *loopOf(const BasicBlock &block) { return loops.getLoopFor(&block); }

private:
  double probability(const Place &place) const {
    BranchProbability part = probabilities.getEdgeProbability(place.from, place.successor);
    return double(part.getNumerator()) / BranchProbability::getDenominator();
  }

  DominatorTree dominators;
  LoopInfo loops;
  BranchProbabilityInfo probabilities;
  BlockFrequencyInfo blocks;
};

/// Estimates the work that is to be expected, in instructions: what is kept in registers costs nothing, the callee's work
/// belongs to the call, code behind a branch counts by how often it runs.
class WorkEstimate {
public:
  Frequencies &frequencies(Function &function) {
    std::unique_ptr<Frequencies> &entry = known[&function];
    if (!entry)
      entry = std::make_unique<Frequencies>(function);
    return *entry;
  }

  /// Of these blocks, for each time that something of this frequency runs.
  template <typename Blocks> double of(Function &function, const Blocks &blocks, double frequency) {
    Frequencies &often = frequencies(function);
    double work = 0;
    for (BasicBlock *block : blocks)
      work += often.of(*block) / std::max(frequency, 1.0) * of(*block);
    return std::min(work, kMuch);
  }

  double of(Function &function) {
    auto [entry, isNew] = functions.try_emplace(&function, kMuch);  // recursion is much
    if (!isNew)
      return entry->second;
    const double work = of(function, make_pointer_range(function), frequencies(function).of(function.getEntryBlock()));
    return functions[&function] = work;
  }

private:
  double of(BasicBlock &block) {
    auto [entry, isNew] = blocks.try_emplace(&block, 0);
    if (!isNew)
      return entry->second;
    double work = 0;
    for (Instruction &instruction : block)
      work += of(instruction);
    return blocks[&block] = std::min(work, kMuch);
  }

  double of(Instruction &instruction) {
    if (auto *call = dyn_cast<CallBase>(&instruction)) {
      if (isa<IntrinsicInst>(call))
        return isa<MemIntrinsic>(call) ? 8 : 0;
      Function *callee = call->getCalledFunction();
      return !callee || callee->isDeclaration() ? kMuch : of(*callee);
    }
    if (isa<AllocaInst, CastInst, GetElementPtrInst, PHINode>(instruction))
      return 0;
    const Value *address = getLoadStorePointerOperand(&instruction);
    return address && isa<AllocaInst>(address) ? 0 : 1;
  }

  DenseMap<Function *, std::unique_ptr<Frequencies>> known;
  DenseMap<Function *, double> functions;
  DenseMap<BasicBlock *, double> blocks;
};

class HotLoops {
public:
  explicit HotLoops(Module &module) {
    // Functions that do little and are called in a hot loop are as hot as that.
    SmallVector<Function *> work;
    for (Function &function : module)
      if (!function.isDeclaration() && estimate.of(function) < kLoopWork)
        for (User *user : function.users())
          if (auto *call = dyn_cast<CallBase>(user);
              call && call->getCalledFunction() == &function && isHot(*call->getParent())) {
            if (called.insert(&function).second)
              work.push_back(&function);
            break;
          }
    while (!work.empty())
      for (BasicBlock &block : *work.pop_back_val())
        for (Instruction &instruction : block)
          if (auto *call = dyn_cast<CallBase>(&instruction))
            if (Function *callee = call->getCalledFunction();
                callee && !callee->isDeclaration() && estimate.of(*callee) < kLoopWork && called.insert(callee).second)
              work.push_back(callee);
  }

  /// Whether the block runs once for each pass through a loop that has little to do.
  bool isHot(BasicBlock &block) {
    if (called.contains(block.getParent()))
      return true;
    Loop *loop = estimate.frequencies(*block.getParent()).loopOf(block);
    return loop && workOf(*loop) < kLoopWork;
  }

  /// Expected each time that the region begins.
  double workOf(const Region &region) {
    double begun = 0;
    for (const Place &place : region.begins)
      begun += estimate.frequencies(*region.function).of(place);
    return estimate.of(*region.function, region.blocks, begun);
  }

private:
  double workOf(Loop &loop) {
    auto [entry, isNew] = bodies.try_emplace(&loop, kMuch);
    if (isNew) {
      Function &function = *loop.getHeader()->getParent();
      bodies[&loop] = estimate.of(function, loop.blocks(), estimate.frequencies(function).of(*loop.getHeader()));
    }
    return bodies[&loop];
  }

  WorkEstimate estimate;
  DenseMap<Loop *, double> bodies;
  SmallPtrSet<Function *, 16> called;
};

}  // namespace

void leaveHotLoopsToSampling(Module &module, RegionSet &set) {
  if (const char *choice = std::getenv("TRANSECT_HOT_LOOPS"); choice && StringRef(choice) == "sites")
    return;
  HotLoops hot(module);
  for (Region &region : set.regions) {
    if (!region.irregular.empty() || region.begins.empty())
      continue;
    const bool inHotLoop = all_of(region.begins, [&](const Place &place) { return hot.isHot(*place.from); }) &&
                           hot.workOf(region) < kRegionWork;
    if (inHotLoop)
      region.irregular = kHotLoop;
  }
}

}  // namespace transect

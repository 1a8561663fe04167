#include "function_regions.h"

#include "decisions.h"
#include "post_dominators.h"

#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/ADT/SetOperations.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"

#include <algorithm>
#include <map>

using namespace llvm;
using namespace transect;

namespace {

using Blocks = SmallPtrSet<BasicBlock *, 16>;

struct Candidate {
  Region region;
  BasicBlock *head = nullptr;
  Blocks blocks;
};

/// The source has this variable.
bool isDescribed(const AllocaInst &variable) {
  for (const Instruction &instruction : instructions(*variable.getFunction())) {
    if (const auto *declare = dyn_cast<DbgVariableIntrinsic>(&instruction))
      if (is_contained(declare->location_ops(), &variable))
        return true;
#if LLVM_VERSION_MAJOR >= 19
    for (const DbgVariableRecord &record : filterDbgVars(instruction.getDbgRecordRange()))
      if (is_contained(record.location_ops(), &variable))
        return true;
#endif
  }
  return false;
}

bool isSubset(const Blocks &inner, const Blocks &outer) {
  return inner.size() <= outer.size() && all_of(inner, [&](BasicBlock *block) { return outer.contains(block); });
}

/// Whether evaluating this part of a condition runs code of the program.
bool runsCalls(const BasicBlock &block) {
  return any_of(block, [](const Instruction &instruction) {
    return isa<CallBase>(instruction) && !isa<IntrinsicInst>(instruction);
  });
}

/// A switch that the compiler makes of the ways out of a scope: over a variable of its own.
bool isWayOut(const BasicBlock &block) {
  const auto *choice = dyn_cast<SwitchInst>(block.getTerminator());
  const auto *load = choice ? dyn_cast<LoadInst>(choice->getCondition()) : nullptr;
  const auto *slot = load ? dyn_cast<AllocaInst>(load->getPointerOperand()) : nullptr;
  return slot && load->hasOneUse() && all_of(slot->users(), [&](const User *user) {
    const auto *store = dyn_cast<StoreInst>(user);
    return user == load || isa<LifetimeIntrinsic>(user) || (store && isa<ConstantInt>(store->getValueOperand()));
  }) && !isDescribed(*slot);
}

/// Only values are computed there, as in `x = A ? 1 : 2`: nothing that takes time or has an effect.
bool onlyComputesValues(const Blocks &blocks) {
  return all_of(blocks, [](const BasicBlock *block) {
    return all_of(*block, [](const Instruction &instruction) {
      if (isa<AnyMemIntrinsic>(instruction))
        return false;
      return isa<IntrinsicInst>(instruction) || isa<BranchInst>(instruction) ||
             (!instruction.mayHaveSideEffects() && !instruction.isTerminator());
    });
  });
}

class FunctionRegions {
public:
  using FeaturesOf = std::function<const FeatureUses &(const Instruction *)>;

  FunctionRegions(Function &function, const FeaturesOf &featuresOf)
      : function(function), featuresOf(featuresOf), ends(function), dominators(function), loops(dominators) {
    unsigned place = 0;
    for (BasicBlock *block : ReversePostOrderTraversal<Function *>(&function))
      order[block] = place++;
  }

  void run(std::vector<Region> &regions) {
    for (const Decision &decision : decisionsOf(function))
      consider(decision);
    for (BasicBlock &block : function)
      for (Instruction &instruction : block)
        if (isa<CallBase>(instruction) && !featuresOf(&instruction).empty())
          considerCall(cast<CallBase>(instruction));
    nest();
    emit(regions);
  }

private:
  void consider(const Decision &decision) {
    std::map<unsigned, Dependence> features;
    std::vector<Decider> deciders;
    for (BasicBlock *block : decision.blocks) {
      const FeatureUses &own = featuresOf(block->getTerminator());
      for (FeatureUse use : own) {
        Dependence &known = features.try_emplace(use.feature, use.dependence).first->second;
        known = std::min(known, use.dependence);
      }
      if (!own.empty())
        deciders.push_back({block->getTerminator(), own});
    }
    if (features.empty() || isWayOut(*decision.blocks.front()))
      return;
    Candidate candidate;
    candidate.head = decision.blocks.front();
    for (auto [feature, dependence] : features)
      candidate.region.features.push_back({feature, dependence});
    candidate.region.deciders = std::move(deciders);
    candidate.region.kind = isa<BranchInst>(candidate.head->getTerminator()) ? RegionKind::Branch : RegionKind::Switch;
    candidate.region.where = placeOf(candidate.head);
    extent(candidate, decision);
    const bool idle = candidate.region.kind == RegionKind::Branch && onlyComputesValues(candidate.blocks);
    if (!candidate.blocks.empty() && !idle)
      candidates.push_back(std::move(candidate));
  }

  void considerCall(CallBase &call) {
    Candidate candidate;
    candidate.head = call.getParent();
    candidate.region.features = featuresOf(&call);
    candidate.region.deciders = {{&call, candidate.region.features}};
    candidate.region.kind = RegionKind::Call;
    candidate.region.where = call.getDebugLoc();
    candidate.blocks.insert(call.getParent());
    candidates.push_back(std::move(candidate));
  }

  static DebugLoc placeOf(const BasicBlock *block) {
    const Instruction *terminator = block->getTerminator();
    if (DebugLoc place = terminator->getDebugLoc(); place && place.getLine())
      return place;
    for (const Instruction &instruction : reverse(*block))
      if (DebugLoc place = instruction.getDebugLoc(); place && place.getLine())
        return place;
    // The computed gotos of a function share a block that is no line's.
    const BasicBlock *before = block->getUniquePredecessor();
    return before && isa<IndirectBrInst>(terminator) ? placeOf(before) : DebugLoc();
  }

  /// All code between the decision and its immediate post-dominator that is reached through the decision only.
  void extent(Candidate &candidate, const Decision &decision) {
    BasicBlock *end = ends.immediate(candidate.head);
    while (end && is_contained(decision.blocks, end))
      end = ends.immediate(end);
    Blocks condition(decision.blocks.begin(), decision.blocks.end()), reached;
    std::vector<BasicBlock *> work;
    auto reach = [&](BasicBlock *block) {
      if (block != end && reached.insert(block).second)
        work.push_back(block);
    };
    for (BasicBlock *part : decision.blocks)
      for (BasicBlock *next : normalSuccessors(part))
        if (!condition.contains(next) || next == candidate.head)
          reach(next);
    while (!work.empty()) {
      BasicBlock *block = work.back();
      work.pop_back();
      for (BasicBlock *next : normalSuccessors(block))
        reach(next);
    }
    const bool repeats = reached.contains(candidate.head);
    const BasicBlock *entry = candidate.head;
    if (repeats) {
      candidate.region.kind = RegionKind::Loop;
      reached.insert(decision.blocks.begin(), decision.blocks.end());
      Loop *loop = loops.getLoopFor(candidate.head), *best = nullptr;
      for (; loop; loop = loop->getParentLoop())
        if (all_of(loop->blocks(),
                   [&](BasicBlock *block) { return reached.contains(block) || !isSubsetOfReturning(block); }))
          best = loop;
      entry = best ? best->getHeader() : nullptr;
    } else {
      // Of `A && work()` the second part runs because of A, too.
      bool tainted = false;
      for (BasicBlock *part : decision.blocks) {
        if (tainted && runsCalls(*part))
          reached.insert(part);
        tainted |= !featuresOf(part->getTerminator()).empty();
      }
    }
    for (BasicBlock *block : reached)
      if (!entry || (dominators.isReachableFromEntry(block) && dominators.dominates(entry, block)))
        candidate.blocks.insert(block);
    addLandingPads(candidate, end);
  }

  /// Landing pads are reached by unwinding, which the extent leaves out.
  bool isSubsetOfReturning(const BasicBlock *block) const {
    for (const BasicBlock *b = block; b; b = b->getSinglePredecessor()) {
      if (b->isEHPad())
        return false;
      if (b->getSinglePredecessor() == block)
        break;
    }
    return true;
  }

  /// What runs only after unwinding out of the region's code is part of it.
  void addLandingPads(Candidate &candidate, const BasicBlock *end) {
    for (bool grown = true; grown;) {
      grown = false;
      for (BasicBlock &block : function) {
        if (&block == end || candidate.blocks.contains(&block) || !order.count(&block) || pred_empty(&block))
          continue;
        if (!block.isEHPad() && !padBlocks.contains(&block) &&
            none_of(predecessors(&block), [&](BasicBlock *before) { return padBlocks.contains(before); }))
          continue;
        if (all_of(predecessors(&block), [&](BasicBlock *before) { return candidate.blocks.contains(before); })) {
          candidate.blocks.insert(&block);
          padBlocks.insert(&block);
          grown = true;
        }
      }
    }
  }

  static void dropEnteredPads(Blocks &blocks) {
    for (bool shrunk = true; shrunk;) {
      shrunk = false;
      for (BasicBlock *block : blocks)
        if (block->isEHPad() &&
            any_of(predecessors(block), [&](BasicBlock *before) { return !blocks.contains(before); })) {
          blocks.erase(block);
          shrunk = true;
          break;
        }
    }
  }

  /// Regions must lie in each other or apart: where two overlap, the smaller is cut at the larger one's border.
  void nest() {
    auto bySize = [&](const Candidate &a, const Candidate &b) {
      if (a.blocks.size() != b.blocks.size())
        return a.blocks.size() > b.blocks.size();
      if (a.head != b.head)
        return order.lookup(a.head) < order.lookup(b.head);
      return a.region.kind != RegionKind::Call && b.region.kind == RegionKind::Call;
    };
    std::stable_sort(candidates.begin(), candidates.end(), bySize);
    std::vector<Candidate> kept;
    for (Candidate &candidate : candidates) {
      dropEnteredPads(candidate.blocks);
      for (const Candidate &outer : kept) {
        bool meets = any_of(candidate.blocks, [&](BasicBlock *block) { return outer.blocks.contains(block); });
        if (!meets || isSubset(candidate.blocks, outer.blocks) || isSubset(outer.blocks, candidate.blocks))
          continue;
        const bool inside = outer.blocks.contains(candidate.head);
        std::vector<BasicBlock *> gone;
        for (BasicBlock *block : candidate.blocks)
          if (outer.blocks.contains(block) != inside)
            gone.push_back(block);
        for (BasicBlock *block : gone)
          candidate.blocks.erase(block);
        dropEnteredPads(candidate.blocks);
      }
      if (!candidate.blocks.empty())
        kept.push_back(std::move(candidate));
    }
    std::stable_sort(kept.begin(), kept.end(), bySize);
    candidates.clear();
    for (Candidate &candidate : kept) {
      // A region whose features are its surroundings' anyway tells nothing.
      bool known = any_of(candidates, [&](const Candidate &outer) {
        return isSubset(candidate.blocks, outer.blocks) &&
               includesAtEveryLevel(outer.region.features, candidate.region.features);
      });
      if (!known)
        candidates.push_back(std::move(candidate));
    }
  }

  void addPlaces(Candidate &candidate) {
    Region &region = candidate.region;
    for (BasicBlock &block : function) {
      const bool inside = candidate.blocks.contains(&block);
      Instruction *terminator = block.getTerminator();
      if (inside && (isa<ReturnInst>(terminator) || isa<ResumeInst>(terminator))) {
        if (block.getTerminatingMustTailCall())
          region.irregular = "it ends in a call that must be a tail call";
        region.ends.push_back({&block, nullptr, 0});
      }
      for (unsigned i = 0; i < terminator->getNumSuccessors(); ++i) {
        BasicBlock *next = terminator->getSuccessor(i);
        if (next->isEHPad() || candidate.blocks.contains(next) == inside)
          continue;
        if (isa<IndirectBrInst>(terminator) && !next->getUniquePredecessor())
          region.irregular = "a computed goto enters or leaves it";
        if (isa<CallBrInst>(terminator))
          region.irregular = "assembly jumps into or out of it";
        (inside ? region.ends : region.begins).push_back({&block, next, i});
      }
    }
    if (region.begins.empty() && region.irregular.empty())
      region.irregular = "no way in from the function's start";
    if (!region.irregular.empty()) {
      region.begins.clear();
      region.ends.clear();
    }
  }

  void emit(std::vector<Region> &regions) {
    const size_t first = regions.size();
    for (size_t i = 0; i < candidates.size(); ++i) {
      Candidate &candidate = candidates[i];
      Region &region = candidate.region;
      region.function = &function;
      addPlaces(candidate);
      for (size_t outer = 0; outer < i; ++outer)
        if (candidates[outer].region.irregular.empty() && isSubset(candidate.blocks, candidates[outer].blocks) &&
            (region.parent < 0 || candidates[outer].blocks.size() <= candidates[region.parent - first].blocks.size())) {
          region.parent = first + outer;
          region.depth = regions[first + outer].depth + 1;
        }
      region.number = regions.size();
      const DILocation *where = region.where.get();
      for (BasicBlock &block : function) {
        if (!candidate.blocks.contains(&block))
          continue;
        region.blocks.push_back(&block);
        for (const Instruction &instruction : block) {
          const DILocation *place = instruction.getDebugLoc().get();
          if (place && where && !place->getInlinedAt() && place->getFile() == where->getFile() &&
              place->getLine() > region.endLine)
            region.endLine = place->getLine();
        }
      }
      if (where && region.endLine < where->getLine())
        region.endLine = where->getLine();
      regions.push_back(region);
    }
  }

  Function &function;
  const FeaturesOf &featuresOf;
  PostDominators ends;
  DominatorTree dominators;
  LoopInfo loops;
  DenseMap<const BasicBlock *, unsigned> order;
  std::vector<Candidate> candidates;
  Blocks padBlocks;
};

}  // namespace

void transect::addFunctionRegions(Function &function, const FunctionRegions::FeaturesOf &featuresOf,
                                  std::vector<Region> &regions) {
  FunctionRegions(function, featuresOf).run(regions);
}

void transect::addRestores(Function &function, size_t first, RegionSet &set) {
  for (BasicBlock &block : function) {
    // A call of setjmp is the last one of its block.
    const auto *call = block.size() > 1 ? dyn_cast<CallBase>(block.getTerminator()->getPrevNode()) : nullptr;
    if (!block.isLandingPad() && !(call && call->hasFnAttr(Attribute::ReturnsTwice)))
      continue;
    Region *inner = nullptr;
    for (size_t i = first; i < set.regions.size(); ++i) {
      Region &region = set.regions[i];
      if (region.irregular.empty() && is_contained(region.blocks, &block) && (!inner || region.depth >= inner->depth))
        inner = &region;
    }
    (inner ? inner->restores : set.restores).push_back({&block, nullptr, 0});
  }
}

#include "decisions.h"

#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Instructions.h"

using namespace llvm;
using namespace transect;

namespace {

bool isBranch(const BasicBlock *block) {
  const auto *branch = dyn_cast<BranchInst>(block->getTerminator());
  return branch && branch->isConditional();
}

/// A block of a short-circuit condition is reached from the condition only and leads where another part leads.
bool belongsTo(const std::vector<BasicBlock *> &group, BasicBlock *block) {
  if (!isBranch(block) || is_contained(group, block))
    return false;
  for (BasicBlock *before : predecessors(block))
    if (!is_contained(group, before))
      return false;
  for (BasicBlock *next : successors(block))
    for (BasicBlock *member : group)
      if (is_contained(successors(member), next) && next != block && !is_contained(group, next))
        return true;
  return false;
}

}  // namespace

std::vector<Decision> transect::decisionsOf(Function &function) {
  std::vector<Decision> result;
  SmallPtrSet<BasicBlock *, 32> taken;
  for (BasicBlock *block : ReversePostOrderTraversal<Function *>(&function)) {
    if (taken.contains(block))
      continue;
    if (isa<SwitchInst>(block->getTerminator()) || isa<IndirectBrInst>(block->getTerminator())) {
      result.push_back({{block}});
      continue;
    }
    if (!isBranch(block))
      continue;
    Decision decision{{block}};
    for (bool grown = true; grown;) {
      grown = false;
      for (size_t i = 0; i < decision.blocks.size() && !grown; ++i)
        for (BasicBlock *next : successors(decision.blocks[i]))
          if (!taken.contains(next) && belongsTo(decision.blocks, next)) {
            decision.blocks.push_back(next);
            grown = true;
            break;
          }
    }
    taken.insert(decision.blocks.begin(), decision.blocks.end());
    result.push_back(std::move(decision));
  }
  return result;
}

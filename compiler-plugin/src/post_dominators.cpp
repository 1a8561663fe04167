#include "post_dominators.h"

#include "llvm/IR/CFG.h"
#include "llvm/IR/Instructions.h"

#include <algorithm>

using namespace llvm;
using namespace transect;

std::vector<BasicBlock *> transect::normalSuccessors(const BasicBlock *block) {
  std::vector<BasicBlock *> result;
  const Instruction *terminator = block->getTerminator();
  if (const auto *invoke = dyn_cast<InvokeInst>(terminator)) {
    result.push_back(invoke->getNormalDest());
    return result;
  }
  for (unsigned i = 0; i < terminator->getNumSuccessors(); ++i) {
    BasicBlock *successor = terminator->getSuccessor(i);
    if (!successor->isEHPad() && std::find(result.begin(), result.end(), successor) == result.end())
      result.push_back(successor);
  }
  return result;
}

PostDominators::PostDominators(const Function &function) {
  for (const BasicBlock &block : function) {
    numbers[&block] = blocks.size();
    blocks.push_back(const_cast<BasicBlock *>(&block));
  }
  const unsigned count = blocks.size(), end = count;
  std::vector<std::vector<unsigned>> successors(count), predecessors(count + 1);
  for (unsigned b = 0; b < count; ++b)
    for (BasicBlock *successor : normalSuccessors(blocks[b]))
      successors[b].push_back(numbers[successor]);

  // Which blocks reach a return.
  std::vector<std::vector<unsigned>> backward(count);
  for (unsigned b = 0; b < count; ++b)
    for (unsigned s : successors[b])
      backward[s].push_back(b);
  auto reaching = [&](std::vector<bool> &seen, unsigned from) {
    std::vector<unsigned> work{from};
    seen[from] = true;
    while (!work.empty()) {
      unsigned b = work.back();
      work.pop_back();
      for (unsigned p : backward[b])
        if (!seen[p]) {
          seen[p] = true;
          work.push_back(p);
        }
    }
  };
  std::vector<bool> returns(count), ends(count);
  for (unsigned b = 0; b < count; ++b)
    if (isa<ReturnInst>(blocks[b]->getTerminator()) && !returns[b])
      reaching(returns, b);
  // The others end at noreturn calls, or nowhere: of an endless loop its last block in the source counts as its end.
  std::vector<bool> leaf(count);
  for (unsigned b = 0; b < count; ++b)
    if (successors[b].empty()) {
      leaf[b] = true;
      if (!ends[b])
        reaching(ends, b);
    }
  for (unsigned b = count; b-- > 0;)
    if (!ends[b]) {
      leaf[b] = true;
      reaching(ends, b);
    }
  for (unsigned b = 0; b < count; ++b) {
    if (returns[b])
      successors[b].erase(
          std::remove_if(successors[b].begin(), successors[b].end(), [&](unsigned s) { return !returns[s]; }),
          successors[b].end());
    if (leaf[b])
      successors[b].push_back(end);
    for (unsigned s : successors[b])
      predecessors[s].push_back(b);
  }

  // Dominators of the reversed graph (Cooper, Harvey, Kennedy).
  std::vector<unsigned> order, position(count + 1, ~0u);
  {
    std::vector<std::pair<unsigned, unsigned>> stack{{end, 0}};
    std::vector<bool> seen(count + 1);
    seen[end] = true;
    while (!stack.empty()) {
      auto &[b, next] = stack.back();
      if (next < predecessors[b].size()) {
        unsigned p = predecessors[b][next++];
        if (!seen[p]) {
          seen[p] = true;
          stack.push_back({p, 0});
        }
      } else {
        position[b] = order.size();
        order.push_back(b);
        stack.pop_back();
      }
    }
  }
  parent.assign(count + 1, ~0u);
  parent[end] = end;
  auto meet = [&](unsigned a, unsigned b) {
    while (a != b) {
      while (position[a] < position[b])
        a = parent[a];
      while (position[b] < position[a])
        b = parent[b];
    }
    return a;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (auto place = order.rbegin(); place != order.rend(); ++place) {
      unsigned b = *place;
      if (b == end)
        continue;
      unsigned best = ~0u;
      for (unsigned s : successors[b])
        if (parent[s] != ~0u)
          best = best == ~0u ? s : meet(best, s);
      if (best != ~0u && parent[b] != best) {
        parent[b] = best;
        changed = true;
      }
    }
  }

  controlledBy.resize(count);
  for (unsigned d = 0; d < count; ++d) {
    std::vector<BasicBlock *> all = normalSuccessors(blocks[d]);
    if (all.size() < 2)
      continue;
    for (BasicBlock *successor : all) {
      unsigned b = numbers[successor];
      // A block that never returns hangs below the end: only it and its like are controlled.
      while (b != end && b != parent[d] && parent[b] != ~0u) {
        std::vector<BasicBlock *> &list = controlledBy[b];
        if (std::find(list.begin(), list.end(), blocks[d]) == list.end())
          list.push_back(blocks[d]);
        b = parent[b];
      }
    }
  }
}

BasicBlock *PostDominators::immediate(const BasicBlock *block) const {
  unsigned above = parent[numbers.lookup(block)];
  return above < blocks.size() ? blocks[above] : nullptr;
}

const std::vector<BasicBlock *> &PostDominators::controllers(const BasicBlock *block) const {
  return controlledBy[numbers.lookup(block)];
}

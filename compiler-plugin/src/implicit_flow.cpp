#include "implicit_flow.h"

#include "decisions.h"
#include "flag_bits.h"
#include "post_dominators.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"

#include <optional>

using namespace llvm;
using namespace transect;

const Value *transect::conditionOf(const Instruction *terminator) {
  if (const auto *branch = dyn_cast<BranchInst>(terminator))
    return branch->isConditional() ? branch->getCondition() : nullptr;
  if (const auto *choice = dyn_cast<SwitchInst>(terminator))
    return choice->getCondition();
  if (const auto *jump = dyn_cast<IndirectBrInst>(terminator))
    return jump->getAddress();
  return nullptr;
}

bool transect::isLogicalValue(const Instruction *instruction) {
  return isa<PHINode>(instruction) && instruction->getType()->isIntegerTy(1);
}

bool transect::isSameAddress(const Value *a, const Value *b) {
  if (a == b)
    return true;
  if (const auto *first = dyn_cast<LoadInst>(a))
    if (const auto *second = dyn_cast<LoadInst>(b))
      return isSameAddress(first->getPointerOperand(), second->getPointerOperand());
  const auto *first = dyn_cast<GetElementPtrInst>(a), *second = dyn_cast<GetElementPtrInst>(b);
  if (!first || !second || first->getNumOperands() != second->getNumOperands() ||
      first->getSourceElementType() != second->getSourceElementType())
    return false;
  for (unsigned i = 0; i < first->getNumOperands(); ++i) {
    const auto *x = dyn_cast<LoadInst>(first->getOperand(i)), *y = dyn_cast<LoadInst>(second->getOperand(i));
    if (first->getOperand(i) != second->getOperand(i) && (!x || !y || x->getPointerOperand() != y->getPointerOperand()))
      return false;
  }
  return true;
}

namespace {

/// Addresses of variables and fresh memory are known like constants are, and so is what constants of the source hold.
bool isKnownValue(const Value *value, const DenseSet<const Value *> &readOnly) {
  if (isa<UndefValue>(value))
    return false;
  // `forward = !forward` chooses between two values.
  const Value *truth = value;
  while (isa<ZExtInst>(truth) || isa<TruncInst>(truth))
    truth = cast<CastInst>(truth)->getOperand(0);
  if (const auto *operation = dyn_cast<BinaryOperator>(truth);
      operation && operation->getOpcode() == Instruction::Xor && operation->getType()->isIntegerTy(1) && isa<ConstantInt>(operation->getOperand(1)))
    return true;
  if (isa<Constant>(value) || isa<AllocaInst>(value))
    return true;
  if (const auto *load = dyn_cast<LoadInst>(value))
    return readOnly.contains(load->getPointerOperand()->stripInBoundsConstantOffsets());
  const auto *call = dyn_cast<CallBase>(value);
  const Function *callee = call ? call->getCalledFunction() : nullptr;
  return callee && callee->returnDoesNotAlias();
}

/// A local variable of a function that became part of its caller is not chosen by what the caller decides.
bool isLocalOfCallee(const Instruction &store, const BasicBlock *decision) {
  const auto *write = dyn_cast<StoreInst>(&store);
  const auto *local = write ? dyn_cast<AllocaInst>(write->getPointerOperand()->stripInBoundsOffsets()) : nullptr;
  const DILocation *own = local ? local->getDebugLoc().get() : nullptr;
  if (!own || !own->getInlinedAt())
    return false;
  const DILocation *at = decision->getTerminator()->getDebugLoc().get();
  if (!at)
    return false;
  for (; at; at = at->getInlinedAt())
    if (at->getInlinedAt() == own->getInlinedAt())
      return false;
  return true;
}

/// A variable that is used in one arm of a decision only holds nothing else when the decision goes the other way.
bool isLocalOfArm(const Value *place, const BasicBlock *decision, const BasicBlock *block, const DominatorTree &dominators) {
  const auto *local = dyn_cast<AllocaInst>(place->stripInBoundsOffsets());
  if (!local)
    return false;
  const BasicBlock *arm = nullptr;
  for (const BasicBlock *successor : successors(decision))
    if (dominators.dominates(successor, block))
      arm = successor;
  if (!arm)
    return false;
  SmallVector<const Value *, 8> places = {local};
  for (size_t i = 0; i < places.size(); ++i)
    for (const User *user : places[i]->users()) {
      const auto *use = dyn_cast<Instruction>(user);
      if (!use || places.size() > 64)
        return false;
      if (isa<GetElementPtrInst>(use) || isa<CastInst>(use))
        places.push_back(use);
      else if (!isa<DbgInfoIntrinsic>(use) && !dominators.dominates(arm, use->getParent()))
        return false;
    }
  return true;
}

/// After `if (A) return;` all the rest of the function is under A, which a reader would not say: the rest is the arm
/// that comes last and is no block of its own in the source. `condition`: the blocks of `if (A && B)` or `if (A || B)`.
bool isRestAfterEarlyExit(const BasicBlock *decision, const BasicBlock *block, ArrayRef<BasicBlock *> condition,
                          const DominatorTree &dominators, const PostDominators &ends) {
  const Instruction *terminator = decision->getTerminator();
  const auto *branch = dyn_cast<BranchInst>(terminator);
  if (!branch || !branch->isConditional())
    return false;
  const BasicBlock *arm = nullptr, *other = nullptr;
  for (unsigned i = 0; i < 2; ++i)
    if (dominators.dominates(branch->getSuccessor(i), block)) {
      arm = branch->getSuccessor(i);
      other = branch->getSuccessor(1 - i);
    }
  // The rest of the condition is no arm.
  for (size_t steps = 0; arm && is_contained(condition, arm) && steps < condition.size(); ++steps) {
    const BasicBlock *next = nullptr;
    for (const BasicBlock *to : successors(arm))
      if (dominators.dominates(to, block))
        next = to;
    arm = next;
  }
  auto isCondition = [&](const BasicBlock *before) { return before == decision || is_contained(condition, before); };
  if (!arm || !other || other == ends.immediate(decision) || !all_of(predecessors(arm), isCondition))
    return false;
  const DILocation *here = terminator->getDebugLoc().get();
  const DILocation *there = nullptr;
  for (const Instruction &instruction : *arm)
    if ((there = instruction.getDebugLoc().get()))
      break;
  if (!here || !there || there->getLine() <= here->getLine())
    return false;
  // The parts of a condition are in the scope of its `if`.
  const auto *ifScope = condition.size() > 1 ? dyn_cast<DILexicalBlock>(here->getScope()) : nullptr;
  if (here->getScope() != there->getScope() && (!ifScope || ifScope->getScope() != there->getScope()))
    return false;
  for (const BasicBlock &next : *decision->getParent()) {
    if (&next == other)
      return true;
    if (&next == arm)
      return false;
  }
  return false;
}

/// Whether a block runs in one arm of a decision only: after `if (A) { if (failed) return; }` the rest runs whatever A
/// is.
class Arms {
public:
  explicit Arms(const Function &function) {
    for (const Decision &decision : decisionsOf(const_cast<Function &>(function)))
      for (const BasicBlock *block : decision.blocks)
        conditions[block] = decision.blocks;
  }

  bool isInOne(const BasicBlock *decision, const BasicBlock *block, const DominatorTree &dominators) const {
    if (!isa<BranchInst>(decision->getTerminator()))
      return true;
    auto condition = conditions.find(decision);
    for (const BasicBlock *arm : successors(decision))
      if (dominators.dominates(arm, block) && all_of(predecessors(arm), [&](const BasicBlock *before) {
            return before == decision || (condition != conditions.end() && is_contained(condition->second, before));
          }))
        return true;
    return false;
  }

  /// The blocks of the condition that this one is part of.
  ArrayRef<BasicBlock *> conditionAround(const BasicBlock *decision) const {
    auto condition = conditions.find(decision);
    return condition == conditions.end() ? ArrayRef<BasicBlock *>() : ArrayRef<BasicBlock *>(condition->second);
  }

private:
  DenseMap<const BasicBlock *, std::vector<BasicBlock *>> conditions;
};

}  // namespace

void ImplicitDependences::add(const Instruction *instruction, const Value *condition) {
  if (!condition || isa<Constant>(condition))
    return;
  Conditions &list = conditions[instruction];
  if (is_contained(list, condition))
    return;
  list.push_back(condition);
  dependents[condition].push_back(instruction);
}

void ImplicitDependences::addFunction(const Function &function, ImplicitFlow implicit) {
  const bool all = implicit == ImplicitFlow::All;
  std::optional<PostDominators> ends;
  std::optional<DominatorTree> dominators;
  std::optional<Arms> arms;
  for (const Instruction &instruction : instructions(function)) {
    const auto *phi = dyn_cast<PHINode>(&instruction);
    const auto *store = dyn_cast<StoreInst>(&instruction);
    const auto *end = dyn_cast<ReturnInst>(&instruction);
    bool chooses = false;
    if (phi)
      chooses = (implicit != ImplicitFlow::None || isLogicalValue(phi)) &&
                (all || any_of(phi->incoming_values(), [&](const Use &use) { return isKnownValue(use, readOnly); }) ||
                 setsBits(*phi));
    else if (implicit != ImplicitFlow::None && store)
      chooses = all || isKnownValue(store->getValueOperand(), readOnly) || setsBits(*store);
    else if (const auto *fill = dyn_cast<AnyMemSetInst>(&instruction); fill && implicit != ImplicitFlow::None)
      chooses = all || isKnownValue(fill->getValue(), readOnly);
    else if (const auto *copy = dyn_cast<AnyMemTransferInst>(&instruction); copy && implicit != ImplicitFlow::None)
      chooses = all || readOnly.contains(copy->getRawSource()->stripInBoundsOffsets());
    else if (implicit != ImplicitFlow::None && end && end->getReturnValue())
      chooses = all || isKnownValue(end->getReturnValue(), readOnly);
    if (!chooses)
      continue;
    if (!ends) {
      ends.emplace(function);
      dominators.emplace(const_cast<Function &>(function));
      arms.emplace(function);
    }
    const BasicBlock *block = instruction.getParent();
    if (!dominators->isReachableFromEntry(block))
      continue;
    if (!phi) {
      const auto *memory = dyn_cast<AnyMemIntrinsic>(&instruction);
      const Value *place = store ? store->getPointerOperand() : memory ? memory->getRawDest() : nullptr;
      for (const BasicBlock *decision : ends->controllers(block))
        if (all ||
            (!(place && isLocalOfArm(place, decision, block, *dominators)) && arms->isInOne(decision, block, *dominators) &&
             !isRestAfterEarlyExit(decision, block, arms->conditionAround(decision), *dominators, *ends) &&
             !isLocalOfCallee(instruction, decision)))
          add(&instruction, conditionOf(decision->getTerminator()));
      continue;
    }
    // Only decisions since the ways parted choose among the values that meet here.
    const BasicBlock *parting = dominators->getNode(const_cast<BasicBlock *>(block))->getIDom()
                                    ? dominators->getNode(const_cast<BasicBlock *>(block))->getIDom()->getBlock()
                                    : nullptr;
    for (unsigned i = 0; i < phi->getNumIncomingValues(); ++i) {
      if (!all && !isKnownValue(phi->getIncomingValue(i), readOnly) && !setsBits(*phi, i))
        continue;
      const BasicBlock *from = phi->getIncomingBlock(i);
      if (!dominators->isReachableFromEntry(from))
        continue;
      if (const Value *condition = conditionOf(from->getTerminator())) {
        add(phi, condition);
        continue;
      }
      for (const BasicBlock *decision : ends->controllers(from))
        if (parting && dominators->dominates(parting, decision) && (all || arms->isInOne(decision, from, *dominators)))
          add(phi, conditionOf(decision->getTerminator()));
    }
  }
}

ImplicitDependences::ImplicitDependences(const Module &module, ImplicitFlow implicit,
                                         const DenseSet<const Value *> &readOnly)
    : readOnly(readOnly) {
  for (const Function &function : module)
    if (!function.isDeclaration())
      addFunction(function, implicit);
}

uint64_t ImplicitDependences::bitsOf(const Instruction *instruction) const {
  if (const auto *store = dyn_cast<StoreInst>(instruction))
    return isKnownValue(store->getValueOperand(), readOnly) ? 0 : bitsSet(*store);
  const auto *phi = dyn_cast<PHINode>(instruction);
  if (!phi)
    return 0;
  if (any_of(phi->incoming_values(), [&](const Use &use) { return isKnownValue(use, readOnly); }))
    return bitsChosen(SmallVector<const Value *, 4>(phi->operand_values()));
  return bitsSet(*phi);
}

const ImplicitDependences::Conditions &ImplicitDependences::of(const Instruction *instruction) const {
  static const Conditions none;
  auto known = conditions.find(instruction);
  return known == conditions.end() ? none : known->second;
}

const SmallVector<const Instruction *, 2> &ImplicitDependences::on(const Value *condition) const {
  static const SmallVector<const Instruction *, 2> none;
  auto known = dependents.find(condition);
  return known == dependents.end() ? none : known->second;
}

#include "exceptions.h"

#include "llvm/IR/CFG.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/GlobalVariable.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;
using namespace transect;

namespace {

/// Blocks on the way back from a handler to its landing pad, bases above a class.
constexpr unsigned kMostSteps = 64, kMostBases = 16;

/// The type-info object with which a comparison compares the selector of a landing pad.
const Value *typeCompared(const Value *condition) {
  const auto *comparison = dyn_cast<ICmpInst>(condition);
  if (!comparison || comparison->getPredicate() != CmpInst::ICMP_EQ)
    return nullptr;
  for (const Use &side : comparison->operands())
    if (const auto *number = dyn_cast<IntrinsicInst>(side); number && number->getIntrinsicID() == Intrinsic::eh_typeid_for)
      return number->getArgOperand(0)->stripPointerCasts();
  return nullptr;
}

/// Pointers to types, whose conversions the names alone do not tell.
bool isPointer(const GlobalVariable &type) { return type.getName().starts_with("_ZTIP"); }

std::optional<int64_t> placeOfBase(const GlobalVariable &type, const GlobalVariable &base, unsigned depth) {
  if (&type == &base || type.getName() == base.getName())
    return 0;
  if (isPointer(type) || isPointer(base))
    return isPointer(type) && isPointer(base) ? std::optional<int64_t>(0) : std::nullopt;
  // Both outside: the library's own classes derive from each other.
  if (type.isDeclaration())
    return base.isDeclaration() ? std::optional<int64_t>(0) : std::nullopt;
  const auto *fields = dyn_cast<ConstantStruct>(type.getInitializer());
  if (!fields || depth > kMostBases)
    return std::nullopt;
  // The table of virtual functions, the name, then: nothing; one base; or flags, a count, and bases with their offsets.
  for (unsigned i = 2; i < fields->getNumOperands(); ++i) {
    const auto *above = dyn_cast<GlobalVariable>(fields->getOperand(i)->stripPointerCasts());
    const auto inside = above ? placeOfBase(*above, base, depth + 1) : std::nullopt;
    if (!inside)
      continue;
    const auto *flags = i + 1 < fields->getNumOperands() ? dyn_cast<ConstantInt>(fields->getOperand(i + 1)) : nullptr;
    const bool isVirtual = flags && (flags->getSExtValue() & 1);
    return *inside + (flags && !isVirtual ? flags->getSExtValue() >> 8 : 0);
  }
  return std::nullopt;
}

}  // namespace

SmallVector<const Value *, 2> transect::caughtTypes(const CallBase &call) {
  const BasicBlock *block = call.getParent();
  for (unsigned steps = 0; steps < kMostSteps; ++steps) {
    if (const LandingPadInst *pad = block->getLandingPadInst()) {
      SmallVector<const Value *, 2> types;
      for (unsigned i = 0; i < pad->getNumClauses(); ++i) {
        const auto *type = dyn_cast<GlobalVariable>(pad->getClause(i)->stripPointerCasts());
        if (!pad->isCatch(i) || !type)
          return {};
        types.push_back(type);
      }
      return types;
    }
    const BasicBlock *before = block->getSinglePredecessor();
    const auto *branch = before ? dyn_cast<BranchInst>(before->getTerminator()) : nullptr;
    if (!branch)
      return {};
    if (branch->isConditional() && branch->getSuccessor(0) == block)
      if (const Value *type = typeCompared(branch->getCondition()); type && isa<GlobalVariable>(type))
        return {type};
    block = before;
  }
  return {};
}

std::optional<int64_t> transect::caughtAs(const Value *thrown, const Value *caught) {
  const auto *type = dyn_cast<GlobalVariable>(thrown), *base = dyn_cast<GlobalVariable>(caught);
  return type && base ? placeOfBase(*type, *base, 0) : std::optional<int64_t>(0);
}

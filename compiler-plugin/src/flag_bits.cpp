#include "flag_bits.h"

#include "analysis_copy.h"
#include "implicit_flow.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InstrTypes.h"

#include <optional>

using namespace llvm;
using namespace transect;

namespace {

/// An option's variable is marked where it is read.
const Value *unmarked(const Value *value) {
  const auto *call = dyn_cast<CallBase>(value);
  return call && markedValue(*call) ? call->getArgOperand(0) : nullptr;
}

/// What a value was before constants set and cleared bits of it; null: it was not one value before.
const Value *withoutBits(const Value *value, SmallPtrSetImpl<const Value *> &seen) {
  while (true) {
    const auto *operation = dyn_cast<BinaryOperator>(value);
    if (operation && (operation->getOpcode() == Instruction::Or || operation->getOpcode() == Instruction::And) &&
        isa<ConstantInt>(operation->getOperand(1)))
      value = operation->getOperand(0);
    else if (isa<ZExtInst>(value) || isa<SExtInst>(value) || isa<TruncInst>(value))
      value = cast<CastInst>(value)->getOperand(0);
    else if (const Value *read = unmarked(value))
      value = read;
    else
      break;
  }
  const auto *phi = dyn_cast<PHINode>(value);
  if (!phi)
    return value;
  if (seen.size() > 32 || !seen.insert(phi).second)
    return nullptr;
  const Value *before = nullptr;
  for (const Value *incoming : phi->incoming_values()) {
    const Value *other = withoutBits(incoming, seen);
    if (other && before && other != before)
      return phi;
    if (other)
      before = other;
  }
  return before;
}

const Value *withoutBits(const Value *value) {
  SmallPtrSet<const Value *, 8> seen;
  return withoutBits(value, seen);
}

/// A value on the way back, and the bits that constants set or clear behind it.
struct Before {
  const Value *value;
  uint64_t bits;
};

using History = SmallVector<Before, 8>;

std::optional<Before> beforeAll(const PHINode &phi, unsigned depth);

/// A value, what it was before its last bits were set or cleared, and so on.
History history(const Value *value, unsigned depth) {
  History result{{value, 0}};
  while (true) {
    uint64_t bits = result.back().bits;
    if (const auto *operation = dyn_cast<BinaryOperator>(value)) {
      const auto *constant = dyn_cast<ConstantInt>(operation->getOperand(1));
      const bool sets = operation->getOpcode() == Instruction::Or;
      if (!constant || constant->getBitWidth() > 64 || (!sets && operation->getOpcode() != Instruction::And))
        return result;
      const uint64_t word = constant->getZExtValue();
      bits |= sets ? word : ~word & cast<IntegerType>(constant->getType())->getBitMask();
      value = operation->getOperand(0);
    } else if (isa<ZExtInst>(value) || isa<SExtInst>(value) || isa<TruncInst>(value)) {
      value = cast<CastInst>(value)->getOperand(0);
    } else if (const Value *read = unmarked(value)) {
      value = read;
    } else if (const auto *phi = dyn_cast<PHINode>(value)) {
      const std::optional<Before> before = beforeAll(*phi, depth + 1);
      if (!before)
        return result;
      value = before->value;
      bits |= before->bits;
    } else {
      return result;
    }
    result.push_back({value, bits});
  }
}

/// What the values of all ways were before, where they first were the same one.
std::optional<Before> beforeAll(const PHINode &phi, unsigned depth) {
  constexpr unsigned kDeepest = 4, kMostWays = 8;
  if (depth > kDeepest || phi.getNumIncomingValues() > kMostWays)
    return std::nullopt;
  SmallVector<History, 4> ways;
  for (const Value *incoming : phi.incoming_values())
    ways.push_back(history(incoming, depth));
  for (const Before &common : ways.front()) {
    uint64_t bits = 0;
    const bool isOfAll = common.value != &phi && all_of(ways, [&](const History &way) {
      const auto *place = find_if(way, [&](const Before &before) { return before.value == common.value; });
      if (place == way.end())
        return false;
      bits |= place->bits;
      return true;
    });
    if (isOfAll)
      return Before{common.value, bits};
  }
  return std::nullopt;
}

}  // namespace

/// `flags |= 4`, `bits->verify = 1`: constants become part of what is there.
bool transect::setsBits(const StoreInst &store) {
  const Value *value = store.getValueOperand();
  const auto *before = dyn_cast_or_null<LoadInst>(withoutBits(value));
  return before && before != value && isSameAddress(before->getPointerOperand(), store.getPointerOperand());
}

/// The same of a variable that is a value: what comes from one way is what comes from another one but for bits.
bool transect::setsBits(const PHINode &phi, unsigned way) {
  const Value *value = phi.getIncomingValue(way);
  if (!isa<BinaryOperator>(value) && !isa<TruncInst>(value))
    return false;
  const Value *before = withoutBits(value);
  // Characters are cut to seven bits and made small, but are no flags.
  const auto *cut = dyn_cast<BinaryOperator>(value);
  const auto *mask = cut && cut->getOpcode() == Instruction::And ? dyn_cast<ConstantInt>(cut->getOperand(1)) : nullptr;
  if ((mask && mask->getValue().isMask()) || (before && (before->getType()->isIntegerTy(8) || isa<CallBase>(before))))
    return false;
  return before && before != value && any_of(phi.incoming_values(), [&](const Value *other) {
           return other != value && withoutBits(other) == before;
         });
}

bool transect::setsBits(const PHINode &phi) {
  for (unsigned way = 0; way < phi.getNumIncomingValues(); ++way)
    if (setsBits(phi, way))
      return true;
  return false;
}

uint64_t transect::bitsSet(const StoreInst &store) {
  const Before first = history(store.getValueOperand(), 0).back();
  return setsBits(store) && isa<LoadInst>(first.value) ? first.bits : 0;
}

uint64_t transect::bitsSet(const PHINode &phi) {
  const std::optional<Before> before = beforeAll(phi, 0);
  return before ? before->bits : 0;
}

uint64_t transect::bitsChosen(ArrayRef<const Value *> constants) {
  constexpr uint64_t kSmallest = 256;
  uint64_t bits = 0;
  for (const Value *value : constants) {
    const auto *constant = dyn_cast<ConstantInt>(value);
    if (!constant || constant->getBitWidth() > 64)
      return 0;
    bits |= constant->getZExtValue() ^ cast<ConstantInt>(constants.front())->getZExtValue();
  }
  return bits >= kSmallest ? bits : 0;
}

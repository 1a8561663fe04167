#include "bit_fields.h"

#include "field_path.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Operator.h"

using namespace llvm;
using namespace transect;

namespace {

bool isShift(const Value *value, unsigned opcode, uint64_t by) {
  const auto *operation = dyn_cast<BinaryOperator>(value);
  const auto *amount = operation ? dyn_cast<ConstantInt>(operation->getOperand(1)) : nullptr;
  return amount && operation->getOpcode() == opcode && amount->getValue() == by;
}

/// The array of pointers of which an address is that of an element.
const Value *withoutIndex(const Value *pointer) {
  while (const auto *address = dyn_cast<GEPOperator>(pointer)) {
    const Type *type = address->getSourceElementType();
    if (!type->isPointerTy() && !type->isArrayTy())
      break;
    pointer = address->getPointerOperand();
  }
  return pointer;
}

/// What is left of the bytes when another field in them is given a value.
bool isRestOfStore(const Instruction &mask, const LoadInst &load) {
  auto isStoredBack = [&](const User *user) {
    const auto *store = dyn_cast<StoreInst>(user);
    return store && store->getPointerOperand() == load.getPointerOperand();
  };
  return !mask.use_empty() && all_of(mask.users(), [&](const User *user) {
    const auto *both = dyn_cast<BinaryOperator>(user);
    const bool isOr = both && both->getOpcode() == Instruction::Or && !both->use_empty();
    return isStoredBack(user) || (isOr && all_of(both->users(), isStoredBack));
  });
}

/// Bit fields are cut out of the bytes that hold them by `lshr` and `and`, or by `shl` and `ashr`; one that fills them
/// is loaded as it is. `offset`: of the loaded bytes in the structure.
void findCuts(LoadInst &load, const MemberSeed &seed, uint64_t offset, SmallVectorImpl<Instruction *> &cuts) {
  const uint64_t first = seed.byteOffset * 8 + seed.bitOffset;
  const unsigned width = load.getType()->getIntegerBitWidth();
  if (first < offset * 8 || first + seed.bits > offset * 8 + width)
    return;
  const unsigned shift = first - offset * 8;
  auto addMasks = [&](Value *value) {
    for (User *user : value->users())
      if (auto *mask = dyn_cast<BinaryOperator>(user); mask && mask->getOpcode() == Instruction::And)
        if (auto *bits = dyn_cast<ConstantInt>(mask->getOperand(1)))
          if (bits->getValue().isMask(seed.bits) && !isRestOfStore(*mask, load))
            cuts.push_back(mask);
  };
  if (shift == 0 && seed.bits == width)
    cuts.push_back(&load);
  else if (shift == 0)
    addMasks(&load);
  for (User *user : load.users()) {
    if (shift != 0 && isShift(user, Instruction::LShr, shift)) {
      if (shift + seed.bits == width)
        cuts.push_back(cast<Instruction>(user));
      else
        addMasks(user);
    } else if (shift + seed.bits == width && isShift(user, Instruction::AShr, shift)) {
      cuts.push_back(cast<Instruction>(user));
    } else if (isShift(user, Instruction::Shl, width - shift - seed.bits)) {
      for (User *inner : user->users())
        if (isShift(inner, Instruction::AShr, width - seed.bits))
          cuts.push_back(cast<Instruction>(inner));
    }
  }
}

}  // namespace

BitFields::BitFields(const std::vector<MemberSeed> &members, const std::vector<BitFieldHolder> &holders,
                     ValueToValueMapTy &map, const DataLayout &layout)
    : members(members), holders(holders), layout(layout) {
  for (const BitFieldHolder &holder : holders)
    if (const Value *variable = holder.variable ? map.lookup(holder.variable) : nullptr)
      variables[variable] = holder.described;
}

/// The structure to which a pointer points that is loaded from a variable or field, or from where that points.
const DICompositeType *BitFields::pointeeOf(const Value *pointer) const {
  while (const auto *load = dyn_cast<LoadInst>(pointer)) {
    pointer = withoutIndex(load->getPointerOperand());
    if (const DICompositeType *type = variables.lookup(pointer))
      return type;
    for (const FieldPlace &place : fieldsAt(pointer, layout))
      for (const BitFieldHolder &holder : holders)
        if (holder.type == place.type && holder.byteOffset == place.offset)
          return holder.described;
  }
  return nullptr;
}

void BitFields::findReads(LoadInst &load, std::vector<std::pair<Instruction *, unsigned>> &reads) const {
  if (!load.getType()->isIntegerTy())
    return;
  const Value *pointer = load.getPointerOperand();
  SmallVector<FieldPlace, 4> places = fieldsAt(pointer, layout);
  // The first bit fields of a structure are read at its own address.
  if (const auto *address = dyn_cast<GEPOperator>(pointer))
    fieldsIn(address->getResultElementType(), 0, layout, places);
  const DICompositeType *pointee = pointeeOf(pointer);
  for (const MemberSeed &seed : members) {
    if (seed.bits == 0)
      continue;
    SmallVector<Instruction *, 4> cuts;
    const auto *place = find_if(places, [&](const FieldPlace &other) { return other.type == seed.type; });
    if (place != places.end())
      findCuts(load, seed, place->offset, cuts);
    else if (pointee && pointee == seed.described)
      findCuts(load, seed, 0, cuts);
    for (Instruction *value : cuts)
      if (!is_contained(reads, std::make_pair(value, seed.feature)))
        reads.push_back({value, seed.feature});
  }
}
